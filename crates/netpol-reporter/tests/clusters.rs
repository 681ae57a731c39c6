//! Providers as clusters have them: given, several, none, of an unknown version, not readable.

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;
use settled_apiserver::auth::User;

use crate::harness::{
    Gate, Running, config, create, field, policies, range, run_agent, run_cilium, server, statuses, three,
    wait, wait_gone,
};

#[tokio::test]
async fn several_providers_own_one_condition_each() {
    let server = server(Gate::On).await;
    let client = server.client();
    run_cilium(&client, "v1.15.5").await;
    run_agent(&client, "antrea-agent", "antrea/antrea-agent-ubuntu:v2.1.0").await;
    let api = policies(&client, "default");
    create(&api, range("a")).await;
    let reporter = Running::start(client.clone(), config());
    let expected = [
        ("antrea.io/Accepted", "True"),
        ("antrea.io/Failure", "False"),
        ("antrea.io/PartialFailure", "False"),
        ("cilium.io/Accepted", "False"),
        ("cilium.io/Failure", "False"),
        ("cilium.io/PartialFailure", "True"),
    ];
    let expected = expected.map(|(name, status)| (name.to_owned(), status.to_owned()));
    wait(&api, "a", |policy| statuses(policy) == expected).await;
    // One of them is removed: its conditions go as well, and the other one needs no prefix.
    let agents: Api<k8s_openapi::api::apps::v1::DaemonSet> = Api::namespaced(client.clone(), "kube-system");
    agents.delete("antrea-agent", &DeleteParams::default()).await.unwrap();
    wait(&api, "a", |policy| statuses(policy) == three("False", "False", "True")).await;
    reporter.stop().await;
}

#[tokio::test]
async fn an_unknown_provider_is_unknown() {
    let server = server(Gate::On).await;
    let client = server.client();
    let api = policies(&client, "default");
    create(&api, range("a")).await;
    let reporter = Running::start(client.clone(), config());
    let unknown = three("Unknown", "Unknown", "Unknown");
    let policy = wait(&api, "a", |policy| statuses(policy) == unknown).await;
    assert_eq!(field(&policy, "Accepted", "reason"), Some(&json!("ProviderUnknown")));
    let message = "no known network provider runs in the cluster";
    assert_eq!(field(&policy, "Accepted", "message"), Some(&json!(message)));
    // It comes, in a version that nobody has checked.
    run_cilium(&client, "v99.0.0").await;
    let version = json!("VersionUnknown");
    wait(&api, "a", |policy| field(policy, "Accepted", "reason") == Some(&version)).await;
    assert_eq!(statuses(&api.get("a").await.unwrap()), unknown);
    // An image without a version is no evidence of one.
    run_agent(&client, "cilium", "quay.io/cilium/cilium:latest").await;
    let is_malformed = |text: &str| text.contains("`latest` is no version of Cilium");
    wait(&api, "a", |policy| {
        field(policy, "Accepted", "message").and_then(|text| text.as_str()).is_some_and(is_malformed)
    })
    .await;
    reporter.stop().await;
}

#[tokio::test]
async fn a_provider_that_is_given_is_not_detected() {
    let server = server(Gate::On).await;
    let client = server.client();
    run_cilium(&client, "v1.15.5").await;
    let api = policies(&client, "default");
    create(&api, range("a")).await;
    let reporter = Running::start(client.clone(), config().providers(["cilium@1.16.0".parse().unwrap()]));
    wait(&api, "a", |policy| statuses(policy) == three("True", "False", "False")).await;
    reporter.stop().await;
}

/// It may do its work, but not look for providers: it says what it lacks.
#[tokio::test]
async fn what_may_not_be_read_is_named() {
    let server = server(Gate::On).await;
    let client = server.client();
    run_cilium(&client, "v1.15.5").await;
    let api = policies(&client, "default");
    create(&api, range("a")).await;
    let given = config().providers(["cilium@1.16.0".parse().unwrap()]);
    crate::permissions::grant(&client, &given).await;
    let user = User::service_account("default", "settled-netpol-reporter").authenticated();
    let reporter = Running::start(server.client_as(&user), config());
    let policy = wait(&api, "a", |policy| statuses(policy) == three("Unknown", "Unknown", "Unknown")).await;
    let message = field(&policy, "Accepted", "message").unwrap().as_str().unwrap();
    assert!(
        message.starts_with(
            "the network provider cannot be detected: cannot read daemonsets: forbidden (needs verbs"
        ),
        "{message}"
    );
    reporter.stop().await;
}

#[tokio::test]
async fn a_namespace_that_goes_takes_its_policies() {
    let server = server(Gate::Off).await;
    let client = server.client();
    run_cilium(&client, "v1.15.5").await;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let shop = serde_json::from_value(json!({"metadata": {"name": "shop"}})).unwrap();
    namespaces.create(&PostParams::default(), &shop).await.unwrap();
    let (api, beside) = (policies(&client, "shop"), crate::harness::reports(&client, "shop"));
    create(&api, range("a")).await;
    let reporter = Running::start(client.clone(), config());
    wait(&beside, "a", |report| statuses(report).len() == 3).await;
    namespaces.delete("shop", &DeleteParams::default()).await.unwrap();
    wait_gone(&api, "a").await;
    wait_gone(&beside, "a").await;
    // Others are not concerned.
    create(&policies(&client, "default"), range("b")).await;
    wait(&crate::harness::reports(&client, "default"), "b", |report| statuses(report).len() == 3).await;
    reporter.stop().await;
}
