//! `x-kubernetes-list-type`: what may not be in a list twice.

use std::collections::HashMap;

use serde_json::{Map, Value};
use settled_apimachinery::field::{Error as FieldError, Path};
use settled_go as go;

use crate::node::{ListType, Node};

/// So many duplicates of an object are told.
const MAX_ERRORS: usize = 10_000;

/// Checks the lists in an object.
pub(crate) fn validate(value: &Value, node: &Node, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    if !settled_budget::spend(1) {
        return;
    }
    match value {
        Value::Object(members) => {
            if let Some(child) = node.additional_properties() {
                for (key, member) in members {
                    validate(member, child, &path.key(key), errors);
                }
            }
            for (key, member) in members {
                if let Some(child) = node.property(key) {
                    validate(member, child, &path.child(key), errors);
                }
            }
        }
        Value::Array(items) => {
            match node.list_type() {
                Some(ListType::Set) => set(items, path, errors),
                Some(ListType::Map) => map(items, node, path, errors),
                _ => {}
            }
            if let Some(child) = node.items() {
                for (at, item) in items.iter().enumerate() {
                    validate(item, child, &path.index(at), errors);
                }
            }
        }
        _ => {}
    }
}

/// A text that two values share if and only if upstream takes them for equal. A whole float is an integer within lists and
/// maps, and only there.
fn identity(value: &Value) -> String {
    match value {
        Value::Array(_) | Value::Object(_) => go::json::to_string(value),
        // Both zeros are one.
        Value::Number(number) if number.as_i64().is_none() && number.as_f64() == Some(0.0) => {
            "0.0".to_owned()
        }
        scalar => scalar.to_string(),
    }
}

/// The places of the second appearance of each value.
fn repeated(values: impl Iterator<Item = String>) -> Vec<usize> {
    let mut times: HashMap<String, usize> = HashMap::new();
    let mut second = Vec::new();
    for (at, value) in values.enumerate() {
        let times = times.entry(value).or_default();
        *times += 1;
        if *times == 2 {
            second.push(at);
        }
    }
    second
}

fn set(items: &[Value], path: &Path<'_>, errors: &mut Vec<FieldError>) {
    if items.len() > 1 {
        for at in repeated(items.iter().map(identity)) {
            report(errors, || FieldError::duplicate(path.index(at), items[at].clone()));
        }
    }
}

/// As many errors of an object are kept as nobody reads to the end.
fn report(errors: &mut Vec<FieldError>, error: impl FnOnce() -> FieldError) {
    if errors.len() < MAX_ERRORS {
        errors.push(error());
    }
}

fn map(items: &[Value], node: &Node, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    if let Some(at) = items.iter().position(|item| !item.is_object() && !item.is_null()) {
        let detail = "must be an object for an array of list-type map";
        errors.push(FieldError::invalid(path.index(at), items[at].clone(), detail));
        return;
    }
    if items.len() <= 1 {
        return;
    }
    let key = |item: &Value| -> Map<String, Value> {
        node.list_map_keys().filter_map(|name| Some((name.to_owned(), item.get(name)?.clone()))).collect()
    };
    let text = |item: &Value| {
        let mut names = node.list_map_keys();
        match (names.next(), names.next()) {
            (Some(only), None) => item.get(only).map_or_else(|| "-".to_owned(), identity),
            _ => go::json::to_string(&Value::Object(key(item))),
        }
    };
    for at in repeated(items.iter().map(text)) {
        report(errors, || FieldError::duplicate(path.index(at), Value::Object(key(&items[at]))));
    }
}
