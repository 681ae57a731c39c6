//! The order of applying.

use proptest::prelude::*;
use settled_tracker::ObjectId;
use settled_tracker::apply::{apply_rank, waves};

fn ids(list: &[&str]) -> Vec<ObjectId> {
    let id = |text: &&str| {
        let (kind, rest) = text.split_once('/').unwrap();
        let (kind, group) = kind.split_once('.').unwrap_or((kind, ""));
        let (name, namespace) = rest.split_once('@').unwrap_or((rest, ""));
        ObjectId::new(group, kind, namespace, name)
    };
    list.iter().map(id).collect()
}

fn shown(list: &[&str]) -> String {
    let ids = ids(list);
    let names = |indexes: &[usize]| indexes.iter().map(|index| list[*index]).collect::<Vec<_>>().join(" ");
    let wave = |wave: settled_tracker::apply::Wave| {
        format!("{}; awaited: {}\n", names(&wave.objects), names(&wave.awaited))
    };
    waves(&ids).into_iter().map(wave).collect()
}

#[test]
fn what_others_need_comes_first() {
    let cases: [&[&str]; 8] = [
        &[],
        &["Deployment.apps/b@x", "Deployment.apps/a@x", "Service/a@x", "ConfigMap/a@x"],
        &["Deployment.apps/a@x", "Namespace/x"],
        &["Deployment.apps/a@x", "Namespace/y"],
        &["Namespace/y", "Namespace/x"],
        &[
            "Widget.example.com/a",
            "CustomResourceDefinition.apiextensions.k8s.io/widgets.example.com",
            "CustomResourceDefinition.apiextensions.k8s.io/other.example.org",
        ],
        &[
            "Service.serving.knative.dev/a@x",
            "Ingress.networking.k8s.io/a@x",
            "Service/a@x",
            "Widget.example.com/a@x",
            "ValidatingWebhookConfiguration.admissionregistration.k8s.io/a",
        ],
        &[
            "Job.batch/a@x",
            "ClusterRoleBinding.rbac.authorization.k8s.io/a",
            "ServiceAccount/a@x",
            "ClusterRole.rbac.authorization.k8s.io/a",
            "Secret/a@x",
        ],
    ];
    let table: String = cases.iter().map(|list| format!("{}-\n", shown(list))).collect();
    insta::assert_snapshot!(table, @r#"
    -
    ConfigMap/a@x Service/a@x Deployment.apps/b@x Deployment.apps/a@x; awaited: 
    -
    Namespace/x; awaited: Namespace/x
    Deployment.apps/a@x; awaited: 
    -
    Namespace/y Deployment.apps/a@x; awaited: 
    -
    Namespace/y Namespace/x; awaited: 
    -
    CustomResourceDefinition.apiextensions.k8s.io/widgets.example.com CustomResourceDefinition.apiextensions.k8s.io/other.example.org; awaited: CustomResourceDefinition.apiextensions.k8s.io/widgets.example.com
    Widget.example.com/a; awaited: 
    -
    Service/a@x Ingress.networking.k8s.io/a@x ValidatingWebhookConfiguration.admissionregistration.k8s.io/a Service.serving.knative.dev/a@x Widget.example.com/a@x; awaited: 
    -
    ServiceAccount/a@x Secret/a@x ClusterRole.rbac.authorization.k8s.io/a ClusterRoleBinding.rbac.authorization.k8s.io/a Job.batch/a@x; awaited: 
    -
    "#);
}

/// Helm's `InstallOrder`, of 4.3, without the lists that no API has and with definitions where we have them.
#[test]
fn the_order_is_helms() {
    let helm = [
        ("", "Namespace"),
        ("apiextensions.k8s.io", "CustomResourceDefinition"),
        ("scheduling.k8s.io", "PriorityClass"),
        ("networking.k8s.io", "NetworkPolicy"),
        ("", "ResourceQuota"),
        ("", "LimitRange"),
        ("policy", "PodSecurityPolicy"),
        ("policy", "PodDisruptionBudget"),
        ("", "ServiceAccount"),
        ("", "Secret"),
        ("", "ConfigMap"),
        ("storage.k8s.io", "StorageClass"),
        ("", "PersistentVolume"),
        ("", "PersistentVolumeClaim"),
        ("rbac.authorization.k8s.io", "ClusterRole"),
        ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
        ("rbac.authorization.k8s.io", "Role"),
        ("rbac.authorization.k8s.io", "RoleBinding"),
        ("", "Service"),
        ("apps", "DaemonSet"),
        ("", "Pod"),
        ("", "ReplicationController"),
        ("apps", "ReplicaSet"),
        ("apps", "Deployment"),
        ("autoscaling", "HorizontalPodAutoscaler"),
        ("apps", "StatefulSet"),
        ("batch", "Job"),
        ("batch", "CronJob"),
        ("networking.k8s.io", "IngressClass"),
        ("networking.k8s.io", "Ingress"),
        ("apiregistration.k8s.io", "APIService"),
        ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"),
        ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"),
        ("example.com", "Widget"),
    ];
    let ranks: Vec<usize> = helm.iter().map(|(group, kind)| apply_rank(group, kind)).collect();
    assert!(ranks.is_sorted_by(|a, b| a < b), "{ranks:?}");
    assert_eq!(apply_rank("example.com", "Widget"), apply_rank("example.com", "Namespace"));
}

proptest! {
    #[test]
    fn every_object_is_applied_once(kinds in proptest::collection::vec(0..6_usize, 0..30)) {
        let kinds: Vec<&str> = kinds
            .iter()
            .map(|kind| ["Namespace/x", "Deployment.apps/a@x", "Widget.example.com/a", "CustomResourceDefinition.apiextensions.k8s.io/a.example.com", "Secret/a", "Namespace/y"][*kind])
            .collect();
        let waves = waves(&ids(&kinds));
        let mut applied: Vec<usize> = waves.iter().flat_map(|wave| wave.objects.clone()).collect();
        // Of one kind, the order stays.
        for wave in &waves {
            for pair in wave.objects.windows(2) {
                prop_assert!(kinds[pair[0]] != kinds[pair[1]] || pair[0] < pair[1]);
            }
            prop_assert!(!wave.objects.is_empty());
            prop_assert!(wave.awaited.iter().all(|index| wave.objects.contains(index)));
        }
        applied.sort_unstable();
        prop_assert_eq!(applied, (0..kinds.len()).collect::<Vec<_>>());
    }
}
