//! Benchmark of caches of the Pods owned by DaemonSets, in a cluster with many other Pods: ours, kube-rs' reflector,
//! client-go's informer with and without a transform, and controller-runtime's cache, each in a process of its own on
//! the same server.

use std::env;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::load::{Address, Client, namespace, requests};
use super::page::Page;
use super::reflector;
use crate::cluster::Place;
use crate::examples::{self, Beside};
use crate::measure::{Rounds, Table, figure};
use crate::oracle::{self, Oracle};
use crate::server::{self, Kind};
use crate::{Outcome, process};

/// Workload sizes.
#[derive(Clone, Copy)]
struct Plan {
    pods: usize,
    /// Number of timed changes.
    changes: usize,
    /// Idle time of a cache after its initial list.
    quiet: Duration,
}

const FULL: Plan = Plan { pods: 15_000, changes: 500, quiet: Duration::from_secs(3) };
const SMOKE: Plan = Plan { pods: 500, changes: 20, quiet: Duration::ZERO };

/// One in this many Pods is owned by a DaemonSet.
const OWNED: usize = 10;
/// Environment variables of a container: with them, a Pod has about 12 KB of JSON, and 40 KB of YAML, much of it
/// indentation.
const VARIABLES: usize = 40;
/// Timeout of an initial list, and of a change.
const LIMIT: Duration = Duration::from_secs(600);
const NAMESPACE: &str = "founding";
/// Memory bar of our cache.
const MEMORY_BELOW: f64 = 25.0;

/// Compared caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holder {
    Settled,
    Reflector,
    Informer,
    Transform,
    ControllerRuntime,
}

impl Holder {
    const ALL: [Self; 5] =
        [Self::Settled, Self::Reflector, Self::Informer, Self::Transform, Self::ControllerRuntime];

    fn name(self) -> &'static str {
        match self {
            Self::Settled => "settled-controller: Cache",
            Self::Reflector => "kube-rs: reflector",
            Self::Informer => "client-go: informer",
            Self::Transform => "client-go: informer with transform",
            Self::ControllerRuntime => "controller-runtime: ByObject, transform",
        }
    }

    fn command(self, programs: &Programs) -> Outcome<Option<Command>> {
        let go = |mode: &str| {
            programs.go.as_ref().map(|program| {
                let mut command = Command::new(program);
                command.arg(mode);
                command
            })
        };
        let command = match self {
            Self::Settled => Some(Command::new(&programs.ours)),
            Self::Reflector => {
                let mut command = Command::new(env::current_exe()?);
                command.args(["bench", reflector::CHILD]);
                Some(command)
            }
            Self::Informer => go("informer"),
            Self::Transform => go("transform"),
            Self::ControllerRuntime => go("controller-runtime"),
        };
        Ok(command.map(|mut command| {
            command.arg(NAMESPACE);
            command.args((self == Self::Reflector).then_some(reflector::REPORT));
            command
        }))
    }
}

struct Programs {
    ours: PathBuf,
    /// `None` if Go is not available.
    go: Option<PathBuf>,
}

/// Measurements of a cache.
struct Measured {
    holder: Holder,
    objects: String,
    peak_megabytes: f64,
    seconds: f64,
    cpu_seconds: f64,
    /// Milliseconds from sending a write to its report.
    changes: Rounds,
}

/// Runs `bench cache [--smoke] [--write-docs]`; false if a bar is missed.
pub(crate) fn run(smoke: bool, write_docs: bool) -> Outcome<bool> {
    if smoke && write_docs {
        return Err("--write-docs cannot be combined with --smoke".into());
    }
    let plan = if smoke { SMOKE } else { FULL };
    let mut page = Page::new("cache", write_docs);
    page.machine("cargo xtask bench cache --write-docs")?;
    let go = match oracle::build("cache")? {
        Oracle::Ready(program) => Some(program),
        Oracle::Skipped(why) => {
            println!("SKIPPED: caches in Go: {why}");
            None
        }
    };
    // A short run takes the one that the tests have built: what it shows is that the benchmark works.
    let beside = if smoke { Beside::Tests } else { Beside::Small };
    let ours = examples::build("settled-controller", "daemonset_pods", beside)?;
    let programs = Programs { ours, go };
    let Some(server) = server::start(Kind::OursAlone)? else { return Ok(true) };
    let Some(place) = Place::new(&server, &[])? else { return Ok(true) };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let address = Address::new(&server.url, &server.ca)?;
    println!("… {} Pods", plan.pods);
    let size = fill(&runtime, &address, plan.pods)?;
    let mut measured = Vec::new();
    for (round, holder) in Holder::ALL.into_iter().enumerate() {
        let Some(mut command) = holder.command(&programs)? else { continue };
        println!("… {}", holder.name());
        place.environment(&mut command);
        let log = place.directory.join(format!("{round}.log"));
        let mut held = Held::start(command, log)?;
        let result = held.measure(holder, plan, round, &runtime, &address);
        measured.push(result.map_err(|error| format!("{}: {error}: {}", holder.name(), held.last_words()))?);
    }
    page.line(&format!("### {} Pods of {size} bytes, of which one in {OWNED} is a DaemonSet's", plan.pods));
    page.line("The most memory; from the start of the process until all Pods were read; processor time by then; and from a write, as it is sent, to its report.");
    page.table(&table(&measured));
    let bars = bars(&measured);
    let mut met = true;
    if !bars.is_empty() {
        let mut table = Table::new(["bar", "wanted", "is", "met"]);
        for [what, wanted, is, holds] in bars {
            met &= holds == "yes";
            table.row([what, wanted, is, holds]);
        }
        page.line("Bars:");
        page.table(&table);
    }
    page.publish()?;
    // A short run with few Pods only tests the benchmark.
    Ok(met || smoke)
}

fn table(measured: &[Measured]) -> Table {
    let mut table = Table::new([
        "cache",
        "objects",
        "peak MB",
        "synced, s",
        "CPU, s",
        "change, ms, p50",
        "change, ms, p99",
    ]);
    for row in measured {
        table.row([
            row.holder.name().to_owned(),
            row.objects.clone(),
            figure(row.peak_megabytes),
            figure(row.seconds),
            figure(row.cpu_seconds),
            figure(row.changes.percentile(50)),
            figure(row.changes.percentile(99)),
        ]);
    }
    table
}

/// A bar, and whether it is met.
fn bars(measured: &[Measured]) -> Vec<[String; 4]> {
    let Some(ours) = measured.iter().find(|row| row.holder == Holder::Settled) else { return Vec::new() };
    let others = || measured.iter().filter(|row| row.holder != Holder::Settled);
    let best = |of: fn(&Measured) -> f64| others().map(of).fold(f64::INFINITY, f64::min);
    let bar = |what: &str, wanted: f64, is: f64, unit: &str, holds: bool| {
        let wanted = format!("at most {} {unit}", figure(wanted));
        let met = if holds { "yes" } else { "NO" };
        [what.to_owned(), wanted, format!("{} {unit}", figure(is)), met.to_owned()]
    };
    let (memory, peak) = (best(|row| row.peak_megabytes) / 10.0, ours.peak_megabytes);
    let (synced, seconds) = (best(|row| row.seconds) / 2.0, ours.seconds);
    let mut bars = vec![
        bar("memory, in all", MEMORY_BELOW, peak, "MB", peak < MEMORY_BELOW),
        bar("memory, a tenth of the best", memory, peak, "MB", peak <= memory),
        bar("synced, half of the best", synced, seconds, "s", seconds <= synced),
    ];
    if let Some(informer) = others().find(|row| row.holder == Holder::Informer) {
        for (name, percent) in [("p50", 50), ("p99", 99)] {
            let [theirs, own] = [informer, ours].map(|row| row.changes.percentile(percent));
            bars.push(bar(&format!("a change, {name}, client-go's"), theirs, own, "ms", own <= theirs));
        }
    }
    bars
}

/// Creates the Pods. Returns the size of one in the server's response.
fn fill(runtime: &Runtime, address: &Address, count: usize) -> Outcome<usize> {
    let path: Arc<str> = format!("/api/v1/namespaces/{NAMESPACE}/pods").into();
    let first = format!("{path}/{}", name(0));
    runtime.block_on(async {
        let client = address.connect().await?;
        namespace(&client, NAMESPACE).await?;
        let create = move |client: Client, number: usize| {
            let (path, body) = (path.clone(), Bytes::from(pod(number).to_string()));
            async move { client.expect(201, Method::POST, &path, body).await.map(drop) }
        };
        requests(address, 16, count, create).await?;
        Ok(client.expect(200, Method::GET, &first, Bytes::new()).await?.bytes)
    })
}

fn name(number: usize) -> String {
    format!("pod-{number:06}")
}

/// A realistic Pod: probes, limits, mounts, tolerations, a sidecar and many variables.
fn pod(number: usize) -> Value {
    let name = name(number);
    let owner = if number.is_multiple_of(OWNED) {
        ["DaemonSet", "node-agent"]
    } else {
        ["ReplicaSet", "web-5d4f8c7b9"]
    };
    let variables: Vec<Value> = (0..VARIABLES)
        .map(|at| json!({"name": format!("VARIABLE_{at:04}"), "value": format!("{name}-{at:04}-{}", "x".repeat(40))}))
        .collect();
    let probe = json!({"httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 10, "timeoutSeconds": 1, "failureThreshold": 3, "successThreshold": 1});
    let container = |container: &str, env: Value| {
        json!({
            "name": container, "image": format!("registry.example/{container}:1.2.3"), "env": env,
            "ports": [{"containerPort": 8080, "name": "http", "protocol": "TCP"}],
            "resources": {"limits": {"cpu": "500m", "memory": "256Mi"}, "requests": {"cpu": "100m", "memory": "128Mi"}},
            "livenessProbe": probe, "readinessProbe": probe,
            "volumeMounts": [{"name": "config", "mountPath": "/etc/config", "readOnly": true}, {"name": "cache", "mountPath": "/var/cache"}],
            "securityContext": {"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "runAsNonRoot": true},
        })
    };
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": {"app.kubernetes.io/name": owner[1], "app.kubernetes.io/part-of": "shop", "pod-template-hash": "5d4f8c7b9"},
            "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "8080", "checksum/config": "0".repeat(64)},
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": owner[0], "name": owner[1],
                "uid": "00000000-0000-4000-8000-000000000001", "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": {
            "nodeName": format!("node-{}", number % 500),
            "containers": [container("app", json!(variables)), container("sidecar", json!([]))],
            "volumes": [{"name": "config", "configMap": {"name": "config"}}, {"name": "cache", "emptyDir": {}}],
            "tolerations": [
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
                {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
            ],
        },
    })
}

/// A cache process. It is killed when this is dropped.
struct Held {
    child: Child,
    started: Instant,
    lines: Receiver<(Instant, String)>,
    log: PathBuf,
    /// Kills the process when dropped.
    _input: Option<ChildStdin>,
}

impl Held {
    fn start(mut command: Command, log: PathBuf) -> Outcome<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(File::create(&log)?);
        let started = Instant::now();
        let mut child = process::started(command.spawn(), &command)?;
        let output = child.stdout.take().ok_or("it has no output")?;
        let input = child.stdin.take();
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send((Instant::now(), line)).is_err() {
                    return;
                }
            }
        });
        Ok(Self { child, started, lines, log, _input: input })
    }

    /// The next line with this prefix: its time, and its rest.
    fn line(&self, beginning: &str) -> Outcome<(Instant, String)> {
        let until = Instant::now() + LIMIT;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let (at, line) =
                self.lines.recv_timeout(left).map_err(|_| format!("it does not report \"{beginning}\""))?;
            if let Some(rest) = line.strip_prefix(beginning) {
                return Ok((at, rest.trim().to_owned()));
            }
        }
    }

    fn measure(
        &mut self,
        holder: Holder,
        plan: Plan,
        round: usize,
        runtime: &Runtime,
        address: &Address,
    ) -> Outcome<Measured> {
        let (synced, objects) = self.line("synced ")?;
        let id = self.child.id();
        let cpu = process::cpu_of(&id.to_string())?;
        thread::sleep(plan.quiet);
        // Only now: the server closes connections that are idle for as long as some caches take.
        let client = runtime.block_on(address.connect())?;
        let mut changes = Rounds::default();
        for change in 0..plan.changes {
            let name = name(change * OWNED % plan.pods);
            let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/{name}/status");
            let address = format!("10.{round}.{}.{}", change / 250, change % 250);
            let body = Bytes::from(json!({"status": {"phase": "Running", "podIP": address}}).to_string());
            let sent = Instant::now();
            runtime.block_on(client.expect(200, Method::PATCH, &path, body))?;
            let (reported, _) = self.line(&format!("changed {name}"))?;
            changes.push(reported.saturating_duration_since(sent).as_secs_f64() * 1e3);
            // At irregular intervals, as in a cluster.
            thread::sleep(Duration::from_millis(5));
        }
        let peak = process::high_water_mark(id).ok_or("it has ended")?;
        Ok(Measured {
            holder,
            objects,
            peak_megabytes: peak as f64 / 1e6,
            seconds: synced.saturating_duration_since(self.started).as_secs_f64(),
            cpu_seconds: cpu.as_secs_f64(),
            changes,
        })
    }

    /// The end of its output.
    fn last_words(&self) -> String {
        let said = std::fs::read_to_string(&self.log).unwrap_or_default();
        said.lines().rev().take(3).collect::<Vec<_>>().join("; ")
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(holder: Holder, megabytes: f64, seconds: f64, millis: f64) -> Measured {
        let mut changes = Rounds::default();
        changes.push(millis);
        let objects = "1".to_owned();
        Measured { holder, objects, peak_megabytes: megabytes, seconds, cpu_seconds: 0.0, changes }
    }

    #[test]
    fn bars_are_against_the_best() {
        let others =
            [measured(Holder::Informer, 500.0, 4.0, 2.0), measured(Holder::Transform, 120.0, 3.0, 1.0)];
        for (ours, expected) in [
            ([12.0, 1.5, 2.0], ["yes", "yes", "yes", "yes", "yes"]),
            ([12.1, 1.5, 2.0], ["yes", "NO", "yes", "yes", "yes"]),
            ([26.0, 1.6, 2.1], ["NO", "NO", "NO", "NO", "NO"]),
        ] {
            let [megabytes, seconds, millis] = ours;
            let mut all = vec![measured(Holder::Settled, megabytes, seconds, millis)];
            all.extend(others.iter().map(|row| {
                measured(row.holder, row.peak_megabytes, row.seconds, row.changes.percentile(50))
            }));
            let bars = bars(&all);
            assert_eq!(bars.iter().map(|[_, _, _, met]| &**met).collect::<Vec<_>>(), expected);
        }
    }
}
