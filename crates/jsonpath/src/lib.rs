#![doc = include_str!("../README.md")]

mod evaluate;
mod parser;

use std::borrow::Cow;

use serde_json::Value;

/// Longer paths are refused.
const MAX_LENGTH: usize = 4096;
/// Maximum number of values in an evaluation, since `..` and `*` multiply.
const BUDGET: usize = 100_000;

/// Why a path can't be read, or has no result in an object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// Not a path. The text is upstream's.
    #[error("{0}")]
    Syntax(String),
    /// A list was expected, an index is out of bounds, or two things can't be compared. The text is upstream's.
    #[error("{0}")]
    Mismatch(String),
    /// It would take too long.
    #[error("the path selects too much")]
    TooMuch,
}

/// A path that can be looked up in objects.
///
/// Keys that are missing are no error: there is no result then.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath {
    nodes: Vec<Node>,
}

#[derive(Clone, Debug, PartialEq)]
enum Node {
    Field(String),
    Literal(Value),
    Slice([Option<i64>; 3], Derived),
    Filter(Vec<Self>, String, Vec<Self>),
    Wildcard,
    Recursive,
    Union(Vec<Vec<Self>>),
    /// `range`, which needs an end that is not in the same braces: there is no result.
    Range,
    /// Any other word, which means nothing here.
    Word(String),
}

/// The end of a slice was not written: it is the start plus one.
type Derived = bool;

type Found<'a> = Vec<Cow<'a, Value>>;

impl JsonPath {
    /// Reads a path, with or without braces around it.
    ///
    /// # Errors
    /// [`PathError::Syntax`] where it is none, or is longer than 4096 bytes.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        let braced;
        let text = if text.starts_with('{') {
            text
        } else {
            braced = format!("{{{text}}}");
            &braced
        };
        if text.len() > MAX_LENGTH {
            return Err(PathError::Syntax("the path is too long".to_owned()));
        }
        Ok(Self { nodes: parser::action(text, 0)? })
    }

    /// Reads a path as kubectl's `wait` and `custom-columns` take it: with or without braces, with or without the first dot.
    /// As there, it is no path with other braces in it, or one that begins with `$`, a quote or a bracket: such a first
    /// character becomes part of a key.
    ///
    /// # Errors
    /// [`PathError::Syntax`] where it is none, or is longer than 4096 bytes.
    ///
    /// ```
    /// use settled_jsonpath::JsonPath;
    ///
    /// for text in ["status.phase", ".status.phase", "{status.phase}"] {
    ///     assert_eq!(JsonPath::relaxed(text), JsonPath::parse("{.status.phase}"), "{text}");
    /// }
    /// ```
    pub fn relaxed(text: &str) -> Result<Self, PathError> {
        let inner = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap_or(text);
        if inner.is_empty() || inner.contains(['{', '}']) {
            return Err(PathError::Syntax(
                "unexpected path string, expected a 'name1.name2' or '.name1.name2' or '{name1.name2}' or \
                 '{.name1.name2}'"
                    .to_owned(),
            ));
        }
        let name = inner.strip_prefix('.').filter(|name| !name.is_empty()).unwrap_or(inner);
        Self::parse(&format!("{{.{name}}}"))
    }

    /// All results in an object, in order. A key that is not there gives none.
    ///
    /// # Errors
    /// [`PathError::Mismatch`] where the path does not fit the object, [`PathError::TooMuch`] where it selects more than
    /// 100,000 values on its way.
    pub fn find<'a>(&self, object: &'a Value) -> Result<Vec<Cow<'a, Value>>, PathError> {
        let mut budget = BUDGET;
        let results = evaluate::walk_all(vec![Cow::Borrowed(object)], &self.nodes, &mut budget)?;
        Ok(if self.nodes.contains(&Node::Range) { Vec::new() } else { results })
    }
}

/// A result as it is printed: a scalar's text, all else as JSON.
pub fn shown(value: &Value) -> String {
    if value.is_array() || value.is_object() {
        settled_go::json::to_string(value)
    } else {
        settled_go::fmt::plain(value)
    }
}
