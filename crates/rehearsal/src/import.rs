//! Import of live objects: what is in the namespaces of the manifests, read and never written.

use std::collections::{BTreeMap, BTreeSet};

use kube::Client;
use serde::Deserialize;
use serde_json::{Map, Value};

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

/// Kinds without a namespace that manifests refer to.
const OF_CLUSTERS: [Kind; 4] = [
    kind("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses"),
    kind("storage.k8s.io/v1", "StorageClass", "storageclasses"),
    kind("networking.k8s.io/v1", "IngressClass", "ingressclasses"),
    kind("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions"),
];

/// Kinds of namespaces, in the order in which they are created.
const OF_NAMESPACES: [Kind; 15] = [
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
];

/// Something that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread {
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
    for kind in &OF_CLUSTERS {
        let path = path(kind, None);
        let objects = list(client, &path, &mut imported.unread, kind.plural).await;
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
        for kind in &OF_NAMESPACES {
            let path = path(kind, Some(namespace));
            let what = format!("{} in namespace {namespace}", kind.plural);
            let objects = list(client, &path, &mut imported.unread, &what).await;
            imported.objects.extend(objects.into_iter().filter_map(|object| clean(kind, object)));
        }
    }
    imported
}

fn path(kind: &Kind, namespace: Option<&str>) -> String {
    let root = if kind.api_version.contains('/') { "/apis" } else { "/api" };
    let place = namespace.map(|namespace| format!("namespaces/{namespace}/")).unwrap_or_default();
    format!("{root}/{}/{place}{}", kind.api_version, kind.plural)
}

async fn list(client: &Client, path: &str, unread: &mut Vec<Unread>, what: &str) -> Vec<Value> {
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
                unread.push(Unread { what: what.to_owned(), reason });
                return objects;
            }
        }
        if continue_.is_empty() {
            return objects;
        }
        if objects.len() >= OBJECTS_MAX {
            let reason = format!("there are more than {OBJECTS_MAX}");
            unread.push(Unread { what: what.to_owned(), reason });
            return objects;
        }
    }
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
