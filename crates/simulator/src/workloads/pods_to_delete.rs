//! Which Pods go first when there are too many (`ActivePodsWithRanks` upstream).

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;

use crate::meta;
use crate::pod;

/// The annotation that says how costly the deletion of a Pod is.
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// The first `count` Pods to delete. `related` are the Pods of all ReplicaSets of the same owner: of Pods that are alike, those with more of
/// them on their Node go first.
pub(crate) fn pods_to_delete(
    mut pods: Vec<Arc<Pod>>,
    related: &[Arc<Pod>],
    count: usize,
    now: Timestamp,
) -> Vec<Arc<Pod>> {
    if count < pods.len() {
        let mut on_node: HashMap<&str, usize> = HashMap::new();
        for pod in related.iter().filter(|pod| pod::is_active(pod)) {
            *on_node.entry(pod::node_name(pod)).or_default() += 1;
        }
        let rank = |pod: &Pod| on_node.get(pod::node_name(pod)).copied().unwrap_or_default();
        pods.sort_by(|one, other| compare(one, other, (rank(one), rank(other)), now));
    }
    pods.truncate(count);
    pods
}

/// Sorts Pods so that those that serve least come first: `ActivePods`.
pub(crate) fn sort_active(pods: &mut [Arc<Pod>]) {
    // Without a time first, then the latest.
    let latest = |time: Option<Timestamp>| (time.is_some(), std::cmp::Reverse(time));
    pods.sort_by_cached_key(|pod| {
        let ready = pod::is_ready(pod);
        let (regular, sidecars) = restarts(pod);
        let since = latest(pod::ready_since(pod).filter(|_| ready));
        let restarts = std::cmp::Reverse((regular, sidecars));
        (!pod::node_name(pod).is_empty(), phase(pod), ready, since, restarts, latest(created(pod)))
    });
}

fn compare(one: &Pod, other: &Pod, ranks: (usize, usize), now: Timestamp) -> Ordering {
    let is_assigned = |pod: &Pod| !pod::node_name(pod).is_empty();
    let ready = (pod::is_ready(one), pod::is_ready(other));
    is_assigned(one)
        .cmp(&is_assigned(other))
        .then_with(|| phase(one).cmp(&phase(other)))
        .then_with(|| ready.0.cmp(&ready.1))
        .then_with(|| deletion_cost(one).cmp(&deletion_cost(other)))
        .then_with(|| ranks.1.cmp(&ranks.0))
        .then_with(|| match ready {
            (true, true) => newest_first(pod::ready_since(one), pod::ready_since(other), (one, other), now),
            _ => Ordering::Equal,
        })
        .then_with(|| restarts(other).cmp(&restarts(one)))
        .then_with(|| newest_first(created(one), created(other), (one, other), now))
}

fn phase(pod: &Pod) -> u8 {
    match pod::phase(pod) {
        "Unknown" => 1,
        "Running" => 2,
        _ => 0,
    }
}

fn deletion_cost(pod: &Pod) -> i32 {
    // As `GetDeletionCostFromPodAnnotations`: no leading plus sign and no leading zeros.
    let Some(text) = pod.annotations().get(DELETION_COST) else { return 0 };
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_plain = text == "0" || !digits.starts_with(['0', '+']);
    text.parse().ok().filter(|_| is_plain).unwrap_or_default()
}

fn created(pod: &Pod) -> Option<Timestamp> {
    pod.metadata.creation_timestamp.as_ref().map(|time| time.0)
}

/// The most restarts of a container and of a sidecar container.
fn restarts(pod: &Pod) -> (i32, i32) {
    let Some(status) = &pod.status else { return (0, 0) };
    let regular = status.container_statuses.iter().flatten().map(|status| status.restart_count).max();
    let init = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    let sidecars: Vec<&str> = init
        .filter(|container| container.restart_policy.as_deref() == Some("Always"))
        .map(|container| &*container.name)
        .collect();
    let sidecar = status.init_container_statuses.iter().flatten();
    let sidecar =
        sidecar.filter(|status| sidecars.contains(&&*status.name)).map(|status| status.restart_count).max();
    (regular.unwrap_or_default(), sidecar.unwrap_or_default())
}

/// On a logarithmic scale, so that Pods of about the same age go in the order of their UIDs.
fn newest_first(
    one: Option<Timestamp>,
    other: Option<Timestamp>,
    pods: (&Pod, &Pod),
    now: Timestamp,
) -> Ordering {
    match (one, other) {
        (Some(one), Some(other)) if one == other => Ordering::Equal,
        (Some(one), Some(other)) => magnitude(one, now)
            .cmp(&magnitude(other, now))
            .then_with(|| meta::uid(pods.0).cmp(meta::uid(pods.1))),
        (one, other) => one.is_some().cmp(&other.is_some()),
    }
}

fn magnitude(time: Timestamp, now: Timestamp) -> i64 {
    let age = time.duration_until(now).as_nanos();
    if age > 0 { i64::from(age.ilog2()) } else { -1 }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(name: &str, node: &str, phase: &str, ready_at: Option<&str>, more: Value) -> Arc<Pod> {
        let mut pod = json!({
            "metadata": {"name": name, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"containers": []},
            "status": {"phase": phase},
        });
        if !node.is_empty() {
            pod["spec"]["nodeName"] = node.into();
        }
        if let Some(at) = ready_at {
            pod["status"]["conditions"] =
                json!([{"type": "Ready", "status": "True", "lastTransitionTime": at}]);
        }
        settled_patch(&mut pod, more);
        Arc::new(serde_json::from_value(pod).expect("a Pod"))
    }

    fn settled_patch(target: &mut Value, patch: Value) {
        match patch {
            Value::Object(patch) => {
                for (name, value) in patch {
                    settled_patch(&mut target[&name], value);
                }
            }
            Value::Null => {}
            value => *target = value,
        }
    }

    fn order(pods: Vec<Arc<Pod>>) -> String {
        let (related, count) = (pods.clone(), pods.len() - 1);
        let now: Timestamp = "2026-01-01T01:00:00Z".parse().expect("a time");
        let names: Vec<String> =
            pods_to_delete(pods, &related, count, now).iter().map(|pod| pod.name_any()).collect();
        names.join(" ")
    }

    #[test]
    fn pods_that_serve_least_go_first() {
        let early = Some("2026-01-01T00:00:10Z");
        let none = Value::Null;
        let pods = vec![
            pod("ready-alone", "b", "Running", early, none.clone()),
            pod("ready-1", "a", "Running", early, none.clone()),
            pod("ready-2", "a", "Running", early, none.clone()),
            pod("not-ready", "c", "Running", None, none.clone()),
            pod("unknown", "d", "Unknown", None, none.clone()),
            pod("pending", "e", "Pending", None, none.clone()),
            pod("unassigned", "", "Pending", None, none),
            pod("cheap", "f", "Running", early, json!({"metadata": {"annotations": {DELETION_COST: "-5"}}})),
        ];
        assert_eq!(order(pods), "unassigned pending unknown not-ready cheap ready-1 ready-2");
    }

    #[test]
    fn restarts_and_ages_decide_among_equals() {
        let early = Some("2026-01-01T00:00:10Z");
        let restarted = json!({"status": {"containerStatuses": [
            {"name": "a", "image": "", "imageID": "", "ready": true, "restartCount": 3},
        ]}});
        let pods = vec![
            pod("old", "a", "Running", early, Value::Null),
            pod("restarted", "b", "Running", early, restarted),
            pod("new", "c", "Running", Some("2026-01-01T00:59:00Z"), Value::Null),
            pod("last", "d", "Running", early, json!({"metadata": {"annotations": {DELETION_COST: "1"}}})),
        ];
        assert_eq!(order(pods), "new restarted old");
    }

    #[test]
    fn costs_are_plain_numbers() {
        for (text, cost) in
            [("12", 12), ("-3", -3), ("+3", 0), ("03", 0), ("0", 0), ("x", 0), ("2147483648", 0)]
        {
            let pod = pod("a", "", "", None, json!({"metadata": {"annotations": {DELETION_COST: text}}}));
            assert_eq!(deletion_cost(&pod), cost, "{text}");
        }
    }
}
