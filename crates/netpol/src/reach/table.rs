//! Evaluation of all connections between given ends at once: matches are bit sets, tiers are set operations.

use super::bits::{Bits, Matched};
use super::connection::{Evaluator, RuleTier, rules};
use super::matching::{End, Match, Traffic};
use super::outcome::Outcome;
use crate::cluster::Pod;
use crate::model::{Action, Family, Ports, Rule};
use crate::profile::Direction;

/// Matches of subjects and peers with given ends in one family; they do not depend on ports. The ends are known to be pods, nodes or
/// addresses outside.
pub(crate) struct Compiled<'e, 'a> {
    evaluator: &'e Evaluator<'a>,
    ends: &'e [End<'a>],
    egress: Vec<CompiledPolicy<'e>>,
    ingress: Vec<CompiledPolicy<'e>>,
    /// For each end that is a subject: the policies of each direction that may select it, by index into the lists above.
    egress_of: Vec<Vec<usize>>,
    ingress_of: Vec<Vec<usize>>,
    /// For each end that is a subject: the ends on the network of its node.
    own_node: Vec<Option<Bits>>,
}

struct CompiledPolicy<'e> {
    /// Index in the view.
    index: usize,
    subject: Matched,
    rules: Vec<(&'e Rule, Matched)>,
}

/// Outcomes of all connections between ends for one protocol and port.
pub(crate) struct Table {
    /// By source, the destinations that the connection may be allowed to.
    allow: Vec<Bits>,
    /// By source, the destinations that the connection may be denied to.
    deny: Vec<Bits>,
}

impl Table {
    /// The outcome of the connection between two ends.
    pub(crate) fn outcome(&self, source: usize, destination: usize) -> Outcome {
        Outcome::from_possible(
            self.allow[source].contains(destination),
            self.deny[source].contains(destination),
        )
    }

    /// The destinations for which two tables differ.
    pub(crate) fn differing(&self, other: &Self, source: usize) -> Bits {
        let mut bits = self.allow[source].clone();
        bits.subtract(&other.allow[source]);
        for (left, right) in [
            (&other.allow[source], &self.allow[source]),
            (&self.deny[source], &other.deny[source]),
            (&other.deny[source], &self.deny[source]),
        ] {
            let mut only = left.clone();
            only.subtract(right);
            bits.union_with(&only);
        }
        bits
    }
}

/// What the policies of one end can do, by other end.
struct Row {
    allow: Bits,
    deny: Bits,
    next: Bits,
}

impl<'e, 'a> Compiled<'e, 'a> {
    pub(crate) fn new(evaluator: &'e Evaluator<'a>, ends: &'e [End<'a>], family: Family) -> Self {
        let compile = |direction| {
            let policies = evaluator.view.entries.iter().enumerate().filter_map(|(index, entry)| {
                let rules = rules(entry, direction)?;
                let subject = matched(ends, |end| {
                    end.subject().map_or(Match::No, |pod| evaluator.matcher.subject(entry, pod))
                });
                if subject.maybe.is_empty() {
                    return None;
                }
                let rules = rules
                    .iter()
                    .map(|rule| {
                        (rule, matched(ends, |end| evaluator.matcher.peers(entry, rule, end, family).0))
                    })
                    .collect();
                Some(CompiledPolicy { index, subject, rules })
            });
            policies.collect::<Vec<_>>()
        };
        let by_end = |policies: &[CompiledPolicy<'_>]| {
            let mut by_end = vec![Vec::new(); ends.len()];
            for (position, policy) in policies.iter().enumerate() {
                for end in policy.subject.maybe.iter() {
                    by_end[end].push(position);
                }
            }
            by_end
        };
        let egress = compile(Direction::Egress);
        let ingress = compile(Direction::Ingress);
        let own_node = ends.iter().map(|end| {
            let node = end.subject()?.node.as_deref()?;
            let mut bits = Bits::none(ends.len());
            for (index, other) in ends.iter().enumerate() {
                if other.node() == Some(node) {
                    bits.insert(index);
                }
            }
            (!bits.is_empty()).then_some(bits)
        });
        Self {
            evaluator,
            ends,
            egress_of: by_end(&egress),
            ingress_of: by_end(&ingress),
            own_node: own_node.collect(),
            egress,
            ingress,
        }
    }

    /// Treats all ends on the network of a node as if they were on the node of each pod, or none of them.
    pub(crate) fn with_own_nodes(mut self, are_own: bool) -> Self {
        let size = self.ends.len();
        let mut on_node = Bits::none(size);
        for (index, _) in self.ends.iter().enumerate().filter(|(_, end)| are_own && end.node().is_some()) {
            on_node.insert(index);
        }
        for (own, end) in self.own_node.iter_mut().zip(self.ends) {
            *own = end.subject().filter(|_| !on_node.is_empty()).map(|_| on_node.clone());
        }
        self
    }

    /// The outcomes for one protocol and port.
    pub(crate) fn table(&self, traffic: Traffic) -> Table {
        let size = self.ends.len();
        let egress_ports =
            self.egress.iter().map(|policy| self.destinations(policy, traffic)).collect::<Vec<_>>();
        let mut allow = Vec::with_capacity(size);
        let mut deny = Vec::with_capacity(size);
        for (source, end) in self.ends.iter().enumerate() {
            let row = match end.subject() {
                Some(pod) => self.row(Direction::Egress, source, pod, |position, rule| {
                    egress_ports[position][rule].clone()
                }),
                None => self.unrestricted(),
            };
            allow.push(row.allow);
            deny.push(row.deny);
        }
        for (destination, end) in self.ends.iter().enumerate() {
            let row = match end.subject() {
                Some(pod) => self.row(Direction::Ingress, destination, pod, |position, rule| {
                    let policy = &self.ingress[position];
                    let entry = &self.evaluator.view.entries[policy.index];
                    let (rule, peers) = &policy.rules[rule];
                    match self.evaluator.matcher.ports(entry, rule, *end, traffic).0 {
                        Match::Yes => peers.clone(),
                        Match::No => Matched::none(size),
                        Match::Unknown(_) => Matched { yes: Bits::none(size), maybe: peers.maybe.clone() },
                    }
                }),
                None => self.unrestricted(),
            };
            for (source, (allow, deny)) in allow.iter_mut().zip(&mut deny).enumerate() {
                if source == destination && matches!(end, End::Pod(_)) {
                    // Traffic of a pod with itself.
                    allow.insert(destination);
                    deny.remove(destination);
                    continue;
                }
                if !row.allow.contains(source) {
                    allow.remove(destination);
                }
                if row.deny.contains(source) {
                    deny.insert(destination);
                }
            }
        }
        Table { allow, deny }
    }

    /// For each rule, the destinations that match by peer and port.
    fn destinations(&self, policy: &CompiledPolicy<'_>, traffic: Traffic) -> Vec<Matched> {
        let entry = &self.evaluator.view.entries[policy.index];
        let rules = policy.rules.iter().map(|(rule, peers)| {
            if matches!(rule.ports, Ports::Any) {
                return peers.clone();
            }
            let mut destinations = Matched::none(self.ends.len());
            for end in peers.maybe.iter() {
                match self.evaluator.matcher.ports(entry, rule, self.ends[end], traffic).0 {
                    Match::No => {}
                    Match::Yes => {
                        destinations.maybe.insert(end);
                        if peers.yes.contains(end) {
                            destinations.yes.insert(end);
                        }
                    }
                    Match::Unknown(_) => destinations.maybe.insert(end),
                }
            }
            destinations
        });
        rules.collect()
    }

    /// The row of an end that no policy applies to.
    fn unrestricted(&self) -> Row {
        let size = self.ends.len();
        Row { allow: Bits::all(size), deny: Bits::none(size), next: Bits::none(size) }
    }

    /// What the policies of one end do with connections to or from all others.
    fn row(
        &self,
        direction: Direction,
        end: usize,
        pod: &Pod,
        rule: impl Fn(usize, usize) -> Matched,
    ) -> Row {
        let size = self.ends.len();
        let mut total = self.rule_tier(RuleTier::Admin, direction, end, &rule);
        let undecided = std::mem::replace(&mut total.next, Bits::none(size));
        let network = self.network_tier(direction, end, pod, &rule);
        total.allow.union_with_both(&network.allow, &undecided);
        total.deny.union_with_both(&network.deny, &undecided);
        let mut undecided = undecided;
        undecided.intersect_with(&network.next);
        if !undecided.is_empty() {
            let baseline = self.rule_tier(RuleTier::Baseline, direction, end, &rule);
            total.allow.union_with_both(&baseline.allow, &undecided);
            total.allow.union_with_both(&baseline.next, &undecided);
            total.deny.union_with_both(&baseline.deny, &undecided);
        }
        total
    }

    fn policies(&self, direction: Direction) -> (&[CompiledPolicy<'e>], &[Vec<usize>]) {
        match direction {
            Direction::Egress => (&self.egress, &self.egress_of),
            Direction::Ingress => (&self.ingress, &self.ingress_of),
        }
    }

    fn rule_tier(
        &self,
        tier: RuleTier,
        direction: Direction,
        end: usize,
        rule: &impl Fn(usize, usize) -> Matched,
    ) -> Row {
        let size = self.ends.len();
        let unread = self.evaluator.unread_tier(tier).is_some();
        let start = || if unread { Bits::all(size) } else { Bits::none(size) };
        let mut total = Row { allow: start(), deny: start(), next: start() };
        let mut live = Bits::all(size);
        let groups = match tier {
            RuleTier::Admin => &self.evaluator.admin,
            RuleTier::Baseline => &self.evaluator.baseline,
        };
        let (policies, by_end) = self.policies(direction);
        for (_, group) in groups {
            let mut undecided = Bits::all(size);
            for &position in &by_end[end] {
                let policy = &policies[position];
                if group.binary_search(&policy.index).is_err() {
                    continue;
                }
                let selected = policy.subject.yes.contains(end);
                let mut remaining = live.clone();
                for (index, (compiled, _)) in policy.rules.iter().enumerate() {
                    let matched = rule(position, index);
                    let action = match compiled.action {
                        Action::Allow => &mut total.allow,
                        Action::Deny => &mut total.deny,
                        Action::Pass => &mut total.next,
                    };
                    action.union_with_both(&matched.maybe, &remaining);
                    remaining.subtract(&matched.yes);
                }
                if selected {
                    undecided.intersect_with(&remaining);
                }
            }
            live.intersect_with(&undecided);
        }
        total.next.union_with(&live);
        total
    }

    fn network_tier(
        &self,
        direction: Direction,
        end: usize,
        pod: &Pod,
        rule: &impl Fn(usize, usize) -> Matched,
    ) -> Row {
        let size = self.ends.len();
        let unread = self.evaluator.unread_network_policies(&pod.namespace).is_some();
        let start = || if unread { Bits::all(size) } else { Bits::none(size) };
        let mut allow = start();
        let mut deny = start();
        let mut allowed = Bits::none(size);
        let mut isolated = false;
        let (policies, by_end) = self.policies(direction);
        for &position in &by_end[end] {
            let policy = &policies[position];
            if !matches!(self.evaluator.view.entries[policy.index].policy.tier, crate::model::Tier::Namespace)
            {
                continue;
            }
            let selected = policy.subject.yes.contains(end);
            isolated |= selected;
            let mut sure = Bits::none(size);
            for index in 0..policy.rules.len() {
                let matched = rule(position, index);
                allow.union_with(&matched.maybe);
                sure.union_with(&matched.yes);
            }
            deny.union_with_complement(&sure);
            if selected {
                allowed.union_with(&sure);
            }
        }
        let mut next = if isolated { Bits::none(size) } else { Bits::all(size) };
        deny.subtract(&allowed);
        next.subtract(&allowed);
        if let Some(own) = &self.own_node[end] {
            allow.union_with_both(&deny, own);
            deny.subtract(own);
        }
        Row { allow, deny, next }
    }
}

/// Which ends match.
fn matched(ends: &[End<'_>], matches: impl Fn(End<'_>) -> Match) -> Matched {
    let mut matched = Matched::none(ends.len());
    for (index, end) in ends.iter().enumerate() {
        match matches(*end) {
            Match::No => {}
            Match::Yes => {
                matched.yes.insert(index);
                matched.maybe.insert(index);
            }
            Match::Unknown(_) => matched.maybe.insert(index),
        }
    }
    matched
}
