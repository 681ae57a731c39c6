//! `settled wait` beside kubectl, Helm 4 and a polling loop on the same server: how soon each notices that all is done or that it
//! can't be, what memory that takes beside client-go's informer and kube-rs' reflector, and what is asked of the server.
//!
//! No controller runs: the benchmark writes each status itself, so it knows when the last one was written.

mod large;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::Outcome;
use crate::cluster::{Place, kubeconfig_text};
use crate::load::{Address, Client, namespace, requests};
use crate::measure::{Rounds, Table, figure};
use crate::oracle::{self, Oracle, Program};
use crate::page::Page;
use crate::proxy::{Count, Proxy, Verb};
use crate::server::{self, Kind, Server};
use crate::waiters::{By, Ended, OBJECTS, Tool, Wait, Waited, Waiter, command};

/// The bars. At every size: the median at most this part of the best rival's.
const PART_OF_THE_BEST: f64 = 1.0 / 3.0;
/// The 99th percentile of the rounds of [`Plan::tail`], and the worst round at the largest number of objects, in ms.
const P99_BELOW: f64 = 10.0;
/// For 50 Pods among the most, and for all of the tracked ones, in MB.
const MEMORY_BELOW: f64 = 40.0;

/// How much is measured.
#[derive(Clone, Copy)]
struct Plan {
    rounds: usize,
    pods: &'static [usize],
    deployments: &'static [usize],
    /// How many rounds of ours alone, of so many Pods each, the 99th percentile is taken from.
    tail: (usize, &'static [usize]),
    /// How long a tool that doesn't notice a failure is let wait in each round.
    failure_limit: Duration,
    /// How long, once, those that did not notice it then, and ours with its default grace.
    patience: Duration,
    /// How many Pods are in the namespace, of how many bytes, where 50 are tracked.
    among: &'static [usize],
    /// How many are all tracked.
    all: usize,
    /// How many Pods, and how many Deployments, while requests are counted; and how long nothing happens before.
    counted: (usize, usize),
    quiet: Duration,
}

const FULL: Plan = Plan {
    rounds: 5,
    pods: &[1, 20, 200, 2000],
    deployments: &[1, 20],
    tail: (200, &[1, 20]),
    failure_limit: Duration::from_secs(15),
    patience: Duration::from_secs(80),
    among: &[1000, 10_000, 100_000],
    all: 15_000,
    counted: (200, 20),
    quiet: Duration::from_secs(10),
};

const SMOKE: Plan = Plan {
    rounds: 2,
    pods: &[1, 20],
    deployments: &[1],
    tail: (3, &[1]),
    failure_limit: Duration::from_secs(8),
    patience: Duration::ZERO,
    among: &[1000],
    all: 1000,
    counted: (20, 2),
    quiet: Duration::from_secs(1),
};

/// How many are tracked among others.
const TRACKED: usize = 50;
/// The sizes of Pods, among others and where all are tracked.
const BYTES: [usize; 2] = [10_000, 12_500];
/// How long a tool may take until all is done.
const LIMIT: Duration = Duration::from_secs(600);

/// What is measured for itself, and published so.
#[derive(Clone, Copy)]
struct Part {
    name: &'static str,
    /// Its place in the document.
    page: &'static str,
    /// A run of both servers has it on kube-apiserver, too.
    both: bool,
    measure: fn(&mut Bench) -> Outcome<Vec<Bar>>,
}

/// In the order of a whole run.
const PARTS: [Part; 5] = [
    Part { name: "detect", page: "wait-detect", both: true, measure: Bench::detect },
    Part { name: "fail", page: "wait-fail", both: true, measure: Bench::fail },
    Part { name: "requests", page: "wait-requests", both: false, measure: Bench::requests },
    Part { name: "memory", page: "wait-memory", both: false, measure: Bench::memory },
    Part { name: "large", page: "wait-large", both: false, measure: Bench::large },
];

struct Flags {
    smoke: bool,
    /// Another number of rounds than the plan's.
    rounds: Option<usize>,
    /// One server; both if none.
    kind: Option<Kind>,
    parts: Vec<Part>,
    tools: Vec<Tool>,
    write_docs: bool,
}

impl Flags {
    fn parse(words: &[&str]) -> Outcome<Self> {
        let mut flags = Self {
            smoke: false,
            rounds: None,
            kind: None,
            parts: vec![],
            tools: Tool::ALL.to_vec(),
            write_docs: false,
        };
        let mut words = words.iter().copied();
        while let Some(word) = words.next() {
            match word {
                "--smoke" => flags.smoke = true,
                "--write-docs" => flags.write_docs = true,
                "--rounds" => {
                    let number = words.next().ok_or("--rounds needs a number")?;
                    flags.rounds = Some(number.parse().map_err(|why| format!("--rounds {number}: {why}"))?);
                }
                "--rivals" => flags.tools.retain(|tool| *tool != Tool::Settled),
                "--server" => {
                    flags.kind = match words.next() {
                        Some("settled") => Some(Kind::OursAlone),
                        Some("kube-apiserver") => Some(Kind::RealOnDisk),
                        _ => return Err("--server settled or --server kube-apiserver".into()),
                    }
                }
                other => match PARTS.into_iter().find(|part| part.name == other) {
                    Some(part) => flags.parts.push(part),
                    None => {
                        let parts = PARTS.map(|part| part.name).join(", ");
                        return Err(format!("no such part or flag: {other}; parts: {parts}").into());
                    }
                },
            }
        }
        if flags.write_docs
            && (flags.smoke
                || flags.kind.is_some()
                || flags.rounds.is_some()
                || flags.tools.len() < Tool::ALL.len())
        {
            return Err("--write-docs goes with whole parts: no --server, --smoke, --rounds, --rivals".into());
        }
        if flags.parts.is_empty() {
            flags.parts = PARTS.to_vec();
        }
        Ok(flags)
    }

    /// The servers that a part is measured on.
    fn kinds(&self, part: Part) -> Vec<Kind> {
        match self.kind {
            Some(kind) => vec![kind],
            None if self.smoke || !part.both => vec![Kind::OursAlone],
            None => vec![Kind::OursAlone, Kind::RealOnDisk],
        }
    }
}

/// A bar, and whether it is met.
struct Bar {
    what: String,
    wanted: String,
    is: String,
    met: bool,
    /// It does not depend on how fast the machine is: a short run must meet it too.
    always: bool,
}

/// Runs `bench wait [PART…] [--smoke] [--rounds N] [--rivals] [--server settled|kube-apiserver] [--write-docs]`; false when a bar
/// is missed.
pub(crate) fn run(words: &[&str]) -> Outcome<bool> {
    let flags = Flags::parse(words)?;
    let mut met = true;
    for part in flags.parts.iter().copied() {
        match run_part(&flags, part)? {
            Some(of_part) => met &= of_part,
            None => return Ok(true),
        }
    }
    Ok(met)
}

/// One part on all its servers; nothing where a program can't be had here.
fn run_part(flags: &Flags, part: Part) -> Outcome<Option<bool>> {
    let mut page = Page::new(part.page, flags.write_docs);
    page.machine(&format!("cargo xtask bench wait {} --write-docs", part.name))?;
    let mut bars = Vec::new();
    for kind in flags.kinds(part) {
        let Some((continued, more)) = measure(flags, part, kind, page)? else { return Ok(None) };
        page = continued;
        bars.extend(more);
    }
    // They are about ours.
    bars.retain(|bar| flags.tools.contains(&Tool::Settled) && (bar.always || !flags.smoke));
    let met = bars.iter().all(|bar| bar.met);
    if !bars.is_empty() {
        let mut table = Table::new(["bar", "wanted", "is", "met"]);
        for bar in bars {
            table.row([bar.what, bar.wanted, bar.is, if bar.met { "yes" } else { "NO" }.to_owned()]);
        }
        page.line("Bars:");
        page.table(&table);
    }
    page.publish()?;
    Ok(Some(met))
}

/// A part on one server; nothing where a program can't be had here.
fn measure(flags: &Flags, part: Part, kind: Kind, page: Page) -> Outcome<Option<(Page, Vec<Bar>)>> {
    let mut plan = if flags.smoke { SMOKE } else { FULL };
    plan.rounds = flags.rounds.unwrap_or(plan.rounds);
    let Some(server) = server::start(kind)? else { return Ok(None) };
    let programs = [("kubectl", Program::Kubectl), ("helm", Program::Helm)];
    let Some(place) = Place::new(&server, &programs)? else { return Ok(None) };
    let informer = if part.name == "memory" {
        match oracle::build("informer")? {
            Oracle::Ready(program) => Some(program),
            Oracle::Skipped(why) => {
                println!("SKIPPED: client-go's informer: {why}");
                None
            }
        }
    } else {
        None
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let address = Address::new(&server.url, &server.ca)?;
    let client = runtime.block_on(address.connect())?;
    let tools = flags.tools.clone();
    let mut bench =
        Bench { plan, kind, tools, server, place, informer, runtime, address, client, namespaces: 0, page };
    let bars = (part.measure)(&mut bench)?;
    let bars = bars.into_iter().map(|bar| Bar { what: format!("{}{}", bar.what, on(kind)), ..bar }).collect();
    Ok(Some((bench.page, bars)))
}

/// Which server a figure is of, where it is not ours.
fn on(kind: Kind) -> &'static str {
    if kind == Kind::RealOnDisk { ", on kube-apiserver" } else { "" }
}

struct Bench {
    plan: Plan,
    kind: Kind,
    tools: Vec<Tool>,
    server: Server,
    place: Place,
    informer: Option<PathBuf>,
    runtime: Runtime,
    address: Address,
    client: Client,
    namespaces: usize,
    page: Page,
}

/// When the last status was written.
#[derive(Clone, Copy)]
struct Written {
    /// The request was sent: here the clock starts.
    sent: Instant,
    /// The server has answered.
    answered: Instant,
}

impl Written {
    /// Milliseconds from the last write, as it is sent, to the end of a tool.
    fn until(self, ended: Ended) -> f64 {
        millis(ended.at.saturating_duration_since(self.sent))
    }
}

impl Bench {
    /// A namespace of its own for each round.
    fn namespace(&mut self) -> Outcome<String> {
        self.namespaces += 1;
        // kube-apiserver closes a connection that nobody has used for 90 s, and some tools take minutes.
        self.client = self.runtime.block_on(self.address.connect())?;
        let name = format!("round-{}", self.namespaces);
        self.runtime.block_on(namespace(&self.client, &name))?;
        Ok(name)
    }

    fn create(&self, path: &str, objects: Vec<Bytes>) -> Outcome<()> {
        let (path, objects) = (Arc::<str>::from(path), Arc::new(objects));
        let count = objects.len();
        let create = move |client: Client, number: usize| {
            let (path, body) = (path.clone(), objects[number].clone());
            async move { client.expect(201, Method::POST, &path, body).await.map(drop) }
        };
        self.runtime.block_on(requests(&self.address, 16, count, create)).map(drop)
    }

    /// Writes the statuses of these objects, the last one when all others have been.
    fn write(&self, path: &str, names: &[String], status: &Value) -> Outcome<Written> {
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

    /// A chart of these objects.
    fn chart(&self, objects: &[Bytes]) -> Outcome<PathBuf> {
        let folder = self.place.folder.join(format!("chart-{}", self.namespaces));
        fs::create_dir_all(folder.join("templates"))?;
        fs::write(folder.join("Chart.yaml"), "apiVersion: v2\nname: waited\nversion: 0.1.0\n")?;
        let text: Vec<String> = objects.iter().map(|one| String::from_utf8_lossy(one).into_owned()).collect();
        fs::write(folder.join(OBJECTS), text.join("\n---\n"))?;
        Ok(folder)
    }

    /// Starts a tool on objects that aren't done; when this returns they are there, and the tool has had time to look at them all.
    fn start(&mut self, tool: Tool, setting: &Setting<'_>) -> Outcome<Started> {
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
        let log = self.place.folder.join(format!("{namespace}-{}.log", setting.prefix));
        let waiter = if tool == Tool::Helm {
            let selector = label.map_or_else(String::new, |label| format!("&labelSelector={label}"));
            let watched = format!("{path}?watch=true{selector}");
            let events = self.runtime.block_on(self.client.watch(&watched))?;
            let waiter = Waiter::start(command, log, memory)?;
            // A refused install would be waited for in vain.
            let made = async { tokio::time::timeout(Duration::from_secs(300), events.count(count)).await };
            self.runtime.block_on(made).map_err(|_| {
                format!("{}: not all objects were made: {}", tool.name(), waiter.last_words())
            })??;
            waiter
        } else {
            self.create(&path, objects)?;
            Waiter::start(command, log, memory)?
        };
        let mut started = Started { namespace, path, names, waiter };
        // Long enough to see all objects, and another part of a second each round, for those who look once a second.
        let part = self.namespaces as u64 * 137;
        let pause = if setting.soon { 300 + part % 200 } else { 1000 + count.min(7000) as u64 + part % 1000 };
        started.still_waits(tool, Duration::from_millis(pause))?;
        Ok(started)
    }

    /// From the last status that makes all done to the end of each tool.
    fn detect(&mut self) -> Outcome<Vec<Bar>> {
        let plan = self.plan;
        let sizes: Vec<(Waited, usize)> = (plan.pods.iter().map(|count| (Waited::Pods, *count)))
            .chain(plan.deployments.iter().map(|count| (Waited::Deployments, *count)))
            .collect();
        let tools = self.tools.clone();
        let mut writes = Rounds::default();
        let mut measured: Vec<Vec<Rounds>> = vec![vec![Rounds::default(); tools.len()]; sizes.len()];
        // Programs that were never run are read from the disk first.
        for tool in tools.iter().copied().filter(|tool| tool.knows(Waited::Pods)) {
            self.detect_once(tool, &Setting { kind: Waited::Pods, count: 1, ..Setting::default() })?;
        }
        for (row, (kind, count)) in sizes.iter().copied().enumerate() {
            progress(&format!("{count} {}", kind.resource()));
            for round in 0..plan.rounds {
                for (at, tool) in tools.iter().copied().enumerate() {
                    if tool.knows(kind) && round < rounds_of(tool, count, plan.rounds, self.kind) {
                        let setting = Setting { kind, count, ..Setting::default() };
                        let (took, write) = self.detect_once(tool, &setting)?;
                        measured[row][at].push(took);
                        writes.push(write);
                    }
                }
            }
        }
        self.page.line(&format!("### From the last status to the exit, ms{}", on(self.kind)));
        self.page.line(&format!(
            "{} rounds after one to warm up, the tools taking turns; median (worst); in brackets the rounds where they are fewer. The clock starts when the last \
             status is sent; the server's answer takes {} ({}) ms of it.",
            plan.rounds,
            figure(writes.median()),
            figure(writes.percentile(99)),
        ));
        let mut table = Table::new([
            "objects",
            "settled wait",
            "kubectl wait",
            "rollout status",
            "helm --wait",
            "polling",
            "best rival",
        ]);
        let mut bars = Vec::new();
        for ((kind, count), rounds) in sizes.iter().zip(&measured) {
            let of = |tool: Tool| tools.iter().position(|one| *one == tool).map(|at| &rounds[at]);
            let cell = |tool: Tool| {
                of(tool).filter(|rounds| rounds.len() > 0).map_or_else(
                    || "-".to_owned(),
                    |rounds| {
                        let fewer = if rounds.len() < plan.rounds {
                            format!(" [{}]", rounds.len())
                        } else {
                            String::new()
                        };
                        format!("{} ({}){fewer}", figure(rounds.median()), figure(rounds.percentile(99)))
                    },
                )
            };
            let best = Tool::ALL.iter().filter(|tool| **tool != Tool::Settled).filter_map(|tool| of(*tool));
            let best = best.map(Rounds::median).fold(f64::NAN, f64::min);
            let ours = of(Tool::Settled).map_or(f64::NAN, Rounds::median);
            let what = format!("{count} {}", kind.resource());
            table.row([
                what.clone(),
                cell(Tool::Settled),
                cell(Tool::KubectlWait),
                cell(Tool::RolloutStatus),
                cell(Tool::Helm),
                cell(Tool::Polling),
                if ours.is_finite() { format!("{:.1}x", best / ours) } else { figure(best) },
            ]);
            bars.push(Bar {
                what: format!("{what}: median beside the best rival's"),
                wanted: "at most a third".to_owned(),
                is: format!("{} of {} ms", figure(ours), figure(best)),
                met: ours <= best * PART_OF_THE_BEST,
                always: false,
            });
            if *count == 2000 {
                let worst = of(Tool::Settled).map_or(f64::NAN, |rounds| rounds.percentile(99));
                bars.push(Bar {
                    what: format!("{what}: the worst of {} rounds", plan.rounds),
                    wanted: format!("under {P99_BELOW} ms"),
                    is: format!("{} ms", figure(worst)),
                    met: worst < P99_BELOW,
                    always: false,
                });
            }
        }
        self.page.table(&table);
        if self.tools.contains(&Tool::Settled) {
            bars.extend(self.tail()?);
        }
        Ok(bars)
    }

    /// Ours alone, in as many rounds as a 99th percentile needs.
    fn tail(&mut self) -> Outcome<Vec<Bar>> {
        let (count_of_rounds, sizes) = self.plan.tail;
        let mut table = Table::new(["objects", "rounds", "p50", "p90", "p99", "worst"]);
        let mut bars = Vec::new();
        for count in sizes.iter().copied() {
            progress(&format!("{count_of_rounds} rounds of {count} pods"));
            let mut rounds = Rounds::default();
            for _ in 0..count_of_rounds {
                let setting = Setting { kind: Waited::Pods, count, soon: true, ..Setting::default() };
                rounds.push(self.detect_once(Tool::Settled, &setting)?.0);
            }
            let what = format!("{count} pods");
            let p99 = rounds.percentile(99);
            table.row([
                what.clone(),
                rounds.len().to_string(),
                figure(rounds.median()),
                figure(rounds.percentile(90)),
                figure(p99),
                figure(rounds.percentile(100)),
            ]);
            bars.push(Bar {
                what: format!("{what}: p99 of {} rounds", rounds.len()),
                wanted: format!("under {P99_BELOW} ms"),
                is: format!("{} ms", figure(p99)),
                met: p99 < P99_BELOW,
                always: false,
            });
        }
        self.page.line("`settled wait` alone, in as many rounds as a 99th percentile needs, ms:");
        self.page.table(&table);
        Ok(bars)
    }

    /// Milliseconds from the last status to the exit, and how long writing it took.
    fn detect_once(&mut self, tool: Tool, setting: &Setting<'_>) -> Outcome<(f64, f64)> {
        let mut started = self.start(tool, setting)?;
        let written = self.write(&started.path, &started.names, &done(setting.kind))?;
        let ended = started.ends(tool, 0)?;
        if ended.at < written.sent {
            return Err(format!("{} ended before the last status was written", tool.name()).into());
        }
        Ok((written.until(ended), millis(written.answered - written.sent)))
    }

    /// From a failure to an exit that says so.
    fn fail(&mut self) -> Outcome<Vec<Bar>> {
        let plan = self.plan;
        self.page.line(&format!("### From a failure to an exit other than 0{}", on(self.kind)));
        self.page.line(&format!(
            "In ms, median (worst) of {} rounds, in each of which a tool has {} seconds to notice. By default ours gives images and crashes \
             some time to recover; \"without grace\" is with `--grace image=0s` or `crash=0s`. What was not noticed then is tried once more, \
             with {} seconds, and told in seconds.",
            plan.rounds,
            plan.failure_limit.as_secs(),
            plan.patience.as_secs(),
        ));
        let mut table = Table::new([
            "failure",
            "settled wait",
            "without grace",
            "kubectl wait",
            "rollout status",
            "helm --wait",
        ]);
        let (mut rows, mut late) = (Vec::new(), Vec::new());
        for failure in Failure::ALL {
            progress(failure.name());
            let kind = failure.kind();
            let mut cells = Vec::new();
            let mut unnoticed = Vec::new();
            for (at, (tool, more)) in [
                (Tool::Settled, &[][..]),
                (Tool::Settled, failure.without_grace()),
                (Tool::KubectlWait, &[]),
                (Tool::RolloutStatus, &[]),
                (Tool::Helm, &[]),
            ]
            .into_iter()
            .enumerate()
            {
                if !self.tools.contains(&tool) || !tool.knows(kind) {
                    cells.push("-".to_owned());
                    continue;
                }
                let mut rounds = Rounds::default();
                for _ in 0..plan.rounds {
                    let limit = plan.failure_limit;
                    let setting = Setting { kind, count: 1, limit, more, ..Setting::default() };
                    match self.fail_once(tool, failure, &setting)? {
                        Some(took) => rounds.push(took),
                        None => break,
                    }
                }
                cells.push(match rounds.len() {
                    0 => {
                        unnoticed.push((failure, at, tool, more));
                        format!("not in {} s", plan.failure_limit.as_secs())
                    }
                    _ => format!("{} ({})", figure(rounds.median()), figure(rounds.percentile(99))),
                });
            }
            rows.push((failure, cells));
            late.extend(unnoticed);
        }
        for (failure, at, cell) in self.fail_at_last(&late)? {
            if let Some((_, cells)) = rows.iter_mut().find(|(row, _)| *row == failure) {
                cells[at] = cell;
            }
        }
        for (failure, cells) in rows {
            let [a, b, c, d, e] = <[String; 5]>::try_from(cells).unwrap_or_default();
            table.row([failure.name().to_owned(), a, b, c, d, e]);
        }
        self.page.table(&table);
        Ok(vec![])
    }

    /// Those that have not noticed a failure soon, all at once, with more time.
    fn fail_at_last(
        &mut self,
        unnoticed: &[(Failure, usize, Tool, &'static [&'static str])],
    ) -> Outcome<Vec<(Failure, usize, String)>> {
        let limit = self.plan.patience;
        if limit.is_zero() {
            return Ok(vec![]);
        }
        let mut running = Vec::new();
        for &(failure, at, tool, more) in unnoticed {
            let setting = Setting { kind: failure.kind(), count: 1, limit, more, ..Setting::default() };
            let started = self.start(tool, &setting)?;
            let written = self.write_failure(failure, &started)?;
            running.push((failure, at, tool, started, written));
        }
        let mut cells = Vec::new();
        for (failure, at, tool, mut started, written) in running {
            let ended = started.waiter.ended(limit + Duration::from_secs(10));
            let ended = ended.ok_or_else(|| format!("{} does not end", tool.name()))?;
            cells.push((
                failure,
                at,
                if timed_out(tool, ended, &started) {
                    format!("not in {} s", limit.as_secs())
                } else {
                    format!("{} s", figure(written.until(ended) / 1e3))
                },
            ));
        }
        Ok(cells)
    }

    /// Writes what goes wrong into the status of what the tool waits for, or of its Pod.
    fn write_failure(&mut self, failure: Failure, started: &Started) -> Outcome<Written> {
        let (path, names) = if failure == Failure::PodOfADeployment {
            self.generated(started)?
        } else {
            (started.path.clone(), started.names.clone())
        };
        self.write(&path, &names, &failure.status())
    }

    /// Milliseconds from the failure to the exit; nothing if the tool runs into its timeout.
    fn fail_once(&mut self, tool: Tool, failure: Failure, setting: &Setting<'_>) -> Outcome<Option<f64>> {
        let mut started = self.start(tool, setting)?;
        let written = self.write_failure(failure, &started)?;
        let ended = started.waiter.ended(setting.limit + Duration::from_secs(10));
        let ended = ended.ok_or_else(|| format!("{} does not end", tool.name()))?;
        if ended.code == Some(0) {
            return Err(format!(
                "{} takes a failure for success: {}",
                tool.name(),
                started.waiter.last_words()
            )
            .into());
        }
        let timed_out = timed_out(tool, ended, &started);
        if timed_out && !setting.more.is_empty() {
            println!("{} noticed no failure, and says:\n{}", tool.name(), started.waiter.said());
        }
        Ok((!timed_out).then(|| written.until(ended)))
    }

    /// What a Deployment's controllers would make of it: a ReplicaSet, and a Pod, which is named.
    fn generated(&self, started: &Started) -> Outcome<(String, Vec<String>)> {
        let name = started.names.first().ok_or("there is no Deployment")?;
        let uid = |path: String| -> Outcome<String> {
            let answer = self.runtime.block_on(self.client.expect(200, Method::GET, &path, Bytes::new()))?;
            let object: Value = serde_json::from_slice(&answer.body)?;
            Ok(object.pointer("/metadata/uid").and_then(Value::as_str).ok_or("no uid")?.to_owned())
        };
        let owned = |api: &str, kind: &str, uid: &str| json!([{"apiVersion": api, "kind": kind, "name": name, "uid": uid, "controller": true, "blockOwnerDeletion": true}]);
        let owner = owned("apps/v1", "Deployment", &uid(format!("{}/{name}", started.path))?);
        let mut set: Value = serde_json::from_slice(&object(Waited::Deployments, name, None, 0))?;
        set["kind"] = json!("ReplicaSet");
        set["metadata"]["ownerReferences"] = owner;
        let labels = set["spec"]["template"]["metadata"]["labels"].clone();
        set["metadata"]["labels"] = labels.clone();
        let sets = format!("/apis/apps/v1/namespaces/{}/replicasets", started.namespace);
        self.create(&sets, vec![set.to_string().into()])?;
        let owner = owned("apps/v1", "ReplicaSet", &uid(format!("{sets}/{name}"))?);
        let mut pod: Value = serde_json::from_slice(&object(Waited::Pods, name, None, 0))?;
        pod["metadata"]["ownerReferences"] = owner;
        pod["metadata"]["labels"] = labels;
        let pods = Waited::Pods.path(&started.namespace);
        self.create(&pods, vec![pod.to_string().into()])?;
        let waiting = json!({
            "observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "unavailableReplicas": 1,
            "conditions": [
                {"type": "Available", "status": "False", "reason": "MinimumReplicasUnavailable"},
                {"type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated"},
            ],
        });
        self.write(&started.path, &started.names, &waiting)?;
        self.write(
            &sets,
            &started.names,
            &json!({"observedGeneration": 1, "replicas": 1, "fullyLabeledReplicas": 1}),
        )?;
        Ok((pods, started.names.clone()))
    }

    /// What each tool asks of the server, through a proxy.
    fn requests(&mut self) -> Outcome<Vec<Bar>> {
        let plan = self.plan;
        let proxy = Proxy::start(&self.runtime, &self.server.url, &self.server.ca, &self.place.folder)?;
        let straight = fs::read_to_string(&self.place.kubeconfig)?;
        self.page.line("### What is asked of the server");
        self.page.line(&format!(
            "From the start, through {} quiet seconds with all in progress, until all are done; bytes are those of bodies, as sent; a watch \
             with list begins with all objects.",
            plan.quiet.as_secs()
        ));
        let mut table = Table::new([
            "objects",
            "tool",
            "discovery",
            "get",
            "write",
            "list",
            "watch with list",
            "watch",
            "lists after the first sync",
            "KB to it",
            "KB of lists",
            "KB of watches",
        ]);
        let mut bars = Vec::new();
        for (kind, count) in [(Waited::Pods, plan.counted.0), (Waited::Deployments, plan.counted.1)] {
            for tool in self.tools.clone() {
                if !tool.knows(kind) {
                    continue;
                }
                fs::write(&self.place.kubeconfig, kubeconfig_text(&proxy.url, &proxy.ca, "default"))?;
                proxy.reset();
                let setting = Setting { kind, count, ..Setting::default() };
                let counted = self.start(tool, &setting).and_then(|mut started| {
                    started.still_waits(tool, plan.quiet)?;
                    let before = proxy.counts();
                    self.write(&started.path, &started.names, &done(kind))?;
                    started.ends(tool, 0)?;
                    Ok((before, proxy.counts()))
                });
                fs::write(&self.place.kubeconfig, &straight)?;
                let (before, after) = counted?;
                let of = |counts: &BTreeMap<Verb, Count>, verbs: &[Verb]| {
                    verbs.iter().filter_map(|verb| counts.get(verb)).fold(Count::default(), |sum, one| {
                        Count {
                            requests: sum.requests + one.requests,
                            sent: sum.sent + one.sent,
                            received: sum.received + one.received,
                        }
                    })
                };
                let all: Vec<Verb> = after.keys().copied().collect();
                // A watch that begins with all objects is a list by another name.
                let lists = [Verb::List, Verb::WatchList];
                let later = of(&after, &lists).requests - of(&before, &lists).requests;
                let kilobytes = |count: u64| figure(count as f64 / 1e3);
                let requests = |verbs: &[Verb]| of(&after, verbs).requests.to_string();
                table.row([
                    format!("{count} {}", kind.resource()),
                    tool.name().to_owned(),
                    requests(&[Verb::Discovery]),
                    requests(&[Verb::Get]),
                    requests(&[Verb::Write]),
                    requests(&[Verb::List]),
                    requests(&[Verb::WatchList]),
                    requests(&[Verb::Watch]),
                    later.to_string(),
                    kilobytes(of(&after, &all).received),
                    kilobytes(of(&after, &[Verb::List]).received),
                    kilobytes(of(&after, &[Verb::Watch, Verb::WatchList]).received),
                ]);
                if tool == Tool::Settled {
                    bars.push(Bar {
                        what: format!("{count} {}: lists after the first sync", kind.resource()),
                        wanted: "0".to_owned(),
                        is: later.to_string(),
                        met: later == 0,
                        always: true,
                    });
                }
            }
        }
        self.page.table(&table);
        Ok(bars)
    }

    /// The most memory while some or all of a namespace's Pods are tracked.
    fn memory(&mut self) -> Outcome<Vec<Bar>> {
        let plan = self.plan;
        let holders = [
            Holder::Tool(Tool::Settled, true),
            Holder::Tool(Tool::Settled, false),
            Holder::Tool(Tool::Helm, true),
            Holder::Tool(Tool::KubectlWait, true),
            Holder::Informer,
            Holder::Reflector,
        ];
        let mut table = Table::new([
            "tracked",
            "in the namespace",
            "settled wait -f",
            "settled wait -l",
            "helm --wait",
            "kubectl wait -f",
            "client-go informer",
            "kube-rs reflector",
        ]);
        let mut bars = Vec::new();
        let mut sizes = [0; 2];
        for among in plan.among {
            progress(&format!("{TRACKED} among {among}"));
            let namespace = self.namespace()?;
            let [bytes, _] = BYTES;
            self.fill(&namespace, "other", *among - TRACKED, bytes)?;
            sizes[0] = self.size(&format!("{}/other-000000", Waited::Pods.path(&namespace)))?;
            let mut cells = Vec::new();
            for (at, holder) in holders.iter().enumerate() {
                let prefix = format!("tracked{at}");
                let label = format!("tracked={prefix}");
                let setting = Setting {
                    namespace: Some(&namespace),
                    count: TRACKED,
                    prefix: &prefix,
                    label: Some(&label),
                    by: if let Holder::Tool(_, true) = holder { By::File } else { By::Label(&label) },
                    bytes,
                    memory: true,
                    ..Setting::default()
                };
                cells.push(self.hold(*holder, &setting)?);
            }
            if *among == 100_000 {
                for (cell, how) in cells.iter().zip(["-f", "-l"]) {
                    bars.push(memory_bar(format!("{how}, {TRACKED} of {among} Pods"), *cell));
                }
            }
            table.row(memory_row(TRACKED.to_string(), *among, &cells));
            self.empty(&namespace)?;
        }
        let all = plan.all;
        progress(&format!("all of {all}"));
        let mut cells = Vec::new();
        for holder in holders {
            // Both would take longer than anybody waits: made one by one, and asked one by one.
            if matches!(holder, Holder::Tool(Tool::Helm | Tool::KubectlWait, _)) {
                cells.push(None);
                continue;
            }
            let [_, bytes] = BYTES;
            let label = "app=waited";
            let by = if let Holder::Tool(_, true) = holder { By::File } else { By::Label(label) };
            let setting = Setting { count: all, by, bytes, memory: true, ..Setting::default() };
            let cell = self.hold(holder, &setting)?;
            cells.push(cell);
            if cell.is_some() {
                let namespace = format!("round-{}", self.namespaces);
                sizes[1] = self.size(&format!("{}/waited-000000", Waited::Pods.path(&namespace)))?;
                self.empty(&namespace)?;
            }
        }
        for (cell, how) in cells.iter().zip(["-f", "-l"]) {
            bars.push(memory_bar(format!("{how}, all of {all} Pods"), *cell));
        }
        table.row(memory_row(all.to_string(), all, &cells));
        self.page.line("### The most memory, MB");
        self.page.line(&format!(
            "Pods of {} bytes where some are tracked, of {} where all are; in brackets the seconds until the store was full.",
            sizes[0], sizes[1]
        ));
        self.page.table(&table);
        Ok(bars)
    }

    /// The peak in MB of one holder from its start until all that are tracked are done, and for stores how long the first sync took.
    fn hold(&mut self, holder: Holder, setting: &Setting<'_>) -> Outcome<Option<(f64, Option<f64>)>> {
        let (mut command, name) = match holder {
            Holder::Tool(tool, _) => {
                if !self.tools.contains(&tool) {
                    return Ok(None);
                }
                let mut started = self.start(tool, setting)?;
                self.write(&started.path, &started.names, &done(setting.kind))?;
                started.ends(tool, 0)?;
                return Ok(Some((started.waiter.peak() as f64 / 1e6, None)));
            }
            Holder::Informer => match &self.informer {
                Some(program) => (Command::new(program), "informer"),
                None => return Ok(None),
            },
            Holder::Reflector => {
                let mut command = Command::new(std::env::current_exe()?);
                command.arg(crate::reflector::CHILD);
                (command, "reflector")
            }
        };
        let namespace = match setting.namespace {
            Some(name) => name.to_owned(),
            None => self.namespace()?,
        };
        let names: Vec<String> = (0..setting.count).map(|at| format!("{}-{at:06}", setting.prefix)).collect();
        let path = setting.kind.path(&namespace);
        let objects =
            names.iter().map(|name| object(setting.kind, name, setting.label, setting.bytes)).collect();
        self.create(&path, objects)?;
        command.arg(&namespace);
        self.place.environment(&mut command);
        let start = Instant::now();
        let log = self.place.folder.join(format!("{namespace}-{name}.log"));
        let mut waiter = Waiter::start(command, log, true)?;
        let synced = loop {
            if waiter.said().contains("synced ") {
                break start.elapsed();
            }
            if waiter.ended(Duration::from_millis(10)).is_some() || start.elapsed() > LIMIT {
                return Err(format!("{name} does not sync: {}", waiter.last_words()).into());
            }
        };
        self.write(&path, &names, &done(setting.kind))?;
        // It says nothing of what it has seen.
        std::thread::sleep(Duration::from_secs(1));
        Ok(Some((waiter.peak() as f64 / 1e6, Some(synced.as_secs_f64()))))
    }

    /// The bytes of an object as the server gives it.
    fn size(&self, path: &str) -> Outcome<usize> {
        Ok(self.runtime.block_on(self.client.expect(200, Method::GET, path, Bytes::new()))?.bytes)
    }

    fn fill(&self, namespace: &str, prefix: &str, count: usize, bytes: usize) -> Outcome<()> {
        let path: Arc<str> = Waited::Pods.path(namespace).into();
        let prefix: Arc<str> = prefix.into();
        let create = move |client: Client, number: usize| {
            let (path, body) =
                (path.clone(), object(Waited::Pods, &format!("{prefix}-{number:06}"), None, bytes));
            async move { client.expect(201, Method::POST, &path, body).await.map(drop) }
        };
        self.runtime.block_on(requests(&self.address, 16, count, create)).map(drop)
    }

    /// Deletes all Pods of a namespace: what is no longer needed costs the server memory.
    fn empty(&self, namespace: &str) -> Outcome<()> {
        let path = format!("{}?gracePeriodSeconds=0", Waited::Pods.path(namespace));
        self.runtime.block_on(self.client.expect(200, Method::DELETE, &path, Bytes::new())).map(drop)
    }
}

/// Who keeps objects in memory.
#[derive(Clone, Copy)]
enum Holder {
    /// A tool, and whether it is given the objects' file, not their label.
    Tool(Tool, bool),
    /// client-go's.
    Informer,
    /// kube-rs'.
    Reflector,
}

fn memory_bar(what: String, is: Option<(f64, Option<f64>)>) -> Bar {
    let megabytes = is.map_or(f64::NAN, |(megabytes, _)| megabytes);
    Bar {
        what: format!("memory, {what}"),
        wanted: format!("under {MEMORY_BELOW} MB"),
        is: format!("{} MB", figure(megabytes)),
        met: megabytes < MEMORY_BELOW,
        always: false,
    }
}

fn memory_row(tracked: String, among: usize, cells: &[Option<(f64, Option<f64>)>]) -> [String; 8] {
    let mut row = vec![tracked, figure(among as f64)];
    row.extend(cells.iter().map(|cell| match cell {
        Some((megabytes, Some(synced))) => format!("{} [{synced:.1}]", figure(*megabytes)),
        Some((megabytes, None)) => figure(*megabytes),
        None => "-".to_owned(),
    }));
    <[String; 8]>::try_from(row).unwrap_or_default()
}

/// What a tool is set before.
struct Setting<'s> {
    kind: Waited,
    count: usize,
    /// How long the tool waits.
    limit: Duration,
    /// One that is there already, instead of a new one.
    namespace: Option<&'s str>,
    prefix: &'s str,
    label: Option<&'s str>,
    by: By<'s>,
    /// How large objects are; as small as can be if 0.
    bytes: usize,
    memory: bool,
    more: &'s [&'s str],
    /// The tool needs no second to see all objects: it is ours, and they are few.
    soon: bool,
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

/// A tool that waits for objects.
struct Started {
    namespace: String,
    path: String,
    names: Vec<String>,
    waiter: Waiter,
}

impl Started {
    /// Lets time pass, in which the tool may not end: nothing is done yet.
    fn still_waits(&mut self, tool: Tool, time: Duration) -> Outcome<()> {
        match self.waiter.ended(time) {
            None => Ok(()),
            Some(Ended { code, .. }) => {
                let said = self.waiter.last_words();
                Err(format!("{} ended with {code:?} before anything was done: {said}", tool.name()).into())
            }
        }
    }

    /// The end of the tool, with this exit code.
    fn ends(&mut self, tool: Tool, code: i32) -> Outcome<Ended> {
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

/// Whether a tool ran into its own timeout.
fn timed_out(tool: Tool, ended: Ended, started: &Started) -> bool {
    let said = started.waiter.said();
    match tool {
        Tool::Settled => ended.code == Some(3),
        _ => ["timed out waiting", "context deadline exceeded"].iter().any(|words| said.contains(words)),
    }
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    Image,
    Crash,
    PodOfADeployment,
    Deadline,
}

impl Failure {
    const ALL: [Self; 4] = [Self::Image, Self::Crash, Self::PodOfADeployment, Self::Deadline];

    fn name(self) -> &'static str {
        match self {
            Self::Image => "Pod: ImagePullBackOff",
            Self::Crash => "Pod: CrashLoopBackOff",
            Self::PodOfADeployment => "Deployment: its Pod's ImagePullBackOff",
            Self::Deadline => "Deployment: ProgressDeadlineExceeded",
        }
    }

    fn kind(self) -> Waited {
        match self {
            Self::Image | Self::Crash => Waited::Pods,
            Self::PodOfADeployment | Self::Deadline => Waited::Deployments,
        }
    }

    /// For ours: nothing is tolerated for a while.
    fn without_grace(self) -> &'static [&'static str] {
        match self {
            Self::Image | Self::PodOfADeployment => &["--grace", "image=0s"],
            Self::Crash => &["--grace", "crash=0s"],
            Self::Deadline => &[],
        }
    }

    fn status(self) -> Value {
        let waiting = |phase: &str, reason: &str, message: &str, restarts: u32| {
            let mut container = json!({
                "name": "app", "image": "registry.example/app:1", "imageID": "", "ready": false, "started": false,
                "restartCount": restarts, "state": {"waiting": {"reason": reason, "message": message}},
            });
            if restarts > 0 {
                container["lastState"] = json!({"terminated": {
                    "exitCode": 1, "reason": "Error", "startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:01Z",
                }});
            }
            json!({
                "phase": phase,
                "conditions": [
                    {"type": "PodScheduled", "status": "True"},
                    {"type": "Initialized", "status": "True"},
                    {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "message": "containers with unready status: [app]"},
                    {"type": "ContainersReady", "status": "False", "reason": "ContainersNotReady", "message": "containers with unready status: [app]"},
                ],
                "containerStatuses": [container],
            })
        };
        match self {
            Self::Image | Self::PodOfADeployment => waiting(
                "Pending",
                "ImagePullBackOff",
                "Back-off pulling image \"registry.example/app:1\": ErrImagePull: manifest unknown",
                0,
            ),
            Self::Crash => {
                waiting("Running", "CrashLoopBackOff", "back-off 5m0s restarting failed container=app", 6)
            }
            Self::Deadline => json!({
                "observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "unavailableReplicas": 1,
                "conditions": [
                    {"type": "Available", "status": "False", "reason": "MinimumReplicasUnavailable"},
                    {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "ReplicaSet \"web\" has timed out progressing."},
                ],
            }),
        }
    }
}

/// The status of a Pod whose image is being pulled.
fn starting() -> Value {
    json!({
        "phase": "Pending",
        "conditions": [
            {"type": "PodScheduled", "status": "True"},
            {"type": "Initialized", "status": "True"},
            {"type": "ContainersReady", "status": "False", "reason": "ContainersNotReady", "message": "containers with unready status: [app]"},
            {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "message": "containers with unready status: [app]"},
        ],
        "containerStatuses": [{
            "name": "app", "image": "registry.example/app:1", "imageID": "", "ready": false, "started": false, "restartCount": 0,
            "state": {"waiting": {"reason": "ContainerCreating"}},
        }],
    })
}

/// The status that makes an object done.
fn done(kind: Waited) -> Value {
    match kind {
        Waited::Pods => json!({
            "phase": "Running", "podIP": "10.1.2.3", "podIPs": [{"ip": "10.1.2.3"}],
            "conditions": [
                {"type": "PodScheduled", "status": "True"},
                {"type": "Initialized", "status": "True"},
                {"type": "ContainersReady", "status": "True"},
                {"type": "Ready", "status": "True"},
            ],
            "containerStatuses": [{
                "name": "app", "image": "registry.example/app:1", "imageID": "registry.example/app@sha256:0", "ready": true,
                "started": true, "restartCount": 0, "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
            }],
        }),
        Waited::Deployments => json!({
            "observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1,
            "conditions": [
                {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable"},
                {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"},
            ],
        }),
    }
}

/// An object that isn't done, with the label if one is wanted, of about so many bytes when the server has it.
fn object(kind: Waited, name: &str, label: Option<&str>, bytes: usize) -> Bytes {
    let mut labels = json!({"app": "waited"});
    if let Some((key, value)) = label.and_then(|label| label.split_once('=')) {
        labels[key] = json!(value);
    }
    // With what the server adds, its account of the fields included, a variable is 157 bytes, and all the rest 1,900.
    let variables: Vec<Value> = (0..bytes.saturating_sub(1900) / 157)
        .map(|at| json!({"name": format!("VARIABLE_{at:04}"), "value": format!("{name}-{at:04}-{}", "x".repeat(40))}))
        .collect();
    let spec = json!({"containers": [{"name": "app", "image": "registry.example/app:1", "env": variables}]});
    let metadata = json!({"name": name, "labels": labels});
    let object = match kind {
        Waited::Pods => json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}),
        Waited::Deployments => json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            // As its controller has it, and each ReplicaSet.
            "metadata": {"name": name, "labels": labels, "annotations": {"deployment.kubernetes.io/revision": "1"}},
            "spec": {
                "replicas": 1, "selector": {"matchLabels": {"app": "waited", "of": name}},
                "template": {"metadata": {"labels": {"app": "waited", "of": name}}, "spec": spec},
            },
        }),
    };
    object.to_string().into()
}

/// Fewer for who takes longer than anybody would wait: kubectl goes one by one, ten a second, whatever the server.
fn rounds_of(tool: Tool, count: usize, rounds: usize, server: Kind) -> usize {
    match (tool, count) {
        (Tool::KubectlWait, 2000..) => usize::from(server == Kind::OursAlone),
        (Tool::KubectlWait, 200..) => rounds.min(2),
        _ => rounds,
    }
}

fn progress(what: &str) {
    println!("… {what}");
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
