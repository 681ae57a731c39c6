//! Any text as a validation rule of a CRD, over any object: no panic, and an end in time.
//!
//! The input is the rule, a line end, and the object; and perhaps another line end, and its old state.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use settled_cel::Validator;
use settled_schema::Schema;

fuzz_target!(|input: &str| {
    let mut lines = input.splitn(3, '\n');
    let rule = lines.next().unwrap_or_default();
    let mut object = || lines.next().and_then(|text| serde_json::from_str::<Value>(text).ok());
    let (new, old) = (object().unwrap_or_default(), object());
    let schema = json!({
        "type": "object",
        "properties": {
            "b": {"type": "boolean"}, "i": {"type": "integer"}, "d": {"type": "number"}, "s": {"type": "string"},
            "x": {"x-kubernetes-int-or-string": true},
            "t": {"type": "string", "format": "date-time"},
            "u": {"type": "string", "format": "duration"},
            "y": {"type": "string", "format": "byte"},
            "l": {"type": "array", "items": {"type": "string"}},
            "m": {"type": "object", "additionalProperties": {"type": "integer"}},
            "k": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n"], "items": {
                "type": "object",
                "properties": {"n": {"type": "string"}, "v": {"type": "integer"}},
                "x-kubernetes-validations": [{"rule": rule}],
            }},
        },
        "x-kubernetes-validations": [{"rule": rule, "messageExpression": rule}],
    });
    let Ok(schema) = Schema::parse(&schema) else { return };
    let (validator, errors) = Validator::compile(&schema, "schema");
    assert!(errors.iter().all(|error| error.field.starts_with("schema")));
    if let Some(validator) = validator {
        let (_, cost) = validator.validate_with_cost(&new, old.as_ref());
        assert!(cost <= 10_000_000);
    }
});
