//! Mutable tree of a JSON patch.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use settled_go::json;

use crate::scalar::Scalar;

/// A value of the document or of a patch. Upstream distinguishes three kinds of null.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    /// Absent: null within a document or within the value of an operation.
    Absent,
    /// The value of an operation is null.
    Null,
    /// A copy of [`Self::Null`]: behaves as a map that rejects fields.
    CopiedNull,
    Scalar(Scalar),
    Map(Box<Tall<BTreeMap<String, Self>>>),
    List(Box<Tall<Vec<Self>>>),
}

/// A container and an upper bound of its height, itself included.
#[derive(Clone, Debug)]
pub(crate) struct Tall<T> {
    pub(crate) height: usize,
    pub(crate) items: T,
}

impl Node {
    pub(crate) fn map(items: BTreeMap<String, Self>) -> Self {
        let height = 1 + items.values().map(Self::height).max().unwrap_or(0);
        Self::Map(Box::new(Tall { height, items }))
    }

    pub(crate) fn list(items: Vec<Self>) -> Self {
        let height = 1 + items.iter().map(Self::height).max().unwrap_or(0);
        Self::List(Box::new(Tall { height, items }))
    }

    /// Converts a value; `None` if it exceeds the maximum nesting.
    pub(crate) fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::Absent,
            Value::Array(items) => Self::list(items.iter().map(Self::of).collect()),
            Value::Object(map) => {
                Self::map(map.iter().map(|(name, value)| (name.clone(), Self::of(value))).collect())
            }
            scalar => Self::Scalar(Scalar::Value(scalar.clone())),
        }
    }

    pub(crate) fn into_value(self) -> Value {
        match self {
            Self::Absent | Self::Null | Self::CopiedNull => Value::Null,
            Self::Scalar(Scalar::Value(value)) => value,
            Self::Scalar(scalar) => scalar.value(),
            Self::Map(map) => Value::Object(into_map(map.items)),
            Self::List(list) => Value::Array(list.items.into_iter().map(Self::into_value).collect()),
        }
    }

    pub(crate) fn height(&self) -> usize {
        match self {
            Self::Map(map) => map.height,
            Self::List(list) => list.height,
            _ => 0,
        }
    }

    /// Bytes of JSON that upstream copies.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Absent | Self::Null | Self::CopiedNull => 4,
            Self::Scalar(scalar) => scalar.size(),
            Self::Map(map) => {
                let fields = map.items.iter().map(|(name, item)| json::quote(name).len() + 1 + item.size());
                2 + fields.sum::<usize>() + map.items.len().saturating_sub(1)
            }
            Self::List(list) => {
                2 + list.items.iter().map(Self::size).sum::<usize>() + list.items.len().saturating_sub(1)
            }
        }
    }

    /// Copies through JSON, as upstream.
    pub(crate) fn copied(&self) -> Self {
        match self {
            Self::Null => Self::CopiedNull,
            Self::Map(map) => {
                Self::map(map.items.iter().map(|(name, item)| (name.clone(), item.copied_within())).collect())
            }
            Self::List(list) => Self::list(list.items.iter().map(Self::copied_within).collect()),
            Self::Scalar(scalar) => Self::Scalar(scalar.copied()),
            Self::Absent | Self::CopiedNull => self.clone(),
        }
    }

    fn copied_within(&self) -> Self {
        match self {
            Self::Null | Self::CopiedNull => Self::Absent,
            other => other.copied(),
        }
    }

    /// Compares two values; `None` if upstream panics on a null.
    pub(crate) fn same(&self, other: &Self) -> Option<bool> {
        let empty = BTreeMap::new();
        let map = match self {
            Self::Absent => return None,
            Self::Null => {
                return if let Self::Absent = other { None } else { Some(matches!(other, Self::Null)) };
            }
            Self::Scalar(scalar) => {
                return match other {
                    Self::Absent => None,
                    Self::Scalar(theirs) => Some(scalar.same(theirs)),
                    _ => Some(false),
                };
            }
            Self::List(list) => {
                let theirs = match other {
                    Self::Absent => return None,
                    Self::List(theirs) if theirs.items.len() == list.items.len() => theirs,
                    _ => return Some(false),
                };
                for (ours, theirs) in list.items.iter().zip(&theirs.items) {
                    if !ours.same(theirs)? {
                        return Some(false);
                    }
                }
                return Some(true);
            }
            Self::CopiedNull => &empty,
            Self::Map(map) => &map.items,
        };
        let theirs = match other {
            Self::Absent => return None,
            Self::Map(theirs) => &theirs.items,
            Self::CopiedNull => &empty,
            _ => return Some(false),
        };
        if map.len() != theirs.len() {
            return Some(false);
        }
        for (name, ours) in map {
            let same = match (ours, theirs.get(name)) {
                (_, None) => false,
                (Self::Absent, Some(Self::Absent)) => true,
                (Self::Absent, Some(_)) | (_, Some(Self::Absent)) => false,
                (ours, Some(theirs)) => ours.same(theirs)?,
            };
            if !same {
                return Some(false);
            }
        }
        Some(true)
    }
}

fn into_map(map: BTreeMap<String, Node>) -> Map<String, Value> {
    map.into_iter().map(|(name, node)| (name, node.into_value())).collect()
}
