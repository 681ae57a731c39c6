//! Validation of values against their type.

use std::collections::BTreeSet;

use serde_json::Value;
use settled_go as go;

use super::element::item_element;
use super::{Duplicates, Kind, ValidationErrors, resolve};
use crate::MAX_DEPTH;
use crate::path::PathElement;
use crate::schema::{ListRelationship, Scalar, Schema, TypeRef};

pub(super) fn validate(
    value: &Value,
    schema: &Schema,
    type_ref: &TypeRef,
    duplicates: Duplicates,
) -> Result<(), ValidationErrors> {
    walk(value, schema, type_ref, duplicates, 0)
}

/// Whether a value is of a scalar type. Null is of every type.
pub(super) fn scalar(scalar: Scalar, value: Option<&Value>, side: &str) -> Result<(), ValidationErrors> {
    let Some(value) = value.filter(|value| !value.is_null()) else { return Ok(()) };
    let message = match scalar {
        Scalar::Numeric if !value.is_number() => {
            format!("{side}expected numeric (int or float), got {}", go::fmt::type_name(value))
        }
        Scalar::String if !value.is_string() => {
            format!("{side}expected string, got &value.valueUnstructured{{Value:{}}}", go::fmt::syntax(value))
        }
        Scalar::Boolean if !value.is_boolean() => {
            format!("{side}expected boolean, got &{{{}}}", go::fmt::plain(value))
        }
        Scalar::Untyped if value.is_array() || value.is_object() => {
            format!("{side}expected any scalar, got &{{{}}}", go::fmt::plain(value))
        }
        _ => return Ok(()),
    };
    Err(ValidationErrors::one(message))
}

fn walk(
    value: &Value,
    schema: &Schema,
    type_ref: &TypeRef,
    duplicates: Duplicates,
    depth: usize,
) -> Result<(), ValidationErrors> {
    if depth > MAX_DEPTH {
        return Err(ValidationErrors::too_deep());
    }
    let atom = resolve(schema, type_ref)?.for_value(Some(value));
    let mut errors = ValidationErrors::default();
    match Kind::of(&atom, type_ref)? {
        Kind::Scalar(expected) => return scalar(expected, Some(value), ""),
        Kind::Map(map) => match value {
            Value::Null => {}
            Value::Object(fields) => {
                for (name, field) in fields {
                    // Most fields are valid, and need no path.
                    let element = || PathElement::field(name.as_str());
                    let type_ref = map.type_of(name);
                    if map.field(name).is_none() && map.element_type == TypeRef::None {
                        errors
                            .append(ValidationErrors::one("field not declared in schema").below(&element()));
                        break;
                    }
                    if let Err(below) = walk(field, schema, type_ref, duplicates, depth + 1) {
                        errors.append(below.below(&element()));
                    }
                }
            }
            other => {
                return Err(ValidationErrors::one(format!(
                    "expected map, got &{{{}}}",
                    go::fmt::plain(other)
                )));
            }
        },
        Kind::List(list) => match value {
            Value::Null => {}
            Value::Array(items) => {
                let mut seen = BTreeSet::new();
                for (index, item) in items.iter().enumerate() {
                    let element = if list.relationship == ListRelationship::Atomic {
                        PathElement::Index(i64::try_from(index).unwrap_or(i64::MAX))
                    } else {
                        match item_element(schema, list, item) {
                            Ok(element) => element,
                            Err(reason) => {
                                errors.append(ValidationErrors::one(format!("element {index}: {reason}")));
                                break;
                            }
                        }
                    };
                    if let Err(below) = walk(item, schema, &list.element_type, duplicates, depth + 1) {
                        errors.append(below.below(&element));
                    }
                    if list.relationship != ListRelationship::Atomic {
                        if duplicates == Duplicates::Reject && seen.contains(&element) {
                            errors.append(ValidationErrors::one(format!(
                                "duplicate entries for key {element}"
                            )));
                        }
                        seen.insert(element);
                    }
                }
            }
            other => {
                return Err(ValidationErrors::one(format!(
                    "expected list, got &{{{}}}",
                    go::fmt::plain(other)
                )));
            }
        },
    }
    errors.into_result(())
}
