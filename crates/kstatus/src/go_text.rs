//! Values and types as Go's `fmt` prints them, for upstream's error messages.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use settled_go::Num;

use crate::node::{Kind, Node, Shown};

/// `%T` of a value that Go's decoder for Kubernetes objects made.
pub(crate) fn type_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Null => "<nil>",
        Kind::Bool => "bool",
        Kind::Int => "int64",
        Kind::Float => "float64",
        Kind::String => "string",
        Kind::List => "[]interface {}",
        Kind::Map => "map[string]interface {}",
    }
}

/// `reflect.Kind` of the same.
pub(crate) fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Null => "invalid",
        Kind::Bool => "bool",
        Kind::Int => "int64",
        Kind::Float => "float64",
        Kind::String => "string",
        Kind::List => "slice",
        Kind::Map => "map",
    }
}

/// `%v` of a value.
pub(crate) struct GoValue<'a>(pub(crate) Node<'a>);

impl fmt::Display for GoValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_value(self.0, f, 0)
    }
}

fn write_value(node: Node<'_>, f: &mut fmt::Formatter<'_>, depth: usize) -> fmt::Result {
    // Deeper values than anything in Kubernetes are cut: the text is for people, and the depth must be bounded.
    if depth > 64 {
        return f.write_char('…');
    }
    match node.kind() {
        Kind::Null => f.write_str("<nil>"),
        Kind::Bool => f.write_str(if node.as_bool() == Some(true) { "true" } else { "false" }),
        Kind::Int => write!(f, "{}", node.as_int().unwrap_or_default()),
        Kind::Float => write!(f, "{}", Num::Float(node.as_float().unwrap_or_default())),
        Kind::String => write!(f, "{}", Shown(node)),
        Kind::List => {
            f.write_char('[')?;
            for (i, element) in node.elements().enumerate() {
                f.write_str(if i > 0 { " " } else { "" })?;
                write_value(element, f, depth + 1)?;
            }
            f.write_char(']')
        }
        Kind::Map => {
            let members: BTreeMap<Cow<'_, str>, Node<'_>> = node.members().collect();
            f.write_str("map[")?;
            for (i, (key, value)) in members.into_iter().enumerate() {
                f.write_str(if i > 0 { " " } else { "" })?;
                write!(f, "{key}:")?;
                write_value(value, f, depth + 1)?;
            }
            f.write_char(']')
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_look_as_in_go() {
        for (json, expected) in [
            ("null", "<nil>"),
            ("1.5", "1.5"),
            ("2.0", "2"),
            ("1e21", "1e+21"),
            ("1e20", "1e+20"),
            ("100000.0", "100000"),
            ("1234567.5", "1.2345675e+06"),
            ("123456789012345678901234", "1.2345678901234569e+23"),
            ("0.0001", "0.0001"),
            ("0.00001", "1e-05"),
            ("-0.0", "-0"),
            ("-1.5e-7", "-1.5e-07"),
            (r#"{"b":[1,"x",null],"a":{"c":true}}"#, "map[a:map[c:true] b:[1 x <nil>]]"),
        ] {
            assert_eq!(GoValue(Node::Text(json.as_bytes())).to_string(), expected);
        }
    }
}
