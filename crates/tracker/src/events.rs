//! Evidence: Events about objects and the logs of containers, fetched when something is explained.

use std::collections::BTreeSet;
use std::time::Duration;

use http::Method;
use http_body_util::BodyExt as _;
use kstatus::{Object, format_duration};
use settled_manifest::ListItems;
use settled_watch::{Cluster, RequestError, Verb, encode};

use crate::event_note::{self, EventNote};
use crate::id::ObjectId;
use crate::report::{Explanation, LogTail, Step};

/// How long all of it may take: the end of a failed wait should come soon.
const PATIENCE: Duration = Duration::from_secs(3);
/// Of how many objects at most events are asked for, and of how many containers logs.
const MAX_OBJECTS: usize = 12;
const MAX_LOGS: usize = 4;
/// How many Events of a cause are reported.
const MAX_EVENTS: usize = 6;
/// How much of a log is read at most, and for how long.
const LOG_BYTES: usize = 16 << 10;
const LOG_READ: Duration = Duration::from_secs(2);

/// How much evidence is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvidenceOptions {
    /// Whether events are.
    pub events: bool,
    /// How many lines of logs; 0 for none.
    pub log_lines: u32,
}

impl Default for EvidenceOptions {
    fn default() -> Self {
        Self { events: true, log_lines: 10 }
    }
}

/// The events about an object, the oldest first.
///
/// # Errors
/// As the server says: often, events may not be listed.
pub async fn events_of(
    cluster: &Cluster,
    id: &ObjectId,
    uid: Option<&str>,
) -> Result<Vec<EventNote>, RequestError> {
    let mut selector = format!("involvedObject.kind={},involvedObject.name={}", id.kind, id.name);
    if let Some(uid) = uid {
        selector.push_str(",involvedObject.uid=");
        selector.push_str(uid);
    }
    // Events about objects of the cluster are in the namespace default.
    let namespace = if id.namespace.is_empty() { "default" } else { &id.namespace };
    let path = format!("/api/v1/namespaces/{namespace}/events?limit=500&fieldSelector={}", encode(&selector));
    let bytes = cluster.get(Verb::List, &path).await?;
    let (mut items, mut found) = (ListItems::default(), Vec::new());
    let each =
        |item: &[u8]| found.extend(Object::parse(item).ok().and_then(|event| event_note::read(event.root())));
    items.push(&bytes, each).map_err(RequestError::answer)?;
    found.sort_by_key(|event: &EventNote| (event.last, event.first));
    Ok(found)
}

/// The last lines of a container.
///
/// # Errors
/// As the server says.
pub async fn log_tail(
    cluster: &Cluster,
    pod: &ObjectId,
    container: &str,
    previous: bool,
    lines: u32,
) -> Result<LogTail, RequestError> {
    let path = format!(
        "/api/v1/namespaces/{}/pods/{}/log?container={}&previous={previous}&tailLines={lines}&limitBytes={LOG_BYTES}",
        pod.namespace,
        pod.name,
        encode(container)
    );
    let answer = cluster.send(Verb::Get, Method::GET, &path, "*/*", None).await?;
    let mut bytes: Vec<u8> = Vec::new();
    let mut body = answer.into_body();
    // What a log has said before it breaks off, or goes on without an end, is worth showing.
    let read = async {
        while bytes.len() < LOG_BYTES
            && let Some(Ok(frame)) = body.frame().await
        {
            bytes.extend(frame.data_ref().into_iter().flatten());
        }
    };
    let _late = tokio::time::timeout(LOG_READ, read).await;
    cluster.count_bytes(bytes.len());
    bytes.truncate(LOG_BYTES);
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let all: Vec<&str> = text.lines().collect();
    let surplus = all.len().saturating_sub(lines as usize);
    Ok(LogTail {
        pod: pod.clone(),
        container: container.to_owned(),
        previous,
        lines: all.into_iter().skip(surplus).map(str::to_owned).collect(),
        error: None,
    })
}

/// A container whose log is evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogSource {
    pub(crate) pod: ObjectId,
    pub(crate) container: Box<str>,
    pub(crate) previous: bool,
}

/// Of which objects and containers evidence is fetched: a few, however many causes there are.
#[derive(Debug, Default)]
pub(crate) struct EvidencePlan {
    objects: BTreeSet<ObjectId>,
    log_sources: Vec<LogSource>,
}

impl EvidencePlan {
    /// Adds the objects and containers of a cause.
    pub(crate) fn add(&mut self, cause: &Explanation, log_sources: Vec<LogSource>) {
        for step in witnesses(cause).take(3) {
            // The first ones in their order, whichever came first.
            if self.objects.len() < MAX_OBJECTS || self.objects.last().is_some_and(|last| step.object < *last)
            {
                self.objects.insert(step.object.clone());
            }
            if self.objects.len() > MAX_OBJECTS {
                self.objects.pop_last();
            }
        }
        for log_source in log_sources {
            if self.log_sources.len() < MAX_LOGS && !self.log_sources.contains(&log_source) {
                self.log_sources.push(log_source);
            }
        }
    }

    /// Fetches it. Events that cannot be read in time, or at all, are left out; of logs that is said.
    pub(crate) async fn fetch(self, cluster: &Cluster, wanted: EvidenceOptions) -> FetchedEvidence {
        let objects = if wanted.events { self.objects } else { BTreeSet::new() };
        let log_sources = if wanted.log_lines > 0 { self.log_sources } else { Vec::new() };
        let about = objects.iter().map(|id| tokio::time::timeout(PATIENCE, events_of(cluster, id, None)));
        let logs = log_sources.iter().map(|log_source| readable_log(cluster, log_source, wanted.log_lines));
        let both = futures::future::join(futures::future::join_all(about), futures::future::join_all(logs));
        let (events, logs) = both.await;
        let events = events.into_iter().map(|e| e.ok().and_then(Result::ok).unwrap_or_default());
        FetchedEvidence { events: objects.into_iter().zip(events).collect(), logs }
    }
}

/// The objects whose Events are evidence: those of the chain, the root cause first.
fn witnesses(explanation: &Explanation) -> impl Iterator<Item = &Step> {
    explanation.chain.iter().rev().filter(|step| !step.object.is("", "Event"))
}

/// Events of objects, and logs of containers.
#[derive(Debug, Default)]
pub(crate) struct FetchedEvidence {
    events: Vec<(ObjectId, Vec<EventNote>)>,
    logs: Vec<LogTail>,
}

impl FetchedEvidence {
    /// Adds to a cause what there is about it.
    pub(crate) fn attach(&self, cause: &mut Explanation, log_sources: &[LogSource]) {
        for (id, events) in &self.events {
            if cause.chain.iter().any(|step| step.object == *id) {
                cause.events.extend(events.iter().cloned());
            }
        }
        // The last step may be one of them.
        if let Some(last) = cause.chain.last().filter(|step| step.object.is("", "Event")) {
            cause.events.retain(|event| event.message != last.message);
        }
        // Warnings say why; normal Events are reported only where nothing else is known.
        let known = cause.chain.last().is_some_and(|step| step.class.is_some());
        if known || cause.events.iter().any(|event| event.type_ == "Warning") {
            cause.events.retain(|event| event.type_ == "Warning");
        }
        cause.events.sort_by_key(|event| event.last);
        let surplus = cause.events.len().saturating_sub(MAX_EVENTS);
        cause.events.drain(..surplus);
        for log in &self.logs {
            let mine =
                |log_source: &LogSource| log_source.pod == log.pod && *log_source.container == *log.container;
            if log_sources.iter().any(mine) && (!log.lines.is_empty() || log.error.is_some()) {
                cause.logs.push(log.clone());
            }
        }
    }
}

/// The log of a container, or why it cannot be read.
async fn readable_log(cluster: &Cluster, log_source: &LogSource, lines: u32) -> LogTail {
    let LogSource { pod, container, previous } = log_source;
    let read = tokio::time::timeout(PATIENCE, log_tail(cluster, pod, container, *previous, lines)).await;
    let error = match read {
        Ok(Ok(log)) => return log,
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no answer within {}", format_duration(PATIENCE)),
    };
    LogTail {
        pod: pod.clone(),
        container: container.to_string(),
        previous: *previous,
        lines: Vec::new(),
        error: Some(error),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kstatus::{Basis, Status, Verdict};

    use super::*;
    use crate::explain;
    use crate::graph::Graph;
    use crate::record::missing;

    #[test]
    fn evidence_is_planned_for_a_few_objects_only() {
        let mut plan = EvidencePlan::default();
        let pod = |number: usize| ObjectId::new("", "Pod", "shop", format!("web-{number:03}"));
        // Not in their order.
        for number in (0..1000).map(|number| number * 7 % 1000) {
            let mut record = missing(pod(number));
            record.verdict = Arc::new(Verdict::new(Status::Failed, Basis::KindRule, "Crash", "it crashes"));
            for cause in explain::causes(&Graph::default(), &record, &[]) {
                let log_source = LogSource { pod: pod(number), container: "app".into(), previous: true };
                plan.add(&cause, vec![log_source.clone(), log_source]);
            }
        }
        let objects: Vec<ObjectId> = plan.objects.into_iter().collect();
        assert_eq!(objects, (0..MAX_OBJECTS).map(pod).collect::<Vec<_>>());
        let log_sources: Vec<ObjectId> =
            plan.log_sources.into_iter().map(|log_source| log_source.pod).collect();
        assert_eq!(log_sources, [0, 7, 14, 21].map(pod));
    }
}
