//! Evaluation of one connection by tiers: admin, NetworkPolicy, baseline; egress of the source, then ingress of the destination.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::matching::{End, Match, Matcher, Traffic};
use super::outcome::{Cause, Decision, Effect, Outcome, Remark, UnknownReason};
use super::view::{Entry, View};
use crate::cluster::{Cluster, Known, Pod};
use crate::model::{Action, Family, Kind, Rule, Tier};
use crate::profile::Direction;

/// A connection as the policies of both ends decide it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Its family.
    pub family: Family,
    /// Whether it is allowed.
    pub outcome: Outcome,
    /// The decision about the source's egress; None if no policy can apply to the source.
    pub egress: Option<Decision>,
    /// The decision about the destination's ingress; None if no policy can apply to the destination.
    pub ingress: Option<Decision>,
    /// What is to be known beside the policies.
    pub remarks: Vec<Remark>,
}

/// Evaluates connections over a snapshot of a cluster and a set of policies.
#[derive(Clone, Debug)]
pub struct Evaluator<'a> {
    pub(super) matcher: Matcher<'a>,
    pub(super) view: &'a View<'a>,
    /// Policies of the admin tier by priority.
    pub(super) admin: Vec<(i64, Vec<usize>)>,
    /// NetworkPolicies by namespace.
    pub(super) network: HashMap<&'a str, Vec<usize>>,
    /// Policies of the baseline tier by priority.
    pub(super) baseline: Vec<(i64, Vec<usize>)>,
}

/// Tiers with ordered rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RuleTier {
    Admin,
    Baseline,
}

/// What a tier can do with a connection.
#[derive(Clone, Copy, Debug, Default)]
struct Possible {
    allow: bool,
    deny: bool,
    /// The connection is left to the next tier.
    next: bool,
}

/// What has been found about one direction so far.
#[derive(Default)]
struct Findings {
    causes: Vec<Cause>,
    unknown: Vec<UnknownReason>,
    own_node: bool,
}

impl Findings {
    fn unknown(&mut self, reason: UnknownReason) {
        if !self.unknown.contains(&reason) {
            self.unknown.push(reason);
        }
    }
}

/// One direction of a connection under evaluation.
#[derive(Clone, Copy)]
struct Side<'e> {
    direction: Direction,
    pod: &'e Pod,
    other: End<'e>,
    destination: End<'e>,
    family: Family,
    traffic: Traffic,
}

impl<'a> Evaluator<'a> {
    /// Prepares the evaluation of connections.
    #[must_use]
    pub fn new(cluster: &'a Cluster, view: &'a View<'a>) -> Self {
        let mut admin: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
        let mut baseline: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
        let mut network: HashMap<&str, Vec<usize>> = HashMap::new();
        for (index, entry) in view.entries.iter().enumerate() {
            match entry.policy.tier {
                Tier::Admin { priority } => admin.entry(priority).or_default().push(index),
                Tier::Baseline { priority } => baseline.entry(priority).or_default().push(index),
                Tier::Namespace => network.entry(&entry.policy.id.namespace).or_default().push(index),
            }
        }
        Self {
            matcher: Matcher::new(cluster),
            view,
            admin: admin.into_iter().collect(),
            network,
            baseline: baseline.into_iter().collect(),
        }
    }

    /// The snapshot of the cluster.
    pub(crate) fn cluster(&self) -> &'a Cluster {
        self.matcher.cluster
    }

    /// Evaluates a connection of a family that both ends have.
    pub(crate) fn connect(
        &self,
        source: End<'_>,
        destination: End<'_>,
        family: Family,
        traffic: Traffic,
    ) -> Connection {
        let mut remarks = Vec::new();
        for end in [source, destination] {
            if let End::Pod(pod) = end
                && pod.host_network
            {
                remarks.push(Remark::HostNetwork { pod: format!("{}/{}", pod.namespace, pod.name).into() });
            }
        }
        if let (End::Pod(source), End::Pod(destination)) = (source, destination)
            && source.namespace == destination.namespace
            && source.name == destination.name
        {
            remarks.push(Remark::SamePod);
            return Connection { family, outcome: Outcome::Allowed, egress: None, ingress: None, remarks };
        }
        let mut decide = |direction, end: End<'_>, other| {
            if let Some(pod) = end.subject() {
                let side = Side { direction, pod, other, destination, family, traffic };
                let (decision, own_node) = self.decide(side);
                if own_node {
                    remarks.push(Remark::OwnNode { direction });
                }
                Some(decision)
            } else {
                self.decide_unread(direction, end)
            }
        };
        let egress = decide(Direction::Egress, source, destination);
        let ingress = decide(Direction::Ingress, destination, source);
        if egress.is_none() && ingress.is_none() {
            remarks.push(Remark::NoPod);
        }
        let is =
            |wanted| [&egress, &ingress].into_iter().flatten().any(|decision| decision.outcome == wanted);
        let outcome = if is(Outcome::Denied) {
            Outcome::Denied
        } else if is(Outcome::Unknown) {
            Outcome::Unknown
        } else {
            Outcome::Allowed
        };
        Connection { family, outcome, egress, ingress, remarks }
    }

    /// What the policies of one end decide.
    fn decide(&self, side: Side<'_>) -> (Decision, bool) {
        let mut findings = Findings::default();
        let mut total = self.rule_tier(RuleTier::Admin, side, &mut findings);
        if total.next {
            let network = self.network_tier(side, &mut findings);
            total.allow |= network.allow;
            total.deny |= network.deny;
            total.next = network.next;
        }
        if total.next {
            let baseline = self.rule_tier(RuleTier::Baseline, side, &mut findings);
            // By default, a pod is not isolated.
            total.allow |= baseline.allow | baseline.next;
            total.deny |= baseline.deny;
        }
        let Findings { mut causes, mut unknown, own_node } = findings;
        let outcome = Outcome::from_possible(total.allow, total.deny);
        match outcome {
            Outcome::Allowed => {
                causes.retain(|cause| matches!(cause.effect, Effect::Allows | Effect::Passes))
            }
            Outcome::Denied => causes.retain(|cause| cause.effect != Effect::Allows),
            Outcome::Unknown => {}
        }
        if outcome != Outcome::Unknown {
            unknown.clear();
        }
        (Decision { direction: side.direction, outcome, causes, unknown }, own_node)
    }

    /// The policies of a tier with ordered rules.
    fn rule_tier(&self, tier: RuleTier, side: Side<'_>, findings: &mut Findings) -> Possible {
        let mut total = Possible::default();
        if let Some(reason) = self.unread_tier(tier) {
            findings.unknown(reason);
            total = Possible { allow: true, deny: true, next: true };
        }
        let groups = match tier {
            RuleTier::Admin => &self.admin,
            RuleTier::Baseline => &self.baseline,
        };
        for (priority, group) in groups {
            let mut here = Possible::default();
            let mut undecided = true;
            let mut acting = Vec::new();
            for &index in group {
                let (policy, none) = self.ordered_rules(index, side, findings);
                if policy.allow || policy.deny || policy.next {
                    acting.push(index);
                }
                here.allow |= policy.allow;
                here.deny |= policy.deny;
                here.next |= policy.next;
                undecided &= none;
            }
            let actions = [here.allow, here.deny, here.next].into_iter().filter(|action| *action).count();
            if acting.len() > 1 && actions > 1 {
                let policies =
                    acting.iter().map(|&index| self.view.entries[index].policy.id.clone()).collect();
                findings.unknown(UnknownReason::SamePriority { priority: *priority, policies });
            }
            total.allow |= here.allow;
            total.deny |= here.deny;
            total.next |= here.next;
            if !undecided {
                return total;
            }
        }
        total.next = true;
        total
    }

    /// The actions that are possible for the first rule of a policy that matches, and whether none may match.
    fn ordered_rules(&self, index: usize, side: Side<'_>, findings: &mut Findings) -> (Possible, bool) {
        let entry = &self.view.entries[index];
        let mut possible = Possible::default();
        let rules = rules(entry, side.direction);
        if rules.is_none_or(<[Rule]>::is_empty) {
            return (possible, true);
        }
        let subject = self.matcher.subject(entry, side.pod);
        if subject == Match::No {
            return (possible, true);
        }
        for rule in rules.unwrap_or_default() {
            let (matched, peer, port) =
                self.matcher.rule(entry, rule, side.other, side.destination, side.family, side.traffic);
            let decides = matched == Match::Yes;
            match (matched, &subject) {
                (Match::No, _) => continue,
                (Match::Unknown(reason), _) => findings.unknown(reason),
                (Match::Yes, Match::Unknown(reason)) => findings.unknown(reason.clone()),
                (Match::Yes, _) => {}
            }
            let effect = match rule.action {
                Action::Allow => {
                    possible.allow = true;
                    Effect::Allows
                }
                Action::Deny => {
                    possible.deny = true;
                    Effect::Denies
                }
                Action::Pass => {
                    possible.next = true;
                    Effect::Passes
                }
            };
            findings.causes.push(cause(entry, effect, Some(rule), peer, port));
            if decides {
                return (possible, subject != Match::Yes);
            }
        }
        (possible, true)
    }

    /// The NetworkPolicies.
    fn network_tier(&self, side: Side<'_>, findings: &mut Findings) -> Possible {
        let mut isolated = false;
        let mut allowed = false;
        let mut possible = Possible::default();
        if let Some(reason) = self.unread_network_policies(&side.pod.namespace) {
            findings.unknown(reason);
            possible.allow = true;
            possible.deny = true;
        }
        let indexes = self.network.get(&*side.pod.namespace).map(Vec::as_slice).unwrap_or_default();
        for &index in indexes {
            let entry = &self.view.entries[index];
            let Some(rules) = rules(entry, side.direction) else { continue };
            let subject = self.matcher.subject(entry, side.pod);
            if subject == Match::No {
                continue;
            }
            let selected = subject == Match::Yes;
            isolated |= selected;
            let mut sure = false;
            let mut maybe = false;
            for rule in rules {
                let (matched, peer, port) =
                    self.matcher.rule(entry, rule, side.other, side.destination, side.family, side.traffic);
                match matched {
                    Match::No => continue,
                    Match::Yes => sure = true,
                    Match::Unknown(reason) => findings.unknown(reason),
                }
                maybe = true;
                findings.causes.push(cause(entry, Effect::Allows, Some(rule), peer, port));
            }
            if let Match::Unknown(reason) = subject {
                findings.unknown(reason);
            }
            if !sure {
                possible.deny = true;
                findings.causes.push(cause(entry, Effect::Isolates, None, None, None));
            }
            possible.allow |= maybe;
            allowed |= sure && selected;
        }
        if allowed {
            return Possible { allow: true, deny: false, next: false };
        }
        possible.next = !isolated;
        if possible.deny {
            match self.is_own_node(side) {
                Match::No => {}
                Match::Yes => {
                    findings.own_node = true;
                    possible.deny = false;
                    possible.allow = true;
                }
                Match::Unknown(reason) => {
                    findings.unknown(reason);
                    possible.allow = true;
                }
            }
        }
        possible
    }

    /// Whether the other end is the pod's own node, or a pod on its network.
    fn is_own_node(&self, side: Side<'_>) -> Match {
        if let (End::Address(_), Known::Unread(reason)) = (side.other, &self.cluster().nodes) {
            return Match::Unknown(UnknownReason::Nodes(Arc::clone(reason)));
        }
        let is_own = side.pod.node.is_some() && side.other.node() == side.pod.node.as_deref();
        if is_own { Match::Yes } else { Match::No }
    }

    /// Why policies of a tier are not known.
    pub(super) fn unread_tier(&self, tier: RuleTier) -> Option<UnknownReason> {
        self.view.unread.iter().find_map(|unread| {
            let concerned = match unread.kind {
                Kind::NetworkPolicy => false,
                Kind::AdminNetworkPolicy => tier == RuleTier::Admin,
                Kind::BaselineAdminNetworkPolicy => tier == RuleTier::Baseline,
                Kind::ClusterNetworkPolicy => true,
            };
            concerned.then(|| unread.reason())
        })
    }

    /// Why NetworkPolicies of a namespace are not known.
    pub(super) fn unread_network_policies(&self, namespace: &str) -> Option<UnknownReason> {
        self.view.unread.iter().find_map(|unread| {
            let concerned = unread.kind == Kind::NetworkPolicy
                && unread.namespace.as_deref().is_none_or(|unread| unread == namespace);
            concerned.then(|| unread.reason())
        })
    }

    /// The decision about an end that may be a pod that was not read.
    fn decide_unread(&self, direction: Direction, end: End<'_>) -> Option<Decision> {
        let (End::Address(_), Known::Unread(reason)) = (end, &self.cluster().pods) else { return None };
        self.may_restrict(direction).then(|| Decision {
            direction,
            outcome: Outcome::Unknown,
            causes: Vec::new(),
            unknown: vec![UnknownReason::Pods(Arc::clone(reason))],
        })
    }

    /// Whether any policy is about a direction, as far as policies are known.
    pub(super) fn may_restrict(&self, direction: Direction) -> bool {
        !self.view.unread.is_empty()
            || self.view.entries.iter().any(|entry| rules(entry, direction).is_some())
    }
}

/// The rules of a policy for a direction, if it is about it.
pub(super) fn rules<'e>(entry: &'e Entry<'_>, direction: Direction) -> Option<&'e [Rule]> {
    match direction {
        Direction::Egress => entry.policy.egress.as_deref(),
        Direction::Ingress => entry.policy.ingress.as_deref(),
    }
}

fn cause(
    entry: &Entry<'_>,
    effect: Effect,
    rule: Option<&Rule>,
    peer: Option<&crate::model::Place>,
    port: Option<&crate::model::Place>,
) -> Cause {
    Cause {
        policy: entry.policy.id.clone(),
        tier: entry.policy.tier,
        effect,
        rule: rule.map(|rule| rule.place.clone()),
        peer: peer.cloned(),
        port: port.cloned(),
    }
}
