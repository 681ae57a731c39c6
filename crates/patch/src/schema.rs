//! Patch strategies and merge keys of types, from OpenAPI v3 documents of built-in kinds. Custom resources have no strategic merge.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde_json::Value;
use settled_go::strconv::quote;

use crate::error::PatchError;

/// The type of a field or of the items of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldType {
    /// An object with known fields, by the name of its component.
    Struct {
        /// The component.
        component: Arc<str>,
        /// Whether it is a pointer in Go, which affects only error texts.
        pointer: bool,
    },
    /// A list.
    List(Box<Self>),
    /// A map with arbitrary keys.
    Map,
    /// A scalar: Go's name of the kind.
    Scalar(&'static str),
}

/// A field of a component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatchField {
    /// `x-kubernetes-patch-strategy`, split: `merge`, `replace`, `retainKeys`. If empty, objects are merged and lists
    /// replaced.
    pub strategies: Vec<String>,
    /// `x-kubernetes-patch-merge-key`, or empty.
    pub merge_key: String,
    /// The type of the field.
    pub field_type: FieldType,
}

/// Type information for strategic merge.
///
/// Implemented by [`PatchTypes`] for OpenAPI documents.
pub trait StrategicSchema {
    /// Looks up a field of a component by its JSON name. As upstream, the lookup may ignore case.
    fn field(&self, component: &str, name: &str) -> Option<&PatchField>;

    /// Whether the component exists.
    fn has(&self, component: &str) -> bool;
}

/// Type information from the components of OpenAPI v3 documents.
///
/// ```
/// use serde_json::json;
/// use settled_patch::{PatchTypes, strategic_merge};
///
/// let mut types = PatchTypes::default();
/// types.add_components(json!({
///     "example.v1.Widget": {"type": "object", "properties": {"parts": {
///         "type": "array",
///         "items": {"default": {}, "allOf": [{"$ref": "#/components/schemas/example.v1.Part"}]},
///         "x-kubernetes-patch-strategy": "merge",
///         "x-kubernetes-patch-merge-key": "name",
///     }}},
///     "example.v1.Part": {"type": "object", "properties": {
///         "name": {"type": "string"},
///         "size": {"type": "integer", "format": "int32"},
///     }},
/// }).as_object().unwrap());
///
/// let object = json!({"parts": [{"name": "a", "size": 1}, {"name": "b", "size": 2}]});
/// let patch = json!({"parts": [{"name": "b", "size": 3}, {"name": "a", "$patch": "delete"}]});
/// assert_eq!(
///     strategic_merge(&object, &patch, &types, "example.v1.Widget").unwrap(),
///     json!({"parts": [{"name": "b", "size": 3}]}),
/// );
/// ```
#[derive(Clone, Debug, Default)]
pub struct PatchTypes {
    components: HashMap<Arc<str>, BTreeMap<String, PatchField>>,
}

/// Maximum nesting of a schema within a component. Deeper schemas are maps.
const MAX_SCHEMA_DEPTH: usize = 32;

impl PatchTypes {
    /// Adds `components.schemas` of a document. Existing components are replaced.
    pub fn add_components(&mut self, schemas: &serde_json::Map<String, Value>) {
        for (name, schema) in schemas {
            self.add(name.as_str().into(), schema, 0);
        }
    }

    fn add(&mut self, name: Arc<str>, schema: &Value, depth: usize) {
        let mut fields = BTreeMap::new();
        for (field, schema) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let text = |key: &str| schema.get(key).and_then(Value::as_str).unwrap_or_default();
            let strategies = text("x-kubernetes-patch-strategy").split(',').filter(|one| !one.is_empty());
            fields.insert(
                field.clone(),
                PatchField {
                    strategies: strategies.map(ToOwned::to_owned).collect(),
                    merge_key: text("x-kubernetes-patch-merge-key").to_owned(),
                    field_type: self.field_type(&name, field, schema, depth),
                },
            );
        }
        self.components.insert(name, fields);
    }

    fn field_type(&mut self, parent: &str, field: &str, schema: &Value, depth: usize) -> FieldType {
        if depth > MAX_SCHEMA_DEPTH {
            return FieldType::Map;
        }
        let of = |schema: &Value| schema.get("$ref").and_then(Value::as_str).map(ToOwned::to_owned);
        let wrapped = schema.get("allOf").and_then(|all| all.get(0)).and_then(of);
        if let Some(reference) = of(schema).or(wrapped) {
            let name = reference.rsplit('/').next().unwrap_or(&reference);
            // Only non-pointers have an empty default.
            return FieldType::Struct { component: name.into(), pointer: schema.get("default").is_none() };
        }
        let format = schema.get("format").and_then(Value::as_str);
        match schema.get("type").and_then(Value::as_str) {
            Some("array") => {
                let none = Value::Null;
                let items = schema.get("items").unwrap_or(&none);
                FieldType::List(Box::new(self.field_type(parent, field, items, depth + 1)))
            }
            Some("string") if format == Some("byte") => FieldType::List(Box::new(FieldType::Scalar("uint8"))),
            Some("string") => FieldType::Scalar("string"),
            Some("integer") if format == Some("int32") => FieldType::Scalar("int32"),
            Some("integer") => FieldType::Scalar("int64"),
            Some("number") => FieldType::Scalar("float64"),
            Some("boolean") => FieldType::Scalar("bool"),
            _ if schema.get("properties").is_some() => {
                let component: Arc<str> = format!("{parent}.{field}").into();
                self.add(component.clone(), schema, depth + 1);
                FieldType::Struct { component, pointer: schema.get("default").is_none() }
            }
            _ => FieldType::Map,
        }
    }
}

impl StrategicSchema for PatchTypes {
    fn field(&self, component: &str, name: &str) -> Option<&PatchField> {
        let fields = self.components.get(component)?;
        fields.get(name).or_else(|| {
            let folded =
                |name: &str| name.replace('\u{17f}', "s").replace('\u{212a}', "k").to_ascii_lowercase();
            let wanted = folded(name);
            fields.iter().find(|(field, _)| folded(field) == wanted).map(|(_, field)| field)
        })
    }

    fn has(&self, component: &str) -> bool {
        self.components.contains_key(component)
    }
}

/// Go's name of the kind of a type.
pub(crate) const fn kind(at: &FieldType) -> &'static str {
    match at {
        FieldType::Struct { pointer: true, .. } => "ptr",
        FieldType::Struct { .. } => "struct",
        FieldType::List(_) => "slice",
        FieldType::Map => "map",
        FieldType::Scalar(kind) => kind,
    }
}

/// Looks up a field of an object to merge.
pub(crate) fn field<'s>(
    types: &'s impl StrategicSchema,
    at: &FieldType,
    name: &str,
) -> Result<&'s PatchField, PatchError> {
    let FieldType::Struct { component, .. } = at else {
        return Err(PatchError::Internal(format!(
            "merging an object in json but data type is not struct, instead is: {}",
            kind(at)
        )));
    };
    types.field(component, name).ok_or_else(|| {
        let short = component.rsplit('.').next().unwrap_or(component);
        PatchError::Internal(format!(
            "unable to find api field in struct {short} for the json field {}",
            quote(name)
        ))
    })
}

/// Looks up a field with a list to merge, and its item type.
pub(crate) fn list_field<'s>(
    types: &'s impl StrategicSchema,
    at: &FieldType,
    name: &str,
) -> Result<(&'s PatchField, FieldType), PatchError> {
    let found = field(types, at, name)?;
    match &found.field_type {
        FieldType::List(items) if matches!(**items, FieldType::List(_)) => {
            Err(PatchError::Internal("unexpected slice of slice".to_owned()))
        }
        FieldType::List(items) => Ok((found, (**items).clone())),
        FieldType::Struct { component, pointer: true } => {
            Ok((found, FieldType::Struct { component: component.clone(), pointer: false }))
        }
        _ => Err(PatchError::Internal(format!("expected slice or array type, but got: {}", kind(at)))),
    }
}

/// The strategy besides `retainKeys`, or empty.
pub(crate) fn strategy(field: &PatchField) -> Result<&str, PatchError> {
    let strategies: Vec<&str> = field.strategies.iter().map(String::as_str).collect();
    match strategies[..] {
        [] | ["retainKeys"] => Ok(""),
        [one] | ["retainKeys", one] | [one, "retainKeys"] => Ok(one),
        _ => Err(PatchError::Internal(format!("unexpected patch strategy: [{}]", strategies.join(" ")))),
    }
}
