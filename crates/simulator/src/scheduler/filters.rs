//! Filters: which Nodes can run a Pod, and why not the others, with the scheduler's words.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::affinity;
use super::pod_affinity::{self, NamespaceLabels};
use super::spread;
use super::state::{HostPort, NodeInfo, PodInfo, State};
use super::taints;
use super::volumes::{Choice, Claims};

/// Parts of the scheduler that refuse Nodes, as bits: what has to change for the Pod to be tried again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plugins(u8);

impl Plugins {
    /// The Node itself: name, labels, taints.
    pub(crate) const NODE: Self = Self(1);
    /// What other Pods on the Node use.
    pub(crate) const USAGE: Self = Self(2);
    /// Where other Pods are.
    pub(crate) const PODS: Self = Self(4);
    /// Claims, volumes and classes.
    pub(crate) const VOLUMES: Self = Self(8);

    /// Both.
    pub(crate) const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Is one of them among these?
    pub(crate) const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// Why a Node is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rejection {
    pub(crate) reasons: Vec<String>,
    /// Removing Pods would not help.
    pub(crate) is_unresolvable: bool,
    pub(crate) plugin: Plugins,
}

impl Rejection {
    fn new(plugin: Plugins, is_unresolvable: bool, reason: &str) -> Self {
        Self { reasons: vec![reason.to_owned()], is_unresolvable, plugin }
    }
}

/// What filters know about all Nodes together.
pub(crate) struct Prepared {
    spread: spread::Filter,
    pods: pod_affinity::Filter,
}

impl Prepared {
    /// Counts the Pods that matter.
    pub(crate) fn new(state: &State, pod: &PodInfo, labels: NamespaceLabels<'_>) -> Self {
        Self { spread: spread::Filter::new(state, pod), pods: pod_affinity::Filter::new(state, pod, labels) }
    }

    /// All filters, in the order of the default profile: the first that refuses says why.
    pub(crate) fn check(&self, pod: &PodInfo, info: &NodeInfo, claims: &Claims) -> Result<Choice, Rejection> {
        if let Some(rejection) = check_node(pod, info).or_else(|| check_usage(pod, info)) {
            return Err(rejection);
        }
        let choice = match &info.node {
            Some(node) => claims.check(node).map_err(|reasons| Rejection {
                reasons: reasons.into_iter().map(str::to_owned).collect(),
                is_unresolvable: true,
                plugin: Plugins::VOLUMES,
            })?,
            None => Choice::default(),
        };
        let by_pods = self.spread.check(info).or_else(|| self.pods.check(info));
        match by_pods {
            Some((reason, is_unresolvable)) => Err(Rejection::new(Plugins::PODS, is_unresolvable, reason)),
            None => Ok(choice),
        }
    }
}

/// Filters that only look at the Node: unschedulable, name, taints, affinity.
fn check_node(pod: &PodInfo, info: &NodeInfo) -> Option<Rejection> {
    let node = info.node.as_deref()?;
    let refused = |reason: &str| Some(Rejection::new(Plugins::NODE, true, reason));
    let tolerations = pod.pod.spec.as_ref().and_then(|spec| spec.tolerations.as_ref());
    let spec = node.spec.as_ref();
    if spec.and_then(|spec| spec.unschedulable) == Some(true) {
        let taint = vec![k8s_openapi::api::core::v1::Taint {
            key: "node.kubernetes.io/unschedulable".to_owned(),
            effect: "NoSchedule".to_owned(),
            ..Default::default()
        }];
        if taints::untolerated(Some(&taint), tolerations, |_| true).is_some() {
            return refused("node(s) were unschedulable");
        }
    }
    if pod.node().is_some_and(|name| Some(name) != node.metadata.name.as_deref()) {
        return refused("node(s) didn't match the requested node name");
    }
    let node_taints = spec.and_then(|spec| spec.taints.as_ref());
    if taints::untolerated(node_taints, tolerations, taints::is_for_scheduling).is_some() {
        return refused("node(s) had untolerated taint(s)");
    }
    if !affinity::required_matches(&pod.pod, node) {
        return refused("node(s) didn't match Pod's node affinity/selector");
    }
    None
}

/// Two host ports that cannot be on the same Node.
fn conflict(one: &HostPort, other: &HostPort) -> bool {
    let any = |address: &str| address == "0.0.0.0";
    one.0 == other.0 && one.2 == other.2 && (one.1 == other.1 || any(&one.1) || any(&other.1))
}

/// Filters that look at what the Pods on the Node use: ports and resources.
fn check_usage(pod: &PodInfo, info: &NodeInfo) -> Option<Rejection> {
    let taken = |port: &HostPort| {
        info.pods.values().any(|other| other.ports.iter().any(|taken| conflict(port, taken)))
    };
    if !pod.ports.is_empty() && pod.ports.iter().any(taken) {
        let reason = "node(s) didn't have free ports for the requested pod ports";
        return Some(Rejection::new(Plugins::USAGE, false, reason));
    }
    let mut reasons = Vec::new();
    let mut is_unresolvable = false;
    if i64::try_from(info.pods.len()).unwrap_or(i64::MAX) + 1 > info.max_pods {
        reasons.push("Too many pods".to_owned());
    }
    let (request, used, all) = (&pod.request, &info.requested, &info.allocatable);
    let mut check = |name: &str, wanted: i64, used: i64, capacity: i64| {
        if wanted > 0 && wanted > capacity - used {
            reasons.push(format!("Insufficient {name}"));
            is_unresolvable |= wanted > capacity;
        }
    };
    check("cpu", request.cpu, used.cpu, all.cpu);
    check("memory", request.memory, used.memory, all.memory);
    check("ephemeral-storage", request.ephemeral_storage, used.ephemeral_storage, all.ephemeral_storage);
    let of = |amounts: &BTreeMap<String, i64>, name: &str| amounts.get(name).copied().unwrap_or_default();
    for (name, wanted) in &request.scalar {
        check(name, *wanted, of(&used.scalar, name), of(&all.scalar, name));
    }
    (!reasons.is_empty()).then_some(Rejection { reasons, is_unresolvable, plugin: Plugins::USAGE })
}

/// The message of a Pod that fits nowhere: how many Nodes were refused for which reason (`FitError`).
pub(crate) fn fit_error<'r>(nodes: usize, reasons: impl IntoIterator<Item = &'r str>) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for reason in reasons {
        *counts.entry(reason).or_default() += 1;
    }
    let mut texts: Vec<String> = counts.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    texts.sort();
    let mut message = format!("0/{nodes} nodes are available:");
    if !texts.is_empty() {
        let _infallible = write!(message, " {}.", texts.join(", "));
    }
    message
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;

    fn pod(spec: Value) -> PodInfo {
        let pod = json!({"metadata": {"name": "p", "namespace": "shop"}, "spec": spec});
        PodInfo::new(Arc::new(serde_json::from_value(pod).expect("a Pod")))
    }

    fn check(node: Value, on_it: Value, spec: Value) -> Option<(Vec<String>, bool)> {
        let mut state = State::default();
        let mut full = json!({"metadata": {"name": "a"}, "status": {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "2"}}});
        for (key, value) in node.as_object().into_iter().flatten() {
            full[key] = value.clone();
        }
        state.set_node("a", Some(Arc::new(serde_json::from_value(full).expect("a Node"))));
        let mut other = pod(on_it);
        other.key = settled_controller::ObjectKey::new("shop", "other");
        state.add("a", Arc::new(other));
        let new = pod(spec);
        let prepared = Prepared::new(&state, &new, &|_| None);
        let outcome = prepared.check(&new, state.node("a").expect("a Node"), &Claims::default());
        outcome.err().map(|rejection| (rejection.reasons, rejection.is_unresolvable))
    }

    fn container(requests: Value, port: Value) -> Value {
        json!({"containers": [{"name": "c", "resources": {"requests": requests}, "ports": [port]}]})
    }

    #[test]
    fn nodes_are_refused_as_upstream() {
        let none = json!({"containerPort": 80});
        let plain = || container(json!({}), none.clone());
        let host = |port: u16| container(json!({}), json!({"containerPort": 80, "hostPort": port}));
        let cpu = |cpu: &str| container(json!({"cpu": cpu}), none.clone());
        let refused = |reason: &str, unresolvable: bool| Some((vec![reason.to_owned()], unresolvable));
        assert_eq!(check(json!({}), plain(), plain()), None);
        assert_eq!(
            check(json!({"spec": {"unschedulable": true}}), plain(), plain()),
            refused("node(s) were unschedulable", true)
        );
        let taints = json!({"spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}});
        assert_eq!(check(taints, plain(), plain()), refused("node(s) had untolerated taint(s)", true));
        let ports = refused("node(s) didn't have free ports for the requested pod ports", false);
        assert_eq!(check(json!({}), host(80), host(80)), ports);
        assert_eq!(check(json!({}), host(80), host(81)), None);
        assert_eq!(check(json!({}), cpu("1500m"), cpu("1")), refused("Insufficient cpu", false));
        assert_eq!(check(json!({}), plain(), cpu("3")), refused("Insufficient cpu", true));
        let both = container(json!({"memory": "8Gi", "example.com/gpu": "1"}), none.clone());
        let reasons = ["Insufficient memory", "Insufficient example.com/gpu"].map(str::to_owned).into();
        assert_eq!(check(json!({}), plain(), both), Some((reasons, true)));
        let selector = json!({"nodeSelector": {"disk": "ssd"}, "containers": []});
        assert_eq!(
            check(json!({}), plain(), selector),
            refused("node(s) didn't match Pod's node affinity/selector", true)
        );
        let full = json!({"status": {"allocatable": {"cpu": "2", "pods": "1"}}});
        assert_eq!(check(full, plain(), plain()), refused("Too many pods", false));
    }

    #[test]
    fn reasons_are_counted_and_sorted() {
        let reasons = ["Too many pods", "Insufficient cpu", "Insufficient cpu"];
        assert_eq!(fit_error(3, reasons), "0/3 nodes are available: 1 Too many pods, 2 Insufficient cpu.");
        assert_eq!(fit_error(0, []), "0/0 nodes are available:");
    }
}
