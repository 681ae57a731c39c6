//! Faults: the API server is killed in the middle of its work, again and again, and must keep its word.
//!
//! What was acknowledged is there after the restart, with the revision that was acknowledged; what was not is there as a
//! whole or not at all; no revision is given out twice.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use settled_conformance::{Request, Target as _};

use crate::wire::Client;
use crate::{Outcome, corpora, process, server};

/// How many clients write at once.
const WRITERS: usize = 8;
/// Cycles, unless the user says otherwise.
const CYCLES: usize = 1000;
/// A server that isn't ready by then never will be.
const PATIENCE: Duration = Duration::from_secs(30);

/// The versions of an object that were asked for, and the last one that was acknowledged: number and revision.
#[derive(Clone, Debug, Default)]
struct Promise {
    asked: u64,
    acknowledged: Option<(u64, u64)>,
}

/// Runs `faults [kill] [--cycles N] [--seed N]` or `faults watchers [--seed N]`.
pub(crate) fn run(words: &[&str]) -> Outcome<bool> {
    if let ["watchers", rest @ ..] = words {
        return watchers(rest);
    }
    let (mut cycles, mut seed) = (CYCLES, 1_u64);
    let mut words = words.iter().filter(|word| **word != "kill");
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word} needs a number"))?.parse::<u64>()?;
        match *word {
            "--cycles" => cycles = usize::try_from(value)?,
            "--seed" => seed = value,
            unknown => return Err(format!("no such flag: {unknown}").into()),
        }
    }
    println!("{cycles} cycles of kill -9 under {WRITERS} writers, seed {seed}");
    let folder = std::env::temp_dir().join(format!("settled-faults-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let result = kill(&folder, cycles, seed);
    if matches!(result, Ok(true)) {
        std::fs::remove_dir_all(&folder)?;
    } else {
        println!("the data are kept in {}", folder.display());
    }
    result
}

/// 200 writers and 50 watchers that begin anywhere: a test of the server's crate that takes too long to be run each time.
fn watchers(words: &[&str]) -> Outcome<bool> {
    let mut command = Command::new("cargo");
    command.args(["test", "--release", "--locked", "--package", "settled-apiserver", "--test", "main"]);
    command.args(["watching::", "--", "--include-ignored", "--nocapture"]);
    match words {
        [] => {}
        ["--seed", seed] => {
            command.env("SETTLED_SEED", seed.parse::<u64>()?.to_string());
        }
        [unknown, ..] => return Err(format!("no such flag: {unknown}").into()),
    }
    process::passes(command.current_dir(corpora::root()))
}

struct Running {
    child: Child,
    client: Arc<Client>,
}

impl Drop for Running {
    fn drop(&mut self) {
        // SIGKILL: nothing is flushed, nobody says goodbye.
        let _gone_already = self.child.kill();
        let _reaped = self.child.wait();
    }
}

fn start(folder: &Path) -> Outcome<Running> {
    let config = folder.join("admin.kubeconfig");
    // That of the last start names another port.
    if config.exists() {
        std::fs::remove_file(&config)?;
    }
    let child = Command::new(server::binary()?)
        .args(["serve", "--port", "0", "--token-auth-file"])
        .arg(tokens(folder)?)
        .arg("--data-dir")
        .arg(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(folder.join("server.log"))?)
        .spawn()?;
    let begun = Instant::now();
    loop {
        if let Some((url, certificate)) = std::fs::read(&config).ok().and_then(|text| server::cluster(&text))
        {
            let ca = folder.join("ca-of-clients.crt");
            std::fs::write(&ca, certificate)?;
            let client = Arc::new(Client::new(&url, &ca)?);
            return Ok(Running { child, client });
        }
        if begun.elapsed() > PATIENCE {
            let log = std::fs::read_to_string(folder.join("server.log")).unwrap_or_default();
            return Err(format!("the server does not come back: {log}").into());
        }
        thread::sleep(Duration::from_millis(2));
    }
}

fn tokens(folder: &Path) -> Outcome<PathBuf> {
    let path = folder.join("tokens.csv");
    std::fs::write(&path, settled_conformance::token_file())?;
    Ok(path)
}

fn request(method: &str, path: String, body: &Value) -> Request {
    Request {
        method: method.to_owned(),
        path,
        user: "admin".to_owned(),
        headers: vec![("Content-Type".to_owned(), "application/json".to_owned())],
        body: if body.is_null() { Vec::new() } else { body.to_string().into_bytes() },
    }
}

const COLLECTION: &str = "/api/v1/namespaces/default/configmaps";

/// Something that looks like chance and is the same for the same seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }
}

fn kill(folder: &Path, cycles: usize, seed: u64) -> Outcome<bool> {
    let promises: Arc<Mutex<BTreeMap<String, Promise>>> = Arc::default();
    let mut dice = Dice(seed);
    let (mut highest, mut writes, mut slowest) = (0_u64, 0_usize, Duration::ZERO);
    for cycle in 0..=cycles {
        let begun = Instant::now();
        let running = start(folder)?;
        let found = check(&running.client, &promises, &mut highest)?;
        if !found.is_empty() {
            println!("cycle {cycle}: {}", found.join("\ncycle {cycle}: "));
            return Ok(false);
        }
        slowest = slowest.max(begun.elapsed());
        if cycle == cycles {
            break;
        }
        let client = running.client.clone();
        let stop = Arc::new(AtomicBool::new(false));
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (client, promises, stop) = (client.clone(), promises.clone(), stop.clone());
                thread::spawn(move || write(&client, &promises, &stop, cycle, writer))
            })
            .collect();
        thread::sleep(Duration::from_millis(15 + dice.roll(100)));
        drop(running);
        stop.store(true, Ordering::Release);
        for writer in writers {
            writes += writer.join().map_err(|_| "a writer failed")?;
        }
        if cycle % 100 == 99 {
            println!("{} cycles, {writes} acknowledged writes, revision {highest}", cycle + 1);
        }
    }
    println!(
        "nothing lost, no revision twice; {writes} acknowledged writes, slowest start {} ms",
        slowest.as_millis()
    );
    Ok(true)
}

/// Creates objects and changes them, as fast as they are acknowledged. Gives how many were.
fn write(
    client: &Client,
    promises: &Mutex<BTreeMap<String, Promise>>,
    stop: &AtomicBool,
    cycle: usize,
    writer: usize,
) -> usize {
    let note = |name: &str, change: &dyn Fn(&mut Promise)| {
        if let Ok(mut promises) = promises.lock() {
            change(promises.entry(name.to_owned()).or_default());
        }
    };
    let mut acknowledged = 0;
    // Few names that come again: objects that grow old are changed after many restarts.
    let mut number = 0;
    while !stop.load(Ordering::Acquire) {
        number += 1;
        let name = format!("w{writer}-{}", (cycle + number) % 40);
        let known =
            promises.lock().ok().and_then(|promises| promises.get(&name).cloned()).unwrap_or_default();
        let version = known.asked + 1;
        note(&name, &|promise| promise.asked = version);
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
            "data": {"version": version.to_string(), "padding": "x".repeat(200)},
        });
        let request = if known.asked == 0 {
            request("POST", COLLECTION.to_owned(), &object)
        } else {
            request("PUT", format!("{COLLECTION}/{name}"), &object)
        };
        let Ok(answer) = client.send(&request) else { continue };
        if answer.status == 404 || answer.status == 409 {
            // A create that was not acknowledged: it was lost, or it was not.
            let again = if answer.status == 404 {
                self::request("POST", COLLECTION.to_owned(), &object)
            } else {
                self::request("PUT", format!("{COLLECTION}/{name}"), &object)
            };
            let Ok(answer) = client.send(&again) else { continue };
            acknowledged += usize::from(keep(&answer.body, answer.status, version, &name, &note));
            continue;
        }
        acknowledged += usize::from(keep(&answer.body, answer.status, version, &name, &note));
    }
    acknowledged
}

/// Writes down what becomes of an object.
type Note<'a> = dyn Fn(&str, &dyn Fn(&mut Promise)) + 'a;

fn keep(body: &[u8], status: u16, version: u64, name: &str, note: &Note<'_>) -> bool {
    let object: Value = serde_json::from_slice(body).unwrap_or_default();
    let revision = object.pointer("/metadata/resourceVersion").and_then(Value::as_str);
    let (200 | 201, Some(Ok(revision))) = (status, revision.map(str::parse::<u64>)) else { return false };
    note(name, &|promise| promise.acknowledged = Some((version, revision)));
    true
}

/// What is wrong after a restart.
fn check(
    client: &Client,
    promises: &Mutex<BTreeMap<String, Promise>>,
    highest: &mut u64,
) -> Outcome<Vec<String>> {
    let answer = client
        .send(&request("GET", COLLECTION.to_owned(), &Value::Null))
        .map_err(|error| error.to_string())?;
    let list: Value = serde_json::from_slice(&answer.body)?;
    let number =
        |value: Option<&Value>| value.and_then(Value::as_str).and_then(|text| text.parse::<u64>().ok());
    let current = number(list.pointer("/metadata/resourceVersion")).ok_or("the list has no revision")?;
    let mut promises = promises.lock().map_err(|_| "a writer failed")?;
    let mut wrong = Vec::new();
    let before =
        promises.values().filter_map(|promise| promise.acknowledged).map(|(_, revision)| revision).max();
    let before = before.unwrap_or_default().max(*highest);
    if current < before {
        wrong.push(format!("revision {before} was given out; the server is back at {current}"));
    }
    *highest = current;
    let (mut seen, mut revisions) = (BTreeSet::new(), BTreeSet::new());
    for item in list.get("items").and_then(Value::as_array).into_iter().flatten() {
        let name = item.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        if !name.starts_with('w') {
            continue;
        }
        seen.insert(name.to_owned());
        let stored =
            (number(item.pointer("/data/version")), number(item.pointer("/metadata/resourceVersion")));
        let (Some(version), Some(revision)) = stored else {
            wrong.push(format!("{name} is not whole: {item}"));
            continue;
        };
        if !revisions.insert(revision) {
            wrong.push(format!("revision {revision} is that of two objects"));
        }
        let promise = promises.entry(name.to_owned()).or_default();
        let asked = promise.asked;
        match promise.acknowledged {
            Some((acknowledged, at)) if version < acknowledged => {
                wrong.push(format!(
                    "{name}: version {acknowledged} was acknowledged at {at}, {version} is there"
                ));
            }
            Some((acknowledged, at)) if version == acknowledged && revision != at => {
                wrong.push(format!(
                    "{name}: version {version} was acknowledged at {at}, and is there at {revision}"
                ));
            }
            _ if version > asked => wrong.push(format!("{name}: version {version} was never asked for")),
            // What came late counts from now on.
            _ => promise.acknowledged = Some((version, revision)),
        }
    }
    for (name, promise) in promises.iter_mut() {
        match promise.acknowledged {
            Some((version, at)) if !seen.contains(name) => {
                wrong.push(format!(
                    "{name}: version {version} was acknowledged at {at}, and the object is gone"
                ));
            }
            None if !seen.contains(name) => promise.asked = 0,
            _ => {}
        }
    }
    Ok(wrong)
}
