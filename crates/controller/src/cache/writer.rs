//! Writer: fills a cache with the events of a kube-rs watcher, as the writer of kube-rs' store does.

use std::fmt;
use std::hash::Hash;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockWriteGuard};

use kube::runtime::reflector::{Lookup, ObjectRef};
use kube::runtime::watcher::Event;
use tokio::sync::watch;

use super::decode::Rules;
use super::store::{NewEntry, Store};
use super::{Cache, CacheStatus, Counters, Running, Shared, count};
use crate::object::ObjectKey;
use crate::predicate::{self, Compiled};
use crate::projection::Projection;
use crate::resource_version::ResourceVersion;

/// Fills a [`Cache`] with the events of a watcher, in place of a watch of its own.
///
/// The objects of a list replace the stored ones all at once, when the list is complete.
pub struct Writer<K>
where
    K: Lookup,
{
    shared: Arc<Shared<K>>,
    running: Arc<Running>,
    dropped: watch::Sender<bool>,
    dyntype: K::DynamicType,
    /// Objects of an incomplete list.
    listed: Vec<K>,
    /// Whether there is an incomplete list.
    syncing: bool,
}

/// The cache of a [`Writer`], with the methods and parameters of kube-rs' `Store`.
#[derive(Debug)]
pub struct Reader<K>(Cache<K>);

impl<K> Clone for Reader<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K> Deref for Reader<K> {
    type Target = Cache<K>;

    fn deref(&self) -> &Cache<K> {
        &self.0
    }
}

impl<K> Reader<K> {
    /// The reader of a cache that a watch of its own fills.
    pub(crate) const fn of(cache: Cache<K>) -> Self {
        Self(cache)
    }
}

impl<K: Lookup> Reader<K> {
    /// As [`Cache::get`], with a reference whose type is inferred.
    #[must_use]
    pub fn get(&self, reference: &ObjectRef<K>) -> Option<Arc<K>> {
        self.0.get(reference)
    }
}

impl<K> Writer<K>
where
    K: Lookup + Clone + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    /// A writer for a kind. `Default` is for those that are known at compile time.
    #[must_use]
    pub fn new(dyntype: K::DynamicType) -> Self {
        let dropped = watch::Sender::new(false);
        let rules = Rules {
            objects: Compiled::new(&predicate::always(true)),
            events: None,
            projection: Projection::all(),
            indexes: Vec::new(),
        };
        let shared = Shared {
            source: None,
            rules,
            store: RwLock::new(Store::new(0)),
            readers: Mutex::default(),
            status: watch::Sender::new(CacheStatus::Syncing),
            ready: watch::Sender::new(false),
            position: watch::Sender::new(None),
            counters: Counters::default(),
        };
        let running = Arc::new(Running::Writer(dropped.subscribe()));
        Self { shared: Arc::new(shared), running, dropped, dyntype, listed: Vec::new(), syncing: false }
    }

    /// The cache that is filled.
    #[must_use]
    pub fn as_reader(&self) -> Reader<K> {
        Reader(Cache { shared: Arc::clone(&self.shared), running: Arc::clone(&self.running) })
    }

    /// Applies an event of a watcher.
    pub fn apply_watcher_event(&mut self, event: &Event<K>) {
        match event {
            Event::Apply(object) => {
                count(&self.shared.counters.events);
                let version = self.put(&mut self.store(), object.clone(), !self.syncing);
                self.advance(version);
            }
            Event::Delete(object) => {
                count(&self.shared.counters.events);
                let (key, version) = (key(object), version(object));
                self.shared.remove_named(&mut self.store(), &key.namespace, &key.name, &version);
                self.advance(version);
            }
            Event::Init => {
                count(&self.shared.counters.lists);
                (self.syncing, self.listed) = (true, Vec::new());
                self.shared.status.send_replace(CacheStatus::Syncing);
            }
            Event::InitApply(object) => {
                count(&self.shared.counters.events);
                self.listed.push(object.clone());
            }
            Event::InitDone => self.end_list(),
        }
    }

    fn end_list(&mut self) {
        // The watcher does not tell the resourceVersion of the list, which is at least that of its newest object.
        let mut newest: Option<ResourceVersion> = None;
        let listed = std::mem::take(&mut self.listed);
        let mut store = self.store();
        store.begin_list();
        for object in listed {
            let version = self.put(&mut store, object, false);
            if newest.as_ref().is_none_or(|newest| newest.as_u64() < version.as_u64()) {
                newest = Some(version);
            }
        }
        self.shared.end_list(&mut store);
        drop(store);
        self.syncing = false;
        if let Some(newest) = newest {
            self.advance(newest);
        }
        self.shared.status.send_replace(CacheStatus::Synced);
        self.shared.ready.send_replace(true);
    }

    fn store(&self) -> RwLockWriteGuard<'_, Store<K>> {
        self.shared.store.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores an object. Returns its resourceVersion.
    fn put(&self, store: &mut Store<K>, value: K, is_consecutive: bool) -> ResourceVersion {
        let (key, version) = (key(&value), version(&value));
        let new = NewEntry {
            namespace: &key.namespace,
            name: &key.name,
            version: version.clone(),
            value,
            facts: None,
            keys: Vec::new(),
        };
        self.shared.put(store, new, is_consecutive);
        version
    }

    fn advance(&self, version: ResourceVersion) {
        if !self.syncing {
            self.shared.position.send_replace(Some(version));
        }
    }
}

fn key<K: Lookup>(object: &K) -> ObjectKey {
    ObjectKey::new(&object.namespace().unwrap_or_default(), &object.name().unwrap_or_default())
}

fn version<K: Lookup>(object: &K) -> ResourceVersion {
    ResourceVersion::new(&object.resource_version().unwrap_or_default())
}

impl<K> Default for Writer<K>
where
    K: Lookup + Clone + 'static,
    K::DynamicType: Default + Eq + Hash + Clone,
{
    fn default() -> Self {
        Self::new(K::DynamicType::default())
    }
}

impl<K: Lookup> Drop for Writer<K> {
    fn drop(&mut self) {
        self.dropped.send_replace(true);
    }
}

impl<K: Lookup> fmt::Debug for Writer<K> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Writer").field("kind", &K::kind(&self.dyntype)).finish_non_exhaustive()
    }
}
