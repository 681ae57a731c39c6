//! Values in the words of Go: `%q`, `%v` of a float, and `encoding/json`. Upstream's texts are made of them.

use std::fmt::Write as _;

use serde_json::{Number, Value};

/// `%q` of a string.
pub(crate) fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for one in text.chars() {
        match one {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            _ if printable(one) => quoted.push(one),
            _ => {
                let code = u32::from(one);
                let _ = if code < 0x80 {
                    write!(quoted, "\\x{code:02x}")
                } else if code < 0x1_0000 {
                    write!(quoted, "\\u{code:04x}")
                } else {
                    write!(quoted, "\\U{code:08x}")
                };
            }
        }
    }
    quoted.push('"');
    quoted
}

/// `unicode.IsPrint`, except for code points that are not assigned.
pub(crate) fn printable(one: char) -> bool {
    match one {
        ' '..='~' => true,
        '\0'..='\u{a0}' | '\u{ad}' => false,
        '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' => false,
        '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}' => false,
        '\u{e0000}'.. => false,
        _ => !one.is_whitespace(),
    }
}

/// A number as Go's decoder for Kubernetes objects has it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Num {
    Int(i64),
    Float(f64),
}

impl Num {
    pub(crate) fn of(number: &Number) -> Self {
        number.as_i64().map_or_else(|| Self::Float(number.as_f64().unwrap_or_default()), Self::Int)
    }

    pub(crate) fn as_f64(self) -> f64 {
        match self {
            Self::Int(number) => number as f64,
            Self::Float(number) => number,
        }
    }
}

/// `%v` of a float64: the shortest digits, with an exponent below -4 and from 6 on.
pub(crate) fn float(number: f64) -> String {
    let scientific = format!("{number:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if number != 0.0 && !(-4..6).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{mantissa}e{sign}{:02}", exponent.abs())
    } else {
        format!("{number}")
    }
}

/// `encoding/json` of a value, with its escapes for HTML.
pub(crate) fn json(value: &Value) -> String {
    let mut text = String::new();
    write_json(value, &mut text);
    text
}

fn write_json(value: &Value, text: &mut String) {
    match value {
        Value::Null => text.push_str("null"),
        Value::Bool(value) => text.push_str(if *value { "true" } else { "false" }),
        Value::Number(number) => match Num::of(number) {
            Num::Int(number) => {
                let _ = write!(text, "{number}");
            }
            Num::Float(number) => json_float(number, text),
        },
        Value::String(value) => json_string(value, text),
        Value::Array(items) => {
            text.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                write_json(item, text);
            }
            text.push(']');
        }
        Value::Object(members) => {
            text.push('{');
            for (at, (key, member)) in members.iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                json_string(key, text);
                text.push(':');
                write_json(member, text);
            }
            text.push('}');
        }
    }
}

pub(crate) fn json_float(number: f64, text: &mut String) {
    let size = number.abs();
    let _ = if size != 0.0 && !(1e-6..1e21).contains(&size) {
        let scientific = format!("{number:e}");
        match scientific.split_once('e') {
            Some((mantissa, exponent)) if !exponent.starts_with('-') => {
                write!(text, "{mantissa}e+{exponent}")
            }
            _ => write!(text, "{scientific}"),
        }
    } else {
        write!(text, "{number}")
    };
}

pub(crate) fn json_string(value: &str, text: &mut String) {
    text.push('"');
    for one in value.chars() {
        match one {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '\u{8}' => text.push_str("\\b"),
            '\u{c}' => text.push_str("\\f"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => {
                let _ = write!(text, "\\u{:04x}", u32::from(one));
            }
            _ => text.push(one),
        }
    }
    text.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_look_as_in_go() {
        for (number, shown) in [
            (1.5, "1.5"),
            (2.0, "2"),
            (1e21, "1e+21"),
            (1_234_567.5, "1.2345675e+06"),
            (100_000.0, "100000"),
            (0.00001, "1e-05"),
            (-0.0, "-0"),
        ] {
            assert_eq!(float(number), shown);
        }
        let mut text = String::new();
        json_float(1e-7, &mut text);
        assert_eq!(text, "1e-7");
    }

    #[test]
    fn strings_are_quoted_as_in_go() {
        assert_eq!(quote("a\"\\\n\u{1}é\u{200b}"), "\"a\\\"\\\\\\n\\x01é\\u200b\"");
    }
}
