//! When a wait is over: a state machine over observations and the time. It has no clock, no I/O, and no idea of streams.

use std::time::Duration;

use kstatus::{FailureClass, Status, format_duration, reason};

use crate::condition::{ConditionResult, WaitCondition};
use crate::evaluation::{FailureStage, FailureTimers};
use crate::explain::summary;
use crate::facts::{Completion, KindFacts};
use crate::id::Uid;
use crate::ids::{IdVec, TargetId};
use crate::limits::{Limits, Missing};
use crate::observation::{Evidence, MinVersion, Now, Observation, ObservedFailure};
use crate::record::Record;
use crate::report::{Counts, Outcome, State};

/// What the wait has to add to a verdict.
#[derive(Clone, Debug, Default, PartialEq)]
enum Note {
    #[default]
    None,
    Text(String),
    Stable {
        since: Duration,
    },
    FailsAt {
        at: Duration,
    },
    Failing {
        class: FailureClass,
    },
}

#[derive(Debug, Default)]
struct Target {
    rare: Option<Box<Rare>>,
    /// How many of the conditions were met, in their order.
    fulfilled: u32,
    /// Since when the last one is.
    fulfilled_since: Option<Duration>,
    /// Failures that it has, or had not long ago.
    timers: FailureTimers,
    /// The class of failure that has outlasted its grace.
    failing: Option<FailureClass>,
    seen: Option<Uid>,
    state: Option<State>,
    /// It has failed, and that ends the wait for the others, too.
    ends: bool,
    note: Note,
    /// When to look again although nothing happens.
    wake: Option<Duration>,
}

/// What few of thousands of targets have.
#[derive(Debug, Default)]
struct Rare {
    min_version: Option<MinVersion>,
    absent_since: Option<Duration>,
    silent_since: Option<Duration>,
    unchanged_since: Option<Duration>,
}

impl Target {
    fn min_version(&self) -> Option<&MinVersion> {
        self.rare.as_ref()?.min_version.as_ref()
    }

    fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    /// It is there.
    fn is_present(&mut self) {
        if let Some(rare) = &mut self.rare {
            rare.absent_since = None;
        }
    }

    /// It says something, or is not there.
    fn is_not_silent(&mut self) {
        if let Some(rare) = &mut self.rare {
            rare.silent_since = None;
        }
    }

    /// The condition that is waited for at present.
    fn condition(&self) -> usize {
        self.fulfilled as usize
    }
}

/// A wait for a set of targets.
#[derive(Debug)]
pub struct Policy {
    limits: Limits,
    conditions: Vec<WaitCondition>,
    /// Boxed: a list of thousands of large elements leaves as much behind when it grows.
    targets: IdVec<TargetId, Box<Target>>,
    counts: Counts,
    /// How many targets have failed in a way that ends the wait.
    ending: usize,
    /// More targets may come: not all selections were listed yet.
    open: bool,
}

/// The status of a target after an observation.
struct TargetStatus {
    state: State,
    note: Note,
    wake: Option<Duration>,
    /// If it has failed: the wait goes on for the others.
    keeps_going: bool,
}

impl TargetStatus {
    fn new(state: State, note: Note, wake: Option<Duration>) -> Self {
        Self { state, note, wake, keeps_going: false }
    }

    fn waiting(note: impl Into<String>) -> Self {
        Self::new(State::Waiting, Note::Text(note.into()), None)
    }

    fn failed(note: impl Into<String>) -> Self {
        Self::new(State::Failed, Note::Text(note.into()), None)
    }
}

impl Policy {
    /// A wait for nothing yet.
    #[must_use]
    pub fn new(limits: Limits, conditions: Vec<WaitCondition>) -> Self {
        Self {
            limits,
            conditions,
            targets: IdVec::default(),
            counts: Counts::default(),
            ending: 0,
            open: true,
        }
    }

    /// Adds a target.
    pub fn add(&mut self, min_version: Option<MinVersion>) -> TargetId {
        let id = self.targets.push(Box::new(Target {
            rare: min_version
                .map(|min_version| Box::new(Rare { min_version: Some(min_version), ..Rare::default() })),
            state: Some(State::Waiting),
            ..Target::default()
        }));
        self.counts.total += 1;
        self.counts.waiting += 1;
        id
    }

    /// A target is none any more: it is no longer selected.
    pub fn drop_target(&mut self, id: TargetId) {
        let Some(target) = self.targets.get_mut(id) else { return };
        target.wake = None;
        let ends = std::mem::take(&mut target.ends);
        if let Some(state) = target.state.take() {
            self.ending -= usize::from(ends);
            self.count(state, false);
            self.counts.total -= 1;
        }
    }

    /// Whether a target still is one.
    #[must_use]
    pub fn state(&self, id: TargetId) -> Option<State> {
        self.targets.get(id)?.state
    }

    /// All targets are known: all selections were listed once.
    pub fn close(&mut self) {
        self.open = false;
    }

    /// Whether targets may still be unknown.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// How many targets are in which state.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// What the wait has to add to the verdict on a target.
    #[must_use]
    pub fn note(&self, id: TargetId, now: Now) -> Option<String> {
        let target = self.targets.get(id)?;
        match &target.note {
            Note::None => None,
            Note::Text(text) => Some(text.clone()),
            Note::Stable { since } => {
                let (lasted, wanted) = (now.elapsed.saturating_sub(*since), self.limits.stable);
                Some(format!(
                    "stable for {} of {}",
                    format_duration(lasted.min(wanted)),
                    format_duration(wanted)
                ))
            }
            Note::FailsAt { at } => {
                let left = at.saturating_sub(now.elapsed);
                Some(format!("fails in {} unless it recovers", format_duration(left)))
            }
            Note::Failing { class } => {
                let timer = target.timers.get(*class)?;
                let grace = format_duration(timer.grace.unwrap_or_default());
                let of_class =
                    if *class == FailureClass::Other { String::new() } else { format!(" for {class}") };
                let lasted = format_duration(timer.lasted(now));
                Some(format!("{} for {lasted} (grace{of_class}: {grace})", timer.reason))
            }
        }
    }

    /// The class of failure of a target that has outlasted its grace, if one has.
    #[must_use]
    pub fn failing(&self, id: TargetId) -> Option<FailureClass> {
        self.targets.get(id)?.failing
    }

    /// How far the failures of a target have come.
    pub(crate) fn failure_stage(&self, id: TargetId) -> FailureStage {
        match self.targets.get(id).map(|target| (target.failing, &target.note)) {
            Some((Some(class), _)) => FailureStage::Failed(class),
            Some((None, Note::FailsAt { .. })) => FailureStage::Tolerated,
            _ => FailureStage::None,
        }
    }

    /// How long that failure has lasted.
    #[must_use]
    pub fn failing_for(&self, id: TargetId, now: Now) -> Option<Duration> {
        let target = self.targets.get(id)?;
        Some(target.timers.get(target.failing?)?.lasted(now))
    }

    /// The classes of a target's failures in the order in which they fail it.
    #[must_use]
    pub fn failure_order(&self, id: TargetId) -> Vec<FailureClass> {
        let Some(target) = self.targets.get(id) else { return Vec::new() };
        let timers = target.timers.by_deadline();
        target.failing.into_iter().chain(timers.into_iter().map(|timer| timer.class)).collect()
    }

    /// How long a target has to recover from a failure before it counts as failed.
    #[must_use]
    pub fn fails_in(&self, id: TargetId, now: Now) -> Option<Duration> {
        match &self.targets.get(id)?.note {
            Note::FailsAt { at, .. } => Some(at.saturating_sub(now.elapsed)),
            _ => None,
        }
    }

    /// The note of a target, as far as it does not change with time.
    #[must_use]
    pub fn remark(&self, id: TargetId) -> Option<&str> {
        match &self.targets.get(id)?.note {
            Note::Text(text) => Some(text),
            Note::None | Note::Stable { .. } | Note::FailsAt { .. } | Note::Failing { .. } => None,
        }
    }

    /// Takes in an observation of a target. Says whether its state is another than before.
    pub fn observe(&mut self, id: TargetId, observation: Observation<'_>, now: Now) -> bool {
        let Some(mut target) = self.targets.get_mut(id).map(|target| std::mem::take(&mut **target)) else {
            return false;
        };
        let Some(before) = target.state else { return false };
        target.failing = None;
        let status = self.target_status(&mut target, observation, now);
        target.note = status.note;
        target.wake = status.wake;
        let mut keeps_going = status.keeps_going || self.limits.fail_fast.is_empty();
        if status.state == State::Waiting
            && let Some(limit) = self.limits.target_timeout
        {
            if now.elapsed >= limit {
                target.state = Some(State::Failed);
                target.note = Note::Text(format!("it is not done after {}", format_duration(limit)));
                target.wake = None;
                keeps_going = self.limits.fail_fast.is_empty();
            } else {
                target.wake = Some(target.wake.map_or(limit, |wake| wake.min(limit)));
                target.state = Some(State::Waiting);
            }
        } else {
            target.state = Some(status.state);
        }
        let after = target.state.unwrap_or(before);
        let ended = std::mem::replace(&mut target.ends, after == State::Failed && !keeps_going);
        self.ending = self.ending + usize::from(target.ends) - usize::from(ended);
        if let Some(slot) = self.targets.get_mut(id) {
            **slot = target;
        }
        self.count(before, false);
        self.count(after, true);
        before != after
    }

    fn count(&mut self, state: State, more: bool) {
        let count = match state {
            State::Failed => &mut self.counts.failed,
            State::Waiting => &mut self.counts.waiting,
            State::Done => &mut self.counts.done,
            State::Skipped => &mut self.counts.skipped,
        };
        *count = if more { *count + 1 } else { count.saturating_sub(1) };
    }

    /// The earliest moment at which something changes although nothing happens, from the start of the wait.
    #[must_use]
    pub fn wake(&self) -> Option<Duration> {
        let targets =
            self.targets.iter().filter(|target| target.state.is_some()).filter_map(|target| target.wake);
        targets.chain(self.limits.timeout.filter(|limit| !limit.is_zero())).min()
    }

    /// The targets that are to be looked at again by now.
    #[must_use]
    pub fn due(&self, now: Now) -> Vec<TargetId> {
        let due = |target: &Target| target.wake.is_some_and(|wake| wake <= now.elapsed);
        self.targets.entries().filter(|(_, target)| due(target)).map(|(id, _)| id).collect()
    }

    /// Whether the wait is over, and how. `synced`: all that is there was seen once.
    #[must_use]
    pub fn outcome(&self, synced: bool, now: Now) -> Option<Outcome> {
        let Counts { total, done, waiting, failed, skipped } = self.counts;
        let ends = |limit: Duration| if limit.is_zero() { synced } else { now.elapsed >= limit };
        let late = self.limits.timeout.is_some_and(ends);
        if self.ending > 0 || failed > 0 && (waiting == 0 && synced || late) {
            return Some(Outcome::Failed);
        }
        let absence = self.conditions.iter().any(WaitCondition::waits_for_absence);
        if synced
            && !self.open
            && waiting == 0
            && failed == 0
            && (total > 0 || absence)
            && done + skipped == total
        {
            return Some(Outcome::Settled);
        }
        if synced && total == 0 && !self.open {
            match self.limits.missing {
                Missing::Fail => return Some(Outcome::Failed),
                Missing::Done => return Some(Outcome::Settled),
                Missing::Auto | Missing::Wait => {}
            }
        }
        late.then_some(Outcome::TimedOut)
    }

    /// Whether it is to be found out if the kind of a target has a status.
    #[must_use]
    pub fn is_silent(&self, id: TargetId) -> bool {
        self.targets
            .get(id)
            .and_then(|target| target.rare.as_ref())
            .is_some_and(|rare| rare.silent_since.is_some())
    }

    fn target_status(&self, target: &mut Target, observation: Observation<'_>, now: Now) -> TargetStatus {
        match observation {
            Observation::NotYet => TargetStatus::new(State::Waiting, Note::None, None),
            Observation::NoKind { results } => {
                let done = Note::Text("the cluster does not have this kind".to_owned());
                let gone = self.advance(target, results).is_none() && !results.is_empty();
                if gone || self.limits.missing == Missing::Done {
                    return self.fulfilled_status(target, now, done);
                }
                target.fulfilled_since = None;
                if self.limits.missing == Missing::Fail {
                    return TargetStatus::failed("the cluster does not have this kind");
                }
                TargetStatus::waiting("the cluster does not have this kind yet")
            }
            Observation::Absent { results, last } => self.absent_status(target, results, last, now),
            Observation::Present { record, failures, whole, excuse, evidence } => {
                self.present_status(target, record, (failures, whole), excuse, evidence, now)
            }
        }
    }

    /// Advances through the conditions, each once and in their order. Returns the result of the first unmet one.
    fn advance<'m>(
        &self,
        target: &mut Target,
        results: &'m [ConditionResult],
    ) -> Option<&'m ConditionResult> {
        // The last one must still hold when the wait ends; those before it only once.
        let last = self.conditions.len().saturating_sub(1);
        let last = u32::try_from(last).unwrap_or(u32::MAX);
        target.fulfilled = target.fulfilled.min(last);
        loop {
            match results.get(target.condition()) {
                Some(ConditionResult::Yes) if target.fulfilled < last => target.fulfilled += 1,
                Some(ConditionResult::Yes) => return None,
                unmet => return unmet,
            }
        }
    }

    fn absent_status(
        &self,
        target: &mut Target,
        results: &[ConditionResult],
        last: Option<&Record>,
        now: Now,
    ) -> TargetStatus {
        target.is_not_silent();
        let unmet = self.advance(target, results);
        if unmet.is_none() && !results.is_empty() {
            return self.fulfilled_status(target, now, Note::None);
        }
        if let Some(status) = last.and_then(|last| self.terminal_outcome(target, last, now)) {
            return status;
        }
        target.fulfilled_since = None;
        let since = *target.rare().absent_since.get_or_insert(now.elapsed);
        let was_there = target.seen.is_some()
            || target.min_version().is_some_and(|min_version| min_version.uid.is_some());
        match self.limits.missing {
            Missing::Done => self.fulfilled_status(target, now, Note::Text("it does not exist".to_owned())),
            Missing::Fail => TargetStatus::failed("it does not exist"),
            Missing::Auto if was_there => {
                let at = since.saturating_add(self.limits.deleted_grace);
                let when = if target.seen.is_some() { "during the wait" } else { "after it was applied" };
                if now.elapsed >= at {
                    let unseen = match last.is_some_and(has_ttl) {
                        true => ", before its end was seen: it has ttlSecondsAfterFinished",
                        false => "",
                    };
                    return TargetStatus::failed(format!("it was deleted {when}{unseen}"));
                }
                let note = format!("it was deleted {when}; waiting for it to come back");
                TargetStatus::new(State::Waiting, Note::Text(note), Some(at))
            }
            Missing::Wait if was_there => {
                TargetStatus::waiting("it was deleted; waiting for it to come back")
            }
            Missing::Auto | Missing::Wait => TargetStatus::new(State::Waiting, Note::None, None),
        }
    }

    /// The status of a Job or a Pod that completed before it was deleted.
    fn terminal_outcome(&self, target: &mut Target, last: &Record, now: Now) -> Option<TargetStatus> {
        let well = ended(last)? == Completion::Succeeded;
        let is_met = match self.conditions.get(target.condition()) {
            Some(WaitCondition::Ready | WaitCondition::Current) => well,
            Some(WaitCondition::Failed) => !well,
            _ => last.results.get(target.condition()).is_some_and(ConditionResult::is_met),
        };
        if is_met {
            return Some(self.fulfilled_status(
                target,
                now,
                Note::Text("it was done when it was deleted".to_owned()),
            ));
        }
        let keeps_going = !self.limits.fail_fast.contains(&FailureClass::Job);
        let note = if well {
            "it had ended well when it was deleted, which is not what is waited for"
        } else {
            "it had failed when it was deleted"
        };
        Some(TargetStatus { keeps_going, ..TargetStatus::failed(note) })
    }

    fn fulfilled_status(&self, target: &mut Target, now: Now, note: Note) -> TargetStatus {
        let since = *target.fulfilled_since.get_or_insert(now.elapsed);
        let stable = since.saturating_add(self.limits.stable);
        if now.elapsed >= stable {
            return TargetStatus::new(State::Done, note, None);
        }
        TargetStatus::new(State::Waiting, Note::Stable { since }, Some(stable))
    }

    /// The first condition that is not met; or the status of the target, if the observed version does not count yet.
    fn unmet_condition<'r>(
        &self,
        target: &mut Target,
        record: &'r Record,
        now: Now,
    ) -> Result<Option<&'r ConditionResult>, TargetStatus> {
        target.is_present();
        let deleting = self.conditions.get(target.condition()).is_some_and(WaitCondition::waits_for_absence);
        if let Some(note) = staleness(target.min_version(), record) {
            target.fulfilled_since = None;
            return Err(TargetStatus::waiting(note));
        }
        // For a deletion, another incarnation of the name is another object; else the wait starts anew with it.
        let first_life = target.min_version().and_then(|min_version| min_version.uid.clone());
        let known = target.seen.get_or_insert_with(|| first_life.unwrap_or_else(|| record.uid.clone()));
        if *known != record.uid {
            if deleting {
                let note = Note::Text("another object has its name now".to_owned());
                return Err(self.fulfilled_status(target, now, note));
            }
            // What was applied, seen and waited for is gone with it.
            *target = Target {
                seen: Some(record.uid.clone()),
                state: target.state,
                ends: target.ends,
                ..Target::default()
            };
        }
        if may_predate_apply(target.min_version(), record) {
            let since = *target.rare().unchanged_since.get_or_insert(now.elapsed);
            let at = since.saturating_add(self.limits.untouched_grace);
            if now.elapsed < at {
                target.fulfilled_since = None;
                let note = format!(
                    "its status may be from before the apply: it has no observedGeneration; it counts after {} without a change",
                    format_duration(self.limits.untouched_grace)
                );
                return Err(TargetStatus::new(State::Waiting, Note::Text(note), Some(at)));
            }
        }
        if record.results.is_empty() {
            // So far it was reported by a stream of dependents only.
            return Err(TargetStatus::new(State::Waiting, Note::None, None));
        }
        let results = if target.failing.is_some() && !record.results_if_failed.is_empty() {
            &record.results_if_failed
        } else {
            &record.results
        };
        Ok(self.advance(target, results))
    }

    /// Takes in a transient state of a target, where several changes come at once: conditions that are waited for one after the other
    /// may hold only briefly, and what must be stable must not break off in between.
    pub fn record_transient(&mut self, id: TargetId, record: &Record, now: Now) {
        let Some(mut target) = self.targets.get_mut(id).map(|target| std::mem::take(&mut **target)) else {
            return;
        };
        if target.state.is_some()
            && let Ok(Some(_)) = self.unmet_condition(&mut target, record, now)
        {
            target.fulfilled_since = None;
        }
        if let Some(slot) = self.targets.get_mut(id) {
            **slot = target;
        }
    }

    fn present_status(
        &self,
        target: &mut Target,
        record: &Record,
        failures: (&[ObservedFailure], bool),
        excuse: Option<&'static str>,
        evidence: Evidence,
        now: Now,
    ) -> TargetStatus {
        let unmet = match self.unmet_condition(target, record, now) {
            Ok(unmet) => unmet,
            Err(status) => return status,
        };
        let deleting = self.conditions.get(target.condition()).is_some_and(WaitCondition::waits_for_absence);
        let ready = matches!(self.conditions.get(target.condition()), Some(WaitCondition::Ready));
        if !record.verdict.blocking && ready {
            let note = "an annotation asks not to wait for it".to_owned();
            return TargetStatus::new(State::Skipped, Note::Text(note), None);
        }
        let Some(unmet) = unmet else {
            target.is_not_silent();
            target.timers.recover(now);
            return self.fulfilled_status(target, now, Note::None);
        };
        if record.deleted.is_some()
            && !deleting
            && let Some(status) = self.terminal_outcome(target, record, now)
        {
            return status;
        }
        if ready && let Some(excuse) = excuse {
            return self.fulfilled_status(target, now, Note::Text(excuse.to_owned()));
        }
        if ready && record.verdict.status == Status::Unknown && record.verdict.reason == reason::NO_SIGNAL {
            return self.silent_status(target, evidence, now);
        }
        target.is_not_silent();
        let evaluated = if deleting { None } else { self.evaluate(target, record, failures, now) };
        if target.failing.is_some()
            && !record.results_if_failed.is_empty()
            && self.advance(target, &record.results_if_failed).is_none()
        {
            return self.fulfilled_status(target, now, evaluated.map_or(Note::None, |status| status.note));
        }
        target.fulfilled_since = None;
        let note = match (unmet, self.conditions.as_slice()) {
            // The verdict says it already.
            (_, [WaitCondition::Ready | WaitCondition::Current]) => Note::None,
            (ConditionResult::No(why) | ConditionResult::Error(why), _) => Note::Text(why.clone()),
            (ConditionResult::Yes, _) => Note::None,
        };
        match evaluated {
            Some(status) if self.may_fail(target.condition()) => status,
            evaluated => TargetStatus::new(State::Waiting, note, evaluated.and_then(|status| status.wake)),
        }
    }

    /// An object that says nothing: "not yet", or never?
    fn silent_status(&self, target: &mut Target, evidence: Evidence, now: Now) -> TargetStatus {
        let since = *target.rare().silent_since.get_or_insert(now.elapsed);
        match evidence {
            Evidence::NoStatusDeclared => {
                self.fulfilled_status(target, now, Note::Text("its kind declares no status".to_owned()))
            }
            Evidence::OthersReport => {
                target.fulfilled_since = None;
                TargetStatus::waiting("it has no status yet; other objects of its kind have one")
            }
            Evidence::Unknown | Evidence::NobodyReports | Evidence::Unseen => {
                let at = since.saturating_add(self.limits.silent_grace);
                let grace = format_duration(self.limits.silent_grace);
                if now.elapsed >= at && evidence != Evidence::Unknown {
                    let note = match evidence {
                        Evidence::Unseen => {
                            format!("it had no status within {grace}; others of its kind cannot be listed")
                        }
                        _ => format!("no object of its kind has a status, and it had none within {grace}"),
                    };
                    return self.fulfilled_status(target, now, Note::Text(note));
                }
                target.fulfilled_since = None;
                let note = match evidence {
                    Evidence::Unseen => format!("it has no status yet; that counts as done after {grace}"),
                    _ => format!(
                        "it has no status yet; that counts as done after {grace} if no object of its kind has one"
                    ),
                };
                // Past that, only an answer about the kind helps.
                TargetStatus::new(State::Waiting, Note::Text(note), Some(at).filter(|at| *at > now.elapsed))
            }
        }
    }

    /// Evaluates the failures of a target: whether one of them has outlasted its grace, or when one will.
    fn evaluate(
        &self,
        target: &mut Target,
        record: &Record,
        (failures, whole): (&[ObservedFailure], bool),
        now: Now,
    ) -> Option<TargetStatus> {
        if !self.may_fail(target.condition()) && record.verdict.status == Status::Current {
            return None;
        }
        target.timers.observe(failures, whole, &self.limits, now);
        let timers = target.timers.by_deadline();
        let ends = |class| self.limits.fail_fast.contains(&class);
        let is_due = |at: Option<Duration>| at.is_some_and(|at| at <= now.elapsed);
        let mut due = timers.iter().filter(|timer| is_due(timer.deadline()));
        let first = due.clone().next();
        // One that ends the wait says more than one that does not.
        let Some(failed) = due.find(|timer| ends(timer.class)).or(first) else {
            let at = timers.first()?.deadline()?;
            return Some(TargetStatus::new(State::Waiting, Note::FailsAt { at }, Some(at)));
        };
        let class = failed.class;
        let terminal = failures.iter().any(|failure| failure.class == class && failure.terminal);
        let note = match terminal {
            true => Note::Text(final_failure(record)),
            false => Note::Failing { class },
        };
        let keeps_going = !ends(class);
        // Another one may end the wait later.
        let later = timers.iter().filter_map(|timer| timer.deadline()).find(|at| *at > now.elapsed);
        target.failing = Some(class);
        Some(TargetStatus {
            keeps_going,
            ..TargetStatus::new(State::Failed, note, later.filter(|_| keeps_going))
        })
    }

    /// Whether a failure means that what is waited for won't come: not if the failure is what is waited for.
    fn may_fail(&self, fulfilled: usize) -> bool {
        match self.conditions.get(fulfilled) {
            Some(WaitCondition::Ready | WaitCondition::Current) => true,
            Some(WaitCondition::Condition { value, .. }) => {
                value.eq_ignore_ascii_case("true") || self.limits.fail_fast_always
            }
            Some(WaitCondition::JsonPath { .. } | WaitCondition::Cel(_)) => self.limits.fail_fast_always,
            Some(WaitCondition::All(list)) => {
                list.iter().all(|wanted| matches!(wanted, WaitCondition::Ready | WaitCondition::Current))
            }
            Some(
                WaitCondition::Any(_) | WaitCondition::Failed | WaitCondition::Delete | WaitCondition::Create,
            )
            | None => false,
        }
    }
}

/// What a terminal failure means: `won't recover by itself (BackoffLimitExceeded): the Job has used up its retries (backoffLimit 6)`.
fn final_failure(record: &Record) -> String {
    let (why, reason) = (summary(record), &record.verdict.reason);
    let reason = if why.contains(&**reason) { String::new() } else { format!(" ({reason})") };
    format!("won't recover by itself{reason}: {why}")
}

/// Whether something that has an end has reached it: well, or not.
pub(crate) fn ended(record: &Record) -> Option<Completion> {
    // A Pod that has failed may be made anew under its name, a Job never is.
    let completion = record.facts.as_ref()?.completion();
    completion.filter(|completion| *completion == Completion::Succeeded || record.id.is("batch", "Job"))
}

/// Whether a Job is deleted some time after it has ended.
fn has_ttl(record: &Record) -> bool {
    matches!(record.facts.as_ref().map(|facts| &facts.of_kind), Some(KindFacts::Job { ttl: Some(_), .. }))
}

/// Why an observed object is older than what was applied.
fn staleness(min_version: Option<&MinVersion>, record: &Record) -> Option<String> {
    let min_version = min_version?;
    let old = |what: &str| Some(format!("what is seen of it is older than the apply ({what})"));
    if min_version.uid.as_ref().is_some_and(|uid| *uid != record.uid) {
        // A later incarnation is another object; an earlier one is gone, whatever is observed of it.
        let earlier = min_version
            .resource_version
            .is_some_and(|resource_version| (1..resource_version).contains(&record.resource_version));
        return earlier.then(|| "what is seen of it is older than the apply (another uid)".to_owned());
    }
    if let (Some(min_version), Some(generation)) = (min_version.generation, record.generation)
        && generation < min_version
    {
        return old(&format!("generation {generation}, applied {min_version}"));
    }
    if let Some(resource_version) = min_version.resource_version
        && (1..resource_version).contains(&record.resource_version)
    {
        return old(&format!("revision {}, applied {resource_version}", record.resource_version));
    }
    None
}

/// Whether the status may be from before the apply: it has no observedGeneration, and the object was not written to since.
fn may_predate_apply(min_version: Option<&MinVersion>, record: &Record) -> bool {
    let Some(MinVersion { changed: true, resource_version: Some(resource_version), uid, .. }) = min_version
    else {
        return false;
    };
    uid.as_ref().is_none_or(|uid| *uid == record.uid)
        && (1..=*resource_version).contains(&record.resource_version)
        && !record.observes
        && record.has_status
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};
    use proptest::prelude::*;
    use settled_rules::RuleSet;

    use super::*;
    use crate::evaluator::Evaluator;

    const WALL: Timestamp = Timestamp::UNIX_EPOCH;

    #[test]
    fn a_target_is_small() {
        // Thousands are kept, and the allocator rounds up: to 128 bytes, then to 160 and 192.
        assert!(size_of::<Target>() <= 128, "{}", size_of::<Target>());
    }

    /// What may be seen of a target.
    #[derive(Clone, Copy, Debug)]
    enum Seen {
        NotYet,
        NoKind,
        Absent,
        /// A Pod: its UID, whether it is ready, and its failure.
        Pod(u8, bool, Option<(FailureClass, bool)>),
        /// A Job: whether it has ended, and well; whether it is being deleted.
        Job(Option<bool>, bool),
        /// Something that says nothing.
        Silent(Evidence),
    }

    fn seen() -> impl Strategy<Value = Seen> {
        let failure = (prop::sample::select(FailureClass::ALL.to_vec()), prop::bool::weighted(0.1));
        let evidence = prop::sample::select(vec![
            Evidence::Unknown,
            Evidence::NoStatusDeclared,
            Evidence::OthersReport,
            Evidence::NobodyReports,
            Evidence::Unseen,
        ]);
        prop_oneof![
            1 => Just(Seen::NotYet),
            1 => Just(Seen::NoKind),
            2 => Just(Seen::Absent),
            6 => (0..3_u8, any::<bool>(), prop::option::of(failure)).prop_map(|(l, r, t)| Seen::Pod(l, r, t)),
            2 => (any::<Option<bool>>(), any::<bool>()).prop_map(|(end, deleted)| Seen::Job(end, deleted)),
            1 => evidence.prop_map(Seen::Silent),
        ]
    }

    fn until() -> impl Strategy<Value = Vec<WaitCondition>> {
        let some =
            ["ready", "current", "failed", "delete", "create", "condition=Ready", "any(delete, ready)"];
        prop::collection::vec(prop::sample::select(some.to_vec()), 1..3)
            .prop_map(|texts| WaitCondition::parse_all(texts).unwrap())
    }

    fn limits() -> impl Strategy<Value = Limits> {
        let seconds = |range: std::ops::Range<u64>| range.prop_map(Duration::from_secs);
        let missing = prop::sample::select(vec![Missing::Auto, Missing::Wait, Missing::Fail, Missing::Done]);
        let classes = prop::sample::subsequence(FailureClass::ALL.to_vec(), 0..=FailureClass::ALL.len());
        (seconds(0..200), prop::option::of(seconds(0..200)), seconds(0..30), missing, classes).prop_map(
            |(timeout, target_timeout, stable, missing, fail_fast)| Limits {
                timeout: Some(timeout),
                target_timeout,
                stable,
                missing,
                fail_fast,
                ..Limits::default()
            },
        )
    }

    /// The object that is seen, if there is one.
    fn object(evaluator: &Evaluator, seen: Seen, resource_version: u64) -> Option<Record> {
        let meta = |life: u8, more: &str| {
            format!(
                r#""metadata":{{"name":"x","namespace":"a","uid":"{life}","resourceVersion":"{resource_version}"{more}}}"#
            )
        };
        let json = match seen {
            Seen::NotYet | Seen::NoKind | Seen::Absent => return None,
            Seen::Pod(life, ready, _) => {
                let (meta, ready) = (meta(life, ""), if ready { "True" } else { "False" });
                format!(
                    r#"{{"apiVersion":"v1","kind":"Pod",{meta},"status":{{"phase":"Running","conditions":[{{"type":"Ready","status":"{ready}"}}]}}}}"#
                )
            }
            Seen::Job(end, deleted) => {
                let meta =
                    meta(9, if deleted { r#","deletionTimestamp":"1970-01-01T00:00:00Z""# } else { "" });
                let end = end.map_or("Suspended", |well| if well { "Complete" } else { "Failed" });
                format!(
                    r#"{{"apiVersion":"batch/v1","kind":"Job",{meta},"status":{{"conditions":[{{"type":"{end}","status":"True"}}]}}}}"#
                )
            }
            Seen::Silent(_) => {
                format!(r#"{{"apiVersion":"example.com/v1","kind":"Widget",{}}}"#, meta(7, ""))
            }
        };
        evaluator.record(json.as_bytes(), WALL, true)
    }

    struct Play {
        evaluator: Evaluator,
        policy: Policy,
        elapsed: Duration,
        /// What was seen last of each target, and how it was when it was deleted.
        last: Vec<(Seen, Option<Record>, Option<Record>)>,
    }

    fn index(id: TargetId) -> usize {
        u32::from(id) as usize
    }

    impl Play {
        fn now(&self) -> Now {
            let wall = WALL.saturating_add(SignedDuration::try_from(self.elapsed).unwrap()).unwrap();
            Now { elapsed: self.elapsed, wall }
        }

        fn look(&mut self, id: TargetId) {
            let now = self.now();
            let absent = self.evaluator.absent(now.wall);
            let (seen, record, deleted) = &self.last[index(id)];
            let mut failures = Vec::new();
            let mut evidence = Evidence::OthersReport;
            match seen {
                Seen::Pod(_, _, Some((class, terminal))) => {
                    failures.push(ObservedFailure {
                        class: *class,
                        reason: "Broken".into(),
                        terminal: *terminal,
                        since: None,
                    });
                }
                Seen::Silent(of_kind) => evidence = *of_kind,
                _ => {}
            }
            let observation = match (seen, record) {
                (Seen::NotYet, _) => Observation::NotYet,
                (Seen::NoKind, _) => Observation::NoKind { results: &absent },
                (_, Some(record)) => {
                    Observation::Present { record, failures: &failures, whole: true, excuse: None, evidence }
                }
                (_, None) => Observation::Absent { results: &absent, last: deleted.as_ref() },
            };
            self.policy.observe(id, observation, now);
        }

        /// Whether a target may count as done as it was seen last.
        fn may_be_done(&self, id: TargetId) -> bool {
            let missing = self.policy.limits.missing == Missing::Done;
            let absence = self.policy.conditions.iter().any(WaitCondition::waits_for_absence);
            let (seen, record, deleted) = &self.last[index(id)];
            let ready = self.policy.conditions.iter().any(|wanted| *wanted.to_string() == *"ready");
            match (seen, record) {
                (Seen::NotYet, _) => false,
                (Seen::NoKind | Seen::Absent, _) => {
                    missing || absence || deleted.as_ref().is_some_and(|r| ended(r).is_some())
                }
                (_, None) => missing || absence,
                (Seen::Silent(evidence), _) if ready => *evidence != Evidence::OthersReport || absence,
                // Another incarnation is as good as none for a deletion.
                (Seen::Job(Some(_), true), _) => true,
                (_, Some(record)) => {
                    let failing = self.policy.failing(id).is_some();
                    let results = if failing { &record.results_if_failed } else { &record.results };
                    absence || results.last().is_some_and(ConditionResult::is_met)
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

        /// Whatever is seen in whatever order: no wait ends well while a target isn't what is waited for, none outlasts its
        /// timeout, none wakes for a moment that is over, and the counts are those of the states.
        #[test]
        fn whatever_is_seen(
            until in until(),
            limits in limits(),
            floors in prop::collection::vec(prop::option::of((0..3_u8, 0..40_u64)), 1..4),
            steps in prop::collection::vec((0..4_u32, seen(), 0..40_000_u64), 1..40),
        ) {
            let evaluator = Evaluator::new(RuleSet::default(), until.clone());
            let mut play = Play { evaluator, policy: Policy::new(limits.clone(), until), elapsed: Duration::ZERO, last: Vec::new() };
            let targets = u32::try_from(floors.len()).unwrap();
            for min_version in &floors {
                play.policy.add(min_version.map(|(life, resource_version)| MinVersion {
                    uid: Some(Uid::from(&*life.to_string())),
                    resource_version: Some(resource_version),
                    ..MinVersion::default()
                }));
                play.last.push((Seen::NotYet, None, None));
            }
            play.policy.close();
            for (resource_version, (target, seen, pause)) in steps.into_iter().enumerate() {
                let until = play.elapsed + Duration::from_millis(pause);
                // As the tracker does: whatever wakes is looked at, at its time.
                while let Some(wake) = play.policy.wake().filter(|wake| *wake <= until && play.policy.outcome(true, play.now()).is_none()) {
                    prop_assert!(wake > play.elapsed, "it wakes for {wake:?} at {:?}", play.elapsed);
                    play.elapsed = wake;
                    for id in play.policy.due(play.now()) {
                        play.look(id);
                    }
                }
                play.elapsed = play.elapsed.max(until);
                let id = TargetId::from(target % targets);
                let number = index(id);
                let record = object(&play.evaluator, seen, resource_version as u64 + 1);
                let now = play.now();
                if let Some(record) = &record {
                    play.policy.record_transient(id, record, now);
                }
                let before = play.last[number].1.take();
                let deleted = before.or_else(|| play.last[number].2.take());
                play.last[number] = (seen, record, deleted);
                play.look(id);
                for id in play.policy.due(now) {
                    play.look(id);
                }
                let counts = play.policy.counts();
                prop_assert_eq!(counts.total, counts.done + counts.waiting + counts.failed + counts.skipped);
                let failed = (0..targets).filter(|n| play.policy.state((*n).into()) == Some(State::Failed)).count();
                prop_assert_eq!(counts.failed, failed);
                match play.policy.outcome(true, play.now()) {
                    Some(Outcome::Settled) => {
                        for (id, min_version) in (0_u32..).map(TargetId::from).zip(&floors) {
                            let number = index(id);
                            prop_assert!(play.may_be_done(id), "{:?}", play.last[number].0);
                            // Nothing from before the apply counts, whichever incarnation it is of.
                            let seen = play.last[number].1.as_ref().map(|record| record.resource_version);
                            let min_version = min_version.map(|(_, resource_version)| resource_version);
                            prop_assert!(seen.is_none() || seen >= min_version, "{seen:?} is older than {min_version:?}");
                        }
                    }
                    None => prop_assert!(play.elapsed < limits.timeout.unwrap()),
                    Some(_) => {}
                }
            }
        }

        /// What is stable was so for as long as it was asked, without a break.
        #[test]
        fn stability_has_no_breaks(
            stable in 1..30_u64,
            steps in prop::collection::vec((any::<bool>(), any::<bool>(), 0..12_u64), 1..60),
        ) {
            let evaluator = Evaluator::new(RuleSet::default(), vec![WaitCondition::Ready]);
            let limits = Limits { stable: Duration::from_secs(stable), timeout: None, ..Limits::default() };
            let mut play = Play { evaluator, policy: Policy::new(limits, vec![WaitCondition::Ready]), elapsed: Duration::ZERO, last: Vec::new() };
            let id = play.policy.add(None);
            play.policy.close();
            play.last.push((Seen::NotYet, None, None));
            let mut since = None;
            for (resource_version, (ready, glimpsed, pause)) in steps.into_iter().enumerate() {
                play.elapsed += Duration::from_secs(pause);
                // What comes together with the next change is only glanced at.
                let record = object(&play.evaluator, Seen::Pod(1, ready, None), resource_version as u64 + 1);
                let now = play.now();
                play.policy.record_transient(id, record.as_ref().unwrap(), now);
                since = if ready { since.or(Some(now.elapsed)) } else { None };
                if glimpsed {
                    continue;
                }
                play.last[0] = (Seen::Pod(1, ready, None), record, None);
                play.look(id);
                let done = play.policy.state(id) == Some(State::Done);
                let lasted = since.map(|since| now.elapsed - since);
                if done {
                    prop_assert!(lasted.is_some_and(|lasted| lasted.as_secs() >= stable));
                }
            }
        }
    }
}
