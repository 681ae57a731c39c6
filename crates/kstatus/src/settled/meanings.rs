//! What the condition types that are common across controllers mean, and which reasons name a failure.

use super::context::{Condition, Truth};
use super::words::WordTable;
use crate::verdict::FailureClass;

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
const DEFEAT: Meaning = (Says::Over(FailureClass::Other), Says::Nothing);
/// Abnormal when True, for now.
const TROUBLE: Meaning = (Says::Wrong(FailureClass::Other), Says::Nothing);
/// Abnormal when True, because of the spec.
const MISTAKE: Meaning = (Says::Wrong(FailureClass::Configuration), Says::Nothing);
/// Work in hand when True.
const WORK: Meaning = (Says::Working, Says::Nothing);

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
    ("Conflicted", MISTAKE),
    ("Created", STEP),
    ("Creating", WORK),
    ("Dangling", MISTAKE),
    ("Degraded", TROUBLE),
    ("Deleting", WORK),
    ("Denied", MISTAKE),
    ("Deployed", STATE),
    ("Deploying", WORK),
    ("Error", TROUBLE),
    ("ErrorOccurred", TROUBLE),
    ("Errored", TROUBLE),
    ("Established", STATE),
    ("Failed", DEFEAT),
    ("Failing", TROUBLE),
    ("Failure", DEFEAT),
    ("Healthy", STATE),
    ("InProgress", WORK),
    ("Initialized", STEP),
    ("Initializing", WORK),
    ("Installed", STATE),
    ("Installing", WORK),
    ("Invalid", MISTAKE),
    ("Irreconcilable", TROUBLE),
    ("Issued", STATE),
    ("Misconfigured", MISTAKE),
    ("NotReady", TROUBLE),
    ("Online", STATE),
    ("Pending", WORK),
    ("Processing", WORK),
    ("Programmed", STATE),
    ("Progressing", WORK),
    ("Provisioned", STATE),
    ("Provisioning", WORK),
    ("ReconcileError", TROUBLE),
    ("ReconcileFailed", TROUBLE),
    ("ReconcileSuccess", STATE),
    ("Reconciled", STATE),
    ("ReconciliationError", TROUBLE),
    ("ReconciliationFailed", TROUBLE),
    ("Registered", STEP),
    ("Rejected", MISTAKE),
    ("ReleaseFailed", TROUBLE),
    ("ReplicaFailure", TROUBLE),
    ("ResolvedRefs", CHECK),
    ("Running", STATE),
    ("Scaling", WORK),
    ("Scheduled", STEP),
    ("Succeeded", END),
    ("Successful", STATE),
    ("SyncError", TROUBLE),
    ("SyncFailed", TROUBLE),
    ("Synced", STATE),
    ("Synchronized", STATE),
    ("Terminating", WORK),
    ("Unavailable", TROUBLE),
    ("Unhealthy", TROUBLE),
    ("UpToDate", STATE),
    ("Updating", WORK),
    ("Upgrading", WORK),
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
    Some(with_truth(meaning, condition.truth, || condition.has_reason(names_failure)))
}

/// Meaning of a condition anywhere in a status.
pub(super) fn says(type_: &str, truth: Truth, reason: &str) -> Option<Says> {
    let meaning = *MEANINGS.find(type_.bytes().next()?, |known| known == type_)?;
    let says = with_truth(meaning, truth, || names_failure(reason));
    let is_pending = PENDING_REASONS.contains(&reason) && matches!(says, Says::Wrong(_));
    Some(if is_pending { Says::Working } else { says })
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
    let is_upper = |at: usize| reason.as_bytes().get(at).is_some_and(u8::is_ascii_uppercase);
    let ends = |at: usize| !reason.as_bytes().get(at).is_some_and(u8::is_ascii_lowercase);
    let has =
        |word: &&str| reason.match_indices(*word).any(|(at, word)| is_upper(at) && ends(at + word.len()));
    FAILURE_WORDS.iter().any(has)
}

/// Reasons of a refusal that is none yet.
pub(super) const PENDING_REASONS: &[&str] = &["Pending", "Unknown", "Waiting", "InProgress", "Progressing"];

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
