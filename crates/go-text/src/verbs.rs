//! The verbs of `fmt`, and `strconv.Quote`.

use std::fmt::{self, Write};

use serde_json::{Map, Value};

use crate::printable::PRINTABLE;
use crate::{Num, ordered};

/// `%v` of a float: the shortest digits, with an exponent below -4 and from 6 on.
pub(crate) fn write_float(number: f64, out: &mut impl Write) -> fmt::Result {
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if number == 0.0 || (-4..6).contains(&exponent) {
        return write!(out, "{number}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    write!(out, "{digits}e{sign}{:02}", exponent.unsigned_abs())
}

/// What separates the items of a list or a map, and how a scalar is written.
struct Verb {
    list: &'static str,
    map: &'static str,
    open: &'static str,
    separator: &'static str,
    close: &'static str,
    name: fn(&str, &mut String),
    scalar: fn(&Value, &mut String),
}

impl Verb {
    fn push(&self, value: &Value, out: &mut String) {
        match value {
            Value::Array(items) => self.push_list(items, out),
            Value::Object(members) => self.push_map(members, out),
            scalar => (self.scalar)(scalar, out),
        }
    }

    fn push_list(&self, items: &[Value], out: &mut String) {
        out.push_str(self.list);
        out.push_str(self.open);
        for (at, item) in items.iter().enumerate() {
            if at > 0 {
                out.push_str(self.separator);
            }
            self.push(item, out);
        }
        out.push_str(self.close);
    }

    fn push_map(&self, members: &Map<String, Value>, out: &mut String) {
        out.push_str(self.map);
        out.push_str(self.open);
        for (at, (name, member)) in ordered(members).into_iter().enumerate() {
            if at > 0 {
                out.push_str(self.separator);
            }
            (self.name)(name, out);
            out.push(':');
            self.push(member, out);
        }
        out.push_str(self.close);
    }
}

static PLAIN: Verb = Verb {
    list: "",
    map: "map",
    open: "[",
    separator: " ",
    close: "]",
    name: |name, out| out.push_str(name),
    scalar: |value, out| match value {
        Value::Null => out.push_str("<nil>"),
        Value::Number(number) => push(out, &Num::of(number)),
        Value::String(text) => out.push_str(text),
        other => push(out, other),
    },
};

static TEXT: Verb = Verb {
    scalar: |value, out| match value {
        // In a list or a map; nil itself is no string.
        Value::Null => out.push_str("<nil>"),
        Value::String(text) => out.push_str(text),
        other => {
            push(out, &format_args!("%!s({}=", type_name(other)));
            push_plain(other, out);
            out.push(')');
        }
    },
    ..PLAIN
};

static SYNTAX: Verb = Verb {
    list: "[]interface {}",
    map: "map[string]interface {}",
    open: "{",
    separator: ", ",
    close: "}",
    name: push_quoted,
    scalar: |value, out| match value {
        Value::Null => out.push_str("interface {}(nil)"),
        Value::String(text) => push_quoted(text, out),
        other => push_plain(other, out),
    },
};

fn push(out: &mut String, text: &impl fmt::Display) {
    // Writing to a string can't fail.
    let _ = write!(out, "{text}");
}

/// `%v`: `map[a:1 b:[x <nil>]]`.
pub fn plain(value: &Value) -> String {
    let mut out = String::new();
    push_plain(value, &mut out);
    out
}

/// [`plain`], at the end of a text.
pub fn push_plain(value: &Value, out: &mut String) {
    PLAIN.push(value, out);
}

/// `%v` of a list: `[x 1]`.
pub fn plain_list(items: &[Value]) -> String {
    let mut out = String::new();
    PLAIN.push_list(items, &mut out);
    out
}

/// `%v` of a map: `map[a:1]`.
pub fn plain_map(members: &Map<String, Value>) -> String {
    let mut out = String::new();
    PLAIN.push_map(members, &mut out);
    out
}

/// `%s`: strings as they are, and all else as something that is no string: `%!s(int64=1)`.
pub fn text(value: &Value) -> String {
    if value.is_null() {
        return "%!s(<nil>)".to_owned();
    }
    let mut out = String::new();
    TEXT.push(value, &mut out);
    out
}

/// `%#v`: `map[string]interface {}{"a":1}`.
pub fn syntax(value: &Value) -> String {
    if value.is_null() {
        return "<nil>".to_owned();
    }
    let mut out = String::new();
    SYNTAX.push(value, &mut out);
    out
}

/// `%T`: the name of the value's type, `<nil>` for null.
pub fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) => match Num::of(number) {
            Num::Int(_) => "int64",
            Num::Float(_) => "float64",
        },
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// `%q`, as `strconv.Quote` has it.
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    push_quoted(text, &mut out);
    out
}

/// [`quote`], at the end of a text.
pub fn push_quoted(text: &str, out: &mut String) {
    out.push('"');
    for one in text.chars() {
        push_escaped(one, out);
    }
    out.push('"');
}

/// A character as it stands between the quotes of [`quote`].
pub fn push_escaped(one: char, out: &mut String) {
    match one {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\x07' => out.push_str("\\a"),
        '\x08' => out.push_str("\\b"),
        '\x0c' => out.push_str("\\f"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\x0b' => out.push_str("\\v"),
        one if is_print(one) => out.push(one),
        '\0'..='\x7f' => push(out, &format_args!("\\x{:02x}", u32::from(one))),
        '\u{80}'..='\u{ffff}' => push(out, &format_args!("\\u{:04x}", u32::from(one))),
        _ => push(out, &format_args!("\\U{:08x}", u32::from(one))),
    }
}

/// `strconv.IsPrint`: letters, marks, numbers, punctuation, symbols and the plain space, of the Unicode version that
/// Kubernetes' Go has.
pub fn is_print(one: char) -> bool {
    if one.is_ascii() {
        return matches!(one, ' '..='~');
    }
    let code = u32::from(one);
    let after = PRINTABLE.partition_point(|(from, _)| *from <= code);
    after.checked_sub(1).and_then(|at| PRINTABLE.get(at)).is_some_and(|(_, to)| code <= *to)
}
