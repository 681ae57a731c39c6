//! ReplicaSets: as many Pods as asked for.

use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetStatus};
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::events::EventType;
use settled_controller::ObjectKey;
use settled_controller::status::StatusWriter;
use settled_controller::worker::Next;

use crate::controller::{Context, Controller, Error, Shared};
use crate::informers::{AnyChange, Informers};
use crate::meta;
use crate::pod;

/// The controller of ReplicaSets.
pub(crate) struct ReplicaSets {
    status: StatusWriter<ReplicaSet>,
}

impl ReplicaSets {
    pub(crate) fn new(shared: &Shared) -> Self {
        Self { status: Context::status_writer(&shared.client, &shared.clock, Self::NAME) }
    }
}

impl Controller for ReplicaSets {
    const NAME: &'static str = "replicaset-controller";
    const WORKERS: usize = 8;

    fn wake(&self, change: &AnyChange, _: &Informers) -> Vec<ObjectKey> {
        match change {
            AnyChange::ReplicaSet(change) => vec![change.key.clone()],
            AnyChange::Pod(change) => pod::owners(change, "ReplicaSet"),
            _ => Vec::new(),
        }
    }

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Next, Error> {
        let Some(set) = context.informers.replica_sets.get(key) else { return Ok(Next::AwaitChange) };
        let (Some(spec), Some(template)) =
            (&set.spec, set.spec.as_ref().and_then(|spec| spec.template.as_ref()))
        else {
            return Ok(Next::AwaitChange);
        };
        let pods = context.informers.pods_of(meta::uid(&*set));
        let active: Vec<_> = pods.iter().filter(|pod| pod::is_active(pod)).collect();
        let wanted = usize::try_from(spec.replicas.unwrap_or(1)).unwrap_or_default();
        if !meta::is_deleting(&*set) {
            for _ in active.len()..wanted {
                let new = pod::from_template(template, &*set, &format!("{}-", key.name));
                let created: Pod = context.create(key, &new).await?;
                let note = format!("Created pod: {}", meta::name(&created));
                context.event(&*set, EventType::Normal, "SuccessfulCreate", "SuccessfulCreate", note);
            }
            for pod in active.iter().skip(wanted) {
                context.delete(key, pod.as_ref()).await?;
                let note = format!("Deleted pod: {}", meta::name(pod.as_ref()));
                context.event(&*set, EventType::Normal, "SuccessfulDelete", "SuccessfulDelete", note);
            }
        }
        let count = |wanted: &dyn Fn(&Pod) -> bool| {
            i32::try_from(active.iter().filter(|pod| wanted(pod)).count()).unwrap_or(i32::MAX)
        };
        let ready = count(&pod::is_ready);
        let status = ReplicaSetStatus {
            replicas: count(&|_| true),
            fully_labeled_replicas: Some(count(&|_| true)),
            ready_replicas: Some(ready),
            available_replicas: Some(ready),
            observed_generation: set.metadata.generation,
            ..ReplicaSetStatus::default()
        };
        context.write_status(key, &self.status, &set, &status).await?;
        Ok(Next::AwaitChange)
    }
}
