//! Typed decoding of built-in kinds, as Go does it: unknown fields and omitted zeros dropped, quantities and times in canonical
//! form.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value};
use settled_apimachinery::quantity::Quantity;

use super::BuiltinKind;
use super::packages::{self, Absent};
use super::plan::{Node, Shape, node, zero};

/// What decoding found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Decoded {
    /// The paths of fields that the kind doesn't have: `spec.template.spec.containers[0].imagee`. They are gone.
    pub(crate) unknown: Vec<String>,
    /// Why Go couldn't have decoded it: upstream's text, for `... cannot be handled as a Deployment: TEXT`. The first one.
    pub(crate) error: Option<String>,
}

/// Makes an object what it is to Go: see the module. What is not decodable stays as it is.
pub(crate) fn decode(kind: &BuiltinKind, object: &mut Value) -> Decoded {
    decode_component(kind.schema_name, object)
}

/// As [`decode`], for a type by the name of its schema.
pub(crate) fn decode_component(component: &str, object: &mut Value) -> Decoded {
    run(component, object, false)
}

/// As [`decode`], with the errors of upstream's way from a map to a type, which is that of strategic merge.
pub(crate) fn decode_map(kind: &BuiltinKind, object: &mut Value) -> Decoded {
    run(kind.schema_name, object, true)
}

fn run(component: &str, object: &mut Value, map: bool) -> Decoded {
    let mut decoder = Decoder { found: Decoded::default(), map };
    let node = node(component);
    match object {
        Value::Object(map) => decoder.fields(map, &node, &Place::Root),
        other => decoder.mismatch(other, &Place::Root, "", node.name()),
    }
    decoder.found
}

/// No more unknown fields than this are listed.
const LISTED: usize = 100;

struct Decoder {
    found: Decoded,
    /// Errors are those of Go's way from a map to a type, without JSON between them.
    map: bool,
}

/// Where a value is. Its text is made for errors only.
enum Place<'a> {
    Root,
    Field(&'a Self, &'a str),
    /// A value of a map.
    Key(&'a Self, &'a str),
    /// An item of a list.
    Item(&'a Self, usize),
}

impl Place<'_> {
    /// The whole path, with the indices of lists and the keys of maps.
    fn path(&self) -> String {
        match self {
            Self::Root => String::new(),
            Self::Field(Self::Root, name) => (*name).to_owned(),
            Self::Field(above, name) | Self::Key(above, name) => format!("{}.{name}", above.path()),
            Self::Item(above, index) => format!("{}[{index}]", above.path()),
        }
    }

    /// The path without indices and keys, as Go's errors have it.
    fn fields(&self) -> String {
        match self {
            Self::Root => String::new(),
            Self::Field(above, name) => match above.fields() {
                above if above.is_empty() => (*name).to_owned(),
                above => format!("{above}.{name}"),
            },
            Self::Key(above, _) | Self::Item(above, _) => above.fields(),
        }
    }
}

impl Decoder {
    fn fields(&mut self, map: &mut Map<String, Value>, node: &Node, place: &Place<'_>) {
        map.retain(|name, value| {
            let here = Place::Field(place, name);
            match node.fields.get(name) {
                None => {
                    if self.found.unknown.len() < LISTED {
                        self.found.unknown.push(here.path());
                    }
                    false
                }
                Some(_) if value.is_null() => false,
                Some(field) => {
                    self.value(value, &field.shape, &here, node, name);
                    // None at all are a demand to forget all.
                    name == "managedFields" || !as_good_as_absent(value, &field.shape, field.absent)
                }
            }
        });
    }

    /// A value of a field, or of what is inside of it.
    fn value(&mut self, value: &mut Value, shape: &Shape, place: &Place<'_>, node: &Node, field: &str) {
        match (shape, value) {
            // What is left of a null among items or values: Go's zero is null too.
            (_, Value::Null)
            | (Shape::Any(_), _)
            | (Shape::String, Value::String(_))
            | (Shape::Boolean, Value::Bool(_))
            | (Shape::Number, Value::Number(_))
            | (Shape::IntOrString, Value::String(_)) => {}
            (Shape::Integer { wide }, Value::Number(number)) => {
                let fits = number.as_i64().is_some_and(|n| *wide || i32::try_from(n).is_ok());
                if !fits {
                    let name = if *wide { "int64" } else { "int32" };
                    self.fail(format!(
                        "json: cannot unmarshal number {number} into Go struct field {}.{} of type {name}",
                        node.name(),
                        place.fields()
                    ));
                }
            }
            (Shape::IntOrString, Value::Number(number)) => {
                if number.as_i64().is_none_or(|n| i32::try_from(n).is_err()) {
                    self.fail(format!("json: cannot unmarshal number {number} into Go value of type int32"));
                }
            }
            (Shape::Bytes, Value::String(text)) => {
                if let Err(error) = settled_go::base64::STANDARD.decode(text) {
                    self.fail(error.to_string());
                }
            }
            (Shape::Bytes, value @ Value::Array(_)) => self.byte_by_byte(value, place, node.name()),
            (Shape::Time, Value::String(text)) => self.time(text, false),
            (Shape::MicroTime, Value::String(text)) => self.time(text, true),
            (Shape::Quantity, value) => self.quantity(value, false),
            (Shape::Struct(link), Value::Object(map)) => self.fields(map, link.node(), place),
            (Shape::Map(values), Value::Object(map)) => {
                for (name, value) in map.iter_mut() {
                    if value.is_null() {
                        *value = zero(values);
                    }
                    match (&**values, &mut *value) {
                        // Resource lists are rounded to thousandths.
                        (Shape::Quantity, value) => self.quantity(value, true),
                        (shape, value) => {
                            self.value(value, shape, &Place::Key(place, name), node, field);
                        }
                    }
                }
            }
            (Shape::List(items), Value::Array(list)) => {
                for (index, item) in list.iter_mut().enumerate() {
                    if item.is_null() {
                        *item = zero(items);
                    }
                    self.value(item, items, &Place::Item(place, index), node, field);
                }
            }
            (shape, value) => {
                let named = packages::go_type(&node.component, field);
                // The name is the field's: what a list of such holds has the rest of it.
                let named = match shape {
                    Shape::List(_) => named.map(str::to_owned),
                    Shape::String | Shape::Integer { .. } | Shape::Boolean | Shape::Number => {
                        named.map(|name| name.trim_start_matches("[]").to_owned())
                    }
                    _ => None,
                };
                let wanted = named.unwrap_or_else(|| shape.go_type());
                if self.map {
                    return self.fail(from_map(value, shape));
                }
                self.mismatch(value, place, node.name(), &wanted);
            }
        }
    }

    /// Go takes bytes as a list of numbers too.
    fn byte_by_byte(&mut self, value: &mut Value, place: &Place<'_>, within: &str) {
        let mut bytes = Vec::new();
        for item in value.as_array().into_iter().flatten() {
            match item.as_u64().and_then(|number| u8::try_from(number).ok()) {
                Some(byte) => bytes.push(byte),
                None if item.is_null() => bytes.push(0),
                None if self.map => return self.fail("unrecognized type: uint8".to_owned()),
                None if item.is_number() => {
                    let place = place.fields();
                    return self.fail(format!(
                        "json: cannot unmarshal number {item} into Go struct field {within}.{place} of type uint8"
                    ));
                }
                None => return self.mismatch(item, place, within, "uint8"),
            }
        }
        *value = BASE64_STANDARD.encode(bytes).into();
    }

    fn fail(&mut self, text: String) {
        self.found.error.get_or_insert(text);
    }

    fn mismatch(&mut self, value: &Value, place: &Place<'_>, within: &str, wanted: &str) {
        let given = match value {
            Value::Null => "null",
            Value::Bool(_) => "bool",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        let text = if within.is_empty() {
            format!("json: cannot unmarshal {given} into Go value of type {wanted}")
        } else {
            format!(
                "json: cannot unmarshal {given} into Go struct field {within}.{} of type {wanted}",
                place.fields()
            )
        };
        self.fail(text);
    }

    fn quantity(&mut self, value: &mut Value, milli: bool) {
        let text = match &*value {
            Value::String(text) => text.trim().to_owned(),
            other => other.to_string(),
        };
        match Quantity::parse(&text) {
            Ok(mut quantity) => {
                if milli {
                    quantity.round_up(-3);
                }
                *value = quantity.to_string().into();
            }
            Err(error) => self.fail(error.to_string()),
        }
    }

    fn time(&mut self, text: &mut String, micro: bool) {
        let fraction =
            text.split_once('.').map(|(_, rest)| rest.bytes().take_while(u8::is_ascii_digit).count());
        let layout = if micro { "2006-01-02T15:04:05.000000Z07:00" } else { "2006-01-02T15:04:05Z07:00" };
        let format = if micro { "%Y-%m-%dT%H:%M:%S.%6fZ" } else { "%Y-%m-%dT%H:%M:%SZ" };
        let why = match text.parse::<jiff::Timestamp>() {
            // Microseconds have to be there, all six.
            Ok(_) if micro && fraction != Some(6) => {
                Some((text.get(19..).unwrap_or_default().to_owned(), ".000000"))
            }
            Ok(time) if text.get(10..11) == Some("T") => {
                // Mostly it is in this form already. Second 60 is read as 59.
                let is_canonical = text.len() == if micro { 27 } else { 20 }
                    && text.ends_with('Z')
                    && text.get(17..19) != Some("60");
                if !is_canonical {
                    *text = time.strftime(format).to_string();
                }
                return;
            }
            _ => misfit(text),
        };
        let (rest, wanted) = why.unwrap_or_else(|| (text.clone(), "2006"));
        self.fail(format!("parsing time {text:?} as \"{layout}\": cannot parse {rest:?} as \"{wanted}\""));
    }
}

/// Why Go can't make a type of a value that was not read from JSON (`apimachinery/pkg/runtime/converter.go`).
fn from_map(value: &Value, shape: &Shape) -> String {
    let given = match value {
        Value::Null => "invalid",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
    };
    match shape {
        Shape::Struct(_) => format!("cannot restore struct from: {given}"),
        Shape::List(_) => format!("cannot restore slice from {given}"),
        Shape::Map(_) => format!("cannot restore map from {given}"),
        // Go converts numbers to strings, and upstream does not want it to.
        Shape::String if given == "int64" => format!("cannot convert {given} to string"),
        scalar => format!("unrecognized type: {}", scalar.go_type()),
    }
}

/// Where a text ends to be a time, and what should be there.
fn misfit(text: &str) -> Option<(String, &'static str)> {
    let mut rest = text;
    for part in ["2006", "-", "01", "-", "02", "T", "15", ":", "04", ":", "05"] {
        let found = rest.get(..part.len()).unwrap_or_default();
        let fits = if part.starts_with(|c: char| c.is_ascii_digit()) {
            found.len() == part.len() && found.bytes().all(|byte| byte.is_ascii_digit())
        } else {
            found == part
        };
        if !fits {
            return Some((rest.to_owned(), part));
        }
        rest = rest.get(part.len()..).unwrap_or_default();
    }
    let digits =
        rest.strip_prefix('.').map_or(rest, |rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()));
    Some((digits.to_owned(), "Z07:00"))
}

fn as_good_as_absent(value: &Value, shape: &Shape, absent: Option<Absent>) -> bool {
    match (shape, value) {
        // One that Go writes even if there is none was still said: it has an owner.
        (Shape::List(_), Value::Array(items)) => items.is_empty() && absent != Some(Absent::Null),
        (Shape::Map(_), Value::Object(map)) => map.is_empty(),
        (Shape::Bytes, Value::String(text)) => text.is_empty(),
        (Shape::Any(_) | Shape::Struct(_), _) => false,
        (shape, value) => {
            matches!(absent, Some(Absent::Drop | Absent::Zero | Absent::Quantity)) && *value == zero(shape)
        }
    }
}
