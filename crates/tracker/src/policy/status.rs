//! Target status after an observation: done, waiting or failed, and until when.

use std::time::Duration;

use kstatus::{FailureClass, Status, format_duration, reason};

use super::{Note, Policy, Target, TargetStatus};
use crate::condition::{ConditionResult, WaitCondition};
use crate::explain::summary;
use crate::facts::{Completion, KindFacts};
use crate::limits::Missing;
use crate::observation::{Evidence, MinVersion, Now, Observation, ObservedFailure, Reported};
use crate::record::Record;
use crate::report::State;

impl Policy {
    pub(super) fn target_status(
        &self,
        target: &mut Target,
        observation: Observation<'_>,
        now: Now,
    ) -> TargetStatus {
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
            Observation::Present { record, failures, whole, excuse, evidence, reported } => {
                self.present_status(target, record, (failures, whole), (excuse, reported), evidence, now)
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
    pub(super) fn unmet_condition<'r>(
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

    fn present_status(
        &self,
        target: &mut Target,
        record: &Record,
        failures: (&[ObservedFailure], bool),
        (excuse, reported): (Option<&'static str>, Reported<'_>),
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
            let by_verdict = |condition: &WaitCondition| {
                matches!(condition, WaitCondition::Ready | WaitCondition::Current)
            };
            let is_reported = self.conditions.get(target.condition()).is_some_and(by_verdict);
            match reported {
                Reported::NotRead if is_reported => {
                    target.fulfilled_since = None;
                    return TargetStatus::waiting("the reports on it were not read yet");
                }
                Reported::Verdict(verdict) if is_reported && verdict.status != Status::Current => {
                    target.fulfilled_since = None;
                    let failed = self.evaluate(target, record, failures, now);
                    return failed.unwrap_or_else(|| TargetStatus::new(State::Waiting, Note::None, None));
                }
                _ => {}
            }
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
