//! Pods as controllers see them: active, ready, made from a template.

use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use settled_controller::ObjectKey;
use settled_controller::cache::Change;

use crate::meta;

/// The controllers of this kind that a changed Pod has, or had before.
pub(crate) fn owners(change: &Change<Pod>, kind: &str) -> Vec<ObjectKey> {
    let of =
        |pod: &Option<std::sync::Arc<Pod>>| pod.as_deref().and_then(|pod| meta::controller_key(pod, kind));
    let (old, new) = (of(&change.old), of(&change.new));
    let mut keys: Vec<_> = new.into_iter().chain(old).collect();
    keys.dedup();
    keys
}

/// Neither finished nor being deleted: `controller.IsPodActive`.
pub(crate) fn is_active(pod: &Pod) -> bool {
    !matches!(phase(pod), "Succeeded" | "Failed") && !meta::is_deleting(pod)
}

/// The phase.
pub(crate) fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

/// The name of its Node, or empty.
pub(crate) fn node_name(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default()
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
