//! Values of expressions. Objects are not copied: their values are read in place.

mod data;
mod list;
mod map;
mod typed;

use std::cmp::Ordering;
use std::fmt;
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;

use crate::budget::{Budget, Fault, Result};

pub use crate::named_format::Format;
pub use crate::net::Url;
pub use crate::semver::Semver;
pub use crate::time::Timestamp;
pub use data::{Data, Never};
pub(crate) use list::Items;
pub use list::{Iter, List, ListKind};
pub use map::{Entries, Map};
pub(crate) use map::{insert, push};
pub use settled_apimachinery::quantity::Amount;
pub(crate) use typed::{Typed, of_object};

/// A string: borrowed from the object or the expression, or computed.
#[derive(Clone, Debug)]
pub enum Text<'a> {
    /// Borrowed.
    Borrowed(&'a str),
    /// Computed.
    Shared(Arc<str>),
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Shared(text) => text,
        }
    }
}

/// Key of a map lookup.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// Boolean.
    Bool(bool),
    /// Integer of any type.
    Number(i128),
    /// String.
    Text(Arc<str>),
}

/// Constant of a program.
pub type Const = Val<'static, Never>;

/// Maximum depth of comparisons of values without types.
const MAX_DEPTH: usize = 64;

/// A value that lives as long as the object and the program.
#[derive(Clone, Debug)]
pub enum Val<'a, D> {
    /// `null`
    Null,
    /// `bool`
    Bool(bool),
    /// `int`
    Int(i64),
    /// `uint`
    Uint(u64),
    /// `double`
    Double(f64),
    /// `string`
    Text(Text<'a>),
    /// `bytes`
    Bytes(Arc<[u8]>),
    /// `google.protobuf.Duration`, in nanoseconds.
    Duration(i64),
    /// `google.protobuf.Timestamp`
    Timestamp(Timestamp),
    /// `list`
    List(List<'a, D>),
    /// `map`
    Map(Map<'a, D>),
    /// `optional_type`
    Optional(Option<Arc<Self>>),
    /// `type`
    Type(Arc<str>),
    /// `kubernetes.Quantity`, boxed since it is rare and large.
    Quantity(Arc<Amount>),
    /// `net.IP`
    Ip(IpAddr),
    /// `net.CIDR`
    Cidr(IpAddr, u8),
    /// `kubernetes.URL`
    Url(Arc<Url>),
    /// `kubernetes.Semver`
    Semver(Arc<Semver>),
    /// `kubernetes.NamedFormat`
    Format(&'static Format),
    /// A value without a schema.
    Unknown(D),
}

impl Key {
    pub(crate) fn of<'a, D>(value: &Val<'a, D>) -> Option<Self> {
        Some(match value {
            Val::Bool(value) => Self::Bool(*value),
            Val::Int(value) => Self::Number(i128::from(*value)),
            Val::Uint(value) => Self::Number(i128::from(*value)),
            Val::Double(value) if value.fract() == 0.0 && value.abs() < 1e19 => Self::Number(*value as i128),
            Val::Text(Text::Shared(text)) => Self::Text(Arc::clone(text)),
            Val::Text(text) => Self::Text((&**text).into()),
            _ => return None,
        })
    }
}

impl Const {
    /// Converts the constant to a value over any data.
    pub(crate) fn lift<'a, D: Data<'a>>(&'a self) -> Val<'a, D> {
        map::lift(self)
    }
}

impl<'a, D: Data<'a>> Val<'a, D> {
    /// A computed string.
    pub fn text(text: impl Into<Arc<str>>) -> Self {
        Self::Text(Text::Shared(text.into()))
    }

    /// A computed list.
    pub fn list(items: Vec<Self>) -> Self {
        Self::List(List::made(items))
    }

    pub(crate) fn some(value: Self) -> Self {
        Self::Optional(Some(Arc::new(value)))
    }

    /// Name of the type.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::Text(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Optional(_) => "optional_type",
            Self::Type(_) => "type",
            Self::Quantity(_) => "kubernetes.Quantity",
            Self::Ip(_) => "net.IP",
            Self::Cidr(..) => "net.CIDR",
            Self::Url(_) => "kubernetes.URL",
            Self::Semver(_) => "kubernetes.Semver",
            Self::Format(_) => "kubernetes.NamedFormat",
            Self::Unknown(_) => "unknown",
        }
    }

    /// Size of the value for costs.
    pub fn size(&self) -> Option<u64> {
        Some(match self {
            Self::Text(text) => text.chars().count() as u64,
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::List(list) => list.len() as u64,
            Self::Map(map) => map.len() as u64,
            Self::Ip(IpAddr::V4(_)) => 4,
            Self::Ip(IpAddr::V6(_)) => 16,
            Self::Cidr(_, bits) => u64::from(bits.div_ceil(8)),
            _ => return None,
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Bool(value) => !value,
            Self::Int(value) | Self::Duration(value) => *value == 0,
            Self::Uint(value) => *value == 0,
            Self::Double(value) => *value == 0.0,
            Self::Text(text) => text.is_empty(),
            Self::Bytes(bytes) => bytes.is_empty(),
            Self::Timestamp(time) => time.is_zero(),
            // Lists and maps of objects do not know whether they are empty.
            Self::List(list) => !list.is_of_object() && list.len() == 0,
            Self::Map(Map::Data(_)) if D::IS_TYPED => false,
            Self::Map(map) => map.len() == 0,
            Self::Optional(value) => value.is_none(),
            _ => false,
        }
    }

    /// Equality.
    ///
    /// # Errors
    /// The values cannot be compared, or the budget is exceeded.
    pub(crate) fn equals(&self, other: &Self, budget: &Budget) -> Result<bool> {
        self.equals_at(other, budget, 0)
    }

    /// The same, at a depth of the compared values.
    ///
    /// # Errors
    /// The same.
    pub fn equals_at(&self, other: &Self, budget: &Budget, depth: usize) -> Result<bool> {
        budget.step(1)?;
        if !D::IS_TYPED {
            budget.step(self.steps() + other.steps())?;
            if depth > MAX_DEPTH {
                return Err(Fault::error("cannot compare values nested deeper than 64 levels"));
            }
        }
        Ok(match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Null, _) | (_, Self::Null) => false,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Text(a), Self::Text(b)) => **a == **b,
            (Self::Bytes(a), Self::Bytes(b)) => a == b,
            (Self::Duration(a), Self::Duration(b)) => a == b,
            (Self::Timestamp(a), Self::Timestamp(b)) => a == b,
            (Self::Type(a), Self::Type(b)) => a == b,
            (Self::List(a), Self::List(b)) => return a.equals(b, budget, depth + 1),
            (Self::Map(a), Self::Map(b)) => return a.equals(b, budget, depth + 1),
            (Self::Optional(a), Self::Optional(b)) => match (a, b) {
                (None, None) => true,
                (Some(a), Some(b)) => return a.equals_at(b, budget, depth + 1),
                _ => false,
            },
            (Self::Quantity(a), Self::Quantity(b)) => a == b,
            (Self::Ip(a), Self::Ip(b)) => a == b,
            (Self::Cidr(a, n), Self::Cidr(b, m)) => a == b && n == m,
            (Self::Url(a), Self::Url(b)) => a.text == b.text,
            (Self::Semver(a), Self::Semver(b)) => a.order(b) == Ordering::Equal,
            (Self::Format(a), Self::Format(b)) => a.name == b.name,
            (Self::Unknown(a), Self::Unknown(b)) => a.is_same(*b),
            (Self::Map(Map::Data(_)), _) if D::IS_TYPED => return Err(Fault::no_overload()),
            (Self::List(list), _) if list.is_of_object() => return Err(Fault::no_overload()),
            (
                Self::Quantity(_)
                | Self::Ip(_)
                | Self::Cidr(..)
                | Self::Url(_)
                | Self::Semver(_)
                | Self::Format(_),
                _,
            ) => return Err(Fault::no_overload()),
            (a, b) => matches!(a.order(b), Ok(Ordering::Equal)),
        })
    }

    /// Memory of the value, including its first level of elements.
    pub(crate) fn room(&self) -> usize {
        let text = |value: &Self| match value {
            Self::Text(Text::Shared(text)) => 32 + text.len(),
            Self::Bytes(bytes) => 32 + bytes.len(),
            _ => 0,
        };
        match self {
            Self::List(List { items: Items::Made(items), .. }) => {
                items.iter().map(|item| 32 + text(item)).sum()
            }
            Self::Map(Map::Made(map)) => map.values().map(|(_, value)| 64 + text(value)).sum(),
            value => text(value),
        }
    }

    /// The integer value of any integer type.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(*value),
            Self::Uint(value) => i64::try_from(*value).ok(),
            // Integers below 2^53 are exact.
            Self::Double(value) => (value.fract() == 0.0 && value.abs() < 9e15).then_some(*value as i64),
            _ => None,
        }
    }

    /// Steps to traverse the value, if that is not free.
    pub fn steps(&self) -> u64 {
        match self {
            Self::Text(text) => text.len() as u64 / 256,
            Self::List(list) => list.steps(),
            Self::Map(map) => map.steps(),
            _ => 0,
        }
    }

    /// Order of numbers, strings, times and other comparable types.
    pub(crate) fn order(&self, other: &Self) -> Result<Ordering> {
        let nan = || Fault::error("NaN values cannot be ordered");
        Ok(match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => a.cmp(b),
            (Self::Int(a), Self::Int(b)) | (Self::Duration(a), Self::Duration(b)) => a.cmp(b),
            (Self::Uint(a), Self::Uint(b)) => a.cmp(b),
            (Self::Int(a), Self::Uint(b)) => i128::from(*a).cmp(&i128::from(*b)),
            (Self::Uint(a), Self::Int(b)) => i128::from(*a).cmp(&i128::from(*b)),
            (Self::Double(a), Self::Double(b)) => a.partial_cmp(b).ok_or_else(nan)?,
            (Self::Int(a), Self::Double(b)) => (*a as f64).partial_cmp(b).ok_or_else(nan)?,
            (Self::Double(a), Self::Int(b)) => a.partial_cmp(&(*b as f64)).ok_or_else(nan)?,
            (Self::Uint(a), Self::Double(b)) => (*a as f64).partial_cmp(b).ok_or_else(nan)?,
            (Self::Double(a), Self::Uint(b)) => a.partial_cmp(&(*b as f64)).ok_or_else(nan)?,
            (Self::Text(a), Self::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
            (Self::Bytes(a), Self::Bytes(b)) => a.cmp(b),
            (Self::Timestamp(a), Self::Timestamp(b)) => a.order().cmp(&b.order()),
            _ => return Err(Fault::no_overload()),
        })
    }

    /// Cost of traversing the whole value.
    pub(crate) fn traversal(&self, budget: &Budget) -> Result<u64> {
        budget.step(1)?;
        Ok(match self {
            Self::Text(text) => (text.len() as f64 * 0.1) as u64,
            Self::Bytes(bytes) => (bytes.len() as f64 * 0.1) as u64,
            Self::List(list) => {
                let mut cost = 0;
                for item in list.iter() {
                    cost += item.map_or(Ok(1), |item| item.traversal(budget))?;
                }
                cost
            }
            Self::Map(map) => {
                let mut cost = 0;
                for key in map.keys() {
                    cost += key.traversal(budget)?;
                    cost += map.find(&key).ok().flatten().map_or(Ok(1), |value| value.traversal(budget))?;
                }
                cost
            }
            _ => 1,
        })
    }

    /// The result of `string()`; `None` if there is no conversion.
    pub(crate) fn plain_text(&self) -> Result<Option<String>> {
        Ok(Some(match self {
            Self::Bool(value) => value.to_string(),
            Self::Int(value) => value.to_string(),
            Self::Uint(value) => value.to_string(),
            Self::Double(value) => double_text(*value, 6),
            Self::Text(text) => text.to_string(),
            Self::Bytes(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => text.to_owned(),
                Err(_) => return Err(Fault::error("invalid UTF-8 in bytes, cannot convert to string")),
            },
            Self::Duration(nanos) => duration_text(*nanos),
            Self::Timestamp(time) => time.text(),
            Self::Ip(address) => address.to_string(),
            Self::Cidr(address, bits) => format!("{address}/{bits}"),
            Self::Type(name) => name.to_string(),
            _ => return Ok(None),
        }))
    }

    /// The text form of library types, such as `1.5Gi` and `10.0.0.1`.
    pub fn shown(&self) -> Option<String> {
        match self {
            Self::Quantity(amount) => Some(amount.as_approximate_float64().to_string()),
            Self::Url(url) => Some(url.text.clone()),
            value => value.plain_text().ok().flatten(),
        }
    }
}

/// Formats seconds as Go, without an exponent.
fn duration_text(nanos: i64) -> String {
    format!("{}s", (nanos / 1_000_000_000) as f64 + (nanos % 1_000_000_000) as f64 / 1e9)
}

/// Formats a number as Go: `%g` uses an exponent from 6 digits on, `%v` from 21.
pub(crate) fn double_text(value: f64, limit: i32) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value < 0.0 { "-Inf" } else { "+Inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if exponent < -4 || exponent >= limit {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.abs());
    }
    format!("{value}")
}

/// Formats values as in cel-go's messages.
impl<'a, D: Data<'a>> fmt::Display for Val<'a, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("NULL_VALUE"),
            Self::Bool(value) => value.fmt(f),
            Self::Int(value) => value.fmt(f),
            Self::Uint(value) => value.fmt(f),
            Self::Double(value) => f.write_str(&double_text(*value, 21)),
            Self::Text(text) => f.write_str(text),
            Self::Type(name) => f.write_str(name),
            Self::Timestamp(time) => f.write_str(&time.text()),
            other => f.write_str(other.type_name()),
        }
    }
}
