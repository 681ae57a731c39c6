//! Node controller: Nodes whose kubelets fall silent, their conditions, taints and Pods (`nodelifecycle`).

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{Patch, PatchParams};
use kube::runtime::events::EventType;
use serde_json::json;
use settled_controller::ObjectKey;
use settled_controller::cache::Change;
use settled_controller::status::StatusWriter;
use settled_controller::worker::Next;

use super::create::LEASES;
use super::drain;
use super::status::{healthy, last_renewal, noticed, ready, silent, taints};
use crate::controller::{Context, Controller, Error, Shared};
use crate::informers::{AnyChange, Informers};
use crate::meta;
use crate::pod as pods;
use crate::requests;
use crate::scenario::{NodeScript, Scenario};

/// The controller of Nodes.
pub(crate) struct NodeLifecycle {
    nodes: StatusWriter<Node>,
    pods: StatusWriter<Pod>,
    scenario: Scenario,
    begin: Timestamp,
    /// Nodes that an Event has announced.
    registered: Mutex<HashSet<String>>,
    /// What an Event has said of annotations that cannot be read, by the UID of the Node.
    problems: Mutex<HashMap<String, String>>,
}

/// What a kubelet does at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kubelet {
    /// It renews its lease; until then, if that ends.
    Alive(Option<Timestamp>),
    /// It has renewed its lease at the first time for the last time; until the second, if it comes back.
    Silent(Timestamp, Option<Timestamp>),
}

fn kubelet(script: Option<&NodeScript>, begin: Timestamp, now: Timestamp) -> Kubelet {
    let at = |delay: Duration| begin + SignedDuration::try_from(delay).unwrap_or(SignedDuration::MAX / 4);
    let Some(script) = script else { return Kubelet::Alive(None) };
    let (dies, returns) = (script.dies.map(|dies| dies.0), script.returns.map(|returns| at(returns.0)));
    match dies {
        Some(dies) if at(dies) <= now && returns.is_none_or(|returns| returns > now) => {
            Kubelet::Silent(last_renewal(begin, dies), returns)
        }
        Some(dies) if at(dies) > now => Kubelet::Alive(Some(at(dies))),
        _ => Kubelet::Alive(None),
    }
}

impl NodeLifecycle {
    pub(crate) fn new(shared: &Shared) -> Self {
        Self {
            nodes: Context::status_writer(&shared.client, &shared.clock, Self::NAME),
            pods: Context::status_writer(&shared.client, &shared.clock, Self::NAME),
            scenario: shared.scenario.clone(),
            begin: shared.begin,
            registered: Mutex::default(),
            problems: Mutex::default(),
        }
    }

    /// Forgets a Node that is gone.
    fn forget(&self, node: &Node) {
        let uid = meta::uid(node);
        self.registered.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
        self.problems.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }

    /// What is to happen to a Node. Annotations that cannot be read become an Event.
    fn script(&self, node: &Node, context: &Context) -> Option<Cow<'_, NodeScript>> {
        let script = self.scenario.node_or_annotations(node);
        let mut problems = self.problems.lock().unwrap_or_else(PoisonError::into_inner);
        match script {
            Ok(script) => {
                problems.remove(meta::uid(node));
                script
            }
            Err(error) => {
                let problem = error.to_string();
                let before = problems.insert(meta::uid(node).to_owned(), problem.clone());
                if before.as_ref() != Some(&problem) {
                    context.event(node, EventType::Warning, "InvalidScenario", "InvalidScenario", problem);
                }
                None
            }
        }
    }

    fn register(&self, node: &Node, context: &Context) {
        let uid = meta::uid(node).to_owned();
        if self.registered.lock().unwrap_or_else(PoisonError::into_inner).insert(uid) {
            let name = meta::name(node);
            let note = format!("Node {name} event: Registered Node {name} in Controller");
            context.event(node, EventType::Normal, "RegisteredNode", "RegisteredNode", note);
        }
    }

    /// Writes the conditions that follow from what the kubelet does. When to look again.
    async fn report(
        &self,
        key: &ObjectKey,
        node: &Node,
        script: Option<&NodeScript>,
        context: &Context,
    ) -> Result<Option<Timestamp>, Error> {
        let now = context.now();
        let before = node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        let (conditions, next) = match kubelet(script, self.begin, now) {
            Kubelet::Alive(until) => match ready(node) {
                "Unknown" | "" => {
                    renew(node, now, context).await?;
                    (healthy(before, now), until)
                }
                _ => return Ok(until),
            },
            Kubelet::Silent(since, until) => {
                let due = noticed(self.begin, since);
                if now < due {
                    return Ok(Some(until.map_or(due, |until| until.min(due))));
                }
                if ready(node) == "Unknown" {
                    return Ok(until);
                }
                renew(node, since, context).await?;
                (silent(before, now), until)
            }
        };
        let is_lost = ready(node) == "True";
        let mut status = node.status.clone().unwrap_or_default();
        status.conditions = Some(conditions);
        context.write_status(key, &self.nodes, node, &status).await?;
        if is_lost {
            let note = format!("Node {} status is now: NodeNotReady", meta::name(node));
            context.event(node, EventType::Normal, "NodeNotReady", "NodeNotReady", note);
        }
        Ok(next)
    }

    /// Marks the Pods of a Node that is not ready: nobody knows better.
    async fn mark_pods(&self, key: &ObjectKey, node: &Node, context: &Context) -> Result<(), Error> {
        for pod in context.informers.pods_on(meta::name(node)) {
            if !pods::is_ready(&pod) {
                continue;
            }
            let mut status = pod.status.clone().unwrap_or_default();
            for condition in
                status.conditions.iter_mut().flatten().filter(|condition| condition.type_ == "Ready")
            {
                condition.status = "False".to_owned();
                condition.last_transition_time = Some(meta::time(context.now()));
            }
            context.write_status(key, &self.pods, &pod, &status).await?;
            let note = "Node is not ready".to_owned();
            context.event(&*pod, EventType::Warning, "NodeNotReady", "NodeNotReady", note);
        }
        Ok(())
    }
}

/// Renews the lease of a kubelet.
async fn renew(node: &Node, at: Timestamp, context: &Context) -> Result<(), Error> {
    let patch = Patch::Merge(json!({"spec": {"renewTime": MicroTime(at)}}));
    let request = requests::of::<Lease>(LEASES).patch(meta::name(node), &PatchParams::default(), &patch);
    match requests::send(&context.client, request).await {
        Ok(_) => Ok(()),
        Err(error) if Error::is_code(&error, 404) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Nodes that are woken by a change of one: all of them, if it is ready or not as before no longer.
fn woken(change: &Change<Node>, informers: &Informers) -> Vec<ObjectKey> {
    let is_ready = |node: &Option<std::sync::Arc<Node>>| node.as_deref().map(|node| ready(node) == "True");
    if is_ready(&change.old) == is_ready(&change.new) || change.old.is_none() {
        return vec![change.key.clone()];
    }
    informers.nodes.keys()
}

impl Controller for NodeLifecycle {
    const NAME: &'static str = "node-controller";

    fn wake(&self, change: &AnyChange, informers: &Informers) -> Vec<ObjectKey> {
        match change {
            AnyChange::Node(change) => {
                if let (None, Some(old)) = (&change.new, &change.old) {
                    self.forget(old);
                }
                woken(change, informers)
            }
            AnyChange::Pod(change) => {
                // Only Pods that are drained, or on a Node that is not ready, concern it.
                let node = change.new.as_deref().or(change.old.as_deref()).map(pods::node_name);
                let node = node.filter(|node| !node.is_empty()).map(|node| ObjectKey::new("", node));
                let concerns = |key: &ObjectKey| {
                    informers
                        .nodes
                        .get(key)
                        .is_some_and(|node| ready(&node) != "True" || drain::is_draining(&node))
                };
                node.filter(concerns).into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Next, Error> {
        let Some(node) = context.informers.nodes.get(key) else { return Ok(Next::AwaitChange) };
        if meta::is_deleting(&*node) {
            return Ok(Next::AwaitChange);
        }
        self.register(&node, context);
        let script = self.script(&node, context);
        let next = self.report(key, &node, script.as_deref(), context).await?;
        // Without any Node that is ready, the network may be at fault: nothing is evicted.
        let evicts = context.informers.nodes.find(|node| ready(node) == "True").is_some();
        let wanted = taints(&node, evicts, context.now());
        let has = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
        if wanted != has {
            let taints = (!wanted.is_empty()).then_some(&wanted);
            match context.patch(key, &*node, json!({"spec": {"taints": taints}})).await {
                // The conditions were just written: the watch shows the new version.
                Err(error) if Error::is_code(&error, 409) => return Ok(Next::AwaitChange),
                patched => drop(patched?),
            }
        }
        if matches!(ready(&node), "Unknown" | "False") {
            self.mark_pods(key, &node, context).await?;
        }
        let now = context.now();
        let drained = drain::drain(key, &node, script.as_deref(), self.begin, context).await?;
        let left = [next, drained].into_iter().flatten().min().map(|next| now.duration_until(next));
        Ok(match left {
            Some(left) => {
                Next::RequeueAfter(Duration::try_from(left).unwrap_or_default().max(Duration::from_millis(1)))
            }
            None => Next::AwaitChange,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubelets_fall_silent_and_return() {
        let script = |yaml: &str| {
            let text = format!("nodes: [{{node: a, {yaml}}}]");
            Scenario::parse("test.yaml", &text).expect("a scenario").node("a").cloned()
        };
        let begin = Timestamp::UNIX_EPOCH;
        let at = |seconds: i64| begin + SignedDuration::from_secs(seconds);
        let dies = script("dies: 65s, returns: 5m");
        let is = |seconds: i64| kubelet(dies.as_ref(), begin, at(seconds));
        assert_eq!(is(0), Kubelet::Alive(Some(at(65))));
        assert_eq!(is(65), Kubelet::Silent(at(60), Some(at(300))));
        assert_eq!(is(300), Kubelet::Alive(None));
        assert_eq!(kubelet(None, begin, at(5)), Kubelet::Alive(None));
        assert_eq!(kubelet(script("dies: 0s").as_ref(), begin, at(5)), Kubelet::Silent(at(0), None));
    }
}
