//! Nodes of a DaemonSet: which ones its Pods fit, and which one a Pod is for.

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{
    Affinity, Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodSpec, Toleration,
};

use crate::meta;
use crate::pod;
use crate::scheduler::affinity;
use crate::scheduler::taints;

const NAME: &str = "metadata.name";
const NO_EXECUTE: &str = "NoExecute";
const NO_SCHEDULE: &str = "NoSchedule";

/// Whether a Pod is to be on a Node, and whether one that is there may stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fit {
    pub(super) should_run: bool,
    pub(super) may_stay: bool,
}

/// `NodeShouldRunDaemonPod`: by name, node selector and affinity, and taints.
pub(super) fn fits(set: &DaemonSet, node: &Node) -> Fit {
    let no = Fit { should_run: false, may_stay: false };
    let Some(mut spec) = set.spec.as_ref().and_then(|spec| spec.template.spec.clone()) else { return no };
    let name = spec.node_name.as_deref().unwrap_or_default();
    if !name.is_empty() && name != meta::name(node) {
        return no;
    }
    add_tolerations(&mut spec);
    let pod = Pod { spec: Some(spec), ..Pod::default() };
    if !affinity::required_matches(&pod, node) {
        return no;
    }
    let tolerations = pod.spec.as_ref().and_then(|spec| spec.tolerations.as_ref());
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    let is_free = |effects: &[&str]| {
        let is_relevant = |taint: &k8s_openapi::api::core::v1::Taint| effects.contains(&&*taint.effect);
        taints::untolerated(taints, tolerations, is_relevant).is_none()
    };
    match is_free(&[NO_EXECUTE, NO_SCHEDULE]) {
        true => Fit { should_run: true, may_stay: true },
        false => Fit { should_run: false, may_stay: is_free(&[NO_EXECUTE]) },
    }
}

/// The Node that a Pod of a DaemonSet is on, or is for: `GetTargetNodeName`.
pub(super) fn target(pod: &Pod) -> Option<&str> {
    let name = pod::node_name(pod);
    if !name.is_empty() {
        return Some(name);
    }
    let affinity =
        affinity::node_affinity(pod)?.required_during_scheduling_ignored_during_execution.as_ref()?;
    let fields = affinity.node_selector_terms.iter().flat_map(|term| term.match_fields.iter().flatten());
    let mut names = fields.into_iter().filter(|field| field.key == NAME && field.operator == "In");
    match names.next()?.values.as_deref() {
        Some([only]) => Some(only),
        _ => None,
    }
}

/// Binds the affinity of a Pod to one Node: `ReplaceDaemonSetPodNodeNameNodeAffinity`.
pub(super) fn bind(spec: &mut PodSpec, node: &str) {
    let field = NodeSelectorRequirement {
        key: NAME.to_owned(),
        operator: "In".to_owned(),
        values: Some(vec![node.to_owned()]),
    };
    let term = NodeSelectorTerm { match_expressions: None, match_fields: Some(vec![field]) };
    let affinity: &mut Affinity = spec.affinity.get_or_insert_default();
    affinity.node_affinity.get_or_insert_default().required_during_scheduling_ignored_during_execution =
        Some(NodeSelector { node_selector_terms: vec![term] });
}

/// The tolerations that all Pods of DaemonSets have: `AddOrUpdateDaemonPodTolerations`.
pub(super) fn add_tolerations(spec: &mut PodSpec) {
    let network = (spec.host_network == Some(true)).then_some(("network-unavailable", NO_SCHEDULE));
    let all = [
        ("not-ready", NO_EXECUTE),
        ("unreachable", NO_EXECUTE),
        ("disk-pressure", NO_SCHEDULE),
        ("memory-pressure", NO_SCHEDULE),
        ("pid-pressure", NO_SCHEDULE),
        ("unschedulable", NO_SCHEDULE),
    ];
    for (taint, effect) in all.into_iter().chain(network) {
        let toleration = Toleration {
            key: Some(format!("node.kubernetes.io/{taint}")),
            operator: Some("Exists".to_owned()),
            effect: Some(effect.to_owned()),
            ..Toleration::default()
        };
        let tolerations = spec.tolerations.get_or_insert_default();
        let is_same = |other: &Toleration| {
            let key = |toleration: &Toleration| {
                (
                    toleration.key.clone(),
                    toleration.effect.clone(),
                    toleration.operator.clone(),
                    toleration.value.clone(),
                )
            };
            key(other) == key(&toleration)
        };
        match tolerations.iter().position(is_same) {
            Some(place) => tolerations[place] = toleration,
            None => tolerations.push(toleration),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn set(spec: Value) -> DaemonSet {
        let set = json!({"spec": {"selector": {}, "template": {"spec": spec}}});
        serde_json::from_value(set).expect("a DaemonSet")
    }

    fn node(labels: Value, taints: Value) -> Node {
        let node = json!({"metadata": {"name": "node-1", "labels": labels}, "spec": {"taints": taints}});
        serde_json::from_value(node).expect("a Node")
    }

    #[test]
    fn pods_fit_by_name_selector_and_taints() {
        let taint = |key: &str, effect: &str| json!([{"key": key, "effect": effect}]);
        let (yes, stay, no) = ((true, true), (false, true), (false, false));
        for (spec, labels, taints, expected) in [
            (json!({"containers": []}), json!({}), json!([]), yes),
            (json!({"containers": [], "nodeName": "node-2"}), json!({}), json!([]), no),
            (json!({"containers": [], "nodeSelector": {"disk": "ssd"}}), json!({}), json!([]), no),
            (
                json!({"containers": [], "nodeSelector": {"disk": "ssd"}}),
                json!({"disk": "ssd"}),
                json!([]),
                yes,
            ),
            (json!({"containers": []}), json!({}), taint("gpu", "NoSchedule"), stay),
            (json!({"containers": []}), json!({}), taint("gpu", "NoExecute"), no),
            (json!({"containers": []}), json!({}), taint("gpu", "PreferNoSchedule"), yes),
            (
                json!({"containers": []}),
                json!({}),
                taint("node.kubernetes.io/unschedulable", "NoSchedule"),
                yes,
            ),
            (json!({"containers": []}), json!({}), taint("node.kubernetes.io/not-ready", "NoExecute"), yes),
            (
                json!({"containers": []}),
                json!({}),
                taint("node.kubernetes.io/network-unavailable", "NoSchedule"),
                stay,
            ),
            (
                json!({"containers": [], "hostNetwork": true}),
                json!({}),
                taint("node.kubernetes.io/network-unavailable", "NoSchedule"),
                yes,
            ),
        ] {
            let fit = fits(&set(spec.clone()), &node(labels, taints.clone()));
            assert_eq!((fit.should_run, fit.may_stay), expected, "{spec} {taints}");
        }
    }

    #[test]
    fn a_pod_is_for_the_node_of_its_affinity() {
        let mut spec = PodSpec::default();
        bind(&mut spec, "node-7");
        let pod = Pod { spec: Some(spec), ..Pod::default() };
        assert_eq!(target(&pod), Some("node-7"));
        assert_eq!(target(&Pod::default()), None);
    }
}
