//! Management: a server that manages clusters, with its definitions, providers and controllers.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, join_all};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt as _};
use serde_json::json;
use settled_controller::Clock;
use settled_machines::controllers::{self, Connector, Options};
use settled_machines::crds::definitions;
use settled_machines::provider::{Provider, Registry};
use settled_machines::types::{KUBECONFIG_KEY, kubeconfig_secret};
use tokio::task::JoinHandle;

use crate::error::{Error, is_code};
use crate::ledger::Ledger;
use crate::waiting::Deadline;

/// Who writes objects for users.
pub(crate) const MANAGER: &str = "settled-cluster";
/// Annotation of definitions: the hash of what was installed.
const HASH_ANNOTATION: &str = "cluster.settled.dev/definition-hash";
/// How long definitions may take until they are served.
const ESTABLISHED: Duration = Duration::from_secs(30);

/// A pool of hosts that are objects of a server: its provider is made for each server.
pub trait Pool: Send + Sync {
    /// The provider for a server.
    fn open(&self, client: &Client) -> OpenPool;
}

/// The provider of a pool on one server.
#[derive(Clone)]
pub struct OpenPool {
    /// The provider.
    pub provider: Arc<dyn Provider>,
    /// What runs beside the controllers, without an end.
    pub upkeep: Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>,
}

/// What a server is managed with.
#[derive(Clone)]
#[non_exhaustive]
pub struct ManagementOptions {
    /// The installed providers.
    pub providers: Vec<Arc<dyn Provider>>,
    /// The installed pools.
    pub pools: Vec<Arc<dyn Pool>>,
    /// Which server has which host.
    pub ledger: Ledger,
    /// How clients for the API servers of clusters are made.
    pub connector: Connector,
    /// The time of day.
    pub clock: Clock,
}

impl ManagementOptions {
    /// With these providers and this ledger.
    #[must_use]
    pub fn new(providers: Vec<Arc<dyn Provider>>, ledger: Ledger) -> Self {
        Self { providers, pools: Vec::new(), ledger, connector: Connector::default(), clock: Clock::system() }
    }
}

/// A server that manages clusters.
#[derive(Clone)]
pub struct Management {
    pub(crate) client: Client,
    pub(crate) identity: String,
    pub(crate) registry: Registry,
    pools: Vec<OpenPool>,
    pub(crate) options: ManagementOptions,
}

/// Controllers that run until this is dropped.
#[derive(Debug)]
pub struct Controllers(JoinHandle<()>);

impl Drop for Controllers {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Controllers {
    /// Ends them, and waits until they have ended.
    pub async fn stop(mut self) {
        self.0.abort();
        // It was aborted.
        let _ended = (&mut self.0).await;
    }

    /// Waits until they end, which is an error.
    pub async fn ended(&mut self) {
        let _ended = (&mut self.0).await;
    }
}

impl Management {
    /// The management of a server, with the definitions of all kinds.
    ///
    /// # Errors
    /// The server does not answer, or refuses the definitions.
    pub async fn new(client: Client, options: ManagementOptions) -> Result<Self, Error> {
        let identity = identity(&client).await?;
        let pools: Vec<OpenPool> = options.pools.iter().map(|pool| pool.open(&client)).collect();
        let providers = options.providers.iter().chain(pools.iter().map(|pool| &pool.provider));
        let guarded = providers.map(|provider| options.ledger.guard(provider.clone(), &identity));
        let registry = Registry::new(guarded.collect::<Vec<_>>())?;
        let management = Self { client, identity, registry, pools, options };
        management.define().await?;
        Ok(management)
    }

    /// A client for the server.
    #[must_use]
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The UID of its namespace `kube-system`: servers are distinguished by it.
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// The installed providers, which touch the hosts of this server only.
    #[must_use]
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Which server has which host.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.options.ledger
    }

    /// Starts the controllers.
    #[must_use]
    pub fn start_controllers(&self) -> Controllers {
        let mut options = Options::new(self.registry.clone());
        options.clock = self.options.clock.clone();
        options.connector = self.options.connector.clone();
        let client = self.client.clone();
        let upkeep: Vec<_> = self.pools.iter().map(|pool| (pool.upkeep)()).collect();
        Controllers(tokio::spawn(async move {
            let ended = tokio::select! {
                ended = controllers::run(client, options) => ended,
                () = async { join_all(upkeep).await; std::future::pending().await } => Ok(()),
            };
            if let Err(error) = ended {
                tracing::error!(%error, "the controllers have ended");
            }
        }))
    }

    /// The kubeconfig of a cluster.
    ///
    /// # Errors
    /// The server does not answer.
    pub async fn kubeconfig(&self, namespace: &str, cluster: &str) -> Result<Option<String>, Error> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let name = kubeconfig_secret(cluster);
        let secret = secrets.get_opt(&name).await.map_err(Error::request(format!("read Secret {name}")))?;
        let value = secret.and_then(|secret| secret.data?.remove(KUBECONFIG_KEY));
        Ok(value.and_then(|value| String::from_utf8(value.0).ok()))
    }

    /// The management of a cluster's own server, with the same providers.
    ///
    /// # Errors
    /// It does not answer.
    pub async fn of_cluster(&self, cluster: &str, kubeconfig: &str) -> Result<Self, Error> {
        let connected = self.options.connector.connect(kubeconfig).await;
        let client = connected.map_err(|source| Error::Connect { cluster: cluster.to_owned(), source })?;
        Self::new(client, self.options.clone()).await
    }

    /// Creates a namespace, unless there is one.
    pub(crate) async fn ensure_namespace(&self, name: &str) -> Result<(), Error> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let failed = || format!("create namespace {name}");
        if namespaces.get_opt(name).await.map_err(Error::request(failed()))?.is_some() {
            return Ok(());
        }
        let namespace: Namespace =
            serde_json::from_value(json!({"metadata": {"name": name}})).unwrap_or_default();
        match namespaces.create(&PostParams::default(), &namespace).await {
            Err(error) if !is_code(&error, 409) => Err(Error::request(failed())(error)),
            _ => Ok(()),
        }
    }

    async fn define(&self) -> Result<(), Error> {
        let crds: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let definitions = definitions(&self.registry.formats());
        for definition in &definitions {
            let name = definition.name_any();
            let mut value = json!(definition);
            let hash = hash(&value.to_string());
            let present = crds.get_opt(&name).await;
            let present = present.map_err(Error::request(format!("read CustomResourceDefinition {name}")))?;
            if present.is_some_and(|present| present.annotations().get(HASH_ANNOTATION) == Some(&hash)) {
                continue;
            }
            value["metadata"]["annotations"][HASH_ANNOTATION] = hash.into();
            value["apiVersion"] = "apiextensions.k8s.io/v1".into();
            value["kind"] = "CustomResourceDefinition".into();
            crds.patch(&name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(&value))
                .await
                .map_err(Error::request(format!("install CustomResourceDefinition {name}")))?;
        }
        let deadline = Deadline::after(ESTABLISHED);
        for definition in &definitions {
            let name = definition.name_any();
            deadline
                .wait(async || {
                    let read = crds.get(&name).await.map_err(Error::request(format!("read {name}")))?;
                    let conditions = read.status.and_then(|status| status.conditions).unwrap_or_default();
                    let is_served = |type_: &str| {
                        conditions
                            .iter()
                            .any(|condition| condition.type_ == type_ && condition.status == "True")
                    };
                    Ok(match is_served("Established") {
                        true => Ok(()),
                        false => Err(format!("CustomResourceDefinition {name} is not established")),
                    })
                })
                .await?;
        }
        Ok(())
    }
}

/// FNV-1a of a definition: one that is installed is not installed again.
fn hash(text: &str) -> String {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    format!("{:016x}", text.bytes().fold(0xcbf2_9ce4_8422_2325, step))
}

/// The UID of the namespace `kube-system`.
async fn identity(client: &Client) -> Result<String, Error> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let system = namespaces.get("kube-system").await.map_err(Error::request("read namespace kube-system"))?;
    Ok(system.uid().unwrap_or_default())
}
