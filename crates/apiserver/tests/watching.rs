//! Watches tell a story that fits what lists say: whatever is selected, wherever it begins, under concurrent writes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::FutureExt as _;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use settled_apiserver::auth::User;
use settled_apiserver::{Body, Config, Controllers, Server};

/// Far more than anything here takes.
const PATIENCE: Duration = Duration::from_secs(120);
const CONFIG_MAPS: &str = "/api/v1/configmaps";
/// Begins with the state, and says where it ends.
const STREAMED: &str = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";

/// Objects by namespace and name.
type State = BTreeMap<(String, String), Value>;

pub(crate) async fn start() -> Server {
    let mut config = Config::default();
    config.controllers = Controllers::none();
    Server::start(config).await.unwrap()
}

async fn open(server: &Server, method: Method, path: &str, body: Option<&Value>) -> (u16, Body) {
    let content_type = match method {
        Method::PATCH => "application/merge-patch+json",
        _ => "application/json",
    };
    let body = body.map(Value::to_string).unwrap_or_default();
    let request = Request::builder().method(method).uri(path).header("content-type", content_type);
    let request = request.body(Full::new(bytes::Bytes::from(body))).unwrap();
    let answer = server.call(Some(User::admin()), request).await;
    (answer.status().as_u16(), answer.into_body())
}

pub(crate) async fn send(server: &Server, method: Method, path: &str, body: Option<&Value>) -> (u16, Value) {
    let (status, body) = open(server, method, path, body).await;
    let bytes = body.collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&bytes).unwrap())
}

fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

fn key(object: &Value) -> (String, String) {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    (text("namespace"), text("name"))
}

/// A list as a state and its revision. What lists leave out of their items is added.
async fn list(server: &Server, collection: &str, query: &str) -> (State, u64) {
    let (status, list) = send(server, Method::GET, &format!("{collection}?{query}"), None).await;
    assert_eq!(status, 200, "{query}: {list}");
    let kind = list["kind"].as_str().unwrap().strip_suffix("List").unwrap();
    let items = list["items"].as_array().unwrap().iter().map(|item| {
        let mut item = item.clone();
        item["kind"] = kind.into();
        item["apiVersion"] = list["apiVersion"].clone();
        (key(&item), item)
    });
    (items.collect(), revision(&list))
}

struct Watch {
    body: Body,
    read: Vec<u8>,
    ended: bool,
}

impl Watch {
    async fn begin(server: &Server, collection: &str, query: &str) -> Self {
        let path = format!("{collection}?watch=true&{query}");
        let (status, body) = open(server, Method::GET, &path, None).await;
        assert_eq!(status, 200, "{path}");
        Self { body, read: Vec::new(), ended: false }
    }

    fn line(&mut self) -> Option<Value> {
        let end = self.read.iter().position(|byte| *byte == b'\n')?;
        let line: Vec<u8> = self.read.drain(..=end).collect();
        Some(serde_json::from_slice(&line).unwrap())
    }

    /// The next event; nothing: the watch has ended.
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(event) = self.line() {
                return Some(event);
            }
            let frame = tokio::time::timeout(PATIENCE, self.body.frame()).await.expect("an event comes")?;
            self.read.extend_from_slice(&frame.unwrap().into_data().unwrap());
        }
    }

    /// Whatever is there already. All that was acknowledged before is.
    fn drain(&mut self) -> Vec<Value> {
        let mut events = Vec::new();
        while let Some(frame) = tokio::task::unconstrained(self.body.frame()).now_or_never() {
            let Some(frame) = frame else {
                self.ended = true;
                break;
            };
            self.read.extend_from_slice(&frame.unwrap().into_data().unwrap());
            while let Some(event) = self.line() {
                events.push(event);
            }
        }
        events
    }
}

/// What a client does with an event. A story that doesn't fit fails the test.
fn follow(state: &mut State, event: &Value, story: &str) {
    let object = &event["object"];
    let key = key(object);
    let known = state.contains_key(&key);
    match (event["type"].as_str().unwrap(), known) {
        ("ADDED", false) | ("MODIFIED", true) => drop(state.insert(key, object.clone())),
        ("DELETED", true) => drop(state.remove(&key)),
        ("BOOKMARK", _) => {}
        (kind, known) => panic!("{story}: {kind} of {key:?}, known: {known}"),
    }
}

/// Numbers from a seed (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(bound).unwrap()).unwrap()
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

/// One more write; its answer may be that there is nothing to write to, or already something.
async fn write(server: &Server, random: &mut Random, namespaces: &[&str], names: &[String]) {
    let collection = format!("/api/v1/namespaces/{}/configmaps", random.pick(namespaces));
    let name = random.pick(names).as_str();
    let object = format!("{collection}/{name}");
    let label = [json!("1"), json!("2"), Value::Null][random.below(3)].clone();
    let (status, answer) = match random.below(8) {
        0 | 1 => {
            let body = json!({"metadata": {"name": name, "labels": {"x": label.as_str().unwrap_or("3")}}});
            send(server, Method::POST, &collection, Some(&body)).await
        }
        2 => send(server, Method::DELETE, &object, None).await,
        3 | 4 => {
            let body = json!({"metadata": {"labels": {"x": label}}});
            send(server, Method::PATCH, &object, Some(&body)).await
        }
        _ => {
            let body = json!({"data": {"n": random.below(1000).to_string()}});
            send(server, Method::PATCH, &object, Some(&body)).await
        }
    };
    assert!(matches!(status, 200 | 201 | 404 | 409), "{status} {answer}");
}

async fn make_namespaces(server: &Server, names: &[&str]) {
    for name in names {
        let body = json!({"metadata": {"name": name}});
        let (status, answer) = send(server, Method::POST, "/api/v1/namespaces", Some(&body)).await;
        assert_eq!(status, 201, "{answer}");
    }
}

/// Selectors, and what they select.
type Selects = fn(&Value) -> bool;
const SELECTORS: [(&str, Selects); 9] = [
    ("labelSelector=x%3D1", |object| object["metadata"]["labels"]["x"] == "1"),
    ("labelSelector=x!%3D1", |object| object["metadata"]["labels"]["x"] != "1"),
    ("labelSelector=x", |object| !object["metadata"]["labels"]["x"].is_null()),
    ("labelSelector=!x", |object| object["metadata"]["labels"]["x"].is_null()),
    ("labelSelector=x+in+(1,2)", |object| {
        object["metadata"]["labels"]["x"] == "1" || object["metadata"]["labels"]["x"] == "2"
    }),
    ("fieldSelector=metadata.name%3Da", |object| object["metadata"]["name"] == "a"),
    ("fieldSelector=metadata.name!%3Da", |object| object["metadata"]["name"] != "a"),
    ("fieldSelector=metadata.namespace%3Done", |object| object["metadata"]["namespace"] == "one"),
    ("fieldSelector=metadata.name%3Db&labelSelector=x%3D2", |object| {
        object["metadata"]["name"] == "b" && object["metadata"]["labels"]["x"] == "2"
    }),
];

/// Replaying a filtered watch is filtering the replay of the unfiltered one, after every single event.
#[tokio::test]
async fn filtered_watches_are_filtered_replays() {
    let seeds = match std::env::var("SETTLED_SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => (1..=6).collect(),
    };
    for seed in seeds {
        let mut random = Random(seed * 0x9E37_79B9_7F4A);
        let server = start().await;
        let namespaces = ["one", "two"];
        make_namespaces(&server, &namespaces).await;
        let names = ["a", "b", "c", "d"].map(str::to_owned);
        let mut places = vec![list(&server, CONFIG_MAPS, "").await];
        for step in 1..=120 {
            write(&server, &mut random, &namespaces, &names).await;
            if step % 15 == 0 {
                places.push(list(&server, CONFIG_MAPS, "").await);
            }
        }
        let (last, end) = list(&server, CONFIG_MAPS, "").await;
        for (begun, from) in &places {
            let all = Watch::begin(&server, CONFIG_MAPS, &format!("resourceVersion={from}")).await.drain();
            let mut state = begun.clone();
            let mut states = vec![(*from, state.clone())];
            for event in &all {
                follow(&mut state, event, &format!("seed {seed}, unfiltered"));
                let at = revision(&event["object"]);
                assert!(states.last().unwrap().0 < at, "seed {seed}: {at} comes late");
                states.push((at, state.clone()));
            }
            assert_eq!(state, last, "seed {seed}: from {from} to {end}");
            for (selector, selects) in SELECTORS {
                let story = format!("seed {seed}, {selector} from {from}");
                let filtered = |state: &State| -> State {
                    state
                        .iter()
                        .filter(|(_, object)| selects(object))
                        .map(|(k, v)| (k.clone(), v.clone()))
                        .collect()
                };
                let exact = format!("{selector}&resourceVersion={from}&resourceVersionMatch=Exact");
                // There is no exact list at a revision that begins with nothing.
                let mut state = list(&server, CONFIG_MAPS, &exact).await.0;
                assert_eq!(state, filtered(begun), "{story}: the list");
                let query = format!("{selector}&resourceVersion={from}");
                let mut events =
                    Watch::begin(&server, CONFIG_MAPS, &query).await.drain().into_iter().peekable();
                for (at, all) in &states {
                    while events.peek().is_some_and(|event| revision(&event["object"]) <= *at) {
                        follow(&mut state, &events.next().unwrap(), &story);
                    }
                    // What an object was when it left the selection is of no interest any more.
                    assert_eq!(state, filtered(all), "{story}: at {at}");
                }
                assert_eq!(events.next(), None, "{story}");
            }
        }
        server.stop();
    }
}

/// Where and how a watcher begins.
async fn catch(server: &Server, random: &mut Random, seen: &AtomicUsize) -> (State, Watch) {
    let (state, from) = list(server, CONFIG_MAPS, "").await;
    let (state, query) = match random.below(3) {
        // A list, and what comes after it.
        0 => (state, format!("resourceVersion={from}")),
        // One page after the other, of one revision, while others write.
        1 => {
            let (mut pages, mut next, mut from) = (State::new(), String::new(), 0);
            loop {
                let path = format!("{CONFIG_MAPS}?limit=3{next}");
                let (status, page) = send(server, Method::GET, &path, None).await;
                assert_eq!(status, 200, "{page}");
                assert!(from == 0 || from == revision(&page), "the pages of a list have one revision");
                from = revision(&page);
                for item in page["items"].as_array().unwrap() {
                    let mut item = item.clone();
                    item["kind"] = "ConfigMap".into();
                    item["apiVersion"] = "v1".into();
                    pages.insert(key(&item), item);
                }
                match page["metadata"]["continue"].as_str() {
                    Some(token) => next = format!("&continue={token}"),
                    None => break,
                }
            }
            (pages, format!("resourceVersion={from}"))
        }
        _ => (State::new(), STREAMED.to_owned()),
    };
    seen.fetch_add(1, Ordering::Relaxed);
    (state, Watch::begin(server, CONFIG_MAPS, &query).await)
}

/// Each watcher, wherever it begins, has in the end what a list has.
async fn many(writers: usize, watchers: usize, writes: usize, seed: u64) {
    let server = Arc::new(start().await);
    make_namespaces(&server, &["one", "two"]).await;
    let names: Arc<Vec<String>> = Arc::new((0..writers.max(8)).map(|name| format!("n{name}")).collect());
    let seen = Arc::new(AtomicUsize::new(0));
    let mut writing = Vec::new();
    for writer in 0..writers {
        let (server, names) = (server.clone(), names.clone());
        let mut random = Random((seed + 1) * 0x9E37_79B9 + u64::try_from(writer).unwrap());
        writing.push(tokio::spawn(async move {
            for _ in 0..writes {
                write(&server, &mut random, &["one", "two"], &names).await;
            }
        }));
    }
    let mut watching = Vec::new();
    for watcher in 0..watchers {
        let (server, seen) = (server.clone(), seen.clone());
        let mut random = Random((seed + 7) * 0x85EB_CA6B + u64::try_from(watcher).unwrap());
        watching.push(tokio::spawn(async move {
            // Not all at once.
            for _ in 0..random.below(50) {
                tokio::task::yield_now().await;
            }
            'again: loop {
                let (mut state, mut watch) = catch(&server, &mut random, &seen).await;
                let mut before = 0;
                let mut initial = state.is_empty();
                // One who has begun anew may have the last object from its list.
                while !state.keys().any(|(_, name)| name == "zz-last") {
                    // Too slow: it begins anew, as every client does.
                    let Some(event) = watch.next().await else { continue 'again };
                    let at = revision(&event["object"]);
                    if event["type"] == "BOOKMARK" {
                        initial = false;
                    } else {
                        // The state at the beginning is in the order of its keys.
                        assert!(
                            initial || before < at,
                            "watcher {watcher}, seed {seed}: {at} after {before}"
                        );
                        before = before.max(at);
                    }
                    follow(&mut state, &event, &format!("watcher {watcher}, seed {seed}"));
                }
                return state;
            }
        }));
    }
    for writer in writing {
        writer.await.unwrap();
    }
    // The last watchers may not have begun yet.
    while seen.load(Ordering::Relaxed) < watchers {
        tokio::task::yield_now().await;
    }
    let body = json!({"metadata": {"name": "zz-last"}});
    let path = "/api/v1/namespaces/two/configmaps";
    let (status, last) = send(&server, Method::POST, path, Some(&body)).await;
    assert_eq!(status, 201, "{last}");
    let (wanted, at) = list(&server, CONFIG_MAPS, "").await;
    assert_eq!(at, revision(&last));
    for (watcher, task) in watching.into_iter().enumerate() {
        let state = tokio::time::timeout(PATIENCE, task).await.expect("watchers end").unwrap();
        assert_eq!(state, wanted, "watcher {watcher}, seed {seed}");
    }
    server.stop();
}

/// `cargo xtask faults watchers` does it in earnest, and over sockets.
#[tokio::test(flavor = "multi_thread")]
async fn watchers_rebuild_what_is_there() {
    many(8, 8, 40, 1).await;
}

/// The state up to the bookmark that ends it, and the bookmark's revision.
async fn streamed(watch: &mut Watch) -> (State, u64) {
    let mut state = State::new();
    loop {
        let event = watch.next().await.expect("the state ends with a bookmark");
        if event["type"] == "BOOKMARK" {
            assert_eq!(event["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
            return (state, revision(&event["object"]));
        }
        assert_eq!(event["type"], "ADDED");
        follow(&mut state, &event, "the state at the beginning");
    }
}

#[tokio::test]
async fn streaming_lists_are_lists_and_go_on() {
    let server = start().await;
    make_namespaces(&server, &["one"]).await;
    let crd = json!({
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    });
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let mut established = Watch::begin(&server, crds, STREAMED).await;
    let (status, answer) = send(&server, Method::POST, crds, Some(&crd)).await;
    assert_eq!(status, 201, "{answer}");
    loop {
        let event = established.next().await.unwrap();
        let conditions = event["object"]["status"]["conditions"].as_array().cloned().unwrap_or_default();
        if conditions.iter().any(|one| one["type"] == "Established" && one["status"] == "True") {
            break;
        }
    }
    // Empty, idle ones with objects, those of custom kinds.
    let kinds = [
        ("/api/v1/namespaces/one/secrets", json!({"metadata": {"name": "a"}})),
        (
            "/apis/apps/v1/namespaces/one/controllerrevisions",
            json!({"metadata": {"name": "a"}, "revision": 1, "data": {"x": 1}}),
        ),
        (
            "/apis/example.com/v1/namespaces/one/things",
            json!({"kind": "Thing", "apiVersion": "example.com/v1", "metadata": {"name": "a"}, "x": 1}),
        ),
    ];
    for (collection, object) in kinds {
        let mut watch = Watch::begin(&server, collection, STREAMED).await;
        let (state, at) = streamed(&mut watch).await;
        assert!(state.is_empty() && at > 0, "{collection}: {state:?}");
        let (status, made) = send(&server, Method::POST, collection, Some(&object)).await;
        assert_eq!(status, 201, "{collection}: {made}");
        let event = watch.next().await.unwrap();
        assert_eq!((event["type"].as_str(), &event["object"]), (Some("ADDED"), &made), "{collection}");
        // Others write meanwhile, so that the resource is idle at an old revision.
        make_namespaces(&server, &[&format!("other-{at}")]).await;
        let mut again = Watch::begin(&server, collection, STREAMED).await;
        let (wanted, now) = list(&server, collection, "").await;
        assert_eq!(streamed(&mut again).await, (wanted, now), "{collection}");
        let mut from = Watch::begin(&server, collection, &format!("{STREAMED}&resourceVersion={now}")).await;
        assert_eq!(streamed(&mut from).await.1, now, "{collection}: not older than was asked for");
    }
    // Busy: each state is one that was, and what follows leads to the last one.
    let collection = "/api/v1/namespaces/one/configmaps";
    let mut random = Random(5);
    let names = ["a", "b", "c", "d"].map(str::to_owned);
    let mut streams = Vec::new();
    for step in 0..60 {
        write(&server, &mut random, &["one"], &names).await;
        if step % 10 == 0 {
            let mut watch = Watch::begin(&server, collection, STREAMED).await;
            write(&server, &mut random, &["one"], &names).await;
            let (state, at) = streamed(&mut watch).await;
            let exact = format!("resourceVersion={at}&resourceVersionMatch=Exact");
            assert_eq!(list(&server, collection, &exact).await.0, state, "at {at}");
            streams.push((state, watch));
        }
    }
    let (last, _) = list(&server, collection, "").await;
    for (mut state, mut watch) in streams {
        for event in watch.drain() {
            follow(&mut state, &event, "busy");
        }
        assert_eq!(state, last);
    }
}

/// A reader that lags too far behind is cut off. What it was told until then has no gap.
#[tokio::test]
async fn slow_readers_are_closed_and_miss_nothing() {
    let server = start().await;
    make_namespaces(&server, &["one"]).await;
    let collection = "/api/v1/namespaces/one/configmaps";
    let (_, from) = list(&server, collection, "").await;
    let (_, made) = send(
        &server,
        Method::POST,
        collection,
        Some(&json!({"metadata": {"name": "a"}, "data": {"n": "0"}})),
    )
    .await;
    let mut slow = Watch::begin(&server, collection, &format!("resourceVersion={from}")).await;
    let mut quick = Watch::begin(&server, collection, &format!("resourceVersion={from}")).await;
    let (mut told, mut heard) = (vec![revision(&made)], Vec::new());
    // More than 32 MB of objects: more than the store keeps for a watcher.
    let ballast = "x".repeat(16 << 10);
    for n in 1..3000 {
        let patch = json!({"data": {"n": n.to_string(), "ballast": ballast}});
        let (status, answer) = send(&server, Method::PATCH, &format!("{collection}/a"), Some(&patch)).await;
        assert_eq!(status, 200, "{answer}");
        told.push(revision(&answer));
        if n % 100 == 0 {
            heard.extend(quick.drain().iter().map(|event| revision(&event["object"])));
        }
    }
    heard.extend(quick.drain().iter().map(|event| revision(&event["object"])));
    assert_eq!(heard, told, "who keeps up hears everything");
    assert!(!quick.ended);
    let late: Vec<u64> = slow.drain().iter().map(|event| revision(&event["object"])).collect();
    assert!(slow.ended, "{} events were kept for one who does not read", late.len());
    assert!(told.starts_with(&late), "there is no gap before the end");
}
