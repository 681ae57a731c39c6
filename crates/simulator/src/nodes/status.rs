//! Status of Nodes: what their kubelets report, and what the node controller makes of silence.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, NodeCondition, Taint};

use crate::meta;

/// Silence that the node controller waits for: `--node-monitor-grace-period`.
const GRACE: Duration = Duration::from_secs(50);
/// How often kubelets renew their leases.
const RENEW: i64 = 10;
/// How often the node controller looks: `--node-monitor-period`.
const MONITOR: i64 = 5;
/// The Node reports that it is not ready.
pub(super) const NOT_READY: &str = "node.kubernetes.io/not-ready";
/// The Node is silent.
pub(super) const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
/// The Node is cordoned.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// Conditions that make a taint, with the status that does.
const TAINTS: [(&str, &str, &str); 6] = [
    ("Ready", "False", NOT_READY),
    ("Ready", "Unknown", UNREACHABLE),
    ("MemoryPressure", "True", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    ("NetworkUnavailable", "True", "node.kubernetes.io/network-unavailable"),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
];

/// What a healthy kubelet reports.
const HEALTHY: [(&str, &str, &str, &str); 4] = [
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
];

/// The conditions of a healthy Node, with the times of those that do not change.
pub(super) fn healthy(before: &[NodeCondition], now: Timestamp) -> Vec<NodeCondition> {
    let mut conditions = before.to_vec();
    for (type_, status, reason, message) in HEALTHY {
        let old = before.iter().find(|condition| condition.type_ == type_);
        let since = old.filter(|old| old.status == status).and_then(|old| old.last_transition_time.clone());
        let new = NodeCondition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            last_heartbeat_time: Some(meta::time(now)),
            last_transition_time: Some(since.unwrap_or_else(|| meta::time(now))),
        };
        match conditions.iter_mut().find(|condition| condition.type_ == type_) {
            Some(place) => *place = new,
            None => conditions.push(new),
        }
    }
    conditions
}

/// The conditions of a Node that has fallen silent: `tryUpdateNodeHealth`.
pub(super) fn silent(before: &[NodeCondition], now: Timestamp) -> Vec<NodeCondition> {
    let mut conditions = before.to_vec();
    for (type_, ..) in HEALTHY {
        let unknown = |condition: &mut NodeCondition| {
            condition.status = "Unknown".to_owned();
            condition.reason = Some("NodeStatusUnknown".to_owned());
            condition.message = Some("Kubelet stopped posting node status.".to_owned());
            condition.last_transition_time = Some(meta::time(now));
        };
        match conditions.iter_mut().find(|condition| condition.type_ == type_) {
            Some(condition) if condition.status != "Unknown" => unknown(condition),
            Some(_) => {}
            None => {
                let mut new = NodeCondition { type_: type_.to_owned(), ..NodeCondition::default() };
                unknown(&mut new);
                conditions.push(new);
            }
        }
    }
    conditions
}

/// The status of the condition Ready: empty without one.
pub(super) fn ready(node: &Node) -> &str {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    let ready = conditions.into_iter().flatten().find(|condition| condition.type_ == "Ready");
    ready.map(|condition| condition.status.as_str()).unwrap_or_default()
}

/// When a kubelet that falls silent has renewed its lease for the last time.
pub(super) fn last_renewal(begin: Timestamp, dies: Duration) -> Timestamp {
    let seconds = i64::try_from(dies.as_secs()).unwrap_or(i64::MAX / 2);
    begin + SignedDuration::from_secs(seconds - seconds % RENEW)
}

/// When the node controller notices that a kubelet is silent: at the first look after the grace period.
pub(super) fn noticed(begin: Timestamp, last_renewal: Timestamp) -> Timestamp {
    let silent = begin.duration_until(last_renewal) + SignedDuration::try_from(GRACE).unwrap_or_default();
    let seconds = silent.as_secs();
    begin + SignedDuration::from_secs(seconds - seconds.rem_euclid(MONITOR) + MONITOR)
}

/// The taints that a Node should have: those of others, and those of its conditions. `evicts` adds what evicts Pods.
pub(super) fn taints(node: &Node, evicts: bool, now: Timestamp) -> Vec<Taint> {
    let spec = node.spec.as_ref();
    let before = spec.and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    let has = |type_: &str, status: &str| {
        conditions.is_some_and(|all| all.iter().any(|one| one.type_ == type_ && one.status == status))
    };
    let mut wanted: Vec<(&str, &str)> = TAINTS
        .iter()
        .filter(|(type_, status, _)| has(type_, status))
        .map(|(_, _, key)| (*key, "NoSchedule"))
        .collect();
    if spec.and_then(|spec| spec.unschedulable) == Some(true) {
        wanted.push((UNSCHEDULABLE, "NoSchedule"));
    }
    if evicts {
        match ready(node) {
            "False" => wanted.push((NOT_READY, "NoExecute")),
            "Unknown" => wanted.push((UNREACHABLE, "NoExecute")),
            _ => {}
        }
    }
    let is_managed = |taint: &Taint| match taint.effect.as_str() {
        "NoSchedule" => taint.key == UNSCHEDULABLE || TAINTS.iter().any(|(_, _, key)| *key == taint.key),
        "NoExecute" => matches!(taint.key.as_str(), NOT_READY | UNREACHABLE),
        _ => false,
    };
    let is_wanted =
        |taint: &Taint| wanted.iter().any(|(key, effect)| *key == taint.key && *effect == taint.effect);
    let mut taints: Vec<Taint> =
        before.iter().filter(|taint| !is_managed(taint) || is_wanted(taint)).cloned().collect();
    for (key, effect) in wanted {
        if !taints.iter().any(|taint| taint.key == key && taint.effect == effect) {
            let (key, effect) = (key.to_owned(), effect.to_owned());
            taints.push(Taint { key, effect, value: None, time_added: Some(meta::time(now)) });
        }
    }
    taints
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn silence_is_noticed_after_the_grace_period() {
        let begin = Timestamp::UNIX_EPOCH;
        let noticed = |dies: u64| {
            let last = last_renewal(begin, Duration::from_secs(dies));
            (last.as_second(), noticed(begin, last).as_second())
        };
        assert_eq!(noticed(60), (60, 115));
        assert_eq!(noticed(69), (60, 115));
    }

    #[test]
    fn taints_follow_conditions_and_others_stay() {
        let now = Timestamp::UNIX_EPOCH;
        let node = |ready: &str, taints: serde_json::Value, unschedulable: bool| -> Node {
            let conditions = json!([{"type": "Ready", "status": ready}]);
            let node = json!({"spec": {"taints": taints, "unschedulable": unschedulable}, "status": {"conditions": conditions}});
            serde_json::from_value(node).expect("a Node")
        };
        let names = |node: &Node, evicts: bool| {
            let all = taints(node, evicts, now).into_iter();
            all.map(|taint| format!("{}:{}", taint.key.rsplit('/').next().unwrap_or_default(), taint.effect))
                .collect::<Vec<_>>()
        };
        let own = json!([{"key": "gpu", "effect": "NoSchedule"}]);
        assert_eq!(names(&node("True", own.clone(), false), true), ["gpu:NoSchedule"]);
        assert_eq!(
            names(&node("Unknown", own.clone(), false), true),
            ["gpu:NoSchedule", "unreachable:NoSchedule", "unreachable:NoExecute"]
        );
        assert_eq!(names(&node("Unknown", own, false), false), ["gpu:NoSchedule", "unreachable:NoSchedule"]);
        let old =
            json!([{"key": NOT_READY, "effect": "NoExecute"}, {"key": NOT_READY, "effect": "NoSchedule"}]);
        assert_eq!(names(&node("True", old, true), true), ["unschedulable:NoSchedule"]);
    }

    #[test]
    fn times_change_with_the_status_only() {
        let first = healthy(&[], Timestamp::UNIX_EPOCH);
        let later = Timestamp::UNIX_EPOCH + SignedDuration::from_secs(60);
        let again = healthy(&first, later);
        assert_eq!(again[3].last_transition_time, first[3].last_transition_time);
        let lost = silent(&again, later);
        assert_eq!(
            (lost[3].status.as_str(), lost[3].last_transition_time.clone()),
            ("Unknown", Some(meta::time(later)))
        );
        assert_eq!(silent(&lost, later + SignedDuration::from_secs(1)), lost);
    }
}
