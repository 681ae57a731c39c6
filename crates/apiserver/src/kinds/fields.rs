//! Fields of objects by their paths, for the defaulting functions of kinds.

use serde_json::{Map, Value, json};

/// The fields of an object.
pub(crate) type Fields = Map<String, Value>;

/// What lies at a path. `null`s and what Go takes for absent are absent.
pub(crate) fn field_at<'a>(fields: &'a Fields, path: &str) -> Option<&'a Value> {
    let mut names = path.split('.');
    let mut value = fields.get(names.next()?)?;
    for name in names {
        value = value.get(name)?;
    }
    Some(value).filter(|value| !value.is_null())
}

/// Puts a value at a path, with the objects on its way, unless there is one.
pub(crate) fn set_absent(fields: &mut Fields, path: &str, value: &Value) {
    if field_at(fields, path).is_some_and(|known| known != "" || value == "") {
        return;
    }
    let (parents, last) = path.rsplit_once('.').map_or((None, path), |(parents, last)| (Some(parents), last));
    let mut fields = fields;
    for name in parents.into_iter().flat_map(|parents| parents.split('.')) {
        let parent = fields.entry(name).or_insert_with(|| Value::Object(Fields::new()));
        if parent.is_null() {
            *parent = Value::Object(Fields::new());
        }
        let Value::Object(inner) = parent else { return };
        fields = inner;
    }
    fields.insert(last.to_owned(), value.clone());
}

/// Copies the entries of one map into another where it has none of that name.
pub(crate) fn copy_absent(fields: &mut Fields, from: &str, to: &str) {
    let Some(Value::Object(source)) = fields.get(from).cloned() else { return };
    let target = fields.entry(to).or_insert_with(|| Value::Object(Fields::new()));
    if target.is_null() {
        *target = Value::Object(Fields::new());
    }
    if let Value::Object(target) = target {
        for (name, value) in source {
            target.entry(name).or_insert(value);
        }
    }
}

/// An object in a field; made where there is none.
pub(crate) fn object_of<'a>(
    fields: &'a mut Map<String, Value>,
    name: &str,
) -> Option<&'a mut Map<String, Value>> {
    let value = fields.entry(name).or_insert_with(|| json!({}));
    if value.is_null() {
        *value = json!({});
    }
    value.as_object_mut()
}
