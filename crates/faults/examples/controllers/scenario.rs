//! What the controller of sites is explored with, and what must hold.

use serde_json::{Value, json};
use settled_faults::{Scenario, View};

use super::controller::Cloud;

/// The CustomResourceDefinition of sites.
pub fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "sites.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "sites", "singular": "site", "kind": "Site"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                    "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                }}},
            }],
        },
    })
}

/// A site.
pub fn site(name: &str, host: &str) -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Site", "metadata": {"name": name, "namespace": "default"},
        "spec": {"host": host},
    })
}

/// A site is made, changed twice, deleted and made again.
pub fn sites() -> Scenario<Cloud> {
    let host = |host: &str| json!({"spec": {"host": host}});
    checked(Scenario::with_world("sites", Cloud::default()))
        .object(definition())
        .object(site("shop", "a.example.com"))
        .patch("example.com/v1", "Site", "default/shop", host("b.example.com"))
        .patch("example.com/v1", "Site", "default/shop", host("c.example.com"))
        .delete("example.com/v1", "Site", "default/shop")
        .create(site("shop", "d.example.com"))
}

/// What must hold of sites.
pub fn checked(scenario: Scenario<Cloud>) -> Scenario<Cloud> {
    scenario
        .ready_means(is_served)
        .claims(|object| {
            let address = object.pointer("/status/address").and_then(Value::as_str);
            address.filter(|_| object["kind"] == "Site").map(str::to_owned).into_iter().collect()
        })
        .finally("each site is served", |view| {
            view.objects("Site").try_for_each(|site| {
                let ready = site.pointer("/status/conditions/0/status") == Some(&json!("True"));
                if ready { is_served(site, view) } else { Err("a site is not ready".to_owned()) }
            })
        })
}

fn is_served(site: &Value, view: &View<'_, Cloud>) -> Result<(), String> {
    let text = |object: &Value, pointer| {
        object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let (name, uid, host) =
        (text(site, "/metadata/name"), text(site, "/metadata/uid"), text(site, "/spec/host"));
    let balancer = view.world().get(&uid).ok_or("there is no balancer")?;
    if balancer.host != host {
        return Err(format!("the balancer serves {}, and not {host}", balancer.host));
    }
    let config = view.get("ConfigMap", "default", &name).ok_or("there is no ConfigMap")?;
    let owner = text(config, "/metadata/ownerReferences/0/uid");
    if owner != uid || text(config, "/data/host") != host {
        return Err(format!("the ConfigMap has {}", text(config, "/data/host")));
    }
    view.get("Secret", "default", &name).map(drop).ok_or_else(|| "there is no Secret".to_owned())
}
