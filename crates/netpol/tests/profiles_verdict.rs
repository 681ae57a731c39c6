//! Embedded profiles against policies that ask for one feature each: the verdict has the deviation that the table of rows expects.

use settled_netpol::feature::Feature;
use settled_netpol::parse::Parsed;
use settled_netpol::profile::{Direction, Support};
use settled_netpol::verdict::{ErrorDirection, Evaluator, Extent, Subject};

use crate::profiles::{Line, profiles, table};
use crate::support::{network_policy, parsed};
use settled_netpol::model::Family;

/// A policy with the feature; None for those that need a cluster.
fn sample(line: &Line) -> Option<Parsed> {
    let is_egress = line.circumstances.direction == Some(Direction::Egress);
    let (list, peers) = if is_egress { ("egress", "to") } else { ("ingress", "from") };
    let types = if is_egress { "[Egress]" } else { "[Ingress]" };
    let rule = |rule: &str| {
        let rule = rule.replace("PEERS", peers);
        Some(network_policy("sample", &format!("podSelector: {{}}\npolicyTypes: {types}\n{list}: [{rule}]")))
    };
    let egress = |rule: &str| {
        Some(network_policy("sample", &format!("podSelector: {{}}\npolicyTypes: [Egress]\negress: [{rule}]")))
    };
    match line.feature {
        Feature::KindNetworkPolicy | Feature::PeersAny => rule("{ports: [{protocol: TCP, port: 80}]}"),
        Feature::PortAny => rule("{ports: [{protocol: TCP}]}"),
        Feature::PortProtocolDefaulted => rule("{ports: [{port: 80}]}"),
        Feature::PortNamed => {
            rule("{PEERS: [{podSelector: {matchLabels: {a: b}}}], ports: [{protocol: TCP, port: web}]}")
        }
        Feature::PortNamedAnyPeer => egress("{ports: [{protocol: TCP, port: web}]}"),
        Feature::PortNamedWithBlock => {
            rule("{PEERS: [{ipBlock: {cidr: 192.0.2.0/24}}], ports: [{protocol: TCP, port: web}]}")
        }
        Feature::PortEnd => rule("{ports: [{protocol: TCP, port: 80, endPort: 90}]}"),
        Feature::ProtoSctp => rule("{ports: [{protocol: SCTP, port: 80}]}"),
        Feature::PortsAny | Feature::PeerPods => rule("{PEERS: [{podSelector: {matchLabels: {a: b}}}]}"),
        Feature::PeerNamespaces => rule("{PEERS: [{namespaceSelector: {matchLabels: {a: b}}}]}"),
        Feature::PeerAllNamespaces => rule("{PEERS: [{namespaceSelector: {}}]}"),
        Feature::PeerCombined => {
            rule("{PEERS: [{namespaceSelector: {matchLabels: {a: b}}, podSelector: {matchLabels: {a: b}}}]}")
        }
        Feature::PeerEmptySelector => rule("{PEERS: [{podSelector: {}}]}"),
        Feature::IpBlock | Feature::IpBlockV4 | Feature::IpBlockIngress => {
            rule("{PEERS: [{ipBlock: {cidr: 192.0.2.0/24}}]}")
        }
        Feature::IpBlockEgress => egress("{to: [{ipBlock: {cidr: 192.0.2.0/24}}]}"),
        Feature::IpBlockV6 => rule("{PEERS: [{ipBlock: {cidr: '2001:db8::/32'}}]}"),
        Feature::IpBlockExcept => rule("{PEERS: [{ipBlock: {cidr: 192.0.2.0/24, except: [192.0.2.1/32]}}]}"),
        Feature::IpBlockZero if line.circumstances.family == Some(Family::V6) => {
            rule("{PEERS: [{ipBlock: {cidr: '::/0'}}]}")
        }
        Feature::IpBlockZero => rule("{PEERS: [{ipBlock: {cidr: 0.0.0.0/0}}]}"),
        Feature::SelectorNegative => {
            rule("{PEERS: [{podSelector: {matchExpressions: [{key: a, operator: DoesNotExist}]}}]}")
        }
        Feature::TypesEgress => egress("{}"),
        Feature::TypesDefaulted => {
            Some(network_policy("sample", "podSelector: {}\ningress: [{ports: [{protocol: TCP, port: 80}]}]"))
        }
        Feature::IsolationIngress => {
            Some(network_policy("sample", "podSelector: {}\npolicyTypes: [Ingress]"))
        }
        Feature::IsolationEgress => Some(network_policy("sample", "podSelector: {}\npolicyTypes: [Egress]")),
        Feature::KindAdminNetworkPolicy => {
            Some(admin("v1alpha1", "AdminNetworkPolicy", "sample", "priority: 5", "Deny"))
        }
        Feature::KindBaselineAdminNetworkPolicy => {
            Some(admin("v1alpha1", "BaselineAdminNetworkPolicy", "default", "", "Deny"))
        }
        Feature::ActionPass => Some(admin("v1alpha1", "AdminNetworkPolicy", "sample", "priority: 5", "Pass")),
        Feature::KindClusterNetworkPolicy => {
            Some(admin("v1alpha2", "ClusterNetworkPolicy", "sample", "tier: Admin\n  priority: 5", "Deny"))
        }
        _ => None,
    }
}

fn admin(version: &str, kind: &str, name: &str, head: &str, action: &str) -> Parsed {
    parsed(&format!(
        "apiVersion: policy.networking.k8s.io/{version}\nkind: {kind}\nmetadata: {{name: {name}}}\nspec:\n  {head}\n  subject: \
         {{namespaces: {{matchLabels: {{a: b}}}}}}\n  ingress: [{{action: {action}, from: [{{namespaces: {{matchLabels: {{c: \
         d}}}}}}]}}]\n"
    ))
}

#[test]
fn policies_with_one_feature_deviate_as_the_table_says() {
    let profiles = profiles();
    let (mut checked, mut wrong) = (0, Vec::new());
    for line in table(&profiles) {
        let Some(policy) = sample(&line) else { continue };
        assert!(policy.problems.is_empty(), "{}: {:?}", line.feature, policy.problems);
        let provider = profiles.provider(&line.provider).expect("a provider");
        let objects = [policy];
        let verdict = Evaluator::new(&provider, &objects, None).check(&objects[0]);
        let subject = Subject::Feature(line.feature);
        let deviation = verdict.deviations.iter().find(|deviation| deviation.subject == subject);
        // What follows from a kind that is ignored as a whole is reported once, as the kind.
        let is_kind = |subject: Subject| {
            subject.as_str().starts_with("kind.") && subject != Subject::Feature(line.feature)
        };
        let mut whole = verdict.deviations.iter().filter(|deviation| deviation.extent == Extent::Policy);
        if whole.any(|deviation| is_kind(deviation.subject)) {
            assert_eq!(deviation, None, "{} {}", line.provider, line.feature);
            continue;
        }
        let is_unanswered = verdict.unanswered.iter().any(|unanswered| unanswered.subject == subject);
        let is_expected = match (line.support, deviation) {
            (None, None) => is_unanswered,
            (Some(Support::Supported), None) => !is_unanswered,
            (Some(support), Some(deviation)) => {
                let is_error = match line.direction.as_str() {
                    "more" => deviation.error == ErrorDirection::More,
                    "less" => deviation.error == ErrorDirection::Less,
                    _ => true,
                };
                support == deviation.support && is_error
            }
            _ => false,
        };
        checked += 1;
        if !is_expected {
            wrong.push(format!(
                "rows.txt:{}: {} {}: expected {:?} {}, found {deviation:?}",
                line.number, line.provider, line.feature, line.support, line.direction
            ));
        }
    }
    assert!(wrong.is_empty(), "{} of {checked} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(checked > 1000, "{checked} lines");
}
