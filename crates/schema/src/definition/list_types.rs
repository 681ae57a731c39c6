//! `x-kubernetes-list-type` of sets and maps: what their items must be.

use settled_apimachinery::field::{Error as FieldError, Path};

use crate::props::JsonSchemaProps;

/// `hasNonAtomicSetType`: the field because of which the items of a set are neither scalars nor atomic.
pub(super) fn non_atomic_set_type(schema: &JsonSchemaProps) -> Option<&'static str> {
    let item = schema.item().filter(|_| schema.is_list("set"))?;
    match item.type_.as_str() {
        "array" if item.list_type.as_deref().is_some_and(|list_type| list_type != "atomic") => {
            Some("x-kubernetes-list-type")
        }
        "object" if item.map_type.as_deref() != Some("atomic") => Some("x-kubernetes-map-type"),
        _ => None,
    }
}

pub(super) fn has_invalid_map_list_keys_map_set(schema: &JsonSchemaProps) -> bool {
    let mut errors = Vec::new();
    validate_map_list_keys_map_set(schema, &Path::Nil, &mut errors);
    !errors.is_empty()
}

/// Items of sets and maps are not null, and keys of maps are there.
pub(super) fn validate_map_list_keys_map_set(
    schema: &JsonSchemaProps,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    let (Some(item), Some(list_type @ ("set" | "map"))) = (schema.item(), schema.list_type.as_deref()) else {
        return;
    };
    let items = path.child("items");
    if item.nullable {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.push(FieldError::forbidden(items.child("nullable"), detail));
    }
    if list_type == "set" {
        return;
    }
    let properties = items.child("properties");
    for key in schema.list_map_keys.iter().flatten() {
        let Some(property) = item.property(key) else { continue };
        let path = properties.key(key);
        if property.default.is_none() && !item.required.iter().flatten().any(|name| name == key) {
            let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            errors.push(FieldError::required(path.child("default"), detail));
        }
        if property.nullable {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.push(FieldError::forbidden(path.child("nullable"), detail));
        }
    }
}
