//! Changes by other field managers to what was applied, noticed during the wait for it.
//!
//! A field whose value another manager changes is no longer owned by the manager that applied it. So neither a controller that fills in
//! fields of its own, nor an autoscaler that scales what the manifest leaves open, counts.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde_json::Value;
use settled_managed_fields::{Entry, Operation};
use settled_watch::{Cluster, RequestError, Verb};

use crate::id::ObjectId;
use crate::report::ForeignChange;

/// More fields than this are not named.
const MAX_FIELDS: usize = 5;
/// Written by autoscalers and controllers, whose writes are the purpose of these.
const SUBRESOURCES: &[&str] = &["scale", "status"];

/// What was applied of an object, as far as it takes to notice a change by another manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppliedState {
    /// Which object.
    pub object: ObjectId,
    /// `metadata.generation` after it was applied.
    pub generation: i64,
    uid: String,
    path: String,
    manager: String,
    /// Hashes of the fields that the apply owns, sorted.
    owned: Box<[u64]>,
}

impl AppliedState {
    /// The state after an apply; none for kinds without a generation.
    pub(super) fn new(object: ObjectId, path: String, manager: &str, applied: &[u8]) -> Option<Self> {
        let json: Value = serde_json::from_slice(applied).ok()?;
        let generation = json["metadata"]["generation"].as_i64()?;
        let uid = json["metadata"]["uid"].as_str()?.to_owned();
        let mut owned =
            hashes(&entries(&json).into_iter().filter(|e| is_own(e, manager)).collect::<Vec<_>>());
        owned.sort_unstable();
        owned.dedup();
        let manager = manager.to_owned();
        Some(Self { object, generation, uid, path, manager, owned: owned.into_boxed_slice() })
    }

    /// Reads the object, and compares who owns which field.
    ///
    /// # Errors
    /// It cannot be read.
    pub async fn change(&self, cluster: &Cluster) -> Result<Option<ForeignChange>, RequestError> {
        let json = match cluster.get(Verb::Get, &self.path).await {
            Ok(json) => json,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error),
        };
        Ok(serde_json::from_slice(&json).ok().and_then(|object| self.compare(&object)))
    }

    fn compare(&self, object: &Value) -> Option<ForeignChange> {
        let generation = object["metadata"]["generation"].as_i64()?;
        if generation <= self.generation || object["metadata"]["uid"].as_str() != Some(&self.uid) {
            return None;
        }
        let (own, others): (Vec<Entry>, Vec<Entry>) =
            entries(object).into_iter().partition(|entry| is_own(entry, &self.manager));
        let own: BTreeSet<u64> = hashes(&own).into_iter().collect();
        let mut lost: BTreeSet<u64> =
            self.owned.iter().copied().filter(|field| !own.contains(field)).collect();
        for entry in others.iter().filter(|entry| SUBRESOURCES.contains(&&*entry.subresource)) {
            for path in entry.fields.iter() {
                lost.remove(&hash(&path.to_string()));
            }
        }
        if lost.is_empty() {
            return None;
        }
        let (mut managers, mut fields) = (BTreeSet::new(), BTreeSet::new());
        for entry in &others {
            for path in entry.fields.iter().map(|path| path.to_string()) {
                if lost.contains(&hash(&path)) {
                    managers.insert(entry.manager.clone());
                    fields.insert(path);
                }
            }
        }
        Some(ForeignChange {
            object: self.object.clone(),
            managers: managers.into_iter().collect(),
            fields: fields.into_iter().take(MAX_FIELDS).collect(),
            applied_generation: self.generation,
            generation,
        })
    }
}

fn is_own(entry: &Entry, manager: &str) -> bool {
    entry.manager == manager && entry.operation == Operation::Apply && entry.subresource.is_empty()
}

/// The entries that can be read.
fn entries(object: &Value) -> Vec<Entry> {
    let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array);
    entries.into_iter().flatten().filter_map(|entry| Entry::from_value(entry).ok()).collect()
}

fn hashes(entries: &[Entry]) -> Vec<u64> {
    entries.iter().flat_map(|entry| entry.fields.iter()).map(|path| hash(&path.to_string())).collect()
}

fn hash(path: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(manager: &str, operation: &str, subresource: &str, fields: Value) -> Value {
        json!({"manager": manager, "operation": operation, "apiVersion": "apps/v1", "subresource": subresource,
            "fieldsType": "FieldsV1", "fieldsV1": fields})
    }

    fn object(generation: i64, entries: &[Value]) -> Value {
        json!({"metadata": {"generation": generation, "uid": "u", "managedFields": entries}})
    }

    #[test]
    fn only_lost_fields_count() {
        let ours = entry("settled", "Apply", "", json!({"f:spec": {"f:replicas": {}, "f:paused": {}}}));
        let applied = object(3, std::slice::from_ref(&ours)).to_string();
        let id = ObjectId::new("apps", "Deployment", "shop", "web");
        let state = AppliedState::new(id, "/x".to_owned(), "settled", applied.as_bytes()).unwrap();
        let check = |generation: i64, entries: &[Value], expected: Option<&str>| {
            let change = state.compare(&object(generation, entries));
            assert_eq!(change.map(|change| change.to_string()).as_deref(), expected);
        };
        let paused = entry("settled", "Apply", "", json!({"f:spec": {"f:paused": {}}}));
        let replicas = json!({"f:spec": {"f:replicas": {}}});
        // Another field; the same generation; an autoscaler.
        check(
            4,
            &[ours.clone(), entry("x", "Update", "", json!({"f:spec": {"f:minReadySeconds": {}}}))],
            None,
        );
        check(3, &[paused.clone(), entry("x", "Update", "", replicas.clone())], None);
        check(
            4,
            &[paused.clone(), entry("kube-controller-manager", "Update", "scale", replicas.clone())],
            None,
        );
        // Both own it: the same value.
        check(4, &[ours, entry("x", "Apply", "", replicas.clone())], None);
        check(
            4,
            &[paused.clone(), entry("kubectl-edit", "Update", "", replicas)],
            Some(
                "Deployment/web was changed by \"kubectl-edit\" during the wait (generation 3 -> 4, .spec.replicas): \
                what is done may not be what was applied",
            ),
        );
        check(
            5,
            &[paused],
            Some(
                "Deployment/web was changed by another client during the wait (generation 3 -> 5): \
                what is done may not be what was applied",
            ),
        );
    }
}
