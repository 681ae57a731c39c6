//! Preemption: which Pods of lower priority have to go, and on which Node, so that a Pod can run (`defaultpreemption`).

use std::cmp::Reverse;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use settled_controller::ObjectKey;

use super::filters::{self, Prepared, Rejection};
use super::pod_affinity::NamespaceLabels;
use super::state::{PodInfo, State};
use super::volumes::Claims;
use crate::meta;
use crate::selector;

/// A Node, and the Pods that have to leave it, the most important first.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) node: String,
    pub(crate) victims: Vec<Arc<PodInfo>>,
    violations: usize,
}

/// The outcome of an attempt.
#[derive(Debug)]
pub(crate) enum Preemption {
    /// These have to go.
    Candidate(Candidate),
    /// No Pods would help, with the message about it. A nomination ends.
    Unhelpful(String),
    /// The Pod may not preempt, with the message about it. A nomination stays.
    NotEligible(&'static str),
}

fn started(pod: &Pod) -> Timestamp {
    pod.status.as_ref().and_then(|status| status.start_time.as_ref()).map_or(Timestamp::MAX, |time| time.0)
}

/// The order of `MoreImportantPod`.
fn importance(pod: &PodInfo) -> (Reverse<i32>, Timestamp, ObjectKey) {
    (Reverse(pod.priority), started(&pod.pod), pod.key.clone())
}

fn is_terminating_by_preemption(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    meta::is_deleting(pod)
        && conditions.into_iter().flatten().any(|condition| {
            condition.type_ == "DisruptionTarget"
                && condition.status == "True"
                && condition.reason.as_deref() == Some("PreemptionByScheduler")
        })
}

/// Looks for Pods whose removal lets the Pod run. `rejections` are of the Nodes that the filters refused.
pub(crate) fn preempt(
    state: &mut State,
    pod: &PodInfo,
    claims: &Claims,
    rejections: &[(String, Rejection)],
    budgets: &[Arc<PodDisruptionBudget>],
    labels: NamespaceLabels<'_>,
) -> Preemption {
    if pod.pod.spec.as_ref().and_then(|spec| spec.preemption_policy.as_deref()) == Some("Never") {
        return Preemption::NotEligible("not eligible due to preemptionPolicy=Never.");
    }
    let nominated = pod.pod.status.as_ref().and_then(|status| status.nominated_node_name.as_deref());
    if let Some(nominated) = nominated.filter(|name| !name.is_empty()) {
        let is_lost =
            rejections.iter().any(|(name, rejection)| name == nominated && rejection.is_unresolvable);
        let is_leaving =
            |other: &Arc<PodInfo>| other.priority < pod.priority && is_terminating_by_preemption(&other.pod);
        if !is_lost && state.node(nominated).is_some_and(|info| info.pods.values().any(is_leaving)) {
            return Preemption::NotEligible("not eligible due to a terminating pod on the nominated node.");
        }
    }
    let mut candidates = Vec::new();
    let mut reasons: Vec<String> = Vec::new();
    for (node, rejection) in rejections {
        if rejection.is_unresolvable {
            reasons.push("Preemption is not helpful for scheduling".to_owned());
            continue;
        }
        match victims_on(state, node, pod, claims, budgets, labels) {
            Ok(candidate) => candidates.push(candidate),
            Err(why) => reasons.extend(why),
        }
    }
    match candidates.into_iter().min_by_key(rank) {
        Some(candidate) => Preemption::Candidate(candidate),
        None => {
            let nodes = state.nodes().count();
            let missing = nodes.saturating_sub(rejections.len());
            reasons.extend((0..missing).map(|_| "Preemption is not helpful for scheduling".to_owned()));
            Preemption::Unhelpful(filters::fit_error(nodes, reasons.iter().map(String::as_str)))
        }
    }
}

/// `pickOneNodeForPreemption`, and the first by name among equals.
fn rank(candidate: &Candidate) -> (usize, i32, i64, usize, Reverse<Timestamp>, String) {
    let victims = &candidate.victims;
    let highest = victims.first().map_or(i32::MIN, |pod| pod.priority);
    let sum = victims.iter().map(|pod| i64::from(pod.priority) + i64::from(i32::MAX) + 1).sum();
    let earliest = victims.iter().filter(|pod| pod.priority == highest).map(|pod| started(&pod.pod)).min();
    (
        candidate.violations,
        highest,
        sum,
        victims.len(),
        Reverse(earliest.unwrap_or(Timestamp::MAX)),
        candidate.node.clone(),
    )
}

/// The Pods that have to leave a Node, as few and unimportant as possible; or why no removal helps.
fn victims_on(
    state: &mut State,
    node: &str,
    pod: &PodInfo,
    claims: &Claims,
    budgets: &[Arc<PodDisruptionBudget>],
    labels: NamespaceLabels<'_>,
) -> Result<Candidate, Vec<String>> {
    let on_node = state.node(node).into_iter().flat_map(|info| info.pods.values());
    let mut lower: Vec<Arc<PodInfo>> =
        on_node.filter(|other| other.priority < pod.priority).cloned().collect();
    if lower.is_empty() {
        return Err(vec!["No preemption victims found for incoming pod".to_owned()]);
    }
    for victim in &lower {
        state.remove(&victim.key);
    }
    let fits = |state: &State| match state.node(node) {
        Some(info) => Prepared::new(state, pod, labels).check(pod, info, claims).map(drop),
        None => Ok(()),
    };
    let outcome = fits(state);
    if let Err(rejection) = outcome {
        for victim in lower {
            state.add(node, victim);
        }
        return Err(rejection.reasons);
    }
    lower.sort_by_key(|victim| importance(victim));
    let (violating, others) = by_budget(lower, budgets);
    let mut victims = Vec::new();
    let mut violations = 0;
    let all = violating.into_iter().map(|victim| (victim, true));
    for (victim, violates) in all.chain(others.into_iter().map(|victim| (victim, false))) {
        // Those that can stay do, the most important first.
        state.add(node, Arc::clone(&victim));
        if fits(state).is_err() {
            state.remove(&victim.key);
            violations += usize::from(violates);
            victims.push(victim);
        }
    }
    for victim in &victims {
        state.add(node, Arc::clone(victim));
    }
    victims.sort_by_key(|victim| importance(victim));
    Ok(Candidate { node: node.to_owned(), victims, violations })
}

/// The Pods whose removal budgets forbid, and the others: `filterPodsWithPDBViolation`.
fn by_budget(
    pods: Vec<Arc<PodInfo>>,
    budgets: &[Arc<PodDisruptionBudget>],
) -> (Vec<Arc<PodInfo>>, Vec<Arc<PodInfo>>) {
    let allowed = |budget: &PodDisruptionBudget| {
        budget.status.as_ref().and_then(|one| one.disruptions_allowed).unwrap_or_default()
    };
    let mut left: Vec<i32> = budgets.iter().map(|budget| allowed(budget)).collect();
    pods.into_iter().partition(|info| {
        let pod = &info.pod;
        let mut violates = false;
        for (budget, left) in budgets.iter().zip(&mut left) {
            let wanted = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref()).filter(|selector| {
                selector.match_labels.as_ref().is_some_and(|all| !all.is_empty())
                    || selector.match_expressions.as_ref().is_some_and(|all| !all.is_empty())
            });
            let disrupted = budget.status.as_ref().and_then(|status| status.disrupted_pods.as_ref());
            let is_counted = meta::namespace(&**budget) == meta::namespace(&**pod)
                && wanted.is_some()
                && selector::matches(wanted, pod.metadata.labels.as_ref())
                && !disrupted.is_some_and(|pods| pods.contains_key(meta::name(&**pod)));
            if is_counted {
                *left -= 1;
                violates |= *left < 0;
            }
        }
        violates
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, priority: i32, cpu: &str, app: &str) -> Arc<PodInfo> {
        let pod = json!({
            "metadata": {"name": name, "namespace": "shop", "labels": {"app": app}},
            "spec": {"priority": priority, "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
        });
        Arc::new(PodInfo::new(Arc::new(serde_json::from_value(pod).expect("a Pod"))))
    }

    fn state() -> State {
        let mut state = State::default();
        for name in ["a", "b"] {
            let node =
                json!({"metadata": {"name": name}, "status": {"allocatable": {"cpu": "4", "pods": "10"}}});
            state.set_node(name, Some(Arc::new(serde_json::from_value(node).expect("a Node"))));
        }
        state.add("a", pod("a-low", 1, "2", "x"));
        state.add("a", pod("a-lower", 0, "2", "x"));
        state.add("b", pod("b-high", 50, "4", "y"));
        state
    }

    fn attempt(new: &PodInfo, budgets: &[Arc<PodDisruptionBudget>]) -> Preemption {
        let mut state = state();
        let claims = Claims::default();
        let prepared = Prepared::new(&state, new, &|_| None);
        let rejections: Vec<_> = state
            .nodes()
            .filter_map(|(name, _, info)| Some((name.to_owned(), prepared.check(new, info, &claims).err()?)))
            .collect();
        let outcome = preempt(&mut state, new, &claims, &rejections, budgets, &|_| None);
        assert_eq!(state.pods().count(), 3, "the state is as it was");
        outcome
    }

    fn victims(preemption: Preemption) -> (String, Vec<String>) {
        let Preemption::Candidate(candidate) = preemption else { panic!("{preemption:?}") };
        (candidate.node, candidate.victims.iter().map(|pod| pod.key.name.to_string()).collect())
    }

    #[test]
    fn the_least_important_pods_go() {
        let to = |node: &str, names: &[&str]| {
            (node.to_owned(), names.iter().map(|name| (*name).to_owned()).collect())
        };
        assert_eq!(victims(attempt(&pod("new", 10, "2", "new"), &[])), to("a", &["a-lower"]));
        assert_eq!(victims(attempt(&pod("new", 10, "4", "new"), &[])), to("a", &["a-low", "a-lower"]));
        assert_eq!(victims(attempt(&pod("new", 100, "4", "new"), &[])), to("a", &["a-low", "a-lower"]));
        // A budget that allows no disruption makes the other Node better.
        let budget = json!({
            "metadata": {"name": "x", "namespace": "shop"}, "spec": {"selector": {"matchLabels": {"app": "x"}}},
            "status": {"disruptionsAllowed": 0, "currentHealthy": 2, "desiredHealthy": 2, "expectedPods": 2},
        });
        let budget = Arc::new(serde_json::from_value(budget).expect("a budget"));
        assert_eq!(victims(attempt(&pod("new", 100, "4", "new"), &[budget])), to("b", &["b-high"]));
    }

    #[test]
    fn it_says_why_nothing_helps() {
        let Preemption::Unhelpful(message) = attempt(&pod("new", 0, "2", "new"), &[]) else {
            panic!("a candidate")
        };
        let expected = "0/2 nodes are available: 2 No preemption victims found for incoming pod.";
        assert_eq!(message, expected);
        let Preemption::Unhelpful(message) = attempt(&pod("new", 0, "8", "new"), &[]) else {
            panic!("a candidate")
        };
        assert_eq!(message, "0/2 nodes are available: 2 Preemption is not helpful for scheduling.");
    }
}
