//! A second evaluator, written from the documentation: slow, without indexes and without unknowns.

use std::net::IpAddr;

use settled_netpol::cluster::{Cluster, Pod};
use settled_netpol::model::{
    Action, Namespaces, Peer, PeerKind, Peers, Policy, PortNumbers, Ports, Protocol, Rule, Tier,
};

/// One end: a pod, or an address outside.
#[derive(Clone, Copy, Debug)]
pub(super) enum NaiveEnd<'a> {
    Pod(&'a Pod),
    Outside(IpAddr),
}

#[derive(Clone, Copy)]
pub(super) struct NaiveFlow<'a> {
    pub(super) source: NaiveEnd<'a>,
    pub(super) destination: NaiveEnd<'a>,
    pub(super) protocol: Protocol,
    pub(super) port: u16,
    pub(super) v4: bool,
}

fn namespace_matches(cluster: &Cluster, namespaces: &Namespaces, own: &str, name: &str) -> bool {
    match namespaces {
        Namespaces::Own => own == name,
        Namespaces::Selected(selector) => {
            let all = cluster.namespaces.read().unwrap();
            selector.matches(&all.iter().find(|namespace| &*namespace.name == name).unwrap().labels)
        }
    }
}

/// Whether traffic is allowed: the source's egress and the destination's ingress both allow it.
pub(super) fn is_allowed(cluster: &Cluster, policies: &[Policy], flow: NaiveFlow<'_>) -> bool {
    if let (NaiveEnd::Pod(source), NaiveEnd::Pod(destination)) = (flow.source, flow.destination)
        && (&source.namespace, &source.name) == (&destination.namespace, &destination.name)
    {
        return true;
    }
    direction_allows(cluster, policies, flow, true) && direction_allows(cluster, policies, flow, false)
}

fn direction_allows(cluster: &Cluster, policies: &[Policy], flow: NaiveFlow<'_>, egress: bool) -> bool {
    let (subject, other) =
        if egress { (flow.source, flow.destination) } else { (flow.destination, flow.source) };
    let NaiveEnd::Pod(pod) = subject else { return true };
    if pod.host_network {
        return true;
    }
    let rules = |policy: &Policy| if egress { policy.egress.clone() } else { policy.ingress.clone() };
    let applies = |policy: &&Policy| {
        rules(policy).is_some()
            && policy.subject.pods.matches(&pod.labels)
            && namespace_matches(cluster, &policy.subject.namespaces, &policy.id.namespace, &pod.namespace)
    };
    let matches = |policy: &Policy, rule: &Rule| {
        peers_match(cluster, policy, rule, other, flow.v4) && ports_match(rule, flow)
    };

    // Admin tier: the lowest priority number first; within a policy, the first rule that matches.
    let mut admin: Vec<(i64, &Policy)> = Vec::new();
    let mut baseline: Vec<(i64, &Policy)> = Vec::new();
    for policy in policies {
        match policy.tier {
            Tier::Admin { priority } => admin.push((priority, policy)),
            Tier::Baseline { priority } => baseline.push((priority, policy)),
            Tier::Namespace => {}
        }
    }
    admin.sort_by_key(|(priority, _)| *priority);
    baseline.sort_by_key(|(priority, _)| *priority);
    let decide = |tier: &[(i64, &Policy)]| {
        for (_, policy) in tier {
            if applies(policy) {
                for rule in rules(policy).unwrap() {
                    if matches(policy, &rule) {
                        return Some(rule.action);
                    }
                }
            }
        }
        None
    };
    match decide(&admin) {
        Some(Action::Allow) => return true,
        Some(Action::Deny) => return false,
        Some(Action::Pass) | None => {}
    }

    // NetworkPolicies: if any selects the pod, it is isolated, and what any of them allows is allowed.
    let selecting: Vec<&Policy> =
        policies.iter().filter(|policy| policy.tier == Tier::Namespace).filter(applies).collect();
    if !selecting.is_empty() {
        let own_node = match other {
            NaiveEnd::Pod(other) => other.host_network && other.node == pod.node,
            NaiveEnd::Outside(_) => false,
        };
        return own_node
            || selecting
                .iter()
                .any(|policy| rules(policy).unwrap().iter().any(|rule| matches(policy, rule)));
    }

    // Baseline tier, then the default.
    decide(&baseline) != Some(Action::Deny)
}

fn peers_match(cluster: &Cluster, policy: &Policy, rule: &Rule, other: NaiveEnd<'_>, v4: bool) -> bool {
    match &rule.peers {
        Peers::Any => true,
        Peers::Of(peers) => peers.iter().any(|peer| peer_matches(cluster, policy, peer, other, v4)),
    }
}

fn peer_matches(cluster: &Cluster, policy: &Policy, peer: &Peer, other: NaiveEnd<'_>, v4: bool) -> bool {
    match (&peer.kind, other) {
        (PeerKind::Pods { namespaces, pods }, NaiveEnd::Pod(pod)) => {
            !pod.host_network
                && namespace_matches(cluster, namespaces, &policy.id.namespace, &pod.namespace)
                && pods.as_ref().is_none_or(|selector| selector.matches(&pod.labels))
        }
        (PeerKind::Block(block), NaiveEnd::Pod(pod)) => {
            pod.addresses.iter().any(|address| address.is_ipv4() == v4 && block.contains(*address))
        }
        (PeerKind::Block(block), NaiveEnd::Outside(address)) => block.contains(address),
        (PeerKind::Pods { .. }, NaiveEnd::Outside(_)) => false,
        (other, _) => panic!("{other:?} is not generated"),
    }
}

fn ports_match(rule: &Rule, flow: NaiveFlow<'_>) -> bool {
    let ports = match &rule.ports {
        Ports::Any => return true,
        Ports::Of(ports) => ports,
    };
    ports.iter().any(|port| {
        port.protocol == flow.protocol
            && match &port.numbers {
                PortNumbers::Any => true,
                PortNumbers::Range { first, last } => *first <= flow.port && flow.port <= *last,
                PortNumbers::Named(name) => match flow.destination {
                    NaiveEnd::Outside(_) => false,
                    NaiveEnd::Pod(pod) => {
                        !pod.host_network
                            && pod.ports.iter().any(|declared| {
                                declared.name.as_ref() == Some(name)
                                    && declared.protocol == flow.protocol
                                    && declared.number == flow.port
                            })
                    }
                },
            }
    })
}
