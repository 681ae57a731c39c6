//! JSON decoding as upstream: Go's errors, duplicate and unknown fields, and scalars with their original bytes.

use std::collections::{BTreeMap, HashSet};

use serde_json::Value;
use settled_go::strconv::{push_escaped, quote};

use crate::MAX_DEPTH;
use crate::error::PatchError;
use crate::node::Node;
use crate::scalar::{Scalar, unquoted};

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
    reader.spaces();
    if let Some(&byte) = bytes.get(reader.at) {
        return Err(invalid(byte, "after top-level value"));
    }
    if let Some(mismatch) = reader.mismatch {
        return Err(mismatch);
    }
    Ok(Read { node, strict: reader.strict })
}

/// Go's error for invalid JSON; none for valid or too deeply nested JSON.
///
/// ```
/// assert_eq!(settled_patch::json_error(b"{").as_deref(), Some("unexpected end of JSON input"));
/// assert_eq!(settled_patch::json_error(b"{}"), None);
/// ```
#[must_use]
pub fn json_error(text: &[u8]) -> Option<String> {
    let mut reader = Reader::new(text, Expected::Map);
    let read = reader.value(0, Place::Skipped).and_then(|_| {
        reader.spaces();
        text.get(reader.at).map_or(Ok(()), |&byte| Err(invalid(byte, "after top-level value")))
    });
    read.err()
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
    bytes: &'a [u8],
    at: usize,
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
            bytes,
            at: 0,
            expected,
            path: String::new(),
            quiet: 0,
            seen: HashSet::new(),
            strict: Vec::new(),
            mismatch: None,
        }
    }

    fn spaces(&mut self) {
        while matches!(self.bytes.get(self.at), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    /// The next byte that is not whitespace.
    fn next(&mut self) -> Result<u8, String> {
        self.spaces();
        self.bytes.get(self.at).copied().ok_or_else(ended)
    }

    fn value(&mut self, depth: usize, place: Place) -> Result<Node, String> {
        let byte = self.next()?;
        self.check(byte, place);
        match byte {
            b'{' if depth < MAX_DEPTH => self.map(depth + 1, place),
            b'[' if depth < MAX_DEPTH => self.list(depth + 1, place),
            b'{' | b'[' => Err(PatchError::too_deep().to_string()),
            b'"' => {
                let from = self.at;
                self.string()?;
                Ok(self.scalar(from))
            }
            b't' => self.literal("true"),
            b'f' => self.literal("false"),
            b'n' => self.literal("null"),
            b'-' | b'0'..=b'9' => self.number(place),
            _ => Err(invalid(byte, "looking for beginning of value")),
        }
    }

    fn scalar(&self, from: usize) -> Node {
        Node::Scalar(Scalar::Text(self.bytes[from..self.at].into()))
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
        self.at += 1;
        let inner = match (place, self.expected) {
            (Place::Top, Expected::Operations) => Place::Operation,
            (Place::Value | Place::Free, _) => place,
            _ => Place::Skipped,
        };
        let quiet = usize::from(inner == Place::Skipped);
        self.quiet += quiet;
        let mut items = Vec::new();
        if self.next()? == b']' {
            self.at += 1;
        } else {
            let length = self.path.len();
            loop {
                if self.quiet == 0 {
                    self.path.push_str(&format!("[{}]", items.len()));
                }
                items.push(self.value(depth, inner)?);
                self.path.truncate(length);
                match self.next()? {
                    b',' => self.at += 1,
                    b']' => {
                        self.at += 1;
                        break;
                    }
                    byte => return Err(invalid(byte, "after array element")),
                }
            }
        }
        self.quiet -= quiet;
        Ok(Node::list(items))
    }

    fn map(&mut self, depth: usize, place: Place) -> Result<Node, String> {
        self.at += 1;
        let inner = match (place, self.expected) {
            (Place::Top, Expected::Map) => Place::Free,
            (Place::Operation | Place::Value | Place::Free, _) => place,
            _ => Place::Skipped,
        };
        let quiet = usize::from(inner == Place::Skipped);
        self.quiet += quiet;
        let mut map = BTreeMap::new();
        let mut byte = self.next()?;
        if byte == b'}' {
            self.at += 1;
        } else {
            let length = self.path.len();
            loop {
                if byte != b'"' {
                    return Err(invalid(byte, "looking for beginning of object key string"));
                }
                let from = self.at;
                self.string()?;
                let name = unquoted(&self.bytes[from..self.at]);
                let colon = self.next()?;
                if colon != b':' {
                    return Err(invalid(colon, "after object key"));
                }
                self.at += 1;
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
                match self.next()? {
                    b',' => self.at += 1,
                    b'}' => {
                        self.at += 1;
                        break;
                    }
                    byte => return Err(invalid(byte, "after object key:value pair")),
                }
                byte = self.next()?;
            }
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

    /// Skips a string.
    fn string(&mut self) -> Result<(), String> {
        self.at += 1;
        loop {
            let byte = *self.bytes.get(self.at).ok_or_else(ended)?;
            self.at += 1;
            match byte {
                b'"' => return Ok(()),
                b'\\' => match self.byte_or_space() {
                    b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => {}
                    b'u' => {
                        for _ in 0..4 {
                            let byte = self.byte_or_space();
                            if !byte.is_ascii_hexdigit() {
                                return Err(invalid(byte, "in \\u hexadecimal character escape"));
                            }
                        }
                    }
                    byte => return Err(invalid(byte, "in string escape code")),
                },
                0..=0x1f => return Err(invalid(byte, "in string literal")),
                _ => {}
            }
        }
    }

    /// Upstream appends a space to detect incomplete input.
    fn byte_or_space(&mut self) -> u8 {
        let byte = self.bytes.get(self.at).copied().unwrap_or(b' ');
        self.at += 1;
        byte
    }

    fn literal(&mut self, word: &'static str) -> Result<Node, String> {
        let from = self.at;
        self.at += 1;
        for wanted in word.bytes().skip(1) {
            let byte = self.byte_or_space();
            if byte != wanted {
                return Err(invalid(
                    byte,
                    &format!("in literal {word} (expecting '{}')", char::from(wanted)),
                ));
            }
        }
        Ok(if word == "null" { Node::Absent } else { self.scalar(from) })
    }

    fn number(&mut self, place: Place) -> Result<Node, String> {
        let from = self.at;
        if self.bytes[self.at] == b'-' {
            self.at += 1;
        }
        match self.byte_or_space() {
            b'0' => {}
            b'1'..=b'9' => self.digits(),
            byte => return Err(invalid(byte, "in numeric literal")),
        }
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            let byte = self.byte_or_space();
            if !byte.is_ascii_digit() {
                return Err(invalid(byte, "after decimal point in numeric literal"));
            }
            self.digits();
        }
        if let Some(b'e' | b'E') = self.bytes.get(self.at) {
            self.at += 1;
            if let Some(b'+' | b'-') = self.bytes.get(self.at) {
                self.at += 1;
            }
            let byte = self.byte_or_space();
            if !byte.is_ascii_digit() {
                return Err(invalid(byte, "in exponent of numeric literal"));
            }
            self.digits();
        }
        let node = self.scalar(from);
        if let (Node::Scalar(scalar), Place::Value | Place::Free) = (&node, place)
            && scalar.value().is_null()
            && self.mismatch.is_none()
        {
            let text = String::from_utf8_lossy(&self.bytes[from..self.at]);
            let target = if place == Place::Value { "struct field jsonPatchOp.value of" } else { "value of" };
            self.mismatch =
                Some(format!("json: cannot unmarshal number {text} into Go {target} type float64"));
        }
        Ok(node)
    }

    fn digits(&mut self) {
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
    }
}

fn ended() -> String {
    "unexpected end of JSON input".to_owned()
}

fn invalid(byte: u8, context: &str) -> String {
    let mut shown = String::new();
    match byte {
        b'\'' => shown.push_str("\\'"),
        b'"' => shown.push('"'),
        _ => push_escaped(char::from(byte), &mut shown),
    }
    format!("invalid character '{shown}' {context}")
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
    let Read { node, strict } = read(patch, Expected::Map)?;
    Ok(Decoded { patch: node.into_value(), strict_errors: strict })
}
