//! Pods as controllers see them: active, ready, made from a template.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Pod, PodCondition, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;

use crate::meta;

/// The longest name of an object.
const MAX_NAME: usize = 253;

/// Neither finished nor being deleted: `controller.IsPodActive`.
pub(crate) fn is_active(pod: &Pod) -> bool {
    !matches!(phase(pod), "Succeeded" | "Failed") && !meta::is_deleting(pod)
}

/// The phase.
pub(crate) fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

/// Being deleted, but not finished: `controller.IsPodTerminating`.
pub(crate) fn is_terminating(pod: &Pod) -> bool {
    !is_terminal(pod) && meta::is_deleting(pod)
}

/// Has it finished for good?
pub(crate) fn is_terminal(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// The name of its Node, or empty.
pub(crate) fn node_name(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default()
}

/// The condition of a type.
pub(crate) fn condition<'p>(pod: &'p Pod, type_: &str) -> Option<&'p PodCondition> {
    pod.status.as_ref()?.conditions.iter().flatten().find(|condition| condition.type_ == type_)
}

/// Since when it is ready, if it is.
pub(crate) fn ready_since(pod: &Pod) -> Option<Timestamp> {
    let condition = condition(pod, "Ready").filter(|condition| condition.status == "True")?;
    condition.last_transition_time.as_ref().map(|time| time.0)
}

/// Has it been ready for `minReadySeconds`? `podutil.IsPodAvailable`.
pub(crate) fn is_available(pod: &Pod, min_ready_seconds: i32, now: Timestamp) -> bool {
    is_ready(pod)
        && (min_ready_seconds == 0
            || ready_since(pod).is_some_and(|since| elapsed(since, now) >= min_ready(min_ready_seconds)))
}

/// How long until the next of these Pods becomes available: `controller.FindMinNextPodAvailabilityCheck`.
pub(crate) fn next_availability<'p>(
    pods: impl IntoIterator<Item = &'p Pod>,
    min_ready_seconds: i32,
    now: Timestamp,
) -> Option<Duration> {
    let ready = pods.into_iter().filter_map(ready_since);
    let left = ready.map(|since| min_ready(min_ready_seconds) - elapsed(since, now));
    left.filter(|left| left.is_positive()).min().map(|left| left.unsigned_abs())
}

fn min_ready(seconds: i32) -> SignedDuration {
    SignedDuration::from_secs(i64::from(seconds))
}

fn elapsed(since: Timestamp, now: Timestamp) -> SignedDuration {
    since.duration_until(now)
}

/// The prefix of the names of Pods that a controller creates: `getPodsPrefix`.
pub(crate) fn name_prefix(controller: &str) -> String {
    if controller.len() < MAX_NAME { format!("{controller}-") } else { controller.to_owned() }
}

/// Is its condition Ready true?
pub(crate) fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|all| all.iter().any(|one| one.type_ == "Ready" && one.status == "True"))
}

/// A Pod from a template, as `controller.GetPodFromTemplate` makes it.
pub(crate) fn from_template<K>(template: &PodTemplateSpec, owner: &K, generate_name: &str) -> Pod
where
    K: Resource<DynamicType = ()>,
{
    let given = template.metadata.clone().unwrap_or_default();
    Pod {
        metadata: ObjectMeta {
            generate_name: Some(generate_name.to_owned()),
            namespace: owner.meta().namespace.clone(),
            labels: given.labels,
            annotations: given.annotations,
            finalizers: given.finalizers,
            owner_references: Some(vec![meta::controller_reference(owner)]),
            ..ObjectMeta::default()
        },
        spec: template.spec.clone(),
        status: None,
    }
}
