//! Hostile input is bounded.

use serde_json::{Map, Value, json};
use settled_schema::Schema;

#[test]
fn deep_schemas_are_refused() {
    let mut schema = json!({"type": "string"});
    for _ in 0..200 {
        schema = json!({"type": "object", "properties": {"a": schema}});
    }
    let errors = Schema::parse(&schema).unwrap_err();
    assert!(errors.iter().any(|error| error.detail.contains("nested")), "{errors:?}");
}

#[test]
fn nested_alternatives_take_linear_time() {
    // Each level checks twice what is below it, once to count and once to report.
    let mut clause = json!({"maxLength": 1});
    for _ in 0..40 {
        clause = json!({"anyOf": [clause]});
    }
    let mut node = json!({"type": "string"});
    node["anyOf"] = clause["anyOf"].clone();
    let schema = Schema::parse(&json!({"type": "object", "properties": {"a": node}})).unwrap();
    assert_eq!(schema.validate(&json!({"a": "long"}), None).len(), 2);
}

#[test]
fn paths_of_unknown_fields_are_bounded() {
    let long = "x".repeat(10_000);
    let members: Map<String, Value> = (0..10_000).map(|at| (at.to_string(), json!(1))).collect();
    let mut object = json!({long.clone(): members});
    let schema = json!({"type": "object", "properties": {long: {"type": "object", "properties": {"a": {"type": "string"}}}}});
    let paths = Schema::parse(&schema).unwrap().prune(&mut object, false);
    assert!(paths.iter().map(String::len).sum::<usize>() < 2 << 20);
}

#[test]
fn errors_are_bounded() {
    let long = "x".repeat(10_000);
    let items: Vec<Value> = (0..10_000).map(|at| json!(at)).collect();
    let schema =
        json!({"type": "object", "properties": {&long: {"type": "array", "items": {"type": "string"}}}});
    let errors = Schema::parse(&schema).unwrap().validate(&json!({&long: items}), None);
    assert!(!errors.is_empty() && errors.len() < 1000);
}
