//! Mirrored and aggregated conditions.

use k8s_openapi::api::apps::v1::DeploymentCondition;
use serde_json::{Value, json};
use settled_controller::conditions::{Aggregate, Child, Finding, Status, mirror};

fn finding(status: Status, reason: &str, message: &str) -> Finding {
    Finding::new(status, reason, message)
}

#[test]
fn a_mirrored_condition_is_believed_if_it_is_about_the_latest_generation() {
    use Status::{False, True, Unknown};
    let ready = json!({"type": "Ready", "status": "True", "reason": "Done", "message": "all done"});
    let with = |changes: Value| {
        let mut condition = ready.clone();
        for (name, value) in changes.as_object().unwrap() {
            condition[name] = value.clone();
        }
        condition
    };
    // The condition, generation and observedGeneration of the child.
    let cases = [
        (ready.clone(), None, None, finding(True, "Done", "Job/a: all done")),
        (ready.clone(), Some(2), None, finding(True, "Done", "Job/a: all done")),
        (ready.clone(), Some(2), Some(2), finding(True, "Done", "Job/a: all done")),
        (
            ready.clone(),
            Some(2),
            Some(1),
            finding(Unknown, "Outdated", "Job/a: Ready is about generation 1, the latest is 2"),
        ),
        (with(json!({"observedGeneration": 2})), Some(2), Some(1), finding(True, "Done", "Job/a: all done")),
        (
            with(json!({"observedGeneration": 1})),
            Some(2),
            Some(2),
            finding(Unknown, "Outdated", "Job/a: Ready is about generation 1, the latest is 2"),
        ),
        (
            with(json!({"status": "False", "message": ""})),
            None,
            None,
            finding(False, "Done", "Job/a: Ready is False"),
        ),
        (with(json!({"status": "Maybe"})), None, None, finding(Unknown, "Done", "Job/a: all done")),
        (with(json!({"reason": "not valid"})), None, None, finding(True, "Mirrored", "Job/a: all done")),
        (with(json!({"reason": null})), None, None, finding(True, "Mirrored", "Job/a: all done")),
        (
            with(json!({"type": "Other"})),
            None,
            None,
            finding(Unknown, "NotReported", "Job/a: Ready is not reported yet"),
        ),
    ];
    for (condition, generation, observed, wanted) in cases {
        let text = condition.to_string();
        let child = Child::new("Job/a", &[condition]).generation(generation).observed_generation(observed);
        assert_eq!(mirror(&child, "Ready"), wanted, "{text}");
    }
}

#[test]
fn conditions_of_older_apis_are_mirrored_and_inverted() {
    let available = DeploymentCondition {
        type_: "Available".to_owned(),
        status: "False".to_owned(),
        reason: Some("MinimumReplicasUnavailable".to_owned()),
        message: Some("no replica".to_owned()),
        ..DeploymentCondition::default()
    };
    let found = mirror(&Child::new("Deployment/web", &[available]), "Available");
    assert_eq!(found, finding(Status::False, "MinimumReplicasUnavailable", "Deployment/web: no replica"));
    assert_eq!(found.inverted().status, Status::True);
}

fn pods(statuses: &[(&str, &str, &str)]) -> Vec<Child> {
    let child = |(name, status, reason): &(&str, &str, &str)| {
        let conditions = [json!({"type": "Ready", "status": status, "reason": reason, "message": ""})];
        if status.is_empty() { Child::new(*name, &[Value::Null]) } else { Child::new(*name, &conditions) }
    };
    statuses.iter().map(child).collect()
}

#[test]
fn an_aggregate_counts_all_and_names_a_few() {
    use Status::{False, True, Unknown};
    type Children = &'static [(&'static str, &'static str, &'static str)];
    let cases: [(Children, usize, Finding); 9] = [
        (&[], 0, finding(True, "AsExpected", "0 of 0 Pods have Ready=True")),
        (&[], 2, finding(False, "Missing", "0 of 2 Pods have Ready=True; 2 missing")),
        (
            &[("a", "True", ""), ("b", "True", "")],
            2,
            finding(True, "AsExpected", "2 of 2 Pods have Ready=True"),
        ),
        // More than expected, as in a rolling update.
        (
            &[("a", "True", ""), ("b", "True", "")],
            1,
            finding(True, "AsExpected", "2 of 2 Pods have Ready=True"),
        ),
        (
            &[("b", "False", "Crash"), ("a", "False", "Crash"), ("c", "True", "")],
            0,
            finding(False, "Crash", "1 of 3 Pods have Ready=True; False: a, b"),
        ),
        (
            &[("a", "False", "Crash"), ("b", "False", "Image"), ("c", "Unknown", "Lost")],
            0,
            finding(False, "MultipleReasons", "0 of 3 Pods have Ready=True; False: a, b; Unknown: c"),
        ),
        (
            &[("a", "False", "Crash")],
            2,
            finding(False, "MultipleReasons", "0 of 2 Pods have Ready=True; False: a; 1 missing"),
        ),
        (
            &[("a", "True", ""), ("b", "", "")],
            0,
            finding(Unknown, "NotReported", "1 of 2 Pods have Ready=True; Unknown: b (not reported yet)"),
        ),
        (
            &[("a", "False", "not valid")],
            0,
            finding(False, "MultipleReasons", "0 of 1 Pods have Ready=True; False: a"),
        ),
    ];
    for (children, expected, wanted) in cases {
        let found = Aggregate::new("Pods", "Ready").expecting(expected).of(pods(children));
        assert_eq!(found, wanted, "{children:?}");
    }
}

#[test]
fn an_aggregate_is_bounded_and_does_not_depend_on_the_order() {
    let conditions =
        [json!({"type": "Ready", "status": "False", "reason": "Crash", "message": "m".repeat(5000)})];
    let children: Vec<Child> =
        (0..1000).map(|index| Child::new(format!("web-{index:03}"), &conditions)).collect();
    let found = Aggregate::new("Pods", "Ready").of(children.clone());
    assert!(
        found.message.starts_with("0 of 1000 Pods have Ready=True; False: web-000 (mmm"),
        "{}",
        found.message
    );
    assert!(found.message.ends_with(") and 997 more"), "{}", found.message);
    assert!(found.message.len() < 600, "{}", found.message.len());
    assert_eq!(Aggregate::new("Pods", "Ready").of(children.into_iter().rev()), found);
}

#[test]
fn of_a_negative_condition_one_is_enough() {
    let conditions =
        |status: &str| [json!({"type": "Degraded", "status": status, "reason": "Slow", "message": "slow"})];
    let children = [Child::new("a", &conditions("False")), Child::new("b", &conditions("True"))];
    let aggregate = Aggregate::new("shards", "Degraded").negative();
    assert_eq!(
        aggregate.of(children),
        finding(Status::True, "Slow", "1 of 2 shards have Degraded=False; True: b (slow)")
    );
    let good = [Child::new("a", &conditions("False"))];
    assert_eq!(aggregate.of(good), finding(Status::False, "AsExpected", "1 of 1 shards have Degraded=False"));
}
