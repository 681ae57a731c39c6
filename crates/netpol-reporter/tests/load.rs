//! Many policies: a first pass, a restart without writes; and how long a condition takes.
#![allow(clippy::print_stderr, reason = "figures of measurements")]

use std::time::{Duration, Instant};

use kube::Client;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::front::Front;
use crate::harness::{
    Gate, Running, config, create, field, policies, range, run_cilium, server, statuses, three, until, wait,
};

/// The counter of status writes with an outcome.
fn writes(outcome: &str) -> String {
    format!("settled_status_writes_total{{controller=\"netpol-status\",outcome=\"{outcome}\"}}")
}

/// Creates policies, and waits until each has its conditions.
async fn report_all(client: &Client, count: usize) {
    let api = policies(client, "default");
    for index in 0..count {
        create(&api, range(&format!("policy-{index}"))).await;
    }
    let reporter = Running::start(client.clone(), config());
    until("all have conditions", async || reporter.metric(&writes("written")) >= count as u64).await;
    reporter.stop().await;
}

/// What a restart writes.
async fn restart(client: &Client, count: usize) -> Vec<String> {
    let front = Front::new(client.clone());
    let reporter = Running::start(front.client(), config());
    until("all are looked at", async || reporter.metric(&writes("unchanged")) >= count as u64).await;
    reporter.stop().await;
    front.writes()
}

/// More than are evaluated in one go on the reactor.
#[tokio::test]
async fn many_policies_are_written_once() {
    let server = server(Gate::On).await;
    let client = server.client();
    run_cilium(&client, "v1.15.5").await;
    report_all(&client, 300).await;
    assert_eq!(restart(&client, 300).await, [""; 0]);
}

/// `cargo test --release -p settled-netpol-reporter -- --ignored --nocapture ten_thousand`
#[tokio::test]
#[ignore = "a measurement, for a release build"]
async fn ten_thousand_policies() {
    let server = server(Gate::On).await;
    let client = server.client();
    run_cilium(&client, "v1.15.5").await;
    let began = Instant::now();
    report_all(&client, 10_000).await;
    let first = began.elapsed();
    let began = Instant::now();
    assert_eq!(restart(&client, 10_000).await, [""; 0]);
    let peak = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = peak.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default().to_owned();
    eprintln!(
        "10,000 policies: created and reported in {first:?}, a restart without writes in {:?}; server and reporter: {peak}",
        began.elapsed()
    );
}

/// The time from the answer to a change of a policy to the event with its conditions, for the median and the slowest of a hundred changes:
/// `cargo test --release -p settled-netpol-reporter -- --ignored --nocapture soon_after`
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement, for a release build"]
async fn conditions_come_soon_after_a_change() {
    let server = server(Gate::On).await;
    let client = server.client();
    run_cilium(&client, "v1.15.5").await;
    let api = policies(&client, "default");
    create(&api, range("a")).await;
    let reporter = Running::start(client.clone(), config());
    wait(&api, "a", |policy| statuses(policy) == three("False", "False", "True")).await;
    let mut times: Vec<Duration> = Vec::new();
    for port in 0..100 {
        let ports = json!([{"protocol": "TCP", "port": 1000 + port, "endPort": 2000 + port}]);
        let patch = Patch::Merge(json!({"spec": {"egress": [{"ports": ports}]}}));
        let changed = api.patch("a", &PatchParams::default(), &patch).await.unwrap();
        let generation = json!(changed.metadata.generation);
        let began = Instant::now();
        wait(&api, "a", |policy| field(policy, "Accepted", "observedGeneration") == Some(&generation)).await;
        times.push(began.elapsed());
    }
    reporter.stop().await;
    times.sort_unstable();
    let (median, slowest) = (times[times.len() / 2], times[times.len() - 1]);
    eprintln!("conditions after a change: median {median:?}, slowest {slowest:?}");
    assert!(median < Duration::from_millis(50), "median {median:?}");
}
