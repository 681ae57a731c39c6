//! Cache builder: selection, predicates, projection and indexes; starts the watch.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use kube::Resource;
use kube::core::ApiResource;
use serde::de::DeserializeOwned;
use settled_watch::stream::{self, Message, Scope, Update};
use settled_watch::{Cluster, Resource as WatchedResource};
use tokio::sync::{mpsc, watch};

use super::decode::{Decoder, Index, IndexKey, Rules, WatchTarget};
use super::store::Store;
use super::{Cache, CacheStatus, Counters, Running, Shared, Source};
use crate::object::FieldPath;
use crate::predicate::{self, Compiled, Predicate};
use crate::projection::Projection;

/// The index by the UIDs of owner references.
pub(super) const OWNERS: &str = "metadata.ownerReferences.uid";
/// Capacity of the channel for watch states. Messages have no objects.
const MESSAGES: usize = 16;
/// Backoff of a rejected watch: initial and maximum.
const REFUSED_PAUSE: Duration = Duration::from_secs(5);
const REFUSED_PAUSE_MAX: Duration = Duration::from_secs(60);

/// Builder of a [`Cache`].
///
/// | index | name | values of an object |
/// |---|---|---|
/// | [`index_owners`](Self::index_owners) | read with [`Cache::owned_by`] | the UIDs in its owner references |
/// | [`index_label`](Self::index_label) | the label's key | the label's value |
/// | [`index_field`](Self::index_field) | the path | the string or number at the path |
/// | [`index_by`](Self::index_by) | custom | results of a function on the kept object |
///
/// Owners, labels and fields are read from the object as it arrives: an index does not need its field in the
/// projection.
pub struct CacheBuilder<T> {
    cluster: Cluster,
    scope: Scope,
    objects: Predicate,
    events: Option<Predicate>,
    projection: Projection,
    indexes: Vec<Index<T>>,
}

impl<T> Cache<T> {
    /// A cache of a typed object of kube-rs: `Pod`, `PartialObjectMeta<Pod>`. The connection is a `kube::Client`, or a
    /// [`Cluster`], which renews its credentials.
    pub fn builder(connection: impl Into<Cluster>) -> CacheBuilder<T>
    where
        T: Resource,
        T::DynamicType: Default,
    {
        Self::of::<T>(connection)
    }

    /// A cache of the objects of a kind that stores another type.
    pub fn of<K: Resource>(connection: impl Into<Cluster>) -> CacheBuilder<T>
    where
        K::DynamicType: Default,
    {
        Self::of_kind::<K>(connection, &K::DynamicType::default())
    }

    /// The same for a kind known at run time only: `DynamicObject`, with its `ApiResource`.
    pub fn of_kind<K: Resource>(connection: impl Into<Cluster>, dyntype: &K::DynamicType) -> CacheBuilder<T> {
        let text = |text: Cow<'_, str>| Box::<str>::from(text);
        let kind = text(K::kind(dyntype));
        let resource = WatchedResource {
            group: text(K::group(dyntype)),
            version: text(K::version(dyntype)),
            plural: text(K::plural(dyntype)),
            singular: kind.to_lowercase().into(),
            kind,
            short_names: Box::default(),
            categories: Box::default(),
            // Without a namespace, the path is the same for both scopes.
            namespaced: true,
            list: true,
            watch: true,
        };
        CacheBuilder {
            cluster: connection.into(),
            scope: Scope { metadata: K::metadata_api(), ..Scope::new(&Arc::new(resource), None) },
            objects: predicate::always(true),
            events: None,
            projection: Projection::all(),
            indexes: Vec::new(),
        }
    }

    /// As [`Cache::of_kind`], with only an `ApiResource`.
    pub fn of_resource(connection: impl Into<Cluster>, resource: &ApiResource) -> CacheBuilder<T> {
        Self::of_kind::<kube::core::DynamicObject>(connection, resource)
    }
}

impl<T> CacheBuilder<T> {
    /// Restricts the cache to a namespace.
    #[must_use]
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.scope.namespace = Some(namespace.into());
        self
    }

    /// Restricts the cache with a label selector, on the server.
    #[must_use]
    pub fn labels(mut self, selector: &str) -> Self {
        self.scope.labels = Some(selector.into());
        self
    }

    /// Restricts the cache with a field selector, on the server.
    #[must_use]
    pub fn fields(mut self, selector: &str) -> Self {
        self.scope.fields = Some(selector.into());
        self
    }

    /// Requests the metadata of objects only. Predicates and projections then see nothing else.
    #[must_use]
    pub fn metadata_only(mut self) -> Self {
        self.scope.metadata = true;
        self
    }

    /// Restricts the cache to objects that match a predicate, for conditions that selectors cannot express. An object
    /// that stops matching is removed, and reported as deleted.
    #[must_use]
    pub fn objects(mut self, predicate: Predicate) -> Self {
        self.objects = predicate;
        self
    }

    /// Restricts the changes reported by [`Cache::changes`]. The cache itself has all of them.
    #[must_use]
    pub fn events(mut self, predicate: Predicate) -> Self {
        self.events = Some(predicate);
        self
    }

    /// Parses only these fields.
    #[must_use]
    pub fn projection(mut self, projection: Projection) -> Self {
        self.projection = projection;
        self
    }

    /// Indexes objects by the UIDs of their owners.
    #[must_use]
    pub fn index_owners(self) -> Self {
        self.index(OWNERS, IndexKey::Owners)
    }

    /// Indexes objects by the value of a label. The name of the index is the label's key.
    #[must_use]
    pub fn index_label(self, key: &str) -> Self {
        let path = format!("/metadata/labels/{}", key.replace('~', "~0").replace('/', "~1"));
        self.index(key, IndexKey::Field(FieldPath::new(&path)))
    }

    /// Indexes objects by the string or number at a path. The name of the index is the path.
    #[must_use]
    pub fn index_field(self, path: &str) -> Self {
        self.index(path, IndexKey::Field(FieldPath::new(path)))
    }

    /// Indexes objects by the results of a function.
    #[must_use]
    pub fn index_by(self, name: &str, key: impl Fn(&T) -> Vec<String> + Send + Sync + 'static) -> Self {
        self.index(name, IndexKey::Function(Box::new(key)))
    }

    fn index(mut self, name: &str, key: IndexKey<T>) -> Self {
        self.indexes.retain(|index| *index.name != *name);
        self.indexes.push(Index { name: name.into(), key });
        self
    }
}

impl<T: DeserializeOwned + Send + Sync + 'static> CacheBuilder<T> {
    /// Starts to list and watch.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[must_use]
    pub fn start(self) -> Cache<T> {
        let store = Store::new(self.indexes.len());
        let rules = Rules {
            objects: Compiled::new(&self.objects),
            events: self.events.as_ref().map(Compiled::new),
            projection: self.projection,
            indexes: self.indexes,
        };
        let shared = Arc::new(Shared {
            source: Some(Source { cluster: self.cluster.clone(), scope: self.scope.clone() }),
            rules,
            store: RwLock::new(store),
            readers: Mutex::default(),
            status: watch::Sender::new(CacheStatus::Syncing),
            ready: watch::Sender::new(false),
            position: watch::Sender::new(None),
            counters: Counters::default(),
        });
        let task = tokio::spawn(run(self.cluster, self.scope, Arc::new(Decoder::new(Arc::clone(&shared)))));
        Cache { shared, running: Arc::new(Running::Watch(task.abort_handle())) }
    }
}

/// Watches until the task is aborted. Errors that end [`stream::follow`] are retried with exponential backoff.
async fn run(cluster: Cluster, scope: Scope, target: Arc<dyn WatchTarget>) {
    static STREAMS: AtomicU32 = AtomicU32::new(0);
    let number = STREAMS.fetch_add(1, Ordering::Relaxed);
    let mut pause = REFUSED_PAUSE;
    loop {
        let (sender, messages) = mpsc::channel(MESSAGES);
        let follow = stream::follow(cluster.clone(), scope.clone(), Arc::clone(&target), number, sender);
        let ((), synced) = tokio::join!(follow, note(&scope.resource.kind, &*target, messages));
        if synced {
            pause = REFUSED_PAUSE;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(REFUSED_PAUSE_MAX);
    }
}

/// Tracks the state of the watch until it ends. Returns whether it was synced.
async fn note(kind: &str, target: &dyn WatchTarget, mut messages: mpsc::Receiver<Message<u32, ()>>) -> bool {
    let mut synced = false;
    while let Some(message) = messages.recv().await {
        for update in message.updates {
            let status = match update {
                Update::Restart => CacheStatus::Syncing,
                Update::Synced => {
                    synced = true;
                    CacheStatus::Synced
                }
                // After a relist starts, this arrives before it is complete.
                Update::Up if matches!(*target.status().borrow(), CacheStatus::Syncing) => continue,
                Update::Up => CacheStatus::Synced,
                Update::Down(error, _) => CacheStatus::Unreachable(error),
                Update::Forbidden(_, error) => CacheStatus::Forbidden(error),
                Update::Rejected(error) => CacheStatus::Rejected(error),
                Update::NoKind => CacheStatus::NoKind,
                Update::Put(()) | Update::Gone(()) | Update::Missing(_) => continue,
            };
            if !matches!(status, CacheStatus::Syncing | CacheStatus::Synced) {
                target.failed();
                tracing::warn!(%kind, ?status, "the watch of a cache failed; retrying");
            }
            target.status().send_replace(status);
        }
    }
    synced
}
