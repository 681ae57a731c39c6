//! What types are made from: schemas in the vocabulary of OpenAPI, as JSON or in whatever form a caller has them.

use serde_json::Value;

use crate::schema::{ListRelationship, MapRelationship};

/// Why a schema does not make a type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{type_name}: {reason}")]
pub struct SchemaError {
    /// The type in which something is wrong; empty until it is known.
    pub type_name: String,
    /// What is wrong.
    pub reason: String,
}

impl SchemaError {
    fn new(reason: String) -> Self {
        Self { type_name: String::new(), reason }
    }
}

/// `additionalProperties` of a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdditionalProperties<S> {
    /// Nothing is said about them.
    Absent,
    /// Whether there may be any.
    Allowed(bool),
    /// Their schema.
    Schema(S),
}

/// `items` of a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Items<S> {
    /// Nothing is said about them.
    Absent,
    /// Their schema.
    Schema(S),
    /// A schema for each of them.
    List,
}

/// A schema, with the extensions of Kubernetes. JSON is one, as OpenAPI v3 documents have it.
pub trait SchemaSource<'s>: Copy {
    /// What it refers to, directly or as the only part of an allOf, or "".
    fn reference(self) -> &'s str;
    /// Its type, if there is one.
    fn type_name(self) -> Option<&'s str>;
    /// Its format, or "".
    fn format(self) -> &'s str;
    /// Its default, if it is not null.
    fn default_value(self) -> Option<&'s Value>;
    /// `x-kubernetes-preserve-unknown-fields`.
    fn preserves_unknown_fields(self) -> bool;
    /// `x-kubernetes-embedded-resource`.
    fn is_embedded_resource(self) -> bool;
    /// The schemas of fields.
    fn properties(self) -> impl Iterator<Item = (&'s str, Self)>;
    /// The schema of other fields.
    fn additional_properties(self) -> AdditionalProperties<Self>;
    /// The schema of items.
    fn items(self) -> Items<Self>;
    /// `x-kubernetes-map-type`.
    ///
    /// # Errors
    /// There is no such type.
    fn map_relationship(self) -> Result<Option<MapRelationship>, SchemaError>;
    /// `x-kubernetes-list-type` with its keys, or else `x-kubernetes-patch-strategy` with its key.
    ///
    /// # Errors
    /// There is no such type, or keys are missing.
    fn list_relationship(self) -> Result<ListRelationship, SchemaError>;
}

impl<'s> SchemaSource<'s> for &'s Value {
    fn reference(self) -> &'s str {
        let direct = self.get("$ref").and_then(Value::as_str).unwrap_or_default();
        if !direct.is_empty() {
            return direct;
        }
        match self.get("allOf").and_then(Value::as_array).map(Vec::as_slice) {
            Some([only]) => only.get("$ref").and_then(Value::as_str).unwrap_or_default(),
            _ => "",
        }
    }

    fn type_name(self) -> Option<&'s str> {
        let name = self.get("type")?;
        Some(name.get(0).unwrap_or(name).as_str().unwrap_or_default())
    }

    fn format(self) -> &'s str {
        self.get("format").and_then(Value::as_str).unwrap_or_default()
    }

    fn default_value(self) -> Option<&'s Value> {
        self.get("default").filter(|default| !default.is_null())
    }

    fn preserves_unknown_fields(self) -> bool {
        self.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true))
    }

    fn is_embedded_resource(self) -> bool {
        self.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true))
    }

    fn properties(self) -> impl Iterator<Item = (&'s str, Self)> {
        let properties = self.get("properties").and_then(Value::as_object).into_iter().flatten();
        properties.map(|(name, schema)| (name.as_str(), schema))
    }

    fn additional_properties(self) -> AdditionalProperties<Self> {
        match self.get("additionalProperties") {
            None | Some(Value::Null) => AdditionalProperties::Absent,
            Some(schema @ Value::Object(_)) => AdditionalProperties::Schema(schema),
            Some(other) => AdditionalProperties::Allowed(*other == Value::Bool(true)),
        }
    }

    fn items(self) -> Items<Self> {
        match self.get("items") {
            Some(schema @ Value::Object(_)) => Items::Schema(schema),
            Some(Value::Array(_)) => Items::List,
            _ => Items::Absent,
        }
    }

    fn map_relationship(self) -> Result<Option<MapRelationship>, SchemaError> {
        match self.get("x-kubernetes-map-type") {
            None => Ok(None),
            Some(map_type) if map_type == "atomic" => Ok(Some(MapRelationship::Atomic)),
            Some(map_type) if map_type == "granular" => Ok(Some(MapRelationship::Granular)),
            Some(map_type) => Err(SchemaError::new(format!("unknown map type {map_type}"))),
        }
    }

    fn list_relationship(self) -> Result<ListRelationship, SchemaError> {
        let wrong = |reason: String| Err(SchemaError::new(reason));
        if let Some(list_type) = self.get("x-kubernetes-list-type") {
            return match list_type.as_str() {
                Some("atomic") => Ok(ListRelationship::Atomic),
                Some("set") => Ok(ListRelationship::Set),
                Some("map") => match self.get("x-kubernetes-list-map-keys") {
                    None => wrong("missing map keys".to_owned()),
                    Some(Value::Array(keys)) => {
                        Ok(ListRelationship::keyed(keys.iter().filter_map(Value::as_str)))
                    }
                    Some(keys) => wrong(format!("uninterpreted map keys: {keys}")),
                },
                _ => wrong(format!("unknown list type {list_type}")),
            };
        }
        let Some(strategy) = self.get("x-kubernetes-patch-strategy") else {
            return Ok(ListRelationship::Atomic);
        };
        match strategy.as_str() {
            Some("merge" | "merge,retainKeys") => match self.get("x-kubernetes-patch-merge-key") {
                None => Ok(ListRelationship::Set),
                Some(Value::String(key)) => Ok(ListRelationship::keyed([key.as_str()])),
                Some(key) => wrong(format!("uninterpreted merge key: {key}")),
            },
            Some("retainKeys") => Ok(ListRelationship::Atomic),
            _ => wrong(format!("unknown patch strategy {strategy}")),
        }
    }
}
