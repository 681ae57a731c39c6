//! `validateCustomResourceDefinitionValidation`: the schema of a version, from its root.

use settled_apimachinery::field::{Error as FieldError, Path};

use super::defaults::validate_defaults;
use super::open_api_schema::validate_custom_resource_definition_open_api_schema;
use super::options::ValidationOptions;
use crate::node::Schema;
use crate::props::JsonSchemaProps;
use crate::structural;

/// The fields of Go's structure that `allowedAtRootSchema` names.
const ALLOWED_AT_ROOT: &str = "[Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength \
                               MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs \
                               Example XPreserveUnknownFields XValidations]";

pub(super) fn validate_custom_resource_definition_validation(
    schema: &JsonSchemaProps,
    is_status_enabled: bool,
    require_structural: bool,
    options: &ValidationOptions,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    let mut found = Vec::new();
    let schema_path = path.child("openAPIV3Schema");
    if is_status_enabled {
        found.extend(validate_root_with_status(schema, path));
    }
    if schema.nullable {
        let detail = "nullable cannot be true at the root";
        found.push(FieldError::forbidden(path.child("openAPIV3Schema.nullable"), detail));
    }
    let mut unsupported = None;
    if require_structural {
        unsupported = structural::unsupported(schema);
        if unsupported.is_none() {
            let mut structural_errors = structural::validate(schema, &schema_path);
            if structural_errors.is_empty() && schema.has(&|schema| schema.default.is_some()) {
                let require_pruned = options.require_pruned_defaults;
                validate_defaults(&Schema::new(schema), require_pruned, &schema_path, &mut structural_errors);
            }
            found.append(&mut structural_errors);
        }
    }
    validate_custom_resource_definition_open_api_schema(schema, options, &schema_path, &mut found);
    if found.is_empty()
        && let Some(detail) = unsupported
    {
        found.push(FieldError::invalid(schema_path, "", detail));
    }
    errors.append(&mut found);
}

/// With the subresource `status`, a root may only have some fields. Upstream looks at them in their order, and stops at the first.
fn validate_root_with_status(schema: &JsonSchemaProps, path: &Path<'_>) -> Option<FieldError> {
    let has_earlier = !schema.id.is_empty() || !schema.schema.is_empty() || schema.reference.is_some();
    let has_later = schema.nullable
        || schema.default.is_some()
        || schema.enumeration.is_some()
        || schema.max_properties.is_some()
        || schema.min_properties.is_some()
        || schema.all_of.is_some()
        || schema.one_of.is_some()
        || schema.any_of.is_some()
        || schema.not.is_some()
        || schema.additional.is_some()
        || schema.pattern_properties.is_some()
        || schema.dependencies.is_some()
        || schema.additional_items.is_some()
        || schema.definitions.is_some()
        || schema.embedded
        || schema.int_or_string
        || schema.list_map_keys.is_some()
        || schema.list_type.is_some()
        || schema.map_type.is_some();
    let is_object = schema.type_.is_empty() || schema.type_ == "object";
    if !has_earlier && !is_object {
        let detail = "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
        return Some(FieldError::invalid(path.child("openAPIV3Schema.type"), schema.type_.as_str(), detail));
    }
    (has_earlier || has_later).then(|| {
        let detail = format!(
            "only {ALLOWED_AT_ROOT} fields are allowed at the root of the schema if the status subresource is enabled"
        );
        FieldError::invalid_shown(path.child("openAPIV3Schema"), schema.dump(), detail)
    })
}
