//! Cache of the objects of a kind that filters and projects them while they arrive.
//!
//! An informer, or kube-rs' reflector, parses and stores every object. A [`Cache`] scans the bytes of each object
//! first: one that its predicate rejects costs no allocation, and of the others only the fields of the projection are
//! parsed.
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
//! The stored type is any type with `Deserialize`: a small struct, a typed object (`Pod`), a partial one
//! (`PartialObjectMeta<Pod>`, for which the server sends metadata only) or a dynamic one (`DynamicObject`).
//! [`Cache::builder`] is for types of kube-rs; such a cache has all methods of kube-rs' `Store` with the same names,
//! and can replace it, for example in the context of a `Controller`. Code written for kube-rs' reflector runs on it with
//! other imports: see [`runtime`](crate::runtime).
//!
//! - Objects that stop matching are removed, and reported as deleted, as are those missing after a relist.
//! - [`Cache::changes`] reports the existing objects, and then each change with the old and the new object. A slow reader costs at most one entry per
//!   object: unread changes are merged, so it blocks neither the watch nor other readers.
//! - A failed watch is retried with backoff, independently of others. [`Cache::status`] has the error.
//! - [`Fence`](crate::Fence) makes a reconciler wait until the cache has its own writes.

mod builder;
mod changes;
mod decode;
mod store;
mod writer;

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
pub use writer::{Reader, Writer};

use crate::object::ObjectKey;
use crate::resource_version::ResourceVersion;
use changes::Queue;
use decode::Rules;
use store::Store;

/// The selected objects of a kind, projected. Clones share them; the watch ends with the last clone.
pub struct Cache<T> {
    shared: Arc<Shared<T>>,
    running: Arc<Running>,
}

/// What fills the store.
enum Running {
    /// The watch of the cache. It ends when the last clone is dropped.
    Watch(tokio::task::AbortHandle),
    /// A [`Writer`], and whether it was dropped.
    Writer(watch::Receiver<bool>),
}

impl Running {
    fn is_finished(&self) -> bool {
        match self {
            Self::Watch(task) => task.is_finished(),
            Self::Writer(dropped) => *dropped.borrow(),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Self::Watch(task) = self {
            task.abort();
        }
    }
}

/// Where the objects come from.
pub(crate) struct Source {
    cluster: Cluster,
    scope: Scope,
}

pub(crate) struct Shared<T> {
    /// `None` if a [`Writer`] has the objects from elsewhere.
    source: Option<Source>,
    rules: Rules<T>,
    store: RwLock<Store<T>>,
    readers: Mutex<Vec<Weak<Queue<T>>>>,
    status: watch::Sender<CacheStatus>,
    ready: watch::Sender<bool>,
    /// resourceVersion up to which the store is complete; `None` before the initial list.
    position: watch::Sender<Option<ResourceVersion>>,
    counters: Counters,
}

/// State of the watch of a cache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CacheStatus {
    /// The initial list, or a relist, is in progress. Until a relist is complete, the old objects are kept.
    #[default]
    Syncing,
    /// Synced: changes are applied as they happen.
    Synced,
    /// The last request failed. It is retried within 10 s.
    Unreachable(RequestError),
    /// Listing or watching is forbidden. It is retried within a minute.
    Forbidden(RequestError),
    /// The server rejects the request, for example because of an unsupported selector. It is retried within a minute.
    Rejected(RequestError),
    /// The server does not serve this kind. It is retried within 10 s.
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

/// Error of reading an object from the server.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LiveReadError {
    /// The cache is filled by a [`Writer`]: it has no connection.
    #[error("the cache has no connection to the server")]
    NoConnection,
    /// The request failed.
    #[error("cannot get the object")]
    Request(#[source] RequestError),
    /// The object cannot be decoded as the stored type.
    #[error("cannot read the object")]
    Decode(#[source] Arc<serde_json::Error>),
}

/// Counters of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheMetrics {
    /// Stored objects.
    pub objects: u64,
    /// Objects and events received from the server.
    pub events: u64,
    /// Objects rejected by the predicate on objects.
    pub dropped: u64,
    /// Objects that could not be decoded.
    pub malformed: u64,
    /// Changes rejected by the predicate on events: they are stored, but were not reported.
    pub suppressed: u64,
    /// Complete lists: the initial one, and one for each expired resourceVersion.
    pub lists: u64,
    /// Failed requests.
    pub failures: u64,
    /// Bytes of objects received from the server.
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

    /// Waits for the initial list. Requests that fail are retried until they succeed, so this does not fail;
    /// [`Cache::status`] has the last error.
    ///
    /// # Errors
    /// The runtime of the cache has shut down, or its [`Writer`] was dropped.
    pub async fn wait_until_ready(&self) -> Result<(), CacheClosed> {
        let mut ready = self.shared.ready.subscribe();
        loop {
            if *ready.borrow_and_update() {
                return Ok(());
            }
            if self.running.is_finished() {
                return Err(CacheClosed);
            }
            let closed = async {
                match &*self.running {
                    // An aborted task does not report its end.
                    Running::Watch(_) => tokio::time::sleep(std::time::Duration::from_secs(1)).await,
                    Running::Writer(dropped) => {
                        let mut dropped = dropped.clone();
                        let _gone = dropped.wait_for(|dropped| *dropped).await;
                    }
                }
            };
            tokio::select! {
                // The sender lives as long as this clone.
                changed = ready.changed() => changed.map_err(|_| CacheClosed)?,
                () = closed => {}
            }
        }
    }

    /// Whether the initial list is complete.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        *self.shared.ready.borrow()
    }

    /// The state of the watch.
    #[must_use]
    pub fn status(&self) -> CacheStatus {
        self.shared.status.borrow().clone()
    }

    /// The state of the watch, and its changes.
    #[must_use]
    pub fn watch_status(&self) -> watch::Receiver<CacheStatus> {
        self.shared.status.subscribe()
    }

    /// Looks up an object by its key, or by kube-rs' `ObjectRef`. As in kube-rs' `Store`, the namespace of a reference
    /// to a cluster-scoped object is ignored.
    #[must_use]
    pub fn get(&self, key: impl Into<ObjectKey>) -> Option<Arc<T>> {
        let (key, store) = (key.into(), self.store());
        let value = |namespace: &str| store.get(namespace, &key.name).map(|entry| Arc::clone(&entry.value));
        value(&key.namespace).or_else(|| value(""))
    }

    /// The resourceVersion of a stored object.
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

    /// The first object that matches a function.
    #[must_use]
    pub fn find(&self, accepts: impl Fn(&T) -> bool) -> Option<Arc<T>> {
        self.store().values().find(|value| accepts(value)).cloned()
    }

    /// All objects that match a function.
    #[must_use]
    pub fn state_filter(&self, accepts: impl Fn(&T) -> bool) -> Vec<Arc<T>> {
        self.store().values().filter(|value| accepts(value)).cloned().collect()
    }

    /// All objects whose labels match a selector.
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

    /// The number of objects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.store().len()
    }

    /// Whether there are no objects.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All objects with a value in an index: see [`CacheBuilder`] for indexes and their names.
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

    /// All changes from now on, preceded by the existing objects as created.
    #[must_use]
    pub fn changes(&self) -> Changes<T> {
        self.follow(true)
    }

    /// All changes from now on, without the existing objects. Until the cache is ready, each object of the initial list
    /// is a change.
    #[must_use]
    pub fn later_changes(&self) -> Changes<T> {
        self.follow(false)
    }

    fn follow(&self, with_existing: bool) -> Changes<T> {
        let queue = Arc::new(Queue::default());
        // The store is locked: no change can occur between the objects and the changes.
        let store = self.store();
        for (key, entry) in store.entries().filter(|_| with_existing) {
            queue.push(Change::created(key, entry));
        }
        self.shared.readers.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(&queue));
        drop(store);
        Changes::new(queue, Arc::clone(&self.running) as Arc<dyn std::any::Any + Send + Sync>)
    }

    /// The resourceVersion up to which the cache is complete; `None` before the initial list.
    #[must_use]
    pub fn position(&self) -> Option<ResourceVersion> {
        self.shared.position.borrow().clone()
    }

    /// The same as a channel of its changes.
    #[must_use]
    pub fn watch_position(&self) -> watch::Receiver<Option<ResourceVersion>> {
        self.shared.position.subscribe()
    }

    /// Counters so far.
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

    /// Reads an object from the server, decoded as by the cache; `None` if it does not exist or does not match. The
    /// cache is not changed.
    ///
    /// # Errors
    /// The request failed, or the object cannot be decoded.
    pub async fn get_live(&self, key: impl Into<ObjectKey>) -> Result<Option<Arc<T>>, LiveReadError>
    where
        T: serde::de::DeserializeOwned,
    {
        let source = self.shared.source.as_ref().ok_or(LiveReadError::NoConnection)?;
        let (key, scope) = (key.into(), &source.scope);
        let namespace = Some(&*key.namespace).filter(|namespace| !namespace.is_empty());
        match source.cluster.object(&scope.resource, namespace, &key.name).await {
            Ok(json) => {
                let value = self.shared.rules.read(&json);
                Ok(value.map_err(|error| LiveReadError::Decode(Arc::new(error)))?.map(Arc::new))
            }
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(LiveReadError::Request(error)),
        }
    }
}
