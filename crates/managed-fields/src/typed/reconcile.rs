//! Reconciliation of field sets with a changed schema.

use super::{Kind, ValidationErrors};
use crate::MAX_DEPTH;
use crate::path::{Path, PathElement};
use crate::schema::{ListRelationship, MapRelationship, Schema, TypeRef};
use crate::set::FieldSet;

pub(super) fn reconcile(
    set: &FieldSet,
    schema: &Schema,
    type_ref: &TypeRef,
) -> Result<Option<FieldSet>, ValidationErrors> {
    let mut walk = Walk { schema, path: Path::default(), atomic: FieldSet::new(), found: false };
    walk.visit(Some(set), type_ref, false)?;
    if !walk.found {
        return Ok(None);
    }
    Ok(Some(set.recursive_difference(&walk.atomic).union(&walk.atomic)))
}

struct Walk<'a> {
    schema: &'a Schema,
    path: Path,
    /// Fields that have become atomic; their children are removed.
    atomic: FieldSet,
    found: bool,
}

impl Walk<'_> {
    /// `whole`: the set has the place itself and nothing below it.
    fn visit(
        &mut self,
        set: Option<&FieldSet>,
        type_ref: &TypeRef,
        whole: bool,
    ) -> Result<(), ValidationErrors> {
        if self.path.len() > MAX_DEPTH {
            return Err(ValidationErrors::too_deep());
        }
        let schema = self.schema;
        let Some(atom) = schema.resolve(type_ref) else {
            return Err(ValidationErrors::one(format!("could not resolve {type_ref:?}")));
        };
        match Kind::of(&atom, type_ref)? {
            Kind::Scalar(_) => Ok(()),
            Kind::List(list) => {
                if !whole && list.relationship == ListRelationship::Atomic {
                    self.becomes_atomic();
                    return Ok(());
                }
                self.elements(set, |_| Some(&list.element_type))
            }
            Kind::Map(map) => {
                // Deduced types are granular in both schemas.
                if map.is_untyped_deduced() {
                    return Ok(());
                }
                if !whole && map.relationship == MapRelationship::Atomic {
                    if set.is_some_and(|set| !set.is_empty()) {
                        self.becomes_atomic();
                    }
                    return Ok(());
                }
                self.elements(set, |element| {
                    let type_ref = match element {
                        PathElement::Field(name) => map.type_of(name),
                        _ => &map.element_type,
                    };
                    Some(type_ref).filter(|type_ref| **type_ref != TypeRef::None)
                })
            }
        }
    }

    fn becomes_atomic(&mut self) {
        self.found = true;
        self.atomic.insert(&self.path);
    }

    fn elements<'t>(
        &mut self,
        set: Option<&FieldSet>,
        type_of: impl Fn(&PathElement) -> Option<&'t TypeRef>,
    ) -> Result<(), ValidationErrors> {
        let Some(set) = set else { return Ok(()) };
        let only_below =
            set.children.iter().map(|(element, _)| element).filter(|child| !set.has_member(child));
        let mut errors = ValidationErrors::default();
        for (element, member) in
            only_below.map(|element| (element, false)).chain(set.members.iter().map(|member| (member, true)))
        {
            let Some(type_ref) = type_of(element) else { continue };
            let below = set.below(element);
            self.path.push(element.clone());
            if let Err(failed) = self.visit(below, type_ref, member && below.is_none()) {
                errors.append(failed);
            }
            self.path.pop();
        }
        errors.into_result(())
    }
}
