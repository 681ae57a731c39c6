//! DaemonSets: a Pod on each Node that it fits (`pkg/controller/daemon` upstream).

mod history;
mod manage;
mod node;
mod update;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetStatus};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::runtime::events::EventType;
use settled_controller::ObjectKey;
use settled_controller::cache::Change;
use settled_controller::worker::Next;

use crate::controller::{Context, Controller, Error};
use crate::informers::{AnyChange, Informers};
use crate::meta;
use crate::pod;
use crate::workloads::claim;

/// The label with the hash of the template of a Pod.
const HASH: &str = "controller-revision-hash";

/// The controller of DaemonSets. What it remembers only slows down the replacement of Pods that fail again and again.
#[derive(Default)]
pub(crate) struct DaemonSets {
    backoff: Mutex<HashMap<ObjectKey, HashMap<String, Backoff>>>,
}

/// When a Pod that failed was last replaced on a Node, and how long the next one has to wait.
#[derive(Clone, Copy)]
struct Backoff {
    last: Timestamp,
    delay: Duration,
}

/// Pods by the Node that they are for, in the order of their age.
type PodsOfNodes = BTreeMap<String, Vec<Arc<Pod>>>;

/// One reconcile of a DaemonSet.
struct Sync<'a> {
    context: &'a Context,
    key: &'a ObjectKey,
    set: &'a DaemonSet,
    nodes: Vec<Arc<Node>>,
    backoff: &'a DaemonSets,
    now: Timestamp,
}

impl DaemonSets {
    /// How long to wait until a failed Pod on a Node may be replaced; if it may be now, the next one waits twice as long.
    fn wait(&self, key: &ObjectKey, node: &str, now: Timestamp) -> Option<Duration> {
        const FIRST: Duration = Duration::from_secs(1);
        const MAX: Duration = Duration::from_secs(15 * 60);
        let mut all = self.backoff.lock().unwrap_or_else(PoisonError::into_inner);
        let nodes = all.entry(key.clone()).or_default();
        let Some(backoff) = nodes.get_mut(node) else {
            nodes.insert(node.to_owned(), Backoff { last: now, delay: FIRST });
            return None;
        };
        let passed = backoff.last.duration_until(now).unsigned_abs();
        if passed < backoff.delay {
            return Some(backoff.delay - passed);
        }
        let delay = if passed > 2 * MAX { FIRST } else { (2 * backoff.delay).min(MAX) };
        *backoff = Backoff { last: now, delay };
        None
    }

    fn forget(&self, key: &ObjectKey) {
        self.backoff.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

impl Controller for DaemonSets {
    const NAME: &'static str = "daemonset-controller";

    fn wake(&self, change: &AnyChange, informers: &Informers) -> Vec<ObjectKey> {
        match change {
            AnyChange::DaemonSet(change) => vec![change.key.clone()],
            AnyChange::Pod(change) => {
                claim::wake(change, informers, |set: &DaemonSet| set.spec.as_ref().map(|spec| &spec.selector))
            }
            AnyChange::Node(change) if concerns_pods(change) => informers.daemon_sets.keys(),
            _ => Vec::new(),
        }
    }

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Next, Error> {
        let Some(set) = context.informers.daemon_sets.get(key) else {
            self.forget(key);
            return Ok(Next::AwaitChange);
        };
        let Some(spec) = &set.spec else { return Ok(Next::AwaitChange) };
        if spec.selector == LabelSelector::default() {
            let note = "This daemon set is selecting all pods. A non-empty selector is required.".to_owned();
            context.event(&*set, EventType::Warning, "SelectingAll", "SelectingAll", note);
            return Ok(Next::AwaitChange);
        }
        if meta::is_deleting(&*set) {
            return Ok(Next::AwaitChange);
        }
        let mut nodes = context.informers.nodes.state();
        nodes.sort_by(|one, other| meta::name(&**one).cmp(meta::name(&**other)));
        let sync = Sync { context, key, set: &set, nodes, backoff: self, now: context.now() };
        let (hash, old) = sync.history().await?;
        let claimed = claim::claim(context, key, &*set, &spec.selector, |_: &Pod| true).await?;
        let pods = by_node(&claimed);
        let mut retry = None;
        let managed = sync.manage(&pods, &hash, &mut retry).await;
        let updated = match managed {
            Ok(false) if sync.is_rolling() => sync.update(&pods, &hash).await,
            Ok(_) => Ok(()),
            Err(error) => Err(error),
        };
        let updated = match updated {
            Ok(()) => sync.clean_up(&claimed, &old).await,
            Err(error) => Err(error),
        };
        let status = sync.status(&pods, &hash);
        if set.status.as_ref() != Some(&status) {
            let mut new = DaemonSet::clone(&set);
            new.status = Some(status.clone());
            context.update_status(key, &new).await?;
        }
        updated?;
        let min_ready = spec.min_ready_seconds.unwrap_or_default();
        if min_ready > 0 && status.number_ready != status.number_available.unwrap_or_default() {
            let next = pod::next_availability(claimed.iter().map(|pod| &**pod), min_ready, sync.now);
            retry = retry.into_iter().chain(next).min();
        }
        Ok(retry.map_or(Next::AwaitChange, Next::RequeueAfter))
    }
}

/// Does a change of a Node change which Pods fit?
fn concerns_pods(change: &Change<Node>) -> bool {
    let (Some(old), Some(new)) = (&change.old, &change.new) else { return true };
    let taints = |node: &Node| node.spec.as_ref().and_then(|spec| spec.taints.clone());
    old.metadata.labels != new.metadata.labels || taints(old) != taints(new)
}

/// The Pods of each Node, but for those that have finished and go.
fn by_node(claimed: &[Arc<Pod>]) -> PodsOfNodes {
    let mut pods = PodsOfNodes::new();
    for pod in claimed.iter().filter(|pod| !(pod::is_terminal(pod) && meta::is_deleting(&***pod))) {
        if let Some(node) = node::target(pod) {
            pods.entry(node.to_owned()).or_default().push(pod.clone());
        }
    }
    for pods in pods.values_mut() {
        // Pods on a Node first, then by age and name.
        pods.sort_by_key(|pod| {
            let created = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
            (pod::node_name(pod).is_empty(), created, meta::name(&**pod).to_owned())
        });
    }
    pods
}

impl Sync<'_> {
    fn min_ready(&self) -> i32 {
        self.set.spec.as_ref().and_then(|spec| spec.min_ready_seconds).unwrap_or_default()
    }

    fn is_available(&self, pod: &Pod) -> bool {
        pod::is_available(pod, self.min_ready(), self.now)
    }

    /// The numbers of Nodes: `updateDaemonSetStatus`.
    fn status(&self, pods: &PodsOfNodes, hash: &str) -> DaemonSetStatus {
        let (mut desired, mut current, mut misscheduled, mut ready, mut updated, mut available) =
            (0, 0, 0, 0, 0, 0);
        for node in &self.nodes {
            let first = pods.get(meta::name(&**node)).and_then(|pods| pods.first());
            if !node::fits(self.set, node).should_run {
                misscheduled += i32::from(first.is_some());
                continue;
            }
            desired += 1;
            let Some(pod) = first else { continue };
            current += 1;
            ready += i32::from(pod::is_ready(pod));
            available += i32::from(self.is_available(pod));
            updated += i32::from(self.is_updated(pod, hash));
        }
        let old = self.set.status.clone().unwrap_or_default();
        DaemonSetStatus {
            current_number_scheduled: current,
            desired_number_scheduled: desired,
            number_misscheduled: misscheduled,
            number_ready: ready,
            number_available: meta::non_zero(available),
            number_unavailable: meta::non_zero(desired - available),
            updated_number_scheduled: meta::non_zero(updated),
            observed_generation: self.set.metadata.generation,
            collision_count: old.collision_count,
            conditions: old.conditions,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_pods_wait_twice_as_long_each_time() {
        let (sets, key) = (DaemonSets::default(), ObjectKey::new("default", "log"));
        let at = |millis: i64| Timestamp::from_millisecond(millis).expect("a time");
        let wait = |millis| sets.wait(&key, "node-1", at(millis));
        assert_eq!(wait(0), None);
        assert_eq!(wait(400), Some(Duration::from_millis(600)));
        assert_eq!(wait(1000), None);
        assert_eq!(wait(2000), Some(Duration::from_secs(1)));
        assert_eq!(wait(3000), None);
        assert_eq!(wait(6999), Some(Duration::from_millis(1)));
        assert_eq!(sets.wait(&key, "node-2", at(3000)), None);
    }
}
