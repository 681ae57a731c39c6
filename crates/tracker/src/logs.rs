//! Live logs: the lines of containers that crash, followed while a wait lasts. Bounded in streams, lines and rate.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use http_body_util::BodyExt as _;
use settled_watch::{Cluster, RequestError, Verb, encode};
use tokio::sync::mpsc::Sender;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::events::LogSource;
use crate::id::{ObjectId, Uid};
use crate::report::LogLines;

/// So many logs are followed at once.
const STREAMS_MAX: usize = 8;
/// So many lines of a run of a container are read from before it was followed.
const TAIL_LINES: u32 = 10;
/// So many lines of a run of a container are reported, and so many in a second.
const LINES_MAX: usize = 500;
const LINES_PER_SECOND: usize = 50;
/// A longer line is cut.
const LINE_BYTES_MAX: usize = 2 << 10;
/// Lines that arrive together are one event, up to so many.
const BATCH_MAX: usize = 50;

/// What a followed log comes to.
#[derive(Debug)]
pub(crate) enum LogMessage {
    /// Lines were written.
    Lines(LogLines),
    /// The user may not read logs there.
    Forbidden(ObjectId, RequestError),
    /// The log has ended: with the container, or because it cannot be read.
    Ended(usize),
}

/// Which run of which container.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Run {
    uid: Uid,
    container: Box<str>,
    restarts: u32,
}

/// The logs that are followed.
#[derive(Debug)]
pub(crate) struct LogFollower {
    cluster: Cluster,
    to: Sender<LogMessage>,
    /// Runs whose log is followed, or was.
    known: HashSet<Run>,
    streams: Vec<Option<AbortHandle>>,
    /// Namespaces whose logs may not be read.
    forbidden: HashSet<Arc<str>>,
}

impl Drop for LogFollower {
    fn drop(&mut self) {
        self.streams.iter().flatten().for_each(AbortHandle::abort);
    }
}

impl LogFollower {
    pub(crate) fn new(cluster: Cluster, to: Sender<LogMessage>) -> Self {
        Self { cluster, to, known: HashSet::new(), streams: Vec::new(), forbidden: HashSet::new() }
    }

    /// Follows the log of a container that has crashed, once for each of its runs.
    pub(crate) fn follow(&mut self, log_source: &LogSource, uid: &Uid, restarts: u32) {
        let open = self.streams.iter().flatten().count();
        if open >= STREAMS_MAX || self.forbidden.contains(&log_source.pod.namespace) {
            return;
        }
        let run = Run { uid: uid.clone(), container: log_source.container.clone(), restarts };
        if !self.known.insert(run) {
            return;
        }
        let number = self.streams.len();
        let (cluster, to) = (self.cluster.clone(), self.to.clone());
        let (pod, container) = (log_source.pod.clone(), log_source.container.clone());
        let task = tokio::spawn(async move {
            let followed = follow(&cluster, &pod, &container, &to).await;
            if let Err(error) = followed
                && error.is_forbidden()
            {
                to.send(LogMessage::Forbidden(pod, error)).await.ok();
            }
            to.send(LogMessage::Ended(number)).await.ok();
        });
        self.streams.push(Some(task.abort_handle()));
    }

    /// A log has ended: there is room for another one.
    pub(crate) fn ended(&mut self, number: usize) {
        if let Some(stream) = self.streams.get_mut(number) {
            *stream = None;
        }
    }

    /// Logs of this namespace may not be read. Says whether that is new.
    pub(crate) fn forbid(&mut self, namespace: &Arc<str>) -> bool {
        self.forbidden.insert(namespace.clone())
    }
}

/// Reads a log to its end: the container's, as long as it runs.
async fn follow(
    cluster: &Cluster,
    pod: &ObjectId,
    container: &str,
    to: &Sender<LogMessage>,
) -> Result<(), RequestError> {
    let path = format!(
        "/api/v1/namespaces/{}/pods/{}/log?container={}&follow=true&tailLines={TAIL_LINES}",
        pod.namespace,
        pod.name,
        encode(container)
    );
    let answer = cluster.send(Verb::Get, Method::GET, &path, "*/*", None).await?;
    let mut body = answer.into_body();
    let mut lines = Lines::default();
    let mut budget = Budget::default();
    loop {
        let frame = body.frame().await;
        let mut batch = Vec::new();
        let over = match frame {
            Some(Ok(frame)) => {
                if let Some(bytes) = frame.data_ref() {
                    cluster.count_bytes(bytes.len());
                    lines.push(bytes, |line| batch.push(line));
                }
                false
            }
            // Broken off, or ended: what is there is there.
            Some(Err(_)) | None => {
                batch.extend(lines.rest());
                true
            }
        };
        for part in batch.chunks(BATCH_MAX) {
            let mut lines = part.to_vec();
            let left_out = budget.spend(&mut lines, Instant::now());
            if lines.is_empty() && left_out == 0 {
                continue;
            }
            let lines = LogLines { pod: pod.clone(), container: container.to_owned(), lines, left_out };
            if to.send(LogMessage::Lines(lines)).await.is_err() {
                return Ok(());
            }
        }
        if over || budget.is_spent() {
            return Ok(());
        }
    }
}

/// Bytes in pieces, cut into lines.
#[derive(Debug, Default)]
struct Lines {
    begun: Vec<u8>,
}

impl Lines {
    fn push(&mut self, mut bytes: &[u8], mut each: impl FnMut(String)) {
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            self.add(&bytes[..end]);
            each(self.take());
            bytes = &bytes[end + 1..];
        }
        self.add(bytes);
    }

    /// What is there of a line, as far as lines go.
    fn add(&mut self, bytes: &[u8]) {
        let room = LINE_BYTES_MAX.saturating_sub(self.begun.len());
        self.begun.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn take(&mut self) -> String {
        let line = String::from_utf8_lossy(&self.begun).trim_end_matches('\r').to_owned();
        self.begun.clear();
        line
    }

    fn rest(&mut self) -> Option<String> {
        (!self.begun.is_empty()).then(|| self.take())
    }
}

/// How many lines may still be reported.
#[derive(Debug, Default)]
struct Budget {
    second: Option<Instant>,
    in_second: usize,
    all: usize,
}

impl Budget {
    /// Keeps as many of the lines as may be reported now; says how many were left out.
    fn spend(&mut self, lines: &mut Vec<String>, now: Instant) -> u64 {
        if self.second.is_none_or(|second| now.duration_since(second) >= Duration::from_secs(1)) {
            self.second = Some(now);
            self.in_second = 0;
        }
        let room = (LINES_PER_SECOND - self.in_second).min(LINES_MAX - self.all);
        let left_out = lines.len().saturating_sub(room);
        lines.truncate(room);
        self.in_second += lines.len();
        self.all += lines.len();
        left_out as u64
    }

    fn is_spent(&self) -> bool {
        self.all >= LINES_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_become_lines() {
        let mut lines = Lines::default();
        let mut seen = Vec::new();
        for piece in ["one\ntw", "o\r\n\nthr", "ee"] {
            lines.push(piece.as_bytes(), |line| seen.push(line));
        }
        seen.extend(lines.rest());
        assert_eq!(seen, ["one", "two", "", "three"]);
        assert_eq!(lines.rest(), None);
        // A line without an end takes no memory without an end.
        lines.push(&vec![b'x'; 1 << 20], |_| panic!("no line has ended"));
        lines.push(b"\nnext", |line| assert_eq!(line.len(), LINE_BYTES_MAX));
        assert_eq!(lines.rest().as_deref(), Some("next"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_is_cut_by_the_second_and_in_all() {
        let mut budget = Budget::default();
        let mut reported = 0;
        for second in 0..20_usize {
            let mut lines = vec!["x".to_owned(); 40];
            assert_eq!(budget.spend(&mut lines, Instant::now()) as usize, 40 - lines.len());
            reported += lines.len();
            let mut more = vec!["x".to_owned(); 40];
            let left_out = budget.spend(&mut more, Instant::now());
            reported += more.len();
            if second < LINES_MAX / LINES_PER_SECOND {
                assert_eq!((lines.len(), more.len(), left_out), (40, 10, 30));
            }
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert!(budget.is_spent());
        assert_eq!(reported, LINES_MAX);
    }
}
