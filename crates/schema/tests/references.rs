//! Schemas of OpenAPI documents.

use serde_json::{Value, json};
use settled_schema::Schema;

fn resolve(name: &str) -> Option<Value> {
    Some(match name.strip_prefix("#/components/schemas/")? {
        "Props" => json!({
            "type": "object",
            "properties": {
                "type": {"type": "string"},
                "not": {"$ref": "#/components/schemas/Props"},
                "properties": {"type": "object", "additionalProperties": {"$ref": "#/components/schemas/Props"}},
                "default": {"description": "anything"},
            },
        }),
        "Spec" => json!({
            "type": "object",
            "required": ["schema"],
            "properties": {
                "schema": {"allOf": [{"$ref": "#/components/schemas/Props"}], "default": {}, "description": "a schema"},
                "port": {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
                "raw": {"type": "object"},
            },
        }),
        "Loop" => {
            json!({"allOf": [{"$ref": "#/components/schemas/Loop"}, {"$ref": "#/components/schemas/Loop"}]})
        }
        _ => return None,
    })
}

#[test]
fn types_may_contain_themselves() {
    let schema = json!({"type": "object", "properties": {"spec": {"$ref": "#/components/schemas/Spec"}}});
    let schema = Schema::parse_with(&schema, &resolve).unwrap();
    let mut object = json!({"spec": {
        "schema": {"not": {"properties": {"a": {"type": "string", "odd": 1, "default": {"b": [1]}}}}},
        "port": "http",
        "raw": {"kept": true},
        "unknown": 1,
    }});
    assert_eq!(schema.prune(&mut object, true), ["spec.schema.not.properties.a.odd", "spec.unknown"]);
    assert_eq!(schema.validate(&object, None), []);
    assert_eq!(object["spec"]["raw"], json!({"kept": true}));

    object["spec"]["schema"]["not"]["properties"]["a"]["type"] = json!(1);
    object["spec"]["port"] = json!(true);
    let errors: Vec<String> = schema.validate(&object, None).iter().map(ToString::to_string).collect();
    assert!(
        errors.contains(
            &"spec.schema.not.properties.a.type: Invalid value: \"integer\": spec.schema.not.properties.a.type in body must be \
              of type string: \"integer\""
                .to_owned()
        ),
        "{errors:?}"
    );
    assert!(errors.iter().any(|error| error.contains("oneOf")), "{errors:?}");
}

#[test]
fn unknown_references_are_errors() {
    let errors = Schema::parse_with(&json!({"$ref": "#/components/schemas/None"}), &resolve).unwrap_err();
    assert!(errors[0].to_string().contains("None"), "{errors:?}");
}

#[test]
fn a_type_that_is_only_itself_ends() {
    let schema = Schema::parse_with(
        &json!({"type": "object", "properties": {"a": {"allOf": [
        {"$ref": "#/components/schemas/Loop"}, {"type": "object"}]}}}),
        &resolve,
    );
    // Whatever it is, it neither hangs nor overflows.
    if let Ok(schema) = schema {
        let _errors = schema.validate(&json!({"b": {}}), None);
    }
}
