//! Shared parts of the tests.

use serde_json::Value;
use settled_netpol::cluster::{Cluster, Known};
use settled_netpol::parse::{Parsed, parse_policy};
use settled_netpol::read_cluster;

/// A YAML document as JSON.
pub(crate) fn yaml(text: &str) -> Value {
    let mut json = Vec::new();
    settled_manifest::yaml_to_json(text.as_bytes(), &mut json).unwrap();
    serde_json::from_slice(&json).unwrap()
}

/// A policy of YAML, in the namespace `shop` if it has none.
pub(crate) fn parsed(text: &str) -> Parsed {
    parse_policy(&yaml(text), "shop").unwrap()
}

/// A NetworkPolicy with this spec, indented by nothing.
pub(crate) fn network_policy(name: &str, spec: &str) -> Parsed {
    let spec: String = spec.lines().map(|line| format!("  {line}\n")).collect();
    parsed(&format!(
        "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {{name: {name}, generation: 3}}\nspec:\n{spec}"
    ))
}

/// Problems as `place: message`.
pub(crate) fn problems(parsed: &Parsed) -> Vec<String> {
    parsed.problems.iter().map(ToString::to_string).collect()
}

/// The texts of a list.
pub(crate) fn texts(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect()
}

/// A snapshot of a list of objects.
pub(crate) fn cluster(objects: &Value) -> Cluster {
    let of =
        |kind: &'static str| objects.as_array().unwrap().iter().filter(move |object| object["kind"] == kind);
    Cluster {
        namespaces: Known::Read(
            of("Namespace").map(|object| read_cluster::namespace(object).unwrap()).collect(),
        ),
        pods: Known::Read(of("Pod").map(|object| read_cluster::pod(object).unwrap()).collect()),
        nodes: Known::Read(of("Node").map(|object| read_cluster::node(object).unwrap()).collect()),
        services: Known::Read(of("Service").map(|object| read_cluster::service(object).unwrap()).collect()),
    }
}
