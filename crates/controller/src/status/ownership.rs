//! Field ownership of a status by `metadata.managedFields`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use serde_json::Value;

/// Whether the fields that a manager applied to the status are exactly those of the desired one; `None` if
/// managedFields were removed from the object, as caches do.
pub(super) fn is_applied(
    entries: Option<&[ManagedFieldsEntry]>,
    manager: &str,
    desired: &Value,
) -> Option<bool> {
    let entries = entries.filter(|entries| !entries.is_empty())?;
    let own = entries.iter().find(|entry| {
        entry.manager.as_deref() == Some(manager)
            && entry.operation.as_deref() == Some("Apply")
            && entry.subresource.as_deref() == Some("status")
    });
    let fields = own.and_then(|entry| entry.fields_v1.as_ref()).map(|fields| &fields.0["f:status"]);
    let Some(fields) = fields else { return Some(false) };
    Some(is_desired(fields, desired) && is_owned(fields, desired))
}

/// Other managers that wrote the status, sorted.
pub(super) fn other_managers(entries: Option<&[ManagedFieldsEntry]>, manager: &str) -> Vec<String> {
    let wrote_status = |entry: &&ManagedFieldsEntry| {
        entry.fields_v1.as_ref().is_some_and(|fields| fields.0.get("f:status").is_some())
    };
    let names = entries.into_iter().flatten().filter(wrote_status).filter_map(|entry| entry.manager.clone());
    let mut names: Vec<String> = names.filter(|name| name != manager).collect();
    names.sort();
    names.dedup();
    names
}

/// Whether each owned field is in the value.
fn is_desired(fields: &Value, value: &Value) -> bool {
    fields.as_object().into_iter().flatten().all(|(key, fields)| match key.split_once(':') {
        Some(("f", name)) => value.get(name).is_some_and(|value| is_desired(fields, value)),
        Some(("k", keys)) => item(keys, value).is_some_and(|value| is_desired(fields, value)),
        Some(("v", text)) => serde_json::from_str::<Value>(text)
            .is_ok_and(|wanted| value.as_array().is_some_and(|items| items.contains(&wanted))),
        _ => true,
    })
}

/// Whether each field of the value is owned. Leaves are owned as a whole.
fn is_owned(fields: &Value, value: &Value) -> bool {
    let Some(fields) = fields.as_object().filter(|fields| !fields.is_empty()) else { return true };
    match value {
        Value::Object(members) => members.iter().all(|(name, value)| {
            fields.get(&format!("f:{name}")).is_some_and(|fields| is_owned(fields, value))
        }),
        Value::Array(items) => items.iter().all(|item| {
            fields.iter().any(|(key, fields)| match key.split_once(':') {
                Some(("k", keys)) => has_keys(item, keys) && is_owned(fields, item),
                Some(("v", text)) => serde_json::from_str::<Value>(text).is_ok_and(|wanted| wanted == *item),
                _ => false,
            })
        }),
        _ => true,
    }
}

fn item<'v>(keys: &str, list: &'v Value) -> Option<&'v Value> {
    list.as_array()?.iter().find(|item| has_keys(item, keys))
}

fn has_keys(item: &Value, keys: &str) -> bool {
    let Ok(Value::Object(keys)) = serde_json::from_str(keys) else { return false };
    keys.iter().all(|(name, key)| item.get(name) == Some(key))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(manager: &str, operation: &str, subresource: &str, fields: &Value) -> ManagedFieldsEntry {
        serde_json::from_value(json!({
            "manager": manager, "operation": operation, "subresource": subresource, "fieldsV1": {"f:status": fields},
        }))
        .unwrap()
    }

    #[test]
    fn an_applied_status_has_the_same_fields() {
        let fields = json!({
            "f:replicas": {},
            "f:conditions": {"k:{\"type\":\"Ready\"}": {".": {}, "f:type": {}, "f:status": {}}},
            "f:zones": {"v:\"a\"": {}},
        });
        let entries = [
            entry("other", "Update", "status", &json!({"f:phase": {}})),
            entry("us", "Apply", "status", &fields),
        ];
        let ready = json!({"type": "Ready", "status": "False"});
        let cases = [
            ("the same fields", json!({"replicas": 4, "conditions": [ready], "zones": ["a"]}), true),
            ("a field less", json!({"conditions": [ready], "zones": ["a"]}), false),
            (
                "a field more",
                json!({"replicas": 4, "conditions": [ready], "zones": ["a"], "phase": "x"}),
                false,
            ),
            ("a condition less", json!({"replicas": 4, "conditions": [], "zones": ["a"]}), false),
            (
                "a condition more",
                json!({"replicas": 4, "conditions": [ready, {"type": "Stored"}], "zones": ["a"]}),
                false,
            ),
            (
                "a field of a condition more",
                json!({"replicas": 4, "conditions": [{"type": "Ready", "status": "", "reason": ""}], "zones": ["a"]}),
                false,
            ),
            ("another item of a set", json!({"replicas": 4, "conditions": [ready], "zones": ["b"]}), false),
        ];
        for (name, desired, wanted) in cases {
            assert_eq!(is_applied(Some(&entries), "us", &desired), Some(wanted), "{name}");
        }
        assert_eq!(is_applied(Some(&entries), "third", &json!({})), Some(false));
        assert_eq!(is_applied(Some(&[]), "us", &json!({})), None);
        assert_eq!(is_applied(None, "us", &json!({})), None);
        // An update by the same manager is a separate entry, and does not count.
        let updated = [entry("us", "Update", "status", &fields)];
        assert_eq!(is_applied(Some(&updated), "us", &json!({})), Some(false));
    }

    #[test]
    fn other_managers_of_the_status_are_named() {
        let mut spec_only = entry("kubectl", "Update", "", &json!({}));
        spec_only.fields_v1 = Some(serde_json::from_value(json!({"f:spec": {}})).unwrap());
        let entries = [
            entry("us", "Apply", "status", &json!({})),
            entry("z", "Update", "status", &json!({})),
            entry("a", "Apply", "status", &json!({})),
            entry("z", "Apply", "status", &json!({})),
            spec_only,
        ];
        assert_eq!(other_managers(Some(&entries), "us"), ["a", "z"]);
    }
}
