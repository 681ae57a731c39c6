//! Removal and extraction of fields.

use serde_json::{Map, Value};

use super::Kind;
use super::element::item_element;
use crate::path::PathElement;
use crate::schema::{ListRelationship, MapRelationship, Schema, TypeRef};
use crate::set::FieldSet;

pub(super) fn remove(value: &Value, items: &FieldSet, schema: &Schema, type_ref: &TypeRef) -> Value {
    walk(value, items, schema, type_ref, false)
}

pub(super) fn extract(value: &Value, items: &FieldSet, schema: &Schema, type_ref: &TypeRef) -> Value {
    walk(value, items, schema, type_ref, true)
}

/// The fields that name the items on the way to the fields of a set.
pub(super) fn key_fields(items: &FieldSet, own: &FieldSet) -> FieldSet {
    let mut keys = FieldSet::new();
    for path in items.iter().filter(|path| own.contains(path)) {
        for (place, element) in path.iter().enumerate() {
            if let PathElement::Key(fields) = element {
                for (name, _) in fields.iter() {
                    let mut key = path[..=place].to_vec();
                    key.push(PathElement::field(name));
                    keys.insert(&key);
                }
            }
        }
    }
    keys
}

/// The depth is bounded by that of the value, which was checked when it was typed.
fn walk(value: &Value, items: &FieldSet, schema: &Schema, type_ref: &TypeRef, extract: bool) -> Value {
    let Some(atom) = schema.resolve(type_ref) else { return Value::Null };
    let atom = atom.for_value(Some(value));
    let whole = |value: &Value| if extract { value.clone() } else { Value::Null };
    match (Kind::of(&atom, type_ref), value) {
        (Ok(Kind::Scalar(_)), _) => value.clone(),
        (Ok(Kind::Map(map)), Value::Object(fields)) => {
            if fields.is_empty() || map.relationship == MapRelationship::Atomic {
                return whole(value);
            }
            let mut out = Map::new();
            for (name, field) in fields {
                let type_ref = map.type_of(name);
                let left = if items.has_field(name) {
                    if !extract {
                        continue;
                    }
                    // Upstream does not go down in the set here. So only what is atomic is extracted as a whole.
                    walk(field, items, schema, type_ref, extract)
                } else {
                    match items.below_field(name).filter(|below| !below.is_empty()) {
                        Some(below) => walk(field, below, schema, type_ref, extract),
                        None if extract => continue,
                        None => field.clone(),
                    }
                };
                out.insert(name.clone(), left);
            }
            if out.is_empty() { Value::Null } else { Value::Object(out) }
        }
        (Ok(Kind::List(list)), Value::Array(list_items)) => {
            if list_items.is_empty() || list.relationship == ListRelationship::Atomic {
                return whole(value);
            }
            let mut out = Vec::new();
            for item in list_items {
                let element = item_element(schema, list, item).ok();
                let exact = element.as_ref().is_some_and(|element| items.has_member(element));
                let below = element
                    .as_ref()
                    .and_then(|element| items.below(element))
                    .filter(|below| !below.is_empty());
                if extract && !exact && below.is_none() || !extract && exact {
                    continue;
                }
                out.push(match below {
                    Some(below) => walk(item, below, schema, &list.element_type, extract),
                    None => item.clone(),
                });
            }
            if out.is_empty() { Value::Null } else { Value::Array(out) }
        }
        _ => Value::Null,
    }
}
