//! Owner graph of the garbage collector (`pkg/controller/garbagecollector/graph_builder.go` upstream).
//!
//! Only objects that have owners are in the graph, and of those only what says whose they are: whatever else is asked, the store knows.
//! An object without owners costs nothing.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use serde::Deserialize;
use settled_store::{Entry, Key, Resource};

use crate::object;

/// How many objects the queue keeps room for.
const ROOM: usize = 256;

pub(super) const ORPHAN: &str = "orphan";
pub(super) const FOREGROUND: &str = "foregroundDeletion";

/// The part of an object that matters here.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Meta {
    pub(super) uid: String,
    pub(super) deletion_timestamp: Option<String>,
    pub(super) finalizers: Vec<String>,
    pub(super) owner_references: Vec<Owner>,
}

/// One of `metadata.ownerReferences`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Owner {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) block_owner_deletion: Option<bool>,
}

impl Meta {
    /// Reads it from a stored object.
    pub(super) fn of(entry: &Entry) -> Self {
        // What is stored was encoded here, `metadata` in front; what comes behind is not read.
        let mut metadata = serde_json::Deserializer::from_slice(object::stored_metadata(entry.value()));
        Self::deserialize(&mut metadata).unwrap_or_default()
    }

    pub(super) fn is_terminating(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    pub(super) fn has(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|name| name == finalizer)
    }

    /// Does it wait until its dependents are gone?
    pub(super) fn is_foreground(&self) -> bool {
        self.is_terminating() && self.has(FOREGROUND)
    }
}

/// A uid as a number. Those of real objects are UUIDs; other texts are nobody's, and which number they get does not matter.
fn number(uid: &str) -> u128 {
    if let Ok(uuid) = uuid::Uuid::try_parse(uid) {
        return uuid.as_u128();
    }
    let half = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        (salt, uid).hash(&mut hasher);
        hasher.finish()
    };
    u128::from(half(0)) << 64 | u128::from(half(1))
}

/// An object with owners.
#[derive(Debug)]
struct Item {
    key: Key,
    /// Who they are, and whether they must not go before it.
    owners: Box<[(u128, bool)]>,
}

/// The graph, and which objects have to be looked at.
#[derive(Debug, Default)]
pub(super) struct Graph {
    items: Vec<Option<Item>>,
    free: Vec<u32>,
    by_key: HashMap<Key, u32>,
    /// Owner, whether the dependent does not block it, dependent: those that block come first.
    dependents: BTreeSet<(u128, bool, u32)>,
    /// Objects that wait until their dependents are gone.
    waiting: HashMap<u128, Key>,
    queue: VecDeque<Key>,
    queued: HashSet<Key>,
}

impl Graph {
    /// An object as it is now.
    pub(super) fn put(&mut self, key: &Key, meta: &Meta) {
        let before = self.take(key);
        let uid = number(&meta.uid);
        if meta.is_foreground() {
            if self.waiting.insert(uid, key.clone()).is_none() {
                self.enqueue_dependents(uid);
            }
            self.enqueue(key);
        } else {
            self.waiting.remove(&uid);
            if meta.is_terminating() && meta.has(ORPHAN) {
                self.enqueue(key);
            }
        }
        let owners: Box<[(u128, bool)]> = meta
            .owner_references
            .iter()
            .map(|owner| (number(&owner.uid), owner.block_owner_deletion.unwrap_or(false)))
            .collect();
        let (before, new) = match &before {
            Some(item) => (&*item.owners, owners.iter().any(|owner| !item.owners.contains(owner))),
            None => (&[][..], !owners.is_empty()),
        };
        if new {
            self.enqueue(key);
        }
        let lost: Vec<u128> =
            before.iter().filter(|owner| !owners.contains(owner)).map(|(uid, _)| *uid).collect();
        if !owners.is_empty() {
            self.insert(Item { key: key.clone(), owners });
        }
        self.released(lost);
    }

    /// An object is gone.
    pub(super) fn remove(&mut self, key: &Key, uid: &str) {
        let uid = number(uid);
        let before = self.take(key);
        self.waiting.remove(&uid);
        self.enqueue_dependents(uid);
        let owners = before.map(|item| item.owners).unwrap_or_default();
        self.released(owners.iter().map(|(uid, _)| *uid).collect());
    }

    /// Some things about a resource were missed: whatever of it is not in the list is gone, and everything has to be looked at.
    pub(super) fn missed(&mut self, resource: &Resource, present: &HashSet<Key>) {
        let gone: Vec<Key> = self
            .by_key
            .keys()
            .chain(self.waiting.values())
            .filter(|key| key.resource() == resource && !present.contains(*key))
            .cloned()
            .collect();
        for key in gone {
            self.take(&key);
            let uids: Vec<u128> =
                self.waiting.iter().filter(|(_, waiting)| **waiting == key).map(|(uid, _)| *uid).collect();
            for uid in uids {
                self.waiting.remove(&uid);
            }
        }
        self.look_at_everything();
    }

    /// Looks at all objects again.
    pub(super) fn look_at_everything(&mut self) {
        let keys: Vec<Key> = self.by_key.keys().chain(self.waiting.values()).cloned().collect();
        for key in keys {
            self.enqueue(&key);
        }
    }

    /// To be looked at.
    pub(super) fn enqueue(&mut self, key: &Key) {
        if self.queued.insert(key.clone()) {
            self.queue.push_back(key.clone());
        }
    }

    /// The next one to be looked at.
    pub(super) fn next(&mut self) -> Option<Key> {
        let Some(key) = self.queue.pop_front() else {
            // The room that many took once is not needed for good.
            self.queue.shrink_to(ROOM);
            self.queued.shrink_to(ROOM);
            return None;
        };
        self.queued.remove(&key);
        Some(key)
    }

    /// Does a dependent keep the owner from going?
    pub(super) fn is_blocked(&self, uid: &str) -> bool {
        self.blocked(number(uid))
    }

    fn blocked(&self, uid: u128) -> bool {
        self.dependents.range((uid, false, 0)..=(uid, false, u32::MAX)).next().is_some()
    }

    /// The objects that name an owner.
    pub(super) fn dependents(&self, uid: &str) -> Vec<Key> {
        self.dependents_of(number(uid))
    }

    fn dependents_of(&self, uid: u128) -> Vec<Key> {
        let range = self.dependents.range((uid, false, 0)..=(uid, true, u32::MAX));
        range
            .filter_map(|(_, _, index)| self.items.get(*index as usize)?.as_ref())
            .map(|item| item.key.clone())
            .collect()
    }

    fn enqueue_dependents(&mut self, uid: u128) {
        for key in self.dependents_of(uid) {
            self.enqueue(&key);
        }
    }

    /// Dependents have let owners go: those that waited for the last of them may go on.
    fn released(&mut self, owners: Vec<u128>) {
        for uid in owners {
            if !self.blocked(uid)
                && let Some(key) = self.waiting.get(&uid).cloned()
            {
                self.enqueue(&key);
            }
        }
    }

    fn insert(&mut self, item: Item) {
        let index = self.free.pop().unwrap_or_else(|| {
            self.items.push(None);
            u32::try_from(self.items.len() - 1).unwrap_or(u32::MAX)
        });
        for (uid, blocks) in &item.owners {
            self.dependents.insert((*uid, !*blocks, index));
        }
        self.by_key.insert(item.key.clone(), index);
        if let Some(place) = self.items.get_mut(index as usize) {
            *place = Some(item);
        }
    }

    fn take(&mut self, key: &Key) -> Option<Item> {
        let index = self.by_key.remove(key)?;
        let item = self.items.get_mut(index as usize)?.take()?;
        self.free.push(index);
        for (uid, blocks) in &item.owners {
            self.dependents.remove(&(*uid, !*blocks, index));
        }
        Some(item)
    }

    /// How many objects with owners there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Key::new(&Resource::new("configmaps").unwrap(), "default", name).unwrap()
    }

    fn uid(number: u128) -> String {
        uuid::Uuid::from_u128(number).to_string()
    }

    fn meta(id: u128, owners: &[(u128, bool)]) -> Meta {
        let owner = |(id, blocks): &(u128, bool)| Owner {
            uid: uid(*id),
            block_owner_deletion: Some(*blocks),
            ..Owner::default()
        };
        Meta { uid: uid(id), owner_references: owners.iter().map(owner).collect(), ..Meta::default() }
    }

    fn drain(graph: &mut Graph) -> Vec<String> {
        std::iter::from_fn(|| graph.next()).map(|key| key.name().to_owned()).collect()
    }

    #[test]
    fn only_objects_with_owners_are_kept() {
        let mut graph = Graph::default();
        graph.put(&key("owner"), &meta(1, &[]));
        assert_eq!((graph.len(), drain(&mut graph)), (0, vec![]));
        graph.put(&key("child"), &meta(2, &[(1, true)]));
        assert_eq!((graph.len(), drain(&mut graph)), (1, vec!["child".into()]));
        graph.put(&key("child"), &meta(2, &[(1, true)]));
        assert_eq!(drain(&mut graph), Vec::<String>::new());
        graph.remove(&key("owner"), &uid(1));
        assert_eq!(drain(&mut graph), ["child"]);
        graph.remove(&key("child"), &uid(2));
        assert_eq!((graph.len(), graph.dependents.len(), graph.items.len()), (0, 0, 1));
    }

    #[test]
    fn an_owner_waits_for_those_that_block_it() {
        let mut graph = Graph::default();
        graph.put(&key("blocking"), &meta(2, &[(1, true)]));
        graph.put(&key("other"), &meta(3, &[(1, false)]));
        drain(&mut graph);
        let mut owner = meta(1, &[]);
        owner.deletion_timestamp = Some("2026-01-01T00:00:00Z".into());
        owner.finalizers = vec![FOREGROUND.into()];
        graph.put(&key("owner"), &owner);
        assert_eq!(drain(&mut graph), ["blocking", "other", "owner"]);
        assert!(graph.is_blocked(&uid(1)));
        graph.remove(&key("blocking"), &uid(2));
        assert_eq!(drain(&mut graph), ["owner"]);
        assert!(!graph.is_blocked(&uid(1)));
        assert_eq!(graph.dependents(&uid(1)), [key("other")]);
    }
}
