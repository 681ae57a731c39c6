//! Client conformance: scripts of kubectl, Helm and Kubernetes controllers against `settled serve`.
//!
//! A script is `conformance/clients/SUITE/NAME.yaml`; `NAME.txt` has the normalized output of its commands on
//! kube-apiserver. `conformance/clients/README.md` describes the format.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use regex::{Regex, RegexSet};
use serde::Deserialize;
use serde_json::Value;

use crate::cluster::{ALL_PROGRAMS, Beside, Components, Place, kubeconfig_text};
use crate::measure::Table;
use crate::server::{self, Kind, Server};
use crate::{Outcome, corpora};

/// Suites in the order of a complete run, with the server and the controllers that they need.
const SUITES: [(&str, Kind, Beside); 4] = [
    ("kubectl", Kind::Ours, Beside::BuiltIn),
    ("helm", Kind::Ours, Beside::All),
    ("control-plane", Kind::Ours, Beside::All),
    ("restart", Kind::OursOnDisk, Beside::All),
];

/// Default timeout of a step, in seconds.
const PATIENCE: u64 = 60;
/// Maximum number and length of printed differing lines per command.
const MOST: usize = 40;
const LONGEST: usize = 400;
/// How many lines of each component's log are shown after a failure.
const SHOWN: usize = 15;
/// A parsed script.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Script {
    /// Reasons why output may differ, by prefix of the command.
    #[serde(default)]
    differs: BTreeMap<String, String>,
    /// Files in the working directory: texts, or objects.
    #[serde(default)]
    files: BTreeMap<String, Value>,
    steps: Vec<Step>,
}

impl Script {
    /// Whether a step kills the server.
    fn restarts(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::Special(Special { restart: true, .. })))
    }
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Step {
    Run(String),
    Special(Special),
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Special {
    /// A shell command.
    run: Option<String>,
    /// Timeout in seconds.
    within: Option<u64>,
    /// Recorded part of its output; all by default.
    #[serde(default)]
    record: Recorded,
    /// Kills and restarts the server: `settled serve` only.
    #[serde(default)]
    restart: bool,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
enum Recorded {
    #[default]
    All,
    /// Sorted lines.
    Sorted,
    /// Only the exit code.
    Exit,
}

/// Output of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Said {
    command: String,
    /// Marked lines of output, errors, and the exit code.
    lines: Vec<String>,
}

#[derive(Default)]
struct Flags<'f> {
    record: bool,
    real: bool,
    meant: bool,
    names: Vec<&'f str>,
}

/// Runs the scripts; false if one differs from kube-apiserver.
pub(crate) fn run(words: &[&str]) -> Outcome<bool> {
    let mut flags = Flags::default();
    for word in words {
        match *word {
            "--record" => flags.record = true,
            "--real" => flags.real = true,
            "--meant" => flags.meant = true,
            flag if flag.starts_with('-') => return Err(format!("no such flag: {flag}").into()),
            name => flags.names.push(name),
        }
    }
    for name in &flags.names {
        let suite = name.split('/').next().unwrap_or_default();
        if !SUITES.iter().any(|(known, ..)| *known == suite) {
            return Err(format!("no such suite: {suite}").into());
        }
    }
    let mut equal = true;
    let mut table = Table::new(["suite", "scripts", "seconds", ""]);
    for (suite, kind, beside) in SUITES {
        let wanted = |name: &str| {
            flags.names.is_empty()
                || flags.names.iter().any(|word| *word == suite || *word == format!("{suite}/{name}"))
        };
        let scripts = scripts(suite, wanted)?;
        if scripts.is_empty() {
            continue;
        }
        let kind = if flags.record || flags.real { Kind::Real } else { kind };
        let start = Instant::now();
        let same = run_suite(suite, &scripts, kind, beside, &flags)?;
        equal &= same;
        let outcome = if same { "" } else { "FAILED" };
        table.row([
            suite.to_owned(),
            scripts.len().to_string(),
            format!("{:.1}", start.elapsed().as_secs_f64()),
            outcome.to_owned(),
        ]);
    }
    println!();
    table.print();
    Ok(equal)
}

fn folder(suite: &str) -> PathBuf {
    corpora::root().join("conformance/clients").join(suite)
}

/// The selected scripts of a suite, by name.
fn scripts(suite: &str, wanted: impl Fn(&str) -> bool) -> Outcome<BTreeMap<String, Script>> {
    let folder = folder(suite);
    let mut scripts = BTreeMap::new();
    for entry in fs::read_dir(&folder).map_err(|why| format!("{}: {why}", folder.display()))? {
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

fn run_suite(
    suite: &str,
    scripts: &BTreeMap<String, Script>,
    kind: Kind,
    beside: Beside,
    flags: &Flags<'_>,
) -> Outcome<bool> {
    let Some(mut server) = server::start(kind)? else { return Ok(true) };
    let Some(place) = Place::new(&server, &ALL_PROGRAMS)? else { return Ok(true) };
    let mut components = match beside {
        Beside::BuiltIn if kind != Kind::Real => Components::default(),
        beside => Components::start(&place, &server, beside, &[])?,
    };
    println!("{suite}: {kind:?} was ready after {:.0} ms", server.took.as_secs_f64() * 1000.0);

    let normaliser = Normaliser::new(vec![
        (place.folder.display().to_string(), "DIR"),
        (server.folder.display().to_string(), "DIR"),
        (corpora::root().display().to_string(), "REPOSITORY"),
    ])?;
    let mut equal = true;
    for (name, script) in scripts {
        let start = Instant::now();
        let said = run_script(&place, name, script, kind, &mut server, &normaliser)?;
        let file = folder(suite).join(format!("{name}.txt"));
        let took = start.elapsed().as_secs_f64();
        if flags.record {
            fs::write(&file, to_text(&said))?;
            println!("  {name}: {} commands recorded, {took:.1} s", said.len());
            continue;
        }
        let recorded = from_text(&fs::read_to_string(&file).unwrap_or_default());
        let outcome = compare(script, &recorded, &said);
        println!(
            "  {name}: {} commands, {} as recorded, {} differ as said, {} differ; {took:.1} s",
            said.len(),
            outcome.equal,
            outcome.meant.len(),
            outcome.wrong.len(),
        );
        for wrong in &outcome.wrong {
            println!("{wrong}");
        }
        for meant in outcome.meant.iter().filter(|_| flags.meant) {
            println!("{meant}");
        }
        // Parts of a script or suite may be run; in CI it is complete, and each accepted difference must be used.
        for begins in &outcome.never {
            println!("    no longer differs, so the script must not say so: {begins}");
        }
        equal &= outcome.wrong.is_empty() && outcome.never.is_empty();
    }
    let killed = kind == Kind::OursOnDisk && scripts.values().any(Script::restarts);
    let quiet = report(&mut components, suite, flags.record, !equal, killed, &normaliser)?;
    Ok(equal && quiet)
}

#[derive(Default)]
struct Compared {
    equal: usize,
    /// Differences that the script accepts.
    meant: Vec<String>,
    wrong: Vec<String>,
    /// Accepted differences that did not occur.
    never: Vec<String>,
}

fn compare(script: &Script, recorded: &[Said], said: &[Said]) -> Compared {
    let mut outcome = Compared::default();
    if recorded.len() != said.len() {
        outcome.wrong.push(format!(
            "    {} commands are recorded, {} were run: record again",
            recorded.len(),
            said.len()
        ));
    }
    let mut differed = BTreeSet::new();
    for (recorded, said) in recorded.iter().zip(said) {
        if recorded == said {
            outcome.equal += 1;
        } else if let Some(begins) = script.differs.keys().find(|begins| said.command.starts_with(*begins)) {
            differed.insert(begins);
            outcome.meant.push(difference(recorded, said));
        } else {
            outcome.wrong.push(difference(recorded, said));
        }
    }
    outcome.never = script.differs.keys().filter(|begins| !differed.contains(begins)).cloned().collect();
    outcome
}

/// Lines that only one side has, in order.
fn difference(recorded: &Said, said: &Said) -> String {
    let mut text = format!("    $ {}", said.command.replace('\n', "\n      "));
    if recorded.command != said.command {
        text.push_str("\n    another command is recorded: record again");
        return text;
    }
    let (a, b) = (&recorded.lines, &said.lines);
    // Length of the common subsequence from here on: outputs have at most a few hundred lines.
    let mut alike = vec![vec![0_usize; b.len() + 1]; a.len() + 1];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            alike[i][j] =
                if a[i] == b[j] { alike[i + 1][j + 1] + 1 } else { alike[i + 1][j].max(alike[i][j + 1]) };
        }
    }
    let (mut i, mut j, mut shown) = (0, 0, 0);
    while shown < MOST && (i < a.len() || j < b.len()) {
        let (mark, line) = match (a.get(i), b.get(j)) {
            (Some(x), Some(y)) if x == y => {
                (i, j) = (i + 1, j + 1);
                continue;
            }
            (Some(x), y) if y.is_none() || alike[i + 1][j] >= alike[i][j + 1] => {
                i += 1;
                ("real", x)
            }
            (_, Some(y)) => {
                j += 1;
                ("ours", y)
            }
            _ => break,
        };
        let line: String = line.chars().take(LONGEST).collect();
        let _ = write!(text, "\n      {mark} {line}");
        shown += 1;
    }
    text
}

/// Commands begin with `$ `, their continuation lines with `> `; then their output.
fn to_text(said: &[Said]) -> String {
    let mut text = String::new();
    for one in said {
        text.push_str("$ ");
        text.push_str(&one.command.trim_end().replace('\n', "\n> "));
        text.push('\n');
        for line in &one.lines {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

fn from_text(text: &str) -> Vec<Said> {
    let mut all: Vec<Said> = Vec::new();
    for line in text.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            all.push(Said { command: command.to_owned(), lines: Vec::new() });
        } else if let Some(last) = all.last_mut() {
            match line.strip_prefix("> ") {
                Some(more) => last.command = format!("{}\n{more}", last.command),
                None => last.lines.push(line.to_owned()),
            }
        }
    }
    all
}

fn run_script(
    place: &Place,
    name: &str,
    script: &Script,
    kind: Kind,
    server: &mut Server,
    normaliser: &Normaliser,
) -> Outcome<Vec<Said>> {
    let work = place.folder.join(name);
    fs::create_dir_all(work.join("home"))?;
    fs::write(work.join("kubeconfig"), kubeconfig_text(&server.url, &server.ca, name))?;
    for (file, content) in &script.files {
        let text = content.as_str().map_or_else(|| content.to_string(), str::to_owned);
        fs::write(work.join(file), text)?;
    }
    let namespace = serde_json::json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    fs::write(work.join(".namespace"), namespace.to_string())?;
    // The controllers' objects exist before the script continues.
    let make = "kubectl create -f .namespace && \
        kubectl wait --for=create serviceaccount/default configmap/kube-root-ca.crt --timeout=30s";
    let made = place.command(&work, "make", make, PATIENCE)?;
    if made.2 != 0 {
        return Err(format!("{name}: the namespace can't be made: {}", made.1).into());
    }
    let mut said = Vec::new();
    for step in &script.steps {
        let (command, within, recorded) = match step {
            Step::Run(command) => (command, PATIENCE, Recorded::All),
            Step::Special(special) => {
                if special.restart && kind == Kind::OursOnDisk {
                    server.restart()?;
                }
                let Some(command) = &special.run else { continue };
                (command, special.within.unwrap_or(PATIENCE), special.record)
            }
        };
        let (output, errors, code) = place.command(&work, "step", command, within)?;
        let mut lines = Vec::new();
        if recorded != Recorded::Exit {
            let marked = |mark: &str, text: &str| -> Vec<String> {
                let lines = normaliser.apply(text);
                lines.lines().map(|line| format!("{mark} {line}").trim_end().to_owned()).collect()
            };
            lines.extend(marked(" ", &output));
            if recorded == Recorded::Sorted {
                lines.sort();
            }
            lines.extend(marked("!", &errors));
        }
        if code != 0 {
            lines.push(format!("= {code}"));
        }
        said.push(Said { command: command.trim_end().to_owned(), lines });
    }
    Ok(said)
}

/// Errors in component logs about an object that another component has written or deleted: they also occur on
/// kube-apiserver, but not in each run. Each pattern names the components and a message that was observed; the kind of
/// object may be another.
const RACES: [&str; 5] = [
    // A cache lags behind the controller's own writes (`StaleControllerConsistency`).
    r#"^kube-controller-manager: E [a-z_]+\.go:N\] .*read version: N is not as new as written version: N for group resource [a-z.]+"$"#,
    // Another controller has written the object's status.
    r#"^kube-controller-manager: E [a-z_]+\.go:N\] .*Operation cannot be fulfilled on [a-z.]+ X: the object has been modified; please apply your changes to the latest version and try again"( [A-Za-z]+="X")*$"#,
    // A script, a controller or the namespace's deletion has removed an object before this component observed it. The
    // ConfigMap kube-apiserver-legacy-service-account-token-tracking never existed: settled does not track tokens of
    // Secrets.
    r#"^kube-(controller-manager|scheduler): E [a-z_]+\.go:N\] .*[ "][a-z.]+ X not found"( [A-Za-z]+="X")*$"#,
    // settled and the real controller manager both write kube-root-ca.crt.
    r#"^kube-controller-manager: E publisher\.go:N\] "Unhandled Error" err="syncing X failed: configmaps X already exists"$"#,
    // The pod was deleted by its controller.
    r"^kwok: failed to apply stage: failed to (delete|patch) resource for step (N: )?failed to (delete|patch) pod [A-Za-z0-9-]+: pods X not found$",
];

/// Errors about a write that was stored, but not acknowledged, before the server was killed: the component repeats it.
const LOST_ANSWERS: [&str; 2] = [
    // The scheduler binds the Pod again before it observes its own binding, or observes it while it reverts the failed
    // one.
    r#"^kube-scheduler: E schedule_one\.go:N\] "ForgetPod failed" err="pod UID\(X\) wasn't assumed so cannot be forgotten"$"#,
    r#"^kube-scheduler: E (framework|schedule_one)\.go:N\] .*Operation cannot be fulfilled on X X: pod X+ is already assigned to node X"$"#,
];

/// Log errors of the components that do not occur on kube-apiserver; after a failure, also the ends of their logs.
/// False if a component has exited or has a new error.
fn report(
    components: &mut Components,
    suite: &str,
    record: bool,
    failed: bool,
    killed: bool,
    normaliser: &Normaliser,
) -> Outcome<bool> {
    let mut quiet = true;
    let races = RegexSet::new(RACES.iter().chain(if killed { &LOST_ANSWERS[..] } else { &[] }))?;
    let file = folder(suite).join("complaints.txt");
    let known = fs::read_to_string(&file).unwrap_or_default();
    let mut known: BTreeSet<String> = known.lines().map(str::to_owned).collect();
    for (name, child, log) in &mut components.running {
        if let Some(status) = child.try_wait()? {
            println!("  {name} ended by itself: {status}");
            quiet = false;
        }
        let text = fs::read_to_string(&log)?;
        let mut complaints: BTreeMap<String, usize> = BTreeMap::new();
        for line in text.lines() {
            if let Some(complaint) = normaliser.complaint(line) {
                *complaints.entry(format!("{name}: {complaint}")).or_default() += 1;
            }
        }
        if record {
            known.extend(complaints.into_keys());
            continue;
        }
        for (complaint, times) in complaints.iter().filter(|(complaint, _)| !known.contains(*complaint)) {
            let race = races.is_match(complaint);
            let what = if race { "a race" } else { "a new complaint" };
            println!("  {what}, {times} times, and not recorded on the real server: {complaint}");
            quiet &= race;
        }
        if failed {
            println!("  the end of {name}'s log:");
            let lines: Vec<&str> = text.lines().filter(|line| !line.contains(r#""level":"INFO""#)).collect();
            for line in &lines[lines.len().saturating_sub(SHOWN)..] {
                println!("    {}", line.chars().take(LONGEST).collect::<String>());
            }
        }
    }
    if record && !known.is_empty() {
        let lines: Vec<String> = known.into_iter().collect();
        fs::write(&file, lines.join("\n") + "\n")?;
    }
    Ok(quiet)
}

/// Normalizes values that change from run to run.
struct Normaliser {
    rules: Vec<(Regex, &'static str)>,
    /// For log errors, which may be about any object.
    names: Vec<(Regex, &'static str)>,
    texts: Vec<(String, &'static str)>,
}

impl Normaliser {
    fn new(texts: Vec<(String, &'static str)>) -> Outcome<Self> {
        let rules = [
            (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UID"),
            // The second may change between two writes.
            (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z| [+-]\d{4} UTC|[+-]\d\d:\d\d)?", "TIME"),
            (r"[A-Z][a-z]{2},? [A-Z0-9][a-z0-9]{1,2} [A-Za-z0-9]{2,3} [0-9: ]{13}( [+-]\d{4})?", "TIME"),
            // Go omits trailing zeros of fractions, and Helm pads the column.
            (r"TIME +\t", "TIME\t"),
            (r"\b([EWI])\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ ", "$1 "),
            (r"-[bcdfghjklmnpqrstvwxz2456789]{5}\b", "-XXXXX"),
            (r"\b\d+m\d+s\b|\b\d+s\b|\b0 seconds ago\b|<unknown>|<invalid>", "AGE"),
            // The age of an Event with a fixed time increases every day.
            (r"(?m)^\d{2,}d\b", "AGE"),
            (r"( ago)? \(x\d+ over AGE\)", "$1"),
            (r#"(resourceVersion"?: ?"?|resourceVersion:)\d+"#, "${1}RV"),
            (r"(Resource Version:? +)\d+", "${1}RV"),
            // Ranges of kube-apiserver and settled.
            (r"\b10\.(0|9[6-9]|10\d|11[01])\.\d{1,3}\.\d{1,3}\b", "CLUSTER-IP"),
            (r"\b10\.(244|[1-9]\d*)\.\d{1,3}\.\d{1,3}\b", "POD-IP"),
            (r"127\.0\.0\.1:\d+", "HOST"),
            (r"\bnodePort: 3\d{4}\b", "nodePort: PORT"),
            (r"([: ])3\d{4}/(TCP|UDP)", "${1}PORT/$2"),
            // Columns are as wide as their widest value.
            (r"(\S) {2,}", "$1  "),
            (r"(?m) +$", ""),
        ];
        let rules = rules.into_iter().map(|(rule, with)| Ok((Regex::new(rule)?, with)));
        let names = [
            // The garbage collector prints its whole node, including locks.
            (r"&garbagecollector\.node\{.*\}: ", "X: "),
            (r#"\\"[^"]*\\""#, "X"),
            (r#" event=".*"#, ""),
            (r#" (logger|pod|node|plugin|key|job|cronjob|id)="[^"]*""#, ""),
            (r"[A-Za-z0-9-]+(/[A-Za-z0-9.-]+)+", "X"),
            (r"\b(pod|node) [a-z0-9-]+", "$1 X"),
            (r"\d+", "N"),
        ];
        let names = names.into_iter().map(|(rule, with)| Ok((Regex::new(rule)?, with)));
        Ok(Self {
            rules: rules.collect::<Result<_, regex::Error>>()?,
            names: names.collect::<Result<_, regex::Error>>()?,
            texts,
        })
    }

    /// The error in a log line, without object names: klog's `E1121 …`, or an error in JSON.
    fn complaint(&self, line: &str) -> Option<String> {
        let klog = line.strip_prefix('E').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        let mut text = if klog {
            self.apply(line)
        } else {
            let line: Value = serde_json::from_str(line).ok()?;
            let text = |key: &str| line.get(key).and_then(Value::as_str);
            if text("level") != Some("ERROR") {
                return None;
            }
            let message = format!("{}: {}", text("msg")?, text("err").unwrap_or_default());
            self.apply(&message.replace('"', "\\\""))
        };
        // Errors while the server is down are expected.
        if [" tcp ", "EOF", "http2: client connection force closed"].iter().any(|gone| text.contains(gone)) {
            return None;
        }
        for (rule, with) in &self.names {
            text = rule.replace_all(&text, *with).into_owned();
        }
        Some(text.trim().to_owned())
    }

    fn apply(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (from, with) in &self.texts {
            text = text.replace(from, with);
        }
        for (rule, with) in &self.rules {
            if let std::borrow::Cow::Owned(new) = rule.replace_all(&text, *with) {
                text = new;
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use regex::RegexSet;

    use super::{LOST_ANSWERS, Normaliser, RACES, Said, difference, from_text, to_text};

    fn said(lines: &[&str]) -> Said {
        Said { command: "one\ntwo".to_owned(), lines: lines.iter().map(|line| (*line).to_owned()).collect() }
    }

    #[test]
    fn recordings_are_read_as_they_were_written() {
        let all = [said(&["  $ output", "! errors", "= 1"]), said(&[])];
        assert_eq!(from_text(&to_text(&all)), all);
    }

    #[test]
    fn races_are_of_a_component_and_a_message() {
        let races = RegexSet::new(RACES).expect("they are patterns");
        for (complaint, wanted) in [
            (
                r#"kube-controller-manager: E replica_set.go:N] "Unhandled Error" err="sync X failed with read version: N is not as new as written version: N for group resource replicasets.apps""#,
                true,
            ),
            (
                r#"kube-controller-manager: E daemon_controller.go:N] "Unhandled Error" err="X failed with : read version: N is not as new as written version: N for group resource daemonsets.apps""#,
                true,
            ),
            (
                r#"kube-controller-manager: E stateful_set.go:N] "Error syncing StatefulSet, requeuing" err="read version: N is not as new as written version: N for group resource statefulsets.apps""#,
                true,
            ),
            (
                r#"kube-controller-manager: E replica_set.go:N] "Unhandled Error" err="sync X failed with replicasets.apps X not found""#,
                true,
            ),
            (
                r#"kube-controller-manager: E horizontal.go:N] "Unhandled Error" err="failed to query scale subresource for X: deployments.apps X not found""#,
                true,
            ),
            (
                r#"kube-controller-manager: E resource_quota_controller.go:N] "Error processing resource quota work item" err="Operation cannot be fulfilled on resourcequotas X: the object has been modified; please apply your changes to the latest version and try again" queueKey="X""#,
                true,
            ),
            (
                r#"kube-controller-manager: E resource_quota_controller.go:N] "Error processing resource quota work item" err="resourcequotas X not found" queueKey="X""#,
                true,
            ),
            (
                r#"kube-scheduler: E schedule_one.go:N] "Error scheduling pod; retrying" err="running Bind plugin X: pods X not found""#,
                true,
            ),
            (
                r#"kube-controller-manager: E event.go:N] "Server rejected event (will not retry!)" err="namespaces X not found""#,
                true,
            ),
            (
                r#"kube-controller-manager: E pvc_protection_controller.go:N] "Error removing protection finalizer from PVC" err="persistentvolumeclaims X not found" PVC="X""#,
                true,
            ),
            (
                r#"kube-controller-manager: E pvc_protection_controller.go:N] "Unhandled Error" err="PVC X failed with: persistentvolumeclaims X not found""#,
                true,
            ),
            (
                r#"kube-controller-manager: E publisher.go:N] "Unhandled Error" err="syncing X failed: configmaps X already exists""#,
                true,
            ),
            (
                r#"kube-controller-manager: E legacy_serviceaccount_token_cleaner.go:N] "Getting lastest possible tracked_since time" err="configmaps X not found""#,
                true,
            ),
            (
                "kwok: failed to apply stage: failed to delete resource for step N: failed to delete pod web-Nb-XXXXX: pods X not found",
                true,
            ),
            (
                r#"kube-controller-manager: E pv_protection_controller.go:N] "Unhandled Error" err="PV volume failed with : persistentvolumes X not found""#,
                true,
            ),
            // Messages that the patterns alone would accept.
            (r#"kube-scheduler: E schedule_one.go:N] "Error scheduling pod" err="not found""#, false),
            (
                r#"kube-controller-manager: E garbagecollector.go:N] "Unhandled Error" err="the server could not find the requested resource: not found""#,
                false,
            ),
            (
                r#"kube-controller-manager: E job_controller.go:N] "Unhandled Error" err="pods X already exists""#,
                false,
            ),
            (
                "kwok: failed to apply stage: failed to patch resource for step failed to patch pod web-Nb-XXXXX: pods X not found",
                true,
            ),
            ("kwok: failed to apply stage: failed to patch resource: the object has been modified", false),
        ] {
            assert_eq!(races.is_match(complaint), wanted, "{complaint}");
        }
    }

    #[test]
    fn repeated_writes_are_races_where_the_server_was_killed() {
        let normaliser = Normaliser::new(Vec::new()).expect("they are patterns");
        let line = r#"E1122 18:10:01.123456   12345 framework.go:1350] "Plugin Failed" err="Operation cannot be fulfilled on pods/binding \"web-6b7d-x2vbn\": pod web-6b7d-x2vbn is already assigned to node \"crash-node\"" plugin="DefaultBinder""#;
        let complaint = format!("kube-scheduler: {}", normaliser.complaint(line).expect("it is an error"));
        let set = |patterns: &[&str]| RegexSet::new(patterns).expect("they are patterns");
        assert!(set(&LOST_ANSWERS).is_match(&complaint), "{complaint}");
        assert!(!set(&RACES).is_match(&complaint), "{complaint}");
    }

    #[test]
    fn the_garbage_collectors_nodes_are_left_out() {
        let normaliser = Normaliser::new(Vec::new()).expect("they are patterns");
        let line = r#"E1122 18:10:01.123456   12345 garbagecollector.go:360] "Unhandled Error" err="error syncing item &garbagecollector.node{identity:garbagecollector.objectReference{OwnerReference:v1.OwnerReference{Kind:\"ReplicaSet\", UID:\"u\"}, Namespace:\"a\"}, owners:[]v1.OwnerReference{}}: replicasets.apps \"web-1\" not found""#;
        let complaint = normaliser.complaint(line).expect("it is an error");
        let wanted = r#"E garbagecollector.go:N] "Unhandled Error" err="error syncing item X: replicasets.apps X not found""#;
        assert_eq!(complaint, wanted);
    }

    #[test]
    fn only_lines_that_differ_are_shown() {
        let text = difference(&said(&["  a", "  b", "  c"]), &said(&["  a", "  c", "  d"]));
        assert_eq!(text, "    $ one\n      two\n      real   b\n      ours   d");
    }

    #[test]
    fn what_differs_from_run_to_run_is_replaced() {
        let normaliser = Normaliser::new(vec![("/place".to_owned(), "DIR")]).expect("the rules are right");
        for (text, wanted) in [
            (
                "web-7c6cf4cb88-x2v9d   1/1     Running   0          12s",
                "web-7c6cf4cb88-XXXXX  1/1  Running  0  AGE",
            ),
            ("at 2026-11-21T10:34:25Z in /place/a", "at TIME in DIR/a"),
            ("4\t2026-11-21 10:34:25.12345678 +0000 UTC \tdeployed", "4\tTIME\tdeployed"),
            ("  resourceVersion: \"123\"", "  resourceVersion: \"RV\""),
            ("cpu: 100m", "cpu: 100m"),
        ] {
            assert_eq!(normaliser.apply(text), wanted);
        }
        let line =
            "E1121 10:34:25.123456   17 a.go:9] \"Failed\" err=\"pods \\\"a\\\" not found\" pod=\"b/c\"";
        let complaint = "E a.go:N] \"Failed\" err=\"pods X not found\"";
        assert_eq!(normaliser.complaint(line).as_deref(), Some(complaint));
        assert_eq!(normaliser.complaint("I1121 all is well"), None);
    }
}
