//! Embedded profile files. A new profile is a file in `profiles/` and a line here.

/// Names and texts.
pub(super) const FILES: &[(&str, &str)] = &[
    ("profiles/antrea.yaml", include_str!("../../profiles/antrea.yaml")),
    ("profiles/aws-vpc-cni.yaml", include_str!("../../profiles/aws-vpc-cni.yaml")),
    ("profiles/azure-npm.yaml", include_str!("../../profiles/azure-npm.yaml")),
    ("profiles/calico.yaml", include_str!("../../profiles/calico.yaml")),
    ("profiles/cilium.yaml", include_str!("../../profiles/cilium.yaml")),
    ("profiles/flannel.yaml", include_str!("../../profiles/flannel.yaml")),
    ("profiles/gke-dataplane-v2.yaml", include_str!("../../profiles/gke-dataplane-v2.yaml")),
    ("profiles/kindnet.yaml", include_str!("../../profiles/kindnet.yaml")),
    ("profiles/kube-network-policies.yaml", include_str!("../../profiles/kube-network-policies.yaml")),
    ("profiles/kube-ovn.yaml", include_str!("../../profiles/kube-ovn.yaml")),
    ("profiles/kube-router.yaml", include_str!("../../profiles/kube-router.yaml")),
    ("profiles/openshift-ovn-kubernetes.yaml", include_str!("../../profiles/openshift-ovn-kubernetes.yaml")),
    ("profiles/openshift-sdn.yaml", include_str!("../../profiles/openshift-sdn.yaml")),
    ("profiles/ovn-kubernetes.yaml", include_str!("../../profiles/ovn-kubernetes.yaml")),
    ("profiles/weave.yaml", include_str!("../../profiles/weave.yaml")),
];
