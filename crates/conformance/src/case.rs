//! Cases: scripted requests, one YAML file per topic.

use std::fs;
use std::path::Path;

use serde_json::{Map, Value};

use crate::target::Error;
use crate::{matrix, vars::Vars};

/// A file of cases.
#[derive(Clone, Debug)]
pub struct CaseFile {
    /// File name without extension.
    pub name: String,
    /// Runs once, before the first case, and is not recorded.
    pub setup: Vec<Step>,
    /// Cases sorted by name. They are independent.
    pub cases: Vec<Case>,
    pub(crate) vars: Vars,
}

/// One script.
#[derive(Clone, Debug)]
pub struct Case {
    /// Unique name in all files, which is also the name of its namespace.
    pub name: String,
    /// Steps in order.
    pub steps: Vec<Step>,
    /// Read-only steps, which run concurrently after all others.
    pub readers: Vec<Step>,
    /// Whether the case needs a namespace of its own.
    pub(crate) namespaced: bool,
}

/// Action of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Sends a request.
    Send,
    /// Opens a watch, reads it until a condition holds, and closes it.
    Watch,
    /// Opens a watch that later steps read.
    Open,
    /// Reads an open watch until a condition holds.
    Read,
    /// Sends a request until its response is 200; not recorded.
    Ready,
}

/// End condition of reading a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// A number of events, including bookmarks.
    Events(usize),
    /// A bookmark.
    Bookmark,
    /// The end of the stream.
    End,
}

/// End condition of a repeated request.
#[derive(Clone, Debug, PartialEq)]
pub enum Await {
    /// A status code.
    Status(u16),
    /// A value at a path of the body.
    Value(String, Value),
}

/// One step of a script.
#[derive(Clone, Debug)]
pub struct Step {
    /// The action.
    pub action: Action,
    /// HTTP method.
    pub method: String,
    /// Path and query, with variables; for [`Action::Read`], the name of the watch.
    pub path: String,
    /// Identity of the request.
    pub user: String,
    /// Headers, with variables.
    pub headers: Vec<(String, String)>,
    /// Body, with variables: strings are sent verbatim, everything else as JSON.
    pub body: Option<Value>,
    /// Values to set in [`Step::body`], by JSON pointer; null removes.
    pub set: Map<String, Value>,
    /// Variables for later steps: name, and path in the response body.
    pub save: Vec<(String, String)>,
    /// End condition of the watch.
    pub until: Until,
    /// End condition of repeating the request.
    pub wait: Option<Await>,
    /// Paths of the body to compare; the whole body if empty.
    pub pick: Vec<String>,
    /// Prefixes of the lines of a text body to compare.
    pub lines: Vec<String>,
    /// Name of the watch opened by [`Action::Open`].
    pub opens: String,
}

impl Default for Step {
    fn default() -> Self {
        Self {
            action: Action::Send,
            method: "GET".to_owned(),
            path: String::new(),
            user: "admin".to_owned(),
            headers: vec![],
            body: None,
            set: Map::new(),
            save: vec![],
            until: Until::End,
            wait: None,
            pick: vec![],
            lines: vec![],
            opens: String::new(),
        }
    }
}

impl Step {
    /// Whether its response is part of the recording.
    #[must_use]
    pub fn is_recorded(&self) -> bool {
        self.action != Action::Ready
    }
}

/// Abbreviations of `Accept` headers.
const ACCEPT: [(&str, &str); 8] = [
    (
        "table",
        "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json",
    ),
    ("table-only", "application/json;as=Table;v=v1;g=meta.k8s.io"),
    ("partial", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"),
    ("partial-list", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"),
    (
        "aggregated",
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json",
    ),
    (
        "aggregated-v2beta1",
        "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json",
    ),
    ("protobuf", "application/vnd.kubernetes.protobuf"),
    ("yaml", "application/yaml"),
];

/// Abbreviations of `Content-Type` headers.
const TYPE: [(&str, &str); 6] = [
    ("json", "application/json"),
    ("yaml", "application/yaml"),
    ("merge", "application/merge-patch+json"),
    ("json-patch", "application/json-patch+json"),
    ("strategic", "application/strategic-merge-patch+json"),
    ("apply", "application/apply-patch+yaml"),
];

fn alias(table: &[(&str, &str)], word: &str) -> String {
    table.iter().find(|(short, _)| *short == word).map_or(word, |(_, long)| long).to_owned()
}

impl CaseFile {
    /// Parses a file of cases.
    ///
    /// # Errors
    ///
    /// [`Error::File`] with the invalid step.
    pub fn parse(name: &str, text: &str) -> Result<Self, Error> {
        let mut json = Vec::new();
        settled_manifest::yaml_to_json(text.as_bytes(), &mut json).map_err(|why| Error::file(name, why))?;
        let value: Value = serde_json::from_slice(&json).map_err(|why| Error::file(name, why))?;
        let steps = |case: &str, value: Option<&Value>| -> Result<Vec<Step>, Error> {
            let items = value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            let numbered = items.iter().enumerate();
            numbered
                .map(|(at, item)| {
                    step(item).map_err(|why| Error::file(name, format!("{case}, step {at}: {why}")))
                })
                .collect()
        };
        let mut vars = Vars::default();
        for (key, value) in value.get("vars").and_then(Value::as_object).into_iter().flatten() {
            vars.set(key, value.clone());
        }
        let mut cases = Vec::new();
        for (case, value) in value.get("cases").and_then(Value::as_object).into_iter().flatten() {
            let readers = match value.get("matrix") {
                Some(matrix) => matrix::expand(matrix)
                    .iter()
                    .map(step)
                    .collect::<Result<_, _>>()
                    .map_err(|why| Error::file(name, format!("{case}: {why}")))?,
                None => vec![],
            };
            let given = if value.is_array() { Some(value) } else { value.get("steps") };
            let namespaced = vars.value(value).to_string().contains("<ns>");
            cases.push(Case { name: case.clone(), steps: steps(case, given)?, readers, namespaced });
        }
        Ok(Self { name: name.to_owned(), setup: steps("setup", value.get("setup"))?, cases, vars })
    }
}

/// Reads all files of cases in a directory, sorted by name.
///
/// # Errors
///
/// A file cannot be read, is invalid, or has the same case name as another file.
pub fn load(directory: &Path) -> Result<Vec<CaseFile>, Error> {
    let shown = directory.display().to_string();
    let entries = fs::read_dir(directory).map_err(|why| Error::file(&shown, why))?;
    let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "yaml"));
    paths.sort();
    let mut files: Vec<CaseFile> = Vec::new();
    for path in paths {
        let text = fs::read_to_string(&path).map_err(|why| Error::file(&path.display().to_string(), why))?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let file = CaseFile::parse(&name, &text)?;
        for case in &file.cases {
            let twice = files.iter().find(|other| other.cases.iter().any(|other| other.name == case.name));
            if let Some(other) = twice {
                return Err(Error::file(&name, format!("{} has a case {} too", other.name, case.name)));
            }
        }
        files.push(file);
    }
    Ok(files)
}

/// Parses one step: `METHOD path`, or an object with the method as a key.
pub(crate) fn step(value: &Value) -> Result<Step, String> {
    let mut step = Step::default();
    if let Value::String(line) = value {
        let (method, path) = line.split_once(' ').unwrap_or((line, ""));
        verb(&mut step, method, path)?;
        return Ok(step);
    }
    let map = value.as_object().ok_or("neither a line nor an object")?;
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let list = |value: &Value| match value {
        Value::Array(items) => items.iter().map(text).collect(),
        one => vec![text(one)],
    };
    for (key, value) in map {
        match key.as_str() {
            "as" => step.user = text(value),
            "accept" => step.headers.push(("Accept".to_owned(), alias(&ACCEPT, &text(value)))),
            "type" => step.headers.push(("Content-Type".to_owned(), alias(&TYPE, &text(value)))),
            "agent" => step.headers.push(("User-Agent".to_owned(), text(value))),
            "headers" => {
                for (name, value) in value.as_object().into_iter().flatten() {
                    for value in list(value) {
                        step.headers.push((name.clone(), value));
                    }
                }
            }
            "body" => step.body = Some(value.clone()),
            "set" => step.set = value.as_object().cloned().ok_or("set is no object")?,
            "save" => {
                for (name, place) in value.as_object().ok_or("save is no object")? {
                    step.save.push((name.clone(), text(place)));
                }
            }
            "until" => {
                step.until = match value {
                    Value::String(word) if word == "bookmark" => Until::Bookmark,
                    Value::String(word) if word == "end" => Until::End,
                    other => {
                        let count = other.as_u64().and_then(|count| usize::try_from(count).ok());
                        Until::Events(count.ok_or("until is a number, bookmark or end")?)
                    }
                }
            }
            "await" => {
                step.wait = Some(match value {
                    Value::Object(map) => {
                        let (place, value) = map.iter().next().ok_or("await is empty")?;
                        Await::Value(place.clone(), value.clone())
                    }
                    other => {
                        let status = other.as_u64().and_then(|status| u16::try_from(status).ok());
                        Await::Status(status.ok_or("await is a status or {place: value}")?)
                    }
                });
            }
            "pick" => step.pick = list(value),
            "lines" => step.lines = list(value),
            "opens" => step.opens = text(value),
            method => verb(&mut step, method, &text(value))?,
        }
    }
    if step.path.is_empty() {
        return Err("no method".to_owned());
    }
    Ok(step)
}

fn verb(step: &mut Step, method: &str, path: &str) -> Result<(), String> {
    step.path = path.to_owned();
    step.action = match method {
        "GET" | "POST" | "PUT" | "PATCH" | "DELETE" | "HEAD" | "OPTIONS" => {
            step.method = method.to_owned();
            Action::Send
        }
        "WATCH" => Action::Watch,
        "OPEN" => Action::Open,
        "READ" => Action::Read,
        "READY" => Action::Ready,
        other => return Err(format!("no such key: {other}")),
    };
    Ok(())
}
