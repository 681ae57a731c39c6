//! `ValidateCustomResourceDefinitionOpenAPISchema`: each schema of the tree.

use std::collections::BTreeMap;

use settled_apimachinery::field::{Error as FieldError, Path};

use super::extensions::validate_extensions;
use super::options::{ValidationOptions, has_invalid_type};
use super::rules::validate_rule;
use crate::props::JsonSchemaProps;

/// Checks the schema of a version, and all that are in it.
pub(super) fn validate_custom_resource_definition_open_api_schema(
    schema: &JsonSchemaProps,
    options: &ValidationOptions,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    let context = Context { forbidden_defaults: None, inside_resource_meta: false };
    validate_schema(schema, &context, true, options, path, errors);
}

/// `specStandardValidatorV3`: where in a schema we are.
#[derive(Clone)]
struct Context {
    /// Why a default may not be set.
    forbidden_defaults: Option<String>,
    inside_resource_meta: bool,
}

fn validate_schema(
    schema: &JsonSchemaProps,
    context: &Context,
    is_root: bool,
    options: &ValidationOptions,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    validate_standard(schema, context, options, path, errors);
    if schema.unique_items {
        let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.push(FieldError::forbidden(path.child("uniqueItems"), detail));
    }
    if let Some(additional) = &schema.additional {
        let path = path.child("additionalProperties");
        if schema.has_properties() && (!additional.allows || additional.schema.is_some()) {
            let detail = "additionalProperties and properties are mutual exclusive";
            errors.push(FieldError::forbidden(path, detail));
        }
        if let Some(additional) = &additional.schema {
            let mut inner = context.clone();
            if context.inside_resource_meta {
                inner.forbidden_defaults =
                    Some("inside additionalProperties applying to object metadata".to_owned());
            }
            validate_schema(additional, &inner, false, options, &path, errors);
        }
    }
    let properties = path.child("properties");
    for (name, property) in schema.properties.iter().flatten() {
        let mut inner = context.clone();
        if (is_root || schema.embedded) && matches!(name.as_str(), "metadata" | "kind" | "apiVersion") {
            inner.inside_resource_meta = true;
            if is_root {
                inner.forbidden_defaults = Some(format!("in top-level {name}"));
            }
        }
        validate_schema(property, &inner, false, options, &properties.key(name), errors);
    }
    let mut validate_nested = |schema: &JsonSchemaProps, path: &Path<'_>| {
        validate_schema(schema, context, false, options, path, errors);
    };
    if let Some(not) = &schema.not {
        validate_nested(not, &path.child("not"));
    }
    for (name, list) in [("allOf", &schema.all_of), ("oneOf", &schema.one_of), ("anyOf", &schema.any_of)] {
        let path = path.child(name);
        for (index, nested) in list.iter().flatten().enumerate() {
            validate_nested(nested, &path.index(index));
        }
    }
    let definitions = path.child("definitions");
    for (name, nested) in schema.definitions.iter().flatten() {
        validate_nested(nested, &definitions.key(name));
    }
    if let Some(items) = &schema.items {
        let path = path.child("items");
        if let Some(nested) = &items.schema {
            validate_nested(nested, &path);
        }
        for (index, nested) in items.list.iter().flatten().enumerate() {
            validate_nested(nested, &path.index(index));
        }
    }
    let dependencies = path.child("dependencies");
    for (name, dependency) in schema.dependencies.iter().flatten() {
        if let Some(nested) = &dependency.schema {
            validate_nested(nested, &dependencies.key(name));
        }
    }
    validate_extensions(schema, options, path, errors);
    let rules = path.child("x-kubernetes-validations");
    for (index, rule) in schema.validations.iter().flatten().enumerate() {
        validate_rule(rule, schema, &rules.index(index), errors);
    }
}

/// `specStandardValidatorV3.validate`: what no schema of a CRD may have.
fn validate_standard(
    schema: &JsonSchemaProps,
    context: &Context,
    options: &ValidationOptions,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    if options.require_valid_property_type && has_invalid_type(schema) {
        let types = ["array", "boolean", "integer", "number", "object", "string"];
        errors.push(FieldError::not_supported(path.child("type"), schema.type_.as_str(), types));
    }
    if schema.default.is_some()
        && let Some(reason) = &context.forbidden_defaults
    {
        errors.push(FieldError::forbidden(path.child("default"), format!("must not be set {reason}")));
    }
    let is_set =
        |map: &Option<BTreeMap<String, JsonSchemaProps>>| map.as_ref().is_some_and(|map| !map.is_empty());
    let is_list_of_items =
        schema.items.as_ref().is_some_and(|items| items.list.as_ref().is_some_and(|list| !list.is_empty()));
    for (is_wrong, field, detail) in [
        (!schema.id.is_empty(), "id", "id is not supported"),
        (schema.additional_items.is_some(), "additionalItems", "additionalItems is not supported"),
        (is_set(&schema.pattern_properties), "patternProperties", "patternProperties is not supported"),
        (is_set(&schema.definitions), "definitions", "definitions is not supported"),
        (schema.dependencies.is_some(), "dependencies", "dependencies is not supported"),
        (schema.reference.is_some(), "$ref", "$ref is not supported"),
        (schema.type_ == "null", "type", "type cannot be set to null, use nullable as an alternative"),
        (is_list_of_items, "items", "items must be a schema object and not an array"),
        (
            context.inside_resource_meta && schema.embedded,
            "x-kubernetes-embedded-resource",
            "must not be used inside of resource meta",
        ),
    ] {
        if is_wrong {
            errors.push(FieldError::forbidden(path.child(field), detail));
        }
    }
}
