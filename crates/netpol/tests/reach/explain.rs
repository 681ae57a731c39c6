//! Explanations of policies.

use settled_netpol::explain::{ProviderRemark, explain};
use settled_netpol::model::Place;

use super::policies;

fn text(policy: &str) -> String {
    explain(&policies(policy)[0], &[]).to_string()
}

#[test]
fn default_deny() {
    assert_eq!(
        text("[{ns: shop, name: deny, spec: {podSelector: {}}}]"),
        "NetworkPolicy \"deny\" in namespace \"shop\".\n\
         It applies to all pods in namespace \"shop\" (podSelector is empty or missing).\n\
         Its rules only allow: what several policies allow for a pod adds up, and their order does not matter.\n\
         policyTypes is missing: it defaults to Ingress only, because there are no egress rules. To restrict egress without \
         rules, policyTypes must contain Egress.\n\
         Ingress: the pods are isolated and no rule allows anything (ingress is empty or missing): connections to them are \
         denied, unless another policy allows them or they come from the pod's own node.\n\
         Egress: not restricted by this policy (policyTypes does not contain Egress).\n"
    );
}

#[test]
fn rules_peers_and_ports() {
    let text = text(
        "
- ns: shop
  name: web
  spec:
    podSelector: {matchLabels: {app: web}}
    ingress:
      - {}
      - from:
          - {podSelector: {}}
          - {namespaceSelector: {}}
          - {namespaceSelector: {matchLabels: {team: blue}}, podSelector: {matchLabels: {app: api}}}
          - {ipBlock: {cidr: 10.0.0.0/8, except: [10.1.0.0/16]}}
        ports: [{port: 80}, {port: web, protocol: TCP}, {protocol: UDP}, {port: 30000, endPort: 32767, protocol: TCP}]
    egress: [{to: [{podSelector: {matchLabels: {app: db}}}], ports: []}]
",
    );
    for line in [
        "It applies to pods with labels app=web in namespace \"shop\".",
        "policyTypes is missing: it defaults to Ingress, which always applies, and Egress, because there are egress rules.",
        "  1. Allows all traffic, on all ports and protocols (ports is empty or missing), from every source, also outside of \
         the cluster (from is empty or missing).",
        "  2. Allows TCP port 80 (protocol is missing: TCP) or the TCP container port named \"web\" of the destination pod or \
         every UDP port (port is missing) or TCP ports 30000 to 32767 from any of these peers:",
        "    - all pods in namespace \"shop\"",
        "    - all pods in all namespaces (the namespace selector is empty)",
        "    - pods with labels app=api in namespaces with labels team=blue",
        "    - addresses in 10.0.0.0/8, except in 10.1.0.0/16",
        "  1. Allows all traffic, on all ports and protocols (ports is empty or missing), to this peer:",
        "    - pods with labels app=db in namespace \"shop\"",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\nin\n{text}");
    }
}

#[test]
fn egress_isolation_mentions_dns() {
    let text = text("[{ns: shop, spec: {podSelector: {}, policyTypes: [Egress]}}]");
    assert!(
        text.contains("Ingress: not restricted by this policy (policyTypes does not contain Ingress)."),
        "{text}"
    );
    assert!(text.contains("connections from them are denied, also to DNS"), "{text}");
    assert!(!text.contains("policyTypes is missing"), "{text}");
}

#[test]
fn admin_policies() {
    let text = text(
        "
- name: guard
  anp:
    priority: 7
    subject: {namespaces: {matchLabels: {team: blue}}}
    ingress: [{name: trusted, action: Pass, from: [{namespaces: {}}]}, {action: Deny, from: [{namespaces: {}}], ports: [{portNumber: {protocol: TCP, port: 22}}]}]
    egress: [{action: Allow, to: [{nodes: {matchLabels: {role: infra}}}, {networks: [10.0.0.0/8]}]}]
",
    );
    for line in [
        "AdminNetworkPolicy \"guard\".",
        "It applies to all pods in namespaces with labels team=blue. Pods with hostNetwork are not selected.",
        "It is evaluated before NetworkPolicies, with priority 7; the lowest number is evaluated first. The first rule that \
         matches decides.",
        "Ingress: rules in order; connections that match none are left to the policies after it:",
        "  2. Denies TCP port 22 from this peer:",
        "    - nodes with labels role=infra",
        "    - addresses in 10.0.0.0/8",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\nin\n{text}");
    }
    assert!(text.contains("  1. \"trusted\" Passes on to NetworkPolicies all traffic"), "{text}");
}

#[test]
fn remarks_of_the_provider_stand_with_their_part() {
    let policies = policies(
        "[{ns: shop, spec: {podSelector: {}, ingress: [{ports: [{port: 1, endPort: 9}]}, {from: [{ipBlock: {cidr: 10.0.0.0/8}}]}]}}]",
    );
    let remark = |place: Option<&str>, text: &str| ProviderRemark {
        place: place.map(|place| Place(place.into())),
        text: text.to_owned(),
    };
    let remarks = [
        remark(Some("spec.ingress[0].ports[0].endPort"), "only the first port."),
        remark(Some("spec.ingress[1].from[0].ipBlock"), "never pods."),
        remark(None, "limits."),
    ];
    let explanation = explain(&policies[0], &remarks);
    let lines: Vec<String> = explanation.to_string().lines().map(str::to_owned).collect();
    let after = |remark: &str| {
        let index = lines.iter().position(|line| line.trim() == format!("Provider: {remark}")).unwrap();
        lines[index - 1].clone()
    };
    assert!(after("only the first port.").starts_with("  1. Allows TCP ports 1 to 9"));
    assert_eq!(after("never pods."), "    - addresses in 10.0.0.0/8");
    assert!(after("limits.").starts_with("NetworkPolicy"));
}
