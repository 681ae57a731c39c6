//! Benchmark of network policies: all policies of a large cluster against a provider, and the connections between all of its Pods.

use std::fmt::Write as _;
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;
use settled_netpol::cluster::{Cluster, Known, Labels, Namespace, Pod};
use settled_netpol::model::{Policy, Protocol};
use settled_netpol::parse::parse_policy;
use settled_netpol::reach::{Evaluator, View};

use crate::bench::generate::Random;
use crate::bench::page::Page;
use crate::bench::policies::{NAMESPACES, PROVIDER, SEED, app, namespace, policy};
use crate::bench::reporter;
use crate::measure::{Rounds, Table, figure};
use crate::{Outcome, process, server};

/// Number of policies of the check, and its bar.
const POLICIES: usize = 10_000;
const CHECK_BAR_MS: f64 = 1_000.0;
/// Size of the file whose memory is measured.
const LARGE_BYTES: usize = 20 << 20;
/// Pods and policies of the connections between all pairs, and its bar.
const PODS: usize = 1_000;
const PAIR_POLICIES: usize = 500;
const PAIRS_BAR_MS: f64 = 2_000.0;
/// Prints all tables; false if a bar is missed. A smoke run ignores bars.
pub(crate) fn run(smoke: bool, write_docs: bool) -> Outcome<bool> {
    let mut page = Page::new("netpol", write_docs && !smoke);
    page.machine("cargo xtask bench netpol --write-docs")?;
    let checked = check(&mut page, smoke)?;
    let paired = pairs(&mut page, smoke)?;
    let reported = reporter::conditions(&mut page, smoke)?;
    page.publish()?;
    Ok(smoke || (checked && paired && reported))
}

fn yes(met: bool) -> &'static str {
    if met { "yes" } else { "NO" }
}

/// `settled netpol check` on files, from its start to its exit.
fn check(page: &mut Page, smoke: bool) -> Outcome<bool> {
    let binary = server::binary()?;
    let directory = std::env::temp_dir().join(format!("settled-bench-netpol-{}", std::process::id()));
    std::fs::create_dir_all(&directory)?;
    let count = if smoke { POLICIES / 100 } else { POLICIES };
    let many = directory.join("policies.yaml");
    std::fs::write(&many, stream(count, usize::MAX))?;
    let large = directory.join("large.yaml");
    std::fs::write(&large, stream(usize::MAX, if smoke { LARGE_BYTES / 100 } else { LARGE_BYTES }))?;
    page.line(&format!(
        "`settled netpol check -f FILE --provider {PROVIDER} -q`, from start to exit, with parsing; seed {SEED}:"
    ));
    let mut table = Table::new(["file", "MB", "ms, median", "peak memory, MB"]);
    let mut median = f64::NAN;
    for (name, file) in [(format!("{count} policies"), &many), ("20 MB of policies".to_owned(), &large)] {
        let (mut millis, mut peak) = (Rounds::default(), 0);
        for _ in 0..if smoke { 1 } else { 7 } {
            let usage = process::run_measured(&mut command(&binary, file))?;
            if usage.exit_code != Some(1) {
                return Err(format!("{}: exit code {:?}, expected 1", file.display(), usage.exit_code).into());
            }
            millis.push(usage.wall.as_secs_f64() * 1e3);
            peak = peak.max(usage.peak_bytes);
        }
        if median.is_nan() {
            median = millis.median();
        }
        let megabytes = std::fs::metadata(file)?.len() as f64 / 1e6;
        table.row([name, figure(megabytes), figure(millis.median()), figure(peak as f64 / 1e6)]);
    }
    std::fs::remove_dir_all(&directory)?;
    page.table(&table);
    let met = median < CHECK_BAR_MS;
    page.line(&format!("Bar: {POLICIES} policies in under {CHECK_BAR_MS} ms: {}.", yes(met)));
    Ok(met)
}

fn command(binary: &Path, file: &Path) -> Command {
    let mut command = Command::new(binary);
    command.args(["netpol", "check", "--provider", PROVIDER, "-q", "-f"]).arg(file);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// A stream of policies, one JSON document each, up to a number of policies or bytes.
fn stream(count: usize, bytes: usize) -> String {
    let mut random = Random::new(SEED);
    let mut text = String::new();
    for index in 0..count {
        if text.len() >= bytes {
            break;
        }
        // A string takes everything.
        let _ = writeln!(text, "---\n{}", policy(&mut random, index));
    }
    text
}

/// The connections between all Pods on one port, in the process.
fn pairs(page: &mut Page, smoke: bool) -> Outcome<bool> {
    let (pods, count) = if smoke { (PODS / 10, PAIR_POLICIES / 10) } else { (PODS, PAIR_POLICIES) };
    let cluster = cluster(pods);
    let mut random = Random::new(SEED);
    let objects: Vec<Value> = (0..count).map(|index| policy(&mut random, index)).collect();
    let mut millis = Rounds::default();
    for _ in 0..if smoke { 1 } else { 7 } {
        let start = Instant::now();
        let mut policies: Vec<Policy> = Vec::with_capacity(count);
        for object in &objects {
            policies.extend(parse_policy(object, "default")?.policy);
        }
        let view = View::as_written(&policies);
        let evaluator = Evaluator::new(&cluster, &view);
        let matrix = evaluator.all_pairs(Protocol::Tcp, 8080).map_err(|reason| reason.to_string())?;
        black_box(matrix.by_workload());
        millis.push(start.elapsed().as_secs_f64() * 1e3);
    }
    page.line("Connections between all Pods on one port, with parsing of the policies, grouped by workload:");
    let mut table = Table::new(["Pods", "policies", "pairs", "ms, median"]);
    table.row([pods.to_string(), count.to_string(), (pods * pods).to_string(), figure(millis.median())]);
    page.table(&table);
    let met = millis.median() < PAIRS_BAR_MS;
    page.line(&format!(
        "Bar: {PODS} Pods and {PAIR_POLICIES} policies in under {PAIRS_BAR_MS} ms: {}.",
        yes(met)
    ));
    Ok(met)
}

fn cluster(pods: usize) -> Cluster {
    let labels = |pairs: &[(&str, &str)]| -> Labels {
        pairs.iter().map(|(key, value)| (Arc::from(*key), Arc::from(*value))).collect()
    };
    let namespaces = (0..NAMESPACES).map(|index| {
        let name = namespace(index);
        Namespace { labels: labels(&[("kubernetes.io/metadata.name", &name)]), name: name.into() }
    });
    let pod = |index: usize| {
        let [_, _, high, low] = u32::try_from(index).unwrap_or_default().to_be_bytes();
        Pod {
            namespace: namespace(index).into(),
            name: format!("pod-{index}").into(),
            labels: labels(&[("app", &app(index / NAMESPACES))]),
            addresses: vec![IpAddr::V4(Ipv4Addr::new(10, 1, high, low))],
            ports: Vec::new(),
            host_network: false,
            owned: true,
            node: Some(format!("node-{}", index % 50).into()),
            finished: false,
        }
    };
    Cluster {
        namespaces: Known::Read(namespaces.collect()),
        pods: Known::Read((0..pods).map(pod).collect()),
        nodes: Known::Read(Vec::new()),
        services: Known::Read(Vec::new()),
    }
}
