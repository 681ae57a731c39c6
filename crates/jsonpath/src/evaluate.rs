//! Evaluation of a path on an object.

use std::borrow::Cow;
use std::cmp::Ordering;

use serde_json::Value;
use settled_go as go;

use crate::{Found, Node, PathError};

/// Maximum length of a quoted value in an error, in characters.
const MAX_SHOWN: usize = 200;

fn spend(budget: &mut usize, count: usize) -> Result<(), PathError> {
    *budget = budget.checked_sub(count).ok_or(PathError::TooMuch)?;
    Ok(())
}

pub(crate) fn walk_all<'a>(
    mut values: Found<'a>,
    nodes: &[Node],
    budget: &mut usize,
) -> Result<Found<'a>, PathError> {
    for node in nodes {
        values = walk(values, node, budget)?;
    }
    Ok(values)
}

fn walk<'a>(input: Found<'a>, node: &Node, budget: &mut usize) -> Result<Found<'a>, PathError> {
    spend(budget, input.len() + 1)?;
    let mut results = Vec::new();
    match node {
        Node::Range => results = input,
        Node::Word(word) if word == "end" => return Err(mismatch("not in range, nothing to end")),
        Node::Word(word) => return Err(mismatch(format!("unrecognized identifier {word}"))),
        Node::Literal(value @ Value::String(_)) => results.push(Cow::Owned(value.clone())),
        Node::Literal(value) => results.extend(input.iter().map(|_| Cow::Owned(value.clone()))),
        Node::Field(name) => {
            for value in input {
                // Only literals are owned; they have no fields.
                if let Cow::Borrowed(Value::Object(map)) = value {
                    results.extend(map.get(name).map(Cow::Borrowed));
                }
            }
        }
        Node::Wildcard => {
            for value in input {
                match value {
                    Cow::Borrowed(Value::Object(map)) => {
                        spend(budget, map.len())?;
                        results.extend(map.values().map(Cow::Borrowed));
                    }
                    Cow::Borrowed(Value::Array(list)) => {
                        spend(budget, list.len())?;
                        results.extend(list.iter().map(Cow::Borrowed));
                    }
                    // In Go, a string can be indexed as bytes.
                    Cow::Borrowed(Value::String(text)) => bytes(text, &mut results, budget)?,
                    Cow::Owned(Value::String(text)) => bytes(&text, &mut results, budget)?,
                    _ => {}
                }
            }
        }
        Node::Recursive => {
            for value in input {
                match value {
                    Cow::Borrowed(value) => descend(value, &mut results, budget)?,
                    Cow::Owned(Value::String(ref text)) if !text.is_empty() => results.push(value),
                    Cow::Owned(_) => {}
                }
            }
        }
        Node::Union(paths) => {
            for path in paths {
                results.extend(walk_all(input.clone(), path, budget)?);
            }
        }
        Node::Slice(numbers, derived) => {
            for value in input {
                match value {
                    Cow::Borrowed(Value::Array(list)) => {
                        spend(budget, list.len())?;
                        if !select(list, numbers, *derived, &mut results)? {
                            break;
                        }
                    }
                    Cow::Borrowed(Value::Null) => {}
                    value => {
                        // Literals and objects are decoded differently.
                        let is_literal = matches!(&value, Cow::Owned(value) if value.is_i64());
                        let type_name = if is_literal { "int" } else { go::fmt::type_name(&value) };
                        return Err(mismatch(format!("{type_name} is not array or slice")));
                    }
                }
            }
        }
        Node::Filter(left, operator, right) => {
            for value in input {
                let Cow::Borrowed(Value::Array(list)) = value else {
                    let shown: String = go::fmt::plain(&value).chars().take(MAX_SHOWN).collect();
                    return Err(mismatch(format!("{shown} is not array or slice and cannot be filtered")));
                };
                for item in list {
                    if passes(item, left, operator, right, budget)? {
                        results.push(Cow::Borrowed(item));
                    }
                }
            }
        }
    }
    Ok(results)
}

fn bytes(text: &str, results: &mut Found<'_>, budget: &mut usize) -> Result<(), PathError> {
    spend(budget, text.len())?;
    results.extend(text.bytes().map(|byte| Cow::Owned(byte.into())));
    Ok(())
}

/// A value and all its descendants that are containers.
fn descend<'a>(value: &'a Value, results: &mut Found<'a>, budget: &mut usize) -> Result<(), PathError> {
    spend(budget, 1)?;
    match value {
        Value::Object(map) if !map.is_empty() => {
            results.push(Cow::Borrowed(value));
            map.values().try_for_each(|value| descend(value, results, budget))
        }
        Value::Array(list) if !list.is_empty() => {
            results.push(Cow::Borrowed(value));
            list.iter().try_for_each(|value| descend(value, results, budget))
        }
        Value::String(text) if !text.is_empty() => {
            results.push(Cow::Borrowed(value));
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Returns whether to continue: as upstream, an empty slice of one list ends the evaluation.
fn select<'a>(
    list: &'a [Value],
    numbers: &[Option<i64>; 3],
    derived: bool,
    results: &mut Found<'a>,
) -> Result<bool, PathError> {
    let length = i64::try_from(list.len()).map_err(|_| PathError::TooMuch)?;
    let from_end = |number: i64| if number < 0 { number.saturating_add(length) } else { number };
    let start = from_end(numbers[0].unwrap_or(0));
    let mut end = from_end(numbers[1].unwrap_or(length));
    if derived && numbers[1] == Some(0) {
        end = length;
    }
    if start == end {
        return Ok(false);
    }
    let out_of_bounds =
        |index: i64| Err(mismatch(format!("array index out of bounds: index {index}, length {length}")));
    if !(0..length).contains(&start) {
        return out_of_bounds(start);
    }
    if !(0..=length).contains(&end) {
        return out_of_bounds(end.saturating_sub(1));
    }
    if start > end {
        return Err(mismatch(format!("starting index {start} is greater than ending index {end}")));
    }
    let step = numbers[2].unwrap_or(1);
    let (Ok(start), Ok(end), Ok(step @ 1..)) =
        (usize::try_from(start), usize::try_from(end), usize::try_from(step))
    else {
        return Err(mismatch("step must be > 0"));
    };
    results.extend(list[start..end].iter().step_by(step).map(Cow::Borrowed));
    Ok(true)
}

fn passes(
    item: &Value,
    left: &[Node],
    operator: &str,
    right: &[Node],
    budget: &mut usize,
) -> Result<bool, PathError> {
    let lefts = walk_all(vec![Cow::Borrowed(item)], left, budget);
    if operator == "exists" {
        return match lefts {
            Ok(lefts) => Ok(!lefts.is_empty()),
            // As upstream: a path that does not match yields its input.
            Err(PathError::Mismatch(_)) => Ok(true),
            Err(error) => Err(error),
        };
    }
    let one = |mut values: Found<'_>| match values.len() {
        0 | 1 => Ok(values.pop().map(Cow::into_owned)),
        _ => Err(mismatch("can only compare one element at a time")),
    };
    let Some(left) = one(lefts?)? else { return Ok(false) };
    let Some(right) = one(walk_all(vec![Cow::Borrowed(item)], right, budget)?)? else { return Ok(false) };
    match operator {
        "==" => Ok(equal(&left, &right)?),
        "!=" => Ok(!equal(&left, &right)?),
        "<" => Ok(less(&left, &right)?),
        "<=" => Ok(less(&left, &right)? || equal(&left, &right)?),
        ">" => Ok(!(less(&left, &right)? || equal(&left, &right)?)),
        ">=" => Ok(!less(&left, &right)?),
        _ => Err(mismatch(format!("unrecognized filter operator {operator}"))),
    }
}

fn equal(left: &Value, right: &Value) -> Result<bool, PathError> {
    match (left, right) {
        (Value::Bool(left), Value::Bool(right)) => Ok(left == right),
        _ => Ok(order(left, right)? == Some(Ordering::Equal)),
    }
}

fn less(left: &Value, right: &Value) -> Result<bool, PathError> {
    Ok(order(left, right)? == Some(Ordering::Less))
}

/// Order of two strings, integers or floats. As upstream, integers and floats cannot be compared.
fn order(left: &Value, right: &Value) -> Result<Option<Ordering>, PathError> {
    match (left, right) {
        (Value::String(left), Value::String(right)) => Ok(Some(left.cmp(right))),
        (Value::Number(left), Value::Number(right)) => match (left.as_i64(), right.as_i64()) {
            (Some(left), Some(right)) => Ok(Some(left.cmp(&right))),
            (None, None) => Ok(left.as_f64().partial_cmp(&right.as_f64())),
            _ => Err(incompatible()),
        },
        _ if is_basic(left)
            && is_basic(right)
            && std::mem::discriminant(left) != std::mem::discriminant(right) =>
        {
            Err(incompatible())
        }
        _ => Err(mismatch("invalid type for comparison")),
    }
}

/// Comparable values.
fn is_basic(value: &Value) -> bool {
    matches!(value, Value::Bool(_) | Value::Number(_) | Value::String(_))
}

fn incompatible() -> PathError {
    mismatch("incompatible types for comparison")
}

fn mismatch(text: impl Into<String>) -> PathError {
    PathError::Mismatch(text.into())
}
