//! Policies as a provider carries them out: deviations from what is written, applied to the model.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use super::view::{Entry, View};
use crate::feature::Feature;
use crate::model::{Family, Peer, PeerKind, Peers, Place, Policy, PolicyId, Port, PortNumbers, Ports, Rule};
use crate::profile::{CarriedOut, Direction};

/// A deviation of a provider from a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deviation {
    /// The policy.
    pub policy: PolicyId,
    /// The part that asks for the feature or exceeds the limit.
    pub place: Place,
    /// The direction, where it has one.
    pub direction: Option<Direction>,
    /// The feature; None if a limit is exceeded.
    pub feature: Option<Feature>,
    /// What is done instead.
    pub instead: Instead,
    /// A sentence about it, without the place.
    pub message: Arc<str>,
}

impl Deviation {
    /// Whether only traffic through Services is concerned, whose ports differ from those of their pods.
    fn is_of_services(&self) -> bool {
        self.feature == Some(Feature::ServicePortDiffers)
    }
}

/// What a provider does instead of what is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Instead {
    /// Something that is known.
    Known(CarriedOut),
    /// Nobody knows, for this reason.
    Undefined(Arc<str>),
}

/// How traffic reaches a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Path {
    /// At its own address and port.
    Direct,
    /// Through a Service with another port.
    OtherServicePort,
}

impl<'a> View<'a> {
    /// Policies as a provider carries them out. Policies without deviations are those that are written.
    ///
    /// Deviations that concern traffic through Services alone are left out; [`compare`](super::compare()) has them.
    #[must_use]
    pub fn carried_out(policies: &'a [Policy], deviations: &[Deviation]) -> Self {
        Self::from_policies(policies.iter()).deviating(deviations, Path::Direct)
    }

    /// Applies deviations.
    pub(super) fn deviating(mut self, deviations: &[Deviation], path: Path) -> Self {
        let mut by_policy: HashMap<&PolicyId, Vec<&Deviation>> = HashMap::new();
        for deviation in deviations {
            if path == Path::Direct && deviation.is_of_services() {
                continue;
            }
            by_policy.entry(&deviation.policy).or_default().push(deviation);
        }
        self.entries.retain_mut(|entry| {
            let Some(deviations) = by_policy.get(&entry.policy.id) else { return true };
            deviations.iter().all(|deviation| apply(entry, deviation))
        });
        self
    }

    /// All policies with an unknown effect, for example because the version of the provider is unknown.
    #[must_use]
    pub fn unknown(policies: &'a [Policy], reason: &Arc<str>) -> Self {
        let mut view = Self::from_policies(policies.iter());
        for entry in &mut view.entries {
            entry.exceptions.undefined_policy = Some(Arc::clone(reason));
        }
        view
    }
}

/// Whether one place is the other or lies within it.
fn related(left: &Place, right: &Place) -> bool {
    let (short, long) = if left.0.len() <= right.0.len() { (left, right) } else { (right, left) };
    long.0.strip_prefix(&*short.0).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// Applies a deviation to its policy. False if the policy is as if it did not exist.
fn apply(entry: &mut Entry<'_>, deviation: &Deviation) -> bool {
    let Deviation { place, feature, instead, .. } = deviation;
    let known = match instead {
        Instead::Known(known) => *known,
        Instead::Undefined(reason) => {
            undefined(entry, place, *feature, reason);
            return true;
        }
    };
    let exceptions = &mut entry.exceptions;
    let policy: &mut Policy = Cow::to_mut(&mut entry.policy);
    match known {
        CarriedOut::PolicyIgnored => return false,
        CarriedOut::DenyAll => {
            for rules in [&mut policy.ingress, &mut policy.egress].into_iter().flatten() {
                rules.clear();
            }
        }
        CarriedOut::DirectionIgnored => {
            for direction in directions(deviation) {
                *rules_mut(policy, *direction) = None;
            }
        }
        CarriedOut::RuleIgnored => {
            for direction in directions(deviation) {
                if let Some(rules) = rules_mut(policy, *direction) {
                    rules.retain(|rule| !related(&rule.place, place));
                }
            }
        }
        CarriedOut::AllTraffic => each_rule(policy, place, |rule| rule.ports = Ports::Any),
        CarriedOut::FirstPort => each_port(policy, place, |port| {
            if let PortNumbers::Range { first, last } = &mut port.numbers {
                *last = *first;
            }
        }),
        CarriedOut::AllPorts => each_port(policy, place, |port| port.numbers = PortNumbers::Any),
        CarriedOut::PortIgnored => each_rule(policy, place, |rule| {
            if let Ports::Of(ports) = &mut rule.ports {
                ports.retain(|port| !related(&port.place, place));
            }
        }),
        CarriedOut::PeerAny => each_rule(policy, place, |rule| {
            if let Peers::Of(peers) = &rule.peers
                && peers.iter().any(|peer| related(&peer.place, place))
            {
                rule.peers = Peers::Any;
            }
        }),
        CarriedOut::AnyPod => each_port(policy, place, |port| {
            exceptions.named_in_any_pod.insert(port.place.clone());
        }),
        CarriedOut::PeerIgnored => retain_peers(policy, place, |_| false),
        CarriedOut::BlockIgnored => {
            retain_peers(policy, place, |peer| !matches!(peer.kind, PeerKind::Block(_)));
        }
        CarriedOut::IgnoredFamily => {
            let ignored = match feature {
                Some(Feature::IpBlockV4) => Some(Family::V4),
                Some(Feature::IpBlockV6) => Some(Family::V6),
                _ => None,
            };
            retain_peers(policy, place, |peer| match &peer.kind {
                PeerKind::Block(block) => {
                    ignored.is_some_and(|ignored| Family::of(block.cidr.network) != ignored)
                }
                _ => true,
            });
        }
        CarriedOut::ExceptIgnored => each_peer(policy, place, |peer| {
            if let PeerKind::Block(block) = &mut peer.kind {
                block.except.clear();
            }
        }),
        CarriedOut::NeverMatchesPods => each_peer(policy, place, |peer| {
            exceptions.never_pods.insert(peer.place.clone());
        }),
        CarriedOut::NeverMatchesNodes => each_peer(policy, place, |peer| {
            exceptions.never_nodes.insert(peer.place.clone());
        }),
        CarriedOut::UnownedPodsIgnored => exceptions.skips_unowned = true,
        // As they are evaluated anyway.
        CarriedOut::HostNetworkPodsIgnored => {}
    }
    true
}

/// The directions that a deviation is about.
const fn directions(deviation: &Deviation) -> &'static [Direction] {
    match deviation.direction {
        Some(Direction::Egress) => &[Direction::Egress],
        Some(Direction::Ingress) => &[Direction::Ingress],
        None => Direction::ALL,
    }
}

const fn rules_mut(policy: &mut Policy, direction: Direction) -> &mut Option<Vec<Rule>> {
    match direction {
        Direction::Egress => &mut policy.egress,
        Direction::Ingress => &mut policy.ingress,
    }
}

fn each_rule(policy: &mut Policy, place: &Place, mut change: impl FnMut(&mut Rule)) {
    for rules in [&mut policy.ingress, &mut policy.egress].into_iter().flatten() {
        rules.iter_mut().filter(|rule| related(&rule.place, place)).for_each(&mut change);
    }
}

fn each_port(policy: &mut Policy, place: &Place, mut change: impl FnMut(&mut Port)) {
    each_rule(policy, place, |rule| {
        if let Ports::Of(ports) = &mut rule.ports {
            ports.iter_mut().filter(|port| related(&port.place, place)).for_each(&mut change);
        }
    });
}

fn each_peer(policy: &mut Policy, place: &Place, mut change: impl FnMut(&mut Peer)) {
    each_rule(policy, place, |rule| {
        if let Peers::Of(peers) = &mut rule.peers {
            peers.iter_mut().filter(|peer| related(&peer.place, place)).for_each(&mut change);
        }
    });
}

/// Removes the peers at a place that are not kept.
fn retain_peers(policy: &mut Policy, place: &Place, keep: impl Fn(&Peer) -> bool) {
    each_rule(policy, place, |rule| {
        if let Peers::Of(peers) = &mut rule.peers {
            peers.retain(|peer| !related(&peer.place, place) || keep(peer));
        }
    });
}

/// Marks the smallest parts with a place as undefined: whether they match is unknown.
fn undefined(entry: &mut Entry<'_>, place: &Place, feature: Option<Feature>, reason: &Arc<str>) {
    let is_about_blocks = match feature {
        // Evaluated as the node, which is remarked with each connection.
        Some(Feature::PodsHostNetwork) => return,
        Some(Feature::IpBlockPodAddress | Feature::IpBlockNodeAddress | Feature::IpBlockServiceAddress) => {
            true
        }
        _ => false,
    };
    let contains = |part: &Place| part.0.len() <= place.0.len() && related(part, place);
    let mut parts = Vec::new();
    let rules = [&entry.policy.ingress, &entry.policy.egress].into_iter().flatten().flatten();
    for rule in rules.filter(|rule| related(&rule.place, place)) {
        let ports = match &rule.ports {
            Ports::Of(ports) => ports.as_slice(),
            Ports::Any => &[],
        };
        let peers = match &rule.peers {
            Peers::Of(peers) => peers.as_slice(),
            Peers::Any => &[],
        };
        if is_about_blocks {
            let blocks = peers.iter().filter(|peer| matches!(peer.kind, PeerKind::Block(_)));
            parts.extend(blocks.map(|peer| peer.place.clone()).filter(|part| related(part, place)));
            continue;
        }
        let within = ports.iter().map(|port| &port.place).chain(peers.iter().map(|peer| &peer.place));
        let before = parts.len();
        parts.extend(within.filter(|part| contains(part)).cloned());
        if parts.len() == before && contains(&rule.place) {
            parts.push(rule.place.clone());
        }
    }
    // A larger part than a rule: the effect of the policy is undefined, its isolation included.
    if parts.is_empty() && !is_about_blocks {
        entry.exceptions.undefined_policy = Some(Arc::clone(reason));
    }
    entry.exceptions.undefined.extend(parts.into_iter().map(|part| (part, Arc::clone(reason))));
}
