//! Conditions of rollouts.

use serde_json::{Value, json};

use super::*;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_767_225_600 + seconds).expect("a time")
}

fn deployment(status: Value) -> Deployment {
    let deployment = json!({
        "metadata": {"name": "web", "generation": 3},
        "spec": {
            "replicas": 4, "selector": {}, "template": {}, "progressDeadlineSeconds": 60,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}},
        },
        "status": status,
    });
    serde_json::from_value(deployment).expect("a Deployment")
}

fn set_of(name: &str, wanted: i32, status: Value) -> Arc<ReplicaSet> {
    let set =
        json!({"metadata": {"name": name}, "spec": {"replicas": wanted, "selector": {}}, "status": status});
    Arc::new(serde_json::from_value(set).expect("a ReplicaSet"))
}

fn conditions(status: &DeploymentStatus) -> Vec<String> {
    let text = |condition: &DeploymentCondition| {
        let reason = condition.reason.as_deref().unwrap_or_default();
        let message = condition.message.as_deref().unwrap_or_default();
        format!("{}={} {reason}: {message}", condition.type_, condition.status)
    };
    status.conditions.iter().flatten().map(text).collect()
}

fn progressing(reason: &str, updated: i64) -> Value {
    json!([{
        "type": "Progressing", "status": "True", "reason": reason, "message": "",
        "lastUpdateTime": at(updated).to_string(), "lastTransitionTime": at(0).to_string(),
    }])
}

#[test]
fn a_rollout_progresses_and_its_last_update_changes() {
    let deployment = deployment(
        json!({"replicas": 1, "updatedReplicas": 1, "conditions": progressing("ReplicaSetUpdated", 0)}),
    );
    let new = set_of(
        "web-a",
        4,
        json!({"replicas": 4, "readyReplicas": 1, "availableReplicas": 1, "terminatingReplicas": 0}),
    );
    let status = rollout(&deployment, &[&new], Some(&new), at(30));
    assert_eq!(
        conditions(&status),
        [
            "Available=False MinimumReplicasUnavailable: Deployment does not have minimum availability.",
            "Progressing=True ReplicaSetUpdated: ReplicaSet \"web-a\" is progressing.",
        ]
    );
    let last = status.conditions.as_ref().and_then(|conditions| conditions.last()).expect("a condition");
    assert_eq!(last.last_update_time.as_ref().map(|time| time.0), Some(at(30)));
    assert_eq!(last.last_transition_time.as_ref().map(|time| time.0), Some(at(0)));
    assert_eq!((status.unavailable_replicas, status.terminating_replicas), (Some(3), Some(0)));
}

#[test]
fn a_rollout_that_stands_still_times_out_after_its_deadline() {
    let replicas = json!({"replicas": 4, "terminatingReplicas": 0});
    let before =
        json!({"replicas": 4, "updatedReplicas": 4, "conditions": progressing("ReplicaSetUpdated", 10)});
    let new = set_of("web-a", 4, replicas);
    let reason = |now| {
        let status = rollout(&deployment(before.clone()), &[&new], Some(&new), at(now));
        let all = status.conditions.unwrap_or_default();
        all.iter()
            .find(|condition| condition.type_ == PROGRESSING)
            .and_then(|condition| condition.reason.clone())
    };
    assert_eq!(reason(70).as_deref(), Some("ReplicaSetUpdated"));
    assert_eq!(reason(71).as_deref(), Some("ProgressDeadlineExceeded"));
}

#[test]
fn a_complete_rollout_says_so() {
    let deployment = deployment(json!({"conditions": progressing("ReplicaSetUpdated", 0)}));
    let new = set_of(
        "web-a",
        4,
        json!({"replicas": 4, "readyReplicas": 4, "availableReplicas": 4, "terminatingReplicas": 1}),
    );
    let status = rollout(&deployment, &[&new], Some(&new), at(5));
    assert_eq!(
        conditions(&status),
        [
            "Available=True MinimumReplicasAvailable: Deployment has minimum availability.",
            "Progressing=True NewReplicaSetAvailable: ReplicaSet \"web-a\" has successfully progressed.",
        ]
    );
    assert_eq!((status.unavailable_replicas, status.terminating_replicas), (None, Some(1)));
}

#[test]
fn refusals_of_the_new_replica_set_come_first() {
    let failure = |message: &str| {
        let condition =
            json!({"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": message});
        json!({"replicas": 0, "conditions": [condition]})
    };
    let (old, new) = (set_of("web-a", 1, failure("old")), set_of("web-b", 1, failure("new")));
    let status = rollout(&deployment(json!({})), &[&old, &new], Some(&new), at(5));
    assert!(conditions(&status).contains(&"ReplicaFailure=True FailedCreate: new".to_owned()));
    let status = rollout(&deployment(json!({})), &[&old], None, at(5));
    assert!(conditions(&status).contains(&"ReplicaFailure=True FailedCreate: old".to_owned()));
}
