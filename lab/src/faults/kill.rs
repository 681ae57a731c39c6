//! Repeated kills of a busy server.
//!
//! Acknowledged writes are present after the restart, with the acknowledged revision; others are complete or absent; no
//! revision is assigned twice.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use settled_conformance::Target as _;

use super::{COLLECTION, Dice, Kept, Report, Setting, begin, config_map, name_of, number, request, revision};
use crate::Outcome;
use settled_conformance::Client;

/// Number of concurrent writers.
const WRITERS: usize = 8;

/// Requested versions of an object, and the last acknowledged one: number and revision.
#[derive(Clone, Debug, Default)]
struct Promise {
    asked: u64,
    acknowledged: Option<(u64, u64)>,
}

pub(super) fn run(setting: &Setting) -> Outcome<Report> {
    let cycles = setting.cycles.unwrap_or(if setting.quick { 100 } else { 1000 });
    let mut report = Report::default();
    let promises: Arc<Mutex<BTreeMap<String, Promise>>> = Arc::default();
    let mut dice = Dice::new(setting.seed);
    let (mut highest, mut writes, mut slowest) = (0_u64, 0_usize, Duration::ZERO);
    for cycle in 0..=cycles {
        let begun = Instant::now();
        let mut running = begin(&setting.directory, Kept::OnDisk)?;
        let found = check(&running.client, &promises, &mut highest)?;
        if !found.is_empty() {
            report.wrong.extend(found.into_iter().map(|wrong| format!("cycle {cycle}: {wrong}")));
            return Ok(report);
        }
        slowest = slowest.max(begun.elapsed());
        if cycle == cycles {
            running.check(&mut report)?;
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
        if cycle % 100 == 99 && !setting.quick {
            println!("  {} cycles, {writes} acknowledged writes, revision {highest}", cycle + 1);
        }
    }
    report.note(format!(
        "{cycles} cycles of kill -9 under {WRITERS} writers: {writes} acknowledged writes, slowest start and check {} ms",
        slowest.as_millis()
    ));
    report.expect(writes > 0, || "nothing was written".to_owned());
    Ok(report)
}

/// Creates and updates objects sequentially. Returns the number of acknowledged writes.
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
    // Few names that repeat: objects are updated after many restarts.
    let mut number = 0;
    while !stop.load(Ordering::Acquire) {
        number += 1;
        let name = format!("w{writer}-{}", (cycle + number) % 40);
        let known =
            promises.lock().ok().and_then(|promises| promises.get(&name).cloned()).unwrap_or_default();
        let version = known.asked + 1;
        note(&name, &|promise| promise.asked = version);
        let object = config_map(&name, version, 200);
        let request = if known.asked == 0 {
            request("POST", COLLECTION, &object)
        } else {
            request("PUT", &format!("{COLLECTION}/{name}"), &object)
        };
        let Ok(answer) = client.send(&request) else { continue };
        if answer.status == 404 || answer.status == 409 {
            // An unacknowledged create was stored or lost.
            let again = if answer.status == 404 {
                super::request("POST", COLLECTION, &object)
            } else {
                super::request("PUT", &format!("{COLLECTION}/{name}"), &object)
            };
            let Ok(answer) = client.send(&again) else { continue };
            acknowledged += usize::from(keep(&answer.body, answer.status, version, &name, &note));
            continue;
        }
        acknowledged += usize::from(keep(&answer.body, answer.status, version, &name, &note));
    }
    acknowledged
}

/// Records the outcome of a write.
type Note<'a> = dyn Fn(&str, &dyn Fn(&mut Promise)) + 'a;

fn keep(body: &[u8], status: u16, version: u64, name: &str, note: &Note<'_>) -> bool {
    let object: Value = serde_json::from_slice(body).unwrap_or_default();
    let (200 | 201, Some(revision)) = (status, revision(&object)) else { return false };
    note(name, &|promise| promise.acknowledged = Some((version, revision)));
    true
}

/// Inconsistencies after a restart.
fn check(
    client: &Client,
    promises: &Mutex<BTreeMap<String, Promise>>,
    highest: &mut u64,
) -> Outcome<Vec<String>> {
    let answer = client.send(&request("GET", COLLECTION, &Value::Null)).map_err(|error| error.to_string())?;
    let list: Value = serde_json::from_slice(&answer.body)?;
    let current = revision(&list).ok_or("the list has no revision")?;
    let mut promises = promises.lock().map_err(|_| "a writer failed")?;
    let mut wrong = Vec::new();
    let before =
        promises.values().filter_map(|promise| promise.acknowledged).map(|(_, revision)| revision).max();
    let before = before.unwrap_or_default().max(*highest);
    if current < before {
        wrong.push(format!("revision {before} was assigned; the server is back at {current}"));
    }
    *highest = current;
    let (mut seen, mut revisions) = (BTreeSet::new(), BTreeSet::new());
    for item in list.get("items").and_then(Value::as_array).into_iter().flatten() {
        let name = name_of(item);
        if !name.starts_with('w') {
            continue;
        }
        seen.insert(name.to_owned());
        let stored = (number(item.pointer("/data/version")), revision(item));
        let (Some(version), Some(revision)) = stored else {
            wrong.push(format!("{name} is incomplete: {item}"));
            continue;
        };
        if !revisions.insert(revision) {
            wrong.push(format!("revision {revision} is assigned to two objects"));
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
            _ if version > asked => wrong.push(format!("{name}: version {version} was never requested")),
            // The observed state is the baseline from now on.
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
