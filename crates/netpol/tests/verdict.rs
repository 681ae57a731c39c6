//! Verdicts by rule and policy: direction of the error, roll-up and messages.

use settled_apimachinery::conditions::validate_conditions;
use settled_apimachinery::field::Path;
use settled_netpol::cluster::{Cluster, Known};
use settled_netpol::conditions::{ConditionStatus, conditions, unknown_provider};
use settled_netpol::index::ClusterIndex;
use settled_netpol::parse::Parsed;
use settled_netpol::profile::Profiles;
use settled_netpol::read_cluster;
use settled_netpol::verdict::{ErrorDirection, Evaluator, Outcome, PolicyVerdict, Reason};

use crate::support::{network_policy, parsed, yaml};

const SAMPLE: &str = include_str!("data/sample.yaml");

/// A profile whose features have these rows, as YAML in one line each.
fn profile(features: &str, limits: &str) -> Profiles {
    let text = format!(
        "provider: p\ntitle: Plugin\ndomain: p.example.com\nversions: {{from: '1.0', through: '1.9'}}\nunlisted: supported\n\
         features:\n{features}\nlimits: [{limits}]\n"
    );
    let mut profiles = Profiles::default();
    let errors = profiles.add("p.yaml", &text);
    assert!(errors.is_empty(), "{errors:?}");
    profiles
}

fn check_all(
    profiles: &Profiles,
    provider: &str,
    policies: &[Parsed],
    cluster: Option<&Cluster>,
) -> Vec<PolicyVerdict> {
    let provider = profiles.provider(&provider.parse().unwrap()).unwrap();
    let index = cluster.map(ClusterIndex::new);
    let evaluator = Evaluator::new(&provider, policies, index.as_ref());
    policies.iter().map(|parsed| evaluator.check(parsed)).collect()
}

fn check(features: &str, spec: &str) -> PolicyVerdict {
    check_all(&profile(features, ""), "p@1.5", &[network_policy("web", spec)], None).remove(0)
}

fn sample() -> Profiles {
    let mut profiles = Profiles::default();
    assert!(profiles.add("sample.yaml", SAMPLE).is_empty());
    profiles
}

const RANGE: &str =
    "podSelector: {}\npolicyTypes: [Egress]\negress: [{ports: [{port: 30000, endPort: 32000}]}]";

/// The first founding story: the developer with `endPort`.
#[test]
fn a_range_of_ports_before_and_after_an_upgrade() {
    let policies = [network_policy("egress", RANGE)];
    let old = check_all(&sample(), "sample@1.15", &policies, None).remove(0);
    assert_eq!((old.outcome, old.reason), (Outcome::PartialFailure, Reason::FeatureNotSupported));
    let [accepted, partial, failure] = conditions(&old, None);
    assert_eq!(
        partial.message,
        "spec.egress[0].ports[0].endPort: Sample 1.15 allows only port 30000 of 30000-32000 (less than written); supported since \
         1.16"
    );
    assert_eq!(
        [&accepted, &partial, &failure].map(|condition| (condition.status, condition.observed_generation)),
        [(ConditionStatus::False, 3), (ConditionStatus::True, 3), (ConditionStatus::False, 3)]
    );
    assert_eq!(old.deviations[0].supported_since.as_deref(), Some("1.16"));
    assert_eq!(old.error(), Some(ErrorDirection::Less));
    let new = check_all(&sample(), "sample@1.16.1", &policies, None).remove(0);
    assert_eq!((new.outcome, new.reason), (Outcome::Accepted, Reason::Accepted));
    let [accepted, ..] = conditions(&new, Some(&new.domain));
    assert_eq!(accepted.condition_type, "sample.example.com/Accepted");
    assert_eq!(accepted.message, "Sample 1.16.1 carries out the policy as written");
}

#[test]
fn conditions_are_valid_ones() {
    let verdict = check_all(&sample(), "sample@1.15", &[network_policy("egress", RANGE)], None).remove(0);
    let unknown = unknown_provider(Some(1), "no provider was found");
    for list in [conditions(&verdict, None), conditions(&verdict, Some("sample.example.com")), unknown] {
        let values: Vec<_> =
            list.iter().map(|condition| condition.to_value("2026-01-01T00:00:00Z")).collect();
        let mut errors = Vec::new();
        validate_conditions(&values.into(), &Path::Nil.child("conditions"), &mut errors);
        assert_eq!(errors, []);
    }
}

#[test]
fn an_unknown_version_is_unknown() {
    for provider in ["sample", "sample@latest", "sample@1.19", "sample@1.16.0-rc.1"] {
        let verdict = check_all(&sample(), provider, &[network_policy("egress", RANGE)], None).remove(0);
        assert_eq!(
            (verdict.outcome, verdict.reason),
            (Outcome::Unknown, Reason::VersionUnknown),
            "{provider}"
        );
        let [accepted, partial, failure] = conditions(&verdict, None);
        for condition in [accepted, partial, failure] {
            assert_eq!(condition.status, ConditionStatus::Unknown);
            assert_eq!(condition.reason.as_str(), "VersionUnknown");
        }
    }
    // The sentence is there once, and not for each feature.
    let verdict = check_all(&sample(), "sample@1.19", &[network_policy("egress", RANGE)], None).remove(0);
    assert_eq!(
        conditions(&verdict, None)[0].message,
        "Sample 1.19 is not known; the profile was checked from 1.0 through 1.18"
    );
}

/// Rows: what a profile says, a spec, and the direction and outcome that follow.
#[test]
fn the_direction_of_the_error_follows_from_what_is_done_instead() {
    use ErrorDirection::{Either, Less, More, Same};
    use Outcome::{Failure, PartialFailure};
    let row =
        |feature: &str, rest: &str| format!("  {feature}: [{{versions: '*', checked: unverified, {rest}}}]");
    let named = "podSelector: {}\ningress: [{ports: [{port: web}]}, {ports: [{port: 80}]}]";
    let block =
        "podSelector: {}\ningress: [{from: [{ipBlock: {cidr: 10.0.0.0/8, except: [10.1.0.0/16]}}]}, {}]";
    let deny = "podSelector: {}\npolicyTypes: [Ingress]";
    let both = "podSelector: {}\negress: [{ports: [{port: 80}]}]\ningress: [{}]";
    let cases = [
        ("port.named", "support: widened, carried-out: all-ports", named, More, PartialFailure),
        ("port.named", "support: narrowed, carried-out: port-ignored", named, Less, PartialFailure),
        ("port.named", "support: dropped, scope: rule", named, Less, PartialFailure),
        ("port.named", "support: dropped, scope: policy", named, More, Failure),
        ("port.named", "support: narrowed, carried-out: deny-all", named, Less, Failure),
        ("port.named", "support: undefined", named, Either, PartialFailure),
        ("ipblock.except", "support: widened, carried-out: except-ignored", block, More, PartialFailure),
        (
            "ipblock.except",
            "support: dropped, scope: peer, carried-out: block-ignored",
            block,
            Less,
            PartialFailure,
        ),
        ("isolation.ingress", "support: dropped, scope: direction", deny, More, Failure),
        ("isolation.ingress", "support: dropped, scope: rule", deny, More, PartialFailure),
        ("types.egress", "support: dropped, scope: direction", both, More, PartialFailure),
        (
            "kind.NetworkPolicy",
            "support: dropped, scope: policy, carried-out: policy-ignored",
            deny,
            More,
            Failure,
        ),
    ];
    for (feature, rest, spec, error, outcome) in cases {
        let verdict = check(&row(feature, rest), spec);
        assert_eq!(verdict.error(), Some(error), "{feature} {rest}");
        assert_eq!(verdict.outcome, outcome, "{feature} {rest}");
    }
    // Of another policy for the same pods that allows nothing, nothing is lost.
    let row = row("port.named", "support: dropped, scope: policy");
    let policies = [network_policy("web", named), network_policy("deny", deny)];
    let verdicts = check_all(&profile(&row, ""), "p@1.5", &policies, None);
    assert_eq!((verdicts[0].outcome, verdicts[0].error()), (Failure, Some(Less)));
    assert_eq!((verdicts[1].outcome, verdicts[1].error()), (Outcome::Accepted, None));
    assert_eq!(Same.to_string(), "as written, thanks to other policies");
}

/// What else is not carried out of a kind that is not follows from that: there is one sentence.
#[test]
fn a_kind_that_is_not_carried_out_is_one_deviation() {
    let rows = "  kind.NetworkPolicy: [{versions: '*', checked: unverified, support: dropped, scope: policy, carried-out: policy-ignored}]\n  \
                port.end: [{versions: '*', checked: unverified, support: dropped, scope: policy, carried-out: policy-ignored}]\n  \
                pods.unowned: [{versions: '*', checked: unverified, support: dropped, scope: policy}]";
    let verdict = check(rows, RANGE);
    assert_eq!((verdict.outcome, verdict.not_looked_for.len()), (Outcome::Failure, 0));
    assert_eq!(
        conditions(&verdict, None)[2].message,
        "spec: Plugin 1.5 does not carry out the kind NetworkPolicy (more than written)"
    );
}

/// The error of a rule that denies is the other way round.
#[test]
fn a_deny_rule_that_matches_less_allows_more() {
    let policy = |action: &str| {
        parsed(&format!(
            "apiVersion: policy.networking.k8s.io/v1alpha1\nkind: AdminNetworkPolicy\nmetadata: {{name: a}}\nspec:\n  priority: 1\n  \
             subject: {{namespaces: {{}}}}\n  ingress:\n  - action: {action}\n    from: [{{namespaces: {{}}}}]\n    ports: \
             [{{portRange: {{start: 80, end: 90}}}}]\n"
        ))
    };
    let row =
        "  port.end: [{versions: '*', checked: unverified, support: narrowed, carried-out: first-port}]";
    let policies = [policy("Allow"), policy("Deny"), policy("Pass")];
    let verdicts = check_all(&profile(row, ""), "p@1.5", &policies, None);
    let errors: Vec<_> = verdicts.iter().map(|verdict| verdict.error().unwrap()).collect();
    assert_eq!(errors, [ErrorDirection::Less, ErrorDirection::More, ErrorDirection::Either]);
    assert_eq!(
        verdicts[1].deviations[0].message,
        "Plugin 1.5 denies only port 80 of 80-90 (more than written)"
    );
}

fn cluster(pods: &str) -> Cluster {
    let objects = |text: &str| yaml(text).as_array().cloned().unwrap_or_default();
    Cluster {
        namespaces: Known::Read(vec![read_cluster::namespace(&yaml("metadata: {name: shop}")).unwrap()]),
        pods: Known::Read(objects(pods).iter().filter_map(read_cluster::pod).collect()),
        nodes: Known::Read(Vec::new()),
        services: Known::Read(Vec::new()),
    }
}

/// A policy that is dropped and was the only isolating one for a pod means that more is allowed.
#[test]
fn a_dropped_policy_opens_the_pods_that_nothing_else_isolates() {
    let row = "  port.named: [{versions: '*', checked: unverified, support: dropped, scope: policy}]";
    let policies = [
        network_policy("web", "podSelector: {matchLabels: {app: web}}\ningress: [{ports: [{port: http}]}]"),
        network_policy(
            "front",
            "podSelector: {matchLabels: {tier: front}}\ningress: [{ports: [{port: 80}]}]",
        ),
    ];
    let profiles = profile(row, "");
    let error = |cluster: Option<&Cluster>| check_all(&profiles, "p@1.5", &policies, cluster)[0].error();
    // Without a cluster nobody knows which pods the other one has.
    assert_eq!(error(None), Some(ErrorDirection::Either));
    let both = "[{metadata: {namespace: shop, name: a, labels: {app: web, tier: front}}}]";
    assert_eq!(error(Some(&cluster(both))), Some(ErrorDirection::Less));
    let one = "[{metadata: {namespace: shop, name: a, labels: {app: web}}}]";
    assert_eq!(error(Some(&cluster(one))), Some(ErrorDirection::More));
    // One that is dropped itself isolates nothing for the other.
    let dropped =
        [policies[0].clone(), network_policy("all", "podSelector: {}\ningress: [{ports: [{port: http}]}]")];
    let verdicts = check_all(&profiles, "p@1.5", &dropped, Some(&cluster(both)));
    assert_eq!(
        verdicts.iter().map(PolicyVerdict::error).collect::<Vec<_>>(),
        [Some(ErrorDirection::More); 2]
    );
}

#[test]
fn limits_are_counted_per_list_and_over_all_policies() {
    let ports = |from: u16, count: u16| {
        let ports: Vec<String> = (from..from + count).map(|port| format!("{{port: {port}}}")).collect();
        ports.join(", ")
    };
    let limit =
        "{of: ports.per-list, max: 40, versions: '*', beyond: dropped, scope: policy, checked: unverified}";
    let profiles = profile("  {}", limit);
    let spec = |count| format!("podSelector: {{}}\ningress: [{{ports: [{}]}}]", ports(1, count));
    let policies = [network_policy("most", &spec(40)), network_policy("more", &spec(41))];
    let verdicts = check_all(&profiles, "p@1.5", &policies, None);
    assert_eq!(verdicts[0].outcome, Outcome::Accepted);
    assert_eq!(verdicts[1].outcome, Outcome::Failure);
    assert_eq!(verdicts[1].deviations[0].place.to_string(), "spec.ingress[0].ports");
    assert_eq!(
        verdicts[1].deviations[0].message,
        "Plugin 1.5 carries out at most 40 entries in a list of ports, not 41 (less than written)"
    );
    // 14 and 14 ports for the same range, 4 of them the same: 24 are carried out.
    let limit =
        "{of: ports.per-cidr-all-policies, max: 23, versions: '*', beyond: undefined, checked: unverified}";
    let profiles = profile("  {}", limit);
    let spec = |from| {
        format!(
            "podSelector: {{}}\negress: [{{to: [{{ipBlock: {{cidr: 10.0.0.0/8}}}}], ports: [{}]}}]",
            ports(from, 14)
        )
    };
    let policies = [network_policy("a", &spec(1)), network_policy("b", &spec(11))];
    let verdicts = check_all(&profiles, "p@1.5", &policies, None);
    for verdict in &verdicts {
        assert_eq!(verdict.outcome, Outcome::PartialFailure);
        assert_eq!(verdict.deviations[0].place.to_string(), "spec.egress[0].to[0]");
        assert!(
            verdict.deviations[0]
                .message
                .contains("at most 23 ports for one range of addresses over all policies, not 24")
        );
    }
    let alone = check_all(&profiles, "p@1.5", &policies[..1], None);
    assert_eq!(alone[0].outcome, Outcome::Accepted);
}

/// What was not looked for is named, and the policy is not called clean without it.
#[test]
fn features_that_need_a_cluster_are_named_as_missing() {
    let row = "  ipblock.pod-address: [{versions: '*', checked: unverified, support: narrowed, carried-out: never-matches-pods}]";
    let profiles = profile(row, "");
    let policies =
        [network_policy("web", "podSelector: {}\ningress: [{from: [{ipBlock: {cidr: 10.0.0.0/8}}]}]")];
    let verdict = check_all(&profiles, "p@1.5", &policies, None).remove(0);
    assert_eq!(
        conditions(&verdict, None)[0].message,
        "Plugin 1.5 carries out the policy as written. Not evaluated without cluster (no cluster was given): ipblock.pod-address"
    );
    let mut unread = cluster("[]");
    unread.pods = Known::Unread("pods is forbidden".into());
    let verdict = check_all(&profiles, "p@1.5", &policies, Some(&unread)).remove(0);
    assert_eq!(verdict.not_looked_for[0].objects, "pods");
    assert_eq!(verdict.not_looked_for[0].reason, "pods is forbidden");
    let with = cluster("[{metadata: {namespace: shop, name: a}, status: {podIP: 10.4.0.7}}]");
    let verdict = check_all(&profiles, "p@1.5", &policies, Some(&with)).remove(0);
    assert!(verdict.not_looked_for.is_empty());
    assert_eq!(verdict.outcome, Outcome::PartialFailure);
    assert_eq!(
        verdict.deviations[0].message,
        "Plugin 1.5 does not match pods with ipBlock 10.0.0.0/8 (less than written)"
    );
    // An address in an exception is not meant.
    let except = [network_policy(
        "web",
        "podSelector: {}\ningress: [{from: [{ipBlock: {cidr: 10.0.0.0/8, except: [10.4.0.0/16]}}]}]",
    )];
    assert_eq!(check_all(&profiles, "p@1.5", &except, Some(&with))[0].outcome, Outcome::Accepted);
}

#[test]
fn a_policy_that_the_server_refuses_or_that_is_newer_is_not_accepted() {
    let profiles = profile("  {}", "");
    let invalid = network_policy("web", "podSelector: {}\ningress: [{ports: [{port: 0}]}]");
    let verdict = check_all(&profiles, "p@1.5", &[invalid], None).remove(0);
    assert_eq!((verdict.outcome, verdict.reason), (Outcome::Failure, Reason::InvalidPolicy));
    let text = |uid: &str, peer: &str| {
        parsed(&format!(
            "apiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\nmetadata: {{name: a{uid}}}\nspec: {{tier: Admin, \
             priority: 1, subject: {{namespaces: {{}}}}, egress: [{{action: Deny, to: [{peer}]}}]}}"
        ))
    };
    let verdict = check_all(&profiles, "p@1.5", &[text(", uid: '7'", "{services: {}}")], None).remove(0);
    assert_eq!((verdict.outcome, verdict.reason), (Outcome::Unknown, Reason::NotReadable));
    let verdict = check_all(&profiles, "p@1.5", &[text("", "{services: {}}")], None).remove(0);
    assert_eq!((verdict.outcome, verdict.reason), (Outcome::Failure, Reason::InvalidPolicy));
    // A range that was stored before the API server became strict is no reason to fail.
    let legacy = text(", uid: '7'", "{networks: [10.0.0.1/8]}");
    assert_eq!(check_all(&profiles, "p@1.5", &[legacy], None)[0].outcome, Outcome::Accepted);
}

#[test]
fn messages_are_bounded() {
    let row =
        "  port.end: [{versions: '*', checked: unverified, support: narrowed, carried-out: first-port}]";
    let ports: Vec<String> = (1..500).map(|port| format!("{{port: {port}, endPort: 600}}")).collect();
    let verdict = check(row, &format!("podSelector: {{}}\ningress: [{{ports: [{}]}}]", ports.join(", ")));
    assert_eq!(verdict.deviations.len(), 499);
    let message = &conditions(&verdict, None)[1].message;
    assert!(message.ends_with(". 449 more are not listed"), "{message}");
}

/// The second founding story: which policies change meaning with the provider. Directions as the providers' issues report them.
#[test]
fn embedded_profiles_have_the_directions_of_their_issues() {
    let named = "podSelector: {}\ningress: [{ports: [{protocol: TCP, port: web}]}]";
    let deny = "podSelector: {}\npolicyTypes: [Ingress]";
    let plain = "podSelector: {}\ningress: [{from: [{podSelector: {}}], ports: [{protocol: TCP, port: 80}]}]";
    let cases = [
        ("cilium@1.15.6", RANGE, Outcome::PartialFailure, Some(ErrorDirection::Less)),
        ("cilium@1.16.1", RANGE, Outcome::Accepted, None),
        // ovn-kubernetes#2117: the name is read as port 0, which is every port of the protocol.
        ("ovn-kubernetes@1.0", named, Outcome::PartialFailure, Some(ErrorDirection::More)),
        ("ovn-kubernetes@1.0", plain, Outcome::Accepted, None),
        ("flannel@0.25.0", deny, Outcome::Failure, Some(ErrorDirection::More)),
        ("azure-npm@1.5.5/windows", named, Outcome::Failure, Some(ErrorDirection::More)),
        ("azure-npm@1.5.5/linux", plain, Outcome::Accepted, None),
        ("weave@2.8.1", RANGE, Outcome::PartialFailure, Some(ErrorDirection::Less)),
    ];
    let (profiles, errors) = Profiles::embedded();
    assert!(errors.is_empty(), "{errors:?}");
    for (provider, spec, outcome, error) in cases {
        let verdict = check_all(&profiles, provider, &[network_policy("p", spec)], None).remove(0);
        assert_eq!(
            (verdict.outcome, verdict.error()),
            (outcome, error),
            "{provider}: {:?}",
            verdict.deviations
        );
    }
}
