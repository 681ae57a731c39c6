//! Decisions of the scheduler: a Node for a Pod, or the message why there is none and which Pods have to go.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use settled_controller::ObjectKey;

use super::affinity;
use super::filters::{self, Plugins, Prepared, Rejection};
use super::preemption::{self, Preemption};
use super::scores;
use super::state::{PodInfo, State};
use super::volumes::{Choice, Claims};
use crate::informers::Informers;
use crate::meta;
use crate::selector::{self, Labels};
use crate::selector_index::{SelectorIndex, service_selector};

/// What is to become of a Pod.
#[derive(Debug)]
pub(crate) enum Decision {
    /// It runs there, once its claims are bound.
    Bind { node: String, choice: Choice, has_unbound: bool },
    /// It fits nowhere.
    Fail(Failure),
}

/// Why a Pod fits nowhere.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) message: String,
    /// What has to change.
    pub(crate) plugins: Plugins,
    /// Another nomination than before: empty for none.
    pub(crate) nominated: Option<String>,
    /// Pods that have to go.
    pub(crate) victims: Vec<Arc<PodInfo>>,
}

/// Pods that wait for others to leave a Node.
pub(crate) type Nominated = BTreeMap<ObjectKey, (String, Arc<PodInfo>)>;

/// Decides about a Pod. The state is the same afterwards.
pub(crate) fn decide(
    state: &mut State,
    nominated: &Nominated,
    pod: &PodInfo,
    informers: &Informers,
    services: &SelectorIndex,
) -> Decision {
    if state.nodes().next().is_none() {
        let message = "no nodes available to schedule pods".to_owned();
        let nominated = Some(String::new());
        return Decision::Fail(Failure { message, plugins: Plugins::NODE, nominated, victims: Vec::new() });
    }
    let claims = match Claims::new(&pod.pod, informers) {
        Ok(claims) => claims,
        Err(why) => return refused_everywhere(state, &why, Plugins::VOLUMES),
    };
    let names = match affine_names(&pod.pod) {
        Some(names) if names.is_empty() => {
            return refused_everywhere(state, "pod affinity terms conflict", Plugins::NODE);
        }
        names => names,
    };
    // Pods of no less priority that wait for room count as if they were there.
    let ahead = nominated.iter().filter(|(key, (node, other))| {
        **key != pod.key
            && other.priority >= pod.priority
            && state.pod(key).is_none()
            && state.node(node).is_some()
    });
    let ahead: Vec<_> =
        ahead.map(|(key, (node, other))| (key.clone(), node.clone(), Arc::clone(other))).collect();
    for (_, node, other) in &ahead {
        state.add(node, Arc::clone(other));
    }
    let decision = decide_with(state, pod, informers, services, &claims, names.as_ref());
    for (key, _, _) in &ahead {
        state.remove(key);
    }
    decision
}

fn decide_with(
    state: &mut State,
    pod: &PodInfo,
    informers: &Informers,
    services: &SelectorIndex,
    claims: &Claims,
    names: Option<&BTreeSet<String>>,
) -> Decision {
    let labels = |namespace: &str| {
        informers.namespaces.get(ObjectKey::new("", namespace)).and_then(|one| one.metadata.labels.clone())
    };
    let mut rejections: Vec<(String, Rejection)> = Vec::new();
    let best = {
        let prepared = Prepared::new(state, pod, &labels);
        let (mut candidates, mut choices) = (Vec::new(), Vec::new());
        for (name, _, info) in state.nodes() {
            if names.is_some_and(|names| !names.contains(name)) {
                continue;
            }
            match prepared.check(pod, info, claims) {
                Ok(choice) => {
                    candidates.push((name, info));
                    choices.push(choice);
                }
                Err(rejection) => rejections.push((name.to_owned(), rejection)),
            }
        }
        let selector =
            (candidates.len() > 1).then(|| default_selector(&pod.pod, informers, services)).flatten();
        let best = scores::best(state, pod, &candidates, selector, &labels);
        best.and_then(|place| Some((candidates.get(place)?.0.to_owned(), choices.into_iter().nth(place)?)))
    };
    if let Some((node, choice)) = best {
        return Decision::Bind { node, choice, has_unbound: claims.has_unbound() };
    }
    let nodes = state.nodes().count();
    let absent = nodes - rejections.len();
    let reasons = rejections.iter().flat_map(|(_, rejection)| &rejection.reasons).map(String::as_str);
    let not_affine = std::iter::repeat_n("node(s) didn't satisfy plugin(s) [NodeAffinity]", absent);
    let fit_error = filters::fit_error(nodes, reasons.chain(not_affine));
    let all = rejections.iter().map(|(_, rejection)| rejection.plugin);
    let plugins = all.fold(Plugins::NODE, Plugins::or);
    let budgets = match rejections.iter().any(|(_, rejection)| !rejection.is_unresolvable) {
        true => informers.budgets.state(),
        false => Vec::new(),
    };
    let failed = |after: &str, nominated, victims| {
        let message = format!("{fit_error}{after}");
        Decision::Fail(Failure { message, plugins, nominated, victims })
    };
    // The plugin of resource claims has nothing to free, and says so before the one that preempts.
    match preemption::preempt(state, pod, claims, &rejections, &budgets, &labels) {
        Preemption::Candidate(candidate) => failed("", Some(candidate.node), candidate.victims),
        Preemption::Unhelpful(why) => failed(
            &format!(" no new claims to deallocate, preemption: {why}"),
            Some(String::new()),
            Vec::new(),
        ),
        Preemption::NotEligible(why) => {
            failed(&format!(" no new claims to deallocate, preemption: {why}"), None, Vec::new())
        }
    }
}

/// A Pod that is refused before any Node is looked at. The plugin of resource claims then finds no state of its own: `not found`.
fn refused_everywhere(state: &State, why: &str, plugins: Plugins) -> Decision {
    let message = format!("0/{} nodes are available: {why}. not found", state.nodes().count());
    Decision::Fail(Failure { message, plugins, nominated: None, victims: Vec::new() })
}

/// The names of the only Nodes that the required node affinity lets pass, if it goes by names: as DaemonSets' Pods have it.
fn affine_names(pod: &Pod) -> Option<BTreeSet<String>> {
    let affinity = affinity::node_affinity(pod)?;
    let required = affinity.required_during_scheduling_ignored_during_execution.as_ref()?;
    if required.node_selector_terms.is_empty() {
        return None;
    }
    let mut names = BTreeSet::new();
    for term in &required.node_selector_terms {
        let mut of_term: Option<BTreeSet<String>> = None;
        for requirement in term.match_fields.iter().flatten() {
            if requirement.key == "metadata.name" && requirement.operator == "In" {
                let values: BTreeSet<String> = requirement.values.iter().flatten().cloned().collect();
                of_term = Some(match of_term {
                    Some(before) => before.intersection(&values).cloned().collect(),
                    None => values,
                });
            }
        }
        names.extend(of_term?);
    }
    Some(names)
}

/// What selects the Pods that belong with this one: its Services and its owner (`helper.DefaultSelector`).
fn default_selector(pod: &Pod, informers: &Informers, services: &SelectorIndex) -> Option<LabelSelector> {
    let mut labels = Labels::new();
    for key in services.candidates(pod) {
        let Some(service) = informers.services.get(&key) else { continue };
        let Some(wanted) = service_selector(&service) else { continue };
        if selector::contains(wanted, pod.metadata.labels.as_ref()) {
            labels.extend(wanted.clone());
        }
    }
    let mut selector = LabelSelector::default();
    if let Some(owner) = meta::controller(pod) {
        let key = ObjectKey::new(meta::namespace(pod), &owner.name);
        let of_owner = match owner.kind.as_str() {
            "ReplicaSet" => {
                informers.replica_sets.get(&key).and_then(|set| Some(set.spec.as_ref()?.selector.clone()))
            }
            "StatefulSet" => {
                informers.stateful_sets.get(&key).and_then(|set| Some(set.spec.as_ref()?.selector.clone()))
            }
            _ => None,
        };
        selector = of_owner.unwrap_or_default();
    }
    labels.extend(selector.match_labels.take().unwrap_or_default());
    let has_expressions = selector.match_expressions.as_ref().is_some_and(|all| !all.is_empty());
    if labels.is_empty() && !has_expressions {
        return None;
    }
    selector.match_labels = Some(labels);
    Some(selector)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn affinity_by_name_limits_the_nodes() {
        let names = |terms: Value| {
            let required =
                json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
            let spec = json!({"containers": [], "affinity": {"nodeAffinity": required}});
            let pod = serde_json::from_value(json!({"spec": spec})).expect("a Pod");
            affine_names(&pod).map(|names| names.into_iter().collect::<Vec<_>>().join(","))
        };
        let field = |name: &str| json!({"key": "metadata.name", "operator": "In", "values": [name]});
        assert_eq!(names(json!([{"matchFields": [field("a")]}])).as_deref(), Some("a"));
        assert_eq!(
            names(json!([{"matchFields": [field("a")]}, {"matchFields": [field("b")]}])).as_deref(),
            Some("a,b")
        );
        assert_eq!(names(json!([{"matchFields": [field("a"), field("b")]}])).as_deref(), Some(""));
        let any = json!({"matchExpressions": [{"key": "zone", "operator": "Exists"}]});
        assert_eq!(names(json!([{"matchFields": [field("a")]}, any])), None);
        assert_eq!(names(json!([])), None);
    }
}
