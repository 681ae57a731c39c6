//! Paths within a response: `/items/name=a/spec`.
//!
//! A segment is a key, an index, `*` for all elements, or `key=value` for the elements of an array (or the values of an
//! object) whose `key` (a path with dots) is `value`. `~1` is a slash, as in JSON pointers.

use serde_json::Value;

/// All values at a path, in order.
pub(crate) fn all<'v>(value: &'v Value, place: &str) -> Vec<&'v Value> {
    let mut found = vec![value];
    for segment in place.split('/').filter(|segment| !segment.is_empty()) {
        let segment = segment.replace("~1", "/").replace("~0", "~");
        found = found.into_iter().flat_map(|value| children(value, &segment)).collect();
    }
    found
}

/// The first value at a path.
pub(crate) fn first<'v>(value: &'v Value, place: &str) -> Option<&'v Value> {
    all(value, place).into_iter().next()
}

fn children<'v>(value: &'v Value, segment: &str) -> Vec<&'v Value> {
    if let Value::Object(map) = value
        && let Some(child) = map.get(segment)
    {
        return vec![child];
    }
    let Value::Array(items) = value else { return vec![] };
    if segment == "*" {
        return items.iter().collect();
    }
    if let Ok(index) = segment.parse::<usize>() {
        return items.get(index).into_iter().collect();
    }
    let Some((key, wanted)) = segment.split_once('=') else { return vec![] };
    let matches = |item: &&Value| {
        let mut deeper = Some(*item);
        for part in key.split('.') {
            deeper = deeper.and_then(|value| value.get(part));
        }
        match deeper {
            Some(Value::String(text)) => text == wanted,
            // For instance `replicas=3`, `ready=true`.
            Some(other) => serde_json::from_str::<Value>(wanted).is_ok_and(|wanted| wanted == *other),
            None => false,
        }
    };
    items.iter().filter(matches).collect()
}

/// Sets the value at a JSON pointer and creates missing objects; `-` appends to an existing array.
pub(crate) fn set(value: &mut Value, pointer: &str, new: Value) {
    let mut here = value;
    for segment in pointer.split('/').skip(1) {
        let key = segment.replace("~1", "/").replace("~0", "~");
        if let Value::Array(items) = here {
            let index = key.parse::<usize>().unwrap_or(items.len());
            while items.len() <= index {
                items.push(Value::Null);
            }
            here = &mut items[index];
            continue;
        }
        if !here.is_object() {
            *here = Value::Object(serde_json::Map::new());
        }
        let Value::Object(map) = here else { return };
        here = map.entry(key).or_insert(Value::Null);
    }
    *here = new;
}

/// Removes the value at a JSON pointer.
pub(crate) fn unset(value: &mut Value, pointer: &str) {
    let Some((parent, key)) = pointer.rsplit_once('/') else { return };
    let key = key.replace("~1", "/").replace("~0", "~");
    match value.pointer_mut(parent) {
        Some(Value::Object(map)) => drop(map.remove(&key)),
        Some(Value::Array(items)) => {
            if let Ok(index) = key.parse::<usize>()
                && index < items.len()
            {
                items.remove(index);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn places_are_found() {
        let value = json!({"items": [{"metadata": {"name": "a"}, "x": 1}, {"metadata": {"name": "b"}, "x": 2}], "a/b": 3});
        for (place, wanted) in [
            ("", json!([value])),
            ("/items/metadata.name=b/x", json!([2])),
            ("/items/*/x", json!([1, 2])),
            ("/items/0/x", json!([1])),
            ("/a~1b", json!([3])),
            ("/none/x", json!([])),
        ] {
            assert_eq!(json!(all(&value, place)), wanted, "{place}");
        }
    }

    #[test]
    fn values_are_set() {
        let mut value = json!({"a": [1]});
        set(&mut value, "/a/-", json!(2));
        set(&mut value, "/b/c", json!(3));
        unset(&mut value, "/a/0");
        assert_eq!(value, json!({"a": [2], "b": {"c": 3}}));
    }
}
