//! Apply order: waves of manifests, and what has to be there before the next wave.
//!
//! First what others live in or are made of: Namespaces and definitions of kinds. Then, as Helm installs: what is referred to before what
//! refers to it, so that Pods don't start before their Secrets. Kinds that aren't in the table come last, as custom resources do with
//! Helm. Within a kind, the order is the user's.
//!
//! Unlike Helm, which looks at the kind alone, a kind counts with its group: a `Service` of Knative is a custom resource.

use std::collections::HashSet;

use crate::ObjectId;

/// The kinds in their order, with the groups they have or had.
const TABLE: &[(&[&str], &str)] = &[
    (CORE, "Namespace"),
    (&["apiextensions.k8s.io"], "CustomResourceDefinition"),
    (&["scheduling.k8s.io"], "PriorityClass"),
    (&["node.k8s.io"], "RuntimeClass"),
    (&["networking.k8s.io", "extensions"], "NetworkPolicy"),
    (CORE, "ResourceQuota"),
    (CORE, "LimitRange"),
    (&["policy", "extensions"], "PodSecurityPolicy"),
    (&["policy"], "PodDisruptionBudget"),
    (CORE, "ServiceAccount"),
    (CORE, "Secret"),
    (CORE, "ConfigMap"),
    (&["storage.k8s.io"], "CSIDriver"),
    (&["storage.k8s.io"], "VolumeAttributesClass"),
    (&["storage.k8s.io"], "StorageClass"),
    (CORE, "PersistentVolume"),
    (CORE, "PersistentVolumeClaim"),
    (RBAC, "ClusterRole"),
    (RBAC, "ClusterRoleBinding"),
    (RBAC, "Role"),
    (RBAC, "RoleBinding"),
    (CORE, "Service"),
    (CORE, "Endpoints"),
    (&["discovery.k8s.io"], "EndpointSlice"),
    (APPS, "DaemonSet"),
    (CORE, "Pod"),
    (CORE, "ReplicationController"),
    (APPS, "ReplicaSet"),
    (APPS, "Deployment"),
    (&["autoscaling"], "HorizontalPodAutoscaler"),
    (APPS, "StatefulSet"),
    (&["batch"], "Job"),
    (&["batch"], "CronJob"),
    (&["networking.k8s.io"], "IngressClass"),
    (&["networking.k8s.io", "extensions"], "Ingress"),
    (&["apiregistration.k8s.io"], "APIService"),
    (ADMISSION, "MutatingWebhookConfiguration"),
    (ADMISSION, "ValidatingWebhookConfiguration"),
    (ADMISSION, "MutatingAdmissionPolicy"),
    (ADMISSION, "MutatingAdmissionPolicyBinding"),
    (ADMISSION, "ValidatingAdmissionPolicy"),
    (ADMISSION, "ValidatingAdmissionPolicyBinding"),
];
const CORE: &[&str] = &[""];
const APPS: &[&str] = &["apps", "extensions"];
const RBAC: &[&str] = &["rbac.authorization.k8s.io"];
const ADMISSION: &[&str] = &["admissionregistration.k8s.io"];

/// The place of a kind in the order of applying; kinds that have none share the last.
///
/// ```
/// use settled_tracker::apply::apply_rank;
/// assert!(apply_rank("", "ConfigMap") < apply_rank("apps", "Deployment"));
/// assert!(apply_rank("apps", "Deployment") < apply_rank("example.com", "Widget"));
/// ```
#[must_use]
pub fn apply_rank(group: &str, kind: &str) -> usize {
    TABLE.iter().position(|(groups, known)| *known == kind && groups.contains(&group)).unwrap_or(TABLE.len())
}

/// Objects that are applied one after another, without waiting in between.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wave {
    /// Which of the objects, by their place in what [`waves`] was given, in the order in which they are applied.
    pub objects: Vec<usize>,
    /// Which of these must be Current before the next wave begins.
    pub awaited: Vec<usize>,
}

/// Cuts objects into waves, each to be applied when what it needs of the one before is Current.
///
/// Namespaces and definitions are the first wave: a Namespace is awaited if an object lies in it, a definition if an object has its
/// group. Where nothing needs them, there is one wave.
///
/// ```
/// use settled_tracker::apply::waves;
/// use settled_tracker::ObjectId;
///
/// let ids = [
///     ObjectId::new("example.com", "Widget", "shop", "a"),
///     ObjectId::new("apps", "Deployment", "shop", "web"),
///     ObjectId::new("", "Namespace", "", "shop"),
///     ObjectId::new("apiextensions.k8s.io", "CustomResourceDefinition", "", "widgets.example.com"),
///     ObjectId::new("", "Namespace", "", "empty"),
/// ];
/// let waves = waves(&ids);
/// assert_eq!(waves[0].objects, [2, 4, 3]);
/// assert_eq!(waves[0].awaited, [2, 3]);
/// assert_eq!(waves[1].objects, [1, 0]);
/// assert!(waves[1].awaited.is_empty());
/// ```
#[must_use]
pub fn waves(ids: &[ObjectId]) -> Vec<Wave> {
    let mut order: Vec<(usize, &ObjectId)> = ids.iter().enumerate().collect();
    order.sort_by_key(|(_, id)| apply_rank(&id.group, &id.kind));
    let (first, rest): (Vec<_>, Vec<_>) =
        order.into_iter().partition(|(_, id)| is_namespace(id) || is_definition(id));
    let namespaces: HashSet<&str> = rest.iter().map(|(_, id)| &*id.namespace).collect();
    let groups: HashSet<&str> = rest.iter().map(|(_, id)| &*id.group).collect();
    let is_needed = |id: &ObjectId| {
        if is_namespace(id) {
            return namespaces.contains(&*id.name);
        }
        // A definition is called PLURAL.GROUP.
        id.name.split_once('.').is_some_and(|(_, group)| groups.contains(group))
    };
    let awaited: Vec<usize> = first.iter().filter(|(_, id)| is_needed(id)).map(|(index, _)| *index).collect();
    let indexes =
        |list: Vec<(usize, &ObjectId)>| list.into_iter().map(|(index, _)| index).collect::<Vec<_>>();
    let (mut first, rest) = (indexes(first), indexes(rest));
    if awaited.is_empty() {
        first.extend(rest);
        return if first.is_empty() { Vec::new() } else { vec![Wave { objects: first, awaited }] };
    }
    vec![Wave { objects: first, awaited }, Wave { objects: rest, awaited: Vec::new() }]
}

fn is_namespace(id: &ObjectId) -> bool {
    id.is("", "Namespace")
}

fn is_definition(id: &ObjectId) -> bool {
    id.is("apiextensions.k8s.io", "CustomResourceDefinition")
}
