//! Runner: executes the steps of a case.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use crate::case::{Action, Await, Case, CaseFile, Step, Until};
use crate::normal::Normaliser;
use crate::place;
use crate::target::{Error, Lines, Request, Response, Target, Watching};
use crate::vars::Vars;

/// Timeout of a step. A timeout is a failure, and is recorded in the response.
const DEADLINE: Duration = Duration::from_secs(20);
/// Delay before a request is repeated.
const POLL: Duration = Duration::from_millis(20);
/// Number of concurrent readers.
const READERS: usize = 24;

/// Sends the steps of cases to a server.
pub struct Runner<'t> {
    target: &'t dyn Target,
}

impl std::fmt::Debug for Runner<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Runner").finish_non_exhaustive()
    }
}

/// A raw response.
struct Raw {
    head: Response,
    events: Option<Vec<Vec<u8>>>,
    /// Whether the server closed the stream.
    ended: bool,
    /// Error that ended the stream.
    failed: Option<String>,
}

impl<'t> Runner<'t> {
    /// A runner for a server.
    #[must_use]
    pub fn new(target: &'t dyn Target) -> Self {
        Self { target }
    }

    /// Runs the setup of a file, once, before its first case.
    ///
    /// # Errors
    ///
    /// A step has no response or is rejected: the cases of the file are then meaningless.
    pub fn setup(&self, file: &CaseFile) -> Result<(), Error> {
        let mut run = Run::new(self.target, file, &file.name);
        for (at, step) in file.setup.iter().enumerate() {
            let raw = run.exchange(step);
            if raw.failed.is_some() || raw.head.status >= 300 {
                let body = String::from_utf8_lossy(&raw.head.body).into_owned();
                let why = raw.failed.unwrap_or(body);
                return Err(Error::file(&file.name, format!("setup, step {at}: {} {why}", raw.head.status)));
            }
        }
        Ok(())
    }

    /// Runs a case in a namespace of its own, and returns a normalized response for each recorded step and reader.
    /// Errors are in the field `failed` of the response.
    pub fn run(&self, file: &CaseFile, case: &Case) -> Vec<Value> {
        let mut run = Run::new(self.target, file, &case.name);
        if case.namespaced
            && let Err(why) = run.namespace(&case.name)
        {
            return vec![json!({"failed": format!("its namespace: {why}")})];
        }
        let mut answers = Vec::new();
        for step in &case.steps {
            let raw = run.exchange(step);
            if !step.is_recorded() {
                if let Some(why) = raw.failed {
                    answers.push(json!({"failed": why}));
                    return answers;
                }
                continue;
            }
            answers.push(run.answer(step, &raw));
        }
        if let Some(first) = case.readers.first() {
            run.settle(&run.vars.text(&first.path));
        }
        for (step, raw) in case.readers.iter().zip(run.side_by_side(&case.readers)) {
            answers.push(run.answer(step, &raw));
        }
        answers
    }
}

struct Run<'t> {
    target: &'t dyn Target,
    vars: Vars,
    normal: Normaliser,
    open: BTreeMap<String, Box<dyn Lines>>,
}

impl<'t> Run<'t> {
    fn new(target: &'t dyn Target, file: &CaseFile, name: &str) -> Self {
        let mut vars = file.vars.clone();
        vars.set("ns", name.into());
        vars.set("case", name.into());
        vars.set("file", file.name.as_str().into());
        Self { target, vars, normal: Normaliser::default(), open: BTreeMap::new() }
    }

    fn namespace(&self, name: &str) -> Result<(), String> {
        let step = Step {
            method: "POST".to_owned(),
            path: "/api/v1/namespaces".to_owned(),
            body: Some(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})),
            ..Step::default()
        };
        let response = self.target.send(&self.request(&step)).map_err(|why| why.to_string())?;
        match response.status {
            201 => Ok(()),
            status => Err(format!("{status} {}", String::from_utf8_lossy(&response.body))),
        }
    }

    fn request(&self, step: &Step) -> Request {
        let mut headers: Vec<(String, String)> =
            step.headers.iter().map(|(name, value)| (name.clone(), self.vars.text(value))).collect();
        let mut body = Vec::new();
        if let Some(value) = &step.body {
            let mut value = self.vars.value(value);
            for (pointer, new) in &step.set {
                if new.is_null() {
                    place::unset(&mut value, pointer);
                } else {
                    place::set(&mut value, pointer, self.vars.value(new));
                }
            }
            body = match &value {
                Value::String(text) => text.clone().into_bytes(),
                other => other.to_string().into_bytes(),
            };
            if !headers.iter().any(|(name, _)| name == "Content-Type") {
                headers.push(("Content-Type".to_owned(), "application/json".to_owned()));
            }
        }
        // An empty value omits the header.
        headers.retain(|(_, value)| !value.is_empty());
        if !headers.iter().any(|(name, _)| name == "User-Agent") {
            headers.push(("User-Agent".to_owned(), "conformance/1.0".to_owned()));
        }
        let (method, path, user) = (step.method.clone(), self.vars.text(&step.path), step.user.clone());
        Request { method, path, user, headers, body }
    }

    /// Upstream's cache may lag behind a recent write. A consistent list of the collection waits for the cache, which
    /// makes the following read deterministic.
    fn settle(&self, path: &str) {
        let (bare, query) = path.split_once('?').unwrap_or((path, ""));
        let cached = query.contains("resourceVersion=0")
            || query.contains("NotOlderThan")
            || query.contains("watch=")
            || query.contains("sendInitialEvents");
        if cached {
            // Below the deprecated prefix, a list would be a watch, which never ends.
            let step = Step { path: bare.replacen("/watch/", "/", 1), ..Step::default() };
            // The next request reports its failure.
            drop(self.target.send(&self.request(&step)));
        }
    }

    fn exchange(&mut self, step: &Step) -> Raw {
        let request = self.request(step);
        match step.action {
            Action::Read => {
                let Some(mut lines) = self.open.remove(&step.path) else {
                    return failed(Err(Error::Transport(format!("no open watch {}", step.path))));
                };
                let mut raw = raw(Response::default());
                collect(&mut raw, lines.as_mut(), step.until);
                self.open.insert(step.path.clone(), lines);
                raw
            }
            Action::Open => {
                self.settle(&request.path);
                match self.target.watch(&request) {
                    Ok(Watching { head, lines }) => {
                        if let Some(lines) = lines {
                            self.open.insert(step.opens.clone(), lines);
                        }
                        raw(head)
                    }
                    Err(why) => failed(Err(why)),
                }
            }
            Action::Watch => {
                self.settle(&request.path);
                watch(self.target, &request, step.until)
            }
            Action::Send | Action::Ready => {
                self.settle(&request.path);
                let wait = match step.action {
                    Action::Ready => Some(Await::Status(200)),
                    _ => step.wait.clone(),
                };
                let raw = self.send(&request, wait.as_ref());
                let body: Value = serde_json::from_slice(&raw.head.body).unwrap_or(Value::Null);
                for (name, place) in &step.save {
                    if let Some(value) = place::first(&body, place) {
                        self.vars.set(name, value.clone());
                    }
                }
                let sent: Value = serde_json::from_slice(&request.body).unwrap_or(Value::Null);
                let prefix = sent.pointer("/metadata/generateName").and_then(Value::as_str);
                let name = body.pointer("/metadata/name").or_else(|| body.pointer("/details/name"));
                let name = name.and_then(Value::as_str);
                if let (Some(prefix), Some(name)) = (prefix, name)
                    && sent.pointer("/metadata/name").is_none()
                {
                    self.normal.generated(prefix, name);
                }
                raw
            }
        }
    }

    fn send(&self, request: &Request, wait: Option<&Await>) -> Raw {
        let start = Instant::now();
        loop {
            let response = match self.target.send(request) {
                Ok(response) => response,
                Err(why) => return failed(Err(why)),
            };
            let met = match wait {
                None => true,
                Some(Await::Status(status)) => response.status == *status,
                Some(Await::Value(place, wanted)) => {
                    let body: Value = serde_json::from_slice(&response.body).unwrap_or(Value::Null);
                    place::first(&body, place) == Some(&self.vars.value(wanted))
                }
            };
            if met {
                return raw(response);
            }
            if start.elapsed() > DEADLINE {
                let mut raw = raw(response);
                raw.failed = Some("the expected response did not arrive".to_owned());
                return raw;
            }
            thread::sleep(POLL);
        }
    }

    fn side_by_side(&self, steps: &[Step]) -> Vec<Raw> {
        let requests: Vec<Request> = steps.iter().map(|step| self.request(step)).collect();
        let next = AtomicUsize::new(0);
        let done: Mutex<BTreeMap<usize, Raw>> = Mutex::default();
        let target = self.target;
        thread::scope(|scope| {
            for _ in 0..READERS.min(steps.len()) {
                scope.spawn(|| {
                    loop {
                        let at = next.fetch_add(1, Ordering::Relaxed);
                        let (Some(step), Some(request)) = (steps.get(at), requests.get(at)) else { break };
                        let raw = match step.action {
                            Action::Watch => watch(target, request, step.until),
                            _ => match target.send(request) {
                                Ok(response) => raw(response),
                                Err(why) => failed(Err(why)),
                            },
                        };
                        if let Ok(mut done) = done.lock() {
                            done.insert(at, raw);
                        }
                    }
                });
            }
        });
        done.into_inner().map(|done| done.into_values().collect()).unwrap_or_default()
    }

    fn answer(&mut self, step: &Step, raw: &Raw) -> Value {
        let mut answer = match (step.action, &raw.failed) {
            (Action::Read, _) => json!({}),
            (_, Some(_)) if raw.head.status == 0 => json!({}),
            _ => self.normal.response(&raw.head),
        };
        let Value::Object(map) = &mut answer else { return answer };
        if let Some(lines) = &raw.events {
            self.normal.begin_stream();
            let events: Vec<Value> = lines.iter().map(|line| self.normal.event(line)).collect();
            let events = events.into_iter().map(|event| picked(&event, &step.pick)).collect();
            map.insert("events".to_owned(), events);
            if raw.ended {
                map.insert("ended".to_owned(), true.into());
            }
        } else if let Some(body) = map.get("body") {
            let body = picked(body, &step.pick);
            map.insert("body".to_owned(), body);
        }
        if !step.lines.is_empty()
            && let Some(Value::String(text)) = map.get("text")
        {
            let wanted = |line: &&str| step.lines.iter().any(|prefix| line.starts_with(prefix.as_str()));
            let mut lines: Vec<&str> = text.lines().filter(wanted).collect();
            lines.sort_unstable();
            lines.dedup();
            let lines = lines.into();
            map.insert("text".to_owned(), lines);
        }
        if let Some(why) = &raw.failed {
            map.insert("failed".to_owned(), why.as_str().into());
        }
        answer
    }
}

fn picked(body: &Value, places: &[String]) -> Value {
    if places.is_empty() {
        return body.clone();
    }
    let found =
        |place: &String| (place.clone(), place::all(body, place).into_iter().cloned().collect::<Vec<_>>());
    let found = places.iter().map(found).filter(|(_, values)| !values.is_empty());
    Value::Object(found.map(|(place, values)| (place, values.into())).collect::<Map<String, Value>>())
}

fn raw(head: Response) -> Raw {
    Raw { head, events: None, ended: false, failed: None }
}

fn failed(outcome: Result<(), Error>) -> Raw {
    let mut raw = raw(Response::default());
    raw.failed = outcome.err().map(|why| why.to_string());
    raw
}

fn watch(target: &dyn Target, request: &Request, until: Until) -> Raw {
    match target.watch(request) {
        Ok(Watching { head, lines }) => {
            let mut raw = raw(head);
            if let Some(mut lines) = lines {
                collect(&mut raw, lines.as_mut(), until);
            }
            raw
        }
        Err(why) => failed(Err(why)),
    }
}

fn collect(raw: &mut Raw, lines: &mut dyn Lines, until: Until) {
    let deadline = Instant::now() + DEADLINE;
    let mut events = Vec::new();
    loop {
        let done = match until {
            Until::Events(count) => events.len() >= count,
            Until::Bookmark => events.last().is_some_and(|line: &Vec<u8>| {
                serde_json::from_slice::<Value>(line).is_ok_and(|event| event["type"] == "BOOKMARK")
            }),
            Until::End => false,
        };
        if done {
            break;
        }
        match lines.next(deadline) {
            Ok(Some(line)) => events.push(line),
            Ok(None) => {
                raw.ended = true;
                break;
            }
            Err(why) => {
                raw.failed = Some(why.to_string());
                break;
            }
        }
    }
    raw.events = Some(events);
}
