//! Related objects, which may explain the state of an object: those that it owns and those that it refers to.

use kstatus::{Status, reason};

use super::pvc::{consumers, waits_for_consumer};
use super::reported::{is_outdated, is_report};
use crate::facts::Facts;
use crate::graph::Graph;
use crate::id::ObjectId;
use crate::link::Link;
use crate::record::Record;

/// No chain of owners and references is followed further.
pub(super) const MAX_DEPTH: usize = 8;

/// What an object's state may come from: what it owns and what it refers to.
pub(super) fn related<'g>(graph: &'g Graph, record: &'g Record) -> Vec<(Link, &'g Record)> {
    let owned = graph.owned(&record.uid).map(|child| (Link::Owns, child));
    let referred = references(graph, record);
    // What a namespace that is being deleted still holds.
    let holder = Some(record).filter(|r| r.id.is("", "Namespace") && r.deleted.is_some());
    let left = holder.into_iter().flat_map(|holder| {
        graph.iter().filter(|other| *other.id.namespace == *holder.id.name && other.deleted.is_some())
    });
    let left = left.map(|other| (Link::Holds, other));
    let claim = Some(record).filter(|record| waits_for_consumer(graph, record));
    let users = claim.into_iter().flat_map(|claim| consumers(graph, claim)).map(|pod| (Link::UsedBy, pod));
    let mut all: Vec<_> = owned.chain(referred).chain(left).chain(users).collect();
    all.sort_by(|(_, a), (_, b)| (&a.id.kind, &a.id.name).cmp(&(&b.id.kind, &b.id.name)));
    all.dedup_by(|(_, a), (_, b)| a.id == b.id);
    all
}

/// What an object refers to, as far as it is known: also that it does not exist.
pub(super) fn references<'g>(
    graph: &'g Graph,
    record: &'g Record,
) -> impl Iterator<Item = (Link, &'g Record)> + 'g {
    let facts = record.facts.iter();
    facts.flat_map(|facts| &facts.refs).filter_map(|r| {
        let namespace = r.namespace.as_deref().unwrap_or(&record.id.namespace);
        let at = |namespace: &str| ObjectId::new(&*r.group, &*r.kind, namespace, &*r.name);
        // Kinds of the cluster have no namespace; which they are, the reference does not say.
        let (inside, outside) = (at(namespace), at(""));
        let known = graph.get(&inside).or_else(|| graph.get(&outside));
        let other = known.or_else(|| graph.missing(&inside)).or_else(|| graph.missing(&outside))?;
        Some((r.link, other))
    })
}

/// Whether a child is of the present revision of what generated it, and stays.
pub(super) fn is_current_child(graph: &Graph, parent: &Record, child: &Record) -> bool {
    if child.deleted.is_some() && child.id.is("", "Pod") {
        return keeps_its_name(parent, child);
    }
    if child.id.is("", "Event") {
        // Since then, it got what it wanted.
        let at = child.facts.as_ref().and_then(|facts| facts.since);
        let since = |sibling: &Record| !sibling.id.is("", "Event") && sibling.created > at;
        return !graph.owned(&parent.uid).any(since) && parent.verdict.status != Status::Current;
    }
    if is_report(child) {
        return !is_outdated(parent, child);
    }
    let replaced = parent.id.is("apps", "Deployment") && child.id.is("apps", "ReplicaSet")
        || parent.id.is("apps", "DaemonSet") && child.id.is("", "Pod");
    let (wanted, is) = (parent.facts.as_deref(), child.facts.as_deref());
    match (wanted.and_then(Facts::revision), is.and_then(Facts::revision)) {
        (Some(wanted), Some(is)) if replaced => wanted == is,
        _ => true,
    }
}

/// Whether a StatefulSet waits for a Pod to be gone that does not end by itself: only then can it create the Pod of the same name.
fn keeps_its_name(parent: &Record, pod: &Record) -> bool {
    let facts = pod.facts.as_deref();
    let is_held = |facts: &Facts| {
        !facts.finalizers.is_empty() || facts.pod().is_some_and(|pod| pod.node.is_some() && pod.is_cut_off)
    };
    parent.id.is("apps", "StatefulSet") && facts.is_some_and(is_held)
}

/// Whether an object is as it should be, so that it can be no cause.
pub(super) fn explains_nothing(graph: &Graph, record: &Record) -> bool {
    let broken = |record: &Record| {
        record.id.is("", "Service")
            && graph.owned(&record.uid).any(|slice| slice.verdict.status == Status::InProgress)
    };
    record.verdict.status == Status::Current && !broken(record)
        || record.id.is("", "Event") && record.verdict.status != Status::Failed
        // Kinds that say nothing explain nothing.
        || record.verdict.reason == reason::NO_SIGNAL
}
