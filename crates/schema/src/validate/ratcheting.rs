//! Correlation of old and new values for ratcheting: upstream's `ratcheting_validation.go`.

use std::collections::HashMap;
use std::fmt::Write as _;

use serde_json::Value;
use settled_go::Num;
use settled_go::strconv::quote;

use crate::node::{ListType, Node, Type};

/// Old value, with the schema that correlates its parts.
#[derive(Clone, Copy)]
pub(super) struct Old<'a> {
    pub(super) value: &'a Value,
    pub(super) node: &'a Node,
}

/// Items of an old list by their keys.
pub(super) struct OldList<'a> {
    node: &'a Node,
    items: HashMap<String, &'a Value>,
}

impl<'a> OldList<'a> {
    /// `None` if items of such a list cannot be correlated.
    pub(super) fn new(node: &'a Node, old: &'a Value) -> Option<Self> {
        let items = old.as_array()?;
        if node.list_type() != Some(ListType::Map) || node.kind != Some(Type::Array) || node.items().is_none()
        {
            return None;
        }
        let mut all = HashMap::with_capacity(items.len());
        for item in items {
            if let Some(key) = item_key(node, item) {
                all.entry(key).or_insert(item);
            }
        }
        Some(Self { node, items: all })
    }

    pub(super) fn find(&self, item: &Value) -> Option<Old<'a>> {
        let value = self.items.get(&item_key(self.node, item)?)?;
        Some(Old { value, node: self.node.items()? })
    }
}

fn item_key(node: &Node, item: &Value) -> Option<String> {
    let members = item.as_object()?;
    let mut key = String::new();
    let is_only_key = node.list_map_keys().len() == 1;
    for name in node.list_map_keys() {
        key.push('\0');
        match members.get(name)? {
            Value::Bool(value) => key.push_str(if *value { "true" } else { "false" }),
            Value::String(value) => key.push_str(&quote(value)),
            Value::Number(number) => {
                let _ = match Num::of(number) {
                    Num::Int(number) => write!(key, "{number}"),
                    Num::Float(number) if is_only_key => write!(key, "{number:?}"),
                    Num::Float(number) => write!(key, "{number:.6}"),
                };
            }
            _ => return None,
        }
    }
    (!key.is_empty()).then_some(key)
}

/// Whether a value is unchanged, ignoring the order of items with keys. Members without a schema count as changed.
pub(super) fn unchanged(node: &Node, new: &Value, old: &Value) -> bool {
    match (new, old) {
        (Value::Array(new), Value::Array(before)) => {
            if new.len() != before.len() {
                return false;
            }
            if node.list_type() != Some(ListType::Map) {
                return new == before;
            }
            if new.is_empty() {
                return true;
            }
            OldList::new(node, old).is_some_and(|before| {
                new.iter()
                    .all(|item| before.find(item).is_some_and(|old| unchanged(old.node, item, old.value)))
            })
        }
        (Value::Object(new), Value::Object(old)) => {
            new.len() == old.len()
                && new.iter().all(|(key, new)| match (old.get(key), node.member(key)) {
                    (Some(old), Some(node)) => unchanged(node, new, old),
                    _ => false,
                })
        }
        _ => new == old,
    }
}
