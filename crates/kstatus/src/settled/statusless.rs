//! Kinds without a status, which are done once they are stored.

use super::context::Context;
use crate::text::text;
use crate::verdict::{Basis, Status, Verdict};

/// Group and kinds, sorted by group.
const KINDS: &[(&str, &[&str])] = &[
    (
        "",
        &[
            "Binding",
            "ComponentStatus",
            "ConfigMap",
            "Endpoints",
            "Event",
            "LimitRange",
            "PodTemplate",
            "Secret",
            "ServiceAccount",
        ],
    ),
    (
        "admissionregistration.k8s.io",
        &[
            "MutatingAdmissionPolicy",
            "MutatingAdmissionPolicyBinding",
            "MutatingWebhookConfiguration",
            "ValidatingAdmissionPolicyBinding",
            "ValidatingWebhookConfiguration",
        ],
    ),
    ("apps", &["ControllerRevision"]),
    ("certificates.k8s.io", &["ClusterTrustBundle"]),
    ("events.k8s.io", &["Event"]),
    ("flowcontrol.apiserver.k8s.io", &["PriorityLevelConfiguration"]),
    ("metrics.k8s.io", &["NodeMetrics", "PodMetrics"]),
    ("networking.k8s.io", &["IPAddress", "IngressClass"]),
    ("node.k8s.io", &["RuntimeClass"]),
    ("policy", &["PodSecurityPolicy"]),
    ("rbac.authorization.k8s.io", &["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]),
    ("resource.k8s.io", &["DeviceClass", "DeviceTaintRule", "ResourceClaimTemplate", "ResourceSlice"]),
    ("scheduling.k8s.io", &["PriorityClass"]),
    (
        "storage.k8s.io",
        &["CSIDriver", "CSINode", "CSIStorageCapacity", "StorageClass", "VolumeAttributesClass"],
    ),
];

pub(super) fn contains(group: &[u8], kind: &[u8]) -> bool {
    KINDS.binary_search_by_key(&group, |(group, _)| group.as_bytes()).is_ok_and(|at| {
        KINDS.get(at).is_some_and(|(_, kinds)| kinds.iter().any(|known| known.as_bytes() == kind))
    })
}

pub(super) fn verdict(context: &Context<'_, '_>) -> Verdict {
    let message = text!("{} has no status to wait for", context.object.kind().unwrap_or_default());
    Verdict::new(Status::Current, Basis::NoStatusKind, "NoStatusKind", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_sorted() {
        assert!(KINDS.is_sorted_by_key(|(group, _)| group));
        assert!(contains(b"", b"ConfigMap") && contains(b"rbac.authorization.k8s.io", b"Role"));
        assert!(!contains(b"", b"Pod") && !contains(b"example.com", b"ConfigMap"));
    }
}
