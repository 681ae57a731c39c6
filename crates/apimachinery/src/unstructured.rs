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

/// A string at a JSON pointer, or empty.
#[must_use]
pub fn string_at<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// An integer field.
#[must_use]
pub fn integer(object: &Value, name: &str) -> Option<i64> {
    field(object, name).as_i64()
}

/// An integer at a JSON pointer, or zero.
#[must_use]
pub fn integer_at(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or_default()
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
    object.pointer(pointer).map_or(&[], array)
}

/// The entries of a map field.
pub fn entries<'a>(object: &'a Value, name: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    field(object, name).as_object().into_iter().flatten()
}
