//! Node affinity: node selectors of Pods and volumes.

use k8s_openapi::api::core::v1::{
    Node, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod,
};

use crate::meta;
use crate::selector::{self, Labels};

/// May the Pod run on the Node, by its nodeSelector and its required node affinity? `GetRequiredNodeAffinity(pod).Match(node)`.
pub(crate) fn required_matches(pod: &Pod, node: &Node) -> bool {
    let Some(spec) = &pod.spec else { return true };
    let labels = node.metadata.labels.as_ref();
    if !selector::contains(spec.node_selector.iter().flatten(), labels) {
        return false;
    }
    let required = node_affinity(pod)
        .and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
    required.is_none_or(|required| matches(required, node))
}

/// The node affinity of a Pod.
pub(crate) fn node_affinity(pod: &Pod) -> Option<&NodeAffinity> {
    pod.spec.as_ref()?.affinity.as_ref()?.node_affinity.as_ref()
}

/// Does a Node match one of the terms? An empty term matches nothing, neither does one with errors.
pub(crate) fn matches(selector: &NodeSelector, node: &Node) -> bool {
    selector.node_selector_terms.iter().any(|term| term_matches(term, node))
}

/// Does a Node match a term?
pub(crate) fn term_matches(term: &NodeSelectorTerm, node: &Node) -> bool {
    let (expressions, fields) = (term.match_expressions.as_deref(), term.match_fields.as_deref());
    let (expressions, fields) = (expressions.unwrap_or_default(), fields.unwrap_or_default());
    let is_empty = expressions.is_empty() && fields.is_empty();
    !is_empty
        && expressions.iter().all(|requirement| label_matches(requirement, node.metadata.labels.as_ref()))
        && fields.iter().all(|requirement| field_matches(requirement, meta::name(node)))
}

/// The sum of the weights of preferred terms that a Node matches.
pub(crate) fn preferred_score(pod: &Pod, node: &Node) -> i64 {
    let preferred = node_affinity(pod)
        .and_then(|affinity| affinity.preferred_during_scheduling_ignored_during_execution.as_ref());
    let terms = preferred.into_iter().flatten().filter(|term| term_matches(&term.preference, node));
    terms.map(|term| i64::from(term.weight)).sum()
}

fn label_matches(requirement: &NodeSelectorRequirement, labels: Option<&Labels>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let value = selector::label(labels, &requirement.key);
    match requirement.operator.as_str() {
        operator @ ("Gt" | "Lt") => {
            let [bound] = values else { return false };
            let (Ok(bound), Some(Ok(value))) = (bound.parse::<i64>(), value.map(str::parse::<i64>)) else {
                return false;
            };
            if operator == "Gt" { value > bound } else { value < bound }
        }
        operator => selector::is_met(operator, values, value).unwrap_or_default(),
    }
}

fn field_matches(requirement: &NodeSelectorRequirement, name: &str) -> bool {
    let value = if requirement.key == "metadata.name" { name } else { "" };
    match (requirement.operator.as_str(), requirement.values.as_deref().unwrap_or_default()) {
        ("In", [wanted]) => value == wanted,
        ("NotIn", [wanted]) => value != wanted,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn node() -> Node {
        let node = json!({"metadata": {"name": "node-1", "labels": {"zone": "a", "cores": "8"}}});
        serde_json::from_value(node).expect("a Node")
    }

    #[test]
    fn terms_match_as_upstream() {
        let requirement = |key: &str, operator: &str, values: Value| json!({"key": key, "operator": operator, "values": values});
        let labels = |requirement: Value| json!({"matchExpressions": [requirement]});
        let fields = |requirement: Value| json!({"matchFields": [requirement]});
        let cases = [
            (json!({}), false),
            (labels(requirement("zone", "In", json!(["a"]))), true),
            (labels(requirement("zone", "NotIn", json!(["a"]))), false),
            (labels(requirement("rack", "NotIn", json!(["a"]))), true),
            (labels(requirement("zone", "Exists", json!([]))), true),
            (labels(requirement("cores", "Gt", json!(["4"]))), true),
            (labels(requirement("cores", "Gt", json!(["8"]))), false),
            (labels(requirement("cores", "Lt", json!(["16"]))), true),
            (labels(requirement("zone", "Gt", json!(["4"]))), false),
            (labels(requirement("zone", "Near", json!(["a"]))), false),
            (fields(requirement("metadata.name", "In", json!(["node-1"]))), true),
            (fields(requirement("metadata.name", "In", json!(["node-1", "node-2"]))), false),
            (fields(requirement("metadata.name", "NotIn", json!(["node-1"]))), false),
        ];
        for (term, expected) in cases {
            let parsed = serde_json::from_value(term.clone()).expect("a term");
            assert_eq!(term_matches(&parsed, &node()), expected, "{term}");
        }
    }

    #[test]
    fn both_selector_and_affinity_must_match() {
        let pod = |selector: Value, zone: &str| -> Pod {
            let term = json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]});
            let affinity = json!({"nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}, term]},
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 7, "preference": term}],
            }});
            let spec = json!({"containers": [], "nodeSelector": selector, "affinity": affinity});
            serde_json::from_value(json!({"spec": spec})).expect("a Pod")
        };
        assert!(required_matches(&pod(json!({"zone": "a"}), "a"), &node()));
        assert!(!required_matches(&pod(json!({"zone": "b"}), "a"), &node()));
        assert!(!required_matches(&pod(json!({}), "b"), &node()));
        assert_eq!(preferred_score(&pod(json!({}), "a"), &node()), 7);
        assert_eq!(preferred_score(&pod(json!({}), "b"), &node()), 0);
    }
}
