//! Published schemas of custom resources (`apiextensions-apiserver/pkg/controller/openapi/builder` upstream).

use serde_json::{Map, Value, json};

use crate::discovery::operations::component_name;
use crate::kinds::builtin;
use crate::kinds::definition::Definition;

/// Which OpenAPI document a schema is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    /// Lowered to what kubectl's validation understands of version 2.
    V2,
    V3,
}

/// Deeper schemas are published as they are. Definitions are not accepted if they are so deep.
const MAX_DEPTH: usize = 200;

const API_VERSION: &str = "APIVersion defines the versioned schema of this representation of an object. Servers should \
     convert recognized schemas to the latest internal value, and may reject unrecognized values. More info: \
     https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources";
const KIND: &str = "Kind is a string value representing the REST resource this object represents. Servers may infer this \
     from the endpoint the client submits requests to. Cannot be updated. In CamelCase. More info: \
     https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";
const METADATA: &str = "Standard object's metadata. More info: \
     https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";
const LIST_METADATA: &str = "Standard list metadata. More info: \
     https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";
const EMBEDDED_API_VERSION: &str = "apiVersion defines the versioned schema of this representation of an object. More \
     info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources";
const EMBEDDED_KIND: &str = "kind is a string value representing the type of this object. In CamelCase. More info: \
     https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";
const LIST: &str =
    "More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md";

fn text(description: &str) -> Value {
    json!({"description": description, "type": "string"})
}

fn metadata(name: &str, description: &str) -> Value {
    let target = format!("#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.{name}");
    json!({"description": description, "allOf": [{"$ref": target}]})
}

fn group_version_kind(definition: &Definition, kind: &str) -> Value {
    json!([{"group": definition.group, "version": definition.version, "kind": kind}])
}

/// The components of custom resources and their lists, and all that they refer to.
pub(crate) fn components<'a>(
    definitions: impl IntoIterator<Item = &'a Definition>,
    openapi: Version,
) -> Map<String, Value> {
    const SHARED: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
    let shared =
        ["DeleteOptions", "ListMeta", "ObjectMeta", "Patch", "Status"].map(|name| format!("{SHARED}.{name}"));
    let mut names: Vec<&str> = shared.iter().map(String::as_str).collect();
    let mut own = Vec::new();
    for definition in definitions {
        if definition.subresource("scale").is_some() {
            names.push("io.k8s.api.autoscaling.v1.Scale");
        }
        let name = component_name(definition);
        own.push((format!("{name}List"), list(definition, &name)));
        own.push((name, object(definition, openapi)));
    }
    let mut out = builtin::components(&names);
    out.extend(own);
    out
}

fn list(definition: &Definition, name: &str) -> Value {
    let Definition { kind, list_kind, plural, .. } = definition;
    let mut schema = json!({
        "description": format!("{list_kind} is a list of {kind}"),
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": text(API_VERSION),
            "items": {
                "description": format!("List of {plural}. {LIST}"),
                "type": "array",
                "items": {"$ref": format!("#/components/schemas/{name}")},
            },
            "kind": text(KIND),
            "metadata": metadata("ListMeta", LIST_METADATA),
        },
        "x-kubernetes-group-version-kind": group_version_kind(definition, list_kind),
    });
    set_selectable_fields(&mut schema, definition);
    schema
}

/// `x-kubernetes-selectable-fields`, if the version has any (`buildSelectableFields` upstream).
fn set_selectable_fields(schema: &mut Value, definition: &Definition) {
    let paths =
        definition.model.custom().map(|custom| custom.selectable_paths.as_slice()).unwrap_or_default();
    if paths.is_empty() {
        return;
    }
    let fields = paths.iter().map(|path| json!({"fieldPath": path.strip_prefix('.').unwrap_or(path)}));
    schema["x-kubernetes-selectable-fields"] = fields.collect();
}

fn object(definition: &Definition, openapi: Version) -> Value {
    let kept_whole = |schema: &Value| {
        is_true(schema, PRESERVE) || definition.model.custom().is_some_and(|custom| custom.preserve_unknown)
    };
    let mut schema = match definition.model.open_api() {
        None => json!({"type": "object"}),
        // With any property, kubectl would refuse all others.
        Some(schema) if openapi == Version::V2 && kept_whole(&schema) => json!({"type": "object"}),
        Some(mut schema) => {
            complete(&mut schema, openapi, MAX_DEPTH);
            set(&mut schema, "metadata", metadata("ObjectMeta", METADATA));
            set(&mut schema, "apiVersion", text(API_VERSION));
            set(&mut schema, "kind", text(KIND));
            schema
        }
    };
    if let Some(schema) = schema.as_object_mut() {
        let kind = group_version_kind(definition, &definition.kind);
        schema.insert("x-kubernetes-group-version-kind".to_owned(), kind);
    }
    set_selectable_fields(&mut schema, definition);
    schema
}

const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";

fn is_true(schema: &Value, name: &str) -> bool {
    schema.get(name) == Some(&Value::Bool(true))
}

/// Takes out of one schema what kubectl misreads in version 2 (`ToStructuralOpenAPIV2` upstream).
fn lower(schema: &mut Value) {
    let (nullable, preserves) = (is_true(schema, "nullable"), is_true(schema, PRESERVE));
    let Some(fields) = schema.as_object_mut() else { return };
    let mut gone = vec!["allOf", "oneOf", "anyOf", "not", "nullable"];
    if nullable || preserves {
        gone.extend(["items", "properties"]);
    }
    fields.retain(|name, _| !gone.contains(&name.as_str()));
    let kind = fields.get("type").and_then(Value::as_str).unwrap_or_default();
    if nullable || kind == "array" && !fields.contains_key("items") || kind == "object" && preserves {
        fields.remove("type");
    }
    // What may be null need not be there.
    let properties = fields.get("properties").and_then(Value::as_object);
    let nullable: Vec<String> = properties
        .into_iter()
        .flatten()
        .filter(|(_, property)| is_true(property, "nullable"))
        .map(|(name, _)| name.clone())
        .collect();
    let all = fields.get("additionalProperties").is_some_and(|schema| is_true(schema, "nullable"));
    if let Some(required) = fields.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|name| !all && !nullable.iter().any(|nullable| name == nullable));
        if required.is_empty() {
            fields.remove("required");
        }
    }
}

/// Sets a property of a schema.
fn set(schema: &mut Value, name: &str, property: Value) {
    let Some(schema) = schema.as_object_mut() else { return };
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    if let Some(properties) = properties.as_object_mut() {
        properties.insert(name.to_owned(), property);
    }
}

/// Says in plain OpenAPI what the extensions mean.
fn complete(schema: &mut Value, openapi: Version, depth: usize) {
    if openapi == Version::V2 {
        lower(schema);
    }
    let Some(fields) = schema.as_object_mut().filter(|_| depth > 0) else { return };
    for name in ["items", "additionalProperties"] {
        if let Some(nested) = fields.get_mut(name) {
            complete(nested, openapi, depth - 1);
        }
    }
    if let Some(properties) = fields.get_mut("properties").and_then(Value::as_object_mut) {
        properties.values_mut().for_each(|property| complete(property, openapi, depth - 1));
    }
    let is = |fields: &Map<String, Value>, name: &str| fields.get(name) == Some(&Value::Bool(true));
    if is(fields, "x-kubernetes-int-or-string") && openapi == Version::V2 {
        fields.remove("type");
    } else if is(fields, "x-kubernetes-int-or-string") {
        let either = json!([{"type": "integer"}, {"type": "string"}]);
        let said = fields
            .get("allOf")
            .and_then(Value::as_array)
            .is_some_and(|all| all.iter().any(|part| part.get("anyOf") == Some(&either)));
        if !said {
            fields.entry("anyOf").or_insert(either);
        }
        fields.remove("type");
    }
    let open = openapi == Version::V2 && is(fields, PRESERVE);
    if is(fields, "x-kubernetes-embedded-resource") && !open {
        let required = fields.entry("required").or_insert_with(|| json!([]));
        if let Some(required) = required.as_array_mut() {
            for name in ["kind", "apiVersion"] {
                if !required.iter().any(|other| other == name) {
                    required.push(name.into());
                }
            }
        }
        set(schema, "apiVersion", text(EMBEDDED_API_VERSION));
        set(schema, "kind", text(EMBEDDED_KIND));
        set(schema, "metadata", metadata("ObjectMeta", METADATA));
    }
}
