//! Properties over random clusters and policies: the evaluators agree, and a diff is exact.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use settled_apimachinery::labels::LabelSelector;
use settled_netpol::cluster::{Cluster, ContainerPort, Known, Labels, Namespace, Node, Pod};
use settled_netpol::diff::{Change, Party, diff};
use settled_netpol::model::{
    Action, Cidr, Family, IpBlock, Kind, Namespaces, Peer, PeerKind, Peers, Place, Policy, PolicyId, Port,
    PortNumbers, Ports, Protocol, Rule, Subject, Tier,
};
use settled_netpol::reach::{Ask, Endpoint, Evaluator, Outcome, Question, View};

use super::naive::{NaiveEnd, NaiveFlow, is_allowed};

/// All ports that the generated policies can tell from others, and some around them.
const PORTS: std::ops::RangeInclusive<u16> = 77..=85;
const PROTOCOLS: [Protocol; 3] = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];

fn place(text: impl Into<String>) -> Place {
    Place(text.into().into())
}

fn selector() -> impl Strategy<Value = LabelSelector> {
    const TEXTS: [&str; 10] =
        ["", "", "app=a", "app=b", "app in (a,b)", "app notin (a)", "tier", "!tier", "app=a,!tier", "env=p"];
    select(&TEXTS[..]).prop_map(|text| LabelSelector::parse(text).unwrap())
}

fn cidr() -> impl Strategy<Value = Cidr> {
    (0_u8..32, 27_u8..=32).prop_map(|(last, bits)| Cidr::parse(&format!("10.0.0.{last}/{bits}")).unwrap())
}

fn block() -> impl Strategy<Value = IpBlock> {
    let block = (cidr(), vec(cidr(), 0..3)).prop_map(|(cidr, except)| {
        let except =
            except.into_iter().filter(|inner| inner.bits > cidr.bits && cidr.contains(inner.network));
        IpBlock { cidr, except: except.collect() }
    });
    let everything =
        (select(&["0.0.0.0/0", "::/0", "0.0.0.0/1"][..]), vec(cidr(), 0..2)).prop_map(|(text, except)| {
            let cidr = Cidr::parse(text).unwrap();
            let except = except.into_iter().filter(|inner| cidr.contains(inner.network)).collect();
            IpBlock { cidr, except }
        });
    prop_oneof![3 => block, 1 => everything]
}

fn peer(namespaced: bool) -> impl Strategy<Value = PeerKind> {
    let selected = selector().prop_map(Namespaces::Selected);
    let namespaces =
        if namespaced { prop_oneof![Just(Namespaces::Own), selected].boxed() } else { selected.boxed() };
    prop_oneof![
        3 => (namespaces, option::of(selector())).prop_map(|(namespaces, pods)| PeerKind::Pods { namespaces, pods }),
        1 => block().prop_map(PeerKind::Block),
    ]
}

fn port() -> impl Strategy<Value = Port> {
    let numbers = prop_oneof![
        1 => Just(PortNumbers::Any),
        3 => (78_u16..=83, 0_u16..3).prop_map(|(first, more)| PortNumbers::Range { first, last: first + more }),
        2 => select(&["p", "q"][..]).prop_map(|name| PortNumbers::Named(name.into())),
    ];
    (select(&PROTOCOLS[..2]), numbers).prop_map(|(protocol, numbers)| Port {
        protocol,
        protocol_defaulted: false,
        numbers,
        place: place(""),
    })
}

fn rule(namespaced: bool) -> impl Strategy<Value = Rule> {
    let action = if namespaced {
        Just(Action::Allow).boxed()
    } else {
        select(&[Action::Allow, Action::Deny, Action::Deny, Action::Pass][..]).boxed()
    };
    let ports = option::of(vec(port(), 1..3));
    (action, option::weighted(0.8, vec(peer(namespaced), 1..3)), ports).prop_map(|(action, peers, ports)| {
        Rule {
            name: None,
            action,
            peers: peers.map_or(Peers::Any, |peers| {
                Peers::Of(peers.into_iter().map(|kind| Peer { kind, place: place("") }).collect())
            }),
            ports: ports.map_or(Ports::Any, Ports::Of),
            place: place(""),
        }
    })
}

/// Numbers the places, which are the same for all generated parts.
fn with_places(mut policy: Policy) -> Policy {
    for (direction, rules) in [("ingress", &mut policy.ingress), ("egress", &mut policy.egress)] {
        for (index, rule) in rules.iter_mut().flatten().enumerate() {
            let rule_place = format!("spec.{direction}[{index}]");
            if let Peers::Of(peers) = &mut rule.peers {
                for (index, peer) in peers.iter_mut().enumerate() {
                    peer.place = place(format!("{rule_place}.peers[{index}]"));
                }
            }
            if let Ports::Of(ports) = &mut rule.ports {
                for (index, port) in ports.iter_mut().enumerate() {
                    port.place = place(format!("{rule_place}.ports[{index}]"));
                }
            }
            rule.place = place(rule_place);
        }
    }
    policy
}

fn network_policy() -> impl Strategy<Value = Policy> {
    let rules = || option::weighted(0.7, vec(rule(true), 0..3));
    (select(&["x", "y"][..]), selector(), rules(), rules()).prop_map(|(namespace, pods, ingress, egress)| {
        Policy {
            id: PolicyId { kind: Kind::NetworkPolicy, namespace: namespace.into(), name: "".into() },
            generation: None,
            uid: None,
            tier: Tier::Namespace,
            subject: Subject { namespaces: Namespaces::Own, pods, place: place("spec.podSelector") },
            ingress,
            egress,
            types_defaulted: false,
        }
    })
}

fn cluster_policy() -> impl Strategy<Value = Policy> {
    let rules = || option::weighted(0.7, vec(rule(false), 1..4));
    (any::<bool>(), selector(), selector(), rules(), rules()).prop_map(
        |(admin, namespaces, pods, ingress, egress)| {
            let tier = if admin { Tier::Admin { priority: 0 } } else { Tier::Baseline { priority: 0 } };
            Policy {
                id: PolicyId { kind: Kind::ClusterNetworkPolicy, namespace: "".into(), name: "".into() },
                generation: None,
                uid: None,
                tier,
                subject: Subject {
                    namespaces: Namespaces::Selected(namespaces),
                    pods,
                    place: place("spec.subject"),
                },
                ingress,
                egress,
                types_defaulted: false,
            }
        },
    )
}

/// Policies with names and, in each tier, different priorities in any order.
fn policies() -> impl Strategy<Value = Vec<Policy>> {
    let priorities = Just((0..4_i64).collect::<Vec<_>>()).prop_shuffle();
    (vec(network_policy(), 0..5), vec(cluster_policy(), 0..4), priorities).prop_map(
        |(network, cluster, priorities)| {
            let mut policies: Vec<Policy> = network.into_iter().chain(cluster).map(with_places).collect();
            let mut priorities = priorities.into_iter();
            for (index, policy) in policies.iter_mut().enumerate() {
                policy.id.name = format!("p{index}").into();
                match &mut policy.tier {
                    Tier::Admin { priority } | Tier::Baseline { priority } => {
                        *priority = priorities.next().unwrap()
                    }
                    Tier::Namespace => {}
                }
            }
            policies
        },
    )
}

fn labels(pairs: &[(&str, Option<&str>)]) -> Labels {
    pairs.iter().filter_map(|(key, value)| Some((Arc::from(*key), Arc::from((*value)?)))).collect()
}

fn pod() -> impl Strategy<Value = Pod> {
    let ports = vec((select(&["p", "q"][..]), 79_u16..=82, select(&PROTOCOLS[..2])), 0..3);
    let app = select(&[None, Some("a"), Some("b"), Some("c")][..]);
    let tier = select(&[None, Some("t")][..]);
    (select(&["x", "y"][..]), app, tier, ports, 0..10_u8).prop_map(|(namespace, app, tier, ports, host)| {
        // Names of ports are unique in a pod.
        let mut declared: Vec<ContainerPort> = Vec::new();
        for (name, number, protocol) in ports {
            if declared.iter().all(|port| port.name.as_deref() != Some(name)) {
                declared.push(ContainerPort { name: Some(name.into()), number, protocol, init: false });
            }
        }
        Pod {
            namespace: namespace.into(),
            name: "".into(),
            labels: labels(&[("app", app), ("tier", tier)]),
            addresses: Vec::new(),
            ports: declared,
            host_network: host == 0,
            owned: true,
            node: Some(if host % 2 == 0 { "n1" } else { "n2" }.into()),
            finished: false,
        }
    })
}

fn cluster() -> impl Strategy<Value = Cluster> {
    let addresses = Just((0..32_u8).collect::<Vec<_>>()).prop_shuffle();
    (vec(pod(), 2..7), addresses).prop_map(|(mut pods, addresses)| {
        for (index, (pod, last)) in pods.iter_mut().zip(addresses).enumerate() {
            pod.name = format!("pod{index}").into();
            pod.addresses = vec![Ipv4Addr::new(10, 0, 0, last).into()];
        }
        let namespace =
            |name: &str, env: &str| Namespace { name: name.into(), labels: labels(&[("env", Some(env))]) };
        Cluster {
            namespaces: Known::Read(vec![namespace("x", "p"), namespace("y", "q")]),
            pods: Known::Read(pods),
            nodes: Known::Read(Vec::<Node>::new()),
            services: Known::Read(Vec::new()),
        }
    })
}

/// Addresses outside: all of the range that policies tell apart and pods do not have, and some beyond.
fn outside(cluster: &Cluster) -> Vec<IpAddr> {
    let taken: Vec<IpAddr> = pods(cluster).iter().flat_map(|pod| pod.addresses.clone()).collect();
    let near = (0..34_u8).map(|last| IpAddr::from([10, 0, 0, last]));
    let far = [[8, 8, 8, 8], [200, 0, 0, 1], [0, 0, 0, 0], [255, 255, 255, 255]].map(IpAddr::from);
    near.chain(far).filter(|address| !taken.contains(address)).collect()
}

fn pods(cluster: &Cluster) -> &[Pod] {
    cluster.pods.read().unwrap()
}

fn ends(cluster: &Cluster) -> Vec<NaiveEnd<'_>> {
    let outside = outside(cluster).into_iter().map(NaiveEnd::Outside);
    pods(cluster).iter().map(NaiveEnd::Pod).chain(outside).collect()
}

/// Every connection of one protocol and port that policies may be about.
fn flows(cluster: &Cluster, ports: impl Iterator<Item = u16> + Clone) -> Vec<NaiveFlow<'_>> {
    let ends = ends(cluster);
    let mut flows = Vec::new();
    for source in &ends {
        for destination in &ends {
            if matches!((source, destination), (NaiveEnd::Outside(_), NaiveEnd::Outside(_))) {
                continue;
            }
            for protocol in PROTOCOLS {
                flows.extend(ports.clone().map(|port| NaiveFlow {
                    source: *source,
                    destination: *destination,
                    protocol,
                    port,
                    v4: true,
                }));
            }
        }
    }
    flows
}

fn endpoint(end: NaiveEnd<'_>) -> Endpoint {
    match end {
        NaiveEnd::Pod(pod) => Endpoint::Pods { namespace: pod.namespace.clone(), name: pod.name.clone() },
        NaiveEnd::Outside(address) => Endpoint::Address(address),
    }
}

const fn outcome(allowed: bool) -> Outcome {
    if allowed { Outcome::Allowed } else { Outcome::Denied }
}

fn has(party: &Party, end: NaiveEnd<'_>) -> bool {
    match (party, end) {
        (Party::Pods { workload, pods, .. }, NaiveEnd::Pod(pod)) => {
            workload.namespace == pod.namespace && pods.contains(&pod.name)
        }
        (Party::Addresses(cidrs), NaiveEnd::Outside(address)) => {
            cidrs.iter().any(|cidr| cidr.contains(address))
        }
        _ => false,
    }
}

fn covers(change: &Change, flow: NaiveFlow<'_>) -> bool {
    let same_pod = match (flow.source, flow.destination) {
        (NaiveEnd::Pod(source), NaiveEnd::Pod(destination)) => std::ptr::eq(source, destination),
        _ => false,
    };
    !same_pod
        && has(&change.from, flow.source)
        && has(&change.to, flow.destination)
        && change.family.is_none()
        && change.traffic.iter().any(|(protocol, ranges)| {
            *protocol == flow.protocol
                && ranges.iter().any(|(first, last)| (*first..=*last).contains(&flow.port))
        })
}

/// An order for changes with exchanged outcomes.
fn sorted(changes: &[Change], exchange: bool) -> Vec<String> {
    let mut texts: Vec<String> = changes
        .iter()
        .map(|change| {
            let mut change = change.clone();
            if exchange {
                std::mem::swap(&mut change.before, &mut change.after);
            }
            format!("{change:?}")
        })
        .collect();
    texts.sort_unstable();
    texts
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn single_connections_agree_with_the_naive_evaluator(cluster in cluster(), policies in policies()) {
        let view = View::as_written(&policies);
        let evaluator = Evaluator::new(&cluster, &view);
        for flow in flows(&cluster, [79, 81].into_iter()) {
            let question = Question {
                from: endpoint(flow.source),
                to: endpoint(flow.destination),
                traffic: Ask::Port(flow.protocol, flow.port),
            };
            let answer = evaluator.ask(&question).unwrap();
            let expected = outcome(is_allowed(&cluster, &policies, flow));
            prop_assert_eq!(answer.outcome(), Some(expected), "{:?}", question);
        }
    }

    #[test]
    fn all_pairs_agree_with_the_naive_evaluator(cluster in cluster(), policies in policies()) {
        let view = View::as_written(&policies);
        let evaluator = Evaluator::new(&cluster, &view);
        for port in PORTS {
            for protocol in PROTOCOLS {
                let matrix = evaluator.all_pairs(protocol, port).unwrap();
                for (source, from) in matrix.pods().iter().enumerate() {
                    for (destination, to) in matrix.pods().iter().enumerate() {
                        let (from, to) = (NaiveEnd::Pod(from), NaiveEnd::Pod(to));
                        let flow = NaiveFlow { source: from, destination: to, protocol, port, v4: true };
                        let expected = outcome(is_allowed(&cluster, &policies, flow));
                        prop_assert_eq!(matrix.outcome(Family::V4, source, destination), Some(expected));
                    }
                }
            }
        }
    }

    #[test]
    fn all_ports_agree_with_the_naive_evaluator(cluster in cluster(), policies in policies()) {
        let view = View::as_written(&policies);
        let evaluator = Evaluator::new(&cluster, &view);
        for flow in flows(&cluster, PORTS.filter(|port| *port == 80)) {
            if matches!(flow.source, NaiveEnd::Outside(_)) || matches!(flow.destination, NaiveEnd::Outside(_)) {
                continue;
            }
            let question =
                Question { from: endpoint(flow.source), to: endpoint(flow.destination), traffic: Ask::AllPorts };
            let answer = evaluator.ask(&question).unwrap();
            for port in PORTS.chain([1, 65535]) {
                let covering: Vec<Outcome> = answer
                    .connections
                    .iter()
                    .filter(|answered| answered.protocol == flow.protocol)
                    .filter(|answered| answered.ports.iter().any(|(first, last)| (*first..=*last).contains(&port)))
                    .map(|answered| answered.connection.outcome)
                    .collect();
                let expected = outcome(is_allowed(&cluster, &policies, NaiveFlow { port, ..flow }));
                prop_assert_eq!(covering, vec![expected]);
            }
        }
    }

    #[test]
    fn a_diff_is_exact(cluster in cluster(), before in policies(), after in policies()) {
        let (from, to) = (View::as_written(&before), View::as_written(&after));
        let changes = diff(&cluster, &from, &to).unwrap().changes;
        for flow in flows(&cluster, PORTS.chain([1, 65535])) {
            let outcomes = [&before, &after].map(|policies| outcome(is_allowed(&cluster, policies, flow)));
            let covering: Vec<[Outcome; 2]> = changes
                .iter()
                .filter(|change| covers(change, flow))
                .map(|change| [change.before, change.after])
                .collect();
            let expected = if outcomes[0] == outcomes[1] { Vec::new() } else { vec![outcomes] };
            prop_assert_eq!(covering, expected);
        }
    }

    #[test]
    fn a_diff_is_antisymmetric_and_empty_for_the_same_policies(
        cluster in cluster(), before in policies(), after in policies(),
    ) {
        let (before, after) = (View::as_written(&before), View::as_written(&after));
        prop_assert_eq!(diff(&cluster, &before, &before).unwrap().changes, Vec::new());
        let forward = diff(&cluster, &before, &after).unwrap().changes;
        let backward = diff(&cluster, &after, &before).unwrap().changes;
        prop_assert_eq!(sorted(&forward, false), sorted(&backward, true));
    }

    #[test]
    fn what_is_not_read_never_changes_an_outcome(cluster in cluster(), policies in policies(), part in 0..2_u8) {
        // With less knowledge, an outcome stays or becomes unknown.
        let mut less = cluster.clone();
        let reason: Arc<str> = "forbidden".into();
        match part {
            0 => less.namespaces = Known::Unread(reason),
            _ => less.nodes = Known::Unread(reason),
        }
        let view = View::as_written(&policies);
        let full = Evaluator::new(&cluster, &view).all_pairs(Protocol::Tcp, 80).unwrap();
        let partial = Evaluator::new(&less, &view).all_pairs(Protocol::Tcp, 80).unwrap();
        for source in 0..full.pods().len() {
            for destination in 0..full.pods().len() {
                let [full, partial] = [&full, &partial].map(|matrix| matrix.outcome(Family::V4, source, destination));
                prop_assert!(partial == full || partial == Some(Outcome::Unknown));
            }
        }
    }
}
