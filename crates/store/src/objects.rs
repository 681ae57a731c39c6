//! Current objects of one resource: the ordered map, and an index by hash where they are many.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::hash::Hash;
use std::hash::Hasher;
use std::sync::Arc;

use crate::entry::Entry;
use crate::map::Map;

/// From how many objects on there is an index: finding one in the map takes a comparison for each of its levels, and each of them reads three
/// places in memory.
const MANY: usize = 256;

#[derive(Default)]
pub(crate) struct Objects {
    map: Map,
    /// All entries of the map, or none while they are few.
    index: HashSet<ByPath>,
}

impl From<Map> for Objects {
    fn from(map: Map) -> Self {
        let mut objects = Self { map, index: HashSet::new() };
        objects.build();
        objects
    }
}

impl Objects {
    /// The objects in their order. A clone of the map is a snapshot.
    pub(crate) fn map(&self) -> &Map {
        &self.map
    }

    pub(crate) fn get(&self, path: &str) -> Option<&Arc<Entry>> {
        if self.index.is_empty() { self.map.get(path) } else { Some(&self.index.get(path)?.0) }
    }

    pub(crate) fn insert(&mut self, entry: Arc<Entry>) {
        if self.index.is_empty() {
            self.map.insert(entry);
            self.build();
        } else {
            self.index.replace(ByPath(entry.clone()));
            self.map.insert(entry);
        }
    }

    pub(crate) fn remove(&mut self, path: &str) {
        self.map.remove(path);
        self.index.remove(path);
        // Far fewer, so that it is not built again soon.
        if self.index.len() < MANY / 2 {
            self.index = HashSet::new();
        }
    }

    fn build(&mut self) {
        if self.map.len() >= MANY {
            self.index = self.map.iter_from("").map(|entry| ByPath(entry.clone())).collect();
        }
    }
}

/// An entry, of which only the path counts.
struct ByPath(Arc<Entry>);

impl Borrow<str> for ByPath {
    fn borrow(&self) -> &str {
        self.0.key.path()
    }
}

impl Hash for ByPath {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.key.path().hash(state);
    }
}

impl PartialEq for ByPath {
    fn eq(&self, other: &Self) -> bool {
        self.0.key.path() == other.0.key.path()
    }
}

impl Eq for ByPath {}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use proptest::prelude::*;

    use super::*;
    use crate::key::Key;
    use crate::key::Resource;
    use crate::key::Revision;

    proptest! {
        #[test]
        fn finds_what_the_map_has(
            operations in prop::collection::vec((prop::bool::weighted(0.8), 0usize..600), 0..1200),
            removed in 0usize..600,
        ) {
            let resource = Resource::new("r").unwrap();
            let mut objects = Objects::default();
            let fill = operations.into_iter();
            let drain = (0..removed).map(|number| (false, number));
            for (revision, (is_put, number)) in fill.chain(drain).enumerate() {
                let path = format!("n/{number}");
                if is_put {
                    objects.insert(Arc::new(Entry {
                        key: Key::from_path(&resource, &path).unwrap(),
                        value: Arc::new([]),
                        create_revision: Revision(revision as u64),
                        mod_revision: Revision(revision as u64),
                        attachment: OnceLock::new(),
                    }));
                } else {
                    objects.remove(&path);
                }
                prop_assert!(objects.index.is_empty() || objects.index.len() == objects.map.len());
                prop_assert!(objects.map.len() < MANY || !objects.index.is_empty());
                let revision = |entry: Option<&Arc<Entry>>| entry.map(|entry| entry.mod_revision);
                prop_assert_eq!(revision(objects.get(&path)), revision(objects.map.get(&path)));
            }
            let all: Vec<_> = objects.map.iter_from("").cloned().collect();
            for entry in &all {
                let found = objects.get(entry.key.path());
                prop_assert!(found.is_some_and(|found| Arc::ptr_eq(found, entry)));
            }
            // As a fork has them.
            let copy = Objects::from(objects.map.clone());
            prop_assert!(all.iter().all(|entry| copy.get(entry.key.path()).is_some()));
            prop_assert!(copy.get("n/600").is_none());
        }
    }
}
