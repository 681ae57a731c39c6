//! Predicates, over objects as servers write them.

use serde_json::{Value, json};
use settled_controller::predicate::{self, EventKind, Predicate};
use settled_controller::{ObjectView, OwnWrites, Projection};

fn pod() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "web", "namespace": "shop", "uid": "u1", "resourceVersion": "10", "generation": 3,
            "labels": {"app": "web", "tier": "front"},
            "ownerReferences": [
                {"kind": "ReplicaSet", "uid": "r1", "controller": true},
                {"kind": "DaemonSet", "uid": "d1"},
            ],
            "managedFields": [
                {"manager": "kubelet", "operation": "Update", "subresource": "status", "time": "2026-01-01T00:00:00Z"},
                {"manager": "me", "operation": "Apply", "time": "2026-01-01T00:00:00Z"},
            ],
        },
        "spec": {"nodeName": "n1", "priority": 7},
        "status": {"phase": "Running"},
    })
}

/// The Pod with some of it changed.
fn changed(changes: &[(&str, Value)]) -> Value {
    let mut pod = pod();
    for (pointer, value) in changes {
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        pod.pointer_mut(parent).unwrap()[key] = value.clone();
    }
    pod
}

fn evaluate(predicate: &Predicate, kind: EventKind, old: Option<&Value>, new: &Value) -> bool {
    let texts = [old.map(Value::to_string), Some(new.to_string())];
    let [old_bytes, new_bytes] =
        texts.each_ref().map(|text| text.as_ref().map(|text| ObjectView::parse(text.as_bytes()).unwrap()));
    let from_bytes = predicate.evaluate(kind, old_bytes.as_ref(), &new_bytes.unwrap());
    let old_value = old.map(|old| ObjectView::from_value(old).unwrap());
    let from_values = predicate.evaluate(kind, old_value.as_ref(), &ObjectView::from_value(new).unwrap());
    assert_eq!(from_bytes, from_values, "{predicate:?}");
    from_bytes
}

#[test]
fn an_object_matches() {
    use predicate::{always, deleting, field, has_controller, labels, object, owned_by, owned_by_uid};
    for (predicate, expected) in [
        (owned_by("ReplicaSet"), true),
        // It is an owner, and not the controller.
        (owned_by("DaemonSet"), false),
        (owned_by_uid("d1"), true),
        (owned_by_uid("d2"), false),
        (has_controller(), true),
        (labels("app=web,tier in (front,back),!canary").unwrap(), true),
        (labels("app!=web").unwrap(), false),
        (field("status.phase").equals("Running"), true),
        (field("/spec/priority").equals("7"), true),
        (field("spec.nodeName").one_of(["n0", "n1"]), true),
        (field("spec.nodeName").one_of(["n0", "n2"]), false),
        (field("metadata.labels.canary").exists(), false),
        (field("metadata.labels.canary").exists().not(), true),
        (deleting(), false),
        (object(|pod| pod.name().starts_with("we")), true),
        (always(true).and(owned_by("Job")), false),
        (owned_by("Job").or(deleting()).or(has_controller()), true),
    ] {
        assert_eq!(evaluate(&predicate, EventKind::Generic, None, &pod()), expected, "{predicate:?}");
    }
    assert!(labels("app in").is_err());
}

#[test]
fn an_update_is_reported() {
    use predicate::{
        annotations_changed, changed_by, deletion_requested, field_changed, finalizers_changed,
        generation_changed, labels_changed, on, own_write, resource_version_changed,
    };
    let all: [(&str, Predicate); 10] = [
        ("generation", generation_changed()),
        ("labels", labels_changed()),
        ("annotations", annotations_changed()),
        ("finalizers", finalizers_changed()),
        ("resourceVersion", resource_version_changed()),
        ("phase", field_changed("status.phase")),
        ("priority", changed_by(|pod| pod.field(&"spec.priority".into()).and_then(kstatus::Node::as_int))),
        ("deletion", deletion_requested()),
        ("own", own_write("me")),
        ("kind", on(EventKind::Update).not()),
    ];
    for (changes, expected) in [
        (&[][..], &[][..]),
        (&[("/metadata/resourceVersion", json!("11"))], &["resourceVersion"]),
        (&[("/metadata/generation", json!(4))], &["generation"]),
        (&[("/metadata/labels/app", json!("shop"))], &["labels"]),
        (&[("/metadata/annotations", json!({"a": "b"}))], &["annotations"]),
        // Nothing, null and what is empty are the same.
        (&[("/metadata/annotations", json!({}))], &[]),
        (&[("/metadata/finalizers", json!(["a/b"]))], &["finalizers"]),
        (&[("/metadata/finalizers", json!(null))], &[]),
        (&[("/status/phase", json!("Failed"))], &["phase"]),
        (&[("/spec/priority", json!(8))], &["priority"]),
        (&[("/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"))], &["deletion"]),
        (&[("/metadata/managedFields/1/time", json!("2026-01-01T00:00:01Z"))], &["own"]),
        (&[("/metadata/managedFields/0/time", json!("2026-01-01T00:00:01Z"))], &[]),
        // Two writes between two looks at it, of which one is another client's.
        (
            &[
                ("/metadata/managedFields/0/time", json!("2026-01-01T00:00:01Z")),
                ("/metadata/managedFields/1/time", json!("2026-01-01T00:00:01Z")),
            ],
            &[],
        ),
        // The same name, and another object: whatever is compared is new.
        (
            &[("/metadata/uid", json!("u2"))],
            &[
                "generation",
                "labels",
                "annotations",
                "finalizers",
                "resourceVersion",
                "phase",
                "priority",
                "deletion",
                "own",
                "kind",
            ],
        ),
    ] {
        let new = changed(changes);
        let reported =
            all.iter().filter(|(_, predicate)| evaluate(predicate, EventKind::Update, Some(&pod()), &new));
        let reported: Vec<&str> = reported.map(|(name, _)| *name).collect();
        assert_eq!(reported, expected, "{changes:?}");
    }
}

/// Within one second, where the times of managers say nothing.
#[test]
fn own_writes_are_known_by_resource_version() {
    let own = OwnWrites::new();
    // Another one wrote 12 after it.
    own.record("u1", "10", "11");
    own.record("u1", "12", "13");
    own.record("u1", "13", "14");
    let predicate = predicate::own_write_in(&own);
    let version = |version: &str| changed(&[("/metadata/resourceVersion", json!(version))]);
    for (from, to, expected) in [
        ("10", "11", true),
        ("11", "12", false),
        ("12", "13", true),
        // A relist, over two own writes; over one of another client's as well.
        ("12", "14", true),
        ("11", "14", false),
        ("10", "14", false),
    ] {
        let (old, new) = (version(from), version(to));
        assert_eq!(evaluate(&predicate, EventKind::Update, Some(&old), &new), expected, "{from} to {to}");
        assert!(!evaluate(&predicate::own_write("me"), EventKind::Update, Some(&old), &new));
    }
    // Without an old one, and of another object, there is nothing to tell it by.
    assert!(!evaluate(&predicate, EventKind::Create, None, &version("11")));
    let other = |version: &str| {
        changed(&[("/metadata/resourceVersion", json!(version)), ("/metadata/uid", json!("u2"))])
    };
    assert!(!evaluate(&predicate, EventKind::Update, Some(&other("10")), &other("11")));
}

#[test]
fn creations_pass_what_compares_and_deletions_pass_everything() {
    let compares = predicate::generation_changed().and(predicate::labels_changed());
    assert!(evaluate(&compares, EventKind::Create, None, &pod()));
    assert!(!evaluate(&predicate::own_write("me"), EventKind::Create, None, &pod()));
    assert!(!evaluate(&compares.clone().and(predicate::owned_by("Job")), EventKind::Create, None, &pod()));
    for never in [predicate::always(false), predicate::on(EventKind::Create), compares.not()] {
        assert!(evaluate(&never, EventKind::Delete, Some(&pod()), &pod()), "{never:?}");
    }
}

/// What a projection leaves out is what a typed object does not have.
#[test]
fn a_projected_pod_is_a_pod() {
    let small =
        Projection::only(["spec.nodeName", "status.phase"]).apply(&ObjectView::from_value(&pod()).unwrap());
    let pod: k8s_openapi::api::core::v1::Pod = serde_json::from_slice(&small).unwrap();
    assert_eq!(pod.spec.unwrap().node_name.as_deref(), Some("n1"));
    assert_eq!(pod.metadata.managed_fields, None);
    assert_eq!(pod.metadata.uid.as_deref(), Some("u1"));
}
