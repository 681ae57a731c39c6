//! `Controller` as that of kube-rs, whose store is a [`Cache`].
//!
//! Scheduling, concurrency, requeues and the results of reconciles are kube-rs' own: its `applier` runs on a store of handles, and each
//! handle shares the object of the cache.

use std::fmt::Debug;
use std::hash::Hash;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use futures::future::{self, BoxFuture};
use futures::stream::{self, BoxStream, SelectAll};
use futures::{FutureExt as _, Stream, StreamExt as _, TryFuture, TryFutureExt};
use kube::api::{Api, ObjectMeta};
use kube::runtime::WatchStreamExt as _;
pub use kube::runtime::controller::*;
use kube::runtime::reflector::{self as upstream, ObjectRef};
use kube::runtime::utils::{Backoff, StreamBackoff};
use kube::runtime::watcher::{self, DefaultBackoff, Event, watcher};
use kube::{Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tracing::Instrument as _;

use crate::cache::{Cache, Change, Reader};
use crate::object::ObjectKey;
use crate::run::stop_signal;

/// An object of a cache in kube-rs' store: the metadata that it is found by, and the object itself, shared with the cache.
struct Handle<K> {
    metadata: ObjectMeta,
    object: Arc<K>,
}

impl<K> Clone for Handle<K> {
    fn clone(&self) -> Self {
        Self { metadata: self.metadata.clone(), object: Arc::clone(&self.object) }
    }
}

impl<K: Resource> Handle<K> {
    fn new(object: Arc<K>) -> Self {
        let of = object.meta();
        let metadata = ObjectMeta {
            name: of.name.clone(),
            namespace: of.namespace.clone(),
            uid: of.uid.clone(),
            resource_version: of.resource_version.clone(),
            ..ObjectMeta::default()
        };
        Self { metadata, object }
    }
}

impl<K: Resource> Resource for Handle<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(dyntype: &Self::DynamicType) -> std::borrow::Cow<'_, str> {
        K::kind(dyntype)
    }

    fn group(dyntype: &Self::DynamicType) -> std::borrow::Cow<'_, str> {
        K::group(dyntype)
    }

    fn version(dyntype: &Self::DynamicType) -> std::borrow::Cow<'_, str> {
        K::version(dyntype)
    }

    fn plural(dyntype: &Self::DynamicType) -> std::borrow::Cow<'_, str> {
        K::plural(dyntype)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

type Request<K> = ReconcileRequest<Handle<K>>;
type Triggers<K> = BoxStream<'static, Result<Request<K>, watcher::Error>>;

/// kube-rs' store of handles.
struct Handles<K>
where
    K: Resource + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    writer: upstream::store::Writer<Handle<K>>,
    dyntype: K::DynamicType,
}

impl<K> Handles<K>
where
    K: Resource + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    /// Stores the handle of an object that exists, and requests its reconcile.
    fn put(&mut self, object: Arc<K>) -> Request<K> {
        let handle = Handle::new(object);
        let obj_ref = ObjectRef::from_obj_with(&handle, self.dyntype.clone());
        self.writer.apply_watcher_event(&Event::Apply(handle));
        ReconcileRequest { obj_ref, reason: ReconcileReason::ObjectUpdated }
    }

    /// As [`Handles::put`] for a change of the cache; deleted objects are not reconciled.
    fn take(&mut self, change: Change<K>) -> Option<Request<K>> {
        match (change.new, change.old) {
            (Some(new), _) => Some(self.put(new)),
            (None, old) => {
                if let Some(old) = old {
                    self.writer.apply_watcher_event(&Event::Delete(Handle::new(old)));
                }
                None
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// As [`kube::runtime::Controller`], with the same methods, on a [`Cache`]: code written for that one runs on this one with other imports.
///
/// What it can do in addition: [`Controller::for_cache`] takes a cache with predicates, a projection and indexes of its own, and
/// [`Controller::store`] has all that a cache has. Failed watches of the cache are retried with backoff and are no results of
/// [`run`](Controller::run): [`Cache::status`] has them.
pub struct Controller<K>
where
    K: Resource + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    cache: Cache<K>,
    handles: Arc<Mutex<Handles<K>>>,
    triggers: SelectAll<Triggers<K>>,
    trigger_backoff: Box<dyn Backoff + Send>,
    graceful_shutdown: Vec<BoxFuture<'static, ()>>,
    forceful_shutdown: Vec<BoxFuture<'static, ()>>,
    dyntype: K::DynamicType,
    config: Config,
}

impl<K> Debug for Controller<K>
where
    K: Resource + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Controller").field("cache", &self.cache).finish_non_exhaustive()
    }
}

impl<K> Controller<K>
where
    K: Clone + Resource + DeserializeOwned + Debug + Send + Sync + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    /// A controller of the objects of an `Api`, on a cache of its own.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[must_use]
    pub fn new(main_api: Api<K>, config: watcher::Config) -> Self
    where
        K::DynamicType: Default,
    {
        Self::new_with(main_api, config, K::DynamicType::default())
    }

    /// The same for a kind known at run time only.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[must_use]
    pub fn new_with(main_api: Api<K>, config: watcher::Config, dyntype: K::DynamicType) -> Self {
        let namespace = main_api.namespace().map(str::to_owned);
        let mut cache = Cache::<K>::of_kind::<K>(main_api.into_client(), &dyntype);
        if let Some(namespace) = namespace {
            cache = cache.namespace(&namespace);
        }
        if let Some(labels) = &config.label_selector {
            cache = cache.labels(labels);
        }
        if let Some(fields) = &config.field_selector {
            cache = cache.fields(fields);
        }
        Self::for_cache_with(cache.start(), dyntype)
    }

    /// A controller of the objects of a cache. What its predicate on events suppresses is not reconciled.
    #[must_use]
    pub fn for_cache(cache: Cache<K>) -> Self
    where
        K::DynamicType: Default,
    {
        Self::for_cache_with(cache, K::DynamicType::default())
    }

    /// The same for a kind known at run time only.
    #[must_use]
    pub fn for_cache_with(cache: Cache<K>, dyntype: K::DynamicType) -> Self {
        let mut controller = Self::without_triggers(cache, dyntype);
        let changes = controller.changes().filter_map(|request| future::ready(request.map(Ok)));
        controller.triggers.push(changes.boxed());
        controller
    }

    /// A controller of the objects of a stream, and the store that it fills.
    #[must_use]
    pub fn for_stream(
        trigger: impl Stream<Item = Result<K, watcher::Error>> + Send + 'static,
        reader: Reader<K>,
    ) -> Self
    where
        K::DynamicType: Default,
    {
        Self::for_stream_with(trigger, reader, K::DynamicType::default())
    }

    /// The same for a kind known at run time only.
    #[must_use]
    pub fn for_stream_with(
        trigger: impl Stream<Item = Result<K, watcher::Error>> + Send + 'static,
        reader: Reader<K>,
        dyntype: K::DynamicType,
    ) -> Self {
        let mut controller = Self::without_triggers(Cache::clone(&reader), dyntype.clone());
        // The store forgets deleted objects; only the stream decides what is reconciled.
        let silent = controller.changes().filter_map(|_| future::ready(None));
        controller.triggers.push(silent.boxed());
        let handles = Arc::clone(&controller.handles);
        let requests = trigger.map(move |object| {
            let object = object?;
            let stored = reader.get(&ObjectRef::from_obj_with(&object, dyntype.clone()));
            Ok(lock(&handles).put(stored.unwrap_or_else(|| Arc::new(object))))
        });
        controller.triggers.push(requests.boxed());
        controller
    }

    fn without_triggers(cache: Cache<K>, dyntype: K::DynamicType) -> Self {
        let handles =
            Handles { writer: upstream::store::Writer::new(dyntype.clone()), dyntype: dyntype.clone() };
        Self {
            cache,
            handles: Arc::new(Mutex::new(handles)),
            triggers: SelectAll::new(),
            trigger_backoff: Box::<DefaultBackoff>::default(),
            graceful_shutdown: vec![future::pending().boxed()],
            forceful_shutdown: vec![future::pending().boxed()],
            dyntype,
            config: Config::default(),
        }
    }

    /// Keeps the handles up to date with the cache, which is ready when it is.
    fn changes(&self) -> impl Stream<Item = Option<Request<K>>> + Send + 'static {
        let (cache, handles) = (self.cache.clone(), Arc::clone(&self.handles));
        let begin = async move {
            if cache.wait_until_ready().await.is_ok() {
                let mut handles = lock(&handles);
                handles.writer.apply_watcher_event(&Event::Init);
                handles.writer.apply_watcher_event(&Event::InitDone);
            }
            (cache, handles)
        };
        stream::once(begin)
            .flat_map(|(cache, handles)| cache.changes().map(move |change| lock(&handles).take(change)))
    }

    /// Sets debounce and concurrency.
    #[must_use]
    pub fn with_config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Backoff of the watches of owned and other objects.
    #[must_use]
    pub fn trigger_backoff(mut self, backoff: impl Backoff + 'static) -> Self {
        self.trigger_backoff = Box::new(backoff);
        self
    }

    /// The cache.
    #[must_use]
    pub fn store(&self) -> Reader<K> {
        Reader::of(self.cache.clone())
    }

    /// Reconciles the owner of each changed object of another kind.
    #[must_use]
    pub fn owns<Child>(self, api: Api<Child>, config: watcher::Config) -> Self
    where
        Child: Clone + Resource<DynamicType = ()> + DeserializeOwned + Debug + Send + 'static,
    {
        self.owns_with(api, (), config)
    }

    /// The same for a kind known at run time only.
    #[must_use]
    pub fn owns_with<Child>(
        mut self,
        api: Api<Child>,
        dyntype: Child::DynamicType,
        config: watcher::Config,
    ) -> Self
    where
        Child: Clone + Resource + DeserializeOwned + Debug + Send + 'static,
        Child::DynamicType: Debug + Eq + Hash + Clone,
    {
        #[allow(deprecated, reason = "kube-rs' own Controller watches owned objects with it")]
        let children = kube::runtime::metadata_watcher(api, config).touched_objects();
        self.triggers.push(trigger_owners(children, self.dyntype.clone(), dyntype).boxed());
        self
    }

    /// Reconciles the objects that a function derives from each changed object of another kind.
    #[must_use]
    pub fn watches<Other, I>(
        self,
        api: Api<Other>,
        config: watcher::Config,
        mapper: impl Fn(Other) -> I + Sync + Send + 'static,
    ) -> Self
    where
        Other: Clone + Resource + DeserializeOwned + Debug + Send + 'static,
        Other::DynamicType: Default + Debug + Clone + Eq + Hash,
        I: 'static + IntoIterator<Item = ObjectRef<K>>,
        I::IntoIter: Send,
    {
        self.watches_with(api, Other::DynamicType::default(), config, mapper)
    }

    /// The same for a kind known at run time only.
    #[must_use]
    pub fn watches_with<Other, I>(
        mut self,
        api: Api<Other>,
        dyntype: Other::DynamicType,
        config: watcher::Config,
        mapper: impl Fn(Other) -> I + Sync + Send + 'static,
    ) -> Self
    where
        Other: Clone + Resource + DeserializeOwned + Debug + Send + 'static,
        Other::DynamicType: Debug + Clone + Eq + Hash,
        I: 'static + IntoIterator<Item = ObjectRef<K>>,
        I::IntoIter: Send,
    {
        let own = self.dyntype.clone();
        let related = trigger_with(watcher(api, config).touched_objects(), move |object: Other| {
            let cause = ObjectRef::from_obj_with(&object, dyntype.clone()).erase();
            let own = own.clone();
            mapper(object).into_iter().map(move |target| Request::<K> {
                obj_ref: target.into_kind_unchecked(own.clone()),
                reason: ReconcileReason::RelatedObjectUpdated { obj_ref: Box::new(cause.clone()) },
            })
        });
        self.triggers.push(related.boxed());
        self
    }

    /// Reconciles all objects at each item of a stream.
    #[must_use]
    pub fn reconcile_all_on(mut self, trigger: impl Stream<Item = ()> + Send + 'static) -> Self {
        let (cache, dyntype) = (self.cache.clone(), self.dyntype.clone());
        let all = trigger.flat_map(move |()| {
            let dyntype = dyntype.clone();
            stream::iter(cache.state()).map(move |object| {
                let obj_ref = ObjectRef::from_obj_with(&*object, dyntype.clone());
                let obj_ref = obj_ref.into_kind_unchecked(dyntype.clone());
                Ok(Request::<K> { obj_ref, reason: ReconcileReason::BulkReconcile })
            })
        });
        self.triggers.push(all.boxed());
        self
    }

    /// Reconciles the objects of a stream.
    #[must_use]
    pub fn reconcile_on(mut self, trigger: impl Stream<Item = ObjectRef<K>> + Send + 'static) -> Self {
        let dyntype = self.dyntype.clone();
        let requests = trigger.map(move |target| {
            let obj_ref = target.into_kind_unchecked(dyntype.clone());
            Ok(Request::<K> { obj_ref, reason: ReconcileReason::Unknown })
        });
        self.triggers.push(requests.boxed());
        self
    }

    /// Starts no reconcile after this, and ends with the last one that runs.
    #[must_use]
    pub fn graceful_shutdown_on(mut self, trigger: impl Future<Output = ()> + Send + Sync + 'static) -> Self {
        self.graceful_shutdown.push(trigger.boxed());
        self
    }

    /// Shuts down gracefully at the first SIGTERM or SIGINT, and at once at the second one.
    #[must_use]
    pub fn shutdown_on_signal(mut self) -> Self {
        async fn signal() {
            match stop_signal() {
                Ok(signal) => signal.await,
                Err(error) => {
                    tracing::error!(%error, "cannot receive signals");
                    future::pending::<()>().await;
                }
            }
        }
        let (graceful, requested) = oneshot::channel();
        self.graceful_shutdown.push(requested.map(drop).boxed());
        self.forceful_shutdown.push(
            async {
                signal().await;
                tracing::info!("shutting down gracefully; a second signal ends the process at once");
                let _ended = graceful.send(());
                signal().await;
            }
            .boxed(),
        );
        self
    }

    /// Runs the controller: a stream of the results of its reconciles, which must be polled.
    pub fn run<ReconcilerFut, Ctx>(
        self,
        mut reconciler: impl FnMut(Arc<K>, Arc<Ctx>) -> ReconcilerFut,
        error_policy: impl Fn(Arc<K>, &ReconcilerFut::Error, Arc<Ctx>) -> Action,
        context: Arc<Ctx>,
    ) -> impl Stream<Item = Result<(ObjectRef<K>, Action), Error<ReconcilerFut::Error, watcher::Error>>>
    where
        K::DynamicType: Debug + Unpin,
        ReconcilerFut: TryFuture<Ok = Action> + Send + 'static,
        ReconcilerFut::Error: std::error::Error + Send + 'static,
    {
        let Self {
            cache,
            handles,
            triggers,
            trigger_backoff,
            graceful_shutdown,
            forceful_shutdown,
            dyntype,
            config,
        } = self;
        let store = lock(&handles).writer.as_reader();
        // The cache may be ahead of the changes that were read.
        let current = move |handle: &Handle<K>| {
            let key =
                ObjectKey::new(handle.metadata.namespace.as_deref().unwrap_or_default(), &handle.name_any());
            cache.get(key).unwrap_or_else(|| Arc::clone(&handle.object))
        };
        let read = current.clone();
        let queue =
            StreamBackoff::new(triggers, trigger_backoff).take_until(future::select_all(graceful_shutdown));
        let results = applier(
            move |handle: Arc<Handle<K>>, context| {
                let reconcile =
                    TryFutureExt::into_future(reconciler(read(&handle), context)).in_current_span();
                Spawned(tokio::spawn(reconcile))
            },
            move |handle, error, context| error_policy(current(&handle), error, context),
            context,
            store,
            queue,
            config,
        );
        let results = results.map(move |result| {
            result.map(|(object, action)| (object.into_kind_unchecked(dyntype.clone()), action))
        });
        results.take_until(future::select_all(forceful_shutdown))
    }
}

/// A task that is aborted when its handle is dropped. Its panic is resumed where it is awaited, as in kube-rs.
struct Spawned<T>(JoinHandle<T>);

impl<T> Future for Spawned<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        match self.0.poll_unpin(context) {
            Poll::Ready(Ok(output)) => Poll::Ready(output),
            Poll::Ready(Err(error)) => match error.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                // The runtime shuts down.
                Err(_) => Poll::Pending,
            },
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<T> Drop for Spawned<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
