//! What a schema says of values that are not there.

use serde_json::Value;

use crate::node::{Node, Schema};

impl Schema {
    /// Removes nulls that the schema neither allows nor has a default for, then sets defaults, also within them.
    pub fn default(&self, object: &mut Value) {
        default(object, self.root(), true);
    }

    /// Sets defaults, also where there is a null that is not allowed. Other nulls stay.
    pub fn default_among_nulls(&self, object: &mut Value) {
        default(object, self.root(), false);
    }
}

/// `nulls` are removed on the way; what comes from a default itself keeps them.
fn default(value: &mut Value, node: &Node, nulls: bool) {
    match value {
        Value::Object(members) => {
            if nulls {
                members.retain(|key, member| {
                    !member.is_null()
                        || node.member(key).is_none_or(|one| one.nullable() || one.default.is_some())
                });
            }
            // Names of members that came from defaults.
            let mut set: Vec<&str> = Vec::new();
            if node.has_defaults() {
                for (name, one) in node.properties() {
                    let Some(default) = one.default_value() else { continue };
                    let missing = members.get(name).is_none_or(|member| member.is_null() && !one.nullable());
                    if missing {
                        members.insert(name.to_owned(), default.clone());
                        set.push(name);
                    }
                }
            }
            for (key, member) in members.iter_mut() {
                if let Some(one) = node.property(key) {
                    default(member, one, nulls && set.binary_search(&key.as_str()).is_err());
                } else if let Some(one) = node.additional_properties() {
                    let new = fill(member, one);
                    default(member, one, nulls && !new);
                }
            }
        }
        Value::Array(items) => {
            let Some(one) = node.items() else { return };
            for item in items {
                let new = fill(item, one);
                default(item, one, nulls && !new);
            }
        }
        _ => {}
    }
}

/// Replaces a null that is not allowed by the default.
fn fill(value: &mut Value, node: &Node) -> bool {
    let Some(default) = node.default_value() else { return false };
    let fill = value.is_null() && !node.nullable();
    if fill {
        *value = default.clone();
    }
    fill
}
