//! Creation and deletion of clusters: phases, crashes in each of them, what is deleted meanwhile, what is left.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use settled_clusters::kinds::api;
use settled_clusters::{CreateOptions, Error, Event, Phase, create, delete};

use crate::world::{LIMIT, World, condition, is_ready, manifests};

fn journal(cluster: &Value) -> Vec<String> {
    let entries = cluster["status"]["journal"].as_array().cloned().unwrap_or_default();
    let done = entries.iter().filter(|entry| entry["completedAt"].is_string());
    done.map(|entry| entry["step"].as_str().unwrap().to_owned()).collect()
}

const CREATED: [&str; 6] =
    ["Cluster", "FirstControlPlane", "Endpoint", "ControlPlane", "Workers", "Complete"];

/// U1, S1 install and delete: from manifests to Nodes on the cluster's own API server, and back to nothing.
#[tokio::test(start_paused = true)]
async fn u1_a_cluster_is_created_from_manifests_and_leaves_nothing() {
    let world = World::start(&["prod"]).await;
    let controllers = world.create(&manifests("prod", 3, 2), false).await.unwrap();
    let cluster = world.get("management", "Cluster", "prod").await;
    assert!(is_ready(&cluster), "{cluster:#}");
    assert_eq!(journal(&cluster), CREATED);
    assert_eq!(condition(&cluster, "ControlPlaneReachable"), ("True".into(), "Reachable".into()));
    assert_eq!(world.list("prod", "Node").await.len(), 5);
    assert_eq!(world.list("management", "Node").await, Vec::<Value>::new());
    // One control plane after the other: the second one was created when the first one was ready.
    let machines = world.list("management", "Machine").await;
    let created = |name: &str| {
        let machine = machines.iter().find(|machine| machine["metadata"]["name"] == name).unwrap();
        (machine["metadata"]["creationTimestamp"].clone(), machine["status"]["readySince"].clone())
    };
    let text = |value: Value| value.as_str().unwrap().to_owned();
    assert!(text(created("prod-1").0) >= text(created("prod-0").1), "{machines:#?}");
    assert!(text(created("prod-2").0) >= text(created("prod-1").1), "{machines:#?}");

    delete(&world.management("management").await, "default", "prod", LIMIT, &|_| {}).await.unwrap();
    world.pass(5).await;
    assert_eq!(world.sweep(&["management"]).await, Vec::<String>::new());
    controllers.stop().await;
}

/// `kill -9` of the bootstrap when each phase begins, and when it is done: the next process continues, and nothing is there twice.
#[tokio::test(start_paused = true)]
async fn a_crash_in_each_phase_is_continued() {
    for phase in Phase::ALL {
        for is_done in [false, true] {
            let pivot = phase >= Phase::Pivot;
            let world = World::start(&["prod"]).await;
            let manifests = manifests("prod", 2, 1);
            let management = world.management("management").await;
            let controllers = management.start_controllers();
            let (sender, receiver) = tokio::sync::oneshot::channel();
            let sender = Arc::new(Mutex::new(Some(sender)));
            let wanted = if is_done { Event::Done(phase) } else { Event::Began(phase) };
            let mut options = CreateOptions::new(LIMIT);
            options.pivot = pivot;
            options.state = Some(world.state());
            options.listener = Arc::new(move |event| {
                if let Some(sender) = sender.lock().unwrap().take_if(|_| *event == wanted) {
                    sender.send(()).ok();
                }
            });
            let killed = tokio::select! {
                created = create(&management, &manifests, &options) => { created.unwrap(); false }
                _ = receiver => true,
            };
            drop(controllers);
            let is_last = phase == Phase::Complete && !is_done && pivot;
            assert!(killed || is_last || is_done, "{phase} was not reached");
            // Another process, later.
            world.pass(30).await;
            let controllers = world.create(&manifests, pivot).await.unwrap();
            let (server, other) = if pivot { ("prod", "management") } else { ("management", "prod") };
            world.pass(60).await;
            assert_eq!(world.hosts().len(), 3, "{phase}, done {is_done}: {:?}", world.hosts());
            assert_eq!(world.names(server, "Machine").await.len(), 3, "{phase}, done {is_done}");
            assert_eq!(world.names(other, "Machine").await, Vec::<String>::new(), "{phase}, done {is_done}");
            controllers.stop().await;
        }
    }
}

/// A Machine that is deleted during the creation is an error of the bootstrap, and leaves nothing; the next attempt creates it again.
#[tokio::test(start_paused = true)]
async fn a_machine_that_is_deleted_during_create_leaves_nothing() {
    let world = World::start(&["prod"]).await;
    let manifests = manifests("prod", 1, 1);
    let management = world.management("management").await;
    let controllers = management.start_controllers();
    let options = CreateOptions::new(LIMIT);
    let machines = api(&management.client(), "Machine", "default");
    let deletion = async {
        // The host is being created: it takes ten seconds.
        tokio::time::sleep(Duration::from_secs(3)).await;
        machines.delete("prod-0", &DeleteParams::default()).await.unwrap();
    };
    let (created, ()) = tokio::join!(create(&management, &manifests, &options), deletion);
    assert!(matches!(&created, Err(Error::Deleted(object)) if object == "Machine prod-0"), "{created:?}");
    world.pass(120).await;
    assert!(world.hosts().is_empty(), "{:?}", world.hosts());
    create(&management, &manifests, &options).await.unwrap();
    assert_eq!(world.hosts().len(), 2);
    controllers.stop().await;
}

/// U2 and row "Cluster deleted during an upgrade".
#[tokio::test(start_paused = true)]
async fn a_cluster_that_is_deleted_during_an_upgrade_leaves_nothing() {
    let world = World::start(&["prod"]).await;
    let controllers = world.create(&manifests("prod", 1, 3), false).await.unwrap();
    let client = world.servers.get("management").client();
    let upgrade = json!({"spec": {"template": {"spec": {"versions": {"kubelet": "v1.37.0"}}}}});
    let deployments = api(&client, "MachineDeployment", "default");
    deployments.patch("prod-workers", &PatchParams::default(), &Patch::Merge(upgrade)).await.unwrap();
    world.pass(7).await;
    let updating = world.list("management", "Machine").await;
    assert!(updating.iter().any(|machine| !is_ready(machine)), "the upgrade is under way");
    delete(&world.management("management").await, "default", "prod", LIMIT, &|_| {}).await.unwrap();
    world.pass(120).await;
    let left = world.sweep(&["management"]).await;
    assert_eq!(left, Vec::<String>::new());
    controllers.stop().await;
}

/// A provider that refuses a host ends the creation, with its reason.
#[tokio::test(start_paused = true)]
async fn a_creation_that_cannot_succeed_ends_early() {
    let world = World::start(&["prod"]).await;
    let mut broken = manifests("prod", 1, 1);
    broken.control_plane[0]["spec"]["providerSpec"]["value"]["createError"] = "CreateError".into();
    let error = world.create(&broken, false).await.err().unwrap();
    assert_eq!(
        error.to_string(),
        "Machine prod-0 is stalled: CreateError: the configuration asks for this failure"
    );
    // And one that takes too long ends at its timeout, with what is missing.
    let mut silent = manifests("prod", 1, 1);
    silent.control_plane[0]["spec"]["providerSpec"]["value"]["neverJoins"] = true.into();
    let management = world.management("management").await;
    let controllers = management.start_controllers();
    let created = create(&management, &silent, &CreateOptions::new(Duration::from_secs(60))).await;
    assert!(matches!(created, Err(Error::TimedOut { .. })), "{created:?}");
    controllers.stop().await;
}

/// Lost status: everything is rebuilt, and the hosts are claimed again.
#[tokio::test(start_paused = true)]
async fn a_status_that_was_lost_is_rebuilt() {
    let world = World::start(&["prod"]).await;
    let controllers = world.create(&manifests("prod", 1, 2), false).await.unwrap();
    controllers.stop().await;
    let before = world.hosts();
    let client = world.servers.get("management").client();
    for kind in ["Cluster", "Machine", "MachineSet", "MachineDeployment"] {
        let objects = api(&client, kind, "default");
        for name in world.names("management", kind).await {
            let mut object = objects.get(&name).await.unwrap();
            object.data["status"] = json!({});
            objects.replace_status(&name, &Default::default(), &object).await.unwrap();
        }
    }
    let controllers = world.management("management").await.start_controllers();
    world.pass(400).await;
    assert_eq!(world.hosts(), before, "no host was touched");
    for kind in ["Cluster", "Machine", "MachineSet", "MachineDeployment"] {
        for object in world.list("management", kind).await {
            assert!(is_ready(&object), "{object:#}");
        }
    }
    controllers.stop().await;
}
