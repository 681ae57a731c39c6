//! Shared parts of the wait benchmark: server, tools, and written statuses.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::objects::object;
use crate::Outcome;
use crate::bench::load::{Address, Client, namespace, requests};
use crate::bench::page::Page;
use crate::bench::waiters::{By, Ended, OBJECTS, Tool, Wait, Waited, Waiter, command};
use crate::cluster::Place;
use crate::server::{Kind, Server};

/// Workload sizes.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    pub(super) rounds: usize,
    pub(super) pods: &'static [usize],
    pub(super) deployments: &'static [usize],
    /// Rounds and Pods of the 99th percentile, measured for settled only.
    pub(super) tail: (usize, &'static [usize]),
    /// Timeout, per round, of a tool that does not detect a failure.
    pub(super) failure_limit: Duration,
    /// Single longer timeout of those tools, and of settled with its default grace period.
    pub(super) patience: Duration,
    /// Number and size of Pods in the namespace, of which 50 are tracked.
    pub(super) among: &'static [usize],
    /// Number of Pods that are all tracked.
    pub(super) all: usize,
    /// Number of Pods and Deployments for counting requests, and idle time before it.
    pub(super) counted: (usize, usize),
    pub(super) quiet: Duration,
}

/// Sizes of Pods: untracked ones, and all tracked.
pub(super) const BYTES: [usize; 2] = [10_000, 12_500];
/// Timeout of a tool after all objects are ready.
pub(super) const LIMIT: Duration = Duration::from_secs(600);

/// A bar, and whether it is met.
pub(super) struct Bar {
    pub(super) what: String,
    pub(super) wanted: String,
    pub(super) is: String,
    pub(super) met: bool,
    /// Whether it is independent of the machine's speed: short runs must meet it, too.
    pub(super) always: bool,
}

/// The server, if not `settled serve`.
pub(super) fn on(kind: Kind) -> &'static str {
    if kind == Kind::RealOnDisk { ", on kube-apiserver" } else { "" }
}

pub(super) struct Bench {
    pub(super) plan: Plan,
    pub(super) kind: Kind,
    pub(super) tools: Vec<Tool>,
    pub(super) server: Server,
    pub(super) place: Place,
    pub(super) informer: Option<PathBuf>,
    pub(super) runtime: Runtime,
    pub(super) address: Address,
    pub(super) client: Client,
    pub(super) namespaces: usize,
    pub(super) page: Page,
}

/// Time of the last status write.
#[derive(Clone, Copy)]
pub(super) struct Written {
    /// Time of sending the request: start of the measured latency.
    pub(super) sent: Instant,
    /// Time of the response.
    pub(super) answered: Instant,
}

impl Written {
    /// Milliseconds from sending the last write to the exit of a tool.
    pub(super) fn until(self, ended: Ended) -> f64 {
        millis(ended.at.saturating_duration_since(self.sent))
    }
}

impl Bench {
    /// A new namespace for each round.
    pub(super) fn namespace(&mut self) -> Outcome<String> {
        self.namespaces += 1;
        // kube-apiserver closes connections that are idle for 90 s, and some tools take minutes.
        self.client = self.runtime.block_on(self.address.connect())?;
        let name = format!("round-{}", self.namespaces);
        self.runtime.block_on(namespace(&self.client, &name))?;
        Ok(name)
    }

    pub(super) fn create(&self, path: &str, objects: Vec<Bytes>) -> Outcome<()> {
        let (path, objects) = (Arc::<str>::from(path), Arc::new(objects));
        let count = objects.len();
        let create = move |client: Client, number: usize| {
            let (path, body) = (path.clone(), objects[number].clone());
            async move { client.expect(201, Method::POST, &path, body).await.map(drop) }
        };
        self.runtime.block_on(requests(&self.address, 16, count, create)).map(drop)
    }

    /// Writes the statuses of these objects, the last one after all others.
    pub(super) fn write(&self, path: &str, names: &[String], status: &Value) -> Outcome<Written> {
        let (last, others) = names.split_last().ok_or("there is nothing to write")?;
        let body = Bytes::from(json!({"status": status}).to_string());
        let (base, all) = (Arc::<str>::from(path), Arc::<[String]>::from(others));
        let patch = body.clone();
        let write = move |client: Client, number: usize| {
            let (path, body) = (format!("{base}/{}/status", all[number]), patch.clone());
            async move { client.expect(200, Method::PATCH, &path, body).await.map(drop) }
        };
        self.runtime.block_on(requests(&self.address, 16.min(others.len()), others.len(), write))?;
        let sent = Instant::now();
        let path = format!("{path}/{last}/status");
        self.runtime.block_on(self.client.expect(200, Method::PATCH, &path, body))?;
        Ok(Written { sent, answered: Instant::now() })
    }

    /// A chart with these objects.
    pub(super) fn chart(&self, objects: &[Bytes]) -> Outcome<PathBuf> {
        let directory = self.place.directory.join(format!("chart-{}", self.namespaces));
        fs::create_dir_all(directory.join("templates"))?;
        fs::write(directory.join("Chart.yaml"), "apiVersion: v2\nname: waited\nversion: 0.1.0\n")?;
        let text: Vec<String> = objects.iter().map(|one| String::from_utf8_lossy(one).into_owned()).collect();
        fs::write(directory.join(OBJECTS), text.join("\n---\n"))?;
        Ok(directory)
    }

    /// Starts a tool on objects that are not ready; returns when they exist, and the tool has had time to read all of
    /// them.
    pub(super) fn start(&mut self, tool: Tool, setting: &Setting<'_>) -> Outcome<Started> {
        let namespace = match setting.namespace {
            Some(name) => name.to_owned(),
            None => self.namespace()?,
        };
        let Setting { kind, count, limit, memory, label, by, more, .. } = *setting;
        let names: Vec<String> = (0..count).map(|at| format!("{}-{at:06}", setting.prefix)).collect();
        let objects: Vec<Bytes> = names.iter().map(|name| object(kind, name, label, setting.bytes)).collect();
        let path = kind.path(&namespace);
        let chart = self.chart(&objects)?;
        let wait = Wait { kind, namespace: &namespace, by, count, limit, chart: &chart, more };
        let command = command(tool, &self.place, &wait)?;
        let log = self.place.directory.join(format!("{namespace}-{}.log", setting.prefix));
        let waiter = if tool == Tool::Helm {
            let selector = label.map_or_else(String::new, |label| format!("&labelSelector={label}"));
            let watched = format!("{path}?watch=true{selector}");
            let mut events = self.runtime.block_on(self.client.watch(&watched))?;
            let waiter = Waiter::start(command, log, memory)?;
            let made = async {
                // Another watch starts with all existing objects.
                while !events.count(count).await? {
                    events = self.client.watch(&watched).await?;
                }
                Outcome::Ok(())
            };
            // Otherwise a rejected install would be waited for.
            let made = async { tokio::time::timeout(Duration::from_secs(300), made).await };
            self.runtime.block_on(made).map_err(|_| {
                format!("{}: not all objects were made: {}", tool.name(), waiter.last_words())
            })??;
            waiter
        } else {
            self.create(&path, objects)?;
            Waiter::start(command, log, memory)?
        };
        let mut started = Started { namespace, path, names, waiter };
        // Long enough to read all objects, plus a different fraction of a second in each round, for tools that poll
        // once a second.
        let part = self.namespaces as u64 * 137;
        let pause = if setting.soon { 300 + part % 200 } else { 1000 + count.min(7000) as u64 + part % 1000 };
        started.still_waits(tool, Duration::from_millis(pause))?;
        Ok(started)
    }

    /// The size of an object in the server's response.
    pub(super) fn size(&self, path: &str) -> Outcome<usize> {
        Ok(self.runtime.block_on(self.client.expect(200, Method::GET, path, Bytes::new()))?.bytes)
    }

    pub(super) fn fill(&self, namespace: &str, prefix: &str, count: usize, bytes: usize) -> Outcome<()> {
        let path: Arc<str> = Waited::Pods.path(namespace).into();
        let prefix: Arc<str> = prefix.into();
        let create = move |client: Client, number: usize| {
            let (path, body) =
                (path.clone(), object(Waited::Pods, &format!("{prefix}-{number:06}"), None, bytes));
            async move { client.expect(201, Method::POST, &path, body).await.map(drop) }
        };
        self.runtime.block_on(requests(&self.address, 16, count, create)).map(drop)
    }

    /// Deletes all Pods of a namespace, to free the server's memory.
    pub(super) fn empty(&self, namespace: &str) -> Outcome<()> {
        let path = format!("{}?gracePeriodSeconds=0", Waited::Pods.path(namespace));
        self.runtime.block_on(self.client.expect(200, Method::DELETE, &path, Bytes::new())).map(drop)
    }
}

/// Setup of a tool's run.
pub(super) struct Setting<'s> {
    pub(super) kind: Waited,
    pub(super) count: usize,
    /// Timeout of the tool.
    pub(super) limit: Duration,
    /// An existing namespace, instead of a new one.
    pub(super) namespace: Option<&'s str>,
    pub(super) prefix: &'s str,
    pub(super) label: Option<&'s str>,
    pub(super) by: By<'s>,
    /// Size of objects; 0 for the minimum.
    pub(super) bytes: usize,
    pub(super) memory: bool,
    pub(super) more: &'s [&'s str],
    /// The tool needs no second to read all objects: settled, with few of them.
    pub(super) soon: bool,
}

impl Default for Setting<'_> {
    fn default() -> Self {
        Self {
            kind: Waited::Pods,
            count: 1,
            limit: LIMIT,
            namespace: None,
            prefix: "waited",
            label: None,
            by: By::All,
            bytes: 0,
            memory: false,
            more: &[],
            soon: false,
        }
    }
}

/// A tool that is waiting for objects.
pub(super) struct Started {
    pub(super) namespace: String,
    pub(super) path: String,
    pub(super) names: Vec<String>,
    pub(super) waiter: Waiter,
}

impl Started {
    /// Lets time pass, during which the tool must not exit: the objects are not ready.
    pub(super) fn still_waits(&mut self, tool: Tool, time: Duration) -> Outcome<()> {
        match self.waiter.ended(time) {
            None => Ok(()),
            Some(Ended { code, .. }) => {
                let said = self.waiter.last_words();
                Err(format!("{} ended with {code:?} before anything was done: {said}", tool.name()).into())
            }
        }
    }

    /// Waits for the tool's exit with this code.
    pub(super) fn ends(&mut self, tool: Tool, code: i32) -> Outcome<Ended> {
        let ended = self.waiter.ended(LIMIT + Duration::from_secs(10));
        match ended {
            Some(ended) if ended.code == Some(code) => Ok(ended),
            other => {
                let said = self.waiter.last_words();
                Err(format!("{} ended with {other:?} instead of {code}: {said}", tool.name()).into())
            }
        }
    }
}

/// Whether a tool has timed out.
pub(super) fn timed_out(tool: Tool, ended: Ended, started: &Started) -> bool {
    let said = started.waiter.said();
    match tool {
        Tool::Settled | Tool::Earlier => ended.code == Some(3),
        _ => ["timed out waiting", "context deadline exceeded"].iter().any(|words| said.contains(words)),
    }
}

pub(super) fn progress(what: &str) {
    println!("… {what}");
}

pub(super) fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
