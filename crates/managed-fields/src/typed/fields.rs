//! Field set of a typed value.

use std::collections::BTreeSet;

use serde_json::Value;

use super::element::item_element;
use super::{Kind, ValidationErrors, resolve};
use crate::MAX_DEPTH;
use crate::path::PathElement;
use crate::schema::{ListRelationship, ListType, MapRelationship, MapType, Schema, TypeRef};
use crate::set::FieldSet;

/// The fields below a value, and whether it is a field of its own.
#[derive(Default)]
struct Found {
    own: bool,
    below: FieldSet,
}

impl Found {
    const LEAF: Self = Self { own: true, below: FieldSet::new() };

    fn add(&mut self, element: PathElement, found: Self) {
        self.below.insert_below(&element, found.below);
        if found.own {
            self.below.insert_member(element);
        }
    }
}

/// Stands for items that have no name.
const UNNAMED: PathElement = PathElement::Index(i64::MIN);

/// With `unnamed`, items without a name are in the set, too, all as one.
pub(super) fn to_field_set(
    value: &Value,
    schema: &Schema,
    type_ref: &TypeRef,
    unnamed: bool,
) -> Result<FieldSet, ValidationErrors> {
    // Nobody owns the root.
    walk(value, schema, type_ref, unnamed, 0).map(|found| found.below)
}

fn walk(
    value: &Value,
    schema: &Schema,
    type_ref: &TypeRef,
    unnamed: bool,
    depth: usize,
) -> Result<Found, ValidationErrors> {
    if depth > MAX_DEPTH {
        return Err(ValidationErrors::too_deep());
    }
    let atom = resolve(schema, type_ref)?;
    let atom = atom.for_value(Some(value));
    match (Kind::of(&atom, type_ref)?, value) {
        (Kind::Scalar(_), _) => Ok(Found::LEAF),
        (Kind::Map(MapType { relationship: MapRelationship::Atomic, .. }), _)
        | (Kind::List(ListType { relationship: ListRelationship::Atomic, .. }), _) => Ok(Found::LEAF),
        (Kind::Map(map), Value::Object(fields)) => {
            let mut all = Found::default();
            let mut errors = ValidationErrors::default();
            for (name, field) in fields {
                match walk(field, schema, map.type_of(name), unnamed, depth + 1) {
                    Ok(mut found) => {
                        // The names of a map can be chosen, so having one says something in itself.
                        let empty =
                            field.is_null() || field.as_object().is_some_and(serde_json::Map::is_empty);
                        found.own |= empty || map.field(name).is_none();
                        all.add(PathElement::field(name.as_str()), found);
                    }
                    Err(below) => errors.append(below),
                }
            }
            errors.into_result(all)
        }
        (Kind::List(list), Value::Array(items)) => {
            let mut all = Found::default();
            // An item without a name is there only if the fields that name it were removed. Nobody can own it, but
            // the list is not empty.
            let mut named = Vec::with_capacity(items.len());
            for item in items {
                match item_element(schema, list, item) {
                    Ok(element) => named.push((element, item)),
                    Err(_) if unnamed => all.below.insert_member(UNNAMED),
                    Err(_) => {}
                }
            }
            let items = named;
            let mut errors = ValidationErrors::default();
            let (mut seen, mut duplicates) = (BTreeSet::new(), BTreeSet::new());
            for (element, _) in &items {
                if !seen.insert(element) {
                    duplicates.insert(element);
                }
            }
            let mut found_items = Vec::with_capacity(items.len());
            for (element, item) in &items {
                // Duplicates cannot be distinguished, so they are owned together.
                let mut found = if duplicates.contains(element) {
                    Found::default()
                } else {
                    match walk(item, schema, &list.element_type, unnamed, depth + 1) {
                        Ok(found) => found,
                        Err(below) => {
                            errors.append(below);
                            continue;
                        }
                    }
                };
                found.own = true;
                found_items.push((element.clone(), found));
            }
            // Sets are built in their order: anywhere else than at the end, adding is slow.
            found_items.sort_by(|(left, _), (right, _)| left.cmp(right));
            found_items.into_iter().for_each(|(element, found)| all.add(element, found));
            errors.into_result(all)
        }
        _ => Ok(Found::default()),
    }
}
