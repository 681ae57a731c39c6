//! Path elements of associative list items: keys and values.

use std::sync::Arc;

use serde_json::Value;
use settled_go as go;

use crate::path::{KeyFields, PathElement};
use crate::schema::{ListRelationship, ListType, Schema};

/// The path element of an item, or why it has none.
pub(super) fn item_element(schema: &Schema, list: &ListType, item: &Value) -> Result<PathElement, String> {
    match &list.relationship {
        ListRelationship::Atomic => Err("invalid indexing of non-associative list".to_owned()),
        ListRelationship::Keyed(keys) if !keys.is_empty() => keyed_element(schema, list, keys, item),
        ListRelationship::Keyed(_) | ListRelationship::Set => match item {
            Value::Object(_) => {
                Err("associative list without keys has an element that's a map type".to_owned())
            }
            Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
            Value::Null => {
                Err("associative list without keys has an element that's an explicit null".to_owned())
            }
            scalar => Ok(PathElement::Value(Arc::new(scalar.clone()))),
        },
    }
}

/// Whether an item surely has a path element, without making one.
pub(super) fn has_element(list: &ListType, item: &Value) -> bool {
    match (&list.relationship, item) {
        (ListRelationship::Keyed(keys), Value::Object(fields)) => {
            !keys.is_empty() && keys.iter().all(|key| fields.contains_key(&**key))
        }
        (ListRelationship::Set, Value::String(_) | Value::Number(_) | Value::Bool(_)) => true,
        _ => false,
    }
}

fn keyed_element(
    schema: &Schema,
    list: &ListType,
    keys: &[Arc<str>],
    item: &Value,
) -> Result<PathElement, String> {
    let fields = match item {
        Value::Object(fields) => fields,
        Value::Null => return Err("associative list with keys may not have a null element".to_owned()),
        _ => return Err("associative list with keys may not have non-map elements".to_owned()),
    };
    let mut named = Vec::with_capacity(keys.len());
    for key in keys {
        // A key without a value and a default is left out: such an item is another one than any that has it.
        if let Some(value) = fields.get(&**key) {
            named.push((Arc::clone(key), value.clone()));
        } else if let Some(default) = key_default(schema, list, key)? {
            named.push((Arc::clone(key), default));
        }
    }
    if named.is_empty() {
        let keys: Vec<_> = keys.iter().map(|key| go::strconv::quote(key)).collect();
        return Err(format!(
            "associative list with keys has an element that omits all key fields [{}] (and doesn't have default \
             values for any key fields)",
            keys.join(" ")
        ));
    }
    Ok(PathElement::Key(KeyFields::new(named)))
}

fn key_default(schema: &Schema, list: &ListType, key: &str) -> Result<Option<Value>, String> {
    let failed = |why: &str| format!("couldn't find default value for {key}: {why}");
    let atom = schema.resolve(&list.element_type).ok_or_else(|| failed("invalid elementType for list"))?;
    let map = atom.map.as_ref().ok_or_else(|| failed("associative list may not have non-map types"))?;
    Ok(map.field(key).and_then(|field| field.default.clone()))
}
