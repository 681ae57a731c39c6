//! Field paths and their elements.

use std::cmp::Ordering;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use serde_json::Value;

use crate::value;

/// The fields that name an item of an associative list, sorted by name.
///
/// ```
/// use settled_managed_fields::KeyFields;
///
/// let key = KeyFields::new([("protocol", "TCP".into()), ("port", 80.into())]);
/// let names: Vec<_> = key.iter().map(|(name, _)| name).collect();
/// assert_eq!(names, ["port", "protocol"]);
/// ```
#[derive(Clone, Debug)]
pub struct KeyFields(Arc<[(Arc<str>, Value)]>);

impl KeyFields {
    /// A key of these fields. Of two with the same name, the last counts, as in a JSON object.
    pub fn new<N: Into<Arc<str>>>(fields: impl IntoIterator<Item = (N, Value)>) -> Self {
        let mut fields: Vec<_> = fields.into_iter().map(|(name, value)| (name.into(), value)).collect();
        fields.sort_by(|(left, _): &(Arc<str>, _), (right, _)| left.cmp(right));
        fields.dedup_by(|later, kept| {
            let same = later.0 == kept.0;
            if same {
                std::mem::swap(later, kept);
            }
            same
        });
        Self(fields.into())
    }

    /// The names and values, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (&**name, value))
    }
}

/// One step of a [`Path`].
///
/// Elements are ordered: fields by name, then keys, values and indices. Numbers are compared as numbers, so `1` and
/// `1.0` are the same element.
///
/// ```
/// use settled_managed_fields::PathElement;
///
/// assert_eq!(PathElement::field("spec").to_string(), ".spec");
/// assert_eq!(PathElement::key([("name", "app".into())]).to_string(), r#"[name="app"]"#);
/// assert_eq!(PathElement::value("finalizer").to_string(), r#"[="finalizer"]"#);
/// assert_eq!(PathElement::index(2).to_string(), "[2]");
/// ```
#[derive(Clone, Debug)]
pub enum PathElement {
    /// A field of a map.
    Field(Arc<str>),
    /// The item of an associative list that has these fields.
    Key(KeyFields),
    /// The item of a set that has this value.
    Value(Arc<Value>),
    /// The item at a place of an atomic list.
    Index(i64),
}

impl PathElement {
    /// A field of a map.
    pub fn field(name: impl Into<Arc<str>>) -> Self {
        Self::Field(name.into())
    }

    /// An item of an associative list.
    pub fn key<N: Into<Arc<str>>>(fields: impl IntoIterator<Item = (N, Value)>) -> Self {
        Self::Key(KeyFields::new(fields))
    }

    /// An item of a set.
    pub fn value(value: impl Into<Value>) -> Self {
        Self::Value(Arc::new(value.into()))
    }

    /// An item of an atomic list.
    #[must_use]
    pub const fn index(index: i64) -> Self {
        Self::Index(index)
    }

    /// The order of this element and the field of a name.
    pub(crate) fn cmp_field(&self, name: &str) -> Ordering {
        match self {
            Self::Field(own) => (**own).cmp(name),
            _ => Ordering::Greater,
        }
    }

    const fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

impl Ord for PathElement {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(left), Self::Field(right)) => left.cmp(right),
            (Self::Key(left), Self::Key(right)) => {
                for ((left_name, left), (right_name, right)) in left.0.iter().zip(right.0.iter()) {
                    match left_name.cmp(right_name).then_with(|| value::compare(left, right)) {
                        Ordering::Equal => {}
                        other => return other,
                    }
                }
                left.0.len().cmp(&right.0.len())
            }
            (Self::Value(left), Self::Value(right)) => value::compare(left, right),
            (Self::Index(left), Self::Index(right)) => left.cmp(right),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for PathElement {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PathElement {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for PathElement {}

impl fmt::Display for PathElement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(formatter, ".{name}"),
            Self::Key(fields) => {
                let mut text = String::new();
                for (index, (name, value)) in fields.iter().enumerate() {
                    if index > 0 {
                        text.push(',');
                    }
                    text.push_str(name);
                    text.push('=');
                    value::to_text(value, &mut text);
                }
                write!(formatter, "[{text}]")
            }
            Self::Value(value) => {
                let mut text = String::new();
                value::to_text(value, &mut text);
                write!(formatter, "[={text}]")
            }
            Self::Index(index) => write!(formatter, "[{index}]"),
        }
    }
}

/// The way from the root of an object to one of its fields.
///
/// ```
/// use settled_managed_fields::{Path, PathElement};
///
/// let mut path = Path::fields(["spec", "containers"]);
/// path.push(PathElement::key([("name", "app".into())]));
/// assert_eq!(path.to_string(), r#".spec.containers[name="app"]"#);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(Vec<PathElement>);

impl Path {
    /// A path of field names.
    pub fn fields<N: Into<Arc<str>>>(names: impl IntoIterator<Item = N>) -> Self {
        names.into_iter().map(PathElement::field).collect()
    }

    /// Goes one step further.
    pub fn push(&mut self, element: PathElement) {
        self.0.push(element);
    }

    /// Goes one step back.
    pub fn pop(&mut self) -> Option<PathElement> {
        self.0.pop()
    }
}

impl Deref for Path {
    type Target = [PathElement];

    fn deref(&self) -> &[PathElement] {
        &self.0
    }
}

impl FromIterator<PathElement> for Path {
    fn from_iter<I: IntoIterator<Item = PathElement>>(elements: I) -> Self {
        Self(elements.into_iter().collect())
    }
}

impl From<Vec<PathElement>> for Path {
    fn from(elements: Vec<PathElement>) -> Self {
        Self(elements)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|element| element.fmt(formatter))
    }
}
