//! What the tests of controllers share: a server for each, a controller that runs until it is stopped, conditions instead of sleeps.

use std::fmt::Debug;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::Map;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::conditions::is_crd_established;
use kube::runtime::wait::await_condition;
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::Value;
use settled_apiserver::auth::User;
use settled_apiserver::{Config, Server};
use settled_controller::Clock;
use tokio::sync::oneshot;

/// A server with these kinds.
pub(crate) async fn server(crds: &[CustomResourceDefinition]) -> Server {
    let server = Server::in_memory().await.unwrap();
    install(&server.client(), crds).await;
    server
}

/// A server with these kinds whose time is tokio's, and that clock. For tests with paused time: another server stores with a
/// thread of its own, and for tokio nothing is under way then, so that time jumps to the timeout of the request.
pub(crate) async fn server_in_virtual_time(crds: &[CustomResourceDefinition]) -> (Server, Clock) {
    let clock = Clock::following_tokio("2026-01-01T00:00:00Z".parse().unwrap());
    let mut config = Config::default();
    let time = clock.clone();
    config.clock = Some(Arc::new(move || time.now()));
    let server = Server::start(config).await.unwrap();
    install(&server.client(), crds).await;
    (server, clock)
}

async fn install(client: &Client, crds: &[CustomResourceDefinition]) {
    let api = Api::all(client.clone());
    for crd in crds {
        api.create(&PostParams::default(), crd).await.unwrap();
        await_condition(api.clone(), &crd.name_any(), is_crd_established()).await.unwrap();
    }
}

/// A client with the role that an example ships in its `rbac.yaml`, and no other right.
pub(crate) async fn client_with_role(server: &Server, yaml: &str) -> Client {
    let mut json = Vec::new();
    settled_manifest::yaml_to_json(yaml.as_bytes(), &mut json).unwrap();
    let list: Value = serde_json::from_slice(&json).unwrap();
    let admin = server.client();
    let manager = PatchParams::apply("test");
    for item in list["items"].as_array().unwrap() {
        let (name, apply) = (item["metadata"]["name"].as_str().unwrap(), Patch::Apply(item));
        let applied = match item["kind"].as_str().unwrap() {
            "ServiceAccount" => api::<ServiceAccount>(&admin).patch(name, &manager, &apply).await.map(drop),
            "ClusterRole" => {
                Api::<ClusterRole>::all(admin.clone()).patch(name, &manager, &apply).await.map(drop)
            }
            _ => Api::<ClusterRoleBinding>::all(admin.clone()).patch(name, &manager, &apply).await.map(drop),
        };
        applied.unwrap();
    }
    let name = list["items"][0]["metadata"]["name"].as_str().unwrap();
    let groups = ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"];
    server.client_as(&User::new(format!("system:serviceaccount:default:{name}"), groups))
}

/// Is done when the controller has to stop.
pub(crate) type Stopped = Map<oneshot::Receiver<()>, fn(Result<(), oneshot::error::RecvError>)>;

/// A controller, running until it is stopped.
pub(crate) struct Running {
    stop: oneshot::Sender<()>,
    task: tokio::task::JoinHandle<()>,
}

impl Running {
    /// Starts what `run` makes of the signal to stop.
    pub(crate) fn start<F>(run: impl FnOnce(Stopped) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (stop, stopped) = oneshot::channel();
        let stopped: Stopped = stopped.map(|_| ());
        Self { stop, task: tokio::spawn(run(stopped)) }
    }

    /// Stops it in an orderly way.
    pub(crate) async fn stop(self) {
        self.stop.send(()).unwrap();
        self.task.await.unwrap();
    }

    /// Ends it in the middle of whatever it does, as a crash would.
    pub(crate) async fn kill(self) {
        self.task.abort();
        drop(self.task.await);
    }
}

/// The objects of a kind in the namespace `default`.
pub(crate) fn api<K>(client: &Client) -> Api<K>
where
    K: Resource<Scope = NamespaceResourceScope>,
    K::DynamicType: Default,
{
    Api::default_namespaced(client.clone())
}

/// An object from JSON.
pub(crate) fn object<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

/// Waits for an object that is as it should be, and returns it.
pub(crate) async fn wait<K>(api: Api<K>, name: &str, condition: impl Fn(&K) -> bool) -> K
where
    K: Clone + Debug + Send + DeserializeOwned + Resource + 'static,
{
    let found = await_condition(api, name, |object: Option<&K>| object.is_some_and(&condition));
    found.await.unwrap().unwrap()
}

/// Waits until an object is gone.
pub(crate) async fn wait_gone<K>(api: Api<K>, name: &str)
where
    K: Clone + Debug + Send + DeserializeOwned + Resource + 'static,
{
    await_condition(api, name, |object: Option<&K>| object.is_none()).await.unwrap();
}
