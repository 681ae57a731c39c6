//! What the API server of Kubernetes does around the merge.

use jiff::Timestamp;
use serde_json::{Value, json};
use settled_managed_fields::{ApplyError, FieldManager, Untyped, decode_managed_fields};

fn manager() -> FieldManager<Untyped> {
    FieldManager::new(Untyped, "apps/v1", "Deployment")
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

fn deployment(spec: Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec})
}

fn names(object: &Value) -> Vec<String> {
    decode_managed_fields(object).unwrap().into_iter().map(|entry| entry.manager).collect()
}

#[test]
fn a_conflict_names_manager_version_and_field() {
    let manager = manager();
    let new = deployment(json!({"replicas": 1, "paused": true}));
    let live = manager.update(&manager.empty(), &new, "edit", at(1)).unwrap();
    let config = deployment(json!({"replicas": 2}));
    let Err(ApplyError::Conflict { message, causes }) = manager.apply(&live, &config, "helm", false, at(2))
    else {
        panic!("no conflict");
    };
    assert_eq!(
        message,
        r#"Apply failed with 1 conflict: conflict with "edit" using apps/v1: .spec.replicas"#
    );
    assert_eq!(causes[0].message, r#"conflict with "edit" using apps/v1"#);
    assert_eq!(causes[0].field, ".spec.replicas");
    let forced = manager.apply(&live, &config, "helm", true, at(2)).unwrap();
    assert_eq!(names(&forced), ["helm", "edit"]);
    assert_eq!(forced["spec"], json!({"replicas": 2, "paused": true}));
}

#[test]
fn what_was_there_belongs_to_before_first_apply() {
    let manager = manager();
    let mut live = deployment(json!({"replicas": 1}));
    live["metadata"]["uid"] = "u".into();
    // It was created without tracking, and stays so.
    assert!(names(&manager.update(&live, &live, "edit", at(1)).unwrap()).is_empty());
    let applied = manager.apply(&live, &deployment(json!({"paused": true})), "helm", false, at(2)).unwrap();
    assert_eq!(names(&applied), ["helm", "before-first-apply"]);
}

#[test]
fn kubectl_takes_over_what_it_applied_on_the_clients_side() {
    const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
    let manager = manager();
    let mut live = deployment(json!({"replicas": 1}));
    live["metadata"]["annotations"] = json!({ANNOTATION: live.to_string()});
    let live = manager.update(&manager.empty(), &live, "kubectl-client-side-apply", at(1)).unwrap();
    let config = deployment(json!({"replicas": 2}));
    let refused = manager.apply(&live, &config, "helm", false, at(2));
    assert!(matches!(refused, Err(ApplyError::Conflict { .. })));
    let applied = manager.apply(&live, &config, "kubectl", false, at(2)).unwrap();
    assert!(applied["metadata"]["annotations"][ANNOTATION].to_string().contains("replicas\\\":2"));
}

#[test]
fn old_updates_become_ancient_changes() {
    let manager = manager();
    let mut live = manager.empty();
    for place in 0..15 {
        let mut new = live.clone();
        new["spec"][format!("field{place}")] = place.into();
        live = manager.update(&live, &new, &format!("m{place:02}"), at(1 + place)).unwrap();
    }
    let names = names(&live);
    assert_eq!(names.len(), 10);
    assert_eq!((&*names[0], &*names[9]), ("ancient-changes", "m14"));
}

#[test]
fn a_write_that_changes_nothing_keeps_the_time() {
    let manager = manager();
    let config = deployment(json!({"replicas": 1}));
    let live = manager.apply(&manager.empty(), &config, "helm", false, at(1)).unwrap();
    assert_eq!(manager.apply(&live, &config, "helm", false, at(9)).unwrap(), live);
    assert_eq!(manager.update(&live, &live, "edit", at(9)).unwrap(), live);
    assert_eq!(live["metadata"]["managedFields"][0]["time"], "1970-01-01T00:00:01Z");
}

#[test]
fn managed_fields_can_be_reset() {
    let manager = manager();
    let mut live = deployment(json!({"replicas": 1}));
    live = manager.apply(&manager.empty(), &live, "helm", false, at(1)).unwrap();
    live["metadata"]["uid"] = "u".into();
    for reset in [json!([]), json!([{}])] {
        let mut new = live.clone();
        new["metadata"]["managedFields"] = reset;
        let after = manager.update(&live, &new, "edit", at(2)).unwrap();
        assert!(after["metadata"].get("managedFields").is_none(), "{after}");
    }
}

#[test]
fn wrong_requests_are_refused() {
    let manager = manager();
    let mut with_fields = deployment(json!({}));
    with_fields["metadata"]["managedFields"] = json!([]);
    for (config, message) in [
        (json!({"apiVersion": "v1", "kind": "Pod"}), "invalid object type: /v1, Kind=Pod"),
        (with_fields, "metadata.managedFields must be nil"),
    ] {
        let error = manager.apply(&manager.empty(), &config, "x", false, at(1)).unwrap_err();
        assert_eq!(error, ApplyError::BadRequest(message.to_owned()));
    }
}
