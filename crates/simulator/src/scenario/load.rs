//! Reader of scenario files: typed entries, and errors with line and column.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::{Entries, Entry, Scenario};

/// Something in a scenario that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}:{column}: {message}")]
pub struct ScenarioError {
    /// The file, as the caller named it.
    pub file: String,
    /// The line, counted from 1.
    pub line: usize,
    /// The column in characters, counted from 1.
    pub column: usize,
    /// What is wrong.
    pub message: String,
}

/// All that is wrong with a scenario.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ScenarioErrors(pub Vec<ScenarioError>);

impl fmt::Display for ScenarioErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            write!(f, "{}{error}", if index > 0 { "\n" } else { "" })?;
        }
        Ok(())
    }
}

/// The file: each entry is read by itself, so that the errors of all of them are found.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct File<'a> {
    seed: u64,
    #[serde(borrow)]
    images: Vec<&'a RawValue>,
    containers: Vec<&'a RawValue>,
    pods: Vec<&'a RawValue>,
    nodes: Vec<&'a RawValue>,
    resources: Vec<&'a RawValue>,
    addresses: Vec<&'a RawValue>,
    autoscalers: Vec<&'a RawValue>,
}

/// A text in YAML, the JSON that it means, and where in the text each part of it stands.
struct Source<'a> {
    file: &'a str,
    text: &'a str,
    json: &'a str,
    places: &'a [(usize, usize)],
    errors: Vec<ScenarioError>,
}

impl Source<'_> {
    /// Line and column of an offset in the JSON.
    fn position(&self, offset: usize) -> (usize, usize) {
        let after = self.places.partition_point(|(written, _)| *written <= offset);
        let place =
            after.checked_sub(1).and_then(|index| self.places.get(index)).map_or(0, |(_, place)| *place);
        let before = self.text.get(..place).unwrap_or(self.text);
        let line = 1 + before.bytes().filter(|byte| *byte == b'\n').count();
        let column = 1 + before.rsplit('\n').next().unwrap_or_default().chars().count();
        (line, column)
    }

    /// Records an error of serde at an offset in the JSON.
    fn fail(&mut self, start: usize, error: &serde_json::Error) {
        let text = error.to_string();
        let message = text.split(" at line ").next().unwrap_or(&text).to_owned();
        // The column is that of the last byte that was read.
        let offset = start + error.column().saturating_sub(if error.is_data() { 2 } else { 1 });
        let (line, column) = self.position(offset);
        self.errors.push(ScenarioError { file: self.file.to_owned(), line, column, message });
    }

    fn read<T: DeserializeOwned>(&mut self, raw: &[&RawValue]) -> Vec<Entry<T>> {
        let mut entries = Vec::with_capacity(raw.len());
        for value in raw {
            let start = value.get().as_ptr().addr().wrapping_sub(self.json.as_ptr().addr());
            match serde_json::from_str(value.get()) {
                Ok(script) => {
                    let (line, column) = self.position(start);
                    entries.push(Entry { script, line, column, matched: AtomicBool::new(false) });
                }
                Err(error) => self.fail(start, &error),
            }
        }
        entries
    }
}

pub(super) fn load(file: &str, text: &str) -> Result<Scenario, ScenarioErrors> {
    let (mut json, mut places) = (Vec::new(), Vec::new());
    let malformed = |line, column, message: &str| {
        let message = message.to_owned();
        ScenarioErrors(vec![ScenarioError { file: file.to_owned(), line, column, message }])
    };
    if let Err(error) = settled_manifest::yaml_to_json_with_places(text.as_bytes(), &mut json, &mut places) {
        let line = usize::try_from(error.position.line).unwrap_or_default();
        let column = usize::try_from(error.position.column).unwrap_or_default();
        return Err(malformed(line, column, &error.message));
    }
    let json = String::from_utf8_lossy(&json);
    if json.is_empty() || json == "null" {
        return Ok(Scenario::default());
    }
    let mut source = Source { file, text, json: &json, places: &places, errors: Vec::new() };
    let read: File<'_> = match serde_json::from_str(&json) {
        Ok(read) => read,
        Err(error) => {
            source.fail(0, &error);
            return Err(ScenarioErrors(source.errors));
        }
    };
    let entries = Entries {
        file: file.to_owned(),
        images: source.read(&read.images),
        containers: source.read(&read.containers),
        pods: source.read(&read.pods),
        nodes: source.read(&read.nodes),
        resources: source.read(&read.resources),
        addresses: source.read(&read.addresses),
        autoscalers: source.read(&read.autoscalers),
    };
    source.errors.sort_by_key(|error| (error.line, error.column));
    if source.errors.is_empty() {
        Ok(Scenario { seed: read.seed, entries: Arc::new(entries) })
    } else {
        Err(ScenarioErrors(source.errors))
    }
}
