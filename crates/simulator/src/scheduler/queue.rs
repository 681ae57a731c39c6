//! Pods that fit nowhere: what has to change before they are tried again, and how long they wait at least.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use jiff::Timestamp;
use settled_controller::ObjectKey;

use super::filters::Plugins;

/// `podInitialBackoffSeconds`.
const FIRST: Duration = Duration::from_secs(1);
/// `podMaxBackoffSeconds`.
const MAX: Duration = Duration::from_secs(10);
/// How long a Pod waits without a change that concerns it: `DefaultPodMaxInUnschedulablePodsDuration`.
pub(super) const LEFTOVER: Duration = Duration::from_secs(300);

/// A Pod that fits nowhere.
#[derive(Debug)]
struct Waiting {
    uid: String,
    plugins: Plugins,
    attempts: u32,
    failed_at: Timestamp,
    /// Its claims.
    claims: Vec<String>,
}

/// The Pods that fit nowhere.
#[derive(Debug, Default)]
pub(super) struct Unschedulable(HashMap<ObjectKey, Waiting>);

impl Unschedulable {
    /// Adds a Pod that was refused by these.
    pub(super) fn add(
        &mut self,
        key: &ObjectKey,
        uid: &str,
        plugins: Plugins,
        now: Timestamp,
        claims: Vec<String>,
    ) {
        let before = self.0.get(key).filter(|waiting| waiting.uid == uid);
        let attempts = before.map_or(0, |waiting| waiting.attempts) + 1;
        let waiting = Waiting { uid: uid.to_owned(), plugins, attempts, failed_at: now, claims };
        self.0.insert(key.clone(), waiting);
    }

    /// Removes a Pod.
    pub(super) fn remove(&mut self, key: &ObjectKey) {
        self.0.remove(key);
    }

    /// How long a Pod has to wait still, however much changes.
    pub(super) fn backoff(&self, key: &ObjectKey, uid: &str, now: Timestamp) -> Option<Duration> {
        let waiting = self.0.get(key).filter(|waiting| waiting.uid == uid)?;
        let factor = 2_u32.saturating_pow(waiting.attempts.saturating_sub(1));
        let backoff = FIRST.saturating_mul(factor).min(MAX);
        let passed = now.duration_since(waiting.failed_at);
        let passed = Duration::try_from(passed).unwrap_or_default();
        backoff.checked_sub(passed).filter(|left| !left.is_zero())
    }

    /// The Pods that one of these refused, in their order.
    pub(super) fn refused_by(&self, plugins: Plugins) -> Vec<ObjectKey> {
        let refused = self.0.iter().filter(|(_, waiting)| waiting.plugins.intersects(plugins));
        refused.map(|(key, _)| key.clone()).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// The Pods that wait for a claim.
    pub(super) fn with_claim(&self, claim: &ObjectKey) -> Vec<ObjectKey> {
        let waits = |(key, waiting): &(&ObjectKey, &Waiting)| {
            key.namespace == claim.namespace && waiting.claims.iter().any(|name| **name == *claim.name)
        };
        self.0.iter().filter(waits).map(|(key, _)| key.clone()).collect::<BTreeSet<_>>().into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_up_to_ten_seconds() {
        let mut waiting = Unschedulable::default();
        let key = ObjectKey::new("shop", "web");
        let now = Timestamp::UNIX_EPOCH;
        let mut seconds = Vec::new();
        for _ in 0..6 {
            waiting.add(&key, "1", Plugins::USAGE, now, Vec::new());
            seconds.push(waiting.backoff(&key, "1", now).expect("a backoff").as_secs());
        }
        assert_eq!(seconds, [1, 2, 4, 8, 10, 10]);
        let later = now + jiff::SignedDuration::from_secs(10);
        assert_eq!(waiting.backoff(&key, "1", later), None);
        assert_eq!(waiting.backoff(&key, "2", now), None);
        assert_eq!(waiting.refused_by(Plugins::USAGE.or(Plugins::NODE)), std::slice::from_ref(&key));
        assert!(waiting.refused_by(Plugins::VOLUMES).is_empty());
    }
}
