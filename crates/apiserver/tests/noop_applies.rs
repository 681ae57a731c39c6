//! Configurations that are applied again and again: what is known to change nothing is answered as if it had been applied.

use http::Method;
use serde_json::{Value, json};
use settled_apiserver::Server;
use settled_apiserver::auth::User;

use crate::authorization::ask;

const APPLY: &str = "application/apply-patch+yaml";
const MERGE: &str = "application/merge-patch+json";
const MAP: &str = "/api/v1/namespaces/default/configmaps/shop";

async fn apply(server: &Server, query: &str, config: &Value) -> (u16, Value) {
    let path = format!("{MAP}?{query}");
    ask(server, &User::admin(), Method::PATCH, &path, APPLY, config).await
}

async fn patch(server: &Server, patch: &Value) -> Value {
    let (code, map) = ask(server, &User::admin(), Method::PATCH, MAP, MERGE, patch).await;
    assert_eq!(code, 200, "{map}");
    map
}

fn config(value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shop"}, "data": {"key": value}})
}

fn revision(map: &Value) -> &str {
    map["metadata"]["resourceVersion"].as_str().unwrap()
}

#[tokio::test]
async fn what_changes_nothing_writes_nothing_and_is_answered_in_full() {
    let server = Server::in_memory().await.unwrap();
    let (code, created) = apply(&server, "fieldManager=a", &config("1")).await;
    assert_eq!(code, 201);
    // The second one is computed, the others are known.
    for _ in 0..4 {
        assert_eq!(apply(&server, "fieldManager=a", &config("1")).await, (200, created.clone()));
        assert_eq!(apply(&server, "fieldManager=a&dryRun=All", &config("1")).await, (200, created.clone()));
    }
    // Another manager owns the fields as well from now on; then its applies change nothing, either.
    let (_, shared) = apply(&server, "fieldManager=b", &config("1")).await;
    assert_eq!(shared["metadata"]["managedFields"].as_array().unwrap().len(), 2);
    assert_ne!(revision(&shared), revision(&created));
    for manager in ["a", "b", "a", "b"] {
        assert_eq!(
            apply(&server, &format!("fieldManager={manager}"), &config("1")).await,
            (200, shared.clone())
        );
    }
}

#[tokio::test]
async fn a_known_configuration_repairs_what_others_have_changed() {
    let server = Server::in_memory().await.unwrap();
    let (_, created) = apply(&server, "fieldManager=a", &config("1")).await;
    for _ in 0..3 {
        apply(&server, "fieldManager=a", &config("1")).await;
    }
    let drifted = patch(&server, &json!({"data": {"key": "2"}})).await;
    assert_ne!(revision(&drifted), revision(&created));
    let (code, conflict) = apply(&server, "fieldManager=a", &config("1")).await;
    assert_eq!((code, conflict["reason"].as_str()), (409, Some("Conflict")));
    let (code, repaired) = apply(&server, "fieldManager=a&force=true", &config("1")).await;
    assert_eq!((code, &repaired["data"]["key"]), (200, &json!("1")));
    assert_eq!(apply(&server, "fieldManager=a", &config("1")).await, (200, repaired));

    // What is gone is created.
    let (code, _) = ask(&server, &User::admin(), Method::DELETE, MAP, "application/json", &Value::Null).await;
    assert_eq!(code, 200);
    let (code, anew) = apply(&server, "fieldManager=a", &config("1")).await;
    assert_eq!(code, 201);
    assert_ne!(anew["metadata"]["uid"], created["metadata"]["uid"]);
}

/// Whether it passes depends on the resourceVersion, and not on the object.
#[tokio::test]
async fn a_guarded_configuration_is_checked_each_time() {
    let server = Server::in_memory().await.unwrap();
    let (_, created) = apply(&server, "fieldManager=a", &config("1")).await;
    let mut guarded = config("1");
    guarded["metadata"]["resourceVersion"] = json!(revision(&created));
    for _ in 0..3 {
        assert_eq!(apply(&server, "fieldManager=a", &guarded).await, (200, created.clone()));
    }
    // There and back: the object is what it was, but for its version.
    patch(&server, &json!({"metadata": {"labels": {"seen": "yes"}}})).await;
    let back = patch(&server, &json!({"metadata": {"labels": null}})).await;
    assert_eq!(back["data"], created["data"]);
    let (code, stale) = apply(&server, "fieldManager=a", &guarded).await;
    assert_eq!((code, stale["reason"].as_str()), (409, Some("Conflict")));
}

/// Findings of the strict reading are reported each time.
#[tokio::test]
async fn duplicate_keys_are_refused_each_time() {
    let server = Server::in_memory().await.unwrap();
    apply(&server, "fieldManager=a", &config("1")).await;
    let twice = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: shop\ndata:\n  key: '1'\n  key: '1'\n";
    for (validation, code) in [("Ignore", 200), ("Ignore", 200), ("Strict", 400), ("Ignore", 200)] {
        let path = format!("{MAP}?fieldManager=a&fieldValidation={validation}");
        let request = http::Request::builder()
            .method(Method::PATCH)
            .uri(path)
            .header(http::header::CONTENT_TYPE, APPLY)
            .body(http_body_util::Full::new(bytes::Bytes::from_static(twice.as_bytes())))
            .unwrap();
        let response = server.call(Some(User::admin()), request).await;
        assert_eq!(response.status().as_u16(), code, "{validation}");
    }
}
