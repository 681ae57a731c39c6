//! Controllers: what wakes them, their workers, and writes that the next reconcile of the same key is sure to see.

use std::collections::HashMap;
use std::fmt::Debug;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy};
use kube::core::{ClusterResourceScope, NamespaceResourceScope};
use kube::runtime::events::EventType;
use kube::{Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use settled_controller::events::Recorder;
use settled_controller::metrics::Metrics;
use settled_controller::queue::{Backoff, Queue};
use settled_controller::status::{Outcome, StatusWriter, WriteError};
use settled_controller::worker::{self, Next};
use settled_controller::{Clock, ObjectKey, ResourceVersion, finalizer};

use super::events;
use super::informers::{AnyChange, Informed, Informers};
use super::meta::{self, is_code};
use super::remote::Remotes;

/// For how long a reconcile waits for the watch to show its last writes.
const CATCH_UP: Duration = Duration::from_secs(5);
/// How long the API server of a Cluster may take to answer.
pub(super) const REMOTE_TIMEOUT: Duration = Duration::from_secs(10);
/// After a reconcile that failed. A provider that is down for hours is asked each minute.
const BACKOFF: Backoff = Backoff { first: Duration::from_millis(20), max: Duration::from_secs(60) };
/// How long changes are gathered: caches of different kinds are not equally far.
const BATCH: Duration = Duration::from_millis(10);
/// The same for objects that are about many others: each change of one of these is a change for them.
pub(super) const GROUP_BATCH: Duration = Duration::from_millis(200);

/// Why a reconcile failed. It is tried again.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The API server refused a request, or could not be reached.
    #[error(transparent)]
    Request(#[from] kube::Error),
    /// A status could not be written.
    #[error(transparent)]
    Status(Box<WriteError>),
    /// A finalizer could not be written.
    #[error(transparent)]
    Finalizer(#[from] finalizer::Error),
    /// A condition is not valid.
    #[error(transparent)]
    Conditions(#[from] settled_controller::conditions::InvalidConditions),
    /// The provider failed.
    #[error("the provider failed: {0}")]
    Provider(#[from] crate::provider::ProviderError),
    /// The API server of a Cluster did not answer in time.
    #[error("the API server of Cluster {0} did not answer within {REMOTE_TIMEOUT:?}")]
    Unanswered(ObjectKey),
    /// The watch is behind the last writes.
    #[error("the watch has not shown the last writes within {CATCH_UP:?}")]
    Behind,
}

impl From<WriteError> for Error {
    fn from(error: WriteError) -> Self {
        Self::Status(Box::new(error))
    }
}

/// A controller: level-based, with nothing in memory that a restart would lose.
pub(super) trait Controller: Send + Sync + 'static {
    /// Name in managed fields and logs.
    const NAME: &'static str;
    /// How long changes are gathered.
    const BATCH: Duration = BATCH;

    /// The keys that are reconciled at the start, whatever there is.
    fn initial(&self) -> Vec<ObjectKey> {
        Vec::new()
    }

    /// The keys that a change concerns.
    fn wake(&self, change: &AnyChange, informers: &Informers) -> Vec<ObjectKey>;

    /// Brings one object closer to what it should be.
    fn reconcile(
        &self,
        key: &ObjectKey,
        context: &Context,
    ) -> impl Future<Output = Result<Next, Error>> + Send;
}

type IsShown = dyn Fn(&Informers, Option<&ResourceVersion>) -> bool + Send + Sync;

/// A write that the watch is to show.
struct Written {
    kind: usize,
    is_shown: Box<IsShown>,
}

/// What all controllers share.
#[derive(Clone)]
pub(super) struct Shared {
    pub(super) client: Client,
    pub(super) informers: Arc<Informers>,
    pub(super) remotes: Remotes,
    pub(super) clock: Clock,
    /// Keys that are reconciled at the same time, by each controller.
    pub(super) workers: usize,
    pub(super) metrics: Metrics,
    pub(super) events: Recorder,
}

/// What a controller works with.
pub(super) struct Context {
    pub(super) client: Client,
    pub(super) informers: Arc<Informers>,
    pub(super) remotes: Remotes,
    pub(super) clock: Clock,
    events: Recorder,
    written: Mutex<HashMap<ObjectKey, Vec<Written>>>,
    manager: &'static str,
}

impl Context {
    /// The time of day.
    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn expect<K: Informed>(
        &self,
        key: &ObjectKey,
        is_shown: impl Fn(&Informers, Option<&ResourceVersion>) -> bool + Send + Sync + 'static,
    ) {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let pending = written.entry(key.clone()).or_default();
        pending.push(Written { kind: K::INDEX, is_shown: Box::new(is_shown) });
    }

    fn wrote<K: Informed>(&self, key: &ObjectKey, version: &str) {
        let version = ResourceVersion::new(version);
        self.expect::<K>(key, move |_, position| position.is_some_and(|position| position.covers(&version)));
    }

    /// Waits until the caches show what was written for a key.
    pub(super) async fn catch_up(&self, key: &ObjectKey) -> Result<(), Error> {
        let pending = self.written.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
        let Some(pending) = pending else { return Ok(()) };
        let caught_up = async {
            for Written { kind, is_shown } in &pending {
                let mut position = self.informers.position(*kind);
                if position.wait_for(|position| is_shown(&self.informers, position.as_ref())).await.is_err() {
                    return;
                }
            }
        };
        if tokio::time::timeout(CATCH_UP, caught_up).await.is_err() {
            self.written.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone(), pending);
            return Err(Error::Behind);
        }
        Ok(())
    }

    /// An API of a namespace.
    pub(super) fn api<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// Records an Event about an object.
    pub(super) fn record<K>(&self, object: &K, type_: EventType, reason: &str, action: &str, note: &str)
    where
        K: Resource<DynamicType = ()>,
    {
        self.events.record(events::event(type_, reason, action, note), object.object_ref(&()));
    }

    /// Writes a status, if it differs.
    pub(super) async fn write_status<K, S>(
        &self,
        key: &ObjectKey,
        writer: &StatusWriter<K>,
        observed: &K,
        status: &S,
    ) -> Result<(), Error>
    where
        K: Informed + Serialize + DeserializeOwned,
        S: Serialize,
    {
        let status = serde_json::to_value(status).unwrap_or_default();
        if let Outcome::Written { resource_version } = writer.write(observed, |_| Ok(status.clone())).await? {
            self.wrote::<K>(key, &resource_version);
            if let Some((reason, message)) = events::stalled(&status)
                && events::stalled(&json!(observed)["status"]) != Some((reason, message))
            {
                self.record(observed, EventType::Warning, reason, "Reconcile", message);
            }
        }
        Ok(())
    }

    /// Creates an object. One of its name that is there already is fine: `None`.
    pub(super) async fn create<K>(&self, key: &ObjectKey, object: &K) -> Result<Option<K>, kube::Error>
    where
        K: Informed + Resource<Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned + Serialize,
    {
        let parameters = PostParams { field_manager: Some(self.manager.to_owned()), ..PostParams::default() };
        match self.api::<K>(meta::namespace(object)).create(&parameters, object).await {
            Ok(created) => {
                self.wrote::<K>(key, created.meta().resource_version.as_deref().unwrap_or_default());
                Ok(Some(created))
            }
            Err(error) if is_code(&error, 409) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Changes fields by a merge patch, unless the object was replaced or written since it was read.
    pub(super) async fn patch<K>(
        &self,
        key: &ObjectKey,
        observed: &K,
        patch: Value,
    ) -> Result<(), kube::Error>
    where
        K: Informed + Resource<Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let api = self.api::<K>(meta::namespace(observed));
        self.patch_by(key, &api, observed, patch).await
    }

    /// The same for an object without a namespace.
    pub(super) async fn patch_global<K>(
        &self,
        key: &ObjectKey,
        observed: &K,
        patch: Value,
    ) -> Result<(), kube::Error>
    where
        K: Informed + Resource<Scope = ClusterResourceScope> + Clone + Debug + DeserializeOwned,
    {
        self.patch_by(key, &Api::all(self.client.clone()), observed, patch).await
    }

    async fn patch_by<K>(
        &self,
        key: &ObjectKey,
        api: &Api<K>,
        observed: &K,
        mut patch: Value,
    ) -> Result<(), kube::Error>
    where
        K: Informed + Clone + Debug + DeserializeOwned,
    {
        if let Some(patch) = patch.as_object_mut() {
            let metadata = patch.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
            metadata["uid"] = meta::uid(observed).into();
            metadata["resourceVersion"] = observed.meta().resource_version.clone().unwrap_or_default().into();
        }
        let parameters =
            PatchParams { field_manager: Some(self.manager.to_owned()), ..PatchParams::default() };
        let patched = api.patch(meta::name(observed), &parameters, &Patch::Merge(&patch)).await?;
        self.wrote::<K>(key, patched.meta().resource_version.as_deref().unwrap_or_default());
        Ok(())
    }

    /// Deletes an object, unless it was replaced by another one of its name. Gone is fine.
    pub(super) async fn delete<K>(&self, key: &ObjectKey, observed: &K) -> Result<(), kube::Error>
    where
        K: Informed + Resource<Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let api = self.api::<K>(meta::namespace(observed));
        self.delete_by(key, &api, observed).await
    }

    /// The same for an object without a namespace.
    pub(super) async fn delete_global<K>(&self, key: &ObjectKey, observed: &K) -> Result<(), kube::Error>
    where
        K: Informed + Resource<Scope = ClusterResourceScope> + Clone + Debug + DeserializeOwned,
    {
        self.delete_by(key, &Api::all(self.client.clone()), observed).await
    }

    async fn delete_by<K>(&self, key: &ObjectKey, api: &Api<K>, observed: &K) -> Result<(), kube::Error>
    where
        K: Informed + Clone + Debug + DeserializeOwned,
    {
        let preconditions =
            Preconditions { uid: Some(meta::uid(observed).to_owned()), resource_version: None };
        let parameters = DeleteParams {
            preconditions: Some(preconditions),
            propagation_policy: Some(PropagationPolicy::Background),
            ..DeleteParams::default()
        };
        match api.delete(meta::name(observed), &parameters).await {
            Ok(_) => {}
            Err(error) if is_code(&error, 404) || is_code(&error, 409) => {}
            Err(error) => return Err(error),
        }
        let (object, uid) = (meta::key(observed), meta::uid(observed).to_owned());
        self.expect::<K>(key, move |informers, _| {
            let now = K::cache(informers).get(&object);
            now.is_none_or(|now| meta::uid(&*now) != uid || meta::is_deleting(&*now))
        });
        Ok(())
    }

    /// Adds or removes a finalizer.
    pub(super) async fn finalize<K>(
        &self,
        key: &ObjectKey,
        observed: &K,
        finalizer: &str,
        is_wanted: bool,
    ) -> Result<(), Error>
    where
        K: Informed + Resource<Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let api = self.api::<K>(meta::namespace(observed));
        let change = match is_wanted {
            true => finalizer::add(&api, observed, finalizer).await?,
            false => finalizer::remove(&api, observed, finalizer).await?,
        };
        if let (finalizer::Change::Written(written), true) = (change, is_wanted) {
            self.wrote::<K>(key, written.meta().resource_version.as_deref().unwrap_or_default());
        }
        Ok(())
    }
}

/// A controller that runs: changes go in, and its workers reconcile.
pub(super) struct Running {
    wake: Box<dyn Fn(&AnyChange) + Send + Sync>,
    pub(super) work: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Running {
    /// Passes on a change.
    pub(super) fn wake(&self, change: &AnyChange) {
        (self.wake)(change);
    }
}

/// A writer for the status of a kind.
pub(super) fn status_writer<K>(shared: &Shared, name: &str) -> StatusWriter<K>
where
    K: Resource<DynamicType = ()>,
{
    // After a conflict, the next reconcile decides anew.
    StatusWriter::new(shared.client.clone(), name).attempts(1).clock(shared.clock.clone())
}

/// Prepares a controller to run.
pub(super) fn start<C: Controller>(controller: C, shared: &Shared) -> Running {
    let controller = Arc::new(controller);
    let queue: Queue<ObjectKey> = Queue::new(BACKOFF);
    controller.initial().into_iter().for_each(|key| queue.add(key, 0));
    let context = Arc::new(Context {
        client: shared.client.clone(),
        informers: shared.informers.clone(),
        remotes: shared.remotes.clone(),
        clock: shared.clock.clone(),
        events: shared.events.clone(),
        written: Mutex::default(),
        manager: C::NAME,
    });
    let wake = {
        let (controller, queue, informers) = (controller.clone(), queue.clone(), shared.informers.clone());
        move |change: &AnyChange| {
            for key in controller.wake(change, &informers) {
                queue.add_after(key, 0, C::BATCH);
            }
        }
    };
    let workers = shared.workers;
    shared.metrics.queue(C::NAME, &queue);
    let metrics = shared.metrics.controller(C::NAME, workers);
    let work = async move {
        let reconcile = |key: ObjectKey| {
            let (controller, context) = (controller.clone(), context.clone());
            async move {
                context.catch_up(&key).await?;
                controller.reconcile(&key, &context).await
            }
        };
        worker::run(&queue, workers, Some(&metrics), reconcile).await;
    };
    Running { wake: Box::new(wake), work: Box::pin(work) }
}
