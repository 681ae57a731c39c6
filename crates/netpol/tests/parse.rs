//! Parsing of the four kinds: what is valid is read, and the rest is a problem with its place.

use serde_json::json;
use settled_netpol::model::{Action, Kind, PeerKind, Peers, PortNumbers, Ports, Protocol, Rule, Tier};
use settled_netpol::parse::{Lost, ParseError, Severity, parse_policy};

use crate::support::{network_policy, parsed, problems, yaml};

fn peers(rule: &Rule) -> usize {
    match &rule.peers {
        Peers::Any => usize::MAX,
        Peers::Of(peers) => peers.len(),
    }
}

fn ports(rule: &Rule) -> Vec<(Protocol, PortNumbers)> {
    match &rule.ports {
        Ports::Any => Vec::new(),
        Ports::Of(ports) => ports.iter().map(|port| (port.protocol, port.numbers.clone())).collect(),
    }
}

#[test]
fn a_range_of_ports_has_its_place() {
    let parsed = network_policy(
        "egress",
        "podSelector: {matchLabels: {app: web}}\n\
         policyTypes: [Egress]\n\
         egress:\n\
         - to: [{ipBlock: {cidr: 10.0.0.0/8, except: [10.1.0.0/16]}}]\n\
         \x20 ports: [{port: 30000, endPort: 32000}, {protocol: UDP, port: dns}]",
    );
    assert_eq!(problems(&parsed), [""; 0]);
    assert_eq!(parsed.generation, Some(3));
    let policy = parsed.policy.unwrap();
    assert!(policy.ingress.is_none());
    let rule = &policy.egress.as_ref().unwrap()[0];
    assert_eq!(rule.place.to_string(), "spec.egress[0]");
    assert_eq!(
        ports(rule),
        [
            (Protocol::Tcp, PortNumbers::Range { first: 30000, last: 32000 }),
            (Protocol::Udp, PortNumbers::Named("dns".into())),
        ]
    );
    let Ports::Of(list) = &rule.ports else { panic!("no list") };
    assert_eq!(list[1].place.to_string(), "spec.egress[0].ports[1]");
    assert!(list[0].protocol_defaulted && !list[1].protocol_defaulted);
}

/// The documentation's table of absent and empty fields.
#[test]
fn absent_and_empty_fields_differ_where_the_api_says_so() {
    let policy = |spec: &str| network_policy("p", spec).policy.unwrap();
    // Neither direction is listed: ingress always, egress with rules.
    let default = policy("podSelector: {}");
    assert!(
        default.types_defaulted && default.ingress.as_ref().unwrap().is_empty() && default.egress.is_none()
    );
    let both = policy("podSelector: {}\negress: [{}]");
    assert!(both.ingress.is_some() && both.egress.as_ref().unwrap().len() == 1);
    let empty = policy("podSelector: {}\negress: []");
    assert!(empty.egress.is_none());
    let listed = policy("podSelector: {}\npolicyTypes: [Egress]");
    assert!(listed.ingress.is_none() && listed.egress.unwrap().is_empty() && !listed.types_defaulted);
    // Absent and empty peers are everything; so are absent and empty ports.
    let any = policy("podSelector: {}\ningress: [{}, {from: [], ports: []}]");
    for rule in any.ingress.unwrap() {
        assert!(matches!((&rule.peers, &rule.ports), (Peers::Any, Ports::Any)));
    }
    // An absent selector is an empty one.
    assert!(policy("{}").subject.pods.is_everything());
}

#[test]
fn invalid_parts_are_problems_and_the_rest_is_read() {
    let parsed = network_policy(
        "half",
        "podSelector: {}\n\
         ingress:\n\
         - from:\n\
         \x20 - podSelector: {matchExpressions: [{key: app, operator: Near, values: [a]}]}\n\
         \x20 - podSelector: {matchLabels: {app: web}}\n\
         \x20 - {}\n\
         \x20 - {podSelector: {}, ipBlock: {cidr: 10.0.0.0/8}}\n\
         \x20 - ipBlock: {cidr: 10.0.0.300/8}\n\
         \x20 - ipBlock: {cidr: 10.0.0.0/8, except: [11.0.0.0/16, 10.0.0.0/8]}\n\
         \x20 ports:\n\
         \x20 - {port: 70000}\n\
         \x20 - {port: web, endPort: 90}\n\
         \x20 - {endPort: 90}\n\
         \x20 - {port: 90, endPort: 80}\n\
         \x20 - {port: 80, protocol: tcp}\n\
         \x20 - {port: 443}\n\
         - 7",
    );
    assert_eq!(
        problems(&parsed),
        [
            r#"spec.ingress[0].from[0].podSelector: Invalid value: "Near" is not a valid label selector operator"#,
            "spec.ingress[0].from[2]: Required value: must specify a peer",
            "spec.ingress[0].from[3]: Forbidden: may not specify both ipBlock and another peer",
            r#"spec.ingress[0].from[4].ipBlock.cidr: Invalid value: "10.0.0.300/8": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"#,
            r#"spec.ingress[0].from[5].ipBlock.except[0]: Invalid value: "11.0.0.0/16": must be a strict subset of `cidr`"#,
            r#"spec.ingress[0].from[5].ipBlock.except[1]: Invalid value: "10.0.0.0/8": must be a strict subset of `cidr`"#,
            "spec.ingress[0].ports[0].port: Invalid value: 70000: must be between 1 and 65535, inclusive",
            "spec.ingress[0].ports[1].endPort: Invalid value: 90: may not be specified when `port` is non-numeric",
            "spec.ingress[0].ports[2].endPort: Invalid value: 90: may not be specified when `port` is not specified",
            "spec.ingress[0].ports[3].endPort: Invalid value: 80: must be greater than or equal to `port`",
            r#"spec.ingress[0].ports[4].protocol: Unsupported value: "tcp": supported values: "TCP", "UDP", "SCTP""#,
            "spec.ingress[1]: Invalid value: must be of type object, not number",
        ]
    );
    assert!(parsed.is_invalid());
    let rules = parsed.policy.unwrap().ingress.unwrap();
    assert_eq!(rules.len(), 1);
    assert_eq!(peers(&rules[0]), 2);
    assert_eq!(ports(&rules[0]), [(Protocol::Tcp, PortNumbers::Range { first: 443, last: 443 })]);
}

/// Without valid peers or ports, a rule matches nothing: it is not the rule for everything that an absent list is.
#[test]
fn a_rule_without_valid_parts_allows_nothing() {
    let parsed = network_policy("none", "podSelector: {}\ningress: [{from: [{}], ports: [{port: 0}]}]");
    let rules = parsed.policy.unwrap().ingress.unwrap();
    assert_eq!(peers(&rules[0]), 0);
    assert!(matches!(&rules[0].ports, Ports::Of(ports) if ports.is_empty()));
    let parsed = network_policy("none", "podSelector: {}\ningress: [{from: web}, {ports: 80}]");
    assert_eq!(
        parsed.problems.iter().map(|problem| problem.lost).collect::<Vec<_>>(),
        [Lost::Rule, Lost::Rule]
    );
    assert!(parsed.policy.unwrap().ingress.unwrap().is_empty());
}

#[test]
fn what_the_server_drops_is_a_warning() {
    let parsed = network_policy(
        "typo",
        "podSelector: {}\npolicyTypes: [Ingress]\ningress: [{form: []}]\negress: [{}]",
    );
    assert_eq!(
        problems(&parsed),
        [
            "spec.ingress[0].form: unknown field is ignored; known fields: ports, from",
            "spec.egress: rules are ignored: policyTypes does not list the direction",
        ]
    );
    assert!(parsed.problems.iter().all(|problem| problem.severity == Severity::Warning));
    assert!(!parsed.is_invalid());
}

#[test]
fn a_selector_of_pods_that_cannot_be_read_loses_the_policy() {
    for selector in
        ["7", "{matchLabels: [a]}", "{matchLabels: {app: 1}}", "{matchExpressions: [{key: a, operator: In}]}"]
    {
        let parsed = network_policy("p", &format!("podSelector: {selector}"));
        assert!(parsed.policy.is_none(), "{selector}");
        assert_eq!(parsed.problems[0].lost, Lost::Policy, "{selector}");
        assert!(parsed.problems[0].place.to_string().starts_with("spec.podSelector"), "{selector}");
    }
}

/// Ranges that were stored before the API server became strict keep their meaning.
#[test]
fn legacy_ranges_are_read_and_reported() {
    let parsed = network_policy("p", "podSelector: {}\ningress: [{from: [{ipBlock: {cidr: 010.0.0.1/8}}]}]");
    assert_eq!(parsed.problems.iter().map(|problem| problem.lost).collect::<Vec<_>>(), [Lost::Nothing]);
    let rules = parsed.policy.unwrap().ingress.unwrap();
    let Peers::Of(peers) = &rules[0].peers else { panic!("no peers") };
    let PeerKind::Block(block) = &peers[0].kind else { panic!("no block") };
    assert_eq!(block.cidr.to_string(), "10.0.0.0/8");
}

#[test]
fn other_kinds_and_versions_are_errors() {
    let object =
        |api: &str, kind: &str| parse_policy(&json!({"apiVersion": api, "kind": kind}), "d").unwrap_err();
    assert!(matches!(object("cilium.io/v2", "CiliumNetworkPolicy"), ParseError::UnsupportedKind { .. }));
    assert!(matches!(
        object("crd.projectcalico.org/v1", "NetworkPolicy"),
        ParseError::UnsupportedKind { .. }
    ));
    let error = object("policy.networking.k8s.io/v1alpha9", "ClusterNetworkPolicy");
    assert_eq!(
        error.to_string(),
        "ClusterNetworkPolicy of policy.networking.k8s.io/v1alpha9 has an unknown version; known: v1alpha2, v1beta1"
    );
    assert_eq!(parse_policy(&json!([]), "d").unwrap_err(), ParseError::NotAnObject { found: "a list" });
}

const ADMIN: &str = "
apiVersion: policy.networking.k8s.io/v1alpha1
kind: AdminNetworkPolicy
metadata: {name: tenants}
spec:
  priority: 34
  subject: {namespaces: {matchLabels: {tenant: a}}}
  ingress:
  - name: monitoring
    action: Pass
    from:
    - pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: prometheus}}}
    - namespaces: {matchLabels: {tenant: b}}
    ports:
    - portNumber: {protocol: UDP, port: 53}
    - portRange: {start: 8080, end: 9090}
    - namedPort: metrics
  egress:
  - action: Deny
    to:
    - networks: [10.0.0.0/8, 'fd00::/8']
    - nodes: {matchLabels: {pool: db}}
";

#[test]
fn an_admin_network_policy_is_read() {
    let parsed = parsed(ADMIN);
    assert_eq!(problems(&parsed), [""; 0]);
    assert_eq!(parsed.id.to_string(), "AdminNetworkPolicy/tenants");
    let policy = parsed.policy.unwrap();
    assert_eq!(policy.tier, Tier::Admin { priority: 34 });
    assert_eq!(policy.subject.place.to_string(), "spec.subject.namespaces");
    let rule = &policy.ingress.as_ref().unwrap()[0];
    assert_eq!((rule.name.as_deref(), rule.action), (Some("monitoring"), Action::Pass));
    // A named port is one of any protocol.
    assert_eq!(ports(rule).len(), 5);
    let rule = &policy.egress.as_ref().unwrap()[0];
    let Peers::Of(peers) = &rule.peers else { panic!("no peers") };
    let places: Vec<String> = peers.iter().map(|peer| peer.place.to_string()).collect();
    assert_eq!(
        places,
        ["spec.egress[0].to[0].networks[0]", "spec.egress[0].to[0].networks[1]", "spec.egress[0].to[1]"]
    );
}

#[test]
fn a_cluster_network_policy_is_read_in_both_versions() {
    for version in ["v1alpha2", "v1beta1"] {
        let parsed = parsed(&format!(
            "apiVersion: policy.networking.k8s.io/{version}\nkind: ClusterNetworkPolicy\nmetadata: {{name: base}}\nspec:\n  \
             tier: Baseline\n  priority: 7\n  subject: {{pods: {{podSelector: {{}}}}}}\n  egress:\n  - action: Accept\n    to:\n    \
             - domainNames: ['*.example.com', db.example.com.]\n    protocols:\n    - tcp: {{destinationPort: {{number: 443}}}}\n    \
             - sctp: {{destinationPort: {{range: {{start: 1, end: 9}}}}}}\n"
        ));
        assert_eq!(problems(&parsed), [""; 0]);
        let policy = parsed.policy.unwrap();
        assert_eq!(policy.id.kind, Kind::ClusterNetworkPolicy);
        assert_eq!(policy.tier, Tier::Baseline { priority: 7 });
        assert!(policy.ingress.is_none());
        let rule = &policy.egress.unwrap()[0];
        assert_eq!(
            ports(rule),
            [
                (Protocol::Tcp, PortNumbers::Range { first: 443, last: 443 }),
                (Protocol::Sctp, PortNumbers::Range { first: 1, last: 9 }),
            ]
        );
    }
}

#[test]
fn rules_of_the_crds_are_checked() {
    let mut object = yaml(ADMIN);
    object["spec"]["priority"] = json!(1001);
    object["spec"]["ingress"][0]["action"] = json!("Accept");
    object["spec"]["egress"][0]["to"] = json!([
        {"nodes": {}, "networks": ["10.0.0.0/8"]},
        {"services": {}},
        {"domainNames": ["a.example.com"]},
        {"namespaces": {"sameLabels": ["tenant"]}},
    ]);
    object["spec"]["egress"][0]["ports"] =
        json!([{"portRange": {"start": 9, "end": 1}}, {"portNumber": {"port": 0}}, {}]);
    let parsed = parse_policy(&object, "d").unwrap();
    let texts = problems(&parsed);
    let expected = [
        "spec.priority: Invalid value: 1001: must be between 0 and 1000, inclusive",
        r#"spec.ingress[0].action: Unsupported value: "Accept": supported values: "Allow", "Deny", "Pass""#,
        "spec.egress[0].to[0]: Invalid value: must have exactly one of namespaces, pods, nodes, networks, domainNames",
        "spec.egress[0].to[1].services: unknown field is ignored; known fields: namespaces, pods, nodes, networks, domainNames",
        "spec.egress[0].to[1]: Required value: must have one of namespaces, pods, nodes, networks, domainNames",
        "spec.egress[0].to[2].domainNames: Forbidden: domain names are for rules that allow only",
        "spec.egress[0].to[3].namespaces.sameLabels: Forbidden: relations to the subject's namespace are no longer part of the API",
        "spec.egress[0].ports[0].portRange: Invalid value: Start port must be less than End port",
        "spec.egress[0].ports[1].portNumber.port: Invalid value: 0: must be between 1 and 65535, inclusive",
        "spec.egress[0].ports[2]: Required value: must have one of portNumber, namedPort, portRange",
    ];
    assert_eq!(texts, expected);
    // Without a priority nobody can say when it is evaluated.
    assert!(parsed.policy.is_none());
    object["spec"]["priority"] = json!(1);
    let policy = parse_policy(&object, "d").unwrap().policy.unwrap();
    assert!(policy.ingress.is_none());
    // A Deny rule keeps a peer that is not understood: without it, the rule would deny less than nobody knows what.
    let egress = policy.egress.unwrap();
    let Peers::Of(peers) = &egress[0].peers else { panic!("no peers") };
    assert_eq!(peers.len(), 4);
    assert!(peers.iter().all(|peer| matches!(peer.kind, PeerKind::Unknown(_))));
}

#[test]
fn problems_are_bounded() {
    let rules = vec![json!("x".repeat(100_000)); 1_000];
    let parsed = parse_policy(
        &json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "x".repeat(100_000)},
                "spec": {"podSelector": {}, "ingress": rules}}),
        "d",
    )
    .unwrap();
    assert_eq!(parsed.problems.len(), 101);
    assert_eq!(parsed.problems[100].message, "901 more problems are not listed");
    assert!(parsed.problems.iter().all(|problem| problem.message.len() < 600));
    assert!(parsed.id.name.len() <= 253);
}
