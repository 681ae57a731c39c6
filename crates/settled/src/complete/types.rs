//! Completion of resource types: those of the cluster, or the built-in ones where it does not answer.

use std::sync::Arc;

use clap_complete::CompletionCandidate;
use settled_tracker::connection::{Resource, Resources};

use super::line::Line;
use super::lookup;
use super::words::{is_harmless, last_item};

/// Kinds of Kubernetes that can be listed: API group, kind, plural, short names.
const BUILT_IN: &[(&str, &str, &str, &[&str])] = &[
    ("", "ComponentStatus", "componentstatuses", &["cs"]),
    ("", "ConfigMap", "configmaps", &["cm"]),
    ("", "Endpoints", "endpoints", &["ep"]),
    ("", "Event", "events", &["ev"]),
    ("", "LimitRange", "limitranges", &["limits"]),
    ("", "Namespace", "namespaces", &["ns"]),
    ("", "Node", "nodes", &["no"]),
    ("", "PersistentVolumeClaim", "persistentvolumeclaims", &["pvc"]),
    ("", "PersistentVolume", "persistentvolumes", &["pv"]),
    ("", "Pod", "pods", &["po"]),
    ("", "PodTemplate", "podtemplates", &[]),
    ("", "ReplicationController", "replicationcontrollers", &["rc"]),
    ("", "ResourceQuota", "resourcequotas", &["quota"]),
    ("", "Secret", "secrets", &[]),
    ("", "ServiceAccount", "serviceaccounts", &["sa"]),
    ("", "Service", "services", &["svc"]),
    ("apiregistration.k8s.io", "APIService", "apiservices", &[]),
    ("apps", "ControllerRevision", "controllerrevisions", &[]),
    ("apps", "DaemonSet", "daemonsets", &["ds"]),
    ("apps", "Deployment", "deployments", &["deploy"]),
    ("apps", "ReplicaSet", "replicasets", &["rs"]),
    ("apps", "StatefulSet", "statefulsets", &["sts"]),
    ("events.k8s.io", "Event", "events", &["ev"]),
    ("autoscaling", "HorizontalPodAutoscaler", "horizontalpodautoscalers", &["hpa"]),
    ("batch", "CronJob", "cronjobs", &["cj"]),
    ("batch", "Job", "jobs", &[]),
    ("certificates.k8s.io", "CertificateSigningRequest", "certificatesigningrequests", &["csr"]),
    ("networking.k8s.io", "IngressClass", "ingressclasses", &[]),
    ("networking.k8s.io", "Ingress", "ingresses", &["ing"]),
    ("networking.k8s.io", "IPAddress", "ipaddresses", &["ip"]),
    ("networking.k8s.io", "NetworkPolicy", "networkpolicies", &["netpol"]),
    ("networking.k8s.io", "ServiceCIDR", "servicecidrs", &[]),
    ("policy", "PodDisruptionBudget", "poddisruptionbudgets", &["pdb"]),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding", "clusterrolebindings", &[]),
    ("rbac.authorization.k8s.io", "ClusterRole", "clusterroles", &[]),
    ("rbac.authorization.k8s.io", "RoleBinding", "rolebindings", &[]),
    ("rbac.authorization.k8s.io", "Role", "roles", &[]),
    ("storage.k8s.io", "CSIDriver", "csidrivers", &[]),
    ("storage.k8s.io", "CSINode", "csinodes", &[]),
    ("storage.k8s.io", "CSIStorageCapacity", "csistoragecapacities", &[]),
    ("storage.k8s.io", "StorageClass", "storageclasses", &["sc"]),
    ("storage.k8s.io", "VolumeAttachment", "volumeattachments", &[]),
    ("storage.k8s.io", "VolumeAttributesClass", "volumeattributesclasses", &["vac"]),
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicy", "mutatingadmissionpolicies", &[]),
    (
        "admissionregistration.k8s.io",
        "MutatingAdmissionPolicyBinding",
        "mutatingadmissionpolicybindings",
        &[],
    ),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", &[]),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", &[]),
    (
        "admissionregistration.k8s.io",
        "ValidatingAdmissionPolicyBinding",
        "validatingadmissionpolicybindings",
        &[],
    ),
    (
        "admissionregistration.k8s.io",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        &[],
    ),
    ("apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions", &["crd", "crds"]),
    ("scheduling.k8s.io", "PriorityClass", "priorityclasses", &["pc"]),
    ("coordination.k8s.io", "Lease", "leases", &[]),
    ("node.k8s.io", "RuntimeClass", "runtimeclasses", &[]),
    ("discovery.k8s.io", "EndpointSlice", "endpointslices", &[]),
    ("resource.k8s.io", "DeviceClass", "deviceclasses", &[]),
    ("resource.k8s.io", "ResourceClaim", "resourceclaims", &[]),
    ("resource.k8s.io", "ResourceClaimTemplate", "resourceclaimtemplates", &[]),
    ("resource.k8s.io", "ResourceSlice", "resourceslices", &[]),
    ("flowcontrol.apiserver.k8s.io", "FlowSchema", "flowschemas", &[]),
    ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration", "prioritylevelconfigurations", &[]),
];

/// The types that begin as the last item of `current` does; `tail` follows each.
pub(super) fn values(line: &Line, current: &str, tail: &str) -> Vec<CompletionCandidate> {
    let (head, current) = last_item(current);
    let resources = lookup::resources(line).unwrap_or_else(built_in);
    let mut all: Vec<(String, String)> = resources
        .preferred()
        .filter(|kind| kind.list)
        .flat_map(|kind| words(&resources, kind, current))
        .collect();
    all.sort_unstable();
    all.dedup_by(|(word, _), (other, _)| word == other);
    let all = all.into_iter().filter(|(word, _)| word.starts_with(current) && is_harmless(word));
    all.map(|(word, help)| CompletionCandidate::new(format!("{head}{word}{tail}")).help(Some(help.into())))
        .collect()
}

/// What a kind is called: its plural, with the group where another kind has the same. Short names are for those who begin one.
fn words(resources: &Resources, kind: &Arc<Resource>, current: &str) -> Vec<(String, String)> {
    let help =
        if kind.group.is_empty() { kind.kind.to_string() } else { format!("{}.{}", kind.kind, kind.group) };
    let is_its = |name: &str| {
        resources.named(name).is_some_and(|found| found.group == kind.group && found.plural == kind.plural)
    };
    let plural = if is_its(&kind.plural) { kind.plural.to_string() } else { kind.qualified() };
    let mut words = vec![plural];
    if !current.is_empty() {
        words.extend(kind.short_names.iter().filter(|name| is_its(name)).map(ToString::to_string));
    }
    words.into_iter().map(|word| (word, help.clone())).collect()
}

/// The kinds that every cluster has.
fn built_in() -> Resources {
    let all = BUILT_IN.iter().map(|(group, kind, plural, short_names)| Resource {
        group: (*group).into(),
        version: "v1".into(),
        kind: (*kind).into(),
        plural: (*plural).into(),
        singular: kind.to_lowercase().into(),
        short_names: short_names.iter().map(|name| (*name).into()).collect(),
        categories: Box::default(),
        // Of no interest here: nothing is listed.
        namespaced: true,
        list: true,
        watch: true,
    });
    Resources::new(all.collect())
}
