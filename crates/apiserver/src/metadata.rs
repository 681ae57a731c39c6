//! `metadata`: what every object must have right (`apimachinery/pkg/api/validation/objectmeta.go`).

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use settled_apimachinery::field::Path;
use settled_apimachinery::object_meta::{self, validate_object_meta, validate_object_meta_update};
use settled_apimachinery::validation;

use crate::error::Cause;
use crate::object::metadata;

/// How the names of a kind are built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameRule {
    /// Anything at all.
    Any,
    /// Anything that can be a part of a path: RBAC's.
    Path,
    /// Lower case words with dots between them: most kinds.
    Subdomain,
    /// One lower case word: namespaces.
    Label,
}

impl NameRule {
    /// What is wrong with a name. `prefix`: it is one that characters will be appended to.
    pub(crate) fn errors(self, name: &str, prefix: bool) -> Vec<String> {
        match self {
            Self::Any => Vec::new(),
            Self::Path => validation::validate_path_segment_name(name, prefix),
            Self::Subdomain => validation::name_is_dns_subdomain(name, prefix),
            Self::Label => validation::name_is_dns_label(name, prefix),
        }
    }
}

/// The fields of the structs that errors show, in the order of Go.
const ORDERS: [&[&str]; 3] = [
    &["matchLabels", "matchExpressions"],
    &["key", "operator", "values"],
    &["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"],
];

/// A value as Go's errors show it: JSON, with the fields of selectors and owners in the order of Go.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", items.iter().map(shown).collect::<Vec<_>>().join(",")),
        Value::Object(map) => {
            let order = ORDERS.iter().find(|order| map.keys().all(|name| order.contains(&name.as_str())));
            let pair = |name: &str, value: &Value| format!("{}:{}", Value::from(name), shown(value));
            let pairs: Vec<String> = match order {
                Some(order) => order.iter().filter_map(|name| Some(pair(name, map.get(*name)?))).collect(),
                None => map.iter().map(|(name, value)| pair(name, value)).collect(),
            };
            format!("{{{}}}", pairs.join(","))
        }
        other => other.to_string(),
    }
}

pub(crate) fn invalid(field: &str, value: &Value, why: &str) -> Cause {
    Cause::new("FieldValueInvalid", format!("Invalid value: {}: {why}", shown(value)), field)
}

pub(crate) fn forbidden(field: &str, why: &str) -> Cause {
    Cause::new("FieldValueForbidden", format!("Forbidden: {why}"), field)
}

/// What is wrong with the metadata of an object, by itself.
pub(crate) fn validate(object: &Value, namespaced: bool, names: NameRule) -> Vec<Cause> {
    let (nothing, mut errors) = (Map::new(), Vec::new());
    let name_errors = |name: &str, prefix: bool| names.errors(name, prefix);
    let path = Path::Nil;
    let meta = metadata(object).unwrap_or(&nothing);
    validate_object_meta(meta, namespaced, &name_errors, &path.child("metadata"), &mut errors);
    errors.iter().map(Cause::from).collect()
}

/// What is wrong with labels.
pub(crate) fn validate_labels(labels: Option<&Value>, field: &str, causes: &mut Vec<Cause>) {
    let mut errors = Vec::new();
    object_meta::validate_labels(labels, field, &mut errors);
    causes.extend(errors.iter().map(Cause::from));
}

/// What is wrong with annotations.
pub(crate) fn validate_annotations(annotations: Option<&Value>, field: &str, causes: &mut Vec<Cause>) {
    let mut errors = Vec::new();
    object_meta::validate_annotations(annotations, field, &mut errors);
    causes.extend(errors.iter().map(Cause::from));
}

/// What must not change between two versions of an object.
pub(crate) fn validate_update(new: &Value, old: &Value) -> Vec<Cause> {
    let (nothing, mut errors) = (Map::new(), Vec::new());
    let meta = |object| metadata(object).unwrap_or(&nothing);
    let path = Path::Nil;
    validate_object_meta_update(meta(new), meta(old), &path.child("metadata"), &mut errors);
    errors.iter().map(Cause::from).collect()
}

/// Drops members that are null, and empty maps and lists, from `metadata`: Go's type of it never holds them.
pub(crate) fn normalize(object: &mut Value) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    for name in ["labels", "annotations"] {
        if let Some(map) = metadata.get_mut(name).and_then(Value::as_object_mut) {
            for value in map.values_mut().filter(|value| value.is_null()) {
                *value = "".into();
            }
        }
    }
    metadata.retain(|name, value| match value {
        Value::Null => false,
        // No managers at all are a demand to forget them.
        Value::Array(list) => !list.is_empty() || name == "managedFields",
        Value::Object(map) => !map.is_empty(),
        Value::String(text) => {
            !text.is_empty()
                || !matches!(&**name, "generateName" | "selfLink" | "uid" | "resourceVersion" | "namespace")
        }
        Value::Number(number) => name != "generation" || number.as_i64() != Some(0),
        Value::Bool(_) => true,
    });
}

/// Removes owners that are given twice; their uids.
pub(crate) fn deduplicate_owners(object: &mut Value) -> Vec<String> {
    let owners = object.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut);
    let Some(owners) = owners else { return Vec::new() };
    let mut duplicates = Vec::new();
    let mut seen: BTreeSet<String> = BTreeSet::new();
    owners.retain(|owner| {
        let new = seen.insert(owner.to_string());
        if !new {
            duplicates.push(owner.get("uid").and_then(Value::as_str).unwrap_or_default().to_owned());
        }
        new
    });
    duplicates
}
