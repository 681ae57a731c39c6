//! No-op applies: configurations that are known to change nothing about an object as it is stored, so that applying one again is a lookup.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, PoisonError};

use super::names::Part;

/// Largest configuration and object that are remembered. Larger ones are rare.
const MAX_BYTES: usize = 16 * 1024;
/// Limit for all of a kind.
const MAX_TOTAL_BYTES: usize = 1024 * 1024;

/// An apply of a configuration to an object.
///
/// Its result depends on nothing else, for the same definition: not on the time, if nothing changes.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub(crate) struct Apply<'a> {
    pub(crate) part: Part,
    pub(crate) manager: &'a str,
    pub(crate) force: bool,
    /// The configuration, as it was sent.
    pub(crate) body: &'a [u8],
    /// The object, as it is stored.
    pub(crate) value: &'a Arc<[u8]>,
}

struct Known {
    part: Part,
    manager: Box<str>,
    force: bool,
    body: Box<[u8]>,
    value: Arc<[u8]>,
}

impl Known {
    fn is(&self, apply: &Apply<'_>) -> bool {
        let Self { part, manager, force, body, value } = self;
        (*part, &**manager, *force) == (apply.part, apply.manager, apply.force)
            && **body == *apply.body
            && (Arc::ptr_eq(value, apply.value) || value == apply.value)
    }

    fn bytes(&self) -> usize {
        self.body.len() + self.value.len()
    }
}

/// Applies to objects of a kind that changed nothing.
#[derive(Default)]
pub(crate) struct NoOpApplies {
    hasher: RandomState,
    known: Mutex<Memo>,
}

#[derive(Default)]
struct Memo {
    by_hash: HashMap<u64, Known>,
    bytes: usize,
}

impl NoOpApplies {
    /// Whether it is known that the apply changes nothing.
    pub(crate) fn contains(&self, apply: &Apply<'_>) -> bool {
        if apply.body.len() > MAX_BYTES || apply.value.len() > MAX_BYTES {
            return false;
        }
        let hash = self.hasher.hash_one(apply);
        let memo = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        memo.by_hash.get(&hash).is_some_and(|known| known.is(apply))
    }

    /// Remembers that the apply changes nothing. If there are too many, all others are forgotten.
    pub(crate) fn insert(&self, apply: &Apply<'_>) {
        if apply.body.len() > MAX_BYTES || apply.value.len() > MAX_BYTES {
            return;
        }
        let known = Known {
            part: apply.part,
            manager: apply.manager.into(),
            force: apply.force,
            body: apply.body.into(),
            value: Arc::clone(apply.value),
        };
        let mut memo = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if memo.bytes + known.bytes() > MAX_TOTAL_BYTES {
            *memo = Memo::default();
        }
        memo.bytes += known.bytes();
        if let Some(replaced) = memo.by_hash.insert(self.hasher.hash_one(apply), known) {
            memo.bytes -= replaced.bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_apply_is_known_by_all_that_decides_it() {
        let noops = NoOpApplies::default();
        let (value, other): (Arc<[u8]>, Arc<[u8]>) = (b"{}"[..].into(), b"[]"[..].into());
        let apply = Apply { part: Part::Main, manager: "m", force: false, body: b"a", value: &value };
        assert!(!noops.contains(&apply));
        noops.insert(&apply);
        let same_bytes: Arc<[u8]> = b"{}"[..].into();
        assert!(noops.contains(&apply) && noops.contains(&Apply { value: &same_bytes, ..apply }));
        for differs in [
            Apply { part: Part::Status, ..apply },
            Apply { manager: "n", ..apply },
            Apply { force: true, ..apply },
            Apply { body: b"b", ..apply },
            Apply { value: &other, ..apply },
        ] {
            assert!(!noops.contains(&differs), "{differs:?}");
        }
    }

    #[test]
    fn memory_is_bounded() {
        let noops = NoOpApplies::default();
        let value: Arc<[u8]> = vec![b'v'; MAX_BYTES].into();
        let body = |number: usize| format!("{number:>width$}", width = MAX_BYTES).into_bytes();
        let most = MAX_TOTAL_BYTES / (2 * MAX_BYTES);
        for number in 0..=most {
            let body = body(number);
            let apply = Apply { part: Part::Main, manager: "m", force: false, body: &body, value: &value };
            // Twice: it counts once.
            noops.insert(&apply);
            noops.insert(&apply);
            assert!(noops.contains(&apply), "{number}");
            let memo = noops.known.lock().unwrap();
            assert!(memo.bytes <= MAX_TOTAL_BYTES && memo.by_hash.len() <= most);
            assert_eq!(memo.bytes, memo.by_hash.values().map(Known::bytes).sum::<usize>());
        }
        let large = vec![0; MAX_BYTES + 1];
        let apply = Apply { part: Part::Main, manager: "m", force: false, body: &large, value: &value };
        noops.insert(&apply);
        assert!(!noops.contains(&apply));
    }
}
