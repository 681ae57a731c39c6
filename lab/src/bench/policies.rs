//! Network policies as teams of a large cluster write them, from a seed.

use serde_json::{Value, json};

use crate::bench::generate::Random;

pub(super) const SEED: u64 = 1;
/// The provider of the check: it carries out `endPort` by its first port, and limits lists of ports.
pub(super) const PROVIDER: &str = "cilium@1.15.0";
/// Namespaces, and applications in each.
pub(super) const NAMESPACES: usize = 20;
pub(super) const APPS: usize = 10;

pub(super) fn namespace(index: usize) -> String {
    format!("team-{}", index % NAMESPACES)
}

pub(super) fn app(index: usize) -> String {
    format!("app-{}", index % APPS)
}

/// A policy as teams write them: a subject, peers by labels, namespaces and addresses; some with ranges and named ports.
pub(super) fn policy(random: &mut Random, index: usize) -> Value {
    let mut below = |bound: usize| usize::try_from(random.below(bound as u64)).unwrap_or_default();
    let mut rule = |peers: &str| {
        let peer = match below(4) {
            0 => json!({"podSelector": {"matchLabels": {"app": app(below(APPS))}}}),
            1 => json!({
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace(below(NAMESPACES))}},
                "podSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": [app(below(APPS)), app(below(APPS))]}]},
            }),
            2 => json!({"ipBlock": {"cidr": "10.0.0.0/8", "except": [format!("10.{}.0.0/16", below(256))]}}),
            _ => json!({"namespaceSelector": {}}),
        };
        let port = match below(4) {
            0 => json!({"protocol": "TCP", "port": 30_000, "endPort": 32_000}),
            1 => json!({"protocol": "TCP", "port": "http"}),
            _ => json!({"protocol": "TCP", "port": 8080}),
        };
        json!({peers: [peer], "ports": [port, {"protocol": "UDP", "port": 53}]})
    };
    let (ingress, egress) = (json!([rule("from"), rule("from")]), json!([rule("to")]));
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": format!("policy-{index}"), "namespace": namespace(index), "labels": {"team": namespace(index)}},
        "spec": {
            "podSelector": {"matchLabels": {"app": app(index / NAMESPACES)}},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": ingress,
            "egress": egress,
        },
    })
}
