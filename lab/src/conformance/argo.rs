//! Argo CD conformance: every published health check runs unchanged in the sandbox on every object of its tests.
//!
//! Each script is run twice: individually in `settled-lua`, and together as rules, as `--rules` reads them. The latter
//! also tests which script is selected for an object, including wildcards. Only the virtual machine and the reader of
//! the format are tested, not the rules of the built-in pack.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use kstatus::{Basis, Options, Status, Verdict};
use serde_json::Value;
use settled_lua::{Error, Health, Limits, Script};
use settled_manifest::yaml_to_json;
use settled_rules::RuleSet;

use crate::oracle::{self, Module, Oracle};
use crate::{Outcome, corpora, measure::Table};

/// The newest release in 2026-11.
const MODULE: Module = Module {
    path: "github.com/argoproj/argo-cd/v3",
    version: "v3.6.1",
    sum: "h1:OmhqeKiR3C//awbFrhQqFdtRI+Qiv17j8vqm3UkMj/g=",
};

/// Directory of scripts in the module: `<group>/<Kind>`, with `_` as a wildcard.
const SCRIPTS: &str = "resource_customizations";

/// The clock of the tests.
const NOW: &str = "2026-07-31T00:00:00Z";

/// Cases whose status differs, by script and object, with the reason why that is correct.
const KNOWN: &[(&str, &str)] = &[(
    "rabbitmq.com/User/testdata/unknown.yaml",
    "a key is there twice, which our YAML reader refuses wherever it reads",
)];

/// One object of a published test.
struct Case {
    /// `<group>/<Kind>/testdata/<file>`.
    name: String,
    /// The object, or its read error.
    object: Result<Vec<u8>, String>,
    /// Name of its script, except for wildcards.
    script: String,
    is_deleted: bool,
    /// The status, empty if the script returns none, and the message.
    expected: (String, String),
}

struct Check {
    /// `<group>/<Kind>/health.lua`, verbatim.
    file: String,
    source: String,
    cases: Vec<Case>,
}

/// Evaluators.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Asked {
    Script,
    Rules,
}

impl Asked {
    const fn about(self) -> &'static str {
        match self {
            Self::Script => "each script by itself",
            Self::Rules => "all scripts as rules",
        }
    }
}

#[derive(Default)]
struct Score {
    cases: usize,
    /// Status and message.
    equal: usize,
    messages: Vec<String>,
    statuses: Vec<String>,
    known: Vec<String>,
}

/// True if every status is the expected one, or known to differ. Differing messages are only printed.
pub(crate) fn run() -> Outcome<bool> {
    let module = match oracle::download(&MODULE)? {
        Oracle::Ready(directory) => directory,
        Oracle::Skipped(reason) => {
            println!("SKIPPED: {reason}");
            return Ok(true);
        }
    };
    let checks = checks(&module.join(SCRIPTS))?;
    let mut scores = BTreeMap::from([Asked::Script, Asked::Rules].map(|asked| (asked, Score::default())));
    let options = Options::new(NOW.parse().map_err(|error| format!("{NOW}: {error}"))?);
    let mut rules = RuleSet::builder().builtin(false).annotations(false);
    // Collects the name of each failing file; a builder is unusable after an error.
    let mut refused = Vec::new();
    for check in &checks {
        match RuleSet::builder().add(&check.file, &check.source) {
            Ok(_) => rules = rules.add(&check.file, &check.source)?,
            Err(errors) => refused.push(errors.to_string()),
        }
    }
    let rules = rules.build();

    let scripts: BTreeMap<&str, Result<Script, String>> = checks
        .iter()
        .map(|check| {
            let script = Script::new(&check.file, &check.source).map_err(|error| error.to_string());
            (&*check.file, script)
        })
        .collect();
    let limits = Limits::default();
    for check in &checks {
        for case in &check.cases {
            // A wildcard's directory also has objects of other scripts.
            let script = scripts.get(&*case.script).or_else(|| scripts.get(&*check.file));
            let by_script = |object: &[u8]| match script {
                Some(Ok(script)) => said(script.run_at(object, options.now.as_second(), &limits)),
                Some(Err(error)) => Err(error.clone()),
                None => Err("no script".to_owned()),
            };
            let by_rules = |object: &[u8]| judged(&rules.compute(object, &options), case);
            let object = case.object.as_deref().map_err(Clone::clone);
            scores.entry(Asked::Script).or_default().add(case, object.clone().and_then(by_script));
            scores.entry(Asked::Rules).or_default().add(case, object.and_then(by_rules));
        }
    }

    let cases: usize = checks.iter().map(|check| check.cases.len()).sum();
    let deleted = checks.iter().flat_map(|check| &check.cases).filter(|case| case.is_deleted).count();
    println!(
        "\nArgo CD {}: {} scripts, {cases} cases; {deleted} objects are being deleted, of which rules say Terminating",
        MODULE.version,
        checks.len()
    );
    let mut table =
        Table::new(["asked", "cases", "equal", "message differs", "known to differ", "status differs"]);
    for (asked, score) in &scores {
        let counts =
            [score.cases, score.equal, score.messages.len(), score.known.len(), score.statuses.len()];
        let [cases, equal, messages, known, statuses] = counts.map(|count| count.to_string());
        table.row([asked.about().to_owned(), cases, equal, messages, known, statuses]);
    }
    table.print();
    for error in &refused {
        println!("- not read as a rule: {error}");
    }
    for (asked, score) in &scores {
        for line in &score.statuses {
            println!("- {}: {line}", asked.about());
        }
        for line in &score.known {
            println!("  {}, known: {line}", asked.about());
        }
        for line in &score.messages {
            println!("  {}, message: {line}", asked.about());
        }
    }
    Ok(refused.is_empty() && cases > 0 && scores.values().all(|score| score.statuses.is_empty()))
}

impl Score {
    /// Records a result: status and message, or an error.
    fn add(&mut self, case: &Case, found: Result<(String, String), String>) {
        self.cases += 1;
        let (status, message) = &case.expected;
        let line = |expected: &str, found: &str| format!("{}: expected {expected}, found {found}", case.name);
        let (found_status, found_message) = match found {
            Ok(found) => found,
            Err(why) => return self.differs(case, line(worded(status), &why)),
        };
        if found_status != *status {
            let found = format!("{} {found_message:?}", worded(&found_status));
            self.differs(case, line(&format!("{} {message:?}", worded(status)), &found));
        } else if found_message != *message {
            self.messages.push(line(&format!("{message:?}"), &format!("{found_message:?}")));
        } else {
            self.equal += 1;
        }
    }

    fn differs(&mut self, case: &Case, line: String) {
        match KNOWN.iter().find(|(name, _)| *name == case.name) {
            Some((_, reason)) => self.known.push(format!("{line}: {reason}")),
            None => self.statuses.push(line),
        }
    }
}

fn worded(status: &str) -> &str {
    if status.is_empty() { "no health" } else { status }
}

/// The result of a script as status and message; no health is an empty status.
fn said(health: Result<Health, Error>) -> Result<(String, String), String> {
    match health {
        Ok(health) => Ok((health.status.to_string(), health.message)),
        Err(Error::Nothing) => Ok(Default::default()),
        Err(error) => Err(error.to_string()),
    }
}

/// The verdict of a rule, mapped to the result of the script.
fn judged(verdict: &Verdict, case: &Case) -> Result<(String, String), String> {
    let whole = || format!("{verdict} [{}]", verdict.basis);
    // Argo CD skips scripts for deleted objects, but its tests do not.
    if case.is_deleted {
        let is_right = verdict.status == Status::Terminating;
        return if is_right { Ok(case.expected.clone()) } else { Err(whole()) };
    }
    if verdict.basis != Basis::CustomRule {
        // No rule has matched.
        return if case.expected.0.is_empty() { Ok(Default::default()) } else { Err(whole()) };
    }
    let status = match &*verdict.reason {
        "Healthy" | "Suspended" => Status::Current,
        "Progressing" => Status::InProgress,
        "Degraded" => Status::Failed,
        "Missing" => Status::NotFound,
        "Unknown" => Status::Unknown,
        _ => return Err(whole()),
    };
    if verdict.status != status {
        return Err(whole());
    }
    let is_silent = *verdict.message == format!("the health check says {}", verdict.reason);
    let message = if is_silent { String::new() } else { verdict.message.to_string() };
    Ok((verdict.reason.to_string(), message))
}

/// All scripts with their cases, sorted by name.
fn checks(root: &Path) -> Outcome<Vec<Check>> {
    let mut checks = Vec::new();
    for group in directories(root)? {
        for kind in directories(&group)? {
            let script = kind.join("health.lua");
            // Some kinds have only actions.
            if script.is_file() {
                checks.push(check(root, &kind, &script)?);
            }
        }
    }
    Ok(checks)
}

fn directories(path: &Path) -> Outcome<Vec<PathBuf>> {
    let entries = fs::read_dir(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
    paths.retain(|path| path.is_dir());
    paths.sort();
    Ok(paths)
}

fn check(root: &Path, directory: &Path, script: &Path) -> Outcome<Check> {
    let about = |path: &Path| path.strip_prefix(root).unwrap_or(path).display().to_string();
    let tests = directory.join("health_test.yaml");
    let tests = json(&tests).map_err(|error| format!("{}: {error}", tests.display()))?;
    let tests: Value = serde_json::from_slice(&tests)?;
    let mut cases = Vec::new();
    for test in tests.get("tests").and_then(Value::as_array).into_iter().flatten() {
        let input = text(test, "inputPath");
        let path = directory.join(&input);
        let object = json(&path).map_err(|error| error.to_string());
        let value: Value = serde_json::from_slice(object.as_deref().unwrap_or_default()).unwrap_or_default();
        let is_deleted = value.pointer("/metadata/deletionTimestamp").is_some_and(|time| !time.is_null());
        let (api_version, kind) = (text(&value, "apiVersion"), text(&value, "kind"));
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        let script = format!("{group}/{kind}/health.lua");
        // Without a status, the script must return none.
        let health = field(test, "healthStatus").cloned().unwrap_or_default();
        let expected = (text(&health, "status"), text(&health, "message"));
        cases.push(Case { name: about(&path), object, script, is_deleted, expected });
    }
    Ok(Check { file: about(script), source: String::from_utf8(corpora::read(script)?)?, cases })
}

/// Reads a YAML file as Go.
fn json(path: &Path) -> Outcome<Vec<u8>> {
    let mut json = Vec::new();
    yaml_to_json(&corpora::read(path)?, &mut json)?;
    Ok(json)
}

/// A field by its name, ignoring case, as Go reads it.
fn field<'v>(value: &'v Value, name: &str) -> Option<&'v Value> {
    let members = value.as_object()?;
    members.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

fn text(value: &Value, name: &str) -> String {
    field(value, name).and_then(Value::as_str).unwrap_or_default().to_owned()
}
