//! Fault scenarios of the Pod resize example, and their checks.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use settled_controller::Clock;
use settled_controller::decision::Permit;
use settled_controller::faults::{
    Context, ExploreError, External, Fault, Options, Report, Scenario, World, explore,
};

#[path = "controller.rs"]
pub mod controller;

use controller::{Cpu, Error, IN_PROGRESS, PENDING, Runtime};

/// Capacity of the node in millicores.
const CAPACITY: u64 = 2000;

/// Millicores of the container of each Pod, by the Pod's UID. Containers end with their Pods.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Containers(BTreeMap<String, u64>);

impl World for Containers {}

impl Runtime for External<Containers> {
    async fn resize(&self, permit: &Permit, cpu: &Cpu) -> Result<(), Error> {
        let uid = permit.key().as_str().strip_prefix("resize-").unwrap_or_default().to_owned();
        let total = cpu.values().sum();
        let action = format!("resize {uid} to {total}m");
        let resized = self
            .call(&action, move |containers| {
                containers.0.insert(uid, total);
            })
            .await;
        resized.map_err(|lost| Error::Runtime(lost.to_string()))
    }
}

async fn start(context: Context<Containers>) {
    let (clock, never) = (Clock::from(&context), std::future::pending());
    controller::run(context.client(), context.external(), "n1", CAPACITY, clock, never).await;
}

/// The container of a Pod that requests so much.
fn container(cpu: &str) -> Value {
    json!([{"name": "app", "image": "app", "resources": {"requests": {"cpu": cpu}}}])
}

/// A Pod that runs, as the kubelet reports it. It ends at once when it is deleted.
fn pod(name: &str, cpu: &str) -> Value {
    let status = json!({"name": "app", "image": "app", "imageID": "", "ready": true, "restartCount": 0});
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "nodeName": "n1", "automountServiceAccountToken": false, "terminationGracePeriodSeconds": 0,
            "containers": container(cpu),
        },
        "status": {"phase": "Running", "containerStatuses": [status]},
    })
}

/// Millicores of a quantity in canonical form.
fn millis(quantity: Option<&Value>) -> Option<u64> {
    let text = quantity?.as_str()?;
    match text.strip_suffix('m') {
        Some(millis) => millis.parse().ok(),
        None => text.parse::<u64>().ok().map(|processors| processors * 1000),
    }
}

fn allocated(pod: &Value) -> Option<u64> {
    millis(pod.pointer("/status/containerStatuses/0/allocatedResources/cpu"))
}

fn actual(pod: &Value) -> Option<u64> {
    millis(pod.pointer("/status/containerStatuses/0/resources/requests/cpu"))
}

fn condition<'p>(pod: &'p Value, name: &str) -> Option<&'p Value> {
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array)?;
    conditions.iter().find(|condition| condition["type"] == name)
}

fn is_finished(pod: &Value) -> bool {
    pod.pointer("/status/phase").is_some_and(|phase| phase == "Succeeded")
}

fn checked(name: &str) -> Scenario<Containers> {
    Scenario::with_world(name, Containers::default())
        .order("the acceptance comes before the resize", |before, view| {
            let mut new = view.world().0.iter().filter(|(uid, cpu)| before.0.get(*uid) != Some(*cpu));
            new.try_for_each(|(uid, cpu)| {
                let pod = view.objects("Pod").find(|pod| pod["metadata"]["uid"] == uid.as_str());
                // The containers of a deleted Pod have ended.
                let accepted = pod.map(allocated);
                if accepted.is_none_or(|accepted| accepted == Some(*cpu)) {
                    Ok(())
                } else {
                    Err(format!("{cpu}m, where {accepted:?} is accepted"))
                }
            })
        })
        .invariant("the node gives no more than it has", |view| {
            let running = view.objects("Pod").filter(|pod| !is_finished(pod));
            let total: u64 = running.filter_map(allocated).sum();
            if total <= CAPACITY { Ok(()) } else { Err(format!("{total}m of {CAPACITY}m")) }
        })
        .invariant("what status shows is what the container has", |view| {
            view.objects("Pod").filter(|pod| !is_finished(pod)).try_for_each(|pod| {
                let has = pod["metadata"]["uid"].as_str().and_then(|uid| view.world().0.get(uid)).copied();
                // During a resize, status has the old value.
                let shown = actual(pod).filter(|_| condition(pod, IN_PROGRESS).is_none());
                if shown.is_none() || shown == has { Ok(()) } else { Err(format!("{shown:?} for {has:?}")) }
            })
        })
        .finally("each Pod has an answer, and what was accepted", |view| {
            view.objects("Pod").filter(|pod| !is_finished(pod)).try_for_each(answered)
        })
}

fn answered(pod: &Value) -> Result<(), String> {
    let name = &pod["metadata"]["name"];
    if let Some(progress) = condition(pod, IN_PROGRESS) {
        return Err(format!("{name}: {progress}"));
    }
    if allocated(pod) != actual(pod) {
        return Err(format!("{name}: {:?} is allocated, {:?} is real", allocated(pod), actual(pod)));
    }
    let wanted = millis(pod.pointer("/spec/containers/0/resources/requests/cpu"));
    let pending = condition(pod, PENDING).map(|pending| &pending["observedGeneration"]);
    match pending {
        None if allocated(pod) == wanted => Ok(()),
        Some(generation) if *generation == pod["metadata"]["generation"] => Ok(()),
        pending => Err(format!("{name}: wants {wanted:?}, has {:?}, pending {pending:?}", allocated(pod))),
    }
}

const POD: (&str, &str) = ("v1", "Pod");

fn resize(scenario: Scenario<Containers>, name: &str, cpu: &str) -> Scenario<Containers> {
    scenario.patch_subresource(POD.0, POD.1, name, "resize", json!({"spec": {"containers": container(cpu)}}))
}

/// A Pod that asks for what never fits, for more, and for less; it is deleted.
fn resized() -> Scenario<Containers> {
    let name = "default/a";
    let mut scenario = checked("pod-resize: requests").object(pod("a", "5"));
    for cpu in ["800m", "300m"] {
        scenario = resize(scenario, name, cpu);
    }
    scenario.delete(POD.0, POD.1, name)
}

/// A Pod that asks for what never fits, and for what it has again.
fn kept() -> Scenario<Containers> {
    let name = "default/a";
    let scenario = resize(checked("pod-resize: last good size").object(pod("a", "500m")), name, "5");
    resize(scenario, name, "500m").delete(POD.0, POD.1, name)
}

/// Explores all of it. Several Pods that wait at once are no scenario: kube's scheduler hands them out in the order of a hash map, so that
/// a schedule does not have the same writes each time.
pub fn explore_all(options: &Options) -> Result<Vec<Report>, ExploreError> {
    // First come, first served, and a refused Pod keeps its last good size: the result depends on the order of edits.
    let in_order = options.clone().without(Fault::Edit);
    Ok(vec![explore(start, &resized(), options)?, explore(start, &kept(), &in_order)?])
}
