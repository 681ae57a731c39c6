//! Revisions of a Deployment, in annotations of it and of its ReplicaSets.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use kube::Resource;

use super::strategy::{self, DESIRED, MAX};

/// The number of a revision.
pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
/// The numbers that a revision had before, separated by commas.
const HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// The revision to roll back to, of extensions/v1beta1.
pub(super) const ROLLBACK_TO: &str = "deprecated.deployment.rollback.to";
/// The longest history.
const MAX_HISTORY: usize = 2000;

/// Annotations that a ReplicaSet does not get from its Deployment.
pub(super) fn is_skipped(annotation: &str) -> bool {
    let last_applied = "kubectl.kubernetes.io/last-applied-configuration";
    [last_applied, REVISION, HISTORY, DESIRED, MAX, ROLLBACK_TO].contains(&annotation)
}

/// The revision of an object; none if it has another text.
pub(super) fn of(object: &impl Resource) -> Option<i64> {
    match object.meta().annotations.as_ref().and_then(|annotations| annotations.get(REVISION)) {
        None => Some(0),
        Some(text) => text.parse().ok(),
    }
}

/// The greatest revision.
pub(super) fn max(sets: &[Arc<ReplicaSet>]) -> i64 {
    sets.iter().filter_map(|set| of(&**set)).max().unwrap_or_default().max(0)
}

/// The greatest revision but one: what `kubectl rollout undo` goes to.
pub(super) fn last(sets: &[Arc<ReplicaSet>]) -> i64 {
    let mut revisions: Vec<i64> = sets.iter().filter_map(|set| of(&**set)).chain([0, 0]).collect();
    revisions.sort_unstable();
    revisions[revisions.len() - 2]
}

/// The annotations of the new ReplicaSet with this revision: `SetNewReplicaSetAnnotations`.
pub(super) fn annotate(
    deployment: &Deployment,
    annotations: &BTreeMap<String, String>,
    revision: i64,
    exists: bool,
) -> BTreeMap<String, String> {
    let mut new = annotations.clone();
    for (key, value) in deployment.metadata.annotations.iter().flatten().filter(|(key, _)| !is_skipped(key)) {
        new.insert(key.clone(), value.clone());
    }
    let old = annotations.get(REVISION);
    let number = match old.map(|old| old.parse::<i64>()) {
        None => 0,
        Some(Ok(number)) => number,
        Some(Err(_)) if old.is_some_and(String::is_empty) => 0,
        // A revision that is no number: upstream changes nothing, either.
        Some(Err(_)) => return annotations.clone(),
    };
    if number < revision {
        new.insert(REVISION.to_owned(), revision.to_string());
        if let Some(history) =
            old.and_then(|old| add(annotations.get(HISTORY).map_or("", String::as_str), old))
        {
            new.insert(HISTORY.to_owned(), history);
        }
    }
    if !exists {
        let desired = strategy::replicas(deployment);
        new.insert(DESIRED.to_owned(), desired.to_string());
        new.insert(MAX.to_owned(), (desired + strategy::max_surge(deployment)).to_string());
    }
    new
}

/// The history with one more revision; the oldest ones go when it gets too long.
fn add(history: &str, revision: &str) -> Option<String> {
    if history.is_empty() {
        return Some(revision.to_owned());
    }
    let mut kept = history;
    while kept.len() + revision.len() + 1 > MAX_HISTORY {
        kept = kept.split_once(',').map_or("", |(_, rest)| rest);
        if kept.is_empty() {
            return (revision.len() <= MAX_HISTORY).then(|| revision.to_owned());
        }
    }
    Some(format!("{kept},{revision}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn deployment() -> Deployment {
        let deployment = json!({
            "metadata": {"annotations": {"team": "a", "kubectl.kubernetes.io/last-applied-configuration": "{}"}},
            "spec": {"replicas": 4, "selector": {}, "template": {},
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}},
        });
        serde_json::from_value(deployment).expect("a Deployment")
    }

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_new_replica_set_has_its_revision_and_replicas() {
        let expected = map(&[("team", "a"), (REVISION, "3"), (DESIRED, "4"), (MAX, "5")]);
        assert_eq!(annotate(&deployment(), &BTreeMap::new(), 3, false), expected);
    }

    #[test]
    fn a_revision_that_comes_back_has_a_history() {
        let old = map(&[(REVISION, "1"), (HISTORY, "7"), ("team", "a")]);
        let expected = map(&[(REVISION, "3"), (HISTORY, "7,1"), ("team", "a")]);
        assert_eq!(annotate(&deployment(), &old, 3, true), expected);
        assert_eq!(annotate(&deployment(), &expected, 3, true), expected);
        let broken = map(&[(REVISION, "x")]);
        assert_eq!(annotate(&deployment(), &broken, 3, true), broken);
    }

    #[test]
    fn histories_do_not_grow_without_end() {
        let long = vec!["1000"; 400].join(",");
        assert_eq!(long.len(), 1999);
        let added = add(&long, "2000").expect("a history");
        assert!(added.len() <= MAX_HISTORY && added.ends_with("1000,2000"));
    }
}
