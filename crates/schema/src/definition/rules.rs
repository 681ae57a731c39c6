//! `x-kubernetes-validations`, without a look into their expressions.

use settled_apimachinery::field::{Error as FieldError, Path};

use super::field_path::valid_field_path;
use crate::props::JsonSchemaProps;
use crate::rule::ValidationRule;
use crate::structural;

/// `supportedValidationReason`.
const REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

fn has_newlines(text: &str) -> bool {
    text.contains(['\n', '\r'])
}

pub(super) fn validate_rule(
    rule: &ValidationRule,
    schema: &JsonSchemaProps,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    let message = rule.message.as_str();
    let (trimmed_rule, trimmed_message) = (rule.rule.trim(), message.trim());
    if trimmed_rule.is_empty() {
        errors.push(FieldError::required(path.child("rule"), "rule is not specified"));
    } else if !message.is_empty() && trimmed_message.is_empty() {
        errors.push(FieldError::invalid(path.child("message"), message, "must be non-empty if specified"));
    } else if has_newlines(trimmed_message) {
        errors.push(FieldError::invalid(path.child("message"), message, "must not contain line breaks"));
    } else if has_newlines(trimmed_rule) && trimmed_message.is_empty() {
        let detail = "message must be specified if rule contains line breaks";
        errors.push(FieldError::required(path.child("message"), detail));
    }
    if !rule.message_expression.is_empty() && rule.message_expression.trim().is_empty() {
        let detail = "messageExpression must be non-empty if specified";
        errors.push(FieldError::required(path.child("messageExpression"), detail));
    }
    if let Some(reason) = rule.reason.as_deref().filter(|reason| !REASONS.contains(reason)) {
        errors.push(FieldError::not_supported(path.child("reason"), reason, REASONS));
    }
    if !rule.field_path.is_empty() {
        validate_field_path(&rule.field_path, schema, &path.child("fieldPath"), errors);
    }
}

fn validate_field_path(
    field_path: &str,
    schema: &JsonSchemaProps,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    if field_path.trim().is_empty() {
        errors.push(FieldError::invalid(path, field_path, "must be non-empty if specified"));
    }
    if has_newlines(field_path) {
        errors.push(FieldError::invalid(path, field_path, "must not contain line breaks"));
    }
    if structural::unsupported(schema).is_none() && valid_field_path(field_path, schema, true).is_err() {
        errors.push(FieldError::invalid(path, field_path, "must be a valid path"));
    }
}
