//! Subresource updates: the fields that a write to a part of an object may change.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use crate::error::Cause;
use crate::kinds::behavior::StatusUpdatePreserves;
use crate::kinds::builtin::quality_of_service;
use crate::kinds::names::Part;
use crate::metadata;
use crate::object::{self, member_mut, metadata_mut, text};

/// `spec` and the rest, without `metadata` and what is written on its own.
pub(crate) fn same_but_metadata(a: &Value, b: &Value, skip_status: bool) -> bool {
    let counts = |(name, value): &(&String, &Value)| {
        let apart =
            matches!(name.as_str(), "metadata" | "apiVersion" | "kind") || (skip_status && *name == "status");
        !apart && !value.is_null()
    };
    let relevant = |object: &'_ Value| object.as_object().into_iter().flatten().filter(counts).count();
    let members = a.as_object().into_iter().flatten().filter(counts);
    relevant(a) == relevant(b) && members.into_iter().all(|(name, value)| b.get(name) == Some(value))
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

/// The old pod, with what a write to `ephemeralcontainers` or `resize` may change of it taken from the new one.
pub(crate) fn only_part(part: Part, new: &mut Value, old: &Value) {
    let mut result = old.clone();
    let managers = object::metadata(new).and_then(|metadata| metadata.get("managedFields")).cloned();
    if part == Part::Ephemeral {
        let spec = member_mut(&mut result, "spec");
        match new.pointer("/spec/ephemeralContainers") {
            Some(containers) => spec.insert("ephemeralContainers".to_owned(), containers.clone()),
            None => spec.remove("ephemeralContainers"),
        };
    } else {
        for list in ["containers", "initContainers"] {
            let wanted = new.pointer(&format!("/spec/{list}")).and_then(Value::as_array);
            let containers = result.pointer_mut(&format!("/spec/{list}")).and_then(Value::as_array_mut);
            let wanted = by_name(wanted.map_or(&[], Vec::as_slice));
            for container in containers.into_iter().flatten() {
                let wanted = wanted.get(text(container, "name")).copied();
                for field in ["resources", "resizePolicy"] {
                    if let (Some(value), Some(container)) =
                        (wanted.and_then(|wanted| wanted.get(field)), container.as_object_mut())
                    {
                        container.insert(field.to_owned(), value.clone());
                    }
                }
            }
        }
    }
    if let Some(managers) = managers {
        metadata_mut(&mut result).insert("managedFields".to_owned(), managers);
    }
    *new = result;
}

/// Containers by their names; the first of a name counts.
fn by_name(containers: &[Value]) -> HashMap<&str, &Value> {
    containers.iter().rev().map(|container| (text(container, "name"), container)).collect()
}

/// What is wrong with a write to a part of a pod.
pub(crate) fn validate_part(part: Part, new: &Value, old: &Value) -> Vec<Cause> {
    if part == Part::Resize {
        let class = &old["status"]["qosClass"];
        let changes = class.is_string() && *class != quality_of_service(new);
        let why = "Pod QOS Class may not change as a result of resizing";
        return changes.then(|| metadata::invalid("spec", class, why)).into_iter().collect();
    }
    if part != Part::Ephemeral {
        return Vec::new();
    }
    let list = |pod: &Value| {
        pod.pointer("/spec/ephemeralContainers").and_then(Value::as_array).cloned().unwrap_or_default()
    };
    let (before, after) = (list(old), list(new));
    let mut causes = Vec::new();
    let after = by_name(&after);
    for container in &before {
        let name = text(container, "name");
        let verb = match after.get(name).copied() {
            None => "removed",
            Some(after) if after != container => "changed",
            Some(_) => continue,
        };
        let why = format!("existing ephemeral containers {name:?} may not be {verb}\n");
        causes.push(metadata::forbidden("spec.ephemeralContainers", &why));
    }
    causes
}
