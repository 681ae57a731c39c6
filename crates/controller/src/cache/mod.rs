//! A cache of the objects of a kind that holds only what is wanted of them: filtered and projected while they arrive.
//!
//! An informer, or kube-rs' reflector, parses and keeps every object. A [`Cache`] looks at the bytes of each object first: one that its
//! predicate rejects costs no allocation, and of one that is kept only the fields of its projection are parsed.
//!
//! ```no_run
//! # async fn run(client: kube::Client) -> Result<(), Box<dyn std::error::Error>> {
//! use futures::StreamExt;
//! use k8s_openapi::api::core::v1::Pod;
//! use serde::Deserialize;
//! use settled_controller::cache::Cache;
//! use settled_controller::{ObjectKey, Projection, predicate};
//!
//! /// What is kept of a Pod.
//! #[derive(Deserialize)]
//! struct Placement {
//!     spec: Spec,
//! }
//! #[derive(Deserialize)]
//! #[serde(rename_all = "camelCase")]
//! struct Spec {
//!     node_name: Option<String>,
//! }
//!
//! let pods = Cache::<Placement>::of::<Pod>(client)
//!     .objects(predicate::owned_by("DaemonSet"))
//!     .projection(Projection::only(["spec.nodeName"]))
//!     .index_owners()
//!     .index_field("spec.nodeName")
//!     .start();
//! pods.wait_until_ready().await?;
//! let one = pods.get(ObjectKey::new("kube-system", "kube-proxy-x7d2k"));
//! let on_node = pods.indexed("spec.nodeName", "node-1")?;
//! let mut changes = pods.changes();
//! while let Some(change) = changes.next().await {
//!     println!("{}: {:?}", change.key, change.kind);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! What is kept is any type that serde reads: a small struct, a typed object (`Pod`), a partial one (`PartialObjectMeta<Pod>`, of which the
//! server sends the metadata alone) or a dynamic one (`DynamicObject`). [`Cache::builder`] is for types of kube-rs; such a cache has all methods
//! of kube-rs' `Store`, by the same names, and goes wherever a `Store` is read: in the context of a `Controller`, for example.
//!
//! - Objects that stop matching are removed, and reported as deleted. After a relist, so are those that are gone.
//! - [`Cache::changes`] reports each change with the old and the new object. A slow reader costs at most one entry for each object: changes
//!   that it has not read are merged, so it holds up neither the watch nor other readers.
//! - A watch that fails is retried with backoff, by itself: no other watch waits for it. [`Cache::status`] says why it fails.
//! - [`Fence`](crate::Fence) makes a reconciler wait until the cache has seen its own writes.

mod builder;
mod changes;
mod decode;
mod store;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, Weak};

use kube::ResourceExt;
use kube::core::{Selector, SelectorExt as _};
use settled_watch::stream::Scope;
use settled_watch::{Cluster, RequestError};
use tokio::sync::watch;

pub use builder::CacheBuilder;
pub use changes::{Change, Changes};

use crate::object::ObjectKey;
use crate::resource_version::ResourceVersion;
use changes::Queue;
use decode::Rules;
use store::Store;

/// The objects of a kind that match, as far as they are wanted. Copies share them; the watch ends with the last copy.
pub struct Cache<T> {
    shared: Arc<Shared<T>>,
    running: Arc<Running>,
}

/// Ends the watch when nobody reads the cache any more.
struct Running(tokio::task::AbortHandle);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.abort();
    }
}

pub(crate) struct Shared<T> {
    cluster: Cluster,
    scope: Scope,
    rules: Rules<T>,
    store: RwLock<Store<T>>,
    readers: Mutex<Vec<Weak<Queue<T>>>>,
    status: watch::Sender<CacheStatus>,
    ready: watch::Sender<bool>,
    /// All changes up to here are in the store; none before the first list is complete.
    position: watch::Sender<Option<ResourceVersion>>,
    counters: Counters,
}

/// How the watch of a cache is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CacheStatus {
    /// The initial list, or a relist, is not complete. Until a relist is, the objects from before it are there.
    #[default]
    Syncing,
    /// All objects were read, and changes are read as they happen.
    Synced,
    /// The last request failed. It is tried again, within 10 s.
    Unreachable(RequestError),
    /// Listing or watching is forbidden. It is tried again, within a minute.
    Forbidden(RequestError),
    /// The server rejects the request: a selector that it does not know, for example. It is tried again, within a minute.
    Rejected(RequestError),
    /// The server does not have this kind, or no longer. It is tried again, within 10 s.
    NoKind,
}

/// The cache was closed before it was ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the cache was closed before its objects were listed")]
pub struct CacheClosed;

/// The cache has no such index.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the cache has no index \"{0}\"")]
pub struct NoIndex(pub String);

/// Why an object could not be read from the server.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LiveReadError {
    /// The request failed.
    #[error("cannot get the object")]
    Request(#[source] RequestError),
    /// The object is not what the cache keeps.
    #[error("cannot read the object")]
    Decode(#[source] Arc<serde_json::Error>),
}

/// What a cache has had so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheMetrics {
    /// The objects that are kept.
    pub objects: u64,
    /// The objects and events that came from the server.
    pub events: u64,
    /// Of these, those that the predicate on objects rejected.
    pub dropped: u64,
    /// Of these, those that could not be read as what is kept.
    pub malformed: u64,
    /// Changes of objects that the predicate on events rejected: they are in the cache, and were not reported.
    pub suppressed: u64,
    /// Lists from the beginning: the first one, and one for each time that the server had forgotten the resourceVersion.
    pub lists: u64,
    /// Requests that failed.
    pub failures: u64,
    /// The bytes of the objects that came from the server.
    pub bytes: u64,
}

#[derive(Debug, Default)]
struct Counters {
    events: AtomicU64,
    dropped: AtomicU64,
    malformed: AtomicU64,
    suppressed: AtomicU64,
    lists: AtomicU64,
    failures: AtomicU64,
    bytes: AtomicU64,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl<T> Clone for Cache<T> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), running: Arc::clone(&self.running) }
    }
}

impl<T> fmt::Debug for Cache<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Cache").field("metrics", &self.metrics()).finish_non_exhaustive()
    }
}

impl<T> Cache<T> {
    fn store(&self) -> RwLockReadGuard<'_, Store<T>> {
        self.shared.store.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until all objects have been listed once. It does not fail where the server does: that is tried again until it succeeds;
    /// [`Cache::status`] says why it takes so long.
    ///
    /// # Errors
    /// The runtime that the cache was started on has shut down.
    pub async fn wait_until_ready(&self) -> Result<(), CacheClosed> {
        let mut ready = self.shared.ready.subscribe();
        loop {
            if *ready.borrow_and_update() {
                return Ok(());
            }
            if self.running.0.is_finished() {
                return Err(CacheClosed);
            }
            // The sender is there as long as this copy is; a task that was ended from outside does not say so.
            let waited = tokio::time::timeout(std::time::Duration::from_secs(1), ready.changed()).await;
            if matches!(waited, Ok(Err(_))) {
                return Err(CacheClosed);
            }
        }
    }

    /// Whether all objects have been listed once.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        *self.shared.ready.borrow()
    }

    /// How the watch is.
    #[must_use]
    pub fn status(&self) -> CacheStatus {
        self.shared.status.borrow().clone()
    }

    /// How the watch is, and becomes.
    #[must_use]
    pub fn watch_status(&self) -> watch::Receiver<CacheStatus> {
        self.shared.status.subscribe()
    }

    /// An object: by its key, or by kube-rs' `ObjectRef`. As in kube-rs' `Store`, the namespace of a reference to an object of the cluster
    /// does not matter.
    #[must_use]
    pub fn get(&self, key: impl Into<ObjectKey>) -> Option<Arc<T>> {
        let (key, store) = (key.into(), self.store());
        let value = |namespace: &str| store.get(namespace, &key.name).map(|entry| Arc::clone(&entry.value));
        value(&key.namespace).or_else(|| value(""))
    }

    /// The resourceVersion of an object that is kept.
    #[must_use]
    pub fn resource_version(&self, key: impl Into<ObjectKey>) -> Option<ResourceVersion> {
        let key = key.into();
        self.store().get(&key.namespace, &key.name).map(|entry| entry.version.clone())
    }

    /// All objects.
    #[must_use]
    pub fn state(&self) -> Vec<Arc<T>> {
        self.store().values().cloned().collect()
    }

    /// An object that a function accepts.
    #[must_use]
    pub fn find(&self, accepts: impl Fn(&T) -> bool) -> Option<Arc<T>> {
        self.store().values().find(|value| accepts(value)).cloned()
    }

    /// All objects that a function accepts.
    #[must_use]
    pub fn state_filter(&self, accepts: impl Fn(&T) -> bool) -> Vec<Arc<T>> {
        self.store().values().filter(|value| accepts(value)).cloned().collect()
    }

    /// All objects whose labels match.
    #[must_use]
    pub fn state_filter_selector(&self, selector: &Selector) -> Vec<Arc<T>>
    where
        T: ResourceExt,
    {
        self.state_filter(|object| selector.matches(object.labels()))
    }

    /// The keys of all objects.
    #[must_use]
    pub fn keys(&self) -> Vec<ObjectKey> {
        self.store().keys()
    }

    /// How many objects there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.store().len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All objects with a value in an index: see [`CacheBuilder`] for the indexes and their names.
    ///
    /// # Errors
    /// The cache has no such index.
    pub fn indexed(&self, index: &str, value: &str) -> Result<Vec<Arc<T>>, NoIndex> {
        let index = self.shared.rules.index_named(index).ok_or_else(|| NoIndex(index.to_owned()))?;
        Ok(self.store().indexed(index, value).cloned().collect())
    }

    /// All objects with this UID in their owner references. [`CacheBuilder::index_owners`] makes it an index.
    ///
    /// # Errors
    /// The cache has no such index.
    pub fn owned_by(&self, uid: &str) -> Result<Vec<Arc<T>>, NoIndex> {
        self.indexed(builder::OWNERS, uid)
    }

    /// All changes from now on, after all objects that are there, as created.
    #[must_use]
    pub fn changes(&self) -> Changes<T> {
        let queue = Arc::new(Queue::default());
        // The store is locked: no change comes between the objects and the changes after them.
        let store = self.store();
        for (key, entry) in store.entries() {
            queue.push(Change::created(key, entry));
        }
        self.shared.readers.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(&queue));
        drop(store);
        Changes::new(queue, Arc::clone(&self.running) as Arc<dyn std::any::Any + Send + Sync>)
    }

    /// The resourceVersion up to which all changes are in the cache; none before the first list is complete.
    #[must_use]
    pub fn position(&self) -> Option<ResourceVersion> {
        self.shared.position.borrow().clone()
    }

    /// The same, and how it advances.
    #[must_use]
    pub fn watch_position(&self) -> watch::Receiver<Option<ResourceVersion>> {
        self.shared.position.subscribe()
    }

    /// What the cache has had so far.
    #[must_use]
    pub fn metrics(&self) -> CacheMetrics {
        let (read, counters) = (|counter: &AtomicU64| counter.load(Ordering::Relaxed), &self.shared.counters);
        CacheMetrics {
            objects: self.len() as u64,
            events: read(&counters.events),
            dropped: read(&counters.dropped),
            malformed: read(&counters.malformed),
            suppressed: read(&counters.suppressed),
            lists: read(&counters.lists),
            failures: read(&counters.failures),
            bytes: read(&counters.bytes),
        }
    }

    /// An object as the server has it now, read as the cache reads it; none where it is gone, or does not match. The cache is not changed.
    ///
    /// # Errors
    /// The request failed, or the object cannot be read.
    pub async fn get_live(&self, key: impl Into<ObjectKey>) -> Result<Option<Arc<T>>, LiveReadError>
    where
        T: serde::de::DeserializeOwned,
    {
        let (key, scope) = (key.into(), &self.shared.scope);
        let namespace = Some(&*key.namespace).filter(|namespace| !namespace.is_empty());
        match self.shared.cluster.object(&scope.resource, namespace, &key.name).await {
            Ok(json) => {
                let value = self.shared.rules.read(&json);
                Ok(value.map_err(|error| LiveReadError::Decode(Arc::new(error)))?.map(Arc::new))
            }
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(LiveReadError::Request(error)),
        }
    }
}
