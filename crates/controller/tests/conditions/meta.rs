//! The cases of upstream's `k8s.io/apimachinery/pkg/api/meta/conditions_test.go`, v0.36.3, and the surprises that it does not test.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use settled_controller::conditions::meta::{
    find_status_condition, is_status_condition_false, is_status_condition_present_and_equal,
    is_status_condition_true, remove_status_condition, set_status_condition, zero_time,
};

use crate::bucket::at;

const NOW: i64 = 3600;
const ONE_HOUR_BEFORE: i64 = 0;
const ONE_HOUR_AFTER: i64 = 7200;

/// A condition as Go's zero value has it, but for its type.
fn of_type(condition_type: &str) -> Condition {
    Condition {
        type_: condition_type.to_owned(),
        status: String::new(),
        last_transition_time: zero_time(),
        reason: String::new(),
        message: String::new(),
        observed_generation: None,
    }
}

fn with_status(condition_type: &str, status: &str) -> Condition {
    Condition { status: status.to_owned(), ..of_type(condition_type) }
}

fn full(status: &str, second: i64, observed_generation: Option<i64>) -> Condition {
    Condition {
        last_transition_time: Time(at(second)),
        reason: "reason".to_owned(),
        message: "message".to_owned(),
        observed_generation,
        ..with_status("second", status)
    }
}

fn since(condition: Condition, second: i64) -> Condition {
    Condition { last_transition_time: Time(at(second)), ..condition }
}

#[test]
fn set_status_condition_does_what_upstream_does() {
    let (first, third) = (of_type("first"), of_type("third"));
    let ready = with_status("second", "True");
    let cases = [
        // TestSetStatusCondition.
        (
            "should-add",
            vec![first.clone(), third.clone()],
            full("True", ONE_HOUR_BEFORE, None),
            true,
            vec![first.clone(), third.clone(), full("True", ONE_HOUR_BEFORE, None)],
        ),
        (
            "use-supplied-time",
            vec![first.clone(), with_status("second", "False"), third.clone()],
            full("True", ONE_HOUR_BEFORE, None),
            true,
            vec![first.clone(), full("True", ONE_HOUR_BEFORE, None), third.clone()],
        ),
        (
            "update-fields",
            vec![first.clone(), since(ready.clone(), ONE_HOUR_BEFORE), third.clone()],
            full("True", ONE_HOUR_AFTER, Some(3)),
            true,
            vec![first, full("True", ONE_HOUR_BEFORE, Some(3)), third],
        ),
        (
            "nothing changes",
            vec![since(ready.clone(), ONE_HOUR_BEFORE)],
            since(ready.clone(), ONE_HOUR_BEFORE),
            false,
            vec![since(ready.clone(), ONE_HOUR_BEFORE)],
        ),
        // What upstream does not test.
        ("now, for a new condition", vec![], ready.clone(), true, vec![since(ready.clone(), NOW)]),
        (
            "now, for a new status",
            vec![since(with_status("second", "False"), ONE_HOUR_BEFORE)],
            ready.clone(),
            true,
            vec![since(ready.clone(), NOW)],
        ),
        (
            "a given time may lie before the old one",
            vec![since(with_status("second", "False"), ONE_HOUR_AFTER)],
            since(ready.clone(), ONE_HOUR_BEFORE),
            true,
            vec![since(ready.clone(), ONE_HOUR_BEFORE)],
        ),
        (
            "a time alone is dropped",
            vec![since(ready.clone(), ONE_HOUR_BEFORE)],
            since(ready.clone(), ONE_HOUR_AFTER),
            false,
            vec![since(ready.clone(), ONE_HOUR_BEFORE)],
        ),
        (
            "an absent generation overwrites a known one",
            vec![full("True", ONE_HOUR_BEFORE, Some(3))],
            full("True", ONE_HOUR_BEFORE, None),
            true,
            vec![full("True", ONE_HOUR_BEFORE, None)],
        ),
        (
            "generation 0 is an absent one",
            vec![full("True", ONE_HOUR_BEFORE, None)],
            full("True", ONE_HOUR_BEFORE, Some(0)),
            false,
            vec![full("True", ONE_HOUR_BEFORE, None)],
        ),
        (
            "the first of its type is set",
            vec![since(ready.clone(), 1), since(ready.clone(), 2)],
            with_status("second", "False"),
            true,
            vec![since(with_status("second", "False"), NOW), since(ready, 2)],
        ),
    ];
    for (name, mut conditions, new, changed, wanted) in cases {
        assert_eq!(set_status_condition(&mut conditions, new, at(NOW)), changed, "{name}");
        assert_eq!(conditions, wanted, "{name}");
    }
}

#[test]
fn remove_status_condition_does_what_upstream_does() {
    let list =
        |types: &[&str]| types.iter().map(|condition_type| of_type(condition_type)).collect::<Vec<_>>();
    const THREE: [&str; 3] = ["first", "second", "third"];
    type Types = &'static [&'static str];
    let cases: [(&str, Types, &str, bool, Types); 4] = [
        // TestRemoveStatusCondition.
        ("present", &THREE, "second", true, &["first", "third"]),
        ("not-present", &THREE, "fourth", false, &THREE),
        ("empty_conditions", &[], "Foo", false, &[]),
        ("all of the type", &["first", "second", "first"], "first", true, &["second"]),
    ];
    for (name, conditions, condition_type, removed, wanted) in cases {
        let mut conditions = list(conditions);
        assert_eq!(remove_status_condition(&mut conditions, condition_type), removed, "{name}");
        assert_eq!(conditions, list(wanted), "{name}");
    }
}

#[test]
fn find_status_condition_does_what_upstream_does() {
    // TestFindStatusCondition.
    assert_eq!(find_status_condition(&[of_type("first")], "second"), None);
    assert_eq!(
        find_status_condition(&[of_type("first"), of_type("second")], "second"),
        Some(&of_type("second"))
    );
    let twice = [with_status("first", "True"), with_status("first", "False")];
    assert_eq!(find_status_condition(&twice, "first"), Some(&twice[0]));
}

#[test]
fn is_status_condition_does_what_upstream_does() {
    // TestIsStatusConditionPresentAndEqual: the stored status, the wanted one.
    let cases = [
        ("doesnt-match-true", Some("Unknown"), "True", false),
        ("does-match-true", Some("True"), "True", true),
        ("does-match-false", Some("False"), "False", true),
        ("absent is not true", None, "True", false),
        ("absent is not false", None, "False", false),
        ("absent is not unknown", None, "Unknown", false),
    ];
    for (name, stored, wanted_status, wanted) in cases {
        let conditions: Vec<Condition> =
            stored.map(|status| with_status("first", status)).into_iter().collect();
        assert_eq!(
            is_status_condition_present_and_equal(&conditions, "first", wanted_status),
            wanted,
            "{name}"
        );
        let is =
            [is_status_condition_true(&conditions, "first"), is_status_condition_false(&conditions, "first")];
        assert_eq!(is, [stored == Some("True"), stored == Some("False")], "{name}");
    }
}
