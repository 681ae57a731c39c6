//! Nothing is nested without end.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};
use settled_managed_fields::{
    ApplyError, Duplicates, FieldManager, FieldSet, FieldsError, MAX_DEPTH, ObjectType, Path, Schema,
    TypedValue, Untyped, decode_managed_fields,
};

fn nested(depth: usize, wrap: impl Fn(Value) -> Value) -> Value {
    (0..depth).fold(json!({}), |inner, _| wrap(inner))
}

#[test]
fn depth_is_bounded() {
    for (depth, fits) in [(MAX_DEPTH - 2, true), (MAX_DEPTH + 1, false), (400, false)] {
        let value = nested(depth, |inner| json!({"a": inner}));
        match TypedValue::new(value, ObjectType::deduced(), Duplicates::Reject) {
            Ok(typed) => {
                assert!(fits, "value of depth {depth}");
                let set = typed.to_field_set().unwrap();
                assert!(typed.compare(&typed.merge(&typed).unwrap()).unwrap().is_same());
                assert!(typed.remove_items(&set).value().is_null());
            }
            Err(errors) => {
                assert!(!fits && errors.to_string().contains("nested more than 150 levels deep"));
            }
        }

        let set = FieldSet::from_value(&nested(depth, |inner| json!({"f:a": inner})));
        assert_eq!(set.is_ok(), fits, "fields of depth {depth}");
        assert!(fits || matches!(set, Err(FieldsError::TooDeep)));

        let path = Path::fields(vec!["a"; depth]);
        assert_eq!(FieldSet::new().insert(&path), fits, "path of {depth} elements");

        let of = |inner: Value| json!({"type": "object", "properties": {"a": inner}});
        let schema = Schema::from_crd("A", &nested(depth, of), false);
        assert_eq!(schema.is_ok(), fits, "schema of depth {depth}");
    }
}

#[test]
fn a_type_may_refer_to_itself() {
    let components = json!({"A": {"type": "object", "properties": {"a": {"$ref": "#/A"}}}});
    let schema = Arc::new(Schema::from_open_api(components.as_object().unwrap(), false).unwrap());
    let value = nested(20, |inner| json!({"a": inner}));
    TypedValue::new(value, ObjectType::named(schema, "A"), Duplicates::Reject).unwrap();
}

#[test]
fn broken_fields_are_refused() {
    for (text, reason) in [
        ("[]", "expected an object of fields, got a list"),
        (r#"{"f:a":1}"#, "expected an object of fields, got a number"),
        (r#"{"a":{}}"#, "it must be 2 characters long"),
        (r#"{"ab":{}}"#, "the colon is missing"),
        (r#"{"éé":{}}"#, "the colon is missing"),
        (r#"{"i:x":{}}"#, "invalid digit found in string"),
        (r#"{"v:{":{}}"#, "EOF while parsing"),
        (r#"{"k:[]":{}}"#, "expected an object, got a list"),
    ] {
        let error = FieldSet::from_json(text).unwrap_err().to_string();
        assert!(error.contains(reason), "{text}: {error}");
    }
    // A later version may know more kinds of elements.
    assert!(FieldSet::from_json(r#"{"x:a":{"f:b":{}}}"#).unwrap().is_empty());
}

/// An object of many fields, each of which has a manager of its own.
fn crowded(count: usize, operation: &str) -> Value {
    let names = || (0..count).map(|number| format!("k{number:06}"));
    let entry = |name: String| {
        json!({
            "manager": format!("m{name}"), "operation": operation, "apiVersion": "v1", "fieldsType": "FieldsV1",
            "time": "2024-05-01T10:00:00Z", "fieldsV1": {"f:data": {format!("f:{name}"): {}}},
        })
    };
    let data: serde_json::Map<String, Value> = names().map(|name| (name, "x".into())).collect();
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": data,
        "metadata": {"name": "crowded", "uid": "u", "managedFields": names().map(entry).collect::<Vec<_>>()},
    })
}

/// Each manager used to be compared with all that changes: this took minutes.
#[test]
fn many_managers_of_many_fields_take_linear_time() {
    const COUNT: usize = 20_000;
    let manager = FieldManager::new(Untyped, "v1", "ConfigMap");
    let now = Timestamp::from_second(1_800_000_000).unwrap();
    for operation in ["Apply", "Update"] {
        let live = crowded(COUNT, operation);
        let mut new = live.clone();
        new["data"].as_object_mut().unwrap().values_mut().for_each(|value| *value = "y".into());
        // All lose their only field to one.
        let updated = manager.update(&live, &new, "hog", now).unwrap();
        let entries = decode_managed_fields(&updated).unwrap();
        let found: Vec<_> =
            entries.iter().map(|entry| (entry.manager.as_str(), entry.fields.len())).collect();
        assert_eq!(found, [("hog", COUNT)], "{operation}");

        // All keep theirs; those that update are merged into one, but for the youngest.
        new["data"] = live["data"].clone();
        new["data"]["another"] = "x".into();
        let updated = manager.update(&live, &new, "hog", now).unwrap();
        let entries = decode_managed_fields(&updated).unwrap();
        let fields: usize = entries.iter().map(|entry| entry.fields.len()).sum();
        let wanted = if operation == "Apply" { COUNT + 1 } else { 10 };
        assert_eq!((entries.len(), fields), (wanted, COUNT + 1), "{operation}");

        // A conflict with each, and all of them lost by force.
        let mut config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "crowded"}});
        config["data"] = live["data"].clone();
        config["data"].as_object_mut().unwrap().values_mut().for_each(|value| *value = "y".into());
        let Err(ApplyError::Conflict { causes, .. }) = manager.apply(&live, &config, "hog", false, now)
        else {
            panic!("no conflict");
        };
        assert_eq!(causes.len(), COUNT);
        let applied = manager.apply(&live, &config, "hog", true, now).unwrap();
        assert_eq!(decode_managed_fields(&applied).unwrap().len(), 1);
        // What is applied no more goes, but nobody else's.
        let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "crowded"}});
        let applied = manager.apply(&applied, &config, "hog", true, now).unwrap();
        assert!(applied.get("data").is_none_or(Value::is_null));
    }
}

#[test]
fn work_stops_at_the_end_of_its_budget() {
    let manager = FieldManager::new(Untyped, "v1", "ConfigMap");
    let now = Timestamp::from_second(1_800_000_000).unwrap();
    let live = crowded(1000, "Apply");
    for steps in [1, 500, 1500] {
        let budget = settled_budget::Budget::new(steps, 0);
        let _entered = budget.enter();
        assert!(manager.update(&live, &live, "hog", now).is_err(), "{steps}");
        assert_eq!(budget.exceeded(), Some(settled_budget::Exceeded::Steps));
    }
}
