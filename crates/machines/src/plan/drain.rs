//! Drain: which Pods keep a Node from being drained, and which of them are to be evicted.

use std::sync::Arc;

use crate::small::{Pod, entry};

/// The most Pods that are evicted at once.
const BATCH: usize = 32;

/// What keeps a Node from being drained.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Remaining {
    /// Pods to evict now: namespace and name.
    pub(super) evict: Vec<(String, String)>,
    /// Pods that are leaving.
    pub(super) terminating: usize,
}

impl Remaining {
    pub(super) fn is_empty(&self) -> bool {
        self.evict.is_empty() && self.terminating == 0
    }

    /// For people: the first Pods, and how many there are.
    pub(super) fn message(&self) -> String {
        let count = self.evict.len() + self.terminating;
        match self.evict.first() {
            Some((namespace, name)) => format!("{count} Pods are left, such as {namespace}/{name}"),
            None => format!("{count} Pods are terminating"),
        }
    }
}

/// The Pods that are left on a Node. Nobody waits for a kubelet that does not answer: what is terminating there does not count.
pub(super) fn remaining(pods: &[Arc<Pod>], is_reachable: bool) -> Remaining {
    let mut remaining = Remaining::default();
    for pod in pods.iter().filter(|pod| !stays(pod)) {
        if pod.metadata.deletion_timestamp.is_some() {
            remaining.terminating += usize::from(is_reachable);
        } else if remaining.evict.len() < BATCH {
            let own = |field: &Option<String>| field.clone().unwrap_or_default();
            remaining.evict.push((own(&pod.metadata.namespace), own(&pod.metadata.name)));
        }
    }
    remaining
}

/// Whether a drain leaves a Pod alone: those of DaemonSets, static ones, and those that are over.
fn stays(pod: &Pod) -> bool {
    let is_mirror = entry(pod.metadata.annotations.as_ref(), "kubernetes.io/config.mirror").is_some();
    let is_daemon = pod.controller().is_some_and(|owner| owner.kind == "DaemonSet");
    let is_over = matches!(pod.status.phase.as_str(), "Succeeded" | "Failed");
    is_mirror || is_daemon || is_over
}
