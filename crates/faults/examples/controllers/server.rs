//! What the built-in controllers of the API server are explored with.

use serde_json::{Value, json};
use settled_apiserver::Controllers;
use settled_faults::Scenario;

/// All of it.
pub fn scenarios() -> [Scenario; 2] {
    [namespace(), counted()]
}

fn config(name: &str, finalizer: Option<&str>) -> Value {
    let mut config =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "shop"}});
    if let Some(finalizer) = finalizer {
        config["metadata"]["finalizers"] = json!([finalizer]);
    }
    config
}

/// A namespace with objects, one of which is finalized only later.
fn namespace() -> Scenario {
    let release = json!({"metadata": {"finalizers": null}});
    Scenario::new("namespace")
        .controllers(Controllers::all())
        .object(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}))
        .object(config("a", None))
        .object(config("b", None))
        .object(config("kept", Some("example.com/kept")))
        .delete("v1", "Namespace", "shop")
        .patch("v1", "ConfigMap", "shop/kept", release)
        .finally("the namespace is gone", |view| match view.objects("Namespace").next() {
            Some(namespace) => Err(namespace["status"].to_string()),
            None => Ok(()),
        })
}

/// A quota that counts, claims that are protected, and roles that are gathered.
fn counted() -> Scenario {
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few", "namespace": "shop"},
        "spec": {"hard": {"count/configmaps": "9"}},
    });
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "all"},
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"part": "true"}}]}, "rules": [],
    });
    let part = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "part", "labels": {"part": "true"}},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
    });
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "disk", "namespace": "shop"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    Scenario::new("counted")
        .controllers(Controllers::all())
        .object(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}))
        .object(quota)
        .object(role)
        .create(config("a", None))
        .create(config("b", None))
        .create(part)
        .create(claim)
        .delete("v1", "PersistentVolumeClaim", "shop/disk")
        .delete("v1", "ConfigMap", "shop/a")
        .finally("the quota counts what is there", |view| {
            let used = view
                .get("ResourceQuota", "shop", "few")
                .and_then(|quota| quota.pointer("/status/used/count~1configmaps"));
            // kube-root-ca.crt is one.
            if used == Some(&json!("2")) { Ok(()) } else { Err(format!("{used:?}")) }
        })
        .finally("roles are gathered", |view| {
            let rules = view.get("ClusterRole", "", "all").and_then(|role| role["rules"].as_array());
            if rules.is_some_and(|rules| rules.len() == 1) { Ok(()) } else { Err(format!("{rules:?}")) }
        })
}
