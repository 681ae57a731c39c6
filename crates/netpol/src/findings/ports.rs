//! Findings about ports: named ports that no pod has or that are ambiguous, and ports without a protocol.

use std::collections::BTreeSet;

use super::finding::{FindingKind, Findings};
use crate::extract::{destinations, rules};
use crate::index::{ClusterIndex, NamedPort};
use crate::model::{PeerKind, Peers, Policy, Port, PortNumbers, Ports, Protocol, Rule};
use crate::profile::Direction;

const NAMED: [FindingKind; 3] =
    [FindingKind::NamedPortMissing, FindingKind::NamedPortAmbiguous, FindingKind::NamedPortOtherProtocol];
/// Numbers that a message lists.
const MAX_NUMBERS: usize = 5;

/// Checks the ports of all rules.
pub(super) fn check(policy: &Policy, index: Option<&ClusterIndex<'_>>, findings: &mut Findings) {
    for direction in [Direction::Ingress, Direction::Egress] {
        for rule in rules(policy, direction).unwrap_or_default() {
            let Ports::Of(ports) = &rule.ports else { continue };
            // A named port of any protocol is several entries in one place.
            for same in ports.chunk_by(|a, b| a.place == b.place) {
                let Some(first) = same.first() else { continue };
                if first.protocol_defaulted {
                    findings.push(
                        FindingKind::PortWithoutProtocol,
                        &first.place,
                        "without a protocol, the port is TCP",
                    );
                }
                if let PortNumbers::Named(name) = &first.numbers {
                    check_named(policy, rule, direction, same, name, index, findings);
                }
            }
        }
    }
}

fn check_named(
    policy: &Policy,
    rule: &Rule,
    direction: Direction,
    entries: &[Port],
    name: &str,
    index: Option<&ClusterIndex<'_>>,
    findings: &mut Findings,
) {
    let Some(place) = entries.first().map(|port| &port.place) else { return };
    if direction == Direction::Egress && has_no_pods(rule) {
        let message = format!("named port {name} matches nothing: only pods have named ports");
        findings.push(FindingKind::NamedPortMissing, place, message);
        return;
    }
    let Some(index) = index else {
        findings.miss_for(&NAMED, "cluster", "no cluster was given");
        return;
    };
    let found = match destinations(policy, rule, direction, index, name) {
        Ok(found) => found,
        Err(unread) => {
            findings.miss(&NAMED, &unread);
            return;
        }
    };
    let protocols: BTreeSet<Protocol> = entries.iter().map(|port| port.protocol).collect();
    let (matching, others): (Vec<NamedPort>, Vec<NamedPort>) =
        found.into_iter().partition(|entry| protocols.contains(&entry.protocol));
    if matching.is_empty() {
        let wanted: Vec<&str> = protocols.iter().map(|protocol| protocol.as_str()).collect();
        match others.first() {
            Some(other) => {
                let message =
                    format!("named port {name} is {} in pods, and not {}", other.protocol, wanted.join(", "));
                findings.push(FindingKind::NamedPortOtherProtocol, place, message);
            }
            None => {
                let message = format!("no pod that the traffic goes to has a port with the name {name}");
                findings.push(FindingKind::NamedPortMissing, place, message);
            }
        }
        return;
    }
    let numbers: BTreeSet<u16> = matching.iter().map(|entry| entry.number).collect();
    if numbers.len() > 1 {
        let listed: Vec<String> = numbers.iter().take(MAX_NUMBERS).map(u16::to_string).collect();
        let more = if numbers.len() > MAX_NUMBERS { ", …" } else { "" };
        let message =
            format!("named port {name} is another number in different pods: {}{more}", listed.join(", "));
        findings.push(FindingKind::NamedPortAmbiguous, place, message);
    }
}

/// Whether a rule is about no pods at all.
fn has_no_pods(rule: &Rule) -> bool {
    match &rule.peers {
        Peers::Any => false,
        Peers::Of(peers) => {
            !peers.is_empty()
                && peers.iter().all(|peer| !matches!(peer.kind, PeerKind::Pods { .. } | PeerKind::Unknown(_)))
        }
    }
}
