//! Tests of preparation and validation of the status of NetworkPolicies: upstream's strategy tests (1.24 to 1.27), and random
//! insertions into its conditions.

use std::collections::BTreeSet;

use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::features::FeatureGates;
use crate::kinds::builtin::{self, Decoded};
use crate::kinds::names::Part;
use crate::kinds::validation::validate_update;

fn policies() -> Definition {
    Definition::builtin(builtin::find("networking.k8s.io", "v1", "NetworkPolicy").unwrap()).unwrap()
}

fn gates(on: bool) -> FeatureGates {
    FeatureGates::parse(if on { "NetworkPolicyStatus=true" } else { "NetworkPolicyStatus=false" }).unwrap()
}

fn policy(ports: &Value, conditions: &[Value]) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
        "metadata": {"name": "a", "namespace": "default", "uid": "u", "resourceVersion": "1", "generation": 1},
        "spec": {"podSelector": {"matchLabels": {"a": "b"}}, "ingress": [{"ports": ports}], "policyTypes": ["Ingress"]},
        "status": {"conditions": conditions},
    })
}

fn old(conditions: &[Value]) -> Value {
    policy(&json!([{"port": 80}]), conditions)
}

/// The policy with another spec, as a write to the status may send it.
fn sent(conditions: &[Value]) -> Value {
    policy(&json!([{"port": 80, "endPort": 90}]), conditions)
}

fn accepted(status: &str) -> Value {
    json!({
        "type": "Accepted", "status": status, "reason": "RuleApplied", "message": "rule was successfully applied",
        "observedGeneration": 2, "lastTransitionTime": "2026-01-01T00:00:00Z",
    })
}

/// A write to a part: what it becomes, and what is wrong with that.
fn write(part: Part, mut new: Value, old: &Value, on: bool) -> (Value, Vec<String>) {
    let definition = policies();
    let gates = gates(on);
    assert_eq!(definition.model.decode(&mut new), Decoded::default());
    prepare_for_update(
        &definition,
        &mut new,
        old,
        &UpdateContext { part, now: Timestamp::UNIX_EPOCH, gates: &gates },
    );
    definition.model.set_zero_values(&mut new);
    let causes = validate_update(&definition, part, &new, old, &mut Vec::new());
    (new, causes.iter().map(ToString::to_string).collect())
}

fn conditions(policy: &Value) -> &[Value] {
    policy["status"]["conditions"].as_array().map_or(&[], Vec::as_slice)
}

/// `TestNetworkPolicyStatusStrategy`: with and without the gate, a valid and an invalid status.
#[test]
fn status_strategy() {
    let mut invalid = accepted("True");
    invalid.as_object_mut().unwrap().remove("lastTransitionTime");
    let missing = "status.conditions[0].lastTransitionTime: Required value".to_owned();
    let cases = [
        (true, accepted("True"), 1, vec![]),
        (false, accepted("True"), 0, vec![]),
        (true, invalid.clone(), 1, vec![missing]),
        (false, invalid, 0, vec![]),
    ];
    let before = old(&[]);
    for (on, condition, count, errors) in cases {
        let (new, found) = write(Part::Status, sent(&[condition]), &before, on);
        assert_eq!(new["spec"], before["spec"], "the status changes no spec");
        assert_eq!((conditions(&new).len(), found), (count, errors), "gate {on}");
        assert_eq!(new["metadata"]["generation"], 1);
    }
}

/// `TestNetworkPolicyStatusStrategyEnablement`.
#[test]
fn status_strategy_enablement() {
    let (first, _) = write(Part::Status, sent(&[accepted("True")]), &old(&[]), true);
    assert_eq!(conditions(&first), [accepted("True")]);
    // Disabled, a change is not taken.
    let (kept, _) = write(Part::Status, sent(&[accepted("False")]), &first, false);
    assert_eq!(conditions(&kept), [accepted("True")]);
    let (kept, _) = write(Part::Main, old(&[]), &kept, false);
    assert_eq!(conditions(&kept), [accepted("True")]);
    // Clearing is.
    let (cleared, _) = write(Part::Status, sent(&[]), &kept, false);
    assert_eq!(cleared["status"], json!({}));
    let (still, _) = write(Part::Status, sent(&[accepted("True")]), &cleared, false);
    assert_eq!(still["status"], json!({}));
    // Enabled again, it is written.
    let (again, errors) = write(Part::Status, sent(&[accepted("Unknown")]), &still, true);
    assert_eq!((conditions(&again), errors), (&[accepted("Unknown")][..], vec![]));
}

/// An object of before the status had none at all.
#[test]
fn objects_that_were_stored_without_a_status() {
    let mut before = old(&[]);
    before.as_object_mut().unwrap().remove("status");
    for on in [true, false] {
        for part in [Part::Main, Part::Status] {
            let (new, errors) = write(part, old(&[]), &before, on);
            assert_eq!((&new["status"], errors), (&json!({}), vec![]), "{part:?}");
        }
        let (new, _) = write(Part::Main, sent(&[accepted("True")]), &before, on);
        assert_eq!((&new["status"], &new["metadata"]["generation"]), (&json!({}), &json!(2)));
    }
    let (new, _) = write(Part::Status, sent(&[accepted("True")]), &before, false);
    assert_eq!(new["status"], json!({}));
}

#[test]
fn a_create_begins_without_a_status() {
    let mut new = sent(&[accepted("True")]);
    prepare_for_create(&policies(), &mut new, &User::admin());
    policies().model.set_zero_values(&mut new);
    assert_eq!((&new["status"], &new["metadata"]["generation"]), (&json!({}), &json!(1)));
}

/// A condition, and whether metav1 takes it.
fn any_condition() -> impl Strategy<Value = (Value, bool)> {
    let types = prop::sample::select(vec![
        ("Accepted", true),
        ("PartialFailure", true),
        ("Failure", true),
        ("cilium.io/Accepted", true),
        ("calico.org/Failure", true),
        ("", false),
        ("no type", false),
        ("/Accepted", false),
    ]);
    let statuses =
        prop::sample::select(vec![("True", true), ("False", true), ("Unknown", true), ("Maybe", false)]);
    let reasons = prop::sample::select(vec![
        ("FeatureNotSupported", true),
        ("Rule_1", true),
        ("", false),
        ("1st", false),
    ]);
    let times = prop::sample::select(vec![(Some("2026-01-01T00:00:00Z"), true), (None, false)]);
    let valid_mostly = prop::bool::weighted(0.8);
    (types, statuses, reasons, times, -1_i64..4, valid_mostly).prop_map(
        |(kind, status, reason, time, observed, tame)| {
            let valid = tame || kind.1 && status.1 && reason.1 && time.1 && observed >= 0;
            let kind = if tame && !kind.1 { "Accepted" } else { kind.0 };
            let condition = json!({
                "type": kind,
                "status": if tame && !status.1 { "True" } else { status.0 },
                "reason": if tame && !reason.1 { "Reason" } else { reason.0 },
                "lastTransitionTime": if tame { Some("2026-01-01T00:00:00Z") } else { time.0 },
                "observedGeneration": if tame { observed.max(0) } else { observed },
                "message": "",
            });
            (condition, valid)
        },
    )
}

proptest! {
    /// The KEP's "test random insertions into the conditions field": a list is taken if each condition is valid and no type is
    /// there twice; a refused list leaves what was there; without the gate none is taken.
    #[test]
    fn random_insertions(insertions in prop::collection::vec((any_condition(), any::<prop::sample::Index>()), 1..12)) {
        let mut stored = old(&[]);
        for ((condition, is_valid), at) in insertions {
            let mut list = conditions(&stored).to_vec();
            let known: BTreeSet<&str> = list.iter().filter_map(|condition| condition["type"].as_str()).collect();
            let wanted = is_valid && !known.contains(condition["type"].as_str().unwrap());
            list.insert(at.index(list.len() + 1), condition);

            let (off, errors) = write(Part::Status, sent(&list), &stored, false);
            prop_assert_eq!(conditions(&off), conditions(&stored));
            prop_assert_eq!(errors, Vec::<String>::new());
            let (main, _) = write(Part::Main, old(&list), &stored, true);
            prop_assert_eq!(conditions(&main), conditions(&stored));

            let (new, errors) = write(Part::Status, sent(&list), &stored, true);
            prop_assert_eq!(&new["spec"], &stored["spec"]);
            prop_assert_eq!(&new["metadata"]["generation"], 1);
            prop_assert_eq!(conditions(&new).len(), list.len());
            prop_assert_eq!(errors.is_empty(), wanted, "{:?}: {:?}", list, errors);
            prop_assert!(errors.iter().all(|error| error.starts_with("status.conditions[")), "{:?}", errors);
            if wanted {
                stored = new;
            }
        }
    }
}
