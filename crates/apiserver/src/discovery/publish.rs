//! Published schemas of custom resources (`apiextensions-apiserver/pkg/controller/openapi/builder` upstream).

use serde_json::{Map, Value, json};
pub(crate) use settled_schema::openapi::Version;
use settled_schema::openapi::{METADATA, meta_v1_schema, set_property, string_schema};

use crate::discovery::operations::component_name;
use crate::kinds::builtin;
use crate::kinds::definition::Definition;
use crate::kinds::names::Names;

const API_VERSION: &str = "APIVersion defines the versioned schema of this representation of an object. Servers should \
     convert recognized schemas to the latest internal value, and may reject unrecognized values. More info: \
     https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources";
const KIND: &str = "Kind is a string value representing the REST resource this object represents. Servers may infer this \
     from the endpoint the client submits requests to. Cannot be updated. In CamelCase. More info: \
     https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";
const LIST_METADATA: &str = "Standard list metadata. More info: \
     https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";
const LIST: &str =
    "More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md";

fn group_version_kind(definition: &Definition, kind: &str) -> Value {
    json!([{"group": definition.names.group, "version": definition.names.version, "kind": kind}])
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
    let Names { kind, list_kind, plural, .. } = &definition.names;
    let mut schema = json!({
        "description": format!("{list_kind} is a list of {kind}"),
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": string_schema(API_VERSION),
            "items": {
                "description": format!("List of {plural}. {LIST}"),
                "type": "array",
                "items": {"$ref": format!("#/components/schemas/{name}")},
            },
            "kind": string_schema(KIND),
            "metadata": meta_v1_schema("ListMeta", LIST_METADATA),
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
    let custom = definition.model.custom();
    let preserves_unknown = custom.is_some_and(|custom| custom.preserve_unknown);
    let mut schema = match custom.and_then(|custom| custom.open_api().decode()) {
        None => json!({"type": "object"}),
        // With any property, kubectl would refuse all others.
        Some(schema)
            if openapi == Version::V2 && (preserves_unknown || schema.preserves_unknown_fields()) =>
        {
            json!({"type": "object"})
        }
        Some(schema) => {
            let mut schema = schema.to_open_api(openapi);
            set_property(&mut schema, "metadata", meta_v1_schema("ObjectMeta", METADATA));
            set_property(&mut schema, "apiVersion", string_schema(API_VERSION));
            set_property(&mut schema, "kind", string_schema(KIND));
            schema
        }
    };
    if let Some(schema) = schema.as_object_mut() {
        let kind = group_version_kind(definition, &definition.names.kind);
        schema.insert("x-kubernetes-group-version-kind".to_owned(), kind);
    }
    set_selectable_fields(&mut schema, definition);
    schema
}
