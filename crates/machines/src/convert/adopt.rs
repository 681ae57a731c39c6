//! Adoption: Machines for Nodes that exist already, paused, so that they can be inspected before the controllers take over.

use serde_json::{Map, Value, json};

use super::v1alpha1::Note;
use crate::inventory::{Inventory, Kind, text};
use crate::types::{GROUP, MACHINE_ANNOTATION, PAUSED_ANNOTATION, VERSION};

/// Labels of Nodes that kubelets and clouds set.
const SYSTEM_LABELS: [&str; 4] = ["kubernetes.io", "k8s.io", "node.kubernetes.io", "beta.kubernetes.io"];
/// Labels of machines of the control plane.
const CONTROL_PLANE: [&str; 2] = ["node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"];

/// How Machines are made.
#[derive(Clone, Debug, Default)]
pub struct AdoptOptions {
    /// Their namespace.
    pub namespace: String,
    /// Their Cluster.
    pub cluster: Option<String>,
    /// `spec.providerSpec`.
    pub provider_spec: Value,
}

/// Machines for Nodes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Adopted {
    /// The Machines.
    pub machines: Vec<Value>,
    /// Nodes that get none, and values that were assumed.
    pub notes: Vec<Note>,
}

/// Makes Machines for Nodes that have none.
#[must_use]
pub fn adopt(nodes: &[Value], inventory: &Inventory, options: &AdoptOptions) -> Adopted {
    let mut adopted = Adopted::default();
    for node in nodes {
        let name = text(node, "/metadata/name");
        let object = format!("Node/{name}");
        let mut note = |field: &str, message: String| {
            adopted.notes.push(Note { object: object.clone(), field: field.to_owned(), message });
        };
        let id = text(node, "/spec/providerID");
        let is_of = |machine: &Value| {
            !id.is_empty()
                && [text(machine, "/status/providerID"), text(machine, "/spec/providerID")].contains(&id)
                || text(machine, "/status/nodeRef/name") == name
        };
        let owner = inventory.of_kind(Kind::Machine).find(|(_, machine)| is_of(machine));
        let annotation = node.pointer("/metadata/annotations").and_then(|all| all.get(MACHINE_ANNOTATION));
        if let Some((owner, _)) = owner {
            note("", format!("it has a Machine: {}/{}", owner.namespace, owner.name));
            continue;
        }
        if id.is_empty() {
            note("spec.providerID", "not adopted: without it, the Node's host cannot be found".to_owned());
            continue;
        }
        if let Some(owner) = annotation.and_then(Value::as_str) {
            note("metadata.annotations", format!("its Machine {owner} does not exist here: it is adopted"));
        }
        let kubelet = text(node, "/status/nodeInfo/kubeletVersion");
        let mut versions = json!({"kubelet": kubelet});
        if let Some((runtime, version)) =
            text(node, "/status/nodeInfo/containerRuntimeVersion").split_once("://")
        {
            versions["containerRuntime"] = json!({"name": runtime, "version": version});
        }
        let labels = node.pointer("/metadata/labels").and_then(Value::as_object);
        let labels: Vec<(&String, &Value)> = labels.into_iter().flatten().collect();
        if labels.iter().any(|(key, _)| CONTROL_PLANE.contains(&key.as_str())) {
            versions["controlPlane"] = kubelet.into();
            note(
                "spec.versions.controlPlane",
                format!("assumed to be that of the kubelet, {kubelet}: a Node does not report it"),
            );
        }
        let is_system = |key: &str| {
            let prefix = key.split_once('/').map_or("", |(prefix, _)| prefix);
            prefix == GROUP
                || SYSTEM_LABELS
                    .iter()
                    .any(|known| prefix == *known || prefix.ends_with(&format!(".{known}")))
        };
        let labels = labels.into_iter().filter(|(key, _)| !is_system(key));
        let labels: Map<String, Value> = labels.map(|(key, value)| (key.clone(), value.clone())).collect();
        let taints = node.pointer("/spec/taints").and_then(Value::as_array).into_iter().flatten();
        // Taints of the node lifecycle come and go.
        let taints = taints.filter(|taint| !text(taint, "/key").starts_with("node.kubernetes.io/"));
        let taints: Vec<Value> = taints
            .map(|taint| {
                let mut kept = json!({"key": taint["key"], "effect": taint["effect"]});
                if let Some(value) = taint.get("value") {
                    kept["value"] = value.clone();
                }
                kept
            })
            .collect();
        let mut spec = json!({
            "metadata": {"labels": labels}, "versions": versions, "providerID": id,
            "providerSpec": options.provider_spec,
        });
        if !taints.is_empty() {
            spec["taints"] = taints.into();
        }
        if let Some(cluster) = &options.cluster {
            spec["clusterName"] = cluster.clone().into();
        }
        adopted.machines.push(json!({
            "apiVersion": format!("{GROUP}/{VERSION}"), "kind": "Machine",
            "metadata": {"name": name, "namespace": options.namespace, "annotations": {PAUSED_ANNOTATION: "adopted"}},
            "spec": spec,
        }));
    }
    adopted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_become_paused_machines() {
        let node = |name: &str, id: &str| {
            json!({
                "apiVersion": "v1", "kind": "Node",
                "metadata": {"name": name, "labels": {
                    "kubernetes.io/hostname": name, "node-role.kubernetes.io/control-plane": "", "disk": "ssd", "topology.kubernetes.io/zone": "a",
                }},
                "spec": {"providerID": id, "taints": [
                    {"key": "dedicated", "value": "db", "effect": "NoSchedule", "timeAdded": "2026-11-24T12:00:00Z"},
                    {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"},
                ]},
                "status": {"nodeInfo": {"kubeletVersion": "v1.36.0", "containerRuntimeVersion": "containerd://2.1.0"}},
            })
        };
        let machine = json!({"apiVersion": "cluster.settled.dev/v1alpha1", "kind": "Machine", "metadata": {"name": "b"}, "status": {"providerID": "x://b"}});
        let options = AdoptOptions {
            namespace: "default".to_owned(),
            cluster: Some("prod".to_owned()),
            provider_spec: json!({"value": {"apiVersion": "a/v1", "kind": "A"}}),
        };
        let nodes = [node("a", "x://a"), node("b", "x://b"), node("c", "")];
        let adopted = adopt(&nodes, &Inventory::new([machine], "default"), &options);
        assert_eq!(
            adopted.machines,
            [json!({
                "apiVersion": "cluster.settled.dev/v1alpha1", "kind": "Machine",
                "metadata": {"name": "a", "namespace": "default", "annotations": {"cluster.settled.dev/paused": "adopted"}},
                "spec": {
                    "metadata": {"labels": {"disk": "ssd"}}, "clusterName": "prod", "providerID": "x://a",
                    "versions": {"kubelet": "v1.36.0", "controlPlane": "v1.36.0", "containerRuntime": {"name": "containerd", "version": "2.1.0"}},
                    "taints": [{"key": "dedicated", "value": "db", "effect": "NoSchedule"}],
                    "providerSpec": {"value": {"apiVersion": "a/v1", "kind": "A"}},
                },
            })]
        );
        let notes: Vec<String> =
            adopted.notes.iter().map(|note| format!("{} {}", note.object, note.field)).collect();
        assert_eq!(notes, ["Node/a spec.versions.controlPlane", "Node/b ", "Node/c spec.providerID"]);
    }
}
