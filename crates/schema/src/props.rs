//! `JSONSchemaProps`: a schema as it is written, with all its fields, also those that no structural schema may have.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::rule::ValidationRule;

/// `JSONSchemaProps`: the schema of a version of a CRD, decoded once with [`JsonSchemaProps::parse`].
///
/// It is the source of all that is derived of a schema: validation and rules by [`Schema::new_structural`](crate::Schema::new_structural),
/// published OpenAPI by [`JsonSchemaProps::to_open_api`]. It is large, and not to be kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JsonSchemaProps {
    pub(crate) id: String,
    pub(crate) schema: String,
    pub(crate) reference: Option<String>,
    pub(crate) description: String,
    pub(crate) type_: String,
    pub(crate) nullable: bool,
    pub(crate) format: String,
    pub(crate) title: String,
    pub(crate) default: Option<Value>,
    pub(crate) maximum: Option<f64>,
    pub(crate) exclusive_maximum: bool,
    pub(crate) minimum: Option<f64>,
    pub(crate) exclusive_minimum: bool,
    pub(crate) max_length: Option<i64>,
    pub(crate) min_length: Option<i64>,
    pub(crate) pattern: String,
    pub(crate) max_items: Option<i64>,
    pub(crate) min_items: Option<i64>,
    pub(crate) unique_items: bool,
    pub(crate) multiple_of: Option<f64>,
    pub(crate) enumeration: Option<Vec<Value>>,
    pub(crate) max_properties: Option<i64>,
    pub(crate) min_properties: Option<i64>,
    pub(crate) required: Option<Vec<String>>,
    pub(crate) items: Option<Box<SchemaOrArray>>,
    pub(crate) all_of: Option<Vec<Self>>,
    pub(crate) one_of: Option<Vec<Self>>,
    pub(crate) any_of: Option<Vec<Self>>,
    pub(crate) not: Option<Box<Self>>,
    pub(crate) properties: Option<BTreeMap<String, Self>>,
    pub(crate) additional: Option<Box<SchemaOrBool>>,
    pub(crate) pattern_properties: Option<BTreeMap<String, Self>>,
    pub(crate) dependencies: Option<BTreeMap<String, SchemaOrStringArray>>,
    pub(crate) additional_items: Option<Box<SchemaOrBool>>,
    pub(crate) definitions: Option<BTreeMap<String, Self>>,
    pub(crate) external_docs: Option<(String, String)>,
    pub(crate) example: Option<Value>,
    pub(crate) preserve_unknown: Option<bool>,
    pub(crate) embedded: bool,
    pub(crate) int_or_string: bool,
    pub(crate) list_map_keys: Option<Vec<String>>,
    pub(crate) list_type: Option<String>,
    pub(crate) map_type: Option<String>,
    pub(crate) validations: Option<Vec<ValidationRule>>,
}

/// `JSONSchemaPropsOrArray`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SchemaOrArray {
    pub(crate) schema: Option<JsonSchemaProps>,
    pub(crate) list: Option<Vec<JsonSchemaProps>>,
}

/// `JSONSchemaPropsOrBool`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SchemaOrBool {
    pub(crate) allows: bool,
    pub(crate) schema: Option<JsonSchemaProps>,
}

/// `JSONSchemaPropsOrStringArray`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SchemaOrStringArray {
    pub(crate) schema: Option<Box<JsonSchemaProps>>,
    pub(crate) property: Option<Vec<String>>,
}

impl JsonSchemaProps {
    /// The schema of items, if there is exactly one.
    pub(crate) fn item(&self) -> Option<&Self> {
        self.items.as_ref().and_then(|items| items.schema.as_ref())
    }

    pub(crate) fn has_properties(&self) -> bool {
        self.properties.as_ref().is_some_and(|all| !all.is_empty())
    }

    pub(crate) fn property(&self, name: &str) -> Option<&Self> {
        self.properties.as_ref().and_then(|all| all.get(name))
    }

    /// Whether this is its `x-kubernetes-list-type`.
    pub(crate) fn is_list(&self, list_type: &str) -> bool {
        self.list_type.as_deref() == Some(list_type)
    }

    /// `SchemaHas`: whether the predicate holds for a schema of the tree.
    pub(crate) fn has(&self, predicate: &dyn Fn(&Self) -> bool) -> bool {
        let in_list = |list: &Option<Vec<Self>>| list.iter().flatten().any(|schema| schema.has(predicate));
        let in_map = |map: &Option<BTreeMap<String, Self>>| {
            map.iter().flat_map(BTreeMap::values).any(|schema| schema.has(predicate))
        };
        let in_either = |either: &Option<Box<SchemaOrBool>>| {
            either
                .as_ref()
                .and_then(|either| either.schema.as_ref())
                .is_some_and(|schema| schema.has(predicate))
        };
        predicate(self)
            || self.items.as_ref().is_some_and(|items| {
                items.schema.as_ref().is_some_and(|schema| schema.has(predicate)) || in_list(&items.list)
            })
            || in_list(&self.all_of)
            || in_list(&self.any_of)
            || in_list(&self.one_of)
            || self.not.as_ref().is_some_and(|schema| schema.has(predicate))
            || in_map(&self.properties)
            || in_either(&self.additional)
            || in_map(&self.pattern_properties)
            || in_either(&self.additional_items)
            || in_map(&self.definitions)
            || self
                .dependencies
                .iter()
                .flat_map(BTreeMap::values)
                .any(|dependency| dependency.schema.as_ref().is_some_and(|schema| schema.has(predicate)))
    }
}
