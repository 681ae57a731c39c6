//! Servers, hosts and controllers of a test.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams};
use serde_json::{Value, json};
use settled_apiserver::{Config, Server};
use settled_clusters::kinds::{KINDS, api, resource};
use settled_clusters::{
    Controllers, CreateOptions, Error, Ledger, Management, ManagementOptions, Manifests, StateDirectory,
    create,
};
use settled_controller::Clock;
use settled_machines::controllers::{ConnectError, Connector};
use settled_machines::crds::ConfigSchema;
use settled_machines::provider::{
    Desired, Host, HostKey, Observed, Owned, Plan, Progress, Provider, ProviderError, Request, Step,
};
use settled_machines::simulated::{
    API_VERSION, Access, AgentOptions, Cloud, KIND, Latency, Shared, SimulatedProvider, run_agents,
};
use tokio::task::JoinSet;

pub(crate) const API: &str = "cluster.settled.dev/v1alpha1";
pub(crate) const LIMIT: Duration = Duration::from_secs(900);

/// Servers by name, and which ones are dead.
#[derive(Clone, Default)]
pub(crate) struct Servers {
    servers: Arc<Mutex<BTreeMap<String, Server>>>,
    dead: Arc<Mutex<BTreeSet<String>>>,
}

impl Servers {
    pub(crate) fn add(&self, name: &str, server: Server) {
        self.servers.lock().unwrap().insert(name.to_owned(), server);
    }

    pub(crate) fn get(&self, name: &str) -> Server {
        self.servers.lock().unwrap()[name].clone()
    }

    pub(crate) fn kill(&self, name: &str) {
        self.dead.lock().unwrap().insert(name.to_owned());
    }

    pub(crate) fn revive(&self, name: &str) {
        self.dead.lock().unwrap().remove(name);
    }

    /// A client that a dead server does not answer.
    pub(crate) fn client(&self, name: &str) -> Client {
        let (inner, dead, name) = (self.get(name).client(), self.dead.clone(), name.to_owned());
        let service = tower::service_fn(move |request| {
            let (inner, is_dead) = (inner.clone(), dead.lock().unwrap().contains(&name));
            async move {
                if is_dead {
                    return Err(Box::<dyn std::error::Error + Send + Sync>::from("connection refused"));
                }
                inner.send(request).await.map_err(Into::into)
            }
        });
        Client::new(service, "default")
    }

    fn connector(&self) -> Connector {
        let servers = self.clone();
        Connector::new(move |kubeconfig| {
            let servers = servers.clone();
            async move {
                let name = kubeconfig.strip_prefix("server:").unwrap_or_default().to_owned();
                let is_known = servers.servers.lock().unwrap().contains_key(&name);
                match is_known {
                    true => Ok(servers.client(&name)),
                    false => Err(ConnectError::new(format!("there is no server {name:?}"))),
                }
            }
        })
    }
}

/// The simulated provider, whose control planes serve: `server:` and what is before the last dash of the name of their Machine.
struct Serving {
    provider: SimulatedProvider<Shared>,
    cloud: Shared,
}

impl Provider for Serving {
    fn schema(&self) -> ConfigSchema {
        self.provider.schema()
    }

    fn validate(&self, desired: &Desired) -> Vec<String> {
        self.provider.validate(desired)
    }

    fn observe<'a>(&'a self, key: &'a HostKey) -> BoxFuture<'a, Result<Observed, ProviderError>> {
        self.provider.observe(key)
    }

    fn plan(&self, host: &Host, desired: &Desired) -> Plan {
        self.provider.plan(host, desired)
    }

    fn create<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Progress, ProviderError>> {
        self.provider.create(request)
    }

    fn apply_step<'a>(
        &'a self,
        request: &'a Request,
        step: &'a Step,
    ) -> BoxFuture<'a, Result<Progress, ProviderError>> {
        self.provider.apply_step(request, step)
    }

    fn delete<'a>(&'a self, key: &'a HostKey) -> BoxFuture<'a, Result<Progress, ProviderError>> {
        self.provider.delete(key)
    }

    fn kubeconfig<'a>(&'a self, key: &'a HostKey) -> BoxFuture<'a, Result<Option<String>, ProviderError>> {
        async move {
            let observed = self.provider.observe(key).await?;
            let runs = observed.host().is_some_and(|host| host.versions.control_plane.is_some());
            let machine =
                self.cloud.edit(|cloud| cloud.hosts.get(key.as_str()).map(|host| host.machine.clone()));
            let name =
                machine.and_then(|machine| Some(machine.rsplit_once('/')?.1.rsplit_once('-')?.0.to_owned()));
            Ok(name.filter(|_| runs).map(|name| format!("server:{name}")))
        }
        .boxed()
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Owned>, ProviderError>> {
        self.provider.list()
    }
}

/// The hosts of one cluster.
#[derive(Clone)]
struct HostsOf(Shared, String);

impl Access for HostsOf {
    async fn change<T: Send>(
        &self,
        action: &str,
        change: impl FnOnce(&mut Cloud) -> T + Send,
    ) -> Result<T, ProviderError> {
        self.0.change(action, change).await
    }

    async fn read<T: Send>(&self, read: impl FnOnce(&Cloud) -> T + Send) -> T {
        let prefix = format!("default/{}-", self.1);
        let mut cloud = self.0.edit(|cloud| cloud.clone());
        cloud.hosts.retain(|_, host| host.machine.starts_with(&prefix));
        read(&cloud)
    }
}

/// Everything that outlives a process, and what runs in it.
pub(crate) struct World {
    pub(crate) servers: Servers,
    pub(crate) cloud: Shared,
    pub(crate) clock: Clock,
    pub(crate) ledger: tempfile::TempDir,
    agents: JoinSet<()>,
}

pub(crate) async fn server(clock: &Clock, seed: u64) -> Server {
    let mut config = Config::default();
    let now = clock.clone();
    config.clock = Some(Arc::new(move || now.now()));
    config.seed = Some(seed);
    Server::start(config).await.unwrap()
}

impl World {
    /// A management server, and a server for each of these clusters.
    pub(crate) async fn start(clusters: &[&str]) -> Self {
        let clock = Clock::following_tokio("2026-01-01T00:00:00Z".parse().unwrap());
        let (servers, cloud) = (Servers::default(), Shared::new(Cloud::default()));
        servers.add("management", server(&clock, 1).await);
        let mut agents = JoinSet::new();
        for (index, name) in clusters.iter().enumerate() {
            servers.add(name, server(&clock, u64::try_from(index).unwrap() + 2).await);
            let hosts = HostsOf(cloud.clone(), (*name).to_owned());
            agents.spawn(run_agents(servers.client(name), hosts, clock.clone(), AgentOptions::default()));
        }
        Self { servers, cloud, clock, ledger: tempfile::tempdir().unwrap(), agents }
    }

    pub(crate) fn ledger(&self) -> Ledger {
        Ledger::new(&self.ledger.path().join("ledger"))
    }

    pub(crate) fn state(&self) -> StateDirectory {
        StateDirectory::open(&self.ledger.path().join("state")).unwrap()
    }

    pub(crate) fn options(&self) -> ManagementOptions {
        let provider = SimulatedProvider::new(self.cloud.clone(), self.clock.clone(), Latency::CLOUD);
        let provider: Arc<dyn Provider> = Arc::new(Serving { provider, cloud: self.cloud.clone() });
        let mut options = ManagementOptions::new(vec![provider], self.ledger());
        options.connector = self.servers.connector();
        options.clock = self.clock.clone();
        options
    }

    /// The management of a server, as a new process starts it.
    pub(crate) async fn management(&self, server: &str) -> Management {
        Management::new(self.servers.client(server), self.options()).await.unwrap()
    }

    /// Creates a cluster with a new process.
    pub(crate) async fn create(&self, manifests: &Manifests, pivot: bool) -> Result<Controllers, Error> {
        let management = self.management("management").await;
        let controllers = management.start_controllers();
        let mut options = CreateOptions::new(LIMIT);
        options.pivot = pivot;
        options.state = Some(self.state());
        create(&management, manifests, &options).await?;
        Ok(controllers)
    }

    pub(crate) async fn pass(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    /// Hosts that there are: names of Nodes, with the provider's names.
    pub(crate) fn hosts(&self) -> BTreeMap<String, String> {
        let now = self.clock.now();
        self.cloud.edit(|cloud| {
            let live = cloud.hosts.values().filter(|host| host.gone_from.is_none_or(|gone| gone > now));
            live.map(|host| (host.node_name.clone(), host.id.clone())).collect()
        })
    }

    pub(crate) async fn list(&self, server: &str, kind: &str) -> Vec<Value> {
        let client = self.servers.get(server).client();
        let objects: Api<DynamicObject> = match kind {
            "Node" => Api::all_with(client, &resource("v1", "Node")),
            kind => api(&client, kind, "default"),
        };
        let list = match objects.list(&ListParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => return Vec::new(),
            list => list.unwrap(),
        };
        list.items.into_iter().map(|object| json!(object)).collect()
    }

    pub(crate) async fn names(&self, server: &str, kind: &str) -> Vec<String> {
        let all = self.list(server, kind).await;
        all.iter().map(|object| object["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }

    pub(crate) async fn get(&self, server: &str, kind: &str, name: &str) -> Value {
        let all = self.list(server, kind).await;
        all.into_iter().find(|object| object["metadata"]["name"] == name).unwrap_or(Value::Null)
    }

    /// Nothing is left of a cluster: no object, no host, no entry in the ledger, no Node.
    pub(crate) async fn sweep(&self, servers: &[&str]) -> Vec<String> {
        let mut left: Vec<String> = self.hosts().into_keys().map(|host| format!("host {host}")).collect();
        let ledger = self.ledger().all().unwrap();
        left.extend(ledger.into_iter().map(|(key, _)| format!("entry {key}")));
        for server in servers {
            for (_, kind) in KINDS {
                let names = self.names(server, kind).await;
                let names = names.into_iter().filter(|name| name != "kube-root-ca.crt");
                left.extend(names.map(|name| format!("{kind} {name} in {server}")));
            }
        }
        left
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.agents.abort_all();
    }
}

/// Status and reason of a condition at the present generation.
pub(crate) fn condition(object: &Value, name: &str) -> (String, String) {
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let generation = &object["metadata"]["generation"];
    let found =
        conditions.iter().find(|found| found["type"] == name && found["observedGeneration"] == *generation);
    let text = |field: &str| found.and_then(|found| found[field].as_str()).unwrap_or_default().to_owned();
    (text("status"), text("reason"))
}

pub(crate) fn is_ready(object: &Value) -> bool {
    condition(object, "Ready").0 == "True"
}

/// A cluster with control planes and workers, the latter in a MachineDeployment with a health check.
pub(crate) fn manifests(name: &str, control_plane: usize, workers: usize) -> Manifests {
    let config = json!({"value": {"apiVersion": API_VERSION, "kind": KIND, "image": "debian-12"}});
    let mut objects = vec![
        json!({
            "apiVersion": API, "kind": "Cluster", "metadata": {"name": name},
            "spec": {
                "clusterNetwork": {"services": {"cidrBlocks": ["10.96.0.0/12"]}, "pods": {"cidrBlocks": ["10.244.0.0/16"]}, "serviceDomain": "cluster.local"},
                "controlPlane": {"version": "v1.36.0"},
            },
        }),
        json!({"apiVersion": API, "kind": "MachineClass", "metadata": {"name": "small"}, "providerSpec": {}, "spec": {"providerSpec": config["value"]}}),
        json!({
            "apiVersion": API, "kind": "MachineDeployment", "metadata": {"name": format!("{name}-workers")},
            "spec": {
                "replicas": workers, "selector": {"matchLabels": {"group": name}},
                "template": {
                    "metadata": {"labels": {"group": name}},
                    "spec": {"versions": {"kubelet": "v1.36.0"}, "providerSpec": {"valueFrom": {"machineClass": {"name": "small"}}}},
                },
            },
        }),
        json!({
            "apiVersion": API, "kind": "MachineHealthCheck", "metadata": {"name": format!("{name}-health")},
            "spec": {"selector": {"matchLabels": {"group": name}}},
        }),
    ];
    objects[1].as_object_mut().unwrap().remove("providerSpec");
    for index in 0..control_plane {
        objects.push(json!({
            "apiVersion": API, "kind": "Machine", "metadata": {"name": format!("{name}-{index}")},
            "spec": {"versions": {"kubelet": "v1.36.0", "controlPlane": "v1.36.0"}, "providerSpec": config},
        }));
    }
    Manifests::new(objects).unwrap()
}
