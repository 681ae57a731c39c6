//! Room on a Node: whether what a Pod asks for fits beside what the other Pods of the Node were given, as the kubelet's predicates
//! (`noderesources.Fits`) find it.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};

use super::input::Refusal;
use super::resize::with_allocation;
use crate::meta;
use crate::pod as pods;
use crate::scheduler::resources::{Resources, requests};

/// Why it does not fit: `InsufficientResourceError` of the first resource that is short.
pub(super) fn refusal(pod: &Pod, node: &Node, others: &[Arc<Pod>]) -> Option<Refusal> {
    let allocatable = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
    let capacity = Resources::of(allocatable);
    let mut used = Resources::default();
    let is_other = |other: &&Arc<Pod>| meta::uid(&***other) != meta::uid(pod) && !pods::is_terminal(other);
    for other in others.iter().filter(is_other) {
        used.add(&requests(&with_allocation(other), false), 1);
    }
    let wanted = requests(pod, false);
    let short = [
        ("cpu", "OutOfcpu", wanted.cpu, used.cpu, capacity.cpu),
        ("memory", "OutOfmemory", wanted.memory, used.memory, capacity.memory),
    ];
    let is_short = |(_, _, wanted, used, capacity): &(&str, &str, i64, i64, i64)| {
        *wanted > 0 && wanted + used > *capacity
    };
    short.into_iter().find(is_short).map(|(name, reason, wanted, used, capacity)| {
        let message = format!(
            "Node didn't have enough resource: {name}, requested: {wanted}, used: {used}, capacity: {capacity}"
        );
        (reason.to_owned(), message)
    })
}
