//! Policies as providers carry them out, with the features that make the difference.

use settled_netpol::cluster::Cluster;
use settled_netpol::feature::Feature;
use settled_netpol::index::ClusterIndex;
use settled_netpol::model::{Family, Place, Policy, Protocol};
use settled_netpol::parse::parse_policy;
use settled_netpol::profile::{CarriedOut, Direction, Profiles};
use settled_netpol::reach::{
    Ask, Comparison, Deviation, Endpoint, Evaluator, Instead, Outcome, Question, View, compare,
};
use settled_netpol::verdict;

use super::{cluster, policies, yaml};

use Outcome::{Allowed, Denied, Unknown};

fn deviation(policy: &Policy, place: &str, feature: Feature, known: CarriedOut) -> Deviation {
    let direction = match feature {
        Feature::TypesEgress => Some(Direction::Egress),
        _ if place.starts_with("spec.ingress") => Some(Direction::Ingress),
        _ if place.starts_with("spec.egress") => Some(Direction::Egress),
        _ => None,
    };
    Deviation {
        policy: policy.id.clone(),
        place: Place(place.into()),
        direction,
        feature: Some(feature),
        instead: Instead::Known(known),
        message: "a deviation".into(),
    }
}

fn ask(
    cluster: &Cluster,
    policies: &[Policy],
    deviations: &[Deviation],
    (from, to, port): (&str, &str, u16),
) -> Comparison {
    let endpoint = |text: &str| text.parse::<Endpoint>().unwrap();
    let traffic = Ask::Port(Protocol::Tcp, port);
    let question = Question { from: endpoint(from), to: endpoint(to), traffic };
    let answer = compare(cluster, policies, &[], deviations, &question).unwrap();
    let [answered] = answer.connections.as_slice() else { panic!("{answer:?}") };
    answered.connection.clone()
}

/// A transformation of the only policy, and outcomes as written and as carried out.
fn check(
    text: &str,
    place: &str,
    feature: Feature,
    known: CarriedOut,
    expected: &[(&str, &str, u16, Outcome, Outcome)],
) {
    let (cluster, policies) = (cluster(false), policies(text));
    let deviation = deviation(&policies[0], place, feature, known);
    for (from, to, port, written, carried_out) in expected {
        let comparison = ask(&cluster, &policies, std::slice::from_ref(&deviation), (from, to, *port));
        let found = (comparison.written.outcome, comparison.carried_out.outcome);
        assert_eq!(found, (*written, *carried_out), "{known}: {from} -> {to} {port}");
        let because = if written == carried_out { Vec::new() } else { vec![deviation.clone()] };
        assert_eq!(comparison.because, because, "{known}: {from} -> {to} {port}");
    }
}

#[test]
fn first_port() {
    check(
        "[{ns: x, spec: {podSelector: {}, ingress: [{ports: [{port: 30000, endPort: 32767}]}]}}]",
        "spec.ingress[0].ports[0].endPort",
        Feature::PortEnd,
        CarriedOut::FirstPort,
        &[
            ("w/a", "x/a", 30000, Allowed, Allowed),
            ("w/a", "x/a", 30001, Allowed, Denied),
            ("w/a", "x/a", 29999, Denied, Denied),
        ],
    );
}

#[test]
fn all_ports_of_a_named_port() {
    check(
        "[{ns: x, spec: {podSelector: {}, ingress: [{ports: [{port: web}]}]}}]",
        "spec.ingress[0].ports[0].port",
        Feature::PortNamed,
        CarriedOut::AllPorts,
        &[("w/a", "x/a", 80, Allowed, Allowed), ("w/a", "x/a", 22, Denied, Allowed)],
    );
}

#[test]
fn a_named_port_of_any_pod() {
    check(
        "[{ns: x, spec: {podSelector: {}, policyTypes: [Egress], egress: [{ports: [{port: web}]}]}}]",
        "spec.egress[0].ports[0].port",
        Feature::PortNamed,
        CarriedOut::AnyPod,
        &[
            ("x/a", "x/b", 81, Allowed, Allowed),
            ("x/a", "x/b", 8080, Denied, Allowed),
            ("x/a", "z/c", 80, Denied, Allowed),
            ("x/a", "z/c", 82, Denied, Denied),
            ("x/a", "8.8.8.8", 80, Denied, Denied),
        ],
    );
}

#[test]
fn all_traffic() {
    check(
        "[{ns: x, spec: {podSelector: {}, ingress: [{ports: [{port: 80}]}]}}]",
        "spec.ingress[0].ports[0]",
        Feature::PortEnd,
        CarriedOut::AllTraffic,
        &[("w/a", "x/a", 81, Denied, Allowed)],
    );
}

#[test]
fn port_ignored_leaves_the_other_ports() {
    check(
        "[{ns: x, spec: {podSelector: {}, ingress: [{ports: [{port: web}, {port: 443}]}]}}]",
        "spec.ingress[0].ports[0].port",
        Feature::PortNamed,
        CarriedOut::PortIgnored,
        &[("w/a", "x/a", 80, Allowed, Denied), ("w/a", "x/a", 443, Allowed, Allowed)],
    );
}

#[test]
fn port_ignored_of_the_only_port_allows_nothing() {
    check(
        "[{ns: x, spec: {podSelector: {}, ingress: [{ports: [{port: web}]}]}}]",
        "spec.ingress[0].ports[0].port",
        Feature::PortNamed,
        CarriedOut::PortIgnored,
        &[("w/a", "x/a", 80, Allowed, Denied), ("w/a", "x/a", 443, Denied, Denied)],
    );
}

const BLOCKS: &str = "[{ns: x, spec: {podSelector: {}, policyTypes: [Egress], egress: [{to: [{ipBlock: {cidr: 10.0.0.0/8, except: [10.0.2.0/24]}}, \
                      {ipBlock: {cidr: 192.168.0.0/16}}]}]}}]";

#[test]
fn blocks() {
    let place = "spec.egress[0].to[0].ipBlock.except";
    check(
        BLOCKS,
        place,
        Feature::IpBlockExcept,
        CarriedOut::ExceptIgnored,
        &[("x/a", "w/a", 80, Denied, Allowed), ("x/a", "z/a", 80, Allowed, Allowed)],
    );
    for known in [CarriedOut::BlockIgnored, CarriedOut::PeerIgnored] {
        check(
            BLOCKS,
            place,
            Feature::IpBlockExcept,
            known,
            &[("x/a", "z/a", 80, Allowed, Denied), ("x/a", "node/n2", 80, Allowed, Allowed)],
        );
    }
    check(
        BLOCKS,
        "spec.egress[0].to[0].ipBlock",
        Feature::IpBlockPodAddress,
        CarriedOut::NeverMatchesPods,
        &[("x/a", "z/a", 80, Allowed, Denied), ("x/a", "10.9.9.9", 80, Allowed, Allowed)],
    );
    check(
        BLOCKS,
        "spec.egress[0].to[1].ipBlock",
        Feature::IpBlockNodeAddress,
        CarriedOut::NeverMatchesNodes,
        &[
            ("x/a", "node/n2", 80, Allowed, Denied),
            ("x/a", "192.168.7.7", 80, Allowed, Allowed),
            ("x/a", "z/a", 80, Allowed, Allowed),
        ],
    );
    check(
        BLOCKS,
        "spec.egress[0].to[0].ipBlock",
        Feature::IpBlockV4,
        CarriedOut::IgnoredFamily,
        &[("x/a", "z/a", 80, Allowed, Denied)],
    );
}

#[test]
fn any_peer() {
    check(
        "[{ns: x, spec: {podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {pod: b}}}], ports: [{port: 80}]}]}}]",
        "spec.ingress[0].from[0]",
        Feature::PeerPods,
        CarriedOut::PeerAny,
        &[("w/a", "x/a", 80, Denied, Allowed), ("w/a", "x/a", 81, Denied, Denied)],
    );
}

#[test]
fn rules_directions_and_policies() {
    let text = "[{ns: x, spec: {podSelector: {}, policyTypes: [Ingress, Egress], ingress: [{ports: [{port: 80}]}, {ports: [{port: 81}]}]}}]";
    check(
        text,
        "spec.ingress[0]",
        Feature::PortsAny,
        CarriedOut::RuleIgnored,
        &[("w/a", "x/a", 80, Allowed, Denied), ("w/a", "x/a", 81, Allowed, Allowed)],
    );
    check(
        text,
        "spec.policyTypes",
        Feature::TypesEgress,
        CarriedOut::DirectionIgnored,
        &[("x/a", "w/a", 80, Denied, Allowed), ("w/a", "x/a", 9, Denied, Denied)],
    );
    check(
        text,
        "spec.ingress[0].ports[0]",
        Feature::PortNamed,
        CarriedOut::PolicyIgnored,
        &[("w/a", "x/a", 9, Denied, Allowed), ("x/a", "w/a", 80, Denied, Allowed)],
    );
    check(
        text,
        "spec.ingress[0].ports[0]",
        Feature::PortNamed,
        CarriedOut::DenyAll,
        &[("w/a", "x/a", 80, Allowed, Denied), ("x/a", "w/a", 80, Denied, Denied)],
    );
}

#[test]
fn unowned_pods_are_not_isolated() {
    let mut cluster = cluster(false);
    let settled_netpol::cluster::Known::Read(pods) = &mut cluster.pods else { panic!() };
    pods[0].owned = false;
    let policies = policies("[{ns: x, spec: {podSelector: {}, policyTypes: [Ingress]}}]");
    let deviation =
        deviation(&policies[0], "spec.podSelector", Feature::PodsUnowned, CarriedOut::UnownedPodsIgnored);
    let deviations = [deviation];
    let unowned = ask(&cluster, &policies, &deviations, ("w/a", "x/a", 80));
    assert_eq!((unowned.written.outcome, unowned.carried_out.outcome), (Denied, Allowed));
    let owned = ask(&cluster, &policies, &deviations, ("w/a", "x/b", 80));
    assert_eq!(owned.carried_out.outcome, Denied);
}

#[test]
fn what_is_undefined_is_unknown_where_it_could_matter() {
    let cluster = cluster(false);
    let policies = policies(
        "[{ns: x, name: one, spec: {podSelector: {}, ingress: [{ports: [{port: 80, protocol: TCP}]}, {from: [{podSelector: {}}]}]}}]",
    );
    let deviations = [Deviation {
        policy: policies[0].id.clone(),
        place: Place("spec.ingress[0].ports[0].protocol".into()),
        direction: Some(Direction::Ingress),
        feature: Some(Feature::ProtoSctp),
        instead: Instead::Undefined("not documented".into()),
        message: "not documented".into(),
    }];
    let unknown = ask(&cluster, &policies, &deviations, ("w/a", "x/a", 80));
    assert_eq!((unknown.written.outcome, unknown.carried_out.outcome), (Allowed, Unknown));
    let reason = &unknown.carried_out.ingress.unwrap().unknown[0];
    assert_eq!(reason.to_string(), "NetworkPolicy/x/one spec.ingress[0].ports[0]: not documented");
    // Another rule allows it.
    assert_eq!(ask(&cluster, &policies, &deviations, ("x/b", "x/a", 80)).carried_out.outcome, Allowed);
    // The policy is not about it.
    assert_eq!(ask(&cluster, &policies, &deviations, ("x/b", "w/a", 80)).carried_out.outcome, Allowed);
}

#[test]
fn an_unknown_version_makes_every_isolated_pod_unknown() {
    let cluster = cluster(false);
    let policies = policies("[{ns: x, spec: {podSelector: {}, ingress: [{}]}}]");
    let view = View::unknown(&policies, &"the version of Cilium is not given".into());
    let matrix = Evaluator::new(&cluster, &view).all_pairs(Protocol::Tcp, 80).unwrap();
    let index = |name: &str| {
        matrix.pods().iter().position(|pod| format!("{}/{}", pod.namespace, pod.name) == name).unwrap()
    };
    let outcome = |from: &str, to: &str| matrix.outcome(Family::V4, index(from), index(to)).unwrap();
    assert_eq!(outcome("w/a", "x/a"), Unknown);
    assert_eq!(outcome("x/a", "w/a"), Allowed);
}

#[test]
fn of_two_deviations_that_only_together_make_the_difference_both_are_named() {
    let cluster = cluster(false);
    let policies = policies(
        "
- {ns: x, name: one, spec: {podSelector: {}, ingress: [{ports: [{port: web}]}]}}
- {ns: x, name: two, spec: {podSelector: {}, ingress: [{ports: [{port: web}]}]}}
- {ns: w, name: other, spec: {podSelector: {}, ingress: [{ports: [{port: web}]}]}}
",
    );
    let deviations: Vec<Deviation> = policies
        .iter()
        .map(|policy| {
            deviation(policy, "spec.ingress[0].ports[0].port", Feature::PortNamed, CarriedOut::PortIgnored)
        })
        .collect();
    let comparison = ask(&cluster, &policies, &deviations, ("z/a", "x/a", 80));
    assert_eq!((comparison.written.outcome, comparison.carried_out.outcome), (Allowed, Denied));
    assert_eq!(comparison.because, deviations[..2]);
}

#[test]
fn what_concerns_services_is_not_about_direct_traffic() {
    let cluster = cluster(false);
    let policies = policies("[{ns: x, spec: {podSelector: {}, ingress: [{ports: [{port: 80}]}]}}]");
    let deviations = [deviation(
        &policies[0],
        "spec.ingress[0].ports[0]",
        Feature::ServicePortDiffers,
        CarriedOut::PortIgnored,
    )];
    assert_eq!(ask(&cluster, &policies, &deviations, ("w/a", "x/a", 80)).carried_out.outcome, Allowed);
    // Port 8080 of the Service is port 80 of the pod; of the other Service, both are 80.
    let differs = ask(&cluster, &policies, &deviations, ("w/a", "service/x/svc", 8080));
    assert_eq!((differs.written.outcome, differs.carried_out.outcome), (Allowed, Denied));
    assert_eq!(differs.because, deviations);
    assert_eq!(
        ask(&cluster, &policies, &deviations, ("w/a", "service/x/lb", 80)).carried_out.outcome,
        Allowed
    );
}

#[test]
fn an_undefined_policy_isolates_or_not() {
    let cluster = cluster(false);
    let policies = policies("[{ns: x, spec: {podSelector: {}, ingress: [{from: [{podSelector: {}}]}]}}]");
    for place in ["spec", "spec.ingress", "spec.podSelector"] {
        let deviations = [Deviation {
            policy: policies[0].id.clone(),
            place: Place(place.into()),
            direction: None,
            feature: Some(Feature::KindNetworkPolicy),
            instead: Instead::Undefined("not documented".into()),
            message: "not documented".into(),
        }];
        for from in ["w/a", "x/b"] {
            assert_eq!(
                ask(&cluster, &policies, &deviations, (from, "x/a", 80)).carried_out.outcome,
                Unknown,
                "{place}"
            );
        }
    }
}

#[test]
fn addresses_of_nodes_that_were_not_read_are_unknown_for_blocks_alone() {
    let cluster = cluster(false);
    let policies = policies(
        "[{ns: x, spec: {podSelector: {}, policyTypes: [Egress], egress: [{to: [{ipBlock: {cidr: 10.0.0.0/8}}, {namespaceSelector: {}}]}]}}]",
    );
    let deviations = [Deviation {
        policy: policies[0].id.clone(),
        place: Place("spec".into()),
        direction: None,
        feature: Some(Feature::IpBlockNodeAddress),
        instead: Instead::Undefined("nodes could not be read".into()),
        message: "nodes could not be read".into(),
    }];
    assert_eq!(ask(&cluster, &policies, &deviations, ("x/a", "10.9.9.9", 80)).carried_out.outcome, Unknown);
    assert_eq!(ask(&cluster, &policies, &deviations, ("x/a", "w/a", 80)).carried_out.outcome, Allowed);
}

/// The first founding story: the developer with `endPort`, from the profile to the connection.
#[test]
fn from_a_profile_to_a_connection() {
    let cluster = cluster(false);
    let (profiles, errors) = Profiles::embedded();
    assert!(errors.is_empty(), "{errors:?}");
    let object = yaml(
        "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: range, namespace: x}, spec: {podSelector: {}, \
         ingress: [{ports: [{port: 30000, endPort: 32767}]}]}}",
    );
    let parsed = [parse_policy(&object, "x").unwrap()];
    let policies: Vec<Policy> = parsed.iter().filter_map(|parsed| parsed.policy.clone()).collect();
    let index = ClusterIndex::new(&cluster);
    let outcome = |provider: &str| {
        let provider = profiles.provider(&provider.parse().unwrap()).unwrap();
        let evaluator = verdict::Evaluator::new(&provider, &parsed, Some(&index));
        let deviations = Deviation::of_verdict(&evaluator.check(&parsed[0]));
        let comparison = ask(&cluster, &policies, &deviations, ("w/a", "x/a", 30001));
        assert_eq!(comparison.written.outcome, Allowed);
        let because = comparison.because.iter().map(|deviation| deviation.feature).collect::<Vec<_>>();
        (comparison.carried_out.outcome, because)
    };
    assert_eq!(outcome("cilium@1.15"), (Denied, vec![Some(Feature::PortEnd)]));
    assert_eq!(outcome("cilium@1.17"), (Allowed, Vec::new()));
    let (unknown, because) = outcome("cilium@99");
    assert_eq!(unknown, Unknown);
    assert!(!because.is_empty());
}
