//! Features of policies: data-driven cases, and what only a snapshot shows.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use settled_netpol::extract::features;
use settled_netpol::feature::{Count, Feature};
use settled_netpol::index::ClusterIndex;
use settled_netpol::parse::parse_policy;
use settled_netpol::profile::Profiles;
use settled_netpol::verdict::Evaluator;

use crate::support::{cluster, network_policy, texts, yaml};

#[test]
fn policies_have_the_features_of_their_fields() {
    let cases = yaml(include_str!("data/features.yaml"));
    let mut seen = BTreeSet::new();
    for case in cases.as_array().unwrap() {
        let object = match &case["object"] {
            Value::Null => json!({
                "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "p"}, "spec": case["spec"],
            }),
            object => object.clone(),
        };
        let parsed = parse_policy(&object, "shop").unwrap();
        assert_eq!(parsed.problems, [], "{}", case["name"]);
        let policy = parsed.policy.unwrap();
        let found: Vec<String> = features(&policy)
            .iter()
            .map(|used| format!("{} {}", used.place(&policy), used.feature))
            .collect();
        assert_eq!(found, texts(&case["features"]), "{}", case["name"]);
        seen.extend(features(&policy).iter().map(|used| used.feature));
    }
    // Each feature of a policy alone has a case. Protocols other than these three cannot be written in any of the kinds.
    let others =
        [Feature::ProtoOther, Feature::KindBaselineAdminNetworkPolicy, Feature::KindClusterNetworkPolicy];
    for feature in Feature::ALL {
        let is_expected = !feature.needs_cluster() && !others.contains(feature);
        assert_eq!(seen.contains(feature), is_expected, "{feature}");
    }
}

#[test]
fn ids_are_read_as_they_are_written() {
    let mut ids = BTreeSet::new();
    for feature in Feature::ALL {
        assert_eq!(feature.as_str().parse::<Feature>().as_ref(), Ok(feature));
        assert!(ids.insert(feature.as_str()), "{feature} is there twice");
    }
    for count in Count::ALL {
        assert!(ids.insert(count.as_str()), "{count} is there twice");
    }
    let error = "port.nameed".parse::<Feature>().unwrap_err();
    assert_eq!(error.to_string(), "unknown feature `port.nameed`; did you mean `port.named`?");
    assert_eq!("x".repeat(1000).parse::<Feature>().unwrap_err().near, None);
}

/// What only a snapshot shows: the verdict has a deviation for each, and none where the cluster does not have it.
#[test]
fn a_cluster_shows_more_features() {
    let data = yaml(include_str!("data/findings.yaml"));
    let cluster = cluster(&data["cluster"]);
    let index = ClusterIndex::new(&cluster);
    let features = Feature::ALL.iter().filter(|feature| feature.needs_cluster());
    let rows: Vec<String> = features
        .map(|feature| format!("  {feature}: [{{versions: '*', support: undefined, checked: unverified}}]\n"))
        .collect();
    let mut profiles = Profiles::default();
    let text = format!(
        "provider: p\ntitle: P\ndomain: p.example.com\nversions: {{from: '1', through: '1'}}\nunlisted: supported\nfeatures:\n{}",
        rows.concat()
    );
    assert!(profiles.add("p.yaml", &text).is_empty());
    let provider = profiles.provider(&"p@1".parse().unwrap()).unwrap();
    let cases: [(&str, &[&str]); 9] = [
        (
            "podSelector: {matchLabels: {app: agent}}",
            &["spec.podSelector pods.host-network", "spec.podSelector pods.unowned"],
        ),
        (
            "podSelector: {matchLabels: {app: web}}\ningress: [{ports: [{port: http}]}]",
            &["spec.ingress[0].ports[0].port port.named-ambiguous"],
        ),
        ("podSelector: {matchLabels: {app: web}}\ningress: [{ports: [{port: dns, protocol: UDP}]}]", &[]),
        (
            "podSelector: {matchLabels: {app: web}}\ningress: [{ports: [{port: mesh}]}]",
            &["spec.ingress[0].ports[0].port port.named-init-container"],
        ),
        (
            "podSelector: {matchLabels: {app: web}}\ningress: [{from: [{ipBlock: {cidr: 10.4.0.0/16}}, {ipBlock: {cidr: 192.168.0.7/32}}, {ipBlock: {cidr: 10.96.0.0/16}}]}]",
            &[
                "spec.ingress[0].from[0].ipBlock.cidr ipblock.pod-address",
                "spec.ingress[0].from[1].ipBlock.cidr ipblock.node-address",
                "spec.ingress[0].from[2].ipBlock.cidr ipblock.service-address",
            ],
        ),
        // The Service leads from 80 to 8080 of the pods of web.
        (
            "podSelector: {matchLabels: {app: web}}\npolicyTypes: [Egress]\negress: [{to: [{podSelector: {matchLabels: {app: web}}}], ports: [{port: 8000, endPort: 9000}]}]",
            &["spec.egress[0].ports[0] service.port-differs"],
        ),
        (
            "podSelector: {matchLabels: {app: web}}\npolicyTypes: [Egress]\negress: [{ports: [{port: 8080}]}]",
            &["spec.egress[0].ports[0] service.port-differs"],
        ),
        (
            "podSelector: {matchLabels: {app: web}}\npolicyTypes: [Egress]\negress: [{to: [{namespaceSelector: {matchLabels: {team: b}}}], ports: [{port: 8080}]}]",
            &[],
        ),
        (
            "podSelector: {matchLabels: {app: web}}\npolicyTypes: [Egress]\negress: [{ports: [{port: 80}]}]",
            &[],
        ),
    ];
    for (spec, expected) in cases {
        let parsed = network_policy("p", spec);
        let verdict = Evaluator::new(&provider, [&parsed], Some(&index)).check(&parsed);
        let found: Vec<String> = verdict
            .deviations
            .iter()
            .map(|deviation| format!("{} {}", deviation.place, deviation.subject.as_str()))
            .collect();
        assert_eq!(found, expected, "{spec}");
    }
}
