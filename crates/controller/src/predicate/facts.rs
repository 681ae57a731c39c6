//! Facts about an object that are kept for the comparison with its next version.

use std::borrow::Cow;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};

use kstatus::Node;
use settled_apimachinery::labels::Labels;

use super::ChangeTest;
use crate::object::ObjectView;

/// Facts about an object: its UID, and hashes of the values that each predicate reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) uid: u64,
    /// In the order of tests: the result of an object test, or the compared values.
    pub(crate) values: Box<[u64]>,
}

impl Facts {
    /// Whether both belong to the same incarnation of an object.
    pub(crate) fn is_same_object(&self, other: &Self) -> bool {
        self.uid == other.uid
    }
}

/// Number of values that a change test compares.
pub(crate) fn width(test: &ChangeTest) -> usize {
    match test {
        ChangeTest::OwnWrite(_) => 2,
        _ => 1,
    }
}

/// Adds the values that a change test compares. Hashes are seeded, to prevent crafted collisions.
pub(crate) fn push(values: &mut Vec<u64>, test: &ChangeTest, object: &ObjectView<'_>, state: &RandomState) {
    match test {
        ChangeTest::Differs(path) => {
            values.push(object.field(path).map_or(0, |value| hash_value(value, state)));
        }
        ChangeTest::Computed(compute) => {
            let mut hasher = state.build_hasher();
            compute(object, &mut hasher);
            values.push(hasher.finish());
        }
        ChangeTest::DeletionRequested => values.push(u64::from(object.is_deleting())),
        ChangeTest::OwnWriteIn(own_writes) => {
            values.push(own_writes.version(&object.uid(), &object.resource_version()));
        }
        ChangeTest::OwnWrite(manager) => {
            let (mut own, mut others) = (state.build_hasher(), state.build_hasher());
            let fields = object.field(&"metadata.managedFields".into());
            for entry in fields.into_iter().flat_map(Node::elements) {
                let is_own = entry.get("manager").is_some_and(|name| name.is(manager));
                let hasher = if is_own { &mut own } else { &mut others };
                // Without the fields: a manager that takes over a field changes another manager's entry, which has not
                // written anything.
                for key in ["manager", "operation", "subresource", "time"] {
                    if let Some(value) = entry.get(key) {
                        hash_into(value, hasher);
                    }
                    hasher.write_u8(0);
                }
            }
            values.extend([own.finish(), others.finish()]);
        }
    }
}

/// Hash of a value. Absent, null and empty values are equal.
fn hash_value(value: Node<'_>, state: &RandomState) -> u64 {
    match &*bytes(value) {
        b"{}" | b"[]" | b"\"\"" | b"null" => 0,
        text => state.hash_one(text),
    }
}

/// A server encodes equal values with equal bytes, so the bytes are hashed.
fn hash_into(value: Node<'_>, hasher: &mut impl Hasher) {
    bytes(value).hash(hasher);
}

fn bytes(value: Node<'_>) -> Cow<'_, [u8]> {
    match value {
        Node::Text(text) => Cow::Borrowed(text),
        Node::Value(value) => Cow::Owned(value.to_string().into_bytes()),
    }
}

/// Access to the labels of an object for selectors.
pub(crate) struct LabelsOf<'a>(Option<Node<'a>>);

impl<'a> LabelsOf<'a> {
    pub(crate) fn new(object: &ObjectView<'a>) -> Self {
        Self(object.field(&"metadata.labels".into()))
    }
}

impl Labels for LabelsOf<'_> {
    fn label(&self, key: &str) -> Option<&str> {
        match self.0?.get(key)?.as_str()? {
            Cow::Borrowed(value) => Some(value),
            // Labels have no characters that JSON escapes.
            Cow::Owned(_) => None,
        }
    }
}
