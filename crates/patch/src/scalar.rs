//! Scalars in the tree of a JSON patch: their values, and the bytes that `test` compares.

use serde_json::{Number, Value};
use settled_go::json;

/// A string, number or boolean.
#[derive(Clone, Debug)]
pub(crate) enum Scalar {
    /// Original JSON of the patch. `test` compares these bytes.
    Text(Box<[u8]>),
    /// Value from the object.
    Value(Value),
}

impl Scalar {
    pub(crate) fn value(&self) -> Value {
        match self {
            Self::Text(text) => scalar_value(text),
            Self::Value(value) => value.clone(),
        }
    }

    /// The bytes as upstream has them.
    pub(crate) fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Text(ours), Self::Text(theirs)) => ours == theirs,
            (Self::Value(value), Self::Text(text)) | (Self::Text(text), Self::Value(value)) => {
                json::to_string(value).as_bytes() == &**text
            }
            (Self::Value(ours), Self::Value(theirs)) => json::to_string(ours) == json::to_string(theirs),
        }
    }

    /// Bytes that upstream copies.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Text(text) => {
                let escaped = text.iter().filter(|byte| matches!(byte, b'<' | b'>' | b'&')).count();
                let lines =
                    text.windows(3).filter(|three| matches!(three, [0xe2, 0x80, 0xa8 | 0xa9])).count();
                text.len() + 5 * escaped + 3 * lines
            }
            Self::Value(value) => json::to_string(value).len(),
        }
    }

    /// Copies the scalar. Upstream escapes a few characters when it copies.
    pub(crate) fn copied(&self) -> Self {
        let Self::Text(text) = self else { return self.clone() };
        if self.size() == text.len() {
            return self.clone();
        }
        let mut escaped = Vec::with_capacity(self.size());
        let mut rest = &text[..];
        while let Some((&byte, after)) = rest.split_first() {
            let (escape, left): (&[u8], _) = match rest {
                [b'<', ..] => (b"\\u003c", after),
                [b'>', ..] => (b"\\u003e", after),
                [b'&', ..] => (b"\\u0026", after),
                [0xe2, 0x80, 0xa8, left @ ..] => (b"\\u2028", left),
                [0xe2, 0x80, 0xa9, left @ ..] => (b"\\u2029", left),
                _ => (&[byte][..], after),
            };
            escaped.extend_from_slice(escape);
            rest = left;
        }
        Self::Text(escaped.into())
    }
}

/// Parses the JSON text of a validated scalar. A number that overflows is null.
fn scalar_value(text: &[u8]) -> Value {
    match text.first() {
        Some(b'"') => Value::String(json::unquote(text)),
        Some(b't') => Value::Bool(true),
        Some(b'f') => Value::Bool(false),
        _ => {
            let text = String::from_utf8_lossy(text);
            if let Ok(int) = text.parse::<i64>() {
                return int.into();
            }
            text.parse().ok().and_then(Number::from_f64).map_or(Value::Null, Value::Number)
        }
    }
}
