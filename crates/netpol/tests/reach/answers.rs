//! Answers: causes, remarks, unknown outcomes with their reasons, ranges, and questions without an answer.

use settled_netpol::cluster::{Cluster, Known};
use settled_netpol::model::{Kind, Policy, Protocol};
use settled_netpol::reach::{
    Answer, Ask, Connection, Decision, Effect, Endpoint, Evaluator, InvalidPort, NamedPorts, Outcome,
    Question, QuestionError, Remark, UnknownReason, UnreadPolicies, View,
};

use super::{cluster, policies};

fn question(from: &str, to: &str, traffic: Ask) -> Question {
    let endpoint = |text: &str| text.parse::<Endpoint>().unwrap();
    Question { from: endpoint(from), to: endpoint(to), traffic }
}

const HTTP: Ask = Ask::Port(Protocol::Tcp, 80);

fn try_ask(cluster: &Cluster, view: &View<'_>, from: &str, to: &str) -> Result<Answer, QuestionError> {
    Evaluator::new(cluster, view).ask(&question(from, to, HTTP))
}

/// The only connection of a question.
fn connection(cluster: &Cluster, view: &View<'_>, from: &str, to: &str) -> Connection {
    let answer = try_ask(cluster, view, from, to).unwrap();
    let [answered] = answer.connections.as_slice() else { panic!("{answer:?}") };
    answered.connection.clone()
}

fn causes(decision: Option<&Decision>) -> Vec<String> {
    let causes = decision.unwrap().causes.iter().map(|cause| {
        let places = [&cause.rule, &cause.peer, &cause.port].into_iter().flatten().map(ToString::to_string);
        format!("{} {:?} {}", cause.policy, cause.effect, places.collect::<Vec<_>>().join(" "))
    });
    causes.map(|text| text.trim_end().to_owned()).collect()
}

fn deny_and_allow() -> Vec<Policy> {
    policies(
        "
- {ns: x, name: deny, spec: {podSelector: {}, policyTypes: [Ingress]}}
- ns: x
  name: web
  spec:
    podSelector: {matchLabels: {tier: web}}
    ingress:
      - {from: [{podSelector: {matchLabels: {pod: none}}}]}
      - from: [{ipBlock: {cidr: 172.16.0.0/12}}, {namespaceSelector: {matchLabels: {ns: w}}}]
        ports: [{port: 443}, {port: 80}]
- {ns: w, name: out, spec: {podSelector: {matchLabels: {pod: b}}, policyTypes: [Egress]}}
",
    )
}

#[test]
fn an_allowed_connection_names_rule_peer_and_port() {
    let (cluster, policies) = (cluster(false), deny_and_allow());
    let view = View::as_written(&policies);
    let connection = connection(&cluster, &view, "w/a", "x/a");
    assert_eq!(connection.outcome, Outcome::Allowed);
    assert_eq!(causes(connection.egress.as_ref()), Vec::<String>::new());
    assert_eq!(
        causes(connection.ingress.as_ref()),
        ["NetworkPolicy/x/web Allows spec.ingress[1] spec.ingress[1].from[1] spec.ingress[1].ports[1]"]
    );
}

#[test]
fn a_denied_connection_names_the_policies_that_isolate() {
    let (cluster, policies) = (cluster(false), deny_and_allow());
    let view = View::as_written(&policies);
    let denied = connection(&cluster, &view, "z/a", "x/a");
    assert_eq!(denied.outcome, Outcome::Denied);
    assert_eq!(
        causes(denied.ingress.as_ref()),
        ["NetworkPolicy/x/deny Isolates", "NetworkPolicy/x/web Isolates"]
    );
    let both = connection(&cluster, &view, "w/b", "x/c");
    assert_eq!(causes(both.egress.as_ref()), ["NetworkPolicy/w/out Isolates"]);
    assert_eq!(causes(both.ingress.as_ref()), ["NetworkPolicy/x/deny Isolates"]);
}

#[test]
fn passes_are_among_the_causes() {
    let cluster = cluster(false);
    let policies = policies(
        "
- {name: pass, anp: {priority: 3, subject: {namespaces: {}}, ingress: [{action: Pass, from: [{namespaces: {}}]}]}}
- {ns: x, name: deny, spec: {podSelector: {}, policyTypes: [Ingress]}}
- {banp: {subject: {namespaces: {}}, ingress: [{action: Deny, from: [{namespaces: {}}]}]}}
",
    );
    let view = View::as_written(&policies);
    let by_network_policy = connection(&cluster, &view, "w/a", "x/a");
    assert_eq!(
        causes(by_network_policy.ingress.as_ref()),
        [
            "AdminNetworkPolicy/pass Passes spec.ingress[0] spec.ingress[0].from[0]",
            "NetworkPolicy/x/deny Isolates"
        ]
    );
    let by_baseline = connection(&cluster, &view, "w/a", "z/a");
    assert_eq!(by_baseline.outcome, Outcome::Denied);
    assert_eq!(by_baseline.ingress.unwrap().causes[1].effect, Effect::Denies);
}

#[test]
fn remarks_name_what_the_api_leaves_open() {
    let cluster = cluster(false);
    let policies = policies("[{ns: x, spec: {podSelector: {}, policyTypes: [Ingress, Egress]}}]");
    let view = View::as_written(&policies);
    let remarks = |from: &str, to: &str| connection(&cluster, &view, from, to).remarks;
    assert_eq!(remarks("x/a", "x/a"), [Remark::SamePod]);
    let host = Remark::HostNetwork { pod: "w/host".into() };
    assert_eq!(remarks("z/a", "w/host"), std::slice::from_ref(&host));
    assert!(remarks("w/host", "x/a").contains(&host));
    assert!(matches!(remarks("node/n1", "x/a")[..], [Remark::OwnNode { .. }]));
    assert_eq!(remarks("node/n1", "node/n2"), [Remark::NoPod]);
    assert_eq!(remarks("8.8.8.8", "x/c"), [Remark::SourceAddress { service: "x/lb".into() }]);
    let service = connection(&cluster, &view, "w/a", "service/x/lb");
    assert_eq!(service.remarks, [Remark::ServiceAddress { service: "x/lb".into() }]);
}

#[test]
fn a_service_is_each_of_its_pods_at_their_ports() {
    let cluster = cluster(false);
    let answer = try_ask(&cluster, &View::default(), "w/a", "service/x/named").unwrap();
    let targets = answer.connections.iter().map(|answered| (answered.to.to_string(), answered.ports.clone()));
    assert_eq!(
        targets.collect::<Vec<_>>(),
        [("x/a".to_owned(), vec![(80, 80)]), ("x/b".to_owned(), vec![(81, 81)])]
    );
}

#[test]
fn addresses_are_answered_in_ranges() {
    let cluster = cluster(false);
    let policies = policies(
        "
- ns: x
  spec:
    podSelector: {}
    ingress: [{from: [{ipBlock: {cidr: 20.0.0.0/8, except: [20.1.0.0/16, 20.3.0.0/16]}}]}]
",
    );
    let view = View::as_written(&policies);
    let answer = try_ask(&cluster, &view, "20.0.0.0/14", "x/a").unwrap();
    assert_eq!(answer.outcome(), None);
    let mut pieces: Vec<(String, Outcome)> = answer
        .connections
        .iter()
        .map(|answered| (answered.from.to_string(), answered.connection.outcome))
        .collect();
    pieces.sort_unstable();
    assert_eq!(
        pieces,
        [
            ("20.0.0.0/16, 20.2.0.0/16".to_owned(), Outcome::Allowed),
            ("20.1.0.0/16".to_owned(), Outcome::Denied),
            ("20.3.0.0/16".to_owned(), Outcome::Denied),
        ]
    );
}

#[test]
fn all_ports_are_answered_in_intervals() {
    let cluster = cluster(false);
    let policies = policies(
        "[{ns: x, spec: {podSelector: {}, ingress: [{ports: [{port: 80, endPort: 90}, {port: 85, endPort: 443}, {port: 53, protocol: UDP}]}]}}]",
    );
    let view = View::as_written(&policies);
    let answer = Evaluator::new(&cluster, &view).ask(&question("w/a", "x/a", Ask::AllPorts)).unwrap();
    let with = |protocol: Protocol, outcome: Outcome| {
        let mut ranges: Vec<(u16, u16)> = answer
            .connections
            .iter()
            .filter(|answered| answered.protocol == protocol && answered.connection.outcome == outcome)
            .flat_map(|answered| answered.ports.clone())
            .collect();
        ranges.sort_unstable();
        ranges
    };
    // The first entry that matches is the cause; the second one is that of 91 to 443 only.
    assert_eq!(with(Protocol::Tcp, Outcome::Allowed), [(80, 90), (91, 443)]);
    assert_eq!(with(Protocol::Tcp, Outcome::Denied), [(1, 79), (444, 65535)]);
    assert_eq!(with(Protocol::Udp, Outcome::Allowed), [(53, 53)]);
    assert_eq!(with(Protocol::Sctp, Outcome::Denied), [(1, 65535)]);
}

#[test]
fn namespaces_that_were_not_read_are_unknown_where_their_labels_matter() {
    let mut cluster = cluster(false);
    cluster.namespaces = Known::Unread("forbidden".into());
    let policies = policies(
        "
- ns: x
  spec:
    podSelector: {matchLabels: {pod: a}}
    ingress:
      - from: [{podSelector: {matchLabels: {pod: b}}}]
      - from: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: w}}}]
      - from: [{namespaceSelector: {matchLabels: {team: red}}, podSelector: {matchLabels: {pod: c}}}]
",
    );
    let view = View::as_written(&policies);
    assert_eq!(connection(&cluster, &view, "x/b", "x/a").outcome, Outcome::Allowed);
    assert_eq!(connection(&cluster, &view, "w/a", "x/a").outcome, Outcome::Allowed);
    // The pod does not match, whatever its namespace.
    assert_eq!(connection(&cluster, &view, "z/a", "x/a").outcome, Outcome::Denied);
    let unknown = connection(&cluster, &view, "z/c", "x/a");
    assert_eq!(unknown.outcome, Outcome::Unknown);
    let reason = UnknownReason::Namespace { name: "z".into(), reason: "forbidden".into() };
    assert_eq!(unknown.ingress.unwrap().unknown, [reason]);
}

#[test]
fn a_namespace_that_vanished_is_unknown() {
    let mut cluster = cluster(false);
    cluster.namespaces = Known::Read(Vec::new());
    let policies = policies(
        "[{ns: x, spec: {podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {team: red}}}]}]}}]",
    );
    let view = View::as_written(&policies);
    let unknown = connection(&cluster, &view, "z/c", "x/a");
    assert_eq!(unknown.outcome, Outcome::Unknown);
    assert_eq!(
        unknown.ingress.unwrap().unknown[0].to_string(),
        "labels of namespace \"z\" are not known: it was not found"
    );
}

#[test]
fn pods_that_were_not_read_are_unknown() {
    let mut cluster = cluster(false);
    cluster.pods = Known::Unread("forbidden".into());
    let view = View::default();
    let answer = try_ask(&cluster, &view, "x/a", "8.8.8.8").unwrap();
    assert_eq!(answer.outcome(), Some(Outcome::Unknown));
    assert_eq!(answer.unknown, [UnknownReason::Pods("forbidden".into())]);
    // Any address may be a pod's.
    let policies = policies("[{ns: x, spec: {podSelector: {}, policyTypes: [Ingress]}}]");
    let view = View::as_written(&policies);
    assert_eq!(connection(&cluster, &view, "8.8.8.8", "9.9.9.9").outcome, Outcome::Unknown);
    assert!(Evaluator::new(&cluster, &view).all_pairs(Protocol::Tcp, 80).is_err());
}

#[test]
fn a_node_that_was_not_read_is_unknown() {
    let mut cluster = cluster(false);
    cluster.nodes = Known::Unread("forbidden".into());
    let answer = try_ask(&cluster, &View::default(), "node/n1", "x/a").unwrap();
    assert_eq!(answer.unknown, [UnknownReason::Nodes("forbidden".into())]);
}

#[test]
fn an_address_may_be_that_of_the_own_node_if_nodes_were_not_read() {
    let mut cluster = cluster(false);
    cluster.nodes = Known::Unread("forbidden".into());
    let policies = policies("[{ns: x, spec: {podSelector: {}, policyTypes: [Ingress]}}]");
    let view = View::as_written(&policies);
    let unknown = connection(&cluster, &view, "192.168.0.9", "x/a");
    assert_eq!(unknown.outcome, Outcome::Unknown);
    assert_eq!(unknown.ingress.unwrap().unknown, [UnknownReason::Nodes("forbidden".into())]);
    // A range means addresses outside, and pods are no nodes.
    assert_eq!(connection(&cluster, &view, "192.168.0.0/24", "x/a").outcome, Outcome::Denied);
    assert_eq!(connection(&cluster, &view, "z/a", "x/a").outcome, Outcome::Denied);
}

#[test]
fn a_pod_without_an_address_is_unknown_to_blocks() {
    let mut cluster = cluster(false);
    if let Known::Read(pods) = &mut cluster.pods {
        pods[0].addresses.clear();
    }
    let policies = policies(
        "
- {ns: w, spec: {podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/8}}]}]}}
- {ns: z, spec: {podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 0.0.0.0/0}}]}]}}
",
    );
    let view = View::as_written(&policies);
    let unknown = connection(&cluster, &view, "x/a", "w/a");
    assert_eq!(unknown.outcome, Outcome::Unknown);
    assert_eq!(unknown.ingress.unwrap().unknown[0].to_string(), "pod x/a has no IPv4 address yet");
    assert_eq!(connection(&cluster, &view, "x/a", "z/a").outcome, Outcome::Allowed);
}

#[test]
fn policies_that_were_not_read_are_unknown_where_they_could_matter() {
    let (cluster, policies) = (cluster(false), deny_and_allow());
    let unread = |kind, namespace: Option<&str>| UnreadPolicies {
        kind,
        namespace: namespace.map(Into::into),
        reason: "forbidden".into(),
    };
    let outcome = |unread: UnreadPolicies, from: &str, to: &str| {
        connection(&cluster, &View::as_written(&policies).with_unread([unread]), from, to).outcome
    };
    // NetworkPolicies only allow: what is allowed stays allowed.
    let network = || unread(Kind::NetworkPolicy, Some("x"));
    assert_eq!(outcome(network(), "w/a", "x/a"), Outcome::Allowed);
    assert_eq!(outcome(network(), "z/a", "x/a"), Outcome::Unknown);
    assert_eq!(outcome(network(), "x/a", "z/a"), Outcome::Unknown);
    assert_eq!(outcome(network(), "w/a", "z/a"), Outcome::Allowed);
    // An admin policy could decide anything.
    assert_eq!(outcome(unread(Kind::AdminNetworkPolicy, None), "w/a", "x/a"), Outcome::Unknown);
    assert_eq!(outcome(unread(Kind::ClusterNetworkPolicy, None), "z/a", "x/a"), Outcome::Unknown);
    // A baseline is not evaluated for isolated pods.
    let baseline = || unread(Kind::BaselineAdminNetworkPolicy, None);
    assert_eq!(outcome(baseline(), "w/b", "x/a"), Outcome::Denied);
    assert_eq!(outcome(baseline(), "z/a", "z/b"), Outcome::Unknown);
}

#[test]
fn unknown_peers_are_unknown_unless_another_rule_decides() {
    let cluster = cluster(false);
    let mut policies = policies(
        "[{ns: x, spec: {podSelector: {}, ingress: [{from: [{podSelector: {}}, {podSelector: {matchLabels: {pod: b}}}]}]}}]",
    );
    let rule = &mut policies[0].ingress.as_mut().unwrap()[0];
    let settled_netpol::model::Peers::Of(peers) = &mut rule.peers else { panic!() };
    peers[1].kind = settled_netpol::model::PeerKind::Unknown("serviceAccounts".into());
    let view = View::as_written(&policies);
    assert_eq!(connection(&cluster, &view, "x/c", "x/a").outcome, Outcome::Allowed);
    let unknown = connection(&cluster, &view, "w/c", "x/a");
    assert_eq!(unknown.outcome, Outcome::Unknown);
    assert_eq!(
        unknown.ingress.unwrap().unknown[0].to_string(),
        "spec.ingress[0].from[1]: peer \"serviceAccounts\" is not known"
    );
}

#[test]
fn questions_without_an_answer() {
    let cluster = cluster(false);
    let error = |from: &str, to: &str| try_ask(&cluster, &View::default(), from, to).unwrap_err().to_string();
    assert_eq!(error("x/none", "x/a"), "x/none not found");
    assert_eq!(error("x/a", "node/n9"), "node/n9 not found");
    assert_eq!(error("x/a", "service/x/none"), "service/x/none not found");
    assert_eq!(error("z/done", "x/a"), "z/done has finished: it has no traffic");
    assert_eq!(
        error("service/x/lb", "x/a"),
        "service/x/lb is a Service: a Service does not open connections"
    );
    assert_eq!(error("x/a", "service/x/svc"), "service/x/svc has no TCP port 80");
    assert_eq!(error("x/a", "service/x/empty"), "service/x/empty selects no pods");
    assert_eq!(error("x/a", "2600::1"), "x/a and 2600::1 have no IP family in common");
}

#[test]
fn the_address_of_a_finished_pod_is_that_of_the_pod_that_has_it_now() {
    let cluster = cluster(false);
    let answer = try_ask(&cluster, &View::default(), "x/a", "10.0.3.1").unwrap();
    assert_eq!(answer.connections[0].to.to_string(), "z/a");
}

#[test]
fn a_matrix_is_grouped_by_workload() {
    let mut cluster = cluster(false);
    if let Known::Read(pods) = &mut cluster.pods {
        for (pod, name) in pods.iter_mut().zip(["web-5d9-a1b2c", "web-5d9-d3e4f"]) {
            pod.name = name.into();
            pod.labels.insert("pod-template-hash".into(), "5d9".into());
        }
    }
    let policies =
        policies("[{ns: x, spec: {podSelector: {matchLabels: {pod: a}}, policyTypes: [Ingress]}}]");
    let view = View::as_written(&policies);
    let matrix = Evaluator::new(&cluster, &view).all_pairs(Protocol::Tcp, 80).unwrap();
    let cells = matrix.by_workload();
    let counts = |from: &str, to: &str| {
        let cell = cells.iter().find(|cell| cell.from.to_string() == from && cell.to.to_string() == to);
        cell.map(|cell| (cell.allowed, cell.denied, cell.unknown))
    };
    // One of the two pods is isolated; its own connection to itself is not counted.
    assert_eq!(counts("x/web", "x/web"), Some((1, 1, 0)));
    assert_eq!(counts("w/a", "x/web"), Some((1, 1, 0)));
    assert_eq!(counts("x/web", "w/a"), Some((2, 0, 0)));
    assert_eq!(counts("x/c", "x/c"), None);
    assert_eq!(counts("z/done", "x/c"), None);
}

/// A name is what the destination's pods have; numbers and protocols may differ.
#[test]
fn a_port_by_name_is_that_of_the_pods() {
    let mut cluster = cluster(false);
    let policies = policies("[{ns: x, spec: {podSelector: {}, ingress: [{ports: [{port: 80}]}]}}]");
    let ask = |cluster: &Cluster, to: &str, port: &str| {
        let view = View::as_written(&policies);
        Evaluator::new(cluster, &view).ask(&question("w/a", to, port.parse().unwrap()))
    };
    let found = |answer: Result<Answer, QuestionError>| -> Vec<(String, String, Outcome)> {
        let connections = answer.unwrap().connections.into_iter();
        connections
            .map(|answered| {
                let (first, last) = answered.ports[0];
                assert_eq!((first, answered.ports.len()), (last, 1));
                let port = format!("{first}/{}", answered.protocol);
                (answered.to.to_string(), port, answered.connection.outcome)
            })
            .collect()
    };
    let expected = |to: &str, port: &str, outcome| vec![(to.to_owned(), port.to_owned(), outcome)];
    assert_eq!(found(ask(&cluster, "x/a", "web")), expected("x/a", "80/TCP", Outcome::Allowed));
    assert_eq!(found(ask(&cluster, "x/b", "web")), expected("x/b", "81/TCP", Outcome::Denied));
    assert_eq!(found(ask(&cluster, "z/a", "web")), expected("z/a", "80/UDP", Outcome::Allowed));
    assert_eq!(found(ask(&cluster, "z/a", "web/udp")), expected("z/a", "80/UDP", Outcome::Allowed));
    // An address of a pod is the pod.
    assert_eq!(found(ask(&cluster, "10.0.1.2", "web")), expected("x/b", "81/TCP", Outcome::Denied));
    // Of a Service, its own port; the pod's has another number.
    assert_eq!(
        found(ask(&cluster, "service/x/svc", "port-8080")),
        expected("x/a", "80/TCP", Outcome::Allowed)
    );
    let error = |to: &str, port: &str| ask(&cluster, to, port).unwrap_err().to_string();
    let has = "; it has serve-80 (80/TCP), udp-80 (80/UDP)";
    assert_eq!(error("x/c", "web"), format!("x/c has no port web{has}"));
    assert_eq!(
        error("z/a", "web/TCP"),
        "z/a has no port web/TCP; it has serve-80 (80/TCP), udp-80 (80/UDP), web (80/UDP)"
    );
    assert_eq!(error("service/x/svc", "web"), "service/x/svc has no port web; it has port-8080 (8080/TCP)");
    for to in ["8.8.8.8", "node/n2", "internet"] {
        assert_eq!(
            error(to, "web"),
            format!("{to} has no port web: only pods and Services have names of ports")
        );
    }
    // Pods of one workload with several numbers, and one without.
    let Known::Read(pods) = &mut cluster.pods else { unreachable!() };
    for pod in pods.iter_mut().filter(|pod| &*pod.namespace == "x") {
        pod.name = format!("app-7d4b9c6f5d-{}{}{0}{1}z", &pod.name, "x").into();
        pod.labels.insert("pod-template-hash".into(), "7d4b9c6f5d".into());
        pod.owned = true;
    }
    let answer = ask(&cluster, "x/app", "web").unwrap();
    let outcomes: Vec<Outcome> =
        answer.connections.iter().map(|answered| answered.connection.outcome).collect();
    assert_eq!(outcomes, [Outcome::Allowed, Outcome::Denied], "{answer:?}");
    let in_pod = |ports, pod: &str| NamedPorts { ports, pods: vec![pod.into()] };
    let remark = Remark::NamedPort {
        name: "web".into(),
        numbers: vec![
            in_pod(Vec::new(), "x/app-7d4b9c6f5d-cxcxz"),
            in_pod(vec![(Protocol::Tcp, 80)], "x/app-7d4b9c6f5d-axaxz"),
            in_pod(vec![(Protocol::Tcp, 81)], "x/app-7d4b9c6f5d-bxbxz"),
        ],
    };
    for answered in &answer.connections {
        assert!(answered.connection.remarks.contains(&remark), "{answered:?}");
    }
    assert_eq!(
        remark.to_string(),
        "port web is not the same in all pods: missing in x/app-7d4b9c6f5d-cxcxz; 80/TCP in x/app-7d4b9c6f5d-axaxz; \
         81/TCP in x/app-7d4b9c6f5d-bxbxz"
    );
}

#[test]
fn ports_are_read_as_users_write_them() {
    let port = |protocol, number| Ok(Ask::Port(protocol, number));
    let named = |protocol, name: &str| Ok(Ask::Named { protocol, name: name.into() });
    for (text, expected) in [
        ("80", port(Protocol::Tcp, 80)),
        ("53/UDP", port(Protocol::Udp, 53)),
        ("53/udp", port(Protocol::Udp, 53)),
        ("udp/53", port(Protocol::Udp, 53)),
        ("65535/sctp", port(Protocol::Sctp, 65535)),
        ("http", named(None, "http")),
        ("https-2", named(None, "https-2")),
        ("dns/UDP", named(Some(Protocol::Udp), "dns")),
        ("tcp/http", named(Some(Protocol::Tcp), "http")),
        ("0", Err(InvalidPort::Number("0".to_owned()))),
        ("65536/TCP", Err(InvalidPort::Number("65536".to_owned()))),
        ("80/ICMP", Err(InvalidPort::Protocol("ICMP".to_owned()))),
        ("80/", Err(InvalidPort::Protocol(String::new()))),
        ("", Err(InvalidPort::Malformed)),
        ("/TCP", Err(InvalidPort::Malformed)),
        ("-80", Err(InvalidPort::Malformed)),
        ("80-90", Err(InvalidPort::Malformed)),
        ("HTTP", Err(InvalidPort::Malformed)),
        ("a-name-too-long-for-a-port", Err(InvalidPort::Malformed)),
    ] {
        let read = text.parse::<Ask>();
        assert_eq!(read, expected, "{text}");
        if let Ok(ask) = read {
            assert_eq!(ask.to_string().parse(), Ok(ask), "{text}");
        }
    }
}
