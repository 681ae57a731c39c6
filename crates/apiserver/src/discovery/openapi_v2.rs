//! OpenAPI v2 (`/openapi/v2`): the schemas of all kinds in one document, as JSON or in the protobuf form of gnostic's
//! `OpenAPIv2.proto`.
//!
//! kubectl reads it for what version 3 does not tell it: before it creates a `List`, and when it meets a kind that
//! nobody serves. It asks for protobuf only, and that has no operations: clients that need them read JSON or version 3.

use serde_json::{Map, Value, json};

use crate::discovery::operations_v2::Paths;
use crate::discovery::publish::{self, Version};
use crate::kinds::builtin;
use crate::kinds::definition::{Catalog, Definition};

/// What kubectl asks for, and what it takes: Go's library refuses the former as a type of an answer.
pub(crate) const ASKED: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
pub(crate) const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
/// A schema is never deeper: deeper parts are left out.
const MAX_DEPTH: usize = 200;

/// The document as JSON.
pub(crate) fn document(catalog: &Catalog) -> Value {
    let mut schemas = Map::new();
    let mut custom: Vec<&Definition> = Vec::new();
    let mut operations = Paths::default();
    for group in catalog.groups() {
        for version in catalog.versions(group) {
            let api_version = crate::kinds::names::api_version(group, version);
            if let Value::Object(built_in) = builtin::document(&api_version) {
                schemas.extend(built_in);
            }
            let resources = catalog.resources(group, version).map(|definition| &**definition);
            for definition in resources {
                operations.add(definition);
                custom.extend(definition.model.is_custom().then_some(definition));
            }
        }
    }
    schemas.extend(publish::components(custom.iter().copied(), Version::V2));
    let definitions: Map<String, Value> =
        schemas.into_iter().map(|(name, schema)| (name, older(schema, 0))).collect();
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": crate::version::git_version()},
        "paths": operations.paths,
        "definitions": definitions,
        "parameters": operations.parameters,
        "security": [{"BearerToken": []}],
        "securityDefinitions": {"BearerToken": {
            "type": "apiKey", "description": "Bearer Token authentication", "name": "authorization", "in": "header",
        }},
    })
}

/// A schema of version 3 as version 2 has it.
fn older(schema: Value, depth: usize) -> Value {
    let Value::Object(mut schema) = schema else { return schema };
    if depth > MAX_DEPTH {
        return json!({});
    }
    // A reference with a description or a default beside it.
    if let Some(Value::Array(all)) = schema.get("allOf")
        && let [Value::Object(one)] = all.as_slice()
        && let Some(reference) = one.get("$ref").cloned()
    {
        schema.remove("allOf");
        schema.insert("$ref".to_owned(), reference);
    }
    if let Some(Value::String(reference)) = schema.get_mut("$ref") {
        *reference = reference.replace("#/components/schemas/", "#/definitions/");
    }
    // Either of two types is a text with a format.
    if schema.remove("oneOf").is_some() && !schema.contains_key("type") {
        schema.insert("type".to_owned(), "string".into());
    }
    schema.remove("anyOf");
    schema.remove("not");
    schema.remove("nullable");
    // `PruneDefaults` upstream.
    schema.remove("default");
    for key in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get_mut(key) {
            *inner = older(inner.take(), depth + 1);
        }
    }
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        for inner in properties.values_mut() {
            *inner = older(inner.take(), depth + 1);
        }
    }
    if let Some(Value::Array(all)) = schema.get_mut("allOf") {
        for inner in all {
            *inner = older(inner.take(), depth + 1);
        }
    }
    Value::Object(schema)
}

/// [`document`] as gnostic's message `Document`.
pub(crate) fn to_protobuf(document: &Value) -> Vec<u8> {
    let mut info = Vec::new();
    for (field, key) in [(1, "/info/title"), (2, "/info/version")] {
        put_text(&mut info, field, document.pointer(key));
    }
    let mut definitions = Vec::new();
    put_named(&mut definitions, document.get("definitions"));
    let mut out = Vec::new();
    put_text(&mut out, 1, document.get("swagger"));
    put(&mut out, 2, &info);
    put(&mut out, 8, &[]);
    put(&mut out, 9, &definitions);
    out
}

/// The message `Schema`. Limits of values are left out: clients of this form use fields and their types.
fn schema(schema: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    let Some(fields) = schema.as_object() else { return out };
    for (field, key) in [(1, "$ref"), (2, "format"), (3, "title"), (4, "description")] {
        put_text(&mut out, field, fields.get(key));
    }
    for required in fields.get("required").and_then(Value::as_array).into_iter().flatten() {
        put_text(&mut out, 19, Some(required));
    }
    for value in fields.get("enum").and_then(Value::as_array).into_iter().flatten() {
        put(&mut out, 20, &any(value));
    }
    match fields.get("additionalProperties") {
        Some(Value::Bool(allowed)) => put(&mut out, 21, &[2 << 3, u8::from(*allowed)]),
        Some(inner) => {
            let mut item = Vec::new();
            put(&mut item, 1, &self::schema(inner));
            put(&mut out, 21, &item);
        }
        None => {}
    }
    if let Some(name) = fields.get("type") {
        let mut item = Vec::new();
        put_text(&mut item, 1, Some(name));
        put(&mut out, 22, &item);
    }
    if let Some(inner) = fields.get("items") {
        let mut item = Vec::new();
        put(&mut item, 1, &self::schema(inner));
        put(&mut out, 23, &item);
    }
    for inner in fields.get("allOf").and_then(Value::as_array).into_iter().flatten() {
        put(&mut out, 24, &self::schema(inner));
    }
    if let Some(inner) = fields.get("properties") {
        let mut properties = Vec::new();
        put_named(&mut properties, Some(inner));
        put(&mut out, 25, &properties);
    }
    for (name, value) in fields.iter().filter(|(name, _)| name.starts_with("x-")) {
        let mut extension = Vec::new();
        put(&mut extension, 1, name.as_bytes());
        put(&mut extension, 2, &any(value));
        put(&mut out, 31, &extension);
    }
    out
}

/// Schemas by name: the only field of `Properties` and `Definitions`.
fn put_named(out: &mut Vec<u8>, schemas: Option<&Value>) {
    for (name, inner) in schemas.and_then(Value::as_object).into_iter().flatten() {
        let mut named = Vec::new();
        put(&mut named, 1, name.as_bytes());
        put(&mut named, 2, &schema(inner));
        put(out, 1, &named);
    }
}

/// Any value, as YAML: JSON is YAML.
fn any(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    put(&mut out, 2, value.to_string().as_bytes());
    out
}

fn put_text(out: &mut Vec<u8>, field: u8, text: Option<&Value>) {
    if let Some(text) = text.and_then(Value::as_str) {
        put(out, field, text.as_bytes());
    }
}

/// A field of bytes: its number and type, its length, itself.
fn put(out: &mut Vec<u8>, field: u8, bytes: &[u8]) {
    put_number(out, usize::from(field) << 3 | 2);
    put_number(out, bytes.len());
    out.extend_from_slice(bytes);
}

fn put_number(out: &mut Vec<u8>, mut number: usize) {
    while number > 0x7f {
        // The low seven bits.
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn references_and_either_types_become_older() {
        let newer = json!({
            "properties": {
                "a": {"allOf": [{"$ref": "#/components/schemas/A"}], "default": {}, "description": "an a"},
                "b": {"oneOf": [{"type": "integer"}, {"type": "string"}], "format": "int-or-string"},
            },
        });
        let older = super::older(newer, 0);
        assert_eq!(
            older["properties"],
            json!({
                "a": {"$ref": "#/definitions/A", "description": "an a"},
                "b": {"type": "string", "format": "int-or-string"},
            })
        );
    }

    #[test]
    fn a_schema_is_fields_and_lengths() {
        let bytes = super::schema(&json!({"type": "object", "required": ["a"], "x-y": true}));
        let wanted: [&[u8]; 3] = [
            &[0x9a, 1, 1, b'a'],
            &[0xb2, 1, 8, 10, 6, b'o', b'b', b'j', b'e', b'c', b't'],
            &[0xfa, 1, 13, 10, 3, b'x', b'-', b'y', 18, 6, 18, 4, b't', b'r', b'u', b'e'],
        ];
        assert_eq!(bytes, wanted.concat());
    }
}
