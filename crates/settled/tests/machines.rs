//! `settled cluster` against real servers, state directories and exports.

use serde_json::{Value, json};

use crate::serve::{self, Served};
use crate::support::{Directory, Run, settled};

const CLUSTER: &str = "\
apiVersion: cluster.settled.dev/v1alpha1
kind: Cluster
metadata: {name: prod, namespace: default}
spec:
  clusterNetwork:
    services: {cidrBlocks: [10.96.0.0/12]}
    pods: {cidrBlocks: [10.244.0.0/16]}
    serviceDomain: cluster.local
  controlPlane: {version: v1.36.0}
---
apiVersion: cluster.settled.dev/v1alpha1
kind: Machine
metadata: {name: prod-cp, namespace: default}
spec:
  clusterName: prod
  versions: {kubelet: v1.36.0, controlPlane: v1.36.0}
  providerSpec: {value: {apiVersion: simulated.cluster.settled.dev/v1alpha1, kind: SimulatedMachine, image: debian-12}}
---
apiVersion: cluster.settled.dev/v1alpha1
kind: MachineDeployment
metadata: {name: prod-workers, namespace: default}
spec:
  replicas: 2
  selector: {matchLabels: {group: workers}}
  strategy: {type: UpdateMachines}
  template:
    metadata: {labels: {group: workers}}
    spec:
      clusterName: prod
      versions: {kubelet: v1.36.0}
      providerSpec: {value: {apiVersion: simulated.cluster.settled.dev/v1alpha1, kind: SimulatedMachine, image: debian-12}}
";

/// A server with the kinds and a cluster, and a directory with its manifests. No controllers run: statuses are set by the tests.
struct World {
    server: Served,
    directory: Directory,
}

impl World {
    fn start(arguments: &[&str]) -> Self {
        let directory = Directory::new(&[
            ("prod.yaml", CLUSTER),
            ("eu.yaml", &CLUSTER.replace("prod", "eu")),
            (
                "new.yaml",
                &CLUSTER.replace("kubelet: v1.36.0", "kubelet: v1.37.0").replace("debian-12", "debian-13"),
            ),
        ]);
        let world = Self { server: Served::start(arguments), directory };
        assert_eq!(world.run("cluster apply --install -f prod.yaml").code(), 0);
        world
    }

    fn run(&self, arguments: &str) -> Run {
        let kubeconfig = self.server.kubeconfig.to_str().unwrap();
        settled(arguments).env("KUBECONFIG", kubeconfig).dir(&self.directory)
    }

    fn json(&self, arguments: &str) -> Value {
        serde_json::from_str(&self.run(arguments).stdout()).unwrap()
    }

    /// A host for the machine of the control plane.
    fn with_host(self) -> Self {
        let status = json!({"status": {
            "observedGeneration": 1, "phase": "Running", "providerID": "simulated://u/1", "provider": "simulated.cluster.settled.dev/v1alpha1/SimulatedMachine",
            "versions": {"kubelet": "v1.36.0", "controlPlane": "v1.36.0"}, "providerStatus": {"facts": {"image": "debian-12", "size": "small"}},
            "nodeRef": {"apiVersion": "v1", "kind": "Node", "name": "prod-cp", "uid": "u"}, "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
            "conditions": [{"type": "Ready", "status": "True", "reason": "Ready", "message": "", "observedGeneration": 1, "lastTransitionTime": "2026-11-24T12:00:00Z"}],
        }});
        let head = "PATCH /apis/cluster.settled.dev/v1alpha1/namespaces/default/machines/prod-cp/status";
        let answer = self.server.request_of_type("application/merge-patch+json", head, &status.to_string());
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        self
    }
}

fn field<'v>(rows: &'v Value, name: &str, field: &str) -> &'v Value {
    rows.as_array().unwrap().iter().find(|row| row["name"] == name).map_or(&Value::Null, |row| &row[field])
}

#[test]
fn a_plan_is_printed_kept_and_refused_when_the_world_has_changed() {
    let world = World::start(&["--memory"]).with_host();
    let plan = world.json("cluster plan -f new.yaml -o json --out plan.json");
    let machines = &plan["machines"];
    // The image differs: another host. The workers have none yet.
    assert_eq!(field(machines, "prod-cp", "decision"), "Replace");
    assert_eq!(field(machines, "prod-cp", "reason"), "image changes from debian-12 to debian-13");
    assert_eq!(machines.as_array().unwrap().iter().filter(|row| row["decision"] == "Create").count(), 2);
    assert_eq!(field(&plan["objects"], "prod-workers", "action"), "configured");
    let text = world.run("cluster plan -f new.yaml").transcript();
    assert!(
        text.contains("prod-cp")
            && text.contains("Replace")
            && text.contains("3 Machines: 2 Create, 1 Replace"),
        "{text}"
    );
    // Nothing was touched.
    assert_eq!(world.json("cluster export -o json")[0]["spec"]["controlPlane"]["version"], "v1.36.0");
    let nothing = world.run("cluster plan -f prod.yaml").transcript();
    assert!(nothing.contains("1 NoOp"), "{nothing}");
    // Somebody is faster.
    assert_eq!(
        world.run("cluster scale md/prod-workers --replicas 5").stdout(),
        "machinedeployment.cluster.settled.dev/prod-workers scaled\n"
    );
    let refused = world.run("cluster apply --plan plan.json").transcript();
    assert!(refused.starts_with("exit code: 1\n"), "{refused}");
    assert!(refused.contains("error: the plan is out of date: nothing was applied\n  MachineDeployment default/prod-workers was changed: generation 1 is 2 now"), "{refused}");
    assert_eq!(world.run("cluster plan -f new.yaml --out plan.json").code(), 0);
    // The size is of who scaled it, as with kubectl.
    let refused = world.run("cluster apply --plan plan.json").transcript();
    assert!(refused.starts_with("exit code: 1\n") && refused.contains(".spec.replicas"), "{refused}");
    assert_eq!(world.run("cluster plan -f new.yaml --out plan.json").code(), 0);
    let applied = world.run("cluster apply --plan plan.json --force-conflicts").transcript();
    assert!(
        applied.starts_with("exit code: 0\n")
            && applied.contains("machine.cluster.settled.dev/prod-cp configured"),
        "{applied}"
    );
    let repeated = world.run("cluster apply -f new.yaml").transcript();
    assert!(repeated.contains("machine.cluster.settled.dev/prod-cp unchanged"), "{repeated}");
}

/// Every provider that this program has plans: what becomes of a host that does not exist, and of one that runs.
#[test]
fn every_provider_plans() {
    let machine = |name: &str, versions: &str, config: &str| {
        format!(
            "---\napiVersion: cluster.settled.dev/v1alpha1\nkind: Machine\nmetadata: {{name: {name}, namespace: default}}\n\
             spec: {{versions: {{{versions}}}, providerSpec: {{value: {{{config}}}}}}}\n"
        )
    };
    let manifests = |kubelet: &str, image: &str, control_plane: &str| {
        let kubelet = format!("kubelet: {kubelet}");
        [
            machine("simulated", &kubelet, &format!("apiVersion: simulated.cluster.settled.dev/v1alpha1, kind: SimulatedMachine, image: {image}")),
            machine("process", &format!("controlPlane: {control_plane}"), "apiVersion: process.cluster.settled.dev/v1alpha1, kind: ProcessMachine"),
            machine("netns", &kubelet, &format!("apiVersion: netns.hosts.settled.dev/v1alpha1, kind: NetnsMachine, image: {image}")),
            machine("qemu", &kubelet, &format!("apiVersion: qemu.hosts.settled.dev/v1alpha1, kind: QemuMachine, image: {image}")),
            machine("ssh", &kubelet, "apiVersion: ssh.cluster.settled.dev/v1alpha1, kind: SshMachine, hostSelector: {matchLabels: {pool: a}}"),
        ]
        .concat()
    };
    let world = World::start(&["--memory"]);
    world.directory.write("all.yaml", &manifests("v1.36.0", "a", "v1.36.3"));
    world.directory.write("changed.yaml", &manifests("v1.36.1", "b", "v9.9.9"));
    let installed = world.run("cluster apply --install -f all.yaml").transcript();
    assert!(installed.starts_with("exit code: 0\n"), "{installed}");
    let plan = world.json("cluster plan -f all.yaml -o json");
    let providers = ["simulated", "process", "netns", "qemu", "ssh"];
    for name in providers {
        assert_eq!(field(&plan["machines"], name, "decision"), "Create", "{name}: {plan:#}");
    }
    for (name, provider, versions, facts) in [
        (
            "simulated",
            "simulated.cluster.settled.dev/v1alpha1/SimulatedMachine",
            json!({"kubelet": "v1.36.0"}),
            json!({"image": "a", "size": "small"}),
        ),
        (
            "process",
            "process.cluster.settled.dev/v1alpha1/ProcessMachine",
            json!({"kubelet": "", "controlPlane": "v1.36.3"}),
            json!({"process": "running", "installed": "v1.36.3", "address": "127.0.0.1", "advertiseAddress": "127.0.0.1", "port": "6443"}),
        ),
        (
            "netns",
            "netns.hosts.settled.dev/v1alpha1/NetnsMachine",
            json!({"kubelet": "v1.36.0"}),
            json!({"image": "a", "reboot": ""}),
        ),
        (
            "qemu",
            "qemu.hosts.settled.dev/v1alpha1/QemuMachine",
            json!({"kubelet": "v1.36.0"}),
            json!({"image": "a", "reboot": ""}),
        ),
        (
            "ssh",
            "ssh.cluster.settled.dev/v1alpha1/SshMachine",
            json!({"kubelet": "v1.36.0"}),
            json!({"labels": "{\"pool\":\"a\"}", "replacePolicy": "Allowed"}),
        ),
    ] {
        let status = json!({"status": {
            "observedGeneration": 1, "phase": "Running", "providerID": format!("{name}://1"), "provider": provider, "versions": versions,
            "providerStatus": {"facts": facts}, "nodeRef": {"apiVersion": "v1", "kind": "Node", "name": name, "uid": "u"},
        }});
        let head =
            format!("PATCH /apis/cluster.settled.dev/v1alpha1/namespaces/default/machines/{name}/status");
        let answer = world.server.request_of_type("application/merge-patch+json", &head, &status.to_string());
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    let nothing = world.json("cluster plan -f all.yaml -o json");
    for name in providers {
        assert_eq!(field(&nothing["machines"], name, "decision"), "NoOp", "{name}: {nothing:#}");
    }
    let changed = world.json("cluster plan -f changed.yaml -o json");
    for (name, decision) in [
        ("simulated", "Replace"),
        ("process", "Unsupported"),
        ("netns", "Replace"),
        ("qemu", "InPlace"),
        ("ssh", "InPlace"),
    ] {
        assert_eq!(field(&changed["machines"], name, "decision"), decision, "{name}: {changed:#}");
    }
}

#[test]
fn objects_that_the_server_refuses_are_reported() {
    let world = World::start(&["--memory"]);
    world.directory.write("bad.yaml", &CLUSTER.replace("image: debian-12", "size: huge"));
    world.directory.write("other.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n");
    world
        .directory
        .write("old.yaml", "apiVersion: cluster.k8s.io/v1alpha1\nkind: Machine\nmetadata: {name: a}\n");
    let refused = world.run("cluster apply -f bad.yaml").transcript();
    assert!(
        refused.starts_with("exit code: 1\n") && refused.contains("providerSpec.value.size"),
        "{refused}"
    );
    let other = world.run("cluster apply -f other.yaml").transcript();
    assert!(other.starts_with("exit code: 2\n") && other.contains("hint: settled apply -f FILE"), "{other}");
    let old = world.run("cluster plan -f old.yaml").transcript();
    assert!(
        old.starts_with("exit code: 2\n") && old.contains("hint: settled cluster import -f FILE"),
        "{old}"
    );
    let validated = world.run("cluster validate -f bad.yaml").transcript();
    assert!(
        validated.starts_with("exit code: 1\n")
            && validated.contains("PASS Cluster/prod")
            && validated.contains("FAIL Machine/prod-cp"),
        "{validated}"
    );
    assert_eq!(world.run("cluster validate -f prod.yaml").code(), 0);
    let empty = Served::start(&["--memory"]);
    let bare = settled("cluster plan").env("KUBECONFIG", empty.kubeconfig.to_str().unwrap()).transcript();
    assert!(
        bare.starts_with("exit code: 2\n") && bare.contains("hint: `settled cluster apply --install"),
        "{bare}"
    );
}

#[test]
fn clusters_are_compared_and_synchronized() {
    let world = World::start(&["--memory"]);
    // Names do not matter, and neither does where a cluster is declared.
    let twin = world.run("cluster diff prod.yaml eu.yaml").transcript();
    assert_eq!(twin, "exit code: 0\n--- stderr ---\nno differences\n");
    let kubeconfig = world.server.kubeconfig.to_str().unwrap();
    assert_eq!(world.run(&format!("cluster diff eu.yaml {kubeconfig}")).code(), 0);
    let text = world.run(&format!("cluster diff {kubeconfig} new.yaml")).transcript();
    assert!(text.starts_with("exit code: 1\n"), "{text}");
    assert!(text.contains("MachineDeployment/workers\n  spec.template.spec.providerSpec.value.image (provider)\n  - \"debian-12\"\n  + \"debian-13\"\n"), "{text}");
    assert!(text.contains("4 differences (2 agnostic, 2 provider)"), "{text}");
    let found = world.json(&format!("cluster diff {kubeconfig} new.yaml --part agnostic -o json"));
    assert_eq!(
        found["patches"]["Machine/control-plane-0"],
        json!([{"op": "replace", "path": "/spec/versions/kubelet", "value": "v1.37.0"}])
    );
    for arguments in ["missing.yaml prod.yaml", "context:nowhere prod.yaml", "prod.yaml#other eu.yaml"] {
        assert_eq!(world.run(&format!("cluster diff {arguments}")).code(), 2, "{arguments}");
    }
    // Only the agnostic part follows.
    let dry = world.run(&format!("cluster sync new.yaml {kubeconfig} --dry-run")).transcript();
    assert!(dry.contains("2 objects to change (dry run)") && dry.contains("spec.versions.kubelet"), "{dry}");
    assert_eq!(world.run(&format!("cluster diff new.yaml {kubeconfig} --part agnostic")).code(), 1);
    assert_eq!(world.run(&format!("cluster sync new.yaml {kubeconfig}")).code(), 0);
    assert_eq!(world.run(&format!("cluster diff new.yaml {kubeconfig} --part agnostic")).code(), 0);
    let rest = world.json(&format!("cluster diff new.yaml {kubeconfig} -o json"));
    assert_eq!(rest["differences"].as_array().unwrap().len(), 2);
    assert!(world.run("cluster sync new.yaml eu.yaml").transcript().contains("it cannot be changed"));
    // What really runs.
    let observed = world.with_host();
    let export = observed.run("cluster export").stdout();
    observed.directory.write("before.yaml", &export);
    observed.directory.write("after.yaml", &export.replace("kubelet: v1.36.0", "kubelet: v1.35.0"));
    assert_eq!(observed.run("cluster diff before.yaml before.yaml --observed").code(), 0);
    let text = observed.run("cluster diff before.yaml after.yaml --observed").transcript();
    assert!(
        text.starts_with("exit code: 1\n") && text.contains("status.versions.kubelet (observed)"),
        "{text}"
    );
}

#[test]
fn an_export_is_restored_into_a_state_directory() {
    let data = Directory::new(&[]);
    let directory = data.path().join("state");
    let other = data.path().join("other");
    let mut world = World::start(&["--data-dir", directory.to_str().unwrap()]).with_host();
    let export = world.run("cluster export").stdout();
    world.directory.write("export.yaml", &export);
    // While the server runs, its directory is read by asking it.
    let state = format!("--state {}", directory.display());
    assert_eq!(world.run(&format!("cluster export {state}")).stdout(), export);
    world.server.kill();
    assert_eq!(world.run(&format!("cluster export {state}")).stdout(), export);
    assert_eq!(world.run(&format!("cluster diff {} export.yaml", directory.display())).code(), 0);
    // An empty server gets all of it, with the status and the key of the host.
    drop(Served::spawn(serve::command(&["--data-dir", other.to_str().unwrap()])));
    let restored = world
        .run(&format!("cluster apply --install -f export.yaml --state {}", other.display()))
        .transcript();
    assert!(
        restored.starts_with("exit code: 0\n")
            && restored.contains("machine.cluster.settled.dev/prod-cp restored"),
        "{restored}"
    );
    let again: Value = serde_json::from_str(
        &world.run(&format!("cluster export -o json --state {}", other.display())).stdout(),
    )
    .unwrap();
    let machine = again.as_array().unwrap().iter().find(|object| object["kind"] == "Machine").unwrap();
    let annotations = machine["metadata"]["annotations"].as_object().unwrap();
    assert_eq!(annotations.keys().collect::<Vec<_>>(), ["cluster.settled.dev/host-uid"]);
    assert!(
        export.contains(&format!(
            "host-uid: {}",
            annotations["cluster.settled.dev/host-uid"].as_str().unwrap()
        ))
    );
    assert_eq!(machine["status"]["providerID"], "simulated://u/1");
    assert!(
        world
            .run(&format!("cluster export --state {}", data.path().display()))
            .transcript()
            .contains("is no state directory")
    );
}

#[test]
fn manifests_of_others_are_imported_and_exported() {
    let directory = Directory::new(&[]);
    let manifests = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../machines/tests/import");
    let run = |arguments: &str| settled(arguments).dir(&directory);
    let imported = run("cluster import -o json").arg("-f").arg(manifests.join("aws.yaml")).output();
    assert_eq!(imported.status.code(), Some(0));
    let objects: Value = serde_json::from_slice(&imported.stdout).unwrap();
    assert_eq!(objects.as_array().unwrap().len(), 3);
    assert_eq!(objects[1]["spec"]["clusterName"], "test1");
    let notes = String::from_utf8(imported.stderr).unwrap();
    assert!(notes.contains("Machine/controlplane-0: metadata.finalizers: "), "{notes}");
    assert_eq!(run("cluster import --strict").arg("-f").arg(manifests.join("aws.yaml")).code(), 1);
    let kubeadm = run("cluster import").arg("-f").arg(manifests.join("kubeadm.yaml")).stdout();
    assert!(kubeadm.contains("component: kube-apiserver"), "{kubeadm}");
    directory.write("nothing.yaml", "apiVersion: v1\nkind: Node\nmetadata: {name: a}\n");
    assert_eq!(run("cluster import -f nothing.yaml").code(), 2);
    let world = World::start(&["--memory"]);
    world.directory.write("kubeadm.yaml", &kubeadm);
    assert_eq!(world.run("cluster export prod --format kubeadm -o json").code(), 0);
    let v1alpha1 = world.json("cluster export --format v1alpha1 -o json");
    assert_eq!(v1alpha1[1]["apiVersion"], "cluster.k8s.io/v1alpha1");
}

#[test]
fn rollouts_are_described_paused_and_upgraded() {
    let world = World::start(&["--memory"]).with_host();
    let described = world.run("cluster describe prod").stdout();
    assert!(described.starts_with("Cluster/prod Reconciling"), "{described}");
    assert!(
        described.contains("├─ MachineDeployment/prod-workers Reconciling  0 of 2 available"),
        "{described}"
    );
    assert!(described.contains("└─ Machine/prod-cp Ready  v1.36.0 on Node prod-cp, 10.0.0.1"), "{described}");
    assert_eq!(
        world.run("cluster rollout pause prod-workers").stdout(),
        "machinedeployment.cluster.settled.dev/prod-workers paused\n"
    );
    assert!(world.run("cluster describe").stdout().contains("MachineDeployment/prod-workers Paused"));
    assert_eq!(world.run("cluster rollout resume md/prod-workers").code(), 0);
    let undone = world.run("cluster rollout undo prod-workers").transcript();
    assert!(
        undone.starts_with("exit code: 1\n") && undone.contains("there is no earlier revision"),
        "{undone}"
    );
    let restarted = world.run("cluster rollout restart prod-workers").transcript();
    assert!(restarted.starts_with("exit code: 1\n") && restarted.contains("UpdateMachines"), "{restarted}");
    let upgrade = world.run("cluster upgrade prod --version v1.37.0 --dry-run").stdout();
    assert_eq!(
        upgrade,
        "Cluster/prod configured (dry run)\nMachine/prod-cp configured (dry run)\nMachineDeployment/prod-workers configured (dry run)\n"
    );
    assert!(
        world
            .run("cluster upgrade prod --version v1.36.0")
            .transcript()
            .contains("declares v1.36.0 everywhere")
    );
    assert_eq!(world.run("cluster upgrade prod --version newest").code(), 2);
    let validated = world.run("cluster validate").transcript();
    assert!(
        validated.starts_with("exit code: 1\n") && validated.contains("PASS Machine/prod-cp"),
        "{validated}"
    );
    let status = world.run("cluster rollout status prod-workers --timeout 1s").transcript();
    assert!(status.starts_with("exit code: 3\n"), "{status}");
    assert_eq!(world.run("cluster scale nodes/a --replicas 1").code(), 2);
}

#[test]
fn nodes_are_adopted_as_paused_machines() {
    let world = World::start(&["--memory"]);
    for (name, id) in [("node-a", "\"x://a\""), ("node-b", "\"\"")] {
        let node = format!(
            r#"{{"apiVersion":"v1","kind":"Node","metadata":{{"name":"{name}"}},"spec":{{"providerID":{id}}},"status":{{"nodeInfo":{{}}}}}}"#
        );
        let answer = world.server.request("POST /api/v1/nodes", &node);
        assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    }
    world
        .directory
        .write("spec.yaml", "apiVersion: simulated.cluster.settled.dev/v1alpha1\nkind: SimulatedMachine\n");
    let output = world.run("cluster adopt --provider-spec spec.yaml --of prod -o json").output();
    let machines: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(machines.as_array().unwrap().len(), 1);
    assert_eq!(machines[0]["spec"]["providerID"], "x://a");
    assert!(String::from_utf8_lossy(&output.stderr).contains("Node/node-b: spec.providerID: not adopted"));
    assert_eq!(world.run("cluster adopt node-c --class small").code(), 2);
    assert_eq!(world.run("cluster adopt --provider-spec spec.yaml --apply").code(), 0);
    assert_eq!(world.json("cluster describe -o json").as_array().unwrap().len(), 2);
}
