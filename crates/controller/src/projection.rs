//! Projections: selection of the fields of an object.

use std::borrow::Cow;
use std::collections::BTreeMap;

use kstatus::Node;

use crate::object::{FieldPath, ObjectView, Segment};

/// Fields that are always kept: watches, stores and finalizers need them.
const IDENTITY: [&str; 9] = [
    "apiVersion",
    "kind",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "metadata.resourceVersion",
    "metadata.generation",
    "metadata.creationTimestamp",
    "metadata.deletionTimestamp",
];

/// Selection of fields. Other fields are not parsed.
///
/// Paths go through lists: `spec.containers.image` is the image of each container. Identifying fields are always kept:
/// apiVersion and kind, and in metadata name, namespace, uid, resourceVersion, generation, creationTimestamp and
/// deletionTimestamp.
///
/// Do not write a projected object as a whole (`replace`): the server would remove the missing fields. Patches and
/// server-side apply are safe.
///
/// ```
/// use settled_controller::{ObjectView, Projection};
/// let pod = ObjectView::parse(br#"{"metadata":{"name":"a","labels":{"app":"web"}},"spec":{"nodeName":"n","volumes":[]}}"#)?;
/// let small = |projection: Projection| String::from_utf8(projection.apply(&pod));
/// assert_eq!(small(Projection::only(["spec.nodeName"]))?, r#"{"metadata":{"name":"a"},"spec":{"nodeName":"n"}}"#);
/// assert_eq!(small(Projection::without(["metadata.labels", "spec"]))?, r#"{"metadata":{"name":"a"}}"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Projection(Kept);

#[derive(Clone, Debug, Default)]
enum Kept {
    #[default]
    All,
    Only(Tree),
    Without(Tree),
}

/// Paths, by their keys.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tree {
    /// End of a path.
    ends: bool,
    /// For an exclusion of a whole subtree: the fields in it that are kept.
    spared: Option<Box<Self>>,
    below: BTreeMap<Box<str>, Self>,
}

impl Tree {
    fn new<P: Into<FieldPath>>(paths: impl IntoIterator<Item = P>) -> Self {
        let mut root = Self::default();
        for path in paths {
            let mut tree = &mut root;
            for segment in path.into().segments() {
                // Lists are kept as a whole, or by the fields of their elements.
                if let Segment::Key(key) = segment {
                    tree = tree.below.entry(key.clone()).or_default();
                }
            }
            tree.ends = true;
        }
        root
    }
}

impl Projection {
    /// All fields.
    #[must_use]
    pub fn all() -> Self {
        Self::default()
    }

    /// These fields, and the identifying ones.
    #[must_use]
    pub fn only<P: Into<FieldPath>>(paths: impl IntoIterator<Item = P>) -> Self {
        let identity = IDENTITY.into_iter().map(FieldPath::new);
        Self(Kept::Only(Tree::new(identity.chain(paths.into_iter().map(Into::into)))))
    }

    /// All fields except these. Identifying fields are kept in any case.
    #[must_use]
    pub fn without<P: Into<FieldPath>>(paths: impl IntoIterator<Item = P>) -> Self {
        let mut tree = Tree::new(paths);
        tree.ends = false;
        for path in IDENTITY {
            spare(&mut tree, path);
        }
        Self(Kept::Without(tree))
    }

    /// Only the metadata.
    #[must_use]
    pub fn metadata() -> Self {
        Self::only(["metadata"])
    }

    /// All except `metadata.managedFields`: often a third of an object, and rarely read.
    #[must_use]
    pub fn without_managed_fields() -> Self {
        Self::without(["metadata.managedFields"])
    }

    /// The JSON of an object's projection.
    #[must_use]
    pub fn apply(&self, object: &ObjectView<'_>) -> Vec<u8> {
        let mut json = Vec::new();
        self.write(object.root(), &mut json);
        json
    }

    pub(crate) fn write(&self, object: Node<'_>, json: &mut Vec<u8>) {
        write(object, self.selection(), json);
    }

    /// What is kept of a whole object.
    pub(crate) fn selection(&self) -> Selection<'_> {
        match &self.0 {
            Kept::All => Selection::All,
            Kept::Only(tree) => Selection::only(tree),
            Kept::Without(tree) => Selection::without(tree),
        }
    }
}

/// What is kept of a value. Of a list, it is the same for all elements.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Selection<'t> {
    All,
    Only(&'t Tree),
    Without(&'t Tree),
}

impl<'t> Selection<'t> {
    fn only(tree: &'t Tree) -> Self {
        if tree.ends { Self::All } else { Self::Only(tree) }
    }

    fn without(tree: &'t Tree) -> Self {
        match &tree.spared {
            Some(spared) => Self::only(spared),
            None => Self::Without(tree),
        }
    }

    /// The selection of a member; `None` if it is left out. `name` is only called if the selection depends on it.
    pub(crate) fn member<'k>(self, name: impl FnOnce() -> Cow<'k, str>) -> Option<Self> {
        match self {
            Self::All => Some(Self::All),
            Self::Only(tree) => tree.below.get(&*name()).map(Self::only),
            Self::Without(tree) => match tree.below.get(&*name()) {
                Some(below) if below.ends && below.spared.is_none() => None,
                Some(below) => Some(Self::without(below)),
                None => Some(Self::All),
            },
        }
    }
}

/// Removes identifying fields from a tree of exclusions.
fn spare(tree: &mut Tree, path: &str) {
    let keys = path.split('.');
    let Some(parent) = keys.clone().next().and_then(|key| tree.below.get_mut(key)) else { return };
    match keys.clone().nth(1) {
        None => parent.ends = false,
        Some(key) if parent.ends => {
            parent.spared.get_or_insert_default().below.entry(key.into()).or_default().ends = true;
        }
        Some(key) => {
            if let Some(tree) = parent.below.get_mut(key) {
                tree.ends = false;
            }
        }
    }
}

fn write_value(value: Node<'_>, json: &mut Vec<u8>) {
    match value {
        Node::Text(text) => json.extend_from_slice(text),
        // Writing to memory cannot fail.
        Node::Value(value) => drop(serde_json::to_writer(json, value)),
    }
}

fn write_key(key: &str, first: &mut bool, json: &mut Vec<u8>) {
    if !std::mem::take(first) {
        json.push(b',');
    }
    if key.contains(|char: char| matches!(char, '"' | '\\') || char.is_control()) {
        // Writing to memory cannot fail.
        drop(serde_json::to_writer(&mut *json, key));
    } else {
        json.push(b'"');
        json.extend_from_slice(key.as_bytes());
        json.push(b'"');
    }
    json.push(b':');
}

fn write(value: Node<'_>, selection: Selection<'_>, json: &mut Vec<u8>) {
    let mut first = true;
    match (selection, value.kind()) {
        (Selection::All, _) => write_value(value, json),
        (_, kstatus::NodeKind::Map) => {
            json.push(b'{');
            for (key, value) in value.members() {
                let Some(below) = selection.member(|| Cow::Borrowed(&*key)) else { continue };
                write_key(&key, &mut first, json);
                write(value, below, json);
            }
            json.push(b'}');
        }
        (_, kstatus::NodeKind::List) => {
            json.push(b'[');
            for element in value.elements() {
                if !std::mem::take(&mut first) {
                    json.push(b',');
                }
                write(element, selection, json);
            }
            json.push(b']');
        }
        _ => write_value(value, json),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn pod() -> Value {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7", "labels": {"app": "web", "x\"y": "z"},
                "managedFields": [{"manager": "m"}]},
            "spec": {"nodeName": "node", "containers": [{"name": "one", "image": "i"}, {"name": "two"}], "volumes": []},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "message": "m"}]},
        })
    }

    const IDENTIFIED: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"7"}"#;

    fn projected(projection: &Projection, object: &Value) -> Value {
        let bytes = object.to_string();
        let from_bytes = projection.apply(&ObjectView::parse(bytes.as_bytes()).unwrap());
        let from_value = projection.apply(&ObjectView::from_value(object).unwrap());
        let [from_bytes, from_value] =
            [from_bytes, from_value].map(|json| serde_json::from_slice::<Value>(&json).unwrap());
        assert_eq!(from_bytes, from_value);
        let view = ObjectView::parse(bytes.as_bytes()).unwrap();
        let read: Value = crate::typed::selected_from_node(view.root(), projection.selection()).unwrap();
        assert_eq!(read, from_bytes);
        from_bytes
    }

    #[test]
    fn what_is_named_is_kept_or_left_out() {
        let identified: Value = serde_json::from_str(&format!("{IDENTIFIED}}}")).unwrap();
        let with = |pointer: &str, value: Value| {
            let mut object = identified.clone();
            let (parent, key) = pointer.rsplit_once('/').unwrap();
            if !parent.is_empty() && object.pointer(parent).is_none() {
                object[&parent[1..]] = json!({});
            }
            object.pointer_mut(parent).unwrap()[key] = value;
            object
        };
        for (projection, expected) in [
            (Projection::only(["spec.nodeName"]), with("/spec/nodeName", json!("node"))),
            (
                Projection::only(["spec.containers[0].name"]),
                with("/spec/containers", json!([{"name": "one"}, {"name": "two"}])),
            ),
            (
                Projection::only(["status.conditions.type", "/status/conditions/status"]),
                with("/status/conditions", json!([{"type": "Ready", "status": "True"}])),
            ),
            (
                Projection::only(["metadata.labels"]),
                with("/metadata/labels", json!({"app": "web", "x\"y": "z"})),
            ),
            (Projection::only(["metadata.labels['x\"y']"]), with("/metadata/labels", json!({"x\"y": "z"}))),
            (Projection::only::<&str>([]), identified.clone()),
            (
                Projection::without([
                    "spec",
                    "status",
                    "metadata.managedFields",
                    "metadata.labels",
                    "metadata.uid",
                    "kind",
                ]),
                identified.clone(),
            ),
            (Projection::without(["spec", "status", "metadata"]), identified.clone()),
            (Projection::all(), pod()),
        ] {
            assert_eq!(projected(&projection, &pod()), expected, "{projection:?}");
        }
        let mut without = pod();
        without["metadata"].as_object_mut().unwrap().remove("managedFields");
        assert_eq!(projected(&Projection::without_managed_fields(), &pod()), without);
    }

    proptest! {
        /// A projection of any JSON is JSON, and is idempotent.
        #[test]
        fn projections_are_json_and_idempotent(keys in prop::collection::vec("[a-c\"\\\\é\n]{0,2}", 1..6), path in "[a-c]{1,2}(\\.[a-c]{1,2})?") {
            let mut object = json!({});
            for (index, key) in keys.iter().enumerate() {
                object[key] = json!({"a": [{"b": index}, 1, null], "b": key, key.clone(): {"c": 1}});
            }
            for projection in [Projection::only([path.as_str()]), Projection::without([path.as_str()])] {
                let once = projected(&projection, &object);
                prop_assert_eq!(projected(&projection, &once), once.clone());
            }
        }
    }
}
