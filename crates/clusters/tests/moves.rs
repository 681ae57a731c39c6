//! Moves: status included, hosts not touched, one owner at any time, continued from any interruption.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kube::Client;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use settled_apiserver::{Fork, Server};
use settled_clusters::kinds::api;
use settled_clusters::{Error, Ledger, Management, check_move, move_cluster};
use settled_machines::simulated::Cloud;

use crate::world::{World, is_ready, manifests, server};

/// What is compared of an object: without what each server gives it.
fn content(mut object: Value) -> Value {
    let metadata = object["metadata"].as_object_mut().unwrap();
    for field in ["uid", "resourceVersion", "creationTimestamp", "managedFields", "generation"] {
        metadata.remove(field);
    }
    for owner in metadata.get_mut("ownerReferences").and_then(Value::as_array_mut).into_iter().flatten() {
        owner["uid"] = Value::Null;
    }
    let generations = |value: &mut Value| {
        if let Some(fields) = value.as_object_mut() {
            fields.remove("observedGeneration");
        }
    };
    if let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove("cluster.settled.dev/host-uid");
    }
    if object
        .pointer("/metadata/annotations")
        .is_some_and(|all| all.as_object().is_some_and(serde_json::Map::is_empty))
    {
        object["metadata"].as_object_mut().unwrap().remove("annotations");
    }
    object.get_mut("status").map(generations);
    for condition in
        object.pointer_mut("/status/conditions").and_then(Value::as_array_mut).into_iter().flatten()
    {
        generations(condition);
    }
    object
}

const KINDS: [&str; 7] =
    ["Cluster", "MachineClass", "Secret", "MachineDeployment", "MachineSet", "Machine", "MachineHealthCheck"];

async fn contents(world: &World, server: &str) -> Vec<Value> {
    let mut all = Vec::new();
    for kind in KINDS {
        all.extend(world.list(server, kind).await.into_iter().map(content));
    }
    all
}

/// Row S3, and `--pivot`: everything is in the cluster, with its status, and goes on there.
#[tokio::test(start_paused = true)]
async fn a_pivot_moves_everything_with_its_status() {
    let world = World::start(&["prod"]).await;
    let controllers = world.create(&manifests("prod", 1, 3), true).await.unwrap();
    let hosts = world.hosts();
    assert_eq!(hosts.len(), 4);
    assert_eq!(contents(&world, "management").await, Vec::<Value>::new());
    let machine = world.get("prod", "Machine", "prod-0").await;
    assert!(machine["status"]["provisioningSince"].is_string(), "the status came along: {machine:#}");
    assert!(is_ready(&world.get("prod", "Cluster", "prod").await));
    // The cluster scales itself, and the management leaves its hosts alone, though it finds no Machines for them.
    let inside = world.management("prod").await.start_controllers();
    let scale = Patch::Merge(json!({"spec": {"replicas": 4}}));
    let deployments = api(&world.servers.get("prod").client(), "MachineDeployment", "default");
    deployments.patch("prod-workers", &PatchParams::default(), &scale).await.unwrap();
    world.pass(600).await;
    let now = world.hosts();
    assert_eq!(now.len(), 5);
    assert!(hosts.iter().all(|(name, id)| now.get(name) == Some(id)), "{hosts:?} {now:?}");
    inside.stop().await;
    controllers.stop().await;
}

/// A pair of servers to move between: forks of what was created, and a ledger of their own.
struct Pair {
    source: Server,
    destination: Server,
    directory: tempfile::TempDir,
}

impl Pair {
    fn of(world: &World) -> Self {
        let clock = world.clock.clone();
        let fork = |name: &str, seed: u64| {
            let mut fork = Fork::default();
            let clock = clock.clone();
            fork.clock = Some(Arc::new(move || clock.now()));
            fork.seed = Some(seed);
            world.servers.get(name).fork(fork).unwrap()
        };
        let directory = tempfile::tempdir().unwrap();
        let ledger = Ledger::new(directory.path());
        for (key, owner) in world.ledger().all().unwrap() {
            ledger.assign(&key, &owner).unwrap();
        }
        Self { source: fork("management", 11), destination: fork("other", 12), directory }
    }

    async fn managements(
        &self,
        world: &World,
        source: Client,
        destination: Client,
    ) -> Result<(Management, Management), Error> {
        let mut options = world.options();
        options.ledger = Ledger::new(self.directory.path());
        Ok((Management::new(source, options.clone()).await?, Management::new(destination, options).await?))
    }
}

/// When a write fails.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    /// It does not arrive.
    Lost,
    /// It is performed, and its answer is lost.
    Unanswered,
}

/// A client whose write with this number, and all after it, fail.
fn faulty(inner: Client, count: Arc<AtomicUsize>, at: usize, fault: Fault) -> Client {
    Client::new(
        tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let (inner, count) = (inner.clone(), count.clone());
            async move {
                let lost = || Err(Box::<dyn std::error::Error + Send + Sync>::from("the process was killed"));
                // Definitions are not what is moved.
                let is_write = request.method() != http::Method::GET
                    && !request.uri().path().contains("customresourcedefinitions");
                if !is_write {
                    return inner.send(request).await.map_err(Into::into);
                }
                let number = count.fetch_add(1, Ordering::Relaxed);
                if number > at || number == at && fault == Fault::Lost {
                    return lost();
                }
                let answer = inner.send(request).await;
                if number == at { lost() } else { answer.map_err(Into::into) }
            }
        }),
        "default",
    )
}

/// A cluster on a management server, and an empty server to move it to.
async fn created() -> World {
    let world = World::start(&["prod"]).await;
    world.servers.add("other", server(&world.clock, 9).await);
    world.management("other").await;
    let controllers = world.create(&manifests("prod", 1, 2), false).await.unwrap();
    controllers.stop().await;
    world
}

/// The Clusters that somebody acts on: those that are not paused.
async fn acting(pair: &Pair) -> usize {
    let mut acting = 0;
    for server in [&pair.source, &pair.destination] {
        let cluster = api(&server.client(), "Cluster", "default").get_opt("prod").await.unwrap();
        let annotations = cluster.map(|cluster| cluster.metadata.annotations.unwrap_or_default());
        acting += usize::from(annotations.is_some_and(|all| !all.contains_key("cluster.settled.dev/paused")));
    }
    acting
}

/// A move that is interrupted at each write of each object, before and after it, is completed by the next attempt; meanwhile at most one server acts.
#[tokio::test(start_paused = true)]
async fn a_move_is_continued_from_any_interruption() {
    let world = created().await;
    let cloud: Cloud = world.cloud.edit(|cloud| cloud.clone());
    let expected = contents(&world, "management").await;
    // A share of the writes, or all of them.
    let step = if std::env::var_os("SETTLED_SCHEDULES").is_some() { 1 } else { 6 };
    let (mut at, mut seen) = (0, BTreeSet::new());
    loop {
        let mut is_interrupted = false;
        for fault in [Fault::Lost, Fault::Unanswered] {
            let pair = Pair::of(&world);
            let count = Arc::new(AtomicUsize::new(0));
            let client = |server: &Server| faulty(server.client(), count.clone(), at, fault);
            let (source, destination) =
                pair.managements(&world, client(&pair.source), client(&pair.destination)).await.unwrap();
            let first = move_cluster(&source, &destination, "default", "prod").await;
            is_interrupted |= first.is_err();
            seen.insert(first.is_err());
            assert!(acting(&pair).await <= 1, "write {at}, {fault:?}: two servers act");
            let (source, destination) =
                pair.managements(&world, pair.source.client(), pair.destination.client()).await.unwrap();
            let second = move_cluster(&source, &destination, "default", "prod").await;
            assert!(second.is_ok(), "write {at}, {fault:?}: {second:?}");
            world.servers.add("source-after", pair.source.clone());
            world.servers.add("destination-after", pair.destination.clone());
            assert_eq!(contents(&world, "destination-after").await, expected, "write {at}, {fault:?}");
            assert_eq!(contents(&world, "source-after").await, Vec::<Value>::new(), "write {at}, {fault:?}");
            let owners = Ledger::new(pair.directory.path()).all().unwrap();
            assert_eq!(owners.len(), 3);
            assert!(owners.iter().all(|(_, owner)| owner == destination.identity()), "{owners:?}");
        }
        if !is_interrupted {
            break;
        }
        at += step;
    }
    assert_eq!(seen.len(), 2);
    assert!(at > 20, "{at} writes");
    assert_eq!(world.cloud.edit(|cloud| cloud.clone()), cloud, "no host was touched");
}

/// What cannot be moved is refused before anything is changed.
#[tokio::test(start_paused = true)]
async fn what_cannot_be_moved_is_refused() {
    let world = created().await;
    let (source, other) = (world.management("management").await, world.management("other").await);
    assert_eq!(check_move(&source, &other, "default", "prod").await.unwrap().hosts, 3);
    let before = contents(&world, "management").await;
    // A destination whose provider does not have the hosts would make others.
    let mut options = World::start(&[]).await.options();
    options.ledger = world.ledger();
    let blind = Management::new(world.servers.client("other"), options).await.unwrap();
    let error = move_cluster(&source, &blind, "default", "prod").await.err().unwrap().to_string();
    assert!(error.contains("does not have its host"), "{error}");
    let error = move_cluster(&source, &source, "default", "prod").await.err().unwrap().to_string();
    assert!(error.contains("the same API server"), "{error}");
    let error = move_cluster(&source, &other, "default", "none").await.err().unwrap().to_string();
    assert_eq!(error, "Cluster none not found");
    // A Cluster of the same name.
    let foreign = json!({
        "apiVersion": "cluster.settled.dev/v1alpha1", "kind": "Cluster", "metadata": {"name": "prod"},
        "spec": {"clusterNetwork": {"services": {"cidrBlocks": ["10.96.0.0/12"]}, "pods": {"cidrBlocks": ["10.244.0.0/16"]}, "serviceDomain": "cluster.local"}},
    });
    let clusters = api(&other.client(), "Cluster", "default");
    clusters.create(&Default::default(), &serde_json::from_value(foreign).unwrap()).await.unwrap();
    let error = move_cluster(&source, &other, "default", "prod").await.err().unwrap().to_string();
    assert!(error.contains("another Cluster prod"), "{error}");
    assert_eq!(contents(&world, "management").await, before);
}

/// A move while somebody scales: the change is in the destination, or was made after the move.
#[tokio::test(start_paused = true)]
async fn a_change_during_a_move_is_not_lost() {
    let world = created().await;
    let (source, other) = (world.management("management").await, world.management("other").await);
    let controllers = source.start_controllers();
    let deployments = api(&source.client(), "MachineDeployment", "default");
    let scale = Patch::Merge(json!({"spec": {"replicas": 5}}));
    let scaling = async { deployments.patch("prod-workers", &PatchParams::default(), &scale).await };
    let (moved, _) = tokio::join!(move_cluster(&source, &other, "default", "prod"), scaling);
    moved.unwrap();
    controllers.stop().await;
    let there = world.get("other", "MachineDeployment", "prod-workers").await;
    assert_eq!(there["spec"]["replicas"], 5);
    let inside = other.start_controllers();
    world.pass(60).await;
    assert_eq!(world.names("other", "Machine").await.len(), 6);
    assert_eq!(world.hosts().len(), 6);
    inside.stop().await;
}
