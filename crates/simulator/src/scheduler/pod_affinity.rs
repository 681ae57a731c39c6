//! Affinity and anti-affinity to other Pods: filter and score (`interpodaffinity`).

use std::collections::{BTreeMap, HashMap};

use super::state::{Named, NodeInfo, PodInfo, State, Term, Terms};
use crate::selector::{self, Labels};

/// Rules of the Pod that no Pod there meets.
const AFFINITY: &str = "node(s) didn't match pod affinity rules";
/// Rules of the Pod against Pods that are there.
const ANTI_AFFINITY: &str = "node(s) didn't match pod anti-affinity rules";
/// Rules of Pods that are there against this one.
const EXISTING: &str = "node(s) didn't satisfy existing pods anti-affinity rules";

/// Numbers of Pods for the value of a label of Nodes.
type Counts = BTreeMap<(String, String), i64>;

/// The labels of a namespace.
pub(crate) type NamespaceLabels<'l> = &'l dyn Fn(&str) -> Option<Labels>;

fn count(counts: &mut Counts, state: &State, node: &str, key: &str, amount: i64) {
    if let Some(value) = state.node(node).and_then(|info| info.label(key)) {
        *counts.entry((key.to_owned(), value.to_owned())).or_default() += amount;
    }
}

/// The Pods on Nodes that a term selects. Walks all of them only if the term is for more than one namespace.
fn selected<'s>(
    state: &'s State,
    term: &'s Term,
    labels: NamespaceLabels<'s>,
) -> Vec<(&'s str, &'s PodInfo)> {
    match (term.only_namespace(), &term.selector) {
        (_, None) => Vec::new(),
        (Some(namespace), Some(selector)) => {
            state.matching(namespace, selector).map(|(node, pod)| (node, &**pod)).collect()
        }
        (None, Some(_)) => {
            let all = state.pods().map(|(node, pod)| (node, &**pod));
            all.filter(|(_, pod)| term.matches(pod, labels)).collect()
        }
    }
}

/// What the filter needs to know about all Nodes.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    existing: Counts,
    affinity: Counts,
    anti_affinity: Counts,
    required: Vec<Term>,
    required_anti: Vec<Term>,
    /// The Pod meets its own rules, and no other one does: it is the first of its kind.
    may_be_first: bool,
}

impl Filter {
    /// Counts the Pods that matter.
    pub(crate) fn new(state: &State, pod: &PodInfo, labels: NamespaceLabels<'_>) -> Self {
        let mut filter = Self::default();
        for (node, existing) in state.with_terms() {
            for term in existing.terms.iter().flat_map(|terms| &terms.required_anti) {
                if term.matches(pod, labels) {
                    count(&mut filter.existing, state, node, &term.topology_key, 1);
                }
            }
        }
        let Some(terms) = pod.terms.as_deref() else { return filter };
        if let Some((first, others)) = terms.required.split_first() {
            // Only Pods that all terms select count.
            let all = selected(state, first, labels).into_iter();
            for (node, _) in all.filter(|(_, other)| others.iter().all(|term| term.matches(other, labels))) {
                for term in &terms.required {
                    count(&mut filter.affinity, state, node, &term.topology_key, 1);
                }
            }
            filter.may_be_first =
                filter.affinity.is_empty() && terms.required.iter().all(|term| term.matches(pod, labels));
        }
        for term in &terms.required_anti {
            for (node, _) in selected(state, term, labels) {
                count(&mut filter.anti_affinity, state, node, &term.topology_key, 1);
            }
        }
        filter.required.clone_from(&terms.required);
        filter.required_anti.clone_from(&terms.required_anti);
        filter
    }

    /// Why a Node is none for the Pod, and whether that could not be changed by removing Pods.
    pub(crate) fn check(&self, node: &NodeInfo) -> Option<(&'static str, bool)> {
        let has = |counts: &Counts, key: &str, value: &str| {
            counts.get(&(key.to_owned(), value.to_owned())).is_some_and(|count| *count > 0)
        };
        let mut exist = true;
        for term in &self.required {
            let Some(value) = node.label(&term.topology_key) else { return Some((AFFINITY, true)) };
            exist &= has(&self.affinity, &term.topology_key, value);
        }
        if !exist && !self.may_be_first {
            return Some((AFFINITY, true));
        }
        let conflicts = |term: &Term| {
            node.label(&term.topology_key)
                .is_some_and(|value| has(&self.anti_affinity, &term.topology_key, value))
        };
        if self.required_anti.iter().any(conflicts) {
            return Some((ANTI_AFFINITY, false));
        }
        let is_there = |((key, value), count): (&(String, String), &i64)| {
            *count > 0 && node.label(key) == Some(value.as_str())
        };
        self.existing.iter().any(is_there).then_some((EXISTING, false))
    }
}

/// Scores from 0 to 100; nothing if no Pod has a preference.
pub(crate) fn scores(
    state: &State,
    pod: &PodInfo,
    nodes: &[Named<'_>],
    labels: NamespaceLabels<'_>,
) -> Option<Vec<i64>> {
    let mut counts = Counts::new();
    let none = Terms::default();
    let terms = pod.terms.as_deref().unwrap_or(&none);
    for (terms, sign) in [(&terms.preferred, 1), (&terms.preferred_anti, -1)] {
        for term in terms {
            for (node, _) in selected(state, term, labels) {
                count(&mut counts, state, node, &term.topology_key, sign * term.weight);
            }
        }
    }
    for (node, existing) in state.with_terms() {
        let Some(terms) = existing.terms.as_deref() else { continue };
        // What must be near another Pod counts as a preference of that one, with the weight 1.
        for (terms, sign) in [(&terms.required, 1), (&terms.preferred, 1), (&terms.preferred_anti, -1)] {
            for term in terms.iter().filter(|term| term.matches(pod, labels)) {
                count(&mut counts, state, node, &term.topology_key, sign * term.weight);
            }
        }
    }
    if counts.is_empty() {
        return None;
    }
    let mut by_key: HashMap<&str, HashMap<&str, i64>> = HashMap::new();
    for ((key, value), amount) in &counts {
        by_key.entry(key).or_default().insert(value, *amount);
    }
    let raw = nodes.iter().map(|(_, info)| {
        let node_labels = info.labels();
        let of = |(key, values): (&&str, &HashMap<&str, i64>)| {
            selector::label(node_labels, key).and_then(|value| values.get(value)).copied().unwrap_or_default()
        };
        by_key.iter().map(of).sum::<i64>()
    });
    let raw: Vec<i64> = raw.collect();
    let (least, most) = (raw.iter().min().copied()?, raw.iter().max().copied()?);
    let range = most - least;
    Some(raw.iter().map(|score| if range > 0 { 100 * (score - least) / range } else { 0 }).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;

    fn pod(name: &str, app: &str, affinity: Value) -> Arc<PodInfo> {
        let pod = json!({
            "metadata": {"name": name, "namespace": "shop", "labels": {"app": app}},
            "spec": {"containers": [], "affinity": affinity},
        });
        Arc::new(PodInfo::new(Arc::new(serde_json::from_value(pod).expect("a Pod"))))
    }

    fn state() -> State {
        let mut state = State::default();
        for (name, zone) in [("a1", "a"), ("a2", "a"), ("b1", "b")] {
            let node = json!({"metadata": {"name": name, "labels": {"zone": zone, "host": name}}});
            state.set_node(name, Some(Arc::new(serde_json::from_value(node).expect("a Node"))));
        }
        state
    }

    fn term(app: &str, key: &str) -> Value {
        json!({"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key})
    }

    fn required(kind: &str, term: Value) -> Value {
        json!({kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})
    }

    fn fitting(state: &State, pod: &PodInfo) -> Vec<Option<&'static str>> {
        let filter = Filter::new(state, pod, &|_| None);
        let check = |name: &str| filter.check(state.node(name).expect("a Node")).map(|(reason, _)| reason);
        ["a1", "a2", "b1"].map(check).into()
    }

    #[test]
    fn required_rules_are_met_as_upstream() {
        let mut state = state();
        state.add("a1", pod("cache-0", "cache", json!(null)));
        let near = pod("web", "web", required("podAffinity", term("cache", "zone")));
        assert_eq!(fitting(&state, &near), [None, None, Some(AFFINITY)]);
        let away = pod("web", "web", required("podAntiAffinity", term("cache", "zone")));
        assert_eq!(fitting(&state, &away), [Some(ANTI_AFFINITY), Some(ANTI_AFFINITY), None]);
        // The first of a series that wants to be together.
        let first = pod("web", "web", required("podAffinity", term("web", "zone")));
        assert_eq!(fitting(&state, &first), [None, None, None]);
        let nobody = pod("web", "web", required("podAffinity", term("db", "zone")));
        assert_eq!(fitting(&state, &nobody), [Some(AFFINITY); 3]);
        state.add("b1", pod("lonely", "lonely", required("podAntiAffinity", term("web", "host"))));
        let plain = pod("web", "web", json!(null));
        assert_eq!(fitting(&state, &plain), [None, None, Some(EXISTING)]);
    }

    #[test]
    fn preferences_make_scores() {
        let mut state = state();
        state.add("b1", pod("cache-0", "cache", json!(null)));
        let weighted = json!([{"weight": 10, "podAffinityTerm": term("cache", "zone")}]);
        let near = json!({"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": weighted}});
        let away = json!({"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": weighted}});
        let nodes = ["a1", "b1"].map(|name| (name, state.node(name).expect("a Node")));
        let score = |affinity: Value| scores(&state, &pod("web", "web", affinity), &nodes, &|_| None);
        assert_eq!(score(near), Some(vec![0, 100]));
        assert_eq!(score(away), Some(vec![100, 0]));
        assert_eq!(score(json!(null)), None);
    }
}
