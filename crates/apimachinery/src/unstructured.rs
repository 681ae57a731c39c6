//! Accessors for fields of JSON objects, such as `unstructured.NestedString`. Absent fields and fields of another type
//! are empty.

use serde_json::Value;

static NULL: Value = Value::Null;

/// A field, or null.
#[must_use]
pub fn field<'a>(object: &'a Value, name: &str) -> &'a Value {
    object.get(name).unwrap_or(&NULL)
}

/// A field that exists and is not null.
#[must_use]
pub fn given<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    object.get(name).filter(|value| !value.is_null())
}

/// A string field, or empty.
///
/// ```
/// use serde_json::json;
/// use settled_apimachinery::unstructured::{string, string_at};
///
/// let pod = json!({"kind": "Pod", "status": {"phase": "Running"}});
/// assert_eq!(string(&pod, "kind"), "Pod");
/// assert_eq!(string_at(&pod, "/status/phase"), "Running");
/// assert_eq!(string_at(&pod, "/status/reason"), "");
/// ```
#[must_use]
pub fn string<'a>(object: &'a Value, name: &str) -> &'a str {
    field(object, name).as_str().unwrap_or_default()
}

/// The value at a JSON pointer: as [`Value::pointer`], which makes texts of each part of the pointer.
///
/// ```
/// use serde_json::json;
/// use settled_apimachinery::unstructured::value_at;
///
/// let pod = json!({"status": {"podIPs": [{"ip": "10.0.0.1"}]}, "a/b": 1});
/// assert_eq!(value_at(&pod, "/status/podIPs/0/ip"), Some(&json!("10.0.0.1")));
/// assert_eq!(value_at(&pod, "/status/podIPs/00/ip"), None);
/// assert_eq!(value_at(&pod, "/a~1b"), Some(&json!(1)));
/// assert_eq!(value_at(&pod, ""), Some(&pod));
/// ```
#[must_use]
pub fn value_at<'a>(object: &'a Value, pointer: &str) -> Option<&'a Value> {
    if pointer.is_empty() {
        return Some(object);
    }
    let Some(parts) = pointer.strip_prefix('/').filter(|parts| !parts.contains('~')) else {
        return object.pointer(pointer);
    };
    parts.split('/').try_fold(object, |value, part| match value {
        Value::Object(fields) => fields.get(part),
        Value::Array(items) => {
            let is_index = part == "0" || !part.starts_with(['0', '+']);
            items.get(part.parse::<usize>().ok().filter(|_| is_index)?)
        }
        _ => None,
    })
}

/// A string at a JSON pointer, or empty.
#[must_use]
pub fn string_at<'a>(object: &'a Value, pointer: &str) -> &'a str {
    value_at(object, pointer).and_then(Value::as_str).unwrap_or_default()
}

/// An integer field.
#[must_use]
pub fn integer(object: &Value, name: &str) -> Option<i64> {
    field(object, name).as_i64()
}

/// An integer at a JSON pointer, or zero.
#[must_use]
pub fn integer_at(object: &Value, pointer: &str) -> i64 {
    value_at(object, pointer).and_then(Value::as_i64).unwrap_or_default()
}

/// Whether a boolean field is true.
#[must_use]
pub fn flag(object: &Value, name: &str) -> bool {
    field(object, name).as_bool().unwrap_or_default()
}

/// The items of a list, or an empty slice.
#[must_use]
pub fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The items of a list field, or an empty slice.
#[must_use]
pub fn items<'a>(object: &'a Value, name: &str) -> &'a [Value] {
    array(field(object, name))
}

/// The items of a list at a JSON pointer, or an empty slice.
#[must_use]
pub fn items_at<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    value_at(object, pointer).map_or(&[], array)
}

/// The entries of a map field.
pub fn entries<'a>(object: &'a Value, name: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    field(object, name).as_object().into_iter().flatten()
}
