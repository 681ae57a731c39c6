//! The table of built-in kinds' strategies. How a Deployment is validated: its row here, then its file.

use crate::kinds::strategy::Strategy;
use crate::kinds::{
    admissionregistration, apiextensions, apiregistration, apps, autoscaling, batch, certificates,
    coordination, core, discovery, flowcontrol, networking, node, policy, rbac, resource, scheduling,
    storage,
};
use crate::metadata::NameRule;

/// Group, kind and strategy. Kinds without a row (bindings) have [`Strategy::DEFAULT`].
static STRATEGIES: [(&str, &str, &Strategy); 67] = [
    ("", "ComponentStatus", &core::COMPONENT_STATUS),
    ("", "ConfigMap", &core::config_map::STRATEGY),
    ("", "Endpoints", &core::endpoints::STRATEGY),
    ("", "Event", &core::event::STRATEGY),
    ("", "LimitRange", &core::limit_range::STRATEGY),
    ("", "Namespace", &core::namespace::STRATEGY),
    ("", "Node", &core::node::STRATEGY),
    ("", "PersistentVolume", &core::persistent_volume::STRATEGY),
    ("", "PersistentVolumeClaim", &core::persistent_volume_claim::STRATEGY),
    ("", "Pod", &core::pod::STRATEGY),
    ("", "PodTemplate", &core::POD_TEMPLATE),
    ("", "ReplicationController", &core::replication_controller::STRATEGY),
    ("", "ResourceQuota", &core::resource_quota::STRATEGY),
    ("", "Secret", &core::secret::STRATEGY),
    ("", "Service", &core::service::STRATEGY),
    ("", "ServiceAccount", &core::SERVICE_ACCOUNT),
    (
        "admissionregistration.k8s.io",
        "MutatingAdmissionPolicy",
        &admissionregistration::MUTATING_ADMISSION_POLICY,
    ),
    (
        "admissionregistration.k8s.io",
        "MutatingAdmissionPolicyBinding",
        &admissionregistration::POLICY_BINDING,
    ),
    (
        "admissionregistration.k8s.io",
        "MutatingWebhookConfiguration",
        &admissionregistration::webhook_configuration::STRATEGY,
    ),
    (
        "admissionregistration.k8s.io",
        "ValidatingAdmissionPolicy",
        &admissionregistration::VALIDATING_ADMISSION_POLICY,
    ),
    (
        "admissionregistration.k8s.io",
        "ValidatingAdmissionPolicyBinding",
        &admissionregistration::POLICY_BINDING,
    ),
    (
        "admissionregistration.k8s.io",
        "ValidatingWebhookConfiguration",
        &admissionregistration::webhook_configuration::STRATEGY,
    ),
    (
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        &apiextensions::custom_resource_definition::STRATEGY,
    ),
    ("apiregistration.k8s.io", "APIService", &apiregistration::API_SERVICE),
    ("apps", "ControllerRevision", &apps::controller_revision::STRATEGY),
    ("apps", "DaemonSet", &apps::daemon_set::STRATEGY),
    ("apps", "Deployment", &apps::deployment::STRATEGY),
    ("apps", "ReplicaSet", &apps::replica_set::STRATEGY),
    ("apps", "StatefulSet", &apps::stateful_set::STRATEGY),
    ("authentication.k8s.io", "SelfSubjectReview", &REVIEW),
    ("authentication.k8s.io", "TokenReview", &REVIEW),
    ("authorization.k8s.io", "LocalSubjectAccessReview", &REVIEW),
    ("authorization.k8s.io", "SelfSubjectAccessReview", &REVIEW),
    ("authorization.k8s.io", "SelfSubjectRulesReview", &REVIEW),
    ("authorization.k8s.io", "SubjectAccessReview", &REVIEW),
    ("autoscaling", "HorizontalPodAutoscaler", &autoscaling::horizontal_pod_autoscaler::STRATEGY),
    ("autoscaling", "Scale", &autoscaling::SCALE),
    ("batch", "CronJob", &batch::cron_job::STRATEGY),
    ("batch", "Job", &batch::job::STRATEGY),
    (
        "certificates.k8s.io",
        "CertificateSigningRequest",
        &certificates::certificate_signing_request::STRATEGY,
    ),
    ("coordination.k8s.io", "Lease", &coordination::LEASE),
    ("discovery.k8s.io", "EndpointSlice", &discovery::ENDPOINT_SLICE),
    ("events.k8s.io", "Event", &core::event::NEW_STRATEGY),
    ("flowcontrol.apiserver.k8s.io", "FlowSchema", &flowcontrol::FLOW_SCHEMA),
    (
        "flowcontrol.apiserver.k8s.io",
        "PriorityLevelConfiguration",
        &flowcontrol::PRIORITY_LEVEL_CONFIGURATION,
    ),
    ("networking.k8s.io", "IPAddress", &networking::IP_ADDRESS),
    ("networking.k8s.io", "Ingress", &networking::ingress::STRATEGY),
    ("networking.k8s.io", "IngressClass", &networking::INGRESS_CLASS),
    ("networking.k8s.io", "NetworkPolicy", &networking::network_policy::STRATEGY),
    ("networking.k8s.io", "ServiceCIDR", &networking::SERVICE_CIDR),
    ("node.k8s.io", "RuntimeClass", &node::RUNTIME_CLASS),
    ("policy", "PodDisruptionBudget", &policy::pod_disruption_budget::STRATEGY),
    ("rbac.authorization.k8s.io", "ClusterRole", &rbac::role::CLUSTER_ROLE),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding", &rbac::role_binding::CLUSTER_ROLE_BINDING),
    ("rbac.authorization.k8s.io", "Role", &rbac::role::ROLE),
    ("rbac.authorization.k8s.io", "RoleBinding", &rbac::role_binding::ROLE_BINDING),
    ("resource.k8s.io", "DeviceClass", &resource::DEVICE_CLASS),
    ("resource.k8s.io", "ResourceClaim", &resource::RESOURCE_CLAIM),
    ("resource.k8s.io", "ResourceClaimTemplate", &resource::RESOURCE_CLAIM_TEMPLATE),
    ("resource.k8s.io", "ResourceSlice", &resource::RESOURCE_SLICE),
    ("scheduling.k8s.io", "PriorityClass", &scheduling::priority_class::STRATEGY),
    ("storage.k8s.io", "CSIDriver", &storage::CSI_DRIVER),
    ("storage.k8s.io", "CSINode", &storage::CSI_NODE),
    ("storage.k8s.io", "CSIStorageCapacity", &storage::CSI_STORAGE_CAPACITY),
    ("storage.k8s.io", "StorageClass", &storage::storage_class::STRATEGY),
    ("storage.k8s.io", "VolumeAttachment", &storage::VOLUME_ATTACHMENT),
    ("storage.k8s.io", "VolumeAttributesClass", &storage::VOLUME_ATTRIBUTES_CLASS),
];

/// Reviews are answered and not stored.
static REVIEW: Strategy = Strategy { name_rule: NameRule::Any, ..Strategy::DEFAULT };

/// The strategy of a kind that does not have a row.
static OTHER: Strategy = Strategy::DEFAULT;

/// The strategy of a built-in kind.
pub(crate) fn find(group: &str, kind: &str) -> &'static Strategy {
    let mut rows = STRATEGIES.iter();
    rows.find(|row| (row.0, row.1) == (group, kind)).map_or(&OTHER, |(_, _, strategy)| *strategy)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::kinds::{builtin, columns};

    #[test]
    fn each_kind_has_a_row_and_each_row_a_kind() {
        let rows: Vec<(&str, &str)> = STRATEGIES.iter().map(|(group, kind, _)| (*group, *kind)).collect();
        let known: BTreeSet<(&str, &str)> = rows.iter().copied().collect();
        assert_eq!(known.len(), rows.len(), "a kind has two rows");
        let kinds = builtin::kinds().iter().map(|kind| (kind.group, kind.kind));
        // Scales are sent to subresources; bindings are not stored and not checked.
        let kinds: BTreeSet<_> = kinds.chain([("autoscaling", "Scale")]).collect();
        let differ: Vec<_> = kinds.symmetric_difference(&known).collect();
        assert_eq!(differ, [&("", "Binding")]);
    }

    #[test]
    fn printers_have_columns() {
        for (group, kind, strategy) in &STRATEGIES {
            let columns = columns::definitions(group, kind);
            assert_eq!(strategy.print.is_some(), columns.is_some(), "{group} {kind}");
        }
    }
}
