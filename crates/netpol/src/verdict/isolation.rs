//! Isolation of pods by NetworkPolicies: what it means that a policy is not carried out.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::effect::ErrorDirection;
use crate::extract::rules;
use crate::index::ClusterIndex;
use crate::model::{Action, Kind, Policy};
use crate::profile::Direction;

/// Policies with the same subject, by namespace and the selector's text.
type Group = (Arc<str>, String);

/// The policies that isolate pods, as carried out.
#[derive(Debug, Default)]
pub(super) struct Isolation {
    /// How many policies with this subject isolate, by direction.
    groups: HashMap<(Direction, Group), usize>,
    /// How many of a namespace do.
    namespaces: HashMap<(Direction, Arc<str>), usize>,
    /// Pods that are isolated; None without a cluster.
    pods: Option<HashSet<(Direction, u32)>>,
}

fn group(policy: &Policy) -> Group {
    (policy.id.namespace.clone(), policy.subject.pods.to_string())
}

impl Isolation {
    /// Records the policies that isolate in a direction: `is_carried_out` says whether the provider does it.
    pub(super) fn new(
        policies: &[&Policy],
        index: Option<&ClusterIndex<'_>>,
        is_carried_out: impl Fn(usize, Direction) -> bool,
    ) -> Self {
        let mut isolation = Self::default();
        let mut subjects: HashMap<(Direction, Group), &Policy> = HashMap::new();
        for (position, policy) in policies.iter().enumerate() {
            if policy.id.kind != Kind::NetworkPolicy {
                continue;
            }
            for direction in [Direction::Ingress, Direction::Egress] {
                if rules(policy, direction).is_none() || !is_carried_out(position, direction) {
                    continue;
                }
                let group = group(policy);
                *isolation.namespaces.entry((direction, group.0.clone())).or_default() += 1;
                *isolation.groups.entry((direction, group.clone())).or_default() += 1;
                subjects.entry((direction, group)).or_insert(policy);
            }
        }
        // Each subject once: many policies have the same one.
        isolation.pods = index.filter(|index| index.pods_unread().is_none()).map(|index| {
            let mut pods = HashSet::new();
            for ((direction, _), policy) in subjects {
                let subject = &policy.subject;
                let selected = index.selected_pods(&policy.id.namespace, &subject.namespaces, &subject.pods);
                pods.extend(selected.unwrap_or_default().into_iter().map(|pod| (direction, pod)));
            }
            pods
        });
        isolation
    }

    /// The direction of the error if a policy does not exist in a direction.
    pub(super) fn without(
        &self,
        policy: &Policy,
        direction: Direction,
        index: Option<&ClusterIndex<'_>>,
    ) -> ErrorDirection {
        let Some(rules) = rules(policy, direction) else { return ErrorDirection::Same };
        if policy.id.kind != Kind::NetworkPolicy {
            return without_rules(rules.iter().map(|rule| rule.action));
        }
        // If the pods stay isolated, what the policy allows is lost.
        let isolated = if rules.is_empty() { ErrorDirection::Same } else { ErrorDirection::Less };
        let (namespace, selector) = group(policy);
        let count = |map: &HashMap<_, usize>, key| map.get(&key).copied().unwrap_or_default();
        if count(&self.groups, (direction, (namespace.clone(), selector))) > 0
            || count(&self.groups, (direction, (namespace.clone(), String::new()))) > 0
        {
            return isolated;
        }
        if !self.namespaces.contains_key(&(direction, namespace)) {
            return ErrorDirection::More;
        }
        let (Some(pods), Some(index)) = (&self.pods, index) else { return ErrorDirection::Either };
        let subject = &policy.subject;
        let selected = index.selected_pods(&policy.id.namespace, &subject.namespaces, &subject.pods);
        let Ok(selected) = selected else { return ErrorDirection::Either };
        if selected.iter().any(|pod| !pods.contains(&(direction, *pod))) {
            ErrorDirection::More
        } else {
            isolated
        }
    }
}

/// The direction of the error if rules of an admin kind do not exist.
fn without_rules(actions: impl Iterator<Item = Action>) -> ErrorDirection {
    let mut result = None;
    for action in actions {
        let direction = match action {
            Action::Deny => ErrorDirection::More,
            Action::Allow => ErrorDirection::Less,
            Action::Pass => ErrorDirection::Either,
        };
        result = Some(match result {
            None => direction,
            Some(known) if known == direction => known,
            Some(_) => ErrorDirection::Either,
        });
    }
    result.unwrap_or(ErrorDirection::Same)
}
