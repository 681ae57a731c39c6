//! Types from schemas of OpenAPI v3 documents and of custom resources.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use serde_json::{Map, Value, json};

use crate::MAX_DEPTH;
use crate::schema::{Atom, ListType, MapRelationship, MapType, Scalar, Schema, StructField, TypeRef};
use crate::source::{AdditionalProperties, Items, SchemaError, SchemaSource};

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
            if !component.reference().is_empty() && component.get("$ref").is_some() {
                continue;
            }
            let atom = match name.as_str() {
                QUANTITY => Atom::scalar(Scalar::Untyped),
                RAW_EXTENSION => {
                    Self::deduced().resolve(&TypeRef::atomic()).map(Cow::into_owned).unwrap_or_default()
                }
                _ => Convert { name, depth: 0 }.atom(component, preserve_unknown)?,
            };
            types.push((name.as_str(), atom));
        }
        Ok(Self::new(types))
    }

    /// A schema of one version of a custom resource, from the `openAPIV3Schema` of its definition, as JSON or in another
    /// form. The type has the name `kind`. The fields that every object has are added.
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
    pub fn from_crd<'s>(
        kind: &str,
        schema: impl SchemaSource<'s>,
        preserve_unknown: bool,
    ) -> Result<Self, SchemaError> {
        let meta = Convert { name: OBJECT_META, depth: 0 }.atom(&*META, preserve_unknown)?;
        let root = Convert { name: kind, depth: 0 }.object(schema, preserve_unknown)?;
        Ok(Self::new([(OBJECT_META, meta), (kind, root)]))
    }
}

/// The fields that every object has.
fn object_fields() -> [(&'static str, StructField); 3] {
    let text = || TypeRef::inline(Atom::scalar(Scalar::String)).into();
    [("apiVersion", text()), ("kind", text()), ("metadata", TypeRef::named(OBJECT_META).into())]
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

    /// The root of a custom resource.
    fn object<'s>(self, schema: impl SchemaSource<'s>, preserve: bool) -> Result<Atom, SchemaError> {
        match schema.type_name() {
            None | Some("object") => {
                let preserve = preserve || schema.preserves_unknown_fields();
                Ok(Atom::map(self.map(schema, preserve, true)?))
            }
            Some(_) => self.atom(schema, preserve),
        }
    }

    fn atom<'s>(self, schema: impl SchemaSource<'s>, preserve: bool) -> Result<Atom, SchemaError> {
        if self.depth > MAX_DEPTH {
            return Err(self.error(format!("the schema is nested more than {MAX_DEPTH} levels deep")));
        }
        let preserve = preserve || schema.preserves_unknown_fields();
        let is_resource = schema.is_embedded_resource();
        Ok(match schema.type_name().unwrap_or_default() {
            "" => Atom {
                scalar: Some(Scalar::Untyped),
                list: Some(Arc::new(self.list(schema, preserve)?)),
                map: Some(Arc::new(self.map(schema, preserve, is_resource)?)),
            },
            "object" => Atom::map(self.map(schema, preserve, is_resource)?),
            "array" => Atom::list(self.list(schema, preserve)?),
            "integer" | "number" => Atom::scalar(Scalar::Numeric),
            "boolean" => Atom::scalar(Scalar::Boolean),
            "string" => match schema.format() {
                "" | "byte" => Atom::scalar(Scalar::String),
                // Dates are written in more than one way, and some formats stand for numbers, too.
                _ => Atom::scalar(Scalar::Untyped),
            },
            other => return Err(self.error(format!("unrecognized type: '{other}'"))),
        })
    }

    fn type_ref<'s>(self, schema: impl SchemaSource<'s>, preserve: bool) -> Result<TypeRef, SchemaError> {
        let name = schema.reference().rsplit('/').next().unwrap_or_default();
        if name.is_empty() {
            let inner = Self { depth: self.depth + 1, ..self };
            return Ok(TypeRef::inline(inner.atom(schema, preserve)?));
        }
        Ok(TypeRef::Named { name: name.into(), relationship: self.map_relationship(schema)? })
    }

    /// Upstream adds the fields of every object to embedded resources, too, when it publishes the schema of a custom resource.
    fn map<'s>(
        self,
        schema: impl SchemaSource<'s>,
        preserve: bool,
        is_resource: bool,
    ) -> Result<MapType, SchemaError> {
        let mut fields: Vec<(&str, StructField)> = Vec::new();
        if is_resource {
            fields.extend(object_fields());
        }
        for (name, property) in schema.properties() {
            if is_resource && matches!(name, "apiVersion" | "kind" | "metadata") {
                continue;
            }
            let type_ref = self.type_ref(property, preserve)?;
            fields.push((name, StructField { type_ref, default: property.default_value().cloned() }));
        }
        let element_type = match schema.additional_properties() {
            AdditionalProperties::Absent if preserve || fields.is_empty() => TypeRef::deduced(),
            AdditionalProperties::Allowed(true) => TypeRef::deduced(),
            AdditionalProperties::Schema(values) => self.type_ref(values, preserve)?,
            AdditionalProperties::Absent | AdditionalProperties::Allowed(false) => TypeRef::None,
        };
        let mut map = MapType::new(fields);
        map.element_type = element_type;
        map.relationship = self.map_relationship(schema)?.unwrap_or_default();
        Ok(map)
    }

    fn list<'s>(self, schema: impl SchemaSource<'s>, preserve: bool) -> Result<ListType, SchemaError> {
        let relationship = schema.list_relationship().map_err(|error| self.error(error.reason))?;
        let element_type = match schema.items() {
            Items::Schema(items) => self.type_ref(items, preserve)?,
            Items::List => {
                return Err(self.error("structural schema arrays must have exactly one member subtype"));
            }
            Items::Absent if schema.type_name().is_some() => {
                return Err(self.error("`items` must be specified on arrays"));
            }
            Items::Absent => TypeRef::atomic(),
        };
        Ok(ListType { element_type, relationship })
    }

    fn map_relationship<'s>(
        self,
        schema: impl SchemaSource<'s>,
    ) -> Result<Option<MapRelationship>, SchemaError> {
        schema.map_relationship().map_err(|error| self.error(error.reason))
    }
}
