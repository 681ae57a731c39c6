//! Scripted clusters: a file says what happens when, and the snapshot beside it what the wait says of it.
//!
//! Each scenario has a server of its own in the process. Time passes only when all is quiet, so an hour takes as long as a
//! second, and always the same happens: the server has the scenario's clock, which begins at noon, and writes in place.
//!
//! | key | what it says |
//! |---|---|
//! | `targets`, `apply` | what is waited for: see [`targets`] |
//! | `for`, `timeout`, `targetTimeout`, `stable`, `failFast`, `missing`, `grace` | as the options of `settled wait` |
//! | `namespace` | of targets that name none |
//! | `look` | `true` is a look at one moment, with the tree of what was seen |
//! | `as` | who waits: an administrator, unless a user is named |
//! | `newCredentials` | there are others when the present ones are refused |
//! | `liveLogs` | whether the logs of containers that crash are followed |
//! | `before`, `steps` | what happens before all else, and at which time: see [`act`] |
//! | `start`, `interrupt` | when the wait begins, and when the user has had enough |
//! | `requests` | `true` tells all requests, `count` how many there were |

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Method;
use jiff::{SignedDuration, Timestamp};
use kstatus::FailureClass;
use kube_client::Client;
use serde_json::{Value, json};
use settled_apiserver::Server;
use settled_apiserver::auth::User;
use settled_tracker::apply::ApplyOptions;
use settled_tracker::request::{EvidenceOptions, Missing};
use settled_tracker::{
    Cluster, Event, Limits, Request, StartError, State, Target, Tracker, WaitCondition, apply,
};

use crate::faulty::{Fault, Faults, Log};

/// When all scenarios begin.
const BEGINNING: &str = "2026-11-21T12:00:00Z";

/// No scenario lasts longer, whatever is wrong.
const LONGEST: Duration = Duration::from_secs(2 * 3600);
/// Of changes that come at the same moment, so many are told.
const MOST_AT_ONCE: usize = 8;

#[test]
fn scenarios() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let all: Vec<PathBuf> =
        std::fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    let (next, told) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    // Their times are their own, so they don't wait for each other.
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                while let Some(path) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let name = path.file_name().unwrap().to_owned();
                    // Which one it was, the panic of a step does not say.
                    let played = std::panic::catch_unwind(|| play(path));
                    told.lock().unwrap().insert(name, played.unwrap_or_else(|_| "it panicked".to_owned()));
                }
            });
        }
    });
    let told = told.into_inner().unwrap();
    insta::glob!("scenarios/*.yaml", |path| {
        insta::assert_snapshot!(told[path.file_name().unwrap()]);
    });
}

fn play(path: &Path) -> String {
    let text = std::fs::read(path).unwrap();
    let mut script = Vec::new();
    settled_manifest::yaml_to_json(&text, &mut script)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let script: Value = serde_json::from_slice(&script).unwrap();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let played = runtime.block_on(async { tokio::time::timeout(LONGEST, perform(&script)).await });
    played.unwrap_or_else(|_| panic!("{} does not end", path.display()))
}

async fn perform(script: &Value) -> String {
    let begun = tokio::time::Instant::now();
    let beginning: Timestamp = BEGINNING.parse().unwrap();
    let clock = move || beginning + SignedDuration::try_from(begun.elapsed()).unwrap();
    let mut config = settled_apiserver::Config::default();
    config.clock = Some(Arc::new(clock));
    let server = Server::start(config).await.unwrap();
    let faults = Faults::new();
    let user =
        script["as"].as_str().map_or_else(User::admin, |name| User::new(name, ["system:authenticated"]));
    let client = faults.client(server.client_as(&user));
    let mut cluster = Cluster::with_clock(client.clone(), clock);
    if script["newCredentials"] == true {
        cluster = cluster.with_reconnect(move || {
            let client = client.clone();
            Box::pin(async move { Some(client) })
        });
    }
    let admin = server.client();
    for step in list(&script["before"]) {
        act(&admin, &faults, step).await;
    }
    let targets = targets(&admin, &cluster, script).await;
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
    match Tracker::start(cluster, request(script, targets)).await {
        Ok(mut tracker) => {
            let enough = script.get("interrupt").map(|at| begun + duration(at));
            let mut at_once = (Duration::MAX, 0);
            if script["look"] == true {
                tracker.survey().await;
                tell_look(&mut told, begun.elapsed(), &tracker);
            }
            loop {
                if script["look"] == true {
                    break;
                }
                let event = match enough.filter(|at| *at > tokio::time::Instant::now()) {
                    Some(at) => match tokio::time::timeout_at(at, tracker.next()).await {
                        Ok(event) => event,
                        Err(_) => {
                            tracker.interrupt();
                            continue;
                        }
                    },
                    None => tracker.next().await,
                };
                let Some(event) = event else { break };
                let now = begun.elapsed();
                if matches!(event, Event::Target(_)) {
                    at_once = (now, if at_once.0 == now { at_once.1 + 1 } else { 1 });
                    if at_once.1 > MOST_AT_ONCE {
                        continue;
                    }
                }
                if at_once.1 > MOST_AT_ONCE {
                    writeln!(told, "         and {} more", at_once.1 - MOST_AT_ONCE).unwrap();
                    at_once.1 = 0;
                }
                tell(&mut told, now, &event);
            }
            let log = faults.log();
            let lists = log.iter().filter(|line| is_list(line)).count();
            let watches = log.iter().filter(|line| line.contains("watch=true")).count();
            if !script["requests"].is_null() {
                writeln!(told, "requests: {lists} lists, {watches} watches, {} in all", log.len()).unwrap();
                let mut versions = Vec::new();
                for line in log.iter().filter(|_| script["requests"] == true) {
                    writeln!(told, "  {}", named_versions(line, &mut versions)).unwrap();
                }
            }
        }
        Err(StartError::NoKind { name, similar }) => {
            writeln!(told, "no kind {name}; similar: {similar:?}").unwrap()
        }
        Err(StartError::Cluster(error)) => writeln!(told, "cluster: {error}").unwrap(),
    }
    if stage.is_finished() {
        stage.await.unwrap();
    } else {
        stage.abort();
    }
    told
}

/// A request without what depends on how much the server wrote before: each resourceVersion gets a name, and the place in a continue
/// token stands for the token.
fn named_versions(line: &str, versions: &mut Vec<u64>) -> String {
    let mut name = |version: u64| {
        let known = versions.iter().position(|other| *other == version);
        let index = known.unwrap_or_else(|| {
            versions.push(version);
            versions.len() - 1
        });
        format!("RV{}", index + 1)
    };
    let parameter = |parameter: &str| {
        let Some((key, value)) = parameter.split_once('=') else { return parameter.to_owned() };
        match (key, value.parse()) {
            // 0 is any version.
            ("resourceVersion", Ok(version)) if version > 0 => format!("{key}={}", name(version)),
            ("continue", _) => {
                let token = URL_SAFE_NO_PAD.decode(value.trim_end_matches("%3D")).unwrap();
                let token: Value = serde_json::from_slice(&token).unwrap();
                format!("{key}={}:{}", name(token["rv"].as_u64().unwrap()), token["start"].as_str().unwrap())
            }
            _ => parameter.to_owned(),
        }
    };
    match line.split_once('?') {
        Some((path, query)) => {
            let query: Vec<String> = query.split('&').map(parameter).collect();
            format!("{path}?{}", query.join("&").replace('\0', ""))
        }
        None => line.to_owned(),
    }
}

fn is_list(line: &str) -> bool {
    line.starts_with("GET ")
        && !line.contains("watch=true")
        && line.contains("limit=")
        && !line.contains("/events?")
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn duration(value: &Value) -> Duration {
    let text = value.as_str().unwrap_or("0s");
    let duration: SignedDuration = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
    duration.unsigned_abs()
}

/// What a scenario waits for: `TYPE/NAME`, `TYPE LABELS`, a manifest; `applied` is an object as `kubectl apply -o yaml` prints it
/// at the beginning, and `apply` is applied then.
async fn targets(admin: &Client, cluster: &Cluster, script: &Value) -> Vec<Target> {
    let mut targets = Vec::new();
    for target in list(&script["targets"]) {
        let target = match target {
            Value::String(text) => match text.split_once('/') {
                Some((kind, name)) => Target::object(kind, None, name),
                None => match text.split_once(' ') {
                    Some((kind, labels)) => Target::select(kind).labels(labels),
                    None => Target::select(text),
                },
            },
            manifest => match manifest.get("applied") {
                Some(applied) => {
                    let mut printed = get(admin, &path_of(applied, true)).await;
                    // A server that lags behind shows less than that.
                    for (key, value) in manifest["but"].as_object().into_iter().flatten() {
                        printed["metadata"][key] = value.clone();
                    }
                    Target::manifest(printed.to_string().as_bytes()).unwrap()
                }
                None => Target::manifest(manifest.to_string().as_bytes()).unwrap(),
            },
        };
        targets.push(target);
    }
    let manifests: Vec<Vec<u8>> = list(&script["apply"]).map(|m| m.to_string().into_bytes()).collect();
    if !manifests.is_empty() {
        let report =
            apply(cluster, manifests, &ApplyOptions { force: true, ..ApplyOptions::default() }, |_| {})
                .await
                .unwrap();
        assert_eq!(report.refused, 0);
        targets.extend(report.targets);
    }
    targets
}

/// What a scenario asks for.
fn request(script: &Value, targets: Vec<Target>) -> Request {
    let mut request = Request::new(targets);
    let until: Vec<&str> = list(&script["for"]).filter_map(Value::as_str).collect();
    request.conditions = WaitCondition::parse_all(until).unwrap();
    let mut limits = Limits::default();
    limits.timeout = script.get("timeout").map_or(limits.timeout, |timeout| Some(duration(timeout)));
    limits.target_timeout = script.get("targetTimeout").map(duration);
    limits.stable = duration(&script["stable"]);
    match &script["failFast"] {
        Value::Bool(false) => limits.fail_fast.clear(),
        Value::Array(classes) => {
            limits.fail_fast = classes.iter().map(|class| class.as_str().unwrap().parse().unwrap()).collect();
        }
        _ => {}
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
    if script["look"] == true {
        limits.timeout = None;
        limits.stable = Duration::from_secs(100 * 365 * 24 * 3600);
    }
    request.namespace = script["namespace"].as_str().map(str::to_owned);
    request.limits = limits;
    request.evidence = EvidenceOptions { events: true, log_lines: 5 };
    request.live_logs = script["liveLogs"] == true;
    request
}

/// Does what a step says: `create`, `status`, `patch` and `delete` objects, `many` of them, `strike` all watches with a
/// [`Fault`], answer `logs` as a kubelet would, `refuse` requests from now on (each `refuse` takes the place of the one before), and `then` what comes after it in
/// the same moment.
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
                        let mut owner = reference(client, &owner).await;
                        (owner["controller"], owner["blockOwnerDeletion"]) = (true.into(), true.into());
                        object["metadata"]["ownerReferences"] = json!([owner]);
                    }
                    if let Some(about) = object.as_object_mut().unwrap().remove("about") {
                        let mut about = reference(client, &about).await;
                        about["namespace"] = json!("default");
                        object["involvedObject"] = about;
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
                    let how = json!({
                        "gracePeriodSeconds": object.get("gracePeriodSeconds"),
                        "propagationPolicy": object.get("propagationPolicy"),
                    });
                    send(client, Method::DELETE, &path_of(object, true), "application/json", &how).await;
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
                "error" => Fault::Error,
                "garbage" => Fault::Garbage,
                other => panic!("no fault {other}"),
            }),
            // Steps are done in the order of their names; this is the last.
            "then" => Box::pin(act(client, faults, with)).await,
            "logs" => {
                let logs = with.as_object().unwrap().iter();
                let logs = logs.map(|(container, log)| (container.clone(), log_of(log))).collect();
                faults.refuse(|refusals| refusals.logs = logs);
            }
            "refuse" => faults.refuse(|refusals| {
                let count = |key: &str| usize::try_from(with[key].as_u64().unwrap_or(0)).unwrap();
                refusals.too_many = count("tooMany");
                refusals.retry_after = with["retryAfter"].as_u64();
                refusals.expired = count("expired");
                refusals.silent = count("silent");
                refusals.closing = count("closing");
                (refusals.tearing, refusals.pieces) = (count("tearing"), count("pieces"));
                refusals.gone = with["gone"]["path"].as_str().map(|path| {
                    (path.to_owned(), usize::try_from(with["gone"]["times"].as_u64().unwrap()).unwrap())
                });
                refusals.busy = with["busy"].as_str().map(str::to_owned);
                refusals.failing = with["failing"].as_str().map(str::to_owned);
                refusals.hanging = with["hanging"].as_str().map(str::to_owned);
                refusals.unauthorized = count("unauthorized");
                refusals.unreachable = count("unreachable");
                refusals.watches_unreachable = with["watchesUnreachable"] == true;
                refusals.no_watch_list = with["noWatchList"] == true;
            }),
            other => panic!("no step {other}"),
        }
    }
}

/// A log as a scenario has it: its lines, or what is wrong with it.
fn log_of(log: &Value) -> Log {
    let lines = |value: &Value| list(value).map(|line| line.as_str().unwrap().to_owned()).collect();
    if let Some(code) = log["refused"].as_u64() {
        return Log::Refused(code.try_into().unwrap(), log["message"].as_str().unwrap().to_owned());
    }
    if let Some(line) = log["endless"].as_str() {
        return Log::Endless(line.to_owned());
    }
    if log["hanging"].is_array() {
        return Log::Hanging(lines(&log["hanging"]));
    }
    Log::Lines(lines(log))
}

/// What an object that belongs to another (`owner`), or an Event (`about`), says of it; which other, a scenario says by apiVersion, kind and name.
async fn reference(client: &Client, owner: &Value) -> Value {
    let path =
        path_of(&json!({"apiVersion": owner["apiVersion"], "kind": owner["kind"], "metadata": owner}), true);
    let found = get(client, &path).await;
    json!({"apiVersion": found["apiVersion"], "kind": owner["kind"], "name": owner["name"], "uid": found["metadata"]["uid"]})
}

async fn get(client: &Client, path: &str) -> Value {
    let request = http::Request::builder().uri(path).body(Vec::new()).unwrap();
    client.request(request).await.unwrap_or_else(|error| panic!("{path}: {error}"))
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
        "StorageClass" | "Ingress" | "IngressClass" | "PriorityClass" => format!("{}es", kind.to_lowercase()),
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
        "PriorityClass",
        "ClusterRole",
        "ClusterRoleBinding",
        "IngressClass",
    ];
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or("default");
    let mut path = match OF_CLUSTER.contains(&kind) || namespace.is_empty() {
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
/// What a look at one moment has seen.
fn tell_look(told: &mut String, at: Duration, tracker: &Tracker) {
    let outcome = serde_json::to_value(tracker.outcome()).unwrap();
    let complete = if tracker.is_incomplete() { "incomplete" } else { "complete" };
    writeln!(told, "{:6.1}s {complete}, outcome: {outcome}", at.as_secs_f64()).unwrap();
    for notice in tracker.notices() {
        writeln!(told, "  notice: {}", notice.message).unwrap();
    }
    for branch in tracker.branches(true) {
        let verdict = &branch.verdict;
        writeln!(told, "  {} {}: {}: {}", branch.object, verdict.status, verdict.reason, verdict.message)
            .unwrap();
    }
}

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
            if let Some(cause) = target.causes.first().and_then(|cause| cause.chain.get(1..)?.last()) {
                write!(told, " <- {} {}", cause.object, cause.reason).unwrap();
            }
            writeln!(told, "{}", note.map_or_else(String::new, |note| format!(" ({note})"))).unwrap();
        }
        Event::Notice(notice) => {
            writeln!(told, "notice: {}", notice.message).unwrap();
            if let Some(remedy) = &notice.remedy {
                writeln!(told, "        remedy: {remedy}").unwrap();
            }
        }
        Event::Log(log) => {
            writeln!(told, "log: {}/{}: {}", log.pod.name, log.container, log.lines.join(" | ")).unwrap();
        }
        Event::Finished(report) => {
            let outcome = serde_json::to_value(report.outcome).unwrap();
            writeln!(told, "finished: {}", outcome.as_str().unwrap()).unwrap();
            for target in report.targets.iter().take(20) {
                // What the evaluation of a target adds to its own verdict.
                if let Some(own) = &target.own {
                    let since = target
                        .since
                        .map_or_else(String::new, |since| format!(" since {}", since.strftime("%H:%M:%S")));
                    let (verdict, object) = (&target.verdict, &target.object);
                    let class = verdict.failure.map_or("-", |failure| failure.class.as_str());
                    writeln!(
                        told,
                        "  {object} is {} {} ({class}){since}; by itself {} {}",
                        verdict.status, verdict.reason, own.status, own.reason
                    )
                    .unwrap();
                }
                // What is done was told; what is not must not pass for anything else.
                if matches!(target.state, State::Waiting | State::Failed) {
                    let (state, verdict) = (serde_json::to_value(target.state).unwrap(), &target.verdict);
                    writeln!(
                        told,
                        "  {} {} {}: {}: {}",
                        target.object,
                        state.as_str().unwrap(),
                        verdict.status,
                        verdict.reason,
                        verdict.message
                    )
                    .unwrap();
                }
                for cause in &target.causes {
                    for (depth, step) in cause.chain.iter().enumerate() {
                        let link = step.link.map_or_else(String::new, |link| format!("{link} "));
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
                        let run = if log.previous { " before" } else { "" };
                        let error =
                            log.error.as_ref().map_or_else(String::new, |error| format!("error: {error}"));
                        let shown: String = log.lines.join(" | ").chars().take(200).collect();
                        let shown = shown.escape_debug();
                        writeln!(
                            told,
                            "    log of {} {}{run}, {} lines: {shown}{error}",
                            log.pod,
                            log.container,
                            log.lines.len()
                        )
                        .unwrap();
                    }
                    if let Some(last) = cause.chain.last().filter(|last| last.summary != last.message) {
                        writeln!(told, "    summary: {}", last.summary).unwrap();
                    }
                    for remark in &cause.remarks {
                        writeln!(told, "    remark: {remark}").unwrap();
                    }
                    for next in &cause.next {
                        writeln!(told, "    next: {next}").unwrap();
                    }
                }
            }
        }
    }
}
