//! Validation of values against their type.

use std::collections::BTreeSet;

use serde_json::Value;
use settled_go as go;

use super::element::{has_element, item_element};
use super::{Duplicates, Kind, ValidationErrors, resolve};
use crate::MAX_DEPTH;
use crate::path::PathElement;
use crate::schema::{ListRelationship, Scalar, Schema, TypeRef};

/// `valid`: a valid value of the same type, in which duplicates are allowed.
pub(super) fn validate(
    value: &Value,
    valid: Option<&Value>,
    schema: &Schema,
    type_ref: &TypeRef,
    duplicates: Duplicates,
) -> Result<(), ValidationErrors> {
    walk(value, valid, schema, type_ref, duplicates, 0)
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
    valid: Option<&Value>,
    schema: &Schema,
    type_ref: &TypeRef,
    duplicates: Duplicates,
    depth: usize,
) -> Result<(), ValidationErrors> {
    if depth > MAX_DEPTH {
        return Err(ValidationErrors::too_deep());
    }
    let atom = resolve(schema, type_ref)?;
    let atom = atom.for_value(Some(value));
    let mut errors = ValidationErrors::default();
    match Kind::of(&atom, type_ref)? {
        Kind::Scalar(expected) => return scalar(expected, Some(value), ""),
        Kind::Map(map) => match value {
            Value::Null => {}
            Value::Object(fields) => {
                let valid = valid.and_then(Value::as_object);
                for (name, field) in fields {
                    let valid = valid.and_then(|valid| valid.get(name));
                    if valid == Some(field) {
                        continue;
                    }
                    // Most fields are valid, and need no path.
                    let element = || PathElement::field(name.as_str());
                    let named = map.field(name);
                    let type_ref = named.map_or(&map.element_type, |field| &field.type_ref);
                    if named.is_none() && map.element_type == TypeRef::None {
                        errors
                            .append(ValidationErrors::one("field not declared in schema").below(&element()));
                        break;
                    }
                    if let Err(below) = walk(field, valid, schema, type_ref, duplicates, depth + 1) {
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
                let valid = valid.and_then(Value::as_array);
                let mut seen = BTreeSet::new();
                for (index, item) in items.iter().enumerate() {
                    let valid = valid.and_then(|valid| valid.get(index));
                    if valid == Some(item) {
                        continue;
                    }
                    let is_atomic = list.relationship == ListRelationship::Atomic;
                    let element = || match is_atomic {
                        true => Ok(PathElement::Index(i64::try_from(index).unwrap_or(i64::MAX))),
                        false => item_element(schema, list, item),
                    };
                    // Elements are only made if they are needed.
                    if !is_atomic
                        && !has_element(list, item)
                        && let Err(reason) = element()
                    {
                        errors.append(ValidationErrors::one(format!("element {index}: {reason}")));
                        break;
                    }
                    if let Err(below) = walk(item, valid, schema, &list.element_type, duplicates, depth + 1)
                        && let Ok(element) = element()
                    {
                        errors.append(below.below(&element));
                    }
                    if duplicates == Duplicates::Reject
                        && !is_atomic
                        && let Ok(element) = element()
                    {
                        if seen.contains(&element) {
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
