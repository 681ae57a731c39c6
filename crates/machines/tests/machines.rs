//! One Machine: from creation to deletion, with all three outcomes of an update.

use serde_json::json;
use settled_machines::simulated::Latency;

use crate::harness::{World, condition, config, is_ready, kubelet, machine};

#[tokio::test(start_paused = true)]
async fn a_machine_becomes_a_node_and_leaves_nothing() {
    let world = World::start(Latency::CLOUD).await;
    let mut declared = machine("a", "v1.36.0");
    declared["spec"]["metadata"] = json!({"labels": {"team": "a"}});
    declared["spec"]["taints"] = json!([{"key": "team", "value": "a", "effect": "NoSchedule"}]);
    world.create(declared).await;
    world.pass(3).await;
    let creating = world.get("Machine", "a").await.expect("there");
    assert_eq!(creating["status"]["phase"], "Provisioning");
    assert_eq!(condition(&creating, "Reconciling"), ("True".into(), "Creating".into()));
    assert_eq!(condition(&creating, "Ready").0, "False");

    world.pass(40).await;
    let running = world.get("Machine", "a").await.expect("there");
    assert_eq!(running["status"]["phase"], "Running", "{running:#}");
    assert!(is_ready(&running));
    assert_eq!(condition(&running, "Reconciling").0, "");
    assert_eq!(running["status"]["nodeRef"]["name"], "a");
    let node = world.get("Node", "a").await.expect("registered");
    assert_eq!(node["spec"]["providerID"], running["status"]["providerID"]);
    assert_eq!(node["metadata"]["labels"]["team"], "a");
    assert!(
        node["spec"]["taints"]
            .as_array()
            .is_some_and(|taints| taints.iter().any(|taint| taint["key"] == "team"))
    );
    assert_eq!(node["status"]["nodeInfo"]["kubeletVersion"], "v1.36.0");
    assert!(world.get("Lease", "a").await.is_some());

    // Labels and taints that are changed later reach the Node without a new host.
    world.patch("Machine", "a", json!({"spec": {"metadata": {"labels": {"team": "b"}}, "taints": [{"key": "team", "value": "b", "effect": "NoSchedule"}]}})).await;
    world.pass(20).await;
    let node = world.get("Node", "a").await.expect("registered");
    assert_eq!(node["metadata"]["labels"]["team"], "b");
    assert!(
        node["spec"]["taints"]
            .as_array()
            .is_some_and(|taints| taints.iter().any(|taint| taint["value"] == "b"))
    );

    world.delete("Machine", "a").await;
    world.pass(60).await;
    assert_eq!(world.get("Machine", "a").await, None);
    assert_eq!(world.get("Node", "a").await, None);
    assert!(world.hosts().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_goes_up_and_down_in_place() {
    let world = World::start(Latency::CLOUD).await;
    world.create(machine("a", "v1.36.0")).await;
    world.pass(60).await;
    let before = world.get("Machine", "a").await.expect("there");
    for version in ["v1.37.0", "v1.36.2"] {
        world.patch("Machine", "a", kubelet(version)).await;
        world.pass(2).await;
        let updating = world.get("Machine", "a").await.expect("there");
        assert!(!is_ready(&updating));
        assert_eq!(updating["status"]["update"]["decision"], "InPlace", "{updating:#}");
        world.pass(60).await;
        let after = world.get("Machine", "a").await.expect("there");
        assert!(is_ready(&after), "{after:#}");
        assert_eq!(after["status"]["versions"]["kubelet"], version);
        assert_eq!(after["status"]["nodeRef"]["uid"], before["status"]["nodeRef"]["uid"], "the Node stays");
        assert_eq!(after["status"].get("update"), None);
        let node = world.get("Node", "a").await.expect("there");
        assert_eq!(node["status"]["nodeInfo"]["kubeletVersion"], version);
        assert!(node["spec"].get("unschedulable").is_none_or(|value| value == false), "uncordoned");
    }
}

#[tokio::test(start_paused = true)]
async fn an_image_is_changed_by_another_host_under_the_same_machine() {
    let world = World::start(Latency::CLOUD).await;
    world.create(machine("a", "v1.36.0")).await;
    world.pass(60).await;
    let before = world.get("Machine", "a").await.expect("there");
    world.patch("Machine", "a", json!({"spec": {"providerSpec": config("debian-13")}})).await;
    world.pass(2).await;
    let replacing = world.get("Machine", "a").await.expect("there");
    assert_eq!(replacing["status"]["update"]["decision"], "Replace");
    assert_eq!(replacing["status"]["update"]["reason"], "image changes from debian-12 to debian-13");
    world.pass(90).await;
    let after = world.get("Machine", "a").await.expect("there");
    assert!(is_ready(&after), "{after:#}");
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
    assert_ne!(after["status"]["nodeRef"]["uid"], before["status"]["nodeRef"]["uid"]);
    assert_eq!(world.get("Node", "a").await.expect("there")["status"]["nodeInfo"]["osImage"], "debian-13");
    assert_eq!(world.hosts().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_had_is_reported_and_reverted() {
    let world = World::start(Latency::CLOUD).await;
    let runtime =
        |name: &str| json!({"spec": {"versions": {"containerRuntime": {"name": name, "version": "2.1.0"}}}});
    let mut declared = machine("a", "v1.36.0");
    declared["spec"]["versions"]["containerRuntime"] =
        runtime("containerd")["spec"]["versions"]["containerRuntime"].clone();
    world.create(declared).await;
    world.pass(60).await;
    let before = world.get("Node", "a").await.expect("there");
    world.patch("Machine", "a", runtime("cri-o")).await;
    world.pass(30).await;
    let refused = world.get("Machine", "a").await.expect("there");
    assert_eq!(condition(&refused, "Stalled"), ("True".into(), "UnsupportedChange".into()), "{refused:#}");
    assert_eq!(refused["status"]["errorReason"], "UnsupportedChange");
    assert_eq!(condition(&refused, "NodeReady").0, "True", "the host keeps serving");
    assert_eq!(world.get("Node", "a").await.expect("there")["metadata"]["uid"], before["metadata"]["uid"]);
    world.patch("Machine", "a", runtime("containerd")).await;
    world.pass(30).await;
    let reverted = world.get("Machine", "a").await.expect("there");
    assert!(is_ready(&reverted), "{reverted:#}");
    assert_eq!(reverted["status"].get("errorReason"), None);
}

#[tokio::test(start_paused = true)]
async fn what_really_runs_is_corrected() {
    let world = World::start(Latency::CLOUD).await;
    world.create(machine("a", "v1.36.0")).await;
    world.pass(60).await;
    // Somebody changes the kubelet on the host.
    world
        .cloud
        .edit(|cloud| cloud.hosts.values_mut().for_each(|host| host.versions.kubelet = "v1.35.0".to_owned()));
    world.pass(400).await;
    let corrected = world.get("Machine", "a").await.expect("there");
    assert!(is_ready(&corrected), "{corrected:#}");
    assert_eq!(corrected["status"]["versions"]["kubelet"], "v1.36.0");
    // And somebody deletes the host.
    world.cloud.edit(|cloud| cloud.hosts.clear());
    world.pass(600).await;
    let recreated = world.get("Machine", "a").await.expect("there");
    assert!(is_ready(&recreated), "{recreated:#}");
    assert_eq!(world.hosts(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn failures_of_a_provider_are_reported() {
    let world = World::start(Latency::CLOUD).await;
    world.cloud.edit(|cloud| cloud.quota = Some(0));
    world.create(machine("a", "v1.36.0")).await;
    world.pass(30).await;
    let refused = world.get("Machine", "a").await.expect("there");
    assert_eq!(
        condition(&refused, "Stalled"),
        ("True".into(), "InsufficientResources".into()),
        "{refused:#}"
    );
    assert_eq!(refused["status"]["phase"], "Failed");
    // It is asked again without anybody's help.
    world.cloud.edit(|cloud| cloud.quota = None);
    world.pass(180).await;
    assert!(is_ready(&world.get("Machine", "a").await.expect("there")));

    let mut broken = machine("b", "v1.36.0");
    broken["spec"]["providerSpec"]["value"]["createError"] = "CreateError".into();
    world.create(broken).await;
    let mut flaky = machine("c", "v1.36.0");
    flaky["spec"]["providerSpec"]["value"]["failCreates"] = 3.into();
    world.create(flaky).await;
    let mut silent = machine("d", "v1.36.0");
    silent["spec"]["providerSpec"]["value"]["neverJoins"] = true.into();
    silent["spec"]["nodeStartupTimeoutSeconds"] = 30.into();
    world.create(silent).await;
    world.create(json!({
        "apiVersion": crate::harness::API, "kind": "Machine", "metadata": {"name": "e", "namespace": "default"},
        "spec": {"versions": {"kubelet": "v1.36.0"}, "providerSpec": {"valueFrom": {"machineClass": {"name": "none"}}}},
    })).await;
    world.pass(120).await;
    let stalled =
        async |name: &str| condition(&world.get("Machine", name).await.expect("there"), "Stalled").1;
    assert_eq!(stalled("b").await, "CreateError");
    assert!(is_ready(&world.get("Machine", "c").await.expect("there")));
    assert_eq!(stalled("d").await, "JoinClusterTimeoutError");
    assert_eq!(stalled("e").await, "InvalidConfiguration");
    // A change of the spec helps, and of the class.
    world.patch("Machine", "b", json!({"spec": {"providerSpec": {"value": {"createError": null}}}})).await;
    world.create(json!({
        "apiVersion": crate::harness::API, "kind": "MachineClass", "metadata": {"name": "none", "namespace": "default"},
        "spec": {"providerSpec": config("debian-12")["value"]},
    })).await;
    world.pass(60).await;
    for name in ["b", "e"] {
        let machine = world.get("Machine", name).await.expect("there");
        assert!(is_ready(&machine), "{machine:#}");
    }
}

fn pod(name: &str, node: &str) -> serde_json::Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default", "labels": {"app": "db"}},
        "spec": {"nodeName": node, "terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "image": "db"}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

#[tokio::test(start_paused = true)]
async fn a_drain_respects_budgets_until_its_timeout() {
    let world = World::start(Latency::CLOUD).await;
    let mut declared = machine("a", "v1.36.0");
    declared["spec"]["nodeDrainTimeoutSeconds"] = 120.into();
    world.create(declared).await;
    world.pass(60).await;
    world.create(pod("guarded", "a")).await;
    let mut free = pod("free", "a");
    free["metadata"]["labels"] = json!({"app": "other"});
    world.create(free).await;
    world.create(json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "db", "namespace": "default"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "db"}}},
    })).await;
    world.delete("Machine", "a").await;
    world.pass(60).await;
    let draining = world.get("Machine", "a").await.expect("still there");
    assert_eq!(draining["status"]["phase"], "Draining", "{draining:#}");
    assert_eq!(condition(&draining, "Reconciling"), ("True".into(), "Draining".into()));
    assert_eq!(world.get("Pod", "free").await, None, "evicted");
    assert!(world.get("Pod", "guarded").await.is_some());
    // Others are not delayed by it.
    world.create(machine("b", "v1.36.0")).await;
    world.pass(30).await;
    assert!(is_ready(&world.get("Machine", "b").await.expect("there")));
    world.pass(100).await;
    assert_eq!(world.get("Machine", "a").await, None, "after its timeout");
}

#[tokio::test(start_paused = true)]
async fn what_has_lost_its_machine_is_collected() {
    let world = World::start(Latency::CLOUD).await;
    world.create(machine("a", "v1.36.0")).await;
    world.create(machine("b", "v1.36.0")).await;
    world.pass(60).await;
    // A user removes the finalizer, and the Machine.
    world
        .patch(
            "Machine",
            "a",
            json!({"metadata": {"finalizers": null, "annotations": {"cluster.settled.dev/paused": ""}}}),
        )
        .await;
    world.delete("Machine", "a").await;
    world.pass(300).await;
    assert_eq!(world.get("Machine", "a").await, None);
    assert_eq!(world.hosts(), ["b"]);
    assert_eq!(world.get("Node", "a").await, None);
    assert!(world.get("Node", "b").await.is_some());
}

#[tokio::test(start_paused = true)]
async fn what_a_provider_refuses_for_good_is_reported_once() {
    let world = World::start(Latency::CLOUD).await;
    world.create(machine("a", "v1.36.0")).await;
    world.pass(60).await;
    let refuse = |call: &str| {
        world.cloud.edit(|cloud| cloud.refused_calls.insert(call.to_owned()));
    };
    // Its version, to see that nothing is written again and again.
    let stalled = async |reason: &str| {
        world.pass(30).await;
        let first = world.get("Machine", "a").await.expect("there");
        assert_eq!(condition(&first, "Stalled"), ("True".into(), reason.into()), "{first:#}");
        world.pass(30).await;
        let second = world.get("Machine", "a").await.expect("there");
        assert_eq!(first["metadata"]["resourceVersion"], second["metadata"]["resourceVersion"]);
    };
    refuse("step");
    world.patch("Machine", "a", kubelet("v1.36.1")).await;
    stalled("UpdateError").await;
    world.cloud.edit(|cloud| cloud.refused_calls.clear());
    world.patch("Machine", "a", kubelet("v1.36.2")).await;
    world.pass(60).await;
    assert!(is_ready(&world.get("Machine", "a").await.expect("there")));

    refuse("delete");
    world.patch("Machine", "a", json!({"spec": {"providerSpec": config("debian-13")}})).await;
    stalled("DeleteError").await;
    world.delete("Machine", "a").await;
    stalled("DeleteError").await;
    world.cloud.edit(|cloud| cloud.refused_calls.clear());
    world.pass(150).await;
    assert_eq!(world.get("Machine", "a").await, None);
    assert!(world.hosts().is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_begins_and_what_is_wrong_is_recorded() {
    let world = World::start(Latency::CLOUD).await;
    world.create(machine("a", "v1.36.0")).await;
    let mut broken = machine("b", "v1.36.0");
    broken["spec"]["providerSpec"]["value"]["createError"] = "CreateError".into();
    world.create(broken).await;
    world.pass(60).await;
    world.patch("Machine", "a", kubelet("v1.37.0")).await;
    world.pass(60).await;
    world.patch("Machine", "a", json!({"spec": {"providerSpec": config("debian-13")}})).await;
    world.pass(60).await;
    let events: kube::Api<k8s_openapi::api::events::v1::Event> =
        kube::Api::default_namespaced(world.client.clone());
    let events = events.list(&Default::default()).await.expect("a list").items;
    let mut found: Vec<String> = events
        .iter()
        .map(|event| {
            let text = |field: &Option<String>| field.clone().unwrap_or_default();
            let name = event.regarding.as_ref().and_then(|object| object.name.clone());
            format!("{} {} {}", text(&name), text(&event.type_), text(&event.reason))
        })
        .collect();
    found.sort();
    // The second drain is of the same series.
    let expected =
        ["a Normal Draining", "a Normal Replacing", "a Normal UpdatingInPlace", "b Warning CreateError"];
    assert_eq!(found, expected);
    let metrics = world.metrics.encode().expect("text");
    for line in [
        "controller_runtime_reconcile_total{controller=\"machine-controller\",result=\"success\"}",
        "controller_runtime_max_concurrent_reconciles{controller=\"orphan-collector\"} 32",
        "workqueue_depth{name=\"machineset-controller\"} 0",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
}
