//! Controllers of workloads.

use std::fmt::Debug;

use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{Event, Node, PersistentVolumeClaim, Pod, ResourceQuota};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::support::{cluster, pass};

/// Creates an object from JSON.
pub(crate) async fn create<K>(client: &Client, object: Value) -> K
where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Serialize,
{
    let api: Api<K> = Api::default_namespaced(client.clone());
    let object = serde_json::from_value(object).expect("an object");
    api.create(&PostParams::default(), &object).await.expect("created")
}

/// Changes an object by a merge patch.
pub(crate) async fn patch<K>(client: &Client, name: &str, patch: Value)
where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned,
{
    let api: Api<K> = Api::default_namespaced(client.clone());
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.expect("patched");
}

/// Reads an object as JSON.
pub(crate) async fn get<K>(client: &Client, name: &str) -> Value
where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Serialize,
{
    let api: Api<K> = Api::default_namespaced(client.clone());
    serde_json::to_value(api.get(name).await.expect("found")).expect("JSON")
}

/// All objects of a kind.
pub(crate) async fn list<K>(client: &Client) -> Vec<K>
where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned,
{
    let api: Api<K> = Api::default_namespaced(client.clone());
    api.list(&ListParams::default()).await.expect("listed").items
}

/// The Events of an object: reason and message, in the order of their creation, each once.
pub(crate) async fn events(client: &Client, kind: &str) -> Vec<String> {
    let mut events: Vec<Event> = list(client).await;
    events.retain(|event| event.involved_object.kind.as_deref() == Some(kind));
    events.sort_by_key(|event| event.resource_version().and_then(|version| version.parse::<u64>().ok()));
    let text = |event: &Event| {
        format!(
            "{} {}",
            event.reason.as_deref().unwrap_or_default(),
            event.message.as_deref().unwrap_or_default()
        )
    };
    events.iter().map(text).collect()
}

fn conditions(object: &Value) -> Vec<String> {
    let all = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    all.iter()
        .map(|one| format!("{}={} {}", text(&one["type"]), text(&one["status"]), text(&one["reason"])))
        .collect()
}

fn deployment(replicas: i32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "nginx"}]},
            },
        },
    })
}

fn image(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "web", "image": image}]}}}})
}

#[tokio::test(start_paused = true)]
async fn a_deployment_becomes_available() {
    let cluster = cluster(|_| {}).await;
    create::<Deployment>(&cluster.client, deployment(3)).await;
    pass(10).await;
    let web = get::<Deployment>(&cluster.client, "web").await;
    let name = list::<ReplicaSet>(&cluster.client).await.first().expect("a ReplicaSet").name_any();
    assert_eq!(web["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "1");
    assert_eq!(
        conditions(&web),
        ["Available=True MinimumReplicasAvailable", "Progressing=True NewReplicaSetAvailable"]
    );
    let counts = &web["status"];
    assert_eq!(
        (
            &counts["replicas"],
            &counts["updatedReplicas"],
            &counts["readyReplicas"],
            &counts["availableReplicas"]
        ),
        (&json!(3), &json!(3), &json!(3), &json!(3))
    );
    assert_eq!((&counts["terminatingReplicas"], &counts["observedGeneration"]), (&json!(0), &json!(1)));
    let message = format!("ReplicaSet \"{name}\" has successfully progressed.");
    assert_eq!(web["status"]["conditions"][1]["message"], json!(message));
    let set = get::<ReplicaSet>(&cluster.client, &name).await;
    assert_eq!(
        set["metadata"]["annotations"],
        json!({
            "deployment.kubernetes.io/desired-replicas": "3", "deployment.kubernetes.io/max-replicas": "4",
            "deployment.kubernetes.io/revision": "1",
        })
    );
    assert_eq!(
        events(&cluster.client, "Deployment").await,
        [format!("ScalingReplicaSet Scaled up replica set {name} from 0 to 3")]
    );
    let created = events(&cluster.client, "ReplicaSet").await;
    assert_eq!(created.len(), 3);
    assert!(created.iter().all(|event| event.starts_with(&format!("SuccessfulCreate Created pod: {name}-"))));
}

#[tokio::test(start_paused = true)]
async fn a_rolling_update_keeps_enough_pods_and_a_rollback_reuses_the_old_replica_set() {
    let cluster = cluster(|_| {}).await;
    create::<Deployment>(&cluster.client, deployment(4)).await;
    pass(10).await;
    let old = list::<ReplicaSet>(&cluster.client).await.first().expect("a ReplicaSet").name_any();
    patch::<Deployment>(&cluster.client, "web", image("nginx:2")).await;
    let mut least = i64::MAX;
    for _ in 0..120 {
        tokio::time::sleep(std::time::Duration::from_millis(250)).await;
        let web = get::<Deployment>(&cluster.client, "web").await;
        least = least.min(web["status"]["availableReplicas"].as_i64().unwrap_or_default());
    }
    // 25 % of 4: one more, and one less.
    assert_eq!(least, 3);
    let web = get::<Deployment>(&cluster.client, "web").await;
    assert_eq!(web["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "2");
    assert_eq!((&web["status"]["updatedReplicas"], &web["status"]["replicas"]), (&json!(4), &json!(4)));
    let new = list::<ReplicaSet>(&cluster.client)
        .await
        .iter()
        .map(|set| set.name_any())
        .find(|name| *name != old)
        .expect("another");
    let events_of = events(&cluster.client, "Deployment").await;
    assert_eq!(
        events_of[..3],
        [
            format!("ScalingReplicaSet Scaled up replica set {old} from 0 to 4"),
            format!("ScalingReplicaSet Scaled up replica set {new} from 0 to 1"),
            format!("ScalingReplicaSet Scaled down replica set {old} from 4 to 3"),
        ]
    );
    patch::<Deployment>(&cluster.client, "web", image("nginx")).await;
    pass(30).await;
    let back = get::<ReplicaSet>(&cluster.client, &old).await;
    let annotation =
        |name: &str| back["metadata"]["annotations"][format!("deployment.kubernetes.io/{name}")].clone();
    assert_eq!((annotation("revision"), annotation("revision-history")), (json!("3"), json!("1")));
    assert_eq!(back["status"]["availableReplicas"], 4);
}

#[tokio::test(start_paused = true)]
async fn a_rollout_that_cannot_start_exceeds_its_deadline() {
    let cluster = cluster(|options| options.nodes.clear()).await;
    let mut web = deployment(2);
    web["spec"]["progressDeadlineSeconds"] = json!(60);
    create::<Deployment>(&cluster.client, web).await;
    pass(59).await;
    let web = get::<Deployment>(&cluster.client, "web").await;
    assert_eq!(
        conditions(&web),
        ["Available=False MinimumReplicasUnavailable", "Progressing=True ReplicaSetUpdated"]
    );
    pass(10).await;
    let web = get::<Deployment>(&cluster.client, "web").await;
    assert_eq!(
        conditions(&web),
        ["Available=False MinimumReplicasUnavailable", "Progressing=False ProgressDeadlineExceeded"]
    );
}

#[tokio::test(start_paused = true)]
async fn the_refusal_of_a_quota_is_reported() {
    let cluster = cluster(|_| {}).await;
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}, "spec": {"hard": {"pods": "2"}}});
    create::<ResourceQuota>(&cluster.client, quota).await;
    pass(1).await;
    create::<Deployment>(&cluster.client, deployment(3)).await;
    pass(10).await;
    let web = get::<Deployment>(&cluster.client, "web").await;
    let found = conditions(&web);
    assert!(found.contains(&"ReplicaFailure=True FailedCreate".to_owned()), "{found:?}");
    assert_eq!(web["status"]["availableReplicas"], 2);
    let failed = events(&cluster.client, "ReplicaSet").await;
    assert!(
        failed.iter().any(|event| event.starts_with("FailedCreate Error creating: pods \"web-")
            && event.contains("exceeded quota: few")),
        "{failed:?}"
    );
    patch::<ResourceQuota>(&cluster.client, "few", json!({"spec": {"hard": {"pods": "5"}}})).await;
    pass(1200).await;
    let web = get::<Deployment>(&cluster.client, "web").await;
    assert_eq!(
        conditions(&web),
        ["Available=True MinimumReplicasAvailable", "Progressing=True NewReplicaSetAvailable"]
    );
}

#[tokio::test(start_paused = true)]
async fn recreation_waits_for_old_pods_and_pauses_stop_rollouts() {
    let cluster = cluster(|_| {}).await;
    let mut web = deployment(2);
    web["spec"]["strategy"] = json!({"type": "Recreate"});
    create::<Deployment>(&cluster.client, web).await;
    pass(10).await;
    patch::<Deployment>(&cluster.client, "web", json!({"spec": {"paused": true}})).await;
    patch::<Deployment>(&cluster.client, "web", image("nginx:2")).await;
    pass(5).await;
    let web = get::<Deployment>(&cluster.client, "web").await;
    assert_eq!(
        conditions(&web),
        ["Available=True MinimumReplicasAvailable", "Progressing=Unknown DeploymentPaused"]
    );
    assert_eq!(list::<ReplicaSet>(&cluster.client).await.len(), 1);
    patch::<Deployment>(&cluster.client, "web", json!({"spec": {"paused": null}})).await;
    let mut most = 0;
    for _ in 0..60 {
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        let pods: Vec<Pod> = list(&cluster.client).await;
        let images: std::collections::BTreeSet<_> =
            pods.iter().filter_map(|pod| pod.spec.as_ref()?.containers[0].image.clone()).collect();
        most = most.max(images.len());
    }
    assert_eq!(most, 1, "Pods of both templates at the same time");
    let web = get::<Deployment>(&cluster.client, "web").await;
    assert_eq!(
        conditions(&web),
        ["Available=True MinimumReplicasAvailable", "Progressing=True NewReplicaSetAvailable"]
    );
}

#[tokio::test(start_paused = true)]
async fn orphans_are_adopted_and_others_released() {
    let cluster = cluster(|_| {}).await;
    let orphan = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "orphan", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "web", "image": "nginx"}]},
    });
    create::<Pod>(&cluster.client, orphan).await;
    let set = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": deployment(1)["spec"]["template"]},
    });
    create::<ReplicaSet>(&cluster.client, set).await;
    pass(10).await;
    assert_eq!(list::<Pod>(&cluster.client).await.len(), 2);
    assert_eq!(get::<Pod>(&cluster.client, "orphan").await["metadata"]["ownerReferences"][0]["name"], "web");
    patch::<Pod>(&cluster.client, "orphan", json!({"metadata": {"labels": {"app": "other"}}})).await;
    pass(10).await;
    assert_eq!(get::<Pod>(&cluster.client, "orphan").await["metadata"]["ownerReferences"], Value::Null);
    assert_eq!(list::<Pod>(&cluster.client).await.len(), 3);
}

fn stateful_set(replicas: i32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"},
        "spec": {
            "replicas": replicas,
            "serviceName": "db",
            "selector": {"matchLabels": {"app": "db"}},
            "template": {
                "metadata": {"labels": {"app": "db"}},
                "spec": {"containers": [{"name": "web", "image": "nginx"}]},
            },
            "persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete", "whenDeleted": "Retain"},
        },
    })
}

#[tokio::test(start_paused = true)]
async fn a_stateful_set_goes_up_in_order_and_updates_from_the_end() {
    let cluster = cluster(|_| {}).await;
    create::<StatefulSet>(&cluster.client, stateful_set(3)).await;
    pass(30).await;
    let pods: Vec<Pod> = list(&cluster.client).await;
    let mut created: Vec<_> =
        pods.iter().map(|pod| (pod.creation_timestamp().map(|time| time.0), pod.name_any())).collect();
    created.sort();
    assert_eq!(created.iter().map(|(_, name)| &**name).collect::<Vec<_>>(), ["db-0", "db-1", "db-2"]);
    assert!(created.windows(2).all(|two| two[0].0 < two[1].0), "one after the other");
    let first = get::<StatefulSet>(&cluster.client, "db").await["status"].clone();
    assert_eq!(first["currentRevision"], first["updateRevision"]);
    assert_eq!(
        (&first["replicas"], &first["availableReplicas"], &first["currentReplicas"]),
        (&json!(3), &json!(3), &json!(3))
    );
    assert_eq!(
        events(&cluster.client, "StatefulSet").await,
        [0, 1, 2]
            .map(|number| format!("SuccessfulCreate Create Pod db-{number} in StatefulSet db successful"))
    );
    let mut update = image("nginx:2");
    update["spec"]["updateStrategy"] = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 1}});
    patch::<StatefulSet>(&cluster.client, "db", update).await;
    pass(120).await;
    let status = get::<StatefulSet>(&cluster.client, "db").await["status"].clone();
    assert_eq!((&status["updatedReplicas"], &status["currentReplicas"]), (&json!(2), &json!(1)));
    assert_eq!(status["currentRevision"], first["currentRevision"]);
    assert_ne!(status["updateRevision"], first["currentRevision"]);
    let all = json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}});
    patch::<StatefulSet>(&cluster.client, "db", all).await;
    pass(60).await;
    let done = get::<StatefulSet>(&cluster.client, "db").await["status"].clone();
    assert_eq!((&done["currentRevision"], &done["updatedReplicas"]), (&status["updateRevision"], &json!(3)));
}

#[tokio::test(start_paused = true)]
async fn claims_of_a_stateful_set_follow_its_policy() {
    let cluster = cluster(|_| {}).await;
    let mut db = stateful_set(2);
    db["spec"]["podManagementPolicy"] = "Parallel".into();
    db["spec"]["ordinals"] = json!({"start": 7});
    db["spec"]["volumeClaimTemplates"] = json!([{
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }]);
    create::<StatefulSet>(&cluster.client, db).await;
    pass(2).await;
    let names =
        |claims: Vec<PersistentVolumeClaim>| claims.iter().map(|claim| claim.name_any()).collect::<Vec<_>>();
    assert_eq!(names(list(&cluster.client).await), ["data-db-7", "data-db-8"]);
    let pod = get::<Pod>(&cluster.client, "db-8").await;
    assert_eq!(pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"], "data-db-8");
    assert_eq!(pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"], "8");
    patch::<StatefulSet>(&cluster.client, "db", json!({"spec": {"replicas": 1}})).await;
    pass(60).await;
    let claims: Vec<PersistentVolumeClaim> = list(&cluster.client).await;
    let kept = claims.iter().find(|claim| claim.name_any() == "data-db-8");
    assert!(
        kept.is_none_or(|claim| claim.metadata.deletion_timestamp.is_some()),
        "owned by the Pod that went"
    );
    assert!(
        claims
            .iter()
            .any(|claim| claim.name_any() == "data-db-7" && claim.metadata.owner_references.is_none())
    );
}

#[tokio::test(start_paused = true)]
async fn a_daemon_set_has_a_pod_on_each_node_that_fits() {
    let cluster = cluster(|_| {}).await;
    let taint = json!({"spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}});
    let nodes: Api<Node> = Api::all(cluster.client.clone());
    nodes.patch("node-3", &PatchParams::default(), &Patch::Merge(taint)).await.expect("tainted");
    let log = json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "log"},
        "spec": {
            "selector": {"matchLabels": {"app": "log"}},
            "template": {
                "metadata": {"labels": {"app": "log"}},
                "spec": {"containers": [{"name": "web", "image": "nginx"}]},
            },
        },
    });
    create::<DaemonSet>(&cluster.client, log).await;
    pass(10).await;
    let on = |pods: Vec<Pod>| {
        let mut nodes: Vec<_> = pods.iter().filter_map(|pod| pod.spec.as_ref()?.node_name.clone()).collect();
        nodes.sort();
        nodes.join(" ")
    };
    assert_eq!(on(list(&cluster.client).await), "node-1 node-2");
    let status = |set: Value| {
        ["desiredNumberScheduled", "numberAvailable", "updatedNumberScheduled", "numberMisscheduled"]
            .map(|name| set["status"][name].as_i64().unwrap_or_default())
    };
    assert_eq!(status(get::<DaemonSet>(&cluster.client, "log").await), [2, 2, 2, 0]);
    patch::<DaemonSet>(&cluster.client, "log", image("nginx:2")).await;
    pass(90).await;
    assert_eq!(status(get::<DaemonSet>(&cluster.client, "log").await), [2, 2, 2, 0]);
    let pods: Vec<Pod> = list(&cluster.client).await;
    assert!(pods.iter().all(|pod| {
        pod.spec.as_ref().is_some_and(|spec| spec.containers[0].image.as_deref() == Some("nginx:2"))
    }));
    assert_eq!(list::<ControllerRevision>(&cluster.client).await.len(), 2);
    let none = json!({"spec": {"taints": null}});
    nodes.patch("node-3", &PatchParams::default(), &Patch::Merge(none)).await.expect("free");
    pass(10).await;
    assert_eq!(on(list(&cluster.client).await), "node-1 node-2 node-3");
}
