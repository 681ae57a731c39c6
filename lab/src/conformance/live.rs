//! Wait conformance: results of `settled wait`, `kubectl wait`, `kubectl rollout status` and Helm 4 on a real control
//! plane, and on `settled serve` with the same controllers.
//!
//! A scenario is `conformance/live/NAME.yaml`. If a competitor has another result, `differences.yaml` says which one is
//! correct and why; `docs/comparison.md` shows it. `conformance/live/README.md` describes the formats.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::cluster::{ALL_PROGRAMS, Beside, Components, Place, kubeconfig_text, wait_for_namespace};
use crate::measure::Table;
use crate::server::{self, Kind, Server};
use crate::{Outcome, corpora};

/// Number of concurrent scenarios: they mostly wait.
const AT_ONCE: usize = 5;
/// Timeout of a step, in seconds.
const PATIENCE: u64 = 90;
/// Placeholder for the scenario's namespace in its objects.
const NAMESPACE: &str = "${NAMESPACE}";
/// Markers of the table in the guide.
const MARKS: [&str; 2] = ["<!-- live:differences -->", "<!-- /live:differences -->"];

/// Nodes of the cluster.
const NODES: &str = r#"
for node in one two; do
  kubectl apply -f - <<EOF
apiVersion: v1
kind: Node
metadata: {name: $node, annotations: {kwok.x-k8s.io/node: fake}, labels: {kubernetes.io/hostname: $node}}
status: {capacity: {cpu: "32", memory: 256Gi, pods: "500"}, allocatable: {cpu: "32", memory: 256Gi, pods: "500"}}
EOF
done
kubectl wait --for=condition=Ready node --all --timeout=60s
"#;

/// A parsed scenario.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Scenario {
    /// Its title in the guide's table.
    about: String,
    /// Timeout of the tools, in seconds.
    seconds: u64,
    /// Reason for omitting it from a quick run.
    slow: Option<String>,
    /// Objects that exist in advance.
    #[serde(default)]
    before: Before,
    /// Objects that are applied and waited for.
    #[serde(default)]
    objects: String,
    /// Shell commands that run sequentially while the tools wait.
    #[serde(default)]
    meanwhile: Vec<String>,
    settled: Ask,
    wait: Option<Ask>,
    rollout: Option<Ask>,
    helm: Option<Ask>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Before {
    /// Objects applied by kubectl.
    #[serde(default)]
    objects: String,
    /// A later state of the target objects: applied by kubectl, or installed by Helm if the scenario upgrades.
    #[serde(default)]
    revision: String,
    /// Shell commands after the objects are applied.
    #[serde(default)]
    run: Vec<String>,
}

/// Invocation of a tool, and its expected result.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Ask {
    /// The command, without its timeout.
    run: Option<String>,
    outcome: Came,
    /// Other accepted results: which one occurs is a race that the tool does not control.
    or: Option<Came>,
    /// Texts that its output must contain.
    #[serde(default)]
    says: Vec<String>,
}

/// Result of a wait.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
enum Came {
    /// Exit code 0.
    Done,
    /// It reports a failure.
    Failed,
    /// It has timed out.
    Waiting,
    /// It does not support the target.
    Refused,
}

impl Ask {
    fn allows(&self, came: Came) -> bool {
        came == self.outcome || Some(came) == self.or
    }

    /// Description of the expected result.
    fn words(&self) -> String {
        let or = self.or.map(|or| format!(" or {}", or.word()));
        self.outcome.word().to_owned() + &or.unwrap_or_default()
    }
}

impl Came {
    fn word(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Waiting => "still waiting",
            Self::Refused => "refused",
        }
    }
}

/// Tools in the order of the table.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "kebab-case")]
enum Tool {
    Settled,
    Wait,
    Rollout,
    Helm,
}

impl Tool {
    const ALL: [Self; 4] = [Self::Settled, Self::Wait, Self::Rollout, Self::Helm];

    fn name(self) -> &'static str {
        match self {
            Self::Settled => "settled wait",
            Self::Wait => "kubectl wait",
            Self::Rollout => "kubectl rollout status",
            Self::Helm => "helm --wait",
        }
    }

    fn file(self) -> &'static str {
        match self {
            Self::Settled => "settled",
            Self::Wait => "wait",
            Self::Rollout => "rollout",
            Self::Helm => "helm",
        }
    }

    /// Default invocation.
    fn usual(self) -> Option<&'static str> {
        match self {
            Self::Settled => Some("settled wait -f objects.yaml"),
            Self::Helm => Some("helm upgrade --install release chart --wait"),
            Self::Wait | Self::Rollout => None,
        }
    }

    /// The result for an exit code and output.
    fn came(self, code: i32, said: &str) -> Result<Came, i32> {
        let says = |words: &[&str]| words.iter().any(|words| said.contains(words));
        match (self, code) {
            (_, 0) => Ok(Came::Done),
            (Self::Settled, 1) => Ok(Came::Failed),
            (Self::Settled, 3) => Ok(Came::Waiting),
            (Self::Settled, other) => Err(other),
            (Self::Wait | Self::Rollout, 1) if says(&["timed out waiting for the condition"]) => {
                Ok(Came::Waiting)
            }
            (Self::Helm, 1) if says(&["context deadline exceeded"]) => Ok(Came::Waiting),
            (Self::Wait | Self::Rollout, 1)
                if says(&[
                    "only available for RollingUpdate",
                    "no matching resources found",
                    "not found",
                ]) =>
            {
                Ok(Came::Refused)
            }
            (_, 1) => Ok(Came::Failed),
            (_, other) => Err(other),
        }
    }
}

impl Scenario {
    fn ask(&self, tool: Tool) -> Option<&Ask> {
        match tool {
            Tool::Settled => Some(&self.settled),
            Tool::Wait => self.wait.as_ref(),
            Tool::Rollout => self.rollout.as_ref(),
            Tool::Helm => self.helm.as_ref(),
        }
    }
}

/// A competitor's result that differs from ours.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Difference {
    scenario: String,
    /// Scenarios with the same result for the same reason.
    tools: Vec<Tool>,
    right: Right,
    why: String,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
enum Right {
    Settled,
    Rival,
    /// The tools answer different questions.
    Both,
}

struct Flags {
    quick: bool,
    competitors: bool,
    show: bool,
    write_docs: bool,
    kinds: Vec<Kind>,
    names: Vec<String>,
}

impl Flags {
    fn parse(words: &[&str]) -> Outcome<Self> {
        let mut flags = Self {
            quick: false,
            competitors: false,
            show: false,
            write_docs: false,
            kinds: vec![],
            names: vec![],
        };
        let mut words = words.iter().copied();
        while let Some(word) = words.next() {
            match word {
                "--quick" => flags.quick = true,
                "--competitors" => flags.competitors = true,
                "--show" => flags.show = true,
                "--write-docs" => flags.write_docs = true,
                "--server" => flags.kinds.push(match words.next() {
                    Some("settled") => Kind::Ours,
                    Some("kube-apiserver") => Kind::Real,
                    _ => return Err("--server settled or --server kube-apiserver".into()),
                }),
                flag if flag.starts_with('-') => return Err(format!("no such flag: {flag}").into()),
                name => flags.names.push(name.to_owned()),
            }
        }
        if flags.kinds.is_empty() {
            flags.kinds = if flags.quick { vec![Kind::Ours] } else { vec![Kind::Real, Kind::Ours] };
        }
        Ok(flags)
    }
}

fn directory() -> PathBuf {
    corpora::root().join("conformance/live")
}

/// Runs `conformance live [SCENARIO…] [--quick] [--server settled|kube-apiserver] [--competitors] [--show] [--write-docs]`;
/// false if a wait has an unexpected result.
pub(crate) fn run(words: &[&str]) -> Outcome<bool> {
    let flags = Flags::parse(words)?;
    let all = scenarios()?;
    let differences: Vec<Difference> = read(&directory().join("differences.yaml"))?;
    let mut right = documented(&all, &differences, flags.write_docs)?;
    if flags.write_docs {
        return Ok(right);
    }
    if let Some(unknown) = flags.names.iter().find(|name| !all.contains_key(*name)) {
        return Err(format!("no such scenario: {unknown}").into());
    }
    let wanted: BTreeMap<&String, &Scenario> = all
        .iter()
        .filter(|(name, scenario)| match flags.names.is_empty() {
            true => !flags.quick || scenario.slow.is_none(),
            false => flags.names.contains(name),
        })
        .collect();
    for (name, scenario) in all.iter().filter(|(name, _)| flags.quick && !wanted.contains_key(name)) {
        println!("skipped in a quick run: {name}: {}", scenario.slow.as_deref().unwrap_or("not selected"));
    }
    for kind in &flags.kinds {
        right &= on(*kind, &wanted, &flags)?;
    }
    Ok(right)
}

/// All scenarios on a server with the real controllers.
fn on(kind: Kind, scenarios: &BTreeMap<&String, &Scenario>, flags: &Flags) -> Outcome<bool> {
    let start = Instant::now();
    let Some(server) = server::start(kind)? else { return Ok(true) };
    let Some(place) = Place::new(&server, &ALL_PROGRAMS)? else { return Ok(true) };
    if !flags.competitors {
        symlink(server::binary()?, place.bin.join("settled"))?;
    }
    let stages = [directory().join("stages.yaml")];
    let mut components = Components::start(&place, &server, Beside::All, &stages)?;
    fs::create_dir_all(place.directory.join("home"))?;
    let (_, errors, code) = place.command(&place.directory, "nodes", NODES, PATIENCE)?;
    if code != 0 {
        return Err(format!("cannot create the nodes: {errors}").into());
    }

    let work: Vec<(&String, &Scenario)> =
        scenarios.iter().map(|(name, scenario)| (*name, *scenario)).collect();
    let next = AtomicUsize::new(0);
    let reports: Mutex<BTreeMap<&String, Report>> = Mutex::default();
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((name, scenario)) = work.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let report = scenario_on(&server, &place, name, scenario, flags);
                    let report = report
                        .unwrap_or_else(|why| Report { wrong: vec![why.to_string()], ..Report::default() });
                    if let Ok(mut reports) = reports.lock() {
                        reports.insert(name, report);
                    }
                }
            });
        }
    });
    let reports = reports.into_inner().unwrap_or_default();
    let mut table = Table::new(["scenario", "settled", "kubectl wait", "rollout status", "helm --wait", ""]);
    let mut right = reports.len() == work.len();
    for (name, report) in &reports {
        let cell = |tool: Tool| report.came.get(&tool).map_or_else(|| "-".to_owned(), |came| came.clone());
        table.row([
            (*name).clone(),
            cell(Tool::Settled),
            cell(Tool::Wait),
            cell(Tool::Rollout),
            cell(Tool::Helm),
            if report.wrong.is_empty() { "" } else { "WRONG" }.to_owned(),
        ]);
        right &= report.wrong.is_empty();
    }
    println!("\n### {}\n", if kind == Kind::Real { "kube-apiserver" } else { "settled serve" });
    table.print();
    for (name, report) in &reports {
        for line in report.wrong.iter().chain(report.shown.iter()) {
            println!("\n{name}: {line}");
        }
    }
    for (name, child, _) in &mut components.running {
        if let Some(status) = child.try_wait()? {
            println!("{name} exited unexpectedly: {status}");
            right = false;
        }
    }
    println!("\n{} scenarios in {:.0} s", reports.len(), start.elapsed().as_secs_f64());
    Ok(right)
}

/// Results of a scenario.
#[derive(Default)]
struct Report {
    came: BTreeMap<Tool, String>,
    wrong: Vec<String>,
    shown: Vec<String>,
}

/// Two namespaces: Helm creates its objects itself, all other tools wait for objects applied by kubectl.
fn scenario_on(
    server: &Server,
    place: &Place,
    name: &str,
    scenario: &Scenario,
    flags: &Flags,
) -> Outcome<Report> {
    let others: Vec<Tool> = Tool::ALL
        .into_iter()
        .filter(|tool| *tool != Tool::Helm && scenario.ask(*tool).is_some())
        .filter(|tool| !flags.competitors || *tool != Tool::Settled)
        .collect();
    let mut report = Report::default();
    let mut asked = vec![(name.to_owned(), others)];
    if scenario.helm.is_some() {
        asked.push((format!("{name}-helm"), vec![Tool::Helm]));
    }
    let said = thread::scope(|scope| {
        let running: Vec<_> = asked
            .iter()
            .map(|(namespace, tools)| {
                scope.spawn(move || in_namespace(server, place, namespace, scenario, tools))
            })
            .collect();
        let said = running.into_iter().map(|one| one.join().unwrap_or_else(|_| Err("it panicked".into())));
        said.collect::<Outcome<Vec<_>>>()
    })?;
    for Said { tool, code, text } in said.into_iter().flatten() {
        let Some(ask) = scenario.ask(tool) else { continue };
        let indented = || text.trim_end().replace('\n', "\n    ");
        let came = match tool.came(code, &text) {
            Ok(came) => {
                if !ask.allows(came) {
                    let (is, wanted) = (came.word(), ask.words());
                    report.wrong.push(format!("{}: {is}, not {wanted}:\n    {}", tool.name(), indented()));
                } else if let Some(missing) = ask.says.iter().find(|words| !text.contains(*words)) {
                    report.wrong.push(format!(
                        "{} does not say {missing:?}:\n    {}",
                        tool.name(),
                        indented()
                    ));
                } else if flags.show {
                    report.shown.push(format!("{} says\n    {}", tool.name(), indented()));
                }
                came.word().to_owned()
            }
            Err(code) => {
                report.wrong.push(format!("{} ended with {code}:\n    {}", tool.name(), indented()));
                format!("exit code {code}")
            }
        };
        report.came.insert(tool, came);
    }
    Ok(report)
}

/// Output of a tool.
struct Said {
    tool: Tool,
    code: i32,
    text: String,
}

fn in_namespace(
    server: &Server,
    place: &Place,
    namespace: &str,
    scenario: &Scenario,
    tools: &[Tool],
) -> Outcome<Vec<Said>> {
    let work = place.directory.join(namespace);
    let helm = tools.contains(&Tool::Helm);
    fs::create_dir_all(work.join("home"))?;
    fs::write(work.join("kubeconfig"), kubeconfig_text(&server.url, &server.ca, namespace))?;
    fs::write(work.join("before.yaml"), scenario.before.objects.replace(NAMESPACE, namespace))?;
    for (file, chart, text) in [
        ("revision.yaml", "revision", &scenario.before.revision),
        ("objects.yaml", "chart", &scenario.objects),
    ] {
        let text = text.replace(NAMESPACE, namespace);
        fs::write(work.join(file), &text)?;
        fs::create_dir_all(work.join(chart).join("templates"))?;
        fs::write(work.join(chart).join("Chart.yaml"), "apiVersion: v2\nname: live\nversion: 0.1.0\n")?;
        fs::write(work.join(chart).join("templates/all.yaml"), text)?;
    }
    let step = |command: &str| -> Outcome<()> {
        let command = command.replace(NAMESPACE, namespace);
        let (output, errors, code) = place.command(&work, "step", &command, PATIENCE)?;
        if code == 0 {
            Ok(())
        } else {
            Err(format!("{namespace}: `{command}` ended with {code}: {output}{errors}").into())
        }
    };
    step(&format!("kubectl create namespace ${{NAMESPACE}} && {}", wait_for_namespace(60)))?;
    if !scenario.before.objects.is_empty() {
        step("kubectl apply -f before.yaml")?;
    }
    if !scenario.before.revision.is_empty() {
        step(if helm { "helm install release revision" } else { "kubectl apply -f revision.yaml" })?;
    }
    for command in &scenario.before.run {
        step(command)?;
    }
    if !helm && !scenario.objects.is_empty() {
        step("kubectl apply -f objects.yaml")?;
    }
    thread::scope(|scope| {
        let running: Vec<_> = tools
            .iter()
            .map(|tool| {
                scope.spawn(|| {
                    let ask = scenario.ask(*tool).ok_or("the tool does not run")?;
                    let run = ask.run.as_deref().or_else(|| tool.usual()).ok_or("it has no command")?;
                    let command =
                        format!("{} --timeout={}s", run.replace(NAMESPACE, namespace), scenario.seconds);
                    let (output, errors, code) =
                        place.command(&work, tool.file(), &command, scenario.seconds + PATIENCE)?;
                    Ok(Said { tool: *tool, code, text: output + &errors })
                })
            })
            .collect();
        let steps = scenario.meanwhile.iter().try_for_each(|command| step(command));
        let said = running.into_iter().map(|one| one.join().unwrap_or_else(|_| Err("it panicked".into())));
        let said = said.collect::<Outcome<Vec<_>>>();
        steps?;
        said
    })
}

fn scenarios() -> Outcome<BTreeMap<String, Scenario>> {
    let mut scenarios = BTreeMap::new();
    for entry in fs::read_dir(directory())? {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let yaml = path.extension().is_some_and(|extension| extension == "yaml");
        if yaml && !["differences", "stages"].contains(&name.as_str()) {
            scenarios.insert(name, read(&path)?);
        }
    }
    Ok(scenarios)
}

fn read<T: DeserializeOwned>(path: &Path) -> Outcome<T> {
    let wrong = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
    let mut json = Vec::new();
    let text = fs::read(path).map_err(|why| wrong(&why))?;
    settled_manifest::yaml_to_json(&text, &mut json).map_err(|why| wrong(&why))?;
    Ok(serde_json::from_slice(&json).map_err(|why| wrong(&why))?)
}

/// Checks that each difference has a row, each row has a difference, and the guide shows them.
fn documented(
    scenarios: &BTreeMap<String, Scenario>,
    differences: &[Difference],
    write: bool,
) -> Outcome<bool> {
    let mut wrong = Vec::new();
    let mut explained = BTreeSet::new();
    for Difference { scenario: name, tools, .. } in differences {
        for tool in tools {
            let differs = scenarios.get(name).is_some_and(|scenario| differs(scenario, *tool));
            if !differs {
                wrong.push(format!("differences.yaml: {name}: {} has the same result as ours", tool.name()));
            }
            if !explained.insert((name.as_str(), *tool)) {
                wrong.push(format!("differences.yaml: {name}: {} is there twice", tool.name()));
            }
        }
    }
    for (name, scenario) in scenarios {
        if scenario.settled.or.is_some() {
            wrong.push(format!("{name}: ours has only one result"));
        }
        for tool in Tool::ALL {
            if differs(scenario, tool) && !explained.contains(&(name.as_str(), tool)) {
                wrong.push(format!(
                    "{name}: {} differs from ours, and differences.yaml has no reason",
                    tool.name()
                ));
            }
        }
    }
    let table = table(scenarios, differences);
    let guide = corpora::root().join("docs/comparison.md");
    let text = fs::read_to_string(&guide).unwrap_or_default();
    match between(&text) {
        None => wrong
            .push(format!("docs/comparison.md has no place for the table: {} and {}", MARKS[0], MARKS[1])),
        Some((before, inside, after)) if inside.trim() != table.trim() => {
            if write {
                fs::write(&guide, format!("{before}\n\n{}\n\n{after}", table.trim()))?;
                println!("docs/comparison.md has the table of {} differences", differences.len());
            } else {
                wrong.push(
                    "docs/comparison.md shows other differences: cargo xtask conformance live --write-docs"
                        .to_owned(),
                );
            }
        }
        Some(_) => {}
    }
    for line in &wrong {
        println!("{line}");
    }
    Ok(wrong.is_empty())
}

/// Whether a competitor has, or may have, another result.
fn differs(scenario: &Scenario, tool: Tool) -> bool {
    let ours = scenario.settled.outcome;
    scenario.ask(tool).is_some_and(|theirs| theirs.outcome != ours || theirs.or.is_some_and(|or| or != ours))
}

/// A text up to and including the first marker, the table, and the rest from the second marker on.
fn between(text: &str) -> Option<(&str, &str, &str)> {
    let start = text.find(MARKS[0])? + MARKS[0].len();
    let end = start + text[start..].find(MARKS[1])?;
    Some((&text[..start], &text[start..end], &text[end..]))
}

fn table(scenarios: &BTreeMap<String, Scenario>, differences: &[Difference]) -> String {
    let mut text = String::from(
        "| scenario | tool | result | `settled wait` | timeout, options | correct | reason |\n|---|---|---|---|---|---|---|\n",
    );
    for Difference { scenario: name, tools, right, why } in differences {
        let Some(scenario) = scenarios.get(name) else { continue };
        let Some(theirs) = tools.first().and_then(|tool| scenario.ask(*tool)) else { continue };
        let tools: Vec<String> = tools.iter().map(|tool| format!("`{}`", tool.name())).collect();
        let right = match right {
            Right::Settled => "settled",
            Right::Rival => "the other tool",
            Right::Both => "both",
        };
        // Options that change the result, such as a shorter grace period.
        let run = scenario.settled.run.as_deref().unwrap_or_default();
        let options: Vec<&str> = run.split_whitespace().skip_while(|word| !word.starts_with("--")).collect();
        let options =
            if options.is_empty() { "defaults".to_owned() } else { format!("`{}`", options.join(" ")) };
        let _infallible = writeln!(
            text,
            "| {} | {} | {} | {} | {}s, {options} | {right} | {} |",
            scenario.about.trim(),
            tools.join(", "),
            theirs.words(),
            scenario.settled.words(),
            scenario.seconds,
            why.trim().replace('\n', " "),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_and_texts_are_outcomes() {
        for (tool, code, said, expected) in [
            (Tool::Settled, 0, "", Ok(Came::Done)),
            (Tool::Settled, 1, "timed out waiting for the condition", Ok(Came::Failed)),
            (Tool::Settled, 3, "", Ok(Came::Waiting)),
            (Tool::Settled, 4, "", Err(4)),
            (Tool::Wait, 1, "error: timed out waiting for the condition on pods/a", Ok(Came::Waiting)),
            (Tool::Wait, 1, "error: no matching resources found", Ok(Came::Refused)),
            (
                Tool::Rollout,
                1,
                "error: rollout status is only available for RollingUpdate strategy type",
                Ok(Came::Refused),
            ),
            (Tool::Rollout, 1, "error: deployment \"a\" exceeded its progress deadline", Ok(Came::Failed)),
            (
                Tool::Helm,
                1,
                "resource Pod/a/b not ready. status: InProgress\ncontext deadline exceeded",
                Ok(Came::Waiting),
            ),
            (Tool::Helm, 1, "status: Failed, message: Progress deadline exceeded", Ok(Came::Failed)),
            (Tool::Helm, 124, "", Err(124)),
        ] {
            assert_eq!(tool.came(code, said), expected, "{tool:?} {said}");
        }
    }

    #[test]
    fn the_table_is_found_in_a_text() {
        let text = "before <!-- live:differences -->\nold\n<!-- /live:differences --> after";
        assert_eq!(
            between(text),
            Some(("before <!-- live:differences -->", "\nold\n", "<!-- /live:differences --> after"))
        );
        assert_eq!(between("no table"), None);
    }
}
