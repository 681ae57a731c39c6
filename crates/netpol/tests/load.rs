//! Large inputs: many policies are evaluated without a loop over pairs, and large ones in bounded memory.

use serde_json::{Value, json};
use settled_netpol::findings::findings;
use settled_netpol::index::ClusterIndex;
use settled_netpol::parse::{Parsed, parse_policy};
use settled_netpol::profile::Profiles;
use settled_netpol::verdict::{Evaluator, Outcome};

use crate::support::cluster;

fn policy(index: usize) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
        "metadata": {"name": format!("p{index}"), "namespace": format!("ns{}", index % 50)},
        "spec": {
            "podSelector": {"matchLabels": {"app": format!("a{}", index % 20)}},
            "ingress": [{
                "from": [{"namespaceSelector": {"matchLabels": {"team": format!("t{}", index % 7)}}}],
                "ports": [{"protocol": "TCP", "port": "http"}, {"protocol": "TCP", "port": 80, "endPort": 80 + index % 3}],
            }],
        },
    })
}

/// The count of the bar, in a debug build without a clock: what is quadratic here would take minutes.
#[test]
fn ten_thousand_policies_in_a_cluster_of_five_thousand_pods() {
    let mut objects = Vec::new();
    for namespace in 0..50 {
        objects.push(json!({"kind": "Namespace", "metadata": {"name": format!("ns{namespace}"), "labels": {"team": format!("t{}", namespace % 7)}}}));
        for pod in 0..100 {
            objects.push(json!({
                "kind": "Pod",
                "metadata": {"namespace": format!("ns{namespace}"), "name": format!("p{pod}"), "labels": {"app": format!("a{}", pod % 20)}},
                "spec": {"containers": [{"ports": [{"name": "http", "containerPort": 8080}]}]},
                "status": {"podIP": format!("10.{namespace}.0.{pod}")},
            }));
        }
    }
    let cluster = cluster(&objects.into());
    let index = ClusterIndex::new(&cluster);
    let policies: Vec<Parsed> = (0..10_000).map(|index| parse_policy(&policy(index), "d").unwrap()).collect();
    let mut profiles = Profiles::default();
    assert!(profiles.add("sample.yaml", include_str!("data/sample.yaml")).is_empty());
    let provider = profiles.provider(&"sample@1.15".parse().unwrap()).unwrap();
    let evaluator = Evaluator::new(&provider, &policies, Some(&index));
    let verdicts: Vec<Outcome> = policies.iter().map(|parsed| evaluator.check(parsed).outcome).collect();
    // Of each three, one has a range of a single port.
    assert_eq!(verdicts.iter().filter(|outcome| **outcome == Outcome::PartialFailure).count(), 6_666);
    let with_findings = policies.iter().filter(|parsed| {
        let policy = parsed.policy.as_ref().unwrap();
        findings(policy, Some(&index)).list.iter().any(|finding| finding.kind.as_str() != "unowned-pods")
    });
    assert_eq!(with_findings.count(), 0);
}

/// One policy of 20 MB: verdicts, messages and problems stay small.
#[test]
fn a_policy_of_20_mb_is_read() {
    let peers: Vec<Value> = (0..200_000_u32)
        .map(|index| {
            let cidr = format!("{}.{}.{}.0/24", 1 + index / 65_536, index / 256 % 256, index % 256);
            json!({"ipBlock": {"cidr": cidr, "except": [cidr.replace(".0/24", ".128/25")]}, "unknown-field-of-a-peer": "xxxxxxxxxxxx"})
        })
        .collect();
    let object = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "large"},
        "spec": {"podSelector": {}, "ingress": [{"from": peers}]},
    });
    assert!(serde_json::to_vec(&object).unwrap().len() > 20_000_000);
    let parsed = parse_policy(&object, "d").unwrap();
    assert_eq!(parsed.problems.len(), 101);
    let mut profiles = Profiles::default();
    assert!(profiles.add("sample.yaml", include_str!("data/sample.yaml")).is_empty());
    let provider = profiles.provider(&"sample@1.15/windows".parse().unwrap()).unwrap();
    let verdict = Evaluator::new(&provider, [&parsed], None).check(&parsed);
    assert_eq!(verdict.deviations.len(), 1_000);
    assert_eq!(verdict.more_deviations, 199_000);
    assert_eq!(verdict.outcome, Outcome::Failure);
}

/// Many ranges and many ports in one rule: nothing is kept for each pair of them.
#[test]
fn a_rule_with_many_ranges_and_many_ports_is_counted_once() {
    let peers: Vec<Value> = (0..30_000_u32)
        .map(|index| json!({"ipBlock": {"cidr": format!("10.{}.{}.0/24", index / 256, index % 256)}}))
        .collect();
    let ports: Vec<Value> = (1..60_000).map(|port| json!({"protocol": "TCP", "port": port})).collect();
    let object = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "large"},
        "spec": {"podSelector": {}, "policyTypes": ["Egress"], "egress": [{"to": peers, "ports": ports}]},
    });
    let parsed = parse_policy(&object, "d").unwrap();
    let mut profiles = Profiles::default();
    let text = "provider: p\ntitle: P\ndomain: p.example.com\nversions: {from: '1', through: '1'}\nunlisted: supported\nfeatures: {}\n\
                limits: [{of: ports.per-cidr-all-policies, max: 24, versions: '*', beyond: undefined, checked: unverified}]\n";
    assert!(profiles.add("p.yaml", text).is_empty());
    let provider = profiles.provider(&"p@1".parse().unwrap()).unwrap();
    let verdict = Evaluator::new(&provider, [&parsed], None).check(&parsed);
    assert_eq!(verdict.deviations.len() + verdict.more_deviations, 30_000);
    assert!(verdict.deviations[0].message.contains("not 59999"), "{}", verdict.deviations[0].message);
}
