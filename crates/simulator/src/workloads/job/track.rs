//! Counting of Pods: first in the status as uncounted, then without their finalizer, then as numbers
//! (`trackJobStatusAndRemoveFinalizers` upstream). So each Pod is counted once, whatever fails in between.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::future::join_all;
use k8s_openapi::api::batch::v1::JobStatus;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::events::EventType;

use super::indexes::index_of;
use super::policy::{self, Verdict};
use super::sync::{FAILURE_TARGET, SUCCESS_MET, Sync, condition, ensure};
use super::{is_tracked, untrack};
use crate::controller::Error;
use crate::meta;
use crate::pod;

/// The most Pods that a status has as uncounted.
const MAX_UNCOUNTED: usize = 500;

/// Counts Pods that have finished, and finishes the Job.
pub(super) async fn run(sync: &mut Sync<'_>) -> Result<(), Error> {
    let mut tracked: BTreeSet<String> =
        sync.pods.iter().filter(|pod| is_tracked(pod)).map(|pod| meta::uid(&**pod).to_owned()).collect();
    count(sync.job.status.get_or_insert_default(), &tracked);
    if sync.is_indexed() {
        sync.pods.sort_by_key(|pod| index_of(pod).unwrap_or(-1));
    }
    let (finishing, is_full) = collect(sync);
    if sync.is_indexed() {
        let failed = sync.failed_indexes.as_ref().map(ToString::to_string);
        let (total, text) = (sync.succeeded_indexes.total(), sync.succeeded_indexes.to_string());
        let status = sync.job.status.get_or_insert_default();
        status.succeeded = meta::non_zero(total);
        status.completed_indexes = Some(text).filter(|text| !text.is_empty());
        status.failed_indexes = failed;
    }
    announce(sync);
    flush(sync).await?;
    let results = join_all(finishing.iter().map(|pod| untrack(sync.context, sync.key, pod))).await;
    let mut failure = None;
    for (pod, result) in finishing.iter().zip(results) {
        match result {
            Ok(()) => {
                tracked.remove(meta::uid(&**pod));
            }
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    count(sync.job.status.get_or_insert_default(), &tracked);
    if let Some(error) = failure {
        flush(sync).await?;
        return Err(error.into());
    }
    let is_finished = !is_full && finish(sync);
    flush(sync).await?;
    if is_finished {
        report(sync);
    }
    Ok(())
}

/// Turns uncounted Pods without a finalizer into numbers: `cleanUncountedPodsWithoutFinalizers`.
fn count(status: &mut JobStatus, tracked: &BTreeSet<String>) {
    let uncounted = status.uncounted_terminated_pods.get_or_insert_default();
    let take = |uids: &mut Option<Vec<String>>| {
        let all = uids.take().unwrap_or_default();
        let before = all.len();
        let left: Vec<String> = all.into_iter().filter(|uid| tracked.contains(uid)).collect();
        let counted = meta::count(before - left.len());
        *uids = meta::non_empty(left);
        counted
    };
    let (succeeded, failed) = (take(&mut uncounted.succeeded), take(&mut uncounted.failed));
    status.succeeded = meta::non_zero(status.succeeded.unwrap_or_default() + succeeded);
    status.failed = meta::non_zero(status.failed.unwrap_or_default() + failed);
}

/// The Pods that have finished; they become uncounted ones, or completed indexes. Whether there are too many for one status.
fn collect(sync: &mut Sync<'_>) -> (Vec<Arc<Pod>>, bool) {
    let mut finishing = Vec::new();
    let mut indexes = Vec::new();
    let uncounted = |sync: &mut Sync<'_>| {
        sync.job.status.get_or_insert_default().uncounted_terminated_pods.get_or_insert_default().clone()
    };
    let mut lists = uncounted(sync);
    let mut is_full = false;
    for pod in sync.pods.clone().iter().filter(|pod| is_tracked(pod)) {
        let is_failed = policy::is_failed(&sync.job, pod);
        if !can_finish(sync, pod, is_failed) {
            continue;
        }
        finishing.push(pod.clone());
        let uid = meta::uid(&**pod).to_owned();
        let is_succeeded = pod::phase(pod) == "Succeeded" && !sync.uncounted_failed.contains(&uid);
        let ends_with_failure = sync.finished.as_ref().is_some_and(|finished| finished.type_ != SUCCESS_MET);
        if is_succeeded && sync.is_indexed() {
            let index = index_of(pod).filter(|_| sync.is_valid(pod));
            indexes.extend(index.filter(|index| !sync.previous_indexes.has(*index)));
        } else if is_succeeded {
            if !sync.uncounted_succeeded.contains(&uid) {
                lists.succeeded.get_or_insert_default().push(uid);
            }
        } else if (is_failed || ends_with_failure)
            && !sync.uncounted_failed.contains(&uid)
            && sync.is_valid(pod)
            && sync.verdict(pod) != Verdict::Ignore
        {
            lists.failed.get_or_insert_default().push(uid);
        }
        let size = |list: &Option<Vec<String>>| list.as_ref().map_or(0, Vec::len);
        if indexes.len() + size(&lists.succeeded) + size(&lists.failed) >= MAX_UNCOUNTED {
            is_full = true;
            break;
        }
    }
    sync.succeeded_indexes = sync.succeeded_indexes.with(indexes);
    sync.job.status.get_or_insert_default().uncounted_terminated_pods = Some(lists);
    (finishing, is_full)
}

/// `canRemoveFinalizer`: the last failed Pod of an index stays until it was replaced.
fn can_finish(sync: &Sync<'_>, pod: &Pod, is_failed: bool) -> bool {
    if meta::is_deleting(&sync.job) || sync.finished.is_some() || pod::phase(pod) == "Succeeded" {
        return true;
    }
    let delayed = index_of(pod).and_then(|index| sync.delayed.get(&index));
    is_failed && delayed.is_none_or(|delayed| meta::uid(&**delayed) != meta::uid(pod))
}

/// Puts the coming end into the status, before the end itself.
fn announce(sync: &mut Sync<'_>) {
    let Some(finished) = sync.finished.clone() else { return };
    let end = match &*finished.type_ {
        FAILURE_TARGET => "Failed",
        SUCCESS_MET => "Complete",
        _ => return,
    };
    let type_ = finished.type_.clone();
    let conditions = sync.conditions();
    if !conditions.iter().any(|condition| condition.type_ == type_ && condition.status == "True") {
        conditions.push(finished.clone());
    }
    let reason = finished.reason.unwrap_or_default();
    sync.finished = Some(condition(end, "True", &reason, finished.message.unwrap_or_default(), sync.now));
}

/// Puts the end into the status once all Pods are counted and gone: `enactJobFinished`.
fn finish(sync: &mut Sync<'_>) -> bool {
    let Some(finished) = sync.finished.clone() else { return false };
    let status = sync.job.status.clone().unwrap_or_default();
    let uncounted = status.uncounted_terminated_pods.unwrap_or_default();
    if uncounted.succeeded.is_some() || uncounted.failed.is_some() || sync.terminating > 0 {
        return false;
    }
    if finished.type_ == "Complete" {
        sync.job.status.get_or_insert_default().completion_time.clone_from(&finished.last_transition_time);
    }
    ensure(sync.conditions(), finished);
    true
}

fn report(sync: &Sync<'_>) {
    let Some(finished) = &sync.finished else { return };
    if finished.type_ == "Complete" {
        let succeeded = sync.job.status.as_ref().and_then(|status| status.succeeded).unwrap_or_default();
        if sync.spec.completions.is_some_and(|completions| succeeded > completions) {
            let note = "Too many succeeded pods running after completion count reached".to_owned();
            sync.event(EventType::Warning, "TooManySucceededPods", note);
        }
        sync.event(EventType::Normal, "Completed", "Job completed".to_owned());
    } else {
        let (reason, message) = (finished.reason.clone().unwrap_or_default(), finished.message.clone());
        sync.event(EventType::Warning, &reason, message.unwrap_or_default());
    }
}

/// Writes the status if it differs from what the server has.
async fn flush(sync: &mut Sync<'_>) -> Result<(), Error> {
    let status = sync.job.status.get_or_insert_default();
    status.conditions = status.conditions.take().filter(|conditions| !conditions.is_empty());
    if sync.stored == sync.job.status {
        return Ok(());
    }
    sync.job = sync.context.updated_status(sync.key, &sync.job).await?;
    sync.stored.clone_from(&sync.job.status);
    Ok(())
}
