//! State of the cluster as the scheduler sees it: usage of Nodes and Pods by labels, kept up with each change.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod, PodAffinityTerm};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use settled_controller::ObjectKey;

use super::resources::{self, Resources};
use crate::meta;
use crate::pod as pods;
use crate::selector::{self, Labels};

/// A port of a Node that a Pod takes: protocol, address, number.
pub(crate) type HostPort = (String, String, i32);

/// A term of an affinity to Pods.
#[derive(Clone, Debug)]
pub(crate) struct Term {
    pub(crate) topology_key: String,
    pub(crate) selector: Option<LabelSelector>,
    pub(crate) weight: i64,
    namespaces: Vec<String>,
    namespace_selector: Option<LabelSelector>,
}

impl Term {
    fn new(term: &PodAffinityTerm, weight: i32, namespace: &str) -> Self {
        let mut namespaces = term.namespaces.clone().unwrap_or_default();
        if namespaces.is_empty() && term.namespace_selector.is_none() {
            namespaces.push(namespace.to_owned());
        }
        Self {
            topology_key: term.topology_key.clone(),
            selector: term.label_selector.clone(),
            weight: weight.into(),
            namespaces,
            namespace_selector: term.namespace_selector.clone(),
        }
    }

    /// Does it select a Pod of a namespace with these labels?
    pub(crate) fn matches(&self, pod: &PodInfo, namespace_labels: &dyn Fn(&str) -> Option<Labels>) -> bool {
        self.is_for(&pod.key.namespace, namespace_labels)
            && selector::matches(self.selector.as_ref(), pod.pod.metadata.labels.as_ref())
    }

    /// Is the namespace one of those that it selects?
    pub(crate) fn is_for(&self, namespace: &str, labels: &dyn Fn(&str) -> Option<Labels>) -> bool {
        self.namespaces.iter().any(|name| name == namespace)
            || self
                .namespace_selector
                .as_ref()
                .is_some_and(|wanted| selector::matches(Some(wanted), labels(namespace).as_ref()))
    }

    /// The only namespace that it selects, if that is known without the labels of namespaces.
    pub(crate) fn only_namespace(&self) -> Option<&str> {
        match (&self.namespace_selector, self.namespaces.as_slice()) {
            (None, [only]) => Some(only),
            _ => None,
        }
    }
}

/// Terms of a Pod's affinity to other Pods.
#[derive(Clone, Debug, Default)]
pub(crate) struct Terms {
    pub(crate) required: Vec<Term>,
    pub(crate) required_anti: Vec<Term>,
    pub(crate) preferred: Vec<Term>,
    pub(crate) preferred_anti: Vec<Term>,
}

/// A Pod, with what is computed from it once.
#[derive(Clone, Debug)]
pub(crate) struct PodInfo {
    pub(crate) key: ObjectKey,
    pub(crate) pod: Arc<Pod>,
    pub(crate) priority: i32,
    pub(crate) request: Resources,
    /// CPU and memory for scores.
    pub(crate) nonzero: (i64, i64),
    pub(crate) ports: Vec<HostPort>,
    pub(crate) terms: Option<Box<Terms>>,
}

impl PodInfo {
    pub(crate) fn new(pod: Arc<Pod>) -> Self {
        let spec = pod.spec.as_ref();
        let nonzero = resources::requests(&pod, true);
        let containers = spec.into_iter().flat_map(|spec| {
            let sidecars = spec.init_containers.iter().flatten();
            let sidecars = sidecars.filter(|container| container.restart_policy.as_deref() == Some("Always"));
            spec.containers.iter().chain(sidecars)
        });
        let ports = containers.flat_map(|container| container.ports.iter().flatten()).filter_map(|port| {
            let number = port.host_port.filter(|number| *number > 0)?;
            let text = |field: &Option<String>, default: &str| {
                field.clone().filter(|text| !text.is_empty()).unwrap_or_else(|| default.to_owned())
            };
            Some((text(&port.protocol, "TCP"), text(&port.host_ip, "0.0.0.0"), number))
        });
        Self {
            key: meta::key(&*pod),
            priority: spec.and_then(|spec| spec.priority).unwrap_or_default(),
            request: resources::requests(&pod, false),
            nonzero: (nonzero.cpu, nonzero.memory),
            ports: ports.collect(),
            terms: terms(&pod).map(Box::new),
            pod,
        }
    }

    /// The Node that it is on.
    pub(crate) fn node(&self) -> Option<&str> {
        node_of(&self.pod)
    }
}

/// Does a Pod of the same spec count for as much as before? A resize in place changes what its containers have.
fn has_same_requests(before: &PodInfo, pod: &Pod) -> bool {
    let resources = |pod: &Pod| -> Vec<_> {
        let statuses = pod.status.iter().flat_map(|status| {
            status.container_statuses.iter().chain(&status.init_container_statuses).flatten()
        });
        let amounts = statuses.map(|status| (status.resources.clone(), status.allocated_resources.clone()));
        amounts.collect()
    };
    let is_reported =
        |pod: &Pod| pod.status.as_ref().is_some_and(|status| status.container_statuses.is_some());
    // Before a container has run there is nothing but its spec.
    !is_reported(pod)
        || resources(&before.pod) == resources(pod)
        || resources::requests(pod, false) == before.request
}

/// The Node that a Pod was given.
pub(crate) fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|name| !name.is_empty())
}

fn terms(pod: &Pod) -> Option<Terms> {
    let affinity = pod.spec.as_ref()?.affinity.as_ref()?;
    let namespace = meta::namespace(pod);
    let (with, against) = (affinity.pod_affinity.as_ref(), affinity.pod_anti_affinity.as_ref());
    if with.is_none() && against.is_none() {
        return None;
    }
    let mut terms = Terms::default();
    if let Some(with) = with {
        let required = with.required_during_scheduling_ignored_during_execution.iter().flatten();
        terms.required = required.map(|term| Term::new(term, 1, namespace)).collect();
        let preferred = with.preferred_during_scheduling_ignored_during_execution.iter().flatten();
        terms.preferred =
            preferred.map(|term| Term::new(&term.pod_affinity_term, term.weight, namespace)).collect();
    }
    if let Some(against) = against {
        let required = against.required_during_scheduling_ignored_during_execution.iter().flatten();
        terms.required_anti = required.map(|term| Term::new(term, 1, namespace)).collect();
        let preferred = against.preferred_during_scheduling_ignored_during_execution.iter().flatten();
        terms.preferred_anti =
            preferred.map(|term| Term::new(&term.pod_affinity_term, term.weight, namespace)).collect();
    }
    Some(terms)
}

/// A Node and what is used of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeInfo {
    /// Not there while only Pods on it are known.
    pub(crate) node: Option<Arc<Node>>,
    pub(crate) allocatable: Resources,
    pub(crate) max_pods: i64,
    pub(crate) requested: Resources,
    pub(crate) nonzero: (i64, i64),
    pub(crate) pods: BTreeMap<ObjectKey, Arc<PodInfo>>,
}

/// A Node by its name.
pub(crate) type Named<'n> = (&'n str, &'n NodeInfo);

impl NodeInfo {
    /// The labels of the Node.
    pub(crate) fn labels(&self) -> Option<&Labels> {
        self.node.as_ref()?.metadata.labels.as_ref()
    }

    /// The value of a label of the Node.
    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        selector::label(self.labels(), key)
    }

    fn count(&mut self, pod: &PodInfo, sign: i64) {
        self.requested.add(&pod.request, sign);
        self.nonzero.0 += sign * pod.nonzero.0;
        self.nonzero.1 += sign * pod.nonzero.1;
    }
}

/// The Pods of a namespace by their labels.
#[derive(Debug, Default)]
struct ByLabel {
    all: BTreeSet<ObjectKey>,
    pairs: HashMap<String, HashMap<String, BTreeSet<ObjectKey>>>,
}

/// Nodes, and the Pods on them.
#[derive(Debug, Default)]
pub(crate) struct State {
    nodes: BTreeMap<String, NodeInfo>,
    /// Pods on Nodes, with the Node.
    pods: HashMap<ObjectKey, (String, Arc<PodInfo>)>,
    labels: HashMap<Arc<str>, ByLabel>,
    with_terms: BTreeSet<ObjectKey>,
}

impl State {
    /// The Nodes that there are.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = (&str, &Arc<Node>, &NodeInfo)> {
        self.nodes.iter().filter_map(|(name, info)| Some((name.as_str(), info.node.as_ref()?, info)))
    }

    /// A Node.
    pub(crate) fn node(&self, name: &str) -> Option<&NodeInfo> {
        self.nodes.get(name).filter(|info| info.node.is_some())
    }

    /// A Pod on a Node, and the Node's name.
    pub(crate) fn pod(&self, key: &ObjectKey) -> Option<(&str, &Arc<PodInfo>)> {
        self.pods.get(key).map(|(node, pod)| (node.as_str(), pod))
    }

    /// The Pods on Nodes that have an affinity or anti-affinity to other Pods.
    pub(crate) fn with_terms(&self) -> impl Iterator<Item = (&str, &Arc<PodInfo>)> {
        self.with_terms.iter().filter_map(|key| self.pod(key))
    }

    /// The Pods on Nodes.
    pub(crate) fn pods(&self) -> impl Iterator<Item = (&str, &Arc<PodInfo>)> {
        self.nodes.iter().flat_map(|(name, info)| info.pods.values().map(move |pod| (name.as_str(), pod)))
    }

    /// The Pods of a namespace on Nodes that a selector matches. Looks only at those with the rarest of its labels.
    pub(crate) fn matching<'s>(
        &'s self,
        namespace: &str,
        selector: &'s LabelSelector,
    ) -> impl Iterator<Item = (&'s str, &'s Arc<PodInfo>)> {
        let labels = self.labels.get(namespace);
        let rarest = labels.and_then(|labels| {
            let pairs = selector.match_labels.iter().flatten();
            let sets = pairs.map(|(key, value)| labels.pairs.get(key).and_then(|values| values.get(value)));
            let sets: Option<Vec<_>> = sets.collect();
            // A label that no Pod has: nothing matches.
            Some(sets?.into_iter().min_by_key(|set| set.len()).unwrap_or(&labels.all))
        });
        let candidates = rarest.into_iter().flatten().filter_map(|key| self.pod(key));
        candidates.filter(|(_, pod)| selector::matches(Some(selector), pod.pod.metadata.labels.as_ref()))
    }

    /// Takes over a Node.
    pub(crate) fn set_node(&mut self, name: &str, node: Option<Arc<Node>>) {
        let info = self.nodes.entry(name.to_owned()).or_default();
        let allocatable = node
            .as_ref()
            .and_then(|node| node.status.as_ref())
            .and_then(|status| status.allocatable.as_ref());
        info.allocatable = Resources::of(allocatable);
        info.max_pods = allocatable.and_then(|all| all.get("pods")).map_or(0, resources::value);
        info.node = node;
        if info.node.is_none() && info.pods.is_empty() {
            self.nodes.remove(name);
        }
    }

    /// Takes over a Pod that is on a Node and has not finished, or forgets it.
    pub(crate) fn set_pod(&mut self, key: &ObjectKey, pod: Option<Arc<Pod>>) {
        let on_node = pod.filter(|pod| !matches!(pods::phase(pod), "Succeeded" | "Failed"));
        let Some((node, pod)) = on_node.and_then(|pod| Some((node_of(&pod)?.to_owned(), pod))) else {
            self.remove(key);
            return;
        };
        // Most changes are of the status.
        if let Some((at, before)) = self.pods.get_mut(key)
            && *at == node
            && before.pod.spec == pod.spec
            && before.pod.metadata.labels == pod.metadata.labels
            && has_same_requests(before, &pod)
        {
            let mut info = PodInfo::clone(before);
            info.pod = pod;
            let info = Arc::new(info);
            *before = Arc::clone(&info);
            if let Some(known) = self.nodes.get_mut(&node) {
                known.pods.insert(key.clone(), info);
            }
            return;
        }
        self.add(&node, Arc::new(PodInfo::new(pod)));
    }

    /// Counts a Pod on a Node.
    pub(crate) fn add(&mut self, node: &str, pod: Arc<PodInfo>) {
        let key = pod.key.clone();
        self.remove(&key);
        let info = self.nodes.entry(node.to_owned()).or_default();
        info.count(&pod, 1);
        info.pods.insert(key.clone(), Arc::clone(&pod));
        let labels = self.labels.entry(key.namespace.clone()).or_default();
        labels.all.insert(key.clone());
        for (name, value) in pod.pod.metadata.labels.iter().flatten() {
            let values = labels.pairs.entry(name.clone()).or_default();
            values.entry(value.clone()).or_default().insert(key.clone());
        }
        if pod.terms.is_some() {
            self.with_terms.insert(key.clone());
        }
        self.pods.insert(key, (node.to_owned(), pod));
    }

    /// Forgets a Pod.
    pub(crate) fn remove(&mut self, key: &ObjectKey) -> Option<(String, Arc<PodInfo>)> {
        let (node, pod) = self.pods.remove(key)?;
        if let Some(info) = self.nodes.get_mut(&node) {
            info.count(&pod, -1);
            info.pods.remove(key);
            if info.node.is_none() && info.pods.is_empty() {
                self.nodes.remove(&node);
            }
        }
        if let Some(labels) = self.labels.get_mut(&key.namespace) {
            labels.all.remove(key);
            for (name, value) in pod.pod.metadata.labels.iter().flatten() {
                let Some(values) = labels.pairs.get_mut(name) else { continue };
                let Some(keys) = values.get_mut(value) else { continue };
                keys.remove(key);
                if keys.is_empty() {
                    values.remove(value);
                }
                if values.is_empty() {
                    labels.pairs.remove(name);
                }
            }
            if labels.all.is_empty() {
                self.labels.remove(&key.namespace);
            }
        }
        self.with_terms.remove(key);
        Some((node, pod))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, app: &str, node: &str, phase: &str) -> Arc<Pod> {
        let requests = json!({"cpu": "500m"});
        let pod = json!({
            "metadata": {"name": name, "namespace": "shop", "labels": {"app": app, "tier": "x"}},
            "spec": {"nodeName": node, "containers": [{"name": "c", "resources": {"requests": requests}}]},
            "status": {"phase": phase},
        });
        Arc::new(serde_json::from_value(pod).expect("a Pod"))
    }

    #[test]
    fn usage_follows_pods() {
        let mut state = State::default();
        let node = json!({"metadata": {"name": "a"}, "status": {"allocatable": {"cpu": "2", "pods": "3"}}});
        state.set_node("a", Some(Arc::new(serde_json::from_value(node).expect("a Node"))));
        let keys: Vec<_> = ["one", "two", "three"].map(|name| ObjectKey::new("shop", name)).into();
        state.set_pod(&keys[0], Some(pod("one", "web", "a", "Running")));
        state.set_pod(&keys[1], Some(pod("two", "db", "a", "Pending")));
        state.set_pod(&keys[2], Some(pod("three", "web", "a", "Succeeded")));
        let used = |state: &State| state.node("a").map(|info| (info.requested.cpu, info.pods.len()));
        assert_eq!(used(&state), Some((1000, 2)));
        state.set_pod(&keys[0], Some(pod("one", "web", "a", "Failed")));
        assert_eq!(used(&state), Some((500, 1)));
        let selector = |app: &str| LabelSelector {
            match_labels: Some([("app".to_owned(), app.to_owned())].into()),
            match_expressions: None,
        };
        assert_eq!(state.matching("shop", &selector("db")).count(), 1);
        assert_eq!(state.matching("shop", &selector("web")).count(), 0);
        assert_eq!(state.matching("shop", &LabelSelector::default()).count(), 1);
        state.set_pod(&keys[1], None);
        assert_eq!(used(&state), Some((0, 0)));
        state.set_node("a", None);
        assert!(state.nodes().next().is_none());
    }
}
