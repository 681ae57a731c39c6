//! Cluster state: the objects of a scenario, updated with each write.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use settled_apiserver::Change;

use crate::world::World;

/// Resource, namespace and name of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// The API group; empty for the core group.
    pub group: String,
    /// The plural name of the resource, such as `configmaps`.
    pub resource: String,
    /// The namespace; empty if it is in none.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl ObjectKey {
    pub(crate) fn of(change: &Change) -> Self {
        Self {
            group: change.group.clone(),
            resource: change.resource.clone(),
            namespace: change.namespace.clone(),
            name: change.name.clone(),
        }
    }

    /// Whether it is a Lease.
    pub(crate) fn is_lease(&self) -> bool {
        (self.group.as_str(), self.resource.as_str()) == ("coordination.k8s.io", "leases")
    }

    /// Whether writes of its kind are auxiliary: Leases are renewed continuously, Events only report.
    pub(crate) fn is_auxiliary(&self) -> bool {
        self.is_lease()
            || matches!((self.group.as_str(), self.resource.as_str()), ("" | "events.k8s.io", "events"))
    }

    /// Whether writes of its kind decide nothing: auxiliary ones, and reviews, which are not stored.
    pub(crate) fn is_exempt(&self) -> bool {
        self.is_auxiliary() || matches!(self.group.as_str(), "authorization.k8s.io" | "authentication.k8s.io")
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.resource)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        f.write_str(" ")?;
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}

/// Existing objects, and the UIDs of deleted ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cluster {
    objects: BTreeMap<ObjectKey, Arc<Value>>,
    uids: BTreeMap<String, ObjectKey>,
}

impl Cluster {
    /// Applies a change, and returns the object before and after it.
    pub(crate) fn apply(&mut self, change: Change) -> (ObjectKey, Option<Arc<Value>>, Option<Arc<Value>>) {
        let key = ObjectKey::of(&change);
        let new = change.object.map(Arc::new);
        let old = match &new {
            Some(object) => {
                let uid = uid(object);
                if !self.uids.contains_key(uid) {
                    self.uids.insert(uid.to_owned(), key.clone());
                }
                self.objects.insert(key.clone(), object.clone())
            }
            None => self.objects.remove(&key),
        };
        (key, old, new)
    }

    #[cfg(test)]
    pub(crate) fn insert(&mut self, resource: &str, object: Value) {
        let key = ObjectKey {
            group: String::new(),
            resource: resource.to_owned(),
            namespace: String::new(),
            name: text(&object, "/metadata/name").to_owned(),
        };
        self.uids.insert(uid(&object).to_owned(), key.clone());
        self.objects.insert(key, Arc::new(object));
    }

    pub(crate) fn objects(&self) -> impl Iterator<Item = (&ObjectKey, &Arc<Value>)> {
        self.objects.iter()
    }

    pub(crate) fn get(&self, key: &ObjectKey) -> Option<&Arc<Value>> {
        self.objects.get(key)
    }

    /// UIDs of all objects, including deleted ones.
    pub(crate) fn uids(&self) -> impl Iterator<Item = (&String, &ObjectKey)> {
        self.uids.iter()
    }

    /// Whether an object with this UID exists.
    pub(crate) fn has_uid(&self, wanted: &str) -> bool {
        self.uids
            .get(wanted)
            .and_then(|key| self.objects.get(key))
            .is_some_and(|object| uid(object) == wanted)
    }

    /// The object with a UID, existing or deleted.
    pub(crate) fn owner(&self, uid: &str) -> String {
        match self.uids.get(uid) {
            Some(key) if self.has_uid(uid) => key.to_string(),
            Some(key) => format!("{key} (deleted)"),
            None => format!("UID {uid:?}"),
        }
    }
}

/// The text at a path of an object.
pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// A field of `metadata`. A pointer would be unescaped first, each time.
pub(crate) fn metadata<'a>(object: &'a Value, field: &str) -> Option<&'a Value> {
    object.get("metadata")?.get(field)
}

/// The UID of an object.
pub(crate) fn uid(object: &Value) -> &str {
    metadata(object, "uid").and_then(Value::as_str).unwrap_or_default()
}

/// The generation of an object.
pub(crate) fn generation(object: &Value) -> Option<i64> {
    metadata(object, "generation").and_then(Value::as_i64)
}

/// Kind, namespace and name of an object, for messages.
pub(crate) fn describe(object: &Value) -> String {
    let [kind, namespace, name] =
        ["/kind", "/metadata/namespace", "/metadata/name"].map(|pointer| text(object, pointer));
    if namespace.is_empty() { format!("{kind} {name}") } else { format!("{kind} {namespace}/{name}") }
}

/// The cluster and the world after a write, for invariants.
pub struct View<'a, W> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) world: &'a W,
}

impl<'a, W: World> View<'a, W> {
    /// The objects of a kind, of those that the scenario or the controller has written, by namespace and name.
    pub fn objects(&self, kind: &str) -> impl Iterator<Item = &'a Value> {
        self.cluster
            .objects()
            .map(|(_, object)| &**object)
            .filter(move |object| object.get("kind").is_some_and(|found| found == kind))
    }

    /// One object. The namespace is empty for kinds without one.
    #[must_use]
    pub fn get(&self, kind: &str, namespace: &str, name: &str) -> Option<&'a Value> {
        let is = |object: &Value, field, wanted: &str| {
            metadata(object, field).and_then(Value::as_str).unwrap_or_default() == wanted
        };
        self.objects(kind).find(|object| is(object, "name", name) && is(object, "namespace", namespace))
    }

    /// Whether an object with this UID exists.
    #[must_use]
    pub fn has_uid(&self, uid: &str) -> bool {
        self.cluster.has_uid(uid)
    }

    /// State of the external system.
    #[must_use]
    pub const fn world(&self) -> &'a W {
        self.world
    }
}
