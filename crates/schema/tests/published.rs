//! Schemas as servers publish them, and where those of a whole definition stand.

use serde_json::{Value, json};
use settled_schema::openapi::Version;
use settled_schema::{InternalCrd, JsonSchemaProps};

fn published(schema: &Value, version: Version) -> Value {
    JsonSchemaProps::parse(schema).unwrap().to_open_api(version)
}

#[test]
fn all_fields_are_published_as_they_are_written() {
    let schema = r#"{
        "id": "a", "$schema": "b", "$ref": "c", "description": "d", "title": "e", "type": "object", "format": "f",
        "nullable": true, "default": {"a": [1, null]}, "maximum": 10, "exclusiveMaximum": true, "minimum": -0.5,
        "exclusiveMinimum": true, "maxLength": 1, "minLength": 2, "pattern": "g", "maxItems": 3, "minItems": 4,
        "uniqueItems": true, "multipleOf": 2, "enum": [1, "a"], "maxProperties": 5, "minProperties": 6, "required": ["a"],
        "items": {"type": "string"},
        "allOf": [{"items": [{"type": "string"}, {}]}], "oneOf": [{"type": "integer"}], "anyOf": [{}], "not": {"type": "null"},
        "properties": {"a": {"type": "string", "minimum": 1e300}, "b": {}},
        "additionalProperties": {"type": "boolean"},
        "patternProperties": {"^a": {"additionalProperties": false}},
        "dependencies": {"a": ["b"], "b": {"type": "string"}},
        "additionalItems": true,
        "definitions": {"a": {"additionalItems": {"type": "number"}}},
        "externalDocs": {"description": "h", "url": "i"},
        "example": {"a": 1},
        "x-kubernetes-preserve-unknown-fields": true,
        "x-kubernetes-list-map-keys": ["a"], "x-kubernetes-list-type": "map", "x-kubernetes-map-type": "atomic",
        "x-kubernetes-validations": [
            {"rule": "self.a", "message": "j", "messageExpression": "k", "reason": "l", "fieldPath": ".a", "optionalOldSelf": true},
            {"rule": "true"}
        ]
    }"#;
    let schema: Value = serde_json::from_str(schema).unwrap();
    assert_eq!(published(&schema, Version::V3), schema);
}

/// As `ToKubeOpenAPI` and the builder of OpenAPI have it upstream.
#[test]
fn extensions_are_said_in_plain_openapi() {
    let either = json!([{"type": "integer"}, {"type": "string"}]);
    let extension = "x-kubernetes-int-or-string";
    for (schema, expected) in [
        (json!({"type": "integer", extension: true}), json!({"anyOf": either, extension: true})),
        (
            json!({"anyOf": [{"type": "string"}], extension: true}),
            json!({"anyOf": [{"type": "string"}], extension: true}),
        ),
        (
            json!({"allOf": [{"anyOf": either}, {"pattern": "a"}], extension: true}),
            json!({"allOf": [{"anyOf": either}, {"pattern": "a"}], extension: true}),
        ),
    ] {
        assert_eq!(published(&schema, Version::V3), expected);
    }

    let embedded = json!({"type": "array", "items": {
        "type": "object", "x-kubernetes-embedded-resource": true, "required": ["spec", "kind"],
        "properties": {"spec": {"type": "object"}, "kind": {"type": "string", "enum": ["A"]}},
    }});
    let published = published(&embedded, Version::V3);
    assert_eq!(published["items"]["required"], json!(["spec", "kind", "apiVersion"]));
    let properties = published["items"]["properties"].as_object().unwrap();
    assert_eq!(properties.keys().collect::<Vec<_>>(), ["apiVersion", "kind", "metadata", "spec"]);
    // What the schema says of them gives way.
    assert_eq!(properties["kind"].get("enum"), None);
}

#[test]
fn schemas_are_named_where_upstream_has_them() {
    let schema = |kind: &str| json!({"openAPIV3Schema": {"type": kind}});
    let paths = |versions: Value| -> Vec<String> {
        let crd = json!({"spec": {"versions": versions}});
        let crd = InternalCrd::read(&crd).unwrap();
        crd.schemas().map(|(path, _)| path).collect()
    };
    let shared = "spec.validation.openAPIV3Schema";
    assert_eq!(paths(json!([{"schema": schema("object")}])), [shared]);
    assert_eq!(paths(json!([{"schema": schema("object")}, {"schema": schema("object")}])), [shared]);
    assert_eq!(
        paths(json!([{"schema": schema("object")}, {}, {"schema": schema("array")}])),
        ["spec.versions[0].schema.openAPIV3Schema", "spec.versions[2].schema.openAPIV3Schema"],
    );
    assert!(paths(json!([{"schema": {}}, {}])).is_empty());

    let crd = json!({"spec": {"versions": [{}, {"schema": schema("object")}, {"schema": {"openAPIV3Schema": {"type": 1}}}]}});
    let errors = InternalCrd::read(&crd).unwrap_err();
    assert_eq!(errors[0].field, "spec.versions[2].schema.openAPIV3Schema.type");
}
