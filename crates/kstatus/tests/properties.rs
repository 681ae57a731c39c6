//! What must hold for any object.

use kstatus::{Options, Profile, Status, Verdict, augment, compute, compute_value};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::cases::{self, NOW};

fn options(profile: Profile) -> Options {
    Options { profile, ..Options::new(NOW.parse().unwrap()) }
}

/// A small generator of our own keeps the order a function of the seed that a failure prints.
fn next(seed: &mut u64, bound: usize) -> usize {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 33) as usize % bound.max(1)
}

/// JSON text of a value with the members of every map in an order that `seed` chooses, and now and then white space.
fn shuffled(value: &Value, seed: &mut u64, out: &mut String) {
    match value {
        Value::Object(map) => {
            let mut members: Vec<_> = map.iter().collect();
            for i in (1..members.len()).rev() {
                members.swap(i, next(seed, i + 1));
            }
            out.push_str(if next(seed, 4) == 0 { "{ " } else { "{" });
            for (i, (key, value)) in members.into_iter().enumerate() {
                out.push_str(if i == 0 { "" } else { "," });
                out.push_str(&Value::from(key.as_str()).to_string());
                out.push_str(if next(seed, 4) == 0 { ":\n  " } else { ":" });
                shuffled(value, seed, out);
            }
            out.push('}');
        }
        Value::Array(list) => {
            out.push('[');
            for (i, value) in list.iter().enumerate() {
                out.push_str(if i == 0 { "" } else { "," });
                shuffled(value, seed, out);
            }
            out.push(']');
        }
        scalar => out.push_str(&scalar.to_string()),
    }
}

/// Adds fields that no rule reads, wherever rules read named fields.
fn add_noise(object: &mut Value, noise: &Value) {
    let add = |place: Option<&mut Value>| {
        if let Some(map) = place.and_then(Value::as_object_mut) {
            map.insert("zzNobodyReadsThis".to_owned(), noise.clone());
        }
    };
    for condition in
        object.pointer_mut("/status/conditions").and_then(Value::as_array_mut).into_iter().flatten()
    {
        add(Some(condition));
    }
    for parent in ["spec", "status", "metadata"] {
        add(object.get_mut(parent));
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("managedFields".to_owned(), noise.clone());
        metadata.insert("labels".to_owned(), noise.clone());
    }
    add(Some(object));
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1000.0..1000.0f64).prop_map(Value::from),
        "[a-zA-Z\"\\\\\n é]{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map("[a-z]{1,6}", inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Objects made of the fields that rules read, with values of any type in them.
fn odd_object() -> impl Strategy<Value = Value> {
    let types = prop::sample::select(vec![
        ("v1", "Pod"),
        ("v1", "Service"),
        ("v1", "Namespace"),
        ("v1", "Node"),
        ("v1", "PersistentVolumeClaim"),
        ("v1", "PersistentVolume"),
        ("v1", "ResourceQuota"),
        ("v1", "ConfigMap"),
        ("v1", "ReplicationController"),
        ("apps/v1", "Deployment"),
        ("apps/v1", "StatefulSet"),
        ("apps/v1", "DaemonSet"),
        ("batch/v1", "Job"),
        ("batch/v1", "CronJob"),
        ("autoscaling/v2", "HorizontalPodAutoscaler"),
        ("policy/v1", "PodDisruptionBudget"),
        ("networking.k8s.io/v1", "Ingress"),
        ("gateway.networking.k8s.io/v1", "Gateway"),
        ("discovery.k8s.io/v1", "EndpointSlice"),
        ("resource.k8s.io/v1", "ResourceClaim"),
        ("coordination.k8s.io/v1", "Lease"),
        ("storage.k8s.io/v1", "VolumeAttachment"),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
        ("example.com/v1", "Thing"),
    ]);
    let words = prop::sample::select(vec![
        "True",
        "False",
        "Unknown",
        "Ready",
        "Running",
        "Pending",
        "Failed",
        "Reconciling",
        "Stalled",
        "Available",
        "Progressing",
        "Bound",
        "2025-12-31T23:59:00Z",
        "10Gi",
        "3",
        "",
        "CrashLoopBackOff",
    ]);
    let scalar = prop_oneof![
        3 => (-2..5i64).prop_map(Value::from),
        4 => words.prop_map(Value::from),
        1 => Just(Value::Null),
        1 => any::<bool>().prop_map(Value::from),
        1 => json_value(),
    ];
    let condition_keys =
        vec!["type", "status", "reason", "message", "observedGeneration", "lastTransitionTime"];
    let condition = prop::collection::btree_map(prop::sample::select(condition_keys), scalar.clone(), 0..6)
        .prop_map(to_map);
    let container_keys =
        vec!["name", "state", "waiting", "terminated", "reason", "exitCode", "restartCount", "ready"];
    let container = prop::collection::btree_map(prop::sample::select(container_keys), scalar.clone(), 0..6)
        .prop_map(to_map);
    let list = |element: BoxedStrategy<Value>| prop::collection::vec(element, 0..4).prop_map(Value::from);
    let field = prop_oneof![
        4 => scalar.clone(),
        2 => list(prop_oneof![8 => condition, 1 => scalar.clone()].boxed()),
        1 => list(container.boxed()),
        1 => json_value(),
    ];
    let metadata_keys = vec![
        "generation",
        "deletionTimestamp",
        "creationTimestamp",
        "finalizers",
        "annotations",
        "namespace",
    ];
    let spec_keys = vec![
        "replicas",
        "paused",
        "progressDeadlineSeconds",
        "updateStrategy",
        "type",
        "parallelism",
        "completions",
        "suspend",
        "hard",
        "metrics",
        "schedulingGates",
        "readinessGates",
        "holderIdentity",
        "resources",
    ];
    let status_keys = vec![
        "observedGeneration",
        "conditions",
        "conditions",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "phase",
        "containerStatuses",
        "initContainerStatuses",
        "loadBalancer",
        "startTime",
        "active",
        "capacity",
        "hard",
        "allocatedResourceStatuses",
        "attached",
        "certificate",
        "devices",
        "allocation",
        "health",
        "state",
    ];
    let map = move |keys: Vec<&'static str>, field: BoxedStrategy<Value>| {
        prop_oneof![
            9 => prop::collection::btree_map(prop::sample::select(keys), field, 0..7).prop_map(to_map),
            1 => scalar.clone(),
        ]
    };
    let field = field.boxed();
    (types, map(metadata_keys, field.clone()), map(spec_keys, field.clone()), map(status_keys, field)).prop_map(
        |((api_version, kind), metadata, spec, status)| {
            json!({ "apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec, "status": status })
        },
    )
}

fn to_map(map: std::collections::BTreeMap<&'static str, Value>) -> Value {
    Value::Object(map.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Map<_, _>>())
}

/// A verdict that says nothing false about itself.
fn assert_sound(verdict: &Verdict) {
    assert!(verdict.status != Status::NotFound, "no object is absent");
    assert!(!verdict.reason.is_empty() || verdict.basis != kstatus::Basis::KindRule, "{verdict:?}");
    let wants_condition = matches!(verdict.status, Status::InProgress | Status::Failed);
    assert_eq!(verdict.condition().is_some(), wants_condition);
    if verdict.reason == "Malformed" {
        assert!(!verdict.problems.is_empty());
    }
}

proptest! {
    #[test]
    fn any_bytes_get_a_verdict(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        for profile in Profile::ALL {
            let verdict = compute(&bytes, &options(*profile));
            if !serde_json::from_slice::<Value>(&bytes).is_ok_and(|value| value.is_object()) {
                prop_assert_eq!(&*verdict.reason, "Malformed");
            }
            assert_sound(&verdict);
        }
    }

    #[test]
    fn odd_objects_get_the_same_verdict_from_bytes_and_value(object in odd_object()) {
        for profile in Profile::ALL {
            let options = options(*profile);
            let verdict = compute(&serde_json::to_vec(&object).unwrap(), &options);
            prop_assert_eq!(&compute_value(&object, &options), &verdict);
            assert_sound(&verdict);
        }
    }

    #[test]
    fn order_and_unread_fields_do_not_matter(object in odd_object(), noise in json_value(), mut seed: u64) {
        let mut noisy = object.clone();
        add_noise(&mut noisy, &noise);
        let mut text = String::new();
        shuffled(&noisy, &mut seed, &mut text);
        for profile in Profile::ALL {
            let options = options(*profile);
            let verdict = compute(&serde_json::to_vec(&object).unwrap(), &options);
            prop_assert_eq!(compute(text.as_bytes(), &options), verdict);
        }
    }

    #[test]
    fn augmenting_twice_is_augmenting_once(object in odd_object()) {
        let options = options(Profile::Settled);
        let bytes = serde_json::to_vec(&object).unwrap();
        if let Ok(once) = augment(&bytes, &options) {
            let later = Options { now: "2026-01-01T00:00:01Z".parse().unwrap(), ..options.clone() };
            let twice = augment(&once, &options).unwrap();
            prop_assert_eq!(String::from_utf8(twice).unwrap(), String::from_utf8(once.clone()).unwrap());
            // Nor does it change a second later: what is written keeps its times.
            let later = augment(&once, &later).unwrap();
            prop_assert_eq!(String::from_utf8(later).unwrap(), String::from_utf8(once).unwrap());
        }
    }

    #[test]
    fn augmenting_touches_nothing_but_conditions(object in odd_object()) {
        for profile in Profile::ALL {
            let bytes = serde_json::to_vec(&object).unwrap();
            let Ok(augmented) = augment(&bytes, &options(*profile)) else { continue };
            let mut after: Value = serde_json::from_slice(&augmented).unwrap();
            let mut before: Value = serde_json::from_slice(&bytes).unwrap();
            for value in [&mut before, &mut after] {
                if let Some(status) = value.get_mut("status").and_then(Value::as_object_mut) {
                    status.remove("conditions");
                    if status.is_empty() {
                        value["status"] = Value::Null;
                    }
                }
            }
            prop_assert_eq!(after, before);
        }
    }
}

/// The cases are real-looking objects, which random ones are not.
#[test]
fn order_and_unread_fields_do_not_matter_in_the_cases() {
    let mut seed = 42;
    for case in cases::all() {
        let verdict = compute(&serde_json::to_vec(&case.object).unwrap(), &case.options);
        for noise in [json!(null), json!([{ "type": "Ready", "status": "False" }])] {
            let mut noisy = case.object.clone();
            add_noise(&mut noisy, &noise);
            let mut text = String::new();
            shuffled(&noisy, &mut seed, &mut text);
            assert_eq!(compute(text.as_bytes(), &case.options), verdict, "{}", case.place);
        }
    }
}

/// What augment writes, it takes away once it is no longer true.
#[test]
fn stale_conditions_are_cleared() {
    let options = options(Profile::Settled);
    let waiting =
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "status": {"phase": "Pending"}});
    let mut claim: Value =
        serde_json::from_slice(&augment(&serde_json::to_vec(&waiting).unwrap(), &options).unwrap()).unwrap();
    assert_eq!(claim["status"]["conditions"][0]["type"], "Reconciling");
    claim["status"]["phase"] = "Bound".into();
    let bound: Value =
        serde_json::from_slice(&augment(&serde_json::to_vec(&claim).unwrap(), &options).unwrap()).unwrap();
    assert_eq!(bound["status"], json!({"phase": "Bound", "conditions": []}));
    claim["status"]["phase"] = "Lost".into();
    let lost: Value =
        serde_json::from_slice(&augment(&serde_json::to_vec(&claim).unwrap(), &options).unwrap()).unwrap();
    assert_eq!(lost["status"]["conditions"].as_array().map(Vec::len), Some(1));
    assert_eq!(lost["status"]["conditions"][0]["type"], "Stalled");
}

/// Lists and maps of many thousands cost time in proportion to their size, not to its square. Nothing is timed: were it
/// the square, this test would take very long.
#[test]
fn large_lists_do_not_multiply() {
    const MANY: usize = 20_000;
    let names = |prefix: &str| (0..MANY).map(|i| (format!("{prefix}{i}"), json!("1"))).collect::<Map<_, _>>();
    let list = |element: fn(usize) -> Value| Value::from((0..MANY).map(element).collect::<Vec<_>>());
    let mut condition = names("x");
    condition.extend([("type".to_owned(), json!("Reconciling")), ("status".to_owned(), json!("False"))]);
    let objects = [
        json!({"apiVersion": "v1", "kind": "ResourceQuota", "spec": {"hard": names("r")},
            "status": {"hard": names("r"), "used": names("r")}}),
        json!({"apiVersion": "v1", "kind": "Pod", "spec": {"readinessGates": list(|i| json!({"conditionType": format!("g{i}")}))},
        "status": {"phase": "Running", "conditions": list(|i| if i == 0 {
            json!({"type": "ContainersReady", "status": "True"})
        } else {
            json!({"type": format!("c{i}"), "status": "True"})
        })}}),
        json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
            "spec": {"metrics": list(|i| json!({"resource": {"name": format!("m{i}"), "target": {}}}))},
            "status": {"currentMetrics": list(|i| json!({"resource": {"name": format!("n{i}"), "current": {}}})),
                "conditions": [{"type": "AbleToScale", "status": "True"}, {"type": "ScalingActive", "status": "False"}]}}),
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "status": {"phase": "Pending", "conditions": [condition]}}),
    ];
    for object in objects {
        let options = options(Profile::Settled);
        let bytes = serde_json::to_vec(&object).unwrap();
        assert_eq!(compute(&bytes, &options), compute_value(&object, &options));
        assert!(augment(&bytes, &options).is_ok());
    }
}

/// A condition that is written anew speaks of the latest generation, whatever it spoke of before.
#[test]
fn a_rewritten_condition_does_not_lag() {
    let options = options(Profile::Settled);
    let lagging =
        br#"{"apiVersion":"example.com/v1","kind":"T","metadata":{"generation":2},"status":{"conditions":[
        {"type":"Stalled","status":"True","observedGeneration":1},
        {"type":"Reconciling","status":"False","observedGeneration":0}]}}"#;
    let once = augment(lagging, &options).unwrap();
    assert_eq!(augment(&once, &options).unwrap(), once);
    let value: Value = serde_json::from_slice(&once).unwrap();
    assert_eq!(value["status"]["conditions"][1]["observedGeneration"], 2);
}

#[test]
fn augmenting_keeps_every_other_byte() {
    let options = options(Profile::Settled);
    let text = "{ \"kind\" : \"PersistentVolumeClaim\",\n \"apiVersion\":\"v1\", \"x\": 1.0e2, \"status\": {\"phase\":\"Pending\" } }\n";
    let augmented = String::from_utf8(augment(text.as_bytes(), &options).unwrap()).unwrap();
    let (before, rest) = text.split_at(text.find(" } }").unwrap() + 1);
    assert!(augmented.starts_with(before) && augmented.ends_with(rest), "{augmented}");
    // Nothing to say, nothing to write.
    let current = r#"{"kind":"ConfigMap","apiVersion":"v1","data":{"a":"12345678901234567890123"}}"#;
    assert_eq!(augment(current.as_bytes(), &options).unwrap(), current.as_bytes());
}
