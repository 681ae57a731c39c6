//! Custom resources whose versions a webhook converts: none is called, so nothing that needs one is read or stored.

use std::time::Duration;

use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use settled_apiserver::auth::User;
use settled_apiserver::{Config, Controllers, Server};

use crate::authorization::ask;
use crate::watching::start;

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const CRD: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/convs.example.com";
const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
const PATIENCE: Duration = Duration::from_secs(60);

fn path(version: &str, rest: &str) -> String {
    format!("/apis/example.com/{version}/namespaces/default/convs{rest}")
}

fn webhook() -> Value {
    json!({"strategy": "Webhook", "webhook": {
        "conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://example.com/convert"},
    }})
}

/// A definition whose versions have different fields.
fn definition(storage: &str, conversion: &Value) -> Value {
    let version = |name: &str, field: &str| {
        json!({
            "name": name, "served": true, "storage": name == storage,
            "subresources": {"status": {}, "scale": {
                "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
            }},
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "properties": {
                    field: {"type": "string"}, "replicas": {"type": "integer"},
                }},
                "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
            }}},
        })
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "convs.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "convs", "kind": "Conv"},
            "versions": [version("v1", "a"), version("v2", "b")], "conversion": conversion,
        },
    })
}

async fn admin(
    server: &Server,
    method: Method,
    path: &str,
    content_type: &str,
    body: &Value,
) -> (u16, Value) {
    ask(server, &User::admin(), method, path, content_type, body).await
}

async fn get(server: &Server, path: &str) -> (u16, Value) {
    admin(server, Method::GET, path, JSON, &Value::Null).await
}

/// Asks for a path until the answer is as wanted.
async fn until(server: &Server, path: &str, wanted: impl Fn(u16, &Value) -> bool) -> Value {
    let mut last = Value::Null;
    let waiting = async {
        loop {
            let (status, answer) = get(server, path).await;
            if wanted(status, &answer) {
                return answer;
            }
            last = answer;
            tokio::task::yield_now().await;
        }
    };
    match tokio::time::timeout(PATIENCE, waiting).await {
        Ok(answer) => answer,
        Err(_) => panic!("{path}: {last}"),
    }
}

/// Changes the definition and waits until the change is served.
async fn change(server: &Server, storage: &str, conversion: &Value) {
    let mut crd = definition(storage, conversion);
    let before = get(server, CRD).await.1;
    crd["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"].clone();
    let (status, answer) = admin(server, Method::PUT, CRD, JSON, &crd).await;
    assert_eq!(status, 200, "{answer}");
    let is_none = *conversion == json!({"strategy": "None"});
    let served = async {
        loop {
            let mut as_wanted = true;
            for version in ["v1", "v2"] {
                let dry = path(version, "?dryRun=All");
                let probe = object(version, "probe", &json!({}));
                let (status, _) = admin(server, Method::POST, &dry, JSON, &probe).await;
                as_wanted &= status == if is_none || version == storage { 201 } else { 500 };
            }
            if as_wanted {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, served).await.is_ok(), "the change is not served");
}

fn object(version: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": format!("example.com/{version}"), "kind": "Conv",
        "metadata": {"name": name, "labels": {"k": "v"}}, "spec": spec,
    })
}

fn message(from: &str) -> String {
    format!(
        "conversion webhook for example.com/{from}, Kind=Conv failed: this server does not call conversion webhooks"
    )
}

/// The first line of a watch.
async fn first_event(server: &Server, path: &str) -> Value {
    let request = Request::builder().uri(path).body(Full::new(bytes::Bytes::new())).unwrap();
    let mut body = server.call(Some(User::admin()), request).await.into_body();
    let frame = tokio::time::timeout(PATIENCE, body.frame()).await.unwrap().unwrap().unwrap();
    let bytes = frame.into_data().unwrap();
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap();
    serde_json::from_slice(line).unwrap()
}

#[tokio::test]
async fn access_that_needs_a_webhook_is_refused_and_nothing_is_stored() {
    let server = start().await;
    assert_eq!(admin(&server, Method::POST, CRDS, JSON, &definition("v1", &webhook())).await.0, 201);
    until(&server, "/apis/example.com/v2", |status, _| status == 200).await;
    let spec = json!({"a": "kept", "replicas": 1});
    let (status, made) = admin(&server, Method::POST, &path("v1", ""), JSON, &object("v1", "x", &spec)).await;
    assert_eq!((status, &made["spec"]), (201, &spec), "{made}");
    assert!(made["metadata"].get("storedVersion").is_none());

    let other = || json!({"spec": {"b": "new"}});
    let whole = object("v2", "x", &json!({"b": "new"}));
    let new = object("v2", "y", &json!({"b": "new"}));
    let scale = json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "x", "namespace": "default"},
        "spec": {"replicas": 3},
    });
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    // What each is refused with: the version that a webhook would be asked to convert.
    let cases = [
        (Method::GET, "/x", JSON, Value::Null, "v1"),
        (Method::GET, "/x/status", JSON, Value::Null, "v1"),
        (Method::GET, "/x/scale", JSON, Value::Null, "v1"),
        (Method::GET, "", JSON, Value::Null, "v1"),
        (Method::GET, "?limit=1", JSON, Value::Null, "v1"),
        (Method::GET, "?labelSelector=k=other", JSON, Value::Null, "v1"),
        (Method::POST, "", JSON, new.clone(), "v2"),
        (Method::POST, "?dryRun=All", JSON, new.clone(), "v2"),
        (Method::PATCH, "/y?fieldManager=m", APPLY, new.clone(), "v2"),
        (Method::PUT, "/x", JSON, whole.clone(), "v1"),
        (Method::PUT, "/x/status", JSON, whole.clone(), "v1"),
        (Method::PUT, "/x/scale", JSON, scale.clone(), "v1"),
        (Method::PATCH, "/x", MERGE, labels.clone(), "v1"),
        (Method::PATCH, "/x?dryRun=All", MERGE, other(), "v1"),
        (Method::PATCH, "/x/status", MERGE, json!({"status": {"replicas": 1}}), "v1"),
        (Method::PATCH, "/x/scale", MERGE, json!({"spec": {"replicas": 3}}), "v1"),
        (Method::PATCH, "/x?fieldManager=m&force=true", APPLY, whole.clone(), "v1"),
        (Method::DELETE, "/x", JSON, Value::Null, "v1"),
        (Method::DELETE, "", JSON, Value::Null, "v1"),
    ];
    for (method, rest, content_type, body, from) in cases {
        let at = path("v2", rest);
        let (status, answer) = admin(&server, method.clone(), &at, content_type, &body).await;
        assert_eq!((status, &answer["message"]), (500, &message(from).into()), "{method} {rest}");
        let (_, after) = get(&server, &path("v1", "/x")).await;
        assert_eq!(after, made, "{method} {rest}");
        assert_eq!(get(&server, &path("v1", "/y")).await.0, 404, "{method} {rest}");
    }
    for query in ["?watch=1&resourceVersion=0", "?watch=1&resourceVersion=1"] {
        let event = first_event(&server, &path("v2", query)).await;
        assert_eq!((&event["type"], &event["object"]["message"]), (&"ERROR".into(), &message("v1").into()));
        assert_eq!(
            (&event["object"]["code"], &event["object"]["reason"]),
            (&500.into(), &"InternalError".into())
        );
    }
    // A watch that has begun ends when the first such object comes.
    let revision = made["metadata"]["resourceVersion"].as_str().unwrap();
    let begun = path("v2", &format!("?watch=1&resourceVersion={revision}"));
    let request = Request::builder().uri(begun).body(Full::new(bytes::Bytes::new())).unwrap();
    let mut body = server.call(Some(User::admin()), request).await.into_body();

    // At the version that is stored, everything works.
    let works = [
        (Method::GET, "/x", JSON, Value::Null, 200),
        (Method::GET, "", JSON, Value::Null, 200),
        (Method::PATCH, "/x", MERGE, labels, 200),
        (Method::PATCH, "/x/scale", MERGE, json!({"spec": {"replicas": 3}}), 200),
        (Method::PATCH, "/x/status", MERGE, json!({"status": {"replicas": 1}}), 200),
        (Method::PATCH, "/x?fieldManager=m", APPLY, object("v1", "x", &json!({"a": "kept"})), 200),
        (Method::POST, "", JSON, object("v1", "z", &spec), 201),
        (Method::DELETE, "/z", JSON, Value::Null, 200),
    ];
    for (method, rest, content_type, body, expected) in works {
        let (status, answer) = admin(&server, method.clone(), &path("v1", rest), content_type, &body).await;
        assert_eq!(status, expected, "{method} {rest}: {answer}");
    }
    let (_, after) = get(&server, &path("v1", "/x")).await;
    assert_eq!(after["spec"], json!({"a": "kept", "replicas": 3}));
    let line = tokio::time::timeout(PATIENCE, body.frame()).await.unwrap().unwrap().unwrap();
    let event: Value = serde_json::from_slice(&line.into_data().unwrap()).unwrap();
    assert_eq!((&event["type"], &event["object"]["message"]), (&"ERROR".into(), &message("v1").into()));
    assert!(body.frame().await.is_none(), "the watch is over");
}

#[tokio::test]
async fn objects_keep_their_version_when_strategy_and_storage_change() {
    let server = start().await;
    let none = json!({"strategy": "None"});
    assert_eq!(admin(&server, Method::POST, CRDS, JSON, &definition("v1", &none)).await.0, 201);
    until(&server, "/apis/example.com/v2", |status, _| status == 200).await;
    let old = object("v1", "old", &json!({"a": "kept"}));
    assert_eq!(admin(&server, Method::POST, &path("v1", ""), JSON, &old).await.0, 201);

    // What was stored before there was a webhook is of the version that was stored then.
    change(&server, "v1", &webhook()).await;
    let read = |version, name| get_pair(&server, version, name);
    assert_eq!(read("v1", "old").await, (200, json!({"a": "kept"})));
    assert_eq!(read("v2", "old").await, (500, message("v1").into()));

    // Another storage version: new objects have it, old ones are readable as they were and cannot be written.
    change(&server, "v2", &webhook()).await;
    let new = object("v2", "new", &json!({"b": "kept"}));
    assert_eq!(admin(&server, Method::POST, &path("v2", ""), JSON, &new).await.0, 201);
    assert_eq!(read("v1", "old").await, (200, json!({"a": "kept"})));
    assert_eq!(read("v2", "old").await, (500, message("v1").into()));
    assert_eq!(read("v2", "new").await, (200, json!({"b": "kept"})));
    assert_eq!(read("v1", "new").await, (500, message("v2").into()));
    // Some can be had, but a list is whole or nothing.
    assert_eq!(read("v1", "").await, (500, message("v2").into()));
    assert_eq!(read("v2", "").await, (500, message("v1").into()));
    let labels = json!({"metadata": {"labels": {"x": "y"}}});
    let (status, answer) = admin(&server, Method::PATCH, &path("v1", "/old"), MERGE, &labels).await;
    assert_eq!((status, &answer["message"]), (500, &message("v1").into()));
    assert_eq!(admin(&server, Method::PATCH, &path("v2", "/new"), MERGE, &labels).await.0, 200);

    // The webhook is given up: what both versions have is converted again.
    change(&server, "v2", &none).await;
    assert_eq!(read("v1", "old").await, (200, json!({"a": "kept"})));
    assert_eq!(read("v1", "new").await, (200, json!({})));
    assert_eq!(read("v2", "new").await, (200, json!({"b": "kept"})));
}

/// The status, and the spec or the message.
async fn get_pair(server: &Server, version: &str, name: &str) -> (u16, Value) {
    let rest = if name.is_empty() { String::new() } else { format!("/{name}") };
    let (status, answer) = get(server, &path(version, &rest)).await;
    (status, answer.get(if status == 200 { "spec" } else { "message" }).cloned().unwrap_or_default())
}

#[tokio::test]
async fn controllers_delete_and_release_objects_without_losing_fields() {
    // The preferred version, which controllers go by, is not the one that is stored.
    let mut config = Config::default();
    config.controllers = Controllers::default();
    let server = Server::start(config).await.unwrap();
    assert_eq!(admin(&server, Method::POST, CRDS, JSON, &definition("v1", &webhook())).await.0, 201);
    until(&server, "/apis/example.com/v2", |status, _| status == 200).await;
    let owner = json!({"metadata": {"name": "owner"}});
    let maps = "/api/v1/namespaces/default/configmaps";
    let (_, owner) = admin(&server, Method::POST, maps, JSON, &owner).await;
    let owned_by = |kept: Value| json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"], "controller": kept}]);
    let mut dependent = object("v1", "dependent", &json!({"a": "kept"}));
    dependent["metadata"]["ownerReferences"] = owned_by(json!(true));
    let mut held = object("v1", "held", &json!({"a": "kept"}));
    held["metadata"]["ownerReferences"] = owned_by(json!(false));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    for object in [dependent, held] {
        assert_eq!(admin(&server, Method::POST, &path("v1", ""), JSON, &object).await.0, 201);
    }
    assert_eq!(admin(&server, Method::DELETE, &format!("{maps}/owner"), JSON, &Value::Null).await.0, 200);
    until(&server, &path("v1", "/dependent"), |status, _| status == 404).await;
    let held =
        until(&server, &path("v1", "/held"), |_, object| object["metadata"]["deletionTimestamp"].is_string())
            .await;
    assert_eq!(held["spec"], json!({"a": "kept"}));
    let release = json!({"metadata": {"finalizers": null}});
    assert_eq!(admin(&server, Method::PATCH, &path("v1", "/held"), MERGE, &release).await.0, 200);

    // A namespace and the definition itself go with their objects.
    let namespaces = "/api/v1/namespaces";
    let namespace = json!({"metadata": {"name": "n"}});
    assert_eq!(admin(&server, Method::POST, namespaces, JSON, &namespace).await.0, 201);
    let inside = "/apis/example.com/v1/namespaces/n/convs";
    let spec = json!({"a": "kept"});
    assert_eq!(admin(&server, Method::POST, inside, JSON, &object("v1", "x", &spec)).await.0, 201);
    assert_eq!(admin(&server, Method::POST, &path("v1", ""), JSON, &object("v1", "x", &spec)).await.0, 201);
    assert_eq!(admin(&server, Method::DELETE, &format!("{namespaces}/n"), JSON, &Value::Null).await.0, 200);
    until(&server, &format!("{namespaces}/n"), |status, _| status == 404).await;
    assert_eq!(admin(&server, Method::DELETE, CRD, JSON, &Value::Null).await.0, 200);
    until(&server, CRD, |status, _| status == 404).await;
}

#[tokio::test]
async fn a_ca_bundle_that_holds_no_certificate_keeps_a_definition_from_being_established() {
    use base64::Engine as _;
    let server = start().await;
    let encode = |text: &str| base64::prelude::BASE64_STANDARD.encode(text);
    let with_bundle = |bundle: &str| {
        let mut conversion = webhook();
        conversion["webhook"]["clientConfig"]["caBundle"] = encode(bundle).into();
        conversion
    };
    let garbage = "-----BEGIN CERTIFICATE-----\nYQ==\n-----END CERTIFICATE-----\n";
    assert_eq!(admin(&server, Method::POST, CRDS, JSON, &definition("v1", &with_bundle("\n"))).await.0, 201);
    let established = |crd: &Value| {
        let mut conditions = crd["status"]["conditions"].as_array().into_iter().flatten();
        conditions.find(|condition| condition["type"] == "Established").cloned().unwrap_or_default()
    };
    let crd = until(&server, CRD, |_, crd| !established(crd).is_null()).await;
    let refused = established(&crd);
    assert_eq!(
        [&refused["status"], &refused["reason"], &refused["message"]],
        ["False", "InvalidCABundle", "The conversion webhook CABundle is invalid"]
    );
    assert_eq!(get(&server, &path("v1", "")).await.0, 404);

    // As long as it is not established it can be changed, to what is wrong as well.
    let put = |bundle: &str| {
        let mut changed = definition("v1", &with_bundle(bundle));
        let server = &server;
        async move {
            let (_, before) = get(server, CRD).await;
            changed["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"].clone();
            admin(server, Method::PUT, CRD, JSON, &changed).await
        }
    };
    assert_eq!(put(garbage).await.0, 200);
    let crd = get(&server, CRD).await.1;
    assert_eq!(established(&crd)["reason"], "InvalidCABundle");
    assert_eq!(put(server.ca_pem()).await.0, 200);
    until(&server, CRD, |_, crd| established(crd)["status"] == "True").await;

    // From then on it must hold certificates.
    let wrong = [
        ("\n", "unable to parse bytes as PEM block"),
        (garbage, "failed to parse certificate: x509: malformed certificate"),
    ];
    for (bundle, why) in wrong {
        let (status, answer) = put(bundle).await;
        let message = format!(
            "CustomResourceDefinition.apiextensions.k8s.io \"convs.example.com\" is invalid: \
             spec.conversion.webhookClientConfig.caBundle: Invalid value: {:?}: unable to load root certificates: {why}",
            encode(bundle)
        );
        assert_eq!((status, &answer["message"]), (422, &message.into()));
    }
}
