//! Reachability, diff and explanations.

#![allow(clippy::panic, reason = "helpers of tests fail as tests do")]

mod answers;
mod carried_out;
mod cases;
mod diff;
mod explain;
mod naive;
mod properties;
mod scale;

use std::net::IpAddr;
use std::sync::Arc;

use serde_json::{Value, json};
use settled_netpol::cluster::{
    Cluster, ContainerPort, Known, Labels, Namespace, Node, Pod, Service, ServicePort, TargetPort,
};
use settled_netpol::model::{Policy, Protocol};
use settled_netpol::parse::{Lost, parse_policy};

/// Reads YAML.
fn yaml(text: &str) -> Value {
    let mut json = Vec::new();
    settled_manifest::yaml_to_json(text.as_bytes(), &mut json).unwrap();
    serde_json::from_slice(&json).unwrap()
}

/// Reads a policy in the short form of cases: `{ns, name, spec}`, `{anp: spec}`, `{banp: spec}` or `{cnp: spec}`.
fn policy(short: &Value, index: usize) -> Policy {
    let name = short.get("name").cloned().unwrap_or_else(|| json!(format!("p{index}")));
    let kinds = [
        ("anp", "policy.networking.k8s.io/v1alpha1", "AdminNetworkPolicy"),
        ("banp", "policy.networking.k8s.io/v1alpha1", "BaselineAdminNetworkPolicy"),
        ("cnp", "policy.networking.k8s.io/v1alpha2", "ClusterNetworkPolicy"),
    ];
    let object = match kinds.iter().find(|(key, _, _)| short.get(key).is_some()) {
        Some((key, api_version, kind)) => {
            let name = if *key == "banp" { json!("default") } else { name };
            json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": short[key]})
        }
        None => json!({
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"name": name, "namespace": short["ns"]},
            "spec": short["spec"],
        }),
    };
    let parsed = parse_policy(&object, "default").unwrap();
    let is_whole = parsed.problems.iter().all(|problem| problem.lost == Lost::Nothing);
    assert!(is_whole, "{:?}", parsed.problems);
    parsed.policy.unwrap()
}

/// Reads a list of policies in the short form.
fn policies(text: &str) -> Vec<Policy> {
    let list = yaml(text);
    list.as_array().unwrap().iter().enumerate().map(|(index, short)| policy(short, index)).collect()
}

fn labels<const N: usize>(labels: [(&str, &str); N]) -> Labels {
    labels.into_iter().map(|(key, value)| (key.into(), value.into())).collect()
}

fn port(name: &str, number: u16, protocol: Protocol) -> ContainerPort {
    ContainerPort { name: Some(name.into()), number, protocol, init: false }
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// A pod of a namespace on a node.
fn pod(namespace: &str, name: &str, node: &str, addresses: &[&str]) -> Pod {
    Pod {
        namespace: namespace.into(),
        name: name.into(),
        labels: labels([("pod", name)]),
        addresses: addresses.iter().map(|text| address(text)).collect(),
        ports: Vec::new(),
        host_network: false,
        owned: true,
        node: Some(node.into()),
        finished: false,
    }
}

/// The names of the nine pods of the cluster of cases.
fn pod_names() -> Vec<String> {
    let names = ["x", "w", "z"]
        .into_iter()
        .flat_map(|namespace| ["a", "b", "c"].into_iter().map(move |name| format!("{namespace}/{name}")));
    names.collect()
}

/// The cluster that cases are about; described in `cases.yaml`.
fn cluster(dual: bool) -> Cluster {
    let namespace = |name: &str, more: &[(&str, &str)]| {
        let mut labels = labels([("ns", name), ("kubernetes.io/metadata.name", name)]);
        labels.extend(more.iter().map(|(key, value)| (Arc::from(*key), Arc::from(*value))));
        Namespace { name: name.into(), labels }
    };
    let node = |name: &str, role: &str, address_text: &str| Node {
        name: name.into(),
        labels: labels([("role", role)]),
        addresses: vec![address(address_text)],
        pod_cidrs: Vec::new(),
    };
    let mut pods = Vec::new();
    for (index, namespace) in (1..).zip(["x", "w", "z"]) {
        for (number, name) in (1..).zip(["a", "b", "c"]) {
            let mut addresses = vec![format!("10.0.{index}.{number}")];
            if dual {
                addresses.push(format!("fd00::{index}:{number}"));
            }
            let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
            let mut pod = pod(namespace, name, if namespace == "z" { "n2" } else { "n1" }, &addresses);
            pod.ports = vec![port("serve-80", 80, Protocol::Tcp), port("udp-80", 80, Protocol::Udp)];
            let web = match (namespace, name) {
                ("x", "a") => Some((80, Protocol::Tcp)),
                ("x", "b") => Some((81, Protocol::Tcp)),
                ("w", "a") => Some((8080, Protocol::Tcp)),
                ("z", "a") => Some((80, Protocol::Udp)),
                _ => None,
            };
            pod.ports.extend(web.map(|(number, protocol)| port("web", number, protocol)));
            if namespace == "x" && name != "c" {
                pod.labels.insert("tier".into(), "web".into());
            }
            pods.push(pod);
        }
    }
    let mut host = pod("w", "host", "n1", &["192.168.0.1"]);
    host.host_network = true;
    let mut done = pod("z", "done", "n2", &["10.0.3.1"]);
    done.finished = true;
    pods.extend([host, done]);
    let service =
        |namespace: &str, name: &str, ip: &str, selector: Option<Labels>, ports: &[(u16, TargetPort)]| {
            Service {
                namespace: namespace.into(),
                name: name.into(),
                cluster_ips: vec![address(ip)],
                selector,
                ports: ports
                    .iter()
                    .map(|(port, target)| ServicePort {
                        name: Some(format!("port-{port}").into()),
                        protocol: Protocol::Tcp,
                        port: *port,
                        target: target.clone(),
                    })
                    .collect(),
                keeps_source: false,
                external: false,
            }
        };
    let mut lb =
        service("x", "lb", "10.96.0.4", Some(labels([("pod", "c")])), &[(80, TargetPort::Number(80))]);
    lb.external = true;
    let services = vec![
        service("x", "svc", "10.96.0.1", Some(labels([("pod", "a")])), &[(8080, TargetPort::Number(80))]),
        service(
            "x",
            "named",
            "10.96.0.2",
            Some(labels([("tier", "web")])),
            &[(80, TargetPort::Named("web".into()))],
        ),
        service("w", "manual", "10.96.0.3", None, &[(80, TargetPort::Number(80))]),
        service("x", "empty", "10.96.0.5", Some(labels([("pod", "none")])), &[(80, TargetPort::Number(80))]),
        lb,
    ];
    Cluster {
        namespaces: Known::Read(vec![
            namespace("x", &[]),
            namespace("w", &[("team", "blue")]),
            namespace("z", &[("team", "red")]),
        ]),
        pods: Known::Read(pods),
        nodes: Known::Read(vec![node("n1", "worker", "192.168.0.1"), node("n2", "infra", "192.168.0.2")]),
        services: Known::Read(services),
    }
}
