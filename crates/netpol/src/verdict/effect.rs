//! Direction of an error: whether what is carried out allows more or less than is written.

use std::fmt;

use crate::extract::Part;
use crate::model::Action;
use crate::profile::{CarriedOut, Scope, Support};

/// Whether what is carried out allows more or less traffic than is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ErrorDirection {
    /// More: a security hole.
    More,
    /// Less: an outage.
    Less,
    /// More or less: nobody knows.
    Either,
    /// Neither: other policies have the same effect.
    Same,
}

impl fmt::Display for ErrorDirection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::More => "more than written",
            Self::Less => "less than written",
            Self::Either => "more or less than written",
            Self::Same => "as written, thanks to other policies",
        })
    }
}

/// How large a part of a policy is not carried out as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Extent {
    /// A part of a rule.
    Part,
    /// A rule.
    Rule,
    /// A direction.
    Direction,
    /// The policy.
    Policy,
}

/// What a deviation does to traffic, before the policy's other rules and other policies are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// The rule matches more.
    MatchesMore,
    /// The rule matches less.
    MatchesLess,
    /// The direction or policy does not exist: what this means depends on other policies.
    Missing,
    /// Some pods are not isolated.
    Open,
    /// Nothing is allowed.
    Closed,
    /// Nobody knows.
    Undefined,
}

/// What a profile says of a part of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Says {
    pub(super) support: Support,
    /// What is done instead; None if nobody knows.
    pub(super) carried_out: Option<CarriedOut>,
    pub(super) extent: Extent,
}

impl Says {
    /// What a row says. Where it names only what is left out, that is what is done instead.
    pub(super) fn new(
        support: Support,
        carried_out: Option<CarriedOut>,
        scope: Option<Scope>,
        part: Part,
    ) -> Self {
        let left_out = match (scope, part) {
            (Some(Scope::Policy), _) => CarriedOut::PolicyIgnored,
            (Some(Scope::Direction), _) => CarriedOut::DirectionIgnored,
            (Some(Scope::Rule), _) | (None, Part::Whole) => CarriedOut::RuleIgnored,
            (Some(Scope::Port), _) | (None, Part::Port(_)) => CarriedOut::PortIgnored,
            (Some(Scope::Peer), _) | (None, Part::Peer(_)) => CarriedOut::PeerIgnored,
        };
        let is_left_out = matches!(support, Support::Dropped | Support::Narrowed);
        let carried_out = carried_out.or_else(|| is_left_out.then_some(left_out));
        let extent = match carried_out.unwrap_or(left_out) {
            CarriedOut::PolicyIgnored | CarriedOut::DenyAll => Extent::Policy,
            CarriedOut::DirectionIgnored => Extent::Direction,
            CarriedOut::RuleIgnored => Extent::Rule,
            _ => Extent::Part,
        };
        Self { support, carried_out, extent }
    }

    pub(super) fn effect(self) -> Effect {
        use CarriedOut as C;
        match self.carried_out.filter(|_| self.support != Support::Undefined) {
            Some(C::AllPorts | C::AllTraffic | C::ExceptIgnored | C::PeerAny | C::AnyPod) => {
                Effect::MatchesMore
            }
            Some(
                C::FirstPort
                | C::PortIgnored
                | C::PeerIgnored
                | C::BlockIgnored
                | C::RuleIgnored
                | C::NeverMatchesPods
                | C::NeverMatchesNodes
                | C::IgnoredFamily,
            ) => Effect::MatchesLess,
            Some(C::DirectionIgnored | C::PolicyIgnored) => Effect::Missing,
            Some(C::UnownedPodsIgnored | C::HostNetworkPodsIgnored) => Effect::Open,
            Some(C::DenyAll) => Effect::Closed,
            None => Effect::Undefined,
        }
    }
}

/// The direction of an error in a rule with this action.
pub(super) fn of_rule(effect: Effect, action: Action) -> ErrorDirection {
    match (effect, action) {
        (Effect::MatchesMore, Action::Allow) | (Effect::MatchesLess, Action::Deny) | (Effect::Open, _) => {
            ErrorDirection::More
        }
        (Effect::MatchesLess, Action::Allow) | (Effect::MatchesMore, Action::Deny) | (Effect::Closed, _) => {
            ErrorDirection::Less
        }
        (Effect::MatchesMore | Effect::MatchesLess, Action::Pass)
        | (Effect::Undefined | Effect::Missing, _) => ErrorDirection::Either,
    }
}

/// The direction of two errors together.
pub(super) fn combined(a: ErrorDirection, b: ErrorDirection) -> ErrorDirection {
    match (a, b) {
        (ErrorDirection::Same, other) | (other, ErrorDirection::Same) => other,
        (a, b) if a == b => a,
        _ => ErrorDirection::Either,
    }
}
