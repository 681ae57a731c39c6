//! What the tests share: a server with a provider, policies, and a reporter that runs until it is stopped.

use std::future::Future;
use std::time::Duration;

use k8s_openapi::api::apps::v1::DaemonSet;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::wait::await_condition;
use kube::{Api, Client};
use serde_json::{Value, json};
use settled_apiserver::{Config as ServerConfig, Controller, Controllers, FeatureGates, Server};
use settled_controller::Clock;
use settled_controller::health::Health;
use settled_controller::metrics::Metrics;
use settled_controller::run::{Runtime, Shutdown};
use settled_netpol::profile::Profiles;
use settled_netpol_reporter::{Config, report, run};
use tokio::sync::watch;
use tokio::time::timeout;

/// How long anything may take before a test fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// Whether the API server takes conditions in the status of policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    On,
    Off,
}

pub(crate) fn server_config(gate: Gate) -> ServerConfig {
    let mut config = ServerConfig::default();
    config.controllers = Controllers::none().with(Controller::Garbage).with(Controller::Namespaces);
    let gates = format!("NetworkPolicyStatus={}", gate == Gate::On);
    config.feature_gates = FeatureGates::parse(&gates).unwrap();
    config
}

/// A server with the CRD of reports.
pub(crate) async fn server(gate: Gate) -> Server {
    let server = Server::start(server_config(gate)).await.unwrap();
    install_reports(&server.client()).await;
    server
}

pub(crate) async fn install_reports(client: &Client) {
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let definition: CustomResourceDefinition = serde_json::from_value(report::definition()).unwrap();
    crds.create(&PostParams::default(), &definition).await.unwrap();
    let name = definition.metadata.name.as_deref().unwrap();
    let established = kube::runtime::conditions::is_crd_established();
    within(await_condition(crds, name, established)).await.unwrap();
}

/// What must end.
pub(crate) async fn within<F: Future>(future: F) -> F::Output {
    timeout(PATIENCE, future).await.expect("it takes too long")
}

/// The profiles that the program has.
pub(crate) fn config() -> Config {
    let (profiles, errors) = Profiles::embedded();
    assert!(errors.is_empty(), "{errors:?}");
    Config::new(profiles).poll_interval(Duration::from_millis(50))
}

/// A reporter in a process of its own, as far as it can tell.
pub(crate) struct Running {
    pub(crate) health: Health,
    pub(crate) metrics: Metrics,
    stop: watch::Sender<bool>,
    task: tokio::task::JoinHandle<()>,
}

impl Running {
    pub(crate) fn start(client: Client, config: Config) -> Self {
        Self::with_clock(client, config, Clock::system())
    }

    pub(crate) fn with_clock(client: Client, config: Config, clock: Clock) -> Self {
        let (stop, shutdown) = Shutdown::new();
        let (health, metrics) = (Health::new(), Metrics::new());
        let runtime = Runtime {
            client,
            clock,
            metrics: metrics.clone(),
            health: health.clone(),
            shutdown,
            token: None,
        };
        Self { health, metrics, stop, task: tokio::spawn(run(runtime, config)) }
    }

    /// Stops it in an orderly way.
    pub(crate) async fn stop(self) {
        self.stop.send_replace(true);
        within(self.task).await.unwrap();
    }

    /// Whether a line is in the metrics.
    pub(crate) fn has_metric(&self, line: &str) -> bool {
        let text = self.metrics.encode().unwrap();
        text.lines().any(|found| found == line)
    }

    /// The value of a counter with its labels; 0 if it is not there.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let text = self.metrics.encode().unwrap();
        let mut values = text.lines().filter_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        values.next().unwrap_or_default()
    }
}

/// The DaemonSet of Cilium in a version.
pub(crate) async fn run_cilium(client: &Client, version: &str) {
    run_agent(client, "cilium", &format!("quay.io/cilium/cilium:{version}")).await;
}

pub(crate) async fn run_agent(client: &Client, name: &str, image: &str) {
    let object = json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "agent", "image": image}]},
            },
        },
    });
    let api: Api<DaemonSet> = Api::namespaced(client.clone(), "kube-system");
    api.patch(name, &PatchParams::apply("helm").force(), &Patch::Apply(object)).await.unwrap();
}

/// Policies of a namespace, with their status.
pub(crate) fn policies(client: &Client, namespace: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("networking.k8s.io", "v1", "NetworkPolicy");
    let resource = ApiResource::from_gvk_with_plural(&kind, "networkpolicies");
    Api::namespaced_with(client.clone(), namespace, &resource)
}

pub(crate) fn reports(client: &Client, namespace: &str) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), namespace, &report::resource())
}

pub(crate) fn object(value: Value) -> DynamicObject {
    serde_json::from_value(value).unwrap()
}

/// A policy with a range of ports: what Cilium carries out since 1.16.
pub(crate) fn range(name: &str) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": name},
        "spec": {
            "podSelector": {}, "policyTypes": ["Egress"],
            "egress": [{"ports": [{"protocol": "TCP", "port": 30000, "endPort": 32000}]}],
        },
    })
}

pub(crate) async fn create(api: &Api<DynamicObject>, value: Value) -> DynamicObject {
    api.create(&PostParams::default(), &object(value)).await.unwrap()
}

/// A field of a condition.
pub(crate) fn field<'o>(object: &'o DynamicObject, condition: &str, field: &str) -> Option<&'o Value> {
    let list = object.data.pointer("/status/conditions")?.as_array()?;
    list.iter().find(|found| found["type"] == condition)?.get(field)
}

/// The statuses of the conditions: those that are there, in the order of the types.
pub(crate) fn statuses(object: &DynamicObject) -> Vec<(String, String)> {
    let list = object.data.pointer("/status/conditions").and_then(Value::as_array);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut found: Vec<_> =
        list.into_iter().flatten().map(|found| (text(&found["type"]), text(&found["status"]))).collect();
    found.sort();
    found
}

/// The three conditions of the only provider.
pub(crate) fn three(accepted: &str, failure: &str, partial: &str) -> Vec<(String, String)> {
    [("Accepted", accepted), ("Failure", failure), ("PartialFailure", partial)]
        .map(|(name, status)| (name.to_owned(), status.to_owned()))
        .into()
}

/// Waits for an object that is as it should be, and returns it.
pub(crate) async fn wait(
    api: &Api<DynamicObject>,
    name: &str,
    condition: impl Fn(&DynamicObject) -> bool,
) -> DynamicObject {
    let is_there = |object: Option<&DynamicObject>| object.is_some_and(&condition);
    let found = timeout(PATIENCE, await_condition(api.clone(), name, is_there)).await;
    let Ok(found) = found else {
        let last = api.get_opt(name).await.unwrap();
        panic!("{name} is not as it should be: {}", serde_json::to_string_pretty(&last).unwrap());
    };
    found.unwrap().unwrap()
}

/// Waits until an object is gone.
pub(crate) async fn wait_gone(api: &Api<DynamicObject>, name: &str) {
    let is_gone = |object: Option<&DynamicObject>| object.is_none();
    within(await_condition(api.clone(), name, is_gone)).await.unwrap();
}

/// Polls until a state is reached that has no event.
pub(crate) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let looking = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(timeout(PATIENCE, looking).await.is_ok(), "{what}");
}
