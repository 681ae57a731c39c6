//! RBAC of agents: each may write its own Node, Lease and Host status, and nothing else.

use kube::Client;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams,
    PostParams,
};
use serde_json::{Value, json};
use settled_apiserver::auth::User;
use settled_apiserver::{Config, Server};
use settled_hosts::agent::{Credentials as _, Grant, HostRef, Signed};
use settled_machines::crds::definitions;

fn resource(api_version: &str, kind: &str) -> ApiResource {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

fn api(client: &Client, api_version: &str, kind: &str, namespace: &str) -> Api<DynamicObject> {
    let resource = resource(api_version, kind);
    match namespace {
        "" => Api::all_with(client.clone(), &resource),
        namespace => Api::namespaced_with(client.clone(), namespace, &resource),
    }
}

fn code<T>(result: Result<T, kube::Error>) -> u16 {
    match result {
        Ok(_) => 200,
        Err(kube::Error::Api(status)) => status.code,
        Err(_) => 0,
    }
}

const CLUSTER: &str = "cluster.settled.dev/v1alpha1";
const LEASES: &str = "coordination.k8s.io/v1";

async fn apply(api: &Api<DynamicObject>, api_version: &str, kind: &str, name: &str) -> u16 {
    let object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": {}});
    code(api.patch(name, &PatchParams::apply("agent").force(), &Patch::Apply(object)).await)
}

async fn status(api: &Api<DynamicObject>, name: &str, status: Value) -> u16 {
    let patch = Patch::Merge(json!({"status": status}));
    code(api.patch_status(name, &PatchParams::default(), &patch).await)
}

#[tokio::test]
async fn an_agent_writes_its_own_node_lease_and_host_status_only() {
    let server = Server::start(Config::default()).await.expect("a server");
    let admin = server.client();
    let crds = api(&admin, "apiextensions.k8s.io/v1", "CustomResourceDefinition", "");
    for definition in definitions(&[]) {
        let definition = serde_json::from_value(json!(definition)).expect("an object");
        crds.create(&PostParams::default(), &definition).await.expect("a valid CRD");
    }
    let hosts = api(&admin, CLUSTER, "Host", "default");
    for name in ["a", "b"] {
        let host = json!({
            "apiVersion": CLUSTER, "kind": "Host", "metadata": {"name": name}, "spec": {"address": "192.0.2.1"},
        });
        let host = serde_json::from_value(host).expect("an object");
        // The CRD is served a moment after it was created.
        while hosts.create(&PostParams::default(), &host).await.is_err() {
            tokio::task::yield_now().await;
        }
    }
    let nodes = api(&admin, "v1", "Node", "");
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "b"}});
    let node = serde_json::from_value(node).expect("an object");
    nodes.create(&PostParams::default(), &node).await.expect("created");

    let own = Server::kubeconfig;
    let credentials = {
        let server = server.clone();
        Signed::new(admin.clone(), move |grant| {
            Ok(own(&server, "https://192.0.2.1:6443", &User::new(grant.user(), [Grant::GROUP]))?)
        })
    };
    let host = HostRef { namespace: "default".to_owned(), name: "a".to_owned() };
    let grant = Grant { node: "a".to_owned(), host: Some(host), ..Grant::default() };
    let kubeconfig = credentials.issue(&grant).await.expect("credentials");
    assert!(kubeconfig.contains("system:node:a"), "{kubeconfig}");

    let agent = server.client_as(&User::new(grant.user(), [Grant::GROUP]).authenticated());
    let nodes = api(&agent, "v1", "Node", "");
    let leases = api(&agent, LEASES, "Lease", "kube-node-lease");
    let hosts = api(&agent, CLUSTER, "Host", "default");
    let contact = json!({"lastContactTime": "2026-01-01T00:00:00Z"});
    let info = json!({"nodeInfo": {"kubeletVersion": "v1.36.0"}});

    // What is its own.
    assert_eq!(apply(&nodes, "v1", "Node", "a").await, 200);
    assert_eq!(status(&nodes, "a", info.clone()).await, 200);
    assert_eq!(code(nodes.get("a").await), 200);
    assert_eq!(apply(&leases, LEASES, "Lease", "a").await, 200);
    assert_eq!(status(&hosts, "a", contact.clone()).await, 200);

    // What is of others.
    assert_eq!(apply(&nodes, "v1", "Node", "b").await, 403);
    assert_eq!(apply(&nodes, "v1", "Node", "c").await, 403);
    assert_eq!(status(&nodes, "b", info).await, 403);
    assert_eq!(code(nodes.get("b").await), 403);
    assert_eq!(apply(&leases, LEASES, "Lease", "b").await, 403);
    assert_eq!(status(&hosts, "b", contact).await, 403);

    // What no agent does: other verbs, the spec of its Host, other kinds.
    assert_eq!(code(nodes.list(&ListParams::default()).await), 403);
    assert_eq!(code(nodes.delete("a", &DeleteParams::default()).await), 403);
    assert_eq!(code(leases.delete("a", &DeleteParams::default()).await), 403);
    let elsewhere = api(&agent, LEASES, "Lease", "default");
    assert_eq!(apply(&elsewhere, LEASES, "Lease", "a").await, 403);
    let spec = Patch::Merge(json!({"spec": {"unschedulable": true}}));
    assert_eq!(code(hosts.patch("a", &PatchParams::default(), &spec).await), 403);
    for (api_version, kind) in [
        (CLUSTER, "Machine"),
        (CLUSTER, "Cluster"),
        ("v1", "Secret"),
        ("v1", "ServiceAccount"),
        ("rbac.authorization.k8s.io/v1", "Role"),
    ] {
        let api = api(&agent, api_version, kind, "default");
        assert_eq!(code(api.list(&ListParams::default()).await), 403, "{kind}");
        assert_eq!(apply(&api, api_version, kind, "a").await, 403, "{kind}");
    }

    // Revoked, it may do nothing; revoking twice is fine.
    credentials.revoke(&grant).await.expect("revoked");
    credentials.revoke(&grant).await.expect("revoked");
    assert_eq!(code(nodes.get("a").await), 403);
    assert_eq!(apply(&leases, LEASES, "Lease", "a").await, 403);
    let bindings = api(&admin, "rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "");
    assert_eq!(code(bindings.get("settled:node:a").await), 404);
}
