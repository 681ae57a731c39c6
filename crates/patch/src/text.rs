//! Go's texts: how it prints values, and how it writes JSON.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::ops::Range;

use serde_json::Value;

/// The name of a value's type in Go; for null what `%s` makes of it.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "%!s(<nil>)",
        Value::Bool(_) => "bool",
        Value::Number(number) => {
            // What is larger than an int64 is a float in Go.
            if number.is_i64() { "int64" } else { "float64" }
        }
        Value::String(_) => "string",
        Value::Array(_) => LIST,
        Value::Object(_) => MAP,
    }
}

pub(crate) const LIST: &str = "[]interface {}";
pub(crate) const MAP: &str = "map[string]interface {}";

/// A value as `%s` prints it.
pub(crate) fn shown_as_text(value: &Value) -> String {
    if value.is_null() {
        return "%!s(<nil>)".to_owned();
    }
    let mut out = String::new();
    show(value, true, &mut out);
    out
}

/// A list as `%v` prints it.
pub(crate) fn shown_list(items: &[Value]) -> String {
    let mut out = String::new();
    show_list(items, false, &mut out);
    out
}

/// A map as `%v` prints it.
pub(crate) fn shown_map(map: &serde_json::Map<String, Value>) -> String {
    let mut out = String::new();
    show_map(map, false, &mut out);
    out
}

fn show_list(items: &[Value], text: bool, out: &mut String) {
    out.push('[');
    for (place, item) in items.iter().enumerate() {
        if place > 0 {
            out.push(' ');
        }
        show(item, text, out);
    }
    out.push(']');
}

fn show_map(map: &serde_json::Map<String, Value>, text: bool, out: &mut String) {
    out.push_str("map[");
    for (place, (name, item)) in map.iter().enumerate() {
        if place > 0 {
            out.push(' ');
        }
        out.push_str(name);
        out.push(':');
        show(item, text, out);
    }
    out.push(']');
}

fn show(value: &Value, text: bool, out: &mut String) {
    // Writing to a String does not fail.
    let _ = match value {
        Value::Null => write!(out, "<nil>"),
        Value::Bool(flag) if text => write!(out, "%!s(bool={flag})"),
        Value::Bool(flag) => write!(out, "{flag}"),
        Value::Number(number) => {
            let (kind, shown) = match number.as_i64() {
                Some(int) => ("int64", int.to_string()),
                None => ("float64", float(number.as_f64().unwrap_or_default(), -4..6, 2)),
            };
            if text { write!(out, "%!s({kind}={shown})") } else { write!(out, "{shown}") }
        }
        Value::String(value) => write!(out, "{value}"),
        Value::Array(items) => {
            show_list(items, text, out);
            Ok(())
        }
        Value::Object(map) => {
            show_map(map, text, out);
            Ok(())
        }
    };
}

/// A float in its shortest digits; with an exponent of so many digits at least, unless that is one of `plain`.
fn float(value: f64, plain: Range<i32>, digits: usize) -> String {
    if value == 0.0 {
        return if value.is_sign_negative() { "-0" } else { "0" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if plain.contains(&exponent) {
        format!("{value}")
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{mantissa}e{sign}{:0digits$}", exponent.unsigned_abs())
    }
}

/// A scalar as Go writes it in JSON, with `<`, `>` and `&` escaped.
pub(crate) fn json_scalar(value: &Value) -> Cow<'static, str> {
    match value {
        Value::Bool(true) => "true".into(),
        Value::Bool(false) => "false".into(),
        Value::Number(number) => match number.as_i64() {
            Some(int) => int.to_string().into(),
            None => float(number.as_f64().unwrap_or_default(), -6..21, 1).into(),
        },
        Value::String(text) => json_string(text).into(),
        _ => "null".into(),
    }
}

/// A string as Go writes it in JSON.
pub(crate) fn json_string(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\x1f' => {
                let _ = write!(out, "\\u{:04x}", u32::from(character));
            }
            _ => out.push(character),
        }
    }
    out.push('"');
    out
}

/// A text in double quotes, as `strconv.Quote` has it.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        quote_into(character, &mut out);
    }
    out.push('"');
    out
}

/// A character as it stands between the quotes of `strconv.Quote`.
pub(crate) fn quote_into(character: char, out: &mut String) {
    match character {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\x07' => out.push_str("\\a"),
        '\x08' => out.push_str("\\b"),
        '\x0b' => out.push_str("\\v"),
        '\x0c' => out.push_str("\\f"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\0'..='\x1f' | '\x7f' => {
            let _ = write!(out, "\\x{:02x}", u32::from(character));
        }
        ' '..='~' => out.push(character),
        // Rust knows what is printable, as Go does; an escape is longer than one character.
        _ if character.escape_debug().count() == 1 => out.push(character),
        _ if u32::from(character) < 0x10000 => {
            let _ = write!(out, "\\u{:04x}", u32::from(character));
        }
        _ => {
            let _ = write!(out, "\\U{:08x}", u32::from(character));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_shown_as_go_does() {
        for (value, shown_plain, shown_text) in [
            (json!({"b": [1, "x", null], "a": true}), "map[a:true b:[1 x <nil>]]", None),
            (json!(1.5), "1.5", Some("%!s(float64=1.5)")),
            (json!(1.0), "1", Some("%!s(float64=1)")),
            (json!(1e21), "1e+21", None),
            (json!(0.00001), "1e-05", None),
            (json!(1234567.0), "1.234567e+06", None),
            (json!(u64::MAX), "1.8446744073709552e+19", None),
            (json!(null), "<nil>", Some("%!s(<nil>)")),
            (json!({"a": [1]}), "map[a:[1]]", Some("map[a:[%!s(int64=1)]]")),
        ] {
            assert_eq!(shown_list(std::slice::from_ref(&value)), format!("[{shown_plain}]"));
            if let Some(text) = shown_text {
                assert_eq!(shown_as_text(&value), text);
            }
        }
        assert_eq!(json_scalar(&json!(1e-7)), "1e-7");
        assert_eq!(json_scalar(&json!(1e20)), "100000000000000000000");
        assert_eq!(json_scalar(&json!("a<b\u{2028}")), "\"a\\u003cb\\u2028\"");
        assert_eq!(quoted("a\u{1}\"ä"), "\"a\\x01\\\"ä\"");
    }
}
