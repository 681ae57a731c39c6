//! State of the cluster at the end of a rehearsal, as far as findings need it.

use std::collections::{BTreeMap, BTreeSet};

use kube::Client;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;

/// How many objects a request lists: the text of all of them would be most of what a large rehearsal holds.
const PAGE: usize = 200;

/// A page of a list of objects.
#[derive(Deserialize)]
struct List<T> {
    #[serde(default)]
    metadata: ListMetadata,
    items: Vec<T>,
}

#[derive(Default, Deserialize)]
struct ListMetadata {
    #[serde(default, rename = "continue")]
    next: String,
}

/// Of an object whose kind references may name: who it is, and the keys of ConfigMaps and Secrets.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Named {
    metadata: NamedMetadata,
    #[serde(default)]
    data: Option<BTreeMap<String, IgnoredAny>>,
    #[serde(default)]
    binary_data: Option<BTreeMap<String, IgnoredAny>>,
    #[serde(default)]
    string_data: Option<BTreeMap<String, IgnoredAny>>,
}

#[derive(Deserialize)]
struct NamedMetadata {
    #[serde(default)]
    namespace: String,
    name: String,
    uid: String,
}

/// What is kept of a Pod: there may be tens of thousands.
#[derive(Deserialize)]
#[serde(from = "Pod")]
pub(super) struct PodState {
    namespace: Box<str>,
    labels: Box<[(Box<str>, Box<str>)]>,
    /// Names of ports.
    ports: Box<[Box<str>]>,
    /// Neither finished nor failed.
    is_live: bool,
    pub(super) is_ready: bool,
}

#[derive(Deserialize)]
struct Pod {
    metadata: PodMetadata,
    spec: PodSpec,
    #[serde(default)]
    status: PodStatus,
}

#[derive(Deserialize)]
struct PodMetadata {
    #[serde(default)]
    namespace: Box<str>,
    #[serde(default)]
    labels: BTreeMap<Box<str>, Box<str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodSpec {
    containers: Vec<Container>,
    #[serde(default)]
    init_containers: Vec<Container>,
}

#[derive(Deserialize)]
struct Container {
    #[serde(default)]
    ports: Vec<ContainerPort>,
}

#[derive(Deserialize)]
struct ContainerPort {
    #[serde(default)]
    name: Option<Box<str>>,
}

#[derive(Default, Deserialize)]
struct PodStatus {
    #[serde(default)]
    phase: Box<str>,
    #[serde(default)]
    conditions: Vec<Condition>,
}

#[derive(Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    type_: Box<str>,
    status: Box<str>,
}

impl From<Pod> for PodState {
    fn from(Pod { metadata, spec, status }: Pod) -> Self {
        let containers = spec.containers.into_iter().chain(spec.init_containers);
        Self {
            namespace: metadata.namespace,
            labels: metadata.labels.into_iter().collect(),
            ports: containers.flat_map(|container| container.ports).filter_map(|port| port.name).collect(),
            is_live: !matches!(&*status.phase, "Succeeded" | "Failed"),
            is_ready: status.conditions.iter().any(|one| &*one.type_ == "Ready" && &*one.status == "True"),
        }
    }
}

impl PodState {
    pub(super) fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(key, _)| **key == *name).map(|(_, value)| &**value)
    }

    pub(super) fn has_port(&self, name: &str) -> bool {
        self.ports.iter().any(|port| **port == *name)
    }
}

/// Names by namespace, and the keys of ConfigMaps and Secrets.
pub(super) struct State {
    names: BTreeMap<&'static str, BTreeMap<(String, String), BTreeSet<String>>>,
    pub(super) pods: Vec<PodState>,
    /// Services, budgets and others, whole, by kind.
    pub(super) objects: BTreeMap<(&'static str, String, String), Value>,
    /// The UIDs of all that was read.
    uids: BTreeSet<String>,
    /// Kinds that are served.
    served: BTreeSet<String>,
}

/// The kinds that references may name, with their paths.
const KINDS: [(&str, &str); 17] = [
    ("ConfigMap", "/api/v1/configmaps"),
    ("Secret", "/api/v1/secrets"),
    ("ServiceAccount", "/api/v1/serviceaccounts"),
    ("Service", "/api/v1/services"),
    ("PersistentVolumeClaim", "/api/v1/persistentvolumeclaims"),
    ("PersistentVolume", "/api/v1/persistentvolumes"),
    ("Namespace", "/api/v1/namespaces"),
    ("StorageClass", "/apis/storage.k8s.io/v1/storageclasses"),
    ("PriorityClass", "/apis/scheduling.k8s.io/v1/priorityclasses"),
    ("RuntimeClass", "/apis/node.k8s.io/v1/runtimeclasses"),
    ("IngressClass", "/apis/networking.k8s.io/v1/ingressclasses"),
    ("Deployment", "/apis/apps/v1/deployments"),
    ("StatefulSet", "/apis/apps/v1/statefulsets"),
    ("ReplicaSet", "/apis/apps/v1/replicasets"),
    ("Role", "/apis/rbac.authorization.k8s.io/v1/roles"),
    ("ClusterRole", "/apis/rbac.authorization.k8s.io/v1/clusterroles"),
    ("PodDisruptionBudget", "/apis/policy/v1/poddisruptionbudgets"),
];

async fn list<T: DeserializeOwned>(client: &Client, path: &str) -> Result<Vec<T>, kube::Error> {
    let (mut items, mut query) = (Vec::new(), format!("?limit={PAGE}"));
    loop {
        let request =
            http::Request::get(format!("{path}{query}")).body(Vec::new()).map_err(kube::Error::HttpError)?;
        let list = match client.request::<List<T>>(request).await {
            // So much is written meanwhile that the next page is gone.
            Err(kube::Error::Api(status)) if status.code == 410 && !query.is_empty() => {
                (items, query) = (Vec::new(), String::new());
                continue;
            }
            list => list?,
        };
        items.extend(list.items);
        if list.metadata.next.is_empty() {
            return Ok(items);
        }
        query = format!("?limit={PAGE}&continue={}", list.metadata.next);
    }
}

impl State {
    pub(super) async fn read(client: &Client) -> Result<Self, kube::Error> {
        let mut names: BTreeMap<&'static str, BTreeMap<_, _>> = BTreeMap::new();
        let mut objects = BTreeMap::new();
        let (mut served, mut uids) = (BTreeSet::new(), BTreeSet::new());
        for (kind, path) in KINDS {
            let mut of_kind = BTreeMap::new();
            served.insert(kind.to_owned());
            for object in list::<Named>(client, path).await? {
                let Named { metadata, data, binary_data, string_data } = object;
                uids.insert(metadata.uid);
                let keys = [data, binary_data, string_data].into_iter().flatten();
                let keys: BTreeSet<String> = keys.flat_map(BTreeMap::into_keys).collect();
                of_kind.insert((metadata.namespace, metadata.name), keys);
            }
            names.insert(kind, of_kind);
            if matches!(kind, "Service" | "PodDisruptionBudget") {
                for object in list::<Value>(client, path).await? {
                    let text = |pointer: &str| {
                        object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
                    };
                    let name = (kind, text("/metadata/namespace"), text("/metadata/name"));
                    objects.insert(name, object);
                }
            }
        }
        let pods = list(client, "/api/v1/pods").await?;
        Ok(Self { names, pods, objects, uids, served })
    }

    /// Is there such an object? None if the kind was not read.
    pub(super) fn has(&self, kind: &str, namespace: &str, name: &str) -> Option<bool> {
        if !self.served.contains(kind) {
            return None;
        }
        let of_kind = self.names.get(kind)?;
        Some(of_kind.contains_key(&(namespace.to_owned(), name.to_owned())))
    }

    /// Is there an object with this UID? None if its kind was not read.
    pub(super) fn has_uid(&self, kind: &str, uid: &str) -> Option<bool> {
        self.served.contains(kind).then(|| self.uids.contains(uid))
    }

    /// Has the ConfigMap or Secret the key? None if there is no such object.
    pub(super) fn has_key(&self, kind: &str, namespace: &str, name: &str, key: &str) -> Option<bool> {
        let keys = self.names.get(kind)?.get(&(namespace.to_owned(), name.to_owned()))?;
        Some(keys.contains(key))
    }

    /// Names of a kind in a namespace.
    pub(super) fn names(&self, kind: &str, namespace: &str) -> Vec<&str> {
        let of_kind = self.names.get(kind).into_iter().flatten();
        of_kind.filter(|((place, _), _)| place == namespace).map(|((_, name), _)| &**name).collect()
    }

    /// The Pods of a namespace that a selector of labels matches.
    pub(super) fn pods_with<'s>(
        &'s self,
        namespace: &'s str,
        labels: &'s serde_json::Map<String, Value>,
    ) -> impl Iterator<Item = &'s PodState> {
        let matches = move |pod: &&PodState| {
            *pod.namespace == *namespace
                && labels
                    .iter()
                    .all(|(key, value)| pod.label(key).is_some_and(|found| value.as_str() == Some(found)))
        };
        self.pods.iter().filter(|pod| pod.is_live).filter(matches)
    }
}
