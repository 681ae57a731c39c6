//! Arithmetic of rollouts: surge, unavailability, proportions (`deployment_util.go` upstream).

use std::cmp::Ordering;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, DeploymentStatus, ReplicaSet};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::meta;
use crate::workloads::int_or_percent::scaled;

/// The label that tells the ReplicaSets of a Deployment apart.
pub(super) const HASH: &str = "pod-template-hash";
/// Annotation of a ReplicaSet: the replicas of its Deployment.
pub(super) const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
/// Annotation of a ReplicaSet: the replicas of its Deployment with the surge.
pub(super) const MAX: &str = "deployment.kubernetes.io/max-replicas";

pub(super) fn is_rolling(deployment: &Deployment) -> bool {
    let strategy = deployment.spec.as_ref().and_then(|spec| spec.strategy.as_ref());
    strategy.and_then(|strategy| strategy.type_.as_deref()) != Some("Recreate")
}

pub(super) fn is_paused(deployment: &Deployment) -> bool {
    deployment.spec.as_ref().and_then(|spec| spec.paused) == Some(true)
}

pub(super) fn replicas(deployment: &Deployment) -> i32 {
    deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
}

/// The number that is asked of a ReplicaSet.
pub(super) fn wanted(set: &ReplicaSet) -> i32 {
    set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
}

pub(super) fn available(set: &ReplicaSet) -> i32 {
    set.status.as_ref().and_then(|status| status.available_replicas).unwrap_or_default()
}

pub(super) fn actual(set: &ReplicaSet) -> i32 {
    set.status.as_ref().map(|status| status.replicas).unwrap_or_default()
}

pub(super) fn total<'s>(
    sets: impl IntoIterator<Item = &'s Arc<ReplicaSet>>,
    of: fn(&ReplicaSet) -> i32,
) -> i32 {
    sets.into_iter().map(|set| of(set)).sum()
}

/// A deadline for progress, unless there is none.
pub(super) fn progress_deadline(deployment: &Deployment) -> Option<i32> {
    deployment.spec.as_ref()?.progress_deadline_seconds.filter(|seconds| *seconds != i32::MAX)
}

pub(super) fn history_limit(deployment: &Deployment) -> Option<i32> {
    deployment.spec.as_ref()?.revision_history_limit.filter(|limit| *limit != i32::MAX)
}

/// `ResolveFenceposts`: surge rounded up, unavailable rounded down, and not both zero.
fn fenceposts(spec: &DeploymentSpec) -> (i32, i32) {
    let rolling = spec.strategy.as_ref().and_then(|strategy| strategy.rolling_update.as_ref());
    let desired = spec.replicas.unwrap_or(1);
    let of = |value: Option<&IntOrString>, up: bool| value.map_or(0, |value| scaled(value, desired, up));
    let surge = of(rolling.and_then(|rolling| rolling.max_surge.as_ref()), true);
    let unavailable = of(rolling.and_then(|rolling| rolling.max_unavailable.as_ref()), false);
    if surge == 0 && unavailable == 0 { (0, 1) } else { (surge, unavailable) }
}

pub(super) fn max_surge(deployment: &Deployment) -> i32 {
    deployment.spec.as_ref().filter(|_| is_rolling(deployment)).map_or(0, |spec| fenceposts(spec).0)
}

pub(super) fn max_unavailable(deployment: &Deployment) -> i32 {
    let rolling = deployment.spec.as_ref().filter(|_| is_rolling(deployment) && replicas(deployment) != 0);
    rolling.map_or(0, |spec| fenceposts(spec).1.min(replicas(deployment)))
}

/// How many replicas the new ReplicaSet may have now: `NewRSNewReplicas`. `all` is what is asked of all of them, with the new one.
pub(super) fn new_replicas(deployment: &Deployment, all: i32, new: i32) -> i32 {
    let desired = replicas(deployment);
    if !is_rolling(deployment) {
        return desired;
    }
    let rolling = deployment.spec.as_ref().and_then(|spec| spec.strategy.as_ref()?.rolling_update.as_ref());
    let surge = rolling
        .and_then(|rolling| rolling.max_surge.as_ref())
        .map_or(0, |surge| scaled(surge, desired, true));
    let max = desired + surge;
    if all >= max { new } else { new + (max - all).min(desired - new) }
}

/// The share of a ReplicaSet when a Deployment is scaled during a rollout: `GetReplicaSetProportion`.
pub(super) fn proportion(set: &ReplicaSet, deployment: &Deployment, to_add: i32, added: i32) -> i32 {
    if wanted(set) == 0 || to_add == 0 || to_add == added {
        return 0;
    }
    let (share, allowed) = (share(set, deployment), to_add - added);
    if to_add > 0 { share.min(allowed) } else { share.max(allowed) }
}

fn share(set: &ReplicaSet, deployment: &Deployment) -> i32 {
    if replicas(deployment) == 0 {
        return -wanted(set);
    }
    let max = i64::from(replicas(deployment)) + i64::from(max_surge(deployment));
    let before = match replicas_annotation(set, MAX) {
        None | Some(0) => deployment.status.as_ref().and_then(|status| status.replicas).unwrap_or_default(),
        Some(before) => before,
    };
    if before == 0 {
        return 0;
    }
    // `RoundToInt32`: to the nearest, halves away from zero. All numbers are positive here.
    let (numerator, before) = (i64::from(wanted(set)) * max, i64::from(before));
    let rounded = (2 * numerator + before) / (2 * before);
    i32::try_from(rounded).unwrap_or(i32::MAX) - wanted(set)
}

/// A number in an annotation of a ReplicaSet.
pub(super) fn replicas_annotation(set: &ReplicaSet, name: &str) -> Option<i32> {
    let text = set.metadata.annotations.as_ref()?.get(name)?;
    text.parse().ok().filter(|number: &i32| *number >= 0 && !text.starts_with('+'))
}

/// The templates, but for the hash in the labels: `EqualIgnoreHash`.
pub(super) fn is_same_template(one: &PodTemplateSpec, other: &PodTemplateSpec) -> bool {
    if one.spec != other.spec {
        return false;
    }
    let without_hash = |template: &PodTemplateSpec| {
        let mut metadata = template.metadata.clone().unwrap_or_default();
        if let Some(labels) = &mut metadata.labels {
            labels.remove(HASH);
        }
        metadata.labels = metadata.labels.filter(|labels| !labels.is_empty());
        metadata.annotations = metadata.annotations.filter(|annotations| !annotations.is_empty());
        metadata
    };
    without_hash(one) == without_hash(other)
}

/// The ReplicaSet of the present template: the oldest one.
pub(super) fn find_new<'s>(
    deployment: &Deployment,
    sets: &'s [Arc<ReplicaSet>],
) -> Option<&'s Arc<ReplicaSet>> {
    let template = &deployment.spec.as_ref()?.template;
    sets.iter().find(|set| {
        let its = set.spec.as_ref().and_then(|spec| spec.template.as_ref());
        its.is_some_and(|its| is_same_template(its, template))
    })
}

/// Is the rollout complete? `DeploymentComplete`.
pub(super) fn is_complete(deployment: &Deployment, status: &DeploymentStatus) -> bool {
    let desired = replicas(deployment);
    status.updated_replicas.unwrap_or_default() == desired
        && status.replicas.unwrap_or_default() == desired
        && status.available_replicas.unwrap_or_default() == desired
        && status.observed_generation.unwrap_or_default()
            >= deployment.metadata.generation.unwrap_or_default()
}

/// `IsSaturated`: the new ReplicaSet has all replicas, and they are available.
pub(super) fn is_saturated(deployment: &Deployment, set: &ReplicaSet) -> bool {
    let desired = replicas(deployment);
    wanted(set) == desired && replicas_annotation(set, DESIRED) == Some(desired) && available(set) == desired
}

pub(super) fn by_creation(one: &ReplicaSet, other: &ReplicaSet) -> Ordering {
    let created = |set: &ReplicaSet| set.metadata.creation_timestamp.as_ref().map(|time| time.0);
    created(one).cmp(&created(other)).then_with(|| meta::name(one).cmp(meta::name(other)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn deployment(replicas: i32, surge: serde_json::Value, unavailable: serde_json::Value) -> Deployment {
        let deployment = json!({"spec": {
            "replicas": replicas,
            "selector": {},
            "template": {},
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable},
            },
        }});
        serde_json::from_value(deployment).expect("a Deployment")
    }

    fn set(wanted: i32, max: &str) -> ReplicaSet {
        let set =
            json!({"metadata": {"annotations": {MAX: max}}, "spec": {"replicas": wanted, "selector": {}}});
        serde_json::from_value(set).expect("a ReplicaSet")
    }

    #[test]
    fn surge_rounds_up_and_unavailable_rounds_down() {
        for (replicas, surge, unavailable, expected) in [
            (10, json!("25%"), json!("25%"), (3, 2)),
            (1, json!("25%"), json!("25%"), (1, 0)),
            (3, json!(0), json!("10%"), (0, 1)),
            (4, json!(2), json!(8), (2, 4)),
            (0, json!("25%"), json!("25%"), (0, 0)),
        ] {
            let deployment = deployment(replicas, surge.clone(), unavailable.clone());
            let found = (max_surge(&deployment), max_unavailable(&deployment));
            assert_eq!(found, expected, "{replicas} {surge} {unavailable}");
        }
    }

    #[test]
    fn the_new_replica_set_fills_the_surge() {
        // TestNewRSNewReplicas: a new set without replicas beside one of 10 with a surge of 2; and one that is complete.
        let rolling = deployment(10, json!(2), json!(0));
        assert_eq!(new_replicas(&rolling, 10, 0), 2);
        assert_eq!(new_replicas(&rolling, 12, 2), 2);
        assert_eq!(new_replicas(&rolling, 10, 9), 10);
        assert_eq!(new_replicas(&rolling, 0, 0), 10);
    }

    #[test]
    fn scaling_during_a_rollout_is_proportional() {
        // From 10 (max 12) to 20: a ReplicaSet of 8 gets 8 * 22 / 12 = 14.67, one of 4 gets 7.33.
        let scaled_up = deployment(20, json!(2), json!(0));
        assert_eq!(proportion(&set(8, "12"), &scaled_up, 10, 0), 7);
        assert_eq!(proportion(&set(4, "12"), &scaled_up, 10, 7), 3);
        assert_eq!(proportion(&set(4, "12"), &scaled_up, 10, 9), 1);
        assert_eq!(proportion(&set(8, "12"), &deployment(0, json!(2), json!(0)), -12, 0), -8);
    }
}
