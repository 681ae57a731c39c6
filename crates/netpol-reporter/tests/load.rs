//! Many policies: a first pass, a restart without writes; what a change evaluates.

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

/// Changes a policy, and waits for the event with its conditions.
async fn change(client: &Client, index: usize, port: u16) {
    let api = policies(client, &namespace(index));
    let name = format!("policy-{index}");
    let ports = json!([{"protocol": "TCP", "port": port, "endPort": port + 1000}]);
    let patch = Patch::Merge(json!({"spec": {"egress": [{"ports": ports}]}}));
    let changed = api.patch(&name, &PatchParams::default(), &patch).await.unwrap();
    let generation = json!(changed.metadata.generation);
    wait(&api, &name, |policy| field(policy, "Accepted", "observedGeneration") == Some(&generation)).await;
}

/// More than are evaluated in one go on the reactor. A change is an evaluation of its namespace.
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
