//! Findings about duplicates: rules, peers and ports that are there twice.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::finding::{FindingKind, Findings};
use crate::extract::rules;
use crate::model::{Namespaces, Peer, PeerKind, Peers, Place, Policy, Port, PortNumbers, Ports, Rule};
use crate::profile::Direction;

/// Checks all rules, and the peers and ports of each.
pub(super) fn check(policy: &Policy, findings: &mut Findings) {
    for direction in [Direction::Ingress, Direction::Egress] {
        let rules = rules(policy, direction).unwrap_or_default();
        report("rule", rules.iter().map(|rule| (rule_text(rule), &rule.place)), findings);
        for rule in rules {
            if let Peers::Of(peers) = &rule.peers {
                report("peer", peers.iter().map(|peer| (peer_text(peer), &peer.place)), findings);
            }
            if let Ports::Of(ports) = &rule.ports {
                report("port", ports.iter().map(|port| (port_text(port), &port.place)), findings);
            }
        }
    }
}

fn report<'p>(word: &str, parts: impl Iterator<Item = (String, &'p Place)>, findings: &mut Findings) {
    let mut known: HashMap<String, &Place> = HashMap::new();
    for (text, place) in parts {
        match known.entry(text) {
            Entry::Occupied(first) => {
                let message = format!("the {word} is the same as {}", first.get());
                findings.push(FindingKind::Duplicate, place, message);
            }
            Entry::Vacant(entry) => {
                entry.insert(place);
            }
        }
    }
}

/// What a rule means, whatever the order of its parts.
fn rule_text(rule: &Rule) -> String {
    let joined = |mut texts: Vec<String>| {
        texts.sort_unstable();
        texts.dedup();
        texts.join("\n")
    };
    let peers = match &rule.peers {
        Peers::Any => "*".to_owned(),
        Peers::Of(peers) => joined(peers.iter().map(peer_text).collect()),
    };
    let ports = match &rule.ports {
        Ports::Any => "*".to_owned(),
        Ports::Of(ports) => joined(ports.iter().map(port_text).collect()),
    };
    format!("{:?}\n\n{peers}\n\n{ports}", rule.action)
}

fn peer_text(peer: &Peer) -> String {
    match &peer.kind {
        PeerKind::Pods { namespaces, pods } => {
            let namespaces = match namespaces {
                Namespaces::Own => "own".to_owned(),
                Namespaces::Selected(selector) => format!("[{selector}]"),
            };
            // All pods by an empty selector are all pods by none.
            let pods = pods.as_ref().map(ToString::to_string).unwrap_or_default();
            format!("pods {namespaces} [{pods}]")
        }
        PeerKind::Block(block) => {
            let mut except: Vec<String> = block.except.iter().map(ToString::to_string).collect();
            except.sort_unstable();
            format!("block {} {}", block.cidr, except.join(","))
        }
        PeerKind::Nodes(selector) => format!("nodes [{selector}]"),
        PeerKind::Domains(domains) => format!("domains {}", domains.join(",")),
        // What is not known is never the same.
        PeerKind::Unknown(_) => format!("unknown {}", peer.place),
    }
}

fn port_text(port: &Port) -> String {
    match &port.numbers {
        PortNumbers::Any => format!("{} *", port.protocol),
        PortNumbers::Range { first, last } => format!("{} {first}-{last}", port.protocol),
        PortNumbers::Named(name) => format!("{} {name}", port.protocol),
    }
}
