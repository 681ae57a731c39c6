//! Hostile clients: maximally expensive requests, and endless bodies. Health checks, the administrator and other users
//! are still served, and memory is bounded.

use std::fmt;
use std::io::{Read as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use settled_conformance::{Client, Request, Target as _};

use super::socket::Greeting;
use super::{COLLECTION, Kept, Report, Running, Setting, begin, request, text};
use crate::Outcome;

const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
/// User with edit access to the namespace.
const EDITOR: &str = "alice";
/// Another such user.
const OTHER: &str = "bob";
/// User without permissions.
const STRANGER: &str = "carol";
/// Number of concurrent requests of each kind.
const AT_ONCE: usize = 8;
const MANAGERS: usize = 20_000;
const ITEMS: usize = 300_000;
const SLOW_BODIES: usize = 260;

/// Maximum latency of health checks during an attack.
const HEALTH: Duration = Duration::from_millis(100);
/// On a machine where health checks of the idle server are slow, the maximum is this multiple of their latency, up to a
/// second. With a blocked event loop, they take several seconds.
const NOISE: u32 = 5;
const MAX_HEALTH_LATENCY: Duration = Duration::from_secs(1);
/// Maximum latency of the administrator's requests.
const MAX_READ_LATENCY: Duration = Duration::from_secs(2);
/// Incomplete bodies time out after ten seconds.
const SLOW_BODY_ENDS: Duration = Duration::from_secs(20);

/// An attack and the expected responses.
struct Attack {
    name: &'static str,
    request: Request,
    code: u16,
    times: usize,
}

/// The slowest responses to other users.
#[derive(Clone, Copy, Debug, Default)]
struct Slowest {
    health: Duration,
    read: Duration,
    count: usize,
}

pub(super) fn run(setting: &Setting) -> Outcome<Report> {
    let mut report = Report::default();
    let mut running = begin(&setting.directory, Kept::InMemory)?;
    prepare(&running)?;
    let rest = Duration::from_secs(if setting.quick { 2 } else { 10 });
    let ((), idle) = probed(&running, || thread::sleep(rest))?;
    let bar = HEALTH.max(idle.health * NOISE).min(MAX_HEALTH_LATENCY);
    let (idle, most) = (idle.health.as_millis(), bar.as_millis());
    report.note(format!("idle: /livez took at most {idle} ms; the bar is {most} ms"));
    for attack in attacks() {
        let start = Instant::now();
        let (answers, slowest) = probed(&running, || send(&running, &attack))?;
        let took = start.elapsed().as_secs_f64();
        for answer in answers.iter().filter(|answer| answer.as_ref() != Ok(&attack.code)) {
            report.wrong.push(format!("{}: {answer:?}", attack.name));
        }
        let Attack { name, code, times, .. } = attack;
        report.note(format!("{name}: {times} answered with {code} in {took:.1} s; meanwhile {slowest}"));
        slowest.expect(&mut report, name, bar);
    }
    slow_bodies(&running, &mut report, bar)?;
    running.check(&mut report)?;
    Ok(report)
}

/// Creates the users, and a CRD with a maximally expensive schema.
fn prepare(running: &Running) -> Outcome<()> {
    let put = |path: &str, object: &Value| -> Outcome<()> {
        let answer = running.send("POST", path, object)?;
        match answer.status {
            201 => Ok(()),
            status => Err(format!("POST {path}: {status} {}", text(&answer.body)).into()),
        }
    };
    let defaults: Map<String, Value> = (0..20)
        .map(|number| (format!("field-{number}"), json!({"type": "string", "default": "0123456789"})))
        .collect();
    // 3^9 combinations.
    let tree =
        (0..9).fold(json!({"minimum": 1_000_000_000}), |below, _| json!({"anyOf": [below, below, below]}));
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "defaults": {"type": "array", "items": {"type": "object", "properties": defaults}},
        "tree": {"type": "array", "items": {"type": "integer", "anyOf": tree["anyOf"]}},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer"}},
    }}}});
    let crd = json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    });
    put("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &crd)?;
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    let rules = json!([{"apiGroups": ["example.com"], "resources": ["widgets"], "verbs": ["*"]}]);
    put(&format!("{rbac}/roles"), &json!({"metadata": {"name": "widgets"}, "rules": rules}))?;
    for (kind, role) in [("ClusterRole", "edit"), ("Role", "widgets")] {
        let user =
            |name: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name});
        let binding = json!({
            "metadata": {"name": role},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
            "subjects": [user(EDITOR), user(OTHER)],
        });
        put(&format!("{rbac}/rolebindings"), &binding)?;
    }
    let begun = Instant::now();
    while running.send("GET", WIDGETS, &Value::Null)?.status != 200 {
        if begun.elapsed() > super::PATIENCE {
            return Err("widgets are not served".into());
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn attacks() -> Vec<Attack> {
    let dry = |path: &str| format!("{path}?dryRun=All");
    let by_editor = |method: &str, path: &str, body: &Value| Request {
        user: EDITOR.to_owned(),
        ..request(method, path, body)
    };
    let names = || (0..MANAGERS).map(|number| format!("k{number:06}"));
    let data: Map<String, Value> = names().map(|name| (name, "x".into())).collect();
    let entry = |name: String| {
        json!({
            "manager": format!("m{name}"), "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {format!("f:{name}"): {}}},
        })
    };
    let managers: Vec<Value> = names().map(entry).collect();
    let crowded = json!({"metadata": {"name": "crowded", "managedFields": managers}, "data": data});
    let config =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "crowded"}, "data": data});
    let mut apply =
        by_editor("PATCH", &format!("{COLLECTION}/crowded?dryRun=All&fieldManager=hostile"), &config);
    apply.headers = vec![("Content-Type".to_owned(), "application/apply-patch+yaml".to_owned())];
    let widget = |spec: Value| {
        let widget = json!({
            "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "hostile"}, "spec": spec,
        });
        by_editor("POST", &dry(WIDGETS), &widget)
    };
    let numbers = |count: usize| (0..count).collect::<Value>();
    let twice: Value = (0..ITEMS).map(|number| number / 2).collect();
    let attack = |name, request, code, times| Attack { name, request, code, times };
    vec![
        attack("managers", by_editor("POST", &dry(COLLECTION), &crowded), 201, AT_ONCE),
        attack("apply", apply, 201, AT_ONCE),
        attack("defaults", widget(json!({"defaults": vec![json!({}); ITEMS]})), 413, 2),
        attack("alternatives", widget(json!({"tree": numbers(20_000)})), 422, 2),
        attack("set", widget(json!({"set": numbers(ITEMS)})), 201, 2),
        attack("set with duplicates", widget(json!({"set": twice})), 422, 2),
    ]
}

/// Sends a request repeatedly and concurrently; returns the status codes.
fn send(running: &Running, attack: &Attack) -> Vec<Result<u16, String>> {
    thread::scope(|scope| {
        let threads: Vec<_> =
            (0..attack.times).map(|_| scope.spawn(|| running.client.send(&attack.request))).collect();
        let answers = threads.into_iter().map(|thread| match thread.join() {
            Ok(Ok(answer)) => Ok(answer.status),
            Ok(Err(why)) => Err(why.to_string()),
            Err(_) => Err("a thread failed".to_owned()),
        });
        answers.collect()
    })
}

/// Checks health and reads as the administrator during an operation.
fn probed<T>(running: &Running, work: impl FnOnce() -> T) -> Outcome<(T, Slowest)> {
    let over = AtomicBool::new(false);
    // Separate connections: those of an attack may be busy.
    let client = || Client::new(&format!("https://{}", running.address), &running.ca);
    let (health, reader) = (client()?, client()?);
    let probe = |client: &Client, user: &str, path: &str| -> Result<(Duration, usize), String> {
        let request = Request { user: user.to_owned(), ..request("GET", path, &Value::Null) };
        let (mut slowest, mut count) = (Duration::ZERO, 0);
        while !over.load(Ordering::Relaxed) {
            let start = Instant::now();
            let answer = client.send(&request).map_err(|why| format!("{path}: {why}"))?;
            if answer.status != 200 {
                return Err(format!("{path}: {}", answer.status));
            }
            // The first request opens the connection.
            if count > 0 {
                slowest = slowest.max(start.elapsed());
            }
            count += 1;
            thread::sleep(Duration::from_millis(10));
        }
        Ok((slowest, count))
    };
    thread::scope(|scope| {
        let health = scope.spawn(|| probe(&health, "anonymous", "/livez"));
        let reader = scope.spawn(|| probe(&reader, "admin", "/api/v1/namespaces/default"));
        let done = work();
        over.store(true, Ordering::Relaxed);
        let failed = |_| "a thread failed";
        let (health, count) = health.join().map_err(failed)??;
        let (read, _) = reader.join().map_err(failed)??;
        Ok((done, Slowest { health, read, count }))
    })
}

impl Slowest {
    fn expect(self, report: &mut Report, name: &str, bar: Duration) {
        report.expect(self.count > 1, || format!("{name}: /livez was not answered at all"));
        report.expect(self.health <= bar, || format!("{name}: /livez took {} ms", self.health.as_millis()));
        report.expect(self.read <= MAX_READ_LATENCY, || {
            format!("{name}: an administrator's get took {} ms", self.read.as_millis())
        });
    }
}

impl fmt::Display for Slowest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { health, read, count } = self;
        let (health, read) = (health.as_millis(), read.as_millis());
        write!(f, "/livez took at most {health} ms, an administrator's get {read} ms ({count} times)")
    }
}

/// More incomplete bodies than the concurrency limit of writes, by a user without permissions.
fn slow_bodies(running: &Running, report: &mut Report, bar: Duration) -> Outcome<()> {
    let greeting = Greeting::new(running.address, &running.ca)?;
    let token = Request { user: STRANGER.to_owned(), ..request("POST", REVIEWS, &Value::Null) }
        .authorization()
        .unwrap_or_default();
    let head = format!(
        "POST {REVIEWS} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nAuthorization: {token}\r\n\
         Content-Length: 1000\r\n\r\n{{"
    );
    let mut slow = Vec::new();
    for _ in 0..SLOW_BODIES {
        let mut stream = greeting.tls(false)?;
        stream.write_all(head.as_bytes())?;
        stream.flush()?;
        slow.push(stream);
    }
    let begun = Instant::now();
    let review = json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}});
    let review = Request { user: OTHER.to_owned(), ..request("POST", REVIEWS, &review) };
    let others = || -> Result<usize, String> {
        for number in 0..20 {
            let answer = running.client.send(&review).map_err(|why| why.to_string())?;
            if answer.status != 201 {
                return Err(format!("request {number}: {} {}", answer.status, text(&answer.body)));
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(20)
    };
    let (answered, slowest) = probed(running, others)?;
    report.note(format!(
        "slow bodies: {SLOW_BODIES} of one user; another user's requests: {answered:?}; meanwhile {slowest}"
    ));
    report.expect(answered.is_ok(), || format!("slow bodies: another user: {answered:?}"));
    slowest.expect(report, "slow bodies", bar);
    let mut given_up = 0;
    for stream in &mut slow {
        let left = SLOW_BODY_ENDS.saturating_sub(begun.elapsed()).max(Duration::from_millis(1));
        stream.sock.set_read_timeout(Some(left))?;
        let mut answer = [0; 12];
        given_up += usize::from(stream.read_exact(&mut answer).is_ok() && answer == *b"HTTP/1.1 408");
    }
    let after = begun.elapsed().as_secs_f64();
    report.note(format!("slow bodies: {given_up} answered with 408 after {after:.1} s"));
    report.expect(given_up == SLOW_BODIES, || format!("slow bodies: only {given_up} timed out"));
    Ok(())
}
