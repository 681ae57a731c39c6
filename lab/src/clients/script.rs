//! Scripts of client commands: their format and files.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::Value;

use crate::{Outcome, corpora};

/// A parsed script.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Script {
    /// Reasons why output may differ, by prefix of the command.
    #[serde(default)]
    pub(super) differs: BTreeMap<String, String>,
    /// Files in the working directory: texts, or objects.
    #[serde(default)]
    pub(super) files: BTreeMap<String, Value>,
    pub(super) steps: Vec<Step>,
}

impl Script {
    /// Whether a step kills the server.
    pub(super) fn restarts(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::Special(Special { restart: true, .. })))
    }
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Step {
    Run(String),
    Special(Special),
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Special {
    /// A shell command.
    pub(super) run: Option<String>,
    /// Timeout in seconds.
    pub(super) within: Option<u64>,
    /// Recorded part of its output; all by default.
    #[serde(default)]
    pub(super) record: Recorded,
    /// Kills and restarts the server: `settled serve` only.
    #[serde(default)]
    pub(super) restart: bool,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Recorded {
    #[default]
    All,
    /// Sorted lines.
    Sorted,
    /// Only the exit code.
    Exit,
}

/// Directory of a suite.
pub(super) fn directory(suite: &str) -> PathBuf {
    corpora::root().join("conformance/clients").join(suite)
}

/// The selected scripts of a suite, by name.
pub(super) fn scripts(suite: &str, wanted: impl Fn(&str) -> bool) -> Outcome<BTreeMap<String, Script>> {
    let directory = directory(suite);
    let mut scripts = BTreeMap::new();
    for entry in fs::read_dir(&directory).map_err(|why| format!("{}: {why}", directory.display()))? {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if path.extension().is_none_or(|extension| extension != "yaml") || !wanted(&name) {
            continue;
        }
        let mut json = Vec::new();
        let wrong = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
        settled_manifest::yaml_to_json(&fs::read(&path)?, &mut json).map_err(|why| wrong(&why))?;
        let script = serde_json::from_slice(&json).map_err(|why| wrong(&why))?;
        scripts.insert(name, script);
    }
    Ok(scripts)
}
