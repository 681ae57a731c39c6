//! Server-side apply without churn: kubernetes#95460 and its successors.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, LimitRange, Pod, ResourceQuota};
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use settled_apiserver::Server;
use settled_controller::apply::{Applied, Applier, ApplyCounts, ApplyError};

use crate::harness::{api, object, server_in_virtual_time, wait};

/// A server whose time passes when a test sleeps.
async fn server() -> Server {
    server_in_virtual_time(&[]).await.0
}

fn map(data: Value) -> ConfigMap {
    object(json!({"metadata": {"name": "a"}, "data": data}))
}

async fn read(client: &Client) -> ConfigMap {
    api::<ConfigMap>(client).get("a").await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_apply_that_changes_nothing_is_no_request() {
    let server = server().await;
    let client = server.client();
    let (maps, applier) = (api::<ConfigMap>(&client), Applier::new("kit"));
    let intent = map(json!({"a": "1"}));
    let Applied::Created(mut live) = applier.apply(&maps, &intent, None).await.unwrap() else { panic!() };
    for _ in 0..100 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(applier.apply(&maps, &intent, Some(&live)).await.unwrap(), Applied::Unchanged);
    }
    assert_eq!(read(&client).await.resource_version(), live.resource_version());
    assert_eq!(applier.counts(), ApplyCounts { writes: 1, dry_runs: 0, unchanged: 100 });

    let changed = map(json!({"a": "2"}));
    let Applied::Configured(configured) = applier.apply(&maps, &changed, Some(&live)).await.unwrap() else {
        panic!()
    };
    assert_eq!(configured.data.as_ref().unwrap()["a"], "2");

    // After a restart, the server is asked once.
    let applier = Applier::new("kit");
    live = configured;
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(applier.apply(&maps, &changed, Some(&live)).await.unwrap(), Applied::Unchanged);
    }
    assert_eq!(applier.counts(), ApplyCounts { writes: 0, dry_runs: 1, unchanged: 3 });
    assert_eq!(read(&client).await.resource_version(), live.resource_version());
}

#[tokio::test(start_paused = true)]
async fn a_quota_and_a_limit_deny_with_their_own_words() {
    let server = server().await;
    let client = server.client();
    let quota = json!({"metadata": {"name": "few"}, "spec": {"hard": {"count/configmaps": "0"}}});
    let quotas = api::<ResourceQuota>(&client);
    quotas.create(&PostParams::default(), &object(quota)).await.unwrap();
    let counted = |wanted: &'static str| {
        move |quota: &ResourceQuota| {
            let hard = quota.status.as_ref().and_then(|status| status.hard.as_ref());
            hard.is_some_and(|hard| hard["count/configmaps"].0 == wanted)
        }
    };
    wait(quotas.clone(), "few", counted("0")).await;
    let (maps, applier) = (api::<ConfigMap>(&client), Applier::new("kit"));
    let denied = applier.apply(&maps, &map(json!({"a": "1"})), None).await.unwrap_err();
    assert!(matches!(denied, ApplyError::Denied { .. }), "{denied:?}");
    let text = denied.to_string();
    let wanted = "cannot apply a: denied by admission: configmaps \"a\" is forbidden: exceeded quota: few";
    assert!(text.starts_with(wanted), "{text}");

    let more = json!({"spec": {"hard": {"count/configmaps": "9"}}});
    quotas.patch("few", &PatchParams::default(), &Patch::Merge(more)).await.unwrap();
    wait(quotas, "few", counted("9")).await;
    let applied = applier.apply(&maps, &map(json!({"a": "1"})), None).await.unwrap();
    assert!(matches!(applied, Applied::Created(_)), "{applied:?}");

    let limits = json!([{"type": "Container", "max": {"cpu": "1"}}]);
    let range = object(json!({"metadata": {"name": "small"}, "spec": {"limits": limits}}));
    api::<LimitRange>(&client).create(&PostParams::default(), &range).await.unwrap();
    let container = json!({"name": "app", "image": "app", "resources": {"limits": {"cpu": "2"}}});
    let pod: Pod = object(json!({"metadata": {"name": "large"}, "spec": {"containers": [container]}}));
    let denied = applier.apply(&api::<Pod>(&client), &pod, None).await.unwrap_err();
    assert!(matches!(denied, ApplyError::Denied { .. }), "{denied:?}");
    assert!(denied.to_string().contains("maximum cpu usage per Container is 1, but limit is 2"), "{denied}");
}

#[tokio::test(start_paused = true)]
async fn drift_of_owned_fields_is_repaired_and_other_fields_are_left_alone() {
    let server = server().await;
    let client = server.client();
    let (maps, applier) = (api::<ConfigMap>(&client), Applier::new("kit").force());
    let intent = map(json!({"ours": "1"}));
    applier.apply(&maps, &intent, None).await.unwrap();

    let by_user = PatchParams { field_manager: Some("user".to_owned()), ..PatchParams::default() };
    let theirs = json!({"data": {"theirs": "x"}, "metadata": {"labels": {"team": "shop"}}});
    maps.patch("a", &by_user, &Patch::Merge(theirs)).await.unwrap();
    let live = read(&client).await;
    assert_eq!(applier.apply(&maps, &intent, Some(&live)).await.unwrap(), Applied::Unchanged);
    assert_eq!(read(&client).await, live);

    maps.patch("a", &by_user, &Patch::Merge(json!({"data": {"ours": "2"}}))).await.unwrap();
    let drifted = read(&client).await;
    let Applied::Configured(repaired) = applier.apply(&maps, &intent, Some(&drifted)).await.unwrap() else {
        panic!()
    };
    assert_eq!(
        repaired.data.unwrap(),
        [("ours", "1"), ("theirs", "x")].map(|(key, value)| (key.to_owned(), value.to_owned())).into()
    );
    assert_eq!(repaired.metadata.labels.unwrap()["team"], "shop");
    assert_eq!(applier.counts().writes, 2);
}

#[tokio::test(start_paused = true)]
async fn a_conflict_names_the_field_and_its_manager() {
    let server = server().await;
    let client = server.client();
    let maps = api::<ConfigMap>(&client);
    Applier::new("other").apply(&maps, &map(json!({"a": "1"})), None).await.unwrap();
    let refused = Applier::new("kit").apply(&maps, &map(json!({"a": "2"})), None).await.unwrap_err();
    let ApplyError::Conflict { name, message } = refused else { panic!("{refused}") };
    assert_eq!(name, "a");
    assert!(message.contains("conflict with \"other\"") && message.contains(".data.a"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_was_deleted_and_recreated_is_applied_again() {
    let server = server().await;
    let client = server.client();
    let (maps, applier) = (api::<ConfigMap>(&client), Applier::new("kit"));
    let intent = map(json!({"a": "1"}));
    applier.apply(&maps, &intent, None).await.unwrap();
    maps.delete("a", &Default::default()).await.unwrap();
    assert!(matches!(applier.apply(&maps, &intent, None).await.unwrap(), Applied::Created(_)));
    maps.delete("a", &Default::default()).await.unwrap();
    maps.create(&PostParams::default(), &map(json!({"a": "0"}))).await.unwrap();
    let refused = applier.apply(&maps, &intent, None).await;
    assert!(matches!(refused, Err(ApplyError::Conflict { .. })), "{refused:?}");
}

/// What made upstream's server write although nothing changed: numbers that are coerced, quantities and defaults that read back
/// otherwise, empty and absent values. Name, object.
fn churning() -> Vec<(&'static str, Value)> {
    vec![
        (
            "a ClusterRoleBinding without subjects, kubernetes#131175",
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "a"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
            }),
        ),
        (
            "quantities that are written otherwise, kubernetes#95460",
            json!({
                "apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "a", "namespace": "default"},
                "spec": {"limits": [{"type": "Container", "max": {"cpu": "1000m", "memory": "1024Mi", "example.com/gpu": "0.5k"}}]},
            }),
        ),
        (
            "an environment variable with an empty value",
            json!({
                "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", "namespace": "default"},
                "spec": {
                    "replicas": 0,
                    "selector": {"matchLabels": {"app": "a"}},
                    "template": {"metadata": {"labels": {"app": "a"}, "annotations": {}}, "spec": {"containers": [{
                        "name": "app", "image": "app", "env": [{"name": "EMPTY", "value": ""}], "args": [],
                        "ports": [{"containerPort": 80}], "resources": {"limits": {"cpu": "0.1"}},
                    }], "nodeSelector": {}}},
                },
            }),
        ),
        (
            "data that are written as stringData",
            json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a", "namespace": "default"}, "stringData": {"a": "b"},
            }),
        ),
        (
            "a Service whose target port is a text",
            json!({
                "apiVersion": "v1", "kind": "Service", "metadata": {"name": "a", "namespace": "default", "labels": {}},
                "spec": {"selector": {"app": "a"}, "ports": [{"port": 80, "targetPort": "http"}], "externalIPs": []},
            }),
        ),
    ]
}

#[tokio::test(start_paused = true)]
async fn what_churns_upstream_is_written_once() {
    for (name, intent) in churning() {
        let server = server().await;
        let client = server.client();
        let text = |field: &str| intent[field].as_str().unwrap().to_owned();
        let (group, version) = match text("apiVersion").split_once('/') {
            Some((group, version)) => (group.to_owned(), version.to_owned()),
            None => (String::new(), text("apiVersion")),
        };
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(&group, &version, &text("kind")));
        let objects: Api<DynamicObject> = match intent["metadata"]["namespace"].as_str() {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        };
        let intent: DynamicObject = object(intent.clone());
        let applier = Applier::new("kit");
        let applied = applier.apply(&objects, &intent, None).await.unwrap();
        let Applied::Created(created) = applied else { panic!("{name}: {applied:?}") };
        // With a live object, without one, and after a restart.
        for applier in [&applier, &Applier::new("kit")] {
            for _ in 0..3 {
                tokio::time::sleep(Duration::from_secs(2)).await;
                assert_eq!(
                    applier.apply(&objects, &intent, None).await.unwrap(),
                    Applied::Unchanged,
                    "{name}"
                );
                assert_eq!(
                    applier.apply(&objects, &intent, Some(&created)).await.unwrap(),
                    Applied::Unchanged,
                    "{name}"
                );
            }
        }
        let live = objects.get("a").await.unwrap();
        assert_eq!(live.resource_version(), created.resource_version(), "{name}");
        assert_eq!(applier.counts().writes, 1, "{name}");
    }
}
