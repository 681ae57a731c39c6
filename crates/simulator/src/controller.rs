//! Controllers: what wakes them, their workers, and writes that the next reconcile of the same key is sure to see.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::Timestamp;
use kube::api::{DeleteParams, GetParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy};
use kube::runtime::events::{Event, EventType, Reporter};
use kube::{Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use settled_controller::events::Recorder;
use settled_controller::queue::{Backoff, Queue};
use settled_controller::status::{Outcome, StatusWriter, WriteError};
use settled_controller::worker::{self, Next};
use settled_controller::{Clock, ObjectKey, ResourceVersion};

use crate::informers::{AnyChange, Informed, Informers};
use crate::meta;
use crate::requests::{self, Prepared};
use crate::scenario::Scenario;

/// For how long a reconcile waits for the watch to show its last writes.
const CATCH_UP: Duration = Duration::from_secs(5);
/// After a reconcile that failed, as client-go's default.
const BACKOFF: Backoff = Backoff { first: Duration::from_millis(5), max: Duration::from_secs(1000) };

/// How long changes are gathered, unless a controller says otherwise.
const BATCH: Duration = Duration::from_millis(10);

/// Why a reconcile failed. It is tried again.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The API server refused a request, or could not be reached.
    #[error(transparent)]
    Request(#[from] kube::Error),
    /// A status could not be written.
    #[error(transparent)]
    Status(Box<WriteError>),
    /// The watch is behind the last writes.
    #[error("the watch has not shown the last writes within {CATCH_UP:?}")]
    Behind,
    /// The reconciler could not finish, and has said why.
    #[error("{0}")]
    Failed(String),
}

impl From<WriteError> for Error {
    fn from(error: WriteError) -> Self {
        Self::Status(Box::new(error))
    }
}

impl Error {
    /// Has the server answered with this code?
    pub(crate) fn is_code(error: &kube::Error, code: u16) -> bool {
        matches!(error, kube::Error::Api(status) if status.code == code)
    }

    /// What Go's clients say of it: the message of the server's answer.
    pub(crate) fn text(error: &kube::Error) -> String {
        match error {
            kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
            other => other.to_string(),
        }
    }

    /// Is the namespace being deleted? Then nothing can be created in it.
    pub(crate) fn is_namespace_terminating(error: &kube::Error) -> bool {
        let kube::Error::Api(status) = error else { return false };
        let causes = status.details.iter().flat_map(|details| &details.causes);
        causes.into_iter().any(|cause| cause.reason == "NamespaceTerminating")
    }
}

/// A simulated controller: level-based, with nothing in memory that a restart would lose.
pub(crate) trait Controller: Send + Sync + 'static {
    /// Name in Events and managed fields.
    const NAME: &'static str;
    /// Keys that are reconciled at the same time.
    const WORKERS: usize = 4;
    /// Whether its Events are of events.k8s.io/v1, as the scheduler's, and not of core/v1.
    const RECORDS_NEW_EVENTS: bool = false;

    /// How long a change waits for others that are handled with it.
    ///
    /// Caches of different kinds are not equally far: what is deleted together with its owner must not be created again because the watch of the owner is a
    /// little behind.
    fn batch(&self, _change: &AnyChange) -> Duration {
        BATCH
    }

    /// The keys that a change concerns.
    fn wake(&self, change: &AnyChange, informers: &Informers) -> Vec<ObjectKey>;

    /// What is reconciled first: the higher.
    fn priority(&self, _key: &ObjectKey, _informers: &Informers) -> i32 {
        0
    }

    /// Brings one object closer to what it should be.
    fn reconcile(
        &self,
        key: &ObjectKey,
        context: &Context,
    ) -> impl Future<Output = Result<Next, Error>> + Send;
}

/// Whether a cache that is complete up to a version shows a write.
type IsShown = dyn Fn(&Informers, Option<&ResourceVersion>) -> bool + Send + Sync;

/// A write that the watch is to show: the kind by its place among the informers, and what its cache then says.
struct Written {
    kind: usize,
    is_shown: Box<IsShown>,
}

/// What the components of a simulation share.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) client: Client,
    pub(crate) informers: Arc<Informers>,
    pub(crate) clock: Clock,
    pub(crate) scenario: Scenario,
    /// When the simulation started: what times of Nodes in the scenario count from.
    pub(crate) begin: Timestamp,
}

/// What a controller works with: requests, whose results its next reconcile of the same key sees.
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) informers: Arc<Informers>,
    pub(crate) clock: Clock,
    recorder: Recorder,
    /// Writes for each key that the watch has not shown yet.
    written: Mutex<HashMap<ObjectKey, Vec<Written>>>,
    manager: &'static str,
}

impl Context {
    fn new<C: Controller>(shared: &Shared) -> Self {
        let Shared { client, informers, clock, .. } = shared.clone();
        let (name, is_new) = (C::NAME, C::RECORDS_NEW_EVENTS);
        let instance = is_new.then(|| "simulator".to_owned());
        let reporter = Reporter { controller: name.to_owned(), instance };
        let recorder = if is_new { Recorder::new } else { Recorder::core_v1 };
        let recorder = recorder(client.clone(), reporter, clock.clone());
        Self { client, informers, clock, recorder, written: Mutex::default(), manager: name }
    }

    /// The time of day.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// A writer for the status of a kind.
    pub(crate) fn status_writer<K>(client: &Client, clock: &Clock, name: &str) -> StatusWriter<K>
    where
        K: Resource<DynamicType = ()>,
    {
        // Nobody fights for a status here.
        StatusWriter::new(client.clone(), name).attempts(1).remember(0).clock(clock.clone())
    }

    fn wrote(&self, kind: usize, key: &ObjectKey, version: &str) {
        let version = ResourceVersion::new(version);
        self.expect(kind, key, move |_, position| position.is_some_and(|position| position.covers(&version)));
    }

    /// Expects an object to leave the cache, or to be shown as being deleted.
    fn deleted<K: Informed>(&self, key: &ObjectKey, observed: &K) {
        self.expect_change(key, observed, |now: &K| meta::is_deleting(now));
    }

    /// Expects the cache to show a change of an object, or that it is gone. For writes that may remove it: their answer has its version before.
    pub(crate) fn expect_change<K: Informed>(
        &self,
        key: &ObjectKey,
        observed: &K,
        is_changed: impl Fn(&K) -> bool + Send + Sync + 'static,
    ) {
        let (object, uid) = (meta::key(observed), meta::uid(observed).to_owned());
        self.expect(K::INDEX, key, move |informers, _| {
            K::cache(informers).get(&object).is_none_or(|now| meta::uid(&*now) != uid || is_changed(&now))
        });
    }

    fn expect(
        &self,
        kind: usize,
        key: &ObjectKey,
        is_shown: impl Fn(&Informers, Option<&ResourceVersion>) -> bool + Send + Sync + 'static,
    ) {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let written = written.entry(key.clone()).or_default();
        // Mostly one, and it is kept until the key is looked at again.
        written.reserve_exact(1);
        written.push(Written { kind, is_shown: Box::new(is_shown) });
    }

    /// Waits until the caches show what was written for a key.
    async fn catch_up(&self, key: &ObjectKey) -> Result<(), Error> {
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

    fn post(&self) -> PostParams {
        PostParams { field_manager: Some(self.manager.to_owned()), ..PostParams::default() }
    }

    /// Sends a request that writes an object, for a key.
    async fn send<K: Informed>(&self, key: &ObjectKey, request: Prepared) -> Result<(), kube::Error> {
        let answer = requests::send(&self.client, request).await?;
        self.wrote(K::INDEX, key, &requests::view(&answer)?.resource_version());
        Ok(())
    }

    /// The same, and reads the object of the answer.
    async fn write<K: Informed + DeserializeOwned>(
        &self,
        key: &ObjectKey,
        request: Prepared,
    ) -> Result<K, kube::Error> {
        let answer = requests::send(&self.client, request).await?;
        let object = requests::view(&answer)?;
        self.wrote(K::INDEX, key, &object.resource_version());
        requests::read(&object)
    }

    /// Creates an object, for a key.
    pub(crate) async fn create<K>(&self, key: &ObjectKey, object: &K) -> Result<K, kube::Error>
    where
        K: Informed + DeserializeOwned + Serialize,
    {
        let request =
            requests::of::<K>(meta::namespace(object)).create(&self.post(), requests::body(object)?);
        self.write(key, request).await
    }

    /// Creates an object, for a key. Returns its name.
    pub(crate) async fn create_named<K>(&self, key: &ObjectKey, object: &K) -> Result<String, kube::Error>
    where
        K: Informed + Serialize,
    {
        let request =
            requests::of::<K>(meta::namespace(object)).create(&self.post(), requests::body(object)?);
        let answer = requests::send(&self.client, request).await?;
        let object = requests::view(&answer)?;
        self.wrote(K::INDEX, key, &object.resource_version());
        Ok(object.name().into_owned())
    }

    fn patched<K: Informed>(&self, observed: &K, patch: &Patch<Value>) -> Prepared {
        let parameters =
            PatchParams { field_manager: Some(self.manager.to_owned()), ..PatchParams::default() };
        requests::of::<K>(meta::namespace(observed)).patch(meta::name(observed), &parameters, patch)
    }

    /// Changes fields of an object by a merge patch, unless it was replaced or written since it was read.
    pub(crate) async fn patch<K>(
        &self,
        key: &ObjectKey,
        observed: &K,
        mut patch: Value,
    ) -> Result<K, kube::Error>
    where
        K: Informed + DeserializeOwned,
    {
        if let Some(patch) = patch.as_object_mut() {
            let metadata = patch.entry("metadata").or_insert_with(|| Value::Object(serde_json::Map::new()));
            metadata["uid"] = meta::uid(observed).into();
            metadata["resourceVersion"] = observed.meta().resource_version.clone().unwrap_or_default().into();
        }
        self.write(key, self.patched(observed, &Patch::Merge(patch))).await
    }

    /// Changes fields of an object by a strategic merge patch, whatever was written since it was read, unless it was replaced.
    pub(crate) async fn patch_strategic<K>(
        &self,
        key: &ObjectKey,
        observed: &K,
        mut patch: Value,
    ) -> Result<K, kube::Error>
    where
        K: Informed + DeserializeOwned,
    {
        patch["metadata"]["uid"] = meta::uid(observed).into();
        self.write(key, self.patched(observed, &Patch::Strategic(patch))).await
    }

    /// Deletes an object in a namespace, unless it was replaced by another one of its name. Gone is fine: `false`.
    pub(crate) async fn delete<K>(&self, key: &ObjectKey, observed: &K) -> Result<bool, kube::Error>
    where
        K: Informed + DeserializeOwned,
    {
        self.delete_with(key, observed, None).await
    }

    /// The same with a grace period in seconds.
    pub(crate) async fn delete_with<K>(
        &self,
        key: &ObjectKey,
        observed: &K,
        grace: Option<u32>,
    ) -> Result<bool, kube::Error>
    where
        K: Informed + DeserializeOwned,
    {
        self.delete_by(key, observed, DeleteParams { grace_period_seconds: grace, ..DeleteParams::default() })
            .await
    }

    /// The same with what becomes of the objects that it owns.
    pub(crate) async fn delete_propagating<K>(
        &self,
        key: &ObjectKey,
        observed: &K,
        policy: PropagationPolicy,
    ) -> Result<bool, kube::Error>
    where
        K: Informed + DeserializeOwned,
    {
        let parameters = DeleteParams { propagation_policy: Some(policy), ..DeleteParams::default() };
        self.delete_by(key, observed, parameters).await
    }

    async fn delete_by<K>(
        &self,
        key: &ObjectKey,
        observed: &K,
        mut parameters: DeleteParams,
    ) -> Result<bool, kube::Error>
    where
        K: Informed + DeserializeOwned,
    {
        parameters.preconditions =
            Some(Preconditions { uid: Some(meta::uid(observed).to_owned()), resource_version: None });
        let kind = requests::of::<K>(meta::namespace(observed));
        match requests::send(&self.client, kind.delete(meta::name(observed), &parameters)).await {
            Ok(_) => {
                // Not by the version of the answer: that of an object that is gone at once is the one before.
                self.deleted(key, observed);
                Ok(true)
            }
            // Gone. A conflict is tried again, when the watch may show that another object has the name.
            Err(error) if Error::is_code(&error, 404) => {
                self.deleted(key, observed);
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Reads an object from the server, past the cache.
    pub(crate) async fn fresh<K>(&self, observed: &K) -> Result<K, kube::Error>
    where
        K: Informed + DeserializeOwned,
    {
        let kind = requests::of::<K>(meta::namespace(observed));
        let request = kind.get(meta::name(observed), &GetParams::default());
        requests::read(&requests::view(&requests::send(&self.client, request).await?)?)
    }

    /// Replaces the status of an object as Go's `UpdateStatus` does: all of it, in the order given, with the annotations where the kind
    /// permits that. For statuses whose order and times matter; the caller compares.
    pub(crate) async fn update_status<K>(&self, key: &ObjectKey, object: &K) -> Result<(), kube::Error>
    where
        K: Informed + Serialize,
    {
        self.send::<K>(key, self.status_update(object)?).await
    }

    /// The same. Returns the object as it is stored.
    pub(crate) async fn updated_status<K>(&self, key: &ObjectKey, object: &K) -> Result<K, kube::Error>
    where
        K: Informed + DeserializeOwned + Serialize,
    {
        self.write(key, self.status_update(object)?).await
    }

    fn status_update<K: Informed + Serialize>(&self, object: &K) -> Result<Prepared, kube::Error> {
        let kind = requests::of::<K>(meta::namespace(object));
        let body = requests::body(object)?;
        Ok(kind.replace_subresource("status", meta::name(object), &self.post(), body))
    }

    /// Changes fields of a status by a merge patch, unless the object was replaced or written since it was read. Gone is fine.
    pub(crate) async fn patch_status<K: Informed>(
        &self,
        key: &ObjectKey,
        observed: &K,
        fields: serde_json::Map<String, Value>,
    ) -> Result<(), kube::Error> {
        let version = observed.meta().resource_version.as_deref().unwrap_or_default();
        let patch = serde_json::json!({
            "metadata": {"uid": meta::uid(observed), "resourceVersion": version},
            "status": fields,
        });
        let parameters =
            PatchParams { field_manager: Some(self.manager.to_owned()), ..PatchParams::default() };
        let kind = requests::of::<K>(meta::namespace(observed));
        let request =
            kind.patch_subresource("status", meta::name(observed), &parameters, &Patch::Merge(patch));
        match self.send::<K>(key, request).await {
            Err(error) if Error::is_code(&error, 404) => Ok(()),
            sent => sent,
        }
    }

    /// Writes a status if it differs.
    pub(crate) async fn write_status<K, S>(
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
        let outcome = writer.write(observed, |_| Ok(status)).await?;
        if let Outcome::Written { resource_version } = outcome {
            self.wrote(K::INDEX, key, &resource_version);
        }
        Ok(())
    }

    /// Replaces an object, unless it was written since the version that the new one carries.
    pub(crate) async fn replace<K>(&self, key: &ObjectKey, object: &K) -> Result<K, kube::Error>
    where
        K: Informed + DeserializeOwned + Serialize,
    {
        let kind = requests::of::<K>(meta::namespace(object));
        self.write(key, kind.replace(meta::name(object), &self.post(), requests::body(object)?)).await
    }

    /// Records an Event.
    pub(crate) fn event<K>(&self, object: &K, type_: EventType, reason: &str, action: &str, note: String)
    where
        K: Resource<DynamicType = ()>,
    {
        self.recorder.record(event(type_, reason, action, note), meta::reference(object));
    }
}

/// What is recorded.
pub(crate) fn event(type_: EventType, reason: &str, action: &str, note: String) -> Event {
    Event { type_, reason: reason.to_owned(), note: Some(note), action: action.to_owned(), secondary: None }
}

/// A controller that runs: changes go in, and its workers reconcile.
pub(crate) struct Running {
    wake: Box<dyn Fn(&AnyChange) + Send + Sync>,
    pub(crate) work: BoxFuture<'static, ()>,
}

impl Running {
    /// Passes on a change.
    pub(crate) fn wake(&self, change: &AnyChange) {
        (self.wake)(change);
    }
}

/// Prepares a controller to run.
pub(crate) fn start<C: Controller>(controller: C, shared: &Shared) -> Running {
    let controller = Arc::new(controller);
    let queue: Queue<ObjectKey> = Queue::new(BACKOFF);
    let context = Arc::new(Context::new::<C>(shared));
    let wake = {
        let (controller, queue, informers) = (controller.clone(), queue.clone(), shared.informers.clone());
        move |change: &AnyChange| {
            for key in controller.wake(change, &informers) {
                let priority = controller.priority(&key, &informers);
                match controller.batch(change) {
                    Duration::ZERO => queue.add(key, priority),
                    delay => queue.add_after(key, priority, delay),
                }
            }
        }
    };
    let reconcile: Box<Reconcile> = Box::new(move |key| {
        let (controller, context) = (controller.clone(), context.clone());
        Box::pin(async move {
            context.catch_up(&key).await?;
            controller.reconcile(&key, &context).await
        })
    });
    Running { wake: Box::new(wake), work: work(queue, C::WORKERS, reconcile).boxed() }
}

async fn work(queue: Queue<ObjectKey>, workers: usize, reconcile: Box<Reconcile>) {
    worker::run(&queue, workers, None, reconcile).await;
}

/// A reconcile of any controller: its workers are compiled once.
type Reconcile = dyn Fn(ObjectKey) -> BoxFuture<'static, Result<Next, Error>> + Send + Sync;
