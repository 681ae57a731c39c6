//! Node: which of its labels, annotations and taints differ from what its Machine declares.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::small::{Node, entry};
use crate::types::{CLUSTER_LABEL, MACHINE_ANNOTATION, Machine, Taint};

/// The merge patch that makes a Node what its Machine declares; `None` if it is.
pub(super) fn sync(machine: &Machine, node: &Node) -> Option<Value> {
    let mut labels = machine.spec.metadata.labels.clone();
    if let Some(cluster) = &machine.spec.cluster_name {
        labels.insert(CLUSTER_LABEL.to_owned(), cluster.clone());
    }
    let mut annotations = machine.spec.metadata.annotations.clone();
    annotations.insert(MACHINE_ANNOTATION.to_owned(), name(machine));
    let labels = missing(&labels, node.metadata.labels.as_ref());
    let annotations = missing(&annotations, node.metadata.annotations.as_ref());
    let mut patch = Map::new();
    if !labels.is_empty() || !annotations.is_empty() {
        patch.insert("metadata".to_owned(), json!({"labels": labels, "annotations": annotations}));
    }
    if let Some(taints) = taints(&machine.spec.taints, &node.spec.taints) {
        patch.insert("spec".to_owned(), json!({"taints": taints}));
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// `namespace/name` of a Machine.
pub(super) fn name(machine: &Machine) -> String {
    let own = |field: &Option<String>| field.clone().unwrap_or_default();
    format!("{}/{}", own(&machine.metadata.namespace), own(&machine.metadata.name))
}

fn missing(
    wanted: &BTreeMap<String, String>,
    has: Option<&BTreeMap<String, String>>,
) -> BTreeMap<String, String> {
    let differs = |(key, value): &(&String, &String)| entry(has, key) != Some(value.as_str());
    wanted.iter().filter(differs).map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// All taints of the Node, with those of the Machine in place of the ones with their keys; `None` if it has them.
fn taints(wanted: &[Taint], has: &[Taint]) -> Option<Vec<Taint>> {
    let is_declared = |taint: &&Taint| wanted.iter().any(|declared| declared.key == taint.key);
    let mut present: Vec<&Taint> = has.iter().filter(is_declared).collect();
    let mut declared: Vec<&Taint> = wanted.iter().collect();
    present.sort();
    declared.sort();
    if present == declared {
        return None;
    }
    let others = has.iter().filter(|taint| !is_declared(taint));
    Some(others.chain(wanted).cloned().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taint(key: &str, value: &str) -> Taint {
        Taint { key: key.to_owned(), value: value.to_owned(), effect: "NoSchedule".to_owned() }
    }

    #[test]
    fn taints_are_authoritative_for_their_keys_only() {
        let others = vec![taint("node.kubernetes.io/not-ready", ""), taint("team", "a")];
        assert_eq!(taints(&[], &others), None);
        assert_eq!(taints(&[taint("team", "a")], &others), None);
        let changed = taints(&[taint("team", "b")], &others);
        assert_eq!(changed, Some(vec![taint("node.kubernetes.io/not-ready", ""), taint("team", "b")]));
    }
}
