//! Benchmark of rehearsals: a small shop from process start to exit, and a thousand Deployments in virtual and in real time.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::bench::page::Page;
use crate::measure::{Rounds, Table, figure};
use crate::{Outcome, process, server};

/// Objects of the shop, and its bar.
const SHOP_OBJECTS: usize = 20;
const SHOP_BAR_MS: f64 = 300.0;
/// The load: Deployments, Pods of each, and its bars.
const DEPLOYMENTS: usize = 1_000;
const PODS_EACH: usize = 10;
const NODES: &str = "100x64cpu,256Gi";
const LOAD_BAR_SECONDS: f64 = 20.0;
const LOAD_BAR_MB: f64 = 400.0;
/// Processor time per second of the same load in real time.
const LIVE_BAR: f64 = 1.0;

/// Prints all tables; false if a bar is missed. A smoke run ignores bars.
pub(crate) fn run(smoke: bool, write_docs: bool) -> Outcome<bool> {
    let mut page = Page::new("rehearse", write_docs && !smoke);
    page.machine("cargo xtask bench rehearse --write-docs")?;
    let directory = std::env::temp_dir().join(format!("settled-bench-rehearse-{}", std::process::id()));
    std::fs::create_dir_all(&directory)?;
    let met = [shop(&mut page, &directory, smoke)?, load(&mut page, &directory, smoke)?];
    std::fs::remove_dir_all(&directory)?;
    page.publish()?;
    Ok(smoke || met.into_iter().all(|met| met))
}

fn yes(met: bool) -> &'static str {
    if met { "yes" } else { "NO" }
}

fn command(binary: &Path, arguments: &[&str], file: &Path) -> Command {
    let mut command = Command::new(binary);
    command.arg("rehearse").args(arguments).args(["-q", "-f"]).arg(file);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// A shop of 20 objects, from the start of the process to its end.
fn shop(page: &mut Page, directory: &Path, smoke: bool) -> Outcome<bool> {
    let binary = server::binary()?;
    let file = directory.join("shop.yaml");
    std::fs::write(&file, small_shop())?;
    let (mut millis, mut peak) = (Rounds::default(), 0);
    for _ in 0..if smoke { 1 } else { 11 } {
        let usage = process::run_measured(&mut command(&binary, &[], &file))?;
        if usage.exit_code != Some(0) {
            return Err(format!("the shop: exit code {:?}, expected 0", usage.exit_code).into());
        }
        millis.push(usage.wall.as_secs_f64() * 1e3);
        peak = peak.max(usage.peak_bytes);
    }
    page.line(&format!(
        "A shop of {SHOP_OBJECTS} objects, `settled rehearse -q -f FILE` from start to exit:"
    ));
    let mut table = Table::new(["objects", "ms, median", "peak memory, MB"]);
    table.row([SHOP_OBJECTS.to_string(), figure(millis.median()), figure(peak as f64 / 1e6)]);
    page.table(&table);
    let met = millis.median() < SHOP_BAR_MS;
    page.line(&format!("Bar: under {SHOP_BAR_MS} ms: {}.", yes(met)));
    Ok(met)
}

/// Many Deployments, in virtual time, and the processor time that they take in real time.
fn load(page: &mut Page, directory: &Path, smoke: bool) -> Outcome<bool> {
    let binary = server::binary()?;
    let count = if smoke { DEPLOYMENTS / 50 } else { DEPLOYMENTS };
    let file = directory.join("load.yaml");
    std::fs::write(&file, deployments(count))?;
    let run = |speed: &str| -> Outcome<process::Usage> {
        let arguments = ["--nodes", NODES, "--speed", speed];
        let usage = process::run_measured(&mut command(&binary, &arguments, &file))?;
        match usage.exit_code {
            Some(0) => Ok(usage),
            other => {
                Err(format!("{count} Deployments at speed {speed}: exit code {other:?}, expected 0").into())
            }
        }
    };
    let fast = run("max")?;
    let live = run(if smoke { "10x" } else { "1x" })?;
    page.line(&format!(
        "{count} Deployments with {PODS_EACH} Pods each on 100 Nodes, each of which pulls one image at a time, from start to exit; the processor time of all threads:"
    ));
    let mut table = Table::new(["speed", "s", "processor time, s", "cores", "peak memory, MB"]);
    let cores = |usage: &process::Usage| usage.cpu.as_secs_f64() / usage.wall.as_secs_f64();
    for (name, usage) in [("max", &fast), ("1x", &live)] {
        table.row([
            name.to_owned(),
            figure(usage.wall.as_secs_f64()),
            figure(usage.cpu.as_secs_f64()),
            figure(cores(usage)),
            figure(usage.peak_bytes as f64 / 1e6),
        ]);
    }
    page.table(&table);
    let (seconds, megabytes) = (fast.wall.as_secs_f64(), fast.peak_bytes as f64 / 1e6);
    let met = [seconds < LOAD_BAR_SECONDS, megabytes < LOAD_BAR_MB, cores(&live) < LIVE_BAR];
    page.line(&format!(
        "Bars: in under {LOAD_BAR_SECONDS} s: {}; under {LOAD_BAR_MB} MB: {}; at 1x under {LIVE_BAR} core: {}.",
        yes(met[0]),
        yes(met[1]),
        yes(met[2])
    ));
    Ok(met.into_iter().all(|met| met))
}

fn deployments(count: usize) -> String {
    let mut text = String::new();
    for index in 0..count {
        // A string takes everything.
        let _ = writeln!(text, "---\n{}", deployment(&format!("load-{index}"), PODS_EACH));
    }
    text
}

fn deployment(name: &str, replicas: usize) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}}}\nspec:\n  replicas: {replicas}\n  \
         selector: {{matchLabels: {{app: {name}}}}}\n  template:\n    metadata: {{labels: {{app: {name}}}}}\n    spec:\n      \
         containers:\n      - name: web\n        image: registry.example.com/{name}:1.0\n        \
         resources: {{requests: {{cpu: 100m, memory: 64Mi}}}}\n        ports: [{{name: http, containerPort: 8080}}]\n"
    )
}

/// Five applications, each with a Deployment, a Service, a ConfigMap and a PodDisruptionBudget: 20 objects.
fn small_shop() -> String {
    let mut text = String::new();
    for name in ["web", "cart", "orders", "payments", "search"] {
        let _ = write!(
            text,
            "---\n{}---\napiVersion: v1\nkind: Service\nmetadata: {{name: {name}}}\nspec: {{selector: {{app: {name}}}, ports: [{{port: 80, targetPort: http}}]}}\n\
             ---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{a: b}}\n\
             ---\napiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {{name: {name}}}\nspec: {{maxUnavailable: 1, selector: {{matchLabels: {{app: {name}}}}}}}\n",
            deployment(name, 3)
        );
    }
    text
}
