//! Behavior of kinds in writes: the part of upstream's strategies that is data, and what a write to the status preserves.

use serde_json::{Map, Value, json};

use crate::object;

/// How the objects of a kind behave in writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Behavior {
    /// `metadata.generation` counts changes of the spec.
    pub(crate) generation: bool,
    /// Changes of annotations count as well.
    pub(crate) generation_of_annotations: bool,
    /// A PUT creates what isn't there.
    pub(crate) create_on_update: bool,
    /// A PUT without a `resourceVersion` overwrites whatever is there.
    pub(crate) unconditional_update: bool,
    /// What happens to dependents if the request does not say.
    pub(crate) dependents: Dependents,
    /// A deletion is answered with the object instead of a Status.
    pub(crate) returns_deleted: bool,
    /// A create keeps the status that the client sent.
    pub(crate) status_on_create: bool,
    /// What of `metadata` a write to the status can't change.
    pub(crate) status_update_preserves: StatusUpdatePreserves,
    /// An update checks `metadata` as a create does.
    pub(crate) whole_metadata: bool,
}

/// What happens to dependents if the request does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dependents {
    /// They are deleted later.
    Delete,
    /// They stay.
    Orphan,
    /// The kind can't own anything.
    Unsupported,
}

/// What of `metadata` a write to the status can't change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatusUpdatePreserves {
    /// Everything: custom resources.
    All,
    /// The labels: Deployments.
    Labels,
    /// The owners: Pods.
    Owners,
    /// Nothing: other built-in kinds.
    Nothing,
}

impl Behavior {
    /// That of most built-in kinds.
    pub(crate) const BUILTIN: Self = Self {
        generation: false,
        generation_of_annotations: false,
        create_on_update: false,
        unconditional_update: true,
        dependents: Dependents::Delete,
        returns_deleted: false,
        status_on_create: false,
        status_update_preserves: StatusUpdatePreserves::Nothing,
        whole_metadata: false,
    };

    /// That of custom resources.
    pub(crate) const CUSTOM: Self = Self {
        generation: true,
        unconditional_update: false,
        status_update_preserves: StatusUpdatePreserves::All,
        ..Self::BUILTIN
    };
}

/// Puts the parts of `old` that a write to the status can't change into `new`.
pub(crate) fn only_status(new: &mut Value, old: &Value, keeps: StatusUpdatePreserves) {
    let status = new.get("status").cloned();
    let metadata = new.get("metadata").cloned().unwrap_or_else(|| json!({}));
    let mut result = old.clone();
    let Some(map) = result.as_object_mut() else { return };
    match status {
        Some(status) => map.insert("status".to_owned(), status),
        None => map.remove("status"),
    };
    let before = object::metadata(old).cloned().unwrap_or_default();
    let after = metadata.as_object().cloned().unwrap_or_default();
    let mut merged = if keeps == StatusUpdatePreserves::All { before.clone() } else { after.clone() };
    let copy = |merged: &mut Map<String, Value>, from: &Map<String, Value>, name: &str| {
        match from.get(name) {
            Some(value) => merged.insert(name.to_owned(), value.clone()),
            None => merged.remove(name),
        };
    };
    match keeps {
        StatusUpdatePreserves::All => {
            copy(&mut merged, &after, "managedFields");
            copy(&mut merged, &after, "resourceVersion");
        }
        StatusUpdatePreserves::Labels => copy(&mut merged, &before, "labels"),
        StatusUpdatePreserves::Owners => copy(&mut merged, &before, "ownerReferences"),
        StatusUpdatePreserves::Nothing => {}
    }
    map.insert("metadata".to_owned(), merged.into());
    *new = result;
}
