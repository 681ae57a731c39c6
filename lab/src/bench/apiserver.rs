//! Benchmark of the API server: kube-apiserver with a synced etcd, and `settled serve` on disk, with the same load program in
//! alternating rounds.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::Outcome;
use crate::bench::load::{Address, Client, Requests, namespace, requests};
use crate::bench::page::Page;
use crate::measure::{Rounds, Table, figure};
use crate::process::cpu_of;
use crate::server::{self, Kind, Server};

/// Required value of a figure.
#[derive(Clone, Copy)]
enum Bar {
    /// A maximum.
    Below(f64),
    /// A minimum ratio to kube-apiserver.
    Times(f64),
}

/// One row of the table.
struct Measure {
    name: &'static str,
    unit: &'static str,
    more_is_better: bool,
    bars: &'static [Bar],
}

const fn less(name: &'static str, unit: &'static str, bars: &'static [Bar]) -> Measure {
    Measure { name, unit, more_is_better: false, bars }
}

const fn more(name: &'static str, bars: &'static [Bar]) -> Measure {
    Measure { name, unit: "/s", more_is_better: true, bars }
}

const MEASURES: [Measure; 31] = [
    less("ready, first start", "ms", &[Bar::Below(100.0), Bar::Times(30.0)]),
    less("ready, second start", "ms", &[]),
    less("ready, with 10,000 ConfigMaps", "ms", &[]),
    less("memory, empty, after 5 s", "MB", &[]),
    less("memory, empty, after 20 s", "MB", &[Bar::Below(40.0), Bar::Times(7.0)]),
    less("memory, 10,000 ConfigMaps add", "MB", &[Bar::Below(30.0)]),
    less("memory, started with 10,000", "MB", &[]),
    less("memory, a CRD adds", "MB", &[Bar::Below(0.5)]),
    more("creates, 1 client", &[Bar::Times(3.0)]),
    less("creates, 1 client, p50", "ms", &[]),
    less("creates, 1 client, p99", "ms", &[]),
    more("creates, 16 clients", &[]),
    less("creates, 16 clients, p50", "ms", &[]),
    less("creates, 16 clients, p99", "ms", &[]),
    more("creates, 64 clients", &[Bar::Times(5.0)]),
    less("creates, 64 clients, p50", "ms", &[]),
    less("creates, 64 clients, p99", "ms", &[]),
    more("gets, 1 client", &[]),
    less("gets, 1 client, p50", "ms", &[]),
    less("gets, 1 client, p99", "ms", &[]),
    more("gets, 64 clients", &[]),
    less("gets, 64 clients, p50", "ms", &[]),
    less("gets, 64 clients, p99", "ms", &[]),
    less("list of 10,000", "ms", &[Bar::Times(5.0)]),
    less("list of 10,000, bytes", "MB", &[]),
    less("create to event, p50", "ms", &[]),
    less("create to event, p99", "ms", &[]),
    more("events to 1 watcher", &[]),
    more("events to 100 watchers", &[Bar::Times(3.0)]),
    more("events to 1,000 watchers", &[]),
    less("CRD to instance", "ms", &[Bar::Below(50.0)]),
];

/// Workload sizes.
struct Plan {
    starts: usize,
    rounds: usize,
    /// Number of ConfigMaps.
    objects: usize,
    definitions: usize,
    /// Half of the idle time before memory is measured again.
    idle: Duration,
    /// Clients, creates and gets per round.
    clients: [(usize, usize, usize); 3],
    lists: usize,
    /// Watchers, connections and creates per round.
    watchers: [(usize, usize, usize); 3],
}

const FULL: Plan = Plan {
    starts: 5,
    rounds: 5,
    objects: 10_000,
    definitions: 100,
    idle: Duration::from_secs(5),
    clients: [(1, 500, 2000), (16, 3000, 0), (64, 5000, 10_000)],
    lists: 3,
    watchers: [(1, 1, 3000), (100, 10, 1500), (1000, 50, 150)],
};

const SMOKE: Plan = Plan {
    starts: 1,
    rounds: 1,
    objects: 200,
    definitions: 5,
    idle: Duration::from_millis(100),
    clients: [(1, 20, 20), (16, 64, 0), (64, 128, 128)],
    lists: 1,
    watchers: [(1, 1, 64), (100, 10, 32), (1000, 50, 16)],
};

/// A server with its measurements.
struct Side {
    kind: Kind,
    server: Option<Server>,
    address: Option<Address>,
    rounds: Vec<Rounds>,
    /// CPU time in µs per operation: of the server, and of the load program.
    cpu: Vec<[Rounds; 2]>,
    /// Rounds in which the server closed a watch early, by measure.
    lost: BTreeMap<&'static str, usize>,
}

impl Side {
    fn server(&mut self) -> Outcome<&mut Server> {
        self.server.as_mut().ok_or_else(|| "the server does not run".into())
    }

    fn address(&self) -> Outcome<&Address> {
        self.address.as_ref().ok_or_else(|| "the server does not run".into())
    }

    fn push(&mut self, name: &str, value: f64) -> Outcome<()> {
        let at = MEASURES.iter().position(|measure| measure.name == name);
        self.rounds[at.ok_or_else(|| format!("no such measure: {name}"))?].push(value);
        Ok(())
    }

    /// The server's resident memory in MB, all its processes.
    fn memory(&self) -> Outcome<f64> {
        let ids = self.server.as_ref().map(Server::ids).unwrap_or_default();
        let mut kibibytes = 0_u64;
        for id in ids {
            let status = fs::read_to_string(format!("/proc/{id}/status"))?;
            let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
            let line = line.and_then(|line| line.trim().strip_suffix("kB")).ok_or("no VmRSS")?;
            kibibytes += line.trim().parse::<u64>()?;
        }
        Ok(kibibytes as f64 * 1024.0 / 1e6)
    }

    fn cpu(&self) -> Outcome<[Duration; 2]> {
        let mut total = Duration::ZERO;
        for id in self.server.as_ref().map(Server::ids).unwrap_or_default() {
            total += cpu_of(&id.to_string())?;
        }
        Ok([total, cpu_of("self")?])
    }

    /// The end of the server's log.
    fn last_words(&self) -> String {
        self.server.as_ref().map_or_else(String::new, Server::last_words)
    }

    /// Runs a function, and records its CPU time per operation.
    fn metered<T>(
        &mut self,
        name: &str,
        operations: usize,
        work: impl FnOnce(&Address) -> Outcome<T>,
    ) -> Outcome<T> {
        let before = self.cpu()?;
        let failed = |why| format!("{:?}, {name}: {why}; {}", self.kind, self.last_words());
        let result = work(self.address()?).map_err(failed)?;
        let after = self.cpu()?;
        let at = MEASURES.iter().position(|measure| measure.name == name);
        let at = at.ok_or_else(|| format!("no such measure: {name}"))?;
        for (who, (before, after)) in before.iter().zip(after).enumerate() {
            let used = after.saturating_sub(*before).as_secs_f64() * 1e6;
            self.cpu[at][who].push(used / operations as f64);
        }
        Ok(result)
    }
}

/// Runs and prints everything. False if a bar is missed. A smoke run measures only settled, and ignores bars; so does a comparison with an
/// earlier binary, which is not published.
pub(crate) fn run(smoke: bool, write_docs: bool) -> Outcome<bool> {
    let is_compared = server::earlier().is_some();
    let mut page = Page::new("apiserver", write_docs && !smoke && !is_compared);
    page.machine("cargo xtask bench apiserver --write-docs")?;
    let plan = if smoke { SMOKE } else { FULL };
    let kinds: &[Kind] = match (smoke, is_compared) {
        (true, false) => &[Kind::OursOnDisk],
        (_, true) => &[Kind::EarlierOnDisk, Kind::OursOnDisk],
        (false, false) => &[Kind::RealOnDisk, Kind::OursOnDisk],
    };
    let unbarred = smoke || is_compared;
    let mut sides: Vec<Side> = kinds
        .iter()
        .map(|&kind| Side {
            kind,
            server: None,
            address: None,
            rounds: vec![Rounds::default(); MEASURES.len()],
            cpu: vec![<[Rounds; 2]>::default(); MEASURES.len()],
            lost: BTreeMap::new(),
        })
        .collect();
    let measured = measure(&plan, &mut sides);
    if let Ok(false) = measured {
        return Ok(true);
    }
    page.line(&format!("{} rounds, alternating; medians.", plan.rounds));
    let met = print(&mut page, &sides, unbarred);
    // Measurements before an error are printed all the same; only complete runs are published.
    measured?;
    page.publish()?;
    Ok(met || unbarred)
}

/// False if a server is not available.
fn measure(plan: &Plan, sides: &mut [Side]) -> Outcome<bool> {
    for round in 0..plan.starts {
        for side in in_turn(sides, round) {
            let Some(mut server) = server::start(side.kind)? else { return Ok(false) };
            side.push("ready, first start", millis(server.took))?;
            server.restart()?;
            side.push("ready, second start", millis(server.took))?;
        }
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;

    progress("memory");
    for side in &mut *sides {
        let Some(server) = server::start(side.kind)? else { return Ok(false) };
        side.address = Some(Address::new(&server.url, &server.ca)?);
        side.server = Some(server);
    }
    std::thread::sleep(plan.idle);
    for side in &mut *sides {
        side.push("memory, empty, after 5 s", side.memory()?)?;
    }
    std::thread::sleep(plan.idle * 3);
    for side in &mut *sides {
        let empty = side.memory()?;
        side.push("memory, empty, after 20 s", empty)?;
        let address = side.address()?;
        runtime.block_on(async {
            namespace(&address.connect().await?, "list").await?;
            creates(address, "list", 16, plan.objects).await
        })?;
    }
    std::thread::sleep(plan.idle * 2);
    for side in &mut *sides {
        let empty = side.rounds[4].median();
        let full = side.memory()?;
        side.push("memory, 10,000 ConfigMaps add", full - empty)?;
        let server = side.server()?;
        server.restart()?;
        let (took, address) = (millis(server.took), Address::new(&server.url, &server.ca)?);
        side.push("ready, with 10,000 ConfigMaps", took)?;
        side.address = Some(address);
    }
    std::thread::sleep(plan.idle * 2);
    for side in &mut *sides {
        side.push("memory, started with 10,000", side.memory()?)?;
    }

    for round in 0..plan.rounds {
        progress(&format!("round {} of {}", round + 1, plan.rounds));
        // Each measure runs on both servers in turn, so that noise affects both.
        for (clients, count, gets_count) in plan.clients {
            for side in in_turn(sides, round) {
                create_rounds(&runtime, side, round, clients, count)?;
            }
            for side in in_turn(sides, round).filter(|_| gets_count > 0) {
                get_rounds(&runtime, side, clients, gets_count, plan.objects)?;
            }
        }
        for side in in_turn(sides, round) {
            list_round(&runtime, side, plan)?;
        }
        for (watchers, connections, count) in plan.watchers {
            for side in in_turn(sides, round) {
                watch_round(&runtime, side, round, (watchers, connections, count))?;
            }
        }
        for side in in_turn(sides, round) {
            let address = side.address()?;
            let took = runtime
                .block_on(async { define(&address.connect().await?, &format!("round{round}")).await })?;
            side.push("CRD to instance", millis(took))?;
        }
    }

    progress("definitions");
    for side in &mut *sides {
        let before = side.memory()?;
        let client = runtime.block_on(side.address()?.connect())?;
        for number in 0..plan.definitions {
            runtime.block_on(define(&client, &format!("many{number}")))?;
        }
        std::thread::sleep(plan.idle * 2);
        let grown = side.memory()? - before;
        side.push("memory, a CRD adds", grown / plan.definitions as f64)?;
    }
    Ok(true)
}

/// Runs one after the other, in rotating order.
fn in_turn(sides: &mut [Side], round: usize) -> impl Iterator<Item = &mut Side> {
    let turn = round % sides.len().max(1);
    let (first, rest) = sides.split_at_mut(turn);
    rest.iter_mut().chain(first)
}

fn progress(what: &str) {
    println!("… {what}");
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// The percentile of the times.
fn percentile(times: &mut [Duration], percent: usize) -> f64 {
    times.sort_unstable();
    let at = (times.len() * percent / 100).min(times.len().saturating_sub(1));
    times.get(at).copied().map_or(f64::NAN, millis)
}

/// Records the times of requests.
fn note(side: &mut Side, name: &str, done: Requests) -> Outcome<()> {
    let Requests { elapsed, mut times } = done;
    side.push(name, times.len() as f64 / elapsed.as_secs_f64())?;
    side.push(&format!("{name}, p50"), percentile(&mut times, 50))?;
    side.push(&format!("{name}, p99"), percentile(&mut times, 99))
}

fn clients_text(clients: usize) -> String {
    if clients == 1 { "1 client".to_owned() } else { format!("{clients} clients") }
}

fn create_rounds(
    runtime: &Runtime,
    side: &mut Side,
    round: usize,
    clients: usize,
    count: usize,
) -> Outcome<()> {
    let name = format!("creates, {}", clients_text(clients));
    let namespace_name = format!("creates-{clients}-{round}");
    let done = side.metered(&name, count, |address| {
        runtime.block_on(async {
            namespace(&address.connect().await?, &namespace_name).await?;
            creates(address, &namespace_name, clients, count).await
        })
    })?;
    note(side, &name, done)
}

fn get_rounds(
    runtime: &Runtime,
    side: &mut Side,
    clients: usize,
    count: usize,
    objects: usize,
) -> Outcome<()> {
    let name = format!("gets, {}", clients_text(clients));
    let get = move |client: Client, number: usize| async move {
        // A step coprime to their number visits all of them, out of order.
        let path = format!("/api/v1/namespaces/list/configmaps/{}", object_name(number * 7919 % objects));
        client.expect(200, Method::GET, &path, Bytes::new()).await.map(drop)
    };
    let done =
        side.metered(&name, count, |address| runtime.block_on(requests(address, clients, count, get)))?;
    note(side, &name, done)
}

fn list_round(runtime: &Runtime, side: &mut Side, plan: &Plan) -> Outcome<()> {
    let client = runtime.block_on(side.address()?.connect())?;
    let mut times = Vec::new();
    let mut bytes = 0;
    side.metered("list of 10,000", plan.lists, |_| {
        for _ in 0..plan.lists {
            let start = Instant::now();
            let path = "/api/v1/namespaces/list/configmaps";
            bytes = runtime.block_on(client.expect(200, Method::GET, path, Bytes::new()))?.bytes;
            times.push(start.elapsed());
        }
        Ok(())
    })?;
    side.push("list of 10,000", percentile(&mut times, 50))?;
    side.push("list of 10,000, bytes", bytes as f64 / 1e6)
}

/// 16 writers, and watches of the written objects: from the first request to the last event at the last watch.
fn watch_round(
    runtime: &Runtime,
    side: &mut Side,
    round: usize,
    (watchers, connections, count): (usize, usize, usize),
) -> Outcome<()> {
    let name = match watchers {
        1 => "events to 1 watcher",
        100 => "events to 100 watchers",
        _ => "events to 1,000 watchers",
    };
    let namespace_name = format!("events-{watchers}-{round}");
    let (address, started) = runtime.block_on(async {
        let address = side.address()?.clone();
        let client = address.connect().await?;
        namespace(&client, &namespace_name).await?;
        // Objects created by the server itself are not counted.
        tokio::time::sleep(Duration::from_millis(200)).await;
        let path = format!("/api/v1/namespaces/{namespace_name}/configmaps");
        let list = client.expect(200, Method::GET, &path, Bytes::new()).await?;
        let list: Value = serde_json::from_slice(&list.body)?;
        let revision = list.pointer("/metadata/resourceVersion").and_then(Value::as_str);
        let revision = revision.ok_or("a list has no revision")?;
        let path = format!("{path}?watch=true&resourceVersion={revision}");
        let mut started = Vec::new();
        for connection in 0..connections {
            let client = address.connect().await?;
            for _ in (connection..watchers).step_by(connections) {
                started.push(client.watch(&path).await?);
            }
        }
        Outcome::Ok((address, started))
    })?;
    let start = Instant::now();
    let sent = side.metered(name, count * watchers, |_| {
        runtime.block_on(async {
            let mut watching = JoinSet::new();
            let timed = started.len() == 1;
            for events in started {
                watching.spawn(async move {
                    match timed {
                        true => events.times(count).await,
                        false if events.count(count).await? => Ok(vec![]),
                        false => Err("a watch ended early".into()),
                    }
                });
            }
            let sent: Arc<Mutex<Vec<(usize, Instant)>>> = Arc::default();
            let create = {
                let (sent, path) = (sent.clone(), format!("/api/v1/namespaces/{namespace_name}/configmaps"));
                move |client: Client, number: usize| {
                    let path = path.clone();
                    if let (true, Ok(mut sent)) = (timed, sent.lock()) {
                        sent.push((number, Instant::now()));
                    }
                    async move { client.expect(201, Method::POST, &path, config_map(number)).await.map(drop) }
                }
            };
            requests(&address, 16, count, create).await?;
            let mut came = Vec::new();
            let mut lost = None;
            while let Some(times) = watching.join_next().await {
                match times? {
                    Ok(mut times) => came.append(&mut times),
                    Err(why) => lost = Some(why),
                }
            }
            let sent = sent.lock().map(|mut sent| std::mem::take(&mut *sent)).unwrap_or_default();
            Ok((sent, came, lost))
        })
    })?;
    let (mut sent, mut came, lost) = sent;
    if let Some(why) = lost {
        // A watch that is closed relists: the round took longer than anything measured of it.
        println!("{:?}, {name}: a lost round: {why}", side.kind);
        *side.lost.entry(name).or_default() += 1;
        return Ok(());
    }
    side.push(name, (count * watchers) as f64 / start.elapsed().as_secs_f64())?;
    if came.is_empty() {
        return Ok(());
    }
    sent.sort_unstable();
    came.sort_unstable();
    let mut delays: Vec<Duration> = sent.iter().zip(&came).map(|(sent, came)| came.1 - sent.1).collect();
    side.push("create to event, p50", percentile(&mut delays, 50))?;
    side.push("create to event, p99", percentile(&mut delays, 99))
}

async fn creates(address: &Address, namespace: &str, clients: usize, count: usize) -> Outcome<Requests> {
    let path: Arc<str> = format!("/api/v1/namespaces/{namespace}/configmaps").into();
    let create = move |client: Client, number: usize| {
        let path = path.clone();
        async move { client.expect(201, Method::POST, &path, config_map(number)).await.map(drop) }
    };
    requests(address, clients, count, create).await
}

fn object_name(number: usize) -> String {
    format!("settings-{number:06}")
}

/// A ConfigMap of 1.3 KB.
fn config_map(number: usize) -> Bytes {
    let line = format!("server.port=8080\nserver.name=web-{number:06}\nlog.level=info\ncache.size=256\n");
    let body = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": object_name(number),
            "labels": {"app.kubernetes.io/name": "web", "app.kubernetes.io/instance": format!("web-{}", number % 10)},
        },
        "data": {
            "application.properties": line.repeat(8),
            "logging.properties": line.repeat(5),
            "mode": "production",
        },
    });
    body.to_string().into()
}

/// Creates a CRD and a custom resource; returns the elapsed time.
async fn define(client: &Client, word: &str) -> Outcome<Duration> {
    let group = format!("{word}.example.com");
    let body = definition(&group).to_string();
    let instance = json!({
        "apiVersion": format!("{group}/v1"), "kind": "Cluster", "metadata": {"name": "one"},
        "spec": {"part0": {"text0": "a", "number": 1}},
    });
    let (path, body, instance) = (
        format!("/apis/{group}/v1/namespaces/default/clusters"),
        Bytes::from(body),
        Bytes::from(instance.to_string()),
    );
    let start = Instant::now();
    let kinds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    client.expect(201, Method::POST, kinds, body).await?;
    while client.send(Method::POST, &path, instance.clone()).await?.status != 201 {
        if start.elapsed() > Duration::from_secs(60) {
            return Err("no instance of a new kind can be made".into());
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok(start.elapsed())
}

/// A CRD with a schema like those of large operators: 30 KB, 400 fields, mostly descriptions.
fn definition(group: &str) -> Value {
    let about = "This is what the operator does with the field, in about as many words as people write about their fields.";
    let text =
        |number: usize| json!({"type": "string", "description": format!("{about} It is field {number}.")});
    let part = |_: usize| {
        let mut properties: serde_json::Map<String, Value> =
            (0..8).map(|at| (format!("text{at}"), text(at))).collect();
        properties.insert(
            "number".to_owned(),
            json!({"type": "integer", "format": "int32", "minimum": 0, "default": 3}),
        );
        properties.insert(
            "labels".to_owned(),
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
        );
        properties.insert(
            "items".to_owned(),
            json!({
                "type": "array", "description": about, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "required": ["name"], "properties": {
                    "name": {"type": "string", "maxLength": 63}, "value": text(0),
                    "size": {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true},
                }},
            }),
        );
        json!({"type": "object", "description": about, "properties": properties})
    };
    let parts: serde_json::Map<String, Value> = (0..20).map(|at| (format!("part{at}"), part(at))).collect();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("clusters.{group}")},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "clusters", "singular": "cluster", "kind": "Cluster", "listKind": "ClusterList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": {"status": {}},
                "additionalPrinterColumns": [{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}],
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": parts},
                    "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                }}},
            }],
        },
    })
}

/// The tables, and whether all bars are met.
fn print(page: &mut Page, sides: &[Side], unbarred: bool) -> bool {
    let find = |kind| sides.iter().find(|side| side.kind == kind);
    let earlier = find(Kind::EarlierOnDisk);
    let other = if earlier.is_some() { "earlier `settled serve`" } else { "kube-apiserver + etcd" };
    let (real, own) = (earlier.or_else(|| find(Kind::RealOnDisk)), find(Kind::OursOnDisk));
    // Of two versions of a program, small differences count.
    let decimals = if earlier.is_some() { 2 } else { 1 };
    let median = |side: Option<&Side>, at: usize| side.map_or(f64::NAN, |side| side.rounds[at].median());
    let mut table = Table::new(["measure", "", other, "`settled serve`", "better", "bar", "met"]);
    let mut all_met = true;
    for (at, measure) in MEASURES.iter().enumerate() {
        let Measure { name, unit, more_is_better, bars } = measure;
        let (theirs, ours) = (median(real, at), median(own, at));
        let ratio = if *more_is_better { ours / theirs } else { theirs / ours };
        let met = bars.iter().all(|bar| match bar {
            Bar::Below(most) => ours < *most,
            Bar::Times(least) => ratio >= *least,
        });
        let bar = bars.iter().map(|bar| match bar {
            Bar::Below(most) => format!("< {}", trimmed(*most)),
            Bar::Times(least) => format!("{}x", trimmed(*least)),
        });
        let cell = |side: Option<&Side>, figure: String| match side.and_then(|side| side.lost.get(name)) {
            Some(lost) => format!("{figure} ({lost} lost)"),
            None => figure,
        };
        // A round in which our server closed a watch early counts as a missed bar.
        let met = met && own.is_none_or(|side| !side.lost.contains_key(name));
        all_met &= met;
        table.row([
            (*name).to_owned(),
            (*unit).to_owned(),
            cell(real, figure(theirs)),
            cell(own, figure(ours)),
            if ratio.is_finite() { format!("{ratio:.*}x", decimals) } else { "-".to_owned() },
            bar.collect::<Vec<_>>().join(", "),
            if bars.is_empty() || unbarred {
                String::new()
            } else if met {
                "yes".to_owned()
            } else {
                "NO".to_owned()
            },
        ]);
    }
    page.line("A round is lost where the server closed one of its watchers; it counts for no median.");
    page.table(&table);

    page.line("CPU, µs per request or event:");
    let mut table =
        Table::new(["measure", other, "load program", "`settled serve`", "load program", "better"]);
    for (at, measure) in MEASURES.iter().enumerate() {
        let cpu = |side: Option<&Side>, who: usize| side.map_or(f64::NAN, |side| side.cpu[at][who].median());
        if cpu(own, 0).is_finite() {
            let [theirs, their_load, ours, own_load] = [cpu(real, 0), cpu(real, 1), cpu(own, 0), cpu(own, 1)];
            let ratio = if (theirs / ours).is_finite() {
                format!("{:.*}x", decimals, theirs / ours)
            } else {
                "-".to_owned()
            };
            table.row([
                measure.name.to_owned(),
                figure(theirs),
                figure(their_load),
                figure(ours),
                figure(own_load),
                ratio,
            ]);
        }
    }
    page.table(&table);
    all_met
}

/// Formats a bar.
fn trimmed(value: f64) -> String {
    format!("{value}")
}
