//! What policies select: pods, namespaces, nodes and Services, from files or from a cluster.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use serde_json::{Value, json};
use settled_netpol::cluster::{Cluster, Known, Namespace, Node, Pod, Service};
use settled_netpol::detect::{Inventory, Workload};
use settled_netpol::read_cluster;

use super::row::Unread;

/// An object that policies select.
#[derive(Debug)]
pub(super) enum Collected {
    Pod(Pod),
    /// The pods of a workload, as its template has them, and what runs in them.
    Workload(Option<Pod>, Option<Workload>),
    Namespace(Namespace),
    Node(Node),
    Service(Service),
}

impl Collected {
    /// Whether objects of a kind are of use.
    pub(super) fn is_kind(api_version: &str, kind: &str) -> bool {
        match api_version {
            "v1" => matches!(kind, "Pod" | "Namespace" | "Node" | "Service" | "ReplicationController"),
            "apps/v1" => matches!(kind, "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet"),
            "batch/v1" => matches!(kind, "Job" | "CronJob"),
            _ => false,
        }
    }

    /// Reads an object of one of these kinds; None if it has no name. Without a namespace, it is in this one.
    pub(super) fn read(kind: &str, object: &Value, namespace: &str) -> Option<Self> {
        let is_without =
            object.pointer("/metadata/namespace").and_then(Value::as_str).is_none_or(str::is_empty);
        let place = |own: &mut Arc<str>| {
            if is_without && !namespace.is_empty() {
                *own = namespace.into();
            }
        };
        match kind {
            "Pod" => read_cluster::pod(object).map(|mut pod| {
                place(&mut pod.namespace);
                Self::Pod(pod)
            }),
            "Service" => read_cluster::service(object).map(|mut service| {
                place(&mut service.namespace);
                Self::Service(service)
            }),
            "Namespace" => read_cluster::namespace(object).map(Self::Namespace),
            "Node" => read_cluster::node(object).map(Self::Node),
            _ => {
                let mut pod = template(kind, object);
                if let Some(pod) = &mut pod {
                    place(&mut pod.namespace);
                }
                // Providers run as these.
                let runs =
                    matches!(kind, "DaemonSet" | "Deployment").then(|| Workload::read(object)).flatten();
                Some(Self::Workload(pod, runs))
            }
        }
    }
}

/// A pod as the template of a workload has it, with the workload's name. None if another workload owns this one.
fn template(kind: &str, workload: &Value) -> Option<Pod> {
    let is_owned = workload
        .pointer("/metadata/ownerReferences")
        .and_then(Value::as_array)
        .is_some_and(|owners| !owners.is_empty());
    let path = if kind == "CronJob" { "/spec/jobTemplate/spec/template" } else { "/spec/template" };
    let template = workload.pointer(path).filter(|_| !is_owned)?;
    read_cluster::pod(&json!({
        "metadata": {
            "name": workload.pointer("/metadata/name"),
            "namespace": workload.pointer("/metadata/namespace"),
            "labels": template.pointer("/metadata/labels"),
            "ownerReferences": [{"kind": kind}],
        },
        "spec": template.get("spec"),
    }))
}

/// Objects that were read, by kind.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    pub(super) pods: Vec<Pod>,
    /// Pods of workloads, which stand for them in files that have none.
    templates: Vec<Pod>,
    /// What may be a provider.
    workloads: Vec<Workload>,
    pub(super) namespaces: Vec<Namespace>,
    pub(super) nodes: Vec<Node>,
    pub(super) services: Vec<Service>,
}

const PODS: &str = "pods";
const NAMESPACES: &str = "namespaces";
const NODES: &str = "nodes";
const SERVICES: &str = "services";

impl Snapshot {
    pub(super) fn add(&mut self, collected: Collected) {
        match collected {
            Collected::Pod(pod) => self.pods.push(pod),
            Collected::Workload(pod, runs) => {
                self.templates.extend(pod);
                self.workloads.extend(runs);
            }
            Collected::Namespace(namespace) => self.namespaces.push(namespace),
            Collected::Node(node) => self.nodes.push(node),
            Collected::Service(service) => self.services.push(service),
        }
    }

    /// Adds what is not among the objects.
    pub(super) fn complete_from(&mut self, other: Self) {
        fn add<T, K: Eq + std::hash::Hash>(own: &mut Vec<T>, others: Vec<T>, key: impl Fn(&T) -> K) {
            let known: HashSet<K> = own.iter().map(&key).collect();
            own.extend(others.into_iter().filter(|object| !known.contains(&key(object))));
        }
        let Self { pods, templates, workloads: _, namespaces, nodes, services } = other;
        let key = |pod: &Pod| (Arc::clone(&pod.namespace), Arc::clone(&pod.name));
        add(&mut self.pods, pods, key);
        add(&mut self.templates, templates, key);
        add(&mut self.namespaces, namespaces, |namespace| Arc::clone(&namespace.name));
        add(&mut self.nodes, nodes, |node| Arc::clone(&node.name));
        add(&mut self.services, services, |service| {
            (Arc::clone(&service.namespace), Arc::clone(&service.name))
        });
    }

    /// What runs according to files, as far as it was among them.
    pub(super) fn inventory(&self) -> Inventory {
        Inventory {
            workloads: Known::Read(self.workloads.clone()),
            crds: Known::Read(Vec::new()),
            kubelets: BTreeSet::new(),
            objects: BTreeMap::new(),
            config_maps: BTreeMap::new(),
            failed: Vec::new(),
        }
    }

    /// Whether no object was read.
    pub(super) fn is_empty(&self) -> bool {
        self.pods.is_empty()
            && self.templates.is_empty()
            && self.namespaces.is_empty()
            && self.nodes.is_empty()
            && self.services.is_empty()
    }

    /// Of files: a kind of which there is no object was not given. Namespaces follow from the objects in them, with the label that each has.
    pub(super) fn of_files(mut self) -> (Self, Vec<Unread>) {
        let mut unread = Vec::new();
        if self.pods.is_empty() {
            self.pods = std::mem::take(&mut self.templates);
        }
        let missing = |objects| Unread { objects, reason: format!("the files have no {objects}") };
        for (objects, is_empty) in [
            (PODS, self.pods.is_empty()),
            (NAMESPACES, self.namespaces.is_empty()),
            (NODES, self.nodes.is_empty()),
            (SERVICES, self.services.is_empty()),
        ] {
            if is_empty {
                unread.push(missing(objects));
            }
        }
        if !self.namespaces.is_empty() {
            self.complete_namespaces();
        }
        (self, unread)
    }

    /// Adds the namespaces of pods that are not among the objects.
    fn complete_namespaces(&mut self) {
        let mut known: HashSet<Arc<str>> =
            self.namespaces.iter().map(|known| Arc::clone(&known.name)).collect();
        for pod in &self.pods {
            if known.insert(Arc::clone(&pod.namespace)) {
                let labels = [("kubernetes.io/metadata.name".into(), Arc::clone(&pod.namespace))].into();
                self.namespaces.push(Namespace { name: Arc::clone(&pod.namespace), labels });
            }
        }
    }

    /// The snapshot as evaluations take it.
    pub(super) fn cluster(self, unread: &[Unread]) -> Cluster {
        let Self { pods, templates: _, workloads: _, namespaces, nodes, services } = self;
        Cluster {
            pods: known(PODS, pods, unread),
            namespaces: known(NAMESPACES, namespaces, unread),
            nodes: known(NODES, nodes, unread),
            services: known(SERVICES, services, unread),
        }
    }
}

fn known<T>(kind: &str, objects: Vec<T>, unread: &[Unread]) -> Known<T> {
    match unread.iter().find(|unread| unread.objects == kind) {
        Some(unread) => Known::Unread(unread.reason.as_str().into()),
        None => Known::Read(objects),
    }
}
