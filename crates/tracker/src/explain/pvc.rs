//! PersistentVolumeClaims that are not bound: the first consumer that they wait for, and missing StorageClasses.

use kstatus::reason;

use crate::facts::KindFacts;
use crate::graph::Graph;
use crate::id::ObjectId;
use crate::link::Link;
use crate::record::Record;

/// Whether a PVC is not bound and only will be when a Pod uses it. None: its StorageClass has not been read.
fn waiting_claim(graph: &Graph, claim: &Record) -> Option<bool> {
    if !claim.id.is("", "PersistentVolumeClaim") || claim.verdict.reason != reason::NOT_BOUND {
        return Some(false);
    }
    let mut refs = claim.facts.iter().flat_map(|facts| &facts.refs);
    let Some(class) = refs.find(|r| &*r.kind == "StorageClass") else { return Some(false) };
    let class = ObjectId::new(&*class.group, &*class.kind, "", &*class.name);
    if graph.missing(&class).is_some() {
        return Some(false);
    }
    let class = graph.get(&class)?;
    let binding_mode = match class.facts.as_ref().map(|facts| &facts.of_kind) {
        Some(KindFacts::StorageClass { binding_mode }) => binding_mode.as_deref(),
        _ => None,
    };
    Some(binding_mode == Some("WaitForFirstConsumer"))
}

/// Whether a PVC is not bound because it waits for its first consumer.
pub(super) fn waits_for_consumer(graph: &Graph, claim: &Record) -> bool {
    waiting_claim(graph, claim) == Some(true)
}

/// The same, or its StorageClass has not been read.
pub(super) fn may_wait_for_consumer(graph: &Graph, claim: &Record) -> bool {
    waiting_claim(graph, claim) != Some(false)
}

/// The Pods that use a PVC.
pub(super) fn consumers<'g>(graph: &'g Graph, claim: &'g Record) -> impl Iterator<Item = &'g Record> {
    graph.iter().filter(|pod| pod.id.is("", "Pod") && pod.id.namespace == claim.id.namespace).filter(|pod| {
        let refs = pod.facts.iter().flat_map(|facts| &facts.refs);
        refs.filter(|r| r.link == Link::Claims).any(|r| r.name == claim.id.name)
    })
}

/// The StorageClass of a PVC that is not bound, if it does not exist.
pub(super) fn missing_storage_class<'g>(graph: &'g Graph, claim: &Record) -> Option<&'g Record> {
    let pending = claim.id.is("", "PersistentVolumeClaim") && claim.verdict.reason == reason::NOT_BOUND;
    let mut refs = claim.facts.iter().filter(|_| pending).flat_map(|facts| &facts.refs);
    let class = refs.find(|r| &*r.kind == "StorageClass")?;
    graph.missing(&ObjectId::new(&*class.group, &*class.kind, "", &*class.name))
}
