//! Verdicts: upstream's kstatus, polled at every revision, never sees a false Current during a rollout; and reaches Current at its end.

use std::collections::BTreeMap;

use kstatus::{Options, Profile, Status};
use serde_json::{Value, json};
use settled_machines::simulated::Latency;

use crate::harness::{API, World, deployment, machine, template_kubelet};

type State = BTreeMap<(String, String), Value>;

/// A reader that polls at every revision.
#[derive(Default)]
struct Polled {
    revision: u64,
    objects: State,
    currents: usize,
    evaluated: usize,
    writes: usize,
}

impl Polled {
    /// Lets time pass, and looks at each state in between. The server remembers its writes for some minutes only.
    async fn pass(&mut self, world: &World, seconds: u64) {
        for _ in 0..seconds.div_ceil(30) {
            world.pass(30).await;
            for change in world.server.changes_after(self.revision).expect("the history") {
                self.revision = change.revision;
                let key = (change.resource.clone(), change.name.clone());
                match change.object {
                    Some(object) => self.objects.insert(key, object),
                    None => self.objects.remove(&key),
                };
                self.writes += 1;
                self.evaluate();
            }
        }
    }

    fn evaluate(&mut self) {
        for object in self.objects.values().filter(|object| object["apiVersion"] == API) {
            self.evaluated += 1;
            if verdict(object) == Status::Current {
                self.currents += 1;
                assert!(
                    is_true(object, &self.objects),
                    "false Current at revision {}: {object:#}",
                    self.revision
                );
            }
        }
    }
}

fn verdict(object: &Value) -> Status {
    let now = "2026-11-24T12:00:00Z".parse().expect("a time");
    let options = Options { profile: Profile::Kstatus, ..Options::new(now) };
    kstatus::compute_value(object, &options).status
}

fn is_running(machine: &Value) -> bool {
    let running = &machine["status"]["versions"];
    let wanted = &machine["spec"]["versions"];
    let is_ready = machine["status"]["conditions"].as_array().into_iter().flatten().any(|condition| {
        condition["type"] == "Ready"
            && condition["status"] == "True"
            && condition["observedGeneration"] == machine["metadata"]["generation"]
    });
    is_ready && running["kubelet"] == wanted["kubelet"] && machine["metadata"]["deletionTimestamp"].is_null()
}

/// What must hold whenever an object is Current.
fn is_true(object: &Value, state: &State) -> bool {
    let machines = || state.iter().filter(|((kind, _), _)| kind == "machines").map(|(_, machine)| machine);
    match object["kind"].as_str() {
        Some("Machine") => is_running(object),
        Some("MachineDeployment") => {
            let is_updated = |machine: &&Value| {
                is_running(machine)
                    && machine["spec"]["versions"] == object["spec"]["template"]["spec"]["versions"]
            };
            let own = || {
                machines().filter(|machine| {
                    machine["metadata"]["labels"]["app"] == "web"
                        && machine["metadata"]["deletionTimestamp"].is_null()
                })
            };
            let count = own().filter(is_updated).count();
            json!(count) == object["spec"]["replicas"] && own().count() == count
        }
        Some("MachineSet") => {
            let own = machines().filter(|machine| {
                machine["metadata"]["ownerReferences"][0]["uid"] == object["metadata"]["uid"]
            });
            json!(own.filter(|machine| machine["metadata"]["deletionTimestamp"].is_null()).count())
                == object["spec"]["replicas"]
        }
        Some("Cluster") => {
            machines().filter(|machine| machine["metadata"]["deletionTimestamp"].is_null()).all(|machine| {
                machine["spec"]["clusterName"].is_null() || machine["status"]["nodeRef"].is_object()
            })
        }
        _ => true,
    }
}

async fn rollout(strategy: Value) {
    let world = World::start(Latency::CLOUD).await;
    let mut polled = Polled::default();
    world.create(json!({
        "apiVersion": API, "kind": "Cluster", "metadata": {"name": "prod", "namespace": "default"},
        "spec": {"clusterNetwork": {"services": {"cidrBlocks": ["10.96.0.0/12"]}, "pods": {"cidrBlocks": ["10.244.0.0/16"]}, "serviceDomain": "cluster.local"}},
    })).await;
    let mut control_plane = machine("prod-0", "v1.36.0");
    control_plane["spec"]["versions"]["controlPlane"] = "v1.36.0".into();
    control_plane["spec"]["clusterName"] = "prod".into();
    world.create(control_plane).await;
    let mut workers = deployment(3, strategy.clone());
    workers["spec"]["template"]["spec"]["clusterName"] = "prod".into();
    world.create(workers).await;
    polled.pass(&world, 120).await;
    world.patch("MachineDeployment", "web", template_kubelet("v1.37.0")).await;
    polled.pass(&world, 400).await;
    world.patch("MachineDeployment", "web", template_kubelet("v1.36.0")).await;
    polled.pass(&world, 400).await;
    let Polled { objects, currents, evaluated, writes, .. } = polled;
    assert!(
        writes > 100 && currents > 50 && currents < evaluated,
        "{currents} of {evaluated} at {writes} writes"
    );
    for ((_, name), object) in objects.iter().filter(|(_, object)| object["apiVersion"] == API) {
        assert_eq!(verdict(object), Status::Current, "{strategy}: {name}: {object:#}");
    }
}

#[tokio::test(start_paused = true)]
async fn no_rolling_update_is_current_too_early() {
    rollout(json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}})).await;
}

#[tokio::test(start_paused = true)]
async fn no_update_of_machines_is_current_too_early() {
    rollout(json!({"type": "UpdateMachines", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}})).await;
}
