//! Objects: their stored form, their form on the wire, and access to their metadata.
//!
//! An object is kept as the JSON that goes to the wire, but without `apiVersion`, `kind` and `metadata.resourceVersion`,
//! and with `metadata` in front: `{"metadata":{"name":…},…}`. So an answer is a short head, the revision, and the bytes
//! as they are, in whatever version it was asked for.

use std::io::Write as _;

use serde_json::{Map, Value};
pub(crate) use settled_apimachinery::unstructured::string as text;

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
        write_text(out, name);
        out.push(b':');
        write_json(out, value);
    }
}

/// Writes JSON with the numbers as Go writes them, so that `1.0` and `1` are the same object.
pub(crate) fn write_json(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
            // Up to here Go writes no exponent, and every such number is an integer exactly.
            // A Vec takes everything.
            Some(number) if number.fract() == 0.0 && number.abs() < 1e21 => {
                let written = write!(out, "{number:.0}");
                debug_assert!(written.is_ok());
            }
            _ => match number.as_u64() {
                Some(number) => push_number(out, number),
                None => {
                    let written = write!(out, "{number}");
                    debug_assert!(written.is_ok());
                }
            },
        },
        Value::String(text) => write_text(out, text),
        Value::Array(items) => {
            out.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write_json(out, item);
            }
            out.push(b']');
        }
        Value::Object(map) => {
            out.push(b'{');
            members(out, map, |_| true);
            out.push(b'}');
        }
    }
}

/// Writes a text as `serde_json` does.
fn write_text(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let mut rest = text.as_bytes();
    loop {
        let (plain, after) = rest.split_at_checked(plain_length(rest)).unwrap_or((rest, &[]));
        out.extend_from_slice(plain);
        let Some((byte, after)) = after.split_first() else { break };
        rest = after;
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', *byte]),
            0x08 => out.extend_from_slice(b"\\b"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\n' => out.extend_from_slice(b"\\n"),
            0x0c => out.extend_from_slice(b"\\f"),
            b'\r' => out.extend_from_slice(b"\\r"),
            _ => {
                let written = write!(out, "\\u{byte:04x}");
                debug_assert!(written.is_ok());
            }
        }
    }
    out.push(b'"');
}

/// How many bytes from the beginning on are written as they are. Looks at eight of them at a time.
fn plain_length(bytes: &[u8]) -> usize {
    let (words, _) = bytes.as_chunks::<8>();
    let mut length = 0;
    for word in words {
        if is_any_escaped(u64::from_le_bytes(*word)) {
            break;
        }
        length += 8;
    }
    for byte in bytes.get(length..).unwrap_or_default() {
        if *byte < 0x20 || matches!(byte, b'"' | b'\\') {
            break;
        }
        length += 1;
    }
    length
}

/// Whether one of eight bytes is a control character, a quote or a backslash.
const fn is_any_escaped(word: u64) -> bool {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    const fn is_any_below(word: u64, limit: u64) -> u64 {
        word.wrapping_sub(ONES * limit) & !word & HIGH
    }
    const fn is_any(word: u64, byte: u8) -> u64 {
        is_any_below(word ^ (ONES * byte as u64), 1)
    }
    is_any_below(word, 0x20) | is_any(word, b'"') | is_any(word, b'\\') != 0
}

/// The text of a JSON value.
pub(crate) fn to_bytes(value: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    write_json(&mut out, value);
    out
}

/// As [`to_bytes`], with the members in front that Go writes first for built-in kinds: `kind`, `apiVersion`, `metadata`.
pub(crate) fn to_built_in_bytes(object: &Value) -> Vec<u8> {
    const FIRST: [&str; 3] = ["kind", "apiVersion", "metadata"];
    let Some(map) = object.as_object().filter(|map| map.contains_key("kind")) else {
        return to_bytes(object);
    };
    let mut out = Vec::with_capacity(512);
    out.push(b'{');
    let first = FIRST.iter().filter_map(|name| map.get_key_value(*name));
    let rest = map.iter().filter(|(name, _)| !FIRST.contains(&name.as_str()));
    for (name, value) in first.chain(rest) {
        if out.len() > 1 {
            out.push(b',');
        }
        out.extend_from_slice(Value::from(name.as_str()).to_string().as_bytes());
        out.push(b':');
        write_json(&mut out, value);
    }
    out.push(b'}');
    out
}

/// Indents JSON without blanks as Go's `json.MarshalIndent` does, with two blanks and the members in the order they have.
pub(crate) fn indent(json: &[u8]) -> Vec<u8> {
    fn new_line(out: &mut Vec<u8>, depth: usize) {
        out.push(b'\n');
        out.resize(out.len() + 2 * depth, b' ');
    }
    let mut out = Vec::with_capacity(json.len() * 2);
    let (mut depth, mut in_text, mut escaped) = (0_usize, false, false);
    let mut bytes = json.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        if in_text {
            out.push(byte);
            in_text = escaped || byte != b'"';
            escaped = byte == b'\\' && !escaped;
            continue;
        }
        match byte {
            b'{' | b'[' => {
                out.push(byte);
                if let Some(end) = bytes.next_if(|next| matches!(next, b'}' | b']')) {
                    out.push(end);
                } else {
                    depth += 1;
                    new_line(&mut out, depth);
                }
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                new_line(&mut out, depth);
                out.push(byte);
            }
            b',' => {
                out.push(byte);
                new_line(&mut out, depth);
            }
            b':' => out.extend_from_slice(b": "),
            _ => {
                in_text = byte == b'"';
                out.push(byte);
            }
        }
    }
    out
}

/// What goes before the bytes of an object: its version and kind, or nothing in lists of built-in kinds.
#[derive(Clone, Debug)]
pub(crate) struct Head(String);

impl Head {
    /// Of a built-in kind: Go writes the members of its types in their order.
    pub(crate) fn new(api_version: &str, kind: &str) -> Self {
        let [api_version, kind] = [api_version, kind].map(|text| Value::from(text).to_string());
        Self(format!(r#"{{"kind":{kind},"apiVersion":{api_version},"metadata":{{"resourceVersion":""#))
    }

    /// Of a custom kind: Go sorts the members of maps.
    pub(crate) fn custom(api_version: &str, kind: &str) -> Self {
        let [api_version, kind] = [api_version, kind].map(|text| Value::from(text).to_string());
        Self(format!(r#"{{"apiVersion":{api_version},"kind":{kind},"metadata":{{"resourceVersion":""#))
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

    #[cfg(test)]
    fn append_to(&self, stored: &[u8], revision: u64) -> String {
        let mut out = Vec::new();
        self.append(&mut out, stored, revision);
        String::from_utf8(out).expect("a text")
    }

    /// How many bytes [`Head::append`] adds at most.
    pub(crate) fn size(&self, stored: &[u8]) -> usize {
        self.0.len() + stored.len() + 20
    }
}

/// `metadata` of stored bytes, and what is behind it.
pub(crate) fn stored_metadata(stored: &[u8]) -> &[u8] {
    stored.get(STORED_HEAD.len() - 1..).unwrap_or(b"{}")
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
    // What is stored was encoded here. To check all of the text at once takes less time than each of its strings.
    let text = str::from_utf8(stored).unwrap_or_default();
    let mut object: Value = serde_json::from_str(text).unwrap_or_default();
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

/// Marks an object as terminating: when it is due, and how many seconds of grace it has until then.
pub(crate) fn set_deletion(object: &mut Value, due: jiff::Timestamp, grace: i64) {
    let metadata = metadata_mut(object);
    metadata.insert("deletionTimestamp".to_owned(), time(due));
    metadata.insert("deletionGracePeriodSeconds".to_owned(), grace.into());
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
    fn members_come_in_the_order_of_go() {
        let object = json!({
            "apiVersion": "v1", "data": {"b": "2", "a": "1"}, "kind": "ConfigMap", "metadata": {"name": "n"},
        });
        let text =
            r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"n"},"data":{"a":"1","b":"2"}}"#;
        assert_eq!(String::from_utf8_lossy(&to_built_in_bytes(&object)), text);
        assert_eq!(to_built_in_bytes(&json!({"b": 1, "apiVersion": "v1"})), br#"{"apiVersion":"v1","b":1}"#);
        let built_in = Head::new("v1", "ConfigMap").append_to(&encode(&object), 7);
        assert!(built_in.starts_with(r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"#), "{built_in}");
        let custom = Head::custom("example.com/v1", "Widget").append_to(&encode(&object), 7);
        assert!(
            custom.starts_with(r#"{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"#),
            "{custom}"
        );
    }

    #[test]
    fn json_is_what_serde_json_writes() {
        let every: String = (0..=0x7f_u8).map(char::from).chain(['é', '\u{2028}', '😀']).collect();
        for value in [
            json!({"text": every, "": "", "a\"b": [null, true, false, {}, []]}),
            json!([0, 7, u64::MAX, i64::MIN, -1, 0.5, -2.25, 1e-7, 1e300, f64::MIN_POSITIVE]),
        ] {
            assert_eq!(String::from_utf8(to_bytes(&value)).unwrap(), value.to_string());
        }
        // Whatever is escaped, at any place of the words that are looked at.
        for (place, escaped) in
            (0..20).flat_map(|place| ['"', '\\', '\u{1f}', '\0', 'ÿ', '\u{7f}'].map(|one| (place, one)))
        {
            let text = format!("{}{escaped}{}", " ".repeat(place), "~!#[]".repeat(3));
            assert_eq!(String::from_utf8(to_bytes(&json!(text))).unwrap(), json!(text).to_string());
        }
        // But for whole numbers, which Go writes without a fraction.
        for (number, text) in
            [(1.0, "1"), (-3.0, "-3"), (1e20, "100000000000000000000"), (1e21, "1e+21"), (-0.0, "-0")]
        {
            assert_eq!(String::from_utf8(to_bytes(&json!(number))).unwrap(), text);
        }
    }

    #[test]
    fn metadata_are_read_without_the_rest() {
        let metadata =
            json!({"annotations": {"a": "}\"\\{"}, "name": "n", "ownerReferences": [{"uid": "u"}]});
        let stored = encode(&json!({"metadata": metadata, "spec": {"a": [1]}}));
        assert!(stored_metadata(&stored).starts_with(&to_bytes(&metadata)));
    }

    #[test]
    fn json_is_indented_as_go_does() {
        let cases = [
            ("{}", "{}"),
            ("1", "1"),
            (r#"{"b":[],"a":{}}"#, "{\n  \"b\": [],\n  \"a\": {}\n}"),
            (r#"[1,{"a":"x,{\":}"}]"#, "[\n  1,\n  {\n    \"a\": \"x,{\\\":}\"\n  }\n]"),
            (r#"{"a":"\\","b":null}"#, "{\n  \"a\": \"\\\\\",\n  \"b\": null\n}"),
        ];
        for (json, indented) in cases {
            assert_eq!(String::from_utf8_lossy(&indent(json.as_bytes())), indented);
        }
    }

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
