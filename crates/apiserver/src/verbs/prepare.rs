//! Preparation of creates and updates: the steps that all kinds share, then the kind's own (`BeforeCreate` and `BeforeUpdate` of
//! `pkg/registry/rest` upstream).

use serde_json::Value;

use crate::auth::User;
use crate::kinds::behavior::only_status;
use crate::kinds::custom::Custom;
use crate::kinds::definition::Definition;
use crate::kinds::names::Part;
use crate::kinds::strategy::{Requester, UpdateContext};
use crate::object::{self, metadata_mut};

/// Before an object is created: the status is not the client's to say, and the count of changes begins.
pub(crate) fn prepare_for_create(definition: &Definition, object: &mut Value, user: &User) {
    let strategy = definition.model.strategy();
    if definition.has_status()
        && !strategy.behavior.status_on_create
        && let Some(map) = object.as_object_mut()
    {
        map.remove("status");
        // Upstream sets defaults when an object is read: a default of the status is there from the beginning.
        if let Some(status) = definition.model.custom().and_then(Custom::default_status) {
            map.insert("status".to_owned(), status);
        }
    }
    if strategy.behavior.generation {
        metadata_mut(object).insert("generation".to_owned(), 1.into());
    }
    let requester = Requester { name: &user.name, uid: &user.uid, groups: &user.groups, extra: &user.extra };
    (strategy.prepare_for_create)(object, &requester);
}

/// Before an object is changed: each part of a request may touch its own part of the object only.
pub(crate) fn prepare_for_update(
    definition: &Definition,
    new: &mut Value,
    old: &Value,
    context: &UpdateContext<'_>,
) {
    let part = context.part;
    let strategy = definition.model.strategy();
    let behavior = &strategy.behavior;
    let generation = object::metadata(old).and_then(|metadata| metadata.get("generation")).cloned();
    match part {
        Part::Status => only_status(new, old, behavior.status_update_preserves),
        Part::Main | Part::Scale => {
            if definition.has_status()
                && let Some(map) = new.as_object_mut()
            {
                match old.get("status") {
                    Some(status) => map.insert("status".to_owned(), status.clone()),
                    None => map.remove("status"),
                };
            }
        }
        // The kind that has such a subresource knows what it is about.
        Part::Finalize | Part::Ephemeral | Part::Resize | Part::Approval => {}
    }
    (strategy.prepare_for_update)(new, old, context);
    // Never the client's to say.
    let metadata = metadata_mut(new);
    match &generation {
        Some(generation) => metadata.insert("generation".to_owned(), generation.clone()),
        None => metadata.remove("generation"),
    };
    let annotations =
        |object| object::metadata(object).and_then(|metadata| metadata.get("annotations")).cloned();
    if part != Part::Status
        && behavior.generation
        && (!same_but_metadata(new, old, definition.has_status())
            || behavior.generation_of_annotations && annotations(new) != annotations(old))
    {
        let next = generation.as_ref().and_then(Value::as_i64).unwrap_or_default() + 1;
        metadata_mut(new).insert("generation".to_owned(), next.into());
    }
}

/// `spec` and the rest, without `metadata` and what is written on its own.
fn same_but_metadata(a: &Value, b: &Value, skip_status: bool) -> bool {
    let counts = |(name, value): &(&String, &Value)| {
        let apart =
            matches!(name.as_str(), "metadata" | "apiVersion" | "kind") || (skip_status && *name == "status");
        !apart && !value.is_null()
    };
    let relevant = |object: &'_ Value| object.as_object().into_iter().flatten().filter(counts).count();
    let members = a.as_object().into_iter().flatten().filter(counts);
    relevant(a) == relevant(b) && members.into_iter().all(|(name, value)| b.get(name) == Some(value))
}

#[cfg(test)]
#[path = "prepare_tests.rs"]
mod tests;
