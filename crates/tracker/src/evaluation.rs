//! The evaluation of a target at a moment: its own verdict, unless a failure of it or of a dependent has outlasted its grace.
//!
//! All consumers report this one: `wait`, `status`, `why`, `tree`, `--for=failed`, JUnit and JSON.

use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use kstatus::{Failure, FailureClass, Status, Text, Verdict, reason};

use crate::limits::{Limits, grace};
use crate::observation::{Now, ObservedFailure};
use crate::report::Explanation;

/// How long a failure may be gone before it counts as over: a container that crashes again and again runs in between.
const RECOVERED_AFTER: Duration = Duration::from_secs(30);

/// A failure that lasts, or did not long ago.
#[derive(Clone, Debug)]
pub(crate) struct FailureTimer {
    pub(crate) class: FailureClass,
    pub(crate) reason: Text,
    /// Since when it is observed, from the start of the wait; how long it had lasted before that.
    since: Duration,
    before: Duration,
    /// Since when it is gone.
    gone: Option<Duration>,
    /// How long it is tolerated. None: as long as the wait.
    pub(crate) grace: Option<Duration>,
}

impl FailureTimer {
    /// When it counts, from the start of the wait.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        Some(self.since.saturating_add(self.grace?.saturating_sub(self.before)))
    }

    /// How long it has lasted.
    pub(crate) fn lasted(&self, now: Now) -> Duration {
        now.elapsed.saturating_sub(self.since) + self.before
    }
}

/// The failures of one target, and since when it has each: at most one of a class.
#[derive(Debug, Default)]
pub(crate) struct FailureTimers {
    timers: Vec<FailureTimer>,
    /// Whether it was ever observed without a failure: then the objects' own times may be those of something else.
    was_well: bool,
}

impl FailureTimers {
    /// Takes in the failures of this moment. `whole`: all dependents are known, so that no failure means that all is well.
    pub(crate) fn observe(&mut self, failures: &[ObservedFailure], whole: bool, limits: &Limits, now: Now) {
        self.forget(failures, now);
        for failure in failures {
            let grace = match failure.terminal {
                true => Some(Duration::ZERO),
                false => limits.grace.get(&failure.class).copied().or_else(|| grace(failure.class)),
            };
            if let Some(known) = self.timers.iter_mut().find(|timer| timer.class == failure.class) {
                known.reason.clone_from(&failure.reason);
                known.grace = grace;
                continue;
            }
            // A failure from before the wait has lasted as long as the object says.
            let lasted = match failure.since {
                Some(since) if !self.was_well => now.wall.duration_since(since),
                _ => SignedDuration::ZERO,
            };
            // Most targets fail in one way; a list that grows by itself has room for four.
            self.timers.reserve_exact(1);
            self.timers.push(FailureTimer {
                class: failure.class,
                reason: failure.reason.clone(),
                since: now.elapsed,
                before: Duration::try_from(lasted).unwrap_or_default(),
                gone: None,
                grace,
            });
        }
        self.was_well |= failures.is_empty() && whole;
    }

    /// The target is as it should be.
    pub(crate) fn recover(&mut self, now: Now) {
        self.was_well = true;
        self.forget(&[], now);
    }

    /// Marks what is gone, and drops what has been gone for long enough.
    fn forget(&mut self, present: &[ObservedFailure], now: Now) {
        self.timers.retain_mut(|timer| {
            let over = timer.gone.is_some_and(|gone| now.elapsed.saturating_sub(gone) >= RECOVERED_AFTER);
            match present.iter().any(|failure| failure.class == timer.class) {
                true => timer.gone = None,
                false => timer.gone = timer.gone.or(Some(now.elapsed)),
            }
            !over
        });
    }

    /// The timer of a class.
    pub(crate) fn get(&self, class: FailureClass) -> Option<&FailureTimer> {
        self.timers.iter().find(|timer| timer.class == class)
    }

    /// The present failures that have a grace, the one that counts first before the others.
    pub(crate) fn by_deadline(&self) -> Vec<&FailureTimer> {
        let present = self.timers.iter().filter(|timer| timer.gone.is_none() && timer.grace.is_some());
        let mut timers: Vec<&FailureTimer> = present.collect();
        timers.sort_by_key(|timer| timer.deadline());
        timers
    }
}

/// How far a failure of a target or of a dependent has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureStage {
    /// There is none that would count.
    None,
    /// Its grace runs.
    Tolerated,
    /// One of this class has outlasted its grace.
    Failed(FailureClass),
}

/// A target's verdict at a moment, and its own where that is another.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Evaluation {
    pub(crate) verdict: Arc<Verdict>,
    pub(crate) own: Option<Arc<Verdict>>,
}

impl Evaluation {
    /// Evaluates an object: with a class of failure that has outlasted its grace it is Failed, with the reason of the root cause.
    /// While the grace runs, it is InProgress.
    pub(crate) fn new(own: Arc<Verdict>, stage: FailureStage, cause: Option<&Explanation>) -> Self {
        let class = match stage {
            FailureStage::None => return Self { verdict: own, own: None },
            FailureStage::Tolerated if own.status == Status::Failed => {
                let mut verdict = (*own).clone();
                verdict.status = Status::InProgress;
                verdict.failure.get_or_insert(Failure { class: FailureClass::Other, terminal: false });
                return Self { verdict: Arc::new(verdict), own: Some(own) };
            }
            FailureStage::Tolerated => return Self { verdict: own, own: None },
            FailureStage::Failed(class) => class,
        };
        let root = cause.and_then(|cause| cause.chain.last()).filter(|step| step.status != Status::Current);
        let (reason, message) = match root {
            Some(step) => (Text::from(step.reason.clone()), Text::from(step.message.clone())),
            None => (own.reason.clone(), own.message.clone()),
        };
        if own.status == Status::Failed && own.reason == reason && own.message == message {
            return Self { verdict: own, own: None };
        }
        let mut verdict = Verdict::new(Status::Failed, own.basis, reason, message);
        let terminal = own.status == Status::Failed && own.failure.is_some_and(|failure| failure.terminal);
        verdict.failure = Some(Failure { class, terminal });
        verdict.generation = own.generation;
        verdict.observed_generation = own.observed_generation;
        verdict.blocking = own.blocking;
        verdict.problems.clone_from(&own.problems);
        Self { verdict: Arc::new(verdict), own: Some(own) }
    }

    /// Evaluates an object without a status whose kind has none either: it counts as Current.
    pub(crate) fn assumed_current(own: Arc<Verdict>) -> Self {
        let mut verdict = (*own).clone();
        verdict.status = Status::Current;
        verdict.reason = reason::ASSUMED_CURRENT.into();
        verdict.message = "the object has no status".into();
        Self { verdict: Arc::new(verdict), own: Some(own) }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use kstatus::Basis;

    use super::*;

    #[test]
    fn a_failure_that_is_tolerated_is_in_progress() {
        let failed = Verdict::new(Status::Failed, Basis::StandardCondition, "Stalled", "no quota");
        let own = Arc::new(failed.clone().failure(FailureClass::Quota, false));
        let evaluation = Evaluation::new(Arc::clone(&own), FailureStage::Tolerated, None);
        let Verdict { status, reason, failure, .. } = &*evaluation.verdict;
        assert_eq!((*status, &**reason, *failure), (Status::InProgress, "Stalled", own.failure));
        assert_eq!(evaluation.own, Some(Arc::clone(&own)));
        // Its class is the one that failures without a class have.
        let evaluation = Evaluation::new(Arc::new(failed), FailureStage::Tolerated, None);
        assert_eq!(evaluation.verdict.failure.map(|failure| failure.class), Some(FailureClass::Other));
        let evaluation = Evaluation::new(Arc::clone(&own), FailureStage::Failed(FailureClass::Quota), None);
        assert_eq!(evaluation, Evaluation { verdict: own, own: None });
    }

    #[test]
    fn a_failure_takes_no_more_room_than_its_own() {
        let failure = |class| ObservedFailure { class, reason: "x".into(), terminal: false, since: None };
        let (image, crash) = (failure(FailureClass::Image), failure(FailureClass::Crash));
        let now = Now { elapsed: Duration::ZERO, wall: Timestamp::UNIX_EPOCH };
        let mut timers = FailureTimers::default();
        for (failures, count) in [(vec![image.clone()], 1), (vec![image.clone()], 1), (vec![crash, image], 2)]
        {
            timers.observe(&failures, true, &Limits::default(), now);
            assert_eq!((timers.timers.len(), timers.timers.capacity()), (count, count));
        }
    }
}
