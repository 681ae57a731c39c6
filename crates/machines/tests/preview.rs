//! Plans before anything is touched: they say what happens then, for each outcome and strategy.

use serde_json::{Value, json};
use settled_machines::inventory::{Id, Inventory, Kind};
use settled_machines::live;
use settled_machines::preview::{Decision, PlanFile, Preview, preview};
use settled_machines::simulated::Latency;

use crate::harness::{World, deployment, machine, set};

async fn read(world: &World) -> Inventory {
    live::read(&world.client, None).await.expect("the objects")
}

/// The plan of a merge patch on one object, and the inventory before.
async fn plan(world: &World, kind: Kind, name: &str, patch: Value) -> (Inventory, Preview) {
    let before = read(world).await;
    let mut after = before.clone();
    let id = Id::new(kind, "default", name);
    let patched = settled_patch::merge_patch(before.get(&id).expect("it exists"), &patch).expect("a patch");
    after.insert(id, patched);
    let preview = preview(&before, &after, &world.registry()).expect("a plan");
    (before, preview)
}

fn rows(preview: &Preview) -> Vec<(String, &'static str, String)> {
    let row = |row: &settled_machines::preview::MachineDecision| {
        (row.name.clone(), row.decision.as_str(), row.reason.clone())
    };
    preview.machines.iter().map(row).collect()
}

fn names(preview: &Preview, decision: &str) -> Vec<String> {
    let rows = preview.machines.iter().filter(|row| row.decision.as_str() == decision);
    rows.map(|row| row.name.clone()).collect()
}

/// Ids of hosts by Node.
fn hosts(world: &World) -> Vec<(String, String)> {
    world
        .cloud
        .edit(|cloud| cloud.hosts.values().map(|host| (host.node_name.clone(), host.id.clone())).collect())
}

#[tokio::test(start_paused = true)]
async fn each_outcome_is_planned_and_then_happens() {
    let world = World::start(Latency::CLOUD).await;
    for name in ["noop", "kubelet", "image", "runtime"] {
        let mut machine = machine(name, "v1.36.0");
        machine["spec"]["versions"]["containerRuntime"] = json!({"name": "containerd", "version": "2.1.0"});
        world.create(machine).await;
    }
    world.pass(120).await;
    let before = hosts(&world);
    let kubelet = json!({"spec": {"versions": {"kubelet": "v1.37.0"}}});
    let image = json!({"spec": {"providerSpec": {"value": {"image": "debian-13"}}}});
    let runtime = json!({"spec": {"versions": {"containerRuntime": {"name": "cri-o"}}}});
    for (name, patch, expected) in [
        ("kubelet", &kubelet, ("InPlace", "kubelet v1.37.0")),
        ("image", &image, ("Replace", "image changes from debian-12 to debian-13")),
        (
            "runtime",
            &runtime,
            ("Unsupported", "the container runtime cannot change from containerd to cri-o"),
        ),
    ] {
        let (_, preview) = plan(&world, Kind::Machine, name, patch.clone()).await;
        let row = rows(&preview).into_iter().find(|row| row.0 == name).expect("a row");
        assert_eq!((row.1, row.2.as_str()), expected);
        assert_eq!(preview.count("NoOp"), 3);
        world.patch("Machine", name, patch.clone()).await;
    }
    let (_, gone) = {
        let before = read(&world).await;
        let mut after = before.clone();
        after.remove(&Id::new(Kind::Machine, "default", "noop"));
        (before.clone(), preview(&before, &after, &world.registry()).expect("a plan"))
    };
    assert_eq!(names(&gone, "Delete"), ["noop"]);
    world.pass(120).await;
    let after = hosts(&world);
    let id = |hosts: &[(String, String)], name: &str| {
        hosts.iter().find(|(node, _)| node == name).map(|(_, id)| id.clone())
    };
    assert_eq!(id(&before, "kubelet"), id(&after, "kubelet"), "in place");
    assert_ne!(id(&before, "image"), id(&after, "image"), "replaced");
    assert_eq!(id(&before, "runtime"), id(&after, "runtime"), "left alone");
    let stalled = world.get("Machine", "runtime").await.expect("there");
    assert_eq!(stalled["status"]["errorReason"], "UnsupportedChange");
    // With everything done, there is nothing to plan but what is stalled.
    let now = read(&world).await;
    let settled = preview(&now, &now, &world.registry()).expect("a plan");
    assert_eq!((settled.count("NoOp"), settled.count("Unsupported")), (3, 1));
    // So does what is changed behind the controllers' backs, as soon as they have observed it.
    world
        .cloud
        .edit(|cloud| cloud.hosts.values_mut().for_each(|host| host.versions.kubelet = "v1.0.0".to_owned()));
    let mut drifted = read(&world).await;
    let id = Id::new(Kind::Machine, "default", "noop");
    let mut observed = drifted.get(&id).expect("there").clone();
    observed["status"]["versions"]["kubelet"] = "v1.0.0".into();
    drifted.insert(id, observed);
    let drift = preview(&drifted, &drifted, &world.registry()).expect("a plan");
    assert_eq!(names(&drift, "InPlace"), ["noop"]);
}

#[tokio::test(start_paused = true)]
async fn a_rolling_update_creates_and_deletes_what_was_planned() {
    let world = World::start(Latency::ZERO).await;
    world
        .create(deployment(
            3,
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}),
        ))
        .await;
    world.pass(60).await;
    let old = world.hosts();
    let patch = json!({"spec": {"replicas": 4, "template": {"spec": {"versions": {"kubelet": "v1.37.0"}}}}});
    let (_, plan) = plan(&world, Kind::MachineDeployment, "web", patch.clone()).await;
    assert_eq!(names(&plan, "Delete"), old);
    world.patch("MachineDeployment", "web", patch).await;
    world.pass(300).await;
    assert_eq!(names(&plan, "Create"), world.hosts());
    assert_eq!(plan.machines.len(), 7);
}

#[tokio::test(start_paused = true)]
async fn groups_are_planned_by_their_strategies_and_sizes() {
    let world = World::start(Latency::ZERO).await;
    world.create(deployment(3, json!({"type": "UpdateMachines"}))).await;
    let mut other = set(3);
    other["metadata"]["name"] = "other".into();
    other["spec"]["selector"]["matchLabels"]["app"] = "other".into();
    other["spec"]["template"]["metadata"]["labels"]["app"] = "other".into();
    world.create(other).await;
    world.pass(60).await;
    let kubelet = json!({"spec": {"template": {"spec": {"versions": {"kubelet": "v1.36.1"}}}}});
    let (_, in_place) = plan(&world, Kind::MachineDeployment, "web", kubelet.clone()).await;
    assert_eq!((in_place.count("InPlace"), in_place.count("NoOp")), (3, 3));
    assert!(in_place.machines.iter().any(|row| row.decision
        == Decision::InPlace {
            steps: vec![settled_machines::provider::Step::new("kubelet", "v1.36.1")],
            disruptive: false,
        }));
    let (_, on_delete) = plan(&world, Kind::MachineDeployment, "web", json!({"spec": {"strategy": {"type": "OnDelete"}, "template": {"spec": {"versions": {"kubelet": "v1.36.1"}}}}})).await;
    assert_eq!(on_delete.count("NoOp"), 6);
    assert!(rows(&on_delete).iter().any(|row| row.2 == "replaced when a user deletes it"));
    let (_, paused) = plan(
        &world,
        Kind::MachineDeployment,
        "web",
        json!({"spec": {"paused": true, "template": {"spec": {"versions": {"kubelet": "v1.36.1"}}}}}),
    )
    .await;
    assert_eq!(paused.count("NoOp"), 6);
    // A template of a MachineSet changes only new Machines.
    let (_, template) = plan(&world, Kind::MachineSet, "other", kubelet).await;
    assert_eq!(template.count("NoOp"), 6);
    let (_, smaller) = plan(&world, Kind::MachineSet, "other", json!({"spec": {"replicas": 1}})).await;
    assert_eq!(names(&smaller, "Delete"), ["other-1", "other-2"]);
    let (_, larger) = plan(&world, Kind::MachineSet, "other", json!({"spec": {"replicas": 5}})).await;
    assert_eq!(names(&larger, "Create"), ["other-3", "other-4"]);
    let (_, invalid) = plan(&world, Kind::MachineSet, "other", json!({"spec": {"replicas": 3}})).await;
    assert!(invalid.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_plan_for_another_world_is_noticed() {
    let world = World::start(Latency::ZERO).await;
    world.create(deployment(2, json!({"type": "UpdateMachines"}))).await;
    world.pass(60).await;
    let patch = json!({"spec": {"template": {"spec": {"versions": {"kubelet": "v1.36.1"}}}}});
    let (before, made) = plan(&world, Kind::MachineDeployment, "web", patch.clone()).await;
    let file = PlanFile::new(&before, Vec::new(), &made, "default");
    let file = PlanFile::parse(&serde_json::to_vec(&file).expect("JSON")).expect("a plan");
    let changes = async || {
        let (now, again) = plan(&world, Kind::MachineDeployment, "web", patch.clone()).await;
        file.changes(&now, &again)
            .into_iter()
            .map(|change| format!("{} {}", change.object, change.change))
            .collect::<Vec<_>>()
    };
    // Heartbeats and time are no change.
    world.pass(600).await;
    assert_eq!(changes().await, Vec::<String>::new());
    // The world that a plan was made for is another one with a user's change, with a new object, and with other hosts.
    world.patch("MachineDeployment", "web", json!({"spec": {"minReadySeconds": 1}})).await;
    assert_eq!(changes().await, ["MachineDeployment default/web was changed: generation 1 is 2 now"]);
    world.create(machine("other", "v1.36.0")).await;
    assert!(changes().await.iter().any(|change| change == "Machine default/other is new"));
    let name = world.hosts().into_iter().find(|name| name != "other").expect("a host");
    world.delete("Machine", &name).await;
    world.pass(60).await;
    assert!(
        changes().await.iter().any(|change| change.contains("was deleted and created again")),
        "{:?}",
        changes().await
    );
    assert!(PlanFile::parse(b"{}").is_err());
}
