//! What the condition types that are common across controllers mean, and which reasons name a failure.

use super::context::{Condition, Truth};
use super::words::WordTable;
use crate::verdict::{Basis, FailureClass, Status, Text, Verdict};

/// Meaning of a status of a known condition type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Says {
    /// All is well, as far as this condition goes.
    Done,
    /// Work goes on.
    Working,
    /// Something is wrong; the controller may still get over it.
    Wrong(FailureClass),
    /// It is over, without success.
    Over(FailureClass),
    /// Nothing about being done.
    Nothing,
}

/// Meanings of a condition type with the statuses True and False.
type Meaning = (Says, Says);

/// The state that was asked for is there.
const STATE: Meaning = (Says::Done, Says::Working);
/// The spec is accepted; a rejection needs a change of the object or of an object that it references.
const ACCEPTANCE: Meaning = (Says::Done, Says::Wrong(FailureClass::Configuration));
/// A step on the way: True is not the end of it.
const STEP: Meaning = (Says::Nothing, Says::Working);
/// A check on the way: True is not the end of it, False needs a change.
const CHECK: Meaning = (Says::Nothing, Says::Wrong(FailureClass::Configuration));
/// The end of a task: False is the end without success, as in Tekton and Knative.
const END: Meaning = (Says::Done, Says::Over(FailureClass::Job));
/// Abnormal when True, for good.
const FAILURE: Meaning = (Says::Over(FailureClass::Other), Says::Nothing);
/// Abnormal when True, for now.
const ABNORMAL: Meaning = (Says::Wrong(FailureClass::Other), Says::Nothing);
/// Abnormal when True, because of the spec.
const REJECTION: Meaning = (Says::Wrong(FailureClass::Configuration), Says::Nothing);
/// Work in hand when True.
const PROGRESS: Meaning = (Says::Working, Says::Nothing);

/// The condition types whose meaning is common across controllers, sorted. A name that means different things to
/// different controllers is left out: no verdict is better than a wrong one.
static MEANINGS: WordTable<Meaning> = WordTable::new(&[
    ("Accepted", ACCEPTANCE),
    ("Active", STATE),
    ("Admitted", CHECK),
    ("Applied", STATE),
    ("Approved", CHECK),
    ("Available", STATE),
    ("Bound", STATE),
    ("Complete", STATE),
    ("Completed", STATE),
    ("Configured", STEP),
    ("Conflicted", REJECTION),
    ("Created", STEP),
    ("Creating", PROGRESS),
    ("Dangling", REJECTION),
    ("Degraded", ABNORMAL),
    ("Deleting", PROGRESS),
    ("Denied", REJECTION),
    ("Deployed", STATE),
    ("Deploying", PROGRESS),
    ("Error", ABNORMAL),
    ("ErrorOccurred", ABNORMAL),
    ("Errored", ABNORMAL),
    ("Established", STATE),
    ("Failed", FAILURE),
    ("Failing", ABNORMAL),
    ("Failure", FAILURE),
    ("Healthy", STATE),
    ("InProgress", PROGRESS),
    ("Initialized", STEP),
    ("Initializing", PROGRESS),
    ("Installed", STATE),
    ("Installing", PROGRESS),
    ("Invalid", REJECTION),
    ("Irreconcilable", ABNORMAL),
    ("Issued", STATE),
    ("Misconfigured", REJECTION),
    ("NotReady", ABNORMAL),
    ("Online", STATE),
    ("Pending", PROGRESS),
    ("Processing", PROGRESS),
    ("Programmed", STATE),
    ("Progressing", PROGRESS),
    ("Provisioned", STATE),
    ("Provisioning", PROGRESS),
    ("ReconcileError", ABNORMAL),
    ("ReconcileFailed", ABNORMAL),
    ("ReconcileSuccess", STATE),
    ("Reconciled", STATE),
    ("ReconciliationError", ABNORMAL),
    ("ReconciliationFailed", ABNORMAL),
    ("Registered", STEP),
    ("Rejected", REJECTION),
    ("ReleaseFailed", ABNORMAL),
    ("ReplicaFailure", ABNORMAL),
    ("ResolvedRefs", CHECK),
    ("Running", STATE),
    ("Scaling", PROGRESS),
    ("Scheduled", STEP),
    ("Succeeded", END),
    ("Successful", STATE),
    ("SyncError", ABNORMAL),
    ("SyncFailed", ABNORMAL),
    ("Synced", STATE),
    ("Synchronized", STATE),
    ("Terminating", PROGRESS),
    ("Unavailable", ABNORMAL),
    ("Unhealthy", ABNORMAL),
    ("UpToDate", STATE),
    ("Updating", PROGRESS),
    ("Upgrading", PROGRESS),
    ("Valid", CHECK),
    ("Validated", CHECK),
    ("Verified", CHECK),
]);

pub(super) fn of(condition: &Condition<'_>) -> Option<Says> {
    let first = condition.first_letter()?;
    let meaning = *MEANINGS.find(first, |known| condition.is_type(known))?;
    // Operators made with Ansible: the play runs.
    if condition.is("Running", Truth::True) && condition.is_message("Running reconciliation") {
        return Some(Says::Working);
    }
    let says = with_truth(meaning, condition.truth, || condition.has_reason(names_failure));
    Some(if matches!(says, Says::Wrong(_)) && is_pending(condition) { Says::Working } else { says })
}

/// A refusal that says itself that it is none yet.
pub(super) fn is_pending(condition: &Condition<'_>) -> bool {
    PENDING_REASONS.iter().any(|word| condition.is_reason(word))
}

/// The verdict that a common condition gives.
pub(super) fn verdict(status: Status, condition: &Condition<'_>) -> Verdict {
    let reason: Text = match condition.reason_or("") {
        reason if reason.is_empty() => spelled_out(condition),
        reason => reason,
    };
    Verdict::new(status, Basis::CommonCondition, reason, condition.describe())
}

/// A reason for a condition that has none: `Healthy`, `NotHealthy`, `HealthyUnknown`.
fn spelled_out(condition: &Condition<'_>) -> Text {
    let type_ = condition.type_text();
    Text::Owned(match condition.truth {
        Truth::True => type_.into_owned(),
        Truth::False => ["Not", &type_].concat(),
        Truth::Unknown => [&type_, "Unknown"].concat(),
    })
}

fn with_truth((when_true, when_false): Meaning, truth: Truth, names_failure: impl Fn() -> bool) -> Says {
    match truth {
        Truth::True => when_true,
        Truth::False if when_false == Says::Working && names_failure() => Says::Wrong(FailureClass::Other),
        Truth::False => when_false,
        // If False is abnormal, Unknown means that the controller is still reconciling.
        Truth::Unknown if when_false == Says::Nothing => Says::Nothing,
        Truth::Unknown => Says::Working,
    }
}

/// Words of a CamelCase reason with which a controller reports a failure.
const FAILURE_WORDS: &[&str] = &[
    "Degraded",
    "Denied",
    "Error",
    "Errored",
    "Errors",
    "Fail",
    "Failed",
    "Failing",
    "Failure",
    "Forbidden",
    "Invalid",
    "Misconfigured",
    "Rejected",
    "Unauthorized",
    "Unhealthy",
    "Unsupported",
];

/// Whether one of the words of a reason is a failure: `CreateFailed`, `InvalidSpec`, but not `WaitingForFailover`.
pub(super) fn names_failure(reason: &str) -> bool {
    let mut rest = reason.as_bytes();
    while let Some(start) = rest.iter().position(u8::is_ascii_uppercase) {
        let word = rest.get(start..).unwrap_or_default();
        // The capital letter, and the small ones after it.
        let after = word.iter().skip(1).position(|byte| !byte.is_ascii_lowercase());
        let (word, after) = word.split_at(after.map_or(word.len(), |small| small + 1));
        if FAILURE_WORDS.iter().any(|known| known.as_bytes() == word) {
            return true;
        }
        rest = after;
    }
    false
}

/// Reasons of a refusal that is none yet.
const PENDING_REASONS: &[&str] = &["Pending", "Unknown", "Waiting", "InProgress", "Progressing"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_found() {
        MEANINGS.assert_complete();
    }

    #[test]
    fn failures_in_reasons() {
        for reason in ["CreateFailed", "Error", "InvalidSpec", "ReconcileError", "IAMFailure", "Failed_2"] {
            assert!(names_failure(reason), "{reason}");
        }
        for reason in ["", "WaitingForFailover", "Errorless", "NotReady", "DependencyNotReady", "failed"] {
            assert!(!names_failure(reason), "{reason}");
        }
    }
}
