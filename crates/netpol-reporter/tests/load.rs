//! Many policies: a first pass, a restart without writes; what a change evaluates, and how long its conditions take.
#![allow(clippy::print_stderr, reason = "figures of measurements")]

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;

use crate::front::Front;
use crate::harness::{
    Gate, Running, config, create, field, policies, range, run_cilium, server, until, wait,
};

const EVALUATED: &str = "settled_netpol_evaluated_policies_total";

/// The counter of status writes with an outcome.
fn writes(outcome: &str) -> String {
    format!("settled_status_writes_total{{controller=\"netpol-status\",outcome=\"{outcome}\"}}")
}

/// How many policies a namespace has.
const IN_NAMESPACE: usize = 100;

fn namespace(index: usize) -> String {
    format!("team-{}", index / IN_NAMESPACE)
}

/// Creates namespaces with policies.
async fn create_all(client: &Client, count: usize) {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    for index in 0..count {
        let namespace = namespace(index);
        if index % IN_NAMESPACE == 0 {
            let object = serde_json::from_value(json!({"metadata": {"name": namespace}})).unwrap();
            namespaces.create(&PostParams::default(), &object).await.unwrap();
        }
        create(&policies(client, &namespace), range(&format!("policy-{index}"))).await;
    }
}

/// Waits until the reporter has written this many conditions, or found them written.
async fn wait_for_writes(reporter: &Running, outcome: &str, count: usize) {
    until("all are looked at", async || reporter.metric(&writes(outcome)) >= count as u64).await;
}

/// What a restart writes.
async fn restart(client: &Client, count: usize) -> Vec<String> {
    let front = Front::new(client.clone());
    let reporter = Running::start(front.client(), config());
    wait_for_writes(&reporter, "unchanged", count).await;
    reporter.stop().await;
    front.writes()
}

/// Changes a policy, and returns the time from the answer to the event with its conditions.
async fn change(client: &Client, index: usize, port: u16) -> Duration {
    let api = policies(client, &namespace(index));
    let name = format!("policy-{index}");
    let ports = json!([{"protocol": "TCP", "port": port, "endPort": port + 1000}]);
    let patch = Patch::Merge(json!({"spec": {"egress": [{"ports": ports}]}}));
    let changed = api.patch(&name, &PatchParams::default(), &patch).await.unwrap();
    let generation = json!(changed.metadata.generation);
    let began = Instant::now();
    wait(&api, &name, |policy| field(policy, "Accepted", "observedGeneration") == Some(&generation)).await;
    began.elapsed()
}

/// A share of the ten thousand, and more than are evaluated in one go on the reactor. A change is an evaluation of its namespace.
#[tokio::test]
async fn five_hundred_policies_are_written_once() {
    let server = server(Gate::On).await;
    let client = server.client();
    run_cilium(&client, "v1.15.5").await;
    create_all(&client, 500).await;
    let reporter = Running::start(client.clone(), config());
    wait_for_writes(&reporter, "written", 500).await;
    let before = reporter.metric(EVALUATED);
    change(&client, 250, 1000).await;
    assert_eq!(reporter.metric(EVALUATED) - before, IN_NAMESPACE as u64);
    assert!(
        reporter.has_metric("settled_netpol_policies{provider=\"cilium\",outcome=\"PartialFailure\"} 500")
    );
    // The provider concerns all.
    run_cilium(&client, "v1.16.0").await;
    wait_for_writes(&reporter, "written", 1001).await;
    assert!(reporter.has_metric("settled_netpol_policies{provider=\"cilium\",outcome=\"Accepted\"} 500"));
    reporter.stop().await;
    assert_eq!(restart(&client, 500).await, [""; 0]);
}

/// All are reported, a restart writes nothing, and conditions come within the bar after a change, which is the time from the answer to
/// the change to the event with the conditions:
/// `cargo test --release -p settled-netpol-reporter -- --ignored --nocapture ten_thousand`
#[tokio::test(flavor = "multi_thread")]
#[ignore = "for a release build, by .ci/run"]
async fn ten_thousand_policies() {
    const COUNT: usize = 10_000;
    const BAR: Duration = Duration::from_millis(50);
    let server = server(Gate::On).await;
    let client = server.client();
    run_cilium(&client, "v1.15.5").await;
    let began = Instant::now();
    create_all(&client, COUNT).await;
    let created = began.elapsed();
    let began = Instant::now();
    let reporter = Running::start(client.clone(), config());
    wait_for_writes(&reporter, "written", COUNT).await;
    let reported = began.elapsed();
    let mut times: Vec<Duration> = Vec::new();
    for index in 0..200 {
        times.push(change(&client, index * 49, 1000).await);
    }
    reporter.stop().await;
    times.sort_unstable();
    let (median, slow) = (times[times.len() / 2], times[times.len() * 99 / 100]);
    let began = Instant::now();
    assert_eq!(restart(&client, COUNT).await, [""; 0]);
    let restarted = began.elapsed();
    let peak = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = peak.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default().to_owned();
    eprintln!(
        "{COUNT} policies: created in {created:?}, reported in {reported:?}, a restart without writes in {restarted:?}; \
         conditions after a change: median {median:?}, 99th percentile {slow:?}; server and reporter: {peak}"
    );
    assert!(median < BAR, "median {median:?}");
    assert!(slow < BAR, "99th percentile {slow:?}");
}
