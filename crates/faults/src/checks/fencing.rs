//! Fencing: who holds a Lease, and who acts meanwhile.

use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use crate::cluster::{ObjectKey, text};

/// Who takes the Lease.
pub(crate) const OTHER: &str = "another-instance";

/// A Lease that another instance holds.
#[derive(Clone, Debug)]
pub(crate) struct Takeover {
    since: Instant,
    until: Instant,
}

impl Takeover {
    pub(crate) const fn new(since: Instant, until: Instant) -> Self {
        Self { since, until }
    }

    /// For how long the controller has gone on without noticing, if it has.
    pub(crate) fn is_ignored(&self, grace: Duration) -> Option<Duration> {
        let now = Instant::now();
        (now < self.until).then(|| now.duration_since(self.since)).filter(|late| *late > grace)
    }
}

/// What is wrong with a write of the controller to a Lease that another instance holds.
pub(crate) fn check(takeover: Option<&Takeover>, key: &ObjectKey, new: Option<&Value>) -> Option<String> {
    let held = takeover.is_some_and(|takeover| Instant::now() < takeover.until) && key.is_lease();
    let holder = new.map(|lease| text(lease, "/spec/holderIdentity"));
    (held && holder != Some(OTHER)).then(|| format!("{key} was taken back before it expired"))
}
