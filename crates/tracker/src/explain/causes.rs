//! Root causes for which a target isn't done, grouped.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kstatus::{Basis, FailureClass, Status, Verdict};

use super::advice::{Advice, advice};
use super::chain::{Way, chain};
use super::failures::own_failure;
use super::pvc::waits_for_consumer;
use super::related::{MAX_DEPTH, explains_nothing, is_current_child, related};
use crate::graph::Graph;
use crate::id::ObjectId;
use crate::link::Link;
use crate::record::Record;
use crate::report::Explanation;

/// How many causes of a target are reported, and how many names of other objects with the same one.
const MAX_CAUSES: usize = 5;
const MAX_OTHERS: usize = 4;

/// The causes for which a target isn't done: those of the class that fails it first, as `order` has them, then the gravest. One that
/// knows nothing below it is its own cause.
#[must_use]
pub fn causes(graph: &Graph, target: &Record, order: &[FailureClass]) -> Vec<Explanation> {
    let mut ways = Vec::new();
    let start = vec![(None, target)];
    let mut seen = BTreeSet::from([&target.id]);
    walk(graph, start, &mut seen, &mut ways);
    group(graph, ways, order)
}

fn walk<'g>(graph: &'g Graph, way: Way<'g>, seen: &mut BTreeSet<&'g ObjectId>, ways: &mut Vec<Way<'g>>) {
    let Some((_, record)) = way.last().copied() else { return };
    let mut explained = false;
    let known = ways.len();
    if way.len() < MAX_DEPTH && record.verdict.basis != Basis::Generation {
        for (link, child) in related(graph, record) {
            let matters = match link {
                Link::Owns => is_current_child(graph, record, child),
                // The PVC waits for the Pod, not the Pod for the PVC.
                Link::Claims => !waits_for_consumer(graph, child),
                _ => true,
            };
            if !matters || explains_nothing(graph, child) || !seen.insert(&child.id) {
                continue;
            }
            // Where traffic would go may be broken, and the way to it, too.
            let dangling = link == Link::RefersTo && child.verdict.status == Status::NotFound;
            explained |= !matches!(link, Link::RoutesTo | Link::Scales) && !dangling;
            let mut longer = way.clone();
            longer.push((Some(link), child));
            walk(graph, longer, seen, ways);
        }
    }
    // A Service itself is never what is wrong with its endpoints.
    let is_end = !explained && (way.len() == 1 || record.verdict.status != Status::Current);
    if is_end || explained && !explains(ways.get(known..).unwrap_or_default(), record) {
        ways.push(way);
    }
}

/// Whether what was found below an object explains its own failure.
fn explains(below: &[Way<'_>], record: &Record) -> bool {
    let Some(own) = own_failure(record) else { return true };
    let last = |way: &Way<'_>| way.last().map(|(_, record)| Arc::clone(&record.verdict));
    let mut below = below.iter().filter_map(last);
    // That Pods cannot be created has nothing to do with those that exist.
    let creation =
        own.reason == "FailedCreate" || own.class == FailureClass::Quota && !record.id.is("", "Pod");
    if creation {
        return below.any(|verdict| verdict.failure.is_some_and(|failure| failure.class == own.class));
    }
    record.verdict.status != Status::Failed
        || below.any(|verdict| {
            verdict.failure.is_some() || !matches!(verdict.status, Status::InProgress | Status::Unknown)
        })
}

/// Puts ways together that end in the same failure.
fn group(graph: &Graph, ways: Vec<Way<'_>>, order: &[FailureClass]) -> Vec<Explanation> {
    let mut groups: BTreeMap<(usize, usize, String), Vec<Way<'_>>> = BTreeMap::new();
    for way in ways {
        let Some((_, last)) = way.last() else { continue };
        let grave = match (last.verdict.status, last.verdict.failure) {
            (Status::Failed, Some(failure)) if failure.terminal => 0,
            (Status::Failed | Status::NotFound, _) => 1,
            (_, Some(_)) => 2,
            (Status::Terminating, _) => 3,
            _ => 4,
        };
        let class = last.verdict.failure.map(|failure| failure.class);
        let first = order.iter().position(|other| Some(*other) == class).unwrap_or(order.len());
        let kinds: Vec<&str> = way.iter().map(|(_, record)| &*record.id.kind).collect();
        let key = format!("{} {} {}", kinds.join(" "), last.verdict.reason, part(&last.verdict));
        groups.entry((first, grave, key)).or_default().push(way);
    }
    let mut causes: Vec<((usize, usize, usize), Explanation)> = Vec::new();
    for ((order, grave, _), mut ways) in groups {
        ways.sort_by(|a, b| {
            let times = |way: &Way<'_>| {
                let facts = way.last()?.1.facts.as_ref()?;
                facts.times().or_else(|| facts.ready_endpoints())
            };
            times(b).cmp(&times(a))
        });
        let count = ways.len();
        let mut ways = ways.into_iter();
        let Some(first) = ways.next() else { continue };
        let named = |way: Way<'_>| Some(way.last()?.1.id.name.to_string());
        let others = ways.take(MAX_OTHERS).filter_map(named).collect();
        let chain = chain(&first);
        let Advice { commands: mut next, remarks } = advice(graph, &first);
        next.shrink_to_fit();
        let explanation = Explanation { chain, count, others, next, remarks, ..Explanation::default() };
        causes.push(((order, grave, usize::MAX - count), explanation));
    }
    causes.sort_by_key(|(key, _)| *key);
    let causes = causes.into_iter().map(|(_, explanation)| explanation);
    let mut causes: Vec<Explanation> = causes.take(MAX_CAUSES).collect();
    // Room for more would be as large as the one that most targets have.
    causes.shrink_to_fit();
    causes
}

/// Which part of an object a message is about: `container app`.
fn part(verdict: &Verdict) -> &str {
    match verdict.message.split_once(':') {
        Some((part, _)) if part.contains("container ") && part.len() < 80 => part,
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use settled_rules::RuleSet;

    use super::*;
    use crate::evaluator::Evaluator;
    use crate::report::Step;

    #[test]
    fn steps_are_dated_by_the_problem() {
        let objects = [
            // The conditions are those of the rollout before.
            r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"a","uid":"d","creationTimestamp":"2026-11-01T00:00:00Z","generation":2,"annotations":{"deployment.kubernetes.io/revision":"2"}},
                "spec":{"replicas":1},"status":{"observedGeneration":2,"replicas":1,"updatedReplicas":0,"conditions":[{"type":"Available","status":"True","lastTransitionTime":"2026-11-20T00:00:00Z"}]}}"#,
            r#"{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"name":"web-2","namespace":"a","uid":"r","creationTimestamp":"2026-11-21T12:00:00Z","generation":1,"annotations":{"deployment.kubernetes.io/revision":"2"},"ownerReferences":[{"uid":"d"}]},
                "spec":{"replicas":1},"status":{"observedGeneration":1,"replicas":1}}"#,
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-2-a","namespace":"a","uid":"p","creationTimestamp":"2026-11-21T12:00:00Z","ownerReferences":[{"uid":"r"}]},
                "status":{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"True","lastTransitionTime":"2026-11-21T12:00:05Z"}],"containerStatuses":[{"name":"app","ready":false,"state":{"waiting":{"reason":"ErrImagePull"}}}]}}"#,
            // Without conditions of its own, and created long ago.
            r#"{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"db","namespace":"a","uid":"s","creationTimestamp":"2026-11-01T00:00:00Z","generation":1},
                "spec":{"replicas":1},"status":{"observedGeneration":1,"replicas":1}}"#,
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"db-0","namespace":"a","uid":"q","creationTimestamp":"2026-11-21T12:00:00Z","ownerReferences":[{"uid":"s"}]},
                "status":{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"True","lastTransitionTime":"2026-11-21T12:00:05Z"}],"containerStatuses":[{"name":"app","ready":false,"state":{"waiting":{"reason":"ErrImagePull"}}}]}}"#,
        ];
        let evaluator = Evaluator::new(RuleSet::default(), Vec::new());
        let mut graph = Graph::default();
        for json in objects {
            graph.put(
                evaluator.record(json.as_bytes(), Timestamp::UNIX_EPOCH, false).unwrap(),
                1_u32.into(),
                1,
            );
        }
        let times = |kind: &str, name: &str| {
            let target = graph.get(&ObjectId::new("apps", kind, "a", name)).unwrap();
            let cause = causes(&graph, target, &[]).remove(0);
            let time = |step: &Step| step.since.unwrap().strftime("%d %H:%M:%S").to_string();
            cause.chain.iter().map(time).collect::<Vec<_>>()
        };
        assert_eq!(times("Deployment", "web"), ["21 12:00:00", "21 12:00:05", "21 12:00:05"]);
        assert_eq!(times("StatefulSet", "db"), ["21 12:00:05", "21 12:00:05"]);
    }

    #[test]
    fn a_pod_on_a_dead_node_keeps_its_stateful_set_waiting() {
        let pod = |name: &str, conditions: &str| {
            format!(
                r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}","namespace":"a","uid":"{name}","deletionTimestamp":"2026-11-21T12:00:00Z","ownerReferences":[{{"uid":"s"}}]}},
                    "spec":{{"nodeName":"node-2","containers":[{{"name":"db"}}]}},"status":{{"phase":"Running","conditions":[{conditions}]}}}}"#
            )
        };
        let set = r#"{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"db","namespace":"a","uid":"s","generation":1},
            "spec":{"replicas":3},"status":{"observedGeneration":1,"replicas":3,"readyReplicas":2}}"#;
        let explain = |pod: &str| {
            let evaluator = Evaluator::new(RuleSet::default(), Vec::new());
            let mut graph = Graph::default();
            for json in [set, pod] {
                let record = evaluator.record(json.as_bytes(), Timestamp::UNIX_EPOCH, false).unwrap();
                graph.put(record, 1_u32.into(), 1);
            }
            causes(&graph, graph.get(&ObjectId::new("apps", "StatefulSet", "a", "db")).unwrap(), &[])
                .remove(0)
        };
        let ready = |ready: &str, containers: &str| {
            format!(
                r#"{{"type":"Ready","status":"{ready}"}},{{"type":"ContainersReady","status":"{containers}"}}"#
            )
        };
        // What the node controller writes.
        let cause = explain(&pod("db-1", &ready("False", "True")));
        assert_eq!(cause.chain.last().unwrap().object.to_string(), "Pod/db-1");
        assert!(cause.remarks[0].starts_with("Node/node-2 does not respond"), "{:?}", cause.remarks);
        let expected =
            ["kubectl describe node node-2", "kubectl delete pod db-1 -n a --force --grace-period=0"];
        assert_eq!(cause.next, expected);
        // What a kubelet writes while it stops the containers.
        let cause = explain(&pod("db-1", &ready("False", "False")));
        assert_eq!(cause.chain.last().unwrap().object.to_string(), "StatefulSet/db");
        // A finalizer keeps it.
        let held = pod("db-1", &ready("True", "True"))
            .replace("\"uid\":\"db-1\"", "\"uid\":\"db-1\",\"finalizers\":[\"example.com/hold\"]");
        let cause = explain(&held);
        assert_eq!(cause.chain.last().unwrap().object.to_string(), "Pod/db-1");
        assert!(cause.remarks[0].starts_with("finalizer example.com/hold"), "{:?}", cause.remarks);
    }
}
