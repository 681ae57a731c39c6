//! Reconcile of one policy: its conditions are written where they belong, or nothing is.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use kube::api::{DeleteParams, DynamicObject, PostParams, Preconditions};
use kube::core::{ApiResource, GroupVersionKind, Status};
use kube::runtime::events::{Event, EventType, Reporter as EventReporter};
use kube::{Api, Client, Error, Resource as _};
use serde_json::{Value, json};
use settled_controller::cache::{Cache, CacheStatus};
use settled_controller::decision::RepairScan;
use settled_controller::events::Recorder;
use settled_controller::run::{Runtime, Shutdown};
use settled_controller::status::{Outcome, StatusWriter, WriteError, WriteFailure, WriteMode};
use settled_controller::worker::Next;
use settled_controller::write_metrics::WriteMetrics;
use settled_controller::{Clock, ObjectKey, Projection};
use settled_netpol::conditions::Condition;
use tokio::sync::watch;

use crate::CONTROLLER;
use crate::evaluation::{Desired, Evaluation, Part};
use crate::location::{Location, discover};
use crate::metrics::ReportMetrics;
use crate::report;

/// How long conditions that another manager owns are left alone.
const OWNED_PAUSE: Duration = Duration::from_secs(300);
/// After a conflict, the next event brings the object; this is for the case that there is none.
const CONFLICT_PAUSE: Duration = Duration::from_secs(1);

/// Why a report was not written. It is tried again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// The status could not be written.
    #[error("{0}; {hint}", hint = .0.hint())]
    Status(#[from] Box<WriteError>),
    /// A request for a report failed.
    #[error("cannot {verb} networkpolicyreport {name}: {source}")]
    Request {
        /// The verb.
        verb: &'static str,
        /// Namespace and name.
        name: String,
        /// Why.
        #[source]
        source: Box<Error>,
    },
}

/// The resource of NetworkPolicies. The typed one has no status: Kubernetes removed the field in 1.28.
pub(crate) fn policies() -> ApiResource {
    let kind = GroupVersionKind::gvk("networking.k8s.io", "v1", "NetworkPolicy");
    ApiResource::from_gvk_with_plural(&kind, "networkpolicies")
}

/// What reconciles share.
pub(crate) struct Reporter {
    client: Client,
    clock: Clock,
    shutdown: Shutdown,
    pub(crate) policies: Cache<DynamicObject>,
    /// Started when they are needed: the API server may not serve them.
    reports: OnceLock<Cache<DynamicObject>>,
    statuses: StatusWriter<DynamicObject>,
    report_statuses: StatusWriter<DynamicObject>,
    events: Recorder,
    evaluation: Mutex<Evaluation>,
    location: watch::Sender<Location>,
    metrics: ReportMetrics,
}

impl Reporter {
    pub(crate) fn new(runtime: &Runtime, location: Location) -> Self {
        let (client, clock) = (runtime.client.clone(), runtime.clock.clone());
        let instance = std::env::var("POD_NAME").ok();
        let reporter = EventReporter { controller: format!("settled.dev/{CONTROLLER}"), instance };
        let events = Recorder::new(client.clone(), reporter, clock.clone());
        let writer = |resource: ApiResource, force: bool| {
            let events = events.clone();
            status_writer(&client, &clock, resource, force)
                .on_fight(move |fight| events.record(fight.event(), fight.object.clone()))
        };
        // A status is shared with others. A report is the reporter's, so that nobody makes it one of another generation.
        let (statuses, report_statuses) = (writer(policies(), false), writer(report::resource(), true));
        let writes = WriteMetrics::new(&runtime.metrics);
        writes.status("netpol-status", &statuses);
        writes.status("netpol-report", &report_statuses);
        writes.events(CONTROLLER, &events);
        let metrics = ReportMetrics::new(&runtime.metrics);
        metrics.set_location(location);
        let policies = Cache::of_resource(client.clone(), &policies())
            .projection(Projection::only(["spec", "status", "metadata.managedFields"]))
            .start();
        let (location, _) = watch::channel(location);
        Self {
            client,
            clock,
            shutdown: runtime.shutdown.clone(),
            policies,
            reports: OnceLock::new(),
            statuses,
            report_statuses,
            events,
            evaluation: Mutex::default(),
            location,
            metrics,
        }
    }

    fn evaluation(&self) -> MutexGuard<'_, Evaluation> {
        self.evaluation.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes new evaluations of namespaces. Returns the policies whose verdict changed.
    pub(crate) fn take(&self, evaluated: usize, parts: BTreeMap<Arc<str>, Part>) -> Vec<ObjectKey> {
        let mut evaluation = self.evaluation();
        let changed = evaluation.take(parts);
        self.metrics.evaluated(evaluated, evaluation.totals());
        changed
    }

    /// A policy and what is to be reported for it; None if the evaluation is of another incarnation or generation: the next one brings
    /// the policy back.
    fn current(&self, key: &ObjectKey) -> Option<(Arc<DynamicObject>, Arc<Desired>)> {
        let policy = self.policies.get(key)?;
        let desired = self.evaluation().desired(key)?;
        let is_evaluated = policy.metadata.uid.as_ref() == Some(&desired.uid)
            && policy.metadata.generation.unwrap_or_default() == desired.generation;
        is_evaluated.then_some((policy, desired))
    }

    pub(crate) fn watch_location(&self) -> watch::Receiver<Location> {
        self.location.subscribe()
    }

    pub(crate) fn location(&self) -> Location {
        *self.location.borrow()
    }

    fn set_location(&self, location: Location) {
        self.metrics.set_location(location);
        let changed =
            self.location.send_if_modified(|current| std::mem::replace(current, location) != location);
        if changed {
            tracing::warn!(location = location.as_str(), "conditions are written elsewhere from now on");
        }
    }

    /// The reports, followed from the first call on.
    pub(crate) fn reports(&self) -> &Cache<DynamicObject> {
        self.reports.get_or_init(|| {
            Cache::of_resource(self.client.clone(), &report::resource())
                .projection(Projection::only([
                    "status",
                    "metadata.ownerReferences",
                    "metadata.managedFields",
                ]))
                .start()
        })
    }

    /// Whether reports are followed.
    pub(crate) fn has_reports(&self) -> bool {
        self.reports.get().is_some()
    }

    /// Waits until the caches follow the API server: what is decided while it cannot be reached could not be written. False: the process
    /// ends.
    async fn wait_until_current(&self) -> bool {
        let is_settled =
            |status: &CacheStatus| !matches!(status, CacheStatus::Syncing | CacheStatus::Unreachable(_));
        let current = async {
            let mut status = self.policies.watch_status();
            let synced = status.wait_for(|status| *status == CacheStatus::Synced).await.is_ok();
            match self.reports.get() {
                Some(reports) => synced && reports.watch_status().wait_for(is_settled).await.is_ok(),
                None => synced,
            }
        };
        tokio::select! {
            biased;
            () = self.shutdown.clone().requested() => false,
            is_current = current => is_current,
        }
    }

    /// Writes the conditions of a policy, if they are not there.
    pub(crate) async fn reconcile(&self, key: &ObjectKey) -> Result<Next, ReportError> {
        if !self.wait_until_current().await {
            return Ok(Next::AwaitChange);
        }
        let Some((policy, desired)) = self.current(key) else { return Ok(Next::AwaitChange) };
        match self.location() {
            Location::Status => self.write_status(&policy, &desired).await,
            Location::Report | Location::ReportGateOff => self.write_report(key, &policy, &desired).await,
        }
    }

    async fn write_status(&self, policy: &DynamicObject, desired: &Desired) -> Result<Next, ReportError> {
        let key = key_of(policy);
        match self.apply_status(&self.statuses, policy, desired).await {
            Ok(Outcome::Gone) => Ok(Next::AwaitChange),
            // An answer of 200 is no proof: with its feature gate off, the API server keeps what it has.
            Ok(Outcome::Unchanged) if !has(policy, desired) => {
                self.set_location(Location::ReportGateOff);
                self.write_report(&key, policy, desired).await
            }
            Ok(Outcome::Written { .. } | Outcome::Unchanged) => self.remove_report(&key, policy).await,
            Err(error) if matches!(error.cause, WriteFailure::NoStatusSubresource { .. }) => {
                self.set_location(Location::Report);
                self.write_report(&key, policy, desired).await
            }
            Err(error) => self.failed(policy, &policies(), error),
        }
    }

    async fn apply_status(
        &self,
        writer: &StatusWriter<DynamicObject>,
        policy: &DynamicObject,
        desired: &Desired,
    ) -> Result<Outcome, WriteError> {
        writer.write(policy, |policy| Ok(json!({"conditions": self.conditions(policy, desired)}))).await
    }

    /// Leaves an object with the report's name to its creator.
    fn leave_foreign(&self, policy: &DynamicObject, report: &DynamicObject) {
        self.metrics.owned_by_others.inc();
        let event = Event {
            type_: EventType::Warning,
            reason: "ReportOwnedByOthers".to_owned(),
            action: "WriteReport".to_owned(),
            note: Some(
                "a NetworkPolicyReport of this name was made by others and is left to them".to_owned(),
            ),
            secondary: Some(report.object_ref(&report::resource())),
        };
        self.events.record(event, policy.object_ref(&policies()));
    }

    /// What follows from a failed write. Conditions that another manager owns are left to it: that is reported, and not fought over.
    fn failed(
        &self,
        object: &DynamicObject,
        resource: &ApiResource,
        error: WriteError,
    ) -> Result<Next, ReportError> {
        match &error.cause {
            WriteFailure::Owned { .. } => {
                self.metrics.owned_by_others.inc();
                tracing::warn!(%error, "conditions are left to their owner");
                let event = Event {
                    type_: EventType::Warning,
                    reason: "ConditionOwnedByOthers".to_owned(),
                    action: "WriteStatus".to_owned(),
                    note: Some(error.cause.to_string()),
                    secondary: None,
                };
                self.events.record(event, object.object_ref(resource));
                Ok(Next::RequeueAfter(OWNED_PAUSE))
            }
            WriteFailure::Conflict { .. } => Ok(Next::RequeueAfter(CONFLICT_PAUSE)),
            _ => match error.retry_after() {
                Some(delay) => Ok(Next::RequeueAfter(delay)),
                None => Err(Box::new(error).into()),
            },
        }
    }

    async fn write_report(
        &self,
        key: &ObjectKey,
        policy: &DynamicObject,
        desired: &Desired,
    ) -> Result<Next, ReportError> {
        if self.location() == Location::ReportGateOff {
            self.clear_status(policy, desired).await?;
        }
        let reports = self.reports();
        if reports.status() == CacheStatus::NoKind {
            // All policies come back when the API server serves reports.
            return Ok(Next::AwaitChange);
        }
        let api = self.reports_of(policy);
        let existing = reports.get(key);
        let created;
        let report = match &existing {
            Some(report) if report::is_of(report, policy) => &**report,
            Some(foreign) if report::owner(foreign).is_none() => {
                self.leave_foreign(policy, foreign);
                return Ok(Next::RequeueAfter(OWNED_PAUSE));
            }
            other => {
                if let Some(stale) = other
                    && !delete(&api, key, stale).await?
                {
                    return Ok(Next::RequeueAfter(CONFLICT_PAUSE));
                }
                match create(&api, key, policy).await? {
                    Creation::Created(report) => created = report,
                    Creation::Exists => return Ok(Next::RequeueAfter(CONFLICT_PAUSE)),
                    Creation::NoNamespace => return Ok(Next::AwaitChange),
                }
                &*created
            }
        };
        let written = self
            .report_statuses
            .write(report, |report| Ok(report::status(desired, self.conditions(report, desired))));
        match written.await {
            Ok(_) => Ok(Next::AwaitChange),
            Err(error) => self.failed(report, &report::resource(), error),
        }
    }

    /// Takes own conditions out of a status that cannot be written any more: they would get old, and nobody would know. With the feature
    /// gate off, that is all the API server allows.
    async fn clear_status(&self, policy: &DynamicObject, desired: &Desired) -> Result<(), ReportError> {
        if !has_own_status(policy) || has(policy, desired) {
            return Ok(());
        }
        match self.statuses.write(policy, |_| Ok(json!({}))).await {
            Ok(_) => Ok(()),
            // The next event, or the next change of the policy, brings it back.
            Err(error) if matches!(error.cause, WriteFailure::Conflict { .. }) => Ok(()),
            Err(error) => Err(Box::new(error).into()),
        }
    }

    /// Removes the report of a policy that has its conditions in status.
    async fn remove_report(&self, key: &ObjectKey, policy: &DynamicObject) -> Result<Next, ReportError> {
        let report = self.reports.get().and_then(|reports| reports.get(key));
        let Some(report) = report.filter(|report| report::owner(report).is_some()) else {
            return Ok(Next::AwaitChange);
        };
        match delete(&self.reports_of(policy), key, &report).await? {
            true => Ok(Next::AwaitChange),
            false => Ok(Next::RequeueAfter(CONFLICT_PAUSE)),
        }
    }

    fn reports_of(&self, policy: &DynamicObject) -> Api<DynamicObject> {
        let namespace = policy.metadata.namespace.as_deref().unwrap_or_default();
        Api::namespaced_with(self.client.clone(), namespace, &report::resource())
    }

    /// The desired conditions, each with the observed transition time if its status is the observed one.
    fn conditions(&self, object: &DynamicObject, desired: &Desired) -> Vec<Value> {
        let observed = observed(object);
        let now = format!("{:.0}", self.clock.now());
        let condition = |condition: &Condition| {
            let before = observed.get(&*condition.condition_type);
            let text = |name: &str| before.and_then(|before| before.get(name)).and_then(Value::as_str);
            let is_same = text("status") == Some(&*condition.status.to_string());
            // If the clock was set back, the time does not decrease.
            let time = text("lastTransitionTime").filter(|time| is_same || *time > now.as_str());
            condition.to_value(time.unwrap_or(&now))
        };
        desired.conditions.iter().map(condition).collect()
    }

    /// Tries whether the API server takes conditions in status by now.
    pub(crate) async fn look_for_status(&self) {
        let location = self.location();
        if location == Location::Status {
            return;
        }
        let served = match discover(&self.client).await {
            Ok(served) => served,
            Err(error) => {
                tracing::debug!(%error, "cannot ask the API server for what it serves");
                return;
            }
        };
        match (served.status, location) {
            (true, Location::Report) => self.set_location(Location::Status),
            (false, Location::ReportGateOff) => self.set_location(Location::Report),
            (true, Location::ReportGateOff) if self.is_gate_on().await => self.set_location(Location::Status),
            _ => {}
        }
    }

    /// Writes the status of one policy, and reads it.
    async fn is_gate_on(&self) -> bool {
        let first = self.evaluation().first();
        let Some((policy, desired)) = first.and_then(|key| self.current(&key)) else { return false };
        // Without a memory of what the API server did not take.
        let writer = status_writer(&self.client, &self.clock, policies(), false);
        if !matches!(self.apply_status(&writer, &policy, &desired).await, Ok(Outcome::Written { .. })) {
            return false;
        }
        let namespace = policy.metadata.namespace.as_deref().unwrap_or_default();
        let api = Api::<DynamicObject>::namespaced_with(self.client.clone(), namespace, &policies());
        let found = api.get_opt(policy.metadata.name.as_deref().unwrap_or_default()).await;
        found.is_ok_and(|found| found.is_some_and(|found| has(&found, &desired)))
    }

    /// Deletes reports whose policies are gone, where the garbage collector does not.
    pub(crate) async fn repair(&self, scan: &mut RepairScan<ObjectKey>) {
        let Some(reports) = self.reports.get() else { return };
        if self.policies.status() != CacheStatus::Synced || reports.status() != CacheStatus::Synced {
            return;
        }
        let owned = |key: &ObjectKey| reports.get(key).is_some_and(|report| report::owner(&report).is_some());
        let inventory = reports.keys().into_iter().filter(owned);
        for key in scan.orphans(inventory, self.policies.keys(), self.clock.now()) {
            let Some(report) = reports.get(&key) else { continue };
            let api = self.reports_of(&report);
            if let Err(error) = delete(&api, &key, &report).await {
                tracing::warn!(%error, "a report without a policy stays");
            }
        }
    }

    /// Writes the events that are queued.
    pub(crate) async fn finish(self) {
        self.events.shutdown().await;
    }
}

fn status_writer(
    client: &Client,
    clock: &Clock,
    resource: ApiResource,
    force: bool,
) -> StatusWriter<DynamicObject> {
    StatusWriter::with_kind(client.clone(), CONTROLLER, resource)
        .mode(WriteMode::Apply { force })
        // Verdicts are of the object that was read: another generation has another one.
        .attempts(1)
        .clock(clock.clone())
}

fn key_of(policy: &DynamicObject) -> ObjectKey {
    let metadata = &policy.metadata;
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    ObjectKey::new(&text(&metadata.namespace), &text(&metadata.name))
}

enum Creation {
    Created(Box<DynamicObject>),
    /// Another write was faster, or an answer was lost: the cache will have it.
    Exists,
    /// The namespace is gone or going, and the policy with it.
    NoNamespace,
}

async fn create(
    api: &Api<DynamicObject>,
    key: &ObjectKey,
    policy: &DynamicObject,
) -> Result<Creation, ReportError> {
    let Some(intent) = report::of(policy) else { return Ok(Creation::NoNamespace) };
    let parameters = PostParams { field_manager: Some(CONTROLLER.to_owned()), ..PostParams::default() };
    match api.create(&parameters, &intent).await {
        Ok(created) => Ok(Creation::Created(Box::new(created))),
        Err(Error::Api(status)) if status.reason == "AlreadyExists" => Ok(Creation::Exists),
        Err(Error::Api(status)) if is_without_namespace(&status) => Ok(Creation::NoNamespace),
        Err(error) => Err(failed("create", key, error)),
    }
}

/// Deletes what was read. False: it has changed since.
async fn delete(
    api: &Api<DynamicObject>,
    key: &ObjectKey,
    report: &DynamicObject,
) -> Result<bool, ReportError> {
    let uid = report.metadata.uid.clone();
    let preconditions = Some(Preconditions { uid, resource_version: None });
    match api.delete(&key.name, &DeleteParams { preconditions, ..DeleteParams::default() }).await {
        Ok(_) => Ok(true),
        Err(Error::Api(status)) if status.code == 404 => Ok(true),
        Err(Error::Api(status)) if status.code == 409 => Ok(false),
        Err(error) => Err(failed("delete", key, error)),
    }
}

fn failed(verb: &'static str, key: &ObjectKey, source: Error) -> ReportError {
    ReportError::Request { verb, name: key.to_string(), source: Box::new(source) }
}

fn is_without_namespace(status: &Status) -> bool {
    let Some(details) = &status.details else { return false };
    let is_missing = status.code == 404 && details.kind == "namespaces";
    is_missing || details.causes.iter().any(|cause| cause.reason == "NamespaceTerminating")
}

fn observed(object: &DynamicObject) -> BTreeMap<&str, &Value> {
    let conditions = object.data.pointer("/status/conditions").and_then(Value::as_array);
    let named = conditions.into_iter().flatten();
    named.filter_map(|condition| Some((condition.get("type")?.as_str()?, condition))).collect()
}

/// Whether an object has the desired conditions, whatever their transition times.
fn has(object: &DynamicObject, desired: &Desired) -> bool {
    let observed = observed(object);
    desired.conditions.iter().all(|condition| {
        let Some(found) = observed.get(&*condition.condition_type) else { return false };
        let text = |name: &str| found.get(name).and_then(Value::as_str).unwrap_or_default();
        text("status") == condition.status.to_string()
            && text("reason") == condition.reason.as_str()
            && text("message") == condition.message
            && found.get("observedGeneration").and_then(Value::as_i64).unwrap_or_default()
                == condition.observed_generation
    })
}

/// Whether the status has fields that the reporter applied.
fn has_own_status(policy: &DynamicObject) -> bool {
    policy.metadata.managed_fields.iter().flatten().any(|entry| {
        entry.manager.as_deref() == Some(CONTROLLER)
            && entry.subresource.as_deref() == Some("status")
            && entry.fields_v1.as_ref().is_some_and(|fields| fields.0.get("f:status").is_some())
    })
}
