//! A cluster API for tests: the embedded API server, simulated hosts with their agents, and all controllers, in virtual time.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use settled_apiserver::{Config, Server};
use settled_controller::Clock;
use settled_controller::metrics::Metrics;
use settled_machines::controllers::{self, Options};
use settled_machines::crds::definitions;
use settled_machines::provider::{Provider, Registry};
use settled_machines::simulated::{
    API_VERSION, AgentOptions, Cloud, KIND, Latency, Shared, SimulatedProvider, run_agents,
};
use tokio::task::JoinSet;

use crate::conformance::begin;

pub(crate) const API: &str = "cluster.settled.dev/v1alpha1";

/// A server with everything that runs on it.
pub(crate) struct World {
    pub(crate) client: Client,
    pub(crate) cloud: Shared,
    pub(crate) clock: Clock,
    pub(crate) metrics: Metrics,
    pub(crate) server: Server,
    tasks: JoinSet<()>,
    latency: Latency,
}

pub(crate) fn resource(api_version: &str, kind: &str) -> ApiResource {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let mut resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    if kind == "MachineClass" {
        resource.plural = "machineclasses".to_owned();
    }
    resource
}

impl World {
    /// In a runtime whose time is paused.
    pub(crate) async fn start(latency: Latency) -> Self {
        let clock = Clock::following_tokio(begin());
        let mut config = Config::default();
        let now = clock.clone();
        config.clock = Some(Arc::new(move || now.now()));
        config.seed = Some(1);
        let server = Server::start(config).await.expect("a server");
        let client = server.client();
        let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
        let cloud = Shared::new(Cloud::default());
        let provider = SimulatedProvider::new(cloud.clone(), clock.clone(), latency);
        for definition in definitions(&[provider.schema()]) {
            crds.create(&PostParams::default(), &definition).await.expect("a valid CRD");
        }
        let mut world =
            Self { client, cloud, clock, metrics: Metrics::new(), server, tasks: JoinSet::new(), latency };
        world.pass(1).await;
        world.restart();
        world
    }

    /// Ends all controllers and agents, and starts them again with nothing in memory.
    pub(crate) fn restart(&mut self) {
        self.tasks.abort_all();
        self.tasks = JoinSet::new();
        let (client, cloud, clock) = (self.client.clone(), self.cloud.clone(), self.clock.clone());
        self.tasks.spawn(run_agents(client, cloud, clock, AgentOptions::default()));
        let provider = SimulatedProvider::new(self.cloud.clone(), self.clock.clone(), self.latency);
        let registry = Registry::new([Arc::new(provider) as Arc<dyn Provider>]).expect("a schema");
        let mut options = Options::new(registry);
        options.clock = self.clock.clone();
        options.metrics = self.metrics.clone();
        let client = self.client.clone();
        self.tasks.spawn(async move { controllers::run(client, options).await.expect("caches") });
    }

    /// A registry that plans as the controllers do.
    pub(crate) fn registry(&self) -> Registry {
        let provider = SimulatedProvider::new(self.cloud.clone(), self.clock.clone(), self.latency);
        Registry::new([Arc::new(provider) as Arc<dyn Provider>]).expect("a schema")
    }

    /// Ends all controllers and agents.
    pub(crate) fn stop(&mut self) {
        self.tasks.abort_all();
        self.tasks = JoinSet::new();
    }

    /// An empty server with the same hosts and the same time; nothing runs there yet.
    pub(crate) async fn wiped(mut self) -> Self {
        self.stop();
        let mut config = Config::default();
        let now = self.clock.clone();
        config.clock = Some(Arc::new(move || now.now()));
        config.seed = Some(2);
        let server = Server::start(config).await.expect("a server");
        let client = server.client();
        settled_machines::live::install(&client, &self.registry().formats()).await.expect("the kinds");
        Self {
            client,
            metrics: self.metrics,
            server,
            tasks: JoinSet::new(),
            cloud: self.cloud,
            clock: self.clock,
            latency: self.latency,
        }
    }

    /// Lets virtual time pass.
    pub(crate) async fn pass(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    fn api(&self, api_version: &str, kind: &str) -> Api<DynamicObject> {
        let resource = resource(api_version, kind);
        match kind {
            "Node" => Api::all_with(self.client.clone(), &resource),
            "Lease" => Api::namespaced_with(self.client.clone(), "kube-node-lease", &resource),
            _ => Api::default_namespaced_with(self.client.clone(), &resource),
        }
    }

    pub(crate) async fn create(&self, object: Value) {
        let text = |name: &str| object[name].as_str().unwrap_or_default().to_owned();
        let api = self.api(&text("apiVersion"), &text("kind"));
        let status = object.get("status").cloned();
        let object: DynamicObject = serde_json::from_value(object).expect("an object");
        api.create(&PostParams::default(), &object).await.expect("created");
        if let Some(status) = status {
            let patch = Patch::Merge(json!({"status": status}));
            api.patch_status(&object.name_any(), &PatchParams::default(), &patch).await.expect("a status");
        }
    }

    pub(crate) async fn get(&self, kind: &str, name: &str) -> Option<Value> {
        let api = self.api(version(kind), kind);
        api.get_opt(name).await.expect("an answer").map(|object| json!(object))
    }

    pub(crate) async fn list(&self, kind: &str) -> Vec<Value> {
        let list = self.api(version(kind), kind).list(&ListParams::default()).await.expect("a list");
        list.items.iter().map(|object| json!(object)).collect()
    }

    pub(crate) async fn patch(&self, kind: &str, name: &str, patch: Value) {
        let api = self.api(version(kind), kind);
        api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.expect("patched");
    }

    pub(crate) async fn delete(&self, kind: &str, name: &str) {
        self.api(version(kind), kind).delete(name, &DeleteParams::default()).await.expect("deleted");
    }

    /// Names of the hosts that there are.
    pub(crate) fn hosts(&self) -> Vec<String> {
        let now = self.clock.now();
        self.cloud.edit(|cloud| {
            let live = cloud.hosts.values().filter(|host| host.gone_from.is_none_or(|gone| gone > now));
            let mut names: Vec<String> = live.map(|host| host.node_name.clone()).collect();
            names.sort();
            names
        })
    }
}

fn version(kind: &str) -> &'static str {
    match kind {
        "Node" | "Pod" => "v1",
        "Lease" => "coordination.k8s.io/v1",
        "PodDisruptionBudget" => "policy/v1",
        _ => API,
    }
}

/// Status and reason of a condition at the present generation.
pub(crate) fn condition(object: &Value, name: &str) -> (String, String) {
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let generation = &object["metadata"]["generation"];
    let found = conditions
        .iter()
        .find(|condition| condition["type"] == name && condition["observedGeneration"] == *generation);
    let text = |field: &str| found.and_then(|found| found[field].as_str()).unwrap_or_default().to_owned();
    (text("status"), text("reason"))
}

pub(crate) fn is_ready(object: &Value) -> bool {
    condition(object, "Ready").0 == "True"
}

/// Configuration of a simulated host.
pub(crate) fn config(image: &str) -> Value {
    json!({"value": {"apiVersion": API_VERSION, "kind": KIND, "image": image}})
}

pub(crate) fn machine(name: &str, kubelet: &str) -> Value {
    json!({
        "apiVersion": API, "kind": "Machine", "metadata": {"name": name, "namespace": "default"},
        "spec": {"versions": {"kubelet": kubelet}, "providerSpec": config("debian-12")},
    })
}

fn template(kubelet: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"versions": {"kubelet": kubelet}, "providerSpec": config("debian-12")},
    })
}

pub(crate) fn set(replicas: i32) -> Value {
    json!({
        "apiVersion": API, "kind": "MachineSet", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template("v1.36.0")},
    })
}

pub(crate) fn deployment(replicas: i32, strategy: Value) -> Value {
    json!({
        "apiVersion": API, "kind": "MachineDeployment", "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template("v1.36.0"),
            "strategy": strategy,
        },
    })
}

pub(crate) fn kubelet(version: &str) -> Value {
    json!({"spec": {"versions": {"kubelet": version}}})
}

pub(crate) fn template_kubelet(version: &str) -> Value {
    json!({"spec": {"template": kubelet(version)}})
}
