//! A cluster API for tests: the embedded API server, the real controllers, and namespace hosts with their agents, in real time.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::{BoxFuture, FutureExt as _};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams,
    PostParams, WatchParams,
};
use serde_json::{Value, json};
use settled_apiserver::auth::User;
use settled_apiserver::{Config, Server};
use settled_hosts::agent::{Credentials, CredentialsError, Grant, Signed, Timing};
use settled_hosts::netns::{API_VERSION, KIND, NetnsProvider, Options};
use settled_machines::controllers;
use settled_machines::crds::{ConfigSchema, definitions};
use settled_machines::provider::{
    Desired, Host, HostKey, Observed, Owned, Plan, Progress, Provider, ProviderError, Registry, Request, Step,
};
use tokio::task::JoinSet;

pub(crate) const CLUSTER: &str = "cluster.settled.dev/v1alpha1";
/// The longest that anything is waited for.
const LIMIT: Duration = Duration::from_secs(60);

/// Whether this machine can run the tests. In CI it must.
pub(crate) fn is_available() -> bool {
    let Err(missing) = NetnsProvider::check() else { return true };
    assert!(std::env::var_os("CI").is_none_or(|value| value != "true"), "skipped in CI: {missing}");
    note(&format!("skipped: {missing}"));
    false
}

/// Writes a line for whoever reads the output of the tests.
pub(crate) fn note(line: &str) {
    let _best_effort = std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("{line}\n"));
}

/// A directory, with the names of what is outside of it. What is left when it is dropped, after a failure, is removed.
pub(crate) struct Place {
    pub(crate) directory: PathBuf,
    prefix: &'static str,
    subnet: u8,
}

impl Place {
    pub(crate) fn new(prefix: &'static str, subnet: u8) -> Self {
        let directory = std::env::temp_dir().join(format!("settled-hosts-{prefix}-{}", std::process::id()));
        let place = Self { directory, prefix, subnet };
        // Of a run that was killed.
        place.clear();
        std::fs::create_dir_all(&place.directory).expect("a directory");
        place
    }

    pub(crate) fn options(&self) -> Options {
        let agent = vec![env!("CARGO_BIN_EXE_settled-agent").to_owned()];
        let mut options = Options::new(&self.directory, agent);
        options.prefix = self.prefix.to_owned();
        options.subnet = [10, self.subnet];
        options.timing =
            Timing { lease_seconds: 3, renew_millis: 300, start_millis: 10_000, request_millis: 3_000 };
        options
    }

    fn clear(&self) {
        let namespaces = std::fs::read_dir("/run/netns").into_iter().flatten().flatten();
        let own = format!("{}-", self.prefix);
        for name in namespaces.filter_map(|entry| entry.file_name().into_string().ok()) {
            if name.starts_with(&own) {
                let pids = Command::new("ip").args(["netns", "pids", &name]).output().expect("ip");
                for pid in String::from_utf8_lossy(&pids.stdout).split_whitespace() {
                    let _best_effort = Command::new("kill").args(["-9", pid]).status();
                }
                let _best_effort = Command::new("ip").args(["netns", "del", &name]).status();
            }
        }
        let bridge = format!("{}br", self.prefix);
        if Path::new("/sys/class/net").join(&bridge).exists() {
            let _best_effort = Command::new("ip").args(["link", "del", &bridge]).status();
        }
        let _best_effort = std::fs::remove_dir_all(&self.directory);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Credentials for a server that does not exist: agents start without it.
pub(crate) struct Offline;

impl Credentials for Offline {
    fn issue<'a>(&'a self, grant: &'a Grant) -> BoxFuture<'a, Result<String, CredentialsError>> {
        let text = format!(
            "{{\"apiVersion\":\"v1\",\"kind\":\"Config\",\"current-context\":\"a\",\
             \"contexts\":[{{\"name\":\"a\",\"context\":{{\"cluster\":\"a\",\"user\":\"a\"}}}}],\
             \"clusters\":[{{\"name\":\"a\",\"cluster\":{{\"server\":\"http://127.0.0.1:1\"}}}}],\
             \"users\":[{{\"name\":\"a\",\"user\":{{\"token\":\"{}\"}}}}]}}",
            grant.node
        );
        async move { Ok(text) }.boxed()
    }

    fn revoke<'a>(&'a self, _grant: &'a Grant) -> BoxFuture<'a, Result<(), CredentialsError>> {
        async { Ok(()) }.boxed()
    }
}

/// A provider whose next response may be lost.
pub(crate) struct Lossy<P> {
    provider: P,
    is_lost: Arc<AtomicBool>,
}

impl<P> Lossy<P> {
    pub(crate) fn new(provider: P, is_lost: &Arc<AtomicBool>) -> Self {
        Self { provider, is_lost: is_lost.clone() }
    }

    fn answer(&self, result: Result<Progress, ProviderError>) -> Result<Progress, ProviderError> {
        match self.is_lost.swap(false, Ordering::Relaxed) {
            true => Err(ProviderError::Transient("the response was lost".to_owned())),
            false => result,
        }
    }
}

impl<P: Provider> Provider for Lossy<P> {
    fn schema(&self) -> ConfigSchema {
        self.provider.schema()
    }

    fn observe<'a>(&'a self, key: &'a HostKey) -> BoxFuture<'a, Result<Observed, ProviderError>> {
        self.provider.observe(key)
    }

    fn plan(&self, host: &Host, desired: &Desired) -> Plan {
        self.provider.plan(host, desired)
    }

    fn create<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Progress, ProviderError>> {
        async move { self.answer(self.provider.create(request).await) }.boxed()
    }

    fn apply_step<'a>(
        &'a self,
        request: &'a Request,
        step: &'a Step,
    ) -> BoxFuture<'a, Result<Progress, ProviderError>> {
        async move { self.answer(self.provider.apply_step(request, step).await) }.boxed()
    }

    fn delete<'a>(&'a self, key: &'a HostKey) -> BoxFuture<'a, Result<Progress, ProviderError>> {
        async move { self.answer(self.provider.delete(key).await) }.boxed()
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Owned>, ProviderError>> {
        self.provider.list()
    }
}

/// A server with everything that runs on it.
pub(crate) struct World {
    pub(crate) client: Client,
    pub(crate) provider: NetnsProvider,
    pub(crate) place: Place,
    /// The longest that anything is waited for.
    pub(crate) limit: Duration,
    registered: Arc<dyn Provider>,
    _server: Server,
    tasks: JoinSet<()>,
}

type Url = Arc<OnceLock<String>>;

impl World {
    /// With namespace hosts.
    pub(crate) async fn start(place: Place, change: impl FnOnce(&mut Options)) -> Self {
        let mut options = place.options();
        change(&mut options);
        let (server, url, signed) = Self::server(&format!("10.{}.0.1", place.subnet)).await;
        let provider = NetnsProvider::new(options, Arc::new(signed));
        let gateway = provider.start_network().await.expect("a network");
        let address = server.listen((gateway, 0).into()).await.expect("a port");
        url.set(format!("https://{address}")).expect("one address");
        Self::with(place, server, provider.clone(), Arc::new(provider)).await
    }

    /// With hosts that reach the loopback of this machine by another address.
    pub(crate) async fn start_with(
        place: Place,
        loopback: &str,
        make: impl FnOnce(Signed) -> Arc<dyn Provider>,
    ) -> Self {
        let (server, url, signed) = Self::server(loopback).await;
        let address = server.listen(([127, 0, 0, 1], 0).into()).await.expect("a port");
        url.set(format!("https://{loopback}:{}", address.port())).expect("one address");
        let unused = NetnsProvider::new(place.options(), Arc::new(Offline));
        Self::with(place, server, unused, make(signed)).await
    }

    async fn server(name: &str) -> (Server, Url, Signed) {
        let mut config = Config::default();
        config.certificates.names = vec![name.to_owned()];
        let server = Server::start(config).await.expect("a server");
        let client = server.client();
        let url: Url = Arc::default();
        let signed = {
            let (server, url) = (server.clone(), url.clone());
            Signed::new(client, move |grant| {
                let url = url.get().ok_or("the server does not listen")?;
                Ok(server.kubeconfig(url, &User::new(grant.user(), [Grant::GROUP]))?)
            })
        };
        (server, url, signed)
    }

    async fn with(
        place: Place,
        server: Server,
        provider: NetnsProvider,
        registered: Arc<dyn Provider>,
    ) -> Self {
        let client = server.client();
        let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
        for definition in definitions(&[registered.schema()]) {
            crds.create(&PostParams::default(), &definition).await.expect("a valid CRD");
        }
        let mut world = Self {
            client,
            provider,
            place,
            limit: LIMIT,
            registered,
            _server: server,
            tasks: JoinSet::new(),
        };
        world.until("Machine", "served", |_| true).await;
        world.restart();
        world
    }

    /// Ends the controllers, as by `kill -9`, and starts them again with nothing in memory.
    pub(crate) fn restart(&mut self) {
        self.tasks.abort_all();
        let registry = Registry::new([self.registered.clone()]).expect("a schema");
        let (client, options) = (self.client.clone(), controllers::Options::new(registry));
        self.tasks = JoinSet::new();
        self.tasks.spawn(async move { controllers::run(client, options).await.expect("caches") });
    }

    fn api(&self, kind: &str) -> Api<DynamicObject> {
        let (group, version) = match kind {
            "Node" => ("", "v1"),
            "Lease" => ("coordination.k8s.io", "v1"),
            "ClusterRole" | "ClusterRoleBinding" | "Role" | "RoleBinding" => {
                ("rbac.authorization.k8s.io", "v1")
            }
            _ => ("cluster.settled.dev", "v1alpha1"),
        };
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        match kind {
            "Node" | "ClusterRole" | "ClusterRoleBinding" => Api::all_with(self.client.clone(), &resource),
            "Lease" | "Role" | "RoleBinding" => {
                Api::namespaced_with(self.client.clone(), "kube-node-lease", &resource)
            }
            _ => Api::default_namespaced_with(self.client.clone(), &resource),
        }
    }

    pub(crate) async fn create(&self, object: Value) {
        let api = self.api(object["kind"].as_str().unwrap_or_default());
        let object: DynamicObject = serde_json::from_value(object).expect("an object");
        api.create(&PostParams::default(), &object).await.expect("created");
    }

    pub(crate) async fn patch(&self, kind: &str, name: &str, patch: Value) {
        let patch = Patch::Merge(patch);
        self.api(kind).patch(name, &PatchParams::default(), &patch).await.expect("patched");
    }

    pub(crate) async fn delete(&self, kind: &str, name: &str) {
        self.api(kind).delete(name, &DeleteParams::default()).await.expect("deleted");
    }

    pub(crate) async fn list(&self, kind: &str) -> Vec<Value> {
        let list = self.api(kind).list(&ListParams::default()).await.expect("a list");
        list.items.iter().map(|object| json!(object)).collect()
    }

    pub(crate) async fn get(&self, kind: &str, name: &str) -> Value {
        json!(self.api(kind).get(name).await.expect("there"))
    }

    /// Waits, by a watch, until the objects of a kind are as they should be.
    pub(crate) async fn until(
        &self,
        kind: &str,
        what: &str,
        is_reached: impl Fn(&[Value]) -> bool,
    ) -> Vec<Value> {
        let api = self.api(kind);
        let mut last = Vec::new();
        let wait = async {
            loop {
                let Ok(list) = api.list(&ListParams::default()).await else {
                    // A CRD is served a moment after it was created.
                    tokio::task::yield_now().await;
                    continue;
                };
                last = list.items.iter().map(|object| json!(object)).collect();
                if is_reached(&last) {
                    return;
                }
                let version = list.metadata.resource_version.unwrap_or_default();
                let watch = api.watch(&WatchParams::default(), &version).await.expect("a watch");
                let mut watch = std::pin::pin!(watch);
                let _event = watch.next().await;
            }
        };
        let result = tokio::time::timeout(self.limit, wait).await;
        let found = || serde_json::to_string_pretty(&last).unwrap_or_default();
        assert!(
            result.is_ok(),
            "not reached: {what}: {}
{}",
            found(),
            self.logs()
        );
        last
    }

    /// Waits for one object.
    pub(crate) async fn until_one(
        &self,
        kind: &str,
        name: &str,
        what: &str,
        is_reached: impl Fn(&Value) -> bool,
    ) -> Value {
        let find =
            |objects: &[Value]| objects.iter().find(|object| object["metadata"]["name"] == name).cloned();
        let found =
            self.until(kind, what, |objects| find(objects).is_some_and(|object| is_reached(&object))).await;
        find(&found).expect("it was found")
    }

    fn logs(&self) -> String {
        let hosts = std::fs::read_dir(self.place.directory.join("hosts")).into_iter().flatten().flatten();
        let read = |path: PathBuf| std::fs::read_to_string(path.join("agent.log")).unwrap_or_default();
        hosts.map(|host| format!("{}:\n{}", host.path().display(), read(host.path()))).collect()
    }

    /// Checks that nothing is left of any host.
    pub(crate) async fn expect_nothing(&self) {
        assert_eq!(self.provider.leftovers().expect("a directory"), Vec::<String>::new());
        let files = std::fs::read_dir(self.place.directory.join("hosts")).expect("a directory").count();
        assert_eq!(files, 0, "files are left");
        let marker = self.place.directory.as_os_str().as_encoded_bytes().to_vec();
        let processes = std::fs::read_dir("/proc").expect("proc").flatten().filter(|entry| {
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            line.windows(marker.len()).any(|window| window == marker)
        });
        assert_eq!(processes.count(), 0, "processes are left");
        self.until("Node", "no Node is left", <[Value]>::is_empty).await;
        self.until("Lease", "no Lease is left", <[Value]>::is_empty).await;
        for kind in ["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"] {
            let own = |role: &Value| role.name().starts_with("settled:node:");
            assert!(!self.list(kind).await.iter().any(own), "{kind} is left");
        }
    }

    /// Ends everything.
    pub(crate) async fn end(mut self) {
        self.expect_nothing().await;
        self.tasks.shutdown().await;
        self.provider.stop_network().await.expect("no bridge");
        assert!(!Path::new("/sys/class/net").join(format!("{}br", self.place.prefix)).exists());
    }
}

trait Named {
    fn name(&self) -> &str;
}

impl Named for Value {
    fn name(&self) -> &str {
        self["metadata"]["name"].as_str().unwrap_or_default()
    }
}

/// The key of the host of a Machine.
pub(crate) fn key(machine: &Value) -> HostKey {
    HostKey::new(machine["metadata"]["uid"].as_str().unwrap_or_default())
}

/// Status and reason of a condition.
pub(crate) fn condition<'o>(object: &'o Value, name: &str) -> (&'o str, &'o str) {
    let conditions = object["status"]["conditions"].as_array();
    let found = conditions.into_iter().flatten().find(|condition| condition["type"] == name);
    let text = |field: &str| found.and_then(|found| found[field].as_str()).unwrap_or_default();
    (text("status"), text("reason"))
}

pub(crate) fn is_ready(object: &Value) -> bool {
    let generation = &object["metadata"]["generation"];
    condition(object, "Ready").0 == "True" && object["status"]["observedGeneration"] == *generation
}

pub(crate) fn spec(image: &str) -> Value {
    json!({
        "versions": {
            "kubelet": "v1.36.0", "containerRuntime": {"name": "containerd", "version": "2.1.0"},
        },
        "providerSpec": {"value": {"apiVersion": API_VERSION, "kind": KIND, "image": image}},
    })
}

pub(crate) fn machine(name: &str) -> Value {
    json!({
        "apiVersion": CLUSTER, "kind": "Machine", "metadata": {"name": name, "namespace": "default"},
        "spec": spec("debian-12"),
    })
}

pub(crate) fn set(replicas: i32) -> Value {
    json!({
        "apiVersion": CLUSTER, "kind": "MachineSet", "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": spec("debian-12")},
        },
    })
}

pub(crate) fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}
