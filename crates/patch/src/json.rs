//! JSON decoding as upstream: Go's errors, duplicate and unknown fields, and scalars with their original bytes.

use std::collections::{BTreeMap, HashSet};

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use settled_go::json::{Scanner, SyntaxError, unquote};
use settled_go::strconv::quote;

use crate::MAX_DEPTH;
use crate::error::PatchError;
use crate::node::Node;
use crate::scalar::Scalar;

/// Maximum number of strict errors, as upstream.
const MAX_STRICT: usize = 100;
const OPERATION_FIELDS: [&str; 4] = ["op", "path", "from", "value"];

/// Expected type of the document.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expected {
    /// A list of operations.
    Operations,
    /// A map, or null.
    Map,
}

/// Decoded document.
pub(crate) struct Read {
    pub(crate) node: Node,
    pub(crate) strict: Vec<String>,
}

/// Decodes bytes; the error is Go's message.
pub(crate) fn read(bytes: &[u8], expected: Expected) -> Result<Read, String> {
    let mut reader = Reader::new(bytes, expected);
    let node = reader.value(0, Place::Top)?;
    reader.scanner.finish().map_err(message)?;
    if let Some(mismatch) = reader.mismatch {
        return Err(mismatch);
    }
    Ok(Read { node, strict: reader.strict })
}

/// Position of a value, with its type if known.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Top,
    Operation,
    /// `op`, `path` or `from`.
    Text(&'static str),
    /// The `value` of an operation, or anything in it.
    Value,
    /// Within a map.
    Free,
    /// Within an unknown field, which is not checked.
    Skipped,
}

struct Reader<'a> {
    scanner: Scanner<'a>,
    expected: Expected,
    path: String,
    quiet: usize,
    seen: HashSet<String>,
    strict: Vec<String>,
    mismatch: Option<String>,
}

impl<'a> Reader<'a> {
    fn new(bytes: &'a [u8], expected: Expected) -> Self {
        Self {
            scanner: Scanner::new(bytes),
            expected,
            path: String::new(),
            quiet: 0,
            seen: HashSet::new(),
            strict: Vec::new(),
            mismatch: None,
        }
    }

    fn value(&mut self, depth: usize, place: Place) -> Result<Node, String> {
        let byte = self.scanner.peek().map_err(message)?;
        self.check(byte, place);
        match byte {
            b'{' if depth < MAX_DEPTH => self.map(depth + 1, place),
            b'[' if depth < MAX_DEPTH => self.list(depth + 1, place),
            b'{' | b'[' => Err(PatchError::too_deep().to_string()),
            _ => {
                let text = self.scanner.scalar().map_err(message)?;
                Ok(self.scalar(text, place))
            }
        }
    }

    fn scalar(&mut self, text: &[u8], place: Place) -> Node {
        if text == b"null" {
            return Node::Absent;
        }
        let scalar = Scalar::Text(text.into());
        let is_number = matches!(text.first(), Some(b'-' | b'0'..=b'9'));
        if is_number
            && matches!(place, Place::Value | Place::Free)
            && self.mismatch.is_none()
            && scalar.value().is_null()
        {
            // It overflows.
            let text = String::from_utf8_lossy(text);
            let target = if place == Place::Value { "struct field jsonPatchOp.value of" } else { "value of" };
            self.mismatch =
                Some(format!("json: cannot unmarshal number {text} into Go {target} type float64"));
        }
        Node::Scalar(scalar)
    }

    /// Records a value of the wrong type. The first one is reported at the end.
    fn check(&mut self, byte: u8, place: Place) {
        if self.mismatch.is_some() {
            return;
        }
        let kind = match byte {
            b'{' => "object",
            b'[' => "array",
            b'"' => "string",
            b't' | b'f' => "bool",
            b'-' | b'0'..=b'9' => "number",
            _ => return,
        };
        let (wanted, target) = match (place, self.expected) {
            (Place::Top, Expected::Operations) => {
                ("array", "value of type []handlers.jsonPatchOp".to_owned())
            }
            (Place::Top, Expected::Map) => ("object", "value of type map[string]interface {}".to_owned()),
            (Place::Operation, _) => ("object", "value of type handlers.jsonPatchOp".to_owned()),
            (Place::Text(field), _) => ("string", format!("struct field jsonPatchOp.{field} of type string")),
            (Place::Value | Place::Free | Place::Skipped, _) => return,
        };
        if kind != wanted {
            self.mismatch = Some(format!("json: cannot unmarshal {kind} into Go {target}"));
        }
    }

    fn list(&mut self, depth: usize, place: Place) -> Result<Node, String> {
        self.scanner.enter();
        let inner = match (place, self.expected) {
            (Place::Top, Expected::Operations) => Place::Operation,
            (Place::Value | Place::Free, _) => place,
            _ => Place::Skipped,
        };
        let quiet = usize::from(inner == Place::Skipped);
        self.quiet += quiet;
        let mut items = Vec::new();
        let length = self.path.len();
        while self.scanner.next_element(items.is_empty()).map_err(message)? {
            if self.quiet == 0 {
                self.path.push_str(&format!("[{}]", items.len()));
            }
            items.push(self.value(depth, inner)?);
            self.path.truncate(length);
        }
        self.quiet -= quiet;
        Ok(Node::list(items))
    }

    fn map(&mut self, depth: usize, place: Place) -> Result<Node, String> {
        self.scanner.enter();
        let inner = match (place, self.expected) {
            (Place::Top, Expected::Map) => Place::Free,
            (Place::Operation | Place::Value | Place::Free, _) => place,
            _ => Place::Skipped,
        };
        let quiet = usize::from(inner == Place::Skipped);
        self.quiet += quiet;
        let mut map = BTreeMap::new();
        let length = self.path.len();
        let mut is_first = true;
        while let Some(key) = self.scanner.next_key(is_first).map_err(message)? {
            is_first = false;
            let name = unquote(key);
            let known = OPERATION_FIELDS.into_iter().find(|field| *field == name);
            let target = match (inner, known) {
                (Place::Operation, None) => Place::Skipped,
                (Place::Operation, Some("value")) => Place::Value,
                (Place::Operation, Some(field)) => Place::Text(field),
                _ => inner,
            };
            if target == Place::Skipped {
                self.strict("unknown", &name);
            } else if map.contains_key(&name) {
                self.strict("duplicate", &name);
            }
            let unknown = usize::from(target == Place::Skipped);
            self.quiet += unknown;
            if self.quiet == 0 {
                if length > 0 {
                    self.path.push('.');
                }
                self.path.push_str(&name);
            }
            let value = self.value(depth, target)?;
            self.quiet -= unknown;
            self.path.truncate(length);
            map.insert(name, value);
        }
        self.quiet -= quiet;
        Ok(Node::map(map))
    }

    fn strict(&mut self, what: &str, name: &str) {
        if self.quiet > 0 || self.strict.len() >= MAX_STRICT {
            return;
        }
        let dot = if self.path.is_empty() { "" } else { "." };
        let text = format!("{what} field {}", quote(&format!("{}{dot}{name}", self.path)));
        if self.seen.insert(text.clone()) {
            self.strict.push(text);
        }
    }
}

fn message(error: SyntaxError) -> String {
    error.to_string()
}

/// Whether a value exceeds the maximum nesting.
pub(crate) fn too_deep(value: &Value) -> bool {
    fn deeper(value: &Value, left: usize) -> bool {
        match value {
            Value::Array(items) => left == 0 || items.iter().any(|item| deeper(item, left - 1)),
            Value::Object(map) => left == 0 || map.values().any(|item| deeper(item, left - 1)),
            _ => false,
        }
    }
    deeper(value, MAX_DEPTH)
}

/// A decoded patch and the strict errors of its text.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// The patch: a map, or null if the text says `null`.
    pub patch: Value,
    /// Duplicate fields, with upstream's message: errors with `fieldValidation=Strict`, warnings with `Warn`. At most
    /// 100.
    pub strict_errors: Vec<String>,
}

/// Decodes a merge patch.
///
/// # Errors
/// [`PatchError::BadRequest`]: the bytes are not a JSON map.
///
/// ```
/// let decoded = settled_patch::decode_merge_patch(br#"{"spec": {"a": 1, "a": 2}}"#).unwrap();
/// assert_eq!(decoded.strict_errors, [r#"duplicate field "spec.a""#]);
/// let error = settled_patch::decode_merge_patch(b"[]").unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}",
/// );
/// ```
pub fn decode_merge_patch(patch: &[u8]) -> Result<Decoded, PatchError> {
    decode(patch).map_err(|error| PatchError::BadRequest(format!("error decoding patch: {error}")))
}

/// Decodes a strategic merge patch. Error texts differ from those of [`decode_merge_patch`].
///
/// # Errors
/// [`PatchError::BadRequest`]: the bytes are not a JSON map.
pub fn decode_strategic_patch(patch: &[u8]) -> Result<Decoded, PatchError> {
    decode(patch).map_err(PatchError::BadRequest)
}

fn decode(patch: &[u8]) -> Result<Decoded, String> {
    // Most patches are all right. To check all of the text at once takes less time than each of its strings.
    if let Ok(text) = str::from_utf8(patch)
        && let Ok(Plain(patch @ (Value::Object(_) | Value::Null))) = serde_json::from_str(text)
    {
        return Ok(Decoded { patch, strict_errors: Vec::new() });
    }
    decode_closely(patch)
}

/// Decodes anything, with what there is to say about it.
fn decode_closely(patch: &[u8]) -> Result<Decoded, String> {
    let Read { node, strict } = read(patch, Expected::Map)?;
    Ok(Decoded { patch: node.into_value(), strict_errors: strict })
}

/// A value of which there is nothing to say: its fields stand once, and its numbers are integers of 64 bits. It is the same to Go.
struct Plain(Value);

impl<'de> Deserialize<'de> for Plain {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PlainVisitor).map(Self)
    }
}

struct PlainVisitor;

impl<'de> Visitor<'de> for PlainVisitor {
    type Value = Value;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a plain value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        i64::try_from(value).map(Value::from).map_err(E::custom)
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Plain(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some((name, Plain(value))) = fields.next_entry::<String, _>()? {
            // With its feature `arbitrary_precision`, this is how `serde_json` passes on a number.
            if name.starts_with("$serde_json::private::") {
                return Err(A::Error::custom("a number"));
            }
            if map.insert(name, value).is_some() {
                return Err(A::Error::custom("a field stands twice"));
            }
        }
        Ok(map.into())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// JSON, and what is nearly so.
    fn text() -> impl Strategy<Value = String> {
        let scalar = prop_oneof![
            Just("null".to_owned()),
            Just("true".to_owned()),
            any::<i64>().prop_map(|number| number.to_string()),
            any::<u64>().prop_map(|number| number.to_string()),
            any::<f64>().prop_map(|number| format!("{number:e}")),
            prop::sample::select(vec!["-0", "1.0", "01", "1e400", "nul", "", "18446744073709551616"])
                .prop_map(str::to_owned),
            any::<String>().prop_map(|text| Value::from(text).to_string()),
            prop::sample::select(vec![r#""\ud800""#, r#""\u0041\/""#, "\"\u{1}\"", r#""\ud83d\ude00""#])
                .prop_map(str::to_owned),
        ];
        scalar.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(","))),
                prop::collection::vec(("[ab\u{e9}]{0,2}", inner), 0..4).prop_map(|fields| {
                    let fields: Vec<_> = fields
                        .iter()
                        .map(|(name, value)| format!(" {} : {value}", Value::from(name.as_str())))
                        .collect();
                    format!("{{{}}}", fields.join(","))
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn plain_patches_are_read_as_all_others(text in text()) {
            prop_assert_eq!(decode(text.as_bytes()), decode_closely(text.as_bytes()));
        }
    }

    #[test]
    fn patches_may_be_nested_deeper_than_plain_ones() {
        let nested = format!("{}1{}", r#"{"a":"#.repeat(300), "}".repeat(300));
        assert_eq!(decode(nested.as_bytes()), decode_closely(nested.as_bytes()));
        assert_eq!(decode(b"\xff"), decode_closely(b"\xff"));
        assert_eq!(decode(b"{\"a\":\"\xff\"}"), decode_closely(b"{\"a\":\"\xff\"}"));
    }
}
