//! The status writer.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::{GetParams, Patch, PatchParams};
use kube::core::Request;
use kube::runtime::events::{Event, EventType};
use kube::{Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::compare::{contains, leaves, merge_patch, settle, without_nulls};
use super::error::{Answer, BoxError, ObjectName, WriteError, WriteFailure, classify, names_object};
use super::extract::{Written, status_member};
use super::memory::{Memory, Versioned};
use super::ownership::{is_applied, other_managers};
use crate::Clock;
use crate::fence::Fence;
use crate::own_writes::OwnWrites;
use crate::typed;

/// Default number of remembered objects.
const MEMORY: usize = 4096;
/// Default number of attempts.
const ATTEMPTS: u32 = 5;

/// Outcome of a status write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Written.
    Written {
        /// The resulting `metadata.resourceVersion`, for a read-your-writes fence.
        resource_version: String,
    },
    /// The status is unchanged. No request was made.
    Unchanged,
    /// The object was deleted, or deleted and recreated.
    Gone,
}

/// Write mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WriteMode {
    /// A merge patch of the differences. The desired status is the complete one of its type: fields of the observed
    /// status that it lacks are removed.
    #[default]
    MergePatch,
    /// Server-side apply. The desired status has only the controller's own fields and conditions; those of other
    /// managers are kept.
    Apply {
        /// Takes over fields of other managers. Without it, they cause [`WriteFailure::Owned`].
        force: bool,
    },
}

/// A fight: another manager repeatedly reverts a writer's changes.
#[derive(Clone, Debug, PartialEq)]
pub struct Fight {
    /// The object.
    pub object: ObjectReference,
    /// Fields that the writer wrote, another manager changed, and the writer restored: `conditions[Ready].status`. At
    /// most eight.
    pub fields: Vec<String>,
    /// Other managers of the status, by managedFields.
    pub managers: Vec<String>,
    /// Number of occurrences within the last ten minutes.
    pub rounds: u32,
}

impl Fight {
    /// The fight as an event about the object, for a [`Recorder`](crate::events::Recorder).
    #[must_use]
    pub fn event(&self) -> Event {
        Event {
            type_: EventType::Warning,
            reason: "StatusOverwritten".to_owned(),
            action: "WriteStatus".to_owned(),
            // Without the number of rounds: the event has a count.
            note: Some(format!("{} overwritten by {} and set back", self.fields.join(", "), self.others())),
            secondary: None,
        }
    }

    fn others(&self) -> String {
        if self.managers.is_empty() { "an unknown manager".to_owned() } else { self.managers.join(", ") }
    }
}

impl fmt::Display for Fight {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (fields, others) = (self.fields.join(", "), self.others());
        write!(formatter, "{fields} overwritten by {others} and set back, {} times", self.rounds)
    }
}

/// Counters of the outcomes of a writer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Written statuses.
    pub written: u64,
    /// Unchanged statuses.
    pub unchanged: u64,
    /// Conflicts, after which the object was read again.
    pub conflicts: u64,
    /// Statuses of deleted objects.
    pub gone: u64,
    /// Failed writes.
    pub failed: u64,
    /// Writes that restored fields changed by another manager.
    pub fights: u64,
}

#[derive(Debug, Default)]
struct Counters {
    written: AtomicU64,
    unchanged: AtomicU64,
    conflicts: AtomicU64,
    gone: AtomicU64,
    failed: AtomicU64,
    fights: AtomicU64,
}

type OnFight = Arc<dyn Fn(&Fight) + Send + Sync>;

/// Writes the status of objects of one kind, if it differs. Clones share the writer. See the [module](super).
pub struct StatusWriter<K: Resource> {
    client: Client,
    manager: String,
    kind: Arc<K::DynamicType>,
    mode: WriteMode,
    attempts: u32,
    clock: Clock,
    /// JSON pointers in the status to fields that are written only together with other changes.
    ignored: Vec<String>,
    on_fight: Option<OnFight>,
    own_writes: Option<OwnWrites>,
    fence: Option<Fence>,
    memory: Arc<Mutex<Memory>>,
    /// Whether writes are remembered.
    remembers: bool,
    counters: Arc<Counters>,
}

impl<K: Resource> Clone for StatusWriter<K> {
    fn clone(&self) -> Self {
        Self {
            client: self.client.clone(),
            manager: self.manager.clone(),
            kind: self.kind.clone(),
            mode: self.mode,
            attempts: self.attempts,
            clock: self.clock.clone(),
            ignored: self.ignored.clone(),
            on_fight: self.on_fight.clone(),
            own_writes: self.own_writes.clone(),
            fence: self.fence.clone(),
            memory: self.memory.clone(),
            remembers: self.remembers,
            counters: self.counters.clone(),
        }
    }
}

impl<K: Resource> fmt::Debug for StatusWriter<K> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("StatusWriter")
            .field("resource", &K::plural(&self.kind))
            .field("manager", &self.manager)
            .field("mode", &self.mode)
            .finish_non_exhaustive()
    }
}

impl<K> StatusWriter<K>
where
    K: Resource,
    K::DynamicType: Default,
{
    /// A writer for a kind known at compile time. `manager` is the controller's name in managedFields.
    pub fn new(client: Client, manager: impl Into<String>) -> Self {
        Self::with_kind(client, manager, K::DynamicType::default())
    }
}

impl<K: Resource> StatusWriter<K> {
    /// A writer for a kind known at run time: `DynamicObject`, with its `ApiResource`.
    pub fn with_kind(client: Client, manager: impl Into<String>, kind: K::DynamicType) -> Self {
        Self {
            client,
            manager: manager.into(),
            kind: Arc::new(kind),
            mode: WriteMode::default(),
            attempts: ATTEMPTS,
            clock: Clock::default(),
            ignored: Vec::new(),
            on_fight: None,
            own_writes: None,
            fence: None,
            memory: Arc::new(Mutex::new(Memory::new(MEMORY))),
            remembers: true,
            counters: Arc::default(),
        }
    }

    /// Sets the write mode. The default is a merge patch.
    #[must_use]
    pub fn mode(self, mode: WriteMode) -> Self {
        Self { mode, ..self }
    }

    /// Sets the number of attempts before a write fails with a conflict. The default is 5.
    #[must_use]
    pub fn attempts(self, attempts: u32) -> Self {
        Self { attempts: attempts.max(1), ..self }
    }

    /// Sets the clock of fight detection.
    #[must_use]
    pub fn clock(self, clock: Clock) -> Self {
        Self { clock, ..self }
    }

    /// Sets the number of remembered objects, of which the last used ones are kept. The default is 4096, with at most
    /// about 2 KB each. With 0, nothing is remembered: fights are not detected, and fields that the API server drops or
    /// changes are written again with each call.
    #[must_use]
    pub fn remember(self, objects: usize) -> Self {
        Self { memory: Arc::new(Mutex::new(Memory::new(objects))), remembers: objects > 0, ..self }
    }

    /// Adds a field of the status, as a JSON pointer such as `/lastSyncTime`, that is written only together with other
    /// changes. Transition times and heartbeats of conditions are treated so by default.
    #[must_use]
    pub fn ignore_alone(mut self, pointer: impl Into<String>) -> Self {
        self.ignored.push(pointer.into());
        self
    }

    /// Sets the callback for fights: it may log, count, or record an event. It must not block.
    ///
    /// ```
    /// use kube::core::DynamicObject;
    /// use settled_controller::events::Recorder;
    /// use settled_controller::status::StatusWriter;
    ///
    /// fn with_events(writer: StatusWriter<DynamicObject>, recorder: Recorder) -> StatusWriter<DynamicObject> {
    ///     writer.on_fight(move |fight| recorder.record(fight.event(), fight.object.clone()))
    /// }
    /// ```
    #[must_use]
    pub fn on_fight(self, callback: impl Fn(&Fight) + Send + Sync + 'static) -> Self {
        Self { on_fight: Some(Arc::new(callback)), ..self }
    }

    /// Records writes, for the predicate [`own_write_in`](crate::predicate::own_write_in).
    #[must_use]
    pub fn own_writes(self, own_writes: &OwnWrites) -> Self {
        Self { own_writes: Some(own_writes.clone()), ..self }
    }

    /// Records each write in a fence, for reads that must not be older.
    #[must_use]
    pub fn fence(self, fence: Fence) -> Self {
        Self { fence: Some(fence), ..self }
    }

    /// Counters of the writer and its clones.
    pub fn counts(&self) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            written: read(&self.counters.written),
            unchanged: read(&self.counters.unchanged),
            conflicts: read(&self.counters.conflicts),
            gone: read(&self.counters.gone),
            failed: read(&self.counters.failed),
            fights: read(&self.counters.fights),
        }
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Identity of the observed state, which guards the write.
struct Guard<'k> {
    name: &'k str,
    namespace: Option<&'k str>,
    uid: &'k str,
    resource_version: &'k str,
}

impl<'k> Guard<'k> {
    fn of<K: Resource>(object: &'k K) -> Result<Self, WriteFailure> {
        let meta = object.meta();
        let present = |value: &'k Option<String>, field: &'static str| {
            value.as_deref().filter(|value| !value.is_empty()).ok_or(WriteFailure::Incomplete { field })
        };
        Ok(Self {
            name: present(&meta.name, "metadata.name")?,
            namespace: meta.namespace.as_deref(),
            uid: present(&meta.uid, "metadata.uid")?,
            resource_version: present(&meta.resource_version, "metadata.resourceVersion")?,
        })
    }
}

/// Result of one attempt.
enum Attempt {
    Done(Outcome),
    Stale(kube::Error),
}

impl<K> StatusWriter<K>
where
    K: Resource + Serialize + DeserializeOwned,
{
    /// Decides the status of an object from its observed state, and writes it if it differs. After a conflict the
    /// object is read again, and `decide` is called with the result. Spec and metadata are never written.
    ///
    /// # Errors
    /// See [`WriteFailure`]. The object's status is then unchanged.
    pub async fn write<S: Serialize>(
        &self,
        observed: &K,
        mut decide: impl FnMut(&K) -> Result<S, BoxError>,
    ) -> Result<Outcome, WriteError> {
        let mut decide = |object: &K| -> Result<Value, WriteFailure> {
            let status = decide(object).map_err(|source| WriteFailure::Decide { source })?;
            let status = serde_json::to_value(status).map_err(|source| WriteFailure::Serialize { source })?;
            Ok(without_nulls(status))
        };
        let result = self.decide_and_write(observed, &mut decide).await;
        let counter = match &result {
            Ok(Outcome::Written { .. }) => &self.counters.written,
            Ok(Outcome::Unchanged) => &self.counters.unchanged,
            Ok(Outcome::Gone) => &self.counters.gone,
            Err(_) => &self.counters.failed,
        };
        count(counter);
        if let (Ok(Outcome::Gone), Some(uid)) = (&result, &observed.meta().uid) {
            self.memory.lock().unwrap_or_else(PoisonError::into_inner).forget(uid);
        }
        let meta = observed.meta();
        result.map_err(|cause| WriteError {
            object: ObjectName {
                group: K::group(&self.kind).into_owned(),
                resource: K::plural(&self.kind).into_owned(),
                namespace: meta.namespace.clone(),
                name: meta.name.clone().unwrap_or_default(),
            },
            cause,
        })
    }

    async fn decide_and_write(
        &self,
        observed: &K,
        decide: &mut impl FnMut(&K) -> Result<Value, WriteFailure>,
    ) -> Result<Outcome, WriteFailure> {
        let first = Guard::of(observed)?;
        let mut latest: Option<K> = None;
        let mut attempt = 1;
        loop {
            let object = latest.as_ref().unwrap_or(observed);
            let desired = decide(object)?;
            let source = match self.attempt(object, desired).await? {
                Attempt::Done(outcome) => return Ok(outcome),
                Attempt::Stale(error) => error,
            };
            count(&self.counters.conflicts);
            if attempt >= self.attempts {
                return Err(WriteFailure::Conflict { attempts: attempt, source });
            }
            attempt += 1;
            match self.read(&first).await? {
                Some(object) => latest = Some(object),
                None => return Ok(Outcome::Gone),
            }
        }
    }

    /// Writes the status if it differs.
    async fn attempt(&self, object: &K, mut desired: Value) -> Result<Attempt, WriteFailure> {
        let guard = Guard::of(object)?;
        let observed = or_empty(status_member(object).map_err(|source| WriteFailure::Serialize { source })?);
        settle(&mut desired, &observed);
        let Some(change) = self.change(object, &observed, &desired) else {
            return Ok(Attempt::Done(Outcome::Unchanged));
        };
        let patched = self.patch(&guard, change).await;
        let written = match patched {
            Ok(written) => written,
            Err(error) => match classify(error, "patch", self.subresource(), desired.to_string().len()) {
                Answer::Stale(error) => return Ok(Attempt::Stale(error)),
                Answer::NotFound(source) => {
                    // The object, the subresource or the resource does not exist: reading the object distinguishes
                    // them.
                    return match self.read(&guard).await? {
                        Some(_) => Err(WriteFailure::NoStatusSubresource { source }),
                        None => Ok(Attempt::Done(Outcome::Gone)),
                    };
                }
                Answer::Failure(failure) => return Err(failure),
            },
        };
        let resource_version = written.metadata.resource_version.unwrap_or_default();
        if let Some(fence) = self.fence.as_ref().filter(|_| !resource_version.is_empty()) {
            fence.wrote_version(object, &resource_version);
        }
        let stored = or_empty(written.status);
        let before = Versioned { status: &observed, version: guard.resource_version };
        self.remember_write(
            object,
            &desired,
            before,
            Versioned { status: &stored, version: &resource_version },
        );
        if let Some(own_writes) = &self.own_writes {
            own_writes.record(guard.uid, guard.resource_version, &resource_version);
        }
        if resource_version == guard.resource_version {
            // The result is equal to the observed status.
            return Ok(Attempt::Done(Outcome::Unchanged));
        }
        tracing::debug!(
            resource = %K::plural(&self.kind), namespace = guard.namespace, name = guard.name, resource_version, "status written"
        );
        Ok(Attempt::Done(Outcome::Written { resource_version }))
    }

    /// The request body: a merge patch, or the applied status; `None` if the object has the desired status.
    fn change(&self, object: &K, observed: &Value, desired: &Value) -> Option<Value> {
        let uid = object.meta().uid.as_deref().unwrap_or_default();
        let memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        if let WriteMode::Apply { .. } = self.mode {
            let entries = object.meta().managed_fields.as_deref();
            let is_applied = || {
                is_applied(entries, &self.manager, desired).unwrap_or_else(|| memory.is_desired(uid, desired))
            };
            let same = contains(observed, &self.compared(observed, desired)) && is_applied();
            return (!same && !memory.is_written(uid, desired, observed)).then(|| desired.clone());
        }
        merge_patch(observed, &self.compared(observed, desired))?;
        if memory.is_written(uid, desired, observed) {
            return None;
        }
        merge_patch(observed, desired)
    }

    /// The desired status with the observed values of fields that are written only together with other changes.
    fn compared(&self, observed: &Value, desired: &Value) -> Value {
        let mut compared = desired.clone();
        for pointer in &self.ignored {
            if let (Some(desired), Some(observed)) =
                (compared.pointer_mut(pointer), observed.pointer(pointer))
            {
                *desired = observed.clone();
            }
        }
        compared
    }

    async fn patch(&self, guard: &Guard<'_>, status: Value) -> Result<Written, kube::Error> {
        let request = Request::new(K::url_path(&self.kind, guard.namespace));
        let params = PatchParams { field_manager: Some(self.manager.clone()), ..PatchParams::default() };
        let precondition = json!({"resourceVersion": guard.resource_version, "uid": guard.uid});
        let request = match self.mode {
            WriteMode::MergePatch => {
                let body = json!({"metadata": precondition, "status": status});
                request.patch_subresource("status", guard.name, &params, &Patch::Merge(body))
            }
            WriteMode::Apply { force } => {
                let mut metadata = precondition;
                metadata["name"] = guard.name.into();
                if let Some(namespace) = guard.namespace {
                    metadata["namespace"] = namespace.into();
                }
                let body = json!({
                    "apiVersion": K::api_version(&self.kind),
                    "kind": K::kind(&self.kind),
                    "metadata": metadata,
                    "status": status,
                });
                let params = PatchParams { force, ..params };
                request.patch_subresource("status", guard.name, &params, &Patch::Apply(body))
            }
        };
        let mut request = request.map_err(kube::Error::BuildRequest)?;
        // The span name of `Api::patch_status`.
        request.extensions_mut().insert("patch_status");
        self.client.request(request).await
    }

    /// Reads the object again. `None` if it was deleted or recreated.
    async fn read(&self, guard: &Guard<'_>) -> Result<Option<K>, WriteFailure> {
        let request =
            Request::new(K::url_path(&self.kind, guard.namespace)).get(guard.name, &GetParams::default());
        let mut request =
            request.map_err(|error| WriteFailure::Request { source: kube::Error::BuildRequest(error) })?;
        request.extensions_mut().insert("get");
        let answer = self.client.request_text(request).await;
        match answer
            .and_then(|answer| typed::from_slice::<K>(answer.as_bytes()).map_err(kube::Error::SerdeError))
        {
            Ok(object) => Ok(Some(object).filter(|object| object.meta().uid.as_deref() == Some(guard.uid))),
            Err(error) => match classify(error, "get", K::plural(&self.kind).into_owned(), 0) {
                Answer::NotFound(error) if names_object(&error) => Ok(None),
                Answer::NotFound(source) => Err(WriteFailure::NotServed { source }),
                Answer::Stale(source) => Err(WriteFailure::Request { source }),
                Answer::Failure(failure) => Err(failure),
            },
        }
    }

    fn subresource(&self) -> String {
        format!("{}/status", K::plural(&self.kind))
    }

    fn remember_write(&self, object: &K, desired: &Value, observed: Versioned<'_>, stored: Versioned<'_>) {
        if !self.remembers {
            return;
        }
        let uid = object.meta().uid.as_deref().unwrap_or_default();
        let dropped: Vec<String> = if contains(stored.status, desired) {
            Vec::new()
        } else {
            let stored = leaves(stored.status);
            leaves(desired).into_iter().filter(|leaf| !stored.contains(leaf)).map(|leaf| leaf.path).collect()
        };
        if !dropped.is_empty() {
            tracing::warn!(
                resource = %K::plural(&self.kind), namespace = object.meta().namespace, name = object.meta().name,
                fields = dropped.join(", "), "the API server dropped or changed fields of the written status"
            );
        }
        let now = self.clock.now();
        let overwritten = {
            let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
            memory.record(uid, desired, observed, stored, now)
        };
        let Some(overwritten) = overwritten else { return };
        let fight = Fight {
            object: object.object_ref(&self.kind),
            fields: overwritten.fields,
            managers: other_managers(object.meta().managed_fields.as_deref(), &self.manager),
            rounds: overwritten.rounds,
        };
        count(&self.counters.fights);
        tracing::warn!(
            resource = %K::plural(&self.kind), namespace = fight.object.namespace, name = fight.object.name, "status {fight}"
        );
        if let Some(on_fight) = &self.on_fight {
            on_fight(&fight);
        }
    }
}

/// A status without nulls.
fn or_empty(status: Value) -> Value {
    if status.is_null() { json!({}) } else { without_nulls(status) }
}
