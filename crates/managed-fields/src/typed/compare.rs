//! Comparison of two typed values: added, modified and removed fields.

use std::collections::BTreeMap;

use serde_json::Value;

use super::element::item_element;
use super::{Kind, ValidationErrors, resolve, validate};
use crate::MAX_DEPTH;
use crate::path::PathElement;
use crate::schema::{ListRelationship, ListType, MapRelationship, MapType, Schema, TypeRef};
use crate::set::{FieldFilter, FieldSet};
use crate::value;

/// Result of a comparison. No field is in two of the sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// The fields that only the old value has.
    pub removed: FieldSet,
    /// The fields that both have and that differ.
    pub modified: FieldSet,
    /// The fields that only the new value has.
    pub added: FieldSet,
}

impl Comparison {
    /// Whether nothing changes.
    #[must_use]
    pub fn is_same(&self) -> bool {
        self.removed.is_empty() && self.modified.is_empty() && self.added.is_empty()
    }

    /// Only the changes that pass a filter.
    #[must_use]
    pub fn filtered(&self, filter: &FieldFilter) -> Self {
        Self {
            removed: filter.apply(&self.removed),
            modified: filter.apply(&self.modified),
            added: filter.apply(&self.added),
        }
    }
}

#[derive(Clone, Copy)]
enum Change {
    Removed,
    Modified,
    Added,
}

/// The changes below a place, and those of the place itself.
#[derive(Default)]
struct Changes {
    removed: bool,
    modified: bool,
    added: bool,
    below: Comparison,
    /// The place is one field; there is nothing below it.
    leaf: bool,
}

impl Changes {
    const fn mark(&mut self, change: Change) {
        match change {
            Change::Removed => self.removed = true,
            Change::Modified => self.modified = true,
            Change::Added => self.added = true,
        }
    }

    fn add(&mut self, element: &PathElement, changes: Self) {
        for (set, own, below) in [
            (&mut self.below.removed, changes.removed, changes.below.removed),
            (&mut self.below.modified, changes.modified, changes.below.modified),
            (&mut self.below.added, changes.added, changes.below.added),
        ] {
            set.insert_below(element, below);
            if own {
                set.insert_member(element.clone());
            }
        }
    }

    fn add_own(&mut self, element: &PathElement, change: Change) {
        let mut changes = Self::default();
        changes.mark(change);
        self.add(element, changes);
    }

    fn join(&mut self, other: &Self) {
        self.removed |= other.removed;
        self.modified |= other.modified;
        self.added |= other.added;
        self.below.removed = self.below.removed.union(&other.below.removed);
        self.below.modified = self.below.modified.union(&other.below.modified);
        self.below.added = self.below.added.union(&other.below.added);
    }
}

pub(super) fn compare(
    schema: &Schema,
    type_ref: &TypeRef,
    old: &Value,
    new: &Value,
) -> Result<Comparison, ValidationErrors> {
    // Nobody owns the root.
    walk(schema, type_ref, Some(old), Some(new), 0).map(|changes| changes.below)
}

fn walk(
    schema: &Schema,
    type_ref: &TypeRef,
    old: Option<&Value>,
    new: Option<&Value>,
    depth: usize,
) -> Result<Changes, ValidationErrors> {
    if depth > MAX_DEPTH {
        return Err(ValidationErrors::too_deep());
    }
    if !settled_budget::spend(1) {
        return Err(ValidationErrors::stopped());
    }
    let atom = resolve(schema, type_ref)?;
    let (old_atom, new_atom) = (atom.for_value(old), atom.for_value(new));
    let sides = Sides { schema, type_ref, old, new, depth };
    let mut changes = if new.is_none() {
        sides.compare(&old_atom)?
    } else if old.is_none() || old_atom.shape() == new_atom.shape() {
        sides.compare(&new_atom)?
    } else {
        let mut errors = ValidationErrors::default();
        let before = sides.compare(&old_atom);
        let after = sides.compare(&new_atom);
        match (before, after) {
            (Ok(before), Ok(mut after)) => {
                after.join(&before);
                after
            }
            (before, after) => {
                for failed in [before.err(), after.err()].into_iter().flatten() {
                    errors.append(failed);
                }
                return Err(errors);
            }
        }
    };
    if !changes.leaf {
        if old.is_none() {
            changes.mark(Change::Added);
        } else if new.is_none() {
            changes.mark(Change::Removed);
        }
    }
    Ok(changes)
}

struct Sides<'a> {
    schema: &'a Schema,
    type_ref: &'a TypeRef,
    old: Option<&'a Value>,
    new: Option<&'a Value>,
    depth: usize,
}

impl<'a> Sides<'a> {
    fn leaf(&self) -> Changes {
        let mut changes = Changes { leaf: true, ..Changes::default() };
        match (self.old, self.new) {
            (None, _) => changes.mark(Change::Added),
            (_, None) => changes.mark(Change::Removed),
            (Some(old), Some(new)) if !value::equal(old, new) => changes.mark(Change::Modified),
            _ => {}
        }
        changes
    }

    fn compare(&self, atom: &crate::schema::Atom) -> Result<Changes, ValidationErrors> {
        match Kind::of(atom, self.type_ref)? {
            Kind::Scalar(scalar) => {
                either_scalar(scalar, self.old, self.new)?;
                Ok(self.leaf())
            }
            Kind::Map(map) => {
                let old = self.old.and_then(Value::as_object);
                let new = self.new.and_then(Value::as_object);
                let empty = |side: Option<&serde_json::Map<_, _>>| side.is_none_or(serde_json::Map::is_empty);
                if map.relationship == MapRelationship::Atomic || (empty(old) && empty(new)) {
                    return Ok(self.leaf());
                }
                self.maps(map, old, new)
            }
            Kind::List(list) => {
                let old = self.old.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
                let new = self.new.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
                if list.relationship == ListRelationship::Atomic || (old.is_empty() && new.is_empty()) {
                    return Ok(self.leaf());
                }
                self.lists(list, old, new)
            }
        }
    }

    fn maps(
        &self,
        map: &MapType,
        old: Option<&'a serde_json::Map<String, Value>>,
        new: Option<&'a serde_json::Map<String, Value>>,
    ) -> Result<Changes, ValidationErrors> {
        let mut all = Changes::default();
        let mut errors = ValidationErrors::default();
        let mut found = Vec::new();
        let mut visit = |name: &str, before: Option<&'a Value>, after: Option<&'a Value>| {
            // Most of an object stays as it is: it has no changes, and needs no paths.
            if before.is_some() && before == after {
                return;
            }
            let element = PathElement::field(name);
            match walk(self.schema, map.type_of(name), before, after, self.depth + 1) {
                Ok(changes) => found.push((element, changes)),
                Err(below) => errors.append(below.below(&element)),
            }
        };
        for (name, before) in old.into_iter().flatten() {
            visit(name, Some(before), new.and_then(|new| new.get(name)));
        }
        for (name, after) in new.into_iter().flatten() {
            if old.is_none_or(|old| !old.contains_key(name)) {
                visit(name, None, Some(after));
            }
        }
        // Sets are built in their order: anywhere else than at the end, adding is slow.
        found.sort_by(|(left, _), (right, _)| left.cmp(right));
        found.into_iter().for_each(|(element, changes)| all.add(&element, changes));
        errors.into_result(all)
    }

    fn lists(&self, list: &ListType, old: &[Value], new: &[Value]) -> Result<Changes, ValidationErrors> {
        let mut all = Changes::default();
        let mut errors = ValidationErrors::default();
        let mut items: BTreeMap<PathElement, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
        for (side, is_new) in [(old, false), (new, true)] {
            for (index, item) in side.iter().enumerate() {
                match item_element(self.schema, list, item) {
                    Ok(element) => {
                        let (old, new) = items.entry(element).or_default();
                        if is_new { new.push(item) } else { old.push(item) }
                    }
                    Err(reason) => {
                        errors.append(ValidationErrors::one(format!("element {index}: {reason}")));
                    }
                }
            }
        }
        for (element, (old, new)) in &items {
            let mut visit =
                |before, after| match walk(self.schema, &list.element_type, before, after, self.depth + 1) {
                    Ok(changes) => all.add(element, changes),
                    Err(below) => errors.append(below.below(element)),
                };
            match (&old[..], &new[..]) {
                ([] | [_], [] | [_]) => visit(old.first().copied(), new.first().copied()),
                // Duplicates on both sides are one field.
                ([_, _, ..], [_, _, ..]) => {
                    let same = old.len() == new.len()
                        && old.iter().zip(new).all(|(old, new)| value::equal(old, new));
                    if !same {
                        all.add_own(element, Change::Modified);
                    }
                }
                // A single item and duplicates have the same path, but are different.
                ([_, _, ..], _) => {
                    if let [after] = &new[..] {
                        visit(None, Some(after));
                    }
                    all.add_own(element, Change::Removed);
                }
                (_, [_, _, ..]) => {
                    if let [before] = &old[..] {
                        visit(Some(before), None);
                    }
                    all.add_own(element, Change::Added);
                }
            }
        }
        errors.into_result(all)
    }
}

/// At least one side must be a scalar of the type.
pub(super) fn either_scalar(
    scalar: crate::schema::Scalar,
    old: Option<&Value>,
    new: Option<&Value>,
) -> Result<(), ValidationErrors> {
    match (validate::scalar(scalar, old, "lhs: "), validate::scalar(scalar, new, "rhs: ")) {
        (Err(mut errors), Err(others)) => {
            errors.append(others);
            Err(errors)
        }
        _ => Ok(()),
    }
}
