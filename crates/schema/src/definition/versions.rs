//! `validateCustomResourceDefinitionVersion`: what a version has of its own.

use serde_json::Value;
use settled_apimachinery::field::{Error as FieldError, Path};
use settled_go as go;

use super::columns::validate_custom_resource_column_definition;
use super::internal::InternalVersion;
use super::options::ValidationOptions;
use super::selectable_fields::validate_custom_resource_selectable_fields;
use super::subresources::validate_custom_resource_definition_subresources;
use super::validation::validate_custom_resource_definition_validation;

pub(super) fn validate_custom_resource_definition_version(
    version: &InternalVersion<'_>,
    is_status_enabled: bool,
    require_structural: bool,
    options: &ValidationOptions,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    let warning = version.deprecation_warning;
    for detail in validate_deprecation_warning(version.deprecated, warning) {
        // A pointer to a text is shown as JSON.
        let shown = go::json::to_string(&warning.map_or(Value::Null, Value::from));
        errors.push(FieldError::invalid_shown(path.child("deprecationWarning"), shown, detail));
    }
    let own = &version.own;
    if let Some(schema) = own.schema() {
        validate_custom_resource_definition_validation(
            schema,
            is_status_enabled,
            require_structural,
            options,
            &path.child("schema"),
            errors,
        );
    }
    let subresources = own.subresources.as_ref();
    validate_custom_resource_definition_subresources(subresources, &path.child("subresources"), errors);
    let columns_path = path.child("additionalPrinterColumns");
    for (index, column) in own.columns.iter().flatten().enumerate() {
        validate_custom_resource_column_definition(column, &columns_path.index(index), errors);
    }
    let fields = own.selectable_fields.as_deref().unwrap_or_default();
    match own.schema() {
        _ if fields.is_empty() => {}
        Some(schema) => {
            validate_custom_resource_selectable_fields(fields, schema, version.name, options, path, errors);
        }
        None => {
            let detail = "may only be set when `version.schema.openAPIV3Schema` is not included";
            errors.push(FieldError::invalid(path.child("selectableFields"), "", detail));
        }
    }
}

fn validate_deprecation_warning(deprecated: bool, warning: Option<&str>) -> Vec<String> {
    let Some(warning) = warning else { return Vec::new() };
    if !deprecated {
        return vec!["can only be set for deprecated versions".to_owned()];
    }
    let mut problems = Vec::new();
    if warning.len() > 256 {
        problems.push("must be <= 256 characters long".to_owned());
    }
    if warning.is_empty() {
        problems.push("must not be an empty string".to_owned());
    }
    if let Some((index, _)) = warning.char_indices().find(|(_, char)| !go::strconv::is_print(*char)) {
        problems.push(format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {index}"
        ));
    }
    problems
}
