//! Verdict of a policy: its deviations, what nobody knows, and the outcome.

use std::collections::BTreeSet;

use super::effect::{ErrorDirection, Extent, Says, combined};
use crate::extract::{Use, rules};
use crate::feature::{Count, Feature};
use crate::model::{Place, Policy, PolicyId};
use crate::parse::Problem;
use crate::profile::{CarriedOut, Checked, Direction, Support, UnknownSupport};

/// What a deviation is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A feature.
    Feature(Feature),
    /// A limit.
    Limit(Count),
}

impl Subject {
    /// The text id.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Feature(feature) => feature.as_str(),
            Self::Limit(count) => count.as_str(),
        }
    }
}

/// Part of a policy that is not carried out as written.
#[derive(Clone, Debug, PartialEq)]
pub struct Deviation {
    /// The feature or limit.
    pub subject: Subject,
    /// The field.
    pub place: Place,
    /// The direction, where it has one.
    pub direction: Option<Direction>,
    /// The position of the rule in its direction.
    pub rule: Option<usize>,
    /// How far it is supported.
    pub support: Support,
    /// What is done instead; None if nobody knows.
    pub carried_out: Option<CarriedOut>,
    /// How large a part is concerned.
    pub extent: Extent,
    /// Whether this allows more or less.
    pub error: ErrorDirection,
    /// The first later version that supports it.
    pub supported_since: Option<String>,
    /// A sentence without the place.
    pub message: String,
    /// The profile's note.
    pub note: Option<String>,
    /// Where the profile has it from.
    pub source: Option<String>,
    /// How it was checked.
    pub checked: Checked,
}

/// Part of a policy of which nobody knows how it is carried out.
#[derive(Clone, Debug, PartialEq)]
pub struct Unanswered {
    /// The feature or limit.
    pub subject: Subject,
    /// The field.
    pub place: Place,
    /// Why.
    pub why: UnknownSupport,
}

/// Features that were not looked for, since objects of the cluster were not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotLookedFor {
    /// The kind of objects, in the plural: `pods`; `cluster` if there is no snapshot at all.
    pub objects: &'static str,
    /// Why they were not read.
    pub reason: String,
    /// The features, of those that the provider does not support.
    pub features: Vec<Feature>,
}

/// Verdict of a policy as a whole. Exactly one of Accepted, PartialFailure and Failure holds, or nobody knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// It is carried out as written.
    Accepted,
    /// Parts are not.
    PartialFailure,
    /// Nothing of it is carried out, or the API server refuses it.
    Failure,
    /// Nobody knows.
    Unknown,
}

/// Reason of an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It is carried out as written.
    Accepted,
    /// The provider lacks a feature.
    FeatureNotSupported,
    /// The profile does not say whether the provider has a feature.
    FeatureUnknown,
    /// There is no profile for the provider.
    ProviderUnknown,
    /// The provider's version is unknown, or not known precisely enough.
    VersionUnknown,
    /// The API server has a policy with fields that are not known.
    NotReadable,
    /// The API server refuses the policy.
    InvalidPolicy,
}

impl Reason {
    /// The `reason` of a condition.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "Accepted",
            Self::FeatureNotSupported => "FeatureNotSupported",
            Self::FeatureUnknown => "FeatureUnknown",
            Self::ProviderUnknown => "ProviderUnknown",
            Self::VersionUnknown => "VersionUnknown",
            Self::NotReadable => "NotReadable",
            Self::InvalidPolicy => "InvalidPolicy",
        }
    }
}

/// What a provider makes of a policy.
#[derive(Clone, Debug)]
pub struct PolicyVerdict {
    /// The policy.
    pub id: PolicyId,
    /// The generation that was evaluated.
    pub generation: Option<i64>,
    /// The provider and its version, as sentences name it: `Cilium 1.15`.
    pub provider: String,
    /// The prefix of the provider's conditions.
    pub domain: String,
    /// The verdict.
    pub outcome: Outcome,
    /// Its reason.
    pub reason: Reason,
    /// What is not carried out as written, in the order of the fields.
    pub deviations: Vec<Deviation>,
    /// How many more there are than are listed.
    pub more_deviations: usize,
    /// What nobody knows.
    pub unanswered: Vec<Unanswered>,
    /// How many more there are than are listed.
    pub more_unanswered: usize,
    /// What was not looked for.
    pub not_looked_for: Vec<NotLookedFor>,
    /// Problems of the object.
    pub problems: Vec<Problem>,
    pub(super) summary: Summary,
}

/// Maximum number of listed deviations of a policy.
const MAX_DEVIATIONS: usize = 1000;

/// Summary of all deviations, listed or not.
#[derive(Clone, Debug, Default)]
pub(super) struct Summary {
    error: Option<ErrorDirection>,
    is_policy_lost: bool,
    lost_directions: BTreeSet<Direction>,
    lost_rules: BTreeSet<(Direction, usize)>,
}

impl Summary {
    fn add(&mut self, used: &Use, says: Says, error: ErrorDirection) {
        self.error = Some(self.error.map_or(error, |known| combined(known, error)));
        // What is undefined may well be carried out.
        if says.support == Support::Undefined {
            return;
        }
        match (says.extent, used.direction, used.rule) {
            (Extent::Policy, ..) => self.is_policy_lost = true,
            (Extent::Direction, Some(direction), _) => {
                self.lost_directions.insert(direction);
            }
            (Extent::Rule, Some(direction), Some(rule)) => {
                self.lost_rules.insert((direction, rule));
            }
            _ => {}
        }
    }

    /// Whether nothing of a policy is carried out: it is dropped as a whole, or in each direction, or each of its rules is.
    pub(super) fn is_nothing_left(&self, policy: &Policy) -> bool {
        let is_left = |direction: Direction| {
            rules(policy, direction).is_some_and(|rules| {
                // A policy without a rule still isolates, but one whose rules are all lost is not what was written.
                let has_rule = (0..rules.len()).any(|rule| !self.lost_rules.contains(&(direction, rule)));
                !self.lost_directions.contains(&direction) && (rules.is_empty() || has_rule)
            })
        };
        // An admin policy without rules does nothing, wherever it runs.
        let is_about_any = policy.ingress.is_some() || policy.egress.is_some();
        self.is_policy_lost || is_about_any && !is_left(Direction::Ingress) && !is_left(Direction::Egress)
    }
}

impl PolicyVerdict {
    /// The deviations of one rule.
    pub fn of_rule(&self, direction: Direction, rule: usize) -> impl Iterator<Item = &Deviation> {
        self.deviations
            .iter()
            .filter(move |deviation| deviation.direction == Some(direction) && deviation.rule == Some(rule))
    }

    /// The direction of all errors together; None without an error.
    #[must_use]
    pub fn error(&self) -> Option<ErrorDirection> {
        self.summary.error
    }

    /// Records a deviation; what it looks like is computed only if it is listed.
    pub(super) fn deviate(
        &mut self,
        used: &Use,
        says: Says,
        error: ErrorDirection,
        deviation: impl FnOnce() -> Deviation,
    ) {
        self.summary.add(used, says, error);
        if self.deviations.len() < MAX_DEVIATIONS {
            self.deviations.push(deviation());
        } else {
            self.more_deviations += 1;
        }
    }

    pub(super) fn leave_unanswered(&mut self, unanswered: Unanswered) {
        if self.unanswered.len() < MAX_DEVIATIONS {
            self.unanswered.push(unanswered);
        } else {
            self.more_unanswered += 1;
        }
    }
}
