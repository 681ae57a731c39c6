//! Import of live objects: what is in the namespaces of the manifests, read and never written.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Taint;
use kube::Client;
use serde::Deserialize;
use serde_json::{Map, Value};
use settled_simulator::nodes::NodeSpec;

use crate::findings::{Manifest, Referred, references};

/// Objects of a page.
const PAGE: usize = 500;
/// Most objects of a kind in a namespace that are read.
const OBJECTS_MAX: usize = 50_000;

/// What a kind is read from.
struct Kind {
    api_version: &'static str,
    kind: &'static str,
    plural: &'static str,
}

const fn kind(api_version: &'static str, kind: &'static str, plural: &'static str) -> Kind {
    Kind { api_version, kind, plural }
}

/// Roles are read if the manifests bind some.
const RBAC: &str = "rbac.authorization.k8s.io/v1";

/// Kinds without a namespace that manifests refer to.
const OF_CLUSTERS: [Kind; 6] = [
    kind("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses"),
    kind("storage.k8s.io/v1", "StorageClass", "storageclasses"),
    kind("networking.k8s.io/v1", "IngressClass", "ingressclasses"),
    kind("node.k8s.io/v1", "RuntimeClass", "runtimeclasses"),
    kind("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions"),
    kind(RBAC, "ClusterRole", "clusterroles"),
];

/// Kinds of namespaces, in the order in which they are created.
const OF_NAMESPACES: [Kind; 16] = [
    kind("v1", "ServiceAccount", "serviceaccounts"),
    kind("v1", "ConfigMap", "configmaps"),
    kind("v1", "Secret", "secrets"),
    kind("v1", "PersistentVolumeClaim", "persistentvolumeclaims"),
    kind("v1", "Service", "services"),
    kind("v1", "LimitRange", "limitranges"),
    kind("v1", "ResourceQuota", "resourcequotas"),
    kind("apps/v1", "Deployment", "deployments"),
    kind("apps/v1", "StatefulSet", "statefulsets"),
    kind("apps/v1", "DaemonSet", "daemonsets"),
    kind("batch/v1", "CronJob", "cronjobs"),
    kind("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets"),
    kind("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers"),
    kind("networking.k8s.io/v1", "Ingress", "ingresses"),
    kind("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies"),
    kind(RBAC, "Role", "roles"),
];

/// Something that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread {
    /// Their kind.
    pub kind: &'static str,
    /// Their namespace; empty for a kind without one.
    pub namespace: String,
    /// Which objects: `secrets in namespace shop`.
    pub what: String,
    /// Why not.
    pub reason: String,
}

/// What was read.
#[derive(Clone, Debug, Default)]
pub struct Imported {
    /// Objects that can be created anew.
    pub objects: Vec<Value>,
    /// What could not be read: nothing is known of it.
    pub unread: Vec<Unread>,
}

#[derive(Deserialize)]
struct List {
    #[serde(default)]
    metadata: ListMetadata,
    items: Vec<Value>,
}

#[derive(Default, Deserialize)]
struct ListMetadata {
    #[serde(default, rename = "continue")]
    continue_: String,
}

/// Reads what is in these namespaces, and the definitions of these groups.
pub async fn read(client: &Client, namespaces: &BTreeSet<String>, groups: &BTreeSet<String>) -> Imported {
    let mut imported = Imported::default();
    let is_needed = |kind: &&Kind| kind.api_version != RBAC || groups.contains("rbac.authorization.k8s.io");
    for kind in OF_CLUSTERS.iter().filter(is_needed) {
        let objects = list(client, kind, "", &mut imported.unread).await;
        let is_wanted = |object: &Value| {
            kind.kind != "CustomResourceDefinition"
                || object
                    .pointer("/spec/group")
                    .and_then(Value::as_str)
                    .is_some_and(|group| groups.contains(group))
        };
        imported
            .objects
            .extend(objects.into_iter().filter(is_wanted).filter_map(|object| clean(kind, object)));
    }
    for namespace in namespaces {
        let mut object = Map::new();
        object.insert("apiVersion".to_owned(), "v1".into());
        object.insert("kind".to_owned(), "Namespace".into());
        object.insert("metadata".to_owned(), serde_json::json!({"name": namespace}));
        imported.objects.push(Value::Object(object));
        for kind in OF_NAMESPACES.iter().filter(is_needed) {
            let objects = list(client, kind, namespace, &mut imported.unread).await;
            imported.objects.extend(objects.into_iter().filter_map(|object| clean(kind, object)));
        }
    }
    imported
}

fn path(kind: &Kind, namespace: &str) -> String {
    let root = if kind.api_version.contains('/') { "/apis" } else { "/api" };
    let place = if namespace.is_empty() { String::new() } else { format!("namespaces/{namespace}/") };
    format!("{root}/{}/{place}{}", kind.api_version, kind.plural)
}

async fn list(client: &Client, kind: &Kind, namespace: &str, unread: &mut Vec<Unread>) -> Vec<Value> {
    let path = path(kind, namespace);
    let place = if namespace.is_empty() { String::new() } else { format!(" in namespace {namespace}") };
    let failed = |reason| Unread {
        kind: kind.kind,
        namespace: namespace.to_owned(),
        what: format!("{}{place}", kind.plural),
        reason,
    };
    let mut objects = Vec::new();
    let mut continue_ = String::new();
    loop {
        let token = if continue_.is_empty() { String::new() } else { format!("&continue={continue_}") };
        let page = async {
            let request = http::Request::get(format!("{path}?limit={PAGE}{token}"))
                .body(Vec::new())
                .map_err(kube::Error::HttpError)?;
            client.request::<List>(request).await
        };
        match page.await {
            Ok(page) => {
                objects.extend(page.items);
                continue_ = page.metadata.continue_;
            }
            Err(error) => {
                let reason = match error {
                    kube::Error::Api(status) => status.message.clone(),
                    error => error.to_string(),
                };
                unread.push(failed(reason));
                return objects;
            }
        }
        if continue_.is_empty() {
            return objects;
        }
        if objects.len() >= OBJECTS_MAX {
            let reason = format!("there are more than {OBJECTS_MAX}");
            unread.push(failed(reason));
            return objects;
        }
    }
}

/// The Nodes of a cluster.
#[derive(Clone, Debug, Default)]
pub struct Nodes {
    /// Those that take Pods, cordoned ones as well.
    pub nodes: Vec<NodeSpec>,
    /// Names of those that are not ready: they are left out.
    pub not_ready: Vec<String>,
    /// Why they could not be read.
    pub unread: Vec<Unread>,
}

/// Reads what the Nodes offer: their allocatable resources, labels and taints.
pub async fn nodes(client: &Client) -> Nodes {
    let mut read = Nodes::default();
    for node in list(client, &kind("v1", "Node", "nodes"), "", &mut read.unread).await {
        let Some(name) = node.pointer("/metadata/name").and_then(Value::as_str) else { continue };
        let conditions = node.pointer("/status/conditions").and_then(Value::as_array);
        let is_ready = |condition: &Value| condition["type"] == "Ready" && condition["status"] == "True";
        if conditions.is_some_and(|conditions| conditions.iter().any(is_ready)) {
            read.nodes.push(node_spec(name, &node));
        } else {
            read.not_ready.push(name.to_owned());
        }
    }
    read
}

fn node_spec(name: &str, node: &Value) -> NodeSpec {
    let texts = |pointer: &str| -> BTreeMap<String, String> {
        let fields = node.pointer(pointer).and_then(Value::as_object).into_iter().flatten();
        fields.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
    };
    let allocatable = texts("/status/allocatable");
    let taints = node.pointer("/spec/taints").and_then(Value::as_array).into_iter().flatten();
    NodeSpec {
        name: name.to_owned(),
        labels: texts("/metadata/labels"),
        capacity: if allocatable.is_empty() { texts("/status/capacity") } else { allocatable },
        taints: taints.filter_map(|taint| Taint::deserialize(taint).ok()).collect(),
        is_unschedulable: node.pointer("/spec/unschedulable") == Some(&Value::Bool(true)),
    }
}

/// An object that is assumed to exist, because nobody could read whether it does.
#[derive(Clone, Debug, PartialEq)]
pub struct Assumed {
    /// The first manifest that refers to it.
    pub manifest: usize,
    /// The field with its name.
    pub field: String,
    /// Its kind and name, for people.
    pub what: String,
    /// As it can be created.
    pub object: Value,
}

/// What manifests refer to among what could not be read: it may well exist, and the rehearsal goes on as if it did.
#[must_use]
pub fn assumed(manifests: &[Manifest], unread: &[Unread]) -> Vec<Assumed> {
    let mut found: BTreeMap<(&str, String, String), (Assumed, BTreeSet<String>)> = BTreeMap::new();
    for (index, manifest) in manifests.iter().enumerate() {
        for Referred { kind, namespace, name, field, keys } in references(manifest) {
            let is_unread = |unread: &Unread| (unread.kind, &unread.namespace) == (kind, &namespace);
            let is =
                |other: &Manifest| (&*other.kind, &other.namespace, &other.name) == (kind, &namespace, &name);
            if !unread.iter().any(is_unread) || manifests.iter().any(is) {
                continue;
            }
            let Some(object) = placeholder(kind, &namespace, &name) else { continue };
            let what = format!("{kind} {name:?}");
            let entry = found
                .entry((kind, namespace, name))
                .or_insert_with(|| (Assumed { manifest: index, field, what, object }, BTreeSet::new()));
            entry.1.extend(keys.into_iter().map(|(_, key)| key));
        }
    }
    let with_keys = |(mut assumed, keys): (Assumed, BTreeSet<String>)| {
        if let Some(fields) = assumed.object.as_object_mut().filter(|_| !keys.is_empty()) {
            let data: Map<String, Value> = keys.into_iter().map(|key| (key, "".into())).collect();
            fields.insert("data".to_owned(), data.into());
        }
        assumed
    };
    found.into_values().map(with_keys).collect()
}

/// The least that an object of a kind has.
fn placeholder(kind: &str, namespace: &str, name: &str) -> Option<Value> {
    let of = OF_CLUSTERS.iter().chain(&OF_NAMESPACES).find(|of| of.kind == kind)?;
    let mut object =
        serde_json::json!({"apiVersion": of.api_version, "kind": kind, "metadata": {"name": name}});
    let fields = object.as_object_mut()?;
    let rest = match kind {
        "PersistentVolumeClaim" => serde_json::json!({
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }),
        "Service" => serde_json::json!({"spec": {"clusterIP": "None", "ports": [{"port": 80}]}}),
        "PriorityClass" => serde_json::json!({"value": 0}),
        "StorageClass" => serde_json::json!({"provisioner": "settled.dev/unknown"}),
        "RuntimeClass" => serde_json::json!({"handler": "unknown"}),
        _ => serde_json::json!({}),
    };
    fields.extend(rest.as_object().cloned().unwrap_or_default());
    if !namespace.is_empty() {
        fields.get_mut("metadata")?.as_object_mut()?.insert("namespace".to_owned(), namespace.into());
    }
    Some(object)
}

/// An object as it can be created anew; none for what others create.
fn clean(kind: &Kind, mut object: Value) -> Option<Value> {
    let meta = object.get("metadata")?;
    let owners = meta.get("ownerReferences").and_then(Value::as_array);
    let is_owned = owners.is_some_and(|owners| owners.iter().any(|owner| owner["controller"] == true));
    if is_owned || meta.get("deletionTimestamp").is_some() {
        return None;
    }
    let name = meta.get("name")?.as_str()?;
    if matches!((kind.kind, name), ("ConfigMap", "kube-root-ca.crt") | ("ServiceAccount", "default")) {
        return None;
    }
    let keep = ["name", "namespace", "labels", "annotations"];
    let kept: Map<String, Value> =
        keep.iter().filter_map(|key| Some(((*key).to_owned(), meta.get(key)?.clone()))).collect();
    let fields = object.as_object_mut()?;
    fields.insert("metadata".to_owned(), Value::Object(kept));
    fields.insert("apiVersion".to_owned(), kind.api_version.into());
    fields.insert("kind".to_owned(), kind.kind.into());
    fields.remove("status");
    if let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        let is_state = |key: &str| {
            key.starts_with("pv.kubernetes.io/")
                || key.starts_with("deployment.kubernetes.io/")
                || key.starts_with("volume.kubernetes.io/")
                || key == "kubectl.kubernetes.io/last-applied-configuration"
        };
        annotations.retain(|key, _| !is_state(key));
    }
    match kind.kind {
        "Secret" => redact(&mut object),
        "Service" => service(&mut object),
        "PersistentVolumeClaim" => {
            object.pointer_mut("/spec").and_then(Value::as_object_mut)?.remove("volumeName");
        }
        "CustomResourceDefinition" => {
            // Webhooks are not called.
            object.pointer_mut("/spec").and_then(Value::as_object_mut)?.remove("conversion");
        }
        _ => {}
    }
    Some(object)
}

/// Only the keys of a Secret matter. Its type asks for values that are not there any more.
fn redact(secret: &mut Value) {
    let data: BTreeMap<String, Value> = secret
        .get("data")
        .and_then(Value::as_object)
        .map(|data| data.keys().map(|key| (key.clone(), "".into())).collect())
        .unwrap_or_default();
    if let Some(fields) = secret.as_object_mut() {
        fields.insert("data".to_owned(), Value::Object(data.into_iter().collect()));
        fields.remove("type");
        fields.remove("immutable");
    }
}

/// Addresses and ports are given anew: they are of another range.
fn service(service: &mut Value) {
    let Some(spec) = service.pointer_mut("/spec").and_then(Value::as_object_mut) else { return };
    if spec.get("clusterIP").is_some_and(|address| address != "None") {
        spec.remove("clusterIP");
        spec.remove("clusterIPs");
    }
    for key in ["ipFamilies", "ipFamilyPolicy", "healthCheckNodePort"] {
        spec.remove(key);
    }
    for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(port) = port.as_object_mut() {
            port.remove("nodePort");
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_of_secrets_stay_where_they_are() {
        let secret = json!({
            "metadata": {"name": "db", "namespace": "shop", "uid": "1", "resourceVersion": "2", "managedFields": []},
            "type": "kubernetes.io/basic-auth", "data": {"password": "c2VjcmV0"},
        });
        let of = OF_NAMESPACES.iter().find(|kind| kind.kind == "Secret").unwrap();
        let expected = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "db", "namespace": "shop"}, "data": {"password": ""},
        });
        assert_eq!(clean(of, secret), Some(expected));
    }

    #[test]
    fn nodes_are_as_their_status_says() {
        let node = json!({
            "metadata": {"name": "worker-1", "labels": {"disk": "ssd"}},
            "spec": {"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}], "unschedulable": true},
            "status": {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "3920m", "pods": "110"}},
        });
        let spec = node_spec("worker-1", &node);
        assert_eq!(
            spec.capacity,
            [("cpu", "3920m"), ("pods", "110")].map(|(a, b)| (a.into(), b.into())).into()
        );
        assert_eq!(spec.labels, [("disk".to_owned(), "ssd".to_owned())].into());
        assert_eq!((spec.taints.len(), spec.taints[0].key.as_str(), spec.is_unschedulable), (1, "gpu", true));
    }

    #[test]
    fn what_could_not_be_read_is_assumed() {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "shop"},
            "spec": {"containers": [{"env": [
                {"valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}},
                {"valueFrom": {"secretKeyRef": {"name": "db", "key": "user"}}},
                {"valueFrom": {"configMapKeyRef": {"name": "settings", "key": "a"}}},
            ]}]},
        });
        let unread =
            |kind| Unread { kind, namespace: "shop".to_owned(), what: String::new(), reason: String::new() };
        let manifests = [Manifest::new(pod, "default")];
        let found = assumed(&manifests, &[unread("Secret")]);
        let field = "spec.containers[0].env[0].valueFrom.secretKeyRef.name".to_owned();
        let object = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "db", "namespace": "shop"},
            "data": {"password": "", "user": ""},
        });
        assert_eq!(found, [Assumed { manifest: 0, field, what: "Secret \"db\"".to_owned(), object }]);
        assert_eq!(assumed(&manifests, &[unread("ServiceAccount")]), []);
    }

    #[test]
    fn what_others_create_is_not_imported() {
        let of = OF_NAMESPACES.iter().find(|kind| kind.kind == "ConfigMap").unwrap();
        let owned = json!({"metadata": {"name": "a", "ownerReferences": [{"controller": true}]}});
        assert_eq!(clean(of, owned), None);
        assert_eq!(clean(of, json!({"metadata": {"name": "kube-root-ca.crt"}})), None);
        let plain = json!({"metadata": {"name": "a"}, "data": {"b": "c"}, "status": {}});
        let expected =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"b": "c"}});
        assert_eq!(clean(of, plain), Some(expected));
    }
}
