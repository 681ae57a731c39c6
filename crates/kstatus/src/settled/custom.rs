//! Generic evidence for kinds without a rule: the condition `Ready`, other common conditions, phases.

use super::context::{Condition, Context};
use super::meanings::{self, Says, names_failure};
use super::words::WordTable;
use super::{Standard, member, structures};
use crate::fields::Field;
use crate::node::{Kind, Shown};
use crate::reason;
use crate::text::text;
use crate::verdict::{Basis, FailureClass, Status, Text, Verdict};

pub(super) fn verdict(context: &Context<'_, '_>, kind: &[u8]) -> Verdict {
    if let Some(verdict) = from_conditions(context) {
        return verdict;
    }
    if let Some(verdict) = from_words(context, kind).or_else(|| structures::verdict(context)) {
        return verdict;
    }
    if context.options.assume_current {
        let message = "the object has no status; assumed to be Current, as requested";
        return Verdict::new(Status::Current, Basis::Nothing, reason::ASSUMED_CURRENT, message);
    }
    Verdict::new(Status::Unknown, Basis::Nothing, reason::NO_SIGNAL, no_signal(context))
}

/// The strongest thing each class of conditions says.
#[derive(Default)]
struct Heard<'a> {
    standard: Standard<'a>,
    ready: Option<Condition<'a>>,
    over: Option<(Condition<'a>, FailureClass)>,
    wrong: Option<(Condition<'a>, FailureClass)>,
    working: Option<Condition<'a>>,
    done: Option<Condition<'a>>,
    lagging: Option<Condition<'a>>,
}

fn from_conditions(context: &Context<'_, '_>) -> Option<Verdict> {
    let mut heard = Heard::default();
    for condition in context.conditions().iter() {
        if heard.standard.hear(&condition) {
            continue;
        }
        if condition.is_type("Ready") {
            heard.ready.get_or_insert(condition);
            continue;
        }
        match meanings::of(&condition) {
            Some(Says::Over(class)) => {
                heard.over.get_or_insert((condition, class));
            }
            Some(Says::Wrong(class)) => {
                heard.wrong.get_or_insert((condition, class));
            }
            Some(Says::Working) => {
                heard.working.get_or_insert(condition);
            }
            Some(Says::Done) => {
                // All that speak may be content: then one that lags decides, whichever it is.
                if context.is_lagging(&condition) {
                    heard.lagging.get_or_insert(condition);
                }
                heard.done.get_or_insert(condition);
            }
            Some(Says::Nothing) | None => {}
        }
    }
    if let Some(verdict) = heard.standard.verdict(context) {
        return Some(verdict);
    }
    // Ready is the controller's own summary: True settles it, whatever its parts say.
    if let Some(ready) = heard.ready.filter(Condition::is_true) {
        return Some(context.decided_by(&ready, || {
            let message = ready.message_or(|| "Resource is Ready".to_owned());
            Verdict::new(Status::Current, Basis::Ready, ready.reason_or("Ready"), message)
        }));
    }
    let failure = heard
        .over
        .map(|(c, class)| (c, class, true))
        .or_else(|| heard.wrong.map(|(c, class)| (c, class, false)));
    if let Some((condition, class, terminal)) = failure {
        return Some(context.decided_by(&condition, || {
            meanings::verdict(Status::Failed, &condition).failure(class, terminal)
        }));
    }
    if let Some(ready) = heard.ready {
        return Some(context.decided_by(&ready, || {
            let reason = ready.reason_or("NotReady");
            if ready.is_false() && names_failure(&reason) {
                return Verdict::new(Status::Failed, Basis::Ready, reason, ready.describe())
                    .failure(FailureClass::Other, false);
            }
            Verdict::new(Status::InProgress, Basis::Ready, reason, ready.describe())
        }));
    }
    if let Some(condition) = heard.working {
        return Some(context.decided_by(&condition, || meanings::verdict(Status::InProgress, &condition)));
    }
    let done = heard.done?;
    let lag = heard.lagging.and_then(|condition| context.lag(&condition));
    Some(lag.unwrap_or_else(|| meanings::verdict(Status::Current, &done)))
}

/// Meaning of a phase.
#[derive(Clone, Copy)]
enum Word {
    Done,
    Working,
    Wrong,
    /// Steady for what stays, on the way for a task.
    Running,
    Unknown,
}

/// Words in which controllers sum up a state, in lower case without separators, sorted; with each the reason it gives.
static WORDS: WordTable<(&str, Word)> = WordTable::new(&[
    ("aborted", ("Aborted", Word::Wrong)),
    ("active", ("Active", Word::Done)),
    ("allocating", ("Allocating", Word::Working)),
    ("applying", ("Applying", Word::Working)),
    ("attaching", ("Attaching", Word::Working)),
    ("available", ("Available", Word::Done)),
    ("awaitingapproval", ("AwaitingApproval", Word::Done)),
    ("binding", ("Binding", Word::Working)),
    ("bootstrapping", ("Bootstrapping", Word::Working)),
    ("bound", ("Bound", Word::Done)),
    ("building", ("Building", Word::Working)),
    ("canceled", ("Canceled", Word::Wrong)),
    ("cancelled", ("Cancelled", Word::Wrong)),
    ("cloning", ("Cloning", Word::Working)),
    ("complete", ("Complete", Word::Done)),
    ("completed", ("Completed", Word::Done)),
    ("configuring", ("Configuring", Word::Working)),
    ("connected", ("Connected", Word::Done)),
    ("connecting", ("Connecting", Word::Working)),
    ("crashed", ("Crashed", Word::Wrong)),
    ("crashloopbackoff", ("CrashLoopBackOff", Word::Wrong)),
    ("creating", ("Creating", Word::Working)),
    ("degraded", ("Degraded", Word::Wrong)),
    ("deleting", ("Deleting", Word::Working)),
    ("denied", ("Denied", Word::Wrong)),
    ("deployed", ("Deployed", Word::Done)),
    ("deploying", ("Deploying", Word::Working)),
    ("draining", ("Draining", Word::Working)),
    ("errimagepull", ("ErrImagePull", Word::Wrong)),
    ("error", ("Error", Word::Wrong)),
    ("errored", ("Errored", Word::Wrong)),
    ("established", ("Established", Word::Done)),
    ("executing", ("Executing", Word::Working)),
    ("expanding", ("Expanding", Word::Working)),
    ("fail", ("Fail", Word::Wrong)),
    ("failed", ("Failed", Word::Wrong)),
    ("failing", ("Failing", Word::Wrong)),
    ("failure", ("Failure", Word::Wrong)),
    ("faulted", ("Faulted", Word::Wrong)),
    ("finalizing", ("Finalizing", Word::Working)),
    ("green", ("Green", Word::Done)),
    ("halted", ("Halted", Word::Done)),
    ("healthy", ("Healthy", Word::Done)),
    ("hibernated", ("Hibernated", Word::Done)),
    ("imagepullbackoff", ("ImagePullBackOff", Word::Wrong)),
    ("importing", ("Importing", Word::Working)),
    ("initialized", ("Initialized", Word::Working)),
    ("initializing", ("Initializing", Word::Working)),
    ("inprogress", ("InProgress", Word::Working)),
    ("installed", ("Installed", Word::Done)),
    ("installing", ("Installing", Word::Working)),
    ("invalid", ("Invalid", Word::Wrong)),
    ("joined", ("Joined", Word::Done)),
    ("joining", ("Joining", Word::Working)),
    ("launching", ("Launching", Word::Working)),
    ("lost", ("Lost", Word::Wrong)),
    ("migrating", ("Migrating", Word::Working)),
    ("misconfigured", ("Misconfigured", Word::Wrong)),
    ("new", ("New", Word::Working)),
    ("notbound", ("NotBound", Word::Working)),
    ("notready", ("NotReady", Word::Working)),
    ("ok", ("Ok", Word::Done)),
    ("online", ("Online", Word::Done)),
    ("operational", ("Operational", Word::Done)),
    ("paused", ("Paused", Word::Done)),
    ("pending", ("Pending", Word::Working)),
    ("pendingapproval", ("PendingApproval", Word::Done)),
    ("preparing", ("Preparing", Word::Working)),
    ("processing", ("Processing", Word::Working)),
    ("progressing", ("Progressing", Word::Working)),
    ("provisioned", ("Provisioned", Word::Done)),
    ("provisioning", ("Provisioning", Word::Working)),
    ("queued", ("Queued", Word::Working)),
    ("ready", ("Ready", Word::Done)),
    ("reconciled", ("Reconciled", Word::Done)),
    ("reconciling", ("Reconciling", Word::Working)),
    ("recovering", ("Recovering", Word::Working)),
    ("red", ("Red", Word::Wrong)),
    ("registering", ("Registering", Word::Working)),
    ("rejected", ("Rejected", Word::Wrong)),
    ("resizing", ("Resizing", Word::Working)),
    ("restarting", ("Restarting", Word::Working)),
    ("resuming", ("Resuming", Word::Working)),
    ("running", ("Running", Word::Running)),
    ("scaling", ("Scaling", Word::Working)),
    ("scheduled", ("Scheduled", Word::Working)),
    ("scheduling", ("Scheduling", Word::Working)),
    ("stalled", ("Stalled", Word::Wrong)),
    ("starting", ("Starting", Word::Working)),
    ("stopping", ("Stopping", Word::Working)),
    ("submitted", ("Submitted", Word::Working)),
    ("succeeded", ("Succeeded", Word::Done)),
    ("success", ("Success", Word::Done)),
    ("successful", ("Successful", Word::Done)),
    ("suspended", ("Suspended", Word::Done)),
    ("synced", ("Synced", Word::Done)),
    ("syncing", ("Syncing", Word::Working)),
    ("terminating", ("Terminating", Word::Working)),
    ("timedout", ("TimedOut", Word::Wrong)),
    ("unavailable", ("Unavailable", Word::Wrong)),
    ("unbound", ("Unbound", Word::Working)),
    ("unhealthy", ("Unhealthy", Word::Wrong)),
    ("unknown", ("Unknown", Word::Unknown)),
    ("updating", ("Updating", Word::Working)),
    ("upgrading", ("Upgrading", Word::Working)),
    ("uploading", ("Uploading", Word::Working)),
    ("uptodate", ("UpToDate", Word::Done)),
    ("validating", ("Validating", Word::Working)),
    ("verifying", ("Verifying", Word::Working)),
    ("waiting", ("Waiting", Word::Working)),
    ("waitingforapproval", ("WaitingForApproval", Word::Done)),
    ("yellow", ("Yellow", Word::Working)),
]);

/// Kinds that do something once: for them `Running` is on the way.
const TASK_ENDINGS: &[&str] =
    &["Backup", "Build", "Job", "Migration", "Restore", "Run", "Snapshot", "Task", "Workflow"];

fn from_words(context: &Context<'_, '_>, kind: &[u8]) -> Option<Verdict> {
    for field in [Field::Phase, Field::State, Field::StatusWord, Field::Health] {
        let Some(node) = context.object.get(field) else { continue };
        let word = match node.kind() {
            Kind::String => node.as_str(),
            // `health: {status: Healthy}`, as Argo CD and others write it.
            Kind::Map => member(node, "status").or_else(|| member(node, "state")),
            _ => None,
        };
        let Some(word) = word else { continue };
        let Some((reason, status, failure)) = word_says(&word, kind) else { continue };
        // Running is what its Pods do, and not a summary of how many do it.
        if status == Status::Current
            && reason == "Running"
            && let Some(verdict) = structures::less_ready(context)
        {
            return Some(verdict);
        }
        let detail =
            context.object.get(Field::StatusMessage).filter(|m| m.kind() == Kind::String && !m.is(""));
        let message = match detail {
            Some(detail) => text!("status.{} is {word}: {}", field.key(), Shown(detail)),
            None => ["status.", field.key(), " is ", &word].concat(),
        };
        let mut verdict = Verdict::new(status, Basis::PhaseWord, reason, message);
        if let Some(class) = failure {
            verdict = verdict.failure(class, false);
        }
        return Some(verdict);
    }
    None
}

fn word_says(word: &str, kind: &[u8]) -> Option<(&'static str, Status, Option<FailureClass>)> {
    let plain = || word.bytes().filter(u8::is_ascii_alphanumeric).map(|byte| byte.to_ascii_lowercase());
    let (reason, word) = *WORDS.find(plain().next()?, |known| known.bytes().eq(plain()))?;
    let (status, failure) = match word {
        Word::Done => (Status::Current, None),
        Word::Working => (Status::InProgress, None),
        Word::Wrong => (Status::Failed, Some(FailureClass::Other)),
        Word::Running if TASK_ENDINGS.iter().any(|ending| kind.ends_with(ending.as_bytes())) => {
            (Status::InProgress, None)
        }
        Word::Running => (Status::Current, None),
        Word::Unknown => (Status::Unknown, None),
    };
    Some((reason, status, failure))
}

fn no_signal(context: &Context<'_, '_>) -> Text {
    let conditions = context.conditions();
    let mut conditions = conditions.iter();
    match (context.object.get(Field::Status).filter(|status| !status.is_null()), conditions.next()) {
        (None, _) => "the object has no status, and its kind has no rule".into(),
        (Some(_), Some(first)) => {
            let others = if conditions.next().is_some() { " and others" } else { "" };
            ["no condition says whether the object is done: ", &first.type_text(), others].concat().into()
        }
        (Some(_), None) => "the status holds neither a condition nor a phase that is understood".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_found() {
        WORDS.assert_complete();
    }
}
