//! Merge patch: the difference between two values, with nulls for what is gone.

use serde_json::{Map, Value};

/// The merge patch that makes `to` of `from`; `None` if they are equal.
pub(crate) fn merge_patch(from: &Value, to: &Value) -> Option<Value> {
    if from == to {
        return None;
    }
    let (Value::Object(old), Value::Object(new)) = (from, to) else { return Some(to.clone()) };
    let mut patch = Map::new();
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    for (name, value) in new {
        let difference = match old.get(name) {
            Some(before) => merge_patch(before, value),
            None => Some(value.clone()),
        };
        if let Some(difference) = difference {
            patch.insert(name.clone(), difference);
        }
    }
    Some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn patches_have_nulls_for_what_is_gone() {
        let from = json!({"a": 1, "b": {"c": 2, "d": 3}, "e": [1]});
        let to = json!({"a": 1, "b": {"c": 4}, "e": [1, 2], "f": {"g": 5}});
        let patch = json!({"b": {"c": 4, "d": null}, "e": [1, 2], "f": {"g": 5}});
        assert_eq!(merge_patch(&from, &to), Some(patch));
        assert_eq!(merge_patch(&from, &from), None);
    }
}
