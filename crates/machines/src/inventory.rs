//! Inventory: the objects of the API that a server, a state directory or an export has, by kind, namespace and name. No I/O.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::types::{GROUP, VERSION};

/// A kind of the API, in the order in which objects are created.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Kind {
    /// Configuration that Machines share.
    MachineClass,
    /// Machines that exist already.
    Host,
    /// Clusters.
    Cluster,
    /// Groups that change by rollouts.
    MachineDeployment,
    /// Groups of equal Machines.
    MachineSet,
    /// Machines.
    Machine,
    /// When Machines are unhealthy.
    MachineHealthCheck,
}

impl Kind {
    /// All kinds, in the order in which objects are created.
    pub const ALL: [Self; 7] = [
        Self::MachineClass,
        Self::Host,
        Self::Cluster,
        Self::MachineDeployment,
        Self::MachineSet,
        Self::Machine,
        Self::MachineHealthCheck,
    ];

    /// The name in the API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MachineClass => "MachineClass",
            Self::Host => "Host",
            Self::Cluster => "Cluster",
            Self::MachineDeployment => "MachineDeployment",
            Self::MachineSet => "MachineSet",
            Self::Machine => "Machine",
            Self::MachineHealthCheck => "MachineHealthCheck",
        }
    }

    /// The resource in paths.
    #[must_use]
    pub const fn plural(self) -> &'static str {
        match self {
            Self::MachineClass => "machineclasses",
            Self::Host => "hosts",
            Self::Cluster => "clusters",
            Self::MachineDeployment => "machinedeployments",
            Self::MachineSet => "machinesets",
            Self::Machine => "machines",
            Self::MachineHealthCheck => "machinehealthchecks",
        }
    }

    /// The kind of this name, plural or short name, in any case.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        let name = name.split('.').next().unwrap_or_default();
        let short = match name {
            "cl" => Some(Self::Cluster),
            "ma" => Some(Self::Machine),
            "ms" => Some(Self::MachineSet),
            "md" => Some(Self::MachineDeployment),
            _ => None,
        };
        let is_named = |kind: &&Self| kind.plural() == name || kind.as_str().eq_ignore_ascii_case(name);
        short.or_else(|| Self::ALL.iter().find(is_named).copied())
    }

    /// The kind of an object, if it is one of the API.
    #[must_use]
    pub fn of(object: &Value) -> Option<Self> {
        let version = object.get("apiVersion")?.as_str()?;
        if version.split_once('/') != Some((GROUP, VERSION)) {
            return None;
        }
        let kind = object.get("kind")?.as_str()?;
        Self::ALL.into_iter().find(|known| known.as_str() == kind)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.as_str())
    }
}

/// Kind, namespace and name of an object.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Id {
    /// Kind.
    pub kind: Kind,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl Id {
    /// An id.
    #[must_use]
    pub fn new(kind: Kind, namespace: &str, name: &str) -> Self {
        Self { kind, namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// The id of an object; `default` is the namespace of objects that name none.
    #[must_use]
    pub fn of(object: &Value, default: &str) -> Option<Self> {
        let kind = Kind::of(object)?;
        let name = text(object, "/metadata/name");
        if name.is_empty() {
            return None;
        }
        let namespace = text(object, "/metadata/namespace");
        Some(Self::new(kind, if namespace.is_empty() { default } else { namespace }, name))
    }
}

impl fmt::Display for Id {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.kind, self.name)
    }
}

/// A text of an object, or nothing.
pub(crate) fn text<'v>(object: &'v Value, pointer: &str) -> &'v str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Objects of the API, without managed fields: these are half of a small object, and no decision depends on them. A clone shares them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Inventory {
    objects: BTreeMap<Id, Arc<Value>>,
    others: Vec<Value>,
}

/// An object that cannot be read as its kind.
#[derive(Debug, thiserror::Error)]
#[error("{id}: {source}")]
pub struct Malformed {
    /// The object.
    pub id: String,
    /// Why.
    #[source]
    pub source: serde_json::Error,
}

impl Inventory {
    /// The inventory of these objects. `default` is the namespace of objects that name none. Of two with one id, the last counts.
    #[must_use]
    pub fn new(objects: impl IntoIterator<Item = Value>, default: &str) -> Self {
        let mut inventory = Self::default();
        for mut object in objects {
            match Id::of(&object, default) {
                Some(id) => {
                    object["metadata"]["namespace"] = id.namespace.clone().into();
                    inventory.insert(id, object);
                }
                None => inventory.others.push(object),
            }
        }
        inventory
    }

    /// Adds an object, or replaces the one with its id.
    pub fn insert(&mut self, id: Id, mut object: Value) {
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
        self.objects.insert(id, Arc::new(object));
    }

    /// Removes an object.
    pub fn remove(&mut self, id: &Id) -> Option<Value> {
        self.objects.remove(id).map(Arc::unwrap_or_clone)
    }

    /// Whether there is no object of the API.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// How many objects of the API there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// An object.
    #[must_use]
    pub fn get(&self, id: &Id) -> Option<&Value> {
        self.objects.get(id).map(|object| &**object)
    }

    /// All objects of the API, in the order in which they are created.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&Id, &Value)> {
        self.objects.iter().map(|(id, object)| (id, &**object))
    }

    /// Objects of other kinds.
    #[must_use]
    pub fn others(&self) -> &[Value] {
        &self.others
    }

    /// The objects of a kind, in the order of namespaces and names.
    pub fn of_kind(&self, kind: Kind) -> impl Iterator<Item = (&Id, &Value)> {
        let (first, end) = (Id::new(kind, "", ""), kind as usize + 1);
        let objects = match Kind::ALL.get(end) {
            Some(next) => self.objects.range(first..Id::new(*next, "", "")),
            None => self.objects.range(first..),
        };
        objects.map(|(id, object)| (id, &**object))
    }

    /// The objects of a kind, as its type.
    ///
    /// # Errors
    /// One of them is not of that type.
    pub fn typed<K: DeserializeOwned>(&self, kind: Kind) -> Result<Vec<K>, Malformed> {
        let read = |(id, object): (&Id, &Value)| {
            K::deserialize(object).map_err(|source| Malformed { id: id.to_string(), source })
        };
        self.of_kind(kind).map(read).collect()
    }

    /// The objects of one Cluster: itself, what names it in its spec or template, classes that these use, and health checks of its namespace.
    #[must_use]
    pub fn of_cluster(&self, namespace: &str, name: &str) -> Self {
        let is_of = |id: &Id, object: &Value| {
            id.namespace == namespace
                && match id.kind {
                    Kind::Cluster => id.name == name,
                    Kind::Machine => text(object, "/spec/clusterName") == name,
                    Kind::MachineSet | Kind::MachineDeployment => {
                        text(object, "/spec/template/spec/clusterName") == name
                    }
                    Kind::MachineClass | Kind::Host | Kind::MachineHealthCheck => true,
                }
        };
        let objects = self.objects.iter().filter(|(id, object)| is_of(id, object));
        Self {
            objects: objects.map(|(id, object)| (id.clone(), object.clone())).collect(),
            others: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(kind: &str, name: &str) -> Value {
        json!({"apiVersion": "cluster.settled.dev/v1alpha1", "kind": kind, "metadata": {"name": name}})
    }

    #[test]
    fn objects_are_found_by_kind() {
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}});
        let all = [object("Machine", "b"), object("Cluster", "prod"), node, object("Machine", "a")];
        let inventory = Inventory::new(all, "default");
        let names: Vec<&str> = inventory.of_kind(Kind::Machine).map(|(id, _)| id.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(inventory.of_kind(Kind::MachineHealthCheck).count(), 0);
        assert_eq!((inventory.len(), inventory.others().len()), (3, 1));
        let first = inventory.iter().next().map(|(id, _)| id.to_string());
        assert_eq!(first.as_deref(), Some("Cluster/prod"));
    }

    #[test]
    fn objects_have_no_managed_fields() {
        let mut machine = object("Machine", "a");
        machine["metadata"]["managedFields"] = json!([{"manager": "b"}]);
        let inventory = Inventory::new([machine], "default");
        let metadata =
            inventory.get(&Id::new(Kind::Machine, "default", "a")).map(|machine| &machine["metadata"]);
        assert_eq!(metadata, Some(&json!({"name": "a", "namespace": "default"})));
    }

    #[test]
    fn kinds_have_all_the_names_of_kubectl() {
        for name in
            ["md", "MachineDeployment", "machinedeployments", "machinedeployments.cluster.settled.dev"]
        {
            assert_eq!(Kind::parse(name), Some(Kind::MachineDeployment), "{name}");
        }
        assert_eq!(Kind::parse("nodes"), None);
        assert!(Kind::ALL.is_sorted(), "`of_kind` relies on it");
    }
}
