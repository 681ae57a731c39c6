//! Explanation of a policy in plain sentences, with what is empty, missing or defaulted said.

use std::fmt;

use settled_apimachinery::labels::LabelSelector;

use crate::model::{
    Action, Kind, Namespaces, Peer, PeerKind, Peers, Place, Policy, Port, PortNumbers, Ports, Rule, Tier,
};
use crate::profile::Direction;

/// A policy in sentences. Its `Display` is one line for each, indented.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The sentences in order.
    pub sentences: Vec<Sentence>,
}

/// A sentence about a part of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sentence {
    /// How deep it is indented.
    pub depth: usize,
    /// The part, where there is one.
    pub place: Option<Place>,
    /// The text.
    pub text: String,
}

/// What a provider does with a part of a policy, in a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderRemark {
    /// The part; None if it is the whole policy.
    pub place: Option<Place>,
    /// The sentence.
    pub text: String,
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for sentence in &self.sentences {
            writeln!(f, "{:width$}{}", "", sentence.text, width = sentence.depth * 2)?;
        }
        Ok(())
    }
}

/// Explains a policy. Each remark follows the sentence about its place, or the one about the part that has it.
#[must_use]
pub fn explain(policy: &Policy, remarks: &[ProviderRemark]) -> Explanation {
    let mut sentences = Vec::new();
    let mut say = |depth, place: Option<&Place>, text: String| {
        sentences.push(Sentence { depth, place: place.cloned(), text });
    };
    say(0, None, format!("{}.", heading(policy)));
    say(0, Some(&policy.subject.place), subject(policy));
    say(0, None, tier(policy));
    if let Some(text) = defaulted(policy) {
        say(0, None, text);
    }
    for (direction, rules) in [(Direction::Ingress, &policy.ingress), (Direction::Egress, &policy.egress)] {
        say(0, None, direction_text(policy, direction, rules.as_deref()));
        for (index, rule) in rules.iter().flatten().enumerate() {
            say(1, Some(&rule.place), rule_text(policy, direction, index, rule));
            if let Peers::Of(peers) = &rule.peers {
                for peer in peers {
                    say(2, Some(&peer.place), format!("- {}", peer_text(policy, peer)));
                }
            }
        }
    }
    attach(&mut sentences, remarks);
    Explanation { sentences }
}

/// Adds each remark after the sentence about its place or the nearest part that contains it.
fn attach(sentences: &mut Vec<Sentence>, remarks: &[ProviderRemark]) {
    for remark in remarks {
        let position = remark.place.as_ref().and_then(|place| {
            let about = |sentence: &Sentence| {
                let own = sentence.place.as_ref()?;
                is_part_of(&place.0, &own.0).then_some(own.0.len())
            };
            let found =
                sentences.iter().enumerate().filter_map(|(index, sentence)| Some((about(sentence)?, index)));
            found.max().map(|(_, index)| index)
        });
        let (depth, index) = position.map_or((0, 0), |index| (sentences[index].depth + 1, index));
        let text = format!("Provider: {}", remark.text);
        sentences.insert(index + 1, Sentence { depth, place: remark.place.clone(), text });
    }
}

/// Whether a place is another one or lies within it.
fn is_part_of(place: &str, whole: &str) -> bool {
    place.strip_prefix(whole).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

fn heading(policy: &Policy) -> String {
    let id = &policy.id;
    if id.namespace.is_empty() {
        format!("{} {:?}", id.kind, &*id.name)
    } else {
        format!("{} {:?} in namespace {:?}", id.kind, &*id.name, &*id.namespace)
    }
}

fn subject(policy: &Policy) -> String {
    let pods = pods_text(Some(&policy.subject.pods));
    let empty = if policy.subject.pods.is_everything() && policy.id.kind == Kind::NetworkPolicy {
        " (podSelector is empty or missing)"
    } else {
        ""
    };
    let note =
        if policy.id.kind == Kind::NetworkPolicy { "" } else { " Pods with hostNetwork are not selected." };
    format!("It applies to {pods} in {}{empty}.{note}", namespaces_text(policy, &policy.subject.namespaces))
}

fn tier(policy: &Policy) -> String {
    match policy.tier {
        Tier::Admin { priority } => format!(
            "It is evaluated before NetworkPolicies, with priority {priority}; the lowest number is evaluated first. \
             The first rule that matches decides."
        ),
        Tier::Namespace => {
            "Its rules only allow: what several policies allow for a pod adds up, and their order \
                            does not matter."
                .to_owned()
        }
        Tier::Baseline { priority } if policy.id.kind == Kind::ClusterNetworkPolicy => format!(
            "It is evaluated after NetworkPolicies, for pods that none of them isolates, with priority {priority}; the \
             lowest number is evaluated first. The first rule that matches decides."
        ),
        Tier::Baseline { .. } => {
            "It is evaluated after NetworkPolicies, for pods that none of them isolates. The \
                                  first rule that matches decides."
                .to_owned()
        }
    }
}

fn defaulted(policy: &Policy) -> Option<String> {
    if !policy.types_defaulted || policy.id.kind != Kind::NetworkPolicy {
        return None;
    }
    Some(if policy.egress.is_some() {
        "policyTypes is missing: it defaults to Ingress, which always applies, and Egress, because there are egress rules."
            .to_owned()
    } else {
        "policyTypes is missing: it defaults to Ingress only, because there are no egress rules. To restrict egress without \
         rules, policyTypes must contain Egress."
            .to_owned()
    })
}

fn direction_text(policy: &Policy, direction: Direction, rules: Option<&[Rule]>) -> String {
    let name = match direction {
        Direction::Ingress => "Ingress",
        Direction::Egress => "Egress",
    };
    let network_policy = policy.id.kind == Kind::NetworkPolicy;
    match rules {
        None if network_policy => format!("{name}: not restricted by this policy (policyTypes does not contain {name})."),
        None => format!("{name}: not affected by this policy, as it has no {direction} rules."),
        Some([]) if network_policy => match direction {
            Direction::Ingress => "Ingress: the pods are isolated and no rule allows anything (ingress is empty or missing): \
                                   connections to them are denied, unless another policy allows them or they come from the \
                                   pod's own node."
                .to_owned(),
            Direction::Egress => "Egress: the pods are isolated and no rule allows anything (egress is empty or missing): \
                                  connections from them are denied, also to DNS, unless another policy allows them."
                .to_owned(),
        },
        Some([]) => format!("{name}: not affected by this policy, as it has no {direction} rules."),
        Some(_) if network_policy => match direction {
            Direction::Ingress => "Ingress: the pods are isolated. Connections to them are allowed only if a rule of this or \
                                   another policy allows them, or if they come from the pod's own node. Rules:"
                .to_owned(),
            Direction::Egress => "Egress: the pods are isolated. Connections from them are allowed only if a rule of this or \
                                  another policy allows them. Rules:"
                .to_owned(),
        },
        Some(_) => format!("{name}: rules in order; connections that match none are left to the policies after it:"),
    }
}

fn rule_text(policy: &Policy, direction: Direction, index: usize, rule: &Rule) -> String {
    let action = match (rule.action, policy.tier) {
        (Action::Allow, _) => "Allows",
        (Action::Deny, _) => "Denies",
        (Action::Pass, Tier::Admin { .. }) => "Passes on to NetworkPolicies",
        (Action::Pass, _) => "Passes on to the next tier",
    };
    let name = rule.name.as_ref().map(|name| format!(" {:?}", &**name)).unwrap_or_default();
    let ports = ports_text(&rule.ports);
    let peers = match (direction, &rule.peers) {
        (Direction::Ingress, Peers::Any) => {
            "from every source, also outside of the cluster (from is empty or missing).".to_owned()
        }
        (Direction::Egress, Peers::Any) => {
            "to every destination, also outside of the cluster (to is empty or missing).".to_owned()
        }
        (_, Peers::Of(peers)) if peers.is_empty() => "with no peer: the rule matches nothing.".to_owned(),
        (Direction::Ingress, Peers::Of(peers)) => format!("from {}:", any_of(peers.len())),
        (Direction::Egress, Peers::Of(peers)) => format!("to {}:", any_of(peers.len())),
    };
    format!("{}.{name} {action} {ports} {peers}", index + 1)
}

const fn any_of(peers: usize) -> &'static str {
    if peers == 1 { "this peer" } else { "any of these peers" }
}

fn ports_text(ports: &Ports) -> String {
    match ports {
        Ports::Any => "all traffic, on all ports and protocols (ports is empty or missing),".to_owned(),
        Ports::Of(ports) if ports.is_empty() => "no port".to_owned(),
        Ports::Of(ports) => ports.iter().map(port_text).collect::<Vec<_>>().join(" or "),
    }
}

fn port_text(port: &Port) -> String {
    let protocol = port.protocol;
    let defaulted = if port.protocol_defaulted { " (protocol is missing: TCP)" } else { "" };
    match &port.numbers {
        PortNumbers::Any => format!("every {protocol} port (port is missing){defaulted}"),
        PortNumbers::Range { first, last } if first == last => format!("{protocol} port {first}{defaulted}"),
        PortNumbers::Range { first, last } => format!("{protocol} ports {first} to {last}{defaulted}"),
        PortNumbers::Named(name) => {
            format!("the {protocol} container port named {:?} of the destination pod{defaulted}", &**name)
        }
    }
}

fn peer_text(policy: &Policy, peer: &Peer) -> String {
    match &peer.kind {
        PeerKind::Pods { namespaces, pods } => {
            format!("{} in {}", pods_text(pods.as_ref()), namespaces_text(policy, namespaces))
        }
        PeerKind::Block(block) => {
            let except = block.except.iter().map(ToString::to_string).collect::<Vec<_>>();
            let except =
                if except.is_empty() { String::new() } else { format!(", except in {}", except.join(", ")) };
            format!("addresses in {}{except}", block.cidr)
        }
        PeerKind::Nodes(selector) if selector.is_everything() => {
            "all nodes (the selector is empty)".to_owned()
        }
        PeerKind::Nodes(selector) => format!("nodes with labels {selector}"),
        PeerKind::Domains(names) => format!("addresses of the domain names {}", names.join(", ")),
        PeerKind::Unknown(what) => format!("a peer that is not known here ({what})"),
    }
}

fn pods_text(selector: Option<&LabelSelector>) -> String {
    match selector {
        None => "all pods".to_owned(),
        Some(selector) if selector.is_everything() => "all pods".to_owned(),
        Some(selector) => format!("pods with labels {selector}"),
    }
}

fn namespaces_text(policy: &Policy, namespaces: &Namespaces) -> String {
    match namespaces {
        Namespaces::Own => format!("namespace {:?}", &*policy.id.namespace),
        Namespaces::Selected(selector) if selector.is_everything() => {
            "all namespaces (the namespace selector is empty)".to_owned()
        }
        Namespaces::Selected(selector) => format!("namespaces with labels {selector}"),
    }
}
