//! Failures of a target and of its dependents, from which the policy decides whether to go on waiting.

use std::collections::BTreeSet;

use kstatus::{Basis, FailureClass, Status, reason};

use super::pvc::{may_wait_for_consumer, missing_storage_class};
use super::related::{MAX_DEPTH, is_current_child, references};
use crate::facts::Completion;
use crate::graph::Graph;
use crate::link::Link;
use crate::observation::ObservedFailure;
use crate::record::Record;

/// The failures of a target and of its dependents, one of each class: from these the policy decides whether to go on waiting.
#[must_use]
pub fn failures(graph: &Graph, target: &Record) -> Vec<ObservedFailure> {
    let mut found: Vec<ObservedFailure> = Vec::new();
    if target.verdict.basis == Basis::Generation || target.deleted.is_some() {
        // What belongs to it now belongs to its last generation, or is on its way out.
        return found;
    }
    let mut note = |failure: ObservedFailure| match found.iter_mut().find(|f| f.class == failure.class) {
        Some(other) => {
            other.since = other.since.into_iter().chain(failure.since).min();
            other.terminal |= failure.terminal;
        }
        None => found.push(failure),
    };
    // A PVC without a consumer has not failed; its consumer may have.
    if let Some(own) = own_failure(target).filter(|_| !may_wait_for_consumer(graph, target)) {
        let reason = missing_storage_class(graph, target).map(|class| class.verdict.reason.clone());
        note(ObservedFailure { reason: reason.unwrap_or(own.reason), ..own });
    }
    missing_storage_classes(graph, target).for_each(&mut note);
    if graph.owned(&target.uid).next().is_none() {
        return found;
    }
    let mut todo = vec![(target, 0)];
    let mut seen = BTreeSet::from([&target.uid]);
    while let Some((record, depth)) = todo.pop() {
        for child in graph.owned(&record.uid) {
            if !seen.insert(&child.uid) || depth >= MAX_DEPTH || !is_current_child(graph, record, child) {
                continue;
            }
            let failure = own_failure(child)
                .filter(|_| !will_be_replaced(child) && !may_wait_for_consumer(graph, child));
            if let Some(failure) = failure {
                // What made it may make it again, so nothing is terminal but on the target itself.
                note(ObservedFailure { terminal: false, ..failure });
            }
            missing_storage_classes(graph, child).for_each(&mut note);
            todo.push((child, depth + 1));
        }
    }
    found.sort_by_key(|failure| std::cmp::Reverse(rank(failure.class)));
    found
}

/// The failure of an object itself: it has failed, or something stands in its way.
#[must_use]
pub fn own_failure(record: &Record) -> Option<ObservedFailure> {
    let verdict = &record.verdict;
    let class = match (verdict.status, verdict.failure) {
        (Status::Failed, failure) => failure.map_or(FailureClass::Other, |failure| failure.class),
        // The controller of the gate knows why.
        (Status::InProgress, Some(failure)) if verdict.reason != reason::SCHEDULING_GATED => failure.class,
        _ => return None,
    };
    let terminal = verdict.failure.is_some_and(|failure| failure.terminal);
    Some(ObservedFailure { class, reason: verdict.reason.clone(), terminal, since: record.since() })
}

/// The failures of the PVCs of a Pod that cannot be bound because their StorageClass does not exist.
fn missing_storage_classes<'g>(
    graph: &'g Graph,
    pod: &'g Record,
) -> impl Iterator<Item = ObservedFailure> + 'g {
    let pod = Some(pod).filter(|pod| pod.id.is("", "Pod") && pod.verdict.status == Status::InProgress);
    pod.into_iter().flat_map(|pod| references(graph, pod)).filter_map(|(link, claim)| {
        let class = missing_storage_class(graph, claim).filter(|_| link == Link::Claims)?;
        Some(ObservedFailure { reason: class.verdict.reason.clone(), ..own_failure(claim)? })
    })
}

/// How sure it is that a failure of this class does not pass.
fn rank(class: FailureClass) -> usize {
    const ORDER: [FailureClass; 12] = [
        FailureClass::Deletion,
        FailureClass::Network,
        FailureClass::Probe,
        FailureClass::Scheduling,
        FailureClass::Storage,
        FailureClass::Other,
        FailureClass::Crash,
        FailureClass::Image,
        FailureClass::Quota,
        FailureClass::Configuration,
        FailureClass::Job,
        FailureClass::Deadline,
    ];
    ORDER.iter().position(|other| *other == class).unwrap_or(0)
}

/// A Pod that has ended is made anew by whatever generated it, which counts how often.
fn will_be_replaced(child: &Record) -> bool {
    child.id.is("", "Pod")
        && child.facts.as_ref().is_some_and(|facts| facts.completion() == Some(Completion::Failed))
}
