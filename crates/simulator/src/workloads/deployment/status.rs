//! The status of a Deployment and its conditions (`calculateStatus` and `syncRolloutStatus` upstream).

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{
    Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet, ReplicaSetCondition,
};
use settled_controller::worker::Next;

use super::{Step, Sync, strategy};
use crate::controller::Error;
use crate::meta;

pub(super) const PROGRESSING: &str = "Progressing";
const AVAILABLE: &str = "Available";
const REPLICA_FAILURE: &str = "ReplicaFailure";
const TIMED_OUT: &str = "ProgressDeadlineExceeded";
const NEW_AVAILABLE: &str = "NewReplicaSetAvailable";

pub(super) fn condition(
    type_: &str,
    status: &str,
    reason: &str,
    message: String,
    now: Timestamp,
) -> DeploymentCondition {
    DeploymentCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        last_update_time: Some(meta::time(now)),
        last_transition_time: Some(meta::time(now)),
        reason: Some(reason.to_owned()),
        message: Some(message),
    }
}

pub(super) fn find<'d>(deployment: &'d Deployment, type_: &str) -> Option<&'d DeploymentCondition> {
    deployment.status.as_ref()?.conditions.iter().flatten().find(|condition| condition.type_ == type_)
}

/// `SetDeploymentCondition`: nothing changes if status and reason are the same; a changed one goes to the end.
pub(super) fn set(status: &mut DeploymentStatus, mut new: DeploymentCondition) {
    let conditions = status.conditions.get_or_insert_default();
    if let Some(old) = conditions.iter().find(|condition| condition.type_ == new.type_) {
        if old.status == new.status && old.reason == new.reason {
            return;
        }
        if old.status == new.status {
            new.last_transition_time.clone_from(&old.last_transition_time);
        }
    }
    conditions.retain(|condition| condition.type_ != new.type_);
    conditions.push(new);
}

fn remove(status: &mut DeploymentStatus, type_: &str) {
    if let Some(conditions) = &mut status.conditions {
        conditions.retain(|condition| condition.type_ != type_);
    }
}

/// The counts, and whether enough is available.
fn calculate(
    deployment: &Deployment,
    all: &[&Arc<ReplicaSet>],
    new: Option<&Arc<ReplicaSet>>,
    now: Timestamp,
) -> DeploymentStatus {
    let sum = |of: fn(&ReplicaSet) -> i32| all.iter().map(|set| of(set)).sum::<i32>();
    let available = sum(strategy::available);
    let ready =
        |set: &ReplicaSet| set.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or_default();
    let old = deployment.status.clone().unwrap_or_default();
    let mut status = DeploymentStatus {
        observed_generation: deployment.metadata.generation,
        replicas: meta::non_zero(sum(strategy::actual)),
        updated_replicas: new.and_then(|set| meta::non_zero(strategy::actual(set))),
        ready_replicas: meta::non_zero(sum(ready)),
        available_replicas: meta::non_zero(available),
        unavailable_replicas: meta::non_zero((sum(strategy::wanted) - available).max(0)),
        terminating_replicas: terminating(all),
        collision_count: old.collision_count,
        conditions: old.conditions,
    };
    let enough = available >= strategy::replicas(deployment) - strategy::max_unavailable(deployment);
    let (value, reason, message) = match enough {
        true => ("True", "MinimumReplicasAvailable", "Deployment has minimum availability."),
        false => ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability."),
    };
    set(&mut status, condition(AVAILABLE, value, reason, message.to_owned(), now));
    status
}

/// Unknown if a ReplicaSet does not say, unless that one is new.
fn terminating(all: &[&Arc<ReplicaSet>]) -> Option<i32> {
    let mut sum = 0;
    for status in all.iter().filter_map(|set| set.status.as_ref()) {
        match (status.terminating_replicas, status.observed_generation.unwrap_or_default()) {
            (Some(number), _) => sum += number,
            (None, 0) => {}
            (None, _) => return None,
        }
    }
    Some(sum)
}

/// `DeploymentProgressing`: more updated, ready or available replicas, or less old ones.
fn is_progressing(old: &DeploymentStatus, new: &DeploymentStatus) -> bool {
    let updated = |status: &DeploymentStatus| status.updated_replicas.unwrap_or_default();
    let not_updated = |status: &DeploymentStatus| status.replicas.unwrap_or_default() - updated(status);
    let ready = |status: &DeploymentStatus| status.ready_replicas.unwrap_or_default();
    let available = |status: &DeploymentStatus| status.available_replicas.unwrap_or_default();
    updated(new) > updated(old)
        || not_updated(new) < not_updated(old)
        || ready(new) > ready(old)
        || available(new) > available(old)
}

/// When the deadline is, counted from the last progress.
fn deadline(progressing: &DeploymentCondition, seconds: i32) -> Option<Timestamp> {
    let from = progressing.last_update_time.as_ref()?.0;
    from.checked_add(SignedDuration::from_secs(i64::from(seconds))).ok()
}

fn reason_of(condition: Option<&DeploymentCondition>) -> Option<&str> {
    condition.and_then(|condition| condition.reason.as_deref())
}

/// The status with the conditions of a rollout.
fn rollout(
    deployment: &Deployment,
    all: &[&Arc<ReplicaSet>],
    new: Option<&Arc<ReplicaSet>>,
    now: Timestamp,
) -> DeploymentStatus {
    let mut status = calculate(deployment, all, new, now);
    let current = find(deployment, PROGRESSING);
    let deadline_seconds = strategy::progress_deadline(deployment);
    if deadline_seconds.is_none() {
        remove(&mut status, PROGRESSING);
    }
    let count = |number: Option<i32>| number.unwrap_or_default();
    let was_complete =
        count(status.replicas) == count(status.updated_replicas) && reason_of(current) == Some(NEW_AVAILABLE);
    if let Some(seconds) = deadline_seconds.filter(|_| !was_complete) {
        let what = match new {
            Some(new) => format!("ReplicaSet \"{}\"", meta::name(&**new)),
            None => format!("Deployment \"{}\"", meta::name(deployment)),
        };
        let empty = DeploymentStatus::default();
        if strategy::is_complete(deployment, &status) {
            let message = format!("{what} has successfully progressed.");
            set(&mut status, condition(PROGRESSING, "True", NEW_AVAILABLE, message, now));
        } else if is_progressing(deployment.status.as_ref().unwrap_or(&empty), &status) {
            let message = format!("{what} is progressing.");
            let mut new = condition(PROGRESSING, "True", "ReplicaSetUpdated", message, now);
            if let Some(current) = current {
                if current.status == "True" {
                    new.last_transition_time.clone_from(&current.last_transition_time);
                }
                // So that the time of the last progress changes.
                remove(&mut status, PROGRESSING);
            }
            set(&mut status, new);
        } else if is_timed_out(&status, seconds, now) {
            let message = format!("{what} has timed out progressing.");
            set(&mut status, condition(PROGRESSING, "False", TIMED_OUT, message, now));
        }
    }
    match replica_failure(all, new) {
        Some(failure) => set(&mut status, failure),
        None => remove(&mut status, REPLICA_FAILURE),
    }
    status.conditions = status.conditions.filter(|conditions| !conditions.is_empty());
    status
}

fn is_timed_out(status: &DeploymentStatus, seconds: i32, now: Timestamp) -> bool {
    let progressing = status.conditions.iter().flatten().find(|condition| condition.type_ == PROGRESSING);
    let Some(progressing) = progressing else { return false };
    match progressing.reason.as_deref() {
        Some(NEW_AVAILABLE) => false,
        Some(TIMED_OUT) => true,
        _ => deadline(progressing, seconds).is_some_and(|deadline| deadline < now),
    }
}

/// What the server refuses to a ReplicaSet: of the new one, or else of any.
fn replica_failure(all: &[&Arc<ReplicaSet>], new: Option<&Arc<ReplicaSet>>) -> Option<DeploymentCondition> {
    let failure = |set: &&Arc<ReplicaSet>| -> Option<ReplicaSetCondition> {
        let conditions = set.status.as_ref()?.conditions.as_ref()?;
        conditions.iter().find(|condition| condition.type_ == REPLICA_FAILURE).cloned()
    };
    let found = new.and_then(|new| failure(&new)).or_else(|| all.iter().find_map(failure))?;
    Some(DeploymentCondition {
        type_: found.type_,
        status: found.status,
        last_update_time: found.last_transition_time.clone(),
        last_transition_time: found.last_transition_time,
        reason: found.reason,
        message: found.message,
    })
}

impl Sync<'_> {
    /// Writes the status of a rollout; if it is as it should be, the reconcile comes again for the deadline.
    pub(super) async fn report(
        &self,
        old: &[Arc<ReplicaSet>],
        new: Option<&Arc<ReplicaSet>>,
    ) -> Result<Step, Error> {
        let all: Vec<_> = old.iter().chain(new).collect();
        let now = self.context.now();
        let status = rollout(&self.deployment, &all, new, now);
        if self.write(status).await? {
            return Ok(Step::Done(Next::AwaitChange));
        }
        Ok(Step::Done(self.until_deadline(now).map_or(Next::AwaitChange, Next::RequeueAfter)))
    }

    /// Writes the counts only.
    pub(super) async fn write_status(
        &self,
        old: &[Arc<ReplicaSet>],
        new: Option<&Arc<ReplicaSet>>,
    ) -> Result<Step, Error> {
        let all: Vec<_> = old.iter().chain(new).collect();
        let status = calculate(&self.deployment, &all, new, self.context.now());
        self.write(status).await?;
        Ok(Step::Done(Next::AwaitChange))
    }

    async fn write(&self, status: DeploymentStatus) -> Result<bool, Error> {
        if self.deployment.status.as_ref() == Some(&status) {
            return Ok(false);
        }
        let mut deployment = self.deployment.clone();
        deployment.status = Some(status);
        self.context.update_status(self.key, &deployment).await?;
        Ok(true)
    }

    /// `requeueStuckDeployment`: until the deadline and a second.
    fn until_deadline(&self, now: Timestamp) -> Option<Duration> {
        let seconds = strategy::progress_deadline(&self.deployment)?;
        let progressing = find(&self.deployment, PROGRESSING)?;
        let status = self.deployment.status.as_ref()?;
        if strategy::is_complete(&self.deployment, status) || progressing.reason.as_deref() == Some(TIMED_OUT)
        {
            return None;
        }
        let after = now.duration_until(deadline(progressing, seconds)?);
        Some(after.max(SignedDuration::ZERO).unsigned_abs() + Duration::from_secs(1))
    }

    /// A paused Deployment says so, and one that was: `checkPausedConditions`.
    pub(super) async fn check_paused(&mut self) -> Result<Step, Error> {
        let reason = reason_of(find(&self.deployment, PROGRESSING));
        if strategy::progress_deadline(&self.deployment).is_none() || reason == Some(TIMED_OUT) {
            return Ok(Step::Go);
        }
        let was_paused = reason == Some("DeploymentPaused");
        let (reason, message) = match (strategy::is_paused(&self.deployment), was_paused) {
            (true, false) => ("DeploymentPaused", "Deployment is paused"),
            (false, true) => ("DeploymentResumed", "Deployment is resumed"),
            _ => return Ok(Step::Go),
        };
        let condition = condition(PROGRESSING, "Unknown", reason, message.to_owned(), self.context.now());
        set(self.deployment.status.get_or_insert_default(), condition);
        self.context.update_status(self.key, &self.deployment).await?;
        Ok(Step::Wait)
    }
}

#[cfg(test)]
#[path = "status_tests.rs"]
mod tests;
