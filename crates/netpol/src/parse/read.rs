//! Readers of fields: types as the API server decodes them, with a problem for each that has another.

use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Map, Value};
use settled_apimachinery::field::{Error, ErrorType, Path};
use settled_apimachinery::labels::LabelSelector;
use settled_apimachinery::net;

use super::problem::{Lost, Problems};
use crate::model::{Cidr, Place};

/// How many places of a thread are kept.
const PLACES_MAX: usize = 4096;

thread_local! {
    /// Most policies have the same few fields, and so places with the same text: `spec.ingress[0].ports[0]`.
    static PLACES: RefCell<HashSet<Arc<str>>> = RefCell::default();
}

/// The name of a value's type in JSON.
fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Records that a value has the wrong type. The value itself is not shown: it may be large.
pub(super) fn wrong_type(
    path: &Path<'_>,
    value: &Value,
    expected: &str,
    lost: Lost,
    problems: &mut Problems,
) {
    let detail = format!("must be of type {expected}, not {}", type_name(value));
    problems.error(lost, &Error::new(ErrorType::TypeInvalid, path.to_string(), None, detail));
}

/// A field that is there and not null.
pub(super) fn given<'v>(map: &'v Map<String, Value>, name: &str) -> Option<&'v Value> {
    map.get(name).filter(|value| !value.is_null())
}

/// The value as an object.
pub(super) fn object<'v>(
    value: &'v Value,
    path: &Path<'_>,
    lost: Lost,
    problems: &mut Problems,
) -> Option<&'v Map<String, Value>> {
    if !value.is_object() {
        wrong_type(path, value, "object", lost, problems);
    }
    value.as_object()
}

/// A list of a field: None if it is absent or null, or no list, which is a problem.
pub(super) fn list<'v>(
    map: &'v Map<String, Value>,
    name: &str,
    path: &Path<'_>,
    lost: Lost,
    problems: &mut Problems,
) -> Option<&'v [Value]> {
    let value = given(map, name)?;
    if !value.is_array() {
        wrong_type(&path.child(name), value, "array", lost, problems);
    }
    value.as_array().map(Vec::as_slice)
}

/// A text of a field.
pub(super) fn text<'v>(
    map: &'v Map<String, Value>,
    name: &str,
    path: &Path<'_>,
    lost: Lost,
    problems: &mut Problems,
) -> Option<&'v str> {
    let value = given(map, name)?;
    if !value.is_string() {
        wrong_type(&path.child(name), value, "string", lost, problems);
    }
    value.as_str()
}

/// An integer of a field.
pub(super) fn integer(
    map: &Map<String, Value>,
    name: &str,
    path: &Path<'_>,
    lost: Lost,
    problems: &mut Problems,
) -> Option<i64> {
    let value = given(map, name)?;
    let integer = value.as_i64();
    if integer.is_none() {
        wrong_type(&path.child(name), value, "integer", lost, problems);
    }
    integer
}

/// Records fields that the type does not have: the API server drops them, unless the client asks for strict validation.
pub(super) fn only(map: &Map<String, Value>, known: &[&str], path: &Path<'_>, problems: &mut Problems) {
    for name in map.keys().filter(|name| !known.contains(&name.as_str())) {
        let near = known.iter().find(|known| known.eq_ignore_ascii_case(name));
        let hint = near.map_or_else(
            || format!("; known fields: {}", known.join(", ")),
            |near| format!("; the field is {near}"),
        );
        // A name may be of any length.
        let short: String = name.chars().take(100).collect();
        problems.warning(path.child(&short), format!("unknown field is ignored{hint}"));
    }
}

/// A label selector. Absent parts select everything; a wrong type is a problem and not an absent part.
pub(super) fn selector(
    value: &Value,
    path: &Path<'_>,
    lost: Lost,
    problems: &mut Problems,
) -> Option<LabelSelector> {
    let map = object(value, path, lost, problems)?;
    only(map, &["matchLabels", "matchExpressions"], path, problems);
    if let Some(labels) = given(map, "matchLabels") {
        let path = path.child("matchLabels");
        for (key, value) in object(labels, &path, lost, problems)? {
            if !value.is_string() && !value.is_null() {
                wrong_type(&path.key(key), value, "string", lost, problems);
                return None;
            }
        }
    }
    if let Some(expressions) = given(map, "matchExpressions") {
        let path = path.child("matchExpressions");
        let Some(expressions) = expressions.as_array() else {
            wrong_type(&path, expressions, "array", lost, problems);
            return None;
        };
        for (index, expression) in expressions.iter().enumerate() {
            check_expression(expression, &path.index(index), lost, problems)?;
        }
    }
    #[allow(
        clippy::redundant_clone,
        reason = "a copy has no room for more requirements and values than there are"
    )]
    match LabelSelector::from_object(value) {
        Ok(selector) => Some(selector.clone()),
        Err(error) => {
            problems.error(lost, &Error::new(ErrorType::Invalid, path.to_string(), None, error.to_string()));
            None
        }
    }
}

fn check_expression(value: &Value, path: &Path<'_>, lost: Lost, problems: &mut Problems) -> Option<()> {
    let map = object(value, path, lost, problems)?;
    only(map, &["key", "operator", "values"], path, problems);
    for name in ["key", "operator"] {
        if let Some(value) = given(map, name).filter(|value| !value.is_string()) {
            wrong_type(&path.child(name), value, "string", lost, problems);
            return None;
        }
    }
    let Some(values) = given(map, "values") else { return Some(()) };
    let path = path.child("values");
    let Some(values) = values.as_array() else {
        wrong_type(&path, values, "array", lost, problems);
        return None;
    };
    for (index, value) in values.iter().enumerate() {
        if !value.is_string() && !value.is_null() {
            wrong_type(&path.index(index), value, "string", lost, problems);
            return None;
        }
    }
    Some(())
}

/// A range of addresses. Forms that the API server refuses since 1.33, but has stored before (leading zeros, bits beyond the prefix
/// length), are a problem and have their old meaning.
pub(super) fn cidr(value: &Value, path: &Path<'_>, lost: Lost, problems: &mut Problems) -> Option<Cidr> {
    let Some(text) = value.as_str() else {
        wrong_type(path, value, "string", lost, problems);
        return None;
    };
    let cidr = Cidr::parse(text);
    let lost = if cidr.is_some() { Lost::Nothing } else { lost };
    for why in net::is_valid_cidr_for_legacy_field(text) {
        problems.error(lost, &Error::invalid(path, text, why));
    }
    cidr
}

/// Collects without room for more: lists have one or two elements, vectors that grow have room for four.
pub(super) fn tight<T>(elements: impl Iterator<Item = T>) -> Vec<T> {
    let mut list: Vec<T> = elements.collect();
    list.shrink_to_fit();
    list
}

/// The place of a path.
pub(super) fn place(path: &Path<'_>) -> Place {
    let text = path.to_string();
    PLACES.with_borrow_mut(|places| {
        if let Some(known) = places.get(&*text) {
            return Place(Arc::clone(known));
        }
        let place: Arc<str> = text.into();
        if places.len() < PLACES_MAX {
            places.insert(Arc::clone(&place));
        }
        Place(place)
    })
}
