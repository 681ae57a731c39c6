//! Migration of managed fields from kubectl's client-side apply, as `kubectl apply --server-side` does it: client-go's `csaupgrade`.

use serde_json::{Value, json};
use settled_managed_fields::{FieldSet, PathElement};

/// Where client-side apply keeps what was applied last.
pub(super) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Who owns that annotation while `kubectl` applies server-side: then the server keeps it up to date.
pub(super) const LAST_APPLIED_MANAGER: &str = "kubectl-last-applied";
/// kubectl's default for `--field-manager` with `--server-side`.
pub(super) const KUBECTL: &str = "kubectl";

/// The managers as which kubectl writes the annotation: `apply`, `create --save-config`, versions before 1.18, and the
/// server for all that was there before the first apply. kubectl looks at the annotation alone and so takes over the fields of Argo CD's
/// client-side apply as well; those remain a conflict here.
const CLIENT_SIDE_MANAGERS: &[&str] =
    &["kubectl-client-side-apply", "kubectl-create", "kubectl", "before-first-apply"];

/// kubectl's client-side managers among the managers of an object: those that own the annotation by an update.
pub(super) fn client_side_managers(object: &Value) -> Vec<String> {
    let path = ["metadata", "annotations", LAST_APPLIED].map(PathElement::field);
    let mut managers: Vec<String> = Vec::new();
    for entry in entries(object) {
        let Some(manager) = entry["manager"].as_str() else { continue };
        let owns = || fields(entry).is_some_and(|fields| fields.contains(&path));
        if CLIENT_SIDE_MANAGERS.contains(&manager)
            && entry["operation"] == "Update"
            && subresource(entry).is_empty()
            && owns()
            && !managers.iter().any(|known| known == manager)
        {
            managers.push(manager.to_owned());
        }
    }
    managers
}

/// Whether a manager that applies owns the annotation already.
pub(super) fn has_last_applied_manager(object: &Value) -> bool {
    let path = ["metadata", "annotations", LAST_APPLIED].map(PathElement::field);
    entries(object).iter().any(|entry| {
        entry["operation"] == "Apply" && fields(entry).is_some_and(|fields| fields.contains(&path))
    })
}

/// The JSON patch that gives the fields of client-side managers to a manager that applies. None if there is nothing to do.
///
/// It replaces the resourceVersion by the one that was read, so that the server refuses it with a conflict if the object has
/// been changed since.
pub(super) fn upgrade_patch(object: &Value, client_side: &[String], manager: &str) -> Option<Value> {
    let before = entries(object);
    let mut after = before.to_vec();
    for client_side in client_side {
        after = upgraded(after, client_side, manager)?;
    }
    if after == before {
        return None;
    }
    Some(json!([
        {"op": "replace", "path": "/metadata/managedFields", "value": after},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": object["metadata"]["resourceVersion"]},
    ]))
}

/// `upgradedManagedFields`: None if an entry cannot be read.
fn upgraded(mut entries: Vec<Value>, client_side: &str, manager: &str) -> Option<Vec<Value>> {
    let is = |entry: &Value, manager: &str, operation: &str| {
        entry["manager"] == manager && entry["operation"] == operation && subresource(entry).is_empty()
    };
    let index = match entries.iter().position(|entry| is(entry, manager, "Apply")) {
        Some(index) => index,
        // The newest is the first.
        None => match entries.iter().position(|entry| is(entry, client_side, "Update")) {
            None => return Some(entries),
            Some(index) => {
                let entry = entries.get_mut(index)?;
                entry["manager"] = manager.into();
                entry["operation"] = "Apply".into();
                index
            }
        },
    };
    let target = entries.get(index)?;
    let same_version = entries
        .iter()
        .find(|entry| is(entry, client_side, "Update") && entry["apiVersion"] == target["apiVersion"]);
    let mut owned = fields(target)?;
    if let Some(entry) = same_version {
        owned = owned.union(&fields(entry)?);
    }
    entries.get_mut(index)?["fieldsV1"] = owned.to_value();
    entries.retain(|entry| !is(entry, client_side, "Update"));
    Some(entries)
}

fn entries(object: &Value) -> &[Value] {
    object.pointer("/metadata/managedFields").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn subresource(entry: &Value) -> &str {
    entry["subresource"].as_str().unwrap_or_default()
}

fn fields(entry: &Value) -> Option<FieldSet> {
    FieldSet::from_value(&entry["fieldsV1"]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(manager: &str, operation: &str, version: &str, fields: Value) -> Value {
        json!({"manager": manager, "operation": operation, "apiVersion": version, "fieldsType": "FieldsV1",
            "fieldsV1": fields, "time": "2026-11-21T12:00:00Z"})
    }

    fn annotated(mut fields: Value) -> Value {
        fields["f:metadata"] = json!({"f:annotations": {format!("f:{LAST_APPLIED}"): {}}});
        fields
    }

    fn object(entries: Vec<Value>) -> Value {
        json!({"metadata": {"resourceVersion": "7", "managedFields": entries}})
    }

    #[test]
    fn only_kubectls_client_side_apply_is_taken_over() {
        let owned = || annotated(json!({"f:data": {"f:a": {}}}));
        let check = |entries: Vec<Value>, expected: &[&str]| {
            assert_eq!(client_side_managers(&object(entries)), expected);
        };
        check(
            vec![entry("kubectl-client-side-apply", "Update", "v1", owned())],
            &["kubectl-client-side-apply"],
        );
        check(vec![entry("before-first-apply", "Update", "v1", owned())], &["before-first-apply"]);
        // Not the one that wrote the annotation; another tool's; an apply; a subresource.
        check(vec![entry("kubectl-client-side-apply", "Update", "v1", json!({"f:data": {}}))], &[]);
        check(vec![entry("kubectl-edit", "Update", "v1", owned())], &[]);
        check(vec![entry("argocd-controller", "Update", "v1", owned())], &[]);
        check(vec![entry("kubectl", "Apply", "v1", owned())], &[]);
        let mut of_status = entry("kubectl", "Update", "v1", owned());
        of_status["subresource"] = "status".into();
        check(vec![of_status], &[]);
    }

    /// As `csaupgrade.UpgradeManagedFieldsPatch` does it.
    #[test]
    fn fields_are_united_with_those_of_the_same_version() {
        let csa = |version: &str, key: &str| {
            entry("kubectl-client-side-apply", "Update", version, json!({"f:data": {format!("f:{key}"): {}}}))
        };
        let ssa = |fields: Value| entry("settled", "Apply", "v1", fields);
        let names = ["kubectl-client-side-apply".to_owned()];
        let patched = |entries: Vec<Value>| {
            let patch = upgrade_patch(&object(entries), &names, "settled")?;
            assert_eq!(patch[1], json!({"op": "replace", "path": "/metadata/resourceVersion", "value": "7"}));
            Some(patch[0]["value"].clone())
        };
        // The newest becomes the manager that applies; those of other versions go.
        let other = entry("kubectl-edit", "Update", "v1", json!({"f:data": {"f:z": {}}}));
        assert_eq!(
            patched(vec![csa("v1", "a"), csa("v1beta1", "b"), other.clone()]),
            Some(json!([ssa(json!({"f:data": {"f:a": {}}})), other]))
        );
        // There is one already.
        assert_eq!(
            patched(vec![ssa(json!({"f:data": {"f:x": {}}})), csa("v1beta1", "b"), csa("v1", "a")]),
            Some(json!([ssa(json!({"f:data": {"f:a": {}, "f:x": {}}}))]))
        );
        assert_eq!(patched(vec![ssa(json!({"f:data": {"f:x": {}}})), other.clone()]), None);
        assert_eq!(patched(vec![other]), None);
    }
}
