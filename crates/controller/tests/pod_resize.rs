//! KEP-2527's second example: in-place resize of Pods.

use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::{Pod, PodCondition};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt as _};
use serde_json::json;
use settled_apiserver::Server;
use settled_controller::Clock;
use settled_controller::decision::Permit;

use crate::harness::{Running, api, client_with_role, object, server, wait};

#[allow(dead_code, unreachable_pub, reason = "the example is a program of its own")]
#[path = "../examples/pod_resize/scenario.rs"]
pub(crate) mod scenario;

use scenario::controller::{self, Cpu, IN_PROGRESS, PENDING, Runtime};

/// Counts how often it resized which Pod, to how much in all.
#[derive(Clone, Debug, Default)]
struct Containers(Arc<Mutex<Vec<(String, u64)>>>);

impl Runtime for Containers {
    async fn resize(&self, permit: &Permit, cpu: &Cpu) -> Result<(), controller::Error> {
        self.0.lock().unwrap().push((permit.key().to_string(), cpu.values().sum()));
        Ok(())
    }
}

/// The agent of a node with two processors.
async fn start(server: &Server, containers: &Containers) -> Running {
    let client = client_with_role(server, include_str!("../examples/pod_resize/rbac.yaml")).await;
    let containers = containers.clone();
    Running::start(|stop| async move {
        controller::run(client, containers, "n1", 2000, Clock::system(), stop).await;
    })
}

async fn create(client: &Client, name: &str, cpu: &str) {
    let container = json!({"name": "app", "image": "app", "resources": {"requests": {"cpu": cpu}}});
    let pod = json!({"metadata": {"name": name}, "spec": {"nodeName": "n1", "containers": [container]}});
    api::<Pod>(client).create(&PostParams::default(), &object(pod)).await.unwrap();
    let status = json!({"name": "app", "image": "app", "imageID": "", "ready": true, "restartCount": 0});
    let patch = json!({"status": {"phase": "Running", "containerStatuses": [status]}});
    api::<Pod>(client).patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

async fn resize(client: &Client, name: &str, cpu: &str) {
    let containers = json!([{"name": "app", "resources": {"requests": {"cpu": cpu}}}]);
    let patch = json!({"spec": {"containers": containers}});
    let pods = api::<Pod>(client);
    pods.patch_subresource("resize", name, &PatchParams::default(), &Patch::Strategic(patch)).await.unwrap();
}

fn condition<'p>(pod: &'p Pod, name: &str) -> Option<&'p PodCondition> {
    pod.status.as_ref()?.conditions.as_ref()?.iter().find(|condition| condition.type_ == name)
}

/// Allocated and actual, as quantities.
fn cpu(pod: &Pod) -> Option<(&str, &str)> {
    let status = pod.status.as_ref()?.container_statuses.as_ref()?.first()?;
    let allocated = &status.allocated_resources.as_ref()?.get("cpu")?.0;
    Some((allocated, &status.resources.as_ref()?.requests.as_ref()?.get("cpu")?.0))
}

async fn settled_at(client: &Client, name: &str, wanted: &str) -> Pod {
    let done = |pod: &Pod| {
        cpu(pod) == Some((wanted, wanted))
            && condition(pod, IN_PROGRESS).is_none()
            && condition(pod, PENDING).is_none()
    };
    wait(api(client), name, done).await
}

async fn cluster() -> (Server, Client, Containers) {
    let server = server(&[]).await;
    let client = server.client();
    (server, client, Containers::default())
}

#[tokio::test]
async fn a_request_is_accepted_carried_out_and_reported() {
    let (server, client, containers) = cluster().await;
    let running = start(&server, &containers).await;
    create(&client, "a", "500m").await;
    let pod = settled_at(&client, "a", "500m").await;

    resize(&client, "a", "800m").await;
    let resized = settled_at(&client, "a", "800m").await;
    assert!(resized.metadata.generation > pod.metadata.generation);
    assert_eq!(resized.status.unwrap().observed_generation, resized.metadata.generation);
    running.stop().await;
    let key = format!("resize-{}", pod.uid().unwrap());
    assert_eq!(*containers.0.lock().unwrap(), [(key.clone(), 500), (key, 800)]);
}

#[tokio::test]
async fn what_never_fits_is_infeasible_and_what_does_not_fit_now_is_deferred() {
    let (server, client, containers) = cluster().await;
    let running = start(&server, &containers).await;
    create(&client, "a", "1500m").await;
    settled_at(&client, "a", "1500m").await;
    create(&client, "b", "400m").await;
    settled_at(&client, "b", "400m").await;

    resize(&client, "b", "3").await;
    let infeasible = |pod: &Pod| {
        condition(pod, PENDING).and_then(|condition| condition.reason.as_deref()) == Some("Infeasible")
    };
    let pod = wait(api(&client), "b", infeasible).await;
    // What it has stays.
    assert_eq!(cpu(&pod), Some(("400m", "400m")));

    resize(&client, "b", "1").await;
    let deferred = |pod: &Pod| {
        condition(pod, PENDING).and_then(|condition| condition.reason.as_deref()) == Some("Deferred")
    };
    let pod = wait(api(&client), "b", deferred).await;
    let pending = condition(&pod, PENDING).unwrap();
    assert_eq!(pending.message.as_deref(), Some("the node has 500m of cpu left, the Pod requests 1000m"));
    assert_eq!(pending.observed_generation, pod.metadata.generation);

    // The other Pod goes, and b asks again by itself.
    api::<Pod>(&client).delete("a", &DeleteParams::default().grace_period(0)).await.unwrap();
    resize(&client, "b", "1001m").await;
    settled_at(&client, "b", "1001m").await;
    running.stop().await;
}

#[tokio::test]
async fn a_crash_after_the_acceptance_carries_out_what_was_accepted() {
    let (server, client, containers) = cluster().await;
    create(&client, "a", "500m").await;
    // Accepted by an agent that is gone.
    let pod = api::<Pod>(&client).get("a").await.unwrap();
    let status = json!({"name": "app", "image": "app", "imageID": "", "ready": true, "restartCount": 0, "allocatedResources": {"cpu": "500m"}});
    let condition =
        json!({"type": IN_PROGRESS, "status": "True", "observedGeneration": pod.metadata.generation});
    let patch = json!({"status": {"observedGeneration": pod.metadata.generation, "conditions": [condition], "containerStatuses": [status]}});
    api::<Pod>(&client).patch_status("a", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();

    let running = start(&server, &containers).await;
    settled_at(&client, "a", "500m").await;
    running.stop().await;
    assert_eq!(containers.0.lock().unwrap().len(), 1);
}
