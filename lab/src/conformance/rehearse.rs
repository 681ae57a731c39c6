//! Fidelity of simulations: the same manifests and commands with the real kube-controller-manager and kube-scheduler, and with simulated ones,
//! both with kwok as kubelets. Conditions, final statuses and Events are compared, without names, times and addresses that differ between any two runs.
//!
//! Scenarios are in `conformance/rehearse/*.yaml`. `differences.yaml` there has the known differences, with who is right and why.

mod sequence;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use regex::Regex;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use self::sequence::{Recorded, lines};
use crate::cluster::{ALL_PROGRAMS, Beside, Components, Place, kubeconfig_text, wait_for_namespace};
use crate::measure::Table;
use crate::server::{self, Kind, Server};
use crate::{Outcome, corpora, process};

/// Number of concurrent scenarios: they mostly wait.
const AT_ONCE: usize = 12;
/// Timeout of a command, in seconds.
const PATIENCE: u64 = 90;
/// How many scenarios have to agree.
const BAR: f64 = 0.95;
/// Every so many scenarios run in a quick run.
const QUICK: usize = 4;

/// What is followed.
const RESOURCES: [&str; 13] = [
    "deployments",
    "replicasets",
    "statefulsets",
    "daemonsets",
    "jobs",
    "cronjobs",
    "pods",
    "persistentvolumeclaims",
    "endpoints",
    "endpointslices",
    "poddisruptionbudgets",
    "services",
    "events",
];

/// Nodes of both clusters.
const NODES: &str = r#"
zone=a
for node in one two; do
  kubectl apply -f - <<EOF
apiVersion: v1
kind: Node
metadata:
  name: $node
  annotations: {kwok.x-k8s.io/node: fake}
  labels: {kubernetes.io/hostname: $node, topology.kubernetes.io/zone: $zone, disk: $node}
status: {capacity: {cpu: "32", memory: 256Gi, pods: "500"}, allocatable: {cpu: "32", memory: 256Gi, pods: "500"}}
EOF
  zone=b
done
kubectl wait --for=condition=Ready node --all --timeout=60s
kubectl apply -f - <<EOF
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: important}
value: 1000
EOF
"#;

/// A scenario: objects, and commands one after the other.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Scenario {
    name: String,
    #[serde(default)]
    objects: String,
    /// Shell commands after the objects were applied; `sleep 2` is one of them.
    #[serde(default)]
    steps: Vec<String>,
    /// How long it is followed after the last step, in seconds.
    #[serde(default = "three")]
    seconds: u64,
}

fn three() -> u64 {
    3
}

/// Lines that may be on one side only.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Difference {
    /// Names of scenarios; empty: all.
    #[serde(default)]
    scenarios: Vec<String>,
    /// A regular expression.
    line: String,
    right: Right,
    why: String,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
enum Right {
    /// Kubernetes; the simulation is to change.
    Kubernetes,
    /// Both are possible in Kubernetes: it depends on who comes first.
    Either,
    /// The environment of the comparison.
    Neither,
}

fn directory() -> PathBuf {
    corpora::root().join("conformance/rehearse")
}

fn read<T: DeserializeOwned>(path: &Path) -> Outcome<T> {
    let wrong = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
    let mut json = Vec::new();
    let text = fs::read(path).map_err(|why| wrong(&why))?;
    settled_manifest::yaml_to_json(&text, &mut json).map_err(|why| wrong(&why))?;
    Ok(serde_json::from_slice(&json).map_err(|why| wrong(&why))?)
}

fn scenarios() -> Outcome<Vec<Scenario>> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(directory())?.map(|entry| Ok(entry?.path())).collect::<Outcome<_>>()?;
    files.sort();
    let mut all = Vec::new();
    for file in files {
        let is_yaml = file.extension().is_some_and(|extension| extension == "yaml");
        if is_yaml && file.file_stem().is_some_and(|stem| stem != "differences") {
            all.extend(read::<Vec<Scenario>>(&file)?);
        }
    }
    let names: BTreeSet<&String> = all.iter().map(|scenario| &scenario.name).collect();
    if names.len() != all.len() {
        return Err("two scenarios have the same name".into());
    }
    Ok(all)
}

/// Runs `conformance rehearse [SCENARIO…] [--quick] [--show]`; false if too few scenarios agree.
pub(crate) fn run(words: &[&str]) -> Outcome<bool> {
    let (flags, names): (Vec<&str>, Vec<&str>) =
        words.iter().copied().partition(|word| word.starts_with("--"));
    if let Some(flag) = flags.iter().find(|flag| !["--quick", "--show"].contains(flag)) {
        return Err(format!("no such flag: {flag}").into());
    }
    let all = scenarios()?;
    if let Some(unknown) = names.iter().find(|name| !all.iter().any(|scenario| scenario.name == **name)) {
        return Err(format!("no such scenario: {unknown}").into());
    }
    let is_quick = flags.contains(&"--quick");
    let wanted: Vec<Scenario> = all
        .into_iter()
        .enumerate()
        .filter(|(number, scenario)| match names.is_empty() {
            true => !is_quick || number % QUICK == 0,
            false => names.contains(&&*scenario.name),
        })
        .map(|(_, scenario)| scenario)
        .collect();
    let differences: Vec<Difference> = read(&directory().join("differences.yaml"))?;
    let start = Instant::now();
    let Some(real) = on(Side::Real, &wanted)? else { return Ok(true) };
    let Some(simulated) = on(Side::Simulated, &wanted)? else { return Ok(true) };
    let mut table = Table::new(["scenario", "lines", "only Kubernetes", "only simulated", ""]);
    let (mut agreed, mut report) = (0, String::new());
    print_differences(&differences);
    for scenario in &wanted {
        let name = &scenario.name;
        let patterns: Vec<Regex> = differences
            .iter()
            // Where Kubernetes is right, the scenario does not agree: the row says why.
            .filter(|difference| difference.right != Right::Kubernetes)
            .filter(|difference| difference.scenarios.is_empty() || difference.scenarios.contains(name))
            .map(|difference| Regex::new(&difference.line))
            .collect::<Result<_, _>>()?;
        let compared = compare(&lines(&real, name), &lines(&simulated, name), &patterns);
        agreed += usize::from(compared.agree());
        table.row([
            name.clone(),
            compared.count.to_string(),
            compared.left.len().to_string(),
            compared.right.len().to_string(),
            if compared.agree() { "" } else { "DIFFERS" }.to_owned(),
        ]);
        if !compared.agree() || flags.contains(&"--show") {
            report.push_str(&format!("\n{name}\n"));
            compared.left.iter().for_each(|line| report.push_str(&format!("  - {line}\n")));
            compared.right.iter().for_each(|line| report.push_str(&format!("  + {line}\n")));
            if flags.contains(&"--show") {
                compared.both.iter().for_each(|line| report.push_str(&format!("    {line}\n")));
            }
        }
    }
    table.print();
    println!("{report}");
    let share = agreed as f64 / wanted.len().max(1) as f64;
    println!(
        "{agreed} of {} scenarios agree ({:.0} %), in {:.0} s; - is Kubernetes, + is simulated",
        wanted.len(),
        share * 100.0,
        start.elapsed().as_secs_f64()
    );
    Ok(share >= BAR)
}

/// The rows of the known differences, with who is right.
fn print_differences(differences: &[Difference]) {
    let mut table = Table::new(["known difference", "scenarios", "who is right", "why"]);
    for difference in differences {
        let scenarios = match difference.scenarios.is_empty() {
            true => "all".to_owned(),
            false => difference.scenarios.join(", "),
        };
        let right = match difference.right {
            Right::Kubernetes => "Kubernetes",
            Right::Either => "either",
            Right::Neither => "neither",
        };
        table.row([difference.line.clone(), scenarios, right.to_owned(), difference.why.clone()]);
    }
    table.print();
}

/// Lines of two sides.
struct Compared {
    count: usize,
    left: Vec<String>,
    right: Vec<String>,
    both: Vec<String>,
}

impl Compared {
    fn agree(&self) -> bool {
        self.left.is_empty() && self.right.is_empty() && self.count > 0
    }
}

fn compare(left: &[String], right: &[String], may_differ: &[Regex]) -> Compared {
    let count = |lines: &[String]| {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for line in lines.iter().filter(|line| !may_differ.iter().any(|pattern| pattern.is_match(line))) {
            *counts.entry(line.clone()).or_default() += 1;
        }
        counts
    };
    let (left, right) = (count(left), count(right));
    let only = |one: &BTreeMap<String, usize>, other: &BTreeMap<String, usize>| -> Vec<String> {
        one.iter()
            .filter(|(line, count)| other.get(*line) != Some(count))
            .map(|(line, count)| if *count > 1 { format!("{count} times: {line}") } else { line.clone() })
            .collect()
    };
    Compared {
        count: left.len(),
        both: left.keys().filter(|line| right.contains_key(*line)).cloned().collect(),
        left: only(&left, &right),
        right: only(&right, &left),
    }
}

/// Who controls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Real,
    Simulated,
}

/// Plays all scenarios on one side. None, after printing why, if a program is not available.
fn on(side: Side, scenarios: &[Scenario]) -> Outcome<Option<Vec<Recorded>>> {
    let kind = if side == Side::Real { Kind::Ours } else { Kind::Simulated };
    let Some(server) = server::start(kind)? else { return Ok(None) };
    let Some(place) = Place::new(&server, &ALL_PROGRAMS)? else { return Ok(None) };
    let beside = if side == Side::Real { Beside::All } else { Beside::Kubelets };
    let stages = [directory().join("../live/stages.yaml")];
    let _components = Components::start(&place, &server, beside, &stages)?;
    fs::create_dir_all(place.directory.join("home"))?;
    let watches = Watches::start(&place)?;
    let (_, errors, code) = place.command(&place.directory, "nodes", NODES, PATIENCE)?;
    if code != 0 {
        return Err(format!("cannot create the nodes: {errors}").into());
    }
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_ONCE)
            .map(|_| {
                scope.spawn(|| -> Outcome<()> {
                    while let Some(scenario) = scenarios.get(next.fetch_add(1, Ordering::Relaxed)) {
                        play(&server, &place, scenario)?;
                    }
                    Ok(())
                })
            })
            .collect();
        let ended =
            workers.into_iter().map(|worker| worker.join().unwrap_or_else(|_| Err("it panicked".into())));
        ended.collect::<Outcome<Vec<()>>>()
    })?;
    watches.end().map(Some)
}

fn play(server: &Server, place: &Place, scenario: &Scenario) -> Outcome<()> {
    let name = &scenario.name;
    let work = place.directory.join(name);
    fs::create_dir_all(work.join("home"))?;
    fs::write(work.join("kubeconfig"), kubeconfig_text(&server.url, &server.ca, name))?;
    fs::write(work.join("objects.yaml"), &scenario.objects)?;
    let step = |command: &str| -> Outcome<()> {
        let (output, errors, code) = place.command(&work, "step", command, PATIENCE)?;
        if code == 0 {
            Ok(())
        } else {
            Err(format!("{name}: `{command}` ended with {code}: {output}{errors}").into())
        }
    };
    step(&format!("kubectl create namespace {name} && {}", wait_for_namespace(60)))?;
    if !scenario.objects.is_empty() {
        step("kubectl apply --server-side -f objects.yaml")?;
    }
    scenario.steps.iter().try_for_each(|command| step(command))?;
    thread::sleep(Duration::from_secs(scenario.seconds));
    Ok(())
}

/// A watch of each resource, into a file.
struct Watches(Vec<(Child, PathBuf)>);

impl Drop for Watches {
    fn drop(&mut self) {
        for (child, _) in &mut self.0 {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

impl Watches {
    fn start(place: &Place) -> Outcome<Self> {
        let mut watches = Self(Vec::new());
        for resource in RESOURCES {
            let file = place.directory.join(format!("{resource}.watch"));
            let mut command = Command::new(place.bin.join("kubectl"));
            place.environment(&mut command);
            command.args(["get", resource, "-A", "--watch", "-o", "json", "--output-watch-events"]);
            command.stdin(Stdio::null()).stdout(File::create(&file)?).stderr(Stdio::null());
            let child = process::started(command.spawn(), &command)?;
            watches.0.push((child, file));
        }
        Ok(watches)
    }

    /// Ends them, and reads what they have seen.
    fn end(mut self) -> Outcome<Vec<Recorded>> {
        let mut recorded = Vec::new();
        for (child, file) in &mut self.0 {
            child.kill()?;
            child.wait()?;
            let text = fs::read(file)?;
            for event in serde_json::Deserializer::from_slice(&text).into_iter::<Recorded>() {
                // The last one may be cut off.
                let Ok(event) = event else { break };
                recorded.push(event);
            }
        }
        recorded.sort_by_key(Recorded::version);
        Ok(recorded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_compared_as_a_multiset() {
        let lines = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let compared = compare(&lines("a b b c"), &lines("b b d x"), &[Regex::new("^x$").unwrap()]);
        assert_eq!((compared.left, compared.right), (lines("a c"), lines("d")));
        assert!(compare(&lines("a"), &lines("a"), &[]).agree());
        assert!(!compare(&lines("a a"), &lines("a"), &[]).agree());
    }

    #[test]
    fn scenarios_can_be_read() {
        let all = scenarios().unwrap();
        assert!(all.len() >= 60, "{}", all.len());
        let differences: Vec<Difference> = read(&directory().join("differences.yaml")).unwrap();
        for Difference { scenarios, line, right, why } in differences {
            assert!(Regex::new(&line).is_ok() && !why.is_empty(), "{line} {right:?}");
            for name in &scenarios {
                assert!(all.iter().any(|scenario| scenario.name == *name), "{name}");
            }
        }
    }
}
