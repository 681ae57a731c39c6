//! Sentences of verdicts: what a provider does instead of what is written.

use super::effect::{ErrorDirection, Says};
use crate::extract::Use;
use crate::model::{Action, PeerKind, Policy, PortNumbers};
use crate::profile::{CarriedOut, Support};

/// `Cilium 1.15 allows only port 30000 of 30000-32000 (less than written); supported since 1.16`.
pub(super) fn sentence(
    provider: &str,
    policy: &Policy,
    used: &Use,
    says: Says,
    error: ErrorDirection,
    since: Option<&str>,
) -> String {
    let carried_out = says.carried_out.filter(|_| says.support != Support::Undefined);
    let does = carried_out.map_or_else(
        || format!("has no defined behavior for {}", written(policy, used)),
        |carried_out| transformation(policy, used, carried_out),
    );
    let since = since.map_or_else(String::new, |since| format!("; supported since {since}"));
    format!("{provider} {does} ({error}){since}")
}

fn verb(policy: &Policy, used: &Use) -> &'static str {
    match used.rule(policy).map(|rule| rule.action) {
        Some(Action::Deny) => "denies",
        Some(Action::Pass) => "passes on",
        Some(Action::Allow) | None => "allows",
    }
}

/// What is written: `port 80`, `ipBlock 10.0.0.0/8`.
fn written(policy: &Policy, used: &Use) -> String {
    if let Some(port) = used.port(policy) {
        return match &port.numbers {
            PortNumbers::Any => format!("all {} ports", port.protocol),
            PortNumbers::Range { first, last } if first == last => format!("{} port {first}", port.protocol),
            PortNumbers::Range { first, last } => format!("{} ports {first}-{last}", port.protocol),
            PortNumbers::Named(name) => format!("named port {name}"),
        };
    }
    if let Some(peer) = used.peer(policy) {
        return match &peer.kind {
            PeerKind::Block(block) => format!("ipBlock {}", block.cidr),
            PeerKind::Nodes(_) => "the nodes".to_owned(),
            PeerKind::Domains(_) => "the domain names".to_owned(),
            PeerKind::Pods { .. } | PeerKind::Unknown(_) => "the peer".to_owned(),
        };
    }
    used.feature.title().to_owned()
}

fn transformation(policy: &Policy, used: &Use, carried_out: CarriedOut) -> String {
    use CarriedOut as C;
    let (verb, written) = (verb(policy, used), written(policy, used));
    let direction = used.direction.map_or("the direction", |direction| direction.as_str());
    match carried_out {
        C::FirstPort => match used.port(policy).map(|port| &port.numbers) {
            Some(PortNumbers::Range { first, last }) => format!("{verb} only port {first} of {first}-{last}"),
            _ => format!("{verb} only the first port of {written}"),
        },
        C::AllPorts => {
            let protocol = used.port(policy).map_or("", |port| port.protocol.as_str());
            format!("{verb} every {protocol} port instead of {written}")
        }
        C::AllTraffic => format!("ignores the rule's ports and {verb} all traffic instead of {written}"),
        C::PortIgnored | C::BlockIgnored => format!("ignores {written}"),
        C::PeerIgnored if used.peer(policy).is_some() => format!("ignores {written}"),
        C::PeerIgnored => format!("ignores peers because of {written}"),
        C::ExceptIgnored => format!("{verb} the whole of {written}, exceptions included"),
        C::RuleIgnored => format!("ignores the rule with {written}"),
        C::DirectionIgnored => format!("ignores {direction} of the policy"),
        C::PolicyIgnored if used.feature.is_kind() => format!("does not carry out {}", used.feature.title()),
        C::PolicyIgnored => format!("ignores the policy because of {}", used.feature.title()),
        C::DenyAll => format!("isolates the pods and allows nothing because of {}", used.feature.title()),
        C::PeerAny => format!("{verb} all peers instead of {written}"),
        C::AnyPod => format!("{verb} every number of {written} in every pod"),
        C::NeverMatchesPods => format!("does not match pods with {written}"),
        C::NeverMatchesNodes => format!("does not match nodes with {written}"),
        C::IgnoredFamily => format!("ignores addresses of this family: {written}"),
        C::UnownedPodsIgnored => "does not isolate pods without an owner reference".to_owned(),
        C::HostNetworkPodsIgnored => "does not isolate pods that use their node's network".to_owned(),
    }
}
