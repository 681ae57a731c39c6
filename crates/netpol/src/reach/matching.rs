//! Matching of subjects, peers and ports, each with yes, no or unknown.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use settled_apimachinery::labels;

use super::outcome::UnknownReason;
use super::view::Entry;
use crate::cluster::{Cluster, Known, Labels, Node, Pod};
use crate::model::{
    Family, IpBlock, Namespaces, Peer, PeerKind, Peers, Place, Port, PortNumbers, Ports, Protocol, Rule,
};

/// The label that every namespace has, with its name.
const NAMESPACE_NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// One end of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End<'a> {
    /// A pod, also one on its node's network.
    Pod(&'a Pod),
    /// A node.
    Node(&'a Node),
    /// An address that is neither a pod's nor a node's, as far as these are known.
    Address(IpAddr),
    /// An address that is neither a pod's nor a node's.
    Outside(IpAddr),
}

impl<'a> End<'a> {
    /// The pod, if policies apply to it.
    pub(crate) fn subject(self) -> Option<&'a Pod> {
        match self {
            Self::Pod(pod) if !pod.host_network => Some(pod),
            _ => None,
        }
    }

    /// The node whose network the end uses.
    pub(crate) fn node(self) -> Option<&'a str> {
        match self {
            Self::Pod(pod) if pod.host_network => pod.node.as_deref(),
            Self::Node(node) => Some(&node.name),
            _ => None,
        }
    }

    fn addresses(&self) -> &[IpAddr] {
        match self {
            Self::Pod(pod) => &pod.addresses,
            Self::Node(node) => &node.addresses,
            Self::Address(address) | Self::Outside(address) => std::slice::from_ref(address),
        }
    }

    /// Whether the end can have connections of a family. An end without any address can have them of each.
    pub(crate) fn has_family(&self, family: Family) -> bool {
        let addresses = self.addresses();
        addresses.is_empty() || addresses.iter().any(|address| Family::of(*address) == family)
    }
}

/// Traffic of a new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Traffic {
    pub(crate) protocol: Protocol,
    pub(crate) port: u16,
}

/// Result of a match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Match {
    Yes,
    No,
    Unknown(UnknownReason),
}

impl Match {
    fn certain(matches: bool) -> Self {
        if matches { Self::Yes } else { Self::No }
    }

    fn and(self, other: impl FnOnce() -> Self) -> Self {
        match self {
            Self::No => Self::No,
            Self::Yes => other(),
            Self::Unknown(reason) => match other() {
                Self::No => Self::No,
                _ => Self::Unknown(reason),
            },
        }
    }
}

/// Labels of a namespace of which only the name is known.
struct OnlyName<'a> {
    name: &'a str,
    /// Whether a label was asked for that is not known.
    missed: Cell<bool>,
}

impl labels::Labels for OnlyName<'_> {
    fn label(&self, key: &str) -> Option<&str> {
        if key == NAMESPACE_NAME_LABEL {
            return Some(self.name);
        }
        self.missed.set(true);
        None
    }
}

/// Matches against a snapshot of the cluster.
#[derive(Clone, Debug)]
pub(crate) struct Matcher<'a> {
    pub(crate) cluster: &'a Cluster,
    namespaces: HashMap<&'a str, &'a Labels>,
    nodes: HashMap<&'a str, &'a Node>,
    /// The numbers that named ports have in any pod.
    named_ports: HashSet<(&'a str, Protocol, u16)>,
}

impl<'a> Matcher<'a> {
    pub(crate) fn new(cluster: &'a Cluster) -> Self {
        let namespaces = cluster.namespaces.read().unwrap_or_default().iter();
        let nodes = cluster.nodes.read().unwrap_or_default().iter();
        let ports = cluster.pods.read().unwrap_or_default().iter().flat_map(|pod| &pod.ports);
        let named_ports = ports.filter_map(|port| Some((port.name.as_deref()?, port.protocol, port.number)));
        Self {
            named_ports: named_ports.collect(),
            cluster,
            namespaces: namespaces.map(|namespace| (&*namespace.name, &namespace.labels)).collect(),
            nodes: nodes.map(|node| (&*node.name, node)).collect(),
        }
    }

    /// Whether a pod is a subject of a policy.
    pub(crate) fn subject(&self, entry: &Entry<'_>, pod: &Pod) -> Match {
        let subject = &entry.policy.subject;
        if pod.host_network || (entry.exceptions.skips_unowned && !pod.owned) {
            return Match::No;
        }
        if !subject.pods.matches(&pod.labels) {
            return Match::No;
        }
        self.namespaces(&subject.namespaces, &entry.policy.id.namespace, &pod.namespace)
            .and(|| undefined_policy(entry).unwrap_or(Match::Yes))
    }

    fn namespaces(&self, namespaces: &Namespaces, own: &str, namespace: &Arc<str>) -> Match {
        let selector = match namespaces {
            Namespaces::Own => return Match::certain(own == &**namespace),
            Namespaces::Selected(selector) => selector,
        };
        if let Some(labels) = self.namespaces.get(&**namespace) {
            return Match::certain(selector.matches(*labels));
        }
        let only_name = OnlyName { name: namespace, missed: Cell::new(false) };
        let matches = selector.matches(&only_name);
        if !only_name.missed.get() {
            return Match::certain(matches);
        }
        let reason = match &self.cluster.namespaces {
            Known::Read(_) => "it was not found".into(),
            Known::Unread(reason) => Arc::clone(reason),
        };
        Match::Unknown(UnknownReason::Namespace { name: Arc::clone(namespace), reason })
    }

    /// Whether a rule is about traffic between its subject and the other end, with the peer and port that match.
    pub(crate) fn rule<'r>(
        &self,
        entry: &Entry<'_>,
        rule: &'r Rule,
        other: End<'_>,
        destination: End<'_>,
        family: Family,
        traffic: Traffic,
    ) -> (Match, Option<&'r Place>, Option<&'r Place>) {
        let (port_match, port) = self.ports(entry, rule, destination, traffic);
        if port_match == Match::No {
            return (Match::No, None, None);
        }
        let (peer_match, peer) = self.peers(entry, rule, other, family);
        (port_match.and(|| peer_match), peer, port)
    }

    /// Whether a rule is about an end, with the peer that matches.
    pub(crate) fn peers<'r>(
        &self,
        entry: &Entry<'_>,
        rule: &'r Rule,
        end: End<'_>,
        family: Family,
    ) -> (Match, Option<&'r Place>) {
        if let Some(unknown) = undefined_policy(entry).or_else(|| undefined(entry, &rule.place)) {
            return (unknown, None);
        }
        let peers = match &rule.peers {
            Peers::Any => return (Match::Yes, None),
            Peers::Of(peers) => peers,
        };
        any(peers.iter().map(|peer| {
            let matched =
                undefined(entry, &peer.place).unwrap_or_else(|| self.peer(entry, peer, end, family));
            (matched, &peer.place)
        }))
    }

    fn peer(&self, entry: &Entry<'_>, peer: &Peer, end: End<'_>, family: Family) -> Match {
        match &peer.kind {
            PeerKind::Pods { namespaces, pods } => match end {
                End::Pod(pod) if pod.host_network => Match::No,
                End::Pod(pod) => {
                    if pods.as_ref().is_some_and(|selector| !selector.matches(&pod.labels)) {
                        return Match::No;
                    }
                    self.namespaces(namespaces, &entry.policy.id.namespace, &pod.namespace)
                }
                End::Node(_) | End::Outside(_) => Match::No,
                End::Address(_) => self.unless_pod(),
            },
            PeerKind::Block(block) => self.block(entry, peer, block, end, family),
            PeerKind::Nodes(selector) => match end {
                End::Pod(pod) if pod.host_network => match &self.cluster.nodes {
                    Known::Unread(reason) => Match::Unknown(UnknownReason::Nodes(Arc::clone(reason))),
                    Known::Read(_) => {
                        let node = pod.node.as_deref().and_then(|name| self.nodes.get(name));
                        Match::certain(node.is_some_and(|node| selector.matches(&node.labels)))
                    }
                },
                End::Pod(_) | End::Outside(_) => Match::No,
                End::Node(node) => Match::certain(selector.matches(&node.labels)),
                End::Address(_) => self.unless_node(),
            },
            PeerKind::Domains(_) => match end {
                End::Pod(pod) if !pod.host_network => Match::No,
                _ => Match::Unknown(UnknownReason::Domains { place: peer.place.clone() }),
            },
            PeerKind::Unknown(what) => {
                Match::Unknown(UnknownReason::Peer { place: peer.place.clone(), what: Arc::clone(what) })
            }
        }
    }

    /// No, unless the address could be that of a pod that was not read.
    fn unless_pod(&self) -> Match {
        match &self.cluster.pods {
            Known::Read(_) => Match::No,
            Known::Unread(reason) => Match::Unknown(UnknownReason::Pods(Arc::clone(reason))),
        }
    }

    /// No, unless the address could be that of a node that was not read.
    fn unless_node(&self) -> Match {
        match &self.cluster.nodes {
            Known::Read(_) => Match::No,
            Known::Unread(reason) => Match::Unknown(UnknownReason::Nodes(Arc::clone(reason))),
        }
    }

    fn block(&self, entry: &Entry<'_>, peer: &Peer, block: &IpBlock, end: End<'_>, family: Family) -> Match {
        let never_pods = entry.exceptions.never_pods.contains(&peer.place);
        let never_nodes = entry.exceptions.never_nodes.contains(&peer.place);
        let excluded = match end {
            End::Pod(pod) if pod.host_network => never_nodes,
            End::Pod(_) => never_pods,
            End::Node(_) => never_nodes,
            End::Address(_) | End::Outside(_) => false,
        };
        if excluded {
            return Match::No;
        }
        let mut addresses =
            end.addresses().iter().filter(|address| Family::of(**address) == family).peekable();
        if addresses.peek().is_none() {
            let object = match end {
                End::Pod(pod) => format!("pod {}/{}", pod.namespace, pod.name),
                End::Node(node) => format!("node {}", node.name),
                End::Address(address) | End::Outside(address) => address.to_string(),
            };
            return if Family::of(block.cidr.network) != family {
                Match::No
            } else if block.cidr.bits == 0 && block.except.is_empty() {
                Match::Yes
            } else {
                Match::Unknown(UnknownReason::Address { object: object.into(), family })
            };
        }
        let mut some = false;
        let mut every = true;
        for address in addresses {
            let contained = block.contains(*address);
            some |= contained;
            every &= contained;
        }
        match (some, every, end) {
            (false, _, _) => Match::No,
            (true, false, End::Node(node)) => Match::Unknown(UnknownReason::SeveralAddresses {
                node: Arc::clone(&node.name),
                place: peer.place.clone(),
            }),
            (true, false, End::Pod(pod)) => Match::Unknown(UnknownReason::SeveralAddresses {
                node: pod.node.clone().unwrap_or_else(|| Arc::clone(&pod.name)),
                place: peer.place.clone(),
            }),
            // It is not excluded if it is no pod's and no node's.
            (true, _, End::Address(_)) => {
                let pod = if never_pods { self.unless_pod() } else { Match::No };
                let node = if never_nodes { self.unless_node() } else { Match::No };
                match (pod, node) {
                    (Match::Unknown(reason), _) | (_, Match::Unknown(reason)) => Match::Unknown(reason),
                    _ => Match::Yes,
                }
            }
            (true, _, _) => Match::Yes,
        }
    }

    /// Whether a rule is about traffic to a destination's port, with the entry that matches.
    pub(crate) fn ports<'r>(
        &self,
        entry: &Entry<'_>,
        rule: &'r Rule,
        destination: End<'_>,
        traffic: Traffic,
    ) -> (Match, Option<&'r Place>) {
        let ports = match &rule.ports {
            Ports::Any => return (Match::Yes, None),
            Ports::Of(ports) => ports,
        };
        any(ports.iter().map(|port| {
            let matched =
                undefined(entry, &port.place).unwrap_or_else(|| self.port(entry, port, destination, traffic));
            (matched, &port.place)
        }))
    }

    fn port(&self, entry: &Entry<'_>, port: &Port, destination: End<'_>, traffic: Traffic) -> Match {
        if port.protocol != traffic.protocol {
            return Match::No;
        }
        match &port.numbers {
            PortNumbers::Any => Match::Yes,
            PortNumbers::Range { first, last } => Match::certain((*first..=*last).contains(&traffic.port)),
            PortNumbers::Named(name) => match destination {
                End::Pod(pod)
                    if !pod.host_network && entry.exceptions.named_in_any_pod.contains(&port.place) =>
                {
                    Match::certain(self.named_ports.contains(&(name, traffic.protocol, traffic.port)))
                }
                End::Pod(pod) if !pod.host_network => Match::certain(pod.ports.iter().any(|declared| {
                    declared.name.as_ref() == Some(name)
                        && declared.number == traffic.port
                        && declared.protocol == traffic.protocol
                })),
                End::Pod(_) | End::Node(_) | End::Outside(_) => Match::No,
                End::Address(_) => self.unless_pod(),
            },
        }
    }
}

/// Unknown, if the effect of the whole policy is undefined.
fn undefined_policy(entry: &Entry<'_>) -> Option<Match> {
    let reason = Arc::clone(entry.exceptions.undefined_policy.as_ref()?);
    let policy = entry.policy.id.clone();
    Some(Match::Unknown(UnknownReason::Provider { policy, place: None, reason }))
}

/// Unknown, if the effect of what stands at this place is undefined.
fn undefined(entry: &Entry<'_>, place: &Place) -> Option<Match> {
    let reason = entry.exceptions.undefined_at(place)?;
    Some(Match::Unknown(UnknownReason::Provider {
        policy: entry.policy.id.clone(),
        place: Some(place.clone()),
        reason: Arc::clone(reason),
    }))
}

/// Whether any matches, with the place of the first that does.
fn any<'r>(matches: impl Iterator<Item = (Match, &'r Place)>) -> (Match, Option<&'r Place>) {
    let mut unknown = None;
    for (matched, place) in matches {
        match matched {
            Match::Yes => return (Match::Yes, Some(place)),
            Match::No => {}
            Match::Unknown(reason) => {
                unknown.get_or_insert((Match::Unknown(reason), Some(place)));
            }
        }
    }
    unknown.unwrap_or((Match::No, None))
}
