//! Behavior of kinds in writes: the part of upstream's strategies that is data, and what a write to the status preserves.

use serde_json::{Map, Value};

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
    let (Some(before), Value::Object(after)) = (old.as_object(), &mut *new) else {
        *new = old.clone();
        return;
    };
    let (status, metadata) = (after.remove("status"), after.remove("metadata"));
    // Mostly the rest is as it was: that is not copied.
    let apart = |name: &str| matches!(name, "status" | "metadata");
    after.retain(|name, _| before.contains_key(name));
    for (name, value) in before.iter().filter(|(name, _)| !apart(name)) {
        if after.get(name) != Some(value) {
            after.insert(name.clone(), value.clone());
        }
    }
    if let Some(status) = status {
        after.insert("status".to_owned(), status);
    }
    let nothing = Map::new();
    let before = object::metadata(old).unwrap_or(&nothing);
    let mut given = match metadata {
        Some(Value::Object(metadata)) => metadata,
        _ => Map::new(),
    };
    let copy = |merged: &mut Map<String, Value>, from: &mut Map<String, Value>, name: &str| {
        match from.remove(name) {
            Some(value) => merged.insert(name.to_owned(), value),
            None => merged.remove(name),
        };
    };
    let keep = |merged: &mut Map<String, Value>, name: &str| {
        match before.get(name) {
            Some(value) => merged.insert(name.to_owned(), value.clone()),
            None => merged.remove(name),
        };
    };
    match keeps {
        StatusUpdatePreserves::All => {
            let mut merged = before.clone();
            copy(&mut merged, &mut given, "managedFields");
            copy(&mut merged, &mut given, "resourceVersion");
            given = merged;
        }
        StatusUpdatePreserves::Labels => keep(&mut given, "labels"),
        StatusUpdatePreserves::Owners => keep(&mut given, "ownerReferences"),
        StatusUpdatePreserves::Nothing => {}
    }
    after.insert("metadata".to_owned(), given.into());
}
