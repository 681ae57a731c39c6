//! 100,000 objects when a controller starts: memory stays within bounds, each object is reconciled once, and no burst of writes follows.
//!
//! The server is a function: a real one would need longer to make the objects than the controller to read them.

use std::cell::Cell;
use std::collections::HashMap;
use std::convert::Infallible;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::channel::mpsc;
use futures::stream::{self, BoxStream, StreamExt as _};
use http::{Method, Request, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use kube::api::{Patch, PatchParams};
use kube::client::Body;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use serde::Deserialize;
use serde_json::{Value, json};
use settled_controller::cache::Cache;
use settled_controller::queue::{Backoff, Queue};
use settled_controller::worker::{self, Next};
use settled_controller::{ObjectKey, Projection, predicate};
use tokio::sync::Notify;

const OBJECTS: usize = 100_000;
const WORKERS: usize = 4;
/// Of so many objects, one has a status that is behind.
const BEHIND: usize = 100;
/// How long a write takes.
const WRITE: Duration = Duration::from_millis(10);
/// What an object may cost in memory, whatever it has on the wire: in KiB.
const KIB_EACH: u64 = 1;

/// What is kept of an object.
#[derive(Debug, Deserialize)]
struct Kept {
    metadata: Metadata,
    #[serde(default)]
    status: Status,
}

#[derive(Debug, Deserialize)]
struct Metadata {
    generation: i64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    observed_generation: i64,
}

fn resource() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Widget"))
}

fn object(index: usize, version: usize, generation: i64, observed: i64) -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {
            "name": format!("widget-{index}"), "namespace": "default", "uid": format!("00000000-{index:012}"),
            "resourceVersion": version.to_string(), "generation": generation,
        },
        "spec": {"text": "x".repeat(512)},
        "status": {"observedGeneration": observed},
    })
}

fn line(event: &str, object: &Value) -> Bytes {
    Bytes::from(format!("{}\n", json!({"type": event, "object": object})))
}

/// The status of an object when the controller starts.
fn observed_at_start(index: usize) -> i64 {
    i64::from(!index.is_multiple_of(BEHIND))
}

/// What the server has seen.
#[derive(Default)]
struct Seen {
    writes: HashMap<String, u32>,
    in_flight: usize,
    most_in_flight: usize,
    version: usize,
}

#[derive(Clone)]
struct Server {
    seen: Arc<Mutex<Seen>>,
    events: mpsc::UnboundedSender<Bytes>,
    /// Those of the one watch that there is.
    watched: Arc<Mutex<Option<mpsc::UnboundedReceiver<Bytes>>>>,
}

type Answer = Response<StreamBody<BoxStream<'static, Result<Frame<Bytes>, Infallible>>>>;

fn answer(code: u16, lines: BoxStream<'static, Bytes>) -> Answer {
    let frames = lines.map(|line| Ok(Frame::data(line))).boxed();
    let answer = Response::builder().status(code).header("content-type", "application/json");
    answer.body(StreamBody::new(frames)).unwrap()
}

impl Server {
    fn new() -> Self {
        let (events, watched) = mpsc::unbounded();
        let seen = Seen { version: OBJECTS, ..Seen::default() };
        Self { seen: Arc::new(Mutex::new(seen)), events, watched: Arc::new(Mutex::new(Some(watched))) }
    }

    fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move { Ok::<_, Infallible>(server.call(request).await) }
        });
        Client::new(service, "default")
    }

    async fn call(&self, request: Request<Body>) -> Answer {
        let (path, query) = (request.uri().path().to_owned(), request.uri().query().unwrap_or_default());
        if *request.method() == Method::PATCH {
            return self.write(&path).await;
        }
        assert!(path.ends_with("/widgets") && query.contains("sendInitialEvents=true"), "{path}?{query}");
        let watched = self.watched.lock().unwrap().take().expect("there is one watch");
        let objects = stream::iter(0..OBJECTS)
            .map(|index| line("ADDED", &object(index, index + 1, 1, observed_at_start(index))));
        let end = json!({
            "apiVersion": "example.com/v1", "kind": "Widget",
            "metadata": {"resourceVersion": OBJECTS.to_string(), "annotations": {"k8s.io/initial-events-end": "true"}},
        });
        let end = line("BOOKMARK", &end);
        answer(200, objects.chain(stream::once(async move { end })).chain(watched).boxed())
    }

    /// Writes the status of an object.
    async fn write(&self, path: &str) -> Answer {
        let name = path.strip_suffix("/status").and_then(|path| path.rsplit('/').next()).unwrap().to_owned();
        {
            let mut seen = self.seen.lock().unwrap();
            seen.in_flight += 1;
            seen.most_in_flight = seen.most_in_flight.max(seen.in_flight);
        }
        tokio::time::sleep(WRITE).await;
        let version = {
            let mut seen = self.seen.lock().unwrap();
            seen.in_flight -= 1;
            seen.version += 1;
            *seen.writes.entry(name.clone()).or_default() += 1;
            seen.version
        };
        let index = name.strip_prefix("widget-").unwrap().parse().unwrap();
        let written = object(index, version, 1, 1);
        self.events.unbounded_send(line("MODIFIED", &written)).unwrap();
        answer(200, stream::once(async move { Bytes::from(written.to_string()) }).boxed())
    }

    /// Changes the spec of an object.
    fn edit(&self, index: usize) {
        let version = {
            let mut seen = self.seen.lock().unwrap();
            seen.version += 1;
            seen.version
        };
        self.events.unbounded_send(line("MODIFIED", &object(index, version, 2, 2))).unwrap();
    }
}

/// Of this process, in KiB; nothing where there is no such file.
fn memory(field: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[test]
fn a_controller_starts_with_a_hundred_thousand_objects() {
    // What is measured is the memory of a process, and other tests need some, too.
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "many_objects::in_a_process_of_its_own", "--ignored", "--test-threads=1"])
        .output()
        .unwrap();
    let (out, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains("1 passed"), "{out}{errors}");
}

#[tokio::test(start_paused = true)]
#[ignore = "another test runs it, in a process of its own"]
async fn in_a_process_of_its_own() {
    let before = memory("VmRSS:");
    let server = Server::new();
    let client = server.client();
    let cache = Cache::<Kept>::of_resource(client.clone(), &resource())
        .projection(Projection::only(["metadata.generation", "status.observedGeneration"]))
        .events(predicate::generation_changed())
        .start();
    let queue = Queue::<ObjectKey>::new(Backoff::default());
    let (counts, reconciles, all) =
        (Mutex::new(HashMap::<ObjectKey, u32>::new()), Cell::new(0_usize), Notify::new());
    let api = Api::<DynamicObject>::namespaced_with(client, "default", &resource());

    let follow = async {
        let mut changes = cache.changes();
        while let Some(change) = changes.next().await {
            queue.add(change.key, 0);
        }
    };
    let reconcile = |key: ObjectKey| {
        let (cache, api, counts, reconciles, all) = (&cache, &api, &counts, &reconciles, &all);
        async move {
            let kept = cache.get(&key).unwrap();
            if kept.status.observed_generation != kept.metadata.generation {
                let status = json!({"status": {"observedGeneration": kept.metadata.generation}});
                api.patch_status(&key.name, &PatchParams::default(), &Patch::Merge(status)).await?;
            }
            *counts.lock().unwrap().entry(key).or_default() += 1;
            reconciles.set(reconciles.get() + 1);
            if reconciles.get() >= OBJECTS {
                all.notify_one();
            }
            Ok::<_, kube::Error>(Next::AwaitChange)
        }
    };
    let check = async {
        all.notified().await;
        assert_eq!(cache.len(), OBJECTS);
        assert_eq!(counts.lock().unwrap().len(), OBJECTS, "each object is reconciled");
        // The echoes of all writes come before this change.
        server.edit(7);
        all.notified().await;
    };
    tokio::select! {
        () = follow => unreachable!("the watch does not end"),
        () = worker::run(&queue, WORKERS, None, reconcile) => unreachable!("the queue is not shut down"),
        () = check => {}
    }

    let twice: Vec<ObjectKey> =
        counts.lock().unwrap().iter().filter(|(_, count)| **count > 1).map(|(key, _)| key.clone()).collect();
    assert_eq!(twice, [ObjectKey::new("default", "widget-7")], "only the object that was changed since");
    let seen = server.seen.lock().unwrap();
    assert_eq!(seen.writes.len(), OBJECTS / BEHIND, "what is right is not written");
    assert!(seen.writes.values().all(|writes| *writes == 1), "nothing is written twice");
    assert!(seen.most_in_flight <= WORKERS, "{} writes at once", seen.most_in_flight);
    assert_eq!((queue.counts().retries, queue.counts().depth), (0, 0));
    assert_eq!((cache.metrics().lists, cache.metrics().failures, cache.metrics().malformed), (1, 0, 0));
    if let (Some(before), Some(peak)) = (before, memory("VmHWM:")) {
        let most = KIB_EACH * u64::try_from(OBJECTS).unwrap();
        assert!(peak - before <= most, "{} KiB for {OBJECTS} objects", peak - before);
    }
}
