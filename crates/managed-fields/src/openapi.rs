//! Schemas from OpenAPI.

use std::sync::{Arc, LazyLock};

use serde_json::{Map, Value, json};

use crate::MAX_DEPTH;
use crate::schema::{
    Atom, ListRelationship, ListType, MapRelationship, MapType, Scalar, Schema, StructField, TypeRef,
};

/// Why OpenAPI does not make a schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{type_name}: {reason}")]
pub struct SchemaError {
    /// The type in which something is wrong.
    pub type_name: String,
    /// What is wrong.
    pub reason: String,
}

const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const RAW_EXTENSION: &str = "io.k8s.apimachinery.pkg.runtime.RawExtension";
/// The name of the type of `metadata` in schemas of custom resources.
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// As far as it matters here, `metadata` of every object.
static META: LazyLock<Value> = LazyLock::new(|| {
    let text = json!({"type": "string"});
    let texts = json!({"type": "object", "additionalProperties": text});
    json!({"type": "object", "properties": {
        "annotations": texts,
        "creationTimestamp": {"type": "string", "format": "date-time"},
        "deletionGracePeriodSeconds": {"type": "integer"},
        "deletionTimestamp": {"type": "string", "format": "date-time"},
        "finalizers": {"type": "array", "items": text, "x-kubernetes-list-type": "set"},
        "generateName": text,
        "generation": {"type": "integer"},
        "labels": texts,
        "managedFields": {"type": "array", "x-kubernetes-list-type": "atomic", "items": {
            "type": "object", "properties": {
                "apiVersion": text, "fieldsType": text, "fieldsV1": {"type": "object"}, "manager": text,
                "operation": text, "subresource": text, "time": {"type": "string", "format": "date-time"},
            },
        }},
        "name": text,
        "namespace": text,
        "ownerReferences": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["uid"],
            "items": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {
                "apiVersion": text, "blockOwnerDeletion": {"type": "boolean"},
                "controller": {"type": "boolean"}, "kind": text, "name": text, "uid": text,
            }},
        },
        "resourceVersion": text,
        "selfLink": text,
        "uid": text,
    }})
});

impl Schema {
    /// A schema of the components of an OpenAPI v3 document, by their names. A `$ref` means the component whose name
    /// comes after its last `/`.
    ///
    /// With `preserve_unknown`, fields that are not named are allowed everywhere.
    ///
    /// # Errors
    /// A schema has an unknown type, list type or map type, an array has no items, or schemas are nested more than
    /// [`MAX_DEPTH`] levels deep.
    ///
    /// ```
    /// use serde_json::json;
    /// use settled_managed_fields::Schema;
    ///
    /// let components = json!({"Widget": {"type": "object", "properties": {"ports": {
    ///     "type": "array",
    ///     "x-kubernetes-list-type": "map",
    ///     "x-kubernetes-list-map-keys": ["port"],
    ///     "items": {"type": "object", "properties": {"port": {"type": "integer"}}},
    /// }}}});
    /// let schema = Schema::from_open_api(components.as_object().unwrap(), false).unwrap();
    /// assert!(schema.contains("Widget"));
    /// ```
    pub fn from_open_api(
        components: &Map<String, Value>,
        preserve_unknown: bool,
    ) -> Result<Self, SchemaError> {
        let mut types = Vec::with_capacity(components.len());
        for (name, component) in components {
            if !reference(component).is_empty() && component.get("$ref").is_some() {
                continue;
            }
            let atom = match name.as_str() {
                QUANTITY => Atom::scalar(Scalar::Untyped),
                RAW_EXTENSION => Self::deduced().resolve(&TypeRef::atomic()).unwrap_or_default(),
                _ => Convert { name, depth: 0 }.atom(component, preserve_unknown)?,
            };
            types.push((name.as_str(), atom));
        }
        Ok(Self::new(types))
    }

    /// A schema of one version of a custom resource, from the `openAPIV3Schema` of its definition. The type has the
    /// name `kind`. The fields that every object has are added.
    ///
    /// # Errors
    /// As for [`Schema::from_open_api`].
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use serde_json::json;
    /// use settled_managed_fields::{Duplicates, ObjectType, Schema, TypedValue};
    ///
    /// let definition = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
    ///     "names": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
    /// }}}});
    /// let schema = Arc::new(Schema::from_crd("Widget", &definition, false).unwrap());
    /// let widget = json!({"kind": "Widget", "metadata": {"name": "w"}, "spec": {"names": ["a"]}});
    /// let widget = TypedValue::new(widget, ObjectType::named(schema, "Widget"), Duplicates::Reject).unwrap();
    /// assert!(widget.to_field_set().unwrap().to_string().contains(r#".spec.names[="a"]"#));
    /// ```
    pub fn from_crd(kind: &str, schema: &Value, preserve_unknown: bool) -> Result<Self, SchemaError> {
        let mut root = schema.clone();
        if let Some(root) = root.as_object_mut() {
            root.entry("type").or_insert_with(|| "object".into());
            add_object_fields(root);
        }
        let mut components = Map::new();
        components.insert(OBJECT_META.to_owned(), META.clone());
        components.insert(kind.to_owned(), root);
        Self::from_open_api(&components, preserve_unknown)
    }
}

/// Adds apiVersion, kind and metadata to the schema of an object.
fn add_object_fields(schema: &mut Map<String, Value>) {
    let properties = schema.entry("properties").or_insert_with(|| Value::Object(Map::new()));
    if let Some(properties) = properties.as_object_mut() {
        for name in ["apiVersion", "kind"] {
            properties.insert(name.to_owned(), json!({"type": "string"}));
        }
        properties.insert("metadata".to_owned(), json!({"$ref": OBJECT_META}));
    }
}

/// What a schema refers to, directly or as the only part of an allOf.
fn reference(schema: &Value) -> &str {
    let direct = schema.get("$ref").and_then(Value::as_str).unwrap_or_default();
    if !direct.is_empty() {
        return direct;
    }
    match schema.get("allOf").and_then(Value::as_array).map(Vec::as_slice) {
        Some([only]) => only.get("$ref").and_then(Value::as_str).unwrap_or_default(),
        _ => "",
    }
}

#[derive(Clone, Copy)]
struct Convert<'a> {
    name: &'a str,
    depth: usize,
}

impl Convert<'_> {
    fn error(self, reason: impl Into<String>) -> SchemaError {
        SchemaError { type_name: self.name.to_owned(), reason: reason.into() }
    }

    fn atom(self, schema: &Value, preserve: bool) -> Result<Atom, SchemaError> {
        if self.depth > MAX_DEPTH {
            return Err(self.error(format!("the schema is nested more than {MAX_DEPTH} levels deep")));
        }
        let preserve =
            preserve || schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true));
        let of = schema.get("type").map(|of| of.get(0).unwrap_or(of)).and_then(Value::as_str);
        Ok(match of.unwrap_or_default() {
            "" => Atom {
                scalar: Some(Scalar::Untyped),
                list: Some(Arc::new(self.list(schema, preserve)?)),
                map: Some(Arc::new(self.map(schema, preserve)?)),
            },
            "object" => Atom::map(self.map(schema, preserve)?),
            "array" => Atom::list(self.list(schema, preserve)?),
            "integer" | "number" => Atom::scalar(Scalar::Numeric),
            "boolean" => Atom::scalar(Scalar::Boolean),
            "string" => match schema.get("format").and_then(Value::as_str).unwrap_or_default() {
                "" | "byte" => Atom::scalar(Scalar::String),
                // Dates are written in more than one way, and some formats stand for numbers, too.
                _ => Atom::scalar(Scalar::Untyped),
            },
            other => return Err(self.error(format!("unrecognized type: '{other}'"))),
        })
    }

    fn type_ref(self, schema: &Value, preserve: bool) -> Result<TypeRef, SchemaError> {
        let name = reference(schema).rsplit('/').next().unwrap_or_default();
        if name.is_empty() {
            let inner = Self { depth: self.depth + 1, ..self };
            return Ok(TypeRef::inline(inner.atom(schema, preserve)?));
        }
        Ok(TypeRef::Named { name: name.into(), relationship: self.map_relationship(schema)? })
    }

    fn map(self, schema: &Value, preserve: bool) -> Result<MapType, SchemaError> {
        let mut properties = schema.get("properties").and_then(Value::as_object);
        let mut embedded = Map::new();
        if schema.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true)) {
            // Upstream adds these fields when it publishes the schema of a custom resource.
            if let Some(properties) = properties {
                embedded.insert("properties".to_owned(), Value::Object(properties.clone()));
            }
            add_object_fields(&mut embedded);
            properties = embedded.get("properties").and_then(Value::as_object);
        }
        let mut fields = Vec::new();
        for (name, property) in properties.into_iter().flatten() {
            let type_ref = self.type_ref(property, preserve)?;
            let default = property.get("default").filter(|default| !default.is_null()).cloned();
            fields.push((name.as_str(), StructField { type_ref, default }));
        }
        let element_type = match schema.get("additionalProperties") {
            None | Some(Value::Null) if preserve || fields.is_empty() => TypeRef::deduced(),
            Some(Value::Bool(true)) => TypeRef::deduced(),
            Some(of @ Value::Object(_)) => self.type_ref(of, preserve)?,
            _ => TypeRef::None,
        };
        let mut map = MapType::new(fields);
        map.element_type = element_type;
        map.relationship = self.map_relationship(schema)?.unwrap_or_default();
        Ok(map)
    }

    fn list(self, schema: &Value, preserve: bool) -> Result<ListType, SchemaError> {
        let relationship = self.list_relationship(schema)?;
        let element_type = match schema.get("items") {
            Some(items @ Value::Object(_)) => self.type_ref(items, preserve)?,
            Some(Value::Array(_)) => {
                return Err(self.error("structural schema arrays must have exactly one member subtype"));
            }
            _ if schema.get("type").is_some() => {
                return Err(self.error("`items` must be specified on arrays"));
            }
            _ => TypeRef::atomic(),
        };
        Ok(ListType { element_type, relationship })
    }

    fn map_relationship(self, schema: &Value) -> Result<Option<MapRelationship>, SchemaError> {
        match schema.get("x-kubernetes-map-type") {
            None => Ok(None),
            Some(of) if of == "atomic" => Ok(Some(MapRelationship::Atomic)),
            Some(of) if of == "granular" => Ok(Some(MapRelationship::Granular)),
            Some(of) => Err(self.error(format!("unknown map type {of}"))),
        }
    }

    fn list_relationship(self, schema: &Value) -> Result<ListRelationship, SchemaError> {
        if let Some(of) = schema.get("x-kubernetes-list-type") {
            return match of.as_str() {
                Some("atomic") => Ok(ListRelationship::Atomic),
                Some("set") => Ok(ListRelationship::Set),
                Some("map") => match schema.get("x-kubernetes-list-map-keys") {
                    None => Err(self.error("missing map keys")),
                    Some(Value::Array(keys)) => Ok(ListRelationship::Keyed(
                        keys.iter().filter_map(Value::as_str).map(Arc::from).collect(),
                    )),
                    Some(keys) => Err(self.error(format!("uninterpreted map keys: {keys}"))),
                },
                _ => Err(self.error(format!("unknown list type {of}"))),
            };
        }
        let Some(strategy) = schema.get("x-kubernetes-patch-strategy") else {
            return Ok(ListRelationship::Atomic);
        };
        match strategy.as_str() {
            Some("merge" | "merge,retainKeys") => match schema.get("x-kubernetes-patch-merge-key") {
                None => Ok(ListRelationship::Set),
                Some(Value::String(key)) => Ok(ListRelationship::Keyed(vec![key.as_str().into()])),
                Some(key) => Err(self.error(format!("uninterpreted merge key: {key}"))),
            },
            Some("retainKeys") => Ok(ListRelationship::Atomic),
            _ => Err(self.error(format!("unknown patch strategy {strategy}"))),
        }
    }
}
