#![doc = include_str!("../README.md")]

mod evaluate;
mod parser;

use std::borrow::Cow;

use serde_json::Value;

/// Maximum length of a path, in bytes.
const MAX_LENGTH: usize = 4096;
/// Maximum number of values in an evaluation, since `..` and `*` multiply.
const BUDGET: usize = 100_000;

/// Error of parsing or evaluating a path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// Invalid path, with upstream's message.
    #[error("{0}")]
    Syntax(String),
    /// Type mismatch, index out of bounds, or incomparable values, with upstream's message.
    #[error("{0}")]
    Mismatch(String),
    /// The evaluation exceeds its limit.
    #[error("the path selects too many values")]
    TooMuch,
}

/// A compiled path.
///
/// Missing keys are not an error: the result is then empty.
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
    /// `range` without its `end` in the same braces: no result.
    Range,
    /// Any other word: no effect.
    Word(String),
}

/// The end of a slice was omitted: it is the start plus one.
type Derived = bool;

type Found<'a> = Vec<Cow<'a, Value>>;

impl JsonPath {
    /// Parses a path, with or without braces around it.
    ///
    /// # Errors
    /// [`PathError::Syntax`] if the path is invalid or longer than 4096 bytes.
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

    /// Parses a path as kubectl's `wait` and `custom-columns`: with or without braces and leading dot. As there, other
    /// braces are an error, and a leading `$`, quote or bracket becomes part of a key.
    ///
    /// # Errors
    /// [`PathError::Syntax`] if the path is invalid or longer than 4096 bytes.
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

    /// All results in an object, in order. Missing keys yield none.
    ///
    /// # Errors
    /// [`PathError::Mismatch`] if the path does not match the object, [`PathError::TooMuch`] if it visits more than
    /// 100,000 values.
    pub fn find<'a>(&self, object: &'a Value) -> Result<Vec<Cow<'a, Value>>, PathError> {
        let mut budget = BUDGET;
        let results = evaluate::walk_all(vec![Cow::Borrowed(object)], &self.nodes, &mut budget)?;
        Ok(if self.nodes.contains(&Node::Range) { Vec::new() } else { results })
    }
}

/// Formats a result for output: scalars as text, everything else as JSON.
pub fn shown(value: &Value) -> String {
    if value.is_array() || value.is_object() {
        settled_go::json::to_string(value)
    } else {
        settled_go::fmt::plain(value)
    }
}
