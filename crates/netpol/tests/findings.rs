//! Semantic findings: data-driven cases, missing findings, and default deny that rests on a rejected policy.

use std::collections::BTreeSet;

use serde_json::json;
use settled_netpol::cluster::{Cluster, Known};
use settled_netpol::findings::{FindingKind, default_deny_findings, findings};
use settled_netpol::index::ClusterIndex;
use settled_netpol::parse::{Parsed, parse_policy};
use settled_netpol::profile::Profiles;
use settled_netpol::verdict::Evaluator;

use crate::support::{cluster, network_policy, texts, yaml};

#[test]
fn policies_have_the_findings_of_their_cluster() {
    let data = yaml(include_str!("data/findings.yaml"));
    let cluster = cluster(&data["cluster"]);
    let index = ClusterIndex::new(&cluster);
    let mut seen = BTreeSet::new();
    for case in data["cases"].as_array().unwrap() {
        let namespace = case["namespace"].as_str().unwrap_or("shop");
        let object = json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "p", "namespace": namespace},
            "spec": case["spec"],
        });
        let policy = parse_policy(&object, "shop").unwrap().policy.unwrap();
        let found = findings(&policy, Some(&index));
        let list: Vec<String> = found.list.iter().map(ToString::to_string).collect();
        assert_eq!(list, texts(&case["findings"]), "{}", case["name"]);
        assert_eq!(found.missing, [], "{}", case["name"]);
        seen.extend(found.list.iter().map(|finding| finding.kind));
    }
    for kind in FindingKind::ALL {
        assert_eq!(seen.contains(kind), *kind != FindingKind::DefaultDenyRejected, "{kind}");
    }
}

const SPEC: &str = "podSelector: {}\n\
    ingress: [{from: [{namespaceSelector: {matchLabels: {team: b}}}, {ipBlock: {cidr: 10.0.0.0/8}}], ports: [{protocol: TCP, port: web}]}]";

/// What could not be read is named, never clean.
#[test]
fn what_was_not_read_is_named() {
    let policy = network_policy("p", SPEC).policy.unwrap();
    let names = |missing: &[FindingKind]| -> Vec<&str> { missing.iter().map(|kind| kind.as_str()).collect() };
    let without = findings(&policy, None);
    assert_eq!(without.list, []);
    assert_eq!(without.missing.len(), 1);
    assert_eq!(
        (without.missing[0].objects, &*without.missing[0].reason),
        ("cluster", "no cluster was given")
    );
    assert_eq!(
        names(&without.missing[0].kinds),
        [
            "subject-empty",
            "host-network-pods",
            "unowned-pods",
            "peer-without-namespace",
            "peer-empty",
            "named-port-missing",
            "named-port-ambiguous",
            "named-port-other-protocol",
            "block-over-pods",
            "block-over-nodes",
            "block-over-services",
        ]
    );
    let forbidden = |objects: &str| format!("{objects} is forbidden");
    let unread = Cluster {
        namespaces: Known::Unread(forbidden("namespaces").into()),
        pods: Known::Unread(forbidden("pods").into()),
        nodes: Known::Unread(forbidden("nodes").into()),
        services: Known::Unread(forbidden("services").into()),
    };
    let index = ClusterIndex::new(&unread);
    let found = findings(&policy, Some(&index));
    assert_eq!(found.list, []);
    let missing: Vec<(&str, &str, Vec<&str>)> = found
        .missing
        .iter()
        .map(|missing| (missing.objects, &*missing.reason, names(&missing.kinds)))
        .collect();
    assert_eq!(
        missing,
        [
            (
                "pods",
                "pods is forbidden",
                vec![
                    "subject-empty",
                    "host-network-pods",
                    "unowned-pods",
                    "named-port-missing",
                    "named-port-ambiguous",
                    "named-port-other-protocol",
                    "block-over-pods",
                ],
            ),
            ("namespaces", "namespaces is forbidden", vec!["peer-without-namespace", "peer-empty"]),
            ("nodes", "nodes is forbidden", vec!["block-over-nodes"]),
            ("services", "services is forbidden", vec!["block-over-services"]),
        ]
    );
}

fn default_deny(policies: &[Parsed]) -> Vec<Vec<String>> {
    let mut profiles = Profiles::default();
    assert!(profiles.add("sample.yaml", include_str!("data/sample.yaml")).is_empty());
    let provider = profiles.provider(&"sample@1.5.7/windows".parse().unwrap()).unwrap();
    let evaluator = Evaluator::new(&provider, policies, None);
    let texts = |parsed: &Parsed| {
        let found = default_deny_findings(&evaluator, parsed, &evaluator.check(parsed));
        found.iter().map(ToString::to_string).collect()
    };
    policies.iter().map(texts).collect()
}

#[test]
fn default_deny_that_rests_on_a_rejected_policy_is_found() {
    let except = "podSelector: {}\ningress: [{from: [{ipBlock: {cidr: 10.0.0.0/8, except: [10.1.0.0/16]}}]}]";
    let dropped = || network_policy("dropped", except);
    let deny = || network_policy("deny", "podSelector: {}\npolicyTypes: [Ingress]");
    let refused = || {
        network_policy("refused", "podSelector: {}\npolicyTypes: [Ingress]\ningress: [{ports: [{port: 0}]}]")
    };
    assert_eq!(
        default_deny(&[dropped()]),
        [[
            "spec.ingress: ingress of pods is isolated by this policy alone, which Sample 1.5.7 ignores: all traffic is allowed \
           [default-deny-rejected]"
        ]]
    );
    assert_eq!(
        default_deny(&[refused()]),
        [[
            "spec.ingress: ingress of pods is isolated by this policy alone, which the API server refuses: all traffic is allowed \
           [default-deny-rejected]"
        ]]
    );
    let none: [Vec<String>; 2] = [Vec::new(), Vec::new()];
    assert_eq!(default_deny(&[dropped(), deny()]), none);
    assert_eq!(default_deny(&[refused(), deny()]), none);
    // Two that are both rejected keep each other from nothing.
    assert!(default_deny(&[dropped(), refused()]).iter().all(|found| found.len() == 1));
}
