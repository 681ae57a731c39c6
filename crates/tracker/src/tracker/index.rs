//! Index of targets by object id.

use std::hash::{BuildHasher as _, RandomState};

use hashbrown::HashTable;

use super::Followed;
use crate::id::ObjectId;
use crate::ids::{IdVec, TargetId};

/// The targets of a tracker.
pub(super) type Targets = IdVec<TargetId, Box<Followed>>;

/// Ids of targets. The objects are in the targets already.
#[derive(Debug, Default)]
pub(super) struct TargetIndex {
    ids: HashTable<TargetId>,
    hasher: RandomState,
}

impl TargetIndex {
    /// The target that is an object.
    pub(super) fn find(&self, object: &ObjectId, targets: &Targets) -> Option<TargetId> {
        let same = |id: &TargetId| targets.get(*id).is_some_and(|target| target.id == *object);
        self.ids.find(self.hasher.hash_one(object), same).copied()
    }

    /// Adds a target that is not in it yet.
    pub(super) fn insert(&mut self, id: TargetId, targets: &Targets) {
        let hash = |id: TargetId| targets.get(id).map_or(0, |target| self.hasher.hash_one(&target.id));
        self.ids.insert_unique(hash(id), id, |id| hash(*id));
    }

    /// Forgets a target, whose object must be the one that it was added with.
    pub(super) fn remove(&mut self, id: TargetId, targets: &Targets) {
        let Some(target) = targets.get(id) else { return };
        let hash = self.hasher.hash_one(&target.id);
        if let Ok(entry) = self.ids.find_entry(hash, |known| *known == id) {
            entry.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(name: &str) -> Box<Followed> {
        Box::new(Followed {
            id: ObjectId::new("", "Pod", "shop", name),
            kind: None,
            stream: None,
            also: Vec::new(),
            selected: true,
            last: None,
            reported: None,
            explored: None,
        })
    }

    #[test]
    fn targets_are_found_by_their_ids() {
        let mut targets = Targets::default();
        for number in 0..500 {
            targets.push(target(&(number % 400).to_string()));
        }
        let mut index = TargetIndex::default();
        (0..400_u32).for_each(|number| index.insert(number.into(), &targets));
        // Those that are selected again have new ids.
        for number in 0..100_u32 {
            index.remove(number.into(), &targets);
            let id = ObjectId::new("", "Pod", "shop", number.to_string());
            assert_eq!(index.find(&id, &targets), None);
            index.insert((400 + number).into(), &targets);
        }
        for number in 0..400_u32 {
            let id = ObjectId::new("", "Pod", "shop", number.to_string());
            let wanted = if number < 100 { 400 + number } else { number };
            assert_eq!(index.find(&id, &targets), Some(TargetId::from(wanted)));
        }
        assert_eq!(index.find(&ObjectId::new("", "Pod", "shop", "400"), &targets), None);
    }

    #[test]
    fn a_target_is_small() {
        // Thousands are kept, and the allocator rounds up: to 96 bytes, then to 112 and 128.
        assert!(size_of::<Followed>() <= 96, "{}", size_of::<Followed>());
    }
}
