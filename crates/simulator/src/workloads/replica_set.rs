//! ReplicaSets: as many Pods as asked for (`pkg/controller/replicaset` upstream).

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetStatus};
use k8s_openapi::api::core::v1::Pod;
use settled_controller::ObjectKey;
use settled_controller::worker::Next;

use crate::controller::{Context, Controller, Error};
use crate::informers::{AnyChange, Informers};
use crate::meta;
use crate::pod;
use crate::workloads::claim;
use crate::workloads::pod_control::{self, BURST, PodError};
use crate::workloads::pods_to_delete::pods_to_delete;

/// The condition with the server's refusal.
const REPLICA_FAILURE: &str = "ReplicaFailure";

/// The controller of ReplicaSets.
pub(crate) struct ReplicaSets;

impl Controller for ReplicaSets {
    const NAME: &'static str = "replicaset-controller";
    const WORKERS: usize = 8;

    fn wake(&self, change: &AnyChange, informers: &Informers) -> Vec<ObjectKey> {
        match change {
            AnyChange::ReplicaSet(change) => vec![change.key.clone()],
            AnyChange::Pod(change) => claim::wake(change, informers, |set: &ReplicaSet| {
                set.spec.as_ref().map(|spec| &spec.selector)
            }),
            _ => Vec::new(),
        }
    }

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Next, Error> {
        let Some(set) = context.informers.replica_sets.get(key) else { return Ok(Next::AwaitChange) };
        let Some(spec) = &set.spec else { return Ok(Next::AwaitChange) };
        let selector = &spec.selector;
        let terminating = context.informers.pods_of(meta::uid(&*set));
        let terminating =
            terminating.iter().filter(|pod| pod::is_terminating(pod) && claim::selects(selector, &***pod));
        let terminating = terminating.count();
        let active = claim::claim(context, key, &*set, selector, pod::is_active).await?;
        let managed = match meta::is_deleting(&*set) {
            true => Ok(()),
            false => manage(context, key, &set, &active).await,
        };
        let now = context.now();
        let status = status(&set, &active, terminating, managed.as_ref().err(), now);
        if set.status.as_ref() != Some(&status) {
            let mut new = ReplicaSet::clone(&set);
            new.status = Some(status.clone());
            context.update_status(key, &new).await?;
        }
        managed?;
        let min_ready = spec.min_ready_seconds.unwrap_or_default();
        if min_ready > 0 && status.ready_replicas != status.available_replicas {
            let next = pod::next_availability(active.iter().map(|pod| &**pod), min_ready, now);
            let whole = Duration::from_secs(u64::from(min_ready.unsigned_abs()));
            return Ok(Next::RequeueAfter(next.unwrap_or(whole)));
        }
        Ok(Next::AwaitChange)
    }
}

fn replicas(set: &ReplicaSet) -> usize {
    let replicas = set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    usize::try_from(replicas).unwrap_or_default()
}

/// Creates Pods that are missing, or deletes Pods that are too many.
async fn manage(
    context: &Context,
    key: &ObjectKey,
    set: &ReplicaSet,
    active: &[Arc<Pod>],
) -> Result<(), PodError> {
    let wanted = replicas(set);
    if active.len() < wanted {
        let Some(template) = set.spec.as_ref().and_then(|spec| spec.template.as_ref()) else { return Ok(()) };
        let count = (wanted - active.len()).min(BURST);
        return pod_control::slow_start(count, |_| pod_control::create(context, key, set, template)).await.1;
    }
    let count = (active.len() - wanted).min(BURST);
    if count == 0 {
        return Ok(());
    }
    let mut related = Vec::new();
    if let Some(owner) = meta::controller(set).filter(|_| count < active.len()) {
        for set in context.informers.controlled::<ReplicaSet>(&owner.uid) {
            related.extend(context.informers.pods_of(meta::uid(&*set)));
        }
    }
    let pods = pods_to_delete(active.to_vec(), &related, count, context.now());
    pod_control::delete_all(context, key, set, pods.iter().map(|pod| &**pod)).await
}

/// The status, as `calculateStatus`.
fn status(
    set: &ReplicaSet,
    active: &[Arc<Pod>],
    terminating: usize,
    failure: Option<&PodError>,
    now: Timestamp,
) -> ReplicaSetStatus {
    let spec = set.spec.as_ref();
    let min_ready = spec.and_then(|spec| spec.min_ready_seconds).unwrap_or_default();
    let template = spec.and_then(|spec| spec.template.as_ref()?.metadata.as_ref()?.labels.as_ref());
    let is_fully_labeled = |pod: &Pod| {
        let labels = pod.metadata.labels.as_ref();
        template
            .into_iter()
            .flatten()
            .all(|(key, value)| labels.and_then(|labels| labels.get(key)) == Some(value))
    };
    let count =
        |accepts: &dyn Fn(&Pod) -> bool| meta::count(active.iter().filter(|pod| accepts(pod)).count());
    let old = set.status.clone().unwrap_or_default();
    let mut conditions = old.conditions.unwrap_or_default();
    let had_failed = conditions.iter().any(|condition| condition.type_ == REPLICA_FAILURE);
    match failure {
        Some(failure) if !had_failed => conditions.push(ReplicaSetCondition {
            type_: REPLICA_FAILURE.to_owned(),
            status: "True".to_owned(),
            last_transition_time: Some(meta::time(now)),
            reason: Some(
                if active.len() < replicas(set) { "FailedCreate" } else { "FailedDelete" }.to_owned(),
            ),
            message: Some(failure.text.clone()),
        }),
        Some(_) => {}
        None => conditions.retain(|condition| condition.type_ != REPLICA_FAILURE),
    }
    ReplicaSetStatus {
        replicas: meta::count(active.len()),
        fully_labeled_replicas: meta::non_zero(count(&is_fully_labeled)),
        ready_replicas: meta::non_zero(count(&pod::is_ready)),
        available_replicas: meta::non_zero(count(&|pod| pod::is_available(pod, min_ready, now))),
        terminating_replicas: Some(meta::count(terminating)),
        observed_generation: set.metadata.generation,
        conditions: meta::non_empty(conditions),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn set(status: Value) -> ReplicaSet {
        let set = json!({
            "metadata": {"name": "web", "generation": 2},
            "spec": {
                "replicas": 3,
                "minReadySeconds": 10,
                "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web", "v": "2"}}},
            },
            "status": status,
        });
        serde_json::from_value(set).expect("a ReplicaSet")
    }

    fn pod(labels: Value, ready_at: Option<&str>) -> Arc<Pod> {
        let conditions =
            ready_at.map(|at| json!([{"type": "Ready", "status": "True", "lastTransitionTime": at}]));
        let pod = json!({"metadata": {"labels": labels}, "status": {"conditions": conditions}});
        Arc::new(serde_json::from_value(pod).expect("a Pod"))
    }

    #[test]
    fn counts_pods_that_are_labeled_ready_and_available() {
        let pods = [
            pod(json!({"app": "web", "v": "2"}), Some("2026-01-01T00:00:00Z")),
            pod(json!({"app": "web", "v": "1"}), Some("2026-01-01T00:00:01Z")),
            pod(json!({"app": "web", "v": "2"}), None),
        ];
        let now = "2026-01-01T00:00:10Z".parse().expect("a time");
        let status = status(&set(json!({"replicas": 0})), &pods, 1, None, now);
        assert_eq!(
            serde_json::to_value(status).expect("JSON"),
            json!({
                "replicas": 3, "fullyLabeledReplicas": 2, "readyReplicas": 2, "availableReplicas": 1,
                "terminatingReplicas": 1, "observedGeneration": 2,
            })
        );
        let next = pod::next_availability(pods.iter().map(|pod| &**pod), 10, now);
        assert_eq!(next, Some(Duration::from_secs(1)));
    }

    #[test]
    fn a_failure_stays_as_it_was_first_reported_and_goes() {
        let failure =
            json!([{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "no"}]);
        let set = set(json!({"replicas": 0, "conditions": failure}));
        let status = status(&set, &[], 0, None, Timestamp::UNIX_EPOCH);
        assert_eq!((status.conditions, status.ready_replicas), (None, None));
    }
}
