//! Outages of the API server, a feature gate that is switched off and on under the reporter, and what vanishes while it is evaluated.

use std::path::Path;

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use kube::runtime::wait::await_condition;
use serde_json::json;
use settled_apiserver::Server;

use crate::front::Front;
use crate::harness::{
    Gate, Running, config, create, field, install_reports, policies, range, reports, run_cilium, server,
    server_config, statuses, three, until, wait, wait_gone, within,
};

/// A server with its data in a directory.
async fn start(directory: &Path, gate: Gate) -> Server {
    let mut config = server_config(gate);
    config.data_dir = Some(directory.to_owned());
    Server::start(config).await.unwrap()
}

/// Ends a server, and with it the connections.
async fn end(server: Server, front: &Front) {
    front.lead_to(None);
    server.stop();
    server.stopped().await;
}

#[tokio::test]
async fn an_outage_changes_no_condition() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path(), Gate::On).await;
    let client = server.client();
    run_cilium(&client, "v1.15.5").await;
    let api = policies(&client, "default");
    create(&api, range("a")).await;
    let front = Front::new(client);
    let reporter = Running::start(front.client(), config());
    let before = wait(&api, "a", |policy| statuses(policy) == three("False", "False", "True")).await;
    drop(api);
    end(server, &front).await;

    let server = start(directory.path(), Gate::On).await;
    let client = server.client();
    // Policy and provider have changed when the reporter comes back.
    create(&policies(&client, "default"), range("b")).await;
    front.lead_to(Some(client.clone()));
    let api = policies(&client, "default");
    wait(&api, "b", |policy| statuses(policy) == three("False", "False", "True")).await;
    let after = api.get("a").await.unwrap();
    assert_eq!(after.metadata.resource_version, before.metadata.resource_version, "nothing was written");
    let writes: Vec<String> = front.writes();
    assert_eq!(writes.iter().filter(|write| write.ends_with("/a/status")).count(), 1, "{writes:?}");
    run_cilium(&client, "v1.16.1").await;
    for name in ["a", "b"] {
        wait(&api, name, |policy| statuses(policy) == three("True", "False", "False")).await;
    }
    reporter.stop().await;
}

#[tokio::test]
async fn a_gate_that_is_switched_off_moves_the_conditions() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path(), Gate::On).await;
    let client = server.client();
    install_reports(&client).await;
    run_cilium(&client, "v1.15.5").await;
    let api = policies(&client, "default");
    create(&api, range("a")).await;
    let front = Front::new(client);
    let reporter = Running::start(front.client(), config());
    wait(&api, "a", |policy| statuses(policy) == three("False", "False", "True")).await;
    drop(api);
    end(server, &front).await;

    let server = start(directory.path(), Gate::Off).await;
    let client = server.client();
    front.lead_to(Some(client.clone()));
    let (api, beside) = (policies(&client, "default"), reports(&client, "default"));
    // What is in status is still true: nothing has to be written.
    run_cilium(&client, "v1.16.1").await;
    let report = wait(&beside, "a", |report| statuses(report) == three("True", "False", "False")).await;
    assert!(field(&report, "Accepted", "message").is_some());
    // The old conditions are not left behind.
    wait(&api, "a", |policy| statuses(policy).is_empty()).await;
    assert!(reporter.has_metric("settled_netpol_location{location=\"report-gate-off\"} 1"));
    drop((api, beside));
    end(server, &front).await;

    // Back on: the reporter finds out by itself, and removes the reports.
    let server = start(directory.path(), Gate::On).await;
    let client = server.client();
    front.lead_to(Some(client.clone()));
    let (api, beside) = (policies(&client, "default"), reports(&client, "default"));
    wait(&api, "a", |policy| statuses(policy) == three("True", "False", "False")).await;
    wait_gone(&beside, "a").await;
    reporter.stop().await;
}

/// What was evaluated is gone when its conditions are written: nothing is written, nothing is tried again, and the others get theirs.
#[tokio::test]
async fn a_namespace_that_vanishes_during_an_evaluation_leaves_nothing() {
    for gate in [Gate::On, Gate::Off] {
        let server = server(gate).await;
        let client = server.client();
        run_cilium(&client, "v1.15.5").await;
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let team = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}});
        namespaces.create(&PostParams::default(), &serde_json::from_value(team).unwrap()).await.unwrap();
        create(&policies(&client, "team"), range("lost")).await;
        let front = Front::new(client.clone());
        front.hold(true);
        let reporter = Running::start(front.client(), config());
        // The reporter has evaluated it, and sends what it found.
        until("a write", async || !front.writes().is_empty()).await;
        namespaces.delete("team", &DeleteParams::default()).await.unwrap();
        within(await_condition(namespaces, "team", |namespace: Option<&Namespace>| namespace.is_none()))
            .await
            .unwrap();
        front.hold(false);
        create(&policies(&client, "default"), range("kept")).await;
        let written = match gate {
            Gate::On => policies(&client, "default"),
            Gate::Off => reports(&client, "default"),
        };
        wait(&written, "kept", |object| statuses(object) == three("False", "False", "True")).await;
        until("the metrics count one policy", async || {
            reporter.has_metric("settled_netpol_policies{provider=\"cilium\",outcome=\"PartialFailure\"} 1")
        })
        .await;
        reporter.stop().await;
        let about_the_lost: Vec<String> =
            front.writes().into_iter().filter(|write| write.contains("/team/")).collect();
        let most = if gate == Gate::On { 1 } else { 2 };
        assert!(about_the_lost.len() <= most, "{gate:?}: {about_the_lost:?}");
    }
}
