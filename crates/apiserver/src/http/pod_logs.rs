//! `pods/log`: logs of containers that something beside the server plays.

use crate::error::ApiError;
use crate::http::answer::{Answer, text_answer};
use crate::request::{Query, RequestInfo};
use crate::state::State;
use crate::state::pod_logs::PodLogRequest;

/// Answers a request for a log, if there are any.
pub(crate) fn answer(state: &State, info: &RequestInfo, query: &Query) -> Option<Result<Answer, ApiError>> {
    let is_log = info.group.is_empty() && info.resource == "pods" && info.subresource == "log";
    let logs = state.pod_logs.get().filter(|_| is_log && info.named && info.verb == "get")?;
    let wanted = PodLogRequest {
        namespace: &info.namespace,
        pod: &info.name,
        container: query.get("container"),
        previous: query.truthy("previous") == Some(true),
    };
    Some(logs(&wanted).map(|log| {
        let tail = query.get("tailLines").parse().ok();
        let limit = query.get("limitBytes").parse().ok();
        text_answer(200, cut(&log, tail, limit))
    }))
}

/// The last lines, and of those the first bytes.
fn cut(log: &str, lines: Option<usize>, bytes: Option<usize>) -> &str {
    let all = log.lines().count();
    let skipped = lines.map_or(0, |lines| all.saturating_sub(lines));
    let start: usize = log.split_inclusive('\n').take(skipped).map(str::len).sum();
    let log = log.get(start..).unwrap_or_default();
    let end = bytes.map_or(log.len(), |bytes| bytes.min(log.len()));
    let end = (0..=end).rev().find(|end| log.is_char_boundary(*end)).unwrap_or(0);
    log.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::cut;

    #[test]
    fn logs_are_cut_as_asked() {
        let log = "one\ntwo\nthrée\n";
        assert_eq!(cut(log, None, None), log);
        assert_eq!(cut(log, Some(2), None), "two\nthrée\n");
        assert_eq!(cut(log, Some(9), None), log);
        assert_eq!(cut(log, Some(1), Some(4)), "thr");
        assert_eq!(cut(log, Some(0), None), "");
        assert_eq!(cut("", Some(3), Some(3)), "");
    }
}
