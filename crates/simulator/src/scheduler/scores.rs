//! Scores: which of the Nodes that can run a Pod is the best, with the weights of the default profile.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::affinity;
use super::pod_affinity::{self, NamespaceLabels};
use super::spread;
use super::state::{Named, NodeInfo, PodInfo, State};
use super::taints;

/// Weights of plugins.
const TAINTS: i64 = 3;
const NODE_AFFINITY: i64 = 2;
const SPREAD: i64 = 2;
const POD_AFFINITY: i64 = 2;

/// The place of the best of the Nodes. Among equals the one with the fewest Pods, then the first by name: upstream takes any of them.
pub(crate) fn best(
    state: &State,
    pod: &PodInfo,
    nodes: &[Named<'_>],
    default_selector: Option<LabelSelector>,
    labels: NamespaceLabels<'_>,
) -> Option<usize> {
    if nodes.len() == 1 {
        return Some(0);
    }
    let infos = || nodes.iter().map(|(_, info)| *info);
    let tolerations = pod.pod.spec.as_ref().and_then(|spec| spec.tolerations.as_ref());
    let intolerable = infos().map(|info| {
        let all = info.node.as_ref().and_then(|node| node.spec.as_ref()?.taints.as_ref());
        let is_counted = |taint: &&k8s_openapi::api::core::v1::Taint| {
            taint.effect == "PreferNoSchedule"
                && !tolerations.is_some_and(|all| all.iter().any(|one| taints::tolerates(one, taint)))
        };
        i64::try_from(all.into_iter().flatten().filter(is_counted).count()).unwrap_or(i64::MAX)
    });
    let preferred =
        infos().map(|info| info.node.as_ref().map_or(0, |node| affinity::preferred_score(&pod.pod, node)));
    let mut total: Vec<i64> = infos().map(|info| least_allocated(pod, info) + balanced(pod, info)).collect();
    let mut add = |scores: Vec<i64>, weight: i64| {
        for (sum, score) in total.iter_mut().zip(scores) {
            *sum += weight * score;
        }
    };
    add(normalize(intolerable.collect(), true), TAINTS);
    add(normalize(preferred.collect(), false), NODE_AFFINITY);
    if let Some(scores) = spread::scores(state, pod, nodes, default_selector) {
        add(scores, SPREAD);
    }
    if let Some(scores) = pod_affinity::scores(state, pod, nodes, labels) {
        add(scores, POD_AFFINITY);
    }
    let ranked = nodes.iter().zip(&total).enumerate();
    let best =
        ranked.min_by_key(|(_, ((name, info), score))| (std::cmp::Reverse(**score), info.pods.len(), *name));
    best.map(|(place, _)| place)
}

/// `DefaultNormalizeScore`: from 0 to 100, the highest first, or last.
fn normalize(mut scores: Vec<i64>, is_reversed: bool) -> Vec<i64> {
    let most = scores.iter().copied().max().unwrap_or_default();
    for score in &mut scores {
        let scaled = if most == 0 { 0 } else { 100 * *score / most };
        *score = if is_reversed { 100 - scaled } else { scaled };
    }
    scores
}

/// `NodeResourcesFit` with the strategy `LeastAllocated`: the share of CPU and memory that is left.
fn least_allocated(pod: &PodInfo, info: &NodeInfo) -> i64 {
    let resources = [
        (info.nonzero.0 + pod.nonzero.0, info.allocatable.cpu),
        (info.nonzero.1 + pod.nonzero.1, info.allocatable.memory),
    ];
    let offered = resources.iter().filter(|(_, all)| *all > 0);
    let scores = offered.map(|(used, all)| if used > all { 0 } else { (all - used) * 100 / all });
    let (sum, count) = scores.fold((0, 0), |(sum, count), score| (sum + score, count + 1));
    sum / i64::max(count, 1)
}

/// `NodeResourcesBalancedAllocation`: whether the Pod makes the shares of CPU and memory more alike. Nothing for one without requests.
fn balanced(pod: &PodInfo, info: &NodeInfo) -> i64 {
    if pod.request.is_empty() {
        return 0;
    }
    let score = |cpu: i64, memory: i64| {
        let share = |used: i64, all: i64| (all > 0).then(|| (used as f64 / all as f64).min(1.0));
        let deviation = match (share(cpu, info.allocatable.cpu), share(memory, info.allocatable.memory)) {
            (Some(cpu), Some(memory)) => ((cpu - memory) / 2.0).abs(),
            _ => 0.0,
        };
        ((1.0 - deviation) * 100.0) as i64
    };
    let (used, request) = (&info.requested, &pod.request);
    let with = score(used.cpu + request.cpu, used.memory + request.memory);
    let without = score(used.cpu, used.memory);
    50 + (50 + with - without) / 2
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;

    fn state(nodes: &[(&str, Value)]) -> State {
        let mut state = State::default();
        for (name, more) in nodes {
            let mut node = json!({
                "metadata": {"name": name},
                "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
            });
            for (key, value) in more.as_object().into_iter().flatten() {
                node[key] = value.clone();
            }
            state.set_node(name, Some(Arc::new(serde_json::from_value(node).expect("a Node"))));
        }
        state
    }

    fn pod(name: &str, cpu: &str, affinity: Value) -> PodInfo {
        let requests = json!({"cpu": cpu, "memory": "1Gi"});
        let spec =
            json!({"containers": [{"name": "c", "resources": {"requests": requests}}], "affinity": affinity});
        let pod = json!({"metadata": {"name": name, "namespace": "shop"}, "spec": spec});
        PodInfo::new(Arc::new(serde_json::from_value(pod).expect("a Pod")))
    }

    #[test]
    fn the_emptiest_preferred_untainted_node_is_best() {
        let soft = json!({"spec": {"taints": [{"key": "spot", "effect": "PreferNoSchedule"}]}});
        let labeled = json!({"metadata": {"name": "c", "labels": {"disk": "ssd"}}});
        let mut state = state(&[("a", json!({})), ("b", json!({})), ("c", labeled), ("d", soft)]);
        state.add("a", Arc::new(pod("old", "2", json!(null))));
        let best = |state: &State, nodes: &[&'static str], affinity: Value| {
            let infos = nodes.iter().map(|name| (*name, state.node(name).expect("a Node")));
            let place = best(state, &pod("new", "1", affinity), &infos.collect::<Vec<_>>(), None, &|_| None);
            place.map(|place| nodes[place])
        };
        assert_eq!(best(&state, &["a", "b", "d"], json!(null)), Some("b"));
        assert_eq!(best(&state, &["a", "d"], json!(null)), Some("a"));
        let term = json!({"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]});
        let preferred = json!({"nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": term}]
        }});
        assert_eq!(best(&state, &["b", "c"], preferred), Some("c"));
        assert_eq!(best(&state, &[], json!(null)), None);
    }

    #[test]
    fn scores_are_normalized_as_upstream() {
        assert_eq!(normalize(vec![0, 1, 2], false), [0, 50, 100]);
        assert_eq!(normalize(vec![0, 1, 2], true), [100, 50, 0]);
        assert_eq!(normalize(vec![0, 0], true), [100, 100]);
    }
}
