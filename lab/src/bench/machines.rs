//! Benchmark of clusters and machines: thousands of simulated Machines until their Nodes are ready, rollouts, plans, and hosts in network
//! namespaces.

use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::page::Page;
use crate::examples::{self, Beside};
use crate::measure::{Rounds, Table, figure};
use crate::{Outcome, process};

/// A part: what it does, its mode, its Machines, and how long it may take.
struct Part {
    what: &'static str,
    mode: &'static str,
    machines: usize,
    seconds: f64,
}

/// Simulated hosts take no time: what is measured is the API server, the controllers and the agents, in one process.
const PARTS: [Part; 4] = [
    Part { what: "a MachineSet, until all Nodes are ready", mode: "create", machines: 10_000, seconds: 60.0 },
    Part {
        what: "an upgrade of kubelets in place, a tenth at a time",
        mode: "upgrade",
        machines: 1_000,
        seconds: 60.0,
    },
    Part {
        what: "a rolling update to new Machines, a tenth at a time",
        mode: "roll",
        machines: 1_000,
        seconds: 60.0,
    },
    Part {
        what: "a plan of an upgrade, with reading the objects",
        mode: "plan",
        machines: 10_000,
        seconds: 1.0,
    },
];
const MEMORY_BAR_MB: f64 = 1500.0;
/// How many times smaller a short run is.
const SMOKE: usize = 100;
/// Namespace hosts: one machine of the control plane, and three others.
const HOSTS: &str = "1+3";
const HOSTS_BAR_SECONDS: f64 = 5.0;
/// Exit code of the example if this machine cannot have such hosts.
const HOSTS_UNAVAILABLE: i32 = 3;

/// Runs `bench machines [--smoke] [--write-docs]`; false if a bar is missed.
pub(crate) fn run(smoke: bool, write_docs: bool) -> Outcome<bool> {
    if smoke && write_docs {
        return Err("--write-docs cannot be combined with --smoke".into());
    }
    let mut page = Page::new("machines", write_docs);
    page.machine("cargo xtask bench machines --write-docs")?;
    // A short run takes the one that the tests have built: what it shows is that the benchmark works.
    let beside = if smoke { Beside::Tests } else { Beside::Alone };
    let program = examples::build("settled-machines", "scale", beside)?;
    let mut table = Table::new([
        "what",
        "Machines",
        "s, median",
        "s, all rounds",
        "writes per Machine",
        "CPU, s",
        "peak memory, MB",
        "bar, s",
        "met",
    ]);
    let mut met = true;
    for part in &PARTS {
        let machines = if smoke { part.machines / SMOKE } else { part.machines };
        let (mut seconds, mut cpu, mut peak, mut writes) = (Rounds::default(), Duration::ZERO, 0.0_f64, 0.0);
        let mut rounds = Vec::new();
        for _ in 0..if smoke { 1 } else { 3 } {
            println!("… {}, {machines} Machines", part.what);
            let measured = measure(&program, part.mode, machines)?;
            seconds.push(measured.seconds);
            rounds.push(figure(measured.seconds));
            cpu = measured.cpu;
            peak = peak.max(measured.megabytes);
            writes = measured.writes / machines as f64;
        }
        let is_met = seconds.median() <= part.seconds && peak < MEMORY_BAR_MB;
        met &= is_met;
        table.row([
            part.what.to_owned(),
            machines.to_string(),
            figure(seconds.median()),
            rounds.join(", "),
            figure(writes),
            figure(cpu.as_secs_f64()),
            figure(peak),
            figure(part.seconds),
            yes(is_met).to_owned(),
        ]);
    }
    page.line("Server, controllers, providers and agents in one process; hosts take no time. Processor time is that of the last round, with all that comes before what is measured.");
    page.table(&table);
    page.line(&format!("Bar: each in under {MEMORY_BAR_MB} MB."));
    met &= hosts(&mut page, smoke)?;
    page.publish()?;
    // A short run with few Machines only tests the benchmark.
    Ok(met || smoke)
}

fn yes(met: bool) -> &'static str {
    if met { "yes" } else { "NO" }
}

struct Measured {
    seconds: f64,
    cpu: Duration,
    megabytes: f64,
    writes: f64,
}

/// Runs the example in a process of its own.
fn measure(program: &std::path::Path, mode: &str, machines: usize) -> Outcome<Measured> {
    let output = tempfile()?;
    let file = std::fs::File::create(&output)?;
    let mut command = Command::new(program);
    command.args([mode, &machines.to_string()]).stdin(Stdio::null()).stdout(file);
    let usage = process::run_measured(&mut command)?;
    let text = std::fs::read_to_string(&output)?;
    std::fs::remove_file(&output)?;
    if usage.exit_code != Some(0) {
        return Err(format!("{mode} {machines}: exit code {:?}", usage.exit_code).into());
    }
    let line: Value = serde_json::from_str(text.trim())?;
    let number = |name: &str| line[name].as_f64().ok_or_else(|| format!("it does not report {name}"));
    Ok(Measured {
        seconds: number("seconds")?,
        cpu: usage.cpu,
        megabytes: usage.peak_bytes as f64 / 1e6,
        writes: number("writes")?,
    })
}

fn tempfile() -> Outcome<std::path::PathBuf> {
    Ok(std::env::temp_dir().join(format!("settled-bench-machines-{}.json", std::process::id())))
}

/// Hosts in network namespaces, by the example of their provider. Root is needed, and a kernel that has namespaces.
fn hosts(page: &mut Page, smoke: bool) -> Outcome<bool> {
    let beside = if smoke { Beside::Tests } else { Beside::Alone };
    let program = examples::build("settled-hosts", "namespaces", beside)?;
    let mut seconds = Rounds::default();
    for _ in 0..if smoke { 1 } else { 3 } {
        let output = Command::new(&program).args(["1", "3"]).stdin(Stdio::null()).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let why = String::from_utf8_lossy(&output.stderr);
        let why = why.lines().last().unwrap_or_default();
        match output.status.code() {
            Some(0) => {}
            // In CI nothing is skipped.
            Some(HOSTS_UNAVAILABLE) if std::env::var_os("CI").is_none_or(|value| value != "true") => {
                page.line(&format!("Hosts in network namespaces ({HOSTS}): SKIPPED: {why}"));
                return Ok(true);
            }
            code => return Err(format!("hosts in network namespaces: exit code {code:?}: {why}").into()),
        }
        let line: Value = serde_json::from_str(text.trim())?;
        seconds.push(line["seconds"].as_f64().ok_or("it does not report seconds")?);
    }
    let met = seconds.median() <= HOSTS_BAR_SECONDS;
    page.line(&format!(
        "{HOSTS} hosts in network namespaces, until all Nodes are ready: {} s (median). Bar: {HOSTS_BAR_SECONDS} s: {}.",
        figure(seconds.median()),
        yes(met)
    ));
    Ok(met)
}
