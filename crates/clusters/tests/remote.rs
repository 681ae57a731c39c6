//! Clusters on API servers of their own that do not answer.

use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use settled_clusters::delete;
use settled_clusters::kinds::api;

use crate::world::{LIMIT, World, condition, is_ready, manifests};

/// Row "endpoint gone": the condition says it, no Machine is replaced, and other clusters are not delayed.
#[tokio::test(start_paused = true)]
async fn a_dead_api_server_delays_nobody_else() {
    let world = World::start(&["dead", "live"]).await;
    let first = world.create(&manifests("dead", 1, 2), false).await.unwrap();
    first.stop().await;
    let controllers = world.create(&manifests("live", 1, 1), false).await.unwrap();
    let before = world.hosts();
    world.servers.kill("dead");
    world.pass(30).await;
    let cluster = world.get("management", "Cluster", "dead").await;
    assert_eq!(condition(&cluster, "ControlPlaneReachable"), ("False".into(), "Unreachable".into()));
    assert!(!is_ready(&cluster));
    let machine = world.get("management", "Machine", "dead-0").await;
    assert_eq!(condition(&machine, "NodeReady"), ("Unknown".into(), "ClusterUnreachable".into()));
    // The other one scales as if nothing had happened: creation takes at most 12 s and a fifth more, and agents and controllers a few.
    let deployments = api(&world.servers.get("management").client(), "MachineDeployment", "default");
    let scale = Patch::Merge(json!({"spec": {"replicas": 3}}));
    deployments.patch("live-workers", &PatchParams::default(), &scale).await.unwrap();
    world.pass(20).await;
    let live = world.get("management", "Cluster", "live").await;
    assert!(is_ready(&live) && live["status"]["readyMachines"] == 4, "{live:#}");
    // After all timeouts, no host of the dead one was replaced: health checks know nothing of it.
    world.pass(900).await;
    let now = world.hosts();
    assert!(before.iter().all(|(name, id)| now.get(name) == Some(id)), "{before:?} {now:?}");
    world.servers.revive("dead");
    // A probe may be 30 s away. Leases that could not be renewed are no reason to give up on Nodes: not then, and not later.
    world.pass(60).await;
    let revived = world.get("management", "Cluster", "dead").await;
    assert!(is_ready(&revived), "{revived:#}");
    world.pass(60).await;
    let revived = world.get("management", "Cluster", "dead").await;
    assert!(is_ready(&revived), "{revived:#}");
    controllers.stop().await;
}

/// Deleted, a cluster with a dead API server leaves nothing but what died with it.
#[tokio::test(start_paused = true)]
async fn a_cluster_is_deleted_though_its_api_server_is_dead() {
    let world = World::start(&["prod"]).await;
    let controllers = world.create(&manifests("prod", 1, 2), false).await.unwrap();
    world.servers.kill("prod");
    world.pass(30).await;
    let begin = tokio::time::Instant::now();
    delete(&world.management("management").await, "default", "prod", LIMIT, &|_| {}).await.unwrap();
    assert!(begin.elapsed().as_secs() < 60, "{:?}", begin.elapsed());
    world.pass(10).await;
    let left = world.sweep(&["management"]).await;
    assert_eq!(left, Vec::<String>::new());
    controllers.stop().await;
}

/// A worker that is deleted while its cluster does not answer waits for its drain; its Node is gone when the cluster is back.
#[tokio::test(start_paused = true)]
async fn a_worker_waits_for_its_drain_until_its_timeout() {
    let world = World::start(&["prod"]).await;
    let controllers = world.create(&manifests("prod", 1, 1), false).await.unwrap();
    let machines = api(&world.servers.get("management").client(), "Machine", "default");
    let workers = world.names("management", "Machine").await;
    let worker = workers.iter().find(|name| name.starts_with("prod-workers")).unwrap().clone();
    world.servers.kill("prod");
    world.pass(30).await;
    machines.delete(&worker, &DeleteParams::default()).await.unwrap();
    world.pass(300).await;
    assert!(world.hosts().contains_key(&worker), "it is not drained, and its drain may take ten minutes");
    world.pass(400).await;
    assert!(!world.hosts().contains_key(&worker));
    assert!(world.names("prod", "Node").await.contains(&worker), "its API server does not answer");
    world.servers.revive("prod");
    world.pass(300).await;
    assert!(!world.names("prod", "Node").await.contains(&worker), "it is collected");
    controllers.stop().await;
}

/// Row "two Machines for one host": the second one does not touch it, and goes without it.
#[tokio::test(start_paused = true)]
async fn two_machines_do_not_share_a_host() {
    let world = World::start(&["prod"]).await;
    let controllers = world.create(&manifests("prod", 1, 1), false).await.unwrap();
    let before = world.hosts();
    let machines = api(&world.servers.get("management").client(), "Machine", "default");
    let first = machines.get("prod-0").await.unwrap();
    let mut second = first.clone();
    second.metadata = kube::api::ObjectMeta {
        name: Some("prod-9".to_owned()),
        annotations: Some(
            [("cluster.settled.dev/host-uid".to_owned(), first.metadata.uid.clone().unwrap())].into(),
        ),
        ..Default::default()
    };
    second.data.as_object_mut().unwrap().remove("status");
    machines.create(&Default::default(), &second).await.unwrap();
    world.pass(60).await;
    let second = world.get("management", "Machine", "prod-9").await;
    assert_eq!(condition(&second, "Accepted"), ("False".into(), "HostTaken".into()), "{second:#}");
    machines.delete("prod-9", &DeleteParams::default()).await.unwrap();
    world.pass(60).await;
    assert_eq!(world.names("management", "Machine").await.len(), 2);
    assert_eq!(world.hosts(), before);
    controllers.stop().await;
}
