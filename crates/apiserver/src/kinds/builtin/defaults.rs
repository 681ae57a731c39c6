//! Defaulting of built-in kinds: the steps of `defaults.yaml`, the schemas' published defaults, and the zeros that Go always
//! writes.

use serde_json::Value;

use super::BuiltinKind;
use super::decode::zero;
use super::packages::Absent;
use super::plan::{Node, Shape, node};
use super::steps::{Fields, deprecated_generation};

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

/// As [`set_zero_values`], for an object with nothing in it: what valid objects always have is there as nothing.
pub(crate) fn set_empty_values(kind: &BuiltinKind, object: &mut Value) {
    set_zero_values(kind, object);
    let counts = match (kind.group, kind.kind) {
        ("apps", "Deployment" | "ReplicaSet" | "StatefulSet") => true,
        ("apps", "DaemonSet") => false,
        _ => return,
    };
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        spec.insert("selector".to_owned(), Value::Null);
        if counts {
            spec.insert("replicas".to_owned(), 0.into());
        }
    }
    if let Value::Object(fields) = object
        && !counts
    {
        deprecated_generation(fields);
    }
}

fn fill(fields: &mut Fields, node: &Node, defaults: bool) {
    for (name, field) in &node.fields {
        if field.absent == Some(Absent::Object) && !fields.contains_key(name) {
            fields.insert(name.clone(), Value::Object(Fields::new()));
        }
    }
    if defaults {
        for step in node.steps {
            step.run(fields);
        }
    }
    for (name, field) in &node.fields {
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
        if let Some(value) = fields.get_mut(name) {
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
