//! Roles, on a server that enforces them: users write spec, controllers status, agents their own Node, Lease and Host status.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use settled_apiserver::Server;
use settled_apiserver::auth::User;
use settled_machines::inventory::Kind;
use settled_machines::{live, rbac};

use crate::harness::{API, machine};

fn resource(object: &Value) -> ApiResource {
    let text = |name: &str| object[name].as_str().unwrap_or_default();
    let (group, version) = text("apiVersion").split_once('/').unwrap_or_else(|| ("", text("apiVersion")));
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, text("kind")))
}

async fn create(client: &Client, object: &Value) -> Result<(), u16> {
    let resource = resource(object);
    let api: Api<DynamicObject> = match object["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let object: DynamicObject = serde_json::from_value(object.clone()).expect("an object");
    api.create(&PostParams::default(), &object).await.map(drop).map_err(|error| code(&error))
}

fn code(error: &kube::Error) -> u16 {
    match error {
        kube::Error::Api(status) => status.code,
        other => unreachable!("{other}"),
    }
}

struct World {
    server: Server,
    admin: Client,
}

impl World {
    async fn start() -> Self {
        let server = Server::in_memory().await.expect("a server");
        let admin = server.client();
        live::install(&admin, &[]).await.expect("the kinds");
        for object in rbac::objects() {
            create(&admin, &object).await.expect("a role");
        }
        let subjects = [("user", "settled-machines-edit"), ("viewer", "settled-machines-view")];
        for (name, role) in subjects {
            let binding = json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": name, "namespace": "default"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
                "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": name}],
            });
            create(&admin, &binding).await.expect("a binding");
        }
        for node in ["node-1", "node-2"] {
            for object in rbac::agent(node, Some(("default", node))) {
                create(&admin, &object).await.expect("a role");
            }
            let host = json!({"apiVersion": API, "kind": "Host", "metadata": {"name": node, "namespace": "default"}, "spec": {"address": node}});
            create(&admin, &host).await.expect("a Host");
        }
        Self { server, admin }
    }

    fn client(&self, name: &str) -> Client {
        self.server.client_as(&User::new(name, Vec::<String>::new()))
    }

    async fn patch(
        &self,
        user: &str,
        kind: Kind,
        name: &str,
        subresource: Option<&str>,
        patch: Value,
    ) -> u16 {
        let api: Api<DynamicObject> = Api::default_namespaced_with(self.client(user), &live::resource(kind));
        let patch = Patch::Merge(patch);
        let patched = match subresource {
            Some(name_of) => api.patch_subresource(name_of, name, &PatchParams::default(), &patch).await,
            None => api.patch(name, &PatchParams::default(), &patch).await,
        };
        patched.map_or_else(|error| code(&error), |_| 200)
    }
}

#[tokio::test]
async fn users_write_spec_and_controllers_write_status() {
    let world = World::start().await;
    let controller = format!("system:serviceaccount:{}:{}", rbac::CONTROLLERS.1, rbac::CONTROLLERS.0);
    assert_eq!(create(&world.client("user"), &machine("a", "v1.36.0")).await, Ok(()));
    assert_eq!(create(&world.client("viewer"), &machine("b", "v1.36.0")).await, Err(403));
    let spec = json!({"spec": {"versions": {"kubelet": "v1.36.1"}}});
    let status = json!({"status": {"providerID": "another"}});
    for (who, spec_code, status_code) in
        [("user", 200, 403), ("viewer", 403, 403), (controller.as_str(), 200, 200)]
    {
        assert_eq!(world.patch(who, Kind::Machine, "a", None, spec.clone()).await, spec_code, "{who}");
        assert_eq!(
            world.patch(who, Kind::Machine, "a", Some("status"), status.clone()).await,
            status_code,
            "{who}"
        );
    }
    // A status that a user sends with the spec is not stored: nobody takes a host that way.
    let both = json!({"spec": {"versions": {"kubelet": "v1.36.2"}}, "status": {"providerID": "stolen"}});
    assert_eq!(world.patch("user", Kind::Machine, "a", None, both).await, 200);
    let api: Api<DynamicObject> =
        Api::default_namespaced_with(world.admin.clone(), &live::resource(Kind::Machine));
    assert_eq!(api.get("a").await.expect("there").data["status"]["providerID"], "another");
    // The controllers do not change what users own: classes and health checks.
    let class = json!({"apiVersion": API, "kind": "MachineClass", "metadata": {"name": "c", "namespace": "default"}, "spec": {"providerSpec": {"apiVersion": "a/v1", "kind": "A"}}});
    let api: Api<DynamicObject> =
        Api::default_namespaced_with(world.client(&controller), &live::resource(Kind::MachineClass));
    let refused =
        api.create(&PostParams::default(), &serde_json::from_value(class).expect("an object")).await;
    assert_eq!(refused.map_or_else(|error| code(&error), |_| 201), 403);
}

#[tokio::test]
async fn agents_write_their_own_node_lease_and_host_status() {
    let world = World::start().await;
    let agent = "system:node:node-1";
    let node = |name: &str| json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
    let lease = |name: &str| json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name, "namespace": "kube-node-lease"}});
    for name in ["node-1", "node-2"] {
        create(&world.admin, &node(name)).await.expect("a Node");
        create(&world.admin, &lease(name)).await.expect("a Lease");
    }
    let nodes: Api<DynamicObject> = Api::all_with(world.client(agent), &resource(&node("")));
    let leases: Api<DynamicObject> =
        Api::namespaced_with(world.client(agent), "kube-node-lease", &resource(&lease("")));
    let parameters = PatchParams::default();
    for (name, expected) in [("node-1", 200), ("node-2", 403)] {
        let label = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
        let ready = Patch::Merge(json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}));
        let renewed = Patch::Merge(json!({"spec": {"holderIdentity": name}}));
        let codes = [
            nodes.patch(name, &parameters, &label).await.map(|object| object.name_any()),
            nodes.patch_status(name, &parameters, &ready).await.map(|object| object.name_any()),
            leases.patch(name, &parameters, &renewed).await.map(|object| object.name_any()),
        ];
        let codes = codes.map(|result| result.map_or_else(|error| code(&error), |_| 200));
        assert_eq!(codes, [expected; 3], "{name}");
        let contact = json!({"status": {"lastContactTime": "2026-11-24T12:00:00Z"}});
        assert_eq!(world.patch(agent, Kind::Host, name, Some("status"), contact).await, expected, "{name}");
        let stolen = json!({"spec": {"address": "10.0.0.9"}});
        assert_eq!(world.patch(agent, Kind::Host, name, None, stolen).await, 403, "{name}");
    }
    // Nothing else: no Machines, no Secrets, no Pods, and no other agent's role.
    let machines: Api<DynamicObject> =
        Api::default_namespaced_with(world.client(agent), &live::resource(Kind::Machine));
    assert_eq!(machines.list(&Default::default()).await.map_or_else(|error| code(&error), |_| 200), 403);
    for kind in ["Secret", "Pod"] {
        let api: Api<DynamicObject> = Api::default_namespaced_with(
            world.client(agent),
            &ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", kind)),
        );
        assert_eq!(
            api.list(&Default::default()).await.map_or_else(|error| code(&error), |_| 200),
            403,
            "{kind}"
        );
    }
}

#[test]
fn the_manifests_are_those_of_the_program() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("rbac.yaml");
    let mut text = Vec::from("# Written by `UPDATE_CRDS=1 cargo test --package settled-machines rbac`.\n");
    for object in rbac::objects() {
        text.extend_from_slice(b"---\n");
        settled_manifest::write_yaml(object.to_string().as_bytes(), &mut text).expect("JSON");
    }
    if std::env::var_os("UPDATE_CRDS").is_some() {
        fs::write(&path, &text).expect("written");
    }
    assert_eq!(fs::read(&path).unwrap_or_default(), text, "UPDATE_CRDS=1 writes it");
    let kinds: BTreeMap<String, usize> = rbac::objects().iter().fold(BTreeMap::new(), |mut kinds, object| {
        *kinds.entry(object["kind"].as_str().unwrap_or_default().to_owned()).or_default() += 1;
        kinds
    });
    assert_eq!(kinds, BTreeMap::from([("ClusterRole".to_owned(), 3), ("ClusterRoleBinding".to_owned(), 1)]));
}
