//! Jobs: Pods until enough of them have succeeded (`pkg/controller/job` and `ttlafterfinished` upstream).

mod indexes;
mod manage;
mod policy;
mod steps;
mod sync;
mod track;

use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::api::batch::v1::{Job, JobCondition};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::PropagationPolicy;
use serde_json::json;
use settled_controller::ObjectKey;
use settled_controller::worker::Next;

use crate::controller::{Context, Controller, Error};
use crate::informers::{AnyChange, Informers};
use crate::meta;
use crate::workloads::claim;

/// The finalizer of Pods that are not counted yet.
const TRACKING: &str = "batch.kubernetes.io/job-tracking";
/// Changes of Pods are collected for this time: `SyncJobBatchPeriod`.
const BATCH: Duration = Duration::from_secs(1);
/// The controller of Jobs in `managedBy`.
const MANAGER: &str = "kubernetes.io/job-controller";

/// The controller of Jobs.
pub(crate) struct Jobs;

impl Controller for Jobs {
    const NAME: &'static str = "job-controller";

    fn batch(&self, change: &AnyChange) -> Duration {
        match change {
            AnyChange::Job(change) => match (&change.old, &change.new) {
                (Some(old), Some(new)) if old.metadata.generation == new.metadata.generation => BATCH,
                _ => Duration::ZERO,
            },
            _ => BATCH,
        }
    }

    fn wake(&self, change: &AnyChange, informers: &Informers) -> Vec<ObjectKey> {
        match change {
            AnyChange::Job(change) => vec![change.key.clone()],
            AnyChange::Pod(change) => {
                claim::wake(change, informers, |job: &Job| job.spec.as_ref()?.selector.as_ref())
            }
            _ => Vec::new(),
        }
    }

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Next, Error> {
        let Some(job) = context.informers.jobs.get(key) else {
            release(context, key, None).await?;
            return Ok(Next::AwaitChange);
        };
        let manager = job.spec.as_ref().and_then(|spec| spec.managed_by.as_deref());
        if manager.is_some_and(|manager| manager != MANAGER) {
            return Ok(Next::AwaitChange);
        }
        if let Some(finished) = finished(&job) {
            release(context, key, Some(&job)).await?;
            return expire(context, key, &job, finished).await;
        }
        steps::run(context, key, &job).await
    }
}

/// The condition Complete or Failed, if it is true.
pub(crate) fn finished(job: &Job) -> Option<&JobCondition> {
    let mut conditions = job.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions
        .find(|condition| matches!(&*condition.type_, "Complete" | "Failed") && condition.status == "True")
}

fn is_tracked(pod: &Pod) -> bool {
    pod.finalizers().iter().any(|finalizer| finalizer == TRACKING)
}

/// Removes the finalizer of a Pod. One that is gone has none.
async fn untrack(context: &Context, key: &ObjectKey, pod: &Pod) -> Result<(), kube::Error> {
    let patch = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": [TRACKING]}});
    match context.patch_strategic(key, pod, patch).await {
        Ok(_) => {}
        Err(error) if Error::is_code(&error, 404) => {}
        Err(error) => return Err(error),
    }
    // A Pod that is being deleted goes with its last finalizer. Counted again, it would be counted twice.
    context.expect_change(key, pod, |pod: &Pod| !is_tracked(pod));
    Ok(())
}

/// Removes the finalizers of Pods of a Job that is finished or gone (`syncOrphanPod`).
async fn release(context: &Context, key: &ObjectKey, job: Option<&Job>) -> Result<(), Error> {
    let pods = match job {
        Some(job) => context.informers.pods_of(meta::uid(job)),
        None => {
            let mut pods = context.informers.in_namespace::<Pod>(&key.namespace);
            pods.retain(|pod| match meta::controller(&**pod) {
                Some(owner) => owner.kind == "Job" && owner.name == *key.name,
                None => true,
            });
            pods
        }
    };
    for pod in pods.iter().filter(|pod| is_tracked(pod)) {
        untrack(context, key, pod).await?;
    }
    Ok(())
}

/// Deletes a finished Job when its time to live is over.
async fn expire(
    context: &Context,
    key: &ObjectKey,
    job: &Job,
    finished: &JobCondition,
) -> Result<Next, Error> {
    let seconds = job.spec.as_ref().and_then(|spec| spec.ttl_seconds_after_finished);
    let (Some(seconds), Some(since)) = (seconds, &finished.last_transition_time) else {
        return Ok(Next::AwaitChange);
    };
    if meta::is_deleting(job) {
        return Ok(Next::AwaitChange);
    }
    let left = SignedDuration::from_secs(i64::from(seconds)) - since.0.duration_until(context.now());
    if left.is_positive() {
        return Ok(Next::RequeueAfter(left.unsigned_abs()));
    }
    context.delete_propagating(key, job, PropagationPolicy::Foreground).await?;
    Ok(Next::AwaitChange)
}
