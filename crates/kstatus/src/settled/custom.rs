//! What any object may say: the condition `Ready`, other conditions whose meaning is common, phase words.

use super::context::{Condition, Context, Truth};
use super::text;
use crate::node::{Kind, Node};
use crate::object::Field;
use crate::verdict::{Basis, FailureClass, Status, Text, Verdict};

/// What a condition of a known type says with a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Says {
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

/// A condition type and what it says when it is True and when it is False.
struct Meaning {
    types: &'static [&'static str],
    when_true: Says,
    when_false: Says,
}

const WRONG: Says = Says::Wrong(FailureClass::Other);
const MISCONFIGURED: Says = Says::Wrong(FailureClass::Configuration);

/// The types whose meaning is common across controllers. A name that means different things to different
/// controllers is left out: no verdict is better than a wrong one.
const MEANINGS: &[Meaning] = &[
    // The state that was asked for is there.
    Meaning {
        types: &[
            "Active",
            "Applied",
            "Available",
            "Bound",
            "Complete",
            "Completed",
            "Deployed",
            "Established",
            "Healthy",
            "Installed",
            "Issued",
            "Online",
            "Programmed",
            "Provisioned",
            "Reconciled",
            "Running",
            "Synced",
            "Synchronized",
            "UpToDate",
        ],
        when_true: Says::Done,
        when_false: Says::Working,
    },
    // What was asked for is understood; a refusal needs a change of this object or of what it refers to.
    Meaning { types: &["Accepted"], when_true: Says::Done, when_false: MISCONFIGURED },
    // Steps on the way: True is not the end of it.
    Meaning {
        types: &["Configured", "Created", "Initialized", "Registered", "Scheduled"],
        when_true: Says::Nothing,
        when_false: Says::Working,
    },
    Meaning {
        types: &["Admitted", "Approved", "ResolvedRefs", "Valid", "Validated", "Verified"],
        when_true: Says::Nothing,
        when_false: MISCONFIGURED,
    },
    // Tasks that end: False is the end without success, as in Tekton and Knative.
    Meaning { types: &["Succeeded"], when_true: Says::Done, when_false: Says::Over(FailureClass::Job) },
    // Abnormal when True, for good.
    Meaning {
        types: &["Failed", "Failure"],
        when_true: Says::Over(FailureClass::Other),
        when_false: Says::Nothing,
    },
    // Abnormal when True, for now.
    Meaning {
        types: &[
            "Degraded",
            "Error",
            "ErrorOccurred",
            "Errored",
            "Failing",
            "NotReady",
            "ReconcileError",
            "ReconcileFailed",
            "ReconciliationError",
            "ReconciliationFailed",
            "ReplicaFailure",
            "SyncError",
            "SyncFailed",
            "Unhealthy",
            "Unavailable",
        ],
        when_true: WRONG,
        when_false: Says::Nothing,
    },
    Meaning {
        types: &["Conflicted", "Dangling", "Denied", "Invalid", "Misconfigured", "Rejected"],
        when_true: MISCONFIGURED,
        when_false: Says::Nothing,
    },
    // Work in hand when True.
    Meaning {
        types: &[
            "Creating",
            "Deleting",
            "Deploying",
            "Initializing",
            "Installing",
            "InProgress",
            "Pending",
            "Processing",
            "Progressing",
            "Provisioning",
            "Scaling",
            "Terminating",
            "Updating",
            "Upgrading",
        ],
        when_true: Says::Working,
        when_false: Says::Nothing,
    },
];

fn meaning(condition: &Condition<'_>) -> Option<Says> {
    let meaning =
        MEANINGS.iter().find(|meaning| meaning.types.iter().any(|type_| condition.is_type(type_)))?;
    Some(match condition.truth {
        Truth::True => meaning.when_true,
        Truth::False => meaning.when_false,
        // Where False would be abnormal, not knowing means that somebody still works on it.
        Truth::Unknown if meaning.when_false == Says::Nothing => Says::Nothing,
        Truth::Unknown => Says::Working,
    })
}

/// A refusal that says itself that it is none yet.
fn is_pending(condition: &Condition<'_>) -> bool {
    ["Pending", "Unknown", "Waiting", "InProgress", "Progressing"]
        .iter()
        .any(|word| condition.is_reason(word))
}

pub(super) fn verdict(context: &Context<'_, '_>, kind: &str) -> Verdict {
    if let Some(verdict) = from_conditions(context) {
        return verdict;
    }
    if let Some(verdict) = from_words(context, kind) {
        return verdict;
    }
    if context.options.assume_current {
        let message = "the object says nothing about its state; assumed to be current as asked";
        return Verdict::new(Status::Current, Basis::Nothing, "AssumedCurrent", message);
    }
    Verdict::new(Status::Unknown, Basis::Nothing, "NoSignal", no_signal(context))
}

/// The strongest thing each class of conditions says.
#[derive(Default)]
struct Heard<'a> {
    ready: Option<Condition<'a>>,
    over: Option<(Condition<'a>, FailureClass)>,
    wrong: Option<(Condition<'a>, FailureClass)>,
    working: Option<Condition<'a>>,
    done: Option<Condition<'a>>,
}

fn from_conditions(context: &Context<'_, '_>) -> Option<Verdict> {
    let mut heard = Heard::default();
    for condition in context.conditions().iter() {
        if condition.is_type("Ready") {
            heard.ready.get_or_insert(condition);
            continue;
        }
        match meaning(&condition) {
            Some(Says::Over(class)) => {
                heard.over.get_or_insert((condition, class));
            }
            Some(Says::Wrong(_)) if is_pending(&condition) => {
                heard.working.get_or_insert(condition);
            }
            Some(Says::Wrong(class)) => {
                heard.wrong.get_or_insert((condition, class));
            }
            Some(Says::Working) => {
                heard.working.get_or_insert(condition);
            }
            Some(Says::Done) => {
                heard.done.get_or_insert(condition);
            }
            Some(Says::Nothing) | None => {}
        }
    }
    // Ready is the controller's own summary: True settles it, whatever its parts say.
    if let Some(ready) = heard.ready.filter(Condition::is_true) {
        let message = ready.message_or(|| "Resource is Ready".to_owned());
        let verdict = Verdict::new(Status::Current, Basis::Ready, ready.reason_or("Ready"), message);
        return Some(context.decided_by(&ready, verdict));
    }
    let common = |status: Status, condition: Condition<'_>| {
        let reason: Text = match condition.reason_or("") {
            reason if reason.is_empty() => spelled_out(&condition).into(),
            reason => reason,
        };
        Verdict::new(status, Basis::CommonCondition, reason, condition.describe())
    };
    let failure = heard
        .over
        .map(|(c, class)| (c, class, true))
        .or_else(|| heard.wrong.map(|(c, class)| (c, class, false)));
    if let Some((condition, class, terminal)) = failure {
        let verdict = common(Status::Failed, condition).failure(class, terminal);
        return Some(context.decided_by(&condition, verdict));
    }
    if let Some(ready) = heard.ready {
        let verdict =
            Verdict::new(Status::InProgress, Basis::Ready, ready.reason_or("NotReady"), ready.describe());
        return Some(context.decided_by(&ready, verdict));
    }
    if let Some(condition) = heard.working {
        return Some(context.decided_by(&condition, common(Status::InProgress, condition)));
    }
    let done = heard.done?;
    // All that speak are content. One that lags decides, whichever it is.
    let conditions = context.conditions();
    let mut content = conditions.iter().filter(|condition| meaning(condition) == Some(Says::Done));
    let lagging = content.find_map(|condition| context.lag(&condition));
    Some(lagging.unwrap_or_else(|| common(Status::Current, done)))
}

/// A reason for a condition that has none: `Healthy`, `NotHealthy`, `HealthyUnknown`.
fn spelled_out(condition: &Condition<'_>) -> String {
    let type_ = condition.type_text();
    match condition.truth {
        Truth::True => type_.into_owned(),
        Truth::False => format!("Not{type_}"),
        Truth::Unknown => format!("{type_}Unknown"),
    }
}

/// Words in which controllers sum up a state, in lower case, and what they say.
const DONE_WORDS: &[&str] = &[
    "active",
    "applied",
    "available",
    "bound",
    "complete",
    "completed",
    "created",
    "deployed",
    "done",
    "established",
    "finished",
    "green",
    "healthy",
    "installed",
    "issued",
    "ok",
    "online",
    "provisioned",
    "ready",
    "reconciled",
    "succeeded",
    "success",
    "successful",
    "synced",
    "uptodate",
];
const WORKING_WORDS: &[&str] = &[
    "applying",
    "binding",
    "building",
    "configuring",
    "creating",
    "deleting",
    "deploying",
    "initializing",
    "installing",
    "inprogress",
    "new",
    "notready",
    "pending",
    "preparing",
    "processing",
    "progressing",
    "provisioning",
    "queued",
    "reconciling",
    "restarting",
    "scaling",
    "scheduled",
    "scheduling",
    "starting",
    "stopping",
    "submitted",
    "syncing",
    "terminating",
    "updating",
    "upgrading",
    "waiting",
    "yellow",
];
const WRONG_WORDS: &[&str] = &[
    "crashloopbackoff",
    "degraded",
    "denied",
    "error",
    "errored",
    "fail",
    "failed",
    "failing",
    "failure",
    "invalid",
    "lost",
    "red",
    "rejected",
    "stalled",
    "unavailable",
    "unhealthy",
];

/// Kinds that do something once: for them `Running` is on the way.
const TASK_ENDINGS: &[&str] =
    &["Backup", "Build", "Job", "Migration", "Restore", "Run", "Snapshot", "Task", "Workflow"];

fn from_words(context: &Context<'_, '_>, kind: &str) -> Option<Verdict> {
    for field in [Field::Phase, Field::State, Field::StatusWord, Field::Health] {
        let Some(node) = context.object.get(field) else { continue };
        let word = match node.kind() {
            Kind::String => node.as_str(),
            // `health: {status: Healthy}`, as Argo CD and others write it.
            Kind::Map => text(node, "status").or_else(|| text(node, "state")),
            _ => None,
        };
        let Some(word) = word else { continue };
        let Some((status, failure)) = word_says(&word, kind) else { continue };
        let detail =
            context.object.get(Field::StatusMessage).and_then(Node::as_str).filter(|m| !m.is_empty());
        let message = match detail {
            Some(detail) => format!("status.{} is {word}: {detail}", field.key()),
            None => format!("status.{} is {word}", field.key()),
        };
        let mut verdict = Verdict::new(status, Basis::PhaseWord, camel_case(&word), message);
        if let Some(class) = failure {
            verdict = verdict.failure(class, false);
        }
        return Some(verdict);
    }
    None
}

fn word_says(word: &str, kind: &str) -> Option<(Status, Option<FailureClass>)> {
    let is = |known: &str| {
        let plain = word.bytes().filter(u8::is_ascii_alphanumeric).map(|byte| byte.to_ascii_lowercase());
        plain.eq(known.bytes())
    };
    let one_of = |words: &[&str]| words.iter().any(|known| is(known));
    if is("running") {
        let is_task = TASK_ENDINGS.iter().any(|ending| kind.ends_with(ending));
        return Some((if is_task { Status::InProgress } else { Status::Current }, None));
    }
    if one_of(DONE_WORDS) {
        Some((Status::Current, None))
    } else if one_of(WORKING_WORDS) {
        Some((Status::InProgress, None))
    } else if one_of(WRONG_WORDS) {
        Some((Status::Failed, Some(FailureClass::Other)))
    } else if is("unknown") {
        Some((Status::Unknown, None))
    } else {
        None
    }
}

/// A word as a reason: letters and digits, each part of it with a capital.
fn camel_case(word: &str) -> String {
    let mut reason = String::with_capacity(word.len());
    let mut starts = true;
    for c in word.chars() {
        if !c.is_ascii_alphanumeric() {
            starts = true;
        } else if starts {
            reason.push(c.to_ascii_uppercase());
            starts = false;
        } else {
            reason.push(c);
        }
    }
    reason
}

fn no_signal(context: &Context<'_, '_>) -> String {
    let conditions = context.conditions();
    let mut types = conditions.iter().map(|condition| condition.type_text());
    match (context.object.get(Field::Status).filter(|status| !status.is_null()), types.next()) {
        (None, _) => "the object has no status, and no rule says that its kind needs none".to_owned(),
        (Some(_), Some(first)) => {
            let rest = types.count();
            let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
            format!("no condition says whether the object is done: {first}{more}")
        }
        (Some(_), None) => "the status holds neither a condition nor a phase that is understood".to_owned(),
    }
}
