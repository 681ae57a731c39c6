//! The end of a wait: a last look at related objects, and evidence, but never beyond the timeout.

use std::time::Duration;

use tokio::time::Instant;

use super::{Answer, Phase, Queued, Tracker};
use crate::events::{EvidenceOptions, EvidencePlan, FetchedEvidence};
use crate::ids::TargetId;
use crate::report::{Event, Outcome, State};

/// How long, at the end, is waited for what explains it.
const LAST_LOOK: Duration = Duration::from_secs(2);
/// The same for what is worth a remark about targets that are done.
const ADVISORY_LOOK: Duration = Duration::from_millis(500);
/// How long evidence is fetched.
const GATHER_MAX: Duration = Duration::from_secs(4);
/// How long before the timeout evidence is fetched for it: there is no time left then.
const PREFETCH_BEFORE: Duration = Duration::from_secs(1);

/// Evidence that was fetched before the wait timed out.
#[derive(Debug, Default)]
pub(super) struct Prefetch {
    started: bool,
    pub(super) evidence: FetchedEvidence,
}

impl Tracker {
    /// When the wait ends at the latest.
    fn deadline(&self) -> Option<Instant> {
        self.limits.timeout.filter(|t| !t.is_zero()).and_then(|timeout| self.started.checked_add(timeout))
    }

    /// When evidence is fetched ahead.
    fn prefetch_at(&self) -> Option<Instant> {
        let before = self.limits.timeout.map_or(PREFETCH_BEFORE, |t| PREFETCH_BEFORE.min(t / 4));
        let nothing = EvidenceOptions { events: false, log_lines: 0 };
        let wanted = !self.prefetch.started && self.synced_reported && self.evidence_options != nothing;
        self.deadline().filter(|_| wanted)?.checked_sub(before)
    }

    /// When something is to be done for the end although nothing happens.
    pub(super) fn next_ending(&self) -> Option<Instant> {
        [self.prefetch_at(), self.missing_at()].into_iter().flatten().min()
    }

    /// Ends the wait if it is over.
    pub(super) fn end_if_over(&mut self, synced: bool) {
        if self.ends_unread(synced) {
            return;
        }
        let now = Instant::now();
        if self.missing_at().is_some_and(|at| at <= now) {
            self.ask_for_missing();
        }
        if self.prefetch_at().is_some_and(|at| at <= now) {
            self.start_prefetch();
        }
        // A watch without an end ends by nothing else.
        if self.surveying {
            return;
        }
        match self.policy.outcome(synced, self.now()) {
            None => {}
            Some(Outcome::Settled) => self.finish(Outcome::Settled),
            Some(outcome) => {
                let outcome = self.unless_lost(outcome);
                self.finish(outcome);
            }
        }
    }

    /// Ends the wait: what explains it is looked at once more, unless all is well or there is no time left.
    pub(super) fn finish(&mut self, outcome: Outcome) {
        let now = Instant::now();
        let deadline = self.deadline();
        match outcome {
            Outcome::Settled if self.targets.ids().any(|number| self.may_advise(number)) => {
                let until = now + ADVISORY_LOOK;
                self.phase = Phase::Looking(outcome, deadline.map_or(until, |deadline| deadline.min(until)));
            }
            Outcome::Settled => self.over(outcome, &FetchedEvidence::default()),
            Outcome::Failed | Outcome::TimedOut | Outcome::Interrupted
                if deadline.is_none_or(|deadline| now < deadline) =>
            {
                self.search_again(true);
                let until = now + LAST_LOOK;
                self.phase = Phase::Looking(outcome, deadline.map_or(until, |deadline| deadline.min(until)));
            }
            _ => self.finish_with_causes(outcome),
        }
    }

    /// What explains the end is known, as far as it can be.
    pub(super) fn conclude(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Settled => self.over(outcome, &FetchedEvidence::default()),
            // A look at one moment has only now seen the dependents.
            Outcome::TimedOut
                if self.limits.timeout == Some(Duration::ZERO) && self.policy.counts().failed > 0 =>
            {
                self.start_gathering(Outcome::Failed);
            }
            _ => self.start_gathering(outcome),
        }
    }

    /// Ends with what is known by now.
    pub(super) fn finish_with_causes(&mut self, outcome: Outcome) {
        let evidence = std::mem::take(&mut self.prefetch.evidence);
        self.over(outcome, &evidence);
    }

    pub(super) fn over(&mut self, outcome: Outcome, evidence: &FetchedEvidence) {
        let outcome = self.overview_outcome(outcome);
        let report = self.report(outcome, evidence);
        self.log_end(outcome);
        self.events.push_back(Queued::Event(Box::new(Event::Finished(report))));
        self.ended = Some(outcome);
        self.phase = Phase::Over;
    }

    /// The caller has had enough: what follows ends with a report on how things stand.
    pub fn interrupt(&mut self) {
        match self.phase {
            Phase::Following => self.finish(Outcome::Interrupted),
            // Twice: now.
            Phase::Looking(outcome, _) => self.phase = Phase::Looking(outcome, Instant::now()),
            Phase::Gathering(outcome, _) => self.phase = Phase::Gathering(outcome, Instant::now()),
            Phase::Over => {}
        }
    }

    /// The evidence on targets that aren't done. Their causes are not kept: those of thousands take more memory than all else
    /// that is known of them.
    fn evidence_plan(&self) -> EvidencePlan {
        let mut plan = EvidencePlan::default();
        let nothing = EvidenceOptions { events: false, log_lines: 0 };
        if self.evidence_options == nothing {
            return plan;
        }
        for number in self.targets.ids().filter(|number| self.is_open(*number)) {
            for cause in self.causes(number) {
                let log_sources = self.log_sources(&cause);
                plan.add(&cause, log_sources);
            }
        }
        plan
    }

    /// Whether a target isn't done, and is shown by itself.
    pub(super) fn is_open(&self, number: TargetId) -> bool {
        let open = matches!(self.policy.state(number), Some(State::Waiting | State::Failed));
        open && !self.is_folded(number)
    }

    pub(super) fn start_gathering(&mut self, outcome: Outcome) {
        let until = Instant::now() + GATHER_MAX;
        let until = self.deadline().map_or(until, |deadline| deadline.min(until));
        self.phase = Phase::Gathering(outcome, until);
        let plan = self.evidence_plan();
        let absent = if self.has_asked_for_missing() { Vec::new() } else { self.absentees() };
        let (cluster, wanted, to) = (self.cluster.clone(), self.evidence_options, self.answer_to.clone());
        tokio::spawn(async move {
            let missing = super::missing::find(&cluster, absent);
            let (missing, evidence) = futures::join!(missing, plan.fetch(&cluster, wanted));
            let _gone = to.send(Answer::Missing(missing)).await;
            let _gone = to.send(Answer::Gathered(evidence)).await;
        });
    }

    fn start_prefetch(&mut self) {
        self.prefetch.started = true;
        // At the timeout itself nothing may be searched any more.
        self.search_again(true);
        let plan = self.evidence_plan();
        let (cluster, wanted, to) = (self.cluster.clone(), self.evidence_options, self.answer_to.clone());
        tokio::spawn(async move {
            let evidence = plan.fetch(&cluster, wanted).await;
            let _gone = to.send(Answer::Prefetched(evidence)).await;
        });
    }
}
