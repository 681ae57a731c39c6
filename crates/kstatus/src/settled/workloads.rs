//! Rules for workloads: Deployment, StatefulSet, DaemonSet, ReplicaSet, ReplicationController, Job, CronJob.

use std::fmt;

use super::context::{Condition, Context, Truth, current, in_progress, recoverable, terminal, whole_number};
use super::member;
use crate::fields::Field;
use crate::node::Node;
use crate::reason;
use crate::text::text;
use crate::verdict::{FailureClass, Text, Verdict};

/// The first counter that is short of what is wanted.
fn short_of(wanted: i64, counters: &[(i64, &'static str, &str)]) -> Option<Verdict> {
    counters
        .iter()
        .find(|(number, ..)| *number < wanted)
        .map(|(number, reason, label)| in_progress(*reason, text!("{label}: {number}/{wanted}")))
}

fn extra_pods(replicas: i64, wanted: i64) -> Option<Verdict> {
    (replicas > wanted)
        .then(|| in_progress("ExtraPods", text!("Pending termination: {}", replicas.saturating_sub(wanted))))
}

/// Pods cannot be created: a quota is used up, or an admission check refuses them. The controller keeps trying.
fn replica_failure(context: &Context<'_, '_>, condition: &Condition<'_>) -> Verdict {
    let message = Text::from(condition.describe());
    let class = if message.contains("quota") { FailureClass::Quota } else { FailureClass::Configuration };
    context.decided_by(condition, || recoverable(class, condition.reason_or("ReplicaFailure"), message))
}

pub(super) fn deployment(context: &Context<'_, '_>) -> Verdict {
    let (mut progressing, mut available, mut failure) = (None, None, None);
    for condition in context.conditions().iter() {
        if condition.is_type("Progressing") {
            progressing = Some(condition);
        } else if condition.is_type("Available") {
            available = Some(condition);
        } else if condition.is("ReplicaFailure", Truth::True) {
            failure = Some(condition);
        }
    }
    if let Some(verdict) = context.unobserved() {
        return verdict;
    }
    let spec = context.int(Field::SpecReplicas).unwrap_or(1);
    let replicas = context.count(Field::Replicas);
    let updated = context.count(Field::UpdatedReplicas);
    let ready = context.count(Field::ReadyReplicas);
    let available_replicas = context.count(Field::AvailableReplicas);
    let paused = context.boolean(Field::Paused) == Some(true);
    if let Some(condition) = &failure {
        return replica_failure(context, condition);
    }
    if let Some(condition) = progressing.filter(|c| !c.is_true() && c.is_reason("ProgressDeadlineExceeded")) {
        let message = text!(
            "{} (updated: {updated}/{spec}, available: {available_replicas}/{spec})",
            condition.describe()
        );
        let verdict = terminal(FailureClass::Deadline, "ProgressDeadlineExceeded", message);
        return context.decided_by(&condition, || verdict);
    }
    if paused && updated < spec {
        let message = text!("paused with changes that are not rolled out; updated: {updated}/{spec}");
        return in_progress(reason::PAUSED, message);
    }
    if let Some(verdict) =
        short_of(spec, &[(replicas, "LessReplicas", "Replicas"), (updated, "LessUpdated", "Updated")])
    {
        return verdict;
    }
    if let Some(verdict) = extra_pods(replicas, spec) {
        return verdict;
    }
    let counters = [(available_replicas, "LessAvailable", "Available"), (ready, "LessReady", "Ready")];
    if let Some(verdict) = short_of(spec, &counters) {
        return verdict;
    }
    // Without a deadline the controller may leave the condition out; a paused Deployment does not progress.
    let has_deadline =
        context.int(Field::ProgressDeadline).is_some_and(|seconds| seconds != i64::from(i32::MAX));
    let rolled_out = |c: &Condition<'_>| c.is_true() && c.is_reason("NewReplicaSetAvailable");
    if has_deadline && !paused {
        match &progressing {
            Some(condition) if rolled_out(condition) => {}
            Some(condition) => return in_progress("ReplicaSetNotAvailable", condition.describe()),
            None => return in_progress("ReplicaSetNotAvailable", "ReplicaSet not Available"),
        }
    }
    match &available {
        Some(condition) if condition.is_true() => {
            let verdict = current("Available", text!("Deployment is available. Replicas: {replicas}"));
            context.decided_by(condition, || verdict)
        }
        Some(condition) => in_progress("DeploymentNotAvailable", condition.describe()),
        None => in_progress("DeploymentNotAvailable", "Deployment not Available"),
    }
}

/// ReplicaSet and ReplicationController.
pub(super) fn replica_set(context: &Context<'_, '_>) -> Verdict {
    if let Some(condition) = context.conditions().iter().find(|c| c.is("ReplicaFailure", Truth::True)) {
        return replica_failure(context, &condition);
    }
    if let Some(verdict) = context.unobserved() {
        return verdict;
    }
    let spec = context.int(Field::SpecReplicas).unwrap_or(1);
    let replicas = context.count(Field::Replicas);
    let counters = [
        (replicas, "LessReplicas", "Replicas"),
        (context.count(Field::AvailableReplicas), "LessAvailable", "Available"),
        (context.count(Field::ReadyReplicas), "LessReady", "Ready"),
        (context.int(Field::FullyLabeledReplicas).unwrap_or(spec), "LessLabelled", "Labelled"),
    ];
    short_of(spec, &counters)
        .or_else(|| extra_pods(replicas, spec))
        .unwrap_or_else(|| current("Available", text!("all replicas are available. Replicas: {replicas}")))
}

pub(super) fn stateful_set(context: &Context<'_, '_>) -> Verdict {
    if let Some(verdict) = context.unobserved() {
        return verdict;
    }
    let strategy = context.map(Field::UpdateStrategy);
    let on_delete = strategy.is_some_and(|s| s.get("type").is_some_and(|t| t.is("OnDelete")));
    let spec = context.int(Field::SpecReplicas).unwrap_or(1);
    let replicas = context.count(Field::Replicas);
    let ready = context.count(Field::ReadyReplicas);
    let updated = context.count(Field::UpdatedReplicas);
    let counters = [(replicas, "LessReplicas", "Replicas"), (ready, "LessReady", "Ready")];
    if let Some(verdict) = short_of(spec, &counters).or_else(|| extra_pods(replicas, spec)) {
        return verdict;
    }
    if context.int(Field::MinReadySeconds).unwrap_or(0) > 0 {
        let available = context.count(Field::AvailableReplicas);
        if let Some(verdict) = short_of(spec, &[(available, "LessAvailable", "Available")]) {
            return verdict;
        }
    }
    let current_revision = context.text(Field::CurrentRevision).unwrap_or_default();
    let update_revision = context.text(Field::UpdateRevision).unwrap_or_default();
    let same_revision = current_revision == update_revision;
    if on_delete {
        let old = if same_revision { 0 } else { replicas.saturating_sub(updated).max(0) };
        return on_delete_verdict(ready, old);
    }
    let partition = strategy
        .and_then(|s| context.child(s, ".spec.updateStrategy", "rollingUpdate"))
        .and_then(|r| r.get("partition"))
        .and_then(whole_number)
        .unwrap_or(0)
        .max(0);
    if partition == 0 {
        if let Some(verdict) = short_of(spec, &[(updated, "LessUpdated", "Updated")]) {
            return verdict;
        }
        if !same_revision {
            let message = text!("waiting for revision {update_revision} to become the current one");
            return in_progress("RevisionMismatch", message);
        }
        return current("Ready", text!("all replicas are updated and ready. Replicas: {replicas}"));
    }
    let wanted = spec.saturating_sub(partition).max(0);
    if let Some(verdict) = short_of(wanted, &[(updated, "PartitionRollout", "updated")]) {
        return verdict;
    }
    let old = if same_revision { 0 } else { replicas.saturating_sub(updated).max(0) };
    let message =
        text!("Partition rollout complete. updated: {updated}, held back by partition {partition}: {old}");
    current("PartitionRolloutComplete", message)
}

/// With the strategy OnDelete, the controller replaces Pods only after they are deleted, so the rollout is done.
fn on_delete_verdict(ready: i64, old: i64) -> Verdict {
    if old == 0 {
        return current("Ready", text!("all replicas are updated and ready. Replicas: {ready}"));
    }
    let message =
        text!("{ready} ready; {old} run the old revision until they are deleted (strategy OnDelete)");
    current("OnDelete", message)
}

pub(super) fn daemon_set(context: &Context<'_, '_>) -> Verdict {
    if let Some(verdict) = context.unobserved() {
        return verdict;
    }
    let Some(desired) = context.int(Field::DesiredNumberScheduled) else {
        return in_progress("NoDesiredNumber", "Missing .status.desiredNumberScheduled");
    };
    if desired == 0 {
        return current("NothingToSchedule", "no node matches. Replicas: 0");
    }
    let on_delete =
        context.map(Field::UpdateStrategy).is_some_and(|s| s.get("type").is_some_and(|t| t.is("OnDelete")));
    let updated = context.count(Field::UpdatedNumberScheduled);
    let ready = context.count(Field::NumberReady);
    let scheduled = (context.count(Field::CurrentNumberScheduled), "LessCurrent", "Current");
    let up_to_date = (if on_delete { desired } else { updated }, "LessUpdated", "Updated");
    let available = (context.count(Field::NumberAvailable), "LessAvailable", "Available");
    if let Some(verdict) =
        short_of(desired, &[scheduled, up_to_date, available, (ready, "LessReady", "Ready")])
    {
        return verdict;
    }
    if on_delete {
        return on_delete_verdict(ready, desired.saturating_sub(updated).max(0));
    }
    current("Ready", text!("all replicas are updated and ready. Replicas: {desired}"))
}

pub(super) fn job(context: &Context<'_, '_>) -> Verdict {
    let counts = JobCounts(context);
    let suspend = context.boolean(Field::Suspend) == Some(true);
    let (mut complete, mut failed, mut criteria_met) = (None, None, None);
    for condition in context.conditions().iter().filter(Condition::is_true) {
        if condition.is_type("Complete") {
            complete = Some(condition);
        } else if condition.is_type("Failed") {
            failed = Some(condition);
        } else if condition.is_type("FailureTarget") {
            // Set first, while Pods still end; `Failed` says the same and more.
            failed.get_or_insert(condition);
        } else if condition.is_type("SuccessCriteriaMet") {
            criteria_met = Some(condition);
        }
    }
    if let Some(condition) = complete {
        return context.decided_by(&condition, || current("Complete", text!("Job Completed. {counts}")));
    }
    if let Some(condition) = failed {
        let class =
            if condition.is_reason("DeadlineExceeded") { FailureClass::Deadline } else { FailureClass::Job };
        let message = text!("{} ({counts})", condition.describe());
        return context.decided_by(&condition, || terminal(class, condition.reason_or("JobFailed"), message));
    }
    if criteria_met.is_some() {
        return in_progress(
            "SuccessCriteriaMet",
            text!("the Job has succeeded; its Pods are ending. {counts}"),
        );
    }
    let active = context.count(Field::Active);
    if suspend {
        if active > 0 {
            return in_progress(
                "Suspending",
                text!("the Job is being suspended; its Pods are ending. {counts}"),
            );
        }
        return current(reason::SUSPENDED, text!("Job is suspended. {counts}"));
    }
    if context.text(Field::StartTime).unwrap_or_default().is_empty() {
        return in_progress("JobNotStarted", "Job has not started");
    }
    in_progress("JobRunning", text!("Job in progress. {counts}"))
}

/// Progress of a Job in one line.
struct JobCounts<'c, 'a, 'o>(&'c Context<'a, 'o>);

impl fmt::Display for JobCounts<'_, '_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let context = self.0;
        let parallelism = context.int(Field::Parallelism).unwrap_or(1);
        let succeeded = context.count(Field::Succeeded);
        match context.int(Field::Completions) {
            Some(completions) => write!(f, "succeeded: {succeeded}/{completions}")?,
            // One Pod by default; with more, a work queue, which any success ends.
            None if parallelism <= 1 => write!(f, "succeeded: {succeeded}/1")?,
            None => write!(f, "succeeded: {succeeded}, parallelism: {parallelism}")?,
        }
        let (active, failed) = (context.count(Field::Active), context.count(Field::FailedCount));
        write!(f, ", active: {active}, failed: {failed}")?;
        if context.text(Field::CompletionMode).is_some_and(|mode| mode == "Indexed") {
            for (field, label) in [(Field::CompletedIndexes, "completed"), (Field::FailedIndexes, "failed")] {
                if let Some(indexes) = context.text(field).filter(|indexes| !indexes.is_empty()) {
                    write!(f, ", {label} indexes: {indexes}")?;
                }
            }
        }
        Ok(())
    }
}

pub(super) fn cron_job(context: &Context<'_, '_>) -> Verdict {
    if context.boolean(Field::Suspend) == Some(true) {
        return current(reason::SUSPENDED, "CronJob is suspended: it starts no Jobs");
    }
    let running = context.list(Field::Active).filter_map(|job: Node<'_>| member(job, "name")).count();
    match running {
        0 => current("Scheduled", "CronJob is scheduled; no Job is running"),
        1 => current("Scheduled", "CronJob is scheduled; 1 Job is running"),
        n => current("Scheduled", text!("CronJob is scheduled; {n} Jobs are running")),
    }
}
