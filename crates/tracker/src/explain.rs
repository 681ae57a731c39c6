//! Why a target isn't done: the ways from it to root causes, over owners and references. Pure: records in, data out.

use std::collections::{BTreeMap, BTreeSet};

use kstatus::{Basis, FailureClass, Status, Verdict};

use crate::graph::Graph;
use crate::id::ObjectId;
use crate::policy::Trouble;
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

/// The trouble of a target and of what it owns, for whoever decides whether to go on waiting: one of each class, the gravest first.
#[must_use]
pub fn troubles(graph: &Graph, target: &Record) -> Vec<Trouble> {
    let mut found: Vec<Trouble> = Vec::new();
    if target.verdict.basis == Basis::Generation {
        // What belongs to it now belongs to its last generation.
        return found;
    }
    let mut note = |trouble: Trouble| match found.iter_mut().find(|other| other.class == trouble.class) {
        Some(other) => {
            let since = other.since.into_iter().chain(trouble.since).min();
            *other = Trouble { since, terminal: other.terminal || trouble.terminal, ..*other };
        }
        None => found.push(trouble),
    };
    // A claim that nobody uses yet is not in trouble; whoever is to use it may be.
    if let Some(own) = own_trouble(target).filter(|_| !may_wait_for_consumer(graph, target)) {
        note(own);
    }
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
            let trouble = own_trouble(child)
                .filter(|_| !will_be_replaced(child) && !may_wait_for_consumer(graph, child));
            if let Some(trouble) = trouble {
                // What made it may make it again, so nothing is terminal but on the target itself.
                note(Trouble { terminal: false, ..trouble });
            }
            todo.push((child, depth + 1));
        }
    }
    found.sort_by_key(|trouble| std::cmp::Reverse(rank(trouble.class)));
    found
}

/// The trouble of an object itself: it has failed, or something stands in its way.
#[must_use]
pub fn own_trouble(record: &Record) -> Option<Trouble> {
    let verdict = &record.verdict;
    let class = match (verdict.status, verdict.failure) {
        (Status::Failed, failure) => failure.map_or(FailureClass::Other, |failure| failure.class),
        // Whoever has set the gate knows why.
        (Status::InProgress, Some(failure)) if verdict.reason != "SchedulingGated" => failure.class,
        _ => return None,
    };
    let terminal = verdict.failure.is_some_and(|failure| failure.terminal);
    Some(Trouble { class, terminal, since: record.since() })
}

/// How sure it is that trouble of this class does not pass.
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

/// What an object's state may come from: what it owns and what it refers to.
fn below<'g>(graph: &'g Graph, record: &'g Record) -> Vec<(&'static str, &'g Record)> {
    let owned = graph.owned(&record.uid).map(|child| ("owns", child));
    let facts = record.facts.iter();
    let referred = facts.flat_map(|facts| &facts.refs).filter_map(|r| {
        let namespace = r.namespace.as_deref().unwrap_or(&record.id.namespace);
        let at = |namespace: &str| graph.get(&ObjectId::new(&*r.group, &*r.kind, namespace, &*r.name));
        // Kinds of the cluster have no namespace; which they are, the reference does not say.
        at(namespace).or_else(|| at("")).map(|other| (r.link, other))
    });
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

/// The causes for which a target isn't done, the gravest first. One that knows nothing below it is its own cause.
#[must_use]
pub fn causes(graph: &Graph, target: &Record) -> Vec<Explanation> {
    let mut ways = Vec::new();
    let start = vec![("", target)];
    let mut seen = BTreeSet::from([&target.id]);
    walk(graph, start, &mut seen, &mut ways);
    group(graph, ways)
}

type Way<'g> = Vec<(&'static str, &'g Record)>;

fn walk<'g>(graph: &'g Graph, way: Way<'g>, seen: &mut BTreeSet<&'g ObjectId>, ways: &mut Vec<Way<'g>>) {
    let Some((_, record)) = way.last().copied() else { return };
    let mut explained = false;
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
            explained |= !matches!(link, "routes to" | "scales");
            let mut longer = way.clone();
            longer.push((link, child));
            walk(graph, longer, seen, ways);
        }
    }
    // A Service itself is never what is wrong with its endpoints.
    if !explained && (way.len() == 1 || record.verdict.status != Status::Current) {
        ways.push(way);
    }
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

/// Puts ways together that end in the same trouble.
fn group(graph: &Graph, ways: Vec<Way<'_>>) -> Vec<Explanation> {
    let mut groups: BTreeMap<(usize, String), Vec<Way<'_>>> = BTreeMap::new();
    for way in ways {
        let Some((_, last)) = way.last() else { continue };
        let grave = match (last.verdict.status, last.verdict.failure) {
            (Status::Failed, Some(failure)) if failure.terminal => 0,
            (Status::Failed, _) => 1,
            (_, Some(_)) => 2,
            (Status::Terminating, _) => 3,
            _ => 4,
        };
        let kinds: Vec<&str> = way.iter().map(|(_, record)| &*record.id.kind).collect();
        let key = format!("{} {} {}", kinds.join(" "), last.verdict.reason, part(&last.verdict));
        groups.entry((grave, key)).or_default().push(way);
    }
    let mut causes: Vec<((usize, usize), Explanation)> = Vec::new();
    for ((grave, _), mut ways) in groups {
        ways.sort_by(|a, b| {
            let times = |way: &Way<'_>| way.last().and_then(|(_, r)| r.facts.as_ref()?.times);
            times(b).cmp(&times(a))
        });
        let count = ways.len();
        let mut ways = ways.into_iter();
        let Some(first) = ways.next() else { continue };
        let named = |way: Way<'_>| Some(way.last()?.1.id.name.to_string());
        let others = ways.take(MOST_OTHERS).filter_map(named).collect();
        let chain: Vec<Step> = first.iter().map(|(link, record)| step(link, record)).collect();
        let next = advice(graph, &first);
        let explanation = Explanation { chain, count, others, next, ..Explanation::default() };
        causes.push(((grave, usize::MAX - count), explanation));
    }
    causes.sort_by_key(|(key, _)| *key);
    causes.into_iter().map(|(_, explanation)| explanation).take(MOST_CAUSES).collect()
}

/// Which part of an object a message is about: `container app`.
fn part(verdict: &Verdict) -> &str {
    match verdict.message.split_once(':') {
        Some((part, _)) if part.contains("container ") && part.len() < 80 => part,
        _ => "",
    }
}

fn step(link: &'static str, record: &Record) -> Step {
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
        since: record.since(),
        times: facts
            .and_then(|facts| facts.times)
            .filter(|_| !record.id.is("discovery.k8s.io", "EndpointSlice")),
    }
}

/// Kinds that have a template of Pods.
const TEMPLATES: &[&str] =
    &["Deployment", "StatefulSet", "DaemonSet", "CronJob", "Job", "ReplicaSet", "ReplicationController"];

/// What to look at or do next.
fn advice(graph: &Graph, way: &Way<'_>) -> Vec<String> {
    let Some((_, last)) = way.last() else { return Vec::new() };
    let (id, verdict) = (&last.id, &last.verdict);
    let namespace = if id.namespace.is_empty() { String::new() } else { format!(" -n {}", id.namespace) };
    let describe = || format!("kubectl describe {} {}{namespace}", id.kind.to_lowercase(), id.name);
    let mut next = Vec::new();
    if id.is("", "PersistentVolumeClaim") {
        next.extend(claim_advice(graph, last));
    }
    // Who has the template to change: the one that nobody else generated.
    let owner = way.iter().map(|(_, record)| record).find(|record| TEMPLATES.contains(&&*record.id.kind));
    let owner = owner.map_or_else(|| id.to_string(), |record| record.id.to_string());
    match verdict.failure.map(|failure| failure.class) {
        Some(FailureClass::Image) => {
            next.push(format!(
                "check the image's name and tag in {owner}, that it is in the registry, and imagePullSecrets"
            ));
        }
        Some(FailureClass::Crash) => {
            let crash = last.facts.as_ref().and_then(|facts| facts.crashed.first());
            let container = crash.map_or_else(String::new, |crash| format!(" -c {}", crash.container));
            let previous = if crash.is_none_or(|crash| crash.previous) { " --previous" } else { "" };
            next.push(format!("kubectl logs {}{namespace}{container}{previous}", id.name));
        }
        Some(FailureClass::Configuration) if id.is("", "Event") => {
            next.push(format!("change {owner} so that it is admitted, or what refuses it"));
        }
        Some(FailureClass::Configuration) => next.push(describe()),
        Some(FailureClass::Quota) => next.push(format!("kubectl describe quota{namespace}")),
        Some(FailureClass::Scheduling) if verdict.reason == "SchedulingGated" => {
            next.push(
                "whoever has set the scheduling gate has to remove it: check that its controller runs"
                    .to_owned(),
            );
        }
        Some(FailureClass::Scheduling) => {
            next.push(format!("kubectl get nodes; compare what they have with requests, selectors and tolerations of {owner}"));
        }
        Some(FailureClass::Probe) => {
            let on =
                if id.is("", "Pod") { format!("kubectl logs {}{namespace}", id.name) } else { describe() };
            next.push(format!("{on}: it runs, and its probe or readiness gate does not pass"));
        }
        Some(FailureClass::Storage) if next.is_empty() => next.push(describe()),
        Some(FailureClass::Deletion) => next.extend(deletion_advice(last)),
        Some(FailureClass::Job) => next.push(format!("kubectl logs job/{}{namespace}", id.name)),
        Some(FailureClass::Network) if id.is("", "Service") => {
            next.push(format!(
                "kubectl get endpointslices{namespace} -l kubernetes.io/service-name={}",
                id.name
            ));
        }
        _ => {}
    }
    if verdict.status == Status::Terminating && next.is_empty() {
        next.extend(deletion_advice(last));
    }
    if verdict.basis == Basis::Generation {
        next.push(format!(
            "its controller has not seen the latest change: check that the controller of {} runs",
            id.kind
        ));
    }
    if next.is_empty() && !id.is("", "Event") {
        next.push(describe());
    }
    next
}

/// A claim that is not bound: who is to do something about it.
fn claim_advice(graph: &Graph, claim: &Record) -> Option<String> {
    if !waits_for_consumer(graph, claim) {
        return None;
    }
    let consumers: Vec<String> = consumers(graph, claim).map(|pod| pod.id.to_string()).collect();
    Some(match consumers.as_slice() {
        [] => "it binds when a Pod uses it (WaitForFirstConsumer), and none does: create the Pod, or whatever generates it".to_owned(),
        [first, rest @ ..] => {
            let more = if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
            format!("it binds when {first}{more} is scheduled (WaitForFirstConsumer): look there")
        }
    })
}

/// Whether it is a claim that is not bound yet, and only will be when a Pod uses it. None: its class is not known.
fn waiting_claim(graph: &Graph, claim: &Record) -> Option<bool> {
    if !claim.id.is("", "PersistentVolumeClaim") || claim.verdict.reason != "NotBound" {
        return Some(false);
    }
    let mut refs = claim.facts.iter().flat_map(|facts| &facts.refs);
    let Some(class) = refs.find(|r| &*r.kind == "StorageClass") else { return Some(false) };
    let class = graph.get(&ObjectId::new(&*class.group, &*class.kind, "", &*class.name))?;
    Some(class.facts.as_ref().is_some_and(|f| f.word.as_deref() == Some("WaitForFirstConsumer")))
}

fn waits_for_consumer(graph: &Graph, claim: &Record) -> bool {
    waiting_claim(graph, claim) == Some(true)
}

fn may_wait_for_consumer(graph: &Graph, claim: &Record) -> bool {
    waiting_claim(graph, claim) != Some(false)
}

/// The Pods that use a claim.
fn consumers<'g>(graph: &'g Graph, claim: &'g Record) -> impl Iterator<Item = &'g Record> {
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

/// Who is likely to have to remove a finalizer.
const FINALIZERS: &[(&str, &str)] = &[
    ("kubernetes.io/pvc-protection", "a Pod still uses the claim: delete that Pod"),
    ("kubernetes.io/pv-protection", "a claim is still bound to the volume: delete that claim"),
    ("foregroundDeletion", "what it owns is deleted first: look at its children"),
    ("orphan", "the garbage collector of kube-controller-manager removes it: check that it runs"),
    ("kubernetes", "all objects of the namespace are deleted first: what remains is in its conditions"),
    (
        "service.kubernetes.io/load-balancer-cleanup",
        "the cloud controller manager removes the load balancer first",
    ),
    (
        "batch.kubernetes.io/job-tracking",
        "the Job controller of kube-controller-manager counts the Pod first: check that it runs",
    ),
    (
        "customresourcecleanup.apiextensions.k8s.io",
        "all objects of the kind are deleted first: look for one that is stuck",
    ),
    ("resources-finalizer.argocd.argoproj.io", "Argo CD deletes the application's resources first"),
    ("finalizers.fluxcd.io", "a controller of Flux removes it: look at the Pods in flux-system"),
    ("external-attacher/", "the CSI attacher detaches the volume first"),
    (
        "snapshot.storage.kubernetes.io/",
        "the snapshot controller removes it when no snapshot needs the object",
    ),
];

fn deletion_advice(record: &Record) -> Vec<String> {
    let finalizers = record.facts.iter().flat_map(|facts| &facts.finalizers);
    let likely = |finalizer: &str| {
        let known = FINALIZERS.iter().find(|(name, _)| {
            if name.ends_with('/') { finalizer.starts_with(name) } else { finalizer == *name }
        });
        match (known, finalizer.split_once('/')) {
            (Some((_, what)), _) => format!("finalizer {finalizer}: {what}"),
            (None, Some((domain, _))) => {
                format!(
                    "finalizer {finalizer}: the controller of {domain} has to remove it; check that it runs"
                )
            }
            (None, None) => format!(
                "finalizer {finalizer}: the controller that set it has to remove it; check that it runs"
            ),
        }
    };
    finalizers.map(|finalizer| likely(finalizer)).collect()
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
            continue;
        }
        seen.insert(&child.id);
        branch.children.push(grow(graph, link, child, all, depth + 1, seen));
    }
    branch
}

/// The objects of which events and logs tell more: those of the chain, the root cause first.
pub(crate) fn witnesses(explanation: &Explanation) -> impl Iterator<Item = &Step> {
    explanation.chain.iter().rev().filter(|step| !step.object.is("", "Event"))
}
