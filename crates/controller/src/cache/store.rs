//! Store of a cache: objects by key, and indexes.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::object::ObjectKey;
use crate::predicate::Facts;
use crate::resource_version::ResourceVersion;

/// Slot of an object.
type Slot = u32;

/// A stored object.
pub(crate) struct Entry<T> {
    pub(super) namespace: Arc<str>,
    pub(super) name: Arc<str>,
    pub(super) version: ResourceVersion,
    pub(super) value: Arc<T>,
    /// Facts for comparing it with its next version.
    pub(super) facts: Option<Facts>,
    /// Its index values.
    pub(super) keys: Box<[(usize, Arc<str>)]>,
    /// Number of the last list that contained or preceded it.
    list: u32,
}

/// An object to store.
pub(super) struct NewEntry<'e, T> {
    pub(super) namespace: &'e str,
    pub(super) name: &'e str,
    pub(super) version: ResourceVersion,
    pub(super) value: T,
    pub(super) facts: Option<Facts>,
    /// Number of an index, and a value in it.
    pub(super) keys: Vec<(usize, String)>,
}

/// Objects by namespace and name. Lookups do not allocate.
pub(crate) struct Store<T> {
    slots: HashMap<Arc<str>, HashMap<Arc<str>, Slot>>,
    entries: Vec<Option<Entry<T>>>,
    free: Vec<Slot>,
    indexes: Vec<HashMap<Arc<str>, BTreeSet<Slot>>>,
    /// Number of lists so far.
    lists: u32,
}

impl<T> Store<T> {
    pub(super) fn new(indexes: usize) -> Self {
        Self {
            slots: HashMap::new(),
            entries: Vec::new(),
            free: Vec::new(),
            indexes: vec![HashMap::new(); indexes],
            lists: 0,
        }
    }

    fn slot(&self, namespace: &str, name: &str) -> Option<Slot> {
        self.slots.get(namespace)?.get(name).copied()
    }

    fn entry(&self, slot: Slot) -> Option<&Entry<T>> {
        self.entries.get(slot as usize)?.as_ref()
    }

    pub(super) fn get(&self, namespace: &str, name: &str) -> Option<&Entry<T>> {
        self.entry(self.slot(namespace, name)?)
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &Arc<T>> {
        self.entries.iter().flatten().map(|entry| &entry.value)
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = (ObjectKey, &Entry<T>)> {
        self.entries.iter().flatten().map(|entry| (entry.key(), entry))
    }

    pub(super) fn keys(&self) -> Vec<ObjectKey> {
        self.entries.iter().flatten().map(Entry::key).collect()
    }

    pub(super) fn indexed(&self, index: usize, value: &str) -> impl Iterator<Item = &Arc<T>> {
        let slots = self.indexes.get(index).and_then(|index| index.get(value));
        slots.into_iter().flatten().filter_map(|slot| self.entry(*slot)).map(|entry| &entry.value)
    }

    /// Starts a list.
    pub(super) fn begin_list(&mut self) {
        self.lists += 1;
    }

    /// Ends a list: removes objects that were neither in it nor added since.
    pub(super) fn end_list(&mut self) -> Vec<Entry<T>> {
        let lists = self.lists;
        let gone = self.entries.iter().flatten().filter(|entry| entry.list != lists);
        let gone: Vec<_> = gone.map(|entry| (Arc::clone(&entry.namespace), entry.name.clone())).collect();
        gone.iter().filter_map(|(namespace, name)| self.remove(namespace, name)).collect()
    }

    /// Stores an object. Returns the previous version.
    pub(super) fn put(&mut self, new: NewEntry<'_, T>) -> Option<Entry<T>> {
        let old = self.remove(new.namespace, new.name);
        let namespace = match self.slots.get_key_value(new.namespace) {
            Some((namespace, _)) => Arc::clone(namespace),
            None => Arc::from(new.namespace),
        };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            Slot::try_from(self.entries.len() - 1).unwrap_or(Slot::MAX)
        });
        let keys = new.keys.into_iter().filter_map(|(number, value)| {
            let index = self.indexes.get_mut(number)?;
            let value = match index.get_key_value(&*value) {
                Some((value, _)) => Arc::clone(value),
                None => Arc::from(value),
            };
            index.entry(Arc::clone(&value)).or_default().insert(slot);
            Some((number, value))
        });
        let name: Arc<str> = new.name.into();
        let entry = Entry {
            namespace: Arc::clone(&namespace),
            name: Arc::clone(&name),
            version: new.version,
            value: Arc::new(new.value),
            facts: new.facts,
            keys: keys.collect(),
            list: self.lists,
        };
        self.slots.entry(namespace).or_default().insert(name, slot);
        if let Some(place) = self.entries.get_mut(slot as usize) {
            *place = Some(entry);
        }
        old
    }

    /// Removes an object. Returns it.
    pub(super) fn remove(&mut self, namespace: &str, name: &str) -> Option<Entry<T>> {
        let names = self.slots.get_mut(namespace)?;
        let slot = names.remove(name)?;
        if names.is_empty() {
            self.slots.remove(namespace);
        }
        let entry = self.entries.get_mut(slot as usize)?.take()?;
        self.free.push(slot);
        for (number, value) in &entry.keys {
            let Some(index) = self.indexes.get_mut(*number) else { continue };
            if let Some(slots) = index.get_mut(value) {
                slots.remove(&slot);
                if slots.is_empty() {
                    index.remove(value);
                }
            }
        }
        Some(entry)
    }
}

impl<T> Entry<T> {
    pub(super) fn key(&self) -> ObjectKey {
        ObjectKey { namespace: Arc::clone(&self.namespace), name: Arc::clone(&self.name) }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Put(u8, u8),
        Remove(u8),
        List(Vec<u8>),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            4 => (0..6_u8, 0..3_u8).prop_map(|(name, value)| Step::Put(name, value)),
            2 => (0..6_u8).prop_map(Step::Remove),
            1 => prop::collection::vec(0..6_u8, 0..4).prop_map(Step::List),
        ];
        prop::collection::vec(step, 0..40)
    }

    fn put(store: &mut Store<u8>, name: u8, value: u8) -> Option<u8> {
        let old = store.put(NewEntry {
            namespace: if name.is_multiple_of(2) { "even" } else { "odd" },
            name: &name.to_string(),
            version: ResourceVersion::new("1"),
            value,
            facts: None,
            keys: vec![(0, value.to_string())],
        });
        old.map(|entry| *entry.value)
    }

    proptest! {
        /// For any sequence of puts, removals and lists, objects and indexes are equal to those of a plain map.
        #[test]
        fn a_store_is_a_map_with_indexes(steps in steps()) {
            let (mut store, mut model) = (Store::new(1), BTreeMap::new());
            for step in steps {
                match step {
                    Step::Put(name, value) => {
                        prop_assert_eq!(put(&mut store, name, value), model.insert(name, value));
                    }
                    Step::Remove(name) => {
                        let namespace = if name.is_multiple_of(2) { "even" } else { "odd" };
                        let removed = store.remove(namespace, &name.to_string()).map(|entry| *entry.value);
                        prop_assert_eq!(removed, model.remove(&name));
                    }
                    Step::List(names) => {
                        store.begin_list();
                        for name in &names {
                            put(&mut store, *name, 9);
                            model.insert(*name, 9);
                        }
                        let gone = store.end_list().len();
                        let before = model.len();
                        model.retain(|name, _| names.contains(name));
                        prop_assert_eq!(gone, before - model.len());
                    }
                }
                prop_assert_eq!(store.len(), model.len());
                for value in 0..10_u8 {
                    let indexed = store.indexed(0, &value.to_string()).count();
                    prop_assert_eq!(indexed, model.values().filter(|its| **its == value).count());
                }
                prop_assert_eq!(store.indexes[0].len(), model.values().collect::<BTreeSet<_>>().len());
            }
        }
    }
}
