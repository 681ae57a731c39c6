//! Next steps for a root cause: commands to run, and remarks.

use kstatus::{Basis, FailureClass, Status, reason};

use super::chain::Way;
use super::pvc::{consumers, waits_for_consumer};
use super::summary::{container, summary};
use crate::graph::Graph;
use crate::id::ObjectId;
use crate::record::Record;

/// Kinds that have a template of Pods.
const TEMPLATES: &[&str] =
    &["Deployment", "StatefulSet", "DaemonSet", "CronJob", "Job", "ReplicaSet", "ReplicationController"];

/// What to do next: commands that can be pasted, and what they do not say.
#[derive(Debug, Default)]
pub(super) struct Advice {
    pub(super) commands: Vec<String>,
    pub(super) remarks: Vec<String>,
}

impl Advice {
    fn run(&mut self, command: String) {
        self.commands.push(command);
    }

    fn remark(&mut self, remark: impl Into<String>) {
        self.remarks.push(remark.into());
    }
}

/// ` -n shop`, where there is a namespace.
fn in_namespace(id: &ObjectId) -> String {
    if id.namespace.is_empty() { String::new() } else { format!(" -n {}", id.namespace) }
}

/// `kubectl describe pod web-1 -n shop`
fn describe(id: &ObjectId) -> String {
    let group = if id.group.contains('.') && !id.group.ends_with(".k8s.io") {
        format!(".{}", id.group)
    } else {
        String::new()
    };
    format!("kubectl describe {}{group} {}{}", id.kind.to_lowercase(), id.name, in_namespace(id))
}

/// What to look at or do next.
pub(super) fn advice(graph: &Graph, way: &Way<'_>) -> Advice {
    let mut advice = Advice::default();
    let Some((_, last)) = way.last() else { return advice };
    let (id, verdict) = (&last.id, &last.verdict);
    let before = way.iter().rev().nth(1).map(|(_, record)| *record);
    if verdict.status == Status::NotFound {
        missing(&mut advice, last, before);
        return advice;
    }
    if id.is("", "PersistentVolumeClaim") {
        claim(graph, &mut advice, last);
    }
    match verdict.failure.map(|failure| failure.class) {
        Some(class) => of_class(&mut advice, class, way, last),
        None if verdict.reason == reason::PAUSED && id.is("apps", "Deployment") => {
            advice.run(format!("kubectl rollout resume deployment/{}{}", id.name, in_namespace(id)));
        }
        None => {}
    }
    if verdict.status == Status::Terminating && advice.remarks.is_empty() {
        advice.remarks.extend(deletion(last));
        cut_off(&mut advice, last);
    }
    if verdict.basis == Basis::Generation {
        advice.remark(format!(
            "its controller has not seen the latest change: check that the controller of {} runs",
            id.kind
        ));
    }
    if advice.commands.is_empty() {
        let shown = if id.is("", "Event") { before } else { Some(*last) };
        if let Some(shown) = shown {
            advice.run(describe(&shown.id));
        }
    }
    advice
}

fn of_class(advice: &mut Advice, class: FailureClass, way: &Way<'_>, last: &Record) {
    let (id, verdict) = (&last.id, &last.verdict);
    let namespace = in_namespace(id);
    // Who has the template to change: the one that nobody else generated.
    let template = way.iter().map(|(_, record)| *record).find(|record| TEMPLATES.contains(&&*record.id.kind));
    let owner = template.map_or_else(|| id.to_string(), |record| record.id.to_string());
    match class {
        FailureClass::Image => {
            advice.remark(format!(
                "check the image's name and tag in {owner}, that it is in the registry, and imagePullSecrets"
            ));
            advice.commands.extend(set_image(template.unwrap_or(last), last));
            advice.run(describe(id));
        }
        FailureClass::Crash => {
            let crash = last.facts.as_ref().and_then(|facts| facts.crashed().first());
            let container = crash.map_or_else(String::new, |crash| format!(" -c {}", crash.container));
            let previous = if crash.is_none_or(|crash| crash.previous) { " --previous" } else { "" };
            advice.run(format!("kubectl logs {}{namespace}{container}{previous}", id.name));
        }
        FailureClass::Configuration if id.is("", "Event") || verdict.reason == "FailedCreate" => {
            advice.remark(format!("change {owner} so that it is admitted, or what refuses it"));
        }
        FailureClass::Configuration => {
            // `ConfigMap "settings" not found`
            let summary = summary(last);
            if let Some((kind, name)) =
                summary.strip_suffix("\" not found").and_then(|text| text.split_once(" \""))
            {
                // `container app: ConfigMap`
                let kind = kind.rsplit(' ').next().unwrap_or(kind);
                advice.remark(format!("create {kind}/{name}{}", place(id)));
            }
            advice.run(describe(id));
        }
        FailureClass::Quota => advice.run(format!("kubectl describe quota{namespace}")),
        FailureClass::Scheduling if verdict.reason == reason::SCHEDULING_GATED => {
            advice.remark("the controller that set the scheduling gate has to remove it: check that it runs")
        }
        FailureClass::Scheduling => {
            let pod = last.facts.as_ref().and_then(|facts| facts.pod());
            let labels = pod.into_iter().flat_map(|pod| &pod.node_selector);
            let labels: Vec<String> = labels.map(|(key, value)| format!("{key}={value}")).collect();
            let affinity = verdict.message.contains("didn't match Pod's node affinity/selector");
            if affinity && !labels.is_empty() {
                let labels = labels.join(",");
                advice.remark(format!("no node has the labels {labels} that {owner} asks for"));
                advice.run(format!("kubectl get nodes -l {labels}"));
            } else {
                advice
                    .remark(format!("compare the nodes with requests, selectors and tolerations of {owner}"));
                advice.run("kubectl describe nodes".to_owned());
            }
        }
        FailureClass::Probe if id.is("", "Pod") => {
            advice.remark("it runs, and its probe or readiness gate does not pass");
            advice.run(format!("kubectl logs {}{namespace}", id.name));
        }
        FailureClass::Deletion => advice.remarks.extend(deletion(last)),
        FailureClass::Job => advice.run(format!("kubectl logs job/{}{namespace}", id.name)),
        FailureClass::Network if id.is("", "Service") => {
            if verdict.reason == reason::NO_ADDRESS {
                advice.remark("does the cluster have a load balancer controller?");
            }
            advice.run(describe(id));
        }
        _ => {}
    }
}

/// The command that names another image, where the registry does not have the present one: `kubectl set image deployment/web app=IMAGE`.
fn set_image(owner: &Record, pod: &Record) -> Option<String> {
    // What is generated would be changed back, and the template of a Job cannot change.
    let can_set = owner.id.is("", "Pod") || TEMPLATES.contains(&&*owner.id.kind) && &*owner.id.kind != "Job";
    let message = &*pod.verdict.message;
    let no_image =
        pod.verdict.reason == "InvalidImageName" || NO_SUCH_IMAGE.iter().any(|words| message.contains(words));
    if !owner.owners.is_empty() || !can_set || !no_image {
        return None;
    }
    let (_, container) = container(message)?.rsplit_once("container ")?;
    let (kind, name) = (owner.id.kind.to_lowercase(), &owner.id.name);
    Some(format!("kubectl set image {kind}/{name} {container}=IMAGE{}", in_namespace(&owner.id)))
}

/// What registries and runtimes answer where there is no such image.
const NO_SUCH_IMAGE: &[&str] = &["manifest unknown", "no match for platform", ": not found"];

/// A Pod whose deletion nobody confirms, because its node does not respond.
fn cut_off(advice: &mut Advice, pod: &Record) {
    let facts = pod.facts.as_deref().filter(|facts| facts.finalizers.is_empty());
    let facts = facts.and_then(|facts| facts.pod()).filter(|pod| pod.is_cut_off);
    let Some(node) = facts.and_then(|pod| pod.node.as_deref()) else { return };
    advice.remark(format!(
        "Node/{node} does not respond, so nobody confirms that its containers have ended, and no other Pod gets the name: bring the Node \
         back, or, if it is off for good, delete it or force the deletion of the Pod"
    ));
    advice.run(format!("kubectl describe node {node}"));
    let namespace = in_namespace(&pod.id);
    advice.run(format!("kubectl delete pod {}{namespace} --force --grace-period=0", pod.id.name));
}

/// ` in namespace shop`
fn place(id: &ObjectId) -> String {
    if id.namespace.is_empty() { String::new() } else { format!(" in namespace {}", id.namespace) }
}

/// Something that is referred to and does not exist.
fn missing(advice: &mut Advice, last: &Record, before: Option<&Record>) {
    let referrer = before.map_or_else(String::new, |record| format!(", or change {}", record.id));
    advice.remark(format!("create {}{}{referrer}", last.id, place(&last.id)));
    let plural = match &*last.id.kind {
        "StorageClass" | "IngressClass" | "GatewayClass" => format!("{}es", last.id.kind.to_lowercase()),
        kind => format!("{}s", kind.to_lowercase()),
    };
    advice.run(format!("kubectl get {plural}{}", in_namespace(&last.id)));
}

/// A PVC that is not bound: where to look.
fn claim(graph: &Graph, advice: &mut Advice, claim: &Record) {
    if !waits_for_consumer(graph, claim) {
        return;
    }
    let consumers: Vec<String> = consumers(graph, claim).map(|pod| pod.id.to_string()).collect();
    advice.remark(match consumers.as_slice() {
        [] => "it binds when a Pod uses it (WaitForFirstConsumer), and none does: create the Pod, or whatever generates it".to_owned(),
        [first, rest @ ..] => {
            let more = if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
            format!("it binds when {first}{more} is scheduled (WaitForFirstConsumer): look there")
        }
    });
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

fn deletion(record: &Record) -> Vec<String> {
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
