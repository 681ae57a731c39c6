//! `SetDefaults` and the registry's strategy of CRDs: what is done to one before it is validated.

use serde_json::{Map, Value, json};
use settled_apimachinery::unstructured::{flag, items, string};

/// Sets what upstream's `SetDefaults` sets: the singular and list kind, conversion `None`, the port of a conversion webhook,
/// and the first stored version.
pub fn default_definition(crd: &mut Value) {
    let Some(crd) = crd.as_object_mut() else { return };
    let spec = crd.entry("spec").or_insert_with(|| json!({}));
    if spec.is_null() {
        *spec = json!({});
    }
    let storage = storage_version(spec).map(str::to_owned);
    if let Some(spec) = spec.as_object_mut() {
        let names = spec.entry("names").or_insert_with(|| json!({}));
        if let Some(names) = names.as_object_mut() {
            default_names(names);
        }
        let conversion = spec.entry("conversion").or_insert(Value::Null);
        if conversion.is_null() {
            *conversion = json!({"strategy": "None"});
        }
        if let Some(Value::Object(service)) = conversion.pointer_mut("/webhook/clientConfig/service")
            && service.get("port").is_none_or(Value::is_null)
        {
            service.insert("port".to_owned(), 443.into());
        }
    }
    let stored = crd.get("status").and_then(|status| status.get("storedVersions")).and_then(Value::as_array);
    if let (Some(storage), true) = (storage, stored.is_none_or(Vec::is_empty)) {
        add_stored_version(crd, storage);
    }
}

fn default_names(names: &mut Map<String, Value>) {
    let name = |names: &Map<String, Value>, field: &str| -> String {
        names.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let kind = name(names, "kind");
    if kind.is_empty() {
        return;
    }
    for (field, default) in [("singular", kind.to_lowercase()), ("listKind", format!("{kind}List"))] {
        if name(names, field).is_empty() {
            names.insert(field.to_owned(), default.into());
        }
    }
}

/// What upstream does to a new definition before it validates it: its status is cleared but for the stored version, its
/// generation is 1.
pub fn prepare_for_create(crd: &mut Value) {
    let Some(crd) = crd.as_object_mut() else { return };
    crd.insert("status".to_owned(), json!({}));
    set_generation(crd, 1);
    add_storage_version(crd);
}

/// What upstream does to an update of the definition: its status is the old one with the storage version, its generation
/// rises with a change of the spec.
pub fn prepare_for_update(crd: &mut Value, old: &Value) {
    let Some(crd) = crd.as_object_mut() else { return };
    match old.get("status") {
        Some(status) => crd.insert("status".to_owned(), status.clone()),
        None => crd.remove("status"),
    };
    if crd.get("spec") != old.get("spec") {
        let generation = old.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or_default();
        set_generation(crd, generation + 1);
    }
    add_storage_version(crd);
}

fn set_generation(crd: &mut Map<String, Value>, generation: i64) {
    if let Some(metadata) = crd.entry("metadata").or_insert_with(|| json!({})).as_object_mut() {
        metadata.insert("generation".to_owned(), generation.into());
    }
}

fn storage_version(spec: &Value) -> Option<&str> {
    let version = items(spec, "versions").iter().find(|version| flag(version, "storage"))?;
    Some(string(version, "name"))
}

fn add_storage_version(crd: &mut Map<String, Value>) {
    if let Some(version) = crd.get("spec").and_then(storage_version).map(str::to_owned) {
        add_stored_version(crd, version);
    }
}

/// Adds a version to those that are stored.
fn add_stored_version(crd: &mut Map<String, Value>, version: String) {
    let status = crd.entry("status").or_insert_with(|| json!({}));
    if !status.is_object() {
        *status = json!({});
    }
    if let Some(status) = status.as_object_mut() {
        let stored = status.entry("storedVersions").or_insert_with(|| json!([]));
        if let Some(stored) = stored.as_array_mut() {
            let version = Value::from(version);
            if !stored.contains(&version) {
                stored.push(version);
            }
        } else {
            *stored = json!([version]);
        }
    }
}
