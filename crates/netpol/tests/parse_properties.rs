//! Properties of parsing: arbitrary input is read without panic, and what is invalid takes nothing valid with it.

use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::{Value, json};
use settled_apimachinery::conditions::validate_conditions;
use settled_apimachinery::field::Path;
use settled_netpol::conditions::{ConditionStatus, conditions};
use settled_netpol::findings::findings;
use settled_netpol::model::{Peers, Ports};
use settled_netpol::parse::{Parsed, parse_policy};
use settled_netpol::profile::Profiles;
use settled_netpol::verdict::Evaluator;

/// Names of fields that parsers look for, and others.
fn field() -> impl Strategy<Value = String> {
    const KNOWN: &[&str] = &[
        "spec",
        "podSelector",
        "namespaceSelector",
        "matchLabels",
        "matchExpressions",
        "key",
        "operator",
        "values",
        "policyTypes",
        "ingress",
        "egress",
        "from",
        "to",
        "ports",
        "port",
        "endPort",
        "protocol",
        "ipBlock",
        "cidr",
        "except",
        "priority",
        "subject",
        "tier",
        "action",
        "namespaces",
        "pods",
        "nodes",
        "networks",
        "domainNames",
        "portNumber",
        "portRange",
        "namedPort",
        "start",
        "end",
        "protocols",
        "tcp",
        "destinationPort",
        "number",
        "range",
        "metadata",
        "name",
        "namespace",
        "generation",
    ];
    prop_oneof![9 => prop::sample::select(KNOWN).prop_map(str::to_owned), 1 => ".{0,8}"]
}

fn value() -> impl Strategy<Value = Value> {
    const TEXTS: &[&str] = &[
        "TCP",
        "Ingress",
        "Egress",
        "Allow",
        "Accept",
        "Deny",
        "Admin",
        "10.0.0.0/8",
        "::/0",
        "In",
        "web",
        "80",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (0..70_000).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(TEXTS).prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(8, 64, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((field(), inner), 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

const KINDS: [(&str, &str); 4] = [
    ("networking.k8s.io/v1", "NetworkPolicy"),
    ("policy.networking.k8s.io/v1alpha1", "AdminNetworkPolicy"),
    ("policy.networking.k8s.io/v1alpha1", "BaselineAdminNetworkPolicy"),
    ("policy.networking.k8s.io/v1beta1", "ClusterNetworkPolicy"),
];

fn valid_peer() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!({"podSelector": {}})),
        Just(json!({"namespaceSelector": {"matchLabels": {"team": "a"}}})),
        Just(json!({"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}})),
    ]
}

fn valid_port() -> impl Strategy<Value = Value> {
    (1..=65535_u16).prop_map(|port| json!({"port": port}))
}

/// What the API takes neither as a peer nor as a port.
fn invalid(part: Value) -> impl Strategy<Value = Value> {
    prop_oneof![Just(json!(7)), Just(json!("x")), Just(json!([])), Just(part)]
}

proptest! {
    #[test]
    fn arbitrary_specs_are_read_without_panic(spec in value(), metadata in value(), kind in 0..4_usize) {
        let (api, kind) = KINDS[kind];
        let parsed = parse_policy(&json!({"apiVersion": api, "kind": kind, "metadata": metadata, "spec": spec}), "d").unwrap();
        prop_assert!(parsed.problems.len() <= 101);
        prop_assert!(parsed.policy.is_some() || parsed.is_invalid());
    }

}

/// The embedded profiles, read once.
static PROFILES: LazyLock<Profiles> = LazyLock::new(|| Profiles::embedded().0);

proptest! {
    // Each case is evaluated for all providers.
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Exactly one of the conditions is True, or Accepted is Unknown, and the API server takes them.
    #[test]
    fn verdicts_of_arbitrary_policies_are_valid_conditions(specs in prop::collection::vec((value(), 0..4_usize), 1..4)) {
        let objects: Vec<Parsed> = specs
            .iter()
            .map(|(spec, kind)| {
                let (api, kind) = KINDS[*kind];
                let object = json!({"apiVersion": api, "kind": kind, "metadata": {"name": "default", "uid": "u"}, "spec": spec});
                parse_policy(&object, "d").unwrap()
            })
            .collect();
        for profile in PROFILES.iter() {
            let version = profile.versions.through.to_string();
            let reference = format!("{}@{version}", profile.name).parse().unwrap();
            let provider = PROFILES.provider(&reference).unwrap();
            let evaluator = Evaluator::new(&provider, &objects, None);
            for parsed in &objects {
                let conditions = conditions(&evaluator.check(parsed), Some(&profile.domain));
                let values: Vec<Value> =
                    conditions.iter().map(|condition| condition.to_value("2026-01-01T00:00:00Z")).collect();
                let mut errors = Vec::new();
                validate_conditions(&values.into(), &Path::Nil.child("conditions"), &mut errors);
                prop_assert_eq!(errors, []);
                let holding = conditions.iter().filter(|condition| condition.status == ConditionStatus::True).count();
                let is_unknown = conditions[0].status == ConditionStatus::Unknown;
                prop_assert_eq!(holding, usize::from(!is_unknown));
            }
        }
        for policy in objects.iter().filter_map(|parsed| parsed.policy.as_ref()) {
            prop_assert!(findings(policy, None).list.len() <= 1000);
        }
    }
}

proptest! {
    #[test]
    fn arbitrary_objects_are_read_without_panic(object in value()) {
        drop(parse_policy(&object, "d"));
    }

    #[test]
    fn invalid_peers_and_ports_take_no_valid_ones_with_them(
        peers in prop::collection::vec(prop_oneof![valid_peer().prop_map(Ok), invalid(json!({"ipBlock": 1})).prop_map(Err)], 1..8),
        ports in prop::collection::vec(prop_oneof![valid_port().prop_map(Ok), invalid(json!({"endPort": 3})).prop_map(Err)], 1..8),
    ) {
        let list = |parts: &[Result<Value, Value>]| -> Vec<Value> {
            parts.iter().map(|part| match part { Ok(value) | Err(value) => value.clone() }).collect()
        };
        let object = json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "p"},
            "spec": {"podSelector": {}, "ingress": [{"from": list(&peers), "ports": list(&ports)}]},
        });
        let parsed = parse_policy(&object, "d").unwrap();
        let rules = parsed.policy.unwrap().ingress.unwrap();
        let valid = |parts: &[Result<Value, Value>]| parts.iter().filter(|part| part.is_ok()).count();
        prop_assert!(matches!(&rules[0].peers, Peers::Of(read) if read.len() == valid(&peers)));
        prop_assert!(matches!(&rules[0].ports, Ports::Of(read) if read.len() == valid(&ports)));
        // Each invalid part is a problem at its own place.
        for (name, parts) in [("from", &peers), ("ports", &ports)] {
            for (index, _) in parts.iter().enumerate().filter(|(_, part)| part.is_err()) {
                let place = format!("spec.ingress[0].{name}[{index}]");
                prop_assert!(parsed.problems.iter().any(|problem| problem.place.to_string().starts_with(&place)), "{}", place);
            }
        }
    }
}
