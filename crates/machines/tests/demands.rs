//! Demands of KEP-3 on the shape of the API: which kinds and fields there are, and which there are not.

use serde_json::{Value, json};
use settled_machines::crds::definitions;

/// Kinds with their schemas.
fn schemas() -> Vec<(String, Value)> {
    let schema = |definition: &Value| definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone();
    let all = definitions(&[]).into_iter().map(|definition| json!(definition));
    all.map(|definition| {
        assert_eq!(definition["spec"]["group"], "cluster.settled.dev");
        (definition["spec"]["names"]["kind"].as_str().unwrap_or_default().to_owned(), schema(&definition))
    })
    .collect()
}

fn schema(kind: &str) -> Value {
    let found = schemas().into_iter().find(|(name, _)| name == kind);
    found.map(|(_, schema)| schema).expect("a kind")
}

fn fields(schema: &Value) -> Vec<&str> {
    let properties = schema["properties"].as_object();
    properties.into_iter().flatten().map(|(name, _)| name.as_str()).collect()
}

/// Calls this with each property of a schema: its path, and its own schema.
fn each_property(schema: &Value, path: &str, see: &mut dyn FnMut(&str, &Value)) {
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        see(&path, property);
        each_property(property, &path, see);
    }
    for inner in ["items", "additionalProperties"].map(|name| &schema[name]) {
        if inner.is_object() {
            each_property(inner, path, see);
        }
    }
}

/// N1, N2, O1: a group of its own, with what clusters consist of, and nothing else.
#[test]
fn n2_o1_the_group_has_clusters_and_machines_only() {
    let mut kinds: Vec<String> = schemas().into_iter().map(|(kind, _)| kind).collect();
    kinds.sort();
    assert_eq!(
        kinds,
        [
            "Cluster",
            "Host",
            "Machine",
            "MachineClass",
            "MachineDeployment",
            "MachineHealthCheck",
            "MachineSet"
        ]
    );
}

/// I1: no field chooses between an update in place and a replacement. X2: none asks for a size.
#[test]
fn i1_x2_no_field_chooses_how_or_how_big() {
    let machine = schema("Machine");
    assert_eq!(
        fields(&machine["properties"]["spec"]),
        [
            "clusterName",
            "metadata",
            "minReadySeconds",
            "nodeDrainTimeoutSeconds",
            "nodeStartupTimeoutSeconds",
            "providerID",
            "providerSpec",
            "taints",
            "versions",
        ]
    );
    let versions = &machine["properties"]["spec"]["properties"]["versions"];
    assert_eq!(fields(versions), ["containerRuntime", "controlPlane", "kubelet"]);
    let mut found = Vec::new();
    for (kind, schema) in schemas() {
        each_property(&schema["properties"]["spec"], &kind, &mut |path, _| {
            let name = path.rsplit('.').next().unwrap_or_default().to_lowercase();
            if ["inplace", "replace", "recreate", "instancetype", "cpu", "memory", "size", "flavor"]
                .iter()
                .any(|word| name.contains(word) && name != "replicas")
            {
                found.push(path.to_owned());
            }
        });
    }
    // The owner of a pool says so of a host, not the user of a Machine.
    assert_eq!(found, ["Host.replacePolicy"]);
}

/// G2, N4: what is of a provider is in `providerSpec` and `providerStatus`, whose content the API does not know.
#[test]
fn g2_n4_what_is_of_a_provider_is_opaque() {
    let mut opaque = Vec::new();
    for (kind, schema) in schemas() {
        each_property(&schema, &kind, &mut |path, property| {
            let is_reference = path.ends_with("providerSpec") && !property["properties"]["value"].is_null();
            let is_of_provider = ["providerSpec", "providerSpec.value", "providerStatus"];
            if is_of_provider.iter().any(|name| path.ends_with(name)) && !is_reference {
                assert_eq!(property["x-kubernetes-preserve-unknown-fields"], true, "{path}");
                // Which format it is, is known.
                let known = fields(property);
                assert!(known.iter().all(|name| ["apiVersion", "kind"].contains(name)), "{path}: {known:?}");
                opaque.push(path.to_owned());
            }
            let lower = path.to_lowercase();
            let names_provider = ["ssh", "netns", "qemu", "process", "simulated"]
                .iter()
                .any(|provider| lower.contains(provider));
            assert!(!names_provider, "{path}");
        });
    }
    opaque.sort();
    assert_eq!(
        opaque,
        [
            "Cluster.spec.providerSpec",
            "Cluster.status.providerStatus",
            "Machine.spec.providerSpec.value",
            "Machine.status.providerStatus",
            "MachineClass.spec.providerSpec",
            "MachineDeployment.spec.template.spec.providerSpec.value",
            "MachineSet.spec.template.spec.providerSpec.value",
        ]
    );
}
