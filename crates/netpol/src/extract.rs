//! Features of a policy with their places: what it asks for, for any provider.

use std::collections::BTreeSet;

use settled_apimachinery::labels::{LabelSelector, Operator};

use crate::feature::Feature;
use crate::index::{ClusterIndex, NamedPort, Unread};
use crate::model::{
    Action, Family, Kind, Namespaces, Peer, PeerKind, Peers, Place, Policy, Port, PortNumbers, Ports,
    Protocol, Rule,
};
use crate::profile::{Circumstances, Direction};

/// A feature that a policy asks for, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// The feature.
    pub feature: Feature,
    /// The direction, where it has one.
    pub direction: Option<Direction>,
    /// The family of addresses, where it has one.
    pub family: Option<Family>,
    /// The position of the rule in its direction.
    pub rule: Option<usize>,
    /// The part of the rule.
    pub part: Part,
}

/// Part of a rule that a feature is used in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The rule, or what it stands in.
    Whole,
    /// A peer by its position.
    Peer(usize),
    /// An entry of the ports by its position.
    Port(usize),
}

impl Use {
    /// The circumstances that decide with the version how it is carried out.
    #[must_use]
    pub fn circumstances(&self) -> Circumstances {
        Circumstances { direction: self.direction, family: self.family }
    }

    /// The rule of the policy that it is used in.
    #[must_use]
    pub fn rule<'p>(&self, policy: &'p Policy) -> Option<&'p Rule> {
        rules(policy, self.direction?)?.get(self.rule?)
    }

    /// The peer that it is used in.
    #[must_use]
    pub fn peer<'p>(&self, policy: &'p Policy) -> Option<&'p Peer> {
        match (&self.rule(policy)?.peers, self.part) {
            (Peers::Of(peers), Part::Peer(index)) => peers.get(index),
            _ => None,
        }
    }

    /// The entry of the ports that it is used in.
    #[must_use]
    pub fn port<'p>(&self, policy: &'p Policy) -> Option<&'p Port> {
        match (&self.rule(policy)?.ports, self.part) {
            (Ports::Of(ports), Part::Port(index)) => ports.get(index),
            _ => None,
        }
    }

    /// The field: `spec.egress[0].ports[0].endPort`.
    #[must_use]
    pub fn place(&self, policy: &Policy) -> Place {
        let is_core = policy.id.kind == Kind::NetworkPolicy;
        if let Some(port) = self.port(policy) {
            let field = match self.feature {
                Feature::PortEnd => ".endPort",
                Feature::ProtoSctp => ".protocol",
                Feature::PortNamed
                | Feature::PortNamedWithBlock
                | Feature::PortNamedAnyPeer
                | Feature::PortNamedAmbiguous
                | Feature::PortNamedInitContainer => ".port",
                _ => "",
            };
            return if is_core { join(&port.place, field) } else { port.place.clone() };
        }
        if let Some(peer) = self.peer(policy) {
            let field = match (&peer.kind, self.feature) {
                (PeerKind::Block(_), Feature::IpBlockExcept) => ".ipBlock.except",
                (PeerKind::Block(_), _) => ".ipBlock.cidr",
                _ => "",
            };
            return if is_core { join(&peer.place, field) } else { peer.place.clone() };
        }
        if let Some(rule) = self.rule(policy) {
            return rule.place.clone();
        }
        let text = match (self.feature, self.direction) {
            (Feature::PodsHostNetwork | Feature::PodsUnowned | Feature::SelectorNegative, _) => {
                return policy.subject.place.clone();
            }
            (Feature::TypesEgress, _) if !policy.types_defaulted && is_core => "spec.policyTypes",
            (_, Some(Direction::Ingress)) => "spec.ingress",
            (_, Some(Direction::Egress)) => "spec.egress",
            _ => "spec",
        };
        Place(text.into())
    }
}

fn join(place: &Place, field: &str) -> Place {
    if field.is_empty() { place.clone() } else { Place(format!("{place}{field}").into()) }
}

/// The rules of a direction.
pub(crate) fn rules(policy: &Policy, direction: Direction) -> Option<&[Rule]> {
    match direction {
        Direction::Ingress => policy.ingress.as_deref(),
        Direction::Egress => policy.egress.as_deref(),
    }
}

/// The features that a policy asks for, in the order of its fields.
///
/// ```
/// use serde_json::json;
/// use settled_netpol::extract::features;
/// use settled_netpol::parse::parse_policy;
///
/// let parsed = parse_policy(
///     &json!({
///         "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "web"},
///         "spec": {"podSelector": {}, "ingress": [{"ports": [{"protocol": "TCP", "port": 80, "endPort": 90}]}]},
///     }),
///     "shop",
/// )?;
/// let policy = parsed.policy.expect("it is valid");
/// let texts: Vec<String> =
///     features(&policy).iter().map(|used| format!("{} {}", used.place(&policy), used.feature)).collect();
/// assert_eq!(texts, [
///     "spec kind.NetworkPolicy",
///     "spec types.defaulted",
///     "spec.ingress[0] peers.any",
///     "spec.ingress[0].ports[0].endPort port.end",
/// ]);
/// # Ok::<(), settled_netpol::parse::ParseError>(())
/// ```
#[must_use]
pub fn features(policy: &Policy) -> Vec<Use> {
    let mut uses = Uses::default();
    uses.push(match policy.id.kind {
        Kind::NetworkPolicy => Feature::KindNetworkPolicy,
        Kind::AdminNetworkPolicy => Feature::KindAdminNetworkPolicy,
        Kind::BaselineAdminNetworkPolicy => Feature::KindBaselineAdminNetworkPolicy,
        Kind::ClusterNetworkPolicy => Feature::KindClusterNetworkPolicy,
    });
    if policy.types_defaulted {
        uses.push(Feature::TypesDefaulted);
    }
    let subject = [Some(&policy.subject.pods), selected(&policy.subject.namespaces)];
    if subject.into_iter().flatten().any(is_negative) {
        uses.push(Feature::SelectorNegative);
    }
    for direction in [Direction::Ingress, Direction::Egress] {
        let Some(rules) = rules(policy, direction) else { continue };
        uses.direction = Some(direction);
        if direction == Direction::Egress {
            uses.push(Feature::TypesEgress);
        }
        if rules.is_empty() {
            uses.push(match direction {
                Direction::Ingress => Feature::IsolationIngress,
                Direction::Egress => Feature::IsolationEgress,
            });
        }
        for (index, rule) in rules.iter().enumerate() {
            uses.rule = Some(index);
            uses.rule(rule, direction);
        }
        (uses.direction, uses.rule) = (None, None);
    }
    uses.list
}

fn selected(namespaces: &Namespaces) -> Option<&LabelSelector> {
    match namespaces {
        Namespaces::Own => None,
        Namespaces::Selected(selector) => Some(selector),
    }
}

fn is_negative(selector: &LabelSelector) -> bool {
    selector
        .requirements()
        .iter()
        .any(|requirement| matches!(requirement.operator(), Operator::NotIn | Operator::DoesNotExist))
}

#[derive(Default)]
struct Uses {
    list: Vec<Use>,
    direction: Option<Direction>,
    rule: Option<usize>,
}

impl Uses {
    fn push(&mut self, feature: Feature) {
        self.push_part(feature, Part::Whole, None);
    }

    fn push_part(&mut self, feature: Feature, part: Part, family: Option<Family>) {
        self.list.push(Use { feature, direction: self.direction, family, rule: self.rule, part });
    }

    fn rule(&mut self, rule: &Rule, direction: Direction) {
        if rule.action == Action::Pass {
            self.push(Feature::ActionPass);
        }
        let mut has_block = false;
        match &rule.peers {
            Peers::Any => self.push(Feature::PeersAny),
            Peers::Of(peers) => {
                for (index, peer) in peers.iter().enumerate() {
                    has_block |= matches!(peer.kind, PeerKind::Block(_));
                    self.peer(&peer.kind, Part::Peer(index), direction);
                }
            }
        }
        let is_any_peer = direction == Direction::Egress && matches!(rule.peers, Peers::Any);
        match &rule.ports {
            Ports::Any => self.push(Feature::PortsAny),
            Ports::Of(ports) => {
                for (index, port) in ports.iter().enumerate() {
                    // A named port of any protocol is three entries in one place.
                    let before = index.checked_sub(1).and_then(|before| ports.get(before));
                    if before.is_none_or(|before| before.place != port.place) {
                        self.port(port, Part::Port(index), has_block, is_any_peer);
                    }
                }
            }
        }
    }

    fn peer(&mut self, kind: &PeerKind, part: Part, direction: Direction) {
        match kind {
            PeerKind::Pods { namespaces, pods } => {
                let namespaces = selected(namespaces);
                let feature = match (namespaces, pods) {
                    (Some(namespaces), None) => {
                        if namespaces.is_everything() {
                            self.push_part(Feature::PeerAllNamespaces, part, None);
                        }
                        Feature::PeerNamespaces
                    }
                    (Some(_), Some(_)) => Feature::PeerCombined,
                    (None, _) => Feature::PeerPods,
                };
                self.push_part(feature, part, None);
                let selectors = || namespaces.into_iter().chain(pods);
                if selectors().any(LabelSelector::is_everything) {
                    self.push_part(Feature::PeerEmptySelector, part, None);
                }
                if selectors().any(is_negative) {
                    self.push_part(Feature::SelectorNegative, part, None);
                }
            }
            PeerKind::Block(block) => {
                let is_v4 = block.cidr.network.is_ipv4();
                let family = Some(if is_v4 { Family::V4 } else { Family::V6 });
                let mut push = |feature| self.push_part(feature, part, family);
                push(Feature::IpBlock);
                push(if is_v4 { Feature::IpBlockV4 } else { Feature::IpBlockV6 });
                push(match direction {
                    Direction::Ingress => Feature::IpBlockIngress,
                    Direction::Egress => Feature::IpBlockEgress,
                });
                if !block.except.is_empty() {
                    push(Feature::IpBlockExcept);
                }
                if block.cidr.bits == 0 {
                    push(Feature::IpBlockZero);
                }
            }
            PeerKind::Nodes(selector) => {
                self.push_part(Feature::PeerNodes, part, None);
                if is_negative(selector) {
                    self.push_part(Feature::SelectorNegative, part, None);
                }
            }
            PeerKind::Domains(_) => self.push_part(Feature::PeerDomains, part, None),
            // What is not known is no feature: the policy cannot be evaluated.
            PeerKind::Unknown(_) => {}
        }
    }

    fn port(&mut self, port: &Port, part: Part, has_block: bool, is_any_peer: bool) {
        let mut push = |feature| self.push_part(feature, part, None);
        match &port.numbers {
            PortNumbers::Any => push(Feature::PortAny),
            PortNumbers::Range { first, last } if first < last => push(Feature::PortEnd),
            PortNumbers::Range { .. } => {}
            PortNumbers::Named(_) => {
                push(Feature::PortNamed);
                if has_block {
                    push(Feature::PortNamedWithBlock);
                }
                if is_any_peer {
                    push(Feature::PortNamedAnyPeer);
                }
            }
        }
        // Of a named port of any protocol, only the first entry comes here, which is TCP.
        if port.protocol == Protocol::Sctp {
            push(Feature::ProtoSctp);
        }
        if port.protocol_defaulted {
            push(Feature::PortProtocolDefaulted);
        }
    }
}

/// The features that a snapshot could show of a policy with these features.
pub(crate) fn possible_in_cluster(policy: &Policy, uses: &[Use]) -> Vec<Feature> {
    let has = |feature| uses.iter().any(|used| used.feature == feature);
    let has_numbers = |rule: &Rule| {
        let Ports::Of(ports) = &rule.ports else { return false };
        ports.iter().any(|port| matches!(port.numbers, PortNumbers::Range { .. }))
    };
    let has_egress_numbers = policy.egress.iter().flatten().any(has_numbers);
    let possible = [
        (Feature::PodsHostNetwork, true),
        (Feature::PodsUnowned, true),
        (Feature::IpBlockPodAddress, has(Feature::IpBlock)),
        (Feature::IpBlockNodeAddress, has(Feature::IpBlock)),
        (Feature::IpBlockServiceAddress, has(Feature::IpBlock)),
        (Feature::PortNamedAmbiguous, has(Feature::PortNamed)),
        (Feature::PortNamedInitContainer, has(Feature::PortNamed)),
        (Feature::ServicePortDiffers, has_egress_numbers),
    ];
    possible.into_iter().filter(|(_, is_possible)| *is_possible).map(|(feature, _)| feature).collect()
}

/// The features that only a snapshot shows, and the objects that were not read and would show more.
pub(crate) fn features_in_cluster(
    policy: &Policy,
    index: &ClusterIndex<'_>,
) -> (Vec<Use>, Vec<(Feature, Unread)>) {
    let mut uses = Uses::default();
    let mut missing = Vec::new();
    subject_features(policy, index, &mut uses, &mut missing);
    for direction in [Direction::Ingress, Direction::Egress] {
        let Some(rules) = rules(policy, direction) else { continue };
        uses.direction = Some(direction);
        for (position, rule) in rules.iter().enumerate() {
            uses.rule = Some(position);
            block_features(rule, index, &mut uses, &mut missing);
            port_features(policy, rule, direction, index, &mut uses, &mut missing);
        }
    }
    (uses.list, missing)
}

fn subject_features(
    policy: &Policy,
    index: &ClusterIndex<'_>,
    uses: &mut Uses,
    missing: &mut Vec<(Feature, Unread)>,
) {
    let (mut host_network, mut unowned) = (false, false);
    let subject = &policy.subject;
    let visited =
        index.visit_pods(&policy.id.namespace, &subject.namespaces, Some(&subject.pods), |_, pod| {
            host_network |= pod.host_network;
            unowned |= !pod.owned;
            !(host_network && unowned)
        });
    if let Err(unread) = visited {
        missing.push((Feature::PodsHostNetwork, unread.clone()));
        missing.push((Feature::PodsUnowned, unread));
    }
    if host_network {
        uses.push(Feature::PodsHostNetwork);
    }
    if unowned {
        uses.push(Feature::PodsUnowned);
    }
}

fn block_features(
    rule: &Rule,
    index: &ClusterIndex<'_>,
    uses: &mut Uses,
    missing: &mut Vec<(Feature, Unread)>,
) {
    let Peers::Of(peers) = &rule.peers else { return };
    for (position, peer) in peers.iter().enumerate() {
        let PeerKind::Block(block) = &peer.kind else { continue };
        let family = if block.cidr.network.is_ipv4() { Family::V4 } else { Family::V6 };
        let sets = [
            (Feature::IpBlockPodAddress, &index.pod_addresses, index.pods_unread()),
            (Feature::IpBlockNodeAddress, &index.node_addresses, index.nodes_unread()),
            (Feature::IpBlockServiceAddress, &index.service_addresses, index.services_unread()),
        ];
        for (feature, addresses, unread) in sets {
            if addresses.meets(block) {
                uses.push_part(feature, Part::Peer(position), Some(family));
            } else if let Some(unread) = unread {
                missing.push((feature, unread));
            }
        }
    }
}

fn port_features(
    policy: &Policy,
    rule: &Rule,
    direction: Direction,
    index: &ClusterIndex<'_>,
    uses: &mut Uses,
    missing: &mut Vec<(Feature, Unread)>,
) {
    let Ports::Of(ports) = &rule.ports else { return };
    for (position, port) in ports.iter().enumerate() {
        let PortNumbers::Named(name) = &port.numbers else { continue };
        match destinations(policy, rule, direction, index, name) {
            Ok(found) => {
                let found: Vec<NamedPort> =
                    found.into_iter().filter(|entry| entry.protocol == port.protocol).collect();
                let first = found.first().map(|entry| entry.number);
                if found.iter().any(|entry| Some(entry.number) != first) {
                    uses.push_part(Feature::PortNamedAmbiguous, Part::Port(position), None);
                }
                if !found.is_empty() && found.iter().all(|entry| entry.init) {
                    uses.push_part(Feature::PortNamedInitContainer, Part::Port(position), None);
                }
            }
            Err(unread) => missing.push((Feature::PortNamedAmbiguous, unread)),
        }
    }
    if direction == Direction::Egress {
        service_features(policy, rule, ports, index, uses, missing);
    }
}

/// What a port name stands for in the pods that a rule's traffic goes to, whatever the protocol.
pub(crate) fn destinations(
    policy: &Policy,
    rule: &Rule,
    direction: Direction,
    index: &ClusterIndex<'_>,
    name: &str,
) -> Result<BTreeSet<NamedPort>, Unread> {
    if let Some(unread) = index.pods_unread() {
        return Err(unread);
    }
    let mut scopes: Vec<(&Namespaces, Option<&LabelSelector>)> = Vec::new();
    match direction {
        Direction::Ingress => scopes.push((&policy.subject.namespaces, Some(&policy.subject.pods))),
        Direction::Egress => match &rule.peers {
            Peers::Any => return Ok(index.named_ports(name)),
            Peers::Of(peers) => scopes.extend(peers.iter().filter_map(|peer| match &peer.kind {
                PeerKind::Pods { namespaces, pods } => Some((namespaces, pods.as_ref())),
                _ => None,
            })),
        },
    }
    // All pods are known by name: there is no need to look at each of them.
    let is_everything = |(namespaces, pods): &(&Namespaces, Option<&LabelSelector>)| {
        selected(namespaces).is_some_and(LabelSelector::is_everything)
            && pods.is_none_or(LabelSelector::is_everything)
    };
    if scopes.iter().any(is_everything) {
        return Ok(index.named_ports(name));
    }
    let mut found = BTreeSet::new();
    for (namespaces, pods) in scopes {
        index.visit_pods(&policy.id.namespace, namespaces, pods, |_, pod| {
            let ports = pod.ports.iter().filter(|port| port.name.as_deref() == Some(name));
            found.extend(ports.map(|port| NamedPort {
                protocol: port.protocol,
                number: port.number,
                init: port.init,
            }));
            true
        })?;
    }
    Ok(found)
}

/// Pods that the rule's traffic goes to behind another port of a Service.
fn service_features(
    policy: &Policy,
    rule: &Rule,
    ports: &[Port],
    index: &ClusterIndex<'_>,
    uses: &mut Uses,
    missing: &mut Vec<(Feature, Unread)>,
) {
    let mut not_looked_for = |unread| missing.push((Feature::ServicePortDiffers, unread));
    if let Some(unread) = index.services_unread().or_else(|| index.pods_unread()) {
        not_looked_for(unread);
        return;
    }
    for (position, port) in ports.iter().enumerate() {
        let PortNumbers::Range { first, last } = port.numbers else { continue };
        if !index.has_differing_service(port.protocol, first, last) {
            continue;
        }
        let mut is_behind = matches!(rule.peers, Peers::Any);
        let peers = match &rule.peers {
            Peers::Of(peers) => peers.as_slice(),
            Peers::Any => &[],
        };
        for peer in peers {
            let PeerKind::Pods { namespaces, pods } = &peer.kind else { continue };
            let visited = index.visit_pods(&policy.id.namespace, namespaces, pods.as_ref(), |pod, _| {
                is_behind |= index.is_behind_differing_service(pod, port.protocol, first, last);
                !is_behind
            });
            if let Err(unread) = visited {
                not_looked_for(unread);
            }
        }
        if is_behind {
            uses.push_part(Feature::ServicePortDiffers, Part::Port(position), None);
        }
    }
}
