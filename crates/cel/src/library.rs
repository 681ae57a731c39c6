//! Function declarations: the table generated from upstream's environment.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::types::{Type, split_types};

/// An overload.
#[derive(Debug)]
pub(crate) struct Overload {
    pub(crate) id: &'static str,
    pub(crate) is_member: bool,
    pub(crate) args: Vec<Type>,
    pub(crate) result: Type,
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    id: &'static str,
    pub(crate) style: &'static str,
    pub(crate) args: &'static str,
    result: &'static str,
    /// Restricts the row to one environment: `crd` or `rules`.
    pub(crate) environment: &'static str,
    pub(crate) usage: &'static str,
}

/// The text of the table.
pub(crate) const TABLE: &str = include_str!("functions.tsv");

pub(crate) fn rows() -> impl Iterator<Item = Row> {
    TABLE.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let mut columns = line.split('\t');
        let mut next = || columns.next().unwrap_or_default();
        Row {
            name: next(),
            id: next(),
            style: next(),
            args: next(),
            result: next(),
            environment: next(),
            usage: next(),
        }
    })
}

static FUNCTIONS: LazyLock<HashMap<&'static str, Vec<Overload>>> = LazyLock::new(|| {
    let mut functions: HashMap<_, Vec<Overload>> = HashMap::new();
    for Row { name, id, style, args, result, environment, .. } in rows() {
        if environment == "rules" {
            continue;
        }
        functions.entry(name).or_default().push(Overload {
            id,
            is_member: style == "m",
            args: split_types(args).into_iter().map(Type::parse).collect(),
            result: Type::parse(result),
        });
    }
    functions
});

/// Overloads of a function in the order of resolution, and its name.
pub(crate) fn function(name: &str) -> Option<(&'static str, &'static [Overload])> {
    FUNCTIONS.get_key_value(name).map(|(name, overloads)| (*name, overloads.as_slice()))
}

/// Type names.
pub(crate) fn type_named(name: &str) -> Option<Type> {
    Some(match name {
        "bool" => Type::Bool,
        "bytes" => Type::Bytes,
        "double" => Type::Double,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "string" => Type::String,
        "null_type" => Type::Null,
        "list" => Type::list(Type::Param("A".into())),
        "map" => Type::map(Type::Param("A".into()), Type::Param("B".into())),
        "type" => return Some(Type::Kind(None)),
        "google.protobuf.Duration" => Type::Duration,
        "google.protobuf.Timestamp" => Type::Timestamp,
        "net.IP" | "net.CIDR" => Type::Opaque(name.into(), Vec::new()),
        "optional_type" => Type::optional(Type::Param("V".into())),
        _ => return None,
    })
    .map(|type_| Type::Kind(Some(std::sync::Arc::new(type_))))
}
