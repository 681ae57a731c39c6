//! The cause of a target's state in one row: for the live view, progress lines and summaries.

use std::time::Duration;

use kstatus::{FailureClass, Status};
use settled_tracker::{ObjectId, State, TargetReport};

use crate::duration;
use crate::text;

/// How urgent a target is, the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Urgency {
    /// It has failed.
    Failed,
    /// It fails unless it recovers.
    Failing,
    /// Something is in its way that may pass.
    Blocked,
    /// It is on its way.
    Waiting,
    /// Its controller has not looked at it yet.
    NotObserved,
}

/// Root cause of a target that is not done, or else its verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cause {
    pub(crate) urgency: Urgency,
    /// CamelCase word.
    pub(crate) reason: String,
    /// Relevant end of the message; empty if the reason suffices.
    pub(crate) message: String,
    pub(crate) class: Option<FailureClass>,
    /// Remaining grace period.
    pub(crate) fails_in: Option<Duration>,
}

impl Cause {
    pub(crate) fn of(target: &TargetReport) -> Self {
        let verdict = &target.verdict;
        let root = target.root_cause();
        let class = root.map_or_else(|| verdict.failure.map(|failure| failure.class), |step| step.class);
        let failed = target.state == State::Failed;
        // Of what is on its way, its own counts say more than which of its Pods starts at the moment.
        let (reason, message) = match root {
            Some(step) if failed || class.is_some() || step.status == Status::Failed => {
                (&*step.reason, &*step.summary)
            }
            _ => (&*verdict.reason, &*verdict.message),
        };
        let urgency = match target.state {
            State::Failed => Urgency::Failed,
            _ if target.fails_in.is_some() => Urgency::Failing,
            _ if class.is_some() || verdict.status == Status::Failed => Urgency::Blocked,
            _ if verdict.reason == "NotObserved" => Urgency::NotObserved,
            _ => Urgency::Waiting,
        };
        let message =
            if verdict.status == Status::NotFound { not_found(&target.object) } else { text::clean(message) };
        // A generic reason and the status it stands for are one word.
        let reason = text::clean(reason);
        let message = match message.strip_prefix(&reason).and_then(|rest| rest.strip_prefix(": ")) {
            Some(rest) => rest.to_owned(),
            None if message == reason => String::new(),
            None => message,
        };
        Self { urgency, reason, message, class, fails_in: target.fails_in }
    }

    /// Whether it needs attention.
    pub(crate) fn is_failing(&self) -> bool {
        self.urgency <= Urgency::Failing
    }

    /// `fails in 27s unless it recovers`, or nothing.
    pub(crate) fn countdown(&self) -> Option<String> {
        Some(format!("fails in {} unless it recovers", duration::format(self.fails_in?)))
    }

    /// `ImagePullBackOff: cannot pull "web:2": manifest unknown`
    pub(crate) fn sentence(&self) -> String {
        match (self.reason.is_empty(), self.message.is_empty()) {
            (true, _) => self.message.clone(),
            (false, true) => self.reason.clone(),
            (false, false) => format!("{}: {}", self.reason, self.message),
        }
    }
}

/// `not found in namespace shop`
fn not_found(object: &ObjectId) -> String {
    match &*object.namespace {
        "" => "not found".to_owned(),
        namespace => format!("not found in namespace {}", text::clean(namespace)),
    }
}

/// Note of the wait, unless it repeats the cause.
pub(crate) fn note(target: &TargetReport) -> Option<String> {
    let note = text::clean(target.note.as_deref()?);
    let said = |text: &str| text::clean(text) == note;
    let repeats = target.fails_in.is_some()
        || said(&target.verdict.message)
        || target.verdict.status == Status::NotFound && note == "it does not exist"
        || target.root_cause().is_some_and(|step| said(&step.message) || said(&step.summary));
    if repeats || note.is_empty() {
        return None;
    }
    // `won't recover by itself (BackoffLimitExceeded): the Job has used up its retries`, below a message that says so.
    let Cause { reason, message, .. } = Cause::of(target);
    let rest = note.strip_suffix(&*message).and_then(|rest| rest.strip_suffix(": ")).unwrap_or(&note);
    let rest = rest.strip_suffix(&*format!(" ({reason})")).unwrap_or(rest);
    Some(rest.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenes;

    #[test]
    fn the_root_cause_comes_first_and_counts_down() {
        let mut target = scenes::image_failure();
        let cause = Cause::of(&target);
        assert_eq!(cause.urgency, Urgency::Failed);
        assert_eq!(
            cause.sentence(),
            r#"ImagePullBackOff: cannot pull "registry.example.com/shop/web:1.9.0": manifest unknown"#
        );
        assert_eq!(cause.countdown(), None);
        target.state = State::Waiting;
        target.fails_in = Some(Duration::from_secs(27));
        let cause = Cause::of(&target);
        assert_eq!((cause.urgency, &*cause.reason), (Urgency::Failing, "ImagePullBackOff"));
        assert_eq!(cause.countdown().as_deref(), Some("fails in 27s unless it recovers"));
        assert_eq!(note(&target), None, "the countdown says it");
    }

    #[test]
    fn what_is_on_its_way_has_its_own_counts() {
        let cause = Cause::of(&scenes::waiting("web", 1));
        assert_eq!((cause.urgency, cause.sentence()), (Urgency::Waiting, "LessReady: Ready: 1/3".to_owned()));
    }

    #[test]
    fn nothing_is_said_twice() {
        let mut missing = scenes::target(
            State::Waiting,
            ("Deployment", "nope"),
            Status::NotFound,
            "NotFound",
            "it does not exist",
        );
        missing.note = Some("it does not exist".into());
        assert_eq!(Cause::of(&missing).sentence(), "NotFound: not found in namespace shop");
        assert_eq!(note(&missing), None);
        let mut stuck =
            scenes::target(State::Waiting, ("Pod", "a"), Status::Terminating, "Terminating", "Terminating");
        stuck.note = Some("Terminating".into());
        assert_eq!(Cause::of(&stuck).sentence(), "Terminating");
        assert_eq!(note(&stuck), None);
        let mut job = scenes::crash().targets.remove(0);
        job.note = Some(format!("won't recover by itself: {}", Cause::of(&job).message).into());
        assert_eq!(note(&job).as_deref(), Some("won't recover by itself"));
        let Cause { reason, message, .. } = Cause::of(&job);
        job.note = Some(format!("won't recover by itself ({reason}): {message}").into());
        assert_eq!(note(&job).as_deref(), Some("won't recover by itself"));
        stuck.note = Some("stable for 2s of 10s".into());
        assert_eq!(note(&stuck).as_deref(), Some("stable for 2s of 10s"));
    }
}
