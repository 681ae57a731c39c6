//! Topology spread: constraints of Pods, those that every Pod has by default, their filter and their score (`podtopologyspread`).

use std::collections::{BTreeMap, HashMap};

use k8s_openapi::api::core::v1::{Node, Pod, TopologySpreadConstraint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::affinity;
use super::state::{Named, NodeInfo, PodInfo, State};
use super::taints;
use crate::meta;
use crate::selector;

/// Constraint without a label on the Node.
const MISSING_LABEL: &str = "node(s) didn't match pod topology spread constraints (missing required label)";
/// Constraint that would be violated.
const NOT_MET: &str = "node(s) didn't match pod topology spread constraints";
/// The label that is counted by Node.
const HOSTNAME: &str = "kubernetes.io/hostname";
/// Constraints of Pods without their own, for scores only: `systemDefaultConstraints`.
const DEFAULTS: [(&str, i32); 2] = [(HOSTNAME, 3), ("topology.kubernetes.io/zone", 5)];

/// A constraint whose selector is complete.
#[derive(Clone, Debug)]
struct Constraint {
    max_skew: i64,
    key: String,
    selector: LabelSelector,
    min_domains: usize,
    honors_affinity: bool,
    honors_taints: bool,
}

impl Constraint {
    fn new(constraint: &TopologySpreadConstraint, pod: &Pod) -> Option<Self> {
        let mut selector = constraint.label_selector.clone()?;
        for key in constraint.match_label_keys.iter().flatten() {
            if let Some(value) = selector::label(pod.metadata.labels.as_ref(), key) {
                selector.match_labels.get_or_insert_default().insert(key.clone(), value.to_owned());
            }
        }
        Some(Self {
            max_skew: constraint.max_skew.into(),
            key: constraint.topology_key.clone(),
            selector,
            min_domains: usize::try_from(constraint.min_domains.unwrap_or(1)).unwrap_or(1),
            honors_affinity: constraint.node_affinity_policy.as_deref() != Some("Ignore"),
            honors_taints: constraint.node_taints_policy.as_deref() == Some("Honor"),
        })
    }

    /// Does a Node count for it?
    fn includes(&self, pod: &Pod, node: &Node) -> bool {
        let tolerations = pod.spec.as_ref().and_then(|spec| spec.tolerations.as_ref());
        let node_taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
        (!self.honors_affinity || affinity::required_matches(pod, node))
            && (!self.honors_taints
                || taints::untolerated(node_taints, tolerations, taints::is_for_scheduling).is_none())
    }

    /// Matching Pods on each Node. As upstream, an empty selector counts none.
    fn counts<'s>(&'s self, state: &'s State, namespace: &str) -> BTreeMap<&'s str, i64> {
        let mut counts = BTreeMap::new();
        let is_empty = self.selector.match_labels.as_ref().is_none_or(BTreeMap::is_empty)
            && self.selector.match_expressions.as_ref().is_none_or(Vec::is_empty);
        if is_empty {
            return counts;
        }
        for (node, pod) in state.matching(namespace, &self.selector) {
            if !meta::is_deleting(&*pod.pod) {
                *counts.entry(node).or_default() += 1;
            }
        }
        counts
    }
}

fn constraints(pod: &Pod, action: &str) -> Vec<Constraint> {
    let all = pod.spec.as_ref().and_then(|spec| spec.topology_spread_constraints.as_ref());
    let wanted = all.into_iter().flatten().filter(|constraint| constraint.when_unsatisfiable == action);
    wanted.filter_map(|constraint| Constraint::new(constraint, pod)).collect()
}

/// What the filter needs to know about all Nodes.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    /// Constraints with the number of matching Pods in each domain, the least of them, and whether the Pod counts for itself.
    constraints: Vec<(Constraint, HashMap<String, i64>, i64, i64)>,
}

impl Filter {
    /// Counts the Pods that matter.
    pub(crate) fn new(state: &State, pod: &PodInfo) -> Self {
        let constraints = constraints(&pod.pod, "DoNotSchedule");
        if constraints.is_empty() {
            return Self::default();
        }
        let has_all =
            |node: &NodeInfo| constraints.iter().all(|constraint| node.label(&constraint.key).is_some());
        let eligible: Vec<_> = state.nodes().filter(|(_, _, info)| has_all(info)).collect();
        let prepared = constraints.iter().map(|constraint| {
            let counts = constraint.counts(state, &pod.key.namespace);
            let mut domains: HashMap<String, i64> = HashMap::new();
            for (name, node, info) in &eligible {
                if constraint.includes(&pod.pod, node)
                    && let Some(domain) = info.label(&constraint.key)
                {
                    *domains.entry(domain.to_owned()).or_default() +=
                        counts.get(*name).copied().unwrap_or_default();
                }
            }
            let mut least = domains.values().copied().min().unwrap_or_else(|| i64::from(i32::MAX));
            if domains.len() < constraint.min_domains {
                least = 0;
            }
            let own = selector::matches(Some(&constraint.selector), pod.pod.metadata.labels.as_ref());
            (constraint.clone(), domains, least, i64::from(own))
        });
        Self { constraints: prepared.collect() }
    }

    /// Why a Node is none for the Pod, and whether that could not be changed by removing Pods.
    pub(crate) fn check(&self, node: &NodeInfo) -> Option<(&'static str, bool)> {
        for (constraint, domains, least, own) in &self.constraints {
            let Some(domain) = node.label(&constraint.key) else { return Some((MISSING_LABEL, true)) };
            let matching = domains.get(domain).copied().unwrap_or_default();
            if matching + own - least > constraint.max_skew {
                return Some((NOT_MET, false));
            }
        }
        None
    }
}

/// The constraints that make scores: the Pod's own, or the defaults with the selector of what owns it.
fn soft(pod: &PodInfo, default_selector: Option<LabelSelector>) -> (Vec<Constraint>, bool) {
    let own = pod.pod.spec.as_ref().and_then(|spec| spec.topology_spread_constraints.as_ref());
    if own.is_some_and(|all| !all.is_empty()) {
        return (constraints(&pod.pod, "ScheduleAnyway"), true);
    }
    let Some(selector) = default_selector else { return (Vec::new(), false) };
    let defaults = DEFAULTS.map(|(key, max_skew)| Constraint {
        max_skew: max_skew.into(),
        key: key.to_owned(),
        selector: selector.clone(),
        min_domains: 1,
        honors_affinity: true,
        honors_taints: false,
    });
    (defaults.into(), false)
}

/// Scores from 0 to 100 of the Nodes that passed the filters; nothing if the Pod is not to be spread.
pub(crate) fn scores(
    state: &State,
    pod: &PodInfo,
    nodes: &[Named<'_>],
    default_selector: Option<LabelSelector>,
) -> Option<Vec<i64>> {
    let (constraints, needs_all) = soft(pod, default_selector);
    if constraints.is_empty() {
        return None;
    }
    let has_all =
        |node: &NodeInfo| constraints.iter().all(|constraint| node.label(&constraint.key).is_some());
    let is_ignored: Vec<bool> = nodes.iter().map(|(_, info)| needs_all && !has_all(info)).collect();
    let candidates =
        || nodes.iter().zip(&is_ignored).filter(|(_, ignored)| !**ignored).map(|((_, info), _)| *info);
    let mut raw = vec![0.0_f64; nodes.len()];
    for constraint in &constraints {
        let counts = constraint.counts(state, &pod.key.namespace);
        let by_node = constraint.key == HOSTNAME;
        // The Pods of each domain of the candidates. Those without the label are one domain: the empty one.
        let mut sums: BTreeMap<&str, i64> = BTreeMap::new();
        if !by_node {
            let domain = |info| NodeInfo::label(info, &constraint.key).unwrap_or_default();
            sums.extend(candidates().map(|info| (domain(info), 0)));
            for (name, node, info) in state.nodes() {
                if (!needs_all || has_all(info))
                    && let Some(sum) = sums.get_mut(domain(info))
                    && constraint.includes(&pod.pod, node)
                {
                    *sum += counts.get(name).copied().unwrap_or_default();
                }
            }
        }
        let size = if by_node { candidates().count() } else { sums.len() };
        let weight = ((size + 2) as f64).ln();
        for (place, (name, info)) in nodes.iter().enumerate() {
            let Some(value) = info.label(&constraint.key) else { continue };
            let count = match by_node {
                true => counts.get(*name),
                false => sums.get(value),
            };
            let score = count.copied().unwrap_or_default() as f64 * weight + (constraint.max_skew - 1) as f64;
            if let (Some(raw), Some(false)) = (raw.get_mut(place), is_ignored.get(place)) {
                *raw += score;
            }
        }
    }
    let rounded: Vec<i64> = raw.iter().map(|score| score.round() as i64).collect();
    let scored =
        || rounded.iter().zip(&is_ignored).filter(|(_, ignored)| !**ignored).map(|(score, _)| *score);
    let (least, most) = (scored().min().unwrap_or_default(), scored().max().unwrap_or_default());
    let normalized = rounded.iter().zip(&is_ignored).map(|(score, ignored)| match (ignored, most) {
        (true, _) => 0,
        (false, 0) => 100,
        (false, most) => 100 * (most + least - score) / most,
    });
    Some(normalized.collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;

    fn pod(name: &str, node: Option<&str>, constraints: Value) -> Arc<PodInfo> {
        let pod = json!({
            "metadata": {"name": name, "namespace": "shop", "labels": {"app": "web"}},
            "spec": {"nodeName": node, "containers": [], "topologySpreadConstraints": constraints},
        });
        Arc::new(PodInfo::new(Arc::new(serde_json::from_value(pod).expect("a Pod"))))
    }

    fn state(pods_on: &[&str]) -> State {
        let mut state = State::default();
        for (name, zone) in [("a1", Some("a")), ("a2", Some("a")), ("b1", Some("b")), ("c1", None)] {
            let mut labels = json!({HOSTNAME: name});
            if let Some(zone) = zone {
                labels["topology.kubernetes.io/zone"] = zone.into();
            }
            let node = json!({"metadata": {"name": name, "labels": labels}});
            state.set_node(name, Some(Arc::new(serde_json::from_value(node).expect("a Node"))));
        }
        for (number, node) in pods_on.iter().enumerate() {
            state.add(node, pod(&format!("old-{number}"), Some(node), json!([])));
        }
        state
    }

    fn constraint(action: &str, more: Value) -> Value {
        let mut constraint = json!({
            "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": action,
            "labelSelector": {"matchLabels": {"app": "web"}},
        });
        for (key, value) in more.as_object().into_iter().flatten() {
            constraint[key] = value.clone();
        }
        json!([constraint])
    }

    #[test]
    fn skew_is_limited_as_upstream() {
        let check = |pods_on: &[&str], more: Value, node: &str| {
            let state = state(pods_on);
            let new = pod("new", None, constraint("DoNotSchedule", more));
            Filter::new(&state, &new).check(state.node(node).expect("a Node")).map(|(reason, _)| reason)
        };
        assert_eq!(check(&[], json!({}), "a1"), None);
        assert_eq!(check(&["a1"], json!({}), "a2"), Some(NOT_MET));
        assert_eq!(check(&["a1"], json!({}), "b1"), None);
        assert_eq!(check(&["a1"], json!({"maxSkew": 2}), "a2"), None);
        assert_eq!(check(&["a1"], json!({}), "c1"), Some(MISSING_LABEL));
        // Fewer domains than asked for: the least count is zero.
        assert_eq!(check(&["a1", "b1"], json!({"minDomains": 3}), "a1"), Some(NOT_MET));
        assert_eq!(check(&["a1", "b1"], json!({"minDomains": 2}), "a1"), None);
    }

    #[test]
    fn empty_nodes_and_zones_score_best() {
        let state = state(&["a1"]);
        let new = pod("new", None, json!([]));
        let selector = LabelSelector {
            match_labels: Some([("app".to_owned(), "web".to_owned())].into()),
            match_expressions: None,
        };
        let named = |name| (name, state.node(name).expect("a Node"));
        let scores = scores(&state, &new, &["a1", "a2", "b1"].map(named), Some(selector)).expect("scores");
        assert!(scores[2] > scores[1] && scores[1] > scores[0], "{scores:?}");
        assert_eq!(super::scores(&state, &new, &[named("a1")], None), None);
    }
}
