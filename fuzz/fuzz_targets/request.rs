//! Any bytes as a body of each form, as a patch of each type, as a continue token, as a query: a server in this process
//! answers each. Its own fault (a status of 500) it never is, but for what patches do: there upstream says so, too.
//! Writes are dry runs, so that all begin with the same state.
#![no_main]

use std::sync::LazyLock;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use libfuzzer_sys::fuzz_target;
use serde_json::json;
use settled_apiserver::auth::User;
use settled_apiserver::{Config, Controllers, Server};
use tokio::runtime::Runtime;

struct Running {
    runtime: Runtime,
    server: Server,
}

/// Collections, and an object that each has.
const PLACES: [(&str, &str); 5] = [
    ("/api/v1/namespaces/default/configmaps", "kept"),
    ("/api/v1/namespaces/default/pods", "kept"),
    ("/apis/apps/v1/namespaces/default/deployments", "kept"),
    ("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "things.example.com"),
    ("/apis/example.com/v1/namespaces/default/things", "kept"),
];

static SERVER: LazyLock<Running> = LazyLock::new(|| {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let server = runtime.block_on(async {
        let mut config = Config::default();
        config.controllers = Controllers::none();
        let server = Server::start(config).await.unwrap();
        let metadata = json!({"name": "kept", "labels": {"a": "b"}});
        let pod = json!({"containers": [{"name": "web", "image": "a", "ports": [{"containerPort": 80}], "env": [{"name": "A", "value": "1"}]}]});
        let schema = json!({"type": "object", "properties": {"spec": {
            "type": "object",
            "properties": {
                "size": {"type": "integer", "default": 1, "maximum": 9},
                "list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "maxItems": 9,
                    "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "value": {"x-kubernetes-int-or-string": true}}}},
                "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            },
            "x-kubernetes-validations": [{"rule": "!has(self.size) || self.size != 7"}],
        }}});
        let objects = [
            json!({"metadata": metadata, "data": {"a": "1"}}),
            json!({"metadata": metadata, "spec": pod}),
            json!({"metadata": metadata, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": metadata, "spec": pod}}}),
            json!({"metadata": {"name": "things.example.com"}, "spec": {
                "group": "example.com", "scope": "Namespaced",
                "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}}}],
            }}),
            json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": metadata, "spec": {"list": [{"name": "a", "value": 1}]}}),
        ];
        for ((collection, _), object) in PLACES.iter().zip(objects) {
            // A definition is served a moment after it was made.
            loop {
                let (status, answer) =
                    call(&server, Method::POST, collection, "application/json", object.to_string().into()).await;
                if status == 201 {
                    break;
                }
                assert_eq!(status, 404, "{collection}: {answer}");
                tokio::task::yield_now().await;
            }
        }
        server
    });
    Running { runtime, server }
});

async fn call(server: &Server, method: Method, uri: &str, content: &str, body: Bytes) -> (u16, String) {
    let request = Request::builder().method(method).uri(uri).header("content-type", content);
    // What is no URI never gets so far.
    let Ok(request) = request.body(Full::new(body)) else { return (400, String::new()) };
    let answer = server.call(Some(User::admin()), request).await;
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8_lossy(&body).into_owned())
}

/// Any text as the value of a query's parameter.
fn encoded(text: &[u8]) -> String {
    text.iter().map(|byte| format!("%{byte:02X}")).collect()
}

fuzz_target!(|bytes: &[u8]| {
    // The first byte chooses the place, the second one what the rest is.
    let [place, form, rest @ ..] = bytes else { return };
    let (collection, name) = PLACES[usize::from(*place) % PLACES.len()];
    let object = format!("{collection}/{name}");
    let body = Bytes::copy_from_slice(rest);
    let dry = "dryRun=All&fieldValidation=Strict&fieldManager=fuzz";
    let form = form % 11;
    let (method, uri, content) = match form {
        0 => (Method::POST, format!("{collection}?{dry}"), "application/json"),
        1 => (Method::POST, format!("{collection}?{dry}"), "application/yaml"),
        2 => (Method::POST, format!("{collection}?{dry}"), "application/vnd.kubernetes.protobuf"),
        3 => (Method::PUT, format!("{object}?{dry}"), "application/json"),
        4 => (Method::PATCH, format!("{object}?{dry}"), "application/json-patch+json"),
        5 => (Method::PATCH, format!("{object}?{dry}"), "application/merge-patch+json"),
        6 => (Method::PATCH, format!("{object}?{dry}"), "application/strategic-merge-patch+json"),
        7 => (Method::PATCH, format!("{object}?{dry}&force=true"), "application/apply-patch+yaml"),
        8 => (Method::GET, format!("{collection}?limit=1&continue={}", encoded(rest)), ""),
        9 => {
            // A watch would not end.
            let query = String::from_utf8_lossy(rest).replace("watch", "");
            (Method::GET, format!("{collection}?{query}"), "")
        }
        _ => (Method::DELETE, format!("{object}?dryRun=All"), "application/json"),
    };
    let running = &*SERVER;
    let (status, answer) = running.runtime.block_on(call(&running.server, method.clone(), &uri, content, body));
    assert!(status < 500 || (4..=7).contains(&form), "{method} {uri}: {status} {answer}");
});
