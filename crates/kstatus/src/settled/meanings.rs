//! What condition types mean: those that are common across controllers, and compound ones (`DatabaseReady`, `BackupFailed`) by their last word.

use super::context::{Condition, Truth};
use super::lexicon::Role;
use super::vocabulary::{Phrase, Sense};
use super::words::WordTable;
use crate::verdict::{Basis, FailureClass, Status, Text, Verdict};

/// Meaning of a status of a condition type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Report {
    /// All is well, as far as this condition goes.
    Done,
    /// A task has ended with success.
    Ended,
    /// A part is well.
    Part,
    /// The object is found correct, which is all that a configuration object gets.
    Correct,
    /// It stands still by choice.
    Still,
    /// Work goes on, whatever the controller's summary is.
    Working,
    /// Something is not there yet; the controller's summary knows whether it is needed.
    Waiting,
    /// A part is not there yet, whatever the controller's summary is.
    Lacking,
    /// Something is wrong; the controller may still get over it.
    Wrong(FailureClass),
    /// It is over, without success.
    Over(FailureClass),
    /// Nothing about being done.
    Nothing,
}

/// Meanings of a condition type with the statuses True and False.
type Meaning = (Report, Report);

/// The whole state that was asked for is there.
const STATE: Meaning = (Report::Done, Report::Working);
/// An aspect of it is there; it may not be needed.
const ASPECT: Meaning = (Report::Done, Report::Waiting);
/// A part of it is there.
const PART: Meaning = (Report::Nothing, Report::Lacking);
/// A part of it is there, and all of them are all that there is.
const SUBSTANCE: Meaning = (Report::Part, Report::Lacking);
/// It says nothing of being done.
const ASIDE: Meaning = (Report::Nothing, Report::Nothing);
/// The spec is accepted; a rejection needs a change of the object or of an object that it references.
const ACCEPTANCE: Meaning = (Report::Done, Report::Wrong(FailureClass::Configuration));
/// A step on the way: True is not the end of it.
const STEP: Meaning = (Report::Nothing, Report::Waiting);
/// A check on the way: True is not the end of it, False needs a change.
const CHECK: Meaning = (Report::Nothing, Report::Wrong(FailureClass::Configuration));
/// A check of what the object says.
const CORRECTNESS: Meaning = (Report::Correct, Report::Wrong(FailureClass::Configuration));
/// The end of a task: False is the end without success, as in Tekton and Knative.
const END: Meaning = (Report::Ended, Report::Over(FailureClass::Job));
/// Abnormal when True, for good.
const FAILURE: Meaning = (Report::Over(FailureClass::Other), Report::Nothing);
/// Abnormal when True, for now.
const ABNORMAL: Meaning = (Report::Wrong(FailureClass::Other), Report::Nothing);
/// Abnormal when True, because of the spec.
const REJECTION: Meaning = (Report::Wrong(FailureClass::Configuration), Report::Nothing);
/// Work in hand when True.
const PROGRESS: Meaning = (Report::Working, Report::Nothing);
/// Stands still by choice when True.
const STANDSTILL: Meaning = (Report::Still, Report::Nothing);

/// The condition types whose meaning is common across controllers, sorted. A name that means different things to
/// different controllers is left out: no verdict is better than a wrong one.
const MEANINGS: &[(&str, Meaning)] = &[
    ("AbleToScale", SUBSTANCE),
    ("Accepted", ACCEPTANCE),
    ("Active", ASPECT),
    ("Admitted", CHECK),
    ("Applied", STATE),
    ("Approved", CHECK),
    ("Attached", ASPECT),
    ("Available", STATE),
    ("Bound", ASPECT),
    ("Complete", ASPECT),
    ("Completed", ASPECT),
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
    ("Disabled", STANDSTILL),
    ("Done", ASPECT),
    ("Error", ABNORMAL),
    ("ErrorOccurred", ABNORMAL),
    ("Errored", ABNORMAL),
    ("Established", ASPECT),
    ("Failed", FAILURE),
    ("Failing", ABNORMAL),
    ("Failure", FAILURE),
    ("Finished", ASPECT),
    ("Healthy", STATE),
    ("Hibernated", STANDSTILL),
    ("InProgress", PROGRESS),
    ("InSync", STATE),
    ("Initialized", STEP),
    ("Initializing", PROGRESS),
    ("Installed", ASPECT),
    ("Installing", PROGRESS),
    ("Invalid", REJECTION),
    ("Irreconcilable", ABNORMAL),
    ("Issued", ASPECT),
    ("Misconfigured", REJECTION),
    ("NotReady", PROGRESS),
    ("Online", ASPECT),
    ("Operational", ASPECT),
    ("Paused", STANDSTILL),
    ("Pending", PROGRESS),
    ("Processing", PROGRESS),
    ("Programmed", STATE),
    ("Progressing", PROGRESS),
    ("Provisioned", ASPECT),
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
    ("RollingUpdate", PROGRESS),
    ("Running", ASPECT),
    ("Scaling", PROGRESS),
    ("ScalingActive", SUBSTANCE),
    ("ScalingLimited", ASIDE),
    ("Scheduled", STEP),
    ("Serving", ASPECT),
    ("Stopped", STANDSTILL),
    ("Succeeded", END),
    ("Success", END),
    ("Successful", ASPECT),
    ("Suspended", STANDSTILL),
    ("SyncError", ABNORMAL),
    ("SyncFailed", ABNORMAL),
    ("Synced", STATE),
    ("Synchronized", STATE),
    ("Terminating", PROGRESS),
    ("Unavailable", ABNORMAL),
    ("Unhealthy", ABNORMAL),
    ("UpToDate", STATE),
    ("Updated", PART),
    ("Updating", PROGRESS),
    ("Upgrading", PROGRESS),
    ("Valid", CORRECTNESS),
    ("Validated", CORRECTNESS),
    ("Verified", CORRECTNESS),
];

/// The same, to be looked up.
static TYPES: WordTable<(&str, Meaning), { MEANINGS.len() }> = {
    let mut types = WordTable::new(MEANINGS[0]);
    let mut at = 0;
    while at < MEANINGS.len() {
        *types.row_mut(MEANINGS[at].0) = MEANINGS[at];
        at += 1;
    }
    types
};

/// Types that report the end of a task, also of one that failed.
const ENDS: &[&str] = &["Complete", "Completed", "Done", "Finished"];

/// What a condition of a common type says.
pub(super) fn of(condition: &Condition<'_>) -> Option<Report> {
    let (type_, meaning) = condition.with_type(|type_| TYPES.find(type_))?;
    // The table knows them in any case.
    if !condition.is_type(type_) {
        return None;
    }
    // Operators made with Ansible: the play runs.
    if condition.is("Running", Truth::True) && condition.is_message("Running reconciliation") {
        return Some(Report::Working);
    }
    Some(with_reason(with_truth(*meaning, condition.truth), condition))
}

/// What a condition of a compound type says, by its last word. `kind` is that of its object: `ClientReady` is all that
/// a KeycloakClient says, and a part of anything else.
pub(super) fn of_compound(condition: &Condition<'_>, kind: &[u8]) -> Option<Report> {
    let meaning = condition.with_type(|type_| {
        // `example.com/DatabaseReady`
        let name = if type_.contains(&b'/') { type_.rsplit(|byte| *byte == b'/').next()? } else { type_ };
        Phrase::with(name, |phrase| compound(phrase, name, kind))
    })?;
    match meaning {
        Compound::Meaning(meaning) => Some(with_reason(with_truth(meaning, condition.truth), condition)),
        Compound::Partially => Some(if condition.is_true() { Report::Waiting } else { Report::Nothing }),
    }
}

/// The meaning of a compound type.
enum Compound {
    Meaning(Meaning),
    /// `PartiallyReady`: what is there is not all.
    Partially,
}

fn compound(phrase: &Phrase<'_>, type_: &[u8], kind: &[u8]) -> Option<Compound> {
    let (last, before) = phrase.words().split_last().filter(|_| !phrase.is_cut())?;
    let Some(first) = before.first() else {
        let meaning = TYPES.find(type_).map(|(_, meaning)| *meaning);
        let is_work = || matches!(phrase.sense(), Some((Some(_), Sense::Working)));
        return meaning.or_else(|| is_work().then_some(PROGRESS)).map(Compound::Meaning);
    };
    // `ValidConfiguration`
    if first.is(Role::Correct) {
        return Some(Compound::Meaning(CHECK));
    }
    if first.is(Role::Refusal) {
        return Some(Compound::Meaning(REJECTION));
    }
    // A backup that failed says nothing of the database.
    let is_aside =
        || before.iter().any(|word| word.is(Role::Aside) && !contains_word(kind, phrase.text(word)));
    if phrase.has(Role::Aside) && is_aside() || first.is(Role::No) || first.is(Role::Not) {
        return None;
    }
    if first.is(Role::Partial) {
        return Some(Compound::Partially);
    }
    let meaning = if last.is(Role::PartState) {
        // That there is a newer version says nothing of this one.
        if before.iter().any(|word| word.is(Role::Change)) {
            return None;
        }
        let subject = type_.len().checked_sub(last.len()).and_then(|end| type_.get(..end))?;
        if ends_with_word(kind, subject) { ASPECT } else { (Report::Part, Report::Lacking) }
    } else if phrase.ends_in_failure() {
        ABNORMAL
    } else {
        match phrase.sense()?.1 {
            Sense::Still => STANDSTILL,
            Sense::Working => PROGRESS,
            _ => return None,
        }
    };
    Some(Compound::Meaning(meaning))
}

/// Whether a condition of a type that nobody knows reports a failure by its reason.
pub(super) fn reports_failure(condition: &Condition<'_>) -> bool {
    let has_aside = |type_: &[u8]| Phrase::with(type_, |phrase| phrase.has(Role::Aside));
    let is_aside = || condition.with_type(|type_| has_aside(type_).then_some(())).is_some();
    condition.is_false() && condition.has_reason(|reason| reason.names_failure()) && !is_aside()
}

fn contains_word(kind: &[u8], word: &[u8]) -> bool {
    !word.is_empty() && kind.windows(word.len()).any(|part| part.eq_ignore_ascii_case(word))
}

fn ends_with_word(kind: &[u8], word: &[u8]) -> bool {
    let end = kind.len().checked_sub(word.len()).and_then(|at| kind.get(at..));
    !word.is_empty() && end.is_some_and(|end| end.eq_ignore_ascii_case(word))
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

fn with_truth((when_true, when_false): Meaning, truth: Truth) -> Report {
    match truth {
        Truth::True => when_true,
        Truth::False => when_false,
        // If False is abnormal, Unknown means that the controller is still reconciling.
        Truth::Unknown if when_true == Report::Working => Report::Waiting,
        Truth::Unknown if when_false == Report::Nothing => Report::Nothing,
        Truth::Unknown if matches!(when_false, Report::Waiting | Report::Lacking) => when_false,
        Truth::Unknown => Report::Working,
    }
}

/// The meaning with what the reason adds: a state that is not there may have failed, or stand still, and a refusal may
/// be none yet.
fn with_reason(report: Report, condition: &Condition<'_>) -> Report {
    let names_failure = || condition.has_reason(|reason| reason.names_failure());
    match (report, condition.truth) {
        (Report::Working | Report::Waiting | Report::Lacking, Truth::False) => {
            condition.with_reason(|reason| {
                if condition.reports_failure_with(reason) {
                    Report::Wrong(FailureClass::Other)
                } else if reason.is_some_and(Phrase::names_standstill) {
                    Report::Still
                } else {
                    report
                }
            })
        }
        (Report::Working, Truth::True) => condition.with_reason(|reason| match reason {
            // `InstallPlanPending` with the reason `RequiresApproval`.
            Some(reason) if reason.names_standstill() => Report::Still,
            // As Deployments have it: `Progressing` with the reason `NewReplicaSetAvailable`.
            Some(reason) if reason.names_success() => Report::Part,
            // `NotReady` is what is left to do, unless its reason is a failure.
            Some(reason) if condition.is_type("NotReady") && reason.names_failure() => {
                Report::Wrong(FailureClass::Other)
            }
            _ => report,
        }),
        (Report::Nothing, Truth::False) if condition.is_type("Progressing") && names_failure() => {
            Report::Wrong(FailureClass::Other)
        }
        // `Paused` with the reason `PausedIOError`.
        (Report::Still, Truth::True) if names_failure() => Report::Wrong(FailureClass::Other),
        // `Complete` with the reason `JobFailed`, `Accepted` with the reason `InvalidParameters`.
        (Report::Done | Report::Ended, Truth::True) if names_failure() => {
            if ENDS.iter().any(|end| condition.is_type(end)) {
                Report::Over(FailureClass::Job)
            } else {
                Report::Wrong(FailureClass::Other)
            }
        }
        (Report::Wrong(_), _) if is_pending(condition) => Report::Working,
        (Report::Wrong(_), truth) => condition.with_reason(|reason| {
            let is_at_work = truth == Truth::False && reason.is_some_and(Phrase::names_work);
            if is_at_work || condition.is_retried_with(reason) { Report::Working } else { report }
        }),
        (Report::Over(_), Truth::False) if condition.has_reason(|reason| reason.names_work()) => {
            Report::Working
        }
        _ => report,
    }
}

/// Reasons of a refusal that is none yet.
const PENDING_REASONS: &[&str] = &["Pending", "Unknown", "Waiting", "InProgress", "Progressing"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_is_found() {
        assert!(MEANINGS.is_sorted_by_key(|(type_, _)| type_));
        for (type_, meaning) in MEANINGS {
            assert_eq!(TYPES.find(type_.as_bytes()), Some(&(*type_, *meaning)));
        }
    }
}
