//! What is no resource: discovery, OpenAPI, health, the version, metrics, limits.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use settled_apiserver::auth::User;
use settled_apiserver::{Body, Config, Server};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

pub(crate) struct Client(pub(crate) Server, pub(crate) User);

pub(crate) struct Got {
    pub(crate) code: u16,
    headers: http::HeaderMap,
    body: Bytes,
}

impl Got {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().expect("a text")).unwrap_or_default()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("a text")
    }
}

impl Client {
    pub(crate) async fn new(config: Config) -> Self {
        let admin = User::new("admin", ["system:masters"]);
        Self(Server::start(config).await.expect("a server"), admin)
    }

    async fn begin(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Value,
    ) -> Response<Body> {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = if body.is_null() { Bytes::new() } else { body.to_string().into() };
        self.0.call(Some(self.1.clone()), request.body(Full::new(body)).expect("a request")).await
    }

    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Value,
    ) -> Got {
        let response = self.begin(method, path, headers, body).await;
        let (head, body) = response.into_parts();
        let body = body.collect().await.expect("a body").to_bytes();
        Got { code: head.status.as_u16(), headers: head.headers, body }
    }

    pub(crate) async fn get(&self, path: &str, headers: &[(&str, &str)]) -> Got {
        self.send(Method::GET, path, headers, Value::Null).await
    }

    /// Serves widgets, and waits for that.
    async fn with_widgets(self) -> Self {
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let got = self.send(Method::POST, path, &[], widgets()).await;
        assert_eq!(got.code, 201, "{}", got.text());
        assert_eq!(self.wait("/apis/example.com/v1", 200).await, 200);
        self
    }

    /// Waits until a path is answered with a code. Each turn gives way to the controllers.
    pub(crate) async fn wait(&self, path: &str, wanted: u16) -> u16 {
        let mut code = 0;
        for _ in 0..10_000 {
            code = self.get(path, &[]).await.code;
            if code == wanted {
                break;
            }
            tokio::task::yield_now().await;
        }
        code
    }
}

pub(crate) fn widgets() -> Value {
    json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"], "categories": ["all"]},
            "versions": [
                {"name": "v1alpha1", "served": true, "storage": false, "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                }}},
                {
                    "name": "v1", "served": true, "storage": true,
                    "subresources": {"status": {}, "scale": {
                        "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
                    }},
                    "schema": {"openAPIV3Schema": {"type": "object", "description": "A widget.", "properties": {
                        "spec": {"type": "object", "properties": {
                            "replicas": {"type": "integer"},
                            "port": {"x-kubernetes-int-or-string": true},
                            "template": {
                                "type": "object", "x-kubernetes-embedded-resource": true,
                                "x-kubernetes-preserve-unknown-fields": true,
                            },
                        }},
                        "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
                    }}},
                },
            ],
        },
    })
}

#[tokio::test]
async fn paths_that_are_no_resources_are_answered_as_upstream_does() {
    let client = Client::new(Config::default()).await.with_widgets().await;
    let not_found = "404 page not found\n";
    let plain = "text/plain; charset=utf-8";
    // Method, path, code, content type, the start of the body.
    let cases = [
        ("GET", "/nothing", 404, plain, not_found),
        ("POST", "/nothing", 404, plain, not_found),
        ("GET", "/apis/nothing", 404, plain, not_found),
        ("GET", "/apis/nothing/v1", 404, plain, not_found),
        ("GET", "/openapi/v2", 200, "application/json", r#"{"definitions":{"#),
        ("GET", "/apis/nothing/v1/things", 404, plain, not_found),
        ("GET", "/apis/example.com/v2", 404, plain, not_found),
        ("GET", "/apis/example.com/v1/nothings", 404, plain, not_found),
        (
            "GET",
            "/api/v1/nothings",
            404,
            "application/json",
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"code":404"#,
        ),
        ("GET", "/healthz/", 404, plain, not_found),
        ("GET", "/readyz/nothing", 404, plain, not_found),
        ("GET", "/livez/shutdown", 404, plain, not_found),
        ("GET", "//", 404, plain, not_found),
        ("GET", "/apis//v1", 404, plain, not_found),
        (
            "GET",
            "/api/v2",
            404,
            "application/json",
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"code":404"#,
        ),
        (
            "GET",
            "/apis/apps/v9",
            404,
            "application/json",
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"code":404"#,
        ),
        (
            "POST",
            "/version",
            405,
            "application/json",
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"code":405"#,
        ),
        (
            "DELETE",
            "/apis/apps/v1",
            405,
            "application/json",
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"code":405"#,
        ),
        ("POST", "/apis", 200, "application/json", r#"{"kind":"APIGroupList""#),
        ("GET", "/", 200, "application/json", r#"{"paths":["/api","/api/v1","/apis","/apis/""#),
        ("GET", "/healthz", 200, plain, "ok"),
        ("GET", "/livez", 200, plain, "ok"),
        ("GET", "/readyz", 200, plain, "ok"),
        ("GET", "/readyz/etcd", 200, plain, "ok"),
        ("GET", "/readyz/poststarthook/crd-informer-synced", 200, plain, "ok"),
        ("GET", "/readyz?verbose", 200, plain, "[+]ping ok\n[+]log ok\n[+]etcd ok\n"),
        ("GET", "/api/", 200, "application/json", r#"{"kind":"APIVersions","versions":["v1"]"#),
        ("GET", "/api/v1/", 200, "application/json", r#"{"kind":"APIResourceList","groupVersion":"v1""#),
        (
            "GET",
            "/apis/autoscaling",
            200,
            "application/json",
            r#"{"kind":"APIGroup","apiVersion":"v1","name":"#,
        ),
        (
            "GET",
            "/openapi/v3",
            200,
            plain,
            r#"{"paths":{"api/v1":{"serverRelativeURL":"/openapi/v3/api/v1?hash="#,
        ),
        ("GET", "/openapi/v3/", 200, plain, r#"{"paths":{"api/v1":{"#),
        ("GET", "/openapi/v3/apis/nothing/v1", 404, "", ""),
        ("GET", "/openapi/v3/nothing", 404, "", ""),
        (
            "GET",
            "/metrics",
            200,
            "text/plain; version=0.0.4; charset=utf-8; escaping=underscores",
            "# HELP apiserver_request_total",
        ),
    ];
    for (method, path, code, content_type, start) in cases {
        let got = client.send(method.parse().expect("a method"), path, &[], Value::Null).await;
        assert_eq!((got.code, got.header("content-type")), (code, content_type), "{method} {path}");
        assert!(got.text().starts_with(start), "{method} {path}: {}", got.text());
    }
    let version = client.get("/version", &[]).await.json();
    for part in ["major", "minor"] {
        assert!(version[part].as_str().is_some_and(|text| text.parse::<u32>().is_ok()), "{version}");
    }
    let yaml = client.get("/api", &[("accept", "application/yaml"), ("host", "here:1")]).await;
    assert!(yaml.text().contains("serverAddress: here:1"), "{}", yaml.text());
}

#[tokio::test]
async fn discovery_follows_the_definitions() {
    let client = Client::new(Config::default()).await;
    let accept = [("accept", AGGREGATED)];
    let before = client.get("/apis", &accept).await;
    let client = client.with_widgets().await;
    let after = client.get("/apis", &accept).await;
    assert_eq!(after.header("content-type"), AGGREGATED);
    assert_eq!((after.header("cache-control"), after.header("vary")), ("public", "Accept"));
    assert_ne!(before.header("etag"), after.header("etag"));
    let tag = after.header("etag").to_owned();
    let known = client.get("/apis", &[("accept", AGGREGATED), ("if-none-match", &tag)]).await;
    assert_eq!((known.code, known.body.len(), known.header("etag")), (304, 0, tag.as_str()));

    let document = after.json();
    let groups = document["items"].as_array().expect("groups");
    let names: Vec<&Value> = groups.iter().map(|group| &group["metadata"]["name"]).collect();
    assert_eq!(names[..3], ["apiregistration.k8s.io", "apps", "events.k8s.io"]);
    let last = groups.last().expect("a group");
    assert_eq!(last["metadata"]["name"], "example.com");
    assert_eq!(last["versions"][1]["version"], "v1alpha1");
    let verbs = json!(["get", "patch", "update"]);
    let kind = json!({"group": "example.com", "version": "v1", "kind": "Widget"});
    assert_eq!(
        last["versions"][0],
        json!({"version": "v1", "freshness": "Current", "resources": [{
            "resource": "widgets", "responseKind": kind, "scope": "Namespaced", "singularResource": "widget",
            "verbs": ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"],
            "shortNames": ["wd"], "categories": ["all"],
            "subresources": [
                {"subresource": "status", "responseKind": kind, "verbs": verbs},
                {
                    "subresource": "scale", "verbs": verbs,
                    "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
                },
            ],
        }]})
    );
    // An old client's offer is not taken.
    let old = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
    assert_eq!(client.get("/apis", &[("accept", old)]).await.json()["kind"], "APIGroupList");

    let legacy = client.get("/apis/example.com/v1", &[]).await.json();
    let rows = legacy["resources"].as_array().expect("resources");
    // The same for all versions: that of the stored one.
    assert_eq!(rows[0]["storageVersionHash"], "gIwvi5rymmg=");
    let alpha = client.get("/apis/example.com/v1alpha1", &[]).await.json();
    assert_eq!(alpha["resources"][0]["storageVersionHash"], "gIwvi5rymmg=");
    let scale = json!({
        "name": "widgets/scale", "singularName": "", "namespaced": true, "group": "autoscaling", "version": "v1",
        "kind": "Scale", "verbs": verbs,
    });
    assert!(rows.contains(&scale), "{legacy}");
    let core = client.get("/api/v1", &[]).await.json();
    let row = |name: &str| {
        let rows = core["resources"].as_array().expect("resources");
        rows.iter().find(|row| row["name"] == name).cloned().expect("a row")
    };
    assert_eq!(row("configmaps")["storageVersionHash"], "qFsyl6wFWjQ=");
    assert_eq!(row("namespaces/status")["kind"], "Namespace");
}

#[tokio::test]
async fn documents_are_found_by_their_hash() {
    let client = Client::new(Config::default()).await.with_widgets().await;
    let index = client.get("/openapi/v3", &[]).await.json();
    let url = index["paths"]["apis/example.com/v1"]["serverRelativeURL"].as_str().expect("a path").to_owned();
    let bare = "/openapi/v3/apis/example.com/v1";
    let right = client.get(&url, &[]).await;
    assert_eq!((right.code, right.header("cache-control")), (200, "public, immutable"));
    assert!(right.header("expires").ends_with(" UTC"));
    let tag = right.header("etag").to_owned();
    let stale = client.get(&format!("{bare}?hash=ABC"), &[]).await;
    assert_eq!((stale.code, stale.header("location")), (301, url.as_str()));
    let none = client.get(bare, &[]).await;
    assert_eq!((none.code, none.header("cache-control")), (200, "no-cache, private"));
    assert_eq!(client.get(bare, &[("if-none-match", &tag)]).await.code, 304);
    assert_eq!(client.get(bare, &[("accept", "application/yaml")]).await.code, 406);
    let packed = client.get(bare, &[("accept-encoding", "gzip")]).await;
    assert_eq!(packed.header("content-encoding"), "gzip");
    assert!(packed.body.len() * 3 < none.body.len());

    let document = none.json();
    let widget = &document["components"]["schemas"]["com.example.v1.Widget"];
    let spec = &widget["properties"]["spec"]["properties"];
    assert_eq!(spec["port"]["anyOf"], json!([{"type": "integer"}, {"type": "string"}]));
    assert_eq!(spec["template"]["required"], json!(["kind", "apiVersion"]));
    assert_eq!(
        widget["x-kubernetes-group-version-kind"],
        json!([{"group": "example.com", "version": "v1", "kind": "Widget"}])
    );
    for property in ["apiVersion", "kind", "metadata"] {
        assert!(widget["properties"][property]["description"].is_string(), "{property}");
    }
    let item = &document["paths"]["/apis/example.com/v1/namespaces/{namespace}/widgets/{name}"];
    let patch = &item["patch"];
    let content: Vec<&String> =
        patch["requestBody"]["content"].as_object().expect("media types").keys().collect();
    assert_eq!(
        content,
        ["application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json"]
    );
    let names: Vec<&Value> =
        patch["parameters"].as_array().expect("parameters").iter().map(|it| &it["name"]).collect();
    assert_eq!(names, ["dryRun", "fieldManager", "fieldValidation", "force"]);

    // Every reference of every document leads somewhere, and every operation has a name of its own.
    for (_, row) in index["paths"].as_object().expect("paths") {
        let got = client.get(row["serverRelativeURL"].as_str().expect("a path"), &[]).await;
        let document = got.json();
        let schemas = document["components"]["schemas"].as_object().expect("schemas");
        for part in got.text().split("\"#/components/schemas/").skip(1) {
            let name = part.split('"').next().unwrap_or_default();
            assert!(schemas.contains_key(name), "{name}");
        }
        let mut ids = std::collections::BTreeSet::new();
        for (path, item) in document["paths"].as_object().expect("paths") {
            for (method, operation) in item.as_object().expect("operations") {
                if method != "parameters" {
                    let id = operation["operationId"].as_str().expect("a name");
                    assert!(ids.insert(id), "{path} {id}");
                }
            }
        }
        assert!(!ids.is_empty());
    }
    // What is served no more has no document.
    let gone = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com";
    assert_eq!(client.send(Method::DELETE, gone, &[], Value::Null).await.code, 200);
    assert_eq!(client.wait(bare, 404).await, 404);
}

#[tokio::test]
async fn requests_are_limited_and_counted() {
    let mut config = Config::default();
    config.limits.reading = Some(1);
    config.limits.queue_time = Duration::from_millis(1);
    let mut client = Client::new(config).await;
    let path = "/api/v1/namespaces";
    // Administrators are not limited: the request is of another user.
    let held = client.begin(Method::GET, path, &[], Value::Null).await;
    assert_eq!(client.get(path, &[]).await.code, 200);
    drop(held);
    let binding = json!({
        "metadata": {"name": "worker"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "worker"}],
    });
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    assert_eq!(client.send(Method::POST, bindings, &[], binding).await.code, 201);
    client.1 = User::new("worker", [""; 0]);
    // A request runs until its body is gone.
    let first = client.begin(Method::GET, path, &[], Value::Null).await;
    let refused = client.get(path, &[]).await;
    assert_eq!((refused.code, refused.header("retry-after")), (429, "1"));
    assert_eq!(refused.json()["reason"], "TooManyRequests");
    assert_eq!(client.get("/healthz", &[]).await.code, 200);
    let watch = client.begin(Method::GET, &format!("{path}?watch=true"), &[], Value::Null).await;
    assert_eq!(watch.status(), 200);
    let mut watch = watch.into_body();
    let mut events = 0;
    while events < 4 {
        let frame = watch.frame().await.expect("a frame").expect("no error");
        events += frame.data_ref().map_or(0, |chunk| chunk.iter().filter(|byte| **byte == b'\n').count());
    }
    drop(first);
    assert_eq!(client.get(path, &[]).await.code, 200);
    for (timeout, error) in [
        ("x", r#"invalid duration "x""#),
        ("5", r#"missing unit in duration "5""#),
        ("1d", r#"unknown unit "d" in duration "1d""#),
    ] {
        let wrong = client.get(&format!("{path}?timeout={timeout}"), &[]).await;
        let message = format!("invalid timeout specified in the request URL - time: {error}");
        assert_eq!((wrong.code, &wrong.json()["message"]), (400, &json!(message)));
    }
    assert_eq!(client.get(&format!("{path}?timeout=1m0.5s"), &[]).await.code, 200);

    let metrics = client.get("/metrics", &[]).await;
    let labels = "component=\"apiserver\",dry_run=\"\",group=\"\",resource=\"namespaces\",scope=\"cluster\"";
    for line in [
        format!(
            "apiserver_request_total{{code=\"429\",{labels},subresource=\"\",verb=\"LIST\",version=\"v1\"}} 1\n"
        ),
        format!(
            "apiserver_request_total{{code=\"200\",{labels},subresource=\"\",verb=\"LIST\",version=\"v1\"}} 5\n"
        ),
        "apiserver_current_inflight_requests{request_kind=\"readOnly\"} 0\n".to_owned(),
        "resource=\"namespaces\",scope=\"cluster\",subresource=\"\",verb=\"WATCH\",version=\"v1\"} 1\n"
            .to_owned(),
        "apiserver_storage_objects{resource=\"namespaces\"} 4\n".to_owned(),
        "apiserver_watch_events_total{group=\"\",resource=\"namespaces\",version=\"v1\"} 4\n".to_owned(),
    ] {
        assert!(metrics.text().contains(&line), "{line}\n{}", metrics.text());
    }
    drop(watch);
    client.0.stop();
    let ready = client.get("/readyz", &[]).await;
    assert_eq!(ready.code, 500);
    assert!(ready.text().ends_with("[-]shutdown failed: reason withheld\nreadyz check failed\n"));
}

#[tokio::test]
async fn large_answers_are_packed() {
    let client = Client::new(Config::default()).await;
    let path = "/api/v1/namespaces/default/configmaps";
    let accept = [("accept-encoding", "gzip")];
    let mut sizes = Vec::new();
    for at in 0..3 {
        let object =
            json!({"metadata": {"name": format!("large-{at}")}, "data": {"text": "text ".repeat(20_000)}});
        assert_eq!(client.send(Method::POST, path, &[], object).await.code, 201);
        let (packed, plain) = (client.get(path, &accept).await, client.get(path, &[]).await);
        assert!(plain.headers.get("content-encoding").is_none());
        sizes.push(packed.header("content-encoding") == "gzip");
        let mut text = Vec::new();
        match packed.header("content-encoding") {
            "gzip" => {
                let mut decoder = flate2::read::GzDecoder::new(packed.body.as_ref());
                std::io::Read::read_to_end(&mut decoder, &mut text).expect("gzip");
            }
            _ => text.extend_from_slice(&packed.body),
        }
        assert!(text == plain.body, "{at}");
    }
    assert_eq!(sizes, [false, true, true]);
}

#[tokio::test]
async fn what_needs_containers_says_that_there_are_none() {
    let client = Client::new(Config::default()).await;
    for path in ["pods/a/log", "pods/a/exec", "pods/a/proxy", "services/a/proxy"] {
        let got = client.get(&format!("/api/v1/namespaces/default/{path}"), &[]).await;
        assert_eq!(got.code, 501, "{path}");
        let message = got.json()["message"].as_str().unwrap_or_default().to_owned();
        assert!(message.starts_with("pods are stored on this server, not run"), "{message}");
    }
    assert_eq!(client.get("/api/v1/namespaces/default/pods/a/nothing", &[]).await.code, 404);
}
