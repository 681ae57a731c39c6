//! Texts as Go writes them: quoted strings, numbers and JSON inside of messages, cells and selectors.

use std::fmt::Write as _;
use std::ops::Range;

use serde_json::{Number, Value};

/// `%q` of a string.
pub(crate) fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\x07' => quoted.push_str("\\a"),
            '\x08' => quoted.push_str("\\b"),
            '\x0c' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\x0b' => quoted.push_str("\\v"),
            c if printable(c) => quoted.push(c),
            // Writing to a string can't fail.
            c if u32::from(c) < 0x80 => drop(write!(quoted, "\\x{:02x}", u32::from(c))),
            c if u32::from(c) < 0x1_0000 => drop(write!(quoted, "\\u{:04x}", u32::from(c))),
            c => drop(write!(quoted, "\\U{:08x}", u32::from(c))),
        }
    }
    quoted.push('"');
    quoted
}

/// Letters, marks, numbers, punctuation, symbols and the plain space.
pub(crate) fn printable(c: char) -> bool {
    if c.is_ascii() {
        return matches!(c, ' '..='~');
    }
    // Alone, a combining mark would be escaped as well, though it is printable.
    let text: String = ['a', c].iter().collect();
    text.escape_debug().nth(1) == Some(c)
}

/// `%v` of a value that isn't a list or a map.
pub(crate) fn display(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => match number.as_i64() {
            Some(number) => number.to_string(),
            None => float(number.as_f64().unwrap_or_default(), -4..6, 2),
        },
        Value::String(text) => text.clone(),
        other => json(other),
    }
}

/// `%v` of any value: `map[a:1 b:[x y]]`.
pub(crate) fn verbose(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(verbose).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(map) => {
            let pairs: Vec<String> =
                map.iter().map(|(name, value)| format!("{name}:{}", verbose(value))).collect();
            format!("map[{}]", pairs.join(" "))
        }
        scalar => display(scalar),
    }
}

/// A float's shortest text, with an exponent where it is not one of the plain ones. The exponent has at least `digits`
/// digits.
fn float(value: f64, plain: Range<i32>, digits: usize) -> String {
    if value == 0.0 {
        return if value.is_sign_negative() { "-0" } else { "0" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if plain.contains(&exponent) {
        return value.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:0digits$}", exponent.unsigned_abs())
}

/// JSON as `encoding/json` writes it: without spaces, and with `<`, `>` and `&` escaped.
pub(crate) fn json(value: &Value) -> String {
    let mut text = String::new();
    write_json(value, &mut text);
    text
}

fn write_json(value: &Value, text: &mut String) {
    match value {
        Value::Null => text.push_str("null"),
        Value::Bool(value) => text.push_str(if *value { "true" } else { "false" }),
        Value::Number(number) => text.push_str(&json_number(number)),
        Value::String(string) => write_string(string, text),
        Value::Array(values) => {
            text.push('[');
            for (index, value) in values.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write_json(value, text);
            }
            text.push(']');
        }
        Value::Object(map) => {
            text.push('{');
            for (index, (key, value)) in map.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write_string(key, text);
                text.push(':');
                write_json(value, text);
            }
            text.push('}');
        }
    }
}

fn json_number(number: &Number) -> String {
    match number.as_i64() {
        Some(number) => number.to_string(),
        None => float(number.as_f64().unwrap_or_default(), -6..21, 1),
    }
}

fn write_string(string: &str, text: &mut String) {
    text.push('"');
    for c in string.chars() {
        match c {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\x08' => text.push_str("\\b"),
            '\x0c' => text.push_str("\\f"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => drop(write!(text, "\\u{:04x}", u32::from(c))),
            c if u32::from(c) < 0x20 => drop(write!(text, "\\u{:04x}", u32::from(c))),
            c => text.push(c),
        }
    }
    text.push('"');
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn strings_are_quoted_as_go_quotes_them() {
        let cases = [
            ("", r#""""#),
            ("a\"b\\", r#""a\"b\\""#),
            ("\x07\x08\x0c\n\r\t\x0b\0\x1b\x7f", r#""\a\b\f\n\r\t\v\x00\x1b\x7f""#),
            ("é世\u{301}", "\"é世\u{301}\""),
            ("\u{a0}\u{200b}\u{fffe}\u{10ffff}", r#""\u00a0\u200b\ufffe\U0010ffff""#),
        ];
        for (text, expected) in cases {
            assert_eq!(quote(text), expected);
        }
    }

    #[test]
    fn values_are_written_as_go_writes_them() {
        let cases = [
            (json!(1.0), "1", "1"),
            (json!(1e21), "1e+21", "1e+21"),
            (json!(1.5e20), "1.5e+20", "150000000000000000000"),
            (json!(1e5), "100000", "100000"),
            (json!(1234567.5), "1.2345675e+06", "1234567.5"),
            (json!(0.00001), "1e-05", "0.00001"),
            (json!(1.25e-7), "1.25e-07", "1.25e-7"),
            (json!(-3), "-3", "-3"),
            (json!("<a>"), "<a>", r#""\u003ca\u003e""#),
            (
                json!({"b": [1.0, null], "a": true}),
                r#"{"a":true,"b":[1,null]}"#,
                r#"{"a":true,"b":[1,null]}"#,
            ),
        ];
        for (value, text, encoded) in cases {
            assert_eq!(display(&value), text);
            assert_eq!(json(&value), encoded);
        }
    }
}
