//! Comparison and synchronization of clusters, with random mutations: each is found exactly once, differences are inverse, and a
//! synchronization leaves none.

use serde_json::{Value, json};
use settled_machines::compare::{Normalized, Options, Part, compare, compare_observed, plan_sync};
use settled_machines::inventory::{Inventory, Kind};

use crate::harness::API;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).expect("small")
    }
}

fn objects(cluster: &str) -> Vec<Value> {
    let spec = |group: &str| {
        json!({
            "clusterName": cluster, "versions": {"kubelet": "v1.36.0", "containerRuntime": {"name": "containerd", "version": "2.1.0"}},
            "metadata": {"labels": {"group": group}},
            "taints": [{"key": "b", "effect": "NoSchedule"}, {"key": "a", "value": "x", "effect": "NoExecute"}],
            "providerSpec": {"value": {"apiVersion": "simulated.cluster.settled.dev/v1alpha1", "kind": "SimulatedMachine", "image": "debian-12", "size": "small"}},
        })
    };
    let meta = |name: &str| json!({"name": format!("{cluster}-{name}"), "namespace": "default", "uid": format!("{cluster}-{name}"), "generation": 3});
    let mut control_plane = spec("control-plane");
    control_plane["versions"]["controlPlane"] = "v1.36.0".into();
    let group = |name: &str| {
        json!({
            "replicas": 3, "selector": {"matchLabels": {"group": name}},
            "strategy": {"type": "UpdateMachines", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
            "template": {"metadata": {"labels": {"group": name}}, "spec": spec(name)},
        })
    };
    vec![
        json!({"apiVersion": API, "kind": "Cluster", "metadata": {"name": cluster, "namespace": "default"}, "spec": {
            "clusterNetwork": {"services": {"cidrBlocks": ["10.96.0.0/12"]}, "pods": {"cidrBlocks": ["10.244.0.0/16"]}, "serviceDomain": "cluster.local"},
            "controlPlane": {"version": "v1.36.0", "endpoint": {"host": "10.0.0.1", "port": 6443}, "componentConfig": [{"component": "kube-apiserver", "config": {"a": "1"}}]},
        }}),
        json!({"apiVersion": API, "kind": "MachineDeployment", "metadata": meta("workers"), "spec": group("workers")}),
        json!({"apiVersion": API, "kind": "MachineDeployment", "metadata": meta("gpus"), "spec": group("gpus")}),
        json!({"apiVersion": API, "kind": "Machine", "metadata": meta("cp"), "spec": control_plane, "status": {"versions": {"kubelet": "v1.36.0", "controlPlane": "v1.36.0"}}}),
        json!({"apiVersion": API, "kind": "MachineHealthCheck", "metadata": meta("check"), "spec": {"selector": {"matchLabels": {"group": "workers"}}, "maxUnhealthy": "30%"}}),
        json!({"apiVersion": API, "kind": "MachineClass", "metadata": meta("class"), "spec": {"providerSpec": {"apiVersion": "a/v1", "kind": "A", "size": "small"}}}),
    ]
}

fn inventory(objects: Vec<Value>) -> Inventory {
    Inventory::new(objects, "default")
}

fn normalized(objects: &[Value]) -> Normalized {
    Normalized::new(&inventory(objects.to_vec()), Options::default())
}

/// Fields that are changed: index of the object, pointer, value, the path that the difference has, and its part.
fn mutation(random: &mut Random, objects: &mut [Value]) -> (String, String, Part) {
    let number = random.next();
    let text = format!("x{}", number % 1000);
    let version = format!("v1.{}.{}", number % 40, 1 + number % 7);
    let choices: [(usize, &str, &str, Value, Part); 20] = [
        (0, "/spec/clusterNetwork/serviceDomain", "", json!(text), Part::Agnostic),
        (
            0,
            "/spec/clusterNetwork/pods/cidrBlocks",
            "",
            json!([format!("10.{}.0.0/16", number % 200)]),
            Part::Agnostic,
        ),
        (0, "/spec/controlPlane/version", "", json!(version), Part::Agnostic),
        (0, "/spec/controlPlane/endpoint/host", "", json!(text), Part::Provider),
        (
            0,
            "/spec/controlPlane/componentConfig",
            "",
            json!([{"component": "kube-apiserver", "config": {"a": text}}]),
            Part::Agnostic,
        ),
        (1, "/spec/template/spec/versions/kubelet", "", json!(version), Part::Agnostic),
        (1, "/spec/replicas", "", json!(4 + number % 90), Part::Agnostic),
        (1, "/spec/template/spec/taints", "", json!([{"key": text, "effect": "NoSchedule"}]), Part::Agnostic),
        (1, "/spec/template/spec/metadata/labels/group", "", json!(text), Part::Agnostic),
        (1, "/spec/template/spec/providerSpec/value/image", "", json!(text), Part::Provider),
        (1, "/spec/strategy/type", "", json!("OnDelete"), Part::Agnostic),
        (1, "/metadata/labels", "/metadata", json!({"team": text}), Part::Agnostic),
        (2, "/spec/template/spec/versions/containerRuntime/version", "", json!(version), Part::Agnostic),
        (2, "/spec/strategy/rollingUpdate/maxUnavailable", "", json!(2 + number % 5), Part::Agnostic),
        (
            2,
            "/spec/template/spec/providerSpec/value",
            "",
            json!({"apiVersion": "other/v1", "kind": text}),
            Part::Provider,
        ),
        (2, "/spec/minReadySeconds", "", json!(1 + number % 60), Part::Agnostic),
        (3, "/spec/versions/controlPlane", "", json!(version), Part::Agnostic),
        (3, "/spec/providerSpec/value/size", "", json!("large"), Part::Provider),
        (4, "/spec/maxUnhealthy", "", json!(format!("{}%", 31 + number % 60)), Part::Agnostic),
        (5, "/spec/providerSpec/size", "", json!(text), Part::Provider),
    ];
    let (index, pointer, path, value, part) = choices[random.below(choices.len())].clone();
    let (parent, name) = pointer.rsplit_once('/').expect("a path");
    objects[index].pointer_mut(parent).expect("a parent")[name] = value;
    let role = normalized(objects)
        .entries
        .iter()
        .find(|(_, entry)| entry.id.name == objects[index]["metadata"]["name"])
        .map(|(role, _)| role.to_string());
    (role.expect("a role"), if path.is_empty() { pointer } else { path }.to_owned(), part)
}

#[test]
fn a_cluster_does_not_differ_from_itself_nor_from_its_twin() {
    let (one, twin) = (objects("prod"), objects("staging"));
    assert!(compare(&normalized(&one), &normalized(&one)).is_empty());
    let twins = compare(&normalized(&one), &normalized(&twin));
    assert!(twins.is_empty(), "{:?}", twins.differences);
}

#[test]
fn each_mutation_is_found_exactly_once() {
    let seed = 20_261_124;
    let mut random = Random(seed);
    for round in 0..100 {
        let (original, mut mutated) = (objects("prod"), objects("other"));
        let expected = mutation(&mut random, &mut mutated);
        let (a, b) = (normalized(&original), normalized(&mutated));
        let forward = compare(&a, &b);
        let found: Vec<(String, String, Part)> = forward
            .differences
            .iter()
            .map(|found| (found.role.to_string(), found.path.clone(), found.part))
            .collect();
        assert_eq!(found, [expected], "seed {seed}, round {round}");
        let backward: Vec<_> = compare(&b, &a).differences.iter().map(|found| found.inverse()).collect();
        assert_eq!(backward, forward.differences, "seed {seed}, round {round}");
        // The JSON patch makes the one of the other.
        for (role, operations) in forward.patches() {
            let of = |normalized: &Normalized| {
                let found = normalized.entries.iter().find(|(known, _)| known.to_string() == role);
                found.map(|(_, entry)| entry.value.clone()).expect("both have it")
            };
            let patched = settled_patch::json_patch(&of(&a), json!(operations).to_string().as_bytes());
            assert_eq!(patched.expect("a valid patch"), of(&b), "seed {seed}, round {round}");
        }
    }
}

#[test]
fn a_synchronization_leaves_no_agnostic_difference() {
    let seed = 7;
    let mut random = Random(seed);
    for round in 0..100 {
        let (mut first, mut second) = (objects("prod"), objects("staging"));
        for _ in 0..1 + random.below(6) {
            let mutated = if random.below(2) == 0 { &mut first } else { &mut second };
            mutation(&mut random, mutated);
        }
        let (a, b) = (normalized(&first), normalized(&second));
        let before = compare(&a, &b);
        let plan = plan_sync(&before, &a, &b);
        assert!(plan.unsynced.is_empty(), "seed {seed}, round {round}: {:?}", plan.unsynced);
        for step in &plan.steps {
            let object = second.iter_mut().find(|object| {
                object["metadata"]["name"] == step.id.name && object["kind"] == step.id.kind.as_str()
            });
            let object = object.expect("it exists");
            *object = settled_patch::merge_patch(object, &step.patch).expect("a merge patch");
        }
        let after = compare(&a, &normalized(&second));
        assert_eq!(
            after.of_part(Part::Agnostic).count(),
            0,
            "seed {seed}, round {round}: {:?}",
            after.differences
        );
        // What is the provider's stays.
        let provider = |comparison: &settled_machines::compare::Comparison| {
            comparison.of_part(Part::Provider).cloned().collect::<Vec<_>>()
        };
        assert_eq!(provider(&before), provider(&after), "seed {seed}, round {round}");
    }
}

#[test]
fn objects_of_one_side_are_one_difference() {
    let (first, second) = (objects("prod"), objects("staging"));
    let without = |objects: &[Value], name: &str| {
        objects
            .iter()
            .filter(|object| !object["metadata"]["name"].as_str().unwrap_or_default().ends_with(name))
            .cloned()
            .collect::<Vec<_>>()
    };
    let (a, b) = (normalized(&first), normalized(&without(&second, "gpus")));
    let found = compare(&a, &b);
    assert_eq!(found.differences.len(), 1);
    assert_eq!((found.differences[0].path.as_str(), found.differences[0].b.is_none()), ("", true));
    // A group needs its provider's configuration; a health check does not.
    assert_eq!(plan_sync(&found, &a, &b).unsynced.len(), 1);
    let b = normalized(&without(&second, "check"));
    let plan = plan_sync(&compare(&a, &b), &a, &b);
    assert_eq!(plan.created.len(), 1);
    assert_eq!(plan.created[0]["metadata"]["name"], "staging-check");
}

#[test]
fn what_runs_is_compared_by_group() {
    let machine = |cluster: &str, number: usize, kubelet: &str| {
        json!({"apiVersion": API, "kind": "Machine", "metadata": {"name": format!("{cluster}-workers-{number}"), "namespace": "default",
            "labels": {"cluster.settled.dev/deployment-name": format!("{cluster}-workers")}},
            "spec": {"versions": {"kubelet": "v1.36.0"}}, "status": {"versions": {"kubelet": kubelet}}})
    };
    let fleet = |cluster: &str, kubelets: &[&str]| {
        let mut objects = objects(cluster);
        objects
            .extend(kubelets.iter().enumerate().map(|(number, kubelet)| machine(cluster, number, kubelet)));
        inventory(objects)
    };
    let options = Options::default();
    let (one, same) = (fleet("prod", &["v1.36.0", "v1.36.0"]), fleet("eu", &["v1.36.0", "v1.36.0"]));
    assert!(compare_observed(&one, &same, options).is_empty());
    let other = fleet("eu", &["v1.36.0", "v1.35.0"]);
    let found = compare_observed(&one, &other, options).differences;
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].role.kind, found[0].role.name.as_str()), (Kind::MachineDeployment, "workers"));
    assert_eq!(
        (&found[0].a, &found[0].b),
        (&Some(json!({"v1.36.0": 2})), &Some(json!({"v1.36.0": 1, "v1.35.0": 1})))
    );
    // Larger is not different, if sizes are left out.
    let larger = fleet("eu", &["v1.36.0", "v1.36.0", "v1.36.0"]);
    assert!(!compare_observed(&one, &larger, options).is_empty());
    assert!(compare_observed(&one, &larger, Options { ignore_replicas: true }).is_empty());
}
