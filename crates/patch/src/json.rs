//! JSON decoding as upstream: Go's errors, duplicate and unknown fields, and scalars with their original bytes.

use std::collections::{BTreeMap, HashSet};

use serde_json::Value;
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
    let Read { node, strict } = read(patch, Expected::Map)?;
    Ok(Decoded { patch: node.into_value(), strict_errors: strict })
}
