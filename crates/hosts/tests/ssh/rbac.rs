//! Permissions of a pool: owners and users write specs, the provider writes statuses, and nobody more.

use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value, json};
use settled_apiserver::Server;
use settled_apiserver::auth::User;

use super::world::{resource, server};

pub(crate) const PROVIDER: &str = "ssh-provider";

/// Creates the roles of the manifest, and binds each to the user of its name.
pub(crate) async fn grant(client: &Client) {
    let mut list = Vec::new();
    settled_manifest::yaml_to_json(include_bytes!("../../rbac/ssh-pool.yaml"), &mut list).expect("YAML");
    let list: Value = serde_json::from_slice(&list).expect("JSON");
    for role in list["items"].as_array().expect("a list") {
        create(client, role.clone()).await;
    }
    let bindings = [
        ("settled-pool-owner", "owner", None),
        ("settled-machine-user", "user", None),
        ("settled-ssh-provider", PROVIDER, None),
        ("settled-ssh-keys", PROVIDER, Some("default")),
    ];
    for (role, user, namespace) in bindings {
        let kind = if namespace.is_some() { "RoleBinding" } else { "ClusterRoleBinding" };
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": role, "namespace": namespace},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        });
        create(client, binding).await;
    }
}

async fn create(client: &Client, object: Value) {
    let kind = object["kind"].as_str().unwrap_or_default();
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("rbac.authorization.k8s.io", "v1", kind));
    let api: Api<DynamicObject> = match object["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let object = serde_json::from_value(object).expect("an object");
    api.create(&PostParams::default(), &object).await.expect("created");
}

/// What a user does: whether it is permitted.
struct Acting(Client);

impl Acting {
    fn new(server: &Server, user: &str) -> Self {
        Self(server.client_as(&User::new(user, [] as [&str; 0]).authenticated()))
    }

    fn api(&self, kind: &str) -> Api<DynamicObject> {
        Api::default_namespaced_with(self.0.clone(), &resource(kind))
    }

    async fn spec(&self, kind: &str) -> bool {
        let patch = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
        permitted(self.api(kind).patch("one", &PatchParams::default(), &patch).await)
    }

    async fn status(&self, kind: &str) -> bool {
        let patch = Patch::Merge(json!({"status": {"observedGeneration": 1}}));
        permitted(self.api(kind).patch_status("one", &PatchParams::default(), &patch).await)
    }

    async fn delete(&self, kind: &str) -> bool {
        let dry = DeleteParams { dry_run: true, ..DeleteParams::default() };
        permitted(self.api(kind).delete("one", &dry).await)
    }
}

fn permitted<T>(result: Result<T, kube::Error>) -> bool {
    match result {
        Ok(_) => true,
        Err(kube::Error::Api(status)) if status.code == 403 => false,
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn users_write_specs_and_the_provider_writes_statuses() {
    let server = server().await;
    let client = server.client();
    grant(&client).await;
    for (kind, spec) in [
        ("Host", json!({"address": "10.0.0.1"})),
        (
            "Machine",
            json!({"providerSpec": {"value": {"apiVersion": settled_hosts::ssh::API_VERSION, "kind": settled_hosts::ssh::KIND}}}),
        ),
    ] {
        let object = json!({"apiVersion": "cluster.settled.dev/v1alpha1", "kind": kind, "metadata": {"name": "one", "namespace": "default"}, "spec": spec});
        let api: Api<DynamicObject> = Api::default_namespaced_with(client.clone(), &resource(kind));
        api.create(&PostParams::default(), &serde_json::from_value(object).expect("an object"))
            .await
            .expect("created");
    }
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "one", "namespace": "default"}});
    let secrets: Api<DynamicObject> = Api::default_namespaced_with(client.clone(), &resource("Secret"));
    secrets
        .create(&PostParams::default(), &serde_json::from_value(secret).expect("an object"))
        .await
        .expect("created");

    // Who, and whether they may write the spec and the status of Hosts and of Machines, and delete them.
    for (user, expected) in [
        ("owner", [true, false, true, false, false, false]),
        ("user", [false, false, false, true, false, true]),
        (PROVIDER, [false, true, false, false, true, false]),
        ("nobody", [false; 6]),
    ] {
        let acting = Acting::new(&server, user);
        let mut found = Vec::new();
        for kind in ["Host", "Machine"] {
            found.extend([acting.spec(kind).await, acting.status(kind).await, acting.delete(kind).await]);
        }
        assert_eq!(found, expected, "{user}");
        let reads = permitted(acting.api("Secret").get("one").await);
        assert_eq!(reads, user == PROVIDER, "{user} reads the key");
        let lists = permitted(acting.api("Secret").list(&Default::default()).await);
        assert!(!lists, "{user} lists Secrets");
    }
}
