//! Nothing is nested without end.

use std::sync::Arc;

use serde_json::{Value, json};
use settled_managed_fields::{
    Duplicates, FieldSet, FieldsError, MAX_DEPTH, ObjectType, Path, Schema, TypedValue,
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
