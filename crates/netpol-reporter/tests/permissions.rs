//! Permissions: the printed RBAC objects are enough, and do not allow more.

use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value, json};
use settled_apiserver::auth::User;
use settled_netpol_reporter::{Config, permissions};

use crate::harness::{
    Gate, Running, config, create, policies, range, reports, run_cilium, server, statuses, three, wait,
};

/// Creates the objects that are printed for a configuration.
pub(crate) async fn grant(client: &Client, config: &Config) {
    for value in permissions::objects(config, "default") {
        let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (group, version) =
            text("/apiVersion").split_once('/').unwrap_or_else(|| ("", text("/apiVersion")));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, text("/kind")));
        let api: Api<DynamicObject> = match text("/metadata/namespace") {
            "" => Api::all_with(client.clone(), &resource),
            namespace => Api::namespaced_with(client.clone(), namespace, &resource),
        };
        create(&api, value.clone()).await;
    }
}

#[tokio::test]
async fn the_printed_permissions_are_enough() {
    for (gate, at) in [(Gate::On, "status"), (Gate::Off, "report")] {
        let server = server(gate).await;
        let client = server.client();
        run_cilium(&client, "v1.15.5").await;
        grant(&client, &config()).await;
        let user = User::service_account("default", "settled-netpol-reporter").authenticated();
        let reporter = Running::start(server.client_as(&user), config());
        let (api, beside) = (policies(&client, "default"), reports(&client, "default"));
        create(&api, range("a")).await;
        let written = if at == "status" { &api } else { &beside };
        wait(written, "a", |object| statuses(object) == three("False", "False", "True")).await;

        // Specs are not its business.
        let theirs = policies(&server.client_as(&user), "default");
        let spec = Patch::Merge(json!({"spec": {"podSelector": {"matchLabels": {"a": "b"}}}}));
        let refused = theirs.patch("a", &PatchParams::default(), &spec).await;
        assert!(matches!(refused, Err(kube::Error::Api(status)) if status.code == 403), "{at}");
        reporter.stop().await;
    }
}

#[test]
fn given_providers_need_no_detection() {
    let resources = |config: &Config| -> Vec<String> {
        let objects = permissions::objects(config, "netpol");
        let role = objects.iter().find(|object| object["kind"] == "ClusterRole").unwrap();
        let rules = role["rules"].as_array().unwrap().iter();
        rules
            .flat_map(|rule| rule["resources"].as_array().unwrap())
            .map(|name| name.as_str().unwrap().to_owned())
            .collect()
    };
    let all = resources(&config());
    let given = resources(&config().providers(["cilium@1.16.0".parse().unwrap()]));
    assert_eq!(
        given,
        [
            "networkpolicies",
            "networkpolicies/status",
            "networkpolicyreports",
            "networkpolicyreports/status",
            "events"
        ]
    );
    for resource in ["daemonsets", "customresourcedefinitions", "nodes", "configmaps"] {
        assert!(all.iter().any(|name| name == resource), "{resource}: {all:?}");
    }
    // Secrets, Pods and specs are in neither.
    assert!(all.iter().all(|name| name != "secrets" && name != "pods"), "{all:?}");
}
