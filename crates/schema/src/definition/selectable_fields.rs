//! `ValidateCustomResourceSelectableFields`.

use std::collections::HashSet;

use settled_apimachinery::field::{Error as FieldError, Path};

use super::field_path::valid_field_path;
use super::options::{MAX_SELECTABLE_FIELDS, ValidationOptions};
use super::v1::SelectableField;
use crate::props::JsonSchemaProps;
use crate::structural;

pub(super) fn validate_custom_resource_selectable_fields(
    fields: &[SelectableField<'_>],
    schema: &JsonSchemaProps,
    version: &str,
    options: &ValidationOptions,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    if let Some(detail) = structural::unsupported(schema) {
        errors.push(FieldError::invalid(path.child("schema.openAPIV3Schema"), "", detail));
        return;
    }
    let path = path.child("selectableFields");
    let mut unique = HashSet::new();
    for (index, field) in fields.iter().enumerate() {
        let path = path.index(index);
        let path = path.child("jsonPath");
        let json_path = field.json_path;
        if json_path.is_empty() {
            errors.push(FieldError::required(path, ""));
            continue;
        }
        let found = match valid_field_path(json_path, schema, false) {
            Ok(found) => found,
            Err(detail) => {
                errors.push(FieldError::invalid(path, json_path, format!("is an invalid path: {detail}")));
                continue;
            }
        };
        if found.first.as_deref() == Some("metadata") {
            errors.push(FieldError::invalid(path, json_path, "must not point to fields in metadata"));
        }
        if !matches!(found.schema.type_.as_str(), "string" | "boolean" | "integer") {
            errors.push(FieldError::invalid(
                path,
                json_path,
                "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are \
                 allowed.",
            ));
        }
        if !unique.insert(found.path) {
            errors.push(FieldError::duplicate(path, json_path));
        }
    }
    let is_allowed = options.too_many_selectable_fields_allowed.iter().any(|allowed| allowed == version);
    if unique.len() > MAX_SELECTABLE_FIELDS && !is_allowed {
        let count = i64::try_from(unique.len()).unwrap_or(i64::MAX);
        errors.push(FieldError::too_many(path, count, 8));
    }
}
