//! Scripted clusters: a file says what happens when, and the snapshot beside it what the wait says of it.
//!
//! Each scenario has a server of its own in the process. Time passes only when all is quiet, so an hour takes as long as a
//! second, and always the same happens.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use http::Method;
use jiff::{SignedDuration, Timestamp};
use kstatus::FailureClass;
use kube_client::Client;
use serde_json::{Value, json};
use settled_apiserver::Server;
use settled_apiserver::auth::User;
use settled_tracker::{Cluster, Event, For, Limits, Missing, Request, StartError, Target, Tracker, Wanted};

use crate::faulty::{Fault, Faults};

/// When all scenarios begin.
const BEGINNING: &str = "2026-11-21T12:00:00Z";

#[test]
fn scenarios() {
    insta::glob!("scenarios/*.yaml", |path| {
        // A scenario must not be able to hang the tests, whatever is wrong.
        let told = play(path);
        insta::assert_snapshot!(told);
    });
}

fn play(path: &Path) -> String {
    let text = std::fs::read(path).unwrap();
    let mut script = Vec::new();
    settled_manifest::yaml_to_json(&text, &mut script).unwrap();
    let script: Value = serde_json::from_slice(&script).unwrap();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(perform(&script))
}

async fn perform(script: &Value) -> String {
    let server = Server::in_memory().await.unwrap();
    let faults = Faults::new();
    let user =
        script["as"].as_str().map_or_else(User::admin, |name| User::new(name, ["system:authenticated"]));
    let client = faults.client(server.client_as(&user));
    let begun = tokio::time::Instant::now();
    let beginning: Timestamp = BEGINNING.parse().unwrap();
    let clock = move || beginning + SignedDuration::try_from(begun.elapsed()).unwrap();
    let cluster = Cluster::with_clock(client, clock);
    let admin = server.client();
    for step in list(&script["before"]) {
        act(&admin, &faults, step).await;
    }
    let steps: Vec<Value> = list(&script["steps"]).cloned().collect();
    let stage = tokio::spawn({
        let faults = faults.clone();
        async move {
            for step in &steps {
                let at = begun + duration(&step["at"]);
                tokio::time::sleep_until(at).await;
                act(&admin, &faults, step).await;
            }
        }
    });
    if let Some(start) = script.get("start") {
        tokio::time::sleep_until(begun + duration(start)).await;
    }
    let mut told = String::new();
    match Tracker::start(cluster, request(script)).await {
        Ok(mut tracker) => {
            while let Some(event) = tracker.next().await {
                tell(&mut told, begun.elapsed(), &event);
            }
            let log = faults.log();
            let lists = log.iter().filter(|line| is_list(line)).count();
            let watches = log.iter().filter(|line| line.contains("watch=true")).count();
            if script["requests"] == true {
                writeln!(told, "requests: {lists} lists, {watches} watches").unwrap();
                for line in log {
                    writeln!(told, "  {line}").unwrap();
                }
            }
        }
        Err(StartError::NoKind { name, similar }) => {
            writeln!(told, "no kind {name}; similar: {similar:?}").unwrap()
        }
        Err(StartError::Cluster(error)) => writeln!(told, "cluster: {error}").unwrap(),
    }
    stage.abort();
    told
}

fn is_list(line: &str) -> bool {
    line.starts_with("GET ") && !line.contains("watch=true") && line.contains("limit=")
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn duration(value: &Value) -> Duration {
    let text = value.as_str().unwrap_or("0s");
    let duration: SignedDuration = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
    duration.unsigned_abs()
}

/// What a scenario asks for.
fn request(script: &Value) -> Request {
    let targets = list(&script["targets"]).map(|target| match target {
        Value::String(text) => match text.split_once('/') {
            Some((kind, name)) => Target::object(kind, None, name),
            None => match text.split_once(' ') {
                Some((kind, labels)) => Target::select(kind).labels(labels),
                None => Target::select(text),
            },
        },
        manifest => Target::manifest(manifest.to_string().as_bytes()).unwrap(),
    });
    let mut request = Request::new(targets);
    let until: Vec<&str> = list(&script["for"]).filter_map(Value::as_str).collect();
    request.until = For::parse_all(until).unwrap();
    let mut limits = Limits::default();
    limits.timeout = script.get("timeout").map_or(limits.timeout, |timeout| Some(duration(timeout)));
    limits.target_timeout = script.get("targetTimeout").map(duration);
    limits.stable = duration(&script["stable"]);
    if script["failFast"] == false {
        limits.fail_fast.clear();
    }
    limits.missing = match script["missing"].as_str() {
        Some("wait") => Missing::Wait,
        Some("fail") => Missing::Fail,
        Some("done") => Missing::Done,
        _ => Missing::Auto,
    };
    for (class, grace) in script["grace"].as_object().into_iter().flatten() {
        limits.grace.insert(class.parse::<FailureClass>().unwrap(), duration(grace));
    }
    request.limits = limits;
    request.wanted = Wanted { events: true, log_lines: 5 };
    request
}

/// Does what a step says.
async fn act(client: &Client, faults: &Faults, step: &Value) {
    let step = step.as_object().unwrap();
    for (what, with) in step {
        match what.as_str() {
            "at" | "note" => {}
            "create" => {
                for object in either(with) {
                    let path = path_of(object, false);
                    let mut object = object.clone();
                    if let Some(owner) = object.as_object_mut().unwrap().remove("owner") {
                        object["metadata"]["ownerReferences"] = json!([reference(client, &owner).await]);
                    }
                    send(client, Method::POST, &path, "application/json", &object).await;
                    if let Some(status) = object.get("status") {
                        set_status(client, &object, status).await;
                    }
                }
            }
            "status" => {
                for object in either(with) {
                    set_status(client, object, &object["status"]).await;
                }
            }
            "patch" => {
                for object in either(with) {
                    send(
                        client,
                        Method::PATCH,
                        &path_of(object, true),
                        "application/merge-patch+json",
                        object,
                    )
                    .await;
                }
            }
            "delete" => {
                for object in either(with) {
                    send(client, Method::DELETE, &path_of(object, true), "application/json", &json!({}))
                        .await;
                }
            }
            "many" => {
                // `count` copies of `object`, each with its number for every `#`.
                let count = with["count"].as_u64().unwrap();
                let text = with["object"].to_string();
                for number in 0..count {
                    let object: Value =
                        serde_json::from_str(&text.replace('#', &number.to_string())).unwrap();
                    let verb = with["verb"].as_str().unwrap_or("create");
                    Box::pin(act(client, faults, &json!({ verb: object }))).await;
                }
            }
            "strike" => faults.strike(match with.as_str().unwrap() {
                "cut" => Fault::Cut,
                "close" => Fault::Close,
                "silence" => Fault::Silence,
                "expire" => Fault::Expire,
                other => panic!("no fault {other}"),
            }),
            "refuse" => faults.refuse(|refusals| {
                let count = |key: &str| usize::try_from(with[key].as_u64().unwrap_or(0)).unwrap();
                refusals.too_many = count("tooMany");
                refusals.unauthorized = count("unauthorized");
                refusals.unreachable = count("unreachable");
                refusals.no_watch_list = with["noWatchList"] == true;
            }),
            other => panic!("no step {other}"),
        }
    }
}

/// What an object that belongs to another says of it; which other, a scenario says by apiVersion, kind and name.
async fn reference(client: &Client, owner: &Value) -> Value {
    let path =
        path_of(&json!({"apiVersion": owner["apiVersion"], "kind": owner["kind"], "metadata": owner}), true);
    let request = http::Request::builder().uri(&path).body(Vec::new()).unwrap();
    let found: Value = client.request(request).await.unwrap_or_else(|error| panic!("{path}: {error}"));
    json!({"apiVersion": found["apiVersion"], "kind": owner["kind"], "name": owner["name"], "uid": found["metadata"]["uid"], "controller": true})
}

/// One object, or a list of them.
fn either(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(list) => list.iter().collect(),
        one => vec![one],
    }
}

async fn set_status(client: &Client, object: &Value, status: &Value) {
    let path = format!("{}/status", path_of(object, true));
    send(client, Method::PATCH, &path, "application/merge-patch+json", &json!({ "status": status })).await;
}

async fn send(client: &Client, method: Method, path: &str, type_: &str, body: &Value) {
    let request = http::Request::builder().method(method).uri(path).header("content-type", type_);
    let body = body.to_string().into_bytes();
    if let Err(error) = client.request_text(request.body(body).unwrap()).await {
        panic!("{path}: {error}");
    }
}

/// Where an object is: all kinds of these tests have plurals that end in s.
fn path_of(object: &Value, named: bool) -> String {
    let version = object["apiVersion"].as_str().unwrap_or("v1");
    let kind = object["kind"].as_str().unwrap();
    let plural = match kind {
        "StorageClass" | "Ingress" | "IngressClass" => format!("{}es", kind.to_lowercase()),
        "NetworkPolicy" => "networkpolicies".to_owned(),
        kind => format!("{}s", kind.to_lowercase()),
    };
    let root = if version.contains('/') { format!("/apis/{version}") } else { format!("/api/{version}") };
    const OF_CLUSTER: &[&str] = &[
        "Namespace",
        "Node",
        "PersistentVolume",
        "StorageClass",
        "CustomResourceDefinition",
        "ClusterRole",
        "ClusterRoleBinding",
        "IngressClass",
    ];
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or("default");
    let mut path = match OF_CLUSTER.contains(&kind) {
        true => format!("{root}/{plural}"),
        false => format!("{root}/namespaces/{namespace}/{plural}"),
    };
    if named {
        path.push('/');
        path.push_str(object["metadata"]["name"].as_str().unwrap());
    }
    path
}

/// One line for each event, and the causes at the end.
fn tell(told: &mut String, at: Duration, event: &Event) {
    write!(told, "{:6.1}s ", at.as_secs_f64()).unwrap();
    match event {
        Event::Synced { counts } => {
            writeln!(told, "synced: {} of {} done", counts.done, counts.total).unwrap();
        }
        Event::Target(target) => {
            let state = serde_json::to_value(target.state).unwrap();
            let (verdict, note) = (&target.verdict, target.note.as_deref());
            write!(
                told,
                "{} {} {}: {}",
                target.object,
                state.as_str().unwrap(),
                verdict.status,
                verdict.reason
            )
            .unwrap();
            writeln!(told, "{}", note.map_or_else(String::new, |note| format!(" ({note})"))).unwrap();
        }
        Event::Notice(notice) => {
            writeln!(told, "notice: {}", notice.message).unwrap();
            if let Some(remedy) = &notice.remedy {
                writeln!(told, "        remedy: {remedy}").unwrap();
            }
        }
        Event::Finished(report) => {
            let outcome = serde_json::to_value(report.outcome).unwrap();
            writeln!(told, "finished: {}", outcome.as_str().unwrap()).unwrap();
            for target in report.targets.iter().take(20) {
                for cause in &target.causes {
                    for (depth, step) in cause.chain.iter().enumerate() {
                        let link =
                            if step.link.is_empty() { String::new() } else { format!("{} ", step.link) };
                        let times = step.times.map_or_else(String::new, |times| format!(" x{times}"));
                        let pad = " ".repeat(2 * depth + 2);
                        writeln!(
                            told,
                            "{pad}{link}{} {}: {}{times}: {}",
                            step.object, step.status, step.reason, step.message
                        )
                        .unwrap();
                    }
                    if cause.count > 1 {
                        writeln!(told, "    {} such; others: {}", cause.count, cause.others.join(", "))
                            .unwrap();
                    }
                    for event in &cause.events {
                        writeln!(
                            told,
                            "    event: {} {} x{}: {}",
                            event.object, event.reason, event.count, event.message
                        )
                        .unwrap();
                    }
                    for log in &cause.logs {
                        writeln!(told, "    log of {} {}: {}", log.pod, log.container, log.lines.join(" | "))
                            .unwrap();
                    }
                    for next in &cause.next {
                        writeln!(told, "    next: {next}").unwrap();
                    }
                }
            }
        }
    }
}
