//! The status of NetworkPolicies (KEP-2943): each API operation, the feature gate over a store that is reopened, permissions,
//! metrics, and what is published.

use std::path::Path;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use proptest::sample::select;
use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use settled_apiserver::auth::User;
use settled_apiserver::{Config, Controllers, FeatureGates, Server, testing};

use crate::authorization::ask;
use crate::protobuf::{body as protobuf_body, field as protobuf_field};
use crate::surface::{Client, Got};

const POLICIES: &str = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies";
const POLICY: &str = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies/a";
const STATUS: &str = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies/a/status";
const JSON: &str = "application/json";
const JSON_PATCH: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

fn config(gates: &str) -> Config {
    let mut config = Config::default();
    config.controllers = Controllers::none();
    config.feature_gates = FeatureGates::parse(gates).unwrap();
    config
}

const ON: &str = "NetworkPolicyStatus=true";
const OFF: &str = "NetworkPolicyStatus=false";

async fn start(gates: &str) -> Client {
    Client::new(config(gates)).await
}

/// A policy with a range of ports: what the first user story of the KEP is about.
fn policy() -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "a"},
        "spec": {
            "podSelector": {}, "policyTypes": ["Egress"],
            "egress": [{"ports": [{"protocol": "TCP", "port": 30000, "endPort": 32000}]}],
        },
    })
}

fn condition(type_: &str, status: &str, observed: i64) -> Value {
    json!({
        "type": type_, "status": status, "reason": "FeatureNotSupported", "message": "endPort is not supported",
        "observedGeneration": observed, "lastTransitionTime": "2026-01-01T00:00:00Z",
    })
}

fn accepted() -> Value {
    condition("Accepted", "True", 1)
}

/// The policy with these conditions.
fn with_conditions(conditions: &[Value]) -> Value {
    let mut policy = policy();
    policy["status"] = json!({"conditions": conditions});
    policy
}

impl Client {
    async fn request(&self, method: Method, path: &str, content_type: &str, body: &Value) -> Got {
        self.send(method, path, &[("content-type", content_type)], body.clone()).await
    }

    /// A request that must succeed.
    async fn done(&self, method: Method, path: &str, content_type: &str, body: &Value) -> Value {
        let got = self.request(method.clone(), path, content_type, body).await;
        assert!(matches!(got.code, 200 | 201), "{method} {path}: {}", got.text());
        got.json()
    }

    async fn create(&self) -> Value {
        self.done(Method::POST, POLICIES, JSON, &policy()).await
    }

    async fn write_status(&self, conditions: &[Value]) -> Value {
        self.done(Method::PUT, STATUS, JSON, &with_conditions(conditions)).await
    }

    async fn read(&self) -> Value {
        self.done(Method::GET, POLICY, JSON, &Value::Null).await
    }
}

fn generation(policy: &Value) -> i64 {
    policy["metadata"]["generation"].as_i64().unwrap()
}

#[tokio::test]
async fn each_object_has_a_status() {
    for gates in [ON, OFF] {
        let client = start(gates).await;
        assert_eq!(client.create().await["status"], json!({}), "{gates}");
        assert_eq!(client.read().await["status"], json!({}), "{gates}");
        let list = client.done(Method::GET, POLICIES, JSON, &Value::Null).await;
        assert_eq!(list["items"][0]["status"], json!({}), "{gates}");
        let yaml = client.get(POLICY, &[("accept", "application/yaml")]).await;
        assert!(yaml.text().ends_with("status: {}\n"), "{}", yaml.text());
    }
}

/// With the gate as upstream; without it, upstream took what was sent.
#[tokio::test]
async fn a_create_takes_no_status() {
    for gates in [ON, OFF] {
        let client = start(gates).await;
        let made = client.done(Method::POST, POLICIES, JSON, &with_conditions(&[accepted()])).await;
        assert_eq!((&made["status"], generation(&made)), (&json!({}), 1), "{gates}");
        // Nor does an apply that creates.
        let mut other = with_conditions(&[accepted()]);
        other["metadata"]["name"] = "b".into();
        let path = format!("{POLICIES}/b?fieldManager=tool");
        let made = client.done(Method::PATCH, &path, APPLY, &other).await;
        assert_eq!((&made["status"], generation(&made)), (&json!({}), 1), "{gates}");
        assert!(!made["metadata"]["managedFields"].to_string().contains("f:status"), "{made}");
    }
}

#[tokio::test]
async fn an_update_of_the_rest_keeps_the_status() {
    let client = start(ON).await;
    client.create().await;
    let status = client.write_status(&[accepted()]).await["status"].clone();
    assert_eq!(status, json!({"conditions": [accepted()]}));

    // What old clients send has no status.
    let mut sent = policy();
    sent["spec"]["policyTypes"] = json!(["Egress", "Ingress"]);
    let updated = client.done(Method::PUT, POLICY, JSON, &sent).await;
    assert_eq!((&updated["status"], generation(&updated)), (&status, 2));

    let mut sent = with_conditions(&[condition("Failure", "True", 2)]);
    sent["metadata"]["labels"] = json!({"a": "b"});
    sent["spec"]["policyTypes"] = json!(["Egress", "Ingress"]);
    let updated = client.done(Method::PUT, POLICY, JSON, &sent).await;
    assert_eq!((&updated["status"], generation(&updated)), (&status, 2), "no change of the spec");
    assert_eq!(updated["metadata"]["labels"]["a"], "b");

    let patches = [
        (MERGE, json!({"status": null})),
        (STRATEGIC, json!({"status": {"conditions": [{"type": "Accepted", "status": "False"}]}})),
        (JSON_PATCH, json!([{"op": "remove", "path": "/status/conditions/0"}])),
    ];
    for (content_type, patch) in patches {
        let patched = client.done(Method::PATCH, POLICY, content_type, &patch).await;
        assert_eq!((&patched["status"], generation(&patched)), (&status, 2), "{patch}");
    }
}

#[tokio::test]
async fn a_write_to_the_status_keeps_the_spec() {
    let client = start(ON).await;
    let made = client.create().await;
    let mut sent = with_conditions(&[accepted()]);
    sent["spec"] = json!({"podSelector": {"matchLabels": {"a": "b"}}});
    sent["metadata"]["labels"] = json!({"written": "too"});
    let written = client.done(Method::PUT, STATUS, JSON, &sent).await;
    assert_eq!((&written["spec"], generation(&written)), (&made["spec"], 1));
    assert_eq!(written["status"], json!({"conditions": [accepted()]}));
    // As upstream, whose strategy keeps only the spec.
    assert_eq!(written["metadata"]["labels"], json!({"written": "too"}));
    // A spec that would be refused is not even looked at.
    sent["spec"] = json!({"podSelector": {}, "policyTypes": ["Sideways"]});
    sent["status"]["conditions"][0]["observedGeneration"] = 2.into();
    let written = client.done(Method::PUT, STATUS, JSON, &sent).await;
    assert_eq!((&written["spec"], generation(&written)), (&made["spec"], 1));
}

/// GET, PUT, the four types of patches, and the metadata of the writes.
#[tokio::test]
async fn each_operation_on_the_status() {
    let client = start(ON).await;
    let made = client.create().await;
    let read = client.done(Method::GET, STATUS, JSON, &Value::Null).await;
    assert_eq!(read, made);

    let put = client.write_status(&[accepted()]).await;
    assert_eq!(put["status"]["conditions"], json!([accepted()]));
    assert_ne!(put["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"]);
    assert_eq!(put, client.done(Method::GET, STATUS, JSON, &Value::Null).await);
    let manager = put["metadata"]["managedFields"].as_array().unwrap().last().unwrap();
    assert_eq!((&manager["subresource"], &manager["operation"]), (&json!("status"), &json!("Update")));
    assert_eq!(
        manager["fieldsV1"],
        json!({"f:status": {"f:conditions": {".": {}, "k:{\"type\":\"Accepted\"}": {
            ".": {}, "f:lastTransitionTime": {}, "f:message": {}, "f:observedGeneration": {}, "f:reason": {},
            "f:status": {}, "f:type": {},
        }}}})
    );
    // The same again changes nothing.
    assert_eq!(put, client.write_status(&[accepted()]).await);
    let mut stale = with_conditions(&[]);
    stale["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"].clone();
    assert_eq!(client.request(Method::PUT, STATUS, JSON, &stale).await.code, 409);

    let json_patch = json!([
        {"op": "test", "path": "/status/conditions/0/type", "value": "Accepted"},
        {"op": "add", "path": "/status/conditions/-", "value": condition("PartialFailure", "True", 1)},
    ]);
    let patched = client.done(Method::PATCH, STATUS, JSON_PATCH, &json_patch).await;
    let partial = condition("PartialFailure", "True", 1);
    assert_eq!(patched["status"]["conditions"], json!([accepted(), partial]));

    // Conditions are merged by their type.
    let strategic =
        json!({"status": {"conditions": [{"type": "Accepted", "status": "False", "message": ""}]}});
    let patched = client.done(Method::PATCH, STATUS, STRATEGIC, &strategic).await;
    let mut rejected = condition("Accepted", "False", 1);
    rejected["message"] = "".into();
    assert_eq!(patched["status"]["conditions"], json!([rejected, partial]));
    let delete = json!({"status": {"conditions": [{"type": "PartialFailure", "$patch": "delete"}]}});
    let patched = client.done(Method::PATCH, STATUS, STRATEGIC, &delete).await;
    assert_eq!(patched["status"]["conditions"], json!([rejected]));

    // A merge patch replaces the list.
    let merge =
        json!({"status": {"conditions": [partial]}, "spec": {"podSelector": {"matchLabels": {"a": "b"}}}});
    let patched = client.done(Method::PATCH, STATUS, MERGE, &merge).await;
    assert_eq!((&patched["status"]["conditions"], &patched["spec"]), (&json!([partial]), &made["spec"]));

    let applied = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "a"},
        "status": {"conditions": [condition("cilium.io/Accepted", "True", 1)]},
    });
    let path = format!("{STATUS}?fieldManager=cilium");
    let patched = client.done(Method::PATCH, &path, APPLY, &applied).await;
    assert_eq!(
        patched["status"]["conditions"],
        json!([partial, condition("cilium.io/Accepted", "True", 1)]),
        "each manager owns its own condition"
    );
    let cleared = client.done(Method::PATCH, STATUS, MERGE, &json!({"status": null})).await;
    assert_eq!((&cleared["status"], generation(&cleared)), (&json!({}), 1));

    for (method, body) in [(Method::POST, policy()), (Method::DELETE, Value::Null)] {
        assert_eq!(client.request(method, STATUS, JSON, &body).await.code, 405);
    }
    let absent = format!("{POLICIES}/none/status");
    for (method, body) in [(Method::GET, Value::Null), (Method::PUT, with_conditions(&[]))] {
        assert_eq!(client.request(method, &absent, JSON, &body).await.code, 404);
    }
}

/// An apply of one part owns no field of the other (`GetResetFields`).
#[tokio::test]
async fn an_apply_owns_fields_of_its_part_only() {
    let client = start(ON).await;
    let both = with_conditions(&[accepted()]);
    let owned = |policy: &Value, manager: &str| {
        let entries = policy["metadata"]["managedFields"].as_array().unwrap();
        let entry = entries.iter().find(|entry| entry["manager"] == manager).unwrap();
        entry["fieldsV1"].as_object().unwrap().keys().cloned().collect::<Vec<_>>()
    };
    let main = format!("{POLICY}?fieldManager=user");
    let made = client.done(Method::PATCH, &main, APPLY, &both).await;
    assert_eq!((&made["status"], owned(&made, "user")), (&json!({}), vec!["f:spec".to_owned()]));

    let status = format!("{STATUS}?fieldManager=provider");
    let mut other_spec = both.clone();
    other_spec["spec"]["podSelector"] = json!({"matchLabels": {"a": "b"}});
    let written = client.done(Method::PATCH, &status, APPLY, &other_spec).await;
    assert_eq!((&written["spec"], generation(&written)), (&made["spec"], 1));
    assert_eq!(owned(&written, "provider"), ["f:status"]);

    // The user's next apply neither conflicts with the provider nor takes the condition away.
    let again = client.done(Method::PATCH, &main, APPLY, &policy()).await;
    assert_eq!((&again["status"], generation(&again)), (&written["status"], 1));

    // Another provider conflicts over the condition of the same type, and owns one of its own.
    let mut mine = both.clone();
    mine["status"]["conditions"][0]["status"] = "False".into();
    let other = format!("{STATUS}?fieldManager=other");
    assert_eq!(client.request(Method::PATCH, &other, APPLY, &mine).await.code, 409);
    mine["status"]["conditions"][0]["type"] = "other.example.com/Accepted".into();
    let written = client.done(Method::PATCH, &other, APPLY, &mine).await;
    assert_eq!(written["status"]["conditions"].as_array().unwrap().len(), 2);
}

/// The end-to-end tests of Kubernetes 1.24, and the other findings of metav1's `ValidateConditions`.
#[tokio::test]
async fn conditions_are_validated() {
    let client = start(ON).await;
    client.create().await;
    // Only a generation below zero is wrong.
    let ahead = client.write_status(&[condition("Accepted", "True", 2)]).await;
    assert_eq!((generation(&ahead), &ahead["status"]["conditions"][0]["observedGeneration"]), (1, &json!(2)));

    let changed = |field: &str, value: Value| {
        let mut condition = accepted();
        match value {
            Value::Null => drop(condition.as_object_mut().unwrap().remove(field)),
            value => condition[field] = value,
        }
        vec![condition]
    };
    let cases = [
        (changed("reason", "".into()), vec!["status.conditions[0].reason: Required value"]),
        (
            vec![accepted(), condition("Accepted", "False", 1)],
            vec!["status.conditions[1].type: Duplicate value: \"Accepted\""],
        ),
        (
            changed("lastTransitionTime", Value::Null),
            vec!["status.conditions[0].lastTransitionTime: Required value"],
        ),
        (
            changed("status", "Perhaps".into()),
            vec![
                "status.conditions[0].status: Unsupported value: \"Perhaps\": supported values: \"False\", \"True\", \"Unknown\"",
            ],
        ),
        (
            changed("observedGeneration", (-1).into()),
            vec![
                "status.conditions[0].observedGeneration: Invalid value: -1: must be greater than or equal to zero",
            ],
        ),
        (
            changed("message", "m".repeat(32 * 1024 + 1).into()),
            vec!["status.conditions[0].message: Too long: may not be more than 32768 bytes"],
        ),
    ];
    for (conditions, wanted) in cases {
        let got = client.request(Method::PUT, STATUS, JSON, &with_conditions(&conditions)).await;
        let answer = got.json();
        let causes: Vec<String> = answer["details"]["causes"]
            .as_array()
            .unwrap_or_else(|| panic!("{answer}"))
            .iter()
            .map(|cause| {
                format!("{}: {}", cause["field"].as_str().unwrap(), cause["message"].as_str().unwrap())
            })
            .collect();
        assert_eq!((got.code, causes.iter().map(String::as_str).collect::<Vec<_>>()), (422, wanted));
    }
    // The types are free: a prefix is a provider's own, and there is no limit to their number.
    let many: Vec<Value> =
        (0..50).map(|n| condition(&format!("p{n}.example.com/Accepted"), "True", 1)).collect();
    assert_eq!(client.write_status(&many).await["status"]["conditions"].as_array().unwrap().len(), 50);
    assert_eq!(
        client
            .request(Method::PUT, STATUS, JSON, &with_conditions(&changed("type", "a b".into())))
            .await
            .code,
        422
    );
    // A patch or an apply does not get around it.
    for (content_type, patch) in [
        (MERGE, json!({"status": {"conditions": changed("reason", Value::Null)}})),
        (STRATEGIC, json!({"status": {"conditions": [{"type": "New", "status": "True"}]}})),
        (
            JSON_PATCH,
            json!([{"op": "add", "path": "/status/conditions/-", "value": {"type": "New", "status": "True"}}]),
        ),
    ] {
        assert_eq!(client.request(Method::PATCH, STATUS, content_type, &patch).await.code, 422, "{patch}");
    }
    let twice = with_conditions(&[accepted(), accepted()]);
    let before = client.read().await;
    let path = format!("{STATUS}?fieldManager=tool");
    assert!(client.request(Method::PATCH, &path, APPLY, &twice).await.code >= 400);
    assert_eq!(client.read().await, before);
}

/// The test plan of the KEP: random insertions into the conditions. What is valid is stored as it was sent; what is not changes nothing.
#[tokio::test]
async fn random_insertions_into_the_conditions() {
    const TYPES: [(&str, bool); 9] = [
        ("Accepted", true),
        ("Failure", true),
        ("cilium.io/Accepted", true),
        ("antrea.io/Failure", true),
        ("v1-15.cilium.io/Accepted", true),
        ("", false),
        ("a b", false),
        ("-Accepted", false),
        ("Cilium.io/Accepted", false),
    ];
    const STATUSES: [(&str, bool); 5] =
        [("True", true), ("False", true), ("Unknown", true), ("true", false), ("", false)];
    const REASONS: [(&str, bool); 5] = [
        ("RuleApplied", true),
        ("FeatureNotSupported", true),
        ("Rule_1:a,b", true),
        ("", false),
        ("not a reason", false),
    ];
    let client = start(ON).await;
    client.create().await;
    // The same each time.
    let mut runner = TestRunner::deterministic();
    let insertion =
        (0..8_usize, select(&TYPES[..]), select(&STATUSES[..]), select(&REASONS[..]), -1..4_i64, 0..8_u8);
    let mut stored: Vec<Value> = Vec::new();
    let (mut accepted, mut refused) = (0, 0);
    for _ in 0..800 {
        let (position, (type_, is_type), (status, is_status), (reason, is_reason), generation, time) =
            insertion.new_tree(&mut runner).unwrap().current();
        let mut condition = json!({
            "type": type_, "status": status, "reason": reason, "message": "inserted", "observedGeneration": generation,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        });
        if time == 0 {
            condition.as_object_mut().unwrap().remove("lastTransitionTime");
        }
        if generation == 0 {
            // As the API server stores it.
            condition.as_object_mut().unwrap().remove("observedGeneration");
        }
        let is_new = stored.iter().all(|other| other["type"] != type_);
        let is_valid = is_type && is_status && is_reason && is_new && generation >= 0 && time > 0;
        let mut conditions = stored.clone();
        conditions.insert(position.min(stored.len()), condition);
        let got = client.request(Method::PUT, STATUS, JSON, &with_conditions(&conditions)).await;
        assert_eq!(got.code, if is_valid { 200 } else { 422 }, "{conditions:?}: {}", got.json());
        if is_valid {
            stored = conditions;
            accepted += 1;
        } else {
            refused += 1;
        }
        let policy = client.read().await;
        let found = policy["status"]["conditions"].as_array().cloned().unwrap_or_default();
        assert_eq!((found, self::generation(&policy)), (stored.clone(), 1));
        if stored.len() >= 4 {
            stored.clear();
            client.write_status(&[]).await;
        }
    }
    assert!(accepted > 20 && refused > 100, "{accepted} accepted, {refused} refused");
}

/// A server on a directory, until `stop`.
async fn open(directory: &Path, gates: &str) -> Client {
    let mut config = config(gates);
    config.data_dir = Some(directory.to_owned());
    Client::new(config).await
}

async fn stop(client: Client) {
    let ended = client.0.ended();
    client.0.stopped().await;
    drop(client);
    ended.await;
}

/// The enablement test of the KEP, over a store that outlives the setting: enable, write, disable, change (refused), clear,
/// enable again, write.
#[tokio::test]
async fn the_gate_is_switched_between_starts() {
    let directory = tempfile::tempdir().unwrap();
    let client = open(directory.path(), ON).await;
    client.create().await;
    client.write_status(&[accepted()]).await;
    let stored = client.read().await;
    stop(client).await;

    let client = open(directory.path(), OFF).await;
    assert_eq!(client.read().await, stored, "what is stored stays, and is read");
    assert_eq!(client.done(Method::GET, STATUS, JSON, &Value::Null).await, stored);
    let failure = condition("Failure", "True", 1);
    let changes = [
        (Method::PUT, JSON, with_conditions(&[condition("Accepted", "False", 1)])),
        (Method::PUT, JSON, with_conditions(&[accepted(), failure.clone()])),
        // An invalid one is not stored either, so validation sees the old one.
        (Method::PUT, JSON, with_conditions(&[json!({"type": "Accepted", "status": "Perhaps"})])),
        (Method::PATCH, MERGE, json!({"status": {"conditions": [failure]}})),
        (Method::PATCH, STRATEGIC, json!({"status": {"conditions": [failure]}})),
        (
            Method::PATCH,
            JSON_PATCH,
            json!([{"op": "replace", "path": "/status/conditions/0/status", "value": "False"}]),
        ),
    ];
    for (method, content_type, body) in changes {
        let answer = client.done(method, STATUS, content_type, &body).await;
        assert_eq!((&answer["status"], generation(&answer)), (&stored["status"], 1), "{body}");
    }
    let path = format!("{STATUS}?fieldManager=tool&force=true");
    let answer = client
        .done(Method::PATCH, &path, APPLY, &with_conditions(&[condition("Accepted", "False", 1)]))
        .await;
    assert_eq!(answer["status"], stored["status"]);
    // The rest is updated as ever.
    let mut sent = policy();
    sent["spec"]["policyTypes"] = json!(["Egress", "Ingress"]);
    let updated = client.done(Method::PUT, POLICY, JSON, &sent).await;
    assert_eq!((&updated["status"], generation(&updated)), (&stored["status"], 2));
    // Metadata that comes with a refused status is written.
    let mut sent = with_conditions(&[]);
    sent["metadata"]["labels"] = json!({"cleared": "yes"});
    let cleared = client.done(Method::PUT, STATUS, JSON, &sent).await;
    assert_eq!((&cleared["status"], &cleared["metadata"]["labels"]["cleared"]), (&json!({}), &json!("yes")));
    // Nothing is left to be kept, and nothing new is taken.
    let answer = client.write_status(&[accepted()]).await;
    assert_eq!((&answer["status"], generation(&answer)), (&json!({}), 2));
    let answer = client.done(Method::PUT, POLICY, JSON, &with_conditions(&[accepted()])).await;
    assert_eq!((&answer["status"], generation(&answer)), (&json!({}), 3));
    stop(client).await;

    let client = open(directory.path(), ON).await;
    assert_eq!(client.read().await["status"], json!({}));
    let written = client.write_status(&[condition("Accepted", "True", 3)]).await;
    assert_eq!(written["status"], json!({"conditions": [condition("Accepted", "True", 3)]}));
    assert_eq!(generation(&written), 3);
    stop(client).await;
}

/// Each of the ways to clear a status without the gate.
#[tokio::test]
async fn a_status_is_cleared_without_the_gate() {
    let directory = tempfile::tempdir().unwrap();
    let clearings = [
        (Method::PUT, JSON, policy()),
        (Method::PUT, JSON, with_conditions(&[])),
        (Method::PATCH, MERGE, json!({"status": null})),
        (Method::PATCH, MERGE, json!({"status": {"conditions": null}})),
        (
            Method::PATCH,
            STRATEGIC,
            json!({"status": {"conditions": [{"type": "Accepted", "$patch": "delete"}]}}),
        ),
        (Method::PATCH, JSON_PATCH, json!([{"op": "remove", "path": "/status/conditions"}])),
    ];
    for (method, content_type, body) in clearings {
        let client = open(directory.path(), ON).await;
        client.done(Method::DELETE, POLICIES, JSON, &Value::Null).await;
        client.create().await;
        client.write_status(&[accepted()]).await;
        stop(client).await;
        let client = open(directory.path(), OFF).await;
        let cleared = client.done(method, STATUS, content_type, &body).await;
        assert_eq!((&cleared["status"], &client.read().await["status"]), (&json!({}), &json!({})), "{body}");
        stop(client).await;
    }
}

#[tokio::test]
async fn the_gate_is_on_by_default() {
    assert_eq!(FeatureGates::default().enabled("NetworkPolicyStatus"), Some(true));
    let client = start("").await;
    client.create().await;
    assert_eq!(client.write_status(&[accepted()]).await["status"], json!({"conditions": [accepted()]}));
}

#[tokio::test]
async fn dry_runs_show_the_status_and_write_none() {
    let client = start(ON).await;
    let before = client.create().await;
    let path = format!("{STATUS}?dryRun=All");
    let shown = client.done(Method::PUT, &path, JSON, &with_conditions(&[accepted()])).await;
    assert_eq!(shown["status"], json!({"conditions": [accepted()]}));
    let shown = client
        .done(Method::PATCH, &format!("{path}&fieldManager=tool"), APPLY, &with_conditions(&[accepted()]))
        .await;
    assert_eq!(shown["status"], json!({"conditions": [accepted()]}));
    let refused = with_conditions(&[json!({"type": "Accepted", "status": "True"})]);
    assert_eq!(client.request(Method::PUT, &path, JSON, &refused).await.code, 422);
    assert_eq!(client.read().await, before);
}

#[tokio::test]
async fn tables_and_watches_of_policies_with_conditions() {
    let client = start(ON).await;
    let made = client.create().await;
    let written = client.write_status(&[accepted()]).await;
    let table = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
    for path in [POLICIES, POLICY, STATUS] {
        let table = client.get(path, &table).await.json();
        let columns: Vec<&str> = table["columnDefinitions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["name"].as_str().unwrap())
            .collect();
        assert_eq!(columns, ["Name", "Pod-Selector", "Age"], "{path}");
        assert_eq!(
            table["rows"][0]["cells"].as_array().unwrap()[..2],
            [json!("a"), json!("<none>")],
            "{path}"
        );
    }
    let from = made["metadata"]["resourceVersion"].as_str().unwrap();
    let changes = client.0.changes_after(from.parse().unwrap()).unwrap();
    assert_eq!(changes.iter().filter_map(|change| change.object.as_ref()).collect::<Vec<_>>(), [&written]);
}

fn role(resource: &str, verbs: &[&str]) -> Value {
    json!([{"apiGroups": ["networking.k8s.io"], "resources": [resource], "verbs": verbs}])
}

/// A user who may do this in the namespace `default`.
async fn user(server: &Server, name: &str, rules: Value) -> User {
    let root = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    let role = json!({"metadata": {"name": name}, "rules": rules});
    let binding = json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}],
    });
    for (plural, object) in [("roles", role), ("rolebindings", binding)] {
        let (code, answer) =
            ask(server, &User::admin(), Method::POST, &format!("{root}/{plural}"), JSON, &object).await;
        assert_eq!(code, 201, "{answer}");
    }
    User::new(name, Vec::<String>::new()).authenticated()
}

#[tokio::test]
async fn permissions_of_the_status_and_of_the_rest_are_apart() {
    let client = start(ON).await;
    let made = client.create().await;
    let server = &client.0;
    let reporter =
        user(server, "reporter", role("networkpolicies/status", &["get", "patch", "update"])).await;
    let developer = user(server, "developer", role("networkpolicies", &["get", "patch", "update"])).await;

    let mut sent = with_conditions(&[accepted()]);
    sent["spec"]["podSelector"] = json!({"matchLabels": {"stolen": "yes"}});
    let (code, answer) = ask(server, &reporter, Method::PUT, POLICY, JSON, &sent).await;
    assert_eq!(
        (code, answer["message"].as_str().unwrap()),
        (
            403,
            "networkpolicies.networking.k8s.io \"a\" is forbidden: User \"reporter\" cannot update resource \
             \"networkpolicies\" in API group \"networking.k8s.io\" in the namespace \"default\""
        )
    );
    assert_eq!(ask(server, &reporter, Method::PATCH, POLICY, MERGE, &json!({"spec": null})).await.0, 403);
    assert_eq!(ask(server, &reporter, Method::GET, POLICY, JSON, &Value::Null).await.0, 403);
    assert_eq!(ask(server, &reporter, Method::DELETE, POLICY, JSON, &Value::Null).await.0, 403);
    // What it may write leaves the spec as it is, however it is written.
    let ways =
        [(Method::PUT, JSON), (Method::PATCH, MERGE), (Method::PATCH, STRATEGIC), (Method::PATCH, APPLY)];
    for (method, content_type) in ways {
        let path = format!("{STATUS}?fieldManager=reporter&force=true");
        let path = if content_type == APPLY { path.as_str() } else { STATUS };
        let (code, answer) = ask(server, &reporter, method, path, content_type, &sent).await;
        assert_eq!((code, &answer["spec"], generation(&answer)), (200, &made["spec"], 1), "{content_type}");
        assert_eq!(answer["status"]["conditions"], json!([accepted()]), "{content_type}");
    }
    // An apply to the status of what is not there creates nothing.
    let path = format!("{POLICIES}/b/status?fieldManager=reporter");
    let mut other = sent.clone();
    other["metadata"]["name"] = "b".into();
    assert_eq!(ask(server, &reporter, Method::PATCH, &path, APPLY, &other).await.0, 404);

    assert_eq!(ask(server, &developer, Method::PUT, STATUS, JSON, &with_conditions(&[])).await.0, 403);
    assert_eq!(ask(server, &developer, Method::GET, STATUS, JSON, &Value::Null).await.0, 403);
    let forged = with_conditions(&[condition("Failure", "True", 1)]);
    let (code, answer) = ask(server, &developer, Method::PUT, POLICY, JSON, &forged).await;
    assert_eq!((code, &answer["status"]["conditions"]), (200, &json!([accepted()])));
}

/// The metric that shows use and failures, by the KEP: `apiserver_request_total` of the subresource.
#[tokio::test]
async fn requests_are_counted() {
    let client = start(ON).await;
    client.create().await;
    client.write_status(&[accepted()]).await;
    client.write_status(&[condition("Failure", "True", 1)]).await;
    client
        .request(Method::PUT, STATUS, JSON, &with_conditions(&[json!({"type": "A", "status": "True"})]))
        .await;
    client.done(Method::PATCH, STATUS, MERGE, &json!({"status": null})).await;
    client
        .done(Method::PATCH, &format!("{STATUS}?fieldManager=t"), APPLY, &with_conditions(&[accepted()]))
        .await;
    client.done(Method::GET, STATUS, JSON, &Value::Null).await;
    client.request(Method::PUT, &format!("{POLICIES}/none/status"), JSON, &with_conditions(&[])).await;
    let outsider = User::new("outsider", Vec::<String>::new()).authenticated();
    ask(&client.0, &outsider, Method::PUT, STATUS, JSON, &with_conditions(&[])).await;
    client.done(Method::PUT, &format!("{STATUS}?dryRun=All"), JSON, &with_conditions(&[])).await;

    let metrics = client.get("/metrics", &[]).await;
    let start = "apiserver_request_total{";
    let mut counted: Vec<(String, String, String, String)> = metrics
        .text()
        .lines()
        .filter_map(|line| line.strip_prefix(start)?.split_once("} "))
        .filter(|(labels, _)| {
            let wanted = [
                "group=\"networking.k8s.io\"",
                "resource=\"networkpolicies\"",
                "subresource=\"status\"",
                "version=\"v1\"",
            ];
            wanted.iter().all(|label| labels.split(',').any(|it| it == *label))
        })
        .map(|(labels, count)| {
            let label = |name: &str| {
                let value = labels.split(',').find_map(|it| it.strip_prefix(name)?.strip_prefix('='));
                value.unwrap().trim_matches('"').to_owned()
            };
            (label("verb"), label("code"), label("dry_run"), count.to_owned())
        })
        .collect();
    counted.sort();
    let wanted = [
        ("APPLY", "200", "", "1"),
        ("GET", "200", "", "1"),
        ("PATCH", "200", "", "1"),
        ("PUT", "200", "", "2"),
        ("PUT", "200", "All", "1"),
        ("PUT", "403", "", "1"),
        ("PUT", "404", "", "1"),
        ("PUT", "422", "", "1"),
    ];
    let wanted: Vec<_> = wanted
        .map(|(verb, code, dry, count)| [verb, code, dry, count].map(str::to_owned))
        .map(<(_, _, _, _)>::from)
        .into();
    assert_eq!(counted, wanted);
}

/// The endpoint is there without the gate: what is stored could not be cleared otherwise.
#[tokio::test]
async fn discovery_and_openapi_have_the_subresource() {
    for gates in [ON, OFF] {
        let client = start(gates).await;
        let list = client.get("/apis/networking.k8s.io/v1", &[]).await.json();
        let found =
            list["resources"].as_array().unwrap().iter().find(|it| it["name"] == "networkpolicies/status");
        assert_eq!(
            found,
            Some(&json!({
                "name": "networkpolicies/status", "singularName": "", "namespaced": true, "kind": "NetworkPolicy",
                "verbs": ["get", "patch", "update"],
            })),
            "{gates}"
        );
        let aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        let all = client.get("/apis", &[("accept", aggregated)]).await.json();
        let resources =
            all["items"].as_array().unwrap().iter().flat_map(|group| group["versions"].as_array().unwrap());
        let mut resources = resources.flat_map(|version| version["resources"].as_array().unwrap());
        let policies = resources.find(|resource| resource["resource"] == "networkpolicies").unwrap();
        assert_eq!(
            policies["subresources"],
            json!([{
                "subresource": "status", "responseKind": {"group": "", "version": "", "kind": "NetworkPolicy"},
                "verbs": ["get", "patch", "update"],
            }])
        );

        let of_version = |root: &str| {
            let reference = |name: &str| json!(format!("{root}{name}"));
            (
                reference("io.k8s.api.networking.v1.NetworkPolicyStatus"),
                reference("io.k8s.apimachinery.pkg.apis.meta.v1.Condition"),
            )
        };
        let documents = [
            ("/openapi/v3/apis/networking.k8s.io/v1", "/components/schemas", "#/components/schemas/"),
            ("/openapi/v2", "/definitions", "#/definitions/"),
        ];
        for (path, schemas, root) in documents {
            let document = client.get(path, &[]).await.json();
            let schemas = document.pointer(schemas).unwrap();
            let (status, condition) = of_version(root);
            let property = &schemas["io.k8s.api.networking.v1.NetworkPolicy"]["properties"]["status"];
            let direct = property.get("$ref").or_else(|| property.pointer("/allOf/0/$ref"));
            assert_eq!(direct, Some(&status), "{path}");
            assert!(
                property["description"].as_str().unwrap().starts_with("Status is the current state"),
                "{path}"
            );
            let status = &schemas["io.k8s.api.networking.v1.NetworkPolicyStatus"];
            let conditions = &status["properties"]["conditions"];
            let items = &conditions["items"];
            let direct = items.get("$ref").or_else(|| items.pointer("/allOf/0/$ref"));
            assert_eq!(direct, Some(&condition), "{path}");
            assert_eq!(
                ["list-type", "list-map-keys", "patch-merge-key", "patch-strategy"]
                    .map(|it| &conditions[format!("x-kubernetes-{it}")]),
                [&json!("map"), &json!(["type"]), &json!("type"), &json!("merge")],
                "{path}"
            );
            assert!(
                conditions["description"].as_str().unwrap().starts_with("Conditions holds an array"),
                "{path}"
            );
            let operations = &document["paths"]["/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies/{name}/status"];
            let id = |method: &str| operations[method]["operationId"].as_str().unwrap_or_default().to_owned();
            assert_eq!(
                ["get", "put", "patch"].map(id),
                ["read", "replace", "patch"]
                    .map(|verb| format!("{verb}NetworkingV1NamespacedNetworkPolicyStatus")),
                "{path}"
            );
        }
    }
}

/// Tag 3 of a NetworkPolicy is its status, tag 1 of that are metav1's conditions, as Kubernetes 1.24 to 1.27 wrote them.
#[tokio::test]
async fn a_status_is_read_from_protobuf() {
    let number = |tag: u8, value: u8| vec![tag << 3, value];
    let time = number(1, 100);
    let condition = [
        protobuf_field(1, b"Accepted"),
        protobuf_field(2, b"True"),
        number(3, 1),
        protobuf_field(4, &time),
        protobuf_field(5, b"RuleApplied"),
        protobuf_field(6, b"rule was applied"),
    ]
    .concat();
    let message = [
        protobuf_field(1, &protobuf_field(1, b"a")),
        protobuf_field(2, &protobuf_field(1, b"")),
        protobuf_field(3, &protobuf_field(1, &condition)),
    ]
    .concat();
    let body = protobuf_body("networking.k8s.io/v1", "NetworkPolicy", &message);
    let wanted = json!({"conditions": [{
        "type": "Accepted", "status": "True", "observedGeneration": 1, "lastTransitionTime": "1970-01-01T00:01:40Z",
        "reason": "RuleApplied", "message": "rule was applied",
    }]});
    assert_eq!(testing::protobuf(&body).unwrap()["status"], wanted);

    let client = start(ON).await;
    client.create().await;
    let request = Request::builder()
        .method(Method::PUT)
        .uri(STATUS)
        .header("content-type", "application/vnd.kubernetes.protobuf")
        .header("accept", "application/json");
    let request = request.body(Full::new(Bytes::from(body))).unwrap();
    let answer = client.0.call(Some(User::admin()), request).await;
    assert_eq!(answer.status(), 200);
    let bytes = answer.into_body().collect().await.unwrap().to_bytes();
    let written: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!((&written["status"], &written["spec"]["egress"]), (&wanted, &policy()["spec"]["egress"]));
}

/// Unknown fields of the status are reported, as of any kind.
#[tokio::test]
async fn unknown_fields_of_the_status_are_reported() {
    let client = start(ON).await;
    client.create().await;
    let mut sent = with_conditions(&[accepted()]);
    sent["status"]["phase"] = "Fine".into();
    sent["status"]["conditions"][0]["color"] = "green".into();
    let got = client.request(Method::PUT, &format!("{STATUS}?fieldValidation=Strict"), JSON, &sent).await;
    assert_eq!(got.code, 400);
    for name in ["unknown field \\\"status.phase\\\"", "unknown field \\\"status.conditions[0].color\\\""] {
        assert!(got.text().contains(name), "{}", got.text());
    }
    let written = client.done(Method::PUT, STATUS, JSON, &sent).await;
    assert_eq!(written["status"], json!({"conditions": [accepted()]}));
}
