//! Encoder: texts and floats as Go writes them.

use std::fmt::Write as _;

use serde_json::Value;

use crate::{Num, ordered};

/// Encodes as `json.Marshal`: without spaces, with `<`, `>`, `&` and the line separators U+2028 and U+2029 escaped.
pub fn to_string(value: &Value) -> String {
    let mut out = String::new();
    push(value, &mut out);
    out
}

/// Appends [`to_string`] to a text.
pub fn push(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Value::Number(number) => match Num::of(number) {
            // Writing to a string can't fail.
            Num::Int(number) => drop(write!(out, "{number}")),
            Num::Float(number) => push_float(number, out),
        },
        Value::String(text) => push_quoted(text, out),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                push(item, out);
            }
            out.push(']');
        }
        Value::Object(members) => {
            out.push('{');
            for (index, (name, member)) in ordered(members).into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                push_quoted(name, out);
                out.push(':');
                push(member, out);
            }
            out.push('}');
        }
    }
}

/// Appends a float as JSON: with an exponent below 1e-6 and from 1e21 on.
pub fn push_float(number: f64, out: &mut String) {
    let size = number.abs();
    // Writing to a string can't fail.
    let _ = if size == 0.0 || (1e-6..1e21).contains(&size) {
        write!(out, "{number}")
    } else if size < 1.0 {
        write!(out, "{number:e}")
    } else {
        write!(out, "{}", format!("{number:e}").replace('e', "e+"))
    };
}

/// A string in JSON.
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    push_quoted(text, &mut out);
    out
}

/// Appends [`quote`] to a text.
pub fn push_quoted(text: &str, out: &mut String) {
    out.push('"');
    for char in text.chars() {
        match char {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\x1f' => {
                let _ = write!(out, "\\u{:04x}", u32::from(char));
            }
            char => out.push(char),
        }
    }
    out.push('"');
}
