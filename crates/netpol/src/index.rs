//! Index of a cluster: which pods and namespaces selectors select, without a loop over all of them for each policy.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use settled_apimachinery::labels::{LabelSelector, Operator};

use crate::cluster::{Cluster, Known, Namespace, Pod, Service, TargetPort};
use crate::model::{Namespaces, Protocol};
use crate::ranges::{Ranges, single};

/// Positions by key and value of a label.
type ByLabel<'c> = HashMap<&'c str, HashMap<&'c str, Vec<u32>>>;

/// Index of a snapshot.
#[derive(Debug)]
pub struct ClusterIndex<'c> {
    /// The snapshot.
    pub cluster: &'c Cluster,
    pods: &'c [Pod],
    /// Positions of pods that have traffic, by namespace.
    by_namespace: HashMap<&'c str, Vec<u32>>,
    /// The same by namespace, key and value of a label.
    by_label: HashMap<&'c str, ByLabel<'c>>,
    no_labels: ByLabel<'c>,
    namespaces: &'c [Namespace],
    namespaces_by_name: HashMap<&'c str, u32>,
    namespaces_by_label: ByLabel<'c>,
    named_ports: HashMap<&'c str, BTreeSet<NamedPort>>,
    /// Ports of pods behind another port of a Service: by pod, and all of them sorted.
    differing_by_pod: HashMap<u32, Vec<(Protocol, u16)>>,
    differing_targets: Vec<(Protocol, u16)>,
    pub(crate) pod_addresses: Ranges,
    pub(crate) node_addresses: Ranges,
    pub(crate) service_addresses: Ranges,
}

/// What a port name stands for in a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NamedPort {
    pub(crate) protocol: Protocol,
    pub(crate) number: u16,
    pub(crate) init: bool,
}

/// Why a question has no answer: objects that were not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unread {
    /// The kind of objects, in the plural: `pods`.
    pub(crate) objects: &'static str,
    /// Why.
    pub(crate) reason: Arc<str>,
}

fn unread<T>(objects: &'static str, known: &Known<T>) -> Option<Unread> {
    match known {
        Known::Read(_) => None,
        Known::Unread(reason) => Some(Unread { objects, reason: reason.clone() }),
    }
}

impl<'c> ClusterIndex<'c> {
    /// Builds the index.
    #[must_use]
    pub fn new(cluster: &'c Cluster) -> Self {
        let pods = cluster.pods.read().unwrap_or_default();
        let namespaces = cluster.namespaces.read().unwrap_or_default();
        let nodes = cluster.nodes.read().unwrap_or_default();
        let services = cluster.services.read().unwrap_or_default();
        let mut by_namespace: HashMap<_, Vec<u32>> = HashMap::new();
        let mut by_label: HashMap<&str, ByLabel<'_>> = HashMap::new();
        let mut named_ports: HashMap<_, BTreeSet<NamedPort>> = HashMap::new();
        for (position, pod) in (0..).zip(pods).filter(|(_, pod)| !pod.finished) {
            by_namespace.entry(&*pod.namespace).or_default().push(position);
            for (key, value) in &pod.labels {
                let labels = by_label.entry(&*pod.namespace).or_default();
                labels.entry(&**key).or_default().entry(&**value).or_default().push(position);
            }
            for port in &pod.ports {
                let Some(name) = port.name.as_deref() else { continue };
                let entry = NamedPort { protocol: port.protocol, number: port.number, init: port.init };
                named_ports.entry(name).or_default().insert(entry);
            }
        }
        let mut namespaces_by_label = ByLabel::new();
        for (position, namespace) in (0..).zip(namespaces) {
            for (key, value) in &namespace.labels {
                namespaces_by_label.entry(&**key).or_default().entry(&**value).or_default().push(position);
            }
        }
        let pod_ips =
            pods.iter().filter(|pod| !pod.finished && !pod.host_network).flat_map(|pod| &pod.addresses);
        let pod_cidrs = nodes.iter().flat_map(|node| &node.pod_cidrs).copied();
        let mut index = Self {
            cluster,
            pods,
            by_namespace,
            by_label,
            no_labels: ByLabel::new(),
            namespaces,
            namespaces_by_name: namespaces.iter().map(|namespace| &*namespace.name).zip(0..).collect(),
            namespaces_by_label,
            named_ports,
            differing_by_pod: HashMap::new(),
            differing_targets: Vec::new(),
            pod_addresses: Ranges::new(pod_ips.map(|address| single(*address)).chain(pod_cidrs)),
            node_addresses: Ranges::new(
                nodes.iter().flat_map(|node| &node.addresses).map(|address| single(*address)),
            ),
            service_addresses: Ranges::new(
                services.iter().flat_map(|service| &service.cluster_ips).map(|address| single(*address)),
            ),
        };
        index.add_services(services);
        index
    }

    /// Records the ports of pods that Services lead to from another port.
    fn add_services(&mut self, services: &'c [Service]) {
        for service in services {
            let Some(selector) = &service.selector else { continue };
            let targets: Vec<(Protocol, u16)> = service
                .ports
                .iter()
                .filter_map(|port| match port.target {
                    TargetPort::Number(target) if target != port.port => Some((port.protocol, target)),
                    _ => None,
                })
                .collect();
            let labels = self.by_label.get(&*service.namespace);
            let with = |key: &str, value: &str| labels.and_then(|labels| labels.get(key)?.get(value));
            // The rarest label first; a selector without labels is for no pod.
            let lists =
                selector.iter().map(|(key, value)| with(key, value).map(Vec::as_slice).unwrap_or_default());
            let Some(candidates) = lists.min_by_key(|list| list.len()).filter(|_| !targets.is_empty()) else {
                continue;
            };
            for position in candidates {
                let pod = usize::try_from(*position).ok().and_then(|position| self.pods.get(position));
                if pod
                    .is_some_and(|pod| selector.iter().all(|(key, value)| pod.labels.get(key) == Some(value)))
                {
                    self.differing_by_pod.entry(*position).or_default().extend(&targets);
                    self.differing_targets.extend(&targets);
                }
            }
        }
        self.differing_targets.sort_unstable();
        self.differing_targets.dedup();
    }

    pub(crate) fn pods_unread(&self) -> Option<Unread> {
        unread("pods", &self.cluster.pods)
    }

    pub(crate) fn namespaces_unread(&self) -> Option<Unread> {
        unread("namespaces", &self.cluster.namespaces)
    }

    pub(crate) fn nodes_unread(&self) -> Option<Unread> {
        unread("nodes", &self.cluster.nodes)
    }

    pub(crate) fn services_unread(&self) -> Option<Unread> {
        unread("services", &self.cluster.services)
    }

    pub(crate) fn pod(&self, position: u32) -> Option<&'c Pod> {
        self.pods.get(usize::try_from(position).ok()?)
    }

    /// What a port name stands for in any pod.
    pub(crate) fn named_ports(&self, name: &str) -> BTreeSet<NamedPort> {
        self.named_ports.get(name).cloned().unwrap_or_default()
    }

    /// Whether a Service leads from another port to a port of this range in any pod.
    pub(crate) fn has_differing_service(&self, protocol: Protocol, first: u16, last: u16) -> bool {
        let start = self.differing_targets.partition_point(|target| *target < (protocol, first));
        self.differing_targets.get(start).is_some_and(|target| *target <= (protocol, last))
    }

    /// Whether a Service leads from another port to a port of this range in a pod.
    pub(crate) fn is_behind_differing_service(
        &self,
        pod: u32,
        protocol: Protocol,
        first: u16,
        last: u16,
    ) -> bool {
        let targets = self.differing_by_pod.get(&pod).map(Vec::as_slice).unwrap_or_default();
        targets.iter().any(|(known, target)| *known == protocol && (first..=last).contains(target))
    }

    /// Whether a namespace of this name was read.
    pub(crate) fn has_namespace(&self, name: &str) -> bool {
        self.namespaces_by_name.contains_key(name)
    }

    /// Names of the namespaces that are meant.
    pub(crate) fn namespaces<'n>(&'n self, own: &'n str, meant: &Namespaces) -> Result<Vec<&'n str>, Unread> {
        let Namespaces::Selected(selector) = meant else { return Ok(vec![own]) };
        if let Some(unread) = self.namespaces_unread() {
            return Err(unread);
        }
        let namespace = |position: u32| self.namespaces.get(usize::try_from(position).ok()?);
        let matches = |namespace: &&Namespace| selector.matches(&namespace.labels);
        let candidates = candidates(selector, &self.namespaces_by_label);
        Ok(match candidates {
            Some(positions) => positions
                .into_iter()
                .filter_map(namespace)
                .filter(matches)
                .map(|namespace| &*namespace.name)
                .collect(),
            None => self.namespaces.iter().filter(matches).map(|namespace| &*namespace.name).collect(),
        })
    }

    /// Calls a function with each selected pod, until it returns false.
    pub(crate) fn visit_pods(
        &self,
        own: &str,
        meant: &Namespaces,
        selector: Option<&LabelSelector>,
        mut visit: impl FnMut(u32, &'c Pod) -> bool,
    ) -> Result<(), Unread> {
        if let Some(unread) = self.pods_unread() {
            return Err(unread);
        }
        for namespace in self.namespaces(own, meant)? {
            let all = self.by_namespace.get(namespace).map(Vec::as_slice).unwrap_or_default();
            let labels = self.by_label.get(namespace);
            let candidates =
                selector.and_then(|selector| candidates(selector, labels.unwrap_or(&self.no_labels)));
            for position in candidates.as_deref().unwrap_or(all) {
                let Some(pod) = self.pod(*position) else { continue };
                if selector.is_none_or(|selector| selector.matches(&pod.labels)) && !visit(*position, pod) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Positions of the selected pods.
    pub(crate) fn selected_pods(
        &self,
        own: &str,
        meant: &Namespaces,
        selector: &LabelSelector,
    ) -> Result<Vec<u32>, Unread> {
        let mut positions = Vec::new();
        self.visit_pods(own, meant, Some(selector), |position, _| {
            positions.push(position);
            true
        })?;
        Ok(positions)
    }
}

/// The objects that have one of the values of the most selective requirement; None if no requirement asks for a value.
fn candidates(selector: &LabelSelector, labels: &ByLabel<'_>) -> Option<Vec<u32>> {
    let requirements = selector.requirements().iter();
    let with_values = requirements.filter(|requirement| {
        matches!(requirement.operator(), Operator::In | Operator::Equals | Operator::DoubleEquals)
    });
    let lists = with_values.map(|requirement| {
        let values: BTreeSet<&str> = requirement.values().iter().map(String::as_str).collect();
        let found = values.into_iter().filter_map(|value| labels.get(requirement.key())?.get(value));
        found.map(Vec::as_slice).collect::<Vec<&[u32]>>()
    });
    let best = lists.min_by_key(|lists| lists.iter().map(|list| list.len()).sum::<usize>())?;
    let mut positions = best.concat();
    positions.sort_unstable();
    Some(positions)
}
