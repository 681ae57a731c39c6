//! Concurrent writers, and watches that start with a list, a paginated list, a streaming list or an older
//! resourceVersion. Each ends with the same state as a list.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use settled_conformance::Target as _;

use super::{Dice, Kept, Report, Running, Setting, begin, config_map, name_of, request, revision, text};
use crate::Outcome;

const WRITERS: usize = 200;
const WATCHERS: usize = 50;
const NAMESPACES: [&str; 2] = ["default", "kube-public"];
const ALL: &str = "/api/v1/configmaps";
const STREAMED: &str = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
/// The object that is written last.
const LAST: &str = "zz-last";
/// Maximum number of events, far above what a run produces.
const PATIENCE: Duration = Duration::from_secs(300);

/// Objects by namespace and name.
type State = BTreeMap<(String, String), Value>;

/// Recorded states from which watches can start later.
type Past = Mutex<Vec<(State, u64)>>;

pub(super) fn run(setting: &Setting) -> Outcome<Report> {
    let each = if setting.quick { 25 } else { 250 };
    let mut report = Report::default();
    let mut running = begin(&setting.directory, Kept::OnDisk)?;
    let (done, past) = (AtomicUsize::new(0), Past::default());
    let begun = Instant::now();
    let (states, events, wanted) = thread::scope(|scope| -> Outcome<_> {
        let (server, done, past) = (&running, &done, &past);
        let watching: Vec<_> = (0..WATCHERS)
            .map(|number| {
                let mut dice = Dice::new(setting.seed ^ (0x85eb_ca6b << 16) ^ number as u64);
                scope.spawn(move || {
                    // Anywhere: after this many writes.
                    let after = dice.below(WRITERS * each);
                    while done.load(Ordering::Relaxed) < after {
                        thread::sleep(Duration::from_millis(1));
                    }
                    follow(server, &mut dice, past)
                })
            })
            .collect();
        let writing: Vec<_> = (0..WRITERS)
            .map(|number| {
                let mut dice = Dice::new(setting.seed ^ (0x9e37_79b9 << 16) ^ number as u64);
                scope.spawn(move || -> Outcome<()> {
                    for _ in 0..each {
                        write(server, &mut dice)?;
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                    Ok(())
                })
            })
            .collect();
        let written: Vec<Outcome<()>> = writing
            .into_iter()
            .map(|one| one.join().unwrap_or_else(|_| Err("a writer failed".into())))
            .collect();
        // On errors, too, so that no task waits forever.
        done.store(usize::MAX, Ordering::Relaxed);
        let path = format!("/api/v1/namespaces/{}/configmaps", NAMESPACES[1]);
        let last = server.send("POST", &path, &config_map(LAST, 1, 1))?;
        written.into_iter().collect::<Outcome<()>>()?;
        if last.status != 201 {
            return Err(format!("the last create: {} {}", last.status, text(&last.body)).into());
        }
        let wanted = list(server, "")?;
        let (mut states, mut events) = (Vec::new(), 0);
        for watcher in watching {
            let (state, seen) = watcher.join().unwrap_or_else(|_| Err("a watcher failed".into()))?;
            states.push(state);
            events += seen;
        }
        Ok((states, events, wanted.0))
    })?;
    for (number, state) in states.iter().enumerate() {
        if *state != wanted {
            let differs = |key: &&(String, String)| state.get(*key) != wanted.get(*key);
            let first = state.keys().chain(wanted.keys()).find(differs);
            report.wrong.push(format!("watch {number} differs from the list, first at {first:?}"));
        }
    }
    report.note(format!(
        "{WRITERS} writers, {} writes; {WATCHERS} watchers, {events} events; {} objects in the end; {:.1} s",
        WRITERS * each,
        wanted.len(),
        begun.elapsed().as_secs_f64()
    ));
    running.check(&mut report)?;
    Ok(report)
}

/// One more write; not found and already exists are accepted responses.
fn write(server: &Running, dice: &mut Dice) -> Outcome<()> {
    let collection = format!("/api/v1/namespaces/{}/configmaps", dice.pick(&NAMESPACES));
    let name = format!("n{}", dice.below(WRITERS));
    let path = format!("{collection}/{name}");
    let answer = match dice.below(8) {
        0 | 1 => server.send("POST", &collection, &config_map(&name, dice.roll(1000), 100))?,
        2 => server.send("DELETE", &path, &Value::Null)?,
        3 => server.send("PUT", &path, &config_map(&name, dice.roll(1000), 100))?,
        _ => server.send("PATCH", &path, &json!({"data": {"version": dice.roll(1000).to_string()}}))?,
    };
    match answer.status {
        200 | 201 | 404 | 409 => Ok(()),
        status => Err(format!("{path}: {status} {}", text(&answer.body)).into()),
    }
}

fn key(object: &Value) -> (String, String) {
    let namespace = object.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or_default();
    (namespace.to_owned(), name_of(object).to_owned())
}

/// A list as state and resourceVersion. Adds fields that lists omit from their items.
fn list(server: &Running, query: &str) -> Outcome<(State, u64)> {
    let (mut state, mut at, mut next) = (State::new(), 0, String::new());
    loop {
        let answer = server.send("GET", &format!("{ALL}?{query}{next}"), &Value::Null)?;
        let mut page: Value = serde_json::from_slice(&answer.body)?;
        let Some(revision) = revision(&page).filter(|_| answer.status == 200) else {
            return Err(format!("a list: {} {}", answer.status, text(&answer.body)).into());
        };
        if at != 0 && at != revision {
            return Err(format!("the pages of a list are of {at} and {revision}").into());
        }
        at = revision;
        let Some(Value::Array(items)) = page.get_mut("items").map(Value::take) else {
            return Ok((state, at));
        };
        for mut item in items {
            item["kind"] = "ConfigMap".into();
            item["apiVersion"] = "v1".into();
            state.insert(key(&item), item);
        }
        match page.pointer("/metadata/continue").and_then(Value::as_str) {
            Some(token) => next = format!("&continue={token}"),
            None => return Ok((state, at)),
        }
    }
}

/// Watches until the last object arrives: the state by then, and the number of events.
fn follow(server: &Running, dice: &mut Dice, past: &Past) -> Outcome<(State, usize)> {
    let deadline = Instant::now() + PATIENCE;
    let mut events = 0;
    'again: loop {
        let (mut state, query) = match dice.below(4) {
            0 => {
                let (state, at) = list(server, "")?;
                (state, format!("resourceVersion={at}"))
            }
            // Page by page, at one revision, during writes.
            1 => {
                let (state, at) = list(server, "limit=7")?;
                (state, format!("resourceVersion={at}"))
            }
            2 => (State::new(), STREAMED.to_owned()),
            // From a recorded state.
            _ => {
                let mut past = past.lock().map_err(|_| "a watcher failed")?;
                past.push(list(server, "")?);
                let (state, at) = dice.pick(&past).clone();
                (state, format!("resourceVersion={at}"))
            }
        };
        let mut streaming = state.is_empty();
        let path = format!("{ALL}?watch=true&{query}");
        let Some(mut lines) = server.client.watch(&request("GET", &path, &Value::Null))?.lines else {
            return Err(format!("{path}: no events").into());
        };
        let mut before = 0;
        // After a relist, the last object may be in the list.
        while !state.keys().any(|(_, name)| name == LAST) {
            // Too slow, and closed: relists, as every client does.
            let Some(line) = lines.next(deadline)? else { continue 'again };
            let mut event: Value = serde_json::from_slice(&line)?;
            events += 1;
            let kind = event["type"].as_str().unwrap_or_default().to_owned();
            let object = event["object"].take();
            if kind == "BOOKMARK" {
                streaming = false;
                continue;
            }
            if kind == "ERROR" {
                if object["code"] == 410 {
                    continue 'again;
                }
                return Err(format!("{path}: {object}").into());
            }
            let at = revision(&object).ok_or("an event has no revision")?;
            // Initial events are sorted by key.
            if !streaming && at <= before {
                return Err(format!("{path}: {at} comes after {before}").into());
            }
            before = before.max(at);
            let key = key(&object);
            let known = state.contains_key(&key);
            match (kind.as_str(), known) {
                ("ADDED", false) | ("MODIFIED", true) => drop(state.insert(key, object)),
                ("DELETED", true) => drop(state.remove(&key)),
                _ => return Err(format!("{path}: {kind} of {key:?}, known: {known}").into()),
            }
        }
        return Ok((state, events));
    }
}
