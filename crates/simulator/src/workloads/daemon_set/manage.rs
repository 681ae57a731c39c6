//! Pods of a DaemonSet that are missing or too many (`manage` and `syncNodes` upstream).

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::runtime::events::EventType;

use super::{HASH, PodsOfNodes, Sync, node};
use crate::controller::Error;
use crate::meta;
use crate::pod;
use crate::workloads::pod_control::{self, BURST, slow_start};

/// The label of a Pod with the generation of its template, of extensions/v1beta1.
const GENERATION_LABEL: &str = "pod-template-generation";
const GENERATION: &str = "deprecated.daemonset.template.generation";

/// What is to be done on Nodes.
#[derive(Default)]
pub(super) struct Plan {
    pub(super) create: Vec<String>,
    pub(super) delete: Vec<Arc<Pod>>,
}

impl Sync<'_> {
    /// Creates and deletes Pods: whether there was something to do. `retry` is when a failed Pod may be replaced.
    pub(super) async fn manage(
        &self,
        pods: &PodsOfNodes,
        hash: &str,
        retry: &mut Option<Duration>,
    ) -> Result<bool, Error> {
        let mut plan = Plan::default();
        for node in &self.nodes {
            self.plan(node, pods, hash, &mut plan, retry);
        }
        // Pods that wait for a Node that is gone.
        let exists = |name: &str| self.nodes.iter().any(|node| meta::name(&**node) == name);
        let stranded = pods.iter().filter(|(name, _)| !exists(name)).flat_map(|(_, pods)| pods);
        plan.delete.extend(
            stranded.filter(|pod| pod::node_name(pod).is_empty() && !meta::is_deleting(&***pod)).cloned(),
        );
        let is_empty = plan.create.is_empty() && plan.delete.is_empty();
        self.carry_out(plan, hash).await?;
        Ok(!is_empty)
    }

    /// `podsShouldBeOnNode`.
    fn plan(
        &self,
        node: &Node,
        pods: &PodsOfNodes,
        hash: &str,
        plan: &mut Plan,
        retry: &mut Option<Duration>,
    ) {
        let fit = node::fits(self.set, node);
        let name = meta::name(node);
        let present = pods.get(name);
        if fit.should_run && present.is_none() {
            plan.create.push(name.to_owned());
            return;
        }
        let present = present.map(Vec::as_slice).unwrap_or_default();
        let staying = present.iter().filter(|pod| !meta::is_deleting(&***pod));
        if !fit.may_stay {
            plan.delete.extend(staying.cloned());
            return;
        }
        let mut running: Vec<&Arc<Pod>> = Vec::new();
        for pod in staying {
            let what = format!("{}/{}", meta::namespace(&**pod), meta::name(&**pod));
            match pod::phase(pod) {
                "Failed" => match self.backoff.wait(self.key, name, self.now) {
                    Some(wait) => *retry = retry.iter().copied().chain([wait]).min(),
                    None => {
                        let note =
                            format!("Found failed daemon pod {what} on node {name}, will try to kill it");
                        self.event(EventType::Warning, "FailedDaemonPod", note);
                        plan.delete.push(pod.clone());
                    }
                },
                "Succeeded" => {
                    let note =
                        format!("Found succeeded daemon pod {what} on node {name}, will try to delete it");
                    self.event(EventType::Normal, "SucceededDaemonPod", note);
                    plan.delete.push(pod.clone());
                }
                _ => running.push(pod),
            }
        }
        if !self.allows_surge() {
            plan.delete.extend(running.into_iter().skip(1).cloned());
            return;
        }
        if running.is_empty() && fit.should_run {
            plan.create.push(name.to_owned());
        }
        if running.len() <= 1 {
            return;
        }
        // The oldest Pod of each template stays; the one of the old template until the other one is available.
        let (mut new, mut old): (Option<&Arc<Pod>>, Option<&Arc<Pod>>) = (None, None);
        for pod in running {
            let is_new = pod
                .metadata
                .labels
                .as_ref()
                .and_then(|labels| labels.get(HASH))
                .is_some_and(|its| its == hash);
            let place = if is_new { &mut new } else { &mut old };
            match place {
                None => *place = Some(pod),
                Some(_) => plan.delete.push(pod.clone()),
            }
        }
        if let (Some(new), Some(old)) = (new, old)
            && (!pod::is_ready(old) || self.is_available(new))
        {
            plan.delete.push(old.clone());
        }
    }

    /// Creates Pods in growing batches, and deletes others.
    pub(super) async fn carry_out(&self, plan: Plan, hash: &str) -> Result<(), Error> {
        let Some(spec) = &self.set.spec else { return Ok(()) };
        let mut template = spec.template.clone();
        node::add_tolerations(template.spec.get_or_insert_default());
        let labels = template.metadata.get_or_insert_default().labels.get_or_insert_default();
        labels.insert(HASH.to_owned(), hash.to_owned());
        if let Some(generation) = self.template_generation() {
            labels.insert(GENERATION_LABEL.to_owned(), generation.to_string());
        }
        let create = |place: usize| {
            let mut template = template.clone();
            if let Some(node) = plan.create.get(place) {
                node::bind(template.spec.get_or_insert_default(), node);
            }
            async move { pod_control::create(self.context, self.key, self.set, &template).await }
        };
        let created = slow_start(plan.create.len().min(BURST), create).await.1;
        let delete = plan.delete.iter().take(BURST).map(|pod| &**pod);
        let deleted = pod_control::delete_all(self.context, self.key, self.set, delete).await;
        created?;
        Ok(deleted?)
    }

    fn template_generation(&self) -> Option<i64> {
        self.set.metadata.annotations.as_ref()?.get(GENERATION)?.parse().ok()
    }

    /// Is a Pod of the present template?
    pub(super) fn is_updated(&self, pod: &Pod, hash: &str) -> bool {
        let label =
            |name: &str| pod.metadata.labels.as_ref().and_then(|labels| labels.get(name)).map(String::as_str);
        let generation = self.template_generation().map(|generation| generation.to_string());
        label(HASH) == Some(hash)
            || generation.is_some_and(|generation| label(GENERATION_LABEL) == Some(&generation))
    }

    pub(super) fn event(&self, type_: EventType, reason: &str, note: String) {
        self.context.event(self.set, type_, reason, reason, note);
    }
}
