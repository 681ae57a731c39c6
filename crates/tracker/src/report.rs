//! Reports: changes, snapshots, explanations, the end of a wait. Data only, which others print.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kstatus::{Failure, FailureClass, Status, Verdict};
use serde::Serialize;

pub use crate::event_note::EventNote;
use crate::id::ObjectId;
pub use crate::link::Link;
pub use crate::unmatched::Unmatched;

/// How a wait stands with one target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum State {
    /// It counts as failed.
    Failed,
    /// It is not what is waited for yet.
    Waiting,
    /// It is what is waited for, and was long enough.
    Done,
    /// Nobody waits for it: an annotation asks so.
    Skipped,
}

/// One target as it stands.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetReport {
    /// Which object.
    pub object: ObjectId,
    /// How the wait stands with it.
    pub state: State,
    /// The evaluation of the object at this moment. Once a failure of it or of a dependent has outlasted its grace, the status is
    /// Failed, with the reason and the message of the root cause. An object that isn't there has the status NotFound; one that could
    /// not be read has the status Unknown with a reason of [`Unread`](crate::parts::Unread).
    #[serde(flatten)]
    pub verdict: Arc<Verdict>,
    /// The verdict on the object by itself, where it is another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub own: Option<Arc<Verdict>>,
    /// Since when it is so, as far as is known: since the failure began, or by the object's own times.
    pub since: Option<Timestamp>,
    /// When the object was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<Timestamp>,
    /// How long the object has to recover from a failure before it counts as failed, in seconds.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "maybe_seconds")]
    pub fails_in: Option<Duration>,
    /// What the wait has to add to the verdict: `condition Ready is False`, `stable for 4s of 10s`, `fails in 12s unless it recovers`.
    /// Of a target that is done, what a reader should know all the same: `no ready endpoints`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<Arc<str>>,
    /// Why it isn't done, the gravest cause first. Empty for a target that is done.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Explanation>,
    /// Where causes are [grouped](crate::request::Causes::Grouped): the target before this one that isn't done for the same reason, and has
    /// the causes.
    #[serde(skip)]
    pub same_as: Option<ObjectId>,
}

/// One cause for which a target isn't done: the chain from the target to it, and the evidence.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// From the target (first) to the root cause (last), each in its own words.
    pub chain: Vec<Step>,
    /// How many objects have this same cause; the chain names one of them.
    pub count: usize,
    /// The names of others with the same cause, a few of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<String>,
    /// The latest events on the objects of the chain, the oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<EventNote>,
    /// The last lines of containers that crashed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub logs: Vec<LogTail>,
    /// Commands to run next, the most promising first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub next: Vec<String>,
    /// What to check or change, in sentences.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

/// One object on the way from a target to its root cause.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// Which object.
    pub object: ObjectId,
    /// How the object before leads to it. None for the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<Link>,
    /// The status of the object.
    pub status: Status,
    /// Why, in one word.
    pub reason: String,
    /// Why, in the object's own words.
    pub message: String,
    /// The useful end of the message, for one row: `cannot pull "nginx:1.29-typo": manifest unknown`.
    pub summary: String,
    /// What kind of failure it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<FailureClass>,
    /// Only a change of the object can help.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub terminal: bool,
    /// Since when, by the object's own times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// How often: restarts of a container, repetitions of an event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times: Option<u64>,
}

/// The last lines of a container's log.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LogTail {
    /// The Pod.
    pub pod: ObjectId,
    /// The container.
    pub container: String,
    /// Whether they are from the run before the present one.
    pub previous: bool,
    /// The lines, the oldest first; control characters are theirs, so they are escaped when they are printed.
    pub lines: Vec<String>,
    /// Why the log cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Lines that a container has just written, and that crashes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LogLines {
    /// The Pod.
    pub pod: ObjectId,
    /// The container.
    pub container: String,
    /// The lines, the oldest first; control characters are theirs, as in [`LogTail::lines`].
    pub lines: Vec<String>,
    /// How many more there were: too many for a reader.
    #[serde(skip_serializing_if = "is_none_left_out")]
    pub left_out: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_none_left_out(number: &u64) -> bool {
    *number == 0
}

/// An object and its dependents, for trees.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Branch {
    /// Which object.
    pub object: ObjectId,
    /// How the object above leads to it. None for a target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<Link>,
    /// The verdict on it.
    #[serde(flatten)]
    pub verdict: Arc<Verdict>,
    /// The useful end of the verdict's message, for one row; see [`Step::summary`].
    #[serde(skip_serializing_if = "String::is_empty")]
    pub summary: String,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// What belongs to it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<Self>,
    /// How many children are left out because they are Current, or because there are too many.
    #[serde(skip_serializing_if = "is_zero")]
    pub hidden: usize,
    /// Of which kinds they are and all that belongs to them, with how many there are of each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hidden_kinds: Vec<(Arc<str>, usize)>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// How many targets are in which state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// All of them.
    pub total: usize,
    /// Done.
    pub done: usize,
    /// Waited for.
    pub waiting: usize,
    /// Failed.
    pub failed: usize,
    /// Not waited for.
    pub skipped: usize,
}

/// A wait as it stands at one moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// How long it has lasted, in seconds.
    #[serde(serialize_with = "seconds")]
    pub elapsed: Duration,
    /// When it ends at the latest, in seconds from its start.
    #[serde(serialize_with = "maybe_seconds")]
    pub timeout: Option<Duration>,
    /// Whether all that is there was seen once: before, an object that wasn't seen may still be there, and has no row.
    pub synced: bool,
    /// The connection to the API server.
    pub connection: Connection,
    /// How many targets are in which state.
    pub counts: Counts,
    /// Targets, the ones that need attention first, as many as were asked for.
    pub targets: Vec<TargetReport>,
    /// What belongs to each of `targets`, in the same order, without what is Current.
    pub branches: Vec<Branch>,
}

/// The connection to the API server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "camelCase")]
pub enum Connection {
    /// Requests are answered.
    #[default]
    Connected,
    /// No request has been answered since then; all of them are retried.
    Lost {
        /// Since when, in seconds from the start of the wait, as [`Snapshot::elapsed`].
        #[serde(serialize_with = "seconds")]
        since: Duration,
        /// The last error.
        error: String,
    },
}

/// Something a user should know about the wait itself: a permission that is missing, a connection that is down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Notice {
    /// What is the matter.
    pub message: String,
    /// What would help.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// Every target is what was waited for.
    Settled,
    /// At least one counts as failed.
    Failed,
    /// The time is over.
    TimedOut,
    /// A permission is missing, or the cluster cannot be reached: what is known is in the notices.
    Unreachable,
    /// The server rejects a request as malformed, a selector for example; its words are in the notices.
    Rejected,
    /// The caller ended it.
    Interrupted,
}

/// What a wait came to.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// How it ended.
    pub outcome: Outcome,
    /// How long it took, in seconds.
    #[serde(serialize_with = "seconds")]
    pub elapsed: Duration,
    /// How many targets are in which state.
    pub counts: Counts,
    /// All targets; the ones that aren't done with their causes.
    pub targets: Vec<TargetReport>,
    /// The selections that no object matches at the end.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unmatched: Vec<Unmatched>,
    /// What a user should know about the wait itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<Notice>,
    /// Changes of applied objects by other managers during the wait.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changed_by_others: Vec<ForeignChange>,
}

/// A change of an applied object by another manager.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ForeignChange {
    /// Which object.
    pub object: ObjectId,
    /// Who changed it, as far as the object records it.
    pub managers: Vec<String>,
    /// Applied fields that have another value now, a few of them: `.spec.replicas`.
    pub fields: Vec<String>,
    /// `metadata.generation` after the apply.
    pub applied_generation: i64,
    /// `metadata.generation` after the change.
    pub generation: i64,
}

impl std::fmt::Display for ForeignChange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (kind, name) = (&self.object.kind, &self.object.name);
        let managers: Vec<String> = self.managers.iter().map(|manager| format!("{manager:?}")).collect();
        let by = if managers.is_empty() { "another client".to_owned() } else { managers.join(", ") };
        write!(f, "{kind}/{name} was changed by {by} during the wait (generation ")?;
        write!(f, "{} -> {}", self.applied_generation, self.generation)?;
        for field in &self.fields {
            write!(f, ", {field}")?;
        }
        f.write_str("): what is done may not be what was applied")
    }
}

/// What happens during a wait.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "camelCase")]
pub enum Event {
    /// All that is there was seen once.
    Synced {
        /// How many targets are in which state.
        counts: Counts,
    },
    /// Something about a target is another than before: its status, reason, message or state.
    Target(TargetReport),
    /// Something a user should know about the wait itself.
    Notice(Notice),
    /// A container that crashes has written lines; only where they were asked for.
    Log(LogLines),
    /// It is over. Nothing comes after it.
    Finished(Report),
}

impl TargetReport {
    /// The root cause: the last step of the first cause.
    #[must_use]
    pub fn root_cause(&self) -> Option<&Step> {
        self.causes.first()?.chain.last()
    }

    /// What stands in the way: of the object itself, or of the gravest cause.
    #[must_use]
    pub fn failure(&self) -> Option<Failure> {
        let of_cause = || {
            let step = self.causes.first()?.chain.last()?;
            Some(Failure { class: step.class?, terminal: step.terminal })
        };
        self.verdict.failure.or_else(of_cause)
    }
}

fn seconds<S: serde::Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    // Milliseconds are enough, and don't print as 0.30000000000000004.
    #[expect(clippy::cast_precision_loss, reason = "a wait lasts less than 2^53 ms")]
    serializer.serialize_f64(duration.as_millis() as f64 / 1000.0)
}

#[expect(clippy::ref_option, reason = "serde calls it so")]
fn maybe_seconds<S: serde::Serializer>(
    duration: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match duration {
        Some(duration) => seconds(duration, serializer),
        None => serializer.serialize_none(),
    }
}
