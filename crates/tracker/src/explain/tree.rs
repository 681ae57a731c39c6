//! Trees: a target with its dependents.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::related::{MAX_DEPTH, explains_nothing, is_current_child, related};
use super::summary::summary;
use crate::graph::Graph;
use crate::id::ObjectId;
use crate::link::Link;
use crate::record::Record;
use crate::report::Branch;

/// Not more children of an object are looked at for a tree.
const MAX_CHILDREN: usize = 200;

/// An object and what belongs to it. `all`: with what is Current.
#[must_use]
pub fn branch(graph: &Graph, record: &Record, all: bool) -> Branch {
    let mut seen = BTreeSet::from([&record.id]);
    grow(graph, None, record, all, 0, &mut seen)
}

fn grow<'g>(
    graph: &'g Graph,
    link: Option<Link>,
    record: &'g Record,
    all: bool,
    depth: usize,
    seen: &mut BTreeSet<&'g ObjectId>,
) -> Branch {
    let mut branch = Branch {
        object: record.id.clone(),
        link,
        verdict: record.verdict.clone(),
        summary: summary(record),
        created: record.created,
        children: Vec::new(),
        hidden: 0,
        hidden_kinds: Vec::new(),
    };
    if depth >= MAX_DEPTH {
        return branch;
    }
    for (link, child) in related(graph, record) {
        let event = child.id.is("", "Event");
        let old = link == Link::Owns && !is_current_child(graph, record, child);
        if event && (all || old || explains_nothing(graph, child)) || seen.contains(&child.id) {
            continue;
        }
        // What is of an old revision matters only while there is something left of it.
        let hidden = !all && (explains_nothing(graph, child) || old && !child.id.is("", "Pod"));
        if hidden || branch.children.len() >= MAX_CHILDREN {
            branch.hidden += 1;
            count_kinds(graph, child, depth, &mut branch.hidden_kinds);
            continue;
        }
        seen.insert(&child.id);
        branch.children.push(grow(graph, Some(link), child, all, depth + 1, seen));
    }
    branch
}

/// Counts an object and all that it owns by kind.
fn count_kinds(graph: &Graph, record: &Record, depth: usize, kinds: &mut Vec<(Arc<str>, usize)>) {
    if record.id.is("", "Event") || depth >= MAX_DEPTH {
        return;
    }
    match kinds.iter_mut().find(|(kind, _)| *kind == record.id.kind) {
        Some((_, count)) => *count += 1,
        None => kinds.push((record.id.kind.clone(), 1)),
    }
    for child in graph.owned(&record.uid) {
        count_kinds(graph, child, depth + 1, kinds);
    }
}
