//! Clusters that do not answer: a Node that is not known is neither gone nor drained.

use std::time::Duration;

use super::draft::{Action, Decision, Draft, POLL, drain_timeout, rest};

/// Reason of conditions.
pub(super) const REASON: &str = "ClusterUnreachable";

/// Nothing is done until the cluster answers, which wakes the controller.
pub(super) fn wait(mut draft: Draft<'_>, message: &str) -> Decision {
    draft.reconciling(REASON, message);
    draft.done(Action::None, POLL)
}

/// Why a Node that is to be drained cannot be. With its API server, the control plane has lost its Pods, too.
pub(super) fn forbids_drain<'a>(draft: &Draft<'a>) -> Option<&'a str> {
    let drains = draft.status.node_ref.is_some()
        && !draft.facts.machine.is_control_plane()
        && draft.status.drain.as_ref().is_none_or(|drain| !drain.completed);
    draft.facts.unreachable.filter(|_| drains)
}

/// Whether a Machine that is being deleted has waited for as long as its drain may take.
pub(super) fn is_over(draft: &Draft<'_>) -> bool {
    let timeout = drain_timeout(draft.facts.machine);
    let since = draft.facts.machine.metadata.deletion_timestamp.as_ref();
    let left = since.and_then(|since| rest(since.0, timeout, draft.facts.now));
    timeout > Duration::ZERO && left.is_none()
}
