//! Exports: all objects of the API with their status, so that they can be restored on the same hosts.
//!
//! Providers know hosts by the UID of the Machine that they were made for. A restored Machine has another one: the export records it as
//! `status.hostKey`.

use serde_json::{Map, Value};

use crate::inventory::{Inventory, Kind, text};
use crate::types::{CLUSTER_FINALIZER, FINALIZER};

/// Metadata that an export has.
const METADATA: [&str; 8] =
    ["name", "namespace", "labels", "annotations", "finalizers", "ownerReferences", "uid", "generateName"];

/// Objects in the order in which they are restored.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Export {
    /// The objects.
    pub objects: Vec<Value>,
    /// Objects that are being deleted: they are not exported.
    pub deleting: Vec<String>,
}

/// Exports an inventory.
#[must_use]
pub fn export(inventory: &Inventory) -> Export {
    let mut export = Export::default();
    for (id, object) in inventory.iter() {
        if object.pointer("/metadata/deletionTimestamp").is_some() {
            export.deleting.push(id.to_string());
            continue;
        }
        let mut exported = Map::new();
        for name in ["apiVersion", "kind"] {
            exported.insert(name.to_owned(), object[name].clone());
        }
        let metadata = object.get("metadata").and_then(Value::as_object).into_iter().flatten();
        let metadata = metadata.filter(|(name, _)| METADATA.contains(&name.as_str()));
        let mut metadata: Map<String, Value> =
            metadata.map(|(name, value)| (name.clone(), value.clone())).collect();
        if let Some(finalizers) = metadata.get_mut("finalizers").and_then(Value::as_array_mut) {
            finalizers.retain(|name| name == FINALIZER || name == CLUSTER_FINALIZER);
        }
        metadata.retain(|_, value| !matches!(value, Value::Array(items) if items.is_empty()));
        exported.insert("metadata".to_owned(), metadata.into());
        exported.insert("spec".to_owned(), object["spec"].clone());
        if let Some(status) = object.get("status").filter(|status| status.is_object()) {
            let mut status = status.clone();
            let has_host = ["/status/providerID", "/status/provisioningSince"]
                .iter()
                .any(|pointer| object.pointer(pointer).is_some());
            if id.kind == Kind::Machine && has_host && text(object, "/status/hostKey").is_empty() {
                status["hostKey"] = object["metadata"]["uid"].clone();
            }
            exported.insert("status".to_owned(), status);
        }
        export.objects.push(Value::Object(exported));
    }
    export
}

/// Whether an object is one of an export: it has a status that is restored with it.
#[must_use]
pub fn restorable(object: &Value) -> bool {
    Kind::of(object).is_some()
        && !text(object, "/metadata/uid").is_empty()
        && object.get("status").and_then(Value::as_object).is_some_and(|status| !status.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_export_has_the_status_and_the_key_of_the_host() {
        let machine = json!({
            "apiVersion": "cluster.settled.dev/v1alpha1", "kind": "Machine",
            "metadata": {"name": "a", "namespace": "x", "uid": "u1", "resourceVersion": "9", "managedFields": [],
                "finalizers": ["cluster.settled.dev/machine", "example.com/other"]},
            "spec": {"versions": {"kubelet": "v1.36.0"}}, "status": {"providerID": "simulated://u1/1"},
        });
        let mut leaving = machine.clone();
        leaving["metadata"]["name"] = "b".into();
        leaving["metadata"]["deletionTimestamp"] = "2026-11-24T12:00:00Z".into();
        let export = export(&Inventory::new([machine, leaving], "x"));
        assert_eq!(export.deleting, ["Machine/b"]);
        assert_eq!(
            export.objects,
            [json!({
                "apiVersion": "cluster.settled.dev/v1alpha1", "kind": "Machine",
                "metadata": {"name": "a", "namespace": "x", "uid": "u1", "finalizers": ["cluster.settled.dev/machine"]},
                "spec": {"versions": {"kubelet": "v1.36.0"}},
                "status": {"providerID": "simulated://u1/1", "hostKey": "u1"},
            })]
        );
        assert!(restorable(&export.objects[0]));
    }
}
