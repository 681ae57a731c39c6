//! What expressions compute with. Objects are not copied: their values are read where they lie, by their schema.

use std::cell::Cell;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;

use serde_json::Value;
use settled_go::base64;
use settled_go::fmt::type_name;

use crate::names::Format;
use crate::net::Url;
use crate::quantity::Quantity;
use crate::schema::{Schema, escape, unescape};
use crate::semver::Semver;
use crate::time::{self, Timestamp};

/// Why there is no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Error(Arc<str>),
    /// It would cost more than it may.
    Limit,
    /// What upstream runs into by mistake: no other side of `||` makes up for it.
    Internal,
}

impl Fault {
    pub(crate) fn error(text: impl Into<Arc<str>>) -> Self {
        Self::Error(text.into())
    }

    /// Whether it ends the expression, whatever else there is.
    pub(crate) fn is_final(&self) -> bool {
        matches!(self, Self::Limit | Self::Internal)
    }

    pub(crate) fn no_overload() -> Self {
        Self::error("no such overload")
    }
}

pub(crate) type Result<T, E = Fault> = std::result::Result<T, E>;

/// Bounds work that costs nothing: values may share their parts, so that going over them takes exponential time.
#[derive(Debug)]
pub(crate) struct Meter(Cell<u64>);

impl Meter {
    pub(crate) const fn new() -> Self {
        Self(Cell::new(20_000_000))
    }

    pub(crate) fn step(&self, steps: u64) -> Result<()> {
        self.0.set(self.0.get().checked_sub(steps).ok_or(Fault::Limit)?);
        Ok(())
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Text<'a> {
    Borrowed(&'a str),
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

#[derive(Clone, Debug)]
pub(crate) enum Items<'a> {
    Raw(&'a [Value], &'a Schema),
    Made(Arc<Vec<Val<'a>>>),
}

/// How lists compare and add up, by `x-kubernetes-list-type`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ListKind<'a> {
    /// Made by an expression.
    Plain,
    Atomic,
    Set,
    Keyed(&'a [String]),
}

#[derive(Clone, Debug)]
pub(crate) struct List<'a> {
    pub(crate) items: Items<'a>,
    pub(crate) kind: ListKind<'a>,
}

/// What maps are looked up by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    Bool(bool),
    Number(i128),
    Text(Arc<str>),
}

#[derive(Clone, Debug)]
pub(crate) enum Map<'a> {
    Raw(&'a serde_json::Map<String, Value>, &'a Schema),
    /// The value with the key as it was written.
    Made(Arc<BTreeMap<Key, (Val<'a>, Val<'a>)>>),
}

#[derive(Clone, Debug)]
pub(crate) enum Val<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(Text<'a>),
    Bytes(Arc<[u8]>),
    Duration(i64),
    Timestamp(Timestamp),
    List(List<'a>),
    Map(Map<'a>),
    Optional(Option<Arc<Self>>),
    Type(Arc<str>),
    Quantity(Quantity),
    Ip(IpAddr),
    Cidr(IpAddr, u8),
    Url(Arc<Url>),
    Semver(Arc<Semver>),
    Format(&'static Format),
    /// What no schema describes.
    Unknown(&'a Value),
}

/// A value of an object, by its schema.
pub(crate) fn of_object<'a>(value: &'a Value, schema: &'a Schema) -> Result<Val<'a>> {
    if value.is_null() {
        return if schema.nullable {
            Ok(Val::Null)
        } else {
            Err(Fault::error("invalid data, got null for schema with nullable=false"))
        };
    }
    if schema.int_or_string {
        return match value {
            Value::String(text) => Ok(Val::Text(Text::Borrowed(text))),
            Value::Number(number) if number.is_i64() => Ok(Val::Int(number.as_i64().unwrap_or_default())),
            _ => Err(Fault::error(
                "invalid data, expected XIntOrString value to be either a string or integer",
            )),
        };
    }
    let wrong = |text: String| Err(Fault::error(text));
    match (schema.type_.as_str(), value) {
        ("object", Value::Object(map)) => {
            Ok(Val::Map(Map::Raw(map, schema.as_resource.as_deref().unwrap_or(schema))))
        }
        ("object", _) => {
            wrong("invalid data, expected a map for the provided schema with type=object".to_owned())
        }
        ("array", Value::Array(list)) => {
            let Some(items) = &schema.items else {
                return wrong("invalid array type, expected Items with a non-empty Schema".to_owned());
            };
            let kind = match schema.list_type.as_deref() {
                Some("map") => ListKind::Keyed(&schema.list_keys),
                Some("set") => ListKind::Set,
                _ => ListKind::Atomic,
            };
            Ok(Val::List(List { items: Items::Raw(list, items), kind }))
        }
        ("array", _) => {
            wrong("invalid data, expected an array for the provided schema with type=array".to_owned())
        }
        ("string", Value::String(text)) => match schema.format.as_str() {
            "duration" => match time::parse_long_duration(text) {
                Some(duration) => Ok(Val::Duration(duration)),
                None => wrong(format!("Invalid duration {text}: unable to parse {text} as duration")),
            },
            "date" => match time::parse_date(text) {
                Some(date) => Ok(Val::Timestamp(date)),
                None => wrong(format!("Invalid date formatted string {text}: cannot parse {text}")),
            },
            "date-time" => match time::parse_date_time(text) {
                Some(time) => Ok(Val::Timestamp(time)),
                None => wrong(format!("Invalid date-time formatted string {text}: cannot parse {text}")),
            },
            // `strfmt.Base64` reads the alphabet of URLs.
            "byte" => match base64::URL_SAFE.decode(text) {
                Ok(bytes) => Ok(Val::Bytes(bytes.into())),
                Err(error) => wrong(format!("Invalid byte formatted string {text}: {error}")),
            },
            _ => Ok(Val::Text(Text::Borrowed(text))),
        },
        ("string", other) => wrong(format!("invalid data, expected string, got {}", type_name(other))),
        ("number", Value::Number(number)) => Ok(Val::Double(number.as_f64().unwrap_or_default())),
        ("number", other) => wrong(format!("invalid data, expected float, got {}", type_name(other))),
        ("integer", Value::Number(number)) if number.is_i64() => {
            Ok(Val::Int(number.as_i64().unwrap_or_default()))
        }
        ("integer", other) => wrong(format!("invalid data, expected int, got {}", type_name(other))),
        ("boolean", Value::Bool(value)) => Ok(Val::Bool(*value)),
        ("boolean", other) => wrong(format!("invalid data, expected bool, got {}", type_name(other))),
        _ if schema.preserve_unknown => Ok(Val::Unknown(value)),
        (type_, _) => wrong(format!(
            "invalid type, expected object, array, number, integer, boolean or string, or no type with \
             x-kubernetes-int-or-string or x-kubernetes-preserve-unknown-fields is true, got {type_}"
        )),
    }
}

impl Key {
    pub(crate) fn of(value: &Val<'_>) -> Option<Self> {
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

impl<'a> List<'a> {
    pub(crate) fn made(items: Vec<Val<'a>>) -> Self {
        Self { items: Items::Made(Arc::new(items)), kind: ListKind::Plain }
    }

    pub(crate) fn len(&self) -> usize {
        match &self.items {
            Items::Raw(items, _) => items.len(),
            Items::Made(items) => items.len(),
        }
    }

    pub(crate) fn get(&self, at: usize) -> Option<Result<Val<'a>>> {
        match &self.items {
            Items::Raw(items, schema) => items.get(at).map(|item| of_object(item, schema)),
            Items::Made(items) => items.get(at).cloned().map(Ok),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Result<Val<'a>>> + '_ {
        (0..self.len()).filter_map(|at| self.get(at))
    }

    /// Whether it is of an object: then it also compares as one.
    fn is_of_object(&self) -> bool {
        !matches!(self.kind, ListKind::Plain)
    }

    pub(crate) fn contains(&self, value: &Val<'a>, meter: &Meter) -> Result<bool> {
        let mut fault = None;
        for item in self.iter() {
            match item.and_then(|item| item.equals(value, meter)) {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(Fault::Limit) => return Err(Fault::Limit),
                Err(error) => fault = fault.or(Some(error)),
            }
        }
        fault.map_or(Ok(false), Err)
    }

    pub(crate) fn plus(&self, other: &Self, meter: &Meter) -> Result<Self> {
        meter.step((self.len() + other.len()) as u64)?;
        let mut items = self.iter().collect::<Result<Vec<_>>>()?;
        match self.kind {
            ListKind::Plain | ListKind::Atomic => items.extend(other.iter().collect::<Result<Vec<_>>>()?),
            ListKind::Set => {
                let mut known: std::collections::BTreeSet<Key> = items.iter().filter_map(Key::of).collect();
                for item in other.iter() {
                    let item = item?;
                    if Key::of(&item).is_none_or(|key| known.insert(key)) {
                        items.push(item);
                    }
                }
            }
            ListKind::Keyed(keys) => {
                let mut places: BTreeMap<String, usize> = BTreeMap::new();
                for (at, item) in items.iter().enumerate() {
                    places.insert(list_key(item, keys), at);
                }
                for item in other.iter() {
                    let item = item?;
                    match places.get(&list_key(&item, keys)).and_then(|at| items.get_mut(*at)) {
                        Some(place) => *place = item,
                        None => items.push(item),
                    }
                }
            }
        }
        Ok(Self { items: Items::Made(Arc::new(items)), kind: self.kind })
    }

    fn equals(&self, other: &Self, meter: &Meter) -> Result<bool> {
        if self.len() != other.len() {
            return Ok(false);
        }
        match self.kind {
            ListKind::Plain | ListKind::Atomic => {
                for (a, b) in self.iter().zip(other.iter()) {
                    match a.and_then(|a| a.equals(&b?, meter)) {
                        Ok(true) => {}
                        // A list that an expression made takes what can't be compared for equal, as cel-go does.
                        Err(Fault::Error(_)) if !self.is_of_object() => {}
                        other => return other,
                    }
                }
                Ok(true)
            }
            ListKind::Set => {
                let known: std::collections::BTreeSet<Key> =
                    self.iter().filter_map(|item| Key::of(&item.ok()?)).collect();
                for item in other.iter() {
                    if Key::of(&item?).is_none_or(|key| !known.contains(&key)) {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            ListKind::Keyed(keys) => {
                let mut mine = BTreeMap::new();
                for item in self.iter() {
                    let item = item?;
                    mine.insert(list_key(&item, keys), item);
                }
                for item in other.iter() {
                    let item = item?;
                    let Some(same) = mine.get(&list_key(&item, keys)) else { return Ok(false) };
                    if !same.equals(&item, meter)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
        }
    }
}

/// What tells apart the elements of a list of type `map`.
fn list_key(item: &Val<'_>, keys: &[String]) -> String {
    let mut text = String::new();
    for key in keys {
        // Upstream looks the escaped name up in the plain object.
        let name = escape(key).unwrap_or_else(|| key.clone());
        let part = match item {
            Val::Map(Map::Raw(map, _)) => map.get(&name).map(Value::to_string),
            _ => None,
        };
        let _ = write!(text, "{}\u{0}", part.unwrap_or_default());
    }
    text
}

impl<'a> Map<'a> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Raw(map, _) => map.len(),
            Self::Made(map) => map.len(),
        }
    }

    pub(crate) fn find(&self, key: &Val<'_>) -> Result<Option<Val<'a>>> {
        match self {
            Self::Raw(map, schema) => {
                let Val::Text(key) = key else { return Err(Fault::no_overload()) };
                match &schema.properties {
                    Some(properties) => {
                        let Some(name) = unescape(key) else { return Ok(None) };
                        match (map.get(&*name), properties.get(&*name)) {
                            (Some(value), Some(schema)) if !value.is_null() => {
                                of_object(value, schema).map(Some)
                            }
                            _ => Ok(None),
                        }
                    }
                    None => match (map.get(&**key), &schema.additional) {
                        (Some(value), Some(schema)) => of_object(value, schema).map(Some),
                        _ => Ok(None),
                    },
                }
            }
            Self::Made(map) => {
                let Some(key) = Key::of(key) else { return Ok(None) };
                Ok(map.get(&key).map(|(_, value)| value.clone()))
            }
        }
    }

    pub(crate) fn keys(&self) -> Vec<Val<'a>> {
        match self {
            Self::Raw(map, schema) => {
                let is_object = schema.properties.is_some();
                let known = map.keys().filter(|name| is_object_key(name, schema));
                known
                    .map(|name| match escape(name).filter(|_| is_object) {
                        Some(escaped) => Val::Text(Text::Shared(escaped.into())),
                        None => Val::Text(Text::Borrowed(name)),
                    })
                    .collect()
            }
            Self::Made(map) => map.values().map(|(key, _)| key.clone()).collect(),
        }
    }

    fn equals(&self, other: &Self, meter: &Meter) -> Result<bool> {
        if self.len() != other.len() {
            return Ok(false);
        }
        match self {
            Self::Raw(map, schema) => {
                for (name, value) in *map {
                    if is_object_key(name, schema) {
                        let key = Val::Text(Text::Borrowed(name));
                        match (self.find(&key)?, other.find(&key)?) {
                            (None, None) => {}
                            (Some(a), Some(b)) if a.equals(&b, meter)? => {}
                            _ => return Ok(false),
                        }
                    } else {
                        let Self::Raw(other, _) = other else { return Err(Fault::no_overload()) };
                        if other.get(name).is_some_and(|other| other != value) {
                            return Ok(false);
                        }
                    }
                }
                Ok(true)
            }
            Self::Made(map) => {
                for (key, value) in map.values() {
                    let Some(found) = other.find(key)? else { return Ok(false) };
                    match value.equals(&found, meter) {
                        Ok(true) | Err(Fault::Error(_)) => {}
                        other => return other,
                    }
                }
                Ok(true)
            }
        }
    }
}

fn is_object_key(name: &str, schema: &Schema) -> bool {
    match &schema.properties {
        Some(properties) => properties.contains_key(name),
        None => schema.additional.is_some(),
    }
}

impl<'a> Val<'a> {
    pub(crate) fn text(text: impl Into<Arc<str>>) -> Self {
        Self::Text(Text::Shared(text.into()))
    }

    pub(crate) fn list(items: Vec<Self>) -> Self {
        Self::List(List::made(items))
    }

    pub(crate) fn some(value: Self) -> Self {
        Self::Optional(Some(Arc::new(value)))
    }

    pub(crate) fn type_name(&self) -> &'static str {
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

    /// What the value counts for in costs.
    pub(crate) fn size(&self) -> Option<u64> {
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
            // The lists and maps of objects do not say whether they are empty.
            Self::List(list) => !list.is_of_object() && list.len() == 0,
            Self::Map(Map::Made(map)) => map.is_empty(),
            Self::Optional(value) => value.is_none(),
            _ => false,
        }
    }

    pub(crate) fn equals(&self, other: &Self, meter: &Meter) -> Result<bool> {
        meter.step(1)?;
        Ok(match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Null, _) | (_, Self::Null) => false,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Text(a), Self::Text(b)) => **a == **b,
            (Self::Bytes(a), Self::Bytes(b)) => a == b,
            (Self::Duration(a), Self::Duration(b)) => a == b,
            (Self::Timestamp(a), Self::Timestamp(b)) => a == b,
            (Self::Type(a), Self::Type(b)) => a == b,
            (Self::List(a), Self::List(b)) => return a.equals(b, meter),
            (Self::Map(a), Self::Map(b)) => return a.equals(b, meter),
            (Self::Optional(a), Self::Optional(b)) => match (a, b) {
                (None, None) => true,
                (Some(a), Some(b)) => return a.equals(b, meter),
                _ => false,
            },
            (Self::Quantity(a), Self::Quantity(b)) => a.order(*b) == Ordering::Equal,
            (Self::Ip(a), Self::Ip(b)) => a == b,
            (Self::Cidr(a, n), Self::Cidr(b, m)) => a == b && n == m,
            (Self::Url(a), Self::Url(b)) => a.text == b.text,
            (Self::Semver(a), Self::Semver(b)) => a.order(b) == Ordering::Equal,
            (Self::Format(a), Self::Format(b)) => a.name == b.name,
            (Self::Unknown(a), Self::Unknown(b)) => a == b,
            (Self::Map(Map::Raw(..)), _) => return Err(Fault::no_overload()),
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

    /// The order of numbers, texts, times and so on.
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

    /// What it costs to go over the whole value.
    pub(crate) fn traversal(&self, meter: &Meter) -> Result<u64> {
        meter.step(1)?;
        Ok(match self {
            Self::Text(text) => (text.len() as f64 * 0.1) as u64,
            Self::Bytes(bytes) => (bytes.len() as f64 * 0.1) as u64,
            Self::List(list) => {
                let mut cost = 0;
                for item in list.iter() {
                    cost += item.map_or(Ok(1), |item| item.traversal(meter))?;
                }
                cost
            }
            Self::Map(map) => {
                let mut cost = 0;
                for key in map.keys() {
                    cost += key.traversal(meter)?;
                    cost += map.find(&key).ok().flatten().map_or(Ok(1), |value| value.traversal(meter))?;
                }
                cost
            }
            _ => 1,
        })
    }
}

/// As Go writes a number: `%g` with a limit of 6, `%v` with one of 21 digits before it uses an exponent.
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

/// As cel-go shows values in its messages.
impl fmt::Display for Val<'_> {
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
