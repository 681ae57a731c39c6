//! The request of a wait: what to follow, and how.

use std::time::Duration;

use settled_rules::RuleSet;
use settled_watch::RequestError;
use tokio::time::Instant;

use crate::condition::WaitCondition;
use crate::events::EvidenceOptions;
use crate::limits::Limits;
use crate::target::Target;

/// What to follow, and how.
#[derive(Debug)]
pub struct Request {
    /// The targets.
    pub targets: Vec<Target>,
    /// What is waited for; see [`WaitCondition::parse_all`].
    pub conditions: Vec<WaitCondition>,
    /// When the wait ends.
    pub limits: Limits,
    /// Rules by which verdicts are found.
    pub rules: RuleSet,
    /// Which evidence is fetched when a target isn't done.
    pub evidence: EvidenceOptions,
    /// Whether the logs of containers that crash are followed during the wait: [`Event::Log`](crate::Event::Log).
    pub live_logs: bool,
    /// The namespace of targets that name none; the client's if none.
    pub namespace: Option<String>,
    /// More about how verdicts are found.
    pub evaluation: EvaluationOptions,
    /// Which causes the final report has.
    pub causes: Causes,
    /// Since when the limits count; the call of [`Tracker::start`](crate::Tracker::start) if none.
    pub started: Option<Instant>,
    /// How long the first complete answer may take where [`Limits::timeout`] is zero or none: 30 s if this is none.
    pub request_timeout: Option<Duration>,
}

/// Which causes the final report has of targets that aren't done. Those of thousands take more memory than all else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Causes {
    /// Those of each target.
    #[default]
    All,
    /// Of targets that stand for themselves and aren't done for the same reason, those of the first; the others name it in
    /// [`TargetReport::same_as`](crate::TargetReport::same_as).
    Grouped,
    /// None.
    None,
}

/// How verdicts are found; as in [`kstatus::Options`].
#[derive(Clone, Copy, Debug)]
pub struct EvaluationOptions {
    /// Which reading of the evidence.
    pub profile: kstatus::Profile,
    /// Objects that say nothing are Current.
    pub assume_current: bool,
    /// Whether an Ingress or a Gateway needs an address.
    pub require_address: bool,
}

impl Default for EvaluationOptions {
    fn default() -> Self {
        Self { profile: kstatus::Profile::Settled, assume_current: false, require_address: true }
    }
}

impl Request {
    /// Waits for these to be ready, with the built-in rules and the default limits.
    #[must_use]
    pub fn new(targets: impl IntoIterator<Item = Target>) -> Self {
        Self {
            targets: targets.into_iter().collect(),
            conditions: vec![WaitCondition::Ready],
            limits: Limits::default(),
            rules: RuleSet::default(),
            evidence: EvidenceOptions::default(),
            live_logs: false,
            namespace: None,
            evaluation: EvaluationOptions::default(),
            causes: Causes::All,
            started: None,
            request_timeout: None,
        }
    }
}

/// Why nothing can be followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// The cluster cannot be asked.
    #[error(transparent)]
    Cluster(RequestError),
    /// It does not have a kind that was named, and no manifest says that there should be one.
    #[error("the cluster does not have a kind {name:?}")]
    NoKind {
        /// As it was named.
        name: String,
        /// Names that look like it.
        similar: Vec<String>,
    },
}
