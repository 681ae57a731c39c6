//! Verdict on a target by the status of another object: that of a NetworkPolicy without conditions is in its NetworkPolicyReport.

use kstatus::{Basis, Status, Verdict};

use crate::facts::KindFacts;
use crate::graph::Graph;
use crate::id::{POLICY_REPORT_GROUP, POLICY_REPORT_KIND};
use crate::record::Record;

/// Whether the status of a target may be that of another object, so that it counts only once these were read.
#[must_use]
pub(crate) fn may_be_reported(target: &Record) -> bool {
    target.id.is("networking.k8s.io", "NetworkPolicy")
        && target.verdict.basis == Basis::NoStatusKind
        && target.deleted.is_none()
}

/// The verdict on a target by the object that has its status; None if there is no such object.
#[must_use]
pub(crate) fn reported(graph: &Graph, target: &Record) -> Option<Verdict> {
    if !may_be_reported(target) {
        return None;
    }
    let report =
        graph.owned(&target.uid).find(|child| is_report(child) && child.id.name == target.id.name)?;
    let observed = observed(report);
    let (name, generation) = (&report.id, target.generation.unwrap_or_default());
    let mut verdict = if is_outdated(target, report) {
        let message =
            format!("{name} is of generation {}, the spec is at {generation}", observed.unwrap_or(0));
        Verdict::new(Status::InProgress, Basis::Generation, "LatestGenerationNotObserved", message)
    } else {
        let own = &report.verdict;
        let mut verdict =
            Verdict::new(own.status, own.basis, own.reason.clone(), format!("{name}: {}", own.message));
        verdict.failure = own.failure;
        verdict
    };
    verdict.generation = target.generation;
    verdict.observed_generation = observed;
    verdict.blocking = target.verdict.blocking;
    verdict.problems.clone_from(&target.verdict.problems);
    Some(verdict)
}

/// Whether an object is a report on another.
pub(super) fn is_report(record: &Record) -> bool {
    record.id.is(POLICY_REPORT_GROUP, POLICY_REPORT_KIND) && record.deleted.is_none()
}

/// Whether a report is not of the present generation of its policy.
pub(super) fn is_outdated(target: &Record, report: &Record) -> bool {
    let has_conditions = report.verdict.status != Status::InProgress || observed(report).is_some();
    has_conditions && observed(report) != target.generation
}

fn observed(report: &Record) -> Option<i64> {
    match report.facts.as_ref()?.of_kind {
        KindFacts::PolicyReport { generation } => generation,
        _ => None,
    }
}
