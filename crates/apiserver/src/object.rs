//! Objects: how they are kept, how they get to the wire, and what the server must read of them.
//!
//! An object is kept as the JSON that goes to the wire, but without `apiVersion`, `kind` and `metadata.resourceVersion`,
//! and with `metadata` in front: `{"metadata":{"name":…},…}`. So an answer is a short head, the revision, and the bytes
//! as they are, in whatever version it was asked for.

use std::io;

use serde_json::ser::{CompactFormatter, Formatter, Serializer};
use serde_json::{Map, Value};

/// What every stored object begins with.
const STORED_HEAD: &str = r#"{"metadata":{"#;

/// The bytes to keep. The object must have a name.
pub(crate) fn encode(object: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024);
    out.extend_from_slice(STORED_HEAD.as_bytes());
    let empty = Map::new();
    let object = object.as_object().unwrap_or(&empty);
    let metadata = object.get("metadata").and_then(Value::as_object).unwrap_or(&empty);
    members(&mut out, metadata, |name| name != "resourceVersion");
    out.push(b'}');
    let rest = |name: &str| !matches!(name, "apiVersion" | "kind" | "metadata");
    if object.keys().any(|name| rest(name)) {
        out.push(b',');
        members(&mut out, object, rest);
    }
    out.push(b'}');
    out
}

fn members(out: &mut Vec<u8>, map: &Map<String, Value>, keep: impl Fn(&str) -> bool) {
    let mut first = true;
    for (name, value) in map.iter().filter(|(name, _)| keep(name)) {
        if !first {
            out.push(b',');
        }
        first = false;
        // A Vec takes everything.
        let written = serde_json::to_writer(&mut *out, name);
        debug_assert!(written.is_ok());
        out.push(b':');
        write_json(out, value);
    }
}

/// Writes JSON with the numbers as Go writes them, so that `1.0` and `1` are the same object.
pub(crate) fn write_json(out: &mut Vec<u8>, value: &Value) {
    let mut serializer = Serializer::with_formatter(out, GoNumbers);
    // Values have text keys only, and a Vec takes everything.
    let written = serde::Serialize::serialize(value, &mut serializer);
    debug_assert!(written.is_ok());
}

/// The text of a JSON value.
pub(crate) fn to_bytes(value: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    write_json(&mut out, value);
    out
}

struct GoNumbers;

impl Formatter for GoNumbers {
    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        // Up to here Go writes no exponent, and every such number is an integer exactly.
        if value.fract() == 0.0 && value.abs() < 1e21 {
            return write!(writer, "{value:.0}");
        }
        CompactFormatter.write_f64(writer, value)
    }
}

/// What goes before the bytes of an object: its version and kind, or nothing in lists of built-in kinds.
#[derive(Clone, Debug)]
pub(crate) struct Head(String);

impl Head {
    pub(crate) fn new(api_version: &str, kind: &str) -> Self {
        let text = |text: &str| Value::from(text).to_string();
        Self(format!(
            r#"{{"apiVersion":{},"kind":{},"metadata":{{"resourceVersion":""#,
            text(api_version),
            text(kind)
        ))
    }

    pub(crate) fn bare() -> Self {
        Self(r#"{"metadata":{"resourceVersion":""#.to_owned())
    }

    /// Appends the object as it is at `revision`.
    pub(crate) fn append(&self, out: &mut Vec<u8>, stored: &[u8], revision: u64) {
        out.extend_from_slice(self.0.as_bytes());
        push_number(out, revision);
        out.extend_from_slice(b"\",");
        out.extend_from_slice(stored.get(STORED_HEAD.len()..).unwrap_or(b"}}"));
    }

    /// How many bytes [`Head::append`] adds at most.
    pub(crate) fn size(&self, stored: &[u8]) -> usize {
        self.0.len() + stored.len() + 20
    }
}

fn push_number(out: &mut Vec<u8>, number: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    let mut rest = number;
    loop {
        at -= 1;
        if let (Some(place), Ok(digit)) = (digits.get_mut(at), u8::try_from(rest % 10)) {
            *place = b'0' + digit;
        }
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(digits.get(at..).unwrap_or_default());
}

/// The object of stored bytes, complete, as it is at a revision.
pub(crate) fn decode_at(stored: &[u8], revision: u64, api_version: &str, kind: &str) -> Value {
    // What is stored was encoded here.
    let mut object: Value = serde_json::from_slice(stored).unwrap_or_default();
    if let Some(map) = object.as_object_mut() {
        map.insert("apiVersion".to_owned(), api_version.into());
        map.insert("kind".to_owned(), kind.into());
    }
    set_resource_version(&mut object, revision);
    object
}

/// Writes `metadata.resourceVersion`.
pub(crate) fn set_resource_version(object: &mut Value, revision: u64) {
    metadata_mut(object).insert("resourceVersion".to_owned(), revision.to_string().into());
}

/// `metadata`, or nothing if there is none.
pub(crate) fn metadata(object: &Value) -> Option<&Map<String, Value>> {
    object.get("metadata").and_then(Value::as_object)
}

/// `metadata`, made if need be.
pub(crate) fn metadata_mut(object: &mut Value) -> &mut Map<String, Value> {
    member_mut(object, "metadata")
}

/// A member that is a map, made if need be.
pub(crate) fn member_mut<'a>(object: &'a mut Value, name: &str) -> &'a mut Map<String, Value> {
    map_mut(map_mut(object).entry(name).or_insert(Value::Null))
}

fn map_mut(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("it was made an object"),
    }
}

/// A text of `metadata`, empty if there is none.
pub(crate) fn meta<'a>(object: &'a Value, name: &str) -> &'a str {
    metadata(object).and_then(|metadata| metadata.get(name)).and_then(Value::as_str).unwrap_or_default()
}

/// A text at the top, empty if there is none.
pub(crate) fn text<'a>(object: &'a Value, name: &str) -> &'a str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// `metadata.finalizers`.
pub(crate) fn finalizers(object: &Value) -> Vec<&str> {
    metadata(object)
        .and_then(|metadata| metadata.get("finalizers"))
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

/// Is the object being deleted?
pub(crate) fn is_terminating(object: &Value) -> bool {
    metadata(object)
        .and_then(|metadata| metadata.get("deletionTimestamp"))
        .is_some_and(|time| !time.is_null())
}

/// A time as the API writes it, in whole seconds.
pub(crate) fn time(now: jiff::Timestamp) -> Value {
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use settled_store::{Key, Limits, Mvcc, Resource, Write};

    use super::*;

    #[test]
    fn an_object_comes_back_as_it_was() {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}, "x": [1.0, 1.5, -3, 1e30],
            "metadata": {"name": "n", "resourceVersion": "7", "labels": {"z": "1"}},
        });
        let stored = encode(&object);
        let text = r#"{"metadata":{"labels":{"z":"1"},"name":"n"},"data":{"a":"b"},"x":[1,1.5,-3,1e+30]}"#;
        assert_eq!(String::from_utf8_lossy(&stored), text);

        let mut store = Mvcc::new(Limits::default());
        let key = Key::new(&Resource::new("configmaps").unwrap(), "d", "n").unwrap();
        let prepared = store.prepare([Write::put(key.clone(), stored)], 0);
        store.apply(prepared);
        let entry = store.get(&key).unwrap();
        let whole = decode_at(entry.value(), entry.mod_revision().0, "v1", "ConfigMap");
        assert_eq!(whole["metadata"]["resourceVersion"], entry.mod_revision().to_string());

        let mut wire = Vec::new();
        Head::new("v1", "ConfigMap").append(&mut wire, entry.value(), entry.mod_revision().0);
        assert_eq!(serde_json::from_slice::<Value>(&wire).unwrap(), whole);
    }
}
