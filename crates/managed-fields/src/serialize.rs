//! `FieldsV1`: serialization of field sets.

use std::sync::Arc;

use serde_json::{Map, Number, Value};

use crate::MAX_DEPTH;
use crate::path::{KeyFields, PathElement};
use crate::set::FieldSet;
use crate::value::{self, Style};

/// Why a text or value is not a set of fields.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FieldsError {
    /// The text is not JSON.
    #[error("the fields are not JSON: {0}")]
    Json(serde_json::Error),
    /// A set is a JSON object of objects.
    #[error("expected an object of fields, got {0}")]
    NotAnObject(&'static str),
    /// The name of a field in it does not say a path element.
    #[error("{key:?} is not a path element: {reason}")]
    Element {
        /// The name.
        key: String,
        /// Message.
        reason: String,
    },
    /// More than [`MAX_DEPTH`] levels.
    #[error("the fields are nested more than {MAX_DEPTH} levels deep")]
    TooDeep,
}

impl PathElement {
    /// The element as it stands in `FieldsV1`: `f:spec`, `k:{"name":"app"}`, `v:"text"`, `i:0`.
    #[must_use]
    pub fn to_fields_v1(&self) -> String {
        let mut text = String::new();
        match self {
            Self::Field(name) => {
                text.push_str("f:");
                text.push_str(name);
            }
            Self::Key(fields) => {
                text.push_str("k:{");
                for (index, (name, value)) in fields.iter().enumerate() {
                    if index > 0 {
                        text.push(',');
                    }
                    value::push_json_string(name, Style::Name, &mut text);
                    text.push(':');
                    value::to_json(value, Style::Value, &mut text);
                }
                text.push('}');
            }
            Self::Value(value) => {
                text.push_str("v:");
                value::to_json(value, Style::Value, &mut text);
            }
            Self::Index(index) => {
                text.push_str("i:");
                text.push_str(&index.to_string());
            }
        }
        text
    }

    /// Reads an element of `FieldsV1`. The answer is `None` for a kind of element that a later version may know.
    ///
    /// # Errors
    /// The text has no colon as its second letter, or what follows is not what the first letter says.
    ///
    /// ```
    /// use settled_managed_fields::PathElement;
    ///
    /// let element = PathElement::from_fields_v1(r#"k:{"name":"app"}"#).unwrap();
    /// assert_eq!(element, Some(PathElement::key([("name", "app".into())])));
    /// ```
    pub fn from_fields_v1(text: &str) -> Result<Option<Self>, FieldsError> {
        let wrong = |reason: String| FieldsError::Element { key: text.to_owned(), reason };
        if text.len() < 2 {
            return Err(wrong("it must be 2 characters long".into()));
        }
        if text.as_bytes()[1] != b':' {
            return Err(wrong("the colon is missing".into()));
        }
        let rest = &text[2..];
        let json = || serde_json::from_str::<Value>(rest).map_err(|error| wrong(error.to_string()));
        Ok(match text.as_bytes()[0] {
            b'f' => Some(Self::field(rest)),
            b'v' => {
                let value = json()?;
                // `serde_json` may miss the last digit of a float, unless a feature says otherwise.
                let exact = rest.trim().parse().ok().filter(|_| value.is_number()).and_then(Number::from_f64);
                Some(Self::Value(Arc::new(exact.map_or_else(|| with_floats(value), Value::Number))))
            }
            b'k' => match json()? {
                Value::Object(fields) => {
                    Some(Self::Key(KeyFields::new(fields.into_iter().map(|(n, v)| (n, with_floats(v))))))
                }
                Value::Null => Some(Self::Key(KeyFields::new::<String>([]))),
                other => return Err(wrong(format!("expected an object, got {}", kind(&other)))),
            },
            b'i' => Some(Self::Index(
                rest.parse().map_err(|error: std::num::ParseIntError| wrong(error.to_string()))?,
            )),
            _ => None,
        })
    }
}

/// Upstream reads every number of a path element as a float. So an integer beyond 2^53 loses digits when it is
/// written and read.
fn with_floats(value: Value) -> Value {
    match value {
        Value::Number(number) => Value::Number(number.as_f64().and_then(Number::from_f64).unwrap_or(number)),
        Value::Array(items) => items.into_iter().map(with_floats).collect(),
        Value::Object(fields) => fields.into_iter().map(|(name, field)| (name, with_floats(field))).collect(),
        other => other,
    }
}

const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

impl FieldSet {
    /// The set as `FieldsV1`, byte for byte as upstream writes it.
    ///
    /// A path that is in the set itself and has others below it is written with the member `.`.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut out = String::from("{");
        self.write_contents(false, &mut out);
        out.push('}');
        out
    }

    fn write_contents(&self, own: bool, out: &mut String) {
        let start = out.len();
        let begin = |out: &mut String, key: &str| {
            if out.len() > start {
                out.push(',');
            }
            value::push_json_string(key, Style::Name, out);
            out.push_str(":{");
        };
        if own && !(self.members.is_empty() && self.children.is_empty()) {
            begin(out, ".");
            out.push('}');
        }
        let mut members = self.members.iter().peekable();
        for (element, below) in &self.children {
            while let Some(member) = members.next_if(|member| *member < element) {
                begin(out, &member.to_fields_v1());
                out.push('}');
            }
            let own = members.next_if(|member| *member == element).is_some();
            begin(out, &element.to_fields_v1());
            below.write_contents(own, out);
            out.push('}');
        }
        for member in members {
            begin(out, &member.to_fields_v1());
            out.push('}');
        }
    }

    /// The set as a value for an object. The order of its fields is that of [`Map`].
    #[must_use]
    pub fn to_value(&self) -> Value {
        Value::Object(self.contents(false))
    }

    fn contents(&self, own: bool) -> Map<String, Value> {
        let mut map = Map::new();
        if own {
            map.insert(".".to_owned(), Value::Object(Map::new()));
        }
        for (element, below) in &self.children {
            let own = self.has_member(element);
            map.insert(element.to_fields_v1(), Value::Object(below.contents(own)));
        }
        for member in &self.members {
            map.entry(member.to_fields_v1()).or_insert_with(|| Value::Object(Map::new()));
        }
        map
    }

    /// Reads `FieldsV1`.
    ///
    /// # Errors
    /// The text is not JSON, or [`FieldSet::from_value`] does not take it.
    pub fn from_json(text: &str) -> Result<Self, FieldsError> {
        Self::from_value(&serde_json::from_str(text).map_err(FieldsError::Json)?)
    }

    /// Reads `FieldsV1`. Kinds of elements that are not known are left out, as upstream does.
    ///
    /// # Errors
    /// The value is not an object of objects, one of the names is not a path element, or it is nested too deep.
    ///
    /// ```
    /// use settled_managed_fields::FieldSet;
    ///
    /// let set = FieldSet::from_json(r#"{"f:spec":{".":{},"f:replicas":{}}}"#).unwrap();
    /// assert_eq!(set.to_string(), ".spec\n.spec.replicas");
    /// ```
    pub fn from_value(value: &Value) -> Result<Self, FieldsError> {
        Ok(read(value, 0)?.0.unwrap_or_default())
    }
}

/// The set below, and whether the element itself is a member.
fn read(value: &Value, depth: usize) -> Result<(Option<FieldSet>, bool), FieldsError> {
    if depth > MAX_DEPTH {
        return Err(FieldsError::TooDeep);
    }
    let fields = match value {
        Value::Object(fields) => fields,
        Value::Null => return Ok((None, true)),
        other => return Err(FieldsError::NotAnObject(kind(other))),
    };
    // In the order of their texts, which is not that of the elements.
    let (mut members, mut children) = (Vec::new(), Vec::new());
    let mut is_member = false;
    for (key, below) in fields {
        if key == "." {
            is_member = true;
            continue;
        }
        let Some(element) = PathElement::from_fields_v1(key)? else { continue };
        let (below, below_is_member) = read(below, depth + 1)?;
        if below_is_member {
            members.push(element.clone());
        }
        if let Some(below) = below {
            children.push((element, below));
        }
    }
    let is_empty = members.is_empty() && children.is_empty();
    let set = (!is_empty).then(|| FieldSet::of_level(members, children));
    let is_member = is_member || set.is_none();
    Ok((set, is_member))
}
