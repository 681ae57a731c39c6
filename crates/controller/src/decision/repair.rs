//! Repair scan: finds orphaned effects outside of the cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::{IdempotencyKey, Permit};

/// Finds orphans: entries of an external inventory without a live grant.
///
/// Users remove finalizers, and a crash between an effect and its record leaves an effect without owner. So releasing
/// on deletion is not sufficient: periodically, the inventory is compared with the grants. An effect is an orphan only
/// if all scans of a grace period found no grant, since a grant may not be in status yet.
///
/// ```
/// use std::time::Duration;
/// use settled_controller::decision::RepairScan;
///
/// let at = |time: &str| format!("2026-01-01T{time}Z").parse().unwrap();
/// let mut scan = RepairScan::new(Duration::from_secs(60));
/// assert!(scan.orphans(["a", "b"], ["a"], at("00:00:00")).is_empty());
/// assert!(scan.orphans(["a", "b"], ["a"], at("00:00:59")).is_empty());
/// assert_eq!(scan.orphans(["a", "b"], ["a"], at("00:01:00")), ["b"]);
/// ```
#[derive(Clone, Debug)]
pub struct RepairScan<K> {
    grace: Duration,
    /// Time of the first scan without a grant.
    unclaimed_since: BTreeMap<K, Timestamp>,
}

impl<K: Ord + Clone> RepairScan<K> {
    /// A scan that reports effects that had no grant for `grace`.
    #[must_use]
    pub fn new(grace: Duration) -> Self {
        Self { grace, unclaimed_since: BTreeMap::new() }
    }

    /// Compares the inventory with the live grants, and returns the effects to release now, sorted.
    ///
    /// Both must be complete: do not call it before the cache is synced, nor with a partial inventory.
    pub fn orphans(
        &mut self,
        inventory: impl IntoIterator<Item = K>,
        live: impl IntoIterator<Item = K>,
        now: Timestamp,
    ) -> Vec<K> {
        let live: BTreeSet<K> = live.into_iter().collect();
        let unclaimed: BTreeSet<K> = inventory.into_iter().filter(|key| !live.contains(key)).collect();
        self.unclaimed_since.retain(|key, _| unclaimed.contains(key));
        let grace = SignedDuration::try_from(self.grace).unwrap_or(SignedDuration::MAX);
        let mut orphans = Vec::new();
        for key in unclaimed {
            // If the clock was set back, the wait becomes longer, never shorter.
            let since = *self.unclaimed_since.entry(key.clone()).or_insert(now);
            if now.duration_since(since) >= grace {
                orphans.push(key);
            }
        }
        orphans
    }
}

impl RepairScan<IdempotencyKey> {
    /// The same for effects identified by their keys: returns permits to release the orphans.
    pub fn release(
        &mut self,
        inventory: impl IntoIterator<Item = IdempotencyKey>,
        live: impl IntoIterator<Item = IdempotencyKey>,
        now: Timestamp,
    ) -> Vec<Permit> {
        // They no longer belong to a request.
        self.orphans(inventory, live, now).into_iter().map(|key| Permit::new(key, 0)).collect()
    }
}
