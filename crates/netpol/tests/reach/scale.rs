//! Scale: all pairs of 1,000 pods with 500 policies. `cargo test --release -p settled-netpol --test main -- --ignored scale --nocapture`

use std::time::{Duration, Instant};

use serde_json::json;
use settled_netpol::cluster::{Cluster, Known, Namespace, Node, Pod};
use settled_netpol::diff::diff;
use settled_netpol::model::{Family, Policy, Protocol};
use settled_netpol::reach::{Evaluator, Outcome, View};

use super::naive::{NaiveEnd, NaiveFlow, is_allowed};
use super::{labels, policy};

const NAMESPACES: usize = 10;

/// Pods with distinct labels: ten namespaces, each with workloads of five pods.
fn large_cluster(pods: usize) -> Cluster {
    let pods = (0..pods).map(|index| {
        let namespace = format!("ns{}", index % NAMESPACES);
        let app = format!("app{}", index / NAMESPACES / 5);
        let name = format!("{app}-{index}");
        Pod {
            namespace: namespace.into(),
            labels: labels([("app", &*app), ("name", &*name), ("controller-revision-hash", "1")]),
            name: name.into(),
            addresses: vec![
                format!("10.{}.{}.{}", index % NAMESPACES, index / 250, index % 250).parse().unwrap(),
            ],
            ports: vec![super::port("http", if index % 2 == 0 { 80 } else { 8080 }, Protocol::Tcp)],
            host_network: false,
            owned: true,
            node: Some(format!("node{}", index % 50).into()),
            finished: false,
        }
    });
    let namespaces = (0..NAMESPACES).map(|index| {
        let name = format!("ns{index}");
        let env = if index % 2 == 0 { "even" } else { "odd" };
        Namespace {
            labels: labels([("env", env), ("kubernetes.io/metadata.name", &*name)]),
            name: name.into(),
        }
    });
    Cluster {
        namespaces: Known::Read(namespaces.collect()),
        pods: Known::Read(pods.collect()),
        nodes: Known::Read(Vec::<Node>::new()),
        services: Known::Read(Vec::new()),
    }
}

/// Policies with all kinds of peers and ports; one in ten is an admin policy.
fn many_policies(count: usize) -> Vec<Policy> {
    let policies = (0..count).map(|index| {
        let app = |offset: usize| format!("app{}", (index + offset) % 20);
        if index % 10 == 9 {
            return json!({"name": format!("p{index}"), "anp": {
                "priority": index,
                "subject": {"pods": {"namespaceSelector": {}, "podSelector": {"matchLabels": {"app": app(0)}}}},
                "ingress": [
                    {"action": "Pass", "from": [{"namespaces": {"matchLabels": {"env": "even"}}}]},
                    {"action": "Deny", "from": [{"namespaces": {}}], "ports": [{"portNumber": {"protocol": "TCP", "port": 22}}]},
                ],
            }});
        }
        json!({"name": format!("p{index}"), "ns": format!("ns{}", index % NAMESPACES), "spec": {
            "podSelector": if index % 7 == 0 { json!({}) } else { json!({"matchLabels": {"app": app(1)}}) },
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [
                {"from": [{"podSelector": {"matchLabels": {"app": app(2)}}}, {"namespaceSelector": {"matchLabels": {"env": "odd"}}}],
                 "ports": [{"port": "http"}, {"port": 443}]},
                {"from": [{"ipBlock": {"cidr": format!("10.{}.0.0/16", index % 10), "except": [format!("10.{}.1.0/24", index % 10)]}}]},
            ],
            "egress": [
                {"to": [{"namespaceSelector": {}, "podSelector": {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": [app(3)]}]}}]},
                {"ports": [{"port": 53, "protocol": "UDP"}]},
            ],
        }})
    });
    policies.enumerate().map(|(index, short)| policy(&short, index)).collect()
}

#[test]
fn a_large_matrix_agrees_with_the_naive_evaluator() {
    let cluster = large_cluster(300);
    let policies = many_policies(60);
    let view = View::as_written(&policies);
    let matrix = Evaluator::new(&cluster, &view).all_pairs(Protocol::Tcp, 80).unwrap();
    let (mut allowed, mut denied) = (0, 0);
    for source in (0..300).step_by(7) {
        for destination in (0..300).step_by(11) {
            let [from, to] = [source, destination].map(|index| NaiveEnd::Pod(matrix.pods()[index]));
            let flow =
                NaiveFlow { source: from, destination: to, protocol: Protocol::Tcp, port: 80, v4: true };
            let expected = if is_allowed(&cluster, &policies, flow) {
                allowed += 1;
                Outcome::Allowed
            } else {
                denied += 1;
                Outcome::Denied
            };
            assert_eq!(
                matrix.outcome(Family::V4, source, destination),
                Some(expected),
                "{source} -> {destination}"
            );
        }
    }
    assert!(allowed > 50 && denied > 50, "{allowed} allowed, {denied} denied");
}

#[allow(clippy::print_stderr, reason = "a measurement is read with --nocapture")]
fn report(what: &str, took: Duration) {
    eprintln!("{what}: {took:?}");
}

#[test]
#[ignore = "measures time: run with --release on a quiet machine"]
fn scale_of_all_pairs_and_diff() {
    let cluster = large_cluster(1000);
    let policies = many_policies(500);
    let start = Instant::now();
    let view = View::as_written(&policies);
    let evaluator = Evaluator::new(&cluster, &view);
    let matrix = evaluator.all_pairs(Protocol::Tcp, 80).unwrap();
    let cells = matrix.by_workload();
    let took = start.elapsed();
    report("all pairs of 1,000 pods, 500 policies, by workload", took);
    assert!(!cells.is_empty());
    let start = Instant::now();
    let after = View::as_written(&policies[1..]);
    let changes = diff(&cluster, &view, &after).unwrap().changes;
    let compared = start.elapsed();
    report(&format!("diff without one policy, {} changes", changes.len()), compared);
    assert!(!changes.is_empty());
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert!(
        compared < took,
        "a diff, of all ports and both sets, takes {compared:?}, all pairs on one port {took:?}"
    );
}
