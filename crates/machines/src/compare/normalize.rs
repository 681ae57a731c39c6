//! Normal form of what a cluster declares: without what controllers own, with defaults, with roles in place of names.
//!
//! Two clusters with different names have the same normal form if they declare the same: the name of the Cluster, alone or as the prefix of another
//! name, becomes `${cluster}`, and machines of the control plane are numbered.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;

use serde_json::{Map, Value, json};
use settled_schema::Schema;

use crate::crds::definitions;
use crate::inventory::{Id, Inventory, Kind, text};
use crate::types::{GROUP, PAUSED_ANNOTATION};

/// What stands for the name of the Cluster.
pub(crate) const CLUSTER: &str = "${cluster}";

/// What is compared.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Options {
    /// Whether the sizes of groups are left out.
    pub ignore_replicas: bool,
}

/// What an object is in its cluster, whatever its name.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Role {
    /// Kind.
    pub kind: Kind,
    /// Its role: the name without that of the Cluster.
    pub name: String,
}

impl fmt::Display for Role {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.kind, self.name)
    }
}

/// An object in its normal form.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Which object it is.
    pub id: Id,
    /// Its normal form.
    pub value: Value,
}

/// What a cluster declares, in its normal form.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Normalized {
    /// Objects by their roles.
    pub entries: BTreeMap<Role, Entry>,
    /// The name of the Cluster, if there is exactly one.
    pub cluster: Option<String>,
}

/// Schemas of the kinds, for their defaults.
static SCHEMAS: LazyLock<BTreeMap<String, Schema>> = LazyLock::new(|| {
    let schema = |definition: &Value| {
        let schema = definition.pointer("/spec/versions/0/schema/openAPIV3Schema")?;
        Some((text(definition, "/spec/names/kind").to_owned(), Schema::parse(schema).ok()?))
    };
    definitions(&[]).iter().filter_map(|definition| schema(&json!(definition))).collect()
});

impl Normalized {
    /// The normal form of what an inventory declares. Objects that are controlled by others are left out: these declare them.
    #[must_use]
    pub fn new(inventory: &Inventory, options: Options) -> Self {
        let mut clusters = inventory.of_kind(Kind::Cluster);
        let cluster = match (clusters.next(), clusters.next()) {
            (Some((id, _)), None) => Some(id.name.clone()),
            _ => None,
        };
        let names = Names { cluster: cluster.as_deref() };
        let mut entries = BTreeMap::new();
        let mut control_plane = 0;
        for (id, object) in inventory.iter() {
            if is_controlled(object) {
                continue;
            }
            let name = match id.kind {
                Kind::Machine
                    if object.pointer("/spec/versions/controlPlane").is_some_and(Value::is_string) =>
                {
                    control_plane += 1;
                    format!("control-plane-{}", control_plane - 1)
                }
                _ => names.role(&id.name),
            };
            let value = normal(id, object, &names, options);
            entries.insert(Role { kind: id.kind, name }, Entry { id: id.clone(), value });
        }
        Self { entries, cluster }
    }
}

fn is_controlled(object: &Value) -> bool {
    let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    owners.into_iter().flatten().any(|owner| owner.get("controller") == Some(&Value::Bool(true)))
}

/// The name of the Cluster, for what is called after it.
struct Names<'n> {
    cluster: Option<&'n str>,
}

impl Names<'_> {
    /// A name without that of the Cluster.
    fn role(&self, name: &str) -> String {
        match self.cluster.and_then(|cluster| name.strip_prefix(cluster)) {
            Some("") => CLUSTER.to_owned(),
            Some(rest) if rest.starts_with('-') && rest.len() > 1 => rest[1..].to_owned(),
            _ => name.to_owned(),
        }
    }

    /// A value that may name the Cluster.
    fn value(&self, text: &str) -> String {
        match self.cluster.and_then(|cluster| text.strip_prefix(cluster)) {
            Some("") => CLUSTER.to_owned(),
            Some(rest) if rest.starts_with('-') => format!("{CLUSTER}{rest}"),
            _ => text.to_owned(),
        }
    }

    /// Values of a map of labels.
    fn values(&self, map: Option<&mut Value>) {
        for value in map.and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut) {
            if let Some(text) = value.as_str() {
                *value = self.value(text).into();
            }
        }
    }
}

/// Labels and annotations that controllers set, and those of clients.
fn is_users(key: &str) -> bool {
    let own = key.split_once('/').is_some_and(|(prefix, _)| prefix == GROUP);
    let client = key.starts_with("kubectl.kubernetes.io/") || key.starts_with("applyset.kubernetes.io/");
    !client && (!own || key == PAUSED_ANNOTATION)
}

fn users(object: &Value, pointer: &str, names: &Names<'_>) -> Option<Value> {
    let map = object.pointer(pointer)?.as_object()?;
    let kept = map.iter().filter(|(key, _)| is_users(key));
    let mut kept = Value::Object(kept.map(|(key, value)| (key.clone(), value.clone())).collect());
    names.values(Some(&mut kept));
    kept.as_object().is_some_and(|map| !map.is_empty()).then_some(kept)
}

fn normal(id: &Id, object: &Value, names: &Names<'_>, options: Options) -> Value {
    let mut complete = object.clone();
    if let Some(schema) = SCHEMAS.get(id.kind.as_str()) {
        schema.default(&mut complete);
    }
    let mut normal = json!({});
    for (field, pointer) in [("labels", "/metadata/labels"), ("annotations", "/metadata/annotations")] {
        if let Some(map) = users(&complete, pointer, names) {
            normal["metadata"][field] = map;
        }
    }
    let mut spec = complete.get_mut("spec").map(Value::take).unwrap_or_default();
    if let Some(members) = spec.as_object_mut() {
        if options.ignore_replicas {
            members.remove("replicas");
        }
        // An allocation, and the name of the Cluster, which the role says.
        members.remove("providerID");
        members.remove("clusterName");
    }
    if let Some(template) = spec.pointer_mut("/template/spec").and_then(Value::as_object_mut) {
        template.remove("clusterName");
        template.remove("providerID");
    }
    for pointer in ["/selector/matchLabels", "/template/metadata/labels", "/template/metadata/annotations"] {
        names.values(spec.pointer_mut(pointer));
    }
    for pointer in ["/metadata/labels", "/template/spec/metadata/labels"] {
        names.values(spec.pointer_mut(pointer));
    }
    for prefix in ["", "/template/spec"] {
        sort(spec.pointer_mut(&format!("{prefix}/taints")), &["key", "effect"]);
        if let Some(name) = spec.pointer_mut(&format!("{prefix}/providerSpec/valueFrom/machineClass/name"))
            && let Some(text) = name.as_str()
        {
            *name = names.role(text).into();
        }
    }
    sort(spec.pointer_mut("/controlPlane/componentConfig"), &["component"]);
    sort(spec.pointer_mut("/unhealthyConditions"), &["type", "status"]);
    sort(spec.pointer_mut("/selector/matchExpressions"), &["key", "operator"]);
    without_nothing(&mut spec);
    normal["spec"] = spec;
    normal
}

/// Sorts a list by the keys of its map.
fn sort(list: Option<&mut Value>, keys: &[&str]) {
    let Some(items) = list.and_then(Value::as_array_mut) else { return };
    let key = |item: &Value| keys.iter().map(|key| item.get(*key).map(Value::to_string)).collect::<Vec<_>>();
    items.sort_by_key(key);
}

/// Removes nulls, and maps and lists without content: the API does not tell them from absent ones.
fn without_nothing(value: &mut Value) {
    let Some(members) = value.as_object_mut() else { return };
    members.values_mut().for_each(without_nothing);
    members.retain(|_, member| match member {
        Value::Null => false,
        Value::Object(members) => !members.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => true,
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(name: &str) -> Inventory {
        let api = "cluster.settled.dev/v1alpha1";
        let meta =
            |name: String| json!({"name": name, "namespace": "default", "uid": name, "resourceVersion": "7"});
        Inventory::new(
            [
                json!({"apiVersion": api, "kind": "Cluster", "metadata": meta(name.to_owned()), "spec": {
                    "clusterNetwork": {"services": {"cidrBlocks": ["10.96.0.0/12"]}, "pods": {"cidrBlocks": ["10.244.0.0/16"]}, "serviceDomain": "cluster.local"},
                }, "status": {"phase": "Provisioned"}}),
                json!({"apiVersion": api, "kind": "MachineDeployment", "metadata": meta(format!("{name}-workers")), "spec": {
                    "selector": {"matchLabels": {"cluster": name, "group": format!("{name}-workers")}},
                    "template": {"metadata": {"labels": {"cluster": name, "group": format!("{name}-workers")}},
                        "spec": {"clusterName": name, "versions": {"kubelet": "v1.36.0"}, "providerSpec": {"value": {"apiVersion": "a/v1", "kind": "A"}}}},
                }}),
                json!({"apiVersion": api, "kind": "Machine", "metadata": meta(format!("{name}-abc")), "spec": {
                    "clusterName": name, "versions": {"kubelet": "v1.36.0", "controlPlane": "v1.36.0"},
                    "taints": [{"key": "b", "effect": "NoSchedule"}, {"key": "a", "effect": "NoSchedule"}],
                    "providerSpec": {"value": {"apiVersion": "a/v1", "kind": "A"}},
                }}),
            ],
            "default",
        )
    }

    #[test]
    fn two_clusters_with_different_names_are_equal() {
        let (one, other) = (cluster("prod"), cluster("staging-eu"));
        let one = Normalized::new(&one, Options::default());
        let other = Normalized::new(&other, Options::default());
        let values = |normalized: &Normalized| {
            normalized
                .entries
                .iter()
                .map(|(role, entry)| (role.to_string(), entry.value.clone()))
                .collect::<Vec<_>>()
        };
        assert_eq!(values(&one), values(&other));
        let roles: Vec<String> = one.entries.keys().map(ToString::to_string).collect();
        assert_eq!(roles, ["Cluster/${cluster}", "MachineDeployment/workers", "Machine/control-plane-0"]);
    }

    #[test]
    fn defaults_are_set_and_lists_are_sorted() {
        let normalized = Normalized::new(&cluster("prod"), Options::default());
        let spec = |role: &str| {
            let found = normalized.entries.iter().find(|(known, _)| known.to_string() == role);
            found.map(|(_, entry)| entry.value["spec"].clone()).unwrap_or_default()
        };
        assert_eq!(spec("MachineDeployment/workers")["replicas"], 1);
        assert_eq!(spec("Machine/control-plane-0")["taints"][0]["key"], "a");
        assert_eq!(spec("Machine/control-plane-0")["clusterName"], Value::Null);
    }
}
