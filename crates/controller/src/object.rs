//! Objects as JSON bytes, read in place by filters, projections and indexes.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use kstatus::{Known, Node, Object, ParseError};
use kube::runtime::reflector::{Lookup, ObjectRef};
use serde_json::Value;

/// A JSON object, read in place without copies; reading validates the JSON.
///
/// ```
/// use settled_controller::{FieldPath, ObjectView};
/// let pod = ObjectView::parse(br#"{"metadata":{"name":"web","labels":{"app":"web"}},"status":{"phase":"Running"}}"#)?;
/// assert_eq!(pod.name(), "web");
/// assert!(pod.field(&FieldPath::new("status.phase")).unwrap().is("Running"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ObjectView<'a>(Object<'a>);

impl<'a> ObjectView<'a> {
    /// Reads the bytes of one object.
    ///
    /// # Errors
    /// The bytes are not a JSON object.
    pub fn parse(json: &'a [u8]) -> Result<Self, ParseError> {
        Object::parse(json).map(Self)
    }

    /// Wraps a parsed object.
    ///
    /// # Errors
    /// It is not a JSON object.
    pub fn from_value(value: &'a Value) -> Result<Self, ParseError> {
        Object::from_value(value).map(Self)
    }

    /// The root node.
    #[must_use]
    pub fn root(&self) -> Node<'a> {
        self.0.root()
    }

    /// The value at a path; `None` if it is absent or null.
    #[must_use]
    pub fn field(&self, path: &FieldPath) -> Option<Node<'a>> {
        let (node, rest) = match path.known {
            Some(known) => (self.0.known(known)?, path.segments.get(path.noted..)?),
            None => (self.root(), &*path.segments),
        };
        walk(node, rest).filter(|node| !node.is_null())
    }

    fn metadata(&self, key: &str) -> Option<Node<'a>> {
        self.0.known(Known::find("metadata", key)?).filter(|node| !node.is_null())
    }

    fn text(&self, key: &str) -> Cow<'a, str> {
        self.metadata(key).and_then(Node::as_str).unwrap_or_default()
    }

    /// `metadata.name`, or empty.
    #[must_use]
    pub fn name(&self) -> Cow<'a, str> {
        self.text("name")
    }

    /// `metadata.namespace`; empty for cluster-scoped objects.
    #[must_use]
    pub fn namespace(&self) -> Cow<'a, str> {
        self.text("namespace")
    }

    /// `metadata.uid`, or empty.
    #[must_use]
    pub fn uid(&self) -> Cow<'a, str> {
        self.text("uid")
    }

    /// `metadata.resourceVersion`, or empty.
    #[must_use]
    pub fn resource_version(&self) -> Cow<'a, str> {
        self.text("resourceVersion")
    }

    /// `metadata.generation`.
    #[must_use]
    pub fn generation(&self) -> Option<i64> {
        self.metadata("generation")?.as_int()
    }

    /// Whether it is being deleted: `metadata.deletionTimestamp` is set.
    #[must_use]
    pub fn is_deleting(&self) -> bool {
        self.metadata("deletionTimestamp").is_some()
    }

    /// A label.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<Cow<'a, str>> {
        self.metadata("labels")?.get(key)?.as_str()
    }

    /// An annotation.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<Cow<'a, str>> {
        self.metadata("annotations")?.get(key)?.as_str()
    }

    /// `metadata.ownerReferences`.
    pub fn owners(&self) -> impl Iterator<Item = Node<'a>> + use<'a> {
        self.metadata("ownerReferences").into_iter().flat_map(Node::elements)
    }
}

/// Key of an object within its kind: namespace, empty if cluster-scoped, and name. Clones share both.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// `metadata.namespace`.
    pub namespace: Arc<str>,
    /// `metadata.name`.
    pub name: Arc<str>,
}

impl ObjectKey {
    /// Key of a namespaced object.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// The reference type of kube-rs.
    #[must_use]
    pub fn to_object_ref<K: Lookup>(&self, dyntype: K::DynamicType) -> ObjectRef<K> {
        let reference = ObjectRef::new_with(&self.name, dyntype);
        if self.namespace.is_empty() { reference } else { reference.within(&self.namespace) }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.namespace.is_empty() {
            write!(formatter, "{}/", self.namespace)?;
        }
        formatter.write_str(&self.name)
    }
}

impl<K: Lookup> From<&ObjectRef<K>> for ObjectKey {
    fn from(reference: &ObjectRef<K>) -> Self {
        Self::new(reference.namespace.as_deref().unwrap_or_default(), &reference.name)
    }
}

impl From<&ObjectView<'_>> for ObjectKey {
    fn from(object: &ObjectView<'_>) -> Self {
        Self::new(&object.namespace(), &object.name())
    }
}

impl From<&Self> for ObjectKey {
    fn from(key: &Self) -> Self {
        key.clone()
    }
}

/// A path to a field: dotted, or a JSON pointer.
///
/// `status.phase`, `metadata.labels['app.kubernetes.io/name']`, `spec.containers[0].image`; `/metadata/labels/app.kubernetes.io~1name`.
/// Any text is a valid path; one without a match reads as absent.
#[derive(Clone, Debug)]
pub struct FieldPath {
    segments: Box<[Segment]>,
    /// Prefix of the path whose position is recorded while the object is read.
    known: Option<Known>,
    /// Its number of segments.
    noted: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Segment {
    Key(Box<str>),
    Index(usize),
}

impl FieldPath {
    /// Parses a path.
    #[must_use]
    pub fn new(path: &str) -> Self {
        let segments = match path.strip_prefix('/') {
            Some(pointer) => pointer.split('/').map(pointer_segment).collect(),
            None => dotted(path),
        };
        let key = |index: usize| match segments.get(index) {
            Some(Segment::Key(key)) => Some(&**key),
            _ => None,
        };
        let below = key(0).zip(key(1)).and_then(|(parent, key)| Known::find(parent, key));
        let top = key(0).and_then(|key| Known::find("", key));
        let (known, noted) = match (below, top) {
            (Some(known), _) => (Some(known), 2),
            (None, Some(known)) => (Some(known), 1),
            (None, None) => (None, 0),
        };
        Self { segments: segments.into(), known, noted }
    }

    pub(crate) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Whether partial metadata has the field.
    pub(crate) fn is_metadata(&self) -> bool {
        let first = self.segments.first();
        ["apiVersion", "kind", "metadata"].iter().any(|key| first == Some(&Segment::Key((*key).into())))
    }
}

impl From<&str> for FieldPath {
    fn from(path: &str) -> Self {
        Self::new(path)
    }
}

fn pointer_segment(text: &str) -> Segment {
    match text.parse() {
        Ok(index) if text == "0" || !text.starts_with(['0', '+']) => Segment::Index(index),
        _ => Segment::Key(text.replace("~1", "/").replace("~0", "~").into()),
    }
}

fn dotted(path: &str) -> Vec<Segment> {
    let mut segments = Vec::new();
    let mut rest = path.strip_prefix('.').unwrap_or(path);
    while !rest.is_empty() {
        if let Some((inside, after)) = rest.strip_prefix('[').and_then(bracketed) {
            segments.push(inside);
            rest = after.strip_prefix('.').unwrap_or(after);
            continue;
        }
        let end = rest.char_indices().skip(1).find(|(_, char)| matches!(char, '.' | '['));
        let (key, after) = rest.split_at(end.map_or(rest.len(), |(index, _)| index));
        segments.push(Segment::Key(key.into()));
        rest = after.strip_prefix('.').unwrap_or(after);
    }
    segments
}

/// `'key']` or `0]`, and the remaining text.
fn bracketed(text: &str) -> Option<(Segment, &str)> {
    for quote in ['\'', '"'] {
        if let Some(quoted) = text.strip_prefix(quote) {
            let (key, after) = quoted.split_once(quote)?;
            return Some((Segment::Key(key.into()), after.strip_prefix(']')?));
        }
    }
    let (index, after) = text.split_once(']')?;
    Some((Segment::Index(index.parse().ok()?), after))
}

fn walk<'a>(mut node: Node<'a>, segments: &[Segment]) -> Option<Node<'a>> {
    for segment in segments {
        node = match segment {
            Segment::Key(key) => node.get(key)?,
            // A key may look like a number.
            Segment::Index(index) => node.elements().nth(*index).or_else(|| node.get(&index.to_string()))?,
        };
    }
    Some(node)
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: &[u8] = br#"{"kind":"Pod","metadata":{"name":"a","labels":{"app.kubernetes.io/name":"web","7":"seven"},
        "annotations":null},"spec":{"containers":[{"image":"one"},{"image":"two"}]},"status":{"phase":"Running"},"x":{"y":{"z":1}}}"#;

    #[test]
    fn paths_lead_to_fields() {
        let pod = ObjectView::parse(POD).unwrap();
        for (path, expected) in [
            ("status.phase", Some("Running")),
            (".status.phase", Some("Running")),
            ("/status/phase", Some("Running")),
            ("metadata.labels['app.kubernetes.io/name']", Some("web")),
            ("metadata.labels[\"app.kubernetes.io/name\"]", Some("web")),
            ("/metadata/labels/app.kubernetes.io~1name", Some("web")),
            ("/metadata/labels/7", Some("seven")),
            ("spec.containers[1].image", Some("two")),
            ("/spec/containers/0/image", Some("one")),
            ("spec.containers[2].image", None),
            ("metadata.annotations", None),
            ("metadata.annotations.x", None),
            ("kind", Some("Pod")),
            ("nothing.here", None),
            ("metadata.labels[", None),
        ] {
            let found = pod.field(&FieldPath::new(path)).and_then(Node::as_str);
            assert_eq!(found.as_deref(), expected, "{path}");
        }
        assert_eq!(pod.field(&FieldPath::new("x.y.z")).and_then(Node::as_int), Some(1));
    }

    #[test]
    fn a_path_knows_whether_metadata_has_it() {
        for (path, expected) in [
            ("metadata.labels", true),
            ("/metadata/name", true),
            ("kind", true),
            ("status", false),
            ("", false),
        ] {
            assert_eq!(FieldPath::new(path).is_metadata(), expected, "{path}");
        }
    }
}
