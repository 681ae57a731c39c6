//! The object graph: records, indexed by identity, UID and owner.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};

use hashbrown::HashTable;

use crate::id::{ObjectId, Uid};
use crate::ids::StreamId;
use crate::record::Record;

/// Records by identity, by UID, and by owner. A plain index: it knows no streams and no time.
#[derive(Debug, Default)]
pub struct Graph {
    /// Boxed: a list of thousands of large elements leaves as much behind when it grows.
    nodes: Vec<Option<Box<Node>>>,
    free: Vec<u32>,
    /// Ids are in the records already; these hold numbers of nodes.
    by_id: HashTable<u32>,
    by_uid: HashTable<u32>,
    /// By UID of the owner: the numbers of its dependents.
    owned: HashMap<Uid, Vec<u32>>,
    /// What objects refer to and does not exist.
    missing: HashMap<ObjectId, Record>,
    hasher: RandomState,
}

#[derive(Debug)]
struct Node {
    record: Record,
    /// The stream that reported it last, and in which relist.
    stream: StreamId,
    epoch: u32,
}

/// What a record has changed.
#[derive(Debug)]
pub enum Put {
    /// The object was not there.
    New,
    /// The object was there; this is how it was.
    Changed(Box<Record>),
    /// It is older than what is known, or the same.
    Stale,
}

impl Graph {
    /// How many objects are known.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether nothing is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// The record of an object.
    #[must_use]
    pub fn get(&self, id: &ObjectId) -> Option<&Record> {
        self.number(id).and_then(|number| self.record(number))
    }

    /// The record of an object that others refer to and that does not exist.
    #[must_use]
    pub fn missing(&self, id: &ObjectId) -> Option<&Record> {
        self.missing.get(id)
    }

    /// Notes that an object that others refer to does not exist.
    pub fn set_missing(&mut self, record: Record) {
        self.missing.insert(record.id.clone(), record);
    }

    /// The record with a UID.
    #[must_use]
    pub fn by_uid(&self, uid: &Uid) -> Option<&Record> {
        let same = |number: &u32| self.record(*number).is_some_and(|record| record.uid == *uid);
        let number = self.by_uid.find(self.hasher.hash_one(uid), same)?;
        self.record(*number)
    }

    /// What an object owns.
    pub fn owned(&self, uid: &Uid) -> impl Iterator<Item = &Record> {
        self.owned.get(uid).into_iter().flatten().filter_map(|number| self.record(*number))
    }

    /// All records.
    pub fn iter(&self) -> impl Iterator<Item = &Record> {
        self.nodes.iter().flatten().map(|node| &node.record)
    }

    /// Takes in a record that a stream reports.
    pub fn put(&mut self, record: Record, stream: StreamId, epoch: u32) -> Put {
        if !self.missing.is_empty() {
            self.missing.remove(&record.id);
        }
        let Some(number) = self.number(&record.id) else {
            self.insert(Node { record, stream, epoch });
            return Put::New;
        };
        let Some(known) = self.nodes.get_mut(number as usize).and_then(Option::as_mut) else {
            return Put::Stale;
        };
        // Two streams may report the same object, one of them late.
        let same_life = known.record.uid == record.uid;
        if same_life
            && record.resource_version > 0
            && record.resource_version <= known.record.resource_version
        {
            if known.stream == stream {
                known.epoch = epoch;
            }
            // A stream of dependents does not evaluate the conditions of the wait.
            if record.resource_version == known.record.resource_version
                && known.record.results.is_empty()
                && !record.results.is_empty()
            {
                known.record.results = record.results;
                return Put::New;
            }
            return Put::Stale;
        }
        if same_life && known.record.owners == record.owners {
            (known.stream, known.epoch) = (stream, epoch);
            return Put::Changed(Box::new(std::mem::replace(&mut known.record, record)));
        }
        let old = self.take(number);
        self.insert(Node { record, stream, epoch });
        old.map_or(Put::New, |node| Put::Changed(Box::new(node.record)))
    }

    /// Forgets an object; how it was.
    pub fn remove(&mut self, id: &ObjectId) -> Option<Record> {
        let number = self.number(id)?;
        self.take(number).map(|node| node.record)
    }

    /// The objects that a stream has reported before and not in its relist: they are gone.
    #[must_use]
    pub fn vanished(&self, stream: StreamId, epoch: u32) -> Vec<ObjectId> {
        let gone = self.nodes.iter().flatten().filter(|node| node.stream == stream && node.epoch != epoch);
        gone.map(|node| node.record.id.clone()).collect()
    }

    /// The stream that reported an object last.
    #[must_use]
    pub fn reporter(&self, id: &ObjectId) -> Option<StreamId> {
        let number = self.number(id)?;
        self.nodes.get(number as usize)?.as_ref().map(|node| node.stream)
    }

    fn number(&self, id: &ObjectId) -> Option<u32> {
        let same = |number: &u32| self.record(*number).is_some_and(|record| record.id == *id);
        self.by_id.find(self.hasher.hash_one(id), same).copied()
    }

    fn record(&self, number: u32) -> Option<&Record> {
        self.nodes.get(number as usize)?.as_ref().map(|node| &node.record)
    }

    fn insert(&mut self, node: Node) {
        let number = self.free.pop().unwrap_or_else(|| {
            self.nodes.push(None);
            u32::try_from(self.nodes.len() - 1).unwrap_or(u32::MAX)
        });
        let (id, uid) = (self.hasher.hash_one(&node.record.id), self.hasher.hash_one(&node.record.uid));
        for owner in &*node.record.owners {
            self.owned.entry(owner.clone()).or_default().push(number);
        }
        if let Some(slot) = self.nodes.get_mut(number as usize) {
            *slot = Some(Box::new(node));
        }
        let Self { nodes, by_id, by_uid, hasher, .. } = self;
        let record =
            |number: &u32| nodes.get(*number as usize).and_then(Option::as_ref).map(|node| &node.record);
        by_id.insert_unique(id, number, |n| record(n).map_or(0, |r| hasher.hash_one(&r.id)));
        by_uid.insert_unique(uid, number, |n| record(n).map_or(0, |r| hasher.hash_one(&r.uid)));
    }

    fn take(&mut self, number: u32) -> Option<Box<Node>> {
        let node = self.nodes.get_mut(number as usize)?.take()?;
        let id = self.hasher.hash_one(&node.record.id);
        if let Ok(entry) = self.by_id.find_entry(id, |n| *n == number) {
            entry.remove();
        }
        let uid = self.hasher.hash_one(&node.record.uid);
        if let Ok(entry) = self.by_uid.find_entry(uid, |n| *n == number) {
            entry.remove();
        }
        for owner in &*node.record.owners {
            if let Some(owned) = self.owned.get_mut(owner) {
                owned.retain(|n| *n != number);
                if owned.is_empty() {
                    self.owned.remove(owner);
                }
            }
        }
        self.free.push(number);
        Some(node)
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use proptest::prelude::*;
    use settled_rules::RuleSet;

    use super::*;
    use crate::evaluator::Evaluator;

    fn record(name: u8, uid: u8, owner: Option<u8>, resource_version: u64) -> Record {
        let owners = owner.map_or_else(String::new, |owner| {
            format!(r#","ownerReferences":[{{"apiVersion":"v1","kind":"X","name":"x","uid":"u{owner}"}}]"#)
        });
        let json = format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"n{name}","namespace":"a","uid":"u{uid}","resourceVersion":"{resource_version}"{owners}}}}}"#
        );
        Evaluator::new(RuleSet::default(), Vec::new())
            .record(json.as_bytes(), Timestamp::UNIX_EPOCH, false)
            .unwrap()
    }

    proptest! {
        /// However objects come and go, the indexes say what the records say.
        #[test]
        fn indexes_agree_with_records(steps in prop::collection::vec((0..6_u8, 0..12_u8, prop::option::of(0..12_u8), any::<bool>()), 1..60)) {
            let mut graph = Graph::default();
            for (resource_version, (name, uid, owner, put)) in steps.into_iter().enumerate() {
                // A uid belongs to one name.
                let uid = name + 6 * (uid % 2);
                if put {
                    graph.put(record(name, uid, owner, resource_version as u64 + 1), 1_u32.into(), 1);
                } else {
                    graph.remove(&ObjectId::new("", "ConfigMap", "a", format!("n{name}")));
                }
                prop_assert_eq!(graph.iter().count(), graph.len());
                for known in graph.iter() {
                    prop_assert_eq!(&graph.get(&known.id).unwrap().uid, &known.uid);
                    prop_assert_eq!(&graph.by_uid(&known.uid).unwrap().id, &known.id);
                    for owner in &*known.owners {
                        prop_assert!(graph.owned(owner).any(|owned| owned.id == known.id));
                    }
                }
                let owned: usize = graph.owned.values().map(Vec::len).sum();
                prop_assert_eq!(owned, graph.iter().map(|record| record.owners.len()).sum::<usize>());
            }
        }
    }

    #[test]
    fn a_node_is_small() {
        // Thousands are kept, and the allocator rounds up: to 192 bytes, then to 224.
        assert!(size_of::<Node>() <= 192, "{}", size_of::<Node>());
    }

    #[test]
    fn old_news_is_none() {
        let mut graph = Graph::default();
        assert!(matches!(graph.put(record(1, 1, None, 5), 1_u32.into(), 1), Put::New));
        assert!(matches!(graph.put(record(1, 1, None, 4), 2_u32.into(), 1), Put::Stale));
        assert!(matches!(graph.put(record(1, 1, None, 6), 2_u32.into(), 1), Put::Changed(_)));
        // Another incarnation may begin with any resourceVersion.
        assert!(matches!(graph.put(record(1, 2, None, 3), 2_u32.into(), 1), Put::Changed(_)));
        assert!(graph.by_uid(&"u1".into()).is_none());
        assert_eq!(graph.vanished(2_u32.into(), 2).len(), 1);
        assert_eq!(graph.vanished(1_u32.into(), 2).len(), 0);
    }
}
