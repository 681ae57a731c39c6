//! CRDs: manifests, and what the API server takes and refuses.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::wait::{await_condition, conditions::is_crd_established};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use settled_apiserver::Server;
use settled_machines::crds::{ConfigSchema, definitions};

/// A provider's format, with a required field, a pattern and a default.
pub(crate) fn example(kind: &str) -> ConfigSchema {
    ConfigSchema {
        api_version: "example.com/v1".to_owned(),
        kind: kind.to_owned(),
        schema: json!({
            "type": "object",
            "required": ["image"],
            "properties": {
                "image": {"type": "string", "minLength": 1},
                "size": {"type": "string", "enum": ["small", "large"], "default": "small"},
                "disks": {"type": "array", "items": {"type": "string"}},
            },
        }),
    }
}

pub(crate) async fn install(client: &Client, providers: &[ConfigSchema]) {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in definitions(providers) {
        crds.create(&PostParams::default(), &definition).await.expect("a valid CRD");
        await_condition(crds.clone(), &definition.name_any(), is_crd_established())
            .await
            .expect("established");
    }
}

fn api(client: &Client, kind: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("cluster.settled.dev", "v1alpha1", kind);
    let mut resource = ApiResource::from_gvk(&kind);
    if resource.kind == "MachineClass" {
        resource.plural = "machineclasses".to_owned();
    }
    Api::default_namespaced_with(client.clone(), &resource)
}

fn object(kind: &str, spec: Value) -> Value {
    json!({"apiVersion": "cluster.settled.dev/v1alpha1", "kind": kind, "metadata": {"generateName": "a-"}, "spec": spec})
}

/// Creates an object; the error of a refusal.
async fn create(client: &Client, object: &Value) -> Result<DynamicObject, String> {
    let kind = object["kind"].as_str().unwrap_or_default();
    let typed = serde_json::from_value(object.clone()).expect("an object");
    api(client, kind).create(&PostParams::default(), &typed).await.map_err(|error| match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    })
}

fn config() -> Value {
    json!({"value": {"apiVersion": "example.com/v1", "kind": "ExampleMachine", "image": "debian"}})
}

fn template() -> Value {
    json!({"metadata": {"labels": {"app": "a"}}, "spec": {"providerSpec": config()}})
}

fn selector() -> Value {
    json!({"matchLabels": {"app": "a"}})
}

fn valid() -> Vec<Value> {
    let networks = json!({"services": {"cidrBlocks": ["10.96.0.0/12"]}, "pods": {"cidrBlocks": ["10.244.0.0/16"]}, "serviceDomain": "cluster.local"});
    vec![
        object("Cluster", json!({"clusterNetwork": networks, "controlPlane": {"version": "v1.36.0"}})),
        object(
            "Machine",
            json!({"versions": {"kubelet": "v1.36.0", "containerRuntime": {"name": "containerd", "version": "2.1.0"}}, "providerSpec": config()}),
        ),
        object("MachineSet", json!({"replicas": 3, "selector": selector(), "template": template()})),
        object("MachineDeployment", json!({"selector": selector(), "template": template()})),
        object("MachineClass", json!({"providerSpec": config()["value"]})),
        object("MachineHealthCheck", json!({"selector": selector()})),
        object("Host", json!({"address": "192.0.2.1"})),
    ]
}

#[test]
fn manifests_are_up_to_date() {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("crds");
    let update = std::env::var_os("UPDATE_CRDS").is_some();
    for definition in definitions(&[]) {
        let path = directory.join(format!("{}.yaml", definition.spec.names.plural));
        let mut generated =
            b"# Generated from the types in src/types: UPDATE_CRDS=1 cargo test -p settled-machines\n"
                .to_vec();
        settled_manifest::write_yaml(json!(definition).to_string().as_bytes(), &mut generated).expect("JSON");
        if update {
            std::fs::create_dir_all(&directory).expect("a directory");
            std::fs::write(&path, &generated).expect("a file");
        }
        let stored = std::fs::read(&path).unwrap_or_default();
        assert!(stored == generated, "{} is out of date: run with UPDATE_CRDS=1", path.display());
    }
}

#[tokio::test]
async fn the_server_takes_definitions_and_valid_objects() {
    for providers in
        [vec![], vec![example("ExampleMachine")], vec![example("ExampleMachine"), example("OtherMachine")]]
    {
        let server = Server::in_memory().await.expect("a server");
        let client = server.client();
        install(&client, &providers).await;
        for object in valid() {
            let created = create(&client, &object).await;
            assert!(
                created.is_ok(),
                "{} with {} providers: {:?}",
                object["kind"],
                providers.len(),
                created.err()
            );
        }
    }
}

#[tokio::test]
async fn fields_have_their_defaults() {
    let server = Server::in_memory().await.expect("a server");
    let client = server.client();
    install(&client, &[example("ExampleMachine")]).await;
    let find = |kind: &str| valid().into_iter().find(|object| object["kind"] == kind).expect("a valid one");
    let deployment = create(&client, &find("MachineDeployment")).await.expect("valid").data;
    assert_eq!(deployment["spec"]["replicas"], 1);
    assert_eq!(
        deployment["spec"]["strategy"],
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}})
    );
    assert_eq!(deployment["spec"]["progressDeadlineSeconds"], 600);
    let check = create(&client, &find("MachineHealthCheck")).await.expect("valid").data;
    assert_eq!(check["spec"]["maxUnhealthy"], "40%");
    assert_eq!(check["spec"]["maxInFlight"], 1);
    let machine = create(&client, &find("Machine")).await.expect("valid").data;
    assert_eq!(machine["spec"]["providerSpec"]["value"]["size"], "small", "the default of the provider");
}

#[tokio::test]
async fn the_server_refuses_invalid_objects() {
    let server = Server::in_memory().await.expect("a server");
    let client = server.client();
    install(&client, &[example("ExampleMachine")]).await;
    let broken = |kind: &str, pointer: &str, value: Value| {
        let mut object = valid().into_iter().find(|object| object["kind"] == kind).expect("a valid one");
        match pointer.rsplit_once('/') {
            Some((parent, name)) if !parent.is_empty() => {
                object.pointer_mut(parent).expect("a parent")[name] = value;
            }
            _ => object[&pointer[1..]] = value,
        }
        object
    };
    let none = json!({});
    let both = json!({"value": config()["value"], "valueFrom": {"machineClass": {"name": "a"}}});
    let taint = json!({"key": "a", "effect": "NoSchedule"});
    let cases = [
        (broken("Cluster", "/spec/clusterNetwork", none.clone()), "Required value"),
        (broken("Cluster", "/spec/controlPlane/version", json!("latest")), "spec.controlPlane.version"),
        (broken("Machine", "/spec/providerSpec", none), "exactly one of value and valueFrom is required"),
        (broken("Machine", "/spec/providerSpec", both), "exactly one of value and valueFrom is required"),
        (broken("Machine", "/spec/versions/kubelet", json!("newest")), "spec.versions.kubelet"),
        (broken("Machine", "/spec/taints", json!([taint, taint])), "Duplicate value"),
        (broken("Machine", "/spec/taints", json!([{"key": "a", "effect": "Never"}])), "Unsupported value"),
        (
            broken("Machine", "/spec/providerSpec/value/kind", json!("OtherMachine")),
            "Unsupported value: \"OtherMachine\"",
        ),
        (broken("Machine", "/spec/providerSpec/value/size", json!("huge")), "Unsupported value: \"huge\""),
        (broken("Machine", "/spec/providerSpec/value/image", json!("")), "spec.providerSpec.value.image"),
        (broken("MachineSet", "/spec/replicas", json!(-1)), "spec.replicas"),
        (broken("MachineSet", "/spec/selector", json!({})), "selector must not be empty"),
        (
            broken("MachineSet", "/spec/selector/matchLabels", json!({"app": "b"})),
            "selector does not match the labels of the template",
        ),
        (
            broken("MachineSet", "/spec/template/spec/providerSpec/value/image", json!(7)),
            "must be of type string",
        ),
        (
            broken(
                "MachineDeployment",
                "/spec/strategy",
                json!({"rollingUpdate": {"maxSurge": "0%", "maxUnavailable": 0}}),
            ),
            "must not both be 0",
        ),
        (
            broken("MachineDeployment", "/spec/strategy", json!({"rollingUpdate": {"maxSurge": "many"}})),
            "maxSurge",
        ),
        (broken("MachineDeployment", "/spec/strategy", json!({"type": "Recreate"})), "Unsupported value"),
        (broken("MachineClass", "/spec/providerSpec/kind", json!("OtherMachine")), "Unsupported value"),
        (broken("MachineHealthCheck", "/spec/selector", json!({})), "selector must not be empty"),
        (broken("Host", "/spec/port", json!(0)), "spec.port"),
    ];
    for (object, expected) in cases {
        let refused = create(&client, &object).await.err();
        let message = refused.unwrap_or_else(|| panic!("accepted: {object}"));
        assert!(message.contains(expected), "{object}: {message}");
    }
}

#[tokio::test]
async fn several_providers_are_told_apart() {
    let server = Server::in_memory().await.expect("a server");
    let client = server.client();
    install(&client, &[example("ExampleMachine"), example("OtherMachine")]).await;
    let machine = |value: Value| object("Machine", json!({"providerSpec": {"value": value}}));
    let of =
        |kind: &str| json!({"apiVersion": "example.com/v1", "kind": kind, "image": "debian", "disks": ["a"]});
    let created = create(&client, &machine(of("OtherMachine"))).await.expect("a known kind");
    assert_eq!(created.data["spec"]["providerSpec"]["value"]["disks"], json!(["a"]));
    for (value, field) in [
        (of("UnknownMachine"), "kind"),
        (json!({"apiVersion": "example.com/v1", "kind": "OtherMachine"}), "image"),
        (
            json!({"apiVersion": "example.com/v1", "kind": "OtherMachine", "image": "a", "size": "huge"}),
            "size",
        ),
    ] {
        let message = create(&client, &machine(value)).await.expect_err(field);
        assert!(message.contains("spec.providerSpec.value"), "{field}: {message}");
    }
}

#[tokio::test]
async fn immutable_fields_and_subresources() {
    let server = Server::in_memory().await.expect("a server");
    let client = server.client();
    install(&client, &[]).await;
    let set = create(&client, &object("MachineSet", json!({"selector": selector(), "template": template()})))
        .await
        .expect("valid");
    let sets = api(&client, "MachineSet");
    let merge = PatchParams::default();
    let other = json!({"spec": {"selector": {"matchLabels": {"app": "b"}}, "template": {"metadata": {"labels": {"app": "b"}}}}});
    let refused = sets.patch(&set.name_any(), &merge, &Patch::Merge(other)).await.expect_err("immutable");
    assert!(refused.to_string().contains("selector is immutable"), "{refused}");

    let scaled = sets
        .patch_scale(&set.name_any(), &merge, &Patch::Merge(json!({"spec": {"replicas": 5}})))
        .await
        .expect("scaled");
    assert_eq!(scaled.spec.and_then(|spec| spec.replicas), Some(5));
    let status = json!({"status": {"replicas": 2, "selector": "app=a"}, "spec": {"replicas": 9}});
    let patched = sets.patch_status(&set.name_any(), &merge, &Patch::Merge(status)).await.expect("a status");
    assert_eq!(
        (&patched.data["status"]["replicas"], &patched.data["spec"]["replicas"]),
        (&json!(2), &json!(5))
    );
    let scale = sets.get_scale(&set.name_any()).await.expect("a scale");
    assert_eq!(
        scale.status.map(|status| (status.replicas, status.selector)),
        Some((2, Some("app=a".to_owned())))
    );

    let machine = object("Machine", json!({"clusterName": "a", "providerSpec": config()}));
    let machine = create(&client, &machine).await.expect("valid");
    let machines = api(&client, "Machine");
    let refused = machines
        .patch(&machine.name_any(), &merge, &Patch::Merge(json!({"spec": {"clusterName": "b"}})))
        .await;
    assert!(refused.expect_err("immutable").to_string().contains("clusterName is immutable"));
}
