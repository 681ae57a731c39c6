//! The status writer: what it writes, what it does not write, what it makes of failures.

use std::error::Error as _;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use settled_apiserver::Server;
use settled_apiserver::auth::User;
use settled_controller::conditions::Conditions;
use settled_controller::events::Recorder;
use settled_controller::metrics::Metrics;
use settled_controller::status::{Counts, Fight, Outcome, StatusWriter, WriteError, WriteFailure, WriteMode};
use settled_controller::write_metrics::WriteMetrics;
use settled_controller::{Clock, Fence, Freshness};

use crate::bucket::{
    Bucket, BucketCondition, BucketReason, BucketStatus, CRD, at, buckets, condition, create, definition,
    install, patch_status, server,
};
use crate::intercept::{UNREACHABLE, failure, intercept, record};

const MANAGER: &str = "bucket-controller";
const PATH: &str = "/apis/example.com/v1/namespaces/default/buckets/a";

fn writer(client: &Client) -> StatusWriter<Bucket> {
    StatusWriter::new(client.clone(), MANAGER)
}

async fn read(client: &Client) -> Bucket {
    buckets(client).get("a").await.unwrap()
}

async fn change(client: &Client, patch: Value) -> Bucket {
    buckets(client).patch("a", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap()
}

/// Writes a status that does not depend on what is observed.
async fn write(writer: &StatusWriter<Bucket>, bucket: &Bucket, status: Value) -> Result<Outcome, WriteError> {
    writer.write(bucket, |_| Ok(status.clone())).await
}

fn version(outcome: &Outcome) -> &str {
    match outcome {
        Outcome::Written { resource_version } => resource_version,
        other => panic!("{other:?}"),
    }
}

fn is_unchanged(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Unchanged)
}

/// The status of a controller that stamps all conditions with the present time.
fn status(second: i64, instance: &str) -> BucketStatus {
    BucketStatus {
        instance: Some(instance.to_owned()),
        conditions: vec![condition("Ready", "True", second), condition("Stored", "True", second)],
        ..BucketStatus::default()
    }
}

#[tokio::test]
async fn what_is_there_already_is_not_written() {
    let server = server().await;
    create(&server.client(), "a").await;
    let (client, requests) = record(server.client());
    let writer = writer(&client);
    let bucket = read(&client).await;
    let outcome = writer.write(&bucket, |_| Ok(status(1, "prod"))).await.unwrap();
    let written = read(&client).await;
    assert_eq!(Some(version(&outcome)), written.metadata.resource_version.as_deref());
    assert_eq!(written.status.as_ref().unwrap(), &status(1, "prod"));
    assert_eq!(
        requests.take(),
        [format!("GET {PATH}"), format!("PATCH {PATH}/status"), format!("GET {PATH}")]
    );

    // With other times; by a copy; by a writer that knows nothing.
    for writer in [writer.clone(), writer.clone(), self::writer(&client)] {
        assert!(is_unchanged(&writer.write(&written, |_| Ok(status(2, "prod"))).await.unwrap()));
    }
    assert!(requests.take().is_empty());
    assert_eq!(writer.counts(), Counts { written: 1, unchanged: 2, ..Counts::default() });

    // What does change takes no other time along.
    let outcome = writer.write(&written, |_| Ok(status(3, "test"))).await.unwrap();
    let changed = read(&client).await;
    assert_eq!(Some(version(&outcome)), changed.metadata.resource_version.as_deref());
    assert_eq!(
        changed.status.unwrap(),
        BucketStatus { instance: Some("test".to_owned()), ..status(1, "prod") }
    );
}

#[tokio::test]
async fn a_fence_knows_what_was_written() {
    let client = server().await.client();
    let observed = create(&client, "a").await;
    let fence = Fence::new();
    let writer = writer(&client).fence(fence.clone());
    assert_eq!(fence.freshness(&observed), Freshness::Current);
    assert!(matches!(
        write(&writer, &observed, json!({"instance": "prod"})).await.unwrap(),
        Outcome::Written { .. }
    ));
    assert_eq!(fence.freshness(&observed), Freshness::Stale);
    assert_eq!(fence.freshness(&read(&client).await), Freshness::Current);
}

#[tokio::test]
async fn a_conflict_is_decided_anew_on_what_is_there() {
    let server = server().await;
    let observed = create(&server.client(), "a").await;
    let (client, requests) = record(server.client());
    let admin = server.client();
    change(&admin, json!({"spec": {"instance": "test"}})).await;
    patch_status(&admin, "a", "other", &json!({"conditions": [condition("Theirs", "True", 1)]}))
        .await
        .unwrap();

    let writer = writer(&client);
    let mut instances = Vec::new();
    let outcome = writer.write(&observed, |bucket| {
        instances.push(bucket.spec.instance.clone());
        let observed = bucket.status.clone().unwrap_or_default();
        let mut conditions =
            Conditions::new(&observed.conditions, bucket.metadata.generation, &Clock::system());
        conditions.set(BucketCondition::Stored, true, BucketReason::AsExpected, "");
        let instance = Some(bucket.spec.instance.clone());
        Ok(BucketStatus { instance, conditions: conditions.finish()?, ..observed })
    });
    assert!(matches!(outcome.await.unwrap(), Outcome::Written { .. }));
    assert_eq!(instances, ["prod", "test"]);
    assert_eq!(
        requests.take(),
        [format!("PATCH {PATH}/status"), format!("GET {PATH}"), format!("PATCH {PATH}/status")]
    );
    assert_eq!(writer.counts(), Counts { written: 1, conflicts: 1, ..Counts::default() });
    let stored = read(&client).await.status.unwrap();
    assert_eq!(stored.instance.as_deref(), Some("test"));
    assert_eq!(stored.conditions[0], condition("Theirs", "True", 1));
    assert_eq!(stored.conditions[1].observed_generation, Some(2));
}

#[tokio::test]
async fn an_object_that_always_changes_is_given_up() {
    let server = server().await;
    let bucket = create(&server.client(), "a").await;
    let admin = server.client();
    let changes = Arc::new(AtomicU32::new(0));
    let (client, _) = intercept(server.client(), move |request| {
        let is_write = request.starts_with("PATCH");
        let (admin, changes) = (admin.clone(), changes.clone());
        Box::pin(async move {
            if is_write {
                let count = changes.fetch_add(1, Ordering::Relaxed);
                change(&admin, json!({"metadata": {"labels": {"count": count.to_string()}}})).await;
            }
            None
        })
    });
    let writer = writer(&client).attempts(3);
    let error = write(&writer, &bucket, json!({"instance": "prod"})).await.unwrap_err();
    assert!(matches!(error.cause, WriteFailure::Conflict { attempts: 3, .. }), "{error:?}");
    assert!(error.is_transient());
    assert_eq!(
        error.to_string(),
        "cannot write status of buckets \"a\" in namespace \"default\": still in conflict after 3 attempts"
    );
    assert_eq!(writer.counts(), Counts { conflicts: 3, failed: 1, ..Counts::default() });
    assert_eq!(read(&client).await.status, None);
}

#[tokio::test]
async fn an_object_that_is_no_more_is_not_written() {
    let server = server().await;
    let client = server.client();
    let old = create(&client, "a").await;
    buckets(&client).delete("a", &DeleteParams::default()).await.unwrap();
    for mode in [WriteMode::MergePatch, WriteMode::Apply { force: true }] {
        let writer = writer(&client).mode(mode);
        assert_eq!(
            write(&writer, &old, json!({"instance": "prod"})).await.unwrap(),
            Outcome::Gone,
            "{mode:?}"
        );
        assert!(buckets(&client).get_opt("a").await.unwrap().is_none(), "{mode:?}");
    }
    // Another one of the same name.
    let new = create(&client, "a").await;
    assert_ne!(new.uid(), old.uid());
    for mode in [WriteMode::MergePatch, WriteMode::Apply { force: true }] {
        let writer = writer(&client).mode(mode);
        assert_eq!(
            write(&writer, &old, json!({"instance": "prod"})).await.unwrap(),
            Outcome::Gone,
            "{mode:?}"
        );
        assert_eq!(writer.counts().gone, 1);
        assert_eq!(read(&client).await, new, "{mode:?}");
    }
}

#[tokio::test]
async fn spec_and_metadata_are_not_written() {
    let server = server().await;
    let client = server.client();
    create(&client, "a").await;
    let before =
        change(&client, json!({"metadata": {"labels": {"a": "b"}, "finalizers": ["example.com/f"]}})).await;
    for (mode, instance) in [(WriteMode::MergePatch, "x"), (WriteMode::Apply { force: true }, "y")] {
        let writer = writer(&client).mode(mode);
        let outcome = write(&writer, &read(&client).await, json!({"instance": instance})).await.unwrap();
        assert!(matches!(outcome, Outcome::Written { .. }), "{mode:?}");
        let after = read(&client).await;
        assert_eq!(after.spec, before.spec);
        assert_eq!((after.labels(), after.finalizers()), (before.labels(), before.finalizers()));
        assert_eq!(after.metadata.generation, before.metadata.generation);
    }
}

/// A user who may do this with buckets, and nothing else.
async fn user(server: &Server, rules: Value) -> Client {
    let admin = server.client();
    let role: ClusterRole =
        serde_json::from_value(json!({"metadata": {"name": "controller"}, "rules": rules})).unwrap();
    let binding: ClusterRoleBinding = serde_json::from_value(json!({
        "metadata": {"name": "controller"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "controller"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "controller"}],
    }))
    .unwrap();
    Api::all(admin.clone()).create(&PostParams::default(), &role).await.unwrap();
    Api::all(admin).create(&PostParams::default(), &binding).await.unwrap();
    server.client_as(&User::new("controller", ["system:authenticated"]))
}

fn rule(resource: &str, verbs: &[&str]) -> Value {
    json!({"apiGroups": ["example.com"], "resources": [resource], "verbs": verbs})
}

#[tokio::test]
async fn without_permission_the_verb_and_the_resource_are_named() {
    let server = server().await;
    let bucket = create(&server.client(), "a").await;
    // All of the bucket, but not its status.
    let client = user(&server, json!([rule("buckets", &["*"])])).await;
    let error = write(&writer(&client), &bucket, json!({"instance": "prod"})).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot write status of buckets \"a\" in namespace \"default\": forbidden (needs verb \"patch\" on \"buckets/status\")"
    );
    assert_eq!(
        error.hint(),
        "add {apiGroups: [\"example.com\"], resources: [\"buckets/status\"], verbs: [\"patch\"]} to the rules of the controller's role"
    );
    assert!(
        error.source().unwrap().to_string().contains("cannot patch resource \"buckets/status\""),
        "{error:?}"
    );
    assert!(!error.is_transient());
    assert_eq!(read(&server.client()).await, bucket);
}

#[tokio::test]
async fn permission_to_patch_the_status_is_enough() {
    let server = server().await;
    let bucket = create(&server.client(), "a").await;
    let client = user(&server, json!([rule("buckets/status", &["patch"])])).await;
    let writer = writer(&client);
    assert!(matches!(
        write(&writer, &bucket, json!({"instance": "prod"})).await.unwrap(),
        Outcome::Written { .. }
    ));
    // What was observed is stale now: then it has to be read.
    let error = write(&writer, &bucket, json!({"instance": "test"})).await.unwrap_err();
    assert!(
        matches!(&error.cause, WriteFailure::Forbidden { verb: "get", resource, .. } if resource == "buckets"),
        "{error:?}"
    );
}

/// A server whose buckets have no status subresource.
async fn server_without_subresource() -> Server {
    let server = Server::in_memory().await.unwrap();
    let mut definition = definition();
    definition.spec.versions[0].subresources = None;
    install(&server.client(), &definition).await;
    server
}

#[tokio::test]
async fn without_a_status_subresource_nothing_is_written() {
    let server = server_without_subresource().await;
    let bucket = create(&server.client(), "a").await;
    for mode in [WriteMode::MergePatch, WriteMode::Apply { force: true }] {
        let (client, requests) = record(server.client());
        let error =
            write(&writer(&client).mode(mode), &bucket, json!({"instance": "prod"})).await.unwrap_err();
        assert!(matches!(error.cause, WriteFailure::NoStatusSubresource { .. }), "{error:?}");
        assert!(error.hint().contains("subresources: {status: {}}"), "{}", error.hint());
        assert_eq!(requests.take(), [format!("PATCH {PATH}/status"), format!("GET {PATH}")]);
        assert_eq!(read(&server.client()).await, bucket);
        // That it is gone is told apart.
        let gone = Bucket {
            metadata: kube::api::ObjectMeta { name: Some("b".to_owned()), ..bucket.metadata.clone() },
            ..bucket.clone()
        };
        assert_eq!(
            write(&writer(&client).mode(mode), &gone, json!({"instance": "x"})).await.unwrap(),
            Outcome::Gone
        );
    }
}

#[tokio::test]
async fn a_crd_that_was_withdrawn_is_no_deleted_object() {
    let server = server().await;
    let client = server.client();
    let bucket = create(&client, "a").await;
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    crds.delete(CRD, &DeleteParams::default()).await.unwrap();
    kube::runtime::wait::await_condition(crds, CRD, |found: Option<&CustomResourceDefinition>| {
        found.is_none()
    })
    .await
    .unwrap();
    let error = write(&writer(&client), &bucket, json!({"instance": "prod"})).await.unwrap_err();
    assert!(matches!(error.cause, WriteFailure::NotServed { .. }), "{error:?}");
    assert!(error.hint().contains("install the CRD buckets.example.com"), "{}", error.hint());
}

#[tokio::test]
async fn a_status_that_the_schema_refuses_names_the_fields() {
    let client = server().await.client();
    let bucket = create(&client, "a").await;
    let bad = json!({"type": "Ready", "status": "Maybe", "reason": "", "message": "", "lastTransitionTime": at(0).to_string()});
    let error =
        write(&writer(&client), &bucket, json!({"instance": 5, "conditions": [bad]})).await.unwrap_err();
    let WriteFailure::Invalid { fields, .. } = &error.cause else { panic!("{error:?}") };
    for field in ["status.instance", "status.conditions[0].status", "status.conditions[0].reason"] {
        assert!(fields.iter().any(|known| known == field), "{field} of {fields:?}");
    }
    assert!(
        error.to_string().contains(": rejected by validation: Bucket.example.com \"a\" is invalid: "),
        "{error}"
    );
    assert!(!error.is_transient());
    assert_eq!(read(&client).await, bucket);
}

#[tokio::test]
async fn a_status_that_a_validation_rule_refuses_names_the_field_and_the_rule() {
    let server = Server::in_memory().await.unwrap();
    let mut definition = definition();
    let rule = json!({"rule": "!has(self.instance) || self.instance != 'reserved'", "message": "reserved is not for use"});
    let schema = definition.spec.versions[0].schema.as_mut().unwrap().open_api_v3_schema.as_mut().unwrap();
    let status = schema.properties.as_mut().unwrap().get_mut("status").unwrap();
    status.x_kubernetes_validations = Some(vec![serde_json::from_value(rule).unwrap()]);
    install(&server.client(), &definition).await;
    let client = server.client();
    let bucket = create(&client, "a").await;

    let error = write(&writer(&client), &bucket, json!({"instance": "reserved"})).await.unwrap_err();
    let WriteFailure::Invalid { fields, .. } = &error.cause else { panic!("{error:?}") };
    assert_eq!(*fields, ["status"]);
    let text = error.to_string();
    assert!(text.contains("rejected by validation: ") && text.contains("reserved is not for use"), "{text}");
    assert!(!error.is_transient());
    assert_eq!(read(&client).await, bucket);
    let allowed = write(&writer(&client), &bucket, json!({"instance": "prod"})).await.unwrap();
    assert!(matches!(allowed, Outcome::Written { .. }));
}

#[tokio::test]
async fn a_status_over_the_size_limit_says_so() {
    let client = server().await.client();
    let bucket = create(&client, "a").await;
    let error = write(&writer(&client), &bucket, json!({"instance": "x".repeat(4 << 20)})).await.unwrap_err();
    assert!(matches!(error.cause, WriteFailure::TooLarge { bytes, .. } if bytes > 4 << 20), "{error:?}");
    assert!(!error.is_transient());
    assert_eq!(read(&client).await, bucket);
}

#[tokio::test]
async fn a_failing_server_is_for_the_callers_backoff() {
    let server = server().await;
    let bucket = create(&server.client(), "a").await;
    let failures = [
        (429, "TooManyRequests"),
        (500, "InternalError"),
        (503, "ServiceUnavailable"),
        (504, "Timeout"),
        (UNREACHABLE, ""),
    ];
    for (code, reason) in failures {
        let (client, requests) = intercept(server.client(), move |_| {
            Box::pin(async move { Some(failure(code, reason, "not now")) })
        });
        let error = write(&writer(&client), &bucket, json!({"instance": "prod"})).await.unwrap_err();
        assert!(matches!(error.cause, WriteFailure::Request { .. }) && error.is_transient(), "{error:?}");
        // Nothing is tried again behind the caller's back.
        assert_eq!(requests.take().len(), 1, "{code}");
    }
    // Simulated: of admission, only webhooks, policies and NodeRestriction deny a status, and this server has none of them.
    let webhook = "admission webhook \"w.example.com\" denied the request: no";
    let (client, _) = intercept(server.client(), move |_| {
        Box::pin(async move { Some(failure(403, "Forbidden", webhook)) })
    });
    let error = write(&writer(&client), &bucket, json!({"instance": "prod"})).await.unwrap_err();
    assert!(matches!(error.cause, WriteFailure::Denied { .. }) && !error.is_transient(), "{error:?}");
}

#[tokio::test]
async fn failures_before_the_request_are_told_apart() {
    let client = server().await.client();
    let bucket = create(&client, "a").await;
    let error = writer(&client).write(&bucket, |_| Err::<Value, _>("no idea".into())).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot write status of buckets \"a\" in namespace \"default\": cannot decide the status: no idea"
    );
    let unread = Bucket::new("a", bucket.spec.clone());
    let error = write(&writer(&client), &unread, json!({})).await.unwrap_err();
    assert!(matches!(error.cause, WriteFailure::Incomplete { field: "metadata.uid" }), "{error:?}");
}

#[tokio::test]
async fn what_the_server_drops_is_written_once() {
    let (client, requests) = record(server().await.client());
    let bucket = create(&client, "a").await;
    let writer = writer(&client);
    // The schema has no such field: it is pruned.
    let desired = json!({"instance": "prod", "unknown": 1});
    assert!(matches!(write(&writer, &bucket, desired.clone()).await.unwrap(), Outcome::Written { .. }));
    let stored = read(&client).await;
    requests.take();
    assert!(is_unchanged(&write(&writer, &stored, desired.clone()).await.unwrap()));
    assert!(requests.take().is_empty());
    // A restart writes once more, and finds that nothing changes.
    let restarted = self::writer(&client);
    assert!(is_unchanged(&write(&restarted, &stored, desired.clone()).await.unwrap()));
    assert_eq!(requests.take(), [format!("PATCH {PATH}/status")]);
    assert_eq!(read(&client).await.resource_version(), stored.resource_version());
    // Changes by other managers are corrected all the same.
    let changed = patch_status(&client, "a", "other", &json!({"instance": "test"})).await.unwrap();
    assert!(matches!(write(&writer, &changed, desired).await.unwrap(), Outcome::Written { .. }));
}

#[tokio::test]
async fn a_built_in_status_that_go_writes_differently_is_written_once() {
    let (client, requests) = record(Server::in_memory().await.unwrap().client());
    let deployment: Deployment = serde_json::from_value(json!({
        "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "a", "image": "a"}]}},
        },
    }))
    .unwrap();
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    let observed = deployments.create(&PostParams::default(), &deployment).await.unwrap();
    let writer: StatusWriter<Deployment> = StatusWriter::new(client, MANAGER);
    // Go leaves out what is 0 or empty.
    let desired = json!({"replicas": 0, "readyReplicas": 0, "observedGeneration": 1, "conditions": []});
    let outcome = writer.write(&observed, |_| Ok(desired.clone())).await.unwrap();
    assert!(matches!(outcome, Outcome::Written { .. }));
    let observed = deployments.get("web").await.unwrap();
    requests.take();
    assert!(is_unchanged(&writer.write(&observed, |_| Ok(desired.clone())).await.unwrap()));
    assert!(requests.take().is_empty());
}

#[tokio::test]
async fn kinds_that_are_known_at_run_time_are_written() {
    let client = server().await.client();
    create(&client, "a").await;
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Bucket"));
    let api: Api<DynamicObject> = Api::default_namespaced_with(client.clone(), &kind);
    let writer: StatusWriter<DynamicObject> = StatusWriter::with_kind(client, MANAGER, kind);
    let desired = json!({"instance": "prod"});
    let observed = api.get("a").await.unwrap();
    assert!(matches!(
        writer.write(&observed, |_| Ok(desired.clone())).await.unwrap(),
        Outcome::Written { .. }
    ));
    let observed = api.get("a").await.unwrap();
    assert_eq!(observed.data["status"], desired);
    assert!(is_unchanged(&writer.write(&observed, |_| Ok(desired.clone())).await.unwrap()));
}

#[tokio::test]
async fn a_field_may_wait_for_the_next_change() {
    let client = server().await.client();
    let bucket = create(&client, "a").await;
    let writer = writer(&client).ignore_alone("/lastSyncTime");
    let desired = |instance: &str, time: &str| json!({"instance": instance, "lastSyncTime": time});
    // The first one is a change.
    assert!(matches!(write(&writer, &bucket, desired("prod", "1")).await.unwrap(), Outcome::Written { .. }));
    let bucket = read(&client).await;
    assert!(is_unchanged(&write(&writer, &bucket, desired("prod", "2")).await.unwrap()));
    assert!(matches!(write(&writer, &bucket, desired("test", "3")).await.unwrap(), Outcome::Written { .. }));
    assert_eq!(read(&client).await.status.unwrap().last_sync_time.as_deref(), Some("3"));
}

#[tokio::test]
async fn a_fight_with_another_manager_is_reported() {
    let client = server().await.client();
    let bucket = create(&client, "a").await;
    let fights: Arc<Mutex<Vec<Fight>>> = Arc::default();
    let seen = fights.clone();
    let now = Arc::new(AtomicU32::new(0));
    let time = now.clone();
    let writer = writer(&client)
        .clock(Clock::new(move || at(i64::from(time.load(Ordering::Relaxed)))))
        .on_fight(move |fight| seen.lock().unwrap().push(fight.clone()));
    let ours = json!({"instance": "prod", "conditions": [condition("Ready", "True", 1)]});
    write(&writer, &bucket, ours.clone()).await.unwrap();

    // Another controller's condition is no fight.
    let theirs = json!({"conditions": [condition("Ready", "True", 1), condition("Theirs", "True", 1)]});
    let bucket = patch_status(&client, "a", "other-controller", &theirs).await.unwrap();
    let both = json!({"instance": "prod", "conditions": theirs["conditions"]});
    assert!(is_unchanged(&write(&writer, &bucket, both).await.unwrap()));
    assert!(fights.lock().unwrap().is_empty());

    // A, B, A, B, A, with the watch events of its own writes between them.
    for round in 1..=2 {
        let theirs = json!({"conditions": [condition("Ready", "False", 1)]});
        let bucket = patch_status(&client, "a", "other-controller", &theirs).await.unwrap();
        assert!(matches!(write(&writer, &bucket, ours.clone()).await.unwrap(), Outcome::Written { .. }));
        assert!(is_unchanged(&write(&writer, &read(&client).await, ours.clone()).await.unwrap()));
        let fight = fights.lock().unwrap().pop().unwrap();
        assert_eq!(fight.fields, ["conditions[Ready].status"]);
        assert_eq!(fight.managers, ["other-controller"]);
        assert_eq!(fight.rounds, round);
        let note = "conditions[Ready].status overwritten by other-controller and set back";
        assert_eq!(fight.event().note.as_deref(), Some(note));
        assert_eq!(fight.to_string(), format!("{note}, {round} times"));
        assert_eq!((fight.object.kind.as_deref(), fight.object.name.as_deref()), (Some("Bucket"), Some("a")));
    }
    assert_eq!(writer.counts().fights, 2);

    // What the controller itself changes its mind about is no fight.
    for instance in ["test", "prod", "test", "prod"] {
        let desired = json!({"instance": instance, "conditions": ours["conditions"]});
        write(&writer, &read(&client).await, desired).await.unwrap();
    }
    assert_eq!(writer.counts().fights, 2);

    // An hour later it is a new one.
    now.store(3600, Ordering::Relaxed);
    let bucket =
        patch_status(&client, "a", "other-controller", &json!({"instance": "theirs"})).await.unwrap();
    write(&writer, &bucket, ours).await.unwrap();
    let fight = fights.lock().unwrap().pop().unwrap();
    assert_eq!((fight.fields, fight.rounds), (vec!["instance".to_owned()], 1));
}

#[tokio::test]
async fn a_stale_cache_is_no_fight() {
    let client = server().await.client();
    let stale = create(&client, "a").await;
    let writer = writer(&client);
    let desired = json!({"instance": "prod"});
    write(&writer, &stale, desired.clone()).await.unwrap();
    // The cache has not seen the write yet.
    assert!(is_unchanged(&write(&writer, &stale, desired).await.unwrap()));
    assert_eq!(writer.counts(), Counts { written: 1, unchanged: 1, conflicts: 1, ..Counts::default() });
}

mod apply {
    use super::*;

    fn writer(client: &Client, manager: &str) -> StatusWriter<Bucket> {
        StatusWriter::new(client.clone(), manager).mode(WriteMode::Apply { force: false })
    }

    fn own(condition_type: &str, status: &str, second: i64) -> Value {
        json!({"conditions": [condition(condition_type, status, second)]})
    }

    #[tokio::test]
    async fn each_manager_has_its_own_conditions() {
        let server = server().await;
        create(&server.client(), "a").await;
        let (client, requests) = record(server.client());
        let (one, other) = (writer(&client, "one"), writer(&client, "other"));
        write(&one, &read(&client).await, own("Ready", "True", 1)).await.unwrap();
        write(&other, &read(&client).await, own("Bound", "True", 1)).await.unwrap();
        let bucket = read(&client).await;
        let types: Vec<&str> = bucket
            .status
            .as_ref()
            .unwrap()
            .conditions
            .iter()
            .map(|condition| condition.type_.as_str())
            .collect();
        assert_eq!(types, ["Ready", "Bound"]);
        requests.take();

        // With another time, also after a restart: managedFields has what was applied.
        assert!(is_unchanged(&write(&one, &bucket, own("Ready", "True", 9)).await.unwrap()));
        assert!(is_unchanged(
            &write(&writer(&client, "one"), &bucket, own("Ready", "True", 9)).await.unwrap()
        ));
        assert!(is_unchanged(
            &write(&writer(&client, "other"), &bucket, own("Bound", "True", 9)).await.unwrap()
        ));
        assert!(requests.take().is_empty());

        // A cache without managedFields: what this writer applied it knows, another one applies once.
        let mut stripped = bucket.clone();
        stripped.metadata.managed_fields = None;
        assert!(is_unchanged(&write(&one, &stripped, own("Ready", "True", 9)).await.unwrap()));
        assert!(requests.take().is_empty());
        assert!(is_unchanged(
            &write(&writer(&client, "one"), &stripped, own("Ready", "True", 9)).await.unwrap()
        ));
        assert_eq!(requests.take(), [format!("PATCH {PATH}/status")]);
        assert_eq!(read(&client).await.resource_version(), bucket.resource_version());

        // What is left out goes, what is another's stays.
        assert!(matches!(
            write(&one, &bucket, json!({"instance": "prod"})).await.unwrap(),
            Outcome::Written { .. }
        ));
        let status = read(&client).await.status.unwrap();
        assert_eq!(status.instance.as_deref(), Some("prod"));
        assert_eq!(status.conditions, [condition("Bound", "True", 1)]);
    }

    #[tokio::test]
    async fn fields_of_others_are_taken_by_force_only() {
        let client = server().await.client();
        create(&client, "a").await;
        write(&writer(&client, "other"), &read(&client).await, json!({"instance": "theirs"})).await.unwrap();
        let bucket = read(&client).await;
        let error = write(&writer(&client, "one"), &bucket, json!({"instance": "ours"})).await.unwrap_err();
        let WriteFailure::Owned { fields, .. } = &error.cause else { panic!("{error:?}") };
        assert_eq!(fields, &[".status.instance"]);
        assert!(error.to_string().contains("conflict with \"other\""), "{error}");
        assert!(!error.is_transient());

        let force = writer(&client, "one").mode(WriteMode::Apply { force: true });
        assert!(matches!(
            write(&force, &bucket, json!({"instance": "ours"})).await.unwrap(),
            Outcome::Written { .. }
        ));
        assert_eq!(read(&client).await.status.unwrap().instance.as_deref(), Some("ours"));
        // A value that is there, but that another manager owns alone, is applied: then it is owned.
        let third = writer(&client, "third");
        let bucket = read(&client).await;
        assert!(matches!(
            write(&third, &bucket, json!({"instance": "ours"})).await.unwrap(),
            Outcome::Written { .. }
        ));
        assert!(is_unchanged(
            &write(&third, &read(&client).await, json!({"instance": "ours"})).await.unwrap()
        ));
    }

    #[tokio::test]
    async fn a_stale_object_is_read_again() {
        let client = server().await.client();
        let stale = create(&client, "a").await;
        change(&client, json!({"spec": {"instance": "test"}})).await;
        let writer = writer(&client, "one");
        let outcome = writer.write(&stale, |bucket| Ok(json!({"instance": bucket.spec.instance})));
        assert!(matches!(outcome.await.unwrap(), Outcome::Written { .. }));
        assert_eq!(read(&client).await.status.unwrap().instance.as_deref(), Some("test"));
        assert_eq!(writer.counts().conflicts, 1);
    }
}

#[tokio::test]
async fn writes_and_events_are_metrics() {
    let client = server().await.client();
    let bucket = create(&client, "a").await;
    let metrics = Metrics::new();
    let counted = WriteMetrics::new(&metrics);
    let (one, other) = (writer(&client), writer(&client));
    counted.status("one", &one);
    counted.status("other", &other);
    let recorder = Recorder::new(client.clone(), "buckets", Clock::system());
    counted.events("one", &recorder);
    write(&one, &bucket, json!({"instance": "prod"})).await.unwrap();
    write(&one, &bucket, json!({"instance": "prod"})).await.unwrap();
    recorder.shutdown().await;
    let text = metrics.encode().unwrap();
    let lines = [
        r#"settled_status_writes_total{controller="one",outcome="written"} 1"#,
        r#"settled_status_writes_total{controller="one",outcome="unchanged"} 1"#,
        r#"settled_status_writes_total{controller="other",outcome="written"} 0"#,
        r#"settled_status_conflicts_total{controller="one"} 1"#,
        r#"settled_status_fights_total{controller="other"} 0"#,
        r#"settled_events_total{controller="one",outcome="failed"} 0"#,
    ];
    for line in lines {
        assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
    }
    // Each name is described once, however many controllers there are.
    assert_eq!(text.matches("# TYPE settled_status_writes counter").count(), 1, "{text}");
}
