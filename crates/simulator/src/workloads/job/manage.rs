//! Pods that a Job creates and deletes (`manageJob` upstream).

use std::sync::Arc;

use futures::future::join_all;
use k8s_openapi::api::core::v1::{
    Container, EnvVar, EnvVarSource, ObjectFieldSelector, Pod, PodTemplateSpec,
};

use super::indexes::{FAILURES, IGNORED_FAILURES, INDEX, index_failures, index_of, indexes_of};
use super::policy::{self, Failures, Verdict};
use super::sync::Sync;
use super::{TRACKING, is_tracked, untrack};
use crate::controller::Error;
use crate::meta;
use crate::pod;
use crate::workloads::pod_control::{self, BURST, slow_start};
use crate::workloads::pods_to_delete::sort_active;

/// The longest prefix of a generated name.
const MAX_PREFIX: usize = 58;

/// What was deleted.
pub(super) struct Deleted {
    pub(super) count: i32,
    pub(super) ready: i32,
    pub(super) result: Result<(), Error>,
}

/// Deletes all active Pods of a Job that is finished. Their finalizers stay until they are counted.
pub(super) async fn delete_active(sync: &Sync<'_>) -> Deleted {
    delete(sync, &sync.active, false).await
}

async fn delete(sync: &Sync<'_>, pods: &[Arc<Pod>], untracked: bool) -> Deleted {
    let results = join_all(pods.iter().map(|pod| async move {
        if untracked && is_tracked(pod) {
            untrack(sync.context, sync.key, pod).await?;
        }
        pod_control::delete(sync.context, sync.key, &sync.job, pod).await.map_err(Error::from)
    }));
    let mut deleted = Deleted { count: 0, ready: 0, result: Ok(()) };
    for (pod, result) in pods.iter().zip(results.await) {
        match result {
            Ok(()) => {
                deleted.count += 1;
                deleted.ready += i32::from(pod::is_ready(pod));
            }
            Err(error) => deleted.result = deleted.result.and(Err(error)),
        }
    }
    deleted
}

/// Creates and deletes Pods: how many are active then.
pub(super) async fn run(sync: &mut Sync<'_>) -> (i32, Result<(), Error>) {
    let active = meta::count(sync.active.len());
    let wanted = match sync.spec.completions {
        _ if sync.is_suspended() => 0,
        None if sync.succeeded > 0 => active,
        None => sync.spec.parallelism.unwrap_or(1),
        Some(completions) => (completions - sync.succeeded).min(sync.spec.parallelism.unwrap_or(1)).max(0),
    };
    let mut excess = to_remove(sync, usize::try_from(active - wanted).unwrap_or_default());
    excess.truncate(BURST);
    if !excess.is_empty() {
        let deleted = delete(sync, &excess, true).await;
        sync.terminating += deleted.count;
        sync.ready -= deleted.ready;
        // Their finalizers are gone, so they are not counted in this reconcile, either.
        sync.pods.retain(|pod| !excess.iter().any(|gone| meta::uid(&**gone) == meta::uid(&**pod)));
        return (active - deleted.count, deleted.result);
    }
    if sync.is_suspended() {
        return (active, Ok(()));
    }
    let terminating = if policy::replaces_only_failed(&sync.job) { sync.terminating } else { 0 };
    let missing = usize::try_from(wanted - terminating - active).unwrap_or_default().min(BURST);
    if missing == 0 {
        return (active, Ok(()));
    }
    if sync.spec.backoff_limit_per_index.is_none()
        && let Some(wait) = sync.failures.remaining(sync.now)
    {
        sync.requeue(wait);
        return (active, Ok(()));
    }
    let indexes = match sync.is_indexed() {
        true => indexes_to_add(sync, missing),
        false => Vec::new(),
    };
    let count = if sync.is_indexed() { indexes.len() } else { missing };
    let mut template = sync.spec.template.clone();
    let finalizers = template.metadata.get_or_insert_default().finalizers.get_or_insert_default();
    if !finalizers.iter().any(|finalizer| finalizer == TRACKING) {
        finalizers.push(TRACKING.to_owned());
    }
    let sync = &*sync;
    let create = |place: usize| {
        let index = indexes.get(place).copied();
        let pod = new_pod(sync, &template, index);
        async move { pod_control::create_pod(sync.context, sync.key, &sync.job, &pod).await }
    };
    let (created, result) = slow_start(count, create).await;
    (active + meta::count(created), result.map_err(Error::from))
}

/// The Pods to delete: duplicates of an index and those beyond the completions, then those that serve least.
fn to_remove(sync: &Sync<'_>, at_least: usize) -> Vec<Arc<Pod>> {
    let mut left = sync.active.clone();
    let mut remove = Vec::new();
    if sync.is_indexed() {
        sort_active(&mut left);
        let mut seen = std::collections::BTreeSet::new();
        // Of several Pods with the same index, the one that serves most stays: the last one.
        let (stay, go): (Vec<_>, Vec<_>) = left.into_iter().rev().partition(|pod| {
            index_of(pod).is_some_and(|index| index < sync.completions() && seen.insert(index))
        });
        remove = go;
        left = stay;
    }
    if remove.len() < at_least {
        sort_active(&mut left);
        remove.extend(left.into_iter().take(at_least - remove.len()));
    }
    remove
}

/// The first indexes without a Pod, as far as their backoff is over.
fn indexes_to_add(sync: &mut Sync<'_>, count: usize) -> Vec<i32> {
    let mut present = indexes_of(sync.active.iter().map(|pod| &**pod));
    if policy::replaces_only_failed(&sync.job) {
        let terminating = sync.pods.iter().map(|pod| &**pod).filter(|pod| pod::is_terminating(pod));
        present.extend(indexes_of(terminating));
    }
    let mut taken = sync.succeeded_indexes.with(present);
    if let Some(failed) = &sync.failed_indexes {
        taken = taken.merge(failed);
    }
    let missing = taken.first_missing(count, sync.completions());
    if sync.spec.backoff_limit_per_index.is_none() {
        return missing;
    }
    let wait = |index: &i32| {
        let pod = sync.delayed.get(index)?;
        let (counted, ignored) = index_failures(pod);
        Failures { count: counted + ignored + 1, last: policy::finished_at(pod) }.remaining(sync.now)
    };
    let now: Vec<i32> = missing.iter().copied().filter(|index| wait(index).is_none()).collect();
    let next = missing.iter().filter_map(wait).min();
    if let Some(next) = next.filter(|_| now.is_empty()) {
        sync.requeue(next);
    }
    now
}

fn new_pod(sync: &Sync<'_>, template: &PodTemplateSpec, index: Option<i32>) -> Pod {
    let name = &*sync.key.name;
    let mut pod = pod::from_template(template, &sync.job, &pod::name_prefix(name));
    let Some(index) = index else { return pod };
    let text = index.to_string();
    pod.metadata.generate_name = Some(index_prefix(name, index));
    pod.metadata.labels.get_or_insert_default().insert(INDEX.to_owned(), text.clone());
    let annotations = pod.metadata.annotations.get_or_insert_default();
    annotations.insert(INDEX.to_owned(), text);
    if sync.spec.backoff_limit_per_index.is_some() {
        let (mut counted, mut ignored) = (0, 0);
        if let Some(failed) = sync.delayed.get(&index) {
            (counted, ignored) = index_failures(failed);
            match sync.verdict(failed) {
                Verdict::Ignore => ignored += 1,
                _ => counted += 1,
            }
        }
        annotations.insert(FAILURES.to_owned(), counted.to_string());
        if ignored > 0 {
            annotations.insert(IGNORED_FAILURES.to_owned(), ignored.to_string());
        }
    }
    let spec = pod.spec.get_or_insert_default();
    spec.hostname = Some(format!("{name}-{index}"));
    for container in spec.init_containers.iter_mut().flatten().chain(&mut spec.containers) {
        add_index_variable(container);
    }
    pod
}

/// `job-3-`; a name that is too long is cut before the index.
fn index_prefix(name: &str, index: i32) -> String {
    let suffix = format!("-{index}-");
    let longest = MAX_PREFIX - suffix.len();
    let kept = if name.len() > longest { name.get(..longest).unwrap_or(name) } else { name };
    format!("{kept}{suffix}")
}

fn add_index_variable(container: &mut Container) {
    const NAME: &str = "JOB_COMPLETION_INDEX";
    let variables = container.env.get_or_insert_default();
    if variables.iter().any(|variable| variable.name == NAME) {
        return;
    }
    let field = ObjectFieldSelector {
        field_path: format!("metadata.labels['{INDEX}']"),
        ..ObjectFieldSelector::default()
    };
    variables.push(EnvVar {
        name: NAME.to_owned(),
        value_from: Some(EnvVarSource { field_ref: Some(field), ..EnvVarSource::default() }),
        ..EnvVar::default()
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cut_before_the_index() {
        assert_eq!(index_prefix("job", 12), "job-12-");
        let long = index_prefix(&"a".repeat(60), 3);
        assert_eq!((long.len(), long.ends_with("a-3-")), (58, true));
    }
}
