//! Memory of a writer: a bounded number of objects and of fields per object.

use std::collections::{HashMap, HashSet};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::compare::{hash, leaves};

/// Maximum number of remembered fields per object. Fights about further fields are not detected.
const MAX_FIELDS: usize = 256;
/// Maximum number of fields in a [`Fight`](super::Fight).
const MAX_NAMED: usize = 8;
/// Overwrites older than this do not count as a fight.
const FIGHT_WINDOW: SignedDuration = SignedDuration::from_mins(10);

/// The last write to one object.
#[derive(Debug)]
struct Written {
    /// Hashes of the desired status, and of the resulting one.
    desired: u64,
    stored: u64,
    /// The resulting resourceVersion.
    version: String,
    /// Hashes of path and value of each desired field that was stored, sorted. Fields that the server drops or changes
    /// are not overwritten by anybody.
    fields: Vec<u64>,
    /// Number of overwrites by others, and time of the last one.
    overwritten: u32,
    overwritten_at: Timestamp,
    /// Logical time of the last use.
    used: u64,
}

/// Objects by UID.
#[derive(Debug)]
pub(super) struct Memory {
    objects: HashMap<String, Written>,
    capacity: usize,
    uses: u64,
}

/// A status, and the resourceVersion of the object that has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Versioned<'a> {
    pub(super) status: &'a Value,
    pub(super) version: &'a str,
}

/// Fields overwritten by others.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Overwritten {
    pub(super) fields: Vec<String>,
    /// Number of overwrites within the window, including this one.
    pub(super) rounds: u32,
}

impl Memory {
    pub(super) fn new(capacity: usize) -> Self {
        Self { objects: HashMap::new(), capacity: capacity.max(1), uses: 0 }
    }

    /// Whether the last write had the same desired status, and the observed status is its result: a write would change
    /// nothing, even though both differ.
    pub(super) fn is_written(&self, uid: &str, desired: &Value, observed: &Value) -> bool {
        let Some(written) = self.objects.get(uid) else { return false };
        written.desired == hash_of(desired) && written.stored == hash_of(observed)
    }

    /// Whether the last write had the same desired status.
    pub(super) fn is_desired(&self, uid: &str, desired: &Value) -> bool {
        self.objects.get(uid).is_some_and(|written| written.desired == hash_of(desired))
    }

    /// Records a write. `observed` is the status before it, which was current, since the write was guarded. Returns the
    /// fields that others had changed since the previous write and this one restores: none if the resourceVersion is
    /// still that of the previous write.
    pub(super) fn record(
        &mut self,
        uid: &str,
        desired: &Value,
        observed: Versioned<'_>,
        stored: Versioned<'_>,
        now: Timestamp,
    ) -> Option<Overwritten> {
        self.uses += 1;
        let hashes =
            |status: &Value| -> HashSet<u64> { leaves(status).iter().map(|leaf| leaf.hash).collect() };
        let desired_fields = leaves(desired);
        let stored_fields = hashes(stored.status);
        let kept = desired_fields.iter().map(|leaf| leaf.hash).filter(|hash| stored_fields.contains(hash));
        let mut fields: Vec<u64> = kept.take(MAX_FIELDS).collect();
        fields.sort_unstable();

        let (mut lost, mut rounds, mut overwritten_at) = (Vec::new(), 0, Timestamp::MIN);
        if let Some(before) = self.objects.get(uid) {
            if before.version != observed.version {
                let observed_fields = hashes(observed.status);
                let is_lost =
                    |hash: &u64| before.fields.binary_search(hash).is_ok() && !observed_fields.contains(hash);
                lost.extend(
                    desired_fields.into_iter().filter(|leaf| is_lost(&leaf.hash)).map(|leaf| leaf.path),
                );
            }
            overwritten_at = before.overwritten_at;
            if now.duration_since(overwritten_at) <= FIGHT_WINDOW {
                rounds = before.overwritten;
            }
            if !lost.is_empty() {
                rounds = rounds.saturating_add(1);
                overwritten_at = now;
            }
        }
        let written = Written {
            desired: hash_of(desired),
            stored: hash_of(stored.status),
            version: stored.version.to_owned(),
            fields,
            overwritten: rounds,
            overwritten_at,
            used: self.uses,
        };
        self.objects.insert(uid.to_owned(), written);
        if self.objects.len() > self.capacity {
            self.forget_oldest();
        }
        lost.truncate(MAX_NAMED);
        (!lost.is_empty()).then_some(Overwritten { fields: lost, rounds })
    }

    pub(super) fn forget(&mut self, uid: &str) {
        self.objects.remove(uid);
    }

    /// Forgets the older half, so that the cost per object is small.
    fn forget_oldest(&mut self) {
        let mut uses: Vec<u64> = self.objects.values().map(|written| written.used).collect();
        uses.sort_unstable();
        let kept_since = uses[uses.len() / 2];
        self.objects.retain(|_, written| written.used >= kept_since);
    }
}

fn hash_of(value: &Value) -> u64 {
    hash(&value.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(minute: i64) -> Timestamp {
        Timestamp::from_second(minute * 60).unwrap()
    }

    fn overwritten(fields: &[&str], rounds: u32) -> Option<Overwritten> {
        Some(Overwritten { fields: fields.iter().map(|&field| field.to_owned()).collect(), rounds })
    }

    /// Records a write with the status and resourceVersion before and after it.
    fn record(
        memory: &mut Memory,
        uid: &str,
        desired: &Value,
        observed: (&Value, &str),
        stored: (&Value, &str),
        minute: i64,
    ) -> Option<Overwritten> {
        let versioned = |(status, version)| Versioned { status, version };
        memory.record(uid, desired, versioned(observed), versioned(stored), at(minute))
    }

    #[test]
    fn what_is_set_back_was_overwritten() {
        let mut memory = Memory::new(8);
        let mut write = |uid: &str, desired: &Value, observed: &Value, minute: i64| {
            let (before, after) = (format!("{minute}1"), format!("{minute}2"));
            record(&mut memory, uid, desired, (observed, &before), (desired, &after), minute)
        };
        let (ours, theirs) =
            (json!({"address": "10.0.0.1", "replicas": 1}), json!({"address": "10.0.0.2", "replicas": 1}));
        assert_eq!(write("u", &ours, &json!({}), 0), None);
        // Changes by the writer alone are not a fight.
        let more = json!({"address": "10.0.0.1", "replicas": 2});
        assert_eq!(write("u", &more, &ours, 1), None);
        // A, B, A.
        assert_eq!(write("u", &ours, &theirs, 2), overwritten(&["address"], 1));
        assert_eq!(write("u", &ours, &theirs, 3), overwritten(&["address"], 2));
        // A restored field is detected even if another one changes at the same time.
        assert_eq!(write("u", &more, &theirs, 4), overwritten(&["address"], 3));
        // A writer that gives in is not in a fight.
        assert_eq!(write("u", &theirs, &theirs, 5), None);
        // The window is over.
        assert_eq!(write("u", &theirs, &ours, 15), overwritten(&["address"], 1));
        // Another object.
        assert_eq!(write("v", &ours, &theirs, 15), None);
    }

    #[test]
    fn nobody_overwrites_where_the_resource_version_is_that_of_the_own_write() {
        let mut memory = Memory::new(8);
        let (one, other) = (json!({"address": "10.0.0.1"}), json!({"address": "10.0.0.2"}));
        assert_eq!(record(&mut memory, "u", &one, (&json!({}), "1"), (&one, "2"), 0), None);
        // A difference without a write.
        assert_eq!(record(&mut memory, "u", &one, (&other, "2"), (&one, "3"), 1), None);
        assert_eq!(
            record(&mut memory, "u", &one, (&other, "4"), (&one, "5"), 2),
            overwritten(&["address"], 1)
        );
    }

    #[test]
    fn what_the_server_drops_nobody_overwrites() {
        let mut memory = Memory::new(8);
        let desired = |replicas: u32| json!({"replicas": replicas, "dropped": "x"});
        let stored = |replicas: u32| json!({"replicas": replicas});
        assert_eq!(record(&mut memory, "u", &desired(1), (&json!({}), "1"), (&stored(1), "2"), 0), None);
        // Another client has written another part of the object since.
        assert_eq!(record(&mut memory, "u", &desired(2), (&stored(1), "3"), (&stored(2), "4"), 1), None);
    }

    #[test]
    fn what_the_server_made_of_a_write_is_known() {
        let mut memory = Memory::new(8);
        let (desired, stored) = (json!({"a": 1, "dropped": 2}), json!({"a": 1}));
        assert!(!memory.is_written("u", &desired, &stored));
        record(&mut memory, "u", &desired, (&json!({}), "1"), (&stored, "2"), 0);
        assert!(memory.is_written("u", &desired, &stored));
        assert!(!memory.is_written("u", &desired, &json!({"a": 2})));
        assert!(!memory.is_written("u", &json!({"a": 3}), &stored));
        assert!(memory.is_desired("u", &desired));
        memory.forget("u");
        assert!(!memory.is_written("u", &desired, &stored));
    }

    #[test]
    fn memory_is_bounded() {
        let mut memory = Memory::new(20);
        let status = json!({"list": (0..10).collect::<Vec<_>>()});
        let many: serde_json::Map<String, Value> =
            (0..300).map(|index| (index.to_string(), json!(index))).collect();
        for index in 0..100 {
            let desired = Value::Object(many.clone());
            record(&mut memory, &index.to_string(), &desired, (&status, "1"), (&desired, "2"), 0);
            assert!(memory.objects.len() <= 20);
            assert!(memory.objects.contains_key(&index.to_string()));
        }
        assert!(memory.objects.values().all(|written| written.fields.len() <= MAX_FIELDS));
    }
}
