//! JSON patch (RFC 6902) as in evanphx/json-patch v4.

use std::collections::BTreeMap;

use serde_json::Value;
use settled_go::strconv::atoi;

use crate::MAX_DEPTH;
use crate::error::PatchError;
use crate::json::{Expected, Read, read, too_deep};
use crate::node::Node;

/// Maximum number of operations of a JSON patch.
pub const MAX_OPERATIONS: usize = 10_000;
/// Maximum number of JSON bytes that the `copy` operations of a patch can copy.
pub const MAX_COPIED: usize = 3 << 20;
/// Maximum number of list items that the operations of a patch may shift. Upstream has no such limit, and takes minutes
/// for a hostile patch.
pub const MAX_SHIFTED: usize = 1 << 30;

/// A decoded JSON patch.
///
/// Decodes as with `fieldValidation=Strict` or `Warn`, the API server's default.
///
/// ```
/// use serde_json::json;
/// use settled_patch::JsonPatch;
///
/// let patch = JsonPatch::decode(br#"[{"op": "add", "path": "/items/-", "value": 3, "why": "more"}]"#).unwrap();
/// assert_eq!(patch.strict_errors(), [r#"json patch unknown field "[0].why""#]);
/// assert_eq!(patch.apply(&json!({"items": [1, 2]})).unwrap(), json!({"items": [1, 2, 3]}));
/// ```
#[derive(Clone, Debug)]
pub struct JsonPatch {
    operations: Vec<BTreeMap<String, Node>>,
    strict_errors: Vec<String>,
}

/// Decodes a JSON patch and applies it.
///
/// # Errors
/// See [`JsonPatch::decode`] and [`JsonPatch::apply`].
///
/// ```
/// use serde_json::json;
/// use settled_patch::{PatchError, json_patch};
///
/// let object = json!({"spec": {"replicas": 1}});
/// let patched = json_patch(&object, br#"[{"op": "replace", "path": "/spec/replicas", "value": 2}]"#).unwrap();
/// assert_eq!(patched, json!({"spec": {"replicas": 2}}));
///
/// let error = json_patch(&object, br#"[{"op": "remove", "path": "/spec/paused"}]"#).unwrap_err();
/// assert_eq!(error, PatchError::Invalid(
///     "error in remove for path: '/spec/paused': Unable to remove nonexistent key: paused: missing value".to_owned(),
/// ));
/// ```
pub fn json_patch(object: &Value, patch: &[u8]) -> Result<Value, PatchError> {
    JsonPatch::decode(patch)?.apply(object)
}

impl JsonPatch {
    /// Decodes a patch.
    ///
    /// # Errors
    /// [`PatchError::BadRequest`]: the bytes are not a JSON list of operations, or exceed the maximum nesting.
    /// [`PatchError::TooLarge`]: there are more than [`MAX_OPERATIONS`].
    pub fn decode(patch: &[u8]) -> Result<Self, PatchError> {
        let Read { node, strict } = read(patch, Expected::Operations)
            .map_err(|error| PatchError::BadRequest(format!("error decoding patch: {error}")))?;
        let items = if let Node::List(list) = node { list.items } else { Vec::new() };
        if items.len() > MAX_OPERATIONS {
            return Err(PatchError::TooLarge(format!(
                "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
                items.len()
            )));
        }
        let operations = items.into_iter().map(|item| match item {
            Node::Map(map) => map.items,
            _ => BTreeMap::new(),
        });
        let strict_errors = strict.into_iter().map(|error| format!("json patch {error}")).collect();
        Ok(Self { operations: operations.collect(), strict_errors })
    }

    /// Unknown and duplicate fields, with upstream's message: errors with `fieldValidation=Strict`, warnings with
    /// `Warn`. At most 100.
    #[must_use]
    pub fn strict_errors(&self) -> &[String] {
        &self.strict_errors
    }

    /// Applies the patch to an object or a list.
    ///
    /// # Errors
    /// [`PatchError::Invalid`]: an operation does not apply, a test fails, or too much is copied.
    /// [`PatchError::TooLarge`]: more than [`MAX_SHIFTED`] items are moved.
    /// [`PatchError::BadRequest`]: the object or the result exceeds the maximum nesting.
    /// [`PatchError::Internal`]: the operation makes upstream panic.
    pub fn apply(&self, object: &Value) -> Result<Value, PatchError> {
        if too_deep(object) {
            return Err(PatchError::too_deep());
        }
        let mut document = Document { root: Node::of(object), copied: 0, shifted: 0 };
        if !matches!(document.root, Node::Map(_) | Node::List(_)) {
            return Err(PatchError::Internal("a JSON patch applies to objects and lists".to_owned()));
        }
        for operation in &self.operations {
            if !settled_budget::spend(1) {
                return Err(PatchError::stopped());
            }
            document.apply(Operation(operation))?;
        }
        Ok(document.root.into_value())
    }
}

#[derive(Clone, Copy)]
struct Operation<'a>(&'a BTreeMap<String, Node>);

impl Operation<'_> {
    fn text(self, field: &str) -> Option<String> {
        match self.0.get(field) {
            Some(Node::Scalar(scalar)) => match scalar.value() {
                Value::String(text) => Some(text),
                _ => None,
            },
            _ => None,
        }
    }

    fn path(self) -> Option<String> {
        self.text("path")
    }

    fn from(self, kind: &str) -> Result<String, PatchError> {
        self.text("from").ok_or_else(|| {
            invalid(format!(
                "{kind} operation failed to decode from: operation, missing from field: {MISSING}"
            ))
        })
    }

    fn value(self) -> Node {
        match self.0.get("value") {
            None => Node::Absent,
            Some(Node::Absent) => Node::Null,
            Some(value) => value.clone(),
        }
    }
}

const MISSING: &str = "missing value";
const INVALID_INDEX: &str = "invalid index referenced";
const PANIC: &str = "the operation meets a null where it needs a value";

fn invalid(text: String) -> PatchError {
    PatchError::Invalid(text)
}

struct Document {
    root: Node,
    copied: usize,
    shifted: usize,
}

/// Target of an operation.
enum Container<'a> {
    Map(&'a mut BTreeMap<String, Node>),
    List(&'a mut Vec<Node>),
    /// Upstream's null copy: a map that rejects fields.
    Nothing,
}

impl Document {
    /// Resolves the parent container and the last key of a path. A value of the given height may be stored there.
    fn find<'a>(
        &'a mut self,
        path: &str,
        height: Option<usize>,
    ) -> Result<Option<(Container<'a>, String)>, PatchError> {
        let mut parts = path.split('/');
        // Text before the first slash is ignored.
        parts.next();
        let parts: Vec<&str> = parts.collect();
        let Some((last, parents)) = parts.split_last() else {
            return Ok(None);
        };
        if let Some(height) = height
            && height + parts.len() > MAX_DEPTH
        {
            return Err(PatchError::too_deep());
        }
        let mut node = &mut self.root;
        for (depth, part) in parents.iter().enumerate() {
            raise(node, height, parts.len() - depth);
            let key = decoded(part);
            let next = match node {
                Node::Map(map) => map.items.get_mut(&key),
                Node::List(list) => {
                    position(&key, list.items.len()).ok().and_then(|place| list.items.get_mut(place))
                }
                _ => None,
            };
            match next {
                Some(next @ (Node::Map(_) | Node::List(_) | Node::CopiedNull)) => node = next,
                _ => return Ok(None),
            }
        }
        raise(node, height, 1);
        let container = match node {
            Node::Map(map) => Container::Map(&mut map.items),
            Node::List(list) => Container::List(&mut list.items),
            _ => Container::Nothing,
        };
        Ok(Some((container, decoded(last))))
    }

    fn apply(&mut self, operation: Operation<'_>) -> Result<(), PatchError> {
        let kind = match operation.0.get("op") {
            Some(Node::Scalar(_)) => operation.text("op").unwrap_or_else(|| "unknown".to_owned()),
            _ => "unknown".to_owned(),
        };
        match kind.as_str() {
            "add" => self.add(operation),
            "remove" => self.remove(operation),
            "replace" => self.replace(operation),
            "move" => self.relocate(operation),
            "test" => self.test(operation),
            "copy" => self.copy(operation),
            _ => Err(invalid(format!("Unexpected kind: {kind}"))),
        }
    }

    fn shift(&mut self, items: usize) -> Result<(), PatchError> {
        self.shifted = self.shifted.saturating_add(items);
        // The next operation checks the limit.
        let _seen_later = settled_budget::spend(u64::try_from(items / 256).unwrap_or(u64::MAX));
        if self.shifted > MAX_SHIFTED {
            return Err(PatchError::TooLarge(format!(
                "The patch moves more than {MAX_SHIFTED} items of lists"
            )));
        }
        Ok(())
    }

    /// Adds at a path; `None` if the parent is missing, else the result.
    fn put(&mut self, path: &str, value: Node) -> Result<Option<Result<(), PatchError>>, PatchError> {
        let Some((container, key)) = self.find(path, Some(value.height()))? else {
            return Ok(None);
        };
        let mut shifted = 0;
        let added = match container {
            Container::Map(map) => {
                map.insert(key, value);
                Ok(())
            }
            Container::List(list) => add_to_list(list, &key, value, &mut shifted).map_err(invalid),
            Container::Nothing => Err(PatchError::panics(PANIC)),
        };
        self.shift(shifted)?;
        Ok(Some(added))
    }

    /// Removes the value at a path; `None` if the parent is missing. Errors name the last key.
    #[allow(clippy::type_complexity, reason = "three outcomes, which each caller words differently")]
    fn take(&mut self, path: &str) -> Result<Option<Result<Node, (String, String)>>, PatchError> {
        let Some((container, key)) = self.find(path, None)? else {
            return Ok(None);
        };
        let mut shifted = 0;
        let taken = match container {
            Container::Map(map) => map.remove(&key).ok_or_else(|| nonexistent(&key)),
            Container::List(list) => position(&key, list.len()).map(|place| {
                shifted = list.len() - place;
                list.remove(place)
            }),
            Container::Nothing => Err(nonexistent(&key)),
        };
        self.shift(shifted)?;
        Ok(Some(taken.map_err(|error| (key, error))))
    }

    fn add(&mut self, operation: Operation<'_>) -> Result<(), PatchError> {
        let path = operation
            .path()
            .ok_or_else(|| invalid(format!("add operation failed to decode path: {MISSING}")))?;
        self.put(&path, operation.value())?
            .ok_or_else(|| missing_path("add", &path))?
            .map_err(|error| within(&format!("error in add for path: '{path}'"), error))
    }

    fn remove(&mut self, operation: Operation<'_>) -> Result<(), PatchError> {
        let path = operation
            .path()
            .ok_or_else(|| invalid(format!("remove operation failed to decode path: {MISSING}")))?;
        self.take(&path)?
            .ok_or_else(|| missing_path("remove", &path))?
            .map(|_| ())
            .map_err(|(_, error)| invalid(format!("error in remove for path: '{path}': {error}")))
    }

    fn replace(&mut self, operation: Operation<'_>) -> Result<(), PatchError> {
        let path = path_of(operation, "replace")?;
        let value = operation.value();
        if path.is_empty() {
            return match value {
                Node::Absent => Err(PatchError::panics(PANIC)),
                Node::Map(_) | Node::List(_) => {
                    self.root = value;
                    Ok(())
                }
                _ => Err(invalid("replace operation value must be object or array: %!w(<nil>)".to_owned())),
            };
        }
        let Some((container, key)) = self.find(&path, Some(value.height()))? else {
            return Err(invalid(format!(
                "replace operation does not apply: doc is missing path: {path}: {MISSING}"
            )));
        };
        match container {
            // A missing key is not an error.
            Container::Map(map) => {
                map.insert(key, value);
            }
            Container::List(list) => {
                let place = position(&key, list.len()).map_err(|_| {
                    invalid(format!(
                        "replace operation does not apply: doc is missing key: {path}: {MISSING}"
                    ))
                })?;
                list[place] = value;
            }
            Container::Nothing => return Err(PatchError::panics(PANIC)),
        }
        Ok(())
    }

    /// Reads the value at a path; `None` if the parent is missing.
    fn peek<T>(
        &mut self,
        path: &str,
        look: impl FnOnce(&Node) -> T,
    ) -> Result<Option<Result<T, String>>, PatchError> {
        let Some((container, key)) = self.find(path, None)? else {
            return Ok(None);
        };
        let found = match container {
            Container::Map(map) => map.get(&key).unwrap_or(&Node::Absent),
            Container::List(list) => match position(&key, list.len()) {
                Ok(place) => &list[place],
                Err(error) => return Ok(Some(Err(error))),
            },
            Container::Nothing => &Node::Absent,
        };
        Ok(Some(Ok(look(found))))
    }

    fn relocate(&mut self, operation: Operation<'_>) -> Result<(), PatchError> {
        let from = operation.from("move")?;
        let value = self
            .take(&from)?
            .ok_or_else(|| {
                invalid(format!("move operation does not apply: doc is missing from path: {from}: {MISSING}"))
            })?
            .map_err(|(key, error)| invalid(format!("error in move for path: '{key}': {error}")))?;
        let path = path_of(operation, "move")?;
        self.put(&path, value)?
            .ok_or_else(|| {
                invalid(format!(
                    "move operation does not apply: doc is missing destination path: {path}: {MISSING}"
                ))
            })?
            .map_err(|error| within(&format!("error in move for path: '{path}'"), error))
    }

    fn test(&mut self, operation: Operation<'_>) -> Result<(), PatchError> {
        let path = path_of(operation, "test")?;
        let value = operation.0.get("value");
        let failed = || invalid(format!("testing value {path} failed: test failed"));
        // The null of an operation differs from a null of the document.
        let wanted = match value {
            None => &Node::Absent,
            Some(Node::Absent) => &Node::Null,
            Some(value) => value,
        };
        let same = if path.is_empty() {
            self.root.same(wanted)
        } else {
            self.peek(&path, |found| match (found, wanted) {
                (Node::Absent, Node::Absent | Node::Null) => Some(true),
                (Node::Absent, _) | (_, Node::Absent) => Some(false),
                (found, wanted) => found.same(wanted),
            })?
            .ok_or_else(|| {
                invalid(format!("test operation does not apply: is missing path: {path}: {MISSING}"))
            })?
            .map_err(|error| invalid(format!("error in test for path: '{path}': {error}")))?
        };
        match same {
            Some(true) => Ok(()),
            Some(false) => Err(failed()),
            None => Err(PatchError::panics(PANIC)),
        }
    }

    fn copy(&mut self, operation: Operation<'_>) -> Result<(), PatchError> {
        let from = operation.from("copy")?;
        let (value, size) = self
            .peek(&from, |found| {
                let size = if let Node::Absent = found { 0 } else { found.size() };
                // Values above the limit are not copied.
                (if size > MAX_COPIED { Node::Absent } else { found.copied() }, size)
            })?
            .ok_or_else(|| {
                invalid(format!("copy operation does not apply: doc is missing from path: {from}: {MISSING}"))
            })?
            .map_err(|error| invalid(format!("error in copy for from: '{from}': {error}")))?;
        let path = operation
            .path()
            .ok_or_else(|| invalid(format!("copy operation failed to decode path: {MISSING}")))?;
        if self.find(&path, None)?.is_none() {
            return Err(invalid(format!(
                "copy operation does not apply: doc is missing destination path: {path}: {MISSING}"
            )));
        }
        self.copied += size;
        if self.copied > MAX_COPIED {
            return Err(invalid(format!(
                "Unable to complete the copy, the accumulated size increase of copy is {}, exceeding the limit {MAX_COPIED}",
                self.copied
            )));
        }
        match self.put(&path, value)? {
            Some(added) => added.map_err(|error| within("error while adding value during copy", error)),
            None => Ok(()),
        }
    }
}

fn path_of(operation: Operation<'_>, kind: &str) -> Result<String, PatchError> {
    operation.path().ok_or_else(|| {
        invalid(format!("{kind} operation failed to decode path: operation missing path field: {MISSING}"))
    })
}

fn missing_path(kind: &str, path: &str) -> PatchError {
    invalid(format!("{kind} operation does not apply: doc is missing path: \"{path}\": {MISSING}"))
}

fn nonexistent(key: &str) -> String {
    format!("Unable to remove nonexistent key: {key}: {MISSING}")
}

/// Adds the failed operation to an error. Upstream's panics have no message.
fn within(context: &str, error: PatchError) -> PatchError {
    match error {
        PatchError::Invalid(text) => invalid(format!("{context}: {text}")),
        other => other,
    }
}

/// Raises the height of a container for a value stored `levels` below it.
fn raise(node: &mut Node, height: Option<usize>, levels: usize) {
    let Some(height) = height else { return };
    match node {
        Node::Map(map) => map.height = map.height.max(height + levels),
        Node::List(list) => list.height = list.height.max(height + levels),
        _ => {}
    }
}

/// A path segment. `~1` and `~0` are replaced in one pass.
fn decoded(part: &str) -> String {
    let mut out = String::with_capacity(part.len());
    let mut rest = part;
    while let Some(place) = rest.find('~') {
        out.push_str(&rest[..place]);
        let escaped = rest.as_bytes().get(place + 1);
        let (character, length) = match escaped {
            Some(b'1') => ('/', 2),
            Some(b'0') => ('~', 2),
            _ => ('~', 1),
        };
        out.push(character);
        rest = &rest[place + length..];
    }
    out.push_str(rest);
    out
}

fn out_of_bounds(index: i64) -> String {
    format!("Unable to access invalid index: {index}: {INVALID_INDEX}")
}

/// Index in a list of this length. Negative indices count from its end.
fn position(key: &str, length: usize) -> Result<usize, String> {
    let index = atoi(key).map_err(|error| error.to_string())?;
    let place = if index < 0 {
        usize::try_from(index.unsigned_abs()).ok().and_then(|back| length.checked_sub(back))
    } else {
        usize::try_from(index).ok().filter(|place| *place < length)
    };
    place.ok_or_else(|| out_of_bounds(index))
}

fn add_to_list(list: &mut Vec<Node>, key: &str, value: Node, shifted: &mut usize) -> Result<(), String> {
    if key == "-" {
        list.push(value);
        return Ok(());
    }
    if let Err(error) = atoi(key) {
        return Err(format!("value was not a proper array index: '{key}': {error}"));
    }
    let place = position(key, list.len() + 1)?;
    *shifted = list.len() - place;
    list.insert(place, value);
    Ok(())
}
