//! Import and export of other formats: nothing is lost, what is imported is valid, and what is not carried out is reported.

use std::fs;
use std::path::Path;

use kube::Api;
use kube::api::{DynamicObject, PostParams};
use serde_json::{Value, json};
use settled_apiserver::Server;
use settled_machines::convert::{
    export_kubeadm, export_v1alpha1, import_kubeadm, import_v1alpha1, is_kubeadm, is_v1alpha1,
};
use settled_machines::inventory::Kind;
use settled_machines::live;
use settled_manifest::{Batch, Item, Scratch, Splitter};

pub(crate) fn documents(path: &Path) -> Vec<Value> {
    let text = fs::read(path).expect("a file");
    let mut splitter = Splitter::new(&*text);
    let mut documents = Vec::new();
    while let Some(batch) = splitter.next_batch(Batch::default()).expect("readable") {
        batch.objects(&mut Scratch::default(), |item| match item {
            Item::Object(found) => documents.push(serde_json::from_slice(found.json).expect("JSON")),
            Item::Malformed(error) => documents.push(json!(error.to_string())),
        });
    }
    documents
}

fn fixtures() -> Vec<(String, Vec<Value>)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/import");
    let mut paths: Vec<_> =
        fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths.iter().map(|path| (path.display().to_string(), documents(path))).collect()
}

#[test]
fn published_manifests_come_back_as_they_were() {
    let mut count = 0;
    for (file, documents) in fixtures() {
        for original in documents.iter().filter(|document| is_v1alpha1(document)) {
            let imported = import_v1alpha1(original).expect("its kind is known");
            assert!(Kind::of(&imported.object).is_some(), "{file}: {}", imported.object);
            assert_eq!(export_v1alpha1(&imported.object).as_ref(), Some(original), "{file}");
            count += 1;
        }
    }
    assert_eq!(count, 9);
}

#[test]
fn what_is_not_carried_out_is_reported() {
    let mut fields = Vec::new();
    for (_, documents) in fixtures() {
        for original in documents.iter().filter(|document| is_v1alpha1(document)) {
            let notes = import_v1alpha1(original).map(|imported| imported.notes).unwrap_or_default();
            fields.extend(notes.into_iter().map(|note| format!("{} {}", note.object, note.field)));
        }
    }
    fields.sort();
    assert_eq!(
        fields,
        [
            "Cluster/gce spec.providerConfig",
            "Machine/controlplane-0 metadata.finalizers",
            "Machine/kube-master-1 spec.configSource",
            "Machine/kube-master-1 spec.metadata.name",
            "Machine/kube-master-1 spec.providerConfig",
            "Machine/kube-master-1 spec.roles",
            "Machine/openstack-node-x7 metadata.ownerReferences",
            "Machine/openstack-node-x7 metadata.resourceVersion",
            "Machine/openstack-node-x7 metadata.uid",
            "Machine/openstack-node-x7 status",
            "MachineDeployment/hetzner-pool spec.template.env",
            "MachineDeployment/machinedeployment-1 metadata.labels",
            "MachineSet/openstack-nodes spec.template.spec.providerSpec.valueFrom.machineClass.kind",
            "MachineSet/openstack-nodes spec.template.spec.providerSpec.valueFrom.machineClass.provider",
            "MachineSet/openstack-nodes status",
        ]
    );
}

#[test]
fn meanings_are_kept() {
    let imported: Vec<Value> = fixtures()
        .into_iter()
        .flat_map(|(_, documents)| documents)
        .filter_map(|document| import_v1alpha1(&document))
        .map(|imported| imported.object)
        .collect();
    let get = |kind: &str, name: &str, pointer: &str| {
        let found =
            imported.iter().find(|object| object["kind"] == kind && object["metadata"]["name"] == name);
        found.and_then(|object| object.pointer(pointer).cloned()).unwrap_or_default()
    };
    assert_eq!(get("Machine", "controlplane-0", "/spec/clusterName"), "test1");
    assert_eq!(get("MachineDeployment", "machinedeployment-1", "/spec/template/spec/clusterName"), "test1");
    assert_eq!(get("Cluster", "test1", "/spec/providerSpec/kind"), "AWSClusterProviderSpec");
    assert_eq!(get("MachineClass", "small", "/spec/providerSpec/flavor"), "m1.medium");
    assert_eq!(get("Machine", "kube-master-1", "/spec/versions/containerRuntime/name"), "docker");
    assert_eq!(get("Machine", "kube-master-1", "/spec/providerSpec/value/zone"), "us-central1-f");
    assert_eq!(
        get("MachineDeployment", "hetzner-pool", "/spec/template/spec/providerSpec/value/cloudProvider"),
        "hetzner"
    );
    assert_eq!(get("MachineSet", "openstack-nodes", "/spec/deletePolicy"), "Oldest");
}

#[tokio::test]
async fn what_is_imported_is_valid() {
    let server = Server::in_memory().await.expect("a server");
    let client = server.client();
    live::install(&client, &[]).await.expect("the kinds");
    for (file, documents) in fixtures() {
        let of_kubeadm: Vec<Value> =
            documents.iter().filter(|document| is_kubeadm(document)).cloned().collect();
        let cluster = import_kubeadm(&of_kubeadm, "default").map(|imported| imported.cluster);
        let imported = documents.iter().filter_map(import_v1alpha1).map(|imported| imported.object);
        for mut object in imported.chain(cluster) {
            object["metadata"]["namespace"] = "default".into();
            let kind = Kind::of(&object).expect("a kind");
            let api: Api<DynamicObject> = Api::default_namespaced_with(client.clone(), &live::resource(kind));
            let typed: DynamicObject = serde_json::from_value(object.clone()).expect("an object");
            let created = api.create(&PostParams::default(), &typed).await.unwrap_or_else(|error| {
                unreachable!("{file}: {error}: {object:#}");
            });
            // Nothing was pruned, nor was a default set that was not declared.
            let stored = json!(created);
            for pointer in [
                "/spec/versions",
                "/spec/template/spec/versions",
                "/spec/providerSpec",
                "/spec/clusterNetwork",
            ] {
                assert_eq!(stored.pointer(pointer), object.pointer(pointer), "{file}: {pointer}");
            }
        }
    }
}

#[test]
fn a_configuration_of_kubeadm_comes_back_as_it_was() {
    let all = documents(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/import/kubeadm.yaml"));
    let imported = import_kubeadm(&all, "default").expect("a ClusterConfiguration");
    let spec = &imported.cluster["spec"];
    assert_eq!(imported.cluster["metadata"]["name"], "prod");
    assert_eq!(spec["controlPlane"]["version"], "v1.36.0");
    assert_eq!(spec["controlPlane"]["endpoint"], json!({"host": "api.prod.example", "port": 6443}));
    assert_eq!(spec["clusterNetwork"]["services"]["cidrBlocks"], json!(["10.96.0.0/16", "fd00:1::/108"]));
    let notes: Vec<&str> = imported.notes.iter().map(|note| note.object.as_str()).collect();
    assert_eq!(notes, ["InitConfiguration/"]);
    let exported = export_kubeadm(&imported.cluster);
    let without_init: Vec<&Value> =
        all.iter().filter(|document| document["kind"] != "InitConfiguration").collect();
    assert_eq!(exported.iter().collect::<Vec<_>>(), without_init);
    // A minimal one has what kubeadm takes for granted.
    let minimal = json!({"apiVersion": "kubeadm.k8s.io/v1beta4", "kind": "ClusterConfiguration", "kubernetesVersion": "stable-1"});
    let imported = import_kubeadm(std::slice::from_ref(&minimal), "default").expect("imported");
    assert_eq!(imported.cluster["spec"]["clusterNetwork"]["serviceDomain"], "cluster.local");
    let fields: Vec<&str> = imported.notes.iter().map(|note| note.field.as_str()).collect();
    assert_eq!(fields, ["kubernetesVersion", "networking.podSubnet"]);
    assert_eq!(export_kubeadm(&imported.cluster), [minimal]);
}
