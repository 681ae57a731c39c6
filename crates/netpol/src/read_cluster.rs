//! Readers of cluster objects: what policies select of a Namespace, Pod, Node or Service.
//!
//! A cluster's own objects were validated by its API server: a part that cannot be read is left out.

use std::net::IpAddr;
use std::sync::Arc;

use serde_json::Value;
use settled_apimachinery::net::parse_ip_sloppy;
use settled_apimachinery::unstructured::{field, flag, integer, items, string, string_at};

use crate::cluster::{ContainerPort, Labels, Namespace, Node, Pod, Service, ServicePort, TargetPort};
use crate::model::{Cidr, Protocol};

/// The label that every namespace has its name in.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// Reads a Namespace. It has the label with its name also where the object does not, as in manifests.
#[must_use]
pub fn namespace(object: &Value) -> Option<Namespace> {
    let name = name(object)?;
    let mut labels = labels(field(field(object, "metadata"), "labels"));
    labels.insert(NAME_LABEL.into(), name.clone());
    Some(Namespace { name, labels })
}

/// Reads a Pod.
#[must_use]
pub fn pod(object: &Value) -> Option<Pod> {
    let (metadata, spec, status) =
        (field(object, "metadata"), field(object, "spec"), field(object, "status"));
    let mut addresses: Vec<IpAddr> =
        items(status, "podIPs").iter().filter_map(|entry| parse_ip_sloppy(string(entry, "ip"))).collect();
    if addresses.is_empty() {
        addresses.extend(parse_ip_sloppy(string(status, "podIP")));
    }
    let mut ports = Vec::new();
    for (list, init) in [("containers", false), ("initContainers", true)] {
        // Other init containers have ended before the pod has traffic.
        let containers = items(spec, list);
        let containers =
            containers.iter().filter(|container| !init || string(container, "restartPolicy") == "Always");
        ports.extend(
            containers
                .flat_map(|container| items(container, "ports"))
                .filter_map(|port| container_port(port, init)),
        );
    }
    Some(Pod {
        namespace: namespace_of(metadata),
        name: name(object)?,
        labels: labels(field(metadata, "labels")),
        addresses,
        ports,
        host_network: flag(spec, "hostNetwork"),
        owned: !items(metadata, "ownerReferences").is_empty(),
        node: Some(string(spec, "nodeName")).filter(|node| !node.is_empty()).map(Arc::from),
        finished: matches!(string(status, "phase"), "Succeeded" | "Failed"),
    })
}

/// Reads a Node.
#[must_use]
pub fn node(object: &Value) -> Option<Node> {
    let (spec, status) = (field(object, "spec"), field(object, "status"));
    let addresses = items(status, "addresses");
    let addresses = addresses.iter().filter_map(|entry| parse_ip_sloppy(string(entry, "address"))).collect();
    let mut pod_cidrs: Vec<Cidr> =
        items(spec, "podCIDRs").iter().filter_map(Value::as_str).filter_map(Cidr::parse).collect();
    if pod_cidrs.is_empty() {
        pod_cidrs.extend(Cidr::parse(string(spec, "podCIDR")));
    }
    Some(Node {
        name: name(object)?,
        labels: labels(field(field(object, "metadata"), "labels")),
        addresses,
        pod_cidrs,
    })
}

/// Reads a Service.
#[must_use]
pub fn service(object: &Value) -> Option<Service> {
    let (metadata, spec) = (field(object, "metadata"), field(object, "spec"));
    let mut cluster_ips: Vec<IpAddr> =
        items(spec, "clusterIPs").iter().filter_map(Value::as_str).filter_map(parse_ip_sloppy).collect();
    if cluster_ips.is_empty() {
        cluster_ips.extend(parse_ip_sloppy(string(spec, "clusterIP")));
    }
    let kind = string(spec, "type");
    let selector = labels(field(spec, "selector"));
    Some(Service {
        namespace: namespace_of(metadata),
        name: name(object)?,
        cluster_ips,
        selector: (!selector.is_empty() && kind != "ExternalName").then_some(selector),
        ports: items(spec, "ports").iter().filter_map(service_port).collect(),
        keeps_source: string(spec, "externalTrafficPolicy") == "Local",
        external: matches!(kind, "NodePort" | "LoadBalancer") || !items(spec, "externalIPs").is_empty(),
    })
}

fn name(object: &Value) -> Option<Arc<str>> {
    Some(string_at(object, "/metadata/name")).filter(|name| !name.is_empty()).map(Arc::from)
}

fn namespace_of(metadata: &Value) -> Arc<str> {
    match string(metadata, "namespace") {
        "" => Arc::from("default"),
        namespace => Arc::from(namespace),
    }
}

fn labels(map: &Value) -> Labels {
    let entries = map.as_object().into_iter().flatten();
    entries.filter_map(|(key, value)| Some((Arc::from(key.as_str()), Arc::from(value.as_str()?)))).collect()
}

fn protocol(object: &Value) -> Option<Protocol> {
    match string(object, "protocol") {
        "" | "TCP" => Some(Protocol::Tcp),
        "UDP" => Some(Protocol::Udp),
        "SCTP" => Some(Protocol::Sctp),
        _ => None,
    }
}

fn container_port(object: &Value, init: bool) -> Option<ContainerPort> {
    let name = string(object, "name");
    Some(ContainerPort {
        name: (!name.is_empty()).then(|| Arc::from(name)),
        number: u16::try_from(integer(object, "containerPort")?).ok().filter(|number| *number > 0)?,
        protocol: protocol(object)?,
        init,
    })
}

fn service_port(object: &Value) -> Option<ServicePort> {
    let port = u16::try_from(integer(object, "port")?).ok()?;
    let target = match field(object, "targetPort") {
        Value::String(name) if !name.is_empty() => TargetPort::Named(name.as_str().into()),
        Value::Number(number) => match number.as_u64().and_then(|number| u16::try_from(number).ok()) {
            // Zero is absent.
            None | Some(0) => TargetPort::Number(port),
            Some(number) => TargetPort::Number(number),
        },
        _ => TargetPort::Number(port),
    };
    let name = string(object, "name");
    let name = (!name.is_empty()).then(|| Arc::from(name));
    Some(ServicePort { name, protocol: protocol(object)?, port, target })
}
