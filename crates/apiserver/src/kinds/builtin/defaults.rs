//! Defaulting of built-in kinds: the steps of `defaults.yaml`, the schemas' published defaults, and the zeros that Go always
//! writes.

use serde_json::Value;

use super::BuiltinKind;
use super::decode::zero;
use super::packages::Absent;
use super::plan::{Node, Shape, node};
use crate::kinds::fields::Fields;

/// Fills in what is absent, as Kubernetes does on every read and write. Expects what [`super::decode`] leaves; doing it
/// again changes nothing.
pub(crate) fn default(kind: &BuiltinKind, object: &mut Value) {
    if let Value::Object(fields) = object {
        fill(fields, &node(kind.schema_name), true);
    }
}

/// Fills in only what Go writes of fields that are absent: the object of a new Go struct. Lists of nothing become the `null` that
/// upstream reads from its store.
pub(crate) fn set_zero_values(kind: &BuiltinKind, object: &mut Value) {
    if let Value::Object(fields) = object {
        fill(fields, &node(kind.schema_name), false);
    }
}

fn fill(fields: &mut Fields, node: &Node, defaults: bool) {
    let filled = || node.filled.iter().filter_map(|name| Some((name, node.fields.get(name)?)));
    for (name, field) in filled() {
        if field.absent == Some(Absent::Object) && !fields.contains_key(name) {
            fields.insert(name.clone(), Value::Object(Fields::new()));
        }
    }
    if defaults {
        for step in node.steps {
            step.run(fields);
        }
    }
    for (name, field) in filled() {
        let none = |value: &Value| value.as_array().is_some_and(Vec::is_empty) && !defaults;
        let known = fields.get(name).is_some_and(|value| !value.is_null() && !none(value));
        if !known {
            let value = match (&field.default, field.absent) {
                (Some(default), _) if defaults => default.clone(),
                (_, Some(Absent::Zero)) => zero(&field.shape),
                (_, Some(Absent::Null)) => Value::Null,
                (_, Some(Absent::Quantity)) => "0".into(),
                _ => continue,
            };
            fields.insert(name.clone(), value);
        }
    }
    // What is inside of scalars, and of nothing, is not asked for.
    for (name, value) in fields.iter_mut().filter(|(_, value)| value.is_object() || value.is_array()) {
        if let Some(field) = node.fields.get(name) {
            descend(value, &field.shape, defaults);
        }
    }
}

fn descend(value: &mut Value, shape: &Shape, defaults: bool) {
    match (shape, value) {
        (Shape::Struct(link), Value::Object(fields)) => fill(fields, link.node(), defaults),
        (Shape::List(items), Value::Array(list)) if !items.is_leaf() => {
            list.iter_mut().for_each(|item| descend(item, items, defaults));
        }
        (Shape::Map(values), Value::Object(map)) if !values.is_leaf() => {
            map.values_mut().for_each(|value| descend(value, values, defaults));
        }
        _ => {}
    }
}

impl Shape {
    fn is_leaf(&self) -> bool {
        !matches!(self, Self::Struct(_) | Self::List(_) | Self::Map(_))
    }
}
