//! MachineSets and MachineDeployments: sizes, the three strategies, and health checks.

use serde_json::{Value, json};
use settled_machines::simulated::Latency;

use crate::harness::{API, World, condition, deployment, is_ready, set, template_kubelet};

/// Message of a condition.
fn message<'o>(object: &'o Value, name: &str) -> &'o str {
    let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    let condition = conditions.find(|condition| condition["type"] == name);
    condition.and_then(|condition| condition["message"].as_str()).unwrap_or_default()
}

/// Kubelets of all Nodes, sorted.
async fn kubelets(world: &World) -> Vec<String> {
    let nodes = world.list("Node").await;
    let mut versions: Vec<String> = nodes
        .iter()
        .map(|node| node["status"]["nodeInfo"]["kubeletVersion"].as_str().unwrap_or_default().to_owned())
        .collect();
    versions.sort();
    versions
}

#[tokio::test(start_paused = true)]
async fn a_set_has_as_many_machines_as_asked_for() {
    let world = World::start(Latency::CLOUD).await;
    world.create(set(3)).await;
    world.pass(60).await;
    let three = world.get("MachineSet", "web").await.expect("there");
    assert!(is_ready(&three), "{three:#}");
    assert_eq!(three["status"]["availableReplicas"], 3);
    assert_eq!(world.hosts(), ["web-0", "web-1", "web-2"]);
    world
        .patch(
            "Machine",
            "web-1",
            json!({"metadata": {"annotations": {"cluster.settled.dev/delete-machine": "yes"}}}),
        )
        .await;
    world.patch("MachineSet", "web", json!({"spec": {"replicas": 2}})).await;
    world.pass(60).await;
    assert_eq!(world.hosts(), ["web-0", "web-2"]);
    // What is deleted comes back.
    world.delete("Machine", "web-0").await;
    world.pass(90).await;
    assert!(is_ready(&world.get("MachineSet", "web").await.expect("there")));
    assert_eq!(world.hosts().len(), 2);
    world.delete("MachineSet", "web").await;
    world.pass(60).await;
    assert!(world.hosts().is_empty() && world.list("Node").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn groups_report_a_provider_that_fails() {
    let world = World::start(Latency::CLOUD).await;
    world.cloud.edit(|cloud| cloud.failing_calls = u32::MAX);
    world.create(deployment(2, json!({"type": "OnDelete"}))).await;
    world.pass(60).await;
    let sets = world.list("MachineSet").await;
    let deployment = world.get("MachineDeployment", "web").await.expect("there");
    for group in sets.iter().chain([&deployment]) {
        assert_eq!(condition(group, "Reconciling"), ("True".into(), "ProviderFailed".into()), "{group:#}");
        assert!(message(group, "Reconciling").starts_with("Machine web-"), "{group:#}");
    }
    // It is still asked after the deadline, whose message has the reason.
    world.pass(600).await;
    let late = world.get("MachineDeployment", "web").await.expect("there");
    assert_eq!(condition(&late, "Stalled").1, "ProgressDeadlineExceeded", "{late:#}");
    assert!(message(&late, "Stalled").starts_with("Machine web-"), "{late:#}");
    world.cloud.edit(|cloud| cloud.failing_calls = 0);
    world.pass(600).await;
    let ready = world.get("MachineDeployment", "web").await.expect("there");
    assert!(is_ready(&ready), "{ready:#}");
    assert_eq!(condition(&ready, "Reconciling").0, "");
}

#[tokio::test(start_paused = true)]
async fn a_rolling_update_keeps_its_bounds() {
    let world = World::start(Latency::CLOUD).await;
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
    world.create(deployment(3, strategy)).await;
    world.pass(60).await;
    assert!(is_ready(&world.get("MachineDeployment", "web").await.expect("there")));
    world.patch("MachineDeployment", "web", template_kubelet("v1.37.0")).await;
    let mut seconds = 0;
    loop {
        world.pass(1).await;
        seconds += 1;
        let machines = world.list("Machine").await;
        let live = machines.iter().filter(|machine| machine["metadata"].get("deletionTimestamp").is_none());
        let ready = live.clone().filter(|machine| is_ready(machine)).count();
        assert!(ready >= 3 && live.count() <= 4, "after {seconds}s: {ready} ready of {}", machines.len());
        let deployment = world.get("MachineDeployment", "web").await.expect("there");
        if is_ready(&deployment) {
            assert_eq!(deployment["status"]["updatedReplicas"], 3);
            break;
        }
        assert_eq!(condition(&deployment, "Stalled").0, "", "after {seconds}s");
        assert!(seconds < 300, "{deployment:#}");
    }
    world.pass(30).await;
    assert_eq!(kubelets(&world).await, ["v1.37.0"; 3]);
    // And back, to the old set.
    world.patch("MachineDeployment", "web", template_kubelet("v1.36.0")).await;
    world.pass(300).await;
    assert!(is_ready(&world.get("MachineDeployment", "web").await.expect("there")));
    assert_eq!(kubelets(&world).await, ["v1.36.0"; 3]);
    assert_eq!(world.list("MachineSet").await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn on_delete_waits_for_a_user() {
    let world = World::start(Latency::CLOUD).await;
    world.create(deployment(2, json!({"type": "OnDelete"}))).await;
    world.pass(60).await;
    world.patch("MachineDeployment", "web", template_kubelet("v1.37.0")).await;
    world.pass(120).await;
    let waiting = world.get("MachineDeployment", "web").await.expect("there");
    assert_eq!(condition(&waiting, "Stalled").1, "WaitingForDeletion", "{waiting:#}");
    assert_eq!(kubelets(&world).await, ["v1.36.0"; 2]);
    let machines = world.list("Machine").await;
    world.delete("Machine", machines[0]["metadata"]["name"].as_str().unwrap_or_default()).await;
    world.pass(120).await;
    assert_eq!(kubelets(&world).await, ["v1.36.0", "v1.37.0"]);
}

#[tokio::test(start_paused = true)]
async fn machines_are_updated_one_after_the_other_until_one_is_refused() {
    let world = World::start(Latency::CLOUD).await;
    let strategy = json!({"type": "UpdateMachines", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}});
    let mut declared = deployment(3, strategy);
    declared["spec"]["template"]["spec"]["versions"]["containerRuntime"] =
        json!({"name": "containerd", "version": "2.1.0"});
    world.create(declared).await;
    world.pass(60).await;
    let before: Vec<Value> =
        world.list("Machine").await.iter().map(|machine| machine["metadata"]["uid"].clone()).collect();
    world.patch("MachineDeployment", "web", template_kubelet("v1.37.0")).await;
    for second in 0..200 {
        world.pass(1).await;
        let ready = world.list("Machine").await.iter().filter(|machine| is_ready(machine)).count();
        assert!(ready >= 2, "after {second}s");
    }
    let updated = world.get("MachineDeployment", "web").await.expect("there");
    assert!(is_ready(&updated), "{updated:#}");
    assert_eq!(kubelets(&world).await, ["v1.37.0"; 3]);
    let after: Vec<Value> =
        world.list("Machine").await.iter().map(|machine| machine["metadata"]["uid"].clone()).collect();
    assert_eq!(before, after, "the Machines are the same");

    let other =
        json!({"spec": {"template": {"spec": {"versions": {"containerRuntime": {"name": "cri-o"}}}}}});
    world.patch("MachineDeployment", "web", other).await;
    world.pass(120).await;
    let refused = world.get("MachineDeployment", "web").await.expect("there");
    assert_eq!(condition(&refused, "Stalled").1, "UnsupportedChange", "{refused:#}");
    let changed = world.list("Machine").await;
    let changed =
        changed.iter().filter(|machine| machine["spec"]["versions"]["containerRuntime"]["name"] == "cri-o");
    assert_eq!(changed.count(), 1, "it stops after the first one");
}

fn check() -> Value {
    json!({
        "apiVersion": API, "kind": "MachineHealthCheck", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
    })
}

#[tokio::test(start_paused = true)]
async fn one_silent_machine_of_five_is_replaced() {
    let world = World::start(Latency::CLOUD).await;
    world.create(set(5)).await;
    world.create(check()).await;
    world.pass(60).await;
    let silent = world.get("Machine", "web-2").await.expect("there")["metadata"]["uid"].clone();
    let uid = silent.as_str().unwrap_or_default().to_owned();
    world.cloud.edit(|cloud| cloud.partitioned.insert(uid));
    world.pass(60).await;
    let machine = world.get("Machine", "web-2").await.expect("there");
    assert_eq!(condition(&machine, "NodeReady"), ("Unknown".into(), "NodeUnknown".into()), "{machine:#}");
    world.pass(400).await;
    let set = world.get("MachineSet", "web").await.expect("there");
    assert!(is_ready(&set), "{set:#}");
    let uids: Vec<Value> =
        world.list("Machine").await.iter().map(|machine| machine["metadata"]["uid"].clone()).collect();
    assert!(uids.len() == 5 && !uids.contains(&silent));
}

#[tokio::test(start_paused = true)]
async fn five_silent_machines_of_five_are_a_problem_elsewhere() {
    let world = World::start(Latency::CLOUD).await;
    world.create(set(5)).await;
    world.create(check()).await;
    world.pass(60).await;
    let before: Vec<Value> =
        world.list("Machine").await.iter().map(|machine| machine["metadata"]["uid"].clone()).collect();
    world.cloud.edit(|cloud| cloud.is_api_lost = true);
    world.pass(900).await;
    let frozen = world.get("MachineHealthCheck", "web").await.expect("there");
    assert_eq!(frozen["status"]["frozen"], true, "{frozen:#}");
    assert_eq!(condition(&frozen, "RemediationAllowed"), ("False".into(), "TooManyUnhealthy".into()));
    world.cloud.edit(|cloud| cloud.is_api_lost = false);
    world.pass(60).await;
    let after: Vec<Value> =
        world.list("Machine").await.iter().map(|machine| machine["metadata"]["uid"].clone()).collect();
    assert_eq!(before, after);
    assert!(is_ready(&world.get("MachineSet", "web").await.expect("there")));
    assert_eq!(world.get("MachineHealthCheck", "web").await.expect("there")["status"]["frozen"], false);
}

#[tokio::test(start_paused = true)]
async fn the_last_machines_to_come_back_after_an_outage_have_their_timeout_again() {
    let world = World::start(Latency::CLOUD).await;
    world.create(set(5)).await;
    world.create(check()).await;
    world.pass(60).await;
    let before: Vec<String> = world
        .list("Machine")
        .await
        .iter()
        .map(|machine| machine["metadata"]["uid"].as_str().unwrap_or_default().to_owned())
        .collect();
    world.cloud.edit(|cloud| cloud.partitioned.extend(before.iter().cloned()));
    world.pass(900).await;
    let frozen = world.get("MachineHealthCheck", "web").await.expect("there");
    assert_eq!(condition(&frozen, "RemediationAllowed"), ("False".into(), "TooManyUnhealthy".into()));
    assert_eq!(frozen["status"]["unhealthyMachines"].as_array().map(Vec::len), Some(5), "{frozen:#}");

    // Three of five are back: two would be few enough to be replaced, and have been silent for longer than the timeout.
    let uids = async || -> Vec<String> {
        let machines = world.list("Machine").await;
        machines
            .iter()
            .map(|machine| machine["metadata"]["uid"].as_str().unwrap_or_default().to_owned())
            .collect()
    };
    world.cloud.edit(|cloud| cloud.partitioned = before[3..].iter().cloned().collect());
    world.pass(240).await;
    assert_eq!(uids().await, before);
    let thawed = world.get("MachineHealthCheck", "web").await.expect("there");
    assert_eq!(condition(&thawed, "RemediationAllowed"), ("True".into(), "AllowedAgain".into()));

    // The fourth comes back in time, the fifth does not.
    world.cloud.edit(|cloud| cloud.partitioned = before[4..].iter().cloned().collect());
    world.pass(600).await;
    let after = uids().await;
    assert_eq!(after[..4], before[..4]);
    assert!(after.len() == 5 && after[4] != before[4], "{after:?}");
}
