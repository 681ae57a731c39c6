//! `x-kubernetes-*` extensions of a schema, but rules.

use std::collections::HashSet;

use serde_json::Value;
use settled_apimachinery::field::{Error as FieldError, Path};
use settled_go as go;

use super::list_types::{non_atomic_set_type, validate_map_list_keys_map_set};
use super::options::ValidationOptions;
use crate::dump::dump_items;
use crate::props::JsonSchemaProps;

pub(super) fn validate_extensions(
    schema: &JsonSchemaProps,
    options: &ValidationOptions,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    if schema.preserve_unknown == Some(false) {
        let path = path.child("x-kubernetes-preserve-unknown-fields");
        errors.push(FieldError::invalid(path, false, "must be true or undefined"));
    }
    if let Some(map_type) = &schema.map_type {
        if schema.type_ != "object" {
            errors.push(wrong_type(schema, path, "must be object if x-kubernetes-map-type is specified"));
        }
        if !matches!(map_type.as_str(), "atomic" | "granular") {
            let path = path.child("x-kubernetes-map-type");
            errors.push(FieldError::not_supported(path, map_type.as_str(), ["atomic", "granular"]));
        }
    }
    if let Some(list_type) = &schema.list_type {
        validate_list_type(schema, list_type, options, path, errors);
    }
    validate_list_map_keys(schema, path, errors);
    if options.require_map_list_keys_map_set_validation {
        validate_map_list_keys_map_set(schema, path, errors);
    }
}

fn wrong_type(schema: &JsonSchemaProps, path: &Path<'_>, detail: &str) -> FieldError {
    let path = path.child("type");
    if schema.type_.is_empty() {
        FieldError::required(path, detail)
    } else {
        FieldError::invalid(path, schema.type_.as_str(), detail)
    }
}

fn validate_list_type(
    schema: &JsonSchemaProps,
    list_type: &str,
    options: &ValidationOptions,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    if schema.type_ != "array" {
        errors.push(wrong_type(schema, path, "must be array if x-kubernetes-list-type is specified"));
    } else if options.require_atomic_set_type
        && let Some(field) = non_atomic_set_type(schema)
    {
        let item_type = schema.item().and_then(|item| item.list_type.as_deref());
        let shown = go::json::to_string(&item_type.map_or(Value::Null, Value::from));
        let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
        errors.push(FieldError::invalid_shown(path.child("items").child(field), shown, detail));
    }
    if !matches!(list_type, "atomic" | "set" | "map") {
        let path = path.child("x-kubernetes-list-type");
        errors.push(FieldError::not_supported(path, list_type, ["atomic", "set", "map"]));
    }
}

fn validate_list_map_keys(schema: &JsonSchemaProps, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let keys = schema.list_map_keys.as_deref().unwrap_or_default();
    if !keys.is_empty() {
        let path = path.child("x-kubernetes-list-type");
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        match schema.list_type.as_deref() {
            None => errors.push(FieldError::required(path, detail)),
            Some("map") => {}
            Some(other) => errors.push(FieldError::invalid(path, other, detail)),
        }
    }
    if !schema.is_list("map") {
        return;
    }
    let keys_path = path.child("x-kubernetes-list-map-keys");
    if keys.is_empty() {
        let detail = "must not be empty if x-kubernetes-list-type is map";
        errors.push(FieldError::required(keys_path, detail));
    }
    let items_path = path.child("items");
    let Some(items) = &schema.items else {
        let detail = "must have a schema if x-kubernetes-list-type is map";
        errors.push(FieldError::required(items_path, detail));
        return;
    };
    match &items.schema {
        None => {
            let mut shown = String::new();
            dump_items(items, &mut shown);
            let detail = "must only have a single schema if x-kubernetes-list-type is map";
            errors.push(FieldError::invalid_shown(items_path, shown, detail));
        }
        Some(item) if item.type_ != "object" => {
            let detail = "must be object if parent array's x-kubernetes-list-type is map";
            errors.push(FieldError::invalid(items_path.child("type"), item.type_.as_str(), detail));
        }
        Some(item) => validate_keys(item, keys, &items_path, &keys_path, errors),
    }
}

fn validate_keys(
    item: &JsonSchemaProps,
    keys: &[String],
    items_path: &Path<'_>,
    keys_path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    let mut seen = HashSet::new();
    for key in keys {
        match item.property(key) {
            Some(property) if matches!(property.type_.as_str(), "array" | "object") => {
                let properties = items_path.child("properties");
                let path = properties.key(key);
                let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                errors.push(FieldError::invalid(path.child("type"), item.type_.as_str(), detail));
            }
            Some(_) => {}
            None => {
                let detail = "entries must all be names of item properties";
                errors.push(FieldError::invalid(keys_path, keys, detail));
            }
        }
        if !seen.insert(key) {
            errors.push(FieldError::invalid(keys_path, keys, "must not contain duplicate entries"));
        }
    }
}
