//! Roll-up of verdicts to `metav1.Condition`s, at the generation of the policy: `Accepted`, `PartialFailure` and `Failure`.

use std::fmt;

use serde_json::{Value, json};
use settled_apimachinery::conditions::MAX_MESSAGE_LENGTH;

use crate::parse::Severity;
use crate::verdict::{Outcome, PolicyVerdict, Reason};

/// Maximum number of sentences in a message.
const MAX_SENTENCES: usize = 50;
/// Maximum length of a message in bytes: less than `maxMessageLen`, for the rest of a shortened one.
const MAX_BYTES: usize = MAX_MESSAGE_LENGTH - 1024;

/// The types of conditions of KEP-2943.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ConditionType {
    /// The policy is carried out as written.
    Accepted,
    /// Parts of it are not.
    PartialFailure,
    /// Nothing of it is.
    Failure,
}

impl ConditionType {
    /// All of them, in the order in which they are written.
    pub const ALL: [Self; 3] = [Self::Accepted, Self::PartialFailure, Self::Failure];

    /// The type without a prefix.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "Accepted",
            Self::PartialFailure => "PartialFailure",
            Self::Failure => "Failure",
        }
    }

    /// The type with a provider's prefix, where several providers own one condition each: `cilium.io/Accepted`.
    #[must_use]
    pub fn with_prefix(self, domain: &str) -> String {
        format!("{domain}/{}", self.as_str())
    }
}

/// Status of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not.
    False,
    /// Nobody knows.
    Unknown,
}

impl fmt::Display for ConditionStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        })
    }
}

/// A condition without `lastTransitionTime`, which its writer sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Its type, with a prefix if one was asked for.
    pub condition_type: String,
    /// Its status.
    pub status: ConditionStatus,
    /// The generation that was evaluated; 0 if the object has none.
    pub observed_generation: i64,
    /// Its reason.
    pub reason: Reason,
    /// One sentence for each feature.
    pub message: String,
}

impl Condition {
    /// The condition as JSON, with the time of its last transition in RFC 3339.
    #[must_use]
    pub fn to_value(&self, last_transition_time: &str) -> Value {
        json!({
            "type": self.condition_type,
            "status": self.status.to_string(),
            "observedGeneration": self.observed_generation,
            "lastTransitionTime": last_transition_time,
            "reason": self.reason.as_str(),
            "message": self.message,
        })
    }
}

/// The three conditions of a verdict: exactly one is True, or `Accepted` is Unknown. With a domain, their types have it as a prefix.
#[must_use]
pub fn conditions(verdict: &PolicyVerdict, domain: Option<&str>) -> [Condition; 3] {
    let generation = verdict.generation.unwrap_or_default();
    all(verdict.outcome, verdict.reason, generation, &message(verdict), domain)
}

/// The conditions of a policy whose provider is unknown: none was found, or there is no profile for it.
#[must_use]
pub fn unknown_provider(generation: Option<i64>, message: &str) -> [Condition; 3] {
    all(
        Outcome::Unknown,
        Reason::ProviderUnknown,
        generation.unwrap_or_default(),
        &bounded([message.to_owned()], 0),
        None,
    )
}

fn all(
    outcome: Outcome,
    reason: Reason,
    observed_generation: i64,
    message: &str,
    domain: Option<&str>,
) -> [Condition; 3] {
    ConditionType::ALL.map(|condition_type| {
        let holds = match condition_type {
            ConditionType::Accepted => outcome == Outcome::Accepted,
            ConditionType::PartialFailure => outcome == Outcome::PartialFailure,
            ConditionType::Failure => outcome == Outcome::Failure,
        };
        let status = match outcome {
            // Nobody knows whether it fails either: a False would say that it does not.
            Outcome::Unknown => ConditionStatus::Unknown,
            _ if holds => ConditionStatus::True,
            _ => ConditionStatus::False,
        };
        Condition {
            condition_type: domain.map_or_else(
                || condition_type.as_str().to_owned(),
                |domain| condition_type.with_prefix(domain),
            ),
            status,
            observed_generation,
            reason,
            message: message.to_owned(),
        }
    })
}

/// The sentences of a verdict: what the API server refuses, what is not carried out, what nobody knows, and what was not looked for.
#[must_use]
pub fn message(verdict: &PolicyVerdict) -> String {
    let problems = verdict.problems.iter().filter(|problem| problem.severity == Severity::Error);
    let problems = problems.map(ToString::to_string);
    let deviations =
        verdict.deviations.iter().map(|deviation| format!("{}: {}", deviation.place, deviation.message));
    let mut unanswered: Vec<String> =
        verdict.unanswered.iter().map(|unanswered| unanswered.why.to_string()).collect();
    // An unknown version is the same sentence for each feature.
    unanswered.dedup();
    let not_looked_for = verdict.not_looked_for.iter().map(|missing| {
        let features: Vec<&str> = missing.features.iter().map(|feature| feature.as_str()).collect();
        format!("Not evaluated without {} ({}): {}", missing.objects, missing.reason, features.join(", "))
    });
    let accepted = (verdict.outcome == Outcome::Accepted)
        .then(|| format!("{} carries out the policy as written", verdict.provider));
    let more = verdict.more_deviations + verdict.more_unanswered;
    bounded(problems.chain(deviations).chain(unanswered).chain(accepted).chain(not_looked_for), more)
}

/// Joins sentences up to the API's limit, and says how many are left out.
fn bounded(sentences: impl IntoIterator<Item = String>, more: usize) -> String {
    let (mut message, mut left_out) = (String::new(), more);
    for (index, sentence) in sentences.into_iter().enumerate() {
        if index >= MAX_SENTENCES || message.len() + sentence.len() + 2 > MAX_BYTES {
            left_out += 1;
            continue;
        }
        if !message.is_empty() {
            message.push_str(". ");
        }
        message.push_str(&sentence);
    }
    if left_out > 0 {
        message.push_str(&format!(". {left_out} more are not listed"));
    }
    message
}
