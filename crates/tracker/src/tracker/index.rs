//! Numbers of targets by their ids.

use std::hash::{BuildHasher as _, RandomState};

use hashbrown::HashTable;

use super::Followed;
use crate::id::ObjectId;

/// Numbers of targets. Their ids are in the targets already.
#[derive(Debug, Default)]
pub(super) struct TargetIndex {
    numbers: HashTable<u32>,
    hasher: RandomState,
}

impl TargetIndex {
    /// The number of the target with an id.
    pub(super) fn find(&self, id: &ObjectId, targets: &[Box<Followed>]) -> Option<usize> {
        let same = |number: &u32| targets.get(*number as usize).is_some_and(|target| target.id == *id);
        self.numbers.find(self.hasher.hash_one(id), same).map(|number| *number as usize)
    }

    /// Adds a target that has no number yet.
    pub(super) fn insert(&mut self, number: usize, targets: &[Box<Followed>]) {
        let hash = |number: usize| targets.get(number).map_or(0, |target| self.hasher.hash_one(&target.id));
        let (hashed, number) = (hash(number), u32::try_from(number).unwrap_or(u32::MAX));
        self.numbers.insert_unique(hashed, number, |number| hash(*number as usize));
    }

    /// Forgets a target, whose id must be the one that it was added with.
    pub(super) fn remove(&mut self, number: usize, targets: &[Box<Followed>]) {
        let Some(target) = targets.get(number) else { return };
        let hash = self.hasher.hash_one(&target.id);
        if let Ok(entry) = self.numbers.find_entry(hash, |known| *known as usize == number) {
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
            told: None,
            looked: None,
        })
    }

    #[test]
    fn targets_are_found_by_their_ids() {
        let targets: Vec<_> = (0..500).map(|number| target(&(number % 400).to_string())).collect();
        let mut index = TargetIndex::default();
        (0..400).for_each(|number| index.insert(number, &targets));
        // Those that are selected again have new numbers.
        for number in 0..100 {
            index.remove(number, &targets);
            let id = ObjectId::new("", "Pod", "shop", number.to_string());
            assert_eq!(index.find(&id, &targets), None);
            index.insert(400 + number, &targets);
        }
        for number in 0..400 {
            let id = ObjectId::new("", "Pod", "shop", number.to_string());
            let wanted = if number < 100 { 400 + number } else { number };
            assert_eq!(index.find(&id, &targets), Some(wanted));
        }
        assert_eq!(index.find(&ObjectId::new("", "Pod", "shop", "400"), &targets), None);
    }

    #[test]
    fn a_target_is_small() {
        // Thousands are kept, and the allocator rounds up: to 96 bytes, then to 112 and 128.
        assert!(size_of::<Followed>() <= 96, "{}", size_of::<Followed>());
    }
}
