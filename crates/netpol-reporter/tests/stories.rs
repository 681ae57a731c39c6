//! The two founding user stories, and what a restart writes, in the status of policies.

use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::front::Front;
use crate::harness::{
    Gate, Running, config, create, field, policies, range, run_cilium, server, statuses, three, wait,
};

const MESSAGE: &str = "spec.egress[0].ports[0].endPort: Cilium 1.15.5 allows only port 30000 of 30000-32000 (less than written); \
                       supported since 1.16";

/// Mary wrote a policy with a range of ports, and wants to know whether it is carried out.
#[tokio::test]
async fn a_developer_reads_that_a_range_of_ports_is_not_carried_out() {
    let server = server(Gate::On).await;
    let client = server.client();
    run_cilium(&client, "v1.15.5").await;
    let reporter = Running::start(client.clone(), config());
    let api = policies(&client, "default");
    create(&api, range("mary")).await;
    let policy = wait(&api, "mary", |policy| statuses(policy) == three("False", "False", "True")).await;
    let message = field(&policy, "PartialFailure", "message").unwrap().as_str().unwrap();
    assert!(message.starts_with(MESSAGE), "{message}");
    assert!(message.contains("the reporter does not read them"), "{message}");
    assert_eq!(field(&policy, "PartialFailure", "reason"), Some(&json!("FeatureNotSupported")));
    assert_eq!(field(&policy, "Accepted", "observedGeneration"), Some(&json!(1)));

    // She lists what she needs instead.
    let ports = json!([{"protocol": "TCP", "port": 30000}, {"protocol": "TCP", "port": 30001}]);
    let patch = Patch::Merge(json!({"spec": {"egress": [{"ports": ports}]}}));
    api.patch("mary", &PatchParams::default(), &patch).await.unwrap();
    let policy = wait(&api, "mary", |policy| statuses(policy) == three("True", "False", "False")).await;
    assert_eq!(field(&policy, "Accepted", "observedGeneration"), Some(&json!(2)));
    assert!(reporter.has_metric("settled_netpol_policies{provider=\"cilium\",outcome=\"Accepted\"} 1"));
    reporter.stop().await;
}

/// Samantha upgrades the provider, and wants to know which policies are carried out now.
#[tokio::test]
async fn an_administrator_sees_what_an_upgrade_changes() {
    let server = server(Gate::On).await;
    let client = server.client();
    run_cilium(&client, "v1.15.5").await;
    let api = policies(&client, "default");
    for name in ["a", "b"] {
        create(&api, range(name)).await;
    }
    let reporter = Running::start(client.clone(), config());
    for name in ["a", "b"] {
        wait(&api, name, |policy| statuses(policy) == three("False", "False", "True")).await;
    }
    run_cilium(&client, "v1.16.2").await;
    for name in ["a", "b"] {
        let policy = wait(&api, name, |policy| statuses(policy) == three("True", "False", "False")).await;
        assert_eq!(field(&policy, "Accepted", "observedGeneration"), Some(&json!(1)));
        // Failure has been False all the time.
        let since =
            |name: &str| field(&policy, name, "lastTransitionTime").unwrap().as_str().unwrap().to_owned();
        assert!(since("Failure") <= since("Accepted"));
    }
    // And a downgrade takes it back.
    run_cilium(&client, "v1.15.5").await;
    wait(&api, "a", |policy| statuses(policy) == three("False", "False", "True")).await;
    reporter.stop().await;
}

#[tokio::test]
async fn a_restart_writes_nothing() {
    let server = server(Gate::On).await;
    let client = server.client();
    run_cilium(&client, "v1.15.5").await;
    let api = policies(&client, "default");
    for name in ["a", "b", "c"] {
        create(&api, range(name)).await;
    }
    let first = Running::start(client.clone(), config());
    for name in ["a", "b", "c"] {
        wait(&api, name, |policy| statuses(policy) == three("False", "False", "True")).await;
    }
    first.stop().await;

    let front = Front::new(client.clone());
    let second = Running::start(front.client(), config());
    // It comes after all that was there.
    create(&api, range("d")).await;
    wait(&api, "d", |policy| statuses(policy) == three("False", "False", "True")).await;
    second.stop().await;
    let only = ["PATCH /apis/networking.k8s.io/v1/namespaces/default/networkpolicies/d/status"];
    assert_eq!(front.writes(), only);
}
