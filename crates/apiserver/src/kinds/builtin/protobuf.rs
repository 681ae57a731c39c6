//! Protobuf messages of built-in kinds, decoded to the JSON that Go would write. The tables are those of [`plan`](super::plan).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Number, Value};

use super::packages::{self, Absent};
use super::plan::{Field, Free, Node, Numbers, Place, Shape, node, zero};
use super::wire::{Depth, Malformed, Reader, Wire};
use super::{KINDS, find};
use crate::decode;

type Fields = Map<String, Value>;

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
const JSON_SCHEMA: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";

/// What every body in protobuf begins with.
const MAGIC: &[u8] = b"k8s\0";

/// The schema of what is sent as a kind: a kind of its own, that of a subresource, or what every group version has.
pub(crate) fn component_of(api_version: &str, kind: &str) -> Option<String> {
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    if let Some(kind) = find(group, version, kind) {
        return Some(kind.schema_name.to_owned());
    }
    let of_subresource = KINDS
        .iter()
        .flat_map(|row| row.subresources)
        .any(|sub| sub.group == group && sub.version == version && sub.kind == kind);
    let component = match kind {
        "DeleteOptions" => format!("{META}.{kind}"),
        "Status" if api_version == "v1" => format!("{META}.{kind}"),
        _ if of_subresource => {
            let package = group.split('.').next().filter(|package| !package.is_empty()).unwrap_or("core");
            format!("io.k8s.api.{package}.{version}.{kind}")
        }
        _ => return None,
    };
    packages::component(&component).is_some().then_some(component)
}

/// Reads a message of a component.
fn message(component: &str, bytes: &[u8], depth: Depth) -> Result<Fields, Malformed> {
    let node = node(component);
    let mut fields = Fields::new();
    read(bytes, &node, &node.numbers, depth.below()?, &mut fields)?;
    Ok(fields)
}

/// Reads a message into fields that may be there already: a message that is given twice is one of both.
fn read(
    bytes: &[u8],
    node: &Node,
    numbers: &Numbers,
    depth: Depth,
    into: &mut Fields,
) -> Result<(), Malformed> {
    let mut reader = Reader::new(bytes, node.name());
    while let Some((number, wire)) = reader.field()? {
        match numbers.get(&number) {
            Some(Place::Inline(inner)) => read(wire.bytes("")?, node, inner, depth.below()?, into)?,
            Some(Place::Field(name)) => {
                if let Some(field) = node.fields.get(name) {
                    put(wire, name, field, depth, into)?;
                }
            }
            None => {}
        }
    }
    Ok(())
}

fn put(wire: Wire<'_>, name: &str, field: &Field, depth: Depth, into: &mut Fields) -> Result<(), Malformed> {
    match &field.shape {
        Shape::List(items) => {
            let list = into.entry(name).or_insert_with(|| Value::Array(Vec::new()));
            if let Value::Array(list) = list {
                item(wire, name, items, depth.below()?, list)?;
            }
        }
        Shape::Map(values) => {
            let map = into.entry(name).or_insert_with(|| Fields::new().into());
            if let Value::Object(map) = map {
                let (key, value) = entry(wire.bytes(name)?, name, values, depth.below()?)?;
                map.insert(key, value);
            }
        }
        Shape::Struct(link) => {
            let fields = into.entry(name).or_insert_with(|| Fields::new().into());
            if let Value::Object(fields) = fields {
                let node = link.node();
                read(wire.bytes(name)?, node, &node.numbers, depth.below()?, fields)?;
            }
        }
        shape => {
            let value = single(wire, name, shape, depth)?;
            if field.absent == Some(Absent::Drop) && value == zero(shape) {
                into.remove(name);
            } else {
                into.insert(name.to_owned(), value);
            }
        }
    }
    Ok(())
}

/// One item of a list, or several numbers at once.
fn item(
    wire: Wire<'_>,
    name: &str,
    shape: &Shape,
    depth: Depth,
    list: &mut Vec<Value>,
) -> Result<(), Malformed> {
    if let (Shape::Integer { .. } | Shape::Boolean, Wire::Bytes(packed)) = (shape, wire) {
        let mut reader = Reader::new(packed, name);
        while !reader.is_empty() {
            list.push(single(Wire::Varint(reader.varint()?), name, shape, depth)?);
        }
        return Ok(());
    }
    list.push(single(wire, name, shape, depth)?);
    Ok(())
}

fn entry(bytes: &[u8], name: &str, values: &Shape, depth: Depth) -> Result<(String, Value), Malformed> {
    let (mut key, mut value) = (String::new(), None);
    let mut reader = Reader::new(bytes, name);
    while let Some((number, wire)) = reader.field()? {
        match number {
            1 => key = wire.text(name)?,
            2 => value = Some(single(wire, name, values, depth)?),
            _ => {}
        }
    }
    Ok((key, value.unwrap_or_else(|| zero(values))))
}

/// A value that stands alone, whatever is there already.
fn single(wire: Wire<'_>, name: &str, shape: &Shape, depth: Depth) -> Result<Value, Malformed> {
    Ok(match shape {
        Shape::String => wire.text(name)?.into(),
        Shape::Boolean => (wire.varint(name)? != 0).into(),
        Shape::Integer { wide: true } => wire.varint(name)?.cast_signed().into(),
        Shape::Integer { wide: false } => int32(wire.varint(name)?).into(),
        Shape::Number => number(wire.double(name)?)?,
        Shape::Bytes => STANDARD.encode(wire.bytes(name)?).into(),
        Shape::Time => time(wire.bytes(name)?, false)?,
        Shape::MicroTime => time(wire.bytes(name)?, true)?,
        Shape::Quantity => {
            let mut text = "0".to_owned();
            let mut reader = Reader::new(wire.bytes(name)?, name);
            while let Some((number, wire)) = reader.field()? {
                if number == 1 {
                    text = wire.text("String_")?;
                }
            }
            text.into()
        }
        Shape::IntOrString => int_or_string(wire.bytes(name)?)?,
        Shape::Struct(link) => {
            let node = link.node();
            let mut fields = Fields::new();
            read(wire.bytes(name)?, node, &node.numbers, depth.below()?, &mut fields)?;
            fields.into()
        }
        // A list that is no field is a message with a field: the values of `extra` are such.
        Shape::List(items) => {
            let mut list = Vec::new();
            let mut reader = Reader::new(wire.bytes(name)?, name);
            while let Some((number, wire)) = reader.field()? {
                if number == 1 {
                    item(wire, name, items, depth.below()?, &mut list)?;
                }
            }
            list.into()
        }
        Shape::Any(Free::Raw) => {
            let mut bytes: &[u8] = &[];
            let mut reader = Reader::new(wire.bytes(name)?, name);
            while let Some((number, wire)) = reader.field()? {
                if number == 1 {
                    bytes = wire.bytes("Raw")?;
                }
            }
            raw(bytes, depth)?
        }
        Shape::Any(free @ (Free::SchemaOrArray | Free::SchemaOrBool | Free::SchemaOrStringArray)) => {
            schema_or(wire.bytes(name)?, *free, depth)?
        }
        // Kubernetes has no maps of maps.
        Shape::Map(_) | Shape::Any(Free::Other) => Value::Null,
    })
}

/// Go keeps the lower half of what is too large.
fn int32(value: u64) -> i32 {
    let [a, b, c, d, ..] = value.to_le_bytes();
    i32::from_le_bytes([a, b, c, d])
}

/// As Go writes it: whole numbers without a fraction.
fn number(value: f64) -> Result<Value, Malformed> {
    const WHOLE: f64 = 9e18;
    #[expect(clippy::cast_possible_truncation, reason = "it is whole, and within the bounds")]
    if value.fract() == 0.0 && value.abs() < WHOLE && (value != 0.0 || value.is_sign_positive()) {
        return Ok((value as i64).into());
    }
    let number = Number::from_f64(value);
    number.map(Value::Number).ok_or_else(|| Malformed::Value(format!("json: unsupported value: {value}")))
}

fn time(bytes: &[u8], micro: bool) -> Result<Value, Malformed> {
    // Go's zero time is in year 1, and its seconds are sent like those of any other; without any it is none.
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let (mut seconds, mut nanoseconds) = (0, 0);
    let mut reader = Reader::new(bytes, "Timestamp");
    while let Some((number, wire)) = reader.field()? {
        match number {
            1 => seconds = wire.varint("Seconds")?.cast_signed(),
            2 => nanoseconds = int32(wire.varint("Nanos")?),
            _ => {}
        }
    }
    const ZERO: i64 = -62_135_596_800;
    if seconds == ZERO && (!micro || nanoseconds / 1000 == 0) {
        return Ok(Value::Null);
    }
    let instant = if micro {
        Timestamp::from_microsecond(
            seconds.saturating_mul(1_000_000).saturating_add(i64::from(nanoseconds / 1000)),
        )
    } else {
        Timestamp::from_second(seconds)
    };
    let instant = instant.map_err(|_| Malformed::Value(format!("the time {seconds} is out of range")))?;
    let format = if micro { "%Y-%m-%dT%H:%M:%S.%6fZ" } else { "%Y-%m-%dT%H:%M:%SZ" };
    Ok(instant.strftime(format).to_string().into())
}

fn int_or_string(bytes: &[u8]) -> Result<Value, Malformed> {
    let (mut form, mut int, mut text) = (0, 0, String::new());
    let mut reader = Reader::new(bytes, "IntOrString");
    while let Some((number, wire)) = reader.field()? {
        match number {
            1 => form = wire.varint("Type")?,
            2 => int = int32(wire.varint("IntVal")?),
            3 => text = wire.text("StrVal")?,
            _ => {}
        }
    }
    match form {
        0 => Ok(int.into()),
        1 => Ok(text.into()),
        _ => Err(Malformed::Value("impossible IntOrString.Type".to_owned())),
    }
}

/// A schema, or something else instead of it.
fn schema_or(bytes: &[u8], form: Free, depth: Depth) -> Result<Value, Malformed> {
    let node = node(JSON_SCHEMA);
    let (mut schema, mut list, mut allows) = (None, Vec::<Value>::new(), false);
    let mut reader = Reader::new(bytes, node.name());
    while let Some((number, wire)) = reader.field()? {
        match (form, number) {
            (Free::SchemaOrBool, 1) => allows = wire.varint("Allows")? != 0,
            (Free::SchemaOrBool, 2) | (_, 1) => {
                let fields = schema.get_or_insert_with(Fields::new);
                read(wire.bytes("Schema")?, &node, &node.numbers, depth.below()?, fields)?;
            }
            (Free::SchemaOrArray, 2) => {
                let mut fields = Fields::new();
                let depth = depth.below()?.below()?;
                read(wire.bytes("JSONSchemas")?, &node, &node.numbers, depth, &mut fields)?;
                list.push(fields.into());
            }
            (Free::SchemaOrStringArray, 2) => {
                depth.below()?;
                list.push(wire.text("Property")?.into());
            }
            _ => {}
        }
    }
    Ok(match (schema, form) {
        _ if !list.is_empty() => list.into(),
        (Some(schema), _) => schema.into(),
        (None, Free::SchemaOrBool) => allows.into(),
        (None, _) => Value::Null,
    })
}

/// An object as it is sent: what it is, and its message (`runtime.Unknown` upstream).
#[derive(Debug, Default)]
pub(crate) struct Envelope<'a> {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) raw: &'a [u8],
}

impl<'a> Envelope<'a> {
    pub(crate) fn read(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let Some(rest) = bytes.strip_prefix(MAGIC) else {
            let text = if bytes.is_empty() {
                "empty data"
            } else {
                "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
            };
            return Err(Malformed::Value(text.to_owned()));
        };
        if rest.is_empty() {
            return Err(Malformed::Value("empty body".to_owned()));
        }
        let mut envelope = Self::default();
        let mut fields = Reader::new(rest, "Unknown");
        while let Some((number, wire)) = fields.field()? {
            match number {
                1 => {
                    let mut names = Reader::new(wire.bytes("TypeMeta")?, "TypeMeta");
                    while let Some((number, wire)) = names.field()? {
                        match number {
                            1 => envelope.api_version = wire.text("APIVersion")?,
                            2 => envelope.kind = wire.text("Kind")?,
                            _ => {}
                        }
                    }
                }
                2 => envelope.raw = wire.bytes("Raw")?,
                // Upstream doesn't look at the encoding and the type of the content either.
                _ => {}
            }
        }
        Ok(envelope)
    }
}

/// A whole object of a built-in kind.
pub(crate) fn decode_message(
    api_version: &str,
    kind: &str,
    bytes: &[u8],
    depth: Depth,
) -> Result<Value, Malformed> {
    let component = component_of(api_version, kind).ok_or_else(|| {
        Malformed::Value(format!(
            "no kind {kind:?} is registered for version {api_version:?} in scheme \"pkg/runtime/scheme.go:111\""
        ))
    })?;
    let mut fields = message(&component, bytes, depth)?;
    fields.insert("apiVersion".to_owned(), api_version.into());
    fields.insert("kind".to_owned(), kind.into());
    Ok(Value::Object(fields))
}

/// An object within another: JSON, or the same again. Nothing, if there are no bytes.
fn raw(bytes: &[u8], depth: Depth) -> Result<Value, Malformed> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    if bytes.starts_with(MAGIC) {
        let envelope = Envelope::read(bytes)?;
        return decode_message(&envelope.api_version, &envelope.kind, envelope.raw, depth.below()?);
    }
    let decoded = decode::json(bytes).map_err(|error| Malformed::Value(error.to_string()))?;
    fits(&decoded.value, depth)?;
    Ok(decoded.value)
}

/// Whether a value, which itself is not nested too deep, isn't where it is to be put either.
fn fits(value: &Value, depth: Depth) -> Result<(), Malformed> {
    match value {
        Value::Array(items) => {
            let depth = depth.below()?;
            items.iter().try_for_each(|item| fits(item, depth))
        }
        Value::Object(fields) => {
            let depth = depth.below()?;
            fields.values().try_for_each(|value| fits(value, depth))
        }
        _ => Ok(()),
    }
}
