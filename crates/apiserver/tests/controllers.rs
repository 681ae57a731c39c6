//! The built-in controllers and what is decided about writes, through whole requests. Nothing sleeps: what is to happen is watched.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use jiff::Timestamp;
use serde_json::{Value, json};
use settled_apiserver::auth::User;
use settled_apiserver::{Body, Config, Controller, Controllers, Server};

/// Far more than anything here takes; who waits so long waits for something that does not come.
const PATIENCE: Duration = Duration::from_secs(60);

struct Client(Server);

struct Watch {
    body: Body,
    read: Vec<u8>,
}

impl Watch {
    /// The next event; nothing: the watch has ended.
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let frame =
                tokio::time::timeout(PATIENCE, self.body.frame()).await.expect("an event should come")?;
            if let Ok(data) = frame.unwrap().into_data() {
                self.read.extend_from_slice(&data);
            }
        }
    }
}

impl Client {
    async fn start() -> Self {
        Self::with(|_| {}).await
    }

    async fn with(change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config::default();
        change(&mut config);
        Self(Server::start(config).await.unwrap())
    }

    async fn raw(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: Option<&Value>,
    ) -> http::Response<Body> {
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", content_type)
            .body(Full::new(bytes::Bytes::from(body)))
            .unwrap();
        self.0.call(Some(User::admin()), request).await
    }

    async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> (u16, Value) {
        let content_type = match method {
            Method::PATCH => "application/merge-patch+json",
            _ => "application/json",
        };
        let response = self.raw(method, path, content_type, body).await;
        let status = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&bytes).unwrap_or_default())
    }

    async fn get(&self, path: &str) -> Option<Value> {
        match self.send(Method::GET, path, None).await {
            (200, object) => Some(object),
            (404, _) => None,
            other => panic!("{path}: {other:?}"),
        }
    }

    async fn create(&self, path: &str, object: &Value) -> Value {
        let (status, answer) = self.send(Method::POST, path, Some(object)).await;
        assert_eq!(status, 201, "{path}: {answer}");
        answer
    }

    async fn refused(&self, path: &str, object: &Value) -> (u16, String) {
        let (status, answer) = self.send(Method::POST, path, Some(object)).await;
        assert!(status >= 400, "{path}: {answer}");
        (status, answer["message"].as_str().unwrap_or_default().to_owned())
    }

    async fn patch(&self, path: &str, patch: &Value) -> Value {
        let (status, answer) = self.send(Method::PATCH, path, Some(patch)).await;
        assert_eq!(status, 200, "{path}: {answer}");
        answer
    }

    async fn delete(&self, path: &str, propagation: &str) {
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation});
        let (status, answer) = self.send(Method::DELETE, path, Some(&options)).await;
        assert!(matches!(status, 200 | 202), "{path}: {answer}");
    }

    async fn names(&self, path: &str) -> BTreeSet<String> {
        let list = self.get(path).await.unwrap();
        let name = |object: &Value| object["metadata"]["name"].as_str().unwrap().to_owned();
        list["items"].as_array().unwrap().iter().map(name).collect()
    }

    async fn watch(&self, collection: &str, query: &str) -> Watch {
        let response = self.raw(Method::GET, &format!("{collection}?watch=true&{query}"), "", None).await;
        assert_eq!(response.status(), 200);
        Watch { body: response.into_body(), read: Vec::new() }
    }

    /// Waits until an object is as it should be; `None` in the question: it is not there.
    async fn until(&self, path: &str, is: impl Fn(Option<&Value>) -> bool) -> Option<Value> {
        let (collection, name) = path.rsplit_once('/').unwrap();
        let list = self.get(&format!("{collection}?fieldSelector=metadata.name%3D{name}")).await.unwrap();
        let mut object = list["items"].get(0).cloned();
        if is(object.as_ref()) {
            return object;
        }
        let revision = list["metadata"]["resourceVersion"].as_str().unwrap();
        let query = format!("fieldSelector=metadata.name%3D{name}&resourceVersion={revision}");
        let mut watch = self.watch(collection, &query).await;
        loop {
            let event = tokio::time::timeout(PATIENCE, watch.next())
                .await
                .unwrap_or_else(|_| panic!("{path} does not become what it should: {object:?}"));
            let event = event.expect("the watch goes on");
            object = (event["type"] != "DELETED").then(|| event["object"].clone());
            if is(object.as_ref()) {
                return object;
            }
        }
    }

    async fn gone(&self, path: &str) {
        self.until(path, |object| object.is_none()).await;
    }

    async fn namespace(&self, name: &str) {
        self.create("/api/v1/namespaces", &json!({"metadata": {"name": name}})).await;
    }

    /// A kind of custom resources, served.
    async fn define(&self, plural: &str, kind: &str, scope: &str) {
        let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.example.com")},
            "spec": {
                "group": "example.com", "scope": scope, "names": {"plural": plural, "kind": kind},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                }}}],
            },
        });
        self.create(crds, &crd).await;
        self.until(&format!("{crds}/{plural}.example.com"), |crd| {
            let conditions = crd.and_then(|crd| crd["status"]["conditions"].as_array());
            conditions
                .is_some_and(|list| list.iter().any(|c| c["type"] == "Established" && c["status"] == "True"))
        })
        .await;
    }
}

const MAPS: &str = "/api/v1/namespaces/shop/configmaps";
const PODS: &str = "/api/v1/namespaces/shop/pods";

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

fn custom(kind: &str, name: &str) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": kind, "metadata": {"name": name}})
}

fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "web:1"}]},
    })
}

/// With owners: `(object, blocks)`.
fn owned(mut object: Value, owners: &[(&Value, bool)]) -> Value {
    let owners: Vec<Value> = owners
        .iter()
        .map(|(owner, blocks)| {
            json!({
                "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
                "uid": owner["metadata"]["uid"], "blockOwnerDeletion": blocks,
            })
        })
        .collect();
    object["metadata"]["ownerReferences"] = owners.into();
    object
}

fn held(mut object: Value) -> Value {
    object["metadata"]["finalizers"] = json!(["example.com/hold"]);
    object
}

/// A directory that goes with the test.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("settled-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _best_effort = std::fs::remove_dir_all(&self.0);
    }
}

#[tokio::test]
async fn a_namespace_takes_everything_with_it() {
    let client = Client::start().await;
    client.define("widgets", "Widget", "Namespaced").await;
    for namespace in ["shop", "other"] {
        client.namespace(namespace).await;
        let path = |group: &str, plural: &str| format!("{group}/namespaces/{namespace}/{plural}");
        for number in 0..200 {
            client.create(&path("/api/v1", "configmaps"), &map(&format!("map-{number}"))).await;
        }
        client.create(&path("/apis/example.com/v1", "widgets"), &custom("Widget", "w")).await;
        client.create(&path("/api/v1", "pods"), &pod("web")).await;
    }
    client.delete("/api/v1/namespaces/shop", "Background").await;
    client.gone("/api/v1/namespaces/shop").await;
    for list in [MAPS, PODS, "/apis/example.com/v1/namespaces/shop/widgets"] {
        assert_eq!(client.names(list).await, BTreeSet::new(), "{list}");
    }
    assert_eq!(client.names("/api/v1/namespaces/other/configmaps").await.len(), 201);
    assert_eq!(client.names("/apis/example.com/v1/widgets").await.len(), 1);
    // The name is free again.
    client.namespace("shop").await;
    client.until("/api/v1/namespaces/shop/serviceaccounts/default", |account| account.is_some()).await;
}

#[tokio::test]
async fn a_namespace_waits_for_finalizers_and_says_so() {
    let client = Client::start().await;
    client.namespace("shop").await;
    client.create(MAPS, &held(map("held"))).await;
    client.create(MAPS, &map("free")).await;
    client.delete("/api/v1/namespaces/shop", "Background").await;
    let waits = |namespace: Option<&Value>| {
        let conditions = namespace.and_then(|namespace| namespace["status"]["conditions"].as_array());
        conditions.is_some_and(|list| {
            list.iter().any(|condition| {
                condition["message"]
                    == "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances"
            })
        })
    };
    let namespace = client.until("/api/v1/namespaces/shop", waits).await.unwrap();
    let conditions = namespace["status"]["conditions"].as_array().unwrap();
    let states: BTreeMap<&str, &str> = conditions
        .iter()
        .map(|condition| (condition["type"].as_str().unwrap(), condition["status"].as_str().unwrap()))
        .collect();
    let wanted = BTreeMap::from([
        ("NamespaceContentRemaining", "True"),
        ("NamespaceDeletionContentFailure", "False"),
        ("NamespaceDeletionDiscoveryFailure", "False"),
        ("NamespaceDeletionGroupVersionParsingFailure", "False"),
        ("NamespaceFinalizersRemaining", "True"),
    ]);
    assert_eq!(states, wanted);
    assert_eq!(client.names(MAPS).await, BTreeSet::from(["held".to_owned()]));
    let (status, message) = client.refused(MAPS, &map("late")).await;
    assert_eq!(status, 403, "{message}");
    client.patch(&format!("{MAPS}/held"), &json!({"metadata": {"finalizers": null}})).await;
    client.gone("/api/v1/namespaces/shop").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_is_left_of_writes_that_race_with_a_deletion() {
    let client = Arc::new(Client::start().await);
    for round in 0..20 {
        client.namespace("shop").await;
        let mut writers = tokio::task::JoinSet::new();
        for writer in 0..8 {
            let client = client.clone();
            writers.spawn(async move {
                for number in 0.. {
                    let (status, _) =
                        client.send(Method::POST, MAPS, Some(&map(&format!("m-{writer}-{number}")))).await;
                    if status != 201 {
                        assert!(matches!(status, 403 | 404), "{status}");
                        return;
                    }
                }
            });
        }
        client.until(&format!("{MAPS}/m-7-3"), |map| map.is_some()).await;
        client.delete("/api/v1/namespaces/shop", "Background").await;
        while let Some(done) = writers.join_next().await {
            done.unwrap();
        }
        client.gone("/api/v1/namespaces/shop").await;
        assert_eq!(client.names(MAPS).await, BTreeSet::new(), "round {round}");
    }
}

#[tokio::test]
async fn work_goes_on_after_a_restart() {
    let directory = Directory::new("restart");
    let on_disk = |controllers: Controllers| {
        let path = directory.0.clone();
        move |config: &mut Config| {
            config.data_dir = Some(path);
            config.controllers = controllers;
        }
    };
    let client = Client::with(on_disk(Controllers::none())).await;
    client.namespace("gone").await;
    client.namespace("shop").await;
    client.create("/api/v1/namespaces/gone/configmaps", &map("a")).await;
    let owner = client.create(MAPS, &map("owner")).await;
    client.create(MAPS, &owned(map("child"), &[(&owner, true)])).await;
    let lost = client.create(MAPS, &map("lost")).await;
    client.create(MAPS, &owned(map("orphan"), &[(&lost, false)])).await;
    client.delete(&format!("{MAPS}/owner"), "Foreground").await;
    client.delete(&format!("{MAPS}/lost"), "Orphan").await;
    client.delete("/api/v1/namespaces/gone", "Background").await;
    // Nobody does anything about it.
    assert!(client.get("/api/v1/namespaces/gone").await.is_some());
    client.0.stopped().await;
    drop(client);

    let client = Client::with(on_disk(Controllers::all())).await;
    client.gone("/api/v1/namespaces/gone").await;
    client.gone(&format!("{MAPS}/owner")).await;
    client.gone(&format!("{MAPS}/lost")).await;
    client.until(&format!("{MAPS}/kube-root-ca.crt"), |map| map.is_some()).await;
    let wanted = ["kube-root-ca.crt", "orphan"].map(str::to_owned);
    assert_eq!(client.names(MAPS).await, BTreeSet::from(wanted));
    let orphan = client.get(&format!("{MAPS}/orphan")).await.unwrap();
    assert_eq!(orphan["metadata"].get("ownerReferences"), None);
    client.0.stopped().await;
}

/// A random graph and what is left of it, by the letter of the rules instead of by events.
mod model {
    use super::*;

    /// A small generator: tests print their seed, not their numbers.
    pub(super) struct Random(pub(super) u64);

    impl Random {
        pub(super) fn below(&mut self, bound: usize) -> usize {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(self.0 >> 33).unwrap() % bound
        }
    }

    /// An object: its owners, older ones only.
    #[derive(Clone, Debug)]
    pub(super) struct Node {
        pub(super) owners: Vec<usize>,
    }

    pub(super) fn graph(random: &mut Random) -> Vec<Node> {
        let size = 5 + random.below(20);
        (0..size)
            .map(|index| {
                let count = if index == 0 { 0 } else { random.below(3) };
                let owners: BTreeSet<usize> = (0..count).map(|_| random.below(index)).collect();
                Node { owners: owners.into_iter().collect() }
            })
            .collect()
    }

    /// Who is left after one object was deleted, with the owners they still have.
    pub(super) fn left(
        nodes: &[Node],
        deleted: usize,
        propagation: &str,
    ) -> BTreeMap<usize, BTreeSet<usize>> {
        let mut left: BTreeMap<usize, BTreeSet<usize>> = nodes
            .iter()
            .enumerate()
            .map(|(index, node)| (index, node.owners.iter().copied().collect()))
            .collect();
        left.remove(&deleted);
        if propagation == "Orphan" {
            for owners in left.values_mut() {
                owners.remove(&deleted);
            }
            return left;
        }
        // Older objects own younger ones, so one pass in order does it.
        for index in 0..nodes.len() {
            let Some(owners) = left.get(&index).cloned() else { continue };
            let there: BTreeSet<usize> =
                owners.iter().copied().filter(|owner| left.contains_key(owner)).collect();
            if there.is_empty() && !owners.is_empty() {
                left.remove(&index);
            } else {
                // References to what is gone are taken out of what stays.
                left.insert(index, there);
            }
        }
        left
    }
}

#[tokio::test]
async fn of_random_graphs_the_right_ones_stay() {
    let client = Client::start().await;
    client.namespace("shop").await;
    for seed in 0..60 {
        let mut random = model::Random(seed);
        let nodes = model::graph(&mut random);
        let deleted = random.below(nodes.len());
        let propagation = ["Background", "Foreground", "Orphan"][random.below(3)];
        let name = |index: usize| format!("s{seed}-{index}");
        let mut objects: Vec<Value> = Vec::new();
        for (index, node) in nodes.iter().enumerate() {
            let owners: Vec<(&Value, bool)> =
                node.owners.iter().map(|owner| (&objects[*owner], random.below(2) == 0)).collect();
            objects.push(client.create(MAPS, &owned(map(&name(index)), &owners)).await);
        }
        client.delete(&format!("{MAPS}/{}", name(deleted)), propagation).await;
        let wanted = model::left(&nodes, deleted, propagation);
        let about = format!("seed {seed}: {propagation} of {deleted} in {nodes:?}");
        for (index, object) in objects.iter().enumerate() {
            let path = format!("{MAPS}/{}", name(index));
            match wanted.get(&index) {
                None => client.gone(&path).await,
                Some(owners) => {
                    let uids: BTreeSet<&str> = owners
                        .iter()
                        .map(|owner| objects[*owner]["metadata"]["uid"].as_str().unwrap())
                        .collect();
                    let uid = &object["metadata"]["uid"];
                    client
                        .until(&path, |found| {
                            let found = found.unwrap_or_else(|| panic!("{about}: {index} is gone"));
                            assert_eq!(found["metadata"]["uid"], *uid, "{about}");
                            let owners = found["metadata"]["ownerReferences"].as_array();
                            let owners: BTreeSet<&str> = owners
                                .into_iter()
                                .flatten()
                                .map(|owner| owner["uid"].as_str().unwrap())
                                .collect();
                            owners == uids
                        })
                        .await;
                }
            }
        }
        let mine: BTreeSet<String> = client
            .names(MAPS)
            .await
            .into_iter()
            .filter(|name| name.starts_with(&format!("s{seed}-")))
            .collect();
        assert_eq!(mine, wanted.keys().map(|index| name(*index)).collect(), "{about}");
    }
}

#[tokio::test]
async fn an_owner_in_the_foreground_waits_for_those_that_block_it() {
    let client = Client::start().await;
    client.namespace("shop").await;
    let owner = client.create(MAPS, &map("owner")).await;
    client.create(MAPS, &held(owned(map("blocks"), &[(&owner, true)]))).await;
    client.create(MAPS, &held(owned(map("other"), &[(&owner, false)]))).await;
    client.delete(&format!("{MAPS}/owner"), "Foreground").await;
    for name in ["blocks", "other"] {
        let path = format!("{MAPS}/{name}");
        let terminating =
            |object: Option<&Value>| object.unwrap()["metadata"].get("deletionTimestamp").is_some();
        client.until(&path, terminating).await;
    }
    let owner = client.get(&format!("{MAPS}/owner")).await.unwrap();
    assert_eq!(owner["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    client.patch(&format!("{MAPS}/blocks"), &json!({"metadata": {"finalizers": null}})).await;
    client.gone(&format!("{MAPS}/owner")).await;
    client.patch(&format!("{MAPS}/other"), &json!({"metadata": {"finalizers": null}})).await;
    client.gone(&format!("{MAPS}/other")).await;
}

#[tokio::test]
async fn a_circle_in_the_foreground_ends() {
    let client = Client::start().await;
    client.namespace("shop").await;
    let first = client.create(MAPS, &map("first")).await;
    let second = client.create(MAPS, &owned(map("second"), &[(&first, true)])).await;
    let owners = owned(map("first"), &[(&second, true)])["metadata"]["ownerReferences"].clone();
    client.patch(&format!("{MAPS}/first"), &json!({"metadata": {"ownerReferences": owners}})).await;
    client.delete(&format!("{MAPS}/first"), "Foreground").await;
    client.gone(&format!("{MAPS}/first")).await;
    client.gone(&format!("{MAPS}/second")).await;
}

#[tokio::test]
async fn owners_are_who_they_say_they_are() {
    let client = Client::start().await;
    client.namespace("shop").await;
    client.define("globes", "Globe", "Cluster").await;
    let owner = client.create(MAPS, &map("owner")).await;

    // Another object of the same name is no owner.
    let mut stranger = owner.clone();
    stranger["metadata"]["uid"] = "11111111-1111-4111-8111-111111111111".into();
    client.create(MAPS, &owned(map("stray"), &[(&stranger, false)])).await;
    client.gone(&format!("{MAPS}/stray")).await;

    // Of an unknown kind nobody knows whether it is there, until the kind is known.
    let unknown =
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "uid": "w"}});
    client.create(MAPS, &owned(map("unsure"), &[(&unknown, false)])).await;

    // What is in no namespace cannot be owned by what is in one.
    let globes = "/apis/example.com/v1/globes";
    client.create(globes, &owned(custom("Globe", "earth"), &[(&owner, false)])).await;
    let mut events = client.watch("/api/v1/namespaces/default/events", "").await;
    let event = events.next().await.unwrap()["object"].clone();
    assert_eq!(event["reason"], "OwnerRefInvalidNamespace");
    assert_eq!(event["involvedObject"]["name"], "earth");
    let message = format!(
        "ownerRef [v1/ConfigMap, namespace: , name: owner, uid: {}] does not exist in namespace \"\"",
        owner["metadata"]["uid"].as_str().unwrap()
    );
    assert_eq!(event["message"], message);
    client.delete(&format!("{MAPS}/owner"), "Background").await;
    client.gone(&format!("{MAPS}/owner")).await;

    // It was looked at before the event above was written.
    assert!(client.get(&format!("{MAPS}/unsure")).await.is_some());
    client.define("widgets", "Widget", "Namespaced").await;
    client.gone(&format!("{MAPS}/unsure")).await;
    assert!(client.get(&format!("{globes}/earth")).await.is_some());
}

#[tokio::test]
async fn custom_resources_own_and_are_owned() {
    let client = Client::start().await;
    client.namespace("shop").await;
    client.define("widgets", "Widget", "Namespaced").await;
    let widgets = "/apis/example.com/v1/namespaces/shop/widgets";
    let owner = client.create(widgets, &custom("Widget", "owner")).await;
    let child = client.create(MAPS, &owned(map("child"), &[(&owner, true)])).await;
    client.create(widgets, &owned(custom("Widget", "grandchild"), &[(&child, true)])).await;
    client.delete(&format!("{widgets}/owner"), "Background").await;
    client.gone(&format!("{widgets}/grandchild")).await;
    assert!(client.get(&format!("{MAPS}/child")).await.is_none());
}

/// As upstream, where the watches of a CRD last until it is gone (`crdHandler.tearDown`).
#[tokio::test]
async fn watches_report_the_deletion_of_custom_resources_with_their_definition() {
    let client = Client::start().await;
    client.namespace("shop").await;
    client.define("widgets", "Widget", "Namespaced").await;
    let widgets = "/apis/example.com/v1/namespaces/shop/widgets";
    for name in ["a", "b"] {
        client.create(widgets, &custom("Widget", name)).await;
    }
    let mut kept = custom("Widget", "kept");
    kept["metadata"]["finalizers"] = json!(["example.com/kept"]);
    let kept = client.create(widgets, &kept).await;
    let since = format!("resourceVersion={}", kept["metadata"]["resourceVersion"].as_str().unwrap());
    let mut watch = client.watch(widgets, &since).await;
    // This one is read only when everything is gone.
    let mut late = client.watch("/apis/example.com/v1/widgets", &since).await;

    let crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com";
    client.delete(crd, "Background").await;
    let mut events = Vec::new();
    while let Some(event) = watch.next().await {
        let name = event["object"]["metadata"]["name"].as_str().unwrap().to_owned();
        let kind = event["type"].as_str().unwrap().to_owned();
        if (kind.as_str(), name.as_str()) == ("MODIFIED", "kept") && events.len() < 3 {
            assert!(event["object"]["metadata"]["deletionTimestamp"].is_string(), "{event}");
            client.patch(&format!("{widgets}/kept"), &json!({"metadata": {"finalizers": null}})).await;
        }
        events.push((kind, name));
    }
    let event = |kind: &str, name: &str| (kind.to_owned(), name.to_owned());
    let wanted =
        [event("DELETED", "a"), event("DELETED", "b"), event("MODIFIED", "kept"), event("DELETED", "kept")];
    assert_eq!(events, wanted);
    client.gone(crd).await;

    let mut events = Vec::new();
    while let Some(found) = late.next().await {
        let text = |pointer: &str| found.pointer(pointer).and_then(Value::as_str).unwrap().to_owned();
        events.push((text("/type"), text("/object/metadata/name")));
    }
    assert_eq!(events, wanted);
    let (status, _) = client.send(Method::GET, widgets, None).await;
    assert_eq!(status, 404);
}

#[tokio::test]
async fn events_go_when_their_time_is_over() {
    let client = Client::with(|config| config.event_ttl = Some(Duration::from_millis(20))).await;
    let events = "/api/v1/namespaces/default/events";
    let event = json!({"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}, "reason": "R"});
    client.create(events, &event).await;
    client.gone(&format!("{events}/e")).await;
}

#[tokio::test(start_paused = true)]
async fn events_go_by_the_clock_of_the_server() {
    let (begin, from) = (tokio::time::Instant::now(), "2040-01-01T00:00:00Z".parse::<Timestamp>().unwrap());
    let client = Client::with(|config| config.clock = Some(Arc::new(move || from + begin.elapsed()))).await;
    let events = "/api/v1/namespaces/default/events";
    let event = json!({"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}, "reason": "R"});
    client.create(events, &event).await;
    tokio::time::advance(Duration::from_secs(59 * 60)).await;
    assert!(client.get(&format!("{events}/e")).await.is_some());
    tokio::time::advance(Duration::from_secs(2 * 60)).await;
    client.gone(&format!("{events}/e")).await;
}

#[tokio::test]
async fn every_namespace_has_an_account_and_the_authority() {
    let client = Client::start().await;
    client.namespace("shop").await;
    let account = "/api/v1/namespaces/shop/serviceaccounts/default";
    let authority = format!("{MAPS}/kube-root-ca.crt");
    client.until(account, |account| account.is_some()).await;
    let found = client.until(&authority, |map| map.is_some()).await.unwrap();
    assert_eq!(found["data"]["ca.crt"], client.0.ca_pem());
    for path in [account, &authority] {
        let before = client.get(path).await.unwrap()["metadata"]["uid"].clone();
        client.delete(path, "Background").await;
        client.until(path, |object| object.is_some_and(|object| object["metadata"]["uid"] != before)).await;
    }
    client.patch(&authority, &json!({"data": {"ca.crt": "mine", "more": "x"}})).await;
    client
        .until(&authority, |map| map.is_some_and(|map| map["data"] == json!({"ca.crt": client.0.ca_pem()})))
        .await;
}

#[tokio::test]
async fn roles_gather_rules() {
    let client = Client::start().await;
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let view = client.get(&format!("{roles}/view")).await.unwrap();
    assert!(!view["rules"].as_array().unwrap().is_empty());
    let rule = json!({"apiGroups": ["example.com"], "resources": ["widgets"], "verbs": ["get"]});
    let label = json!({"rbac.authorization.k8s.io/aggregate-to-view": "true"});
    client.create(roles, &json!({"metadata": {"name": "widgets", "labels": label}, "rules": [rule]})).await;
    let has = |role: Option<&Value>| role.unwrap()["rules"].as_array().unwrap().contains(&rule);
    for name in ["view", "edit", "admin"] {
        client.until(&format!("{roles}/{name}"), has).await;
    }
    client.delete(&format!("{roles}/widgets"), "Background").await;
    client.until(&format!("{roles}/admin"), |role| !has(role)).await;
}

#[tokio::test]
async fn without_controllers_nothing_happens() {
    let client =
        Client::with(|config| config.controllers = Controllers::all().without(Controller::Garbage)).await;
    client.namespace("shop").await;
    let owner = client.create(MAPS, &map("owner")).await;
    client.create(MAPS, &owned(map("child"), &[(&owner, true)])).await;
    client.delete(&format!("{MAPS}/owner"), "Background").await;
    client.delete("/api/v1/namespaces/shop", "Background").await;
    // The namespace takes the child; the garbage collector would have been there before.
    client.gone("/api/v1/namespaces/shop").await;
}

/// Waits until a quota says how much is used.
async fn used(client: &Client, quota: &str, wanted: Value) {
    let path = format!("/api/v1/namespaces/shop/resourcequotas/{quota}");
    client.until(&path, |quota| quota.is_some_and(|quota| quota["status"]["used"] == wanted)).await;
}

async fn limit(client: &Client, name: &str, spec: Value) {
    let quota = json!({"metadata": {"name": name}, "spec": spec});
    client.create("/api/v1/namespaces/shop/resourcequotas", &quota).await;
    let path = format!("/api/v1/namespaces/shop/resourcequotas/{name}");
    client.until(&path, |quota| quota.is_some_and(|quota| quota["status"].get("used").is_some())).await;
}

#[tokio::test]
async fn a_quota_stops_what_is_too_much() {
    let client = Client::start().await;
    client.namespace("shop").await;
    client.until(&format!("{MAPS}/kube-root-ca.crt"), |map| map.is_some()).await;
    limit(&client, "few", json!({"hard": {"pods": "2", "count/configmaps": "3", "requests.storage": "1Gi"}}))
        .await;
    used(&client, "few", json!({"pods": "0", "count/configmaps": "1", "requests.storage": "0"})).await;
    for name in ["a", "b"] {
        client.create(PODS, &pod(name)).await;
    }
    let wanted =
        "pods \"c\" is forbidden: exceeded quota: few, requested: pods=1, used: pods=2, limited: pods=2";
    assert_eq!(client.refused(PODS, &pod("c")).await, (403, wanted.to_owned()));
    // A dry run is refused as well, and one that passes is not charged.
    client.delete(&format!("{PODS}/a"), "Background").await;
    used(&client, "few", json!({"pods": "1", "count/configmaps": "1", "requests.storage": "0"})).await;
    client.create(&format!("{PODS}?dryRun=All"), &pod("c")).await;
    client.create(PODS, &pod("c")).await;
    let (status, _) = client.refused(&format!("{PODS}?dryRun=All"), &pod("d")).await;
    assert_eq!(status, 403);
    // What has ended makes room.
    client.patch(&format!("{PODS}/c/status"), &json!({"status": {"phase": "Succeeded"}})).await;
    used(&client, "few", json!({"pods": "1", "count/configmaps": "1", "requests.storage": "0"})).await;
    // A write that fails gives back what it was charged.
    client.create(MAPS, &map("a")).await;
    assert_eq!(client.refused(MAPS, &map("a")).await.0, 409);
    used(&client, "few", json!({"pods": "1", "count/configmaps": "2", "requests.storage": "0"})).await;
    let claim = |size: &str| {
        json!({"metadata": {"name": "c"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}},
        }})
    };
    let claims = "/api/v1/namespaces/shop/persistentvolumeclaims";
    let (_, message) = client.refused(claims, &claim("2Gi")).await;
    assert_eq!(
        message,
        "persistentvolumeclaims \"c\" is forbidden: exceeded quota: few, requested: requests.storage=2Gi, used: \
         requests.storage=0, limited: requests.storage=1Gi"
    );
    let claim = client.create(claims, &claim("512Mi")).await;
    assert_eq!(claim["metadata"]["finalizers"], json!(["kubernetes.io/pvc-protection"]));
}

#[tokio::test]
async fn a_quota_for_cpu_wants_to_know_how_much() {
    let client = Client::start().await;
    client.namespace("shop").await;
    limit(&client, "cpu", json!({"hard": {"requests.cpu": "1", "limits.memory": "1Gi"}})).await;
    limit(&client, "best", json!({"hard": {"pods": "1"}, "scopes": ["BestEffort"]})).await;
    limit(&client, "ending", json!({"hard": {"pods": "0"}, "scopes": ["Terminating"]})).await;
    let wanted = "pods \"a\" is forbidden: failed quota: cpu: must specify limits.memory for: main; requests.cpu for: main";
    assert_eq!(client.refused(PODS, &pod("a")).await, (403, wanted.to_owned()));
    let sized = |name: &str, cpu: &str| {
        let mut pod = pod(name);
        pod["spec"]["containers"][0]["resources"] =
            json!({"requests": {"cpu": cpu, "memory": "1Mi"}, "limits": {"memory": "100Mi"}});
        pod
    };
    client.create(PODS, &sized("a", "600m")).await;
    let wanted = "pods \"b\" is forbidden: exceeded quota: cpu, requested: requests.cpu=500m, used: \
                  requests.cpu=600m, limited: requests.cpu=1";
    assert_eq!(client.refused(PODS, &sized("b", "0.5")).await, (403, wanted.to_owned()));
    client.create(PODS, &sized("b", "0.4")).await;
    used(&client, "cpu", json!({"requests.cpu": "1", "limits.memory": "200Mi"})).await;
    used(&client, "best", json!({"pods": "0"})).await;
    let mut ending = sized("c", "0");
    ending["spec"]["activeDeadlineSeconds"] = 5.into();
    let (_, message) = client.refused(PODS, &ending).await;
    assert!(message.contains("exceeded quota: ending"), "{message}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_writers_can_not_take_more_than_there_is() {
    let client = Arc::new(Client::start().await);
    client.namespace("shop").await;
    limit(&client, "few", json!({"hard": {"count/secrets": "7", "secrets": "9"}})).await;
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..40 {
        let client = client.clone();
        writers.spawn(async move {
            let secret = json!({"metadata": {"name": format!("s{writer}")}});
            client.send(Method::POST, "/api/v1/namespaces/shop/secrets", Some(&secret)).await.0
        });
    }
    let mut created = 0;
    while let Some(status) = writers.join_next().await {
        match status.unwrap() {
            201 => created += 1,
            403 => {}
            other => panic!("{other}"),
        }
    }
    assert_eq!(created, 7);
    used(&client, "few", json!({"count/secrets": "7", "secrets": "7"})).await;
    assert_eq!(client.names("/api/v1/namespaces/shop/secrets").await.len(), 7);
}

#[tokio::test]
async fn pods_get_what_they_do_not_say() {
    let client = Client::start().await;
    client.namespace("shop").await;
    let range = json!({"metadata": {"name": "r"}, "spec": {"limits": [
        {"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "500m"}, "max": {"cpu": "2"}},
    ]}});
    client.create("/api/v1/namespaces/shop/limitranges", &range).await;
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    client.create(classes, &json!({"metadata": {"name": "normal"}, "value": 7, "globalDefault": true})).await;
    let second = json!({"metadata": {"name": "second"}, "value": 8, "globalDefault": true});
    let wanted = "priorityclasses.scheduling.k8s.io \"second\" is forbidden: PriorityClass normal is already marked as \
                  default. Only one default can exist";
    assert_eq!(client.refused(classes, &second).await, (403, wanted.to_owned()));

    let web = client.create(PODS, &pod("web")).await;
    let spec = &web["spec"];
    assert_eq!(spec["serviceAccountName"], "default");
    assert_eq!(spec["serviceAccount"], "default");
    assert_eq!((&spec["priority"], &spec["priorityClassName"]), (&json!(7), &json!("normal")));
    assert_eq!(spec["preemptionPolicy"], "PreemptLowerPriority");
    let wanted = json!({"requests": {"cpu": "500m"}, "limits": {"cpu": "1"}});
    assert_eq!(spec["containers"][0]["resources"], wanted);
    let note = "LimitRanger plugin set: cpu request for container main; cpu limit for container main";
    assert_eq!(web["metadata"]["annotations"]["kubernetes.io/limit-ranger"], note);
    let keys: Vec<&str> = spec["tolerations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|toleration| toleration["key"].as_str().unwrap())
        .collect();
    assert_eq!(keys, ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]);

    let with = |field: &str, value: Value| {
        let mut pod = pod("x");
        pod["spec"][field] = value;
        pod
    };
    let mut large = pod("x");
    large["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": "3"}});
    for (pod, why) in [
        (
            with("serviceAccountName", "none".into()),
            "error looking up service account shop/none: serviceaccount \"none\" not found",
        ),
        (with("priorityClassName", "none".into()), "no PriorityClass with name none was found"),
        (
            with("priority", 3.into()),
            "the integer value of priority (3) must not be provided in pod spec; priority admission controller computed 7 \
             from the given PriorityClass name",
        ),
        (with("runtimeClassName", "none".into()), "pod rejected: RuntimeClass \"none\" not found"),
        (large, "maximum cpu usage per Container is 2, but limit is 3"),
    ] {
        assert_eq!(client.refused(PODS, &pod).await, (403, format!("pods \"x\" is forbidden: {why}")));
    }
    let critical = client.create(PODS, &with("priorityClassName", "system-node-critical".into())).await;
    assert_eq!(critical["spec"]["priority"], 2_000_001_000);
}

#[tokio::test]
async fn classes_have_defaults() {
    let client = Client::start().await;
    client.namespace("shop").await;
    let class = |name: &str, mark: &str| json!({"metadata": {"name": name, "annotations": {mark: "true"}}});
    let mut storage = class("fast", "storageclass.kubernetes.io/is-default-class");
    storage["provisioner"] = "example.com/disk".into();
    client.create("/apis/storage.k8s.io/v1/storageclasses", &storage).await;
    let mut ingress = class("front", "ingressclass.kubernetes.io/is-default-class");
    ingress["spec"] = json!({"controller": "example.com/front"});
    client.create("/apis/networking.k8s.io/v1/ingressclasses", &ingress).await;
    let claim = json!({"metadata": {"name": "c"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
    }});
    let claim = client.create("/api/v1/namespaces/shop/persistentvolumeclaims", &claim).await;
    assert_eq!(claim["spec"]["storageClassName"], "fast");
    let ingress = json!({"metadata": {"name": "i"}, "spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}});
    let ingress = client.create("/apis/networking.k8s.io/v1/namespaces/shop/ingresses", &ingress).await;
    assert_eq!(ingress["spec"]["ingressClassName"], "front");
    let node = client.create("/api/v1/nodes", &json!({"metadata": {"name": "n"}})).await;
    assert_eq!(
        node["spec"]["taints"],
        json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}])
    );
}

#[tokio::test]
async fn claims_stay_while_a_pod_uses_them() {
    let client = Client::start().await;
    client.namespace("shop").await;
    let claims = "/api/v1/namespaces/shop/persistentvolumeclaims";
    for name in ["used", "free"] {
        let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
        client.create(claims, &json!({"metadata": {"name": name}, "spec": spec})).await;
    }
    let mut web = pod("web");
    web["spec"]["nodeName"] = "n1".into();
    web["spec"]["volumes"] = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "used"}}]);
    client.create(PODS, &web).await;
    client.delete(&format!("{claims}/used"), "Background").await;
    client.delete(&format!("{claims}/free"), "Background").await;
    client.gone(&format!("{claims}/free")).await;
    assert!(client.get(&format!("{claims}/used")).await.is_some());
    let now = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0});
    client.send(Method::DELETE, &format!("{PODS}/web"), Some(&now)).await;
    client.gone(&format!("{claims}/used")).await;
}

/// A Pod without a grace period is marked and then removed. An agent that sees the mark may remove it in between.
#[tokio::test]
async fn a_pod_that_its_agent_removes_first_is_deleted() {
    let client = Client::start().await;
    client.namespace("shop").await;
    let mut web = pod("web");
    web["spec"]["nodeName"] = "n1".into();
    let path = format!("{PODS}/web");
    let now = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0});
    // The store has a thread of its own: it may be done with both steps before the first poll ends.
    for _ in 0..1000 {
        let created = client.create(PODS, &web).await;
        let revision = created["metadata"]["resourceVersion"].as_str().unwrap();
        let mut watch = client.watch(PODS, &format!("resourceVersion={revision}")).await;
        let mut deletion = Box::pin(client.send(Method::DELETE, &path, Some(&now)));
        if let std::task::Poll::Ready((status, answer)) = futures::poll!(&mut deletion) {
            assert_eq!(status, 200, "{answer}");
            continue;
        }
        let marked = watch.next().await.unwrap();
        assert_eq!(marked["type"], "MODIFIED");
        assert!(marked["object"]["metadata"]["deletionTimestamp"].is_string());
        let is_first = match client.send(Method::DELETE, &path, Some(&now)).await {
            (200, _) => true,
            (404, _) => false,
            other => panic!("{other:?}"),
        };
        assert_eq!(watch.next().await.unwrap()["type"], "DELETED");
        // Another one of this name is not what was to be deleted.
        let other = client.create(PODS, &web).await;
        let (status, answer) = deletion.await;
        assert_eq!(status, 200, "{answer}");
        assert_eq!(answer["metadata"]["uid"], created["metadata"]["uid"]);
        assert_eq!(client.get(&path).await.unwrap()["metadata"]["uid"], other["metadata"]["uid"]);
        if is_first {
            return;
        }
        client.send(Method::DELETE, &path, Some(&now)).await;
    }
    panic!("nobody came in between");
}

#[tokio::test]
async fn pods_are_bound_to_nodes() {
    let client = Client::start().await;
    client.namespace("shop").await;
    let labels = json!({"topology.kubernetes.io/zone": "z1", "other": "x"});
    client.create("/api/v1/nodes", &json!({"metadata": {"name": "n1", "labels": labels}})).await;
    client.create(PODS, &pod("web")).await;
    let binding = |name: &str| {
        json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, "annotations": {"by": "me"}},
            "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
        })
    };
    let done = client.create(&format!("{PODS}/web/binding"), &binding("web")).await;
    assert_eq!(
        done,
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})
    );
    let web = client.get(&format!("{PODS}/web")).await.unwrap();
    assert_eq!(web["spec"]["nodeName"], "n1");
    assert_eq!(web["metadata"]["annotations"]["by"], "me");
    assert_eq!(web["metadata"]["labels"], json!({"app": "web", "topology.kubernetes.io/zone": "z1"}));
    let condition =
        web["status"]["conditions"].as_array().unwrap().iter().find(|c| c["type"] == "PodScheduled");
    assert_eq!(condition.unwrap()["status"], "True");
    let again =
        "Operation cannot be fulfilled on pods/binding \"web\": pod web is already assigned to node \"n1\"";
    assert_eq!(
        client.refused(&format!("{PODS}/web/binding"), &binding("web")).await,
        (409, again.to_owned())
    );
    client.create(PODS, &pod("api")).await;
    client.create("/api/v1/namespaces/shop/bindings", &binding("api")).await;
    assert_eq!(client.get(&format!("{PODS}/api")).await.unwrap()["spec"]["nodeName"], "n1");
    assert_eq!(client.refused("/api/v1/namespaces/shop/bindings", &binding("none")).await.0, 404);
    // Whatever else is asked for, a placed pod takes its time to go.
    client.delete(&format!("{PODS}/web"), "Background").await;
    let web = client.get(&format!("{PODS}/web")).await.unwrap();
    assert_eq!(web["metadata"]["deletionGracePeriodSeconds"], 30);
}

#[tokio::test]
async fn evictions_ask_the_budget() {
    let client = Client::start().await;
    client.namespace("shop").await;
    let budgets = "/apis/policy/v1/namespaces/shop/poddisruptionbudgets";
    let budget = json!({"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}});
    client.create(budgets, &budget).await;
    let running =
        json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    for name in ["a", "b", "pending"] {
        client.create(PODS, &pod(name)).await;
        if name != "pending" {
            client.patch(&format!("{PODS}/{name}/status"), &running).await;
        }
    }
    let evict = |name: &str| {
        let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
        (format!("{PODS}/{name}/eviction"), eviction)
    };
    let (path, eviction) = evict("a");
    let (status, answer) = client.send(Method::POST, &path, Some(&eviction)).await;
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    assert_eq!((status, answer["message"].as_str().unwrap()), (429, message));
    assert_eq!(answer["details"]["retryAfterSeconds"], 10);
    // Its controller knows.
    let status = json!({"status": {"observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2}});
    client.patch(&format!("{budgets}/b/status"), &status).await;
    client.create(&format!("{path}?dryRun=All"), &eviction).await;
    assert!(client.get(&format!("{PODS}/a")).await.is_some());
    client.create(&path, &eviction).await;
    assert!(client.get(&format!("{PODS}/a")).await.is_none());
    let budget = client.get(&format!("{budgets}/b")).await.unwrap();
    assert_eq!(budget["status"]["disruptionsAllowed"], 0);
    assert!(budget["status"]["disruptedPods"].get("a").is_some());
    let (path, eviction) = evict("b");
    let (status, answer) = client.send(Method::POST, &path, Some(&eviction)).await;
    assert_eq!(status, 429);
    let cause = "The disruption budget b does not allow evicting pods currently";
    assert_eq!(answer["details"]["causes"], json!([{"reason": "DisruptionBudget", "message": cause}]));
    // What does not run yet disturbs nobody.
    let (path, eviction) = evict("pending");
    client.create(&path, &eviction).await;
    assert!(client.get(&format!("{PODS}/pending")).await.is_none());
    let (path, eviction) = evict("none");
    assert_eq!(client.refused(&path, &eviction).await.0, 404);
}

#[tokio::test]
async fn parts_of_pods_are_written_on_their_own() {
    let client = Client::start().await;
    client.namespace("shop").await;
    let mut object = pod("web");
    object["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "500m"}});
    client.create(PODS, &object).await;
    let debug = json!({"metadata": {"labels": {"app": "no"}}, "spec": {"ephemeralContainers": [{"name": "debug", "image": "d:1"}]}});
    let web = client.patch(&format!("{PODS}/web/ephemeralcontainers"), &debug).await;
    assert_eq!(web["spec"]["ephemeralContainers"][0]["name"], "debug");
    assert_eq!(web["metadata"]["labels"]["app"], "web");
    assert_eq!(web["metadata"]["generation"], 2);
    let none = json!({"spec": {"ephemeralContainers": []}});
    let (status, answer) =
        client.send(Method::PATCH, &format!("{PODS}/web/ephemeralcontainers"), Some(&none)).await;
    assert_eq!(status, 422, "{answer}");
    assert_eq!(answer["details"]["causes"][0]["field"], "spec.ephemeralContainers");

    let mut web = web.clone();
    web["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "1"}});
    web["spec"]["containers"][0]["image"] = "web:2".into();
    let (status, web) = client.send(Method::PUT, &format!("{PODS}/web/resize"), Some(&web)).await;
    assert_eq!(status, 200, "{web}");
    assert_eq!(web["spec"]["containers"][0]["resources"], json!({"requests": {"cpu": "1"}}));
    assert_eq!(web["spec"]["containers"][0]["image"], "web:1");
    // Guaranteed, where it was Burstable.
    let mut guaranteed = web;
    guaranteed["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": "1", "memory": "1Gi"}});
    let (status, answer) = client.send(Method::PUT, &format!("{PODS}/web/resize"), Some(&guaranteed)).await;
    assert_eq!(status, 422, "{answer}");
    assert_eq!(answer["details"]["causes"][0]["field"], "spec");

    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": {}, "spec": {"audiences": []}});
    let (status, message) =
        client.refused("/api/v1/namespaces/shop/serviceaccounts/default/token", &request).await;
    assert_eq!(status, 501, "{message}");
}
