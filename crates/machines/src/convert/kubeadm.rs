//! Configuration of kubeadm: a ClusterConfiguration as a Cluster, in both directions, without loss.

use serde_json::{Map, Value, json};

use super::rest::Rest;
use super::v1alpha1::{Note, ORIGINAL_ANNOTATION};
use crate::inventory::text;
use crate::types::{GROUP, VERSION};

/// Fields of a ClusterConfiguration that configure a component, and its name.
const COMPONENTS: [(&str, &str); 6] = [
    ("apiServer", "kube-apiserver"),
    ("controllerManager", "kube-controller-manager"),
    ("scheduler", "kube-scheduler"),
    ("etcd", "etcd"),
    ("dns", "coredns"),
    ("proxy", "kube-proxy-addon"),
];
/// Kinds of other documents that configure a component.
const DOCUMENTS: [(&str, &str); 2] =
    [("KubeletConfiguration", "kubelet"), ("KubeProxyConfiguration", "kube-proxy")];
/// The component that has the rest of a ClusterConfiguration.
const KUBEADM: &str = "kubeadm";
/// What kubeadm takes for granted; `podSubnet` has no default there, and is needed here.
const DEFAULTS: [(&str, &str); 3] =
    [("serviceSubnet", "10.96.0.0/12"), ("podSubnet", "10.244.0.0/16"), ("dnsDomain", "cluster.local")];
/// Fields that become fields of the Cluster.
const FIELDS: [&str; 4] = ["kubernetesVersion", "clusterName", "controlPlaneEndpoint", "networking"];
/// The port if an endpoint has none.
const PORT: i64 = 6443;

/// A Cluster of kubeadm's configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct KubeadmImport {
    /// The Cluster.
    pub cluster: Value,
    /// What is not carried out.
    pub notes: Vec<Note>,
}

/// Whether an object is configuration of kubeadm, a kubelet or kube-proxy.
#[must_use]
pub fn is_kubeadm(object: &Value) -> bool {
    let group = text(object, "/apiVersion").split('/').next().unwrap_or_default();
    matches!(group, "kubeadm.k8s.io" | "kubelet.config.k8s.io" | "kubeproxy.config.k8s.io")
}

/// Imports the documents of a configuration of kubeadm; `None` without a ClusterConfiguration.
#[must_use]
pub fn import_kubeadm(documents: &[Value], namespace: &str) -> Option<KubeadmImport> {
    let configuration =
        documents.iter().find(|document| text(document, "/kind") == "ClusterConfiguration")?;
    let name = match text(configuration, "/clusterName") {
        "" => "kubernetes",
        name => name,
    };
    let network = |field: &str| {
        let default = DEFAULTS.iter().find(|(name, _)| *name == field).map_or("", |(_, value)| *value);
        match text(configuration, &format!("/networking/{field}")) {
            "" => default.to_owned(),
            value => value.to_owned(),
        }
    };
    let ranges =
        |field: &str| -> Value { network(field).split(',').map(|range| json!(range.trim())).collect() };
    let mut cluster = json!({
        "apiVersion": format!("{GROUP}/{VERSION}"), "kind": "Cluster",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "clusterNetwork": {
                "services": {"cidrBlocks": ranges("serviceSubnet")},
                "pods": {"cidrBlocks": ranges("podSubnet")},
                "serviceDomain": network("dnsDomain"),
            },
            "controlPlane": {},
        },
    });
    let version = text(configuration, "/kubernetesVersion");
    if is_version(version) {
        cluster["spec"]["controlPlane"]["version"] = version.into();
    }
    if let Some((host, port)) = endpoint(text(configuration, "/controlPlaneEndpoint")) {
        cluster["spec"]["controlPlane"]["endpoint"] = json!({"host": host, "port": port});
    }
    let mut components = Vec::new();
    for (field, component) in COMPONENTS {
        if let Some(config) = configuration.get(field).filter(|config| config.is_object()) {
            components.push(json!({"component": component, "config": config}));
        }
    }
    let is_rest = |name: &str| !FIELDS.contains(&name) && !COMPONENTS.iter().any(|(field, _)| *field == name);
    let rest = configuration.as_object().into_iter().flatten().filter(|(name, _)| is_rest(name));
    let rest: Map<String, Value> = rest.map(|(name, value)| (name.clone(), value.clone())).collect();
    components.push(json!({"component": KUBEADM, "config": rest}));
    let mut notes = Vec::new();
    for document in documents {
        let kind = text(document, "/kind");
        match DOCUMENTS.iter().find(|(known, _)| *known == kind) {
            Some((_, component)) => components.push(json!({"component": component, "config": document})),
            None if kind == "ClusterConfiguration" => {}
            None => notes.push(Note {
                object: format!("{kind}/"),
                field: String::new(),
                message: "not imported: it configures one node, not the cluster".to_owned(),
            }),
        }
    }
    cluster["spec"]["controlPlane"]["componentConfig"] = components.into();
    let exported = export_kubeadm(&cluster).into_iter().next().unwrap_or_default();
    let rest = Rest::between(&exported, configuration);
    if !rest.is_empty() {
        cluster["metadata"]["annotations"] = json!({ORIGINAL_ANNOTATION: rest.text()});
    }
    if !version.is_empty() && !is_version(version) {
        notes.push(Note {
            object: format!("Cluster/{name}"),
            field: "kubernetesVersion".to_owned(),
            message: format!("{version:?} is no version: set spec.controlPlane.version"),
        });
    }
    if text(configuration, "/networking/podSubnet").is_empty() {
        notes.push(Note {
            object: format!("Cluster/{name}"),
            field: "networking.podSubnet".to_owned(),
            message: "not set: 10.244.0.0/16 is assumed".to_owned(),
        });
    }
    Some(KubeadmImport { cluster, notes })
}

fn is_version(text: &str) -> bool {
    let numbers = text.trim_start_matches('v').split(['-', '+']).next().unwrap_or_default();
    let parts: Vec<&str> = numbers.split('.').collect();
    parts.len() == 3
        && parts.iter().all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Host and port of `host:port`, `host` or `[address]:port`.
fn endpoint(text: &str) -> Option<(String, i64)> {
    if text.is_empty() {
        return None;
    }
    if let Some(rest) = text.strip_prefix('[') {
        let (host, port) = rest.split_once(']')?;
        return Some((
            host.to_owned(),
            port.strip_prefix(':').and_then(|port| port.parse().ok()).unwrap_or(PORT),
        ));
    }
    match text.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') => Some((host.to_owned(), port.parse().ok()?)),
        _ => Some((text.to_owned(), PORT)),
    }
}

/// The documents of kubeadm's configuration of a Cluster: the ClusterConfiguration first.
#[must_use]
pub fn export_kubeadm(cluster: &Value) -> Vec<Value> {
    let components = cluster.pointer("/spec/controlPlane/componentConfig").and_then(Value::as_array);
    let components: Vec<&Value> = components.into_iter().flatten().collect();
    let config = |name: &str| {
        components
            .iter()
            .find(|component| text(component, "/component") == name)
            .and_then(|found| found.get("config"))
    };
    let mut configuration = json!({"apiVersion": "kubeadm.k8s.io/v1beta4", "kind": "ClusterConfiguration"});
    for (name, value) in config(KUBEADM).and_then(Value::as_object).into_iter().flatten() {
        configuration[name] = value.clone();
    }
    let name = text(cluster, "/metadata/name");
    configuration["clusterName"] = name.into();
    let version = text(cluster, "/spec/controlPlane/version");
    if !version.is_empty() {
        configuration["kubernetesVersion"] = version.into();
    }
    let host = text(cluster, "/spec/controlPlane/endpoint/host");
    if !host.is_empty() {
        let port =
            cluster.pointer("/spec/controlPlane/endpoint/port").and_then(Value::as_i64).unwrap_or(PORT);
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        configuration["controlPlaneEndpoint"] = format!("{host}:{port}").into();
    }
    let ranges = |pointer: &str| {
        let blocks = cluster.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
        blocks.filter_map(Value::as_str).collect::<Vec<_>>().join(",")
    };
    configuration["networking"] = json!({
        "serviceSubnet": ranges("/spec/clusterNetwork/services/cidrBlocks"),
        "podSubnet": ranges("/spec/clusterNetwork/pods/cidrBlocks"),
        "dnsDomain": text(cluster, "/spec/clusterNetwork/serviceDomain"),
    });
    for (field, component) in COMPONENTS {
        if let Some(config) = config(component) {
            configuration[field] = config.clone();
        }
    }
    let rest =
        cluster.pointer("/metadata/annotations").and_then(|all| all.get(ORIGINAL_ANNOTATION)?.as_str());
    if let Some(rest) = rest {
        Rest::parse(rest).restore(&mut configuration);
    }
    let mut documents = vec![configuration];
    documents.extend(DOCUMENTS.iter().filter_map(|(_, component)| config(component).cloned()));
    documents
}
