//! What a schema says of values that are not there.
//!
//! A few defaults can make a thousand times as much of an object as was sent, so what they take is counted before it is taken.

use serde_json::Value;
use settled_budget::Exceeded;

use crate::node::{Node, Schema};

/// How many bytes of memory the defaults of one object may take: ten times the largest body of a request.
pub const MAX_DEFAULTS: usize = 30 << 20;

/// The smallest map, and the place of a member in it, as far as they can be told.
const MAP: usize = 640;
const MEMBER: usize = 96;

impl Schema {
    /// Removes nulls that the schema neither allows nor has a default for, then sets defaults, also within them.
    ///
    /// If the defaults take more than [`MAX_DEFAULTS`], or more than the [budget](settled_budget::Budget) of the request has, some
    /// are not set, and [`settled_budget::exceeded`] says so.
    pub fn default(&self, object: &mut Value) {
        default(object, self.root(), true, &mut Growth::default());
    }

    /// Sets defaults, also where there is a null that is not allowed. Other nulls stay. As for [`Schema::default`], there is a
    /// limit.
    pub fn default_among_nulls(&self, object: &mut Value) {
        default(object, self.root(), false, &mut Growth::default());
    }
}

/// What defaults have taken.
#[derive(Default)]
struct Growth(usize);

impl Growth {
    /// A copy of a default, if there is room for it.
    fn copy(&mut self, default: &Value, place: usize) -> Option<Value> {
        if self.0 > MAX_DEFAULTS {
            return None;
        }
        let bytes = place + size(default);
        self.0 += bytes;
        if self.0 > MAX_DEFAULTS {
            settled_budget::exceed(Exceeded::Memory);
            return None;
        }
        settled_budget::grow(bytes).then(|| default.clone())
    }
}

/// How much memory a value takes, about.
fn size(value: &Value) -> usize {
    let below = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(size).sum(),
        Value::Object(members) if members.is_empty() => 0,
        Value::Object(members) => {
            MAP + members.iter().map(|(name, member)| MEMBER + name.len() + size(member)).sum::<usize>()
        }
    };
    size_of::<Value>() + below
}

/// `nulls` are removed on the way; what comes from a default itself keeps them.
fn default(value: &mut Value, node: &Node, nulls: bool, growth: &mut Growth) {
    if !settled_budget::spend(1) {
        return;
    }
    match value {
        Value::Object(members) => {
            if nulls {
                members.retain(|key, member| {
                    !member.is_null()
                        || node.member(key).is_none_or(|child| child.nullable() || child.default.is_some())
                });
            }
            // Names of members that came from defaults.
            let mut set: Vec<&str> = Vec::new();
            if node.has_defaults() {
                for (name, child) in node.properties() {
                    let Some(default) = child.default_value() else { continue };
                    let missing =
                        members.get(name).is_none_or(|member| member.is_null() && !child.nullable());
                    if !missing {
                        continue;
                    }
                    let map = if members.is_empty() { MAP } else { 0 };
                    let Some(default) = growth.copy(default, map + MEMBER + name.len()) else { return };
                    members.insert(name.to_owned(), default);
                    set.push(name);
                }
            }
            for (key, member) in members.iter_mut() {
                if let Some(child) = node.property(key) {
                    default(member, child, nulls && set.binary_search(&key.as_str()).is_err(), growth);
                } else if let Some(child) = node.additional_properties() {
                    let new = fill(member, child, growth);
                    default(member, child, nulls && !new, growth);
                }
            }
        }
        Value::Array(items) => {
            let Some(child) = node.items() else { return };
            for item in items {
                let new = fill(item, child, growth);
                default(item, child, nulls && !new, growth);
            }
        }
        _ => {}
    }
}

/// Replaces a null that is not allowed by the default.
fn fill(value: &mut Value, node: &Node, growth: &mut Growth) -> bool {
    let Some(default) = node.default_value() else { return false };
    let fill = value.is_null() && !node.nullable();
    if fill && let Some(default) = growth.copy(default, 0) {
        *value = default;
    }
    fill
}
