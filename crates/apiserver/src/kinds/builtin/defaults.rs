//! Defaulting of built-in kinds: the steps of `defaults.yaml`, the schemas' published defaults, and the zeros that Go always
//! writes.

use serde_json::Value;

use super::BuiltinKind;
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
    for name in &node.objects {
        if !fields.contains_key(name) {
            fields.insert(name.clone(), Value::Object(Fields::new()));
        }
    }
    if defaults {
        for step in node.steps {
            step.run(fields);
        }
    }
    let mut missing = Vec::new();
    // Both are sorted: this runs for each object inside of each object that is read or written, and a search for each field took more
    // than everything else.
    let mut present = fields.iter().peekable();
    for filled in &node.filled {
        let Some(value) = (if defaults { &filled.default } else { &filled.zero }) else { continue };
        while present.next_if(|(name, _)| **name < filled.name).is_some() {}
        let found = present.peek().filter(|(name, _)| **name == filled.name).map(|(_, found)| *found);
        let none = |found: &Value| found.as_array().is_some_and(Vec::is_empty) && !defaults;
        if found.is_none_or(|found| found.is_null() && !value.is_null() || none(found)) {
            missing.push((&filled.name, value));
        }
    }
    for (name, value) in missing {
        fields.insert(name.clone(), value.clone());
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
