//! Detection of providers: what runs, what is left over, versions and options.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use settled_netpol::cluster::Known;
use settled_netpol::detect::{
    Detection, Inventory, Lookups, ObjectRef, Workload, detect, kinds, lookups, namespaces,
};
use settled_netpol::profile::Profiles;

const ROWS: &str = "features:\n  port.end:\n  - {versions: \"*\", support: supported, source: \"https://example.com\", checked: docs}\n";

/// Profiles of two providers.
fn profiles() -> Profiles {
    let mut profiles = Profiles::default();
    let red = format!(
        "provider: red\ntitle: Red\ndomain: red.io\nversions: {{from: \"1.0\", through: \"1.9\"}}\nvariants: [linux, windows]\n\
         options:\n  sctp: {{title: SCTP, detect: [{{config-map: {{namespace: kube-system, name: red, key: sctp, value: \"true\"}}}}]}}\n  \
         agent: {{title: agent, detect: [{{argument: {{container: red, value: --agent=true}}}}]}}\n\
         detect:\n- {{workload: DaemonSet, namespaces: [kube-system], names: [red], image: red/red, version: tag, variant: linux}}\n\
         - {{workload: DaemonSet, namespaces: [kube-system], names: [red-win], image: red/red, version: tag, variant: windows}}\n\
         - {{crd: redpolicies.red.io}}\nunlisted: unknown\n{ROWS}"
    );
    let blue = format!(
        "provider: blue\ntitle: Blue\ndomain: blue.io\nversions: {{from: \"4.1\", through: \"4.9\"}}\n\
         detect:\n- {{workload: Deployment, namespaces: [blue, blue-system], names: [blue], version: \
         {{object: {{api-version: blue.io/v1, kind: Version, name: version, field: status.desired.version}}}}}}\n\
         - {{workload: DaemonSet, names: [cyan], version: kubelet}}\nunlisted: unknown\n{ROWS}"
    );
    for (name, text) in [("red.yaml", red), ("blue.yaml", blue)] {
        let errors = profiles.add(name, &text);
        assert!(errors.is_empty(), "{errors:?}");
    }
    profiles
}

fn workload(kind: &str, namespace: &str, name: &str, image: &str, arguments: &[&str]) -> Workload {
    let object = json!({
        "kind": kind, "metadata": {"namespace": namespace, "name": name},
        "spec": {"template": {"spec": {"containers": [{"name": "red", "image": image, "args": arguments}]}}},
    });
    Workload::read(&object).unwrap()
}

fn inventory(workloads: Vec<Workload>) -> Inventory {
    Inventory {
        workloads: Known::Read(workloads),
        crds: Known::Read(Vec::new()),
        kubelets: BTreeSet::new(),
        objects: BTreeMap::new(),
        config_maps: BTreeMap::new(),
        failed: Vec::new(),
    }
}

fn names(detection: &Detection) -> Vec<String> {
    detection.providers.iter().map(|found| found.reference.to_string()).collect()
}

#[test]
fn the_version_is_that_of_the_image() {
    let red = workload("DaemonSet", "kube-system", "red", "registry:5000/red/red:v1.2.3@sha256:ab", &[]);
    let detection = detect(&profiles(), &inventory(vec![red]));
    assert_eq!(names(&detection), ["red@v1.2.3/linux"]);
    assert!(detection.is_unique());
    assert_eq!(
        detection.providers[0].evidence,
        ["DaemonSet kube-system/red with image registry:5000/red/red:v1.2.3@sha256:ab"]
    );
}

#[test]
fn others_of_the_same_name_are_no_evidence() {
    for other in [
        workload("DaemonSet", "shop", "red", "red/red:v1.2", &[]),
        workload("Deployment", "kube-system", "red", "red/red:v1.2", &[]),
        workload("DaemonSet", "kube-system", "red", "infrared/red:v1.2", &[]),
        workload("DaemonSet", "kube-system", "red-agent", "red/red:v1.2", &[]),
    ] {
        let detection = detect(&profiles(), &inventory(vec![other.clone()]));
        assert!(detection.providers.is_empty() && !detection.is_unique(), "{other:?}");
    }
}

#[test]
fn variants_are_one_provider_and_two_providers_are_two() {
    let linux = workload("DaemonSet", "kube-system", "red", "red/red:v1.2", &[]);
    let windows = workload("DaemonSet", "kube-system", "red-win", "red/red:v1.1", &[]);
    let blue = workload("Deployment", "blue", "blue", "blue:1", &[]);
    let detection = detect(&profiles(), &inventory(vec![windows, linux.clone()]));
    assert_eq!(names(&detection), ["red@v1.2/linux", "red@v1.1/windows"]);
    assert!(detection.is_unique());
    let detection = detect(&profiles(), &inventory(vec![linux, blue]));
    assert_eq!(names(&detection), ["blue", "red@v1.2/linux"]);
    assert!(!detection.is_unique());
}

#[test]
fn a_crd_alone_is_a_trace() {
    let mut inventory = inventory(Vec::new());
    inventory.crds = Known::Read(vec!["redpolicies.red.io".into(), "others.example.com".into()]);
    let detection = detect(&profiles(), &inventory);
    assert!(detection.providers.is_empty());
    assert_eq!(detection.traces[0].evidence, ["CustomResourceDefinition redpolicies.red.io"]);
}

#[test]
fn what_may_not_be_read_is_said() {
    let mut inventory = inventory(Vec::new());
    inventory.workloads = Known::Unread("daemonsets.apps is forbidden".into());
    let detection = detect(&profiles(), &inventory);
    assert!(detection.providers.is_empty());
    assert_eq!(detection.unread, ["daemonsets.apps is forbidden".into()]);
}

#[test]
fn lookups_are_those_of_what_runs() {
    let profiles = profiles();
    assert_eq!(kinds(&profiles), ["DaemonSet", "Deployment"].into());
    assert_eq!(namespaces(&profiles, "Deployment"), Some(["blue", "blue-system"].into()));
    // One profile has it in any namespace.
    assert_eq!(namespaces(&profiles, "DaemonSet"), None);
    assert_eq!(lookups(&profiles, &[]), Lookups::default());
    let red = workload("DaemonSet", "kube-system", "red", "red/red:v1.2", &[]);
    let blue = workload("Deployment", "blue", "blue", "blue:1", &[]);
    let cyan = workload("DaemonSet", "any", "cyan", "cyan", &[]);
    let found = lookups(&profiles, &[red, blue, cyan]);
    assert!(found.kubelets);
    assert_eq!(found.config_maps, [("kube-system".to_owned(), "red".to_owned())].into());
    assert_eq!(found.objects, [version_object()].into());
}

fn version_object() -> ObjectRef {
    ObjectRef { api_version: "blue.io/v1".to_owned(), kind: "Version".to_owned(), name: "version".to_owned() }
}

#[test]
fn options_are_those_that_are_set() {
    let red = |arguments: &[&str]| workload("DaemonSet", "kube-system", "red", "red/red:v1.2", arguments);
    let with = |workload, data: &[(&str, &str)]| {
        let mut inventory = inventory(vec![workload]);
        let data = data.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        inventory.config_maps.insert(("kube-system".to_owned(), "red".to_owned()), data);
        names(&detect(&profiles(), &inventory))
    };
    assert_eq!(with(red(&[]), &[("sctp", "false")]), ["red@v1.2/linux"]);
    assert_eq!(with(red(&["--agent=false"]), &[("sctp", "true")]), ["red@v1.2/linux,sctp"]);
    assert_eq!(with(red(&["run", "--agent=true"]), &[]), ["red@v1.2/linux,agent"]);
}

#[test]
fn versions_come_from_objects_and_nodes() {
    let blue = workload("Deployment", "blue", "blue", "blue:1", &[]);
    let cyan = workload("DaemonSet", "any", "cyan", "cyan", &[]);
    let mut inventory = inventory(vec![blue]);
    // Nothing says it: the version is not known.
    assert_eq!(names(&detect(&profiles(), &inventory)), ["blue"]);
    let value: Value = json!({"status": {"desired": {"version": "4.5.1"}}});
    inventory.objects.insert(version_object(), value);
    let detection = detect(&profiles(), &inventory);
    assert_eq!(names(&detection), ["blue@4.5.1"]);
    assert_eq!(
        detection.providers[0].evidence,
        ["Deployment blue/blue with image blue:1", "Version version with status.desired.version 4.5.1"]
    );
    // During an upgrade of the nodes there are two.
    inventory.workloads = Known::Read(vec![cyan]);
    inventory.kubelets = ["v4.2.0".into(), "v4.3.0".into()].into();
    assert_eq!(names(&detect(&profiles(), &inventory)), ["blue@v4.2.0", "blue@v4.3.0"]);
}
