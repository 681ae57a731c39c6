//! Findings about selectors: what selects nothing, and what cannot select anything.

use std::collections::BTreeSet;

use settled_apimachinery::labels::{LabelSelector, Operator, Requirement};

use super::finding::{FindingKind, Findings};
use crate::extract::rules;
use crate::index::ClusterIndex;
use crate::model::{Kind, Namespaces, PeerKind, Peers, Place, Policy};
use crate::profile::Direction;

/// Whether a selector contradicts itself: then it selects nothing in any cluster. Gives the key.
pub(crate) fn contradiction(selector: &LabelSelector) -> Option<&str> {
    let requirements = selector.requirements();
    // They are sorted by key.
    requirements
        .chunk_by(|a, b| a.key() == b.key())
        .find(|same| is_contradictory(same))
        .and_then(|same| same.first())
        .map(Requirement::key)
}

fn is_contradictory(requirements: &[Requirement]) -> bool {
    let (mut allowed, mut denied): (Option<BTreeSet<&str>>, BTreeSet<&str>) = (None, BTreeSet::new());
    let (mut must_be_there, mut must_be_absent) = (false, false);
    for requirement in requirements {
        let values = requirement.values().iter().map(String::as_str);
        match requirement.operator() {
            Operator::In | Operator::Equals | Operator::DoubleEquals => {
                must_be_there = true;
                let values: BTreeSet<&str> = values.collect();
                allowed = Some(match allowed {
                    None => values,
                    Some(known) => known.intersection(&values).copied().collect(),
                });
            }
            Operator::NotIn | Operator::NotEquals => denied.extend(values),
            Operator::Exists | Operator::GreaterThan | Operator::LessThan => must_be_there = true,
            Operator::DoesNotExist => must_be_absent = true,
        }
    }
    must_be_there && must_be_absent || allowed.is_some_and(|allowed| allowed.is_subset(&denied))
}

fn check_contradiction(selector: &LabelSelector, place: &Place, findings: &mut Findings) -> bool {
    let Some(key) = contradiction(selector) else { return false };
    let message = format!("the selector contradicts itself on label {key}: it matches nothing");
    findings.push(FindingKind::SelectorContradictory, place, message);
    true
}

/// Checks the subject and the peers.
pub(super) fn check(policy: &Policy, index: Option<&ClusterIndex<'_>>, findings: &mut Findings) {
    let subject = &policy.subject;
    let mut is_contradictory = check_contradiction(&subject.pods, &subject.place, findings);
    if let Namespaces::Selected(namespaces) = &subject.namespaces {
        is_contradictory |= check_contradiction(namespaces, &subject.place, findings);
    }
    match index {
        Some(index) if !is_contradictory => check_subject(policy, index, findings),
        Some(_) => {}
        None => findings.miss_for(&SUBJECT, "cluster", "no cluster was given"),
    }
    for direction in [Direction::Ingress, Direction::Egress] {
        for rule in rules(policy, direction).unwrap_or_default() {
            let Peers::Of(peers) = &rule.peers else { continue };
            for peer in peers {
                check_peer(policy, &peer.kind, &peer.place, index, findings);
            }
        }
    }
}

const SUBJECT: [FindingKind; 3] =
    [FindingKind::SubjectEmpty, FindingKind::HostNetworkPods, FindingKind::UnownedPods];
const PEER: [FindingKind; 2] = [FindingKind::PeerWithoutNamespace, FindingKind::PeerEmpty];

fn check_subject(policy: &Policy, index: &ClusterIndex<'_>, findings: &mut Findings) {
    let (subject, own) = (&policy.subject, &*policy.id.namespace);
    if policy.id.kind == Kind::NetworkPolicy
        && index.namespaces_unread().is_none()
        && !index.has_namespace(own)
    {
        let message = format!("namespace {own} does not exist");
        findings.push(FindingKind::NamespaceMissing, &Place("metadata.namespace".into()), message);
        return;
    }
    let (mut count, mut host_network, mut unowned) = (0_usize, Sample::default(), Sample::default());
    let visited = index.visit_pods(own, &subject.namespaces, Some(&subject.pods), |_, pod| {
        count += 1;
        if pod.host_network {
            host_network.add(&pod.namespace, &pod.name);
        }
        if !pod.owned {
            unowned.add(&pod.namespace, &pod.name);
        }
        true
    });
    if let Err(unread) = visited {
        findings.miss(&SUBJECT, &unread);
        return;
    }
    if count == 0 {
        findings.push(
            FindingKind::SubjectEmpty,
            &subject.place,
            "the policy is for no pod: the selector matches none",
        );
    }
    if let Some(text) = host_network.text() {
        let message = format!("policies need not reach pods that use their node's network: {text}");
        findings.push(FindingKind::HostNetworkPods, &subject.place, message);
    }
    if let Some(text) = unowned.text() {
        let message = format!("some providers do not isolate pods without an owner reference: {text}");
        findings.push(FindingKind::UnownedPods, &subject.place, message);
    }
}

/// A count with the first name.
#[derive(Default)]
struct Sample {
    count: usize,
    first: String,
}

impl Sample {
    fn add(&mut self, namespace: &str, name: &str) {
        if self.count == 0 {
            self.first = format!("{namespace}/{name}");
        }
        self.count += 1;
    }

    fn text(&self) -> Option<String> {
        match self.count {
            0 => None,
            1 => Some(self.first.clone()),
            count => Some(format!("{} and {} more", self.first, count - 1)),
        }
    }
}

fn check_peer(
    policy: &Policy,
    kind: &PeerKind,
    place: &Place,
    index: Option<&ClusterIndex<'_>>,
    findings: &mut Findings,
) {
    match kind {
        PeerKind::Pods { namespaces, pods } => {
            let selected = match namespaces {
                Namespaces::Own => None,
                Namespaces::Selected(selector) => Some(selector),
            };
            let mut is_contradictory = false;
            for selector in selected.into_iter().chain(pods) {
                is_contradictory |= check_contradiction(selector, place, findings);
            }
            if is_contradictory {
                return;
            }
            let Some(index) = index else {
                findings.miss_for(&PEER, "cluster", "no cluster was given");
                return;
            };
            let own = &*policy.id.namespace;
            match index.namespaces(own, namespaces) {
                Ok(found) if found.is_empty() => {
                    let message = "no namespace has these labels: the peer cannot exist";
                    findings.push(FindingKind::PeerWithoutNamespace, place, message);
                    return;
                }
                Ok(_) => {}
                Err(unread) => {
                    findings.miss(&PEER, &unread);
                    return;
                }
            }
            let mut is_found = false;
            let visited = index.visit_pods(own, namespaces, pods.as_ref(), |_, _| {
                is_found = true;
                false
            });
            match visited {
                Ok(()) if !is_found => {
                    findings.push(FindingKind::PeerEmpty, place, "the peer matches no pod");
                }
                Ok(()) => {}
                Err(unread) => findings.miss(&[FindingKind::PeerEmpty], &unread),
            }
        }
        PeerKind::Nodes(selector) => {
            if check_contradiction(selector, place, findings) {
                return;
            }
            match index.map(|index| (index.cluster.nodes.read(), index.nodes_unread())) {
                Some((Some(nodes), _)) => {
                    if !nodes.iter().any(|node| selector.matches(&node.labels)) {
                        findings.push(FindingKind::PeerEmpty, place, "the peer matches no node");
                    }
                }
                Some((None, Some(unread))) => findings.miss(&[FindingKind::PeerEmpty], &unread),
                _ => findings.miss_for(&[FindingKind::PeerEmpty], "cluster", "no cluster was given"),
            }
        }
        PeerKind::Block(_) | PeerKind::Domains(_) | PeerKind::Unknown(_) => {}
    }
}
