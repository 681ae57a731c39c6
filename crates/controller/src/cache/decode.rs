//! Decoding of objects into the store while a response is read.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLockWriteGuard, Weak};

use jiff::Timestamp;
use serde::de::{DeserializeOwned, Error as _};
use settled_watch::stream::Decode;
use tokio::sync::watch;

use super::changes::Change;
use super::store::{NewEntry, Store};
use super::{CacheStatus, Shared, count};
use crate::object::{FieldPath, ObjectKey, ObjectView};
use crate::predicate::{Compiled, Event, EventKind, Facts};
use crate::projection::Projection;
use crate::resource_version::ResourceVersion;
use crate::typed;

/// Selection and decoding of a cache's objects.
pub(super) struct Rules<T> {
    pub(super) objects: Compiled,
    /// Predicate of reported changes; `None` reports all.
    pub(super) events: Option<Compiled>,
    pub(super) projection: Projection,
    pub(super) indexes: Vec<Index<T>>,
}

/// Indexes.
pub(super) struct Index<T> {
    pub(super) name: Box<str>,
    pub(super) key: IndexKey<T>,
}

/// Index function on the stored type.
pub(super) type KeyFunction<T> = Box<dyn Fn(&T) -> Vec<String> + Send + Sync>;

pub(super) enum IndexKey<T> {
    Owners,
    Field(FieldPath),
    Function(KeyFunction<T>),
}

impl<T> Rules<T> {
    pub(super) fn index_named(&self, name: &str) -> Option<usize> {
        self.indexes.iter().position(|index| *index.name == *name)
    }
}

impl<T: DeserializeOwned> Rules<T> {
    /// Decodes an object; `None` if it does not match.
    pub(super) fn read(&self, json: &[u8]) -> Result<Option<T>, serde_json::Error> {
        match ObjectView::parse(json) {
            Ok(object) if !self.objects.matches(&object) => Ok(None),
            Ok(object) => self.project(&object).map(Some),
            Err(error) => Err(serde_json::Error::custom(error)),
        }
    }

    fn project(&self, object: &ObjectView<'_>) -> Result<T, serde_json::Error> {
        typed::selected_from_node(object.root(), self.projection.selection())
    }

    /// Index values of an object.
    fn keys(&self, object: &ObjectView<'_>, value: &T) -> Vec<(usize, String)> {
        let mut keys = Vec::new();
        for (number, index) in self.indexes.iter().enumerate() {
            match &index.key {
                IndexKey::Owners => {
                    let uids = object.owners().filter_map(|owner| owner.get("uid")?.as_str());
                    keys.extend(uids.map(|uid| (number, uid.into_owned())));
                }
                IndexKey::Field(path) => {
                    let text = object.field(path).and_then(|value| match value.as_str() {
                        Some(text) => Some(text.into_owned()),
                        None => Some(value.as_int()?.to_string()),
                    });
                    keys.extend(text.map(|text| (number, text)));
                }
                IndexKey::Function(key) => keys.extend(key(value).into_iter().map(|key| (number, key))),
            }
        }
        keys
    }
}

/// A cache as the target of its watch, without the type of its objects: the code of the watch is compiled once, not for each type.
pub(super) trait WatchTarget: Decode<Item = ()> {
    /// The state of the watch.
    fn status(&self) -> &watch::Sender<CacheStatus>;
    /// Counts a failure of the watch.
    fn failed(&self);
}

/// Applies watch events to the store.
pub(super) struct Decoder<T> {
    shared: Arc<Shared<T>>,
    /// Whether an initial list or a relist is in progress.
    syncing: AtomicBool,
    /// What was decoded and is not applied yet.
    decoded: Mutex<Vec<Decoded<T>>>,
}

/// What is to happen to the store.
enum Decoded<T> {
    Put(Box<Object<T>>),
    /// An object is gone, or does not match.
    Remove {
        namespace: Box<str>,
        name: Box<str>,
        version: ResourceVersion,
    },
    Restarted,
    Synced(ResourceVersion),
    Bookmark(ResourceVersion),
}

/// An object that is to be stored.
struct Object<T> {
    namespace: Box<str>,
    name: Box<str>,
    version: ResourceVersion,
    value: T,
    facts: Option<Facts>,
    keys: Vec<(usize, String)>,
}

impl<T> Decoder<T> {
    pub(super) fn new(shared: Arc<Shared<T>>) -> Self {
        Self { shared, syncing: AtomicBool::new(true), decoded: Mutex::default() }
    }

    fn push(&self, decoded: Decoded<T>) {
        self.decoded.lock().unwrap_or_else(PoisonError::into_inner).push(decoded);
    }

    fn push_removed(&self, object: &ObjectView<'_>, version: ResourceVersion) {
        let (namespace, name) = (object.namespace().into(), object.name().into());
        self.push(Decoded::Remove { namespace, name, version });
    }

    fn apply_one(&self, decoded: Decoded<T>) {
        let shared = &self.shared;
        match decoded {
            Decoded::Put(object) => {
                let Object { namespace, name, version, value, facts, keys } = *object;
                let new = NewEntry {
                    namespace: &namespace,
                    name: &name,
                    version: version.clone(),
                    value,
                    facts,
                    keys,
                };
                // A relist may show several missed writes as one change.
                let is_consecutive = !self.syncing.load(Ordering::Relaxed);
                shared.put(&mut self.store(), new, is_consecutive);
                self.advance(version);
            }
            Decoded::Remove { namespace, name, version } => {
                shared.remove_named(&mut self.store(), &namespace, &name, &version);
                self.advance(version);
            }
            Decoded::Restarted => {
                self.syncing.store(true, Ordering::Relaxed);
                self.store().begin_list();
            }
            Decoded::Synced(version) => {
                shared.end_list(&mut self.store());
                self.syncing.store(false, Ordering::Relaxed);
                self.advance(version);
                shared.ready.send_replace(true);
            }
            Decoded::Bookmark(version) => self.advance(version),
        }
    }

    fn store(&self) -> RwLockWriteGuard<'_, Store<T>> {
        self.shared.store.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// resourceVersion of the store. Items of a list are not ordered by resourceVersion.
    fn advance(&self, version: ResourceVersion) {
        if !self.syncing.load(Ordering::Relaxed) {
            self.shared.position.send_replace(Some(version));
        }
    }
}

impl<T> Shared<T> {
    /// Reports a change to all readers. The store is locked meanwhile, so that a new reader misses nothing.
    fn report(&self, _store: &Store<T>, change: &Change<T>) {
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        readers.retain(|reader| {
            let reader = Weak::upgrade(reader);
            reader.inspect(|reader| reader.push(change.clone())).is_some()
        });
    }

    /// Removes an object, and reports it as deleted.
    pub(super) fn remove_named(
        &self,
        store: &mut Store<T>,
        namespace: &str,
        name: &str,
        version: &ResourceVersion,
    ) {
        if let Some(entry) = store.remove(namespace, name) {
            self.report(store, &Change::deleted(entry, Some(version.clone())));
        }
    }

    /// Stores an object, and reports the change.
    pub(super) fn put(&self, store: &mut Store<T>, new: NewEntry<'_, T>, is_consecutive: bool) {
        let (namespace, name, version) = (new.namespace, new.name, new.version.clone());
        let old = store.put(new);
        // Most objects of a relist are unchanged.
        if old.as_ref().is_some_and(|old| old.version == version) {
            return;
        }
        let Some(entry) = store.get(namespace, name) else { return };
        let kind = if old.is_some() { EventKind::Update } else { EventKind::Create };
        let accepted = self.rules.events.as_ref().zip(entry.facts.as_ref()).is_none_or(|(events, new)| {
            let old = old.as_ref().and_then(|old| old.facts.as_ref());
            events.accepts(&Event { kind, old, new, is_consecutive })
        });
        if !accepted {
            return count(&self.counters.suppressed);
        }
        let mut change = Change::created(entry.key(), entry);
        change.kind = kind;
        change.old = old.map(|old| old.value);
        self.report(store, &change);
    }

    /// Removes the objects that were not in the list, and reports them as deleted.
    pub(super) fn end_list(&self, store: &mut Store<T>) {
        for entry in store.end_list() {
            self.report(store, &Change::deleted(entry, None));
        }
    }
}

impl<T: DeserializeOwned + Send + Sync> Decoder<T> {
    /// An object that matches is to be stored.
    fn keep(&self, object: &ObjectView<'_>, version: ResourceVersion) {
        let (shared, rules) = (&*self.shared, &self.shared.rules);
        let value = match rules.project(object) {
            Ok(value) => value,
            Err(error) => {
                count(&shared.counters.malformed);
                let key = ObjectKey::from(object);
                let kind = shared.source.as_ref().map(|source| &source.scope.resource.kind);
                tracing::warn!(kind = kind.map(|kind| &**kind), %key, %error, "cannot decode object; omitted from the cache");
                return self.push_removed(object, version);
            }
        };
        let keys = rules.keys(object, &value);
        let facts = rules.events.as_ref().map(|events| events.facts(object));
        let (namespace, name) = (object.namespace().into(), object.name().into());
        self.push(Decoded::Put(Box::new(Object { namespace, name, version, value, facts, keys })));
    }
}

impl<T: DeserializeOwned + Send + Sync> Decode for Decoder<T> {
    /// What is decoded is kept here until it is applied.
    type Item = ();

    fn decode(&self, json: &[u8], _now: Timestamp) -> Option<((), u64)> {
        let counters = &self.shared.counters;
        count(&counters.events);
        counters.bytes.fetch_add(json.len() as u64, Ordering::Relaxed);
        let Ok(object) = ObjectView::parse(json) else {
            count(&counters.malformed);
            return None;
        };
        let version = ResourceVersion::new(&object.resource_version());
        let number = version.as_u64();
        if self.shared.rules.objects.matches(&object) {
            self.keep(&object, version);
        } else {
            count(&counters.dropped);
            self.push_removed(&object, version);
        }
        Some(((), number))
    }

    fn decode_deleted(&self, json: &[u8], _now: Timestamp) -> Option<((), u64)> {
        count(&self.shared.counters.events);
        let object = ObjectView::parse(json).ok()?;
        let version = ResourceVersion::new(&object.resource_version());
        let number = version.as_u64();
        self.push_removed(&object, version);
        Some(((), number))
    }

    fn restarted(&self) {
        count(&self.shared.counters.lists);
        self.push(Decoded::Restarted);
    }

    fn synced(&self, resource_version: &str) {
        self.push(Decoded::Synced(ResourceVersion::new(resource_version)));
    }

    fn bookmark(&self, resource_version: &str) {
        self.push(Decoded::Bookmark(ResourceVersion::new(resource_version)));
    }

    fn apply(&self) {
        let decoded = std::mem::take(&mut *self.decoded.lock().unwrap_or_else(PoisonError::into_inner));
        decoded.into_iter().for_each(|decoded| self.apply_one(decoded));
    }
}

impl<T: DeserializeOwned + Send + Sync> WatchTarget for Decoder<T> {
    fn status(&self) -> &watch::Sender<CacheStatus> {
        &self.shared.status
    }

    fn failed(&self) {
        count(&self.shared.counters.failures);
    }
}
