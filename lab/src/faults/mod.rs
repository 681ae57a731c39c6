//! Fault injection for `settled serve`.
//!
//! Each fault has a server process of its own. It passes if all client observations are consistent, the process is
//! still running, and nothing has panicked.

mod clock;
mod disk;
mod garbage;
mod hostile;
mod kill;
mod open;
mod power;
mod slow;
mod socket;
mod watchers;

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use settled_conformance::{Request, Response, Target as _};

use crate::measure::Table;
use crate::random::SplitMix64;
use crate::{Outcome, server};
use settled_conformance::Client;

/// Startup timeout of the server.
const PATIENCE: Duration = Duration::from_secs(30);
const COLLECTION: &str = "/api/v1/namespaces/default/configmaps";
/// Memory limit of the server in all tests.
const MAX_MEMORY: u64 = 512 << 20;

/// Options of a fault.
#[derive(Clone, Debug)]
struct Setting {
    /// Working directory.
    directory: PathBuf,
    seed: u64,
    /// Whether to limit the duration for CI.
    quick: bool,
    cycles: Option<usize>,
}

/// Result of a fault.
#[derive(Debug, Default)]
struct Report {
    /// Summary of the run.
    notes: Vec<String>,
    /// Violations. The fault passes if empty.
    wrong: Vec<String>,
    /// Peak memory of a server.
    peak: u64,
    /// Reason why it cannot run on this machine.
    skipped: Option<String>,
}

impl Report {
    fn note(&mut self, what: String) {
        self.notes.push(what);
    }

    /// Records a violation if the condition is false.
    fn expect(&mut self, well: bool, otherwise: impl FnOnce() -> String) {
        if !well {
            self.wrong.push(otherwise());
        }
    }
}

type Fault = fn(&Setting) -> Outcome<Report>;

/// All faults. Half-open connections come first: that one mostly waits, and runs beside the others.
const FAULTS: [(&str, Fault); 9] = [
    ("connections", open::run),
    ("kill", kill::run),
    ("power", power::run),
    ("watchers", watchers::run),
    ("disk", disk::run),
    ("clock", clock::run),
    ("slow", slow::run),
    ("garbage", garbage::run),
    ("hostile", hostile::run),
];

/// Runs `faults [FAULT…] [--quick] [--seed N] [--cycles N]`; false if one fails, or is skipped although `CI` is `true`.
pub(crate) fn run(words: &[&str]) -> Outcome<bool> {
    let mut names = Vec::new();
    let mut setting = Setting { directory: PathBuf::new(), seed: 1, quick: false, cycles: None };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut number =
            || -> Outcome<u64> { Ok(words.next().ok_or_else(|| format!("{word} needs a number"))?.parse()?) };
        match *word {
            "--quick" => setting.quick = true,
            "--seed" => setting.seed = number()?,
            "--cycles" => setting.cycles = Some(usize::try_from(number()?)?),
            name if FAULTS.iter().any(|(known, _)| *known == name) => names.push(name),
            unknown => return Err(format!("no such fault or flag: {unknown}").into()),
        }
    }
    println!("seed {}{}", setting.seed, if setting.quick { ", quick" } else { "" });
    // Built before anything is timed.
    server::binary()?;
    let wanted = |name: &str| names.is_empty() || names.contains(&name);
    let mut table = Table::new(["fault", "seconds", "outcome"]);
    let mut well = true;
    thread::scope(|scope| -> Outcome<()> {
        let mut later = None;
        let mut tell = |name: &str, (took, report): (Duration, Outcome<Report>)| {
            println!("\n{name}");
            let report =
                report.unwrap_or_else(|error| Report { wrong: vec![error.to_string()], ..Report::default() });
            report.notes.iter().for_each(|line| println!("  {line}"));
            if report.peak > 0 {
                println!("  the server had at most {} MB of memory", report.peak >> 20);
            }
            report.wrong.iter().take(20).for_each(|line| println!("  WRONG: {line}"));
            if report.wrong.len() > 20 {
                println!("  and {} more", report.wrong.len() - 20);
            }
            let outcome = match &report.skipped {
                Some(why) => {
                    println!("  SKIPPED: {why}");
                    well &= std::env::var("CI").as_deref() != Ok("true");
                    "skipped"
                }
                None if report.wrong.is_empty() => "passed",
                None => "FAILED",
            };
            well &= report.wrong.is_empty();
            table.row([name.to_owned(), format!("{:.1}", took.as_secs_f64()), outcome.to_owned()]);
        };
        for (name, fault) in FAULTS.into_iter().filter(|(name, _)| wanted(name)) {
            let setting = setting.clone();
            let one = move || timed(name, fault, setting);
            if name == "connections" {
                later = Some((name, scope.spawn(one)));
            } else {
                tell(name, one());
            }
        }
        if let Some((name, thread)) = later {
            tell(name, thread.join().map_err(|_| "a thread failed")?);
        }
        Ok(())
    })?;
    println!();
    table.print();
    Ok(well)
}

/// Runs one in a directory of its own, which is kept after a failure.
fn timed(name: &str, fault: Fault, mut setting: Setting) -> (Duration, Outcome<Report>) {
    let start = Instant::now();
    setting.directory = std::env::temp_dir().join(format!("settled-faults-{name}-{}", std::process::id()));
    let mut report = fs::create_dir_all(&setting.directory)
        .map_err(Into::into)
        .and_then(|()| fault(&setting))
        .unwrap_or_else(|error| Report { wrong: vec![error.to_string()], ..Report::default() });
    if report.wrong.is_empty() {
        drop(fs::remove_dir_all(&setting.directory));
    } else {
        report.note(format!("its data and logs are in {}", setting.directory.display()));
    }
    (start.elapsed(), Ok(report))
}

/// A running server. It is killed when this is dropped.
struct Running {
    child: Child,
    client: Arc<Client>,
    address: SocketAddr,
    ca: PathBuf,
    log: PathBuf,
}

impl Drop for Running {
    fn drop(&mut self) {
        // SIGKILL: nothing is flushed, no connection is closed cleanly.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kept {
    InMemory,
    OnDisk,
}

/// The command `settled serve`, with its data directory in the directory, and its log.
fn serve(directory: &Path, kept: Kept) -> Outcome<Command> {
    let tokens = directory.join("tokens.csv");
    fs::write(&tokens, settled_conformance::token_file())?;
    let mut command = Command::new(server::binary()?);
    command.args(["serve", "--port", "0", "--token-auth-file"]).arg(tokens);
    command.arg("--data-dir").arg(directory.join("data"));
    command.args((kept == Kept::InMemory).then_some("--memory"));
    Ok(command)
}

/// Starts a server whose data directory is visible here as `data`, and waits until it listens.
fn start(directory: &Path, mut command: Command, data: impl Fn(u32) -> PathBuf) -> Outcome<Running> {
    let log = directory.join("server.log");
    let stderr = File::options().create(true).append(true).open(&log)?;
    // The one of the last start has another port.
    drop(fs::remove_file(directory.join("data/admin.kubeconfig")));
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr).spawn()?;
    let config = data(child.id()).join("admin.kubeconfig");
    let begun = Instant::now();
    loop {
        if let Some((url, certificate)) = fs::read(&config).ok().and_then(|text| server::cluster(&text)) {
            let ca = directory.join("ca-of-clients.crt");
            fs::write(&ca, certificate)?;
            let client = Arc::new(Client::new(&url, &ca)?);
            let address = url.trim_start_matches("https://").parse()?;
            return Ok(Running { child, client, address, ca, log });
        }
        let ended = child.try_wait()?;
        if ended.is_some() || begun.elapsed() > PATIENCE {
            drop(child.kill());
            drop(child.wait());
            let ended =
                ended.map_or_else(|| "is not ready".to_owned(), |status| format!("ended with {status}"));
            return Err(format!("the server {ended}: {}", last_lines(&log)).into());
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// The common case: a server with its data in the directory.
fn begin(directory: &Path, kept: Kept) -> Outcome<Running> {
    start(directory, serve(directory, kept)?, |_| directory.join("data"))
}

fn last_lines(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.trim_end().lines().rev().take(5).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join(" | ")
}

impl Running {
    /// Violations of the process itself.
    fn check(&mut self, report: &mut Report) -> Outcome<()> {
        if let Some(status) = self.child.try_wait()? {
            report
                .wrong
                .push(format!("the server exited unexpectedly with {status}: {}", last_lines(&self.log)));
        }
        let text = fs::read_to_string(&self.log)?;
        for line in text.lines().filter(|line| line.contains("panicked at") || line.contains("overflowed")) {
            report.wrong.push(line.to_owned());
        }
        let peak = self.memory("VmHWM:").unwrap_or_default();
        report.peak = report.peak.max(peak);
        report.expect(peak < MAX_MEMORY, || format!("{} MB of memory", peak >> 20));
        Ok(())
    }

    /// A line of `/proc/ID/status`, in bytes.
    fn memory(&self, line: &str) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let value = status.lines().find_map(|one| one.strip_prefix(line))?;
        let kibibytes: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kibibytes * 1024)
    }

    fn send(&self, method: &str, path: &str, body: &Value) -> Outcome<Response> {
        let answer = self.client.send(&request(method, path, body));
        answer.map_err(|error| format!("{method} {path}: {error}").into())
    }

    /// The objects of a collection, and the resourceVersion of the list.
    fn list(&self, path: &str) -> Outcome<(Vec<Value>, u64)> {
        let answer = self.send("GET", path, &Value::Null)?;
        if answer.status != 200 {
            return Err(format!("GET {path}: {} {}", answer.status, text(&answer.body)).into());
        }
        let mut list: Value = serde_json::from_slice(&answer.body)?;
        let at = revision(&list).ok_or("the list has no revision")?;
        match list.get_mut("items").map(Value::take) {
            Some(Value::Array(items)) => Ok((items, at)),
            _ => Err(format!("GET {path}: there are no items").into()),
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().take(500).collect()
}

fn request(method: &str, path: &str, body: &Value) -> Request {
    let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    Request {
        method: method.to_owned(),
        path: path.to_owned(),
        user: "admin".to_owned(),
        headers: vec![("Content-Type".to_owned(), kind.to_owned())],
        body: if body.is_null() { Vec::new() } else { body.to_string().into_bytes() },
    }
}

/// A ConfigMap of this size.
fn config_map(name: &str, version: u64, bytes: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
        "data": {"version": version.to_string(), "padding": "x".repeat(bytes)},
    })
}

fn number(value: Option<&Value>) -> Option<u64> {
    value?.as_str()?.parse().ok()
}

fn revision(object: &Value) -> Option<u64> {
    number(object.pointer("/metadata/resourceVersion"))
}

fn name_of(object: &Value) -> &str {
    object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
}

/// Pseudorandom generator, determined by its seed.
struct Dice(SplitMix64);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    fn next(&mut self) -> u64 {
        self.0.next()
    }

    fn roll(&mut self, sides: u64) -> u64 {
        self.next() % sides
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() >> 33).unwrap_or(0) % bound.max(1)
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        (0..self.below(most + 1)).map(|_| self.next().to_le_bytes()[0]).collect()
    }
}
