//! Values of an object with a schema, as CRD rules see them.

use std::fmt::Write;

use serde_json::Value;
use settled_go::base64;
use settled_go::fmt::type_name;

use super::data::Data;
use super::{List, ListKind, Map, Text, Val};
use crate::budget::{Budget, Fault, Result};
use crate::schema::{Schema, escape, unescape};
use crate::time;

/// A list or a map, and its schema.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Typed<'a> {
    value: &'a Value,
    schema: &'a Schema,
}

/// The elements of a list.
#[derive(Debug)]
pub(crate) struct Elements<'a> {
    items: std::slice::Iter<'a, Value>,
    schema: Option<&'a Schema>,
}

impl<'a> Iterator for Elements<'a> {
    type Item = Result<Val<'a, Typed<'a>>>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(of_object(self.items.next()?, self.schema?))
    }
}

impl<'a> Typed<'a> {
    fn member(self, name: &str) -> Option<&'a Value> {
        self.value.as_object()?.get(name)
    }

    fn is_object_key(self, name: &str) -> bool {
        match &self.schema.properties {
            Some(properties) => properties.contains_key(name),
            None => self.schema.additional.is_some(),
        }
    }
}

impl<'a> Data<'a> for Typed<'a> {
    const IS_TYPED: bool = true;

    type Items = Elements<'a>;

    fn count(self) -> usize {
        match self.value {
            Value::Array(list) => list.len(),
            Value::Object(map) => map.len(),
            _ => 0,
        }
    }

    fn items(self) -> Elements<'a> {
        let items = self.value.as_array().map_or(&[][..], Vec::as_slice);
        Elements { items: items.iter(), schema: self.schema.items.as_deref() }
    }

    fn item(self, index: usize) -> Option<Result<Val<'a, Self>>> {
        Some(of_object(self.value.as_array()?.get(index)?, self.schema.items.as_deref()?))
    }

    fn get(self, key: &str) -> Result<Option<Val<'a, Self>>> {
        match &self.schema.properties {
            Some(properties) => {
                let Some(name) = unescape(key) else { return Ok(None) };
                match (self.member(&name), properties.get(&*name)) {
                    (Some(value), Some(schema)) if !value.is_null() => of_object(value, schema).map(Some),
                    _ => Ok(None),
                }
            }
            None => match (self.member(key), &self.schema.additional) {
                (Some(value), Some(schema)) => of_object(value, schema).map(Some),
                _ => Ok(None),
            },
        }
    }

    fn keys(self) -> Vec<Text<'a>> {
        let is_object = self.schema.properties.is_some();
        let names = self.value.as_object().into_iter().flat_map(serde_json::Map::keys);
        names
            .filter(|name| self.is_object_key(name))
            .map(|name| match escape(name).filter(|_| is_object) {
                Some(escaped) => Text::Shared(escaped.into()),
                None => Text::Borrowed(name),
            })
            .collect()
    }

    fn list_kind(self) -> ListKind<'a> {
        match self.schema.list_type.as_deref() {
            Some("map") => ListKind::Keyed(&self.schema.list_keys),
            Some("set") => ListKind::Set,
            _ => ListKind::Atomic,
        }
    }

    fn list_key(self, keys: &[String]) -> String {
        let mut text = String::new();
        for key in keys {
            // Upstream looks up the escaped name in the plain object.
            let name = escape(key).unwrap_or_else(|| key.clone());
            let part = self.member(&name).map(Value::to_string);
            let _ = write!(text, "{}\u{0}", part.unwrap_or_default());
        }
        text
    }

    fn is_same(self, other: Self) -> bool {
        self.value == other.value
    }

    fn equals(self, other: &Map<'a, Self>, budget: &Budget, depth: usize) -> Result<bool> {
        for (name, value) in self.value.as_object().into_iter().flatten() {
            if self.is_object_key(name) {
                match (self.get(name)?, other.get(name)?) {
                    (None, None) => {}
                    (Some(a), Some(b)) if a.equals_at(&b, budget, depth)? => {}
                    _ => return Ok(false),
                }
            } else {
                let Map::Data(other) = other else { return Err(Fault::no_overload()) };
                if other.member(name).is_some_and(|other| other != value) {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}

/// Converts a value of an object by its schema.
pub(crate) fn of_object<'a>(value: &'a Value, schema: &'a Schema) -> Result<Val<'a, Typed<'a>>> {
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
        ("object", Value::Object(_)) => {
            let schema = schema.as_resource.as_deref().unwrap_or(schema);
            Ok(Val::Map(Map::Data(Typed { value, schema })))
        }
        ("object", _) => {
            wrong("invalid data, expected a map for the provided schema with type=object".to_owned())
        }
        ("array", Value::Array(_)) => {
            if schema.items.is_none() {
                return wrong("invalid array type, expected Items with a non-empty Schema".to_owned());
            }
            Ok(Val::List(List::of_data(Typed { value, schema })))
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
            // `strfmt.Base64` decodes the URL alphabet.
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
        _ if schema.preserve_unknown => Ok(Val::Unknown(Typed { value, schema })),
        (type_, _) => wrong(format!(
            "invalid type, expected object, array, number, integer, boolean or string, or no type with \
             x-kubernetes-int-or-string or x-kubernetes-preserve-unknown-fields is true, got {type_}"
        )),
    }
}
