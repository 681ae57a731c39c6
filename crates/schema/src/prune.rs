//! What a schema does not name goes.

use std::fmt::Write as _;

use serde_json::Value;

use crate::node::{Additional, Node, Schema};

/// So much of paths is kept: an object can hold very many unknown fields, deep down.
const MAX_PATHS: usize = 1 << 20;

impl Schema {
    /// Removes what the schema does not name, and gives the sorted paths of what went (`spec.foo[0].bar`), for
    /// `fieldValidation`. With `root`, the object is a whole resource, and keeps `apiVersion`, `kind` and `metadata`. Beyond a
    /// megabyte of paths, no more are told.
    pub fn prune(&self, object: &mut Value, root: bool) -> Vec<String> {
        let mut pruner = Pruner { unknown: Vec::new(), size: 0 };
        pruner.prune(object, Some(self.root()), root, &At::Root);
        pruner.unknown.sort_unstable();
        pruner.unknown
    }
}

/// Prunes by one node of a schema.
pub(crate) fn node(node: &Node, value: &mut Value, resource: bool) {
    let mut pruner = Pruner { unknown: Vec::new(), size: 0 };
    pruner.prune(value, Some(node), resource, &At::Root);
}

enum At<'a> {
    Root,
    Key(&'a Self, &'a str),
    Index(&'a Self, usize),
}

impl At<'_> {
    fn write(&self, text: &mut String) {
        match self {
            At::Root => {}
            At::Key(parent, key) => {
                parent.write(text);
                if !matches!(parent, At::Root) {
                    text.push('.');
                }
                text.push_str(key);
            }
            At::Index(parent, index) => {
                parent.write(text);
                let _ = write!(text, "[{index}]");
            }
        }
    }
}

struct Pruner {
    unknown: Vec<String>,
    size: usize,
}

fn is_meta(key: &str) -> bool {
    matches!(key, "apiVersion" | "kind" | "metadata")
}

impl Pruner {
    fn record(&mut self, at: &At<'_>) {
        if self.size < MAX_PATHS {
            let mut text = String::new();
            at.write(&mut text);
            self.size += text.len();
            self.unknown.push(text);
        }
    }

    fn prune(&mut self, value: &mut Value, node: Option<&Node>, resource: bool, at: &At<'_>) {
        let Some(node) = node else {
            match value {
                Value::Object(members) => {
                    for key in members.keys() {
                        self.record(&At::Key(at, key));
                    }
                    members.clear();
                }
                Value::Array(items) => {
                    for (index, item) in items.iter_mut().enumerate() {
                        self.prune(item, None, false, &At::Index(at, index));
                    }
                }
                _ => {}
            }
            return;
        };
        if node.preserve_unknown {
            self.keep(value, node, resource, at);
            return;
        }
        match value {
            Value::Object(members) => members.retain(|key, member| {
                if (node.embedded || resource) && is_meta(key) {
                    return true;
                }
                if let Some(child) = node.property(key) {
                    self.prune(member, Some(child), false, &At::Key(at, key));
                } else if let Additional::None = node.additional {
                    if !is_meta(key) || !matches!(at, At::Root) {
                        self.record(&At::Key(at, key));
                    }
                    return false;
                } else {
                    self.prune(member, node.additional_properties(), false, &At::Key(at, key));
                }
                true
            }),
            Value::Array(items) => {
                for (index, item) in items.iter_mut().enumerate() {
                    self.prune(item, node.items(), false, &At::Index(at, index));
                }
            }
            _ => {}
        }
    }

    /// What is unknown stays; what is known is pruned.
    fn keep(&mut self, value: &mut Value, node: &Node, resource: bool, at: &At<'_>) {
        match value {
            Value::Object(members) => {
                for (key, member) in members.iter_mut() {
                    if (node.embedded || resource) && is_meta(key) {
                        continue;
                    }
                    let child = node.property(key);
                    if child.is_some() || !matches!(node.additional, Additional::None) {
                        let child = child.or_else(|| node.additional_properties());
                        self.prune(member, child, false, &At::Key(at, key));
                    }
                }
            }
            Value::Array(items) => {
                let Some(child) = node.items() else { return };
                for (index, item) in items.iter_mut().enumerate() {
                    self.keep(item, child, false, &At::Index(at, index));
                }
            }
            _ => {}
        }
    }
}
