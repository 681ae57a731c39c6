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
        (Value::Object(object), Value::Object(patch)) => Ok(Value::Object(merged(object, patch))),
        (_, Value::Object(_) | Value::Array(_)) => Ok(pruned(patch)),
        _ => Err(PatchError::BadRequest("Invalid JSON Patch".to_owned())),
    }
}

/// What is replaced is not copied first.
fn merged(object: &Map<String, Value>, patch: &Map<String, Value>) -> Map<String, Value> {
    let kept = object.iter().filter_map(|(name, old)| {
        let value = match (old, patch.get(name)) {
            (_, None) => old.clone(),
            (_, Some(Value::Null)) => return None,
            (Value::Object(old), Some(Value::Object(patch))) => Value::Object(merged(old, patch)),
            // Upstream does not prune a list that replaces a map.
            (Value::Object(_), Some(value)) => value.clone(),
            (_, Some(value)) => pruned(value),
        };
        Some((name.clone(), value))
    });
    let new = patch.iter().filter(|(name, value)| !value.is_null() && !object.contains_key(*name));
    kept.chain(new.map(|(name, value)| (name.clone(), pruned(value)))).collect()
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
