//! Events of `tracing`: what becomes of targets and of the wait. Reasons, not messages: those may quote the object.

use tracing::field;

use super::Tracker;
use crate::ids::TargetId;
use crate::report::{Counts, Outcome, State};

impl Tracker {
    /// A target is in another state than before.
    pub(super) fn log_state(&self, id: TargetId, before: Option<State>) {
        let (Some(target), Some(state)) = (self.targets.get(id), self.policy.state(id)) else { return };
        let verdict = self.graph.get(&target.id).map(|record| &record.verdict);
        tracing::info!(
            object = target.id.to_string(),
            namespace = Some(&*target.id.namespace).filter(|namespace| !namespace.is_empty()),
            before = before.map(field::debug),
            state = ?state,
            status = verdict.map(|verdict| verdict.status.as_str()),
            reason = verdict.map(|verdict| &*verdict.reason),
            "state changed"
        );
    }

    /// All targets were read once.
    pub(super) fn log_synced(&self) {
        let Counts { total, done, waiting, failed, .. } = self.policy.counts();
        tracing::info!(total, done, waiting, failed, "all targets read");
    }

    pub(super) fn log_end(&self, outcome: Outcome) {
        let Counts { total, done, waiting, failed, .. } = self.policy.counts();
        let elapsed_ms = self.started.elapsed().as_millis();
        tracing::info!(outcome = ?outcome, total, done, waiting, failed, elapsed_ms, "wait ended");
    }
}
