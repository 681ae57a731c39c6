//! Clusters: control plane before workers, readiness, order of deletion, restarts.

use serde_json::{Value, json};
use settled_machines::simulated::Latency;

use crate::harness::{API, World, condition, deployment, is_ready, machine};

fn cluster() -> Value {
    json!({
        "apiVersion": API, "kind": "Cluster", "metadata": {"name": "prod", "namespace": "default"},
        "spec": {
            "clusterNetwork": {"services": {"cidrBlocks": ["10.96.0.0/12"]}, "pods": {"cidrBlocks": ["10.244.0.0/16"]}, "serviceDomain": "cluster.local"},
            "controlPlane": {"version": "v1.36.0"},
        },
    })
}

fn control_plane(name: &str) -> Value {
    let mut machine = machine(name, "v1.36.0");
    machine["spec"]["versions"]["controlPlane"] = "v1.36.0".into();
    machine["spec"]["clusterName"] = "prod".into();
    machine
}

fn workers(replicas: i32) -> Value {
    let mut workers = deployment(replicas, json!({"type": "RollingUpdate"}));
    workers["spec"]["template"]["spec"]["clusterName"] = "prod".into();
    workers
}

#[tokio::test(start_paused = true)]
async fn workers_wait_for_the_control_plane_and_go_before_it() {
    let mut world = World::start(Latency::CLOUD).await;
    world.create(cluster()).await;
    world.create(workers(2)).await;
    world.pass(60).await;
    assert!(world.hosts().is_empty(), "there is no endpoint");
    let waiting = world.get("Cluster", "prod").await.expect("there");
    assert_eq!(condition(&waiting, "ControlPlaneReady"), ("False".into(), "NotReady".into()));
    assert_eq!(waiting["status"]["phase"], "Provisioning");
    let machines = world.list("Machine").await;
    assert_eq!(condition(&machines[0], "Reconciling").1, "WaitingForControlPlane");

    world.create(control_plane("prod-0")).await;
    world.pass(120).await;
    let serving = world.get("Cluster", "prod").await.expect("there");
    assert!(is_ready(&serving), "{serving:#}");
    assert_eq!(serving["status"]["version"], "v1.36.0");
    assert_eq!((&serving["status"]["machines"], &serving["status"]["readyMachines"]), (&json!(3), &json!(3)));
    assert_eq!(serving["status"]["apiEndpoints"][0]["port"], 6443);

    // Nothing changes by a restart.
    let before = world.list("Machine").await;
    world.restart();
    world.pass(120).await;
    assert_eq!(world.list("Machine").await, before);

    world.delete("Cluster", "prod").await;
    let mut worker_seen_without_control_plane = false;
    for _ in 0..120 {
        world.pass(1).await;
        let hosts = world.hosts();
        let has_control_plane = hosts.iter().any(|name| name == "prod-0");
        worker_seen_without_control_plane |= !hosts.is_empty() && !has_control_plane;
    }
    assert!(!worker_seen_without_control_plane);
    assert_eq!(world.get("Cluster", "prod").await, None);
    for kind in ["Machine", "MachineSet", "MachineDeployment", "Node"] {
        assert!(world.list(kind).await.is_empty(), "{kind}");
    }
    assert!(world.hosts().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_paused_cluster_is_left_alone() {
    let world = World::start(Latency::CLOUD).await;
    let mut paused = cluster();
    paused["spec"]["paused"] = true.into();
    world.create(paused).await;
    world.create(control_plane("prod-0")).await;
    world.pass(120).await;
    assert!(world.hosts().is_empty());
    world.patch("Cluster", "prod", json!({"spec": {"paused": false}})).await;
    world.pass(120).await;
    assert_eq!(world.hosts(), ["prod-0"]);
}
