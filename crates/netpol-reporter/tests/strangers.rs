//! Conditions of the same type by another manager.

use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::json;

use crate::front::Front;
use crate::harness::{
    Gate, Running, config, create, field, policies, range, run_cilium, server, statuses, three, until, wait,
};

/// An administrator's condition is not fought over: it stays, an event and a metric tell of it.
#[tokio::test]
async fn an_administrators_condition_stays() {
    let server = server(Gate::On).await;
    let client = server.client();
    run_cilium(&client, "v1.15.5").await;
    let api = policies(&client, "default");
    create(&api, range("a")).await;
    let own = json!({"status": {"conditions": [{
        "type": "Accepted", "status": "True", "reason": "Tested", "message": "by hand",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]}});
    let theirs = PatchParams { field_manager: Some("administrator".to_owned()), ..PatchParams::default() };
    api.patch_status("a", &theirs, &Patch::Merge(own)).await.unwrap();
    let before = api.get("a").await.unwrap();

    let front = Front::new(client.clone());
    let reporter = Running::start(front.client(), config());
    let events: Api<Event> = Api::namespaced(client.clone(), "default");
    until("there is an event about it", async || {
        let found = events.list(&ListParams::default()).await.unwrap();
        let of_policy = |event: &Event| {
            let regarding = event.regarding.as_ref().and_then(|object| object.name.as_deref());
            event.reason.as_deref() == Some("ConditionOwnedByOthers") && regarding == Some("a")
        };
        found.items.iter().any(of_policy)
    })
    .await;
    assert!(reporter.has_metric("settled_netpol_owned_by_others_total 1"));
    let after = api.get("a").await.unwrap();
    assert_eq!(after.metadata.resource_version, before.metadata.resource_version);
    assert_eq!(field(&after, "Accepted", "reason"), Some(&json!("Tested")));
    // Another policy is not concerned, and the refused one was tried once.
    create(&api, range("b")).await;
    wait(&api, "b", |policy| statuses(policy) == three("False", "False", "True")).await;
    assert_eq!(front.writes().iter().filter(|write| write.ends_with("/a/status")).count(), 1);

    // The administrator gives it up: the reporter takes over, without a restart.
    let nothing = Patch::Merge(json!({"status": null}));
    api.patch_status("a", &theirs, &nothing).await.unwrap();
    wait(&api, "a", |policy| statuses(policy) == three("False", "False", "True")).await;
    reporter.stop().await;
}

/// A condition of another type belongs to another manager, and stays beside the reporter's.
#[tokio::test]
async fn conditions_of_other_types_are_kept() {
    let server = server(Gate::On).await;
    let client = server.client();
    run_cilium(&client, "v1.15.5").await;
    let api = policies(&client, "default");
    create(&api, range("a")).await;
    let own = json!({"status": {"conditions": [{
        "type": "example.com/Reviewed", "status": "True", "reason": "Reviewed", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]}});
    api.patch_status("a", &PatchParams::default(), &Patch::Merge(own)).await.unwrap();
    let reporter = Running::start(client.clone(), config());
    let policy = wait(&api, "a", |policy| statuses(policy).len() == 4).await;
    assert_eq!(field(&policy, "example.com/Reviewed", "status"), Some(&json!("True")));
    run_cilium(&client, "v1.16.0").await;
    let accepted = json!("True");
    let policy = wait(&api, "a", |policy| field(policy, "Accepted", "status") == Some(&accepted)).await;
    assert_eq!(field(&policy, "example.com/Reviewed", "status"), Some(&json!("True")));
    reporter.stop().await;
}
