//! Own writes by resourceVersion: whether a change between two versions of an object consists of own writes only.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube::Resource;

/// Number of remembered writes.
const MAX_WRITES: usize = 4096;

/// The last writes of a process to objects of one kind, with the resourceVersions before and after each. Clones share
/// them.
///
/// The server performs a write that carries a resourceVersion only if the object still has it, so nobody else has
/// written between the two versions. A change from one to the other, over any number of own writes, is therefore an own
/// one, whatever the times and names in managedFields. [`own_write_in`](crate::predicate::own_write_in) is the predicate.
///
/// ```
/// use settled_controller::{OwnWrites, predicate};
///
/// let own = OwnWrites::new();
/// // `StatusWriter::own_writes` records status writes; `wrote` records others.
/// own.record("0001", "17", "18");
/// assert!(own.lead_to("0001", "17", "18") && !own.lead_to("0001", "16", "18"));
/// // The watch event may arrive before the response to the write: it is recognized by the field manager.
/// let events = predicate::own_write_in(&own).or(predicate::own_write("shop-controller")).not();
/// ```
#[derive(Clone, Debug)]
pub struct OwnWrites(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    writes: Mutex<Writes>,
    /// Seed of the hashes of versions.
    state: RandomState,
}

#[derive(Debug, Default)]
struct Writes {
    /// The version before each write, by the version after it.
    before: HashMap<u64, u64>,
    /// The versions after the writes, in order.
    order: VecDeque<u64>,
}

impl Default for OwnWrites {
    fn default() -> Self {
        Self::new()
    }
}

impl OwnWrites {
    /// Without writes.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(Shared { writes: Mutex::default(), state: RandomState::new() }))
    }

    fn writes(&self) -> MutexGuard<'_, Writes> {
        self.0.writes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a write that carried the resourceVersion of `before`; `after` is the response. Writes without a
    /// resourceVersion must not be recorded, since others may have written in between.
    pub fn wrote<K: Resource>(&self, before: &K, after: &K) {
        let (before, after) = (before.meta(), after.meta());
        if let (Some(uid), Some(from), Some(to)) =
            (&after.uid, &before.resource_version, &after.resource_version)
            && before.uid == after.uid
        {
            self.record(uid, from, to);
        }
    }

    /// As [`OwnWrites::wrote`], by UID and resourceVersions. Equal ones are no write.
    pub fn record(&self, uid: &str, before: &str, after: &str) {
        let (before, after) = (self.version(uid, before), self.version(uid, after));
        if before == after {
            return;
        }
        let mut writes = self.writes();
        if writes.before.insert(after, before).is_none() {
            writes.order.push_back(after);
        }
        while writes.order.len() > MAX_WRITES {
            let oldest = writes.order.pop_front();
            oldest.and_then(|oldest| writes.before.remove(&oldest));
        }
    }

    /// Whether only recorded writes lead from one resourceVersion of an object to another.
    #[must_use]
    pub fn lead_to(&self, uid: &str, from: &str, to: &str) -> bool {
        self.lead(self.version(uid, from), self.version(uid, to))
    }

    /// Hash of a version of an object.
    pub(crate) fn version(&self, uid: &str, resource_version: &str) -> u64 {
        self.0.state.hash_one((uid, resource_version))
    }

    /// Whether only recorded writes lead from one version to another.
    pub(crate) fn lead(&self, from: u64, to: u64) -> bool {
        let writes = self.writes();
        let mut version = to;
        for _ in 0..MAX_WRITES {
            match writes.before.get(&version) {
                Some(before) if *before == from => return true,
                Some(before) => version = *before,
                None => return false,
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_writes_lead_from_version_to_version() {
        let own = OwnWrites::new();
        own.record("u", "1", "2");
        own.record("u", "2", "5");
        // Another client wrote 6.
        own.record("u", "6", "7");
        for (from, to, expected) in [
            ("1", "2", true),
            ("2", "5", true),
            ("1", "5", true),
            ("5", "6", false),
            ("6", "7", true),
            ("5", "7", false),
            ("1", "7", false),
            ("2", "1", false),
            ("1", "1", false),
            ("0", "2", false),
        ] {
            assert_eq!(own.lead_to("u", from, to), expected, "{from} to {to}");
        }
        assert!(!own.lead_to("v", "1", "2"), "another object");
    }

    #[test]
    fn memory_is_bounded() {
        let own = OwnWrites::new();
        for version in 0..2 * MAX_WRITES {
            own.record("u", &version.to_string(), &(version + 1).to_string());
            own.record("u", &version.to_string(), &version.to_string());
        }
        let writes = own.writes();
        assert_eq!((writes.before.len(), writes.order.len()), (MAX_WRITES, MAX_WRITES));
        drop(writes);
        let last = 2 * MAX_WRITES;
        assert!(own.lead_to("u", &(last - MAX_WRITES).to_string(), &last.to_string()));
        assert!(!own.lead_to("u", &(last - MAX_WRITES - 1).to_string(), &last.to_string()));
    }
}
