//! Kubelets: what becomes of the Pods on a Node.

use std::time::Duration;

use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateRunning, ContainerStateWaiting, ContainerStatus, Pod, PodCondition,
    PodStatus,
};
use kube::runtime::events::EventType;
use settled_controller::ObjectKey;
use settled_controller::status::StatusWriter;
use settled_controller::worker::Next;

use crate::controller::{Context, Controller, Error, Shared};
use crate::informers::{AnyChange, Informers};
use crate::meta;

/// How long an image takes to pull, unless something else is said.
const PULL: Duration = Duration::from_secs(1);

/// All kubelets: those of simulated Nodes.
pub(crate) struct Kubelet {
    status: StatusWriter<Pod>,
}

impl Kubelet {
    pub(crate) fn new(shared: &Shared) -> Self {
        Self { status: Context::status_writer(&shared.client, &shared.clock, Self::NAME) }
    }
}

impl Controller for Kubelet {
    const NAME: &'static str = "kubelet";
    const WORKERS: usize = 16;

    fn wake(&self, change: &AnyChange, _: &Informers) -> Vec<ObjectKey> {
        match change {
            AnyChange::Pod(change)
                if change.new.as_deref().and_then(|pod| pod.spec.as_ref()?.node_name.as_ref()).is_some() =>
            {
                vec![change.key.clone()]
            }
            _ => Vec::new(),
        }
    }

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Next, Error> {
        let Some(pod) = context.informers.pods.get(key) else { return Ok(Next::AwaitChange) };
        if meta::is_deleting(&*pod) {
            context.delete_with(key, &*pod, Some(0)).await?;
            return Ok(Next::AwaitChange);
        }
        let Some(spec) = &pod.spec else { return Ok(Next::AwaitChange) };
        let now = context.now();
        let status = pod.status.clone().unwrap_or_default();
        let started = status.start_time.clone();
        let due = started.as_ref().map(|started| started.0.duration_until(now).unsigned_abs() >= PULL);
        let is_running = due == Some(true);
        if status.phase.as_deref() == Some("Running") {
            return Ok(Next::AwaitChange);
        }
        let condition = |type_: &str, met: bool| PodCondition {
            type_: type_.to_owned(),
            status: if met { "True" } else { "False" }.to_owned(),
            reason: (!met).then(|| "ContainersNotReady".to_owned()),
            last_transition_time: Some(meta::time(now)),
            observed_generation: pod.metadata.generation,
            ..PodCondition::default()
        };
        let state = |is_running: bool| ContainerState {
            running: is_running.then(|| ContainerStateRunning { started_at: Some(meta::time(now)) }),
            waiting: (!is_running).then(|| ContainerStateWaiting {
                reason: Some("ContainerCreating".to_owned()),
                ..ContainerStateWaiting::default()
            }),
            terminated: None,
        };
        let containers = spec.containers.iter().map(|container| ContainerStatus {
            name: container.name.clone(),
            image: container.image.clone().unwrap_or_default(),
            ready: is_running,
            started: Some(is_running),
            state: Some(state(is_running)),
            ..ContainerStatus::default()
        });
        let conditions = vec![
            condition("PodReadyToStartContainers", is_running),
            condition("Initialized", true),
            condition("Ready", is_running),
            condition("ContainersReady", is_running),
            condition("PodScheduled", true),
        ];
        let status = PodStatus {
            phase: Some(if is_running { "Running" } else { "Pending" }.to_owned()),
            conditions: Some(conditions),
            container_statuses: Some(containers.collect()),
            start_time: Some(started.unwrap_or_else(|| meta::time(now))),
            observed_generation: pod.metadata.generation,
            ..status
        };
        context.write_status(key, &self.status, &pod, &status).await?;
        if is_running {
            for container in &spec.containers {
                let note = format!("Started container {}", container.name);
                context.event(&*pod, EventType::Normal, "Started", "Started", note);
            }
            return Ok(Next::AwaitChange);
        }
        Ok(Next::RequeueAfter(PULL))
    }
}
