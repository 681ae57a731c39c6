//! What is stored and not enforced says so: in the response to each write, and once in the log.

use std::sync::{Arc, Mutex};

use http::{Method, Request};
use http_body_util::Full;
use serde_json::{Value, json};
use settled_apiserver::auth::User;
use settled_apiserver::{Config, Controllers, Notice, Server};

const WEBHOOKS: &str = "stored but not enforced: this server does not call admission webhooks";
const POLICIES: &str = "stored but not enforced: this server does not evaluate admission policies";
const FLOWS: &str = "stored but not enforced: this server does not apply API priority and fairness";
const AGGREGATION: &str =
    "stored but not enforced: this server does not proxy requests to aggregated API servers";
const ADDRESSES: &str =
    "stored but not enforced: Services get addresses from the server's own range, which this does not change";
const CONVERSION: &str =
    "this server does not call conversion webhooks: objects are accessible at their stored version only";

/// The notices of what is not enforced: resource, name and reason.
type Seen = Arc<Mutex<Vec<(String, String, String)>>>;

fn listening(config: &mut Config) -> Seen {
    let seen = Seen::default();
    let into = seen.clone();
    config.listener = Some(Arc::new(move |notice: &Notice| {
        if let Notice::NotEnforced { resource, name, reason } = notice {
            into.lock().unwrap().push((resource.clone(), name.clone(), reason.clone()));
        }
    }));
    config.controllers = Controllers::none();
    seen
}

/// The status of an answer, and its warnings.
async fn send(server: &Server, method: Method, path: &str, body: &Value) -> (u16, Vec<String>) {
    let content_type = match method {
        Method::PATCH => "application/merge-patch+json",
        _ => "application/json",
    };
    let request = Request::builder().method(method).uri(path).header("content-type", content_type);
    let body = Full::new(bytes::Bytes::from(body.to_string()));
    let answer = server.call(Some(User::admin()), request.body(body).unwrap()).await;
    let warnings = answer.headers().get_all("warning").iter();
    let text = |value: &str| value.split_once('"').unwrap().1.trim_end_matches('"').to_owned();
    (answer.status().as_u16(), warnings.map(|value| text(value.to_str().unwrap())).collect())
}

/// Resources, objects, and what is said of them.
fn cases() -> Vec<(&'static str, &'static str, Value, Option<&'static str>)> {
    let admission = "/apis/admissionregistration.k8s.io/v1";
    let hook = json!({
        "name": "a.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://example.com/"},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
    });
    let constraints = json!({"resourceRules": [{
        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"],
    }]});
    let crd = |name: &str, conversion: Value| {
        let version = |name: &str, storage: bool| json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": {"type": "object"}}});
        json!({
            "metadata": {"name": format!("{name}.example.com")},
            "spec": {
                "group": "example.com", "scope": "Cluster", "names": {"plural": name, "kind": name.to_uppercase()},
                "versions": [version("v1", true), version("v2", false)], "conversion": conversion,
            },
        })
    };
    let webhook = json!({"strategy": "Webhook", "webhook": {
        "conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://example.com/convert"},
    }});
    let crds = "/apis/apiextensions.k8s.io/v1";
    let flow = "/apis/flowcontrol.apiserver.k8s.io/v1";
    let networking = "/apis/networking.k8s.io/v1";
    vec![
        (
            admission,
            "validatingwebhookconfigurations",
            json!({"metadata": {"name": "a"}, "webhooks": [hook]}),
            Some(WEBHOOKS),
        ),
        (
            admission,
            "mutatingwebhookconfigurations",
            json!({"metadata": {"name": "a"}, "webhooks": [hook]}),
            Some(WEBHOOKS),
        ),
        (
            admission,
            "mutatingwebhookconfigurations",
            json!({"metadata": {"name": "none"}, "webhooks": []}),
            None,
        ),
        (
            admission,
            "validatingadmissionpolicies",
            json!({"metadata": {"name": "a"}, "spec": {
                "matchConstraints": constraints, "validations": [{"expression": "true"}],
            }}),
            Some(POLICIES),
        ),
        (
            admission,
            "validatingadmissionpolicybindings",
            json!({"metadata": {"name": "a"}, "spec": {"policyName": "a", "validationActions": ["Deny"]}}),
            Some(POLICIES),
        ),
        (
            admission,
            "mutatingadmissionpolicies",
            json!({"metadata": {"name": "a"}, "spec": {
                "matchConstraints": constraints, "reinvocationPolicy": "Never",
                "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": "[]"}}],
            }}),
            Some(POLICIES),
        ),
        (
            admission,
            "mutatingadmissionpolicybindings",
            json!({"metadata": {"name": "a"}, "spec": {"policyName": "a"}}),
            Some(POLICIES),
        ),
        (crds, "customresourcedefinitions", crd("hooked", webhook), Some(CONVERSION)),
        (crds, "customresourcedefinitions", crd("plain", json!({"strategy": "None"})), None),
        (
            "/apis/apiregistration.k8s.io/v1",
            "apiservices",
            json!({"metadata": {"name": "v1.a.example.com"}, "spec": {
                "group": "a.example.com", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1,
                "service": {"name": "a", "namespace": "default"}, "insecureSkipTLSVerify": true,
            }}),
            Some(AGGREGATION),
        ),
        (
            flow,
            "prioritylevelconfigurations",
            json!({"metadata": {"name": "a"}, "spec": {"type": "Exempt", "exempt": {}}}),
            Some(FLOWS),
        ),
        (
            flow,
            "flowschemas",
            json!({"metadata": {"name": "a"}, "spec": {"priorityLevelConfiguration": {"name": "exempt"}}}),
            Some(FLOWS),
        ),
        (
            networking,
            "servicecidrs",
            json!({"metadata": {"name": "more"}, "spec": {"cidrs": ["192.0.2.0/24"]}}),
            Some(ADDRESSES),
        ),
        (
            networking,
            "ipaddresses",
            json!({"metadata": {"name": "192.0.2.1"}, "spec": {
                "parentRef": {"resource": "services", "namespace": "default", "name": "a"},
            }}),
            Some(ADDRESSES),
        ),
        ("/api/v1/namespaces/default", "configmaps", json!({"metadata": {"name": "a"}}), None),
        (
            "/apis/networking.k8s.io/v1/namespaces/default",
            "networkpolicies",
            json!({"metadata": {"name": "a"}, "spec": {"podSelector": {}}}),
            None,
        ),
    ]
}

#[tokio::test]
async fn what_is_not_enforced_is_said_with_each_write_and_logged_once() {
    let directory = tempfile::tempdir().unwrap();
    let config = || {
        let mut config = Config::default();
        config.data_dir = Some(directory.path().to_owned());
        config
    };
    let mut first = config();
    let seen = listening(&mut first);
    let server = Server::start(first).await.unwrap();
    let mut expected = Vec::new();
    for (root, plural, object, warning) in cases() {
        let name = object["metadata"]["name"].as_str().unwrap();
        let warnings: Vec<String> = warning.into_iter().map(str::to_owned).collect();
        let collection = format!("{root}/{plural}");
        let before = seen.lock().unwrap().len();
        let dry = send(&server, Method::POST, &format!("{collection}?dryRun=All"), &object).await;
        assert_eq!(dry, (201, warnings.clone()), "{collection}");
        assert_eq!(seen.lock().unwrap().len(), before, "nothing is stored yet");
        let made = send(&server, Method::POST, &collection, &object).await;
        assert_eq!(made, (201, warnings.clone()), "{collection}");
        let labels = json!({"metadata": {"labels": {"a": "b"}}});
        let changed = send(&server, Method::PATCH, &format!("{collection}/{name}"), &labels).await;
        assert_eq!(changed, (200, warnings), "{collection}");
        if let Some(warning) = warning {
            let group = root.trim_start_matches("/apis/").split('/').next().unwrap();
            expected.push((format!("{plural}.{group}"), name.to_owned(), warning.to_owned()));
        }
        assert_eq!(*seen.lock().unwrap(), expected, "{collection}");
    }
    // It is not enforced from now on: that is news.
    let hooks = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
    let hooked = json!({"webhooks": cases()[1].2["webhooks"]});
    let changed = send(&server, Method::PATCH, &format!("{hooks}/none"), &hooked).await;
    assert_eq!(changed, (200, vec![WEBHOOKS.to_owned()]));
    let news = ("mutatingwebhookconfigurations.admissionregistration.k8s.io".to_owned(), "none".to_owned());
    expected.push((news.0, news.1, WEBHOOKS.to_owned()));
    assert_eq!(*seen.lock().unwrap(), expected);

    // The server's own range is what Services get addresses from.
    let cidr = "/apis/networking.k8s.io/v1/servicecidrs/kubernetes";
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    assert_eq!(send(&server, Method::PATCH, cidr, &labels).await, (200, vec![]));
    assert_eq!(*seen.lock().unwrap(), expected);

    // A server that starts with such objects says so too.
    let ended = server.ended();
    server.stopped().await;
    drop(server);
    ended.await;
    let mut second = config();
    let seen = listening(&mut second);
    let _server = Server::start(second).await.unwrap();
    while seen.lock().unwrap().len() < expected.len() {
        tokio::task::yield_now().await;
    }
    let mut again = seen.lock().unwrap().clone();
    again.sort();
    expected.sort();
    assert_eq!(again, expected);
}
