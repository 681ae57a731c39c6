//! Namespace hosts with the embedded API server and the real controllers.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use settled_hosts::agent::Layout;

use crate::harness::{
    CLUSTER, Place, World, condition, is_available, is_ready, key, machine, name, note, set,
};

fn kubelet(version: &str) -> Value {
    json!({"spec": {"versions": {"kubelet": version}}})
}

fn kubelet_of(node: &Value) -> &str {
    node["status"]["nodeInfo"]["kubeletVersion"].as_str().unwrap_or_default()
}

/// A kubelet that does not do what one should.
fn broken_kubelet(directory: &Path, version: &str, script: &str) {
    let program = directory.join("kubelet").join(version).join("kubelet");
    std::fs::create_dir_all(program.parent().expect("a parent")).expect("a directory");
    std::fs::write(&program, script).expect("written");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("executable");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hosts_are_created_updated_replaced_and_deleted() {
    if !is_available() {
        return;
    }
    let place = Place::new("m1a", 231);
    let packages = place.directory.join("packages");
    broken_kubelet(
        &packages,
        "v1.38.0",
        "#!/bin/sh\n[ \"$1\" = --version ] && { echo Kubernetes v1.38.0; exit 0; }\nexit 7\n",
    );
    let mut world = World::start(place, |options| options.packages.directory = Some(packages)).await;

    // 1+3 hosts.
    let begin = Instant::now();
    world.create(machine("one")).await;
    world.create(set(3)).await;
    let machines = world.until("Machine", "4 ready", |all| all.len() == 4 && all.iter().all(is_ready)).await;
    let took = begin.elapsed();
    note(&format!("1+3 namespace hosts ready in {took:?}"));
    // The bar is for a machine that does nothing else, and a release build.
    assert!(took < Duration::from_secs(if cfg!(debug_assertions) { 20 } else { 5 }), "{took:?}");
    let nodes = world.list("Node").await;
    assert_eq!(nodes.len(), 4);
    for machine in &machines {
        let node = world.get("Node", &name(machine)).await;
        assert_eq!(node["spec"]["providerID"], machine["status"]["providerID"]);
        assert_eq!(kubelet_of(&node), "v1.36.0");
        assert_eq!(node["status"]["nodeInfo"]["containerRuntimeVersion"], "containerd://2.1.0");
        assert_eq!(node["status"]["nodeInfo"]["osImage"], "debian-12");
        assert_eq!(
            node["metadata"]["annotations"]["cluster.settled.dev/machine"],
            format!("default/{}", name(machine))
        );
        // Its address is its own, and its host name is.
        assert_eq!(node["status"]["addresses"][0], machine["status"]["addresses"][0]);
        assert_eq!(node["status"]["addresses"][1], json!({"type": "Hostname", "address": name(machine)}));
        let lease = world.get("Lease", &name(machine)).await;
        assert_eq!(lease["spec"]["holderIdentity"], name(machine));
        assert_eq!(lease["metadata"]["ownerReferences"][0]["uid"], node["metadata"]["uid"]);
    }
    let one = world.get("Machine", "one").await;
    let layout = Layout::new(world.place.directory.join("hosts").join(key(&one).as_str()));
    let boots = || layout.state().expect("readable").expect("there").boots;

    // Kubelet and runtime up, and down again, in place; the controllers are killed on the way.
    for (version, runtime) in [("v1.37.1", "2.2.0"), ("v1.36.0", "2.1.0")] {
        let versions = json!({"kubelet": version, "containerRuntime": {"version": runtime}});
        world.patch("Machine", "one", json!({"spec": {"versions": versions}})).await;
        world.restart();
        let updated = world
            .until_one("Machine", "one", version, |one| {
                is_ready(one) && one["status"]["versions"]["kubelet"] == version
            })
            .await;
        assert_eq!(updated["status"]["providerID"], one["status"]["providerID"]);
        let node = world.until_one("Node", "one", version, |node| kubelet_of(node) == version).await;
        assert_eq!(node["status"]["nodeInfo"]["containerRuntimeVersion"], format!("containerd://{runtime}"));
        assert_ne!(node["spec"]["unschedulable"], true);
    }
    assert_eq!(boots(), 1);

    // A kubelet that does not start: the agent steps back.
    world.patch("Machine", "one", kubelet("v1.38.0")).await;
    let failed = world
        .until_one("Machine", "one", "stepped back", |one| one["status"]["errorReason"] == "UpdateError")
        .await;
    let message = failed["status"]["errorMessage"].as_str().unwrap_or_default();
    assert!(message.contains("kubelet v1.38.0 does not start: it ended with exit status: 7"), "{message}");
    assert!(message.contains("v1.36.0 serves again"), "{message}");
    assert_eq!(condition(&failed, "Stalled"), ("True", "UpdateError"));
    assert_eq!(kubelet_of(&world.get("Node", "one").await), "v1.36.0");
    world.patch("Machine", "one", kubelet("v1.36.0")).await;
    world
        .until_one("Machine", "one", "reverted", |one| {
            is_ready(one) && one["status"]["errorReason"].is_null()
        })
        .await;

    // Another kind of runtime is not supported: the host keeps serving.
    let processes = world.provider.processes(&key(&one));
    let runtime = |name: &str| json!({"spec": {"versions": {"containerRuntime": {"name": name}}}});
    world.patch("Machine", "one", runtime("cri-o")).await;
    let refused = world
        .until_one("Machine", "one", "unsupported", |one| one["status"]["errorReason"] == "UnsupportedChange")
        .await;
    assert_eq!(condition(&refused, "Stalled"), ("True", "UnsupportedChange"));
    assert_eq!(world.provider.processes(&key(&one)), processes);
    world.patch("Machine", "one", runtime("containerd")).await;
    world
        .until_one("Machine", "one", "reverted", |one| {
            is_ready(one) && one["status"]["errorReason"].is_null()
        })
        .await;
    assert_eq!(world.provider.processes(&key(&one)), processes);

    // A reboot is in place.
    let boot = world.get("Node", "one").await["status"]["nodeInfo"]["bootID"].clone();
    let config = |field: &str, value: &str| json!({"spec": {"providerSpec": {"value": {field: value}}}});
    world.patch("Machine", "one", config("reboot", "now")).await;
    world.until_one("Node", "one", "rebooted", |node| node["status"]["nodeInfo"]["bootID"] != boot).await;
    let rebooted = world.until_one("Machine", "one", "rebooted", is_ready).await;
    assert_eq!(rebooted["status"]["providerID"], one["status"]["providerID"]);
    assert_eq!(boots(), 2);

    // Another image is another host, under the same Machine.
    world.patch("Machine", "one", config("image", "debian-13")).await;
    let replaced = world
        .until_one("Machine", "one", "replaced", |now| {
            is_ready(now) && now["status"]["providerID"] != one["status"]["providerID"]
        })
        .await;
    assert_eq!(replaced["metadata"]["uid"], one["metadata"]["uid"]);
    let node = world.get("Node", "one").await;
    assert_eq!(node["status"]["nodeInfo"]["osImage"], "debian-13");
    assert_eq!(node["spec"]["providerID"], replaced["status"]["providerID"]);

    // A host whose processes someone has ended starts again.
    let (before, boot) = (boots(), node["status"]["nodeInfo"]["bootID"].clone());
    for process in world.provider.processes(&key(&one)) {
        let _best_effort = std::process::Command::new("kill").args(["-9", &process.to_string()]).status();
    }
    let again = world
        .until_one("Node", "one", "it runs again", |node| {
            node["status"]["nodeInfo"]["bootID"] != boot && condition(node, "Ready").0 == "True"
        })
        .await;
    assert_eq!(again["spec"]["providerID"], replaced["status"]["providerID"]);
    assert_eq!(boots(), before + 1);

    // Nothing is left.
    world.delete("Machine", "one").await;
    world.delete("MachineSet", "web").await;
    world.until("Machine", "no Machine is left", <[Value]>::is_empty).await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_host_of_five_that_is_cut_off_is_replaced_and_five_of_five_are_not() {
    if !is_available() {
        return;
    }
    let world = World::start(Place::new("m1b", 232), |_| {}).await;
    world.create(set(5)).await;
    let machines = world.until("Machine", "5 ready", |all| all.len() == 5 && all.iter().all(is_ready)).await;
    let check = json!({
        "apiVersion": CLUSTER, "kind": "MachineHealthCheck", "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "unhealthyConditions": [{"type": "Ready", "status": "Unknown", "timeoutSeconds": 5}],
        },
    });
    world.create(check).await;

    let silent = machines[2].clone();
    world.provider.set_connected(&key(&silent), false).await.expect("cut off");
    let is_other = |machine: &Value| machine["metadata"]["uid"] != silent["metadata"]["uid"];
    let repaired = world
        .until("Machine", "repaired", |all| {
            all.len() == 5 && all.iter().all(|machine| is_other(machine) && is_ready(machine))
        })
        .await;
    assert_eq!(world.provider.processes(&key(&silent)), Vec::<i32>::new());

    // Now all of them: the network is the problem. At once, since hosts that fail one after the other, further apart than the timeout,
    // are replaced one after the other.
    let keys: Vec<_> = repaired.iter().map(key).collect();
    let cuts = keys.iter().map(|key| world.provider.set_connected(key, false));
    futures::future::try_join_all(cuts).await.expect("cut off");
    let frozen = world
        .until_one("MachineHealthCheck", "web", "frozen", |check| check["status"]["frozen"] == true)
        .await;
    assert_eq!(condition(&frozen, "RemediationAllowed"), ("False", "TooManyUnhealthy"));
    world
        .until("Node", "all are silent", |all| all.iter().all(|node| condition(node, "Ready").0 == "Unknown"))
        .await;
    for machine in &repaired {
        world.provider.set_connected(&key(machine), true).await.expect("connected");
    }
    let after = world.until("Machine", "all are back", |all| all.iter().all(is_ready)).await;
    let uids = |machines: &[Value]| -> Vec<Value> {
        machines.iter().map(|machine| machine["metadata"]["uid"].clone()).collect()
    };
    assert_eq!(uids(&after), uids(&repaired));
    world
        .until_one("MachineHealthCheck", "web", "not frozen", |check| check["status"]["frozen"] == false)
        .await;

    world.delete("MachineSet", "web").await;
    world.until("Machine", "no Machine is left", <[Value]>::is_empty).await;
    world.end().await;
}
