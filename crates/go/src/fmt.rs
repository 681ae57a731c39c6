//! The verbs of `fmt` on JSON values: `%v`, `%s`, `%#v`, `%T`.

use std::fmt::{self, Write};

use serde_json::{Map, Value};

use crate::strconv::push_quoted;
use crate::{Num, ordered};

/// Separators of lists and maps, and the format of scalars.
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
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                out.push_str(self.separator);
            }
            self.push(item, out);
        }
        out.push_str(self.close);
    }

    fn push_map(&self, members: &Map<String, Value>, out: &mut String) {
        out.push_str(self.map);
        out.push_str(self.open);
        for (index, (name, member)) in ordered(members).into_iter().enumerate() {
            if index > 0 {
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
        // In a list or map; nil is not formatted as a string.
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

/// Appends [`plain`] to a text.
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

/// `%s`: strings verbatim; other values as `%!s(int64=1)`.
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

/// `%T`: type name of the value, `<nil>` for null.
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
