//! Reports: the object beside a policy, where the API server has no field for conditions.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use settled_apiserver::{Controllers, Server};
use settled_controller::Clock;

use crate::front::Front;
use crate::harness::{
    Gate, Running, config, create, field, install_reports, policies, range, reports, run_cilium, server,
    server_config, statuses, three, until, wait, wait_gone,
};

/// Both stories, with the feature gate off.
#[tokio::test]
async fn without_the_field_a_report_has_the_conditions() {
    let server = server(Gate::Off).await;
    let client = server.client();
    run_cilium(&client, "v1.15.5").await;
    let (api, beside) = (policies(&client, "default"), reports(&client, "default"));
    let policy = create(&api, range("mary")).await;
    let reporter = Running::start(client.clone(), config());
    let report = wait(&beside, "mary", |report| statuses(report) == three("False", "False", "True")).await;
    let owner = &report.metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!((&owner.kind[..], Some(&owner.uid)), ("NetworkPolicy", policy.metadata.uid.as_ref()));
    assert_eq!(report.data["status"]["policyGeneration"], 1);
    let rules = &report.data["status"]["rules"];
    assert_eq!(
        [&rules[0]["provider"], &rules[0]["field"], &rules[0]["feature"], &rules[0]["effect"]],
        ["cilium@v1.15.5", "spec.egress[0].ports[0].endPort", "port.end", "AllowsLess"]
    );
    assert_eq!((&rules[0]["direction"], &rules[0]["supportedSince"]), (&json!("egress"), &json!("1.16")));
    // The policy has none.
    assert!(statuses(&api.get("mary").await.unwrap()).is_empty());
    assert!(reporter.has_metric("settled_netpol_location{location=\"report-gate-off\"} 1"));

    run_cilium(&client, "v1.16.2").await;
    let report = wait(&beside, "mary", |report| statuses(report) == three("True", "False", "False")).await;
    assert_eq!(report.data["status"]["rules"], json!([]));
    reporter.stop().await;

    let front = Front::new(client.clone());
    let again = Running::start(front.client(), config().only_reports());
    create(&api, range("new")).await;
    wait(&beside, "new", |report| statuses(report) == three("True", "False", "False")).await;
    again.stop().await;
    let paths = [
        "POST /apis/netpol.settled.dev/v1alpha1/namespaces/default/networkpolicyreports",
        "PATCH /apis/netpol.settled.dev/v1alpha1/namespaces/default/networkpolicyreports/new/status",
    ];
    assert_eq!(front.writes(), paths);
}

#[tokio::test]
async fn a_report_follows_its_policy() {
    let server = server(Gate::On).await;
    let client = server.client();
    run_cilium(&client, "v1.15.5").await;
    let (api, beside) = (policies(&client, "default"), reports(&client, "default"));
    let first = create(&api, range("a")).await;
    let reporter = Running::start(client.clone(), config().only_reports());
    wait(&beside, "a", |report| statuses(report).len() == 3).await;
    // It is deleted.
    beside.delete("a", &DeleteParams::default()).await.unwrap();
    wait(&beside, "a", |report| statuses(report).len() == 3).await;
    // The policy is made anew.
    api.delete("a", &DeleteParams::default()).await.unwrap();
    let second = create(&api, range("a")).await;
    assert_ne!(first.metadata.uid, second.metadata.uid);
    wait(&beside, "a", |report| {
        let owner = report.metadata.owner_references.as_ref().map(|owners| &owners[0].uid);
        statuses(report).len() == 3 && owner == second.metadata.uid.as_ref()
    })
    .await;
    // And goes for good.
    api.delete("a", &DeleteParams::default()).await.unwrap();
    wait_gone(&beside, "a").await;
    create(&api, range("b")).await;
    wait(&beside, "b", |report| statuses(report).len() == 3).await;
    assert!(statuses(&api.get("b").await.unwrap()).is_empty(), "nothing is written to policies");
    reporter.stop().await;
}

#[tokio::test]
async fn conditions_that_moved_to_status_leave_no_report() {
    let server = server(Gate::On).await;
    let client = server.client();
    run_cilium(&client, "v1.15.5").await;
    let (api, beside) = (policies(&client, "default"), reports(&client, "default"));
    create(&api, range("a")).await;
    let reporter = Running::start(client.clone(), config().only_reports());
    wait(&beside, "a", |report| statuses(report).len() == 3).await;
    reporter.stop().await;
    let reporter = Running::start(client.clone(), config());
    wait(&api, "a", |policy| statuses(policy).len() == 3).await;
    wait_gone(&beside, "a").await;
    reporter.stop().await;
}

#[tokio::test]
async fn a_missing_crd_is_waited_for() {
    let server = Server::start(server_config(Gate::On)).await.unwrap();
    let client = server.client();
    run_cilium(&client, "v1.15.5").await;
    create(&policies(&client, "default"), range("a")).await;
    let front = Front::new(client.clone());
    let reporter = Running::start(front.client(), config().only_reports());
    until("the reporter says what is missing", async || {
        reporter.health.not_ready() == ["networkpolicyreports"]
    })
    .await;
    assert!(front.writes().is_empty(), "{:?}", front.writes());
    install_reports(&client).await;
    wait(&reports(&client, "default"), "a", |report| statuses(report).len() == 3).await;
    assert!(reporter.health.not_ready().is_empty());
    reporter.stop().await;
}

#[tokio::test]
async fn a_report_of_somebody_else_is_left_alone() {
    let server = server(Gate::On).await;
    let client = server.client();
    run_cilium(&client, "v1.15.5").await;
    let beside = reports(&client, "default");
    let foreign = json!({
        "apiVersion": "netpol.settled.dev/v1alpha1", "kind": "NetworkPolicyReport", "metadata": {"name": "a"},
    });
    let foreign = create(&beside, foreign).await;
    create(&policies(&client, "default"), range("a")).await;
    let reporter = Running::start(client.clone(), config().only_reports());
    until("it is counted", async || reporter.metric("settled_netpol_owned_by_others_total") > 0).await;
    assert_eq!(beside.get("a").await.unwrap().metadata.resource_version, foreign.metadata.resource_version);
    reporter.stop().await;
}

/// Where no garbage collector runs, and a policy went while the reporter was away.
#[tokio::test]
async fn a_report_without_a_policy_is_deleted_in_the_end() {
    let mut server = server_config(Gate::On);
    server.controllers = Controllers::none();
    let server = Server::start(server).await.unwrap();
    let client = server.client();
    install_reports(&client).await;
    run_cilium(&client, "v1.15.5").await;
    let orphan = json!({
        "apiVersion": "netpol.settled.dev/v1alpha1", "kind": "NetworkPolicyReport",
        "metadata": {"name": "orphan", "ownerReferences": [{
            "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "name": "orphan", "uid": "gone", "controller": true,
        }]},
    });
    let beside = reports(&client, "default");
    create(&beside, orphan).await;
    let offset = Arc::new(Mutex::new(SignedDuration::ZERO));
    let clock = {
        let offset = Arc::clone(&offset);
        Clock::new(move || Timestamp::now() + *offset.lock().unwrap())
    };
    let mut config = config().only_reports();
    config.poll_interval = Duration::from_millis(10);
    let reporter = Running::with_clock(client.clone(), config, clock);
    create(&policies(&client, "default"), range("a")).await;
    wait(&beside, "a", |report| statuses(report).len() == 3).await;
    assert!(beside.get_opt("orphan").await.unwrap().is_some());
    // Ten minutes later, if a scan saw it before.
    until("a scan deletes it", async || {
        *offset.lock().unwrap() += SignedDuration::from_mins(10);
        beside.get_opt("orphan").await.unwrap().is_none()
    })
    .await;
    assert!(beside.get_opt("a").await.unwrap().is_some());
    reporter.stop().await;
}

#[tokio::test]
async fn what_others_write_into_a_report_is_restored() {
    let server = server(Gate::On).await;
    let client = server.client();
    run_cilium(&client, "v1.15.5").await;
    let (api, beside) = (policies(&client, "default"), reports(&client, "default"));
    create(&api, range("a")).await;
    let reporter = Running::start(client.clone(), config().only_reports());
    wait(&beside, "a", |report| statuses(report).len() == 3).await;
    let nothing = Patch::Merge(json!({"status": null}));
    beside.patch_status("a", &PatchParams::default(), &nothing).await.unwrap();
    let report = wait(&beside, "a", |report| statuses(report).len() == 3).await;
    assert!(field(&report, "Accepted", "reason").is_some());
    // Nor is the report of another generation left as it is, whoever wrote it.
    for generation in [0, 7] {
        let stale = Patch::Merge(json!({"status": {"policyGeneration": generation}}));
        beside.patch_status("a", &PatchParams::default(), &stale).await.unwrap();
        wait(&beside, "a", |report| report.data["status"]["policyGeneration"] == 1).await;
    }
    // With the next generation of the policy, all of it is of that one.
    let spec = Patch::Merge(json!({"spec": {"egress": [{"ports": [{"protocol": "TCP", "port": 443}]}]}}));
    let changed = api.patch("a", &PatchParams::default(), &spec).await.unwrap();
    assert_eq!(changed.metadata.generation, Some(2));
    let report = wait(&beside, "a", |report| report.data["status"]["policyGeneration"] == 2).await;
    assert_eq!(statuses(&report), three("True", "False", "False"));
    assert_eq!(report.data["status"]["rules"], json!([]));
    reporter.stop().await;
}

/// The script that runs kubectl on reports, also on kube-apiserver, has the CRD that is printed.
#[test]
fn the_crd_of_the_kubectl_script_is_the_one_that_is_printed() {
    let path =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../conformance/clients/kubectl/network-policy-report.yaml");
    let value = |yaml: &str| -> serde_json::Value {
        let mut json = Vec::new();
        settled_manifest::yaml_to_json(yaml.as_bytes(), &mut json).unwrap();
        serde_json::from_slice(&json).unwrap()
    };
    let script = value(&std::fs::read_to_string(path).unwrap());
    let crd = value(script["files"]["crd.yaml"].as_str().unwrap());
    assert_eq!(crd, settled_netpol_reporter::report::definition());
}
