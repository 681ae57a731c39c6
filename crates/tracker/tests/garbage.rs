//! Whatever a server sends: nothing panics, and walks over what is known end.

use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use settled_rules::RuleSet;
use settled_tracker::WaitCondition;
use settled_tracker::parts::{Evaluator, Graph, branch, causes, excuse, failures};

/// Words that are read somewhere, and some that are not.
const WORDS: &[&str] = &[
    "apiVersion",
    "kind",
    "metadata",
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "ownerReferences",
    "labels",
    "annotations",
    "finalizers",
    "deletionTimestamp",
    "creationTimestamp",
    "spec",
    "selector",
    "matchLabels",
    "status",
    "phase",
    "conditions",
    "type",
    "reason",
    "message",
    "lastTransitionTime",
    "observedGeneration",
    "replicas",
    "containerStatuses",
    "state",
    "lastState",
    "waiting",
    "terminated",
    "exitCode",
    "restartCount",
    "ready",
    "volumes",
    "persistentVolumeClaim",
    "claimName",
    "involvedObject",
    "count",
    "lastTimestamp",
    "storageClassName",
    "endpoints",
    "targetRef",
    "rules",
    "http",
    "paths",
    "backend",
    "service",
    "scaleTargetRef",
    "ttlSecondsAfterFinished",
    "x",
];
/// Values that mean something, and some that don't.
const TEXTS: &[&str] = &[
    "v1",
    "apps/v1",
    "batch/v1",
    "example.com/v1",
    "a/b/c",
    "Pod",
    "Deployment",
    "ReplicaSet",
    "Job",
    "Event",
    "Service",
    "PersistentVolumeClaim",
    "StorageClass",
    "Namespace",
    "a",
    "b",
    "u1",
    "u2",
    "1",
    "-1",
    "99999999999999999999",
    "True",
    "False",
    "Ready",
    "Complete",
    "Failed",
    "CrashLoopBackOff",
    "ImagePullBackOff",
    "FailedCreate",
    "Warning",
    "exceeded quota",
    "2026-11-21T12:00:00Z",
    "yesterday",
    "",
    "\u{0}",
    "ü\u{202e}",
];
const KINDS: &[(&str, &str)] = &[
    ("v1", "Pod"),
    ("apps/v1", "Deployment"),
    ("apps/v1", "ReplicaSet"),
    ("batch/v1", "Job"),
    ("v1", "Service"),
    ("v1", "PersistentVolumeClaim"),
    ("v1", "Event"),
    ("discovery.k8s.io/v1", "EndpointSlice"),
    ("v1", "Namespace"),
    ("networking.k8s.io/v1", "Ingress"),
    ("autoscaling/v2", "HorizontalPodAutoscaler"),
    ("example.com/v1", "Widget"),
    ("storage.k8s.io/v1", "StorageClass"),
];

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        prop::sample::select(TEXTS).prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        Just(Value::Null),
        any::<f64>().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 48, 6, |inner| {
        let members = prop::collection::vec((prop::sample::select(WORDS), inner.clone()), 0..6);
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(Value::Array),
            members.prop_map(|members| {
                members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Map<_, _>>().into()
            }),
        ]
    })
}

/// An object of a known kind that may own and be owned by others, also in circles, with anything in it.
fn object() -> impl Strategy<Value = Value> {
    let owners = prop::collection::vec(0..6_u8, 0..3);
    let kind = prop::sample::select(KINDS);
    (kind, 0..6_u8, owners, value(), value(), any::<bool>()).prop_map(|((version, kind), life, owners, spec, status, deleted)| {
        let owners: Vec<Value> =
            owners.iter().map(|o| json!({"kind": "X", "name": "a", "uid": format!("u{o}")})).collect();
        let mut object = json!({
            "apiVersion": version, "kind": kind, "spec": spec, "status": status,
            "metadata": {"name": format!("o{life}"), "namespace": "a", "uid": format!("u{life}"), "resourceVersion": "5", "ownerReferences": owners},
        });
        if deleted {
            object["metadata"]["deletionTimestamp"] = "2026-11-21T12:00:00Z".into();
        }
        object
    })
}

fn evaluator() -> Evaluator {
    let until =
        ["ready", "condition=Ready", "jsonpath={.status.phase}=Running", "cel=status.replicas > 1", "delete"];
    Evaluator::new(RuleSet::default(), WaitCondition::parse_all(until).unwrap())
}

proptest! {
    #[test]
    fn bytes_are_judged(bytes in prop::collection::vec(any::<u8>(), 0..200), target in any::<bool>()) {
        let _any = evaluator().record(&bytes, Timestamp::UNIX_EPOCH, target);
    }

    #[test]
    fn anything_is_judged(value in value(), cut in 0..400_usize) {
        let text = value.to_string();
        let _whole = evaluator().record(text.as_bytes(), Timestamp::UNIX_EPOCH, true);
        let _broken = evaluator().record(&text.as_bytes()[..cut.min(text.len())], Timestamp::UNIX_EPOCH, true);
    }

    #[test]
    fn anything_is_explained(objects in prop::collection::vec(object(), 1..12)) {
        let (evaluator, mut graph) = (evaluator(), Graph::default());
        for object in &objects {
            if let Some(record) = evaluator.record(object.to_string().as_bytes(), Timestamp::UNIX_EPOCH, true) {
                graph.put(record, 0_u32.into(), 1);
            }
        }
        for record in graph.iter() {
            let found = causes(&graph, record, &[]);
            prop_assert!(found.iter().all(|cause| cause.chain.first().is_some_and(|step| step.object == record.id)));
            let of_classes = failures(&graph, record);
            for (n, trouble) in of_classes.iter().enumerate() {
                prop_assert!(of_classes[..n].iter().all(|other| other.class != trouble.class));
            }
            let _tree = (branch(&graph, record, true), branch(&graph, record, false), excuse(&graph, record));
        }
    }
}
