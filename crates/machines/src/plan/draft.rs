//! Draft of a decision about a Machine: what was observed, the status as it will be, and the findings so far.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::provider::{ConfigError, Observed, Plan, ProviderError, Step};
use crate::small::{Node, Pod};
use crate::types::{ErrorReason, Machine, MachineCondition, MachinePhase, MachineStatus};

/// How often a host is looked at that is on its way.
pub(super) const POLL: Duration = Duration::from_secs(5);
/// How long a drain may take.
const DRAIN_TIMEOUT: i64 = 600;

/// The Cluster of a Machine.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ClusterState {
    /// The Machine is of no Cluster.
    None,
    /// There is no such Cluster.
    Missing,
    /// It is paused.
    Paused,
    /// Its endpoint is not known.
    Starting,
    /// It serves.
    Serving,
    /// It is being deleted.
    Deleting,
}

/// What was observed of a Machine.
pub(crate) struct Facts<'a> {
    pub(crate) machine: &'a Machine,
    pub(crate) cluster: ClusterState,
    /// The provider, or why there is none for the configuration.
    pub(crate) provider: Result<String, ConfigError>,
    /// Whether the configuration is valid.
    pub(crate) config: Result<(), ConfigError>,
    /// What the provider has; `None` if it was not asked.
    pub(crate) observed: Option<Result<Observed, ProviderError>>,
    /// The plan for a running host.
    pub(crate) plan: Option<Plan>,
    pub(crate) node: Option<&'a Node>,
    /// Why the Nodes of its Cluster are not known: its API server does not answer.
    pub(crate) unreachable: Option<&'a str>,
    /// Whether the Nodes are on another API server than the Machine.
    pub(crate) is_remote: bool,
    pub(crate) pods: &'a [Arc<Pod>],
    pub(crate) now: Timestamp,
}

/// What is done next.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    None,
    AddFinalizer,
    RemoveFinalizer,
    Create,
    ApplyStep(Step),
    DeleteHost,
    PatchNode(Value),
    Evict(Vec<(String, String)>),
    DeleteNode,
}

/// Whether the Machine is on its way, or stuck.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Progress {
    Current,
    Reconciling(&'static str, String),
    Stalled(&'static str, String),
}

/// A finding about one condition.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Finding {
    pub(crate) condition: MachineCondition,
    pub(crate) status: Option<bool>,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

/// Status and next action.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Decision {
    /// The status without its conditions; `None` if nothing is written.
    pub(crate) status: Option<MachineStatus>,
    pub(crate) findings: Vec<Finding>,
    pub(crate) progress: Progress,
    pub(crate) action: Action,
    pub(crate) requeue: Option<Duration>,
}

pub(super) struct Draft<'a> {
    pub(super) facts: &'a Facts<'a>,
    pub(super) status: MachineStatus,
    pub(super) findings: Vec<Finding>,
    pub(super) progress: Progress,
}

impl Draft<'_> {
    pub(super) fn find(
        &mut self,
        condition: MachineCondition,
        status: impl Into<Option<bool>>,
        reason: &'static str,
        message: impl Into<String>,
    ) {
        let finding = Finding { condition, status: status.into(), reason, message: message.into() };
        self.findings.push(finding);
    }

    pub(super) fn reconciling(&mut self, reason: &'static str, message: impl Into<String>) {
        self.progress = Progress::Reconciling(reason, message.into());
    }

    pub(super) fn phase(&mut self, phase: MachinePhase) {
        self.status.phase = Some(phase);
    }

    /// Only a change of the spec helps.
    pub(super) fn fail(&mut self, reason: ErrorReason, message: impl Into<String>) {
        let message = message.into();
        self.status.error_reason = Some(reason);
        self.status.error_message = Some(message.clone());
        self.progress = Progress::Stalled(reason.as_str(), message);
    }

    pub(super) fn clear_error(&mut self) {
        self.status.error_reason = None;
        self.status.error_message = None;
    }

    pub(super) fn done(self, action: Action, requeue: impl Into<Option<Duration>>) -> Decision {
        Decision {
            status: Some(self.status),
            findings: self.findings,
            progress: self.progress,
            action,
            requeue: requeue.into(),
        }
    }
}

pub(super) fn silent(action: Action) -> Decision {
    Decision { status: None, findings: Vec::new(), progress: Progress::Current, action, requeue: None }
}

/// The time that is left of a duration; `None` if it is over.
pub(super) fn rest(since: Timestamp, duration: Duration, now: Timestamp) -> Option<Duration> {
    let until = since.checked_add(SignedDuration::try_from(duration).ok()?).ok()?;
    Duration::try_from(until.duration_since(now)).ok().filter(|left| !left.is_zero())
}

/// How long the drain of a Machine may take; zero is forever.
pub(super) fn drain_timeout(machine: &Machine) -> Duration {
    let seconds = machine.spec.node_drain_timeout_seconds.unwrap_or(DRAIN_TIMEOUT);
    Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
}
