//! Exports and adoption: an export that is applied to an empty server finds its hosts, and nothing is created or deleted.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use settled_machines::convert::{AdoptOptions, adopt, export, restorable};
use settled_machines::inventory::{Inventory, Kind};
use settled_machines::live;
use settled_machines::simulated::Latency;

use crate::harness::{API, World, condition, config, deployment, is_ready, machine, set};

fn ids(world: &World) -> BTreeMap<String, (String, u32)> {
    world.cloud.edit(|cloud| {
        cloud.hosts.iter().map(|(key, host)| (key.clone(), (host.id.clone(), host.steps))).collect()
    })
}

#[tokio::test(start_paused = true)]
async fn an_export_that_is_restored_is_a_no_op_on_the_same_hosts() {
    let mut world = World::start(Latency::ZERO).await;
    world.create(json!({
        "apiVersion": API, "kind": "Cluster", "metadata": {"name": "prod", "namespace": "default"},
        "spec": {"clusterNetwork": {"services": {"cidrBlocks": ["10.96.0.0/12"]}, "pods": {"cidrBlocks": ["10.244.0.0/16"]}, "serviceDomain": "cluster.local"}},
    })).await;
    let mut control_plane = machine("prod-0", "v1.36.0");
    control_plane["spec"]["versions"]["controlPlane"] = "v1.36.0".into();
    control_plane["spec"]["clusterName"] = "prod".into();
    world.create(control_plane).await;
    let mut workers = deployment(3, json!({"type": "RollingUpdate"}));
    workers["spec"]["template"]["spec"]["clusterName"] = "prod".into();
    world.create(workers).await;
    world.create(machine("alone", "v1.36.0")).await;
    world.pass(120).await;
    let hosts = ids(&world);
    assert_eq!(hosts.len(), 5);
    let before = live::read(&world.client, None).await.expect("the objects");
    let exported = export(&before);
    assert!(exported.deleting.is_empty() && exported.objects.iter().all(restorable));
    // As a file, and back.
    let text = json!(exported.objects).to_string();
    let objects: Vec<Value> = serde_json::from_str(&text).expect("JSON");

    world = world.wiped().await;
    let inventory = Inventory::new(objects, "default");
    let restored = live::restore(&world.client, &inventory).await.expect("restored");
    assert_eq!(restored.len(), inventory.len());
    world.restart();
    for _ in 0..60 {
        world.pass(10).await;
        assert_eq!(ids(&world), hosts, "a host was created, deleted or updated");
    }
    let after = live::read(&world.client, None).await.expect("the objects");
    for (id, object) in before.iter() {
        let now = after.get(id).unwrap_or_else(|| unreachable!("{id} is gone"));
        assert_eq!(now["spec"], object["spec"], "{id}");
        assert_eq!(now["metadata"].get("annotations"), object["metadata"].get("annotations"), "{id}");
        assert!(is_ready(now), "{id}: {}", now["status"]);
    }
    assert_eq!(after.len(), before.len());
    // Owners are those of the new server, so that groups go on with their Machines.
    let uid = |kind: Kind, name: &str| {
        let found = after.of_kind(kind).find(|(id, _)| id.name.starts_with(name)).expect("there");
        found.1["metadata"]["uid"].clone()
    };
    let worker =
        after.of_kind(Kind::Machine).find(|(id, _)| id.name.starts_with("web-")).expect("a worker").1;
    assert_eq!(worker["metadata"]["ownerReferences"][0]["uid"], uid(Kind::MachineSet, "web"));
    // They are still the controllers': changes reach the hosts, deletions release them.
    world.patch("Machine", "alone", json!({"spec": {"versions": {"kubelet": "v1.36.1"}}})).await;
    world.delete("MachineDeployment", "web").await;
    world.pass(120).await;
    let left = ids(&world);
    assert_eq!(left.len(), 2);
    assert!(left.values().any(|(_, steps)| *steps == 1) && left.keys().all(|key| hosts.contains_key(key)));
}

#[tokio::test(start_paused = true)]
async fn a_restoration_that_was_interrupted_goes_on() {
    let mut world = World::start(Latency::ZERO).await;
    world.create(set(3)).await;
    world.pass(60).await;
    let hosts = ids(&world);
    let exported = export(&live::read(&world.client, None).await.expect("the objects")).objects;
    world = world.wiped().await;
    let all = Inventory::new(exported.clone(), "default");
    // Interrupted: the set and one Machine are there, paused and without owner references.
    let (id, object) = all.of_kind(Kind::Machine).next().expect("a Machine");
    let mut paused = object.clone();
    paused["metadata"]["annotations"] = json!({"cluster.settled.dev/paused": "restoring"});
    for field in ["uid", "ownerReferences"] {
        paused["metadata"].as_object_mut().expect("a map").remove(field);
    }
    paused.as_object_mut().expect("a map").remove("status");
    live::create(&world.client, id, &paused).await.expect("created");
    world.restart();
    world.pass(20).await;
    assert_eq!(ids(&world), hosts, "what is being restored is left alone");
    live::restore(&world.client, &all).await.expect("restored");
    world.pass(120).await;
    assert_eq!(ids(&world), hosts);
    // Once more: nothing is left to do.
    assert!(live::restore(&world.client, &all).await.expect("restored").is_empty());
}

#[tokio::test(start_paused = true)]
async fn machines_are_adopted_with_their_hosts() {
    let mut world = World::start(Latency::ZERO).await;
    world.create(machine("a", "v1.36.0")).await;
    world.create(machine("b", "v1.36.0")).await;
    world.pass(60).await;
    let hosts = ids(&world);
    // The Machines are lost with their server, the Nodes and hosts are not.
    let nodes = live::nodes(&world.client).await.expect("the Nodes");
    world = world.wiped().await;
    let options =
        AdoptOptions { namespace: "default".to_owned(), cluster: None, provider_spec: config("debian-12") };
    let adopted = adopt(&nodes, &Inventory::default(), &options);
    assert_eq!(adopted.machines.len(), 2);
    for machine in &adopted.machines {
        world.create(machine.clone()).await;
    }
    world.restart();
    world.pass(20).await;
    assert_eq!(ids(&world), hosts, "paused");
    for name in ["a", "b"] {
        world
            .patch(
                "Machine",
                name,
                json!({"metadata": {"annotations": {"cluster.settled.dev/paused": null}}}),
            )
            .await;
    }
    world.pass(120).await;
    assert_eq!(ids(&world), hosts, "the hosts were found by their provider IDs");
    assert!(is_ready(&world.get("Machine", "a").await.expect("there")));
    // A host that another Machine has, or that does not exist, is refused; none is created in its place.
    for (name, id) in
        [("thief", adopted.machines[0]["spec"]["providerID"].clone()), ("nobody", json!("simulated://x/99"))]
    {
        let mut thief = machine(name, "v1.36.0");
        thief["spec"]["providerID"] = id;
        world.create(thief).await;
        world.pass(60).await;
        let refused = world.get("Machine", name).await.expect("there");
        assert_eq!(condition(&refused, "Stalled"), ("True".into(), "InvalidConfiguration".into()));
        world.delete("Machine", name).await;
    }
    world.pass(60).await;
    assert_eq!(ids(&world), hosts);
    world.delete("Machine", "a").await;
    world.pass(60).await;
    assert_eq!(ids(&world).len(), 1, "it is released as any other");
}

#[tokio::test(start_paused = true)]
async fn sets_adopt_machines_without_an_owner_and_release_others() {
    let world = World::start(Latency::ZERO).await;
    let mut orphan = machine("orphan", "v1.36.0");
    orphan["metadata"]["labels"] = json!({"app": "web"});
    world.create(orphan).await;
    world.create(machine("stranger", "v1.36.0")).await;
    world.create(set(3)).await;
    world.pass(60).await;
    assert_eq!(world.hosts(), ["orphan", "stranger", "web-0", "web-1"], "one of three is the orphan");
    let owner = |machine: &Value| {
        machine["metadata"]["ownerReferences"][0]["name"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(owner(&world.get("Machine", "orphan").await.expect("there")), "web");
    assert_eq!(owner(&world.get("Machine", "stranger").await.expect("there")), "");
    // One that is not selected any more is released, and keeps its host; another one is created.
    world.patch("Machine", "web-0", json!({"metadata": {"labels": {"app": "debug"}}})).await;
    world.pass(60).await;
    assert_eq!(owner(&world.get("Machine", "web-0").await.expect("there")), "");
    assert_eq!(world.hosts(), ["orphan", "stranger", "web-0", "web-1", "web-2"]);
    // An orphan that comes later makes one too many.
    let mut late = machine("late", "v1.36.0");
    late["metadata"]["labels"] = json!({"app": "web"});
    world.create(late).await;
    world.pass(60).await;
    let set = world.get("MachineSet", "web").await.expect("there");
    assert_eq!((&set["status"]["replicas"], is_ready(&set)), (&json!(3), true));
}
