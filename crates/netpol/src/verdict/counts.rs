//! Counts that providers limit, of one policy and over all of them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::extract::{Part, Use, rules};
use crate::feature::{Count, Feature};
use crate::model::{Cidr, Namespaces, PeerKind, Peers, Place, Policy, Port, PortNumbers, Ports, Protocol};
use crate::profile::Direction;

/// A count of a policy, with its place and the part that it is about.
#[derive(Clone, Debug)]
pub(super) struct Counted {
    pub(super) of: Count,
    pub(super) count: usize,
    pub(super) place: Place,
    /// The rule, in the form of a feature's use.
    pub(super) used: Use,
}

/// A subject by its namespace and selectors.
type Subject = (Arc<str>, String);

/// How many distinct ports policies with the same subject have for a range of addresses.
#[derive(Debug, Default)]
pub(super) struct Aggregate {
    subjects: HashMap<Subject, u32>,
    counts: HashMap<(Direction, u32, Cidr), usize>,
}

impl Aggregate {
    pub(super) fn new(policies: &[&Policy]) -> Self {
        let mut subjects: HashMap<Subject, u32> = HashMap::new();
        // Ranges have rules, and not the ports of these: a rule may have many of both.
        let mut rule_ports: Vec<&Ports> = Vec::new();
        let mut ranges: HashMap<(Direction, u32, Cidr), Vec<usize>> = HashMap::new();
        for policy in policies {
            let next = u32::try_from(subjects.len()).unwrap_or(u32::MAX);
            let subject = *subjects.entry(subject(policy)).or_insert(next);
            for direction in Direction::ALL {
                for rule in rules(policy, *direction).unwrap_or_default() {
                    let Peers::Of(peers) = &rule.peers else { continue };
                    let id = rule_ports.len();
                    rule_ports.push(&rule.ports);
                    for peer in peers {
                        let PeerKind::Block(block) = &peer.kind else { continue };
                        let ids = ranges.entry((*direction, subject, block.cidr)).or_default();
                        if ids.last() != Some(&id) {
                            ids.push(id);
                        }
                    }
                }
            }
        }
        // Policies for all pods of a namespace are for those of each other subject in it.
        let everything: HashMap<u32, u32> = subjects
            .iter()
            .filter(|((_, text), _)| !text.is_empty())
            .filter_map(|((namespace, _), id)| {
                Some((*id, *subjects.get(&(namespace.clone(), String::new()))?))
            })
            .collect();
        let mut known: HashMap<Vec<usize>, usize> = HashMap::new();
        let mut counts = HashMap::with_capacity(ranges.len());
        for (key, ids) in &ranges {
            let (direction, subject, cidr) = key;
            let others = everything.get(subject).and_then(|all| ranges.get(&(*direction, *all, *cidr)));
            let ids: Vec<usize> = ids.iter().chain(others.into_iter().flatten()).copied().collect();
            let count = known.entry(ids).or_insert_with_key(|ids| distinct_ports(ids, &rule_ports));
            counts.insert(*key, *count);
        }
        Self { subjects, counts }
    }

    /// The distinct ports for a range, of the policies that certainly have the same pods: those with the same selector, and those for
    /// all pods of the namespace.
    fn count(&self, subject: &Subject, direction: Direction, cidr: Cidr) -> usize {
        let subject = self.subjects.get(subject);
        subject.and_then(|id| self.counts.get(&(direction, *id, cidr))).copied().unwrap_or_default()
    }
}

fn distinct_ports(rules: &[usize], rule_ports: &[&Ports]) -> usize {
    let mut ports: HashSet<(Protocol, &PortNumbers)> = HashSet::new();
    for rule in rules.iter().filter_map(|id| rule_ports.get(*id)) {
        match rule {
            Ports::Any => ports.extend([(Protocol::Tcp, &PortNumbers::Any)]),
            Ports::Of(list) => ports.extend(list.iter().map(|port| (port.protocol, &port.numbers))),
        }
    }
    ports.len()
}

/// The subject of a policy; its text is empty for all pods of its namespace.
fn subject(policy: &Policy) -> Subject {
    let text = match &policy.subject.namespaces {
        Namespaces::Own => policy.subject.pods.to_string(),
        Namespaces::Selected(namespaces) => format!("[{namespaces}] {}", policy.subject.pods),
    };
    (policy.id.namespace.clone(), text)
}

fn entries(ports: &[Port]) -> usize {
    // A named port of any protocol is three entries in one place.
    let mut places: Vec<&Place> = ports.iter().map(|port| &port.place).collect();
    places.dedup();
    places.len()
}

/// The counts of a policy.
pub(super) fn counts(policy: &Policy, aggregate: Option<&Aggregate>) -> Vec<Counted> {
    let mut counts = Vec::new();
    let own = subject(policy);
    let (mut blocks, mut all_rules) = (0, 0);
    let place = |text: &str| Place(text.into());
    for direction in [Direction::Ingress, Direction::Egress] {
        for (index, rule) in rules(policy, direction).unwrap_or_default().iter().enumerate() {
            all_rules += 1;
            let used = |part| Use {
                feature: Feature::PortsAny,
                direction: Some(direction),
                family: None,
                rule: Some(index),
                part,
            };
            if let Ports::Of(ports) = &rule.ports {
                let place = place(&format!("{}.ports", rule.place));
                counts.push(Counted {
                    of: Count::PortsPerList,
                    count: entries(ports),
                    place,
                    used: used(Part::Whole),
                });
            }
            let Peers::Of(peers) = &rule.peers else { continue };
            let place = rule.place.clone();
            counts.push(Counted {
                of: Count::PeersPerRule,
                count: peers.len(),
                place,
                used: used(Part::Whole),
            });
            for (position, peer) in peers.iter().enumerate() {
                let PeerKind::Block(block) = &peer.kind else { continue };
                blocks += 1;
                let Some(aggregate) = aggregate else { continue };
                counts.push(Counted {
                    of: Count::PortsPerCidrAllPolicies,
                    count: aggregate.count(&own, direction, block.cidr),
                    place: peer.place.clone(),
                    used: used(Part::Peer(position)),
                });
            }
        }
    }
    let whole =
        Use { feature: Feature::PortsAny, direction: None, family: None, rule: None, part: Part::Whole };
    counts.push(Counted { of: Count::IpBlocksPerPolicy, count: blocks, place: place("spec"), used: whole });
    counts.push(Counted { of: Count::RulesPerPolicy, count: all_rules, place: place("spec"), used: whole });
    counts
}
