//! The wait policy: a state machine over observations and the time. It has no clock, no I/O, and no idea of streams.

mod status;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::time::Duration;

use kstatus::{FailureClass, format_duration};

use crate::condition::WaitCondition;
use crate::evaluation::{FailureStage, FailureTimers};
use crate::id::Uid;
use crate::ids::{IdVec, TargetId};
use crate::limits::{Limits, Missing};
use crate::observation::{MinVersion, Now, Observation};
use crate::record::Record;
use crate::report::{Counts, Outcome, State};
pub(crate) use status::ended;

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
    /// When which targets are to be looked at although nothing happens, the earliest first.
    wakes: BTreeSet<(Duration, TargetId)>,
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
            wakes: BTreeSet::new(),
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
        let wake = target.wake.take();
        let ends = std::mem::take(&mut target.ends);
        if let Some(state) = target.state.take() {
            self.ending -= usize::from(ends);
            self.count(state, false);
            self.counts.total -= 1;
        }
        self.wake_changed(id, wake, None);
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
        let woken = target.wake;
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
        self.put_back(id, woken, target);
        self.count(before, false);
        self.count(after, true);
        before != after
    }

    /// Keeps a target as it is now; `woken` is when it was to be looked at before.
    fn put_back(&mut self, id: TargetId, woken: Option<Duration>, target: Target) {
        self.wake_changed(id, woken, target.wake);
        if let Some(slot) = self.targets.get_mut(id) {
            **slot = target;
        }
    }

    fn wake_changed(&mut self, id: TargetId, before: Option<Duration>, after: Option<Duration>) {
        if before == after {
            return;
        }
        if let Some(before) = before {
            self.wakes.remove(&(before, id));
        }
        self.wakes.extend(after.map(|after| (after, id)));
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
        let target = self.wakes.first().map(|(wake, _)| *wake);
        target.into_iter().chain(self.limits.timeout.filter(|limit| !limit.is_zero())).min()
    }

    /// The targets that are to be looked at again by now, the longest overdue first.
    #[must_use]
    pub fn due(&self, now: Now) -> Vec<TargetId> {
        self.wakes.iter().take_while(|(wake, _)| *wake <= now.elapsed).map(|(_, id)| *id).collect()
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

    /// Takes in a transient state of a target, where several changes come at once: conditions that are waited for one after the other
    /// may hold only briefly, and what must be stable must not break off in between.
    pub fn record_transient(&mut self, id: TargetId, record: &Record, now: Now) {
        let Some(mut target) = self.targets.get_mut(id).map(|target| std::mem::take(&mut **target)) else {
            return;
        };
        let woken = target.wake;
        if target.state.is_some()
            && let Ok(Some(_)) = self.unmet_condition(&mut target, record, now)
        {
            target.fulfilled_since = None;
        }
        self.put_back(id, woken, target);
    }
}
