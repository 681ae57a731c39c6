//! Reports on targets: their evaluation and causes, snapshots and trees, and the report at the end.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use kstatus::{Basis, FailureClass, Status, Verdict, reason};

use super::groups::Groups;
use super::request::Causes;
use super::{Followed, Role, Stream, Tracker, Urgency};
use settled_watch::stream::Scope;

use crate::evaluation::Evaluation;
use crate::events::{EvidencePlan, FetchedEvidence, LogSource};
use crate::explain;
use crate::id::ObjectId;
use crate::ids::{StreamId, TargetId};
use crate::observation::Now;
use crate::record::Record;
use crate::report::{Branch, Counts, Explanation, Outcome, Report, Snapshot, State, Step, TargetReport};
use crate::unmatched::Unmatched;

impl Tracker {
    /// The causes for which a target isn't done, those of the class that fails it first.
    pub(super) fn causes(&self, number: TargetId) -> Vec<Explanation> {
        let record = self.targets.get(number).and_then(|target| self.graph.get(&target.id));
        let order = self.policy.failure_order(number);
        record.map(|record| explain::causes(&self.graph, record, &order)).unwrap_or_default()
    }

    /// How a target stands, with these causes.
    pub(super) fn report_on(
        &self,
        number: TargetId,
        now: Now,
        causes: Vec<Explanation>,
    ) -> Option<TargetReport> {
        if self.is_folded(number) {
            return None;
        }
        let target = self.targets.get(number)?;
        let state = self.policy.state(number)?;
        let record = self.graph.get(&target.id);
        let own = self.verdict(&target.id, Some(target));
        let failing = self.policy.failing(number);
        // Also where the failure is what is waited for.
        let roots = if failing.is_some() && causes.is_empty() { self.causes(number) } else { Vec::new() };
        let Evaluation { verdict, own } = match self.counts_without_status(number, &own) {
            true => Evaluation::assumed_current(own),
            false => {
                let stage = self.policy.failure_stage(number);
                Evaluation::new(own, stage, causes.first().or_else(|| roots.first()))
            }
        };
        let failing_since = || {
            let lasted = SignedDuration::try_from(self.policy.failing_for(number, now)?).ok()?;
            now.wall.checked_sub(lasted).ok()
        };
        let by_chain = || causes.first()?.chain.first()?.since;
        let verdict = match &own {
            // It was made just now.
            Some(_) => self.evaluator.share_verdict(verdict),
            None => verdict,
        };
        let advisory = || record.and_then(|record| explain::advisory(&self.graph, record));
        let note = self.policy.note(number, now).or_else(|| advisory().filter(|_| state == State::Done));
        Some(TargetReport {
            object: target.id.clone(),
            state,
            verdict,
            own,
            since: failing_since().or_else(by_chain).or_else(|| record.and_then(Record::since)),
            created: record.and_then(|record| record.created),
            fails_in: self.policy.fails_in(number, now),
            note: note.map(|note| self.evaluator.share_note(note)),
            causes,
            same_as: None,
        })
    }

    /// Whether a target is done although it has no status, because its kind has none. A look at one moment does not find that out.
    pub(super) fn counts_without_status(&self, number: TargetId, own: &Verdict) -> bool {
        let waits = !self.surveying && self.limits.timeout != Some(Duration::ZERO);
        waits
            && own.reason == reason::NO_SIGNAL
            && self.policy.is_silent(number)
            && self.policy.state(number) == Some(State::Done)
    }

    /// The causes of everything that isn't done, with events and logs.
    pub async fn explain(&mut self) -> Vec<TargetReport> {
        let now = self.now();
        let mut reports: Vec<TargetReport> = self
            .targets
            .ids()
            .filter_map(|number| self.report_on(number, now, self.causes(number)))
            .collect();
        let mut plan = EvidencePlan::default();
        for report in &mut reports {
            if report.verdict.status == Status::Current {
                report.causes.clear();
            }
            for cause in &report.causes {
                plan.add(cause, self.log_sources(cause));
            }
        }
        let evidence = plan.fetch(&self.cluster, self.evidence_options).await;
        for cause in reports.iter_mut().flat_map(|report| &mut report.causes) {
            let log_sources = self.log_sources(cause);
            evidence.attach(cause, &log_sources);
        }
        reports
    }

    /// The containers whose logs are evidence for a cause.
    pub(super) fn log_sources(&self, cause: &Explanation) -> Vec<LogSource> {
        let crashed = |step: &Step| {
            let pod = self.graph.get(&step.object).filter(|record| record.id.is("", "Pod"))?;
            let reported = matches!(
                step.class,
                Some(FailureClass::Crash | FailureClass::Job | FailureClass::Probe | FailureClass::Other)
            );
            let crash = pod.facts.as_ref()?.crashed().first().filter(|_| reported)?;
            Some(LogSource {
                pod: pod.id.clone(),
                container: crash.container.clone(),
                previous: crash.previous,
            })
        };
        cause.chain.iter().filter_map(crashed).collect()
    }

    pub(super) fn report(&self, outcome: Outcome, evidence: &FetchedEvidence) -> Report {
        let now = self.now();
        let mut targets = Vec::with_capacity(self.policy.counts().total);
        let mut groups = Groups::default();
        for number in self.targets.ids() {
            let mut causes = if self.is_open(number) { self.causes(number) } else { Vec::new() };
            for cause in &mut causes {
                let log_sources = self.log_sources(cause);
                evidence.attach(cause, &log_sources);
            }
            let Some(mut target) = self.report_on(number, now, causes) else { continue };
            match self.keep_causes {
                Causes::All => {}
                Causes::Grouped => groups.share_causes(&mut target),
                Causes::None => target.causes = Vec::new(),
            }
            targets.push(target);
        }
        Report {
            outcome,
            elapsed: now.elapsed,
            counts: self.shown_counts(),
            targets,
            unmatched: self.unmatched(),
            notices: self.notices.clone(),
            changed_by_others: Vec::new(),
        }
    }

    /// How the wait stands, with at most `limit` targets: those that need attention first.
    #[must_use]
    pub fn snapshot(&self, limit: usize) -> Snapshot {
        let now = self.now();
        let mut order: Vec<(State, Urgency, &ObjectId, TargetId)> = self
            .targets
            .entries()
            // Before the first answer there is nothing to show of it.
            .filter(|(_, target)| self.synced_reported || self.graph.get(&target.id).is_some())
            .filter(|(number, _)| !self.is_folded(*number))
            .filter_map(|(number, target)| {
                let state = self.policy.state(number)?;
                Some((state, self.urgency(number, target, now), &target.id, number))
            })
            .collect();
        if order.len() > limit && limit > 0 {
            order.select_nth_unstable(limit - 1);
        }
        order.truncate(limit);
        order.sort_unstable();
        let (targets, branches) = order
            .into_iter()
            .filter_map(|(state, _, _, number)| {
                let open = matches!(state, State::Failed | State::Waiting);
                let causes = if open { self.causes(number) } else { Vec::new() };
                let report = self.report_on(number, now, causes)?;
                let branch = self.branch(number, false)?;
                Some((report, branch))
            })
            .unzip();
        Snapshot {
            elapsed: now.elapsed,
            timeout: self.limits.timeout,
            synced: self.synced_reported,
            connection: self.connection(),
            counts: self.shown_counts(),
            targets,
            branches,
        }
    }

    /// Who needs attention first among targets in the same state.
    pub(super) fn urgency(&self, number: TargetId, target: &Followed, now: Now) -> Urgency {
        let record = self.graph.get(&target.id);
        match record.map(|record| &record.verdict) {
            _ if self.policy.fails_in(number, now).is_some() => Urgency::Failing,
            Some(verdict) if verdict.failure.is_some() || verdict.status == Status::Failed => {
                Urgency::Blocked
            }
            Some(verdict) if verdict.basis == Basis::Generation => Urgency::NotObserved,
            _ => Urgency::Waiting,
        }
    }

    /// The targets, each with what belongs to it. `all`: with what is Current.
    #[must_use]
    pub fn branches(&self, all: bool) -> Vec<Branch> {
        let followed = self
            .targets
            .entries()
            .filter(|(number, _)| self.policy.state(*number).is_some() && !self.is_folded(*number));
        followed.filter_map(|(number, _)| self.branch(number, all)).collect()
    }

    /// A target as it is evaluated, and its dependents.
    pub(super) fn branch(&self, number: TargetId, all: bool) -> Option<Branch> {
        let target = self.targets.get(number)?;
        let Some(record) = self.graph.get(&target.id) else {
            return Some(Branch {
                object: target.id.clone(),
                link: None,
                verdict: self.verdict(&target.id, Some(target)),
                summary: String::new(),
                created: None,
                children: Vec::new(),
                hidden: 0,
                hidden_kinds: Vec::new(),
            });
        };
        let mut branch = explain::branch(&self.graph, record, all);
        let failing = self.policy.failing(number);
        let causes = if failing.is_some() { self.causes(number) } else { Vec::new() };
        let stage = self.policy.failure_stage(number);
        let own = self.verdict(&target.id, Some(target));
        branch.verdict = Evaluation::new(own, stage, causes.first()).verdict;
        if let Some(root) = causes.first().and_then(|cause| cause.chain.last()) {
            branch.summary.clone_from(&root.summary);
        } else if let Some(advisory) = explain::advisory(&self.graph, record) {
            branch.summary = advisory;
        }
        Some(branch)
    }

    /// How many targets are in which state.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.shown_counts()
    }

    /// The selections that no object matches.
    pub(super) fn unmatched(&self) -> Vec<Unmatched> {
        let matched: HashSet<StreamId> = self
            .targets
            .entries()
            .filter(|(number, _)| self.policy.state(*number).is_some())
            .flat_map(|(_, target)| target.stream.iter().chain(&target.also))
            .map(|(stream, _)| *stream)
            .collect();
        let is_empty = |(number, stream): &(StreamId, &Stream)| {
            let is_selection = stream.role == Role::Selection && !stream.of_category;
            is_selection && stream.seen && !stream.ended && !matched.contains(number)
        };
        let describe = |(_, stream): (StreamId, &Stream)| {
            let Scope { resource, namespace, labels, fields, .. } = &stream.spec.scope;
            let selectors: Vec<&str> = labels.iter().chain(fields).map(|text| &**text).collect();
            Unmatched {
                group: Arc::from(&*resource.group),
                kind: Arc::from(&*resource.kind),
                namespaced: resource.namespaced,
                namespace: namespace.as_deref().map(Into::into),
                selector: selectors.join(" and "),
            }
        };
        self.streams.entries().filter(is_empty).map(describe).collect()
    }
}
