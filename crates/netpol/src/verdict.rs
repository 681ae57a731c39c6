//! Verdicts: what a provider in a version makes of a policy, with the direction of each error.

mod counts;
mod effect;
mod isolation;
mod policy;
mod sentence;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::extract::{self, Use};
use crate::feature::{Count, Feature};
use crate::index::ClusterIndex;
use crate::model::{Action, Family, Place, Policy};
use crate::parse::{Lost, Parsed, Severity};
use crate::profile::{Answer, Circumstances, Direction, Limit, Provider, Row, Support, UnknownSupport};

use counts::{Aggregate, Counted, counts};
use effect::{Effect, Says, combined, of_rule};
pub use effect::{ErrorDirection, Extent};
use isolation::Isolation;
use policy::Summary;
pub use policy::{Deviation, NotLookedFor, Outcome, PolicyVerdict, Reason, Subject, Unanswered};
use sentence::sentence;

/// What the loss of a policy means by direction, computed once for each policy.
type Without = BTreeMap<Direction, ErrorDirection>;

/// Evaluator of policies against one provider. What depends on all policies is computed once.
#[derive(Debug)]
pub struct Evaluator<'a> {
    provider: &'a Provider<'a>,
    provider_name: String,
    index: Option<&'a ClusterIndex<'a>>,
    isolation: Isolation,
    aggregate: Option<Aggregate>,
    answers: HashMap<(Feature, Circumstances), Answer<'a>>,
    limited: Vec<Count>,
}

impl<'a> Evaluator<'a> {
    /// An evaluator for these objects, with a snapshot of the cluster if there is one.
    #[must_use]
    pub fn new<'o>(
        provider: &'a Provider<'a>,
        objects: impl IntoIterator<Item = &'o Parsed>,
        index: Option<&'a ClusterIndex<'a>>,
    ) -> Self {
        // What the API server refuses is not there.
        let policies: Vec<&Policy> = objects
            .into_iter()
            .filter(|parsed| parsed.is_stored || !parsed.is_invalid())
            .filter_map(|parsed| parsed.policy.as_ref())
            .collect();
        let version = provider
            .version
            .as_ref()
            .map(|version| format!(" {}", version.to_string().trim_start_matches(['v', 'V'])))
            .unwrap_or_default();
        let mut limited: Vec<Count> = provider.profile.limits.iter().map(|limit| limit.of).collect();
        limited.sort_unstable();
        limited.dedup();
        let is_aggregated = limited.contains(&Count::PortsPerCidrAllPolicies);
        let mut evaluator = Self {
            provider,
            provider_name: format!("{}{version}", provider.profile.title),
            index,
            isolation: Isolation::default(),
            aggregate: is_aggregated.then(|| Aggregate::new(&policies)),
            answers: answers(provider),
            limited,
        };
        // First what each policy is worth by itself: a policy that is dropped isolates nothing for the others either.
        let missing: Vec<BTreeSet<Direction>> =
            policies.iter().map(|policy| evaluator.missing_directions(policy)).collect();
        let is_carried_out = |position: usize, direction: Direction| {
            missing.get(position).is_none_or(|missing| !missing.contains(&direction))
        };
        evaluator.isolation = Isolation::new(&policies, index, is_carried_out);
        evaluator
    }

    fn answer(&self, used: &Use) -> Answer<'a> {
        let key = (used.feature, used.circumstances());
        self.answers.get(&key).cloned().unwrap_or_else(|| self.provider.support(key.0, key.1))
    }

    /// The features of a policy, those included that only the snapshot shows.
    fn uses(&self, policy: &Policy) -> (Vec<Use>, Vec<NotLookedFor>) {
        let mut uses = extract::features(policy);
        let mut missing: Vec<NotLookedFor> = Vec::new();
        let mut not_looked_for = |objects: &'static str, reason: &str, feature: Feature| {
            if !self.can_deviate(feature) {
                return;
            }
            match missing.iter_mut().find(|known| known.objects == objects) {
                Some(known) if known.features.contains(&feature) => {}
                Some(known) => known.features.push(feature),
                None => {
                    missing.push(NotLookedFor { objects, reason: reason.to_owned(), features: vec![feature] })
                }
            }
        };
        match self.index {
            Some(index) => {
                let (found, unread) = extract::features_in_cluster(policy, index);
                uses.extend(found);
                for (feature, unread) in unread {
                    not_looked_for(unread.objects, &unread.reason, feature);
                }
            }
            None => {
                for feature in extract::possible_in_cluster(policy, &uses) {
                    not_looked_for("cluster", "no cluster was given", feature);
                }
            }
        }
        (uses, missing)
    }

    /// Whether the provider's profile says anything but `supported` of a feature.
    fn can_deviate(&self, feature: Feature) -> bool {
        let rows = self.provider.profile.features.get(&feature).map(Vec::as_slice).unwrap_or_default();
        rows.iter().any(|row| row.support != Support::Supported)
    }

    /// The directions of a policy that the provider does not carry out at all.
    fn missing_directions(&self, policy: &Policy) -> BTreeSet<Direction> {
        let (uses, _) = self.uses(policy);
        let rows = uses.iter().filter_map(|used| match self.answer(used) {
            Answer::Row(row) => Some((*used, of_row(row, used))),
            _ => None,
        });
        let limits =
            self.exceeded(policy).map(|(counted, limit)| (counted.used, of_limit(limit, &counted.used)));
        let mut missing = BTreeSet::new();
        for (used, says) in rows.chain(limits).filter(|(_, says)| says.effect() == Effect::Missing) {
            match used.direction.filter(|_| says.extent != Extent::Policy) {
                Some(direction) => missing.extend([direction]),
                None => missing.extend(Direction::ALL),
            }
        }
        missing
    }

    fn exceeded(&self, policy: &Policy) -> impl Iterator<Item = (Counted, &'a Limit)> {
        let counted =
            if self.limited.is_empty() { Vec::new() } else { counts(policy, self.aggregate.as_ref()) };
        counted.into_iter().filter(|counted| self.limited.contains(&counted.of)).flat_map(|counted| {
            let limits = self.provider.limits(counted.of, counted.used.circumstances());
            let exceeded =
                limits.into_iter().filter_map(Result::ok).filter(|limit| counted.count > limit.max);
            exceeded.map(|limit| (counted.clone(), limit)).collect::<Vec<_>>()
        })
    }

    /// Evaluates an object.
    #[must_use]
    pub fn check(&self, parsed: &Parsed) -> PolicyVerdict {
        let mut verdict = PolicyVerdict {
            id: parsed.id.clone(),
            generation: parsed.generation,
            provider: self.provider_name.clone(),
            domain: self.provider.profile.domain.clone(),
            outcome: Outcome::Accepted,
            reason: Reason::Accepted,
            deviations: Vec::new(),
            more_deviations: 0,
            unanswered: Vec::new(),
            more_unanswered: 0,
            not_looked_for: Vec::new(),
            problems: parsed.problems.clone(),
            summary: Summary::default(),
        };
        if let Some(policy) = &parsed.policy {
            self.evaluate(policy, &mut verdict);
        }
        (verdict.outcome, verdict.reason) = outcome(parsed, &verdict);
        verdict
    }

    /// The direction of the error if a policy did not exist in a direction, next to the evaluator's other policies.
    #[must_use]
    pub fn error_without(&self, policy: &Policy, direction: Direction) -> ErrorDirection {
        self.isolation.without(policy, direction, self.index)
    }

    fn evaluate(&self, policy: &Policy, verdict: &mut PolicyVerdict) {
        let (uses, not_looked_for) = self.uses(policy);
        verdict.not_looked_for = not_looked_for;
        let mut without = Without::default();
        for used in &uses {
            match self.answer(used) {
                Answer::UnlistedSupported => {}
                Answer::Row(row) if row.support == Support::Supported => {}
                Answer::Row(row) => {
                    let says = of_row(row, used);
                    let error = self.direction(policy, used, says, &mut without);
                    verdict.deviate(used, says, error, || self.deviation(policy, used, row, says, error));
                    // What else is not carried out of a kind that is not follows from that.
                    if used.feature.is_kind() && says.extent == Extent::Policy {
                        verdict.not_looked_for.clear();
                        return;
                    }
                }
                Answer::Unknown(why) => verdict.leave_unanswered(Unanswered {
                    subject: Subject::Feature(used.feature),
                    place: used.place(policy),
                    why,
                }),
            }
        }
        self.evaluate_limits(policy, verdict, without);
    }

    fn deviation(
        &self,
        policy: &Policy,
        used: &Use,
        row: &Row,
        says: Says,
        error: ErrorDirection,
    ) -> Deviation {
        let since = self.provider.supported_since(used.feature, used.circumstances());
        let since = since.map(ToString::to_string);
        Deviation {
            subject: Subject::Feature(used.feature),
            place: used.place(policy),
            direction: used.direction,
            rule: used.rule,
            support: row.support,
            carried_out: says.carried_out,
            extent: says.extent,
            error,
            message: sentence(&self.provider_name, policy, used, says, error, since.as_deref()),
            supported_since: since,
            note: row.note.clone(),
            source: row.source.clone(),
            checked: row.checked,
        }
    }

    fn evaluate_limits(&self, policy: &Policy, verdict: &mut PolicyVerdict, mut without: Without) {
        for (counted, limit) in self.exceeded(policy) {
            let says = of_limit(limit, &counted.used);
            let error = self.direction(policy, &counted.used, says, &mut without);
            let (title, count, max) = (limit.of.title(), counted.count, limit.max);
            verdict.deviate(&counted.used, says, error, || Deviation {
                subject: Subject::Limit(limit.of),
                place: counted.place.clone(),
                direction: counted.used.direction,
                rule: counted.used.rule,
                support: limit.beyond,
                carried_out: says.carried_out,
                extent: says.extent,
                error,
                supported_since: None,
                message: format!(
                    "{} carries out at most {max} {title}, not {count} ({error})",
                    self.provider_name
                ),
                note: limit.note.clone(),
                source: limit.source.clone(),
                checked: limit.checked,
            });
        }
        // An unknown limit is one for what is counted.
        for of in &self.limited {
            let unknown =
                self.provider.limits(*of, Circumstances::default()).into_iter().find_map(Result::err);
            if let Some(why) = unknown.filter(|_| self.provider.version.is_ok()) {
                let place = Place("spec".into());
                verdict.leave_unanswered(Unanswered { subject: Subject::Limit(*of), place, why });
            }
        }
    }

    fn direction(&self, policy: &Policy, used: &Use, says: Says, without: &mut Without) -> ErrorDirection {
        let effect = says.effect();
        let action = used.rule(policy).map_or(Action::Allow, |rule| rule.action);
        if effect == Effect::Missing {
            let is_whole = says.extent == Extent::Policy;
            let directions = Direction::ALL
                .iter()
                .copied()
                .filter(|direction| is_whole || used.direction.is_none_or(|is| is == *direction));
            let errors = directions.map(|direction| {
                let known = without.entry(direction);
                *known.or_insert_with(|| self.isolation.without(policy, direction, self.index))
            });
            return errors.reduce(combined).unwrap_or(ErrorDirection::Same);
        }
        // A default deny has no rule that could match more or less: what is lost of it is isolation.
        let is_isolation = matches!(used.feature, Feature::IsolationIngress | Feature::IsolationEgress);
        if effect == Effect::MatchesLess && is_isolation {
            return ErrorDirection::More;
        }
        of_rule(effect, action)
    }
}

fn of_row(row: &Row, used: &Use) -> Says {
    Says::new(row.support, row.carried_out, row.scope, used.part)
}

fn of_limit(limit: &Limit, used: &Use) -> Says {
    Says::new(limit.beyond, limit.carried_out, limit.scope, used.part)
}

/// What the profile says of each feature, in all circumstances.
fn answers<'a>(provider: &'a Provider<'a>) -> HashMap<(Feature, Circumstances), Answer<'a>> {
    let directions = [None, Some(Direction::Ingress), Some(Direction::Egress)];
    let families = [None, Some(Family::V4), Some(Family::V6)];
    let mut answers = HashMap::new();
    for feature in Feature::ALL {
        for direction in directions {
            for family in families {
                let circumstances = Circumstances { direction, family };
                answers.insert((*feature, circumstances), provider.support(*feature, circumstances));
            }
        }
    }
    answers
}

/// The verdict of a policy from what was found.
fn outcome(parsed: &Parsed, verdict: &PolicyVerdict) -> (Outcome, Reason) {
    let errors = || parsed.problems.iter().filter(|problem| problem.severity == Severity::Error);
    let is_stored = parsed.is_stored;
    if errors().next().is_some() && !is_stored {
        return (Outcome::Failure, Reason::InvalidPolicy);
    }
    // What the API server has taken is valid: it is of a version that has more than is known here.
    let Some(policy) =
        parsed.policy.as_ref().filter(|_| errors().all(|problem| problem.lost == Lost::Nothing))
    else {
        return (Outcome::Unknown, Reason::NotReadable);
    };
    if verdict.summary.is_nothing_left(policy) {
        return (Outcome::Failure, Reason::FeatureNotSupported);
    }
    if !verdict.deviations.is_empty() {
        return (Outcome::PartialFailure, Reason::FeatureNotSupported);
    }
    match verdict.unanswered.first().map(|unanswered| &unanswered.why) {
        None => (Outcome::Accepted, Reason::Accepted),
        Some(UnknownSupport::Version(_) | UnknownSupport::Imprecise { .. }) => {
            (Outcome::Unknown, Reason::VersionUnknown)
        }
        Some(_) => (Outcome::Unknown, Reason::FeatureUnknown),
    }
}
