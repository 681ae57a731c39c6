//! Differences between sets of policies and between providers.

use settled_netpol::cluster::Known;
use settled_netpol::diff::{Change, diff};
use settled_netpol::feature::Feature;
use settled_netpol::model::{Place, Policy};
use settled_netpol::profile::{CarriedOut, Direction};
use settled_netpol::reach::{Deviation, Instead, View};

use super::{cluster, policies};

fn lines(changes: &[Change]) -> Vec<String> {
    changes.iter().map(ToString::to_string).collect()
}

fn compare(dual: bool, before: &[Policy], after: &[Policy]) -> Vec<String> {
    let cluster = cluster(dual);
    let (before, after) = (View::as_written(before), View::as_written(after));
    lines(&diff(&cluster, &before, &after).unwrap().changes)
}

/// The lines between pods, which the cluster of cases has nine of.
fn between<'l>(lines: &'l [String], from: &str, to: &str) -> Vec<&'l str> {
    let prefix = format!("{from} -> {to} ");
    lines.iter().filter_map(|line| line.strip_prefix(&prefix)).collect()
}

#[test]
fn ports_are_intervals() {
    let before = policies(
        "[{ns: x, spec: {podSelector: {matchLabels: {pod: a}}, ingress: [{ports: [{port: 80, endPort: 90}]}]}}]",
    );
    let after = policies(
        "[{ns: x, spec: {podSelector: {matchLabels: {pod: a}}, ingress: [{ports: [{port: 85, endPort: 95}]}]}}]",
    );
    let lines = compare(false, &before, &after);
    assert_eq!(
        between(&lines, "w/a", "x/a"),
        ["TCP 80-84: allowed -> denied", "TCP 91-95: denied -> allowed"]
    );
    assert_eq!(
        between(&lines, "0.0.0.0/0", "x/a"),
        ["TCP 80-84: allowed -> denied", "TCP 91-95: denied -> allowed"]
    );
    // Other pods, other nodes and all addresses: two changes each. The own node is always allowed.
    assert_eq!(lines.len(), 2 * (8 + 1 + 1));
    assert!(between(&lines, "w/host", "x/a").is_empty());
    assert_eq!(between(&lines, "nodes n2", "x/a").len(), 2);
}

#[test]
fn addresses_are_ranges() {
    let before = policies(
        "[{ns: x, spec: {podSelector: {matchLabels: {pod: a}}, ingress: [{from: [{podSelector: {}}, {ipBlock: {cidr: 20.0.0.0/8}}]}]}}]",
    );
    let after = policies(
        "[{ns: x, spec: {podSelector: {matchLabels: {pod: a}}, ingress: [{from: [{podSelector: {}}, {ipBlock: {cidr: 20.0.0.0/8, except: [20.64.0.0/10]}}]}]}}]",
    );
    assert_eq!(
        compare(false, &before, &after),
        ["20.64.0.0/10 -> x/a TCP 1-65535; UDP 1-65535; SCTP 1-65535 (IPv4): allowed -> denied"
            .replace(" (IPv4)", "")]
    );
}

#[test]
fn families_are_together_where_they_agree() {
    let none = Vec::new();
    let deny = policies(
        "[{ns: x, spec: {podSelector: {matchLabels: {pod: a}}, ingress: [{ports: [{port: 443}]}]}}]",
    );
    let lines = compare(true, &none, &deny);
    let all = "TCP 1-442,444-65535; UDP 1-65535; SCTP 1-65535";
    assert_eq!(between(&lines, "w/a", "x/a"), [format!("{all}: allowed -> denied")]);
    let v4 = policies(
        "[{ns: x, spec: {podSelector: {matchLabels: {pod: a}}, ingress: [{from: [{ipBlock: {cidr: 0.0.0.0/0}}]}]}}]",
    );
    let lines = compare(true, &none, &v4);
    let every = "TCP 1-65535; UDP 1-65535; SCTP 1-65535";
    assert_eq!(between(&lines, "w/a", "x/a"), [format!("{every} (IPv6): allowed -> denied")]);
}

#[test]
fn workloads_are_together_where_their_pods_agree() {
    let mut cluster = cluster(false);
    if let Known::Read(pods) = &mut cluster.pods {
        for (pod, name) in pods.iter_mut().zip(["web-5d9-a", "web-5d9-b", "web-5d9-c"]) {
            pod.name = name.into();
            pod.labels.insert("pod-template-hash".into(), "5d9".into());
        }
    }
    let none = View::default();
    let deny = policies(
        "[{ns: x, spec: {podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {ns: w}}}]}]}}]",
    );
    let after = View::as_written(&deny);
    let all = lines(&diff(&cluster, &none, &after).unwrap().changes);
    let every = "TCP 1-65535; UDP 1-65535; SCTP 1-65535: allowed -> denied";
    assert_eq!(between(&all, "x/web", "x/web"), [every]);
    assert_eq!(between(&all, "z/a", "x/web"), [every]);
    assert!(between(&all, "w/a", "x/web").is_empty());
    let some = policies("[{ns: x, spec: {podSelector: {matchLabels: {tier: web}}, policyTypes: [Egress]}}]");
    let after = View::as_written(&some);
    let some = lines(&diff(&cluster, &none, &after).unwrap().changes);
    assert_eq!(between(&some, "x/web (pods web-5d9-a, web-5d9-b)", "z/a"), [every]);
    // The two pods reach neither each other nor the third.
    assert_eq!(between(&some, "x/web (pods web-5d9-a, web-5d9-b)", "x/web"), [every]);
    assert_eq!(some.iter().filter(|line| line.contains("-> x/web")).count(), 1);
}

#[test]
fn versions_of_a_provider() {
    let cluster = cluster(false);
    let policies = policies(
        "[{ns: x, spec: {podSelector: {matchLabels: {pod: a}}, ingress: [{from: [{podSelector: {matchLabels: {pod: b}}}], ports: [{port: 30000, endPort: 32767}]}]}}]",
    );
    let deviations = [Deviation {
        policy: policies[0].id.clone(),
        place: Place("spec.ingress[0].ports[0].endPort".into()),
        direction: Some(Direction::Ingress),
        feature: Some(Feature::PortEnd),
        instead: Instead::Known(CarriedOut::FirstPort),
        message: "only the first port".into(),
    }];
    let old = View::carried_out(&policies, &deviations);
    let new = View::as_written(&policies);
    let changes = diff(&cluster, &old, &new).unwrap().changes;
    assert_eq!(lines(&changes), ["x/b -> x/a TCP 30001-32767: denied -> allowed"]);
}

#[test]
fn what_was_not_read_is_named() {
    let mut cluster = cluster(false);
    cluster.nodes = Known::Unread("forbidden".into());
    let result = diff(&cluster, &View::default(), &View::default()).unwrap();
    assert_eq!(result.left_out[0].to_string(), "nodes are not known: forbidden");
    cluster.pods = Known::Unread("forbidden".into());
    assert!(diff(&cluster, &View::default(), &View::default()).is_err());
}
