//! How answers look: for people, in Go's order, and texts that clients compare.

use std::sync::{Arc, Mutex};

use http::Method;
use serde_json::{Value, json};
use settled_apiserver::{Config, Controllers};

use crate::surface::Client;

#[tokio::test]
async fn people_get_indented_json() {
    let client = Client::new(Config::default()).await;
    let curl = [("user-agent", "curl/8.5.0")];
    let indented = "{\n  \"kind\": \"Namespace\",\n  \"apiVersion\": \"v1\",\n  \"metadata\": {\n";
    let path = "/api/v1/namespaces/default";
    let cases = [
        ("", &curl[..], indented),
        ("?pretty=true", &[], indented),
        ("?pretty=false", &curl, r#"{"kind":"Namespace","apiVersion":"v1","metadata":{"#),
        ("", &[("user-agent", "kubectl/v1.36.3")], r#"{"kind":"Namespace","apiVersion":"v1","metadata":{"#),
    ];
    for (query, headers, wanted) in cases {
        let got = client.get(&format!("{path}{query}"), headers).await;
        assert!(got.text().starts_with(wanted), "{query:?} {headers:?}: {}", got.text());
    }
    for (path, wanted) in [
        ("/api/v1/namespaces", "{\n  \"kind\": \"NamespaceList\",\n  \"apiVersion\": \"v1\",\n"),
        ("/api/v1/namespaces/nothing", "{\n  \"kind\": \"Status\",\n  \"apiVersion\": \"v1\",\n"),
        ("/version", "{\n  \"buildDate\": "),
    ] {
        let got = client.get(path, &curl).await;
        assert!(got.text().starts_with(wanted) && got.text().ends_with('}'), "{path}: {}", got.text());
    }
}

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";

#[tokio::test]
async fn component_statuses_say_what_is_known() {
    let client = Client::new(Config::default()).await;
    let path = "/api/v1/componentstatuses";
    let statuses = async |query: &str| -> Vec<Value> {
        let list = client.get(&format!("{path}{query}"), &[]).await.json();
        assert_eq!((&list["kind"], &list["metadata"]), (&json!("ComponentStatusList"), &json!({})));
        list["items"].as_array().unwrap().clone()
    };
    let healthy = json!([{"type": "Healthy", "status": "True", "message": "ok"}]);
    let unknown = |error: &str| json!([{"type": "Healthy", "status": "Unknown", "error": error}]);
    let absent = "there is no Lease kube-system/kube-scheduler";
    let all = statuses("").await;
    let names: Vec<&str> = all.iter().map(|status| status["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["scheduler", "controller-manager", "etcd-0"]);
    assert_eq!(all[0]["conditions"], unknown(absent));
    assert_eq!(all[2], json!({"metadata": {"name": "etcd-0"}, "conditions": healthy}));
    assert_eq!(statuses("?fieldSelector=metadata.name%3Detcd-0").await, all[2..]);
    assert_eq!(statuses("?labelSelector=a").await, Vec::<Value>::new());

    let lease = |renewed: &str| {
        json!({
            "metadata": {"name": "kube-scheduler"},
            "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": renewed},
        })
    };
    let now = jiff::Timestamp::now().to_string();
    let cases = [
        (
            Method::POST,
            "",
            "2020-01-01T00:00:00.000000Z".to_owned(),
            unknown("nobody renews the Lease kube-system/kube-scheduler"),
        ),
        (
            Method::PUT,
            "/kube-scheduler",
            now[..now.len().min(26)].trim_end_matches('Z').to_owned() + "Z",
            healthy,
        ),
    ];
    let mut version = Value::Null;
    for (method, name, renewed, wanted) in cases {
        let mut lease = lease(&renewed);
        lease["metadata"]["resourceVersion"] = version;
        let got = client.send(method, &format!("{LEASES}{name}"), &[], lease).await;
        assert!(got.code < 300, "{}", got.text());
        version = got.json()["metadata"]["resourceVersion"].clone();
        let status = client.get(&format!("{path}/scheduler"), &[]).await.json();
        assert_eq!((&status["kind"], &status["conditions"]), (&json!("ComponentStatus"), &wanted));
    }
    let missing = client.get(&format!("{path}/nothing"), &[]).await;
    assert_eq!(missing.code, 404);
    assert_eq!(missing.json()["message"], r#"componentstatus "nothing" not found"#);
}

/// What upstream's `TestValidateOnlyStatus` compares.
#[tokio::test]
async fn a_status_is_validated_on_its_own() {
    let mut config = Config::default();
    config.controllers = Controllers::none();
    let client = Client::new(config).await;
    let number = json!({"type": "integer", "maximum": 10});
    let definition = json!({
        "metadata": {"name": "noxus.mygroup.example.com"},
        "spec": {
            "group": "mygroup.example.com", "scope": "Namespaced", "names": {"plural": "noxus", "kind": "Noxu"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {"num": number}},
                    "status": {"type": "object", "properties": {"num": number}},
                }}},
            }],
        },
    });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(client.send(Method::POST, definitions, &[], definition).await.code, 201);
    assert_eq!(client.wait("/apis/mygroup.example.com/v1", 200).await, 200);
    let path = "/apis/mygroup.example.com/v1/namespaces/default/noxus";
    let noxu = json!({
        "apiVersion": "mygroup.example.com/v1", "kind": "Noxu", "metadata": {"name": "foo"}, "spec": {"num": 5},
    });
    let got = client.send(Method::POST, path, &[], noxu.clone()).await;
    assert_eq!(got.code, 201, "{}", got.text());
    let version = got.json()["metadata"]["resourceVersion"].clone();
    let cases = [
        (
            json!({"num": 15}),
            "status.num",
            "Invalid value: 15: num in body should be less than or equal to 10",
        ),
        (json!("x"), "status", r#"Invalid value: "string":  in body must be of type object: "string""#),
    ];
    for (status, field, message) in cases {
        let mut noxu = noxu.clone();
        noxu["metadata"]["resourceVersion"] = version.clone();
        noxu["status"] = status;
        let got = client.send(Method::PUT, &format!("{path}/foo/status"), &[], noxu).await;
        assert_eq!(got.code, 422, "{}", got.text());
        let cause = &got.json()["details"]["causes"][0];
        assert_eq!((cause["field"].as_str(), cause["message"].as_str()), (Some(field), Some(message)));
    }
}

/// However many ask for it: a namespace is created once and removed once, and so it is said.
#[tokio::test]
async fn a_deletion_is_reported_once() {
    const NAMESPACES: usize = 20;
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let listener = told.clone();
    let mut config = Config::default();
    config.listener = Some(Arc::new(move |notice| listener.lock().unwrap().push(notice.to_string())));
    let client = Client::new(config).await;
    let names: Vec<String> = (10..10 + NAMESPACES).map(|at| format!("demo{at}")).collect();
    for name in &names {
        let namespace = json!({"metadata": {"name": name}});
        assert_eq!(client.send(Method::POST, "/api/v1/namespaces", &[], namespace).await.code, 201);
    }
    let paths: Vec<String> = names.iter().map(|name| format!("/api/v1/namespaces/{name}")).collect();
    let requests = paths.iter().chain(&paths).chain(&paths);
    let requests = requests.map(|path| client.send(Method::DELETE, path, &[], Value::Null));
    futures::future::join_all(requests).await;
    for path in &paths {
        assert_eq!(client.wait(path, 404).await, 404);
    }
    for _ in 0..10_000 {
        if told.lock().unwrap().len() >= 2 * NAMESPACES {
            break;
        }
        tokio::task::yield_now().await;
    }
    let mut told = std::mem::take(&mut *told.lock().unwrap());
    told.sort();
    let both = |name: &String| [format!("namespace {name} created"), format!("namespace {name} removed")];
    assert_eq!(told, names.iter().flat_map(both).collect::<Vec<_>>());
}
