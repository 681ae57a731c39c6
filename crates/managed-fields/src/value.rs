//! Comparison of JSON values, and their formatting in Go.
//!
//! An integer and a float are equal if they are the same number. `serde_json` has a third kind, integers beyond
//! `i64`; Go reads those as floats.

use std::cmp::Ordering;
use std::fmt::Write as _;

use serde_json::{Number, Value};
use settled_go as go;

pub(crate) enum Numeric {
    Int(i64),
    Float(f64),
}

pub(crate) fn numeric(number: &Number) -> Numeric {
    match number.as_i64() {
        Some(int) => Numeric::Int(int),
        None => Numeric::Float(number.as_f64().unwrap_or(f64::NAN)),
    }
}

fn compare_floats(left: f64, right: f64) -> Ordering {
    left.partial_cmp(&right).unwrap_or(Ordering::Equal)
}

#[expect(clippy::cast_precision_loss, reason = "Go compares an integer with a float as floats, too")]
fn compare_numbers(left: &Number, right: &Number) -> Ordering {
    match (numeric(left), numeric(right)) {
        (Numeric::Int(left), Numeric::Int(right)) => left.cmp(&right),
        (Numeric::Int(left), Numeric::Float(right)) => compare_floats(left as f64, right),
        (Numeric::Float(left), Numeric::Int(right)) => compare_floats(left, right as f64),
        (Numeric::Float(left), Numeric::Float(right)) => compare_floats(left, right),
    }
}

/// The order of values: numbers, strings, booleans, lists, maps, null.
pub(crate) fn compare(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => compare_numbers(left, right),
        (Value::String(left), Value::String(right)) => left.cmp(right),
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        (Value::Array(left), Value::Array(right)) => {
            for (left, right) in left.iter().zip(right) {
                match compare(left, right) {
                    Ordering::Equal => {}
                    other => return other,
                }
            }
            left.len().cmp(&right.len())
        }
        (Value::Object(left), Value::Object(right)) => {
            let mut left: Vec<_> = left.iter().collect();
            let mut right: Vec<_> = right.iter().collect();
            left.sort_by_key(|(name, _)| *name);
            right.sort_by_key(|(name, _)| *name);
            for ((left_name, left), (right_name, right)) in left.iter().zip(&right) {
                // The map that lacks a name which the other has is the greater one.
                match left_name.cmp(right_name).then_with(|| compare(left, right)) {
                    Ordering::Equal => {}
                    other => return other,
                }
            }
            left.len().cmp(&right.len())
        }
        _ => rank(left).cmp(&rank(right)),
    }
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

/// Whether two values are the same, `1` and `1.0` included.
pub(crate) fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => compare_numbers(left, right).is_eq(),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| equal(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left.iter().all(|(name, left)| right.get(name).is_some_and(|right| equal(left, right)))
        }
        _ => left == right,
    }
}

/// A value as it stands in the text of a path: `"text"`, `1`, `true`.
pub(crate) fn to_text(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(_) | Value::Number(_) => go::fmt::push_plain(value, out),
        Value::String(text) => go::strconv::push_quoted(text, out),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                to_text(item, out);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                out.push_str(name);
                out.push('=');
                to_text(field, out);
            }
        }
    }
}

fn push(out: &mut String, text: &impl std::fmt::Display) {
    // Writing to a string can't fail.
    let _ = write!(out, "{text}");
}

/// A float with its exponent as Go writes it: signed, of at least two digits.
fn push_exponent(float: f64, out: &mut String) {
    let scientific = format!("{float:e}");
    match scientific.split_once('e') {
        Some((digits, exponent)) => {
            let sign = if exponent.starts_with('-') { '-' } else { '+' };
            push(out, &format_args!("{digits}e{sign}{:0>2}", exponent.trim_start_matches('-')));
        }
        None => out.push_str(&scientific),
    }
}

/// Two writers of JSON, other than Go's own, that differ in details.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// Names within a path element.
    Name,
    /// Values within a path element: with `<`, `>`, `&` and two separators escaped.
    Value,
}

/// A value as JSON, names in order.
pub(crate) fn to_json(value: &Value, style: Style, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(_) => push(out, value),
        Value::Number(number) => match numeric(number) {
            Numeric::Int(int) => push(out, &int),
            Numeric::Float(float) => push_json_float(float, out),
        },
        Value::String(text) => push_json_string(text, style, out),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                to_json(item, style, out);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| *name);
            out.push('{');
            for (index, (name, field)) in fields.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                push_json_string(name, style, out);
                out.push(':');
                to_json(field, style, out);
            }
            out.push('}');
        }
    }
}

fn push_json_float(float: f64, out: &mut String) {
    let size = float.abs();
    if size == 0.0 || (1e-6..1e21).contains(&size) {
        push(out, &float);
        return;
    }
    push_exponent(float, out);
}

/// A JSON string.
pub(crate) fn push_json_string(text: &str, style: Style, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            control if (control as u32) < 0x20 => push(out, &format_args!("\\u{:04x}", control as u32)),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' if style == Style::Value => {
                push(out, &format_args!("\\u{:04x}", character as u32));
            }
            other => out.push(other),
        }
    }
    out.push('"');
}
