//! Readers of facts, kind by kind: one row of [`KINDS`] each.

use jiff::{SignedDuration, Timestamp};
use kstatus::{Known, Node, Object, Status};

use super::{Completion, Crash, Facts, KindFacts, Labels, PodFacts, Ref};
use crate::id::{POLICY_REPORT_GROUP, POLICY_REPORT_KIND};
use crate::link::Link;

/// Reads the facts of one kind.
type Reader = fn(&Object<'_>, Status, &mut Facts);

/// What is read of which kind; a row each. All others have their finalizers and condition times alone.
const KINDS: &[(&str, &str, Reader)] = &[
    ("", "Pod", pod),
    ("", "Service", |o, _, f| {
        f.of_kind = KindFacts::Service { selector: texts(o, &["spec", "selector"]) };
    }),
    ("", "PersistentVolumeClaim", claim),
    ("", "Namespace", |o, _, f| f.finalizers.extend(names(o, &["spec", "finalizers"]))),
    ("apps", "Deployment", |o, _, f| {
        f.of_kind = workload(o, annotation(o, "deployment.kubernetes.io/revision"));
    }),
    ("apps", "ReplicaSet", |o, _, f| {
        f.of_kind = workload(o, annotation(o, "deployment.kubernetes.io/revision"));
    }),
    ("apps", "StatefulSet", |o, _, f| f.of_kind = workload(o, word(o, &["status", "updateRevision"]))),
    ("apps", "DaemonSet", |o, _, f| {
        f.of_kind = workload(o, annotation(o, "deprecated.daemonset.template.generation"));
    }),
    ("batch", "Job", |o, _, f| f.of_kind = job(o)),
    ("autoscaling", "HorizontalPodAutoscaler", |o, _, f| {
        if let Some(target) = at(o, &["spec", "scaleTargetRef"]) {
            f.refs.extend(reference(Link::Scales, target, ""));
        }
    }),
    ("networking.k8s.io", "Ingress", ingress),
    ("gateway.networking.k8s.io", "HTTPRoute", route),
    ("gateway.networking.k8s.io", "GRPCRoute", route),
    ("gateway.networking.k8s.io", "TCPRoute", route),
    ("gateway.networking.k8s.io", "TLSRoute", route),
    ("gateway.networking.k8s.io", "Gateway", |o, _, f| {
        f.refs.extend(named(
            Link::OfClass,
            "gateway.networking.k8s.io",
            "GatewayClass",
            o,
            &["spec", "gatewayClassName"],
        ));
    }),
    ("discovery.k8s.io", "EndpointSlice", endpoints),
    (POLICY_REPORT_GROUP, POLICY_REPORT_KIND, |o, _, f| {
        let generation = at(o, &["status", "policyGeneration"]).and_then(Node::as_int);
        f.of_kind = KindFacts::PolicyReport { generation };
    }),
    ("storage.k8s.io", "StorageClass", |o, _, f| {
        f.of_kind = KindFacts::StorageClass { binding_mode: word(o, &["volumeBindingMode"]) };
    }),
    ("", "PersistentVolume", |o, _, f| {
        f.refs.extend(named(
            Link::OfClass,
            "storage.k8s.io",
            "StorageClass",
            o,
            &["spec", "storageClassName"],
        ));
    }),
];

/// The facts of an object with this status, if there are any.
pub(crate) fn read(group: &str, kind: &str, object: &Object<'_>, status: Status) -> Option<Facts> {
    let mut facts = Facts::default();
    if let Some((_, _, reader)) = KINDS.iter().find(|(g, k, _)| *g == group && *k == kind) {
        reader(object, status, &mut facts);
        if facts.of_kind.is_empty() {
            facts.of_kind = KindFacts::None;
        }
    }
    if status != Status::Current {
        if group.contains('.') && !group.ends_with(".k8s.io") {
            for part in ["spec", "status"] {
                let Some(part) = at(object, &[part]) else { continue };
                references(part, 0, &mut facts.refs);
            }
            unique(&mut facts.refs);
        }
        if facts.since.is_none() {
            facts.since = latest_transition(object);
        }
        facts.finalizers.extend(names(object, &["metadata", "finalizers"]));
    }
    (facts != Facts::default()).then_some(facts)
}

/// What another object is referred to by: `apiVersion` or `group`, `kind`, `name`.
fn reference(link: Link, node: Node<'_>, default_group: &str) -> Option<Ref> {
    let group = match (word(node, &["apiVersion"]), word(node, &["group"])) {
        (Some(version), _) => version.split_once('/').map_or("", |(group, _)| group).into(),
        (None, Some(group)) => group,
        (None, None) => default_group.into(),
    };
    let kind = word(node, &["kind"])?;
    Some(Ref { link, group, kind, namespace: word(node, &["namespace"]), name: word(node, &["name"])? })
}

/// How many references of a custom resource are kept, and how deep they may lie.
const MAX_REFS: usize = 16;
const MAX_REF_DEPTH: usize = 5;

/// What a custom resource refers to, wherever: maps with a `kind`, a `name`, and an `apiVersion` or a `group`, such as Cluster API's
/// `infrastructureRef`, Crossplane's `resourceRefs` and cert-manager's `issuerRef`.
fn references(node: Node<'_>, depth: usize, refs: &mut Vec<Ref>) {
    if depth > MAX_REF_DEPTH || refs.len() >= MAX_REFS {
        return;
    }
    if node.get("kind").is_some() && (node.get("apiVersion").is_some() || node.get("group").is_some()) {
        // With a spec it is a template, not a reference.
        refs.extend(
            reference(Link::RefersTo, node, "").filter(|r| !r.name.is_empty() && node.get("spec").is_none()),
        );
        return;
    }
    for (_, value) in node.members() {
        references(value, depth + 1, refs);
    }
    for value in node.elements() {
        references(value, depth + 1, refs);
    }
}

fn named<'n>(link: Link, group: &str, kind: &str, object: impl Fields<'n>, path: &[&str]) -> Option<Ref> {
    let name = word(object, path).filter(|name| !name.is_empty())?;
    Some(Ref { link, group: group.into(), kind: kind.into(), namespace: None, name })
}

fn workload(object: &Object<'_>, revision: Option<Box<str>>) -> KindFacts {
    KindFacts::Workload { revision, selector: texts(object, &["spec", "selector", "matchLabels"]) }
}

fn job(object: &Object<'_>) -> KindFacts {
    let number = |key: &str| at(object, &["spec", key]).and_then(Node::as_int);
    let is_true = |type_: &str| {
        let of_type = |c: &Node<'_>| c.get("type").is_some_and(|t| t.is(type_));
        let condition = list(object, &["status", "conditions"]).find(of_type);
        condition.and_then(|condition| condition.get("status")).is_some_and(|status| status.is("True"))
    };
    let completion = if is_true("Complete") {
        Some(Completion::Succeeded)
    } else {
        is_true("Failed").then_some(Completion::Failed)
    };
    KindFacts::Job {
        selector: texts(object, &["spec", "selector", "matchLabels"]),
        backoff_limit: number("backoffLimit").and_then(|limit| limit.try_into().ok()),
        ttl: number("ttlSecondsAfterFinished"),
        completion,
    }
}

fn pod(object: &Object<'_>, status: Status, facts: &mut Facts) {
    let mut pod = PodFacts {
        revision: at(object, &["metadata", "labels"]).and_then(|labels| {
            let label = |key: &str| word(labels, &[key]);
            // A DaemonSet's Pods have both; their owner has the generation of its template only.
            label("pod-template-generation").or_else(|| label("controller-revision-hash"))
        }),
        completion: match at(object, &["status", "phase"]) {
            Some(phase) if phase.is("Succeeded") => Some(Completion::Succeeded),
            Some(phase) if phase.is("Failed") => Some(Completion::Failed),
            _ => None,
        },
        ..PodFacts::default()
    };
    if status != Status::Current {
        open_pod(object, &mut pod, facts);
    }
    facts.of_kind = KindFacts::Pod(pod);
}

/// Whether the node of a Pod does not respond. The node controller then sets Ready to False and evicts the Pod, and nothing else: a
/// kubelet sets ContainersReady with Ready.
fn is_cut_off(object: &Object<'_>) -> bool {
    let condition = |type_: &str, member: &str, value: &str| {
        list(object, &["status", "conditions"]).any(|condition| {
            condition.get("type").is_some_and(|t| t.is(type_))
                && condition.get(member).is_some_and(|found| found.is(value))
        })
    };
    condition("Ready", "status", "False") && condition("ContainersReady", "status", "True")
        || condition("DisruptionTarget", "reason", "DeletionByTaintManager")
}

/// The facts of a Pod that isn't Current.
fn open_pod(object: &Object<'_>, pod: &mut PodFacts, facts: &mut Facts) {
    let containers = ["containers", "initContainers"].into_iter();
    let count = |key| list(object, &["spec", key]).take(2).count();
    pod.several_containers = containers.map(count).sum::<usize>() > 1;
    pod.node = word(object, &["spec", "nodeName"]);
    if pod.node.is_none() {
        pod.node_selector = texts(object, &["spec", "nodeSelector"]);
    }
    for volume in list(object, &["spec", "volumes"]) {
        let claim =
            named(Link::Claims, "", "PersistentVolumeClaim", volume, &["persistentVolumeClaim", "claimName"]);
        facts.refs.extend(claim);
    }
    // Since the failure can have begun: since it was scheduled, or last went from good to bad.
    let condition = |type_: &str| {
        let found =
            list(object, &["status", "conditions"]).find(|c| c.get("type").is_some_and(|t| t.is(type_)))?;
        time(found, &["lastTransitionTime"])
    };
    facts.since = condition("Ready").max(condition("PodScheduled"));
    pod.is_cut_off = is_cut_off(object);
    for key in ["initContainerStatuses", "containerStatuses"] {
        for container in list(object, &["status", key]) {
            let restarts = at(container, &["restartCount"]).and_then(Node::as_int).unwrap_or(0);
            let restarts = u32::try_from(restarts.max(0)).unwrap_or(u32::MAX);
            let ended = |state: &str| {
                let ended = at(container, &[state, "terminated"])?;
                let bad = at(ended, &["exitCode"]).and_then(Node::as_int).is_none_or(|code| code != 0);
                bad.then_some((state == "lastState", time(ended, &["finishedAt"])))
            };
            // It has crashed for longer than since the last time: each back-off is twice as long as the one before.
            let loops = at(container, &["state", "waiting", "message"]).and_then(Node::as_str);
            let loops = loops.and_then(|message| back_off(&message));
            let ended_last =
                at(container, &["lastState", "terminated"]).and_then(|ended| time(ended, &["finishedAt"]));
            if let (Some(loops), Some(last)) = (loops, ended_last) {
                facts.since = last.checked_sub(loops).ok().into_iter().chain(facts.since).min();
            }
            let ready = at(container, &["ready"]).and_then(Node::as_bool) == Some(true);
            let Some((previous, when)) = ended("state").or_else(|| ended("lastState")).filter(|_| !ready)
            else {
                continue;
            };
            pod.restarts = pod.restarts.max(restarts);
            if let Some(container) = word(container, &["name"]) {
                pod.crashed.push(Crash { container, previous, restarts, at: when });
            }
        }
    }
}

/// How long a container has been in a crash loop at least: the back-offs before the present one, which begin with 10 seconds at most.
fn back_off(message: &str) -> Option<SignedDuration> {
    let (_, rest) = message.split_once("back-off ")?;
    let (present, _) = rest.split_once(" restarting")?;
    let present: SignedDuration = present.parse().ok()?;
    Some(present - SignedDuration::from_secs(10)).filter(|before| before.is_positive())
}

fn claim(object: &Object<'_>, _: Status, facts: &mut Facts) {
    facts.refs.extend(named(Link::BoundTo, "", "PersistentVolume", object, &["spec", "volumeName"]));
    facts.refs.extend(named(
        Link::OfClass,
        "storage.k8s.io",
        "StorageClass",
        object,
        &["spec", "storageClassName"],
    ));
}

fn ingress(object: &Object<'_>, _: Status, facts: &mut Facts) {
    let backend = |node: Node<'_>| named(Link::RoutesTo, "", "Service", node, &["service", "name"]);
    facts.refs.extend(at(object, &["spec", "defaultBackend"]).and_then(backend));
    for rule in list(object, &["spec", "rules"]) {
        for path in list(rule, &["http", "paths"]) {
            facts.refs.extend(at(path, &["backend"]).and_then(backend));
        }
    }
    facts.refs.extend(named(
        Link::OfClass,
        "networking.k8s.io",
        "IngressClass",
        object,
        &["spec", "ingressClassName"],
    ));
    unique(&mut facts.refs);
}

fn route(object: &Object<'_>, _: Status, facts: &mut Facts) {
    for parent in list(object, &["spec", "parentRefs"]) {
        if parent.get("kind").is_none() {
            let gateway = named(Link::AttachedTo, "gateway.networking.k8s.io", "Gateway", parent, &["name"]);
            facts.refs.extend(gateway.map(|r| Ref { namespace: word(parent, &["namespace"]), ..r }));
        } else {
            facts.refs.extend(reference(Link::AttachedTo, parent, "gateway.networking.k8s.io"));
        }
    }
    for rule in list(object, &["spec", "rules"]) {
        for backend in list(rule, &["backendRefs"]) {
            let service = named(Link::RoutesTo, "", "Service", backend, &["name"]);
            let kind = word(backend, &["kind"]).unwrap_or_else(|| "Service".into());
            let namespace = word(backend, &["namespace"]);
            facts.refs.extend(service.map(|r| Ref { kind, namespace, ..r }));
        }
    }
    unique(&mut facts.refs);
}

fn endpoints(object: &Object<'_>, _: Status, facts: &mut Facts) {
    let mut ready = 0_u64;
    for endpoint in list(object, &["endpoints"]) {
        // Unknown is to be taken for ready, says the API.
        if at(endpoint, &["conditions", "ready"]).and_then(Node::as_bool) != Some(false) {
            ready += 1;
        } else if let Some(target) = at(endpoint, &["targetRef"]) {
            facts.refs.extend(reference(Link::Lists, target, ""));
        }
    }
    facts.of_kind = KindFacts::EndpointSlice { ready };
    // A Service of a thousand broken Pods needs no thousand names.
    facts.refs.truncate(20);
}

fn unique(refs: &mut Vec<Ref>) {
    let mut seen: Vec<Ref> = Vec::with_capacity(refs.len());
    for r in refs.drain(..) {
        if !seen.contains(&r) {
            seen.push(r);
        }
    }
    *refs = seen;
}

/// When a condition last changed.
fn latest_transition(object: &Object<'_>) -> Option<Timestamp> {
    list(object, &["status", "conditions"])
        .filter_map(|condition| time(condition, &["lastTransitionTime"]))
        .max()
}

/// Something that has fields.
trait Fields<'n> {
    fn at(self, path: &[&str]) -> Option<Node<'n>>;
}

impl<'n> Fields<'n> for Node<'n> {
    fn at(self, path: &[&str]) -> Option<Self> {
        path.iter().try_fold(self, |node, key| node.get(key))
    }
}

/// Reading has noted where most fields are. Looking for one of them again scans the object, or its managed fields.
impl<'n> Fields<'n> for &Object<'n> {
    fn at(self, path: &[&str]) -> Option<Node<'n>> {
        if let [parent, key, rest @ ..] = path
            && let Some(known) = Known::find(parent, key)
        {
            return self.known(known)?.at(rest);
        }
        let (first, rest) = path.split_first()?;
        match Known::find("", first) {
            Some(known) => self.known(known)?.at(rest),
            None => self.root().at(path),
        }
    }
}

fn at<'n>(parent: impl Fields<'n>, path: &[&str]) -> Option<Node<'n>> {
    parent.at(path)
}

fn list<'n>(node: impl Fields<'n>, path: &[&str]) -> impl Iterator<Item = Node<'n>> {
    at(node, path).into_iter().flat_map(Node::elements)
}

fn word<'n>(node: impl Fields<'n>, path: &[&str]) -> Option<Box<str>> {
    Some(at(node, path)?.as_str()?.as_ref().into())
}

fn time<'n>(node: impl Fields<'n>, path: &[&str]) -> Option<Timestamp> {
    at(node, path)?.as_str()?.parse().ok()
}

fn names<'n>(node: impl Fields<'n>, path: &[&str]) -> Vec<Box<str>> {
    list(node, path).filter_map(|name| Some(name.as_str()?.as_ref().into())).collect()
}

fn texts<'n>(node: impl Fields<'n>, path: &[&str]) -> Labels {
    at(node, path).map(members).unwrap_or_default()
}

fn members(node: Node<'_>) -> Labels {
    let members = node.members();
    members.filter_map(|(key, value)| Some((key.as_ref().into(), value.as_str()?.as_ref().into()))).collect()
}

fn annotation(object: &Object<'_>, key: &str) -> Option<Box<str>> {
    word(object, &["metadata", "annotations", key])
}

#[cfg(test)]
mod tests {
    use kstatus::Object;

    use super::*;

    /// What an object refers to, in one line.
    fn refers(json: &str) -> String {
        let object = Object::parse(json.as_bytes()).unwrap();
        let (group, kind) = object.type_names();
        let facts = read(&group, &kind, &object, Status::InProgress).unwrap_or_default();
        let one = |r: &Ref| {
            let group = if r.group.is_empty() { String::new() } else { format!(".{}", r.group) };
            let namespace = r.namespace.as_ref().map_or_else(String::new, |n| format!(" in {n}"));
            format!("{} {}{group}/{}{namespace}", r.link, r.kind, r.name)
        };
        facts.refs.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn objects_refer_to_others() {
        let cases = [
            (
                r#"{"apiVersion":"networking.k8s.io/v1","kind":"Ingress","spec":{"ingressClassName":"nginx","defaultBackend":{"service":{"name":"a"}},
                   "rules":[{"http":{"paths":[{"backend":{"service":{"name":"b"}}},{"backend":{"resource":{"kind":"X"}}},{"backend":{"service":{"name":"a"}}}]}}]}}"#,
                "routes to Service/a, routes to Service/b, is of class IngressClass.networking.k8s.io/nginx",
            ),
            (
                r#"{"apiVersion":"gateway.networking.k8s.io/v1","kind":"HTTPRoute","spec":{"parentRefs":[{"name":"gw","namespace":"infra"}],
                   "rules":[{"backendRefs":[{"name":"a"},{"name":"a"},{"kind":"ServiceImport","name":"b","namespace":"far"}]}]}}"#,
                "is attached to Gateway.gateway.networking.k8s.io/gw in infra, routes to Service/a, routes to ServiceImport/b in far",
            ),
            (
                r#"{"apiVersion":"gateway.networking.k8s.io/v1","kind":"Gateway","spec":{"gatewayClassName":"envoy"}}"#,
                "is of class GatewayClass.gateway.networking.k8s.io/envoy",
            ),
            (
                r#"{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","spec":{"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"}}}"#,
                "scales Deployment.apps/web",
            ),
            (
                r#"{"apiVersion":"v1","kind":"Pod","spec":{"volumes":[{"name":"x","emptyDir":{}},{"name":"y","persistentVolumeClaim":{"claimName":"data"}}]}}"#,
                "claims PersistentVolumeClaim/data",
            ),
            (
                r#"{"apiVersion":"v1","kind":"PersistentVolumeClaim","spec":{"volumeName":"pv-1","storageClassName":"fast"}}"#,
                "is bound to PersistentVolume/pv-1, is of class StorageClass.storage.k8s.io/fast",
            ),
            (r#"{"apiVersion":"v1","kind":"PersistentVolumeClaim","spec":{"storageClassName":""}}"#, ""),
            (
                r#"{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","endpoints":[{"conditions":{"ready":false},"targetRef":{"kind":"Pod","name":"a","namespace":"x"}},
                   {"targetRef":{"kind":"Pod","name":"b"}},{"conditions":{"ready":false}}]}"#,
                "lists Pod/a in x",
            ),
            (r#"{"apiVersion":"example.com/v1","kind":"Ingress","spec":{"ingressClassName":"nginx"}}"#, ""),
        ];
        for (json, wanted) in cases {
            assert_eq!(refers(json), wanted, "{json}");
        }
    }

    #[test]
    fn facts_are_small() {
        // Thousands of Pods have some, and the allocator rounds up: to 160 bytes, then to 192.
        assert!(size_of::<Facts>() <= 160, "{}", size_of::<Facts>());
        assert!(size_of::<Ref>() <= 72, "{}", size_of::<Ref>());
        // Most are done, and need none.
        let pod = Object::parse(br#"{"apiVersion":"v1","kind":"Pod","status":{"phase":"Running"}}"#).unwrap();
        assert_eq!(read("", "Pod", &pod, Status::Current), None);
    }

    #[test]
    fn what_is_read_of_every_pod_was_noted_when_it_was_parsed() {
        // Looking for the others scans all of metadata, with its managed fields, or all of the spec.
        for (parent, key) in [
            ("metadata", "labels"),
            ("metadata", "finalizers"),
            ("spec", "nodeName"),
            ("spec", "nodeSelector"),
            ("spec", "volumes"),
            ("spec", "containers"),
            ("spec", "initContainers"),
            ("status", "phase"),
            ("status", "conditions"),
            ("status", "containerStatuses"),
            ("status", "initContainerStatuses"),
        ] {
            assert!(Known::find(parent, key).is_some(), "{parent}.{key}");
        }
    }

    #[test]
    fn pods_and_jobs_tell_their_end() {
        let end = |json: &str, status| {
            let object = Object::parse(json.as_bytes()).unwrap();
            let (group, kind) = object.type_names();
            read(&group, &kind, &object, status).and_then(|facts| facts.completion())
        };
        let pod =
            |phase: &str| format!(r#"{{"apiVersion":"v1","kind":"Pod","status":{{"phase":"{phase}"}}}}"#);
        let job = |conditions: &str| {
            format!(r#"{{"apiVersion":"batch/v1","kind":"Job","status":{{"conditions":[{conditions}]}}}}"#)
        };
        assert_eq!(end(&pod("Succeeded"), Status::Current), Some(Completion::Succeeded));
        assert_eq!(end(&pod("Failed"), Status::Terminating), Some(Completion::Failed));
        assert_eq!(end(&pod("Running"), Status::InProgress), None);
        assert_eq!(
            end(&job(r#"{"type":"Complete","status":"True"}"#), Status::Terminating),
            Some(Completion::Succeeded)
        );
        assert_eq!(
            end(
                &job(r#"{"type":"Complete","status":"False"},{"type":"Failed","status":"True"}"#),
                Status::Failed
            ),
            Some(Completion::Failed)
        );
        assert_eq!(end(&job(r#"{"type":"FailureTarget","status":"True"}"#), Status::Failed), None);
    }

    #[test]
    fn crash_loops_have_lasted_for_their_back_offs() {
        let since = |message: &str| {
            let json = format!(
                r#"{{"apiVersion":"v1","kind":"Pod","status":{{"phase":"Running","conditions":[{{"type":"Ready","status":"False","lastTransitionTime":"2026-11-21T12:00:00Z"}}],
                "containerStatuses":[{{"name":"app","ready":false,"restartCount":9,"state":{{"waiting":{{"reason":"CrashLoopBackOff","message":"{message}"}}}},
                "lastState":{{"terminated":{{"exitCode":1,"finishedAt":"2026-11-21T12:00:00Z"}}}}}}]}}}}"#
            );
            let object = Object::parse(json.as_bytes()).unwrap();
            read("", "Pod", &object, Status::Failed).unwrap().since.unwrap().to_string()
        };
        assert_eq!(since("back-off 5m0s restarting failed container=app pod=x"), "2026-11-21T11:55:10Z");
        assert_eq!(since("back-off 1m20s restarting failed container=app pod=x"), "2026-11-21T11:58:50Z");
        assert_eq!(since("back-off 10s restarting failed container=app pod=x"), "2026-11-21T12:00:00Z");
        assert_eq!(since("waiting"), "2026-11-21T12:00:00Z");
    }

    #[test]
    fn containers_that_ended_badly_are_noted() {
        let json = r#"{"apiVersion":"v1","kind":"Pod","status":{"phase":"Running",
            "initContainerStatuses":[{"name":"init","ready":true,"state":{"terminated":{"exitCode":0}}}],
            "containerStatuses":[
              {"name":"app","ready":false,"restartCount":4,"state":{"waiting":{"reason":"CrashLoopBackOff"}},"lastState":{"terminated":{"exitCode":1,"finishedAt":"2026-11-21T12:00:00Z"}}},
              {"name":"fine","ready":true,"restartCount":2,"state":{"running":{}},"lastState":{"terminated":{"exitCode":1}}},
              {"name":"now","ready":false,"restartCount":-3,"state":{"terminated":{"exitCode":137}}}]}}"#;
        let object = Object::parse(json.as_bytes()).unwrap();
        let facts = read("", "Pod", &object, Status::Failed).unwrap();
        let crashed: Vec<_> =
            facts.crashed().iter().map(|c| (&*c.container, c.previous, c.restarts)).collect();
        assert_eq!(crashed, [("app", true, 4), ("now", false, 0)]);
        assert_eq!(facts.times(), Some(4));
    }
}
