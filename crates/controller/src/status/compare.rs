//! Comparison of desired and observed status, and the resulting patch.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::{Map, Value};

/// The list with metav1's key `type`.
const CONDITIONS: &str = "conditions";
const TRANSITION_TIME: &str = "lastTransitionTime";
/// Heartbeats in conditions of older APIs, which do not indicate a change.
const HEARTBEATS: [&str; 3] = ["lastHeartbeatTime", "lastProbeTime", "lastUpdateTime"];

/// Removes null members: merge patches cannot set them, and serde writes absent fields as null by default.
pub(super) fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let kept = members.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(name, value)| (name, without_nulls(value))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(without_nulls).collect()),
        other => other,
    }
}

/// Adopts insignificant differences from the observed status: the transition time of each condition with the same
/// status, heartbeats of otherwise equal conditions, and the order of conditions, which are a map by type.
pub(super) fn settle(desired: &mut Value, observed: &Value) {
    match (desired, observed) {
        (Value::Object(desired), Value::Object(observed)) => {
            for (name, desired) in desired {
                match (desired, observed.get(name)) {
                    (Value::Array(desired), Some(Value::Array(observed))) if name == CONDITIONS => {
                        settle_conditions(desired, observed);
                    }
                    (desired, Some(observed)) => settle(desired, observed),
                    (_, None) => {}
                }
            }
        }
        (Value::Array(desired), Value::Array(observed)) => {
            for (desired, observed) in desired.iter_mut().zip(observed) {
                if is_same_item(desired, observed) {
                    settle(desired, observed);
                }
            }
        }
        _ => {}
    }
}

/// List items that differ at most in their conditions, such as the parents in the status of a Gateway API route.
fn is_same_item(item: &Value, other: &Value) -> bool {
    let (Value::Object(item), Value::Object(other)) = (item, other) else { return false };
    let rest = |members: &Map<String, Value>| -> Map<String, Value> {
        members
            .iter()
            .filter(|(name, _)| *name != CONDITIONS)
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    };
    rest(item) == rest(other)
}

fn settle_conditions(desired: &mut [Value], observed: &[Value]) {
    for condition in &mut *desired {
        let Some(old) = observed.iter().find(|old| has_type_of(old, condition)) else { continue };
        if condition["status"] != old["status"] {
            continue;
        }
        take_over(condition, old, &[TRANSITION_TIME]);
        let mut same = condition.clone();
        take_over(&mut same, old, &HEARTBEATS);
        if same == *old {
            *condition = same;
        }
    }
    let position = |condition: &Value| {
        observed.iter().position(|old| has_type_of(old, condition)).unwrap_or(observed.len())
    };
    desired.sort_by_key(position);
}

fn take_over(condition: &mut Value, old: &Value, names: &[&str]) {
    let (Value::Object(condition), Value::Object(old)) = (condition, old) else { return };
    for name in names {
        if let (Some(time), Some(old)) = (condition.get_mut(*name), old.get(*name)) {
            *time = old.clone();
        }
    }
}

fn has_type_of(condition: &Value, other: &Value) -> bool {
    condition["type"].is_string() && condition["type"] == other["type"]
}

/// The merge patch (RFC 7386) from the observed to the desired value; `None` if they are equal.
pub(super) fn merge_patch(observed: &Value, desired: &Value) -> Option<Value> {
    if observed == desired {
        return None;
    }
    let (Value::Object(observed), Value::Object(desired)) = (observed, desired) else {
        return Some(desired.clone());
    };
    let mut patch = Map::new();
    for (name, value) in desired {
        match observed.get(name) {
            None => {
                patch.insert(name.clone(), value.clone());
            }
            Some(old) => {
                if let Some(change) = merge_patch(old, value) {
                    patch.insert(name.clone(), change);
                }
            }
        }
    }
    for name in observed.keys().filter(|name| !desired.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    Some(Value::Object(patch))
}

/// Whether the observed value contains the desired one, ignoring other fields and conditions of other types.
pub(super) fn contains(observed: &Value, desired: &Value) -> bool {
    match (observed, desired) {
        (Value::Object(observed), Value::Object(desired)) => desired.iter().all(|(name, desired)| {
            observed.get(name).is_some_and(|observed| match (observed, desired) {
                (Value::Array(observed), Value::Array(desired)) if name == CONDITIONS => {
                    desired.iter().all(|condition| observed.contains(condition))
                }
                _ => contains(observed, desired),
            })
        }),
        _ => observed == desired,
    }
}

/// One field of a status with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Leaf {
    /// Path: `conditions[Ready].reason`.
    pub(super) path: String,
    /// Hash of path and value.
    pub(super) hash: u64,
}

/// The fields of a status: conditions individually and without times, other lists as a whole.
pub(super) fn leaves(status: &Value) -> Vec<Leaf> {
    let mut leaves = Vec::new();
    collect(status, &mut String::new(), &mut leaves);
    leaves
}

fn collect(value: &Value, path: &mut String, leaves: &mut Vec<Leaf>) {
    let length = path.len();
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                if length > 0 {
                    path.push('.');
                }
                path.push_str(name);
                match value {
                    Value::Array(conditions) if name == CONDITIONS => {
                        for condition in conditions {
                            collect_condition(condition, path, leaves);
                        }
                    }
                    _ => collect(value, path, leaves),
                }
                path.truncate(length);
            }
        }
        _ => leaves.push(Leaf { path: path.clone(), hash: hash(&(path.as_str(), value.to_string())) }),
    }
}

fn collect_condition(condition: &Value, path: &mut String, leaves: &mut Vec<Leaf>) {
    let length = path.len();
    path.push_str(&format!("[{}]", condition["type"].as_str().unwrap_or_default()));
    let mut condition = condition.clone();
    if let Value::Object(members) = &mut condition {
        members.remove(TRANSITION_TIME);
        for name in HEARTBEATS {
            members.remove(name);
        }
    }
    collect(&condition, path, leaves);
    path.truncate(length);
}

/// A process-specific hash.
pub(super) fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn condition(condition_type: &str, status: &str, time: u8) -> Value {
        json!({"type": condition_type, "status": status, "lastTransitionTime": format!("2026-01-01T00:00:0{time}Z")})
    }

    #[test]
    fn times_and_the_order_of_conditions_are_no_difference() {
        let (ready, stored) = (condition("Ready", "True", 1), condition("Stored", "True", 2));
        let observed = json!({"conditions": [ready, stored]});
        // Name, desired conditions, expected patch.
        let cases = [
            ("equal", json!([ready, stored]), None),
            ("another time", json!([condition("Ready", "True", 9), stored]), None),
            ("another order", json!([stored, ready]), None),
            ("another order and time", json!([condition("Stored", "True", 9), ready]), None),
            (
                "a new status brings its time",
                json!([ready, condition("Stored", "False", 9)]),
                Some(json!([ready, condition("Stored", "False", 9)])),
            ),
            (
                "a new condition comes last",
                json!([condition("Bound", "True", 9), condition("Ready", "True", 9), stored]),
                Some(json!([ready, stored, condition("Bound", "True", 9)])),
            ),
            ("one less", json!([condition("Stored", "True", 9)]), Some(json!([stored]))),
        ];
        for (name, conditions, wanted) in cases {
            let mut desired = json!({"conditions": conditions});
            settle(&mut desired, &observed);
            let wanted = wanted.map(|conditions| json!({"conditions": conditions}));
            assert_eq!(merge_patch(&observed, &desired), wanted, "{name}");
        }
    }

    #[test]
    fn heartbeats_alone_are_no_difference() {
        let node = |heartbeat: u8, reason: &str| json!({"conditions": [{"type": "Ready", "status": "True", "reason": reason, "lastHeartbeatTime": heartbeat}]});
        let observed = node(1, "Posting");
        let mut desired = node(2, "Posting");
        settle(&mut desired, &observed);
        assert_eq!(desired, observed);
        let mut desired = node(2, "Posted");
        settle(&mut desired, &observed);
        assert_eq!(desired, node(2, "Posted"));
    }

    #[test]
    fn conditions_of_items_are_settled_where_the_item_is_the_same() {
        let parents = |first: &str, time: u8| {
            json!({"parents": [
                {"name": first, "conditions": [condition("Accepted", "True", time)]},
                {"name": "b", "conditions": []},
            ]})
        };
        let observed = parents("a", 1);
        let mut desired = parents("a", 2);
        settle(&mut desired, &observed);
        assert_eq!(desired, observed);
        let mut desired = parents("c", 2);
        settle(&mut desired, &observed);
        assert_eq!(desired, parents("c", 2));
    }

    #[test]
    fn a_merge_patch_has_the_differences_only() {
        // Observed, desired, the patch.
        let cases = [
            (json!({}), json!({}), None),
            (Value::Null, json!({"a": 1}), Some(json!({"a": 1}))),
            (json!({"a": 1, "b": 2}), json!({"a": 1, "b": 3}), Some(json!({"b": 3}))),
            (json!({"a": 1, "b": 2}), json!({"a": 1}), Some(json!({"b": null}))),
            (
                json!({"a": {"b": 1, "c": 2}}),
                json!({"a": {"b": 1, "d": 3}}),
                Some(json!({"a": {"c": null, "d": 3}})),
            ),
            (json!({"a": [1, 2]}), json!({"a": [1]}), Some(json!({"a": [1]}))),
            (json!({"a": {"b": 1}}), json!({"a": "text"}), Some(json!({"a": "text"}))),
            (json!({"a": 1}), json!({"a": {"b": 1}}), Some(json!({"a": {"b": 1}}))),
            (json!({"a": {"b": 1}}), json!({"a": {}}), Some(json!({"a": {"b": null}}))),
            (json!({}), json!({"a": {}}), Some(json!({"a": {}}))),
        ];
        for (observed, desired, wanted) in cases {
            assert_eq!(merge_patch(&observed, &desired), wanted, "{observed} to {desired}");
        }
    }

    #[test]
    fn nulls_of_absent_fields_are_left_out() {
        let value = json!({"a": null, "b": {"c": null, "d": [{"e": null}, null]}});
        assert_eq!(without_nulls(value), json!({"b": {"d": [{}, null]}}));
    }

    #[test]
    fn an_observed_status_contains_an_intent() {
        let (ready, stored) = (condition("Ready", "True", 1), condition("Stored", "True", 2));
        let observed = json!({"replicas": 3, "address": {"ip": "10.0.0.1", "port": 80}, "conditions": [ready, stored], "list": [1, 2]});
        let cases = [
            (json!({}), true),
            (json!({"replicas": 3, "address": {"ip": "10.0.0.1"}}), true),
            (json!({"conditions": [stored]}), true),
            (json!({"conditions": [condition("Stored", "False", 2)]}), false),
            (json!({"conditions": [condition("Bound", "True", 2)]}), false),
            (json!({"list": [1]}), false),
            (json!({"address": {"ip": "10.0.0.2"}}), false),
            (json!({"other": 1}), false),
        ];
        for (desired, wanted) in cases {
            assert_eq!(contains(&observed, &desired), wanted, "{desired}");
        }
    }

    #[test]
    fn leaves_are_fields_with_paths() {
        let status = json!({"conditions": [condition("Ready", "True", 1)], "address": {"ip": "10.0.0.1"}, "list": [1]});
        let paths: Vec<String> = leaves(&status).into_iter().map(|leaf| leaf.path).collect();
        assert_eq!(paths, ["address.ip", "conditions[Ready].status", "conditions[Ready].type", "list"]);
        let later = json!({"conditions": [condition("Ready", "True", 2)], "address": {"ip": "10.0.0.1"}, "list": [1]});
        assert_eq!(leaves(&status), leaves(&later));
    }
}
