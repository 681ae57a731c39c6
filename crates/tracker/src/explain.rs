//! Why a target isn't done: the ways from it to root causes, over owners and references. Pure: records in, data out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use kstatus::{Basis, FailureClass, Status, Verdict};

use crate::advice::{Advice, advice};
use crate::evaluation::ObservedFailure;
use crate::graph::Graph;
use crate::id::ObjectId;
use crate::record::Record;
use crate::report::{Branch, Explanation, Step};
use crate::summary::summary;

/// No way is longer.
const DEEPEST: usize = 8;
/// Not more causes of one target are told, nor more names of objects with the same one.
const MOST_CAUSES: usize = 5;
const MOST_OTHERS: usize = 4;
/// Not more children of an object are looked at for a tree.
const MOST_CHILDREN: usize = 200;

/// The failures of a target and of its dependents, for whoever decides whether to go on waiting: one of each class.
#[must_use]
pub fn failures(graph: &Graph, target: &Record) -> Vec<ObservedFailure> {
    let mut found: Vec<ObservedFailure> = Vec::new();
    if target.verdict.basis == Basis::Generation || target.deleted.is_some() {
        // What belongs to it now belongs to its last generation, or is on its way out.
        return found;
    }
    let mut note = |failure: ObservedFailure| match found.iter_mut().find(|f| f.class == failure.class) {
        Some(other) => {
            other.since = other.since.into_iter().chain(failure.since).min();
            other.terminal |= failure.terminal;
        }
        None => found.push(failure),
    };
    // A claim that nobody uses yet has not failed; whoever is to use it may have.
    if let Some(own) = own_failure(target).filter(|_| !may_wait_for_consumer(graph, target)) {
        let reason = missing_class(graph, target).map(|class| class.verdict.reason.clone());
        note(ObservedFailure { reason: reason.unwrap_or(own.reason), ..own });
    }
    missing_classes(graph, target).for_each(&mut note);
    if graph.owned(&target.uid).next().is_none() {
        return found;
    }
    let mut todo = vec![(target, 0)];
    let mut seen = BTreeSet::from([&target.uid]);
    while let Some((record, depth)) = todo.pop() {
        for child in graph.owned(&record.uid) {
            if !seen.insert(&child.uid) || depth >= DEEPEST || !counts(graph, record, child) {
                continue;
            }
            let failure = own_failure(child)
                .filter(|_| !will_be_replaced(child) && !may_wait_for_consumer(graph, child));
            if let Some(failure) = failure {
                // What made it may make it again, so nothing is terminal but on the target itself.
                note(ObservedFailure { terminal: false, ..failure });
            }
            missing_classes(graph, child).for_each(&mut note);
            todo.push((child, depth + 1));
        }
    }
    found.sort_by_key(|failure| std::cmp::Reverse(rank(failure.class)));
    found
}

/// The failure of an object itself: it has failed, or something stands in its way.
#[must_use]
pub fn own_failure(record: &Record) -> Option<ObservedFailure> {
    let verdict = &record.verdict;
    let class = match (verdict.status, verdict.failure) {
        (Status::Failed, failure) => failure.map_or(FailureClass::Other, |failure| failure.class),
        // Whoever has set the gate knows why.
        (Status::InProgress, Some(failure)) if verdict.reason != "SchedulingGated" => failure.class,
        _ => return None,
    };
    let terminal = verdict.failure.is_some_and(|failure| failure.terminal);
    Some(ObservedFailure { class, reason: verdict.reason.clone(), terminal, since: record.since() })
}

/// The claims of a Pod that cannot be bound because their StorageClass does not exist.
fn missing_classes<'g>(graph: &'g Graph, pod: &'g Record) -> impl Iterator<Item = ObservedFailure> + 'g {
    let pod = Some(pod).filter(|pod| pod.id.is("", "Pod") && pod.verdict.status == Status::InProgress);
    pod.into_iter().flat_map(|pod| references(graph, pod)).filter_map(|(link, claim)| {
        let class = missing_class(graph, claim).filter(|_| link == "claims")?;
        Some(ObservedFailure { reason: class.verdict.reason.clone(), ..own_failure(claim)? })
    })
}

/// The StorageClass of a claim that is not bound, if it does not exist.
fn missing_class<'g>(graph: &'g Graph, claim: &Record) -> Option<&'g Record> {
    let pending = claim.id.is("", "PersistentVolumeClaim") && claim.verdict.reason == "NotBound";
    let mut refs = claim.facts.iter().filter(|_| pending).flat_map(|facts| &facts.refs);
    let class = refs.find(|r| &*r.kind == "StorageClass")?;
    graph.missing(&ObjectId::new(&*class.group, &*class.kind, "", &*class.name))
}

/// How sure it is that a failure of this class does not pass.
fn rank(class: FailureClass) -> usize {
    const ORDER: [FailureClass; 12] = [
        FailureClass::Deletion,
        FailureClass::Network,
        FailureClass::Probe,
        FailureClass::Scheduling,
        FailureClass::Storage,
        FailureClass::Other,
        FailureClass::Crash,
        FailureClass::Image,
        FailureClass::Quota,
        FailureClass::Configuration,
        FailureClass::Job,
        FailureClass::Deadline,
    ];
    ORDER.iter().position(|other| *other == class).unwrap_or(0)
}

/// Whether a child is of the present revision of what generated it, and stays.
fn counts(graph: &Graph, parent: &Record, child: &Record) -> bool {
    if child.deleted.is_some() && child.id.is("", "Pod") {
        return false;
    }
    if child.id.is("", "Event") {
        // Since then, it got what it wanted.
        let at = child.facts.as_ref().and_then(|facts| facts.since);
        let since = |sibling: &Record| !sibling.id.is("", "Event") && sibling.created > at;
        return !graph.owned(&parent.uid).any(since) && parent.verdict.status != Status::Current;
    }
    let replaced = parent.id.is("apps", "Deployment") && child.id.is("apps", "ReplicaSet")
        || parent.id.is("apps", "DaemonSet") && child.id.is("", "Pod");
    let revision = |record: &Record| record.facts.as_ref().and_then(|facts| facts.revision.clone());
    match (revision(parent), revision(child)) {
        (Some(wanted), Some(is)) if replaced => wanted == is,
        _ => true,
    }
}

/// A Pod that has ended is made anew by whatever generated it, which counts how often.
fn will_be_replaced(child: &Record) -> bool {
    child.id.is("", "Pod") && child.facts.as_ref().is_some_and(|facts| facts.end == Some(false))
}

/// What an object refers to, as far as it is known: also that it does not exist.
fn references<'g>(
    graph: &'g Graph,
    record: &'g Record,
) -> impl Iterator<Item = (&'static str, &'g Record)> + 'g {
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

/// What an object's state may come from: what it owns and what it refers to.
fn below<'g>(graph: &'g Graph, record: &'g Record) -> Vec<(&'static str, &'g Record)> {
    let owned = graph.owned(&record.uid).map(|child| ("owns", child));
    let referred = references(graph, record);
    // What a namespace that is being deleted still holds.
    let holder = Some(record).filter(|r| r.id.is("", "Namespace") && r.deleted.is_some());
    let left = holder.into_iter().flat_map(|holder| {
        graph.iter().filter(|other| *other.id.namespace == *holder.id.name && other.deleted.is_some())
    });
    let left = left.map(|other| ("holds", other));
    let claim = Some(record).filter(|record| waits_for_consumer(graph, record));
    let users = claim.into_iter().flat_map(|claim| consumers(graph, claim)).map(|pod| ("is used by", pod));
    let mut all: Vec<_> = owned.chain(referred).chain(left).chain(users).collect();
    all.sort_by(|(_, a), (_, b)| (&a.id.kind, &a.id.name).cmp(&(&b.id.kind, &b.id.name)));
    all.dedup_by(|(_, a), (_, b)| a.id == b.id);
    all
}

/// The causes for which a target isn't done: those of the class that fails it first, as `order` has them, then the gravest. One that
/// knows nothing below it is its own cause.
#[must_use]
pub fn causes(graph: &Graph, target: &Record, order: &[FailureClass]) -> Vec<Explanation> {
    let mut ways = Vec::new();
    let start = vec![("", target)];
    let mut seen = BTreeSet::from([&target.id]);
    walk(graph, start, &mut seen, &mut ways);
    group(graph, ways, order)
}

pub(crate) type Way<'g> = Vec<(&'static str, &'g Record)>;

fn walk<'g>(graph: &'g Graph, way: Way<'g>, seen: &mut BTreeSet<&'g ObjectId>, ways: &mut Vec<Way<'g>>) {
    let Some((_, record)) = way.last().copied() else { return };
    let mut explained = false;
    let known = ways.len();
    if way.len() < DEEPEST && record.verdict.basis != Basis::Generation {
        for (link, child) in below(graph, record) {
            let matters = match link {
                "owns" => counts(graph, record, child),
                // The claim waits for the Pod, not the Pod for the claim.
                "claims" => !waits_for_consumer(graph, child),
                _ => true,
            };
            if !matters || settled(graph, child) || !seen.insert(&child.id) {
                continue;
            }
            // Where traffic would go may be broken, and the way to it, too.
            let dangling = link == "refers to" && child.verdict.status == Status::NotFound;
            explained |= !matches!(link, "routes to" | "scales") && !dangling;
            let mut longer = way.clone();
            longer.push((link, child));
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

fn settled(graph: &Graph, record: &Record) -> bool {
    let broken = |record: &Record| {
        record.id.is("", "Service")
            && graph.owned(&record.uid).any(|slice| slice.verdict.status == Status::InProgress)
    };
    record.verdict.status == Status::Current && !broken(record)
        || record.id.is("", "Event") && record.verdict.status != Status::Failed
        // Kinds that say nothing explain nothing.
        || record.verdict.reason == "NoSignal"
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
            let times = |way: &Way<'_>| way.last().and_then(|(_, r)| r.facts.as_ref()?.times);
            times(b).cmp(&times(a))
        });
        let count = ways.len();
        let mut ways = ways.into_iter();
        let Some(first) = ways.next() else { continue };
        let named = |way: Way<'_>| Some(way.last()?.1.id.name.to_string());
        let others = ways.take(MOST_OTHERS).filter_map(named).collect();
        let chain = chain(&first);
        let Advice { commands: mut next, remarks } = advice(graph, &first);
        next.shrink_to_fit();
        let explanation = Explanation { chain, count, others, next, remarks, ..Explanation::default() };
        causes.push(((order, grave, usize::MAX - count), explanation));
    }
    causes.sort_by_key(|(key, _)| *key);
    let causes = causes.into_iter().map(|(_, explanation)| explanation);
    let mut causes: Vec<Explanation> = causes.take(MOST_CAUSES).collect();
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

/// The steps of a way. Each is dated by the problem, not by an older condition.
fn chain(way: &Way<'_>) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::with_capacity(way.len());
    let mut below: Option<(&Record, Option<Timestamp>)> = None;
    for (link, record) in way.iter().rev() {
        let since = since(record, below);
        steps.push(step(link, record, since));
        below = Some((record, since));
    }
    steps.reverse();
    steps
}

/// Since when an object is as it is: by its own times, unless what explains it is younger than anything these can mean.
fn since(record: &Record, below: Option<(&Record, Option<Timestamp>)>) -> Option<Timestamp> {
    let own = record.since();
    let Some((child, child_since)) = below.filter(|_| record.deleted.is_none()) else { return own };
    let condition = record.facts.as_ref().and_then(|facts| facts.since);
    match condition {
        // A rollout has begun with its ReplicaSet, whenever the conditions have changed before.
        Some(condition) if child.id.is("apps", "ReplicaSet") => child.created.max(Some(condition)),
        Some(_) => own,
        // It has only the time of its creation, which may be long ago.
        None => own.max(child_since),
    }
}

fn step(link: &'static str, record: &Record, since: Option<Timestamp>) -> Step {
    let facts = record.facts.as_deref();
    Step {
        object: record.id.clone(),
        link,
        status: record.verdict.status,
        reason: record.verdict.reason.to_string(),
        message: record.verdict.message.to_string(),
        summary: summary(record),
        class: record.verdict.failure.map(|failure| failure.class),
        terminal: record.verdict.failure.is_some_and(|failure| failure.terminal),
        since,
        times: facts
            .and_then(|facts| facts.times)
            .filter(|_| !record.id.is("discovery.k8s.io", "EndpointSlice")),
    }
}

/// Whether it is a claim that is not bound yet, and only will be when a Pod uses it. None: its class is not known.
fn waiting_claim(graph: &Graph, claim: &Record) -> Option<bool> {
    if !claim.id.is("", "PersistentVolumeClaim") || claim.verdict.reason != "NotBound" {
        return Some(false);
    }
    let mut refs = claim.facts.iter().flat_map(|facts| &facts.refs);
    let Some(class) = refs.find(|r| &*r.kind == "StorageClass") else { return Some(false) };
    let class = ObjectId::new(&*class.group, &*class.kind, "", &*class.name);
    if graph.missing(&class).is_some() {
        return Some(false);
    }
    let class = graph.get(&class)?;
    Some(class.facts.as_ref().is_some_and(|f| f.word.as_deref() == Some("WaitForFirstConsumer")))
}

pub(crate) fn waits_for_consumer(graph: &Graph, claim: &Record) -> bool {
    waiting_claim(graph, claim) == Some(true)
}

fn may_wait_for_consumer(graph: &Graph, claim: &Record) -> bool {
    waiting_claim(graph, claim) != Some(false)
}

/// The Pods that use a claim.
pub(crate) fn consumers<'g>(graph: &'g Graph, claim: &'g Record) -> impl Iterator<Item = &'g Record> {
    graph.iter().filter(|pod| pod.id.is("", "Pod") && pod.id.namespace == claim.id.namespace).filter(|pod| {
        let refs = pod.facts.iter().flat_map(|facts| &facts.refs);
        refs.filter(|r| r.link == "claims").any(|r| r.name == claim.id.name)
    })
}

/// Why nothing more will happen to a target by itself, although it is not Current.
#[must_use]
pub fn excuse(graph: &Graph, target: &Record) -> Option<&'static str> {
    let waits = waits_for_consumer(graph, target) && consumers(graph, target).next().is_none();
    waits.then_some("it binds when a Pod uses it (WaitForFirstConsumer), and none does yet")
}

/// What a reader should know of a target that is done all the same: that its last run has failed, that it routes to nothing.
#[must_use]
pub fn advisory(graph: &Graph, target: &Record) -> Option<String> {
    if target.verdict.status != Status::Current {
        return None;
    }
    if target.verdict.reason == "Suspended" {
        return Some("suspended".to_owned());
    }
    if target.id.is("batch", "CronJob") {
        let runs = graph.owned(&target.uid).filter(|child| child.id.is("batch", "Job"));
        let last = runs.max_by_key(|job| job.created)?;
        let failed = last.verdict.status == Status::Failed;
        return failed.then(|| format!("last run failed: {} {}", last.id, last.verdict.reason));
    }
    if target.id.is("", "Service") {
        return without_endpoints(graph, target);
    }
    let missing = references(graph, target)
        .find(|(link, other)| *link == "routes to" && other.verdict.status == Status::NotFound);
    missing.map(|(_, other)| other.verdict.message.to_string())
}

/// Whether a Service has nothing to send traffic to, as far as its EndpointSlices say.
fn without_endpoints(graph: &Graph, service: &Record) -> Option<String> {
    let selector = &service.facts.as_ref()?.selector;
    let mut slices =
        graph.owned(&service.uid).filter(|c| c.id.is("discovery.k8s.io", "EndpointSlice")).peekable();
    slices.peek().filter(|_| !selector.is_empty())?;
    let (mut ready, mut unready) = (0, None);
    for slice in slices {
        ready += slice.facts.as_ref().and_then(|facts| facts.times).unwrap_or(0);
        if slice.verdict.status != Status::Current {
            unready = Some(&slice.verdict.message);
        }
    }
    match unready {
        _ if ready > 0 => None,
        Some(message) => Some(format!("no ready endpoints ({message})")),
        None => {
            let labels: Vec<String> = selector.iter().map(|(key, value)| format!("{key}={value}")).collect();
            Some(format!("no endpoints: no Pod matches its selector {}", labels.join(",")))
        }
    }
}

/// Whether [`advisory`] may have something to say of a target once its dependents are known.
pub(crate) fn may_advise(target: &Record) -> bool {
    let kind = target.id.is("batch", "CronJob")
        || target.id.is("networking.k8s.io", "Ingress")
        || target.id.is("gateway.networking.k8s.io", "HTTPRoute")
        || target.id.is("", "Service")
            && target.facts.as_ref().is_some_and(|facts| !facts.selector.is_empty());
    kind && target.verdict.status == Status::Current
}

/// An object and what belongs to it. `all`: with what is Current.
#[must_use]
pub fn branch(graph: &Graph, record: &Record, all: bool) -> Branch {
    let mut seen = BTreeSet::from([&record.id]);
    grow(graph, "", record, all, 0, &mut seen)
}

fn grow<'g>(
    graph: &'g Graph,
    link: &'static str,
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
    if depth >= DEEPEST {
        return branch;
    }
    for (link, child) in below(graph, record) {
        let event = child.id.is("", "Event");
        let old = link == "owns" && !counts(graph, record, child);
        if event && (all || old || settled(graph, child)) || seen.contains(&child.id) {
            continue;
        }
        // What is of an old revision matters only while there is something left of it.
        let hidden = !all && (settled(graph, child) || old && !child.id.is("", "Pod"));
        if hidden || branch.children.len() >= MOST_CHILDREN {
            branch.hidden += 1;
            count_kinds(graph, child, depth, &mut branch.hidden_kinds);
            continue;
        }
        seen.insert(&child.id);
        branch.children.push(grow(graph, link, child, all, depth + 1, seen));
    }
    branch
}

/// Counts an object and all that it owns by kind.
fn count_kinds(graph: &Graph, record: &Record, depth: usize, kinds: &mut Vec<(Arc<str>, usize)>) {
    if record.id.is("", "Event") || depth >= DEEPEST {
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

/// The objects of which events and logs tell more: those of the chain, the root cause first.
pub(crate) fn witnesses(explanation: &Explanation) -> impl Iterator<Item = &Step> {
    explanation.chain.iter().rev().filter(|step| !step.object.is("", "Event"))
}

#[cfg(test)]
mod tests {
    use settled_rules::RuleSet;

    use super::*;
    use crate::record::Judge;

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
        let judge = Judge::new(RuleSet::default(), Vec::new());
        let mut graph = Graph::default();
        for json in objects {
            graph.put(judge.record(json.as_bytes(), Timestamp::UNIX_EPOCH, false).unwrap(), 1, 1);
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
}
