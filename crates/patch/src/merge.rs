//! Merge patch (RFC 7386) as in evanphx/json-patch v4.

use serde_json::{Map, Value};

use crate::error::PatchError;
use crate::json::too_deep;

/// Applies a merge patch.
///
/// As upstream, and unlike the RFC, nulls in maps within lists of new values are removed.
///
/// # Errors
/// [`PatchError::BadRequest`]: the patch is neither a map nor a list, or one of the two exceeds the maximum nesting.
///
/// ```
/// use serde_json::json;
/// use settled_patch::merge_patch;
///
/// let object = json!({"spec": {"replicas": 1, "paused": true}});
/// let patch = json!({"spec": {"paused": null, "selector": {"app": "web"}}});
/// assert_eq!(
///     merge_patch(&object, &patch).unwrap(),
///     json!({"spec": {"replicas": 1, "selector": {"app": "web"}}}),
/// );
/// ```
pub fn merge_patch(object: &Value, patch: &Value) -> Result<Value, PatchError> {
    if too_deep(object) || too_deep(patch) {
        return Err(PatchError::too_deep());
    }
    match (object, patch) {
        (Value::Object(object), Value::Object(patch)) => {
            let mut merged = object.clone();
            merge(&mut merged, patch);
            Ok(Value::Object(merged))
        }
        (_, Value::Object(_) | Value::Array(_)) => Ok(pruned(patch)),
        _ => Err(PatchError::BadRequest("Invalid JSON Patch".to_owned())),
    }
}

fn merge(object: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (name, value) in patch {
        match (object.get_mut(name), value) {
            (_, Value::Null) => {
                object.remove(name);
            }
            (Some(Value::Object(object)), Value::Object(patch)) => merge(object, patch),
            // Upstream does not prune a list that replaces a map.
            (Some(Value::Object(_)), value) => {
                object.insert(name.clone(), value.clone());
            }
            (_, value) => {
                object.insert(name.clone(), pruned(value));
            }
        }
    }
}

/// Removes nulls from the maps of a value. Those of lists stay.
fn pruned(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(name, value)| (name.clone(), pruned(value))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(pruned).collect()),
        scalar => scalar.clone(),
    }
}
