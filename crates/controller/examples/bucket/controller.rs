//! Buckets: a user asks for an instance in `spec.instance`; the controller checks that the namespace may use it, and confirms it in
//! `status.instance`. Consumers read status only.
//!
//! The answer is written first: it *is* the acknowledgement. Access in the object store follows from it.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::runtime::controller::{Action, Controller};
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher;
use kube::{Api, Client, CustomResource, ResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use settled_controller::conditions::{ConditionType, Conditions, InvalidConditions, crd};
use settled_controller::decision::policy::{Decided, ack_first, finalizer_first};
use settled_controller::decision::{Allocation, Answer, Decision, Denial, IdempotencyKey, Permit};
use settled_controller::status::{StatusWriter, WriteError};
use settled_controller::{Clock, Fence, Freshness, finalizer};

/// Keeps a Bucket until its access is revoked.
pub const FINALIZER: &str = "storage.example.com/access";
/// The condition with the answer.
pub const BOUND: &str = "Bound";
/// The controller's name as field manager.
const MANAGER: &str = "bucket-controller";
/// How often a bound Bucket is checked. kube-rs does not report which instances were deleted while their watch was expired.
const RESYNC: Duration = Duration::from_secs(300);

/// What a Bucket reports.
#[derive(ConditionType)]
pub enum BucketCondition {
    /// The namespace may use the instance, which is in `status.instance`.
    Bound,
}

/// A bucket that a namespace wants to use.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(group = "storage.example.com", version = "v1", kind = "Bucket", namespaced, status = "BucketStatus")]
#[serde(rename_all = "camelCase")]
pub struct BucketSpec {
    /// The wanted instance.
    pub instance: String,
}

/// The answer.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BucketStatus {
    /// The instance that the bucket is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// `Bound`
    #[serde(default)]
    #[schemars(schema_with = "crd::schema_with::<BucketCondition>")]
    pub conditions: Vec<Condition>,
}

/// An instance, and who may use it. Administrators write it.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(group = "storage.example.com", version = "v1", kind = "BucketInstance")]
#[serde(rename_all = "camelCase")]
pub struct BucketInstanceSpec {
    /// The namespaces whose Buckets may be bound to it.
    #[serde(default)]
    pub allowed_namespaces: Vec<String>,
}

/// The object store.
pub trait ObjectStore: Send + Sync + 'static {
    /// Gives access to an instance under the permit's key, and to no other one. It succeeds if that is done.
    fn allow(&self, permit: &Permit, instance: &str) -> impl Future<Output = Result<(), Error>> + Send;

    /// Takes the access away that was given under the permit's key. It succeeds if there is none.
    fn revoke(&self, permit: &Permit) -> impl Future<Output = Result<(), Error>> + Send;
}

/// Why a reconcile failed. It is tried again.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server refused a request, or could not be reached.
    #[error(transparent)]
    Kube(#[from] kube::Error),
    /// The finalizer could not be written.
    #[error(transparent)]
    Finalizer(#[from] finalizer::Error),
    /// The object store failed.
    #[error("the object store failed: {0}")]
    ObjectStore(String),
    /// A condition is not valid.
    #[error(transparent)]
    Conditions(#[from] InvalidConditions),
    /// The status could not be written: the Bucket may have been written by others since it was read.
    #[error(transparent)]
    Status(#[from] WriteError),
}

/// What reconciles share.
pub struct Context<S> {
    client: Client,
    status: StatusWriter<Bucket>,
    fence: Fence,
    store: S,
    clock: Clock,
}

/// Runs until `stop`.
pub async fn run<S: ObjectStore>(
    client: Client,
    store: S,
    clock: Clock,
    stop: impl Future<Output = ()> + Send + Sync + 'static,
) {
    let fence = Fence::new();
    let status =
        StatusWriter::new(client.clone(), MANAGER).attempts(1).clock(clock.clone()).fence(fence.clone());
    let context = Context { client: client.clone(), status, fence, store, clock };
    let controller = Controller::new(Api::<Bucket>::all(client.clone()), watcher::Config::default());
    let buckets = controller.store();
    controller
        .watches(Api::<BucketInstance>::all(client), watcher::Config::default(), move |instance| {
            let name = instance.name_any();
            let asks =
                move |bucket: &Arc<Bucket>| bucket.spec.instance == name || bound_to(bucket) == Some(&name);
            buckets
                .state()
                .into_iter()
                .filter(asks)
                .map(|bucket| ObjectRef::from_obj(bucket.as_ref()))
                .collect::<Vec<_>>()
        })
        .graceful_shutdown_on(stop)
        .run(reconcile, |_, _, _| Action::requeue(Duration::from_secs(1)), Arc::new(context))
        .for_each(|_| std::future::ready(()))
        .await;
}

async fn reconcile<S: ObjectStore>(bucket: Arc<Bucket>, context: Arc<Context<S>>) -> Result<Action, Error> {
    let Some(key) = IdempotencyKey::of("bucket", bucket.as_ref()) else { return Ok(Action::await_change()) };
    let api: Api<Bucket> = Api::namespaced(context.client.clone(), &bucket.namespace().unwrap_or_default());
    // The cache may be older than the last answer: what it shows as granted may be withdrawn.
    let bucket = match context.fence.freshness(bucket.as_ref()) {
        Freshness::Current => bucket,
        Freshness::Stale | Freshness::Unknown => match api.get_opt(&bucket.name_any()).await? {
            Some(newer) if newer.uid() == bucket.uid() => Arc::new(newer),
            _ => return Ok(Action::await_change()),
        },
    };
    let protected = match finalizer_first::resume(key, bucket.as_ref(), FINALIZER) {
        finalizer_first::State::Gone => return Ok(Action::await_change()),
        finalizer_first::State::Unprotected(unprotected) => {
            unprotected
                .protect(async || finalizer::add(&api, bucket.as_ref(), FINALIZER).await.map(drop))
                .await?;
            return Ok(Action::await_change());
        }
        finalizer_first::State::Protected(protected) => protected,
        finalizer_first::State::Releasing(releasing) => {
            let released =
                releasing.release(async |permit: Permit| context.store.revoke(&permit).await).await?;
            released
                .unprotect(async || finalizer::remove(&api, bucket.as_ref(), FINALIZER).await.map(drop))
                .await?;
            return Ok(Action::await_change());
        }
    };

    // The permission is checked each time: what was allowed may be forbidden by now.
    let decision = decide(&bucket, &context).await?;
    let (key, generation) = protected.request();
    let mut recorded = recorded(&bucket);
    if !matches!((&decision, recorded.current(generation)), (Decision::Granted(granted), Some(bound)) if granted == bound)
    {
        recorded = Allocation::default();
    }
    match ack_first::resume(key, generation, &recorded) {
        ack_first::State::Acknowledged(acknowledged) => {
            acknowledged.act(async |permit, instance| context.store.allow(&permit, &instance).await).await?;
            Ok(Action::requeue(RESYNC))
        }
        ack_first::State::Refused => Ok(Action::await_change()),
        ack_first::State::Undecided(request) => match request.decide(decision) {
            Decided::Granted(granted) => {
                let write = async |answer: Answer<String>| write_answer(&bucket, &context, &answer).await;
                let acknowledged = granted.acknowledge(write).await?;
                acknowledged
                    .act(async |permit, instance| context.store.allow(&permit, &instance).await)
                    .await?;
                Ok(Action::requeue(RESYNC))
            }
            Decided::Denied(denied) => {
                let write = async |answer: Answer<String>| write_answer(&bucket, &context, &answer).await;
                let permit = denied.acknowledge(write).await?;
                // Status shows no instance any more: now the access goes.
                context.store.revoke(&permit).await?;
                Ok(Action::await_change())
            }
        },
    }
}

/// The instance that a Bucket is bound to.
pub fn bound_to(bucket: &Bucket) -> Option<&String> {
    bucket.status.as_ref()?.instance.as_ref()
}

fn recorded(bucket: &Bucket) -> Allocation<String> {
    let mut allocation = Allocation::default();
    let Some(status) = &bucket.status else { return allocation };
    let bound =
        status.conditions.iter().find(|condition| condition.type_ == BOUND && condition.status == "True");
    if let (Some(bound), Some(instance)) = (bound, &status.instance) {
        let generation = bound.observed_generation.unwrap_or_default();
        allocation.record(Decision::Granted(instance.clone()).at(generation));
    }
    allocation
}

async fn decide<S>(bucket: &Bucket, context: &Context<S>) -> Result<Decision<String>, Error> {
    let name = &bucket.spec.instance;
    let instances: Api<BucketInstance> = Api::all(context.client.clone());
    let allowed = match instances.get_opt(name).await? {
        Some(instance) => {
            bucket.namespace().is_some_and(|namespace| instance.spec.allowed_namespaces.contains(&namespace))
        }
        None => false,
    };
    // One answer for both: whether an instance exists is not for every user to know.
    let denial = || Denial::new("NotAllowed", format!("this namespace may not use the instance {name:?}"));
    Ok(if allowed { Decision::Granted(name.clone()) } else { Decision::Refused(denial()) })
}

async fn write_answer<S>(
    bucket: &Bucket,
    context: &Context<S>,
    answer: &Answer<String>,
) -> Result<(), Error> {
    let observed = bucket.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let mut conditions = Conditions::new(observed, answer.generation, &context.clock);
    conditions.report(BucketCondition::Bound, answer.finding());
    let status =
        BucketStatus { instance: answer.decision.granted().cloned(), conditions: conditions.finish()? };
    // One attempt: an answer is for the object that was read. After a conflict, the next reconcile decides anew.
    context.status.write(bucket, |_| Ok(status.clone())).await?;
    Ok(())
}
