//! Changed fields: in which fields two versions of an object differ.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::migrate::LAST_APPLIED;

/// More fields than this are counted, not named.
const MAX_FIELDS: usize = 100;

/// The keys by which upstream's schemas identify the items of a list, the most common first.
const LIST_KEYS: &[&str] =
    &["name", "containerPort", "port", "mountPath", "devicePath", "key", "type", "topologyKey", "ip", "uid"];

/// An object without what is not of its content: a status, which controllers write, and what the server records of writes. Its
/// resourceVersion won't do for a comparison: a server that records who owns a field, or a dry run, changes one without the other.
pub(super) fn content(json: &[u8]) -> Option<Value> {
    let mut object: Value = serde_json::from_slice(json).ok()?;
    object.as_object_mut()?.remove("status");
    let metadata = object.get_mut("metadata")?.as_object_mut()?;
    for key in ["managedFields", "resourceVersion", "generation", "uid", "creationTimestamp", "selfLink"] {
        metadata.remove(key);
    }
    // kubectl's note for its next client-side apply, as long as the object itself.
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.remove(LAST_APPLIED);
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
    Some(object)
}

/// The fields in which two versions of an object differ, each at the highest level that was added, removed or changed:
/// `spec.template.spec.containers[app].image`.
pub(super) fn changed_fields(before: &Value, after: &Value) -> Vec<String> {
    let mut fields = Vec::new();
    compare(before, after, &mut String::new(), &mut fields);
    fields
}

fn compare(before: &Value, after: &Value, path: &mut String, fields: &mut Vec<String>) {
    if before == after || fields.len() >= MAX_FIELDS {
        return;
    }
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            let keys: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
            for key in keys {
                let length = path.len();
                push_key(path, key);
                match (before.get(key), after.get(key)) {
                    (Some(before), Some(after)) => compare(before, after, path, fields),
                    _ => fields.push(path.clone()),
                }
                path.truncate(length);
            }
        }
        (Value::Array(before), Value::Array(after)) => compare_lists(before, after, path, fields),
        _ => fields.push(path.clone()),
    }
}

fn compare_lists(before: &[Value], after: &[Value], path: &mut String, fields: &mut Vec<String>) {
    let reported = fields.len();
    let mut at = |item: &str, before: Option<&Value>, after: Option<&Value>, fields: &mut Vec<String>| {
        let length = path.len();
        path.push_str(item);
        match (before, after) {
            (Some(before), Some(after)) => compare(before, after, path, fields),
            _ => fields.push(path.clone()),
        }
        path.truncate(length);
    };
    let keyed =
        LIST_KEYS.iter().find_map(|key| Some((items_by_key(before, key)?, items_by_key(after, key)?)));
    if let Some((before, after)) = keyed {
        for (name, item) in &before {
            at(&format!("[{name}]"), Some(item), find(&after, name), fields);
        }
        for (name, item) in &after {
            if find(&before, name).is_none() {
                at(&format!("[{name}]"), None, Some(item), fields);
            }
        }
    } else if before.len() == after.len() && before.iter().chain(after).all(|item| item.is_object()) {
        for (index, (before, after)) in before.iter().zip(after).enumerate() {
            at(&format!("[{index}]"), Some(before), Some(after), fields);
        }
    }
    // Nothing in it, or only the order.
    if fields.len() == reported {
        fields.push(path.clone());
    }
}

fn find<'a>(items: &[(String, &'a Value)], name: &str) -> Option<&'a Value> {
    items.iter().find(|(known, _)| known == name).map(|(_, item)| *item)
}

/// The items by the value of a key, if each has one of its own.
fn items_by_key<'a>(items: &'a [Value], key: &str) -> Option<Vec<(String, &'a Value)>> {
    let mut named: Vec<(String, &Value)> = Vec::with_capacity(items.len());
    for item in items {
        let name = match item.as_object().and_then(|item: &Map<String, Value>| item.get(key))? {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            _ => return None,
        };
        if named.iter().any(|(known, _)| *known == name) {
            return None;
        }
        named.push((name, item));
    }
    Some(named)
}

/// `.spec`, or `[example.com/key]` where the key is no plain word.
fn push_key(path: &mut String, key: &str) {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if key.is_empty() || !key.bytes().all(plain) {
        path.push('[');
        path.push_str(key);
        path.push(']');
        return;
    }
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(key);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_highest_changed_field_is_reported() {
        let base = json!({"metadata": {"name": "web", "labels": {"app": "web"}}, "spec": {"replicas": 1, "containers": [
            {"name": "app", "image": "a:1", "ports": [{"containerPort": 80}]}, {"name": "log", "image": "b:1"}]},
            "args": ["a", "b"]});
        let check = |pointer: &str, value: Value, expected: &[&str]| {
            let mut after = base.clone();
            *after.pointer_mut(pointer).unwrap() = value;
            assert_eq!(changed_fields(&base, &after), expected, "{pointer}");
        };
        check("/spec/replicas", json!(1), &[]);
        check("/spec/replicas", json!(2), &["spec.replicas"]);
        check("/spec/containers/0/image", json!("a:2"), &["spec.containers[app].image"]);
        check(
            "/metadata/labels",
            json!({"app": "web", "example.com/x": "y"}),
            &["metadata.labels[example.com/x]"],
        );
        check(
            "/spec/containers/0/ports",
            json!([{"containerPort": 81}]),
            &["spec.containers[app].ports[80]", "spec.containers[app].ports[81]"],
        );
        check("/args", json!(["b", "a"]), &["args"]);
        check("/args", json!(["a"]), &["args"]);
        let mut swapped = base.clone();
        swapped["spec"]["containers"].as_array_mut().unwrap().swap(0, 1);
        assert_eq!(changed_fields(&base, &swapped), ["spec.containers"]);
        let mut removed = base.clone();
        removed["spec"]["containers"].as_array_mut().unwrap().pop();
        removed.as_object_mut().unwrap().remove("args");
        assert_eq!(changed_fields(&base, &removed), ["args", "spec.containers[log]"]);
    }

    #[test]
    fn what_the_server_records_is_no_content() {
        let object = |generation: u64, annotation: &str| {
            let text = json!({"metadata": {"name": "a", "generation": generation, "resourceVersion": "1",
                "managedFields": [], "annotations": {LAST_APPLIED: annotation}}, "status": {"phase": annotation}});
            content(text.to_string().as_bytes()).unwrap()
        };
        assert_eq!(object(1, "x"), object(2, "y"));
        assert_eq!(object(1, "x"), json!({"metadata": {"name": "a"}}));
    }

    #[test]
    fn names_are_bounded() {
        let many = |value: u64| -> Value {
            (0..500).map(|key| (format!("k{key}"), json!(value))).collect::<Map<String, Value>>().into()
        };
        assert_eq!(changed_fields(&many(1), &many(2)).len(), MAX_FIELDS);
    }
}
