//! Remarks on targets that are done, or that will not change by themselves.

use kstatus::{Status, reason};

use super::pvc::{consumers, waits_for_consumer};
use super::related::references;
use super::reported::may_be_reported;
use crate::graph::Graph;
use crate::link::Link;
use crate::record::Record;

/// Why nothing more will happen to a target by itself, although it is not Current.
#[must_use]
pub fn excuse(graph: &Graph, target: &Record) -> Option<&'static str> {
    let waits = waits_for_consumer(graph, target) && consumers(graph, target).next().is_none();
    waits.then_some("it binds when a Pod uses it (WaitForFirstConsumer), and none does yet")
}

/// What a reader should know of a target that is done all the same: that its last run has failed, that it routes to nothing.
#[must_use]
pub fn advisory(graph: &Graph, target: &Record) -> Option<String> {
    if target.verdict.status != Status::Current {
        return None;
    }
    if target.verdict.reason == reason::SUSPENDED {
        return Some("suspended".to_owned());
    }
    if target.id.is("batch", "CronJob") {
        let runs = graph.owned(&target.uid).filter(|child| child.id.is("batch", "Job"));
        let last = runs.max_by_key(|job| job.created)?;
        let failed = last.verdict.status == Status::Failed;
        return failed.then(|| format!("last run failed: {} {}", last.id, last.verdict.reason));
    }
    if target.id.is("", "Service") {
        return without_endpoints(graph, target);
    }
    let missing = references(graph, target)
        .find(|(link, other)| *link == Link::RoutesTo && other.verdict.status == Status::NotFound);
    missing.map(|(_, other)| other.verdict.message.to_string())
}

/// Whether a Service has nothing to send traffic to, as far as its EndpointSlices say.
fn without_endpoints(graph: &Graph, service: &Record) -> Option<String> {
    let selector = service.facts.as_ref()?.selector();
    let mut slices =
        graph.owned(&service.uid).filter(|c| c.id.is("discovery.k8s.io", "EndpointSlice")).peekable();
    let selector = selector.filter(|_| slices.peek().is_some())?;
    let (mut ready, mut unready) = (0, None);
    for slice in slices {
        ready += slice.facts.as_ref().and_then(|facts| facts.ready_endpoints()).unwrap_or(0);
        if slice.verdict.status != Status::Current {
            unready = Some(&slice.verdict.message);
        }
    }
    match unready {
        _ if ready > 0 => None,
        Some(message) => Some(format!("no ready endpoints ({message})")),
        None => {
            let labels: Vec<String> = selector.iter().map(|(key, value)| format!("{key}={value}")).collect();
            Some(format!("no endpoints: no Pod matches its selector {}", labels.join(",")))
        }
    }
}

/// Whether [`advisory`] may have something to say of a target once its dependents are known.
pub(crate) fn may_advise(target: &Record) -> bool {
    let kind = target.id.is("batch", "CronJob")
        || may_be_reported(target)
        || target.id.is("networking.k8s.io", "Ingress")
        || target.id.is("gateway.networking.k8s.io", "HTTPRoute")
        || target.id.is("", "Service")
            && target.facts.as_ref().is_some_and(|facts| facts.selector().is_some());
    kind && target.verdict.status == Status::Current
}
