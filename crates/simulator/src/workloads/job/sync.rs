//! One reconcile of a Job: what its Pods say, and whether it is finished (`syncJob` upstream).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{Job, JobCondition, JobSpec, JobStatus};
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::events::EventType;
use settled_controller::ObjectKey;

use super::indexes::{Indexes, index_failures, index_of, indexes_of};
use super::is_tracked;
use super::policy::{self, Failures, Verdict};
use crate::controller::Context;
use crate::meta;
use crate::pod;

pub(super) const FAILURE_TARGET: &str = "FailureTarget";
pub(super) const SUCCESS_MET: &str = "SuccessCriteriaMet";

/// A Job during a reconcile: `syncJobCtx`.
pub(super) struct Sync<'a> {
    pub(super) context: &'a Context,
    pub(super) key: &'a ObjectKey,
    pub(super) job: Job,
    pub(super) spec: JobSpec,
    pub(super) pods: Vec<Arc<Pod>>,
    pub(super) active: Vec<Arc<Pod>>,
    pub(super) ready: i32,
    pub(super) terminating: i32,
    pub(super) succeeded: i32,
    pub(super) failed: i32,
    /// UIDs of Pods that the status had as uncounted at the start.
    pub(super) uncounted_succeeded: BTreeSet<String>,
    pub(super) uncounted_failed: BTreeSet<String>,
    pub(super) failures: Failures,
    pub(super) finished: Option<JobCondition>,
    pub(super) previous_indexes: Indexes,
    pub(super) succeeded_indexes: Indexes,
    pub(super) failed_indexes: Option<Indexes>,
    /// For each index that is to be retried, the last Pod that failed.
    pub(super) delayed: BTreeMap<i32, Arc<Pod>>,
    pub(super) now: Timestamp,
    /// The status that the server has.
    pub(super) stored: Option<JobStatus>,
    pub(super) requeue: Option<Duration>,
}

pub(super) fn condition(
    type_: &str,
    status: &str,
    reason: &str,
    message: String,
    now: Timestamp,
) -> JobCondition {
    JobCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message),
        last_probe_time: Some(meta::time(now)),
        last_transition_time: Some(meta::time(now)),
    }
}

/// Sets a condition if it differs; one that is false is not added: `ensureJobConditionStatus`.
pub(super) fn ensure(conditions: &mut Vec<JobCondition>, new: JobCondition) -> bool {
    match conditions.iter_mut().find(|condition| condition.type_ == new.type_) {
        Some(old) if old.status == new.status && old.reason == new.reason && old.message == new.message => {
            false
        }
        Some(old) => {
            *old = new;
            true
        }
        None if new.status == "False" => false,
        None => {
            conditions.push(new);
            true
        }
    }
}

impl<'a> Sync<'a> {
    pub(super) fn new(
        context: &'a Context,
        key: &'a ObjectKey,
        mut job: Job,
        spec: JobSpec,
        pods: Vec<Arc<Pod>>,
    ) -> Self {
        let now = context.now();
        let active: Vec<_> = pods.iter().filter(|pod| pod::is_active(pod)).cloned().collect();
        let stored = job.status.clone();
        let status = job.status.get_or_insert_default();
        let uncounted = status.uncounted_terminated_pods.get_or_insert_default().clone();
        if status.start_time.is_none() && spec.suspend != Some(true) {
            status.start_time = Some(meta::time(now));
        }
        let set = |uids: Option<Vec<String>>| uids.into_iter().flatten().collect::<BTreeSet<_>>();
        let ready = meta::count(active.iter().filter(|pod| pod::is_ready(pod)).count());
        let terminating = meta::count(pods.iter().filter(|pod| pod::is_terminating(pod)).count());
        let mut sync = Self {
            context,
            key,
            job,
            spec,
            pods,
            active,
            ready,
            terminating,
            succeeded: 0,
            failed: 0,
            uncounted_succeeded: set(uncounted.succeeded),
            uncounted_failed: set(uncounted.failed),
            failures: Failures::default(),
            finished: None,
            previous_indexes: Indexes::default(),
            succeeded_indexes: Indexes::default(),
            failed_indexes: None,
            delayed: BTreeMap::new(),
            now,
            stored,
            requeue: None,
        };
        sync.count();
        sync
    }

    pub(super) fn is_indexed(&self) -> bool {
        self.spec.completion_mode.as_deref() == Some("Indexed")
    }

    pub(super) fn is_suspended(&self) -> bool {
        self.spec.suspend == Some(true)
    }

    pub(super) fn completions(&self) -> i32 {
        self.spec.completions.unwrap_or(1)
    }

    pub(super) fn conditions(&mut self) -> &mut Vec<JobCondition> {
        self.job.status.get_or_insert_default().conditions.get_or_insert_default()
    }

    pub(super) fn verdict(&self, pod: &Pod) -> Verdict {
        policy::verdict(self.spec.pod_failure_policy.as_ref(), pod)
    }

    pub(super) fn requeue(&mut self, after: Duration) {
        self.requeue = self.requeue.into_iter().chain([after]).min();
    }

    pub(super) fn event(&self, type_: EventType, reason: &str, note: String) {
        self.context.event(&self.job, type_, reason, reason, note);
    }

    /// Is a Pod of an index that the Job has?
    pub(super) fn is_valid(&self, pod: &Pod) -> bool {
        !self.is_indexed() || index_of(pod).is_some_and(|index| index < self.completions())
    }

    /// The numbers of Pods that have succeeded and failed, counted and not.
    fn count(&mut self) {
        let is_new = |pod: &&Arc<Pod>, uncounted: &BTreeSet<String>| {
            is_tracked(pod) && !uncounted.contains(meta::uid(&***pod)) && self.is_valid(pod)
        };
        let succeeded = self
            .pods
            .iter()
            .filter(|pod| is_new(pod, &self.uncounted_succeeded) && pod::phase(pod) == "Succeeded");
        let succeeded = meta::count(succeeded.count());
        let failed = self.pods.iter().filter(|pod| {
            is_new(pod, &self.uncounted_failed)
                && policy::is_failed(&self.job, pod)
                && self.verdict(pod) != Verdict::Ignore
        });
        let failed = meta::count(failed.count());
        let status = self.job.status.clone().unwrap_or_default();
        self.succeeded =
            status.succeeded.unwrap_or_default() + succeeded + meta::count(self.uncounted_succeeded.len());
        self.failed = status.failed.unwrap_or_default() + failed + meta::count(self.uncounted_failed.len());
        let ended = self.pods.iter().map(|pod| &**pod).filter(|pod| self.is_valid(pod));
        let is_failed = |pod: &&Pod| {
            pod::phase(pod) == "Failed" || (is_tracked(pod) && policy::is_failed(&self.job, pod))
        };
        self.failures = Failures::since_success(
            ended.clone().filter(|pod| pod::phase(pod) == "Succeeded"),
            ended.filter(is_failed),
        );
    }

    fn fail(&self, reason: &str, message: &str) -> JobCondition {
        condition(FAILURE_TARGET, "True", reason, message.to_owned(), self.now)
    }

    /// Success or failure, as far as the Pods that have finished decide it.
    pub(super) fn find_end(&mut self) {
        let status = self.job.status.clone().unwrap_or_default();
        let of_type = |type_: &str| {
            status
                .conditions
                .iter()
                .flatten()
                .find(|condition| condition.type_ == type_ && condition.status == "True")
        };
        self.finished = of_type(SUCCESS_MET).cloned();
        if self.finished.is_none() {
            if let Some(target) = of_type(FAILURE_TARGET) {
                let (reason, message) = (target.reason.clone().unwrap_or_default(), target.message.clone());
                self.finished =
                    Some(condition("Failed", "True", &reason, message.unwrap_or_default(), self.now));
            } else {
                let failed = self.pods.iter().filter(|pod| policy::is_failed(&self.job, pod));
                self.finished = failed.into_iter().find_map(|pod| match self.verdict(pod) {
                    Verdict::FailJob(message) => Some(self.fail("PodFailurePolicy", &message)),
                    _ => None,
                });
            }
        }
        if self.finished.is_none() {
            let limit = self.spec.backoff_limit.unwrap_or(6);
            let left = self.deadline_left();
            if self.failed > limit || self.restarts_exceed(limit) {
                self.finished =
                    Some(self.fail("BackoffLimitExceeded", "Job has reached the specified backoff limit"));
            } else if left.is_some_and(|left| !left.is_positive()) {
                self.finished =
                    Some(self.fail("DeadlineExceeded", "Job was active longer than specified deadline"));
            } else if let Some(left) = left {
                self.requeue(left.unsigned_abs());
            }
        }
        if self.is_indexed() {
            self.find_end_of_indexes(status.completed_indexes.as_deref(), status.failed_indexes.as_deref());
        }
    }

    fn find_end_of_indexes(&mut self, completed: Option<&str>, failed: Option<&str>) {
        let completions = self.completions();
        self.previous_indexes = Indexes::parse(completed.unwrap_or_default(), completions);
        let tracked: Vec<Arc<Pod>> =
            self.pods.iter().filter(|pod| is_tracked(pod) && self.is_valid(pod)).cloned().collect();
        let succeeded = tracked.iter().filter(|pod| pod::phase(pod) == "Succeeded");
        self.succeeded_indexes = self.previous_indexes.with(indexes_of(succeeded.map(|pod| &**pod)));
        self.succeeded = self.succeeded_indexes.total();
        if let Some(limit) = self.spec.backoff_limit_per_index {
            let previous = Indexes::parse(failed.unwrap_or_default(), completions);
            let failed = tracked.iter().filter(|pod| self.is_index_failed(pod, limit));
            let failed = previous.with(indexes_of(failed.map(|pod| &**pod)));
            if self.finished.is_none() {
                let total = failed.total();
                if self.spec.max_failed_indexes.is_some_and(|max| total > max) {
                    let message = "Job has exceeded the specified maximal number of failed indexes";
                    self.finished = Some(self.fail("MaxFailedIndexesExceeded", message));
                } else if total > 0 && total + self.succeeded_indexes.total() >= completions {
                    self.finished = Some(self.fail("FailedIndexes", "Job has failed indexes"));
                }
            }
            self.failed_indexes = Some(failed);
            self.delayed = self.delayed_pods();
        }
        if self.finished.is_none() {
            let message =
                policy::success(self.spec.success_policy.as_ref(), completions, &self.succeeded_indexes);
            self.finished =
                message.map(|message| condition(SUCCESS_MET, "True", "SuccessPolicy", message, self.now));
        }
    }

    fn is_index_failed(&self, pod: &Pod, limit: i32) -> bool {
        if !policy::is_failed(&self.job, pod) {
            return false;
        }
        match self.verdict(pod) {
            Verdict::FailIndex => true,
            Verdict::Ignore => false,
            Verdict::Count | Verdict::FailJob(_) => index_failures(pod).0 >= limit,
        }
    }

    /// The last failed Pod of each index that neither succeeded, nor failed for good, nor runs again.
    fn delayed_pods(&self) -> BTreeMap<i32, Arc<Pod>> {
        let active = indexes_of(self.active.iter().map(|pod| &**pod));
        let mut delayed: BTreeMap<i32, Arc<Pod>> = BTreeMap::new();
        let failed = self.failed_indexes.clone().unwrap_or_default();
        for pod in self.pods.iter().filter(|pod| is_tracked(pod) && policy::is_failed(&self.job, pod)) {
            let Some(index) = index_of(pod).filter(|index| *index < self.completions()) else { continue };
            if self.succeeded_indexes.has(index) || failed.has(index) || active.contains(&index) {
                continue;
            }
            let rank = |pod: &Pod| {
                let (counted, ignored) = index_failures(pod);
                (counted + ignored, policy::finished_at(pod))
            };
            if delayed.get(&index).is_none_or(|other| rank(other) <= rank(pod)) {
                delayed.insert(index, pod.clone());
            }
        }
        delayed
    }

    /// How long the Job may be active; nothing without a deadline or while it is suspended.
    fn deadline_left(&self) -> Option<SignedDuration> {
        let seconds = self.spec.active_deadline_seconds.filter(|_| !self.is_suspended())?;
        let started = self.job.status.as_ref()?.start_time.as_ref()?.0;
        Some(SignedDuration::from_secs(seconds) - started.duration_until(self.now))
    }

    /// With restartPolicy OnFailure, restarts count: `pastBackoffLimitOnFailure`.
    fn restarts_exceed(&self, limit: i32) -> bool {
        let policy = self.spec.template.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref());
        if policy != Some("OnFailure") {
            return false;
        }
        let running = self.pods.iter().filter(|pod| matches!(pod::phase(pod), "Running" | "Pending"));
        let statuses = running.filter_map(|pod| pod.status.as_ref());
        let restarts: i32 = statuses
            .flat_map(|status| {
                status
                    .init_container_statuses
                    .iter()
                    .flatten()
                    .chain(status.container_statuses.iter().flatten())
            })
            .map(|container| container.restart_count)
            .sum();
        if limit == 0 { restarts > 0 } else { restarts >= limit }
    }

    pub(super) fn report_suspension(&mut self) {
        let now = self.now;
        let (status, reason, message, event) = match self.is_suspended() {
            true => ("True", "JobSuspended", "Job suspended", "Suspended"),
            false => ("False", "JobResumed", "Job resumed", "Resumed"),
        };
        let new = condition("Suspended", status, reason, message.to_owned(), now);
        if ensure(self.conditions(), new) {
            self.event(EventType::Normal, event, message.to_owned());
            let start = (!self.is_suspended()).then(|| meta::time(now));
            self.job.status.get_or_insert_default().start_time = start;
        }
    }
}
