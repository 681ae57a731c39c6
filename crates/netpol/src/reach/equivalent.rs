//! Equivalence classes of ends: pods, nodes and addresses that all policies of several views treat alike.
//!
//! Classes follow from what policies can look at (namespace, the labels that selectors name, ranges of addresses, named ports), before any
//! policy is evaluated. What depends on a pair of ends is left to the caller: whether both are the same, and whether one is on the node of
//! the other.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use super::classes::{AddressClass, address_classes, all_rules, to_number, whole};
use super::matching::End;
use super::view::View;
use crate::cluster::{Labels, Pod};
use crate::model::{Family, Namespaces, PeerKind, Peers, PortNumbers, Ports, Protocol};
use settled_apimachinery::labels::LabelSelector;

/// Ends that are treated alike.
pub(crate) struct Class {
    /// Indexes of its ends.
    pub(crate) members: Vec<usize>,
    /// Whether policies apply to it.
    pub(crate) is_subject: bool,
    /// Whether it is on the network of a node.
    pub(crate) is_on_node: bool,
}

/// What policies can look at of an end.
#[derive(PartialEq, Eq, Hash)]
enum Key<'a> {
    Pod {
        namespace: &'a str,
        labels: Vec<(&'a str, &'a str)>,
        addresses: Vec<usize>,
        ports: BTreeSet<(&'a str, Protocol, u16)>,
        owned: bool,
        /// Of a pod on the network of its node, that node.
        node: Option<Option<&'a str>>,
    },
    Node {
        labels: Vec<(&'a str, &'a str)>,
        addresses: Vec<usize>,
    },
    /// By its index: addresses are in classes already.
    Other(usize),
}

/// What policies look at.
struct Looks<'v> {
    labels: BTreeSet<&'v str>,
    port_names: BTreeSet<&'v str>,
    /// The first and the last address of each range, and the class that it is in; in order.
    ranges: Vec<(u128, u128, usize)>,
    family: Family,
}

impl<'v> Looks<'v> {
    fn of(views: &'v [&'v View<'v>], family: Family) -> Self {
        let mut looks =
            Self { labels: BTreeSet::new(), port_names: BTreeSet::new(), ranges: Vec::new(), family };
        for entry in views.iter().flat_map(|view| &view.entries) {
            looks.look_at(&entry.policy.subject.pods);
        }
        for rule in all_rules(views) {
            if let Ports::Of(ports) = &rule.ports {
                looks.port_names.extend(ports.iter().filter_map(|port| match &port.numbers {
                    PortNumbers::Named(name) => Some(&**name),
                    _ => None,
                }));
            }
            let Peers::Of(peers) = &rule.peers else { continue };
            for peer in peers {
                match &peer.kind {
                    // Namespaces are distinguished by their names.
                    PeerKind::Pods { namespaces: Namespaces::Own | Namespaces::Selected(_), pods } => {
                        pods.iter().for_each(|selector| looks.look_at(selector));
                    }
                    PeerKind::Nodes(selector) => looks.look_at(selector),
                    PeerKind::Block(_) | PeerKind::Domains(_) | PeerKind::Unknown(_) => {}
                }
            }
        }
        let classes: Vec<AddressClass> = address_classes(views, family, &[whole(family)]);
        for (class, AddressClass { ranges, .. }) in classes.iter().enumerate() {
            looks.ranges.extend(ranges.iter().map(|(first, last)| (*first, *last, class)));
        }
        looks.ranges.sort_unstable();
        looks
    }

    fn look_at(&mut self, selector: &'v LabelSelector) {
        self.labels.extend(selector.requirements().iter().map(|requirement| requirement.key()));
    }

    fn labels<'a>(&self, labels: &'a Labels) -> Vec<(&'a str, &'a str)> {
        let known = labels.iter().filter(|(key, _)| self.labels.contains(&***key));
        known.map(|(key, value)| (&**key, &**value)).collect()
    }

    /// The classes of the addresses of the family, without an order.
    fn addresses(&self, addresses: &[IpAddr]) -> Vec<usize> {
        let of_family = addresses.iter().filter(|address| Family::of(**address) == self.family);
        let class = |address: &IpAddr| {
            let number = to_number(*address);
            let after = self.ranges.partition_point(|(first, _, _)| *first <= number);
            after.checked_sub(1).and_then(|index| self.ranges.get(index)).map_or(usize::MAX, |range| range.2)
        };
        let mut classes: Vec<usize> = of_family.map(class).collect();
        classes.sort_unstable();
        classes.dedup();
        classes
    }

    fn key<'a>(&self, index: usize, end: End<'a>) -> Key<'a> {
        match end {
            End::Pod(pod) => self.pod(pod),
            End::Node(node) => {
                Key::Node { labels: self.labels(&node.labels), addresses: self.addresses(&node.addresses) }
            }
            End::Address(_) | End::Outside(_) => Key::Other(index),
        }
    }

    fn pod<'a>(&self, pod: &'a Pod) -> Key<'a> {
        let named = pod.ports.iter().filter_map(|port| {
            let name = port.name.as_deref().filter(|name| self.port_names.contains(name))?;
            Some((name, port.protocol, port.number))
        });
        Key::Pod {
            namespace: &pod.namespace,
            labels: self.labels(&pod.labels),
            addresses: self.addresses(&pod.addresses),
            ports: named.collect(),
            owned: pod.owned,
            node: pod.host_network.then_some(pod.node.as_deref()),
        }
    }
}

/// The classes of ends with connections of a family, in the order of their first members.
pub(crate) fn end_classes(views: &[&View<'_>], ends: &[End<'_>], family: Family) -> Vec<Class> {
    let looks = Looks::of(views, family);
    let mut classes: Vec<Class> = Vec::new();
    let mut known: HashMap<Key<'_>, usize> = HashMap::new();
    for (index, end) in ends.iter().enumerate() {
        let class = *known.entry(looks.key(index, *end)).or_insert_with(|| {
            let (is_subject, is_on_node) = (end.subject().is_some(), end.node().is_some());
            classes.push(Class { members: Vec::new(), is_subject, is_on_node });
            classes.len() - 1
        });
        if let Some(class) = classes.get_mut(class) {
            class.members.push(index);
        }
    }
    classes
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::model::Policy;
    use crate::parse::parse_policy;
    use crate::read_cluster;

    fn policy(spec: &Value) -> Policy {
        let object = json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
            "metadata": {"name": "p", "namespace": "a"}, "spec": spec,
        });
        parse_policy(&object, "a").unwrap().policy.unwrap()
    }

    /// A pod with a change of an object that has all that policies look at.
    fn pod(path: &str, value: Value) -> Pod {
        let mut object = json!({
            "metadata": {"name": "p", "namespace": "a", "labels": {"app": "web"}, "ownerReferences": [{"kind": "ReplicaSet"}]},
            "spec": {"nodeName": "n1", "hostNetwork": false, "containers": [{"ports": [{"name": "http", "containerPort": 80}]}]},
            "status": {"podIP": "10.0.0.1"},
        });
        if !path.is_empty() {
            *object.pointer_mut(path).unwrap() = value;
        }
        read_cluster::pod(&object).unwrap()
    }

    #[test]
    fn pods_are_alike_if_no_policy_can_tell_them_apart() {
        let policies = [policy(&json!({
            "podSelector": {"matchLabels": {"app": "web"}},
            "ingress": [{"from": [{"ipBlock": {"cidr": "10.1.0.0/16"}}], "ports": [{"port": "http"}]}],
        }))];
        let view = View::as_written(&policies);
        for (path, value, is_alike) in [
            ("", Value::Null, true),
            ("/metadata/name", json!("another"), true),
            ("/metadata/labels", json!({"app": "web", "pod-template-hash": "5d9"}), true),
            ("/status/podIP", json!("10.2.0.1"), true),
            ("/spec/nodeName", json!("n2"), true),
            ("/spec/containers/0/ports/0/name", json!("metrics"), false),
            ("/spec/containers/0/ports/0/containerPort", json!(81), false),
            ("/metadata/labels", json!({"app": "db"}), false),
            ("/metadata/labels", json!({}), false),
            ("/metadata/namespace", json!("b"), false),
            ("/metadata/ownerReferences", json!([]), false),
            ("/status/podIP", json!("10.1.0.1"), false),
            ("/status/podIP", json!(""), false),
            ("/spec/hostNetwork", json!(true), false),
        ] {
            let pods = [pod("", Value::Null), pod(path, value.clone())];
            let ends = [End::Pod(&pods[0]), End::Pod(&pods[1])];
            let classes = end_classes(&[&view], &ends, Family::V4);
            assert_eq!(classes.len(), if is_alike { 1 } else { 2 }, "{path} {value}");
        }
    }

    #[test]
    fn what_one_of_several_views_looks_at_counts() {
        let pods = [pod("", Value::Null), pod("/metadata/labels", json!({"app": "web", "tier": "x"}))];
        let ends = [End::Pod(&pods[0]), End::Pod(&pods[1])];
        let (one, other) = (
            [policy(&json!({"podSelector": {"matchLabels": {"app": "web"}}}))],
            [policy(&json!({"podSelector": {"matchExpressions": [{"key": "tier", "operator": "Exists"}]}}))],
        );
        let (one, other) = (View::as_written(&one), View::as_written(&other));
        assert_eq!(end_classes(&[&one], &ends, Family::V4).len(), 1);
        assert_eq!(end_classes(&[&one, &other], &ends, Family::V4).len(), 2);
    }
}
