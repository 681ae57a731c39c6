//! Hostile input is bounded.

use serde_json::{Map, Value, json};
use settled_budget::{Budget, Exceeded};
use settled_schema::{ErrorType, Schema};

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

fn budgeted(steps: u64) -> (Budget, settled_budget::Entered) {
    let budget = Budget::new(steps, u64::MAX);
    let entered = budget.enter();
    (budget, entered)
}

#[test]
fn defaults_are_counted_before_they_take_memory() {
    let many: Map<String, Value> = (0..20)
        .map(|at| (format!("field-{at}"), json!({"type": "string", "default": "0123456789"})))
        .collect();
    let large = json!({"a": {"type": "string", "default": "x".repeat(1 << 20)}});
    let nested = json!({"a": {"type": "object", "default": {}, "properties": {"b": {"type": "integer", "default": 1}}}});
    // Properties, how many empty items there are, whether that is within bounds.
    let cases = [
        (json!(many), 300_000, false),
        (json!(many), 1000, true),
        (large.clone(), 20, true),
        (large, 40, false),
        (nested.clone(), 10_000, true),
        (nested, 300_000, false),
    ];
    for (properties, count, fits) in cases {
        let schema = json!({
            "type": "object",
            "properties": {"items": {"type": "array", "items": {"type": "object", "properties": properties}}},
        });
        let schema = Schema::parse(&schema).unwrap();
        let mut object = json!({"items": vec![json!({}); count]});
        let (budget, _entered) = budgeted(u64::MAX);
        schema.default(&mut object);
        let wanted = if fits { None } else { Some(Exceeded::Memory) };
        assert_eq!(budget.exceeded(), wanted, "{count}");
        // The text is never larger than what is counted for it.
        assert!(object.to_string().len() < settled_schema::MAX_DEFAULTS + (count + 10) * 10, "{count}");
        let last = &object["items"][count - 1];
        assert_eq!(last.as_object().is_some_and(|item| !item.is_empty()), fits, "{count}");
    }
}

#[test]
fn trees_of_alternatives_are_counted() {
    // 3 to the power of 7 leaves for each of 2,000 numbers.
    let mut clause = json!({"minimum": 1_000_000});
    for _ in 0..7 {
        clause = json!({"anyOf": [clause, clause, clause]});
    }
    let mut item = json!({"type": "integer"});
    item["anyOf"] = clause["anyOf"].clone();
    let schema = Schema::parse(&json!({
        "type": "object", "properties": {"items": {"type": "array", "items": item}},
    }))
    .unwrap();
    let numbers = |count: usize| json!({"items": (0..count).collect::<Vec<_>>()});
    let (budget, entered) = budgeted(100_000);
    let _incomplete = schema.validate(&numbers(2000), None);
    assert_eq!(budget.exceeded(), Some(Exceeded::Steps));
    drop(entered);
    let (budget, _entered) = budgeted(100_000);
    assert!(!schema.validate(&numbers(5), None).is_empty());
    assert_eq!(budget.exceeded(), None);
}

#[test]
fn sets_and_maps_of_many_items_take_linear_time() {
    const COUNT: usize = 300_000;
    let list = |kind: &str, item: Value| {
        let mut list = json!({"type": "array", "x-kubernetes-list-type": kind, "items": item});
        if kind == "map" {
            list["x-kubernetes-list-map-keys"] = json!(["name"]);
        }
        Schema::parse(&json!({"type": "object", "properties": {"items": list}})).unwrap()
    };
    let named = json!({"type": "object", "required": ["name"], "properties": {"name": {"type": "integer"}}});
    let cases = [
        (list("set", json!({"type": "integer"})), (|at| json!(at)) as fn(usize) -> Value),
        (list("map", named), |at| json!({"name": at})),
    ];
    for (schema, item) in cases {
        let object = |modulus: usize| json!({"items": (0..COUNT).rev().map(|at| item(at % modulus)).collect::<Vec<_>>()});
        let unique = object(COUNT);
        assert!(schema.validate(&unique, Some(&unique)).is_empty());
        let errors = schema.validate(&object(COUNT / 2), None);
        assert!(errors.iter().all(|error| error.error_type == ErrorType::Duplicate));
        // As many as are shown of other errors.
        assert!((1000..COUNT / 2).contains(&errors.len()), "{}", errors.len());
    }
}
