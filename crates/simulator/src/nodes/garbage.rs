//! Pod garbage collector: Pods whose Nodes are gone, and Pods that nobody would let end (`podgc`).

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodCondition};
use settled_controller::ObjectKey;
use settled_controller::status::StatusWriter;
use settled_controller::worker::Next;

use super::status::ready;
use crate::controller::{Context, Controller, Error, Shared};
use crate::informers::{AnyChange, Informers};
use crate::meta;
use crate::pod as pods;
use crate::scheduler::set_condition;

/// How long the Node of a Pod may be missing.
const QUARANTINE: Duration = Duration::from_secs(40);
/// Somebody has said that the Node will not come back.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// The collector.
pub(crate) struct PodGarbage {
    status: StatusWriter<Pod>,
    /// Since when the Nodes of Pods are missing, by the UIDs of the Pods: each Pod waits as long as upstream's quarantine, so that a
    /// controller that creates it anew on the missing Node does so once in that time, and not without an end.
    missing: Mutex<HashMap<String, Timestamp>>,
}

impl PodGarbage {
    pub(crate) fn new(shared: &Shared) -> Self {
        let status = Context::status_writer(&shared.client, &shared.clock, Self::NAME);
        Self { status, missing: Mutex::default() }
    }

    async fn collect(
        &self,
        key: &ObjectKey,
        pod: &Pod,
        is_orphan: bool,
        context: &Context,
    ) -> Result<(), Error> {
        if !matches!(pods::phase(pod), "Succeeded" | "Failed") {
            let mut status = pod.status.clone().unwrap_or_default();
            status.phase = Some("Failed".to_owned());
            status.observed_generation = pod.metadata.generation;
            if is_orphan {
                let condition = PodCondition {
                    type_: "DisruptionTarget".to_owned(),
                    status: "True".to_owned(),
                    reason: Some("DeletionByPodGC".to_owned()),
                    message: Some("PodGC: node no longer exists".to_owned()),
                    observed_generation: pod.metadata.generation,
                    ..PodCondition::default()
                };
                set_condition(status.conditions.get_or_insert_default(), condition, context.now());
            }
            context.write_status(key, &self.status, pod, &status).await?;
        }
        context.delete_with(key, pod, Some(0)).await?;
        Ok(())
    }
}

impl Controller for PodGarbage {
    const NAME: &'static str = "pod-garbage-collector";

    fn wake(&self, change: &AnyChange, informers: &Informers) -> Vec<ObjectKey> {
        match change {
            AnyChange::Pod(change) => {
                let facts = |pod: &Pod| (pods::node_name(pod).to_owned(), meta::is_deleting(pod));
                let (old, new) = (change.old.as_deref().map(facts), change.new.as_deref().map(facts));
                if new.is_none() || old == new { Vec::new() } else { vec![change.key.clone()] }
            }
            AnyChange::Node(change) => {
                let spec = |node: &Option<std::sync::Arc<k8s_openapi::api::core::v1::Node>>| {
                    node.as_deref().map(|node| (ready(node) == "True", node.spec.clone()))
                };
                if spec(&change.old) == spec(&change.new) {
                    return Vec::new();
                }
                informers.pods_on(&change.key.name).iter().map(|pod| meta::key(&**pod)).collect()
            }
            _ => Vec::new(),
        }
    }

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Next, Error> {
        let Some(pod) = context.informers.pods.get(key) else { return Ok(Next::AwaitChange) };
        let name = pods::node_name(&pod);
        if name.is_empty() {
            if meta::is_deleting(&*pod) {
                self.collect(key, &pod, false, context).await?;
            }
            return Ok(Next::AwaitChange);
        }
        if let Some(node) = context.informers.nodes.get(ObjectKey::new("", name)) {
            self.missing.lock().unwrap_or_else(PoisonError::into_inner).remove(meta::uid(&*pod));
            let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
            let is_out = taints.iter().any(|taint| taint.key == OUT_OF_SERVICE);
            if meta::is_deleting(&*pod) && is_out && ready(&node) != "True" {
                self.collect(key, &pod, false, context).await?;
            }
            return Ok(Next::AwaitChange);
        }
        let now = context.now();
        let since = {
            let mut missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
            // Those that others have deleted.
            missing.retain(|_, since| since.duration_until(now).as_secs() < 2 * QUARANTINE.as_secs() as i64);
            *missing.entry(meta::uid(&*pod).to_owned()).or_insert(now)
        };
        let passed = Duration::try_from(now.duration_since(since)).unwrap_or_default();
        if let Some(left) = QUARANTINE.checked_sub(passed).filter(|left| !left.is_zero()) {
            return Ok(Next::RequeueAfter(left));
        }
        self.collect(key, &pod, true, context).await?;
        Ok(Next::AwaitChange)
    }
}
