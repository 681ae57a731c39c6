//! Remote clusters: for each Cluster whose API server is another one than that of its Machines, a connection, caches of Nodes, Pods and Leases, and a
//! probe. Each has a task of its own: what a dead cluster delays is its own Machines, and nobody else's.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::{BoxFuture, FutureExt as _};
use jiff::Timestamp;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use settled_controller::cache::Cache;
use settled_controller::{Clock, ObjectKey, Projection};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::informers::{AnyChange, LEASES, MACHINE, POD_NODE, PROVIDER};
use super::{lease_expiry, meta};
use crate::small::{Lease, Node, Pod};

/// How often a cluster that answers is probed, and how long an answer may take.
const PROBE: Duration = Duration::from_secs(5);
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// How soon one that does not answer is probed again: twice as late each time.
const RETRY_FIRST: Duration = Duration::from_millis(250);
const RETRY_MAX: Duration = Duration::from_secs(30);
/// How many probes fail before a cluster that has answered counts as unreachable.
const FAILED_PROBES: u32 = 2;
/// How often Leases are compared with the time.
const LEASE_SCAN: Duration = Duration::from_secs(5);

/// Why there is no client for a kubeconfig.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct ConnectError(String);

impl ConnectError {
    /// With this message.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

type Connect = dyn Fn(String) -> BoxFuture<'static, Result<Client, ConnectError>> + Send + Sync;

/// How clients are made from the kubeconfigs of Clusters.
#[derive(Clone)]
pub struct Connector(Arc<Connect>);

impl Connector {
    /// One of one's own, such as for servers in the same process.
    pub fn new<F>(connect: impl Fn(String) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Client, ConnectError>> + Send + 'static,
    {
        Self(Arc::new(move |kubeconfig| connect(kubeconfig).boxed()))
    }

    /// A client for a kubeconfig.
    ///
    /// # Errors
    /// The kubeconfig cannot be used.
    pub async fn connect(&self, kubeconfig: &str) -> Result<Client, ConnectError> {
        (self.0)(kubeconfig.to_owned()).await
    }
}

impl Default for Connector {
    fn default() -> Self {
        Self::new(|kubeconfig| async move { connect(&kubeconfig).await })
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Connector")
    }
}

/// A client whose credentials are in the kubeconfig itself. Who may write a Secret must not make the controllers run programs, or read files.
async fn connect(kubeconfig: &str) -> Result<Client, ConnectError> {
    let failed = |error: &dyn std::error::Error| ConnectError(format!("cannot use the kubeconfig: {error}"));
    let config = Kubeconfig::from_yaml(kubeconfig).map_err(|error| failed(&error))?;
    for user in config.auth_infos.iter().filter_map(|user| user.auth_info.as_ref()) {
        let refused = [
            ("exec", user.exec.is_some()),
            ("auth-provider", user.auth_provider.is_some()),
            ("tokenFile", user.token_file.is_some()),
            ("client-certificate", user.client_certificate.is_some()),
            ("client-key", user.client_key.is_some()),
        ];
        if let Some((field, _)) = refused.iter().find(|(_, is_there)| *is_there) {
            let message =
                format!("cannot use the kubeconfig: {field} is not permitted, credentials are part of it");
            return Err(ConnectError(message));
        }
    }
    if config
        .clusters
        .iter()
        .filter_map(|cluster| cluster.cluster.as_ref())
        .any(|cluster| cluster.certificate_authority.is_some())
    {
        return Err(ConnectError::new("cannot use the kubeconfig: certificate-authority is a file"));
    }
    let mut config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default())
        .await
        .map_err(|error| failed(&error))?;
    config.connect_timeout = Some(PROBE_TIMEOUT);
    config.read_timeout = None;
    settled_watch::client(&config).map_err(|error| failed(&error))
}

/// Whether a cluster answers.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Reach {
    /// Nothing is known yet.
    Connecting,
    /// It answers, and its Nodes are known.
    Connected,
    /// It does not answer, and why.
    Lost(String),
}

/// What is open once there is a client.
struct Live {
    client: Client,
    nodes: Cache<Node>,
    pods: Cache<Pod>,
    leases: Cache<Lease>,
}

/// What the task of a cluster and its readers share.
struct Inner {
    cluster: ObjectKey,
    reach: Mutex<(Reach, Timestamp)>,
    live: OnceLock<Live>,
}

impl Inner {
    /// Whether the cluster answers, and since when that is so.
    fn reach(&self) -> (Reach, Timestamp) {
        self.reach.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A remote cluster. Dropped, its connection is closed.
pub(super) struct Remote {
    inner: Arc<Inner>,
    kubeconfig: String,
    task: JoinHandle<()>,
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Remote {
    pub(super) fn reach(&self) -> Reach {
        self.inner.reach().0
    }

    pub(super) fn client(&self) -> Option<&Client> {
        self.inner.live.get().map(|live| &live.client)
    }

    /// The Node of a host, or the one that says that it is of the Machine.
    pub(super) fn node_of(&self, machine: &ObjectKey, provider_id: Option<&str>) -> Option<Arc<Node>> {
        let nodes = &self.inner.live.get()?.nodes;
        let found = match provider_id {
            Some(id) => nodes.indexed(PROVIDER, id),
            None => nodes.indexed(MACHINE, &machine.to_string()),
        };
        found.unwrap_or_default().into_iter().next()
    }

    /// The Pods on a Node, by name.
    pub(super) fn pods_on(&self, node: &Node) -> Vec<Arc<Pod>> {
        let Some(live) = self.inner.live.get() else { return Vec::new() };
        let mut pods = live.pods.indexed(POD_NODE, meta::name(node)).unwrap_or_default();
        pods.sort_by(|one, other| meta::name(&**one).cmp(meta::name(&**other)));
        pods
    }

    /// Nodes that say that they are of a Machine.
    pub(super) fn nodes_of_machines(&self) -> Vec<Arc<Node>> {
        let live = self.inner.live.get();
        live.map(|live| live.nodes.state_filter(|node| node.machine().is_some())).unwrap_or_default()
    }
}

/// All remote clusters.
#[derive(Clone)]
pub(super) struct Remotes(Arc<Shared>);

struct Shared {
    connector: Connector,
    clock: Clock,
    changes: mpsc::Sender<AnyChange>,
    remotes: Mutex<HashMap<ObjectKey, Arc<Remote>>>,
}

impl Remotes {
    /// None yet; their changes are sent there.
    pub(super) fn new(connector: Connector, clock: Clock, changes: mpsc::Sender<AnyChange>) -> Self {
        Self(Arc::new(Shared { connector, clock, changes, remotes: Mutex::default() }))
    }

    pub(super) fn get(&self, cluster: &ObjectKey) -> Option<Arc<Remote>> {
        self.0.remotes.lock().unwrap_or_else(PoisonError::into_inner).get(cluster).cloned()
    }

    pub(super) fn all(&self) -> Vec<(ObjectKey, Arc<Remote>)> {
        let remotes = self.0.remotes.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> = remotes.iter().map(|(key, remote)| (key.clone(), remote.clone())).collect();
        all.sort_by(|one, other| one.0.cmp(&other.0));
        all
    }

    /// Opens, replaces or closes the connection of a cluster.
    pub(super) fn sync(&self, cluster: &ObjectKey, kubeconfig: Option<String>) {
        let mut remotes = self.0.remotes.lock().unwrap_or_else(PoisonError::into_inner);
        match kubeconfig {
            None => {
                remotes.remove(cluster);
            }
            Some(kubeconfig)
                if remotes.get(cluster).is_some_and(|remote| remote.kubeconfig == kubeconfig) => {}
            Some(kubeconfig) => {
                let inner = Arc::new(Inner {
                    cluster: cluster.clone(),
                    reach: Mutex::new((Reach::Connecting, self.0.clock.now())),
                    live: OnceLock::new(),
                });
                let task = tokio::spawn(run(inner.clone(), kubeconfig.clone(), self.0.clone()));
                remotes.insert(cluster.clone(), Arc::new(Remote { inner, kubeconfig, task }));
            }
        }
    }
}

/// The next pause of a retry.
fn backoff(pause: Duration) -> Duration {
    (pause * 2).min(RETRY_MAX)
}

/// Records whether a cluster answers, and wakes those who wait for it.
async fn report(inner: &Inner, reach: Reach, shared: &Shared) {
    let is_new = {
        let mut known = inner.reach.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = std::mem::discriminant(&known.0) != std::mem::discriminant(&reach);
        known.0 = reach;
        if is_new {
            known.1 = shared.clock.now();
        }
        is_new
    };
    if is_new {
        // The controllers have ended.
        let _closed = shared.changes.send(AnyChange::Remote(inner.cluster.clone())).await;
    }
}

async fn open(inner: &Inner, kubeconfig: &str, shared: &Shared) -> Client {
    let mut pause = RETRY_FIRST;
    loop {
        match shared.connector.connect(kubeconfig).await {
            Ok(client) => return client,
            Err(error) => report(inner, Reach::Lost(error.to_string()), shared).await,
        }
        tokio::time::sleep(pause).await;
        pause = backoff(pause);
    }
}

/// The task of a cluster.
async fn run(inner: Arc<Inner>, kubeconfig: String, shared: Arc<Shared>) {
    let client = open(&inner, &kubeconfig, &shared).await;
    let cached = Projection::without_managed_fields;
    let nodes = Cache::<Node>::builder(client.clone())
        .projection(cached())
        .index_field(PROVIDER)
        .index_by(MACHINE, |node: &Node| node.machine().map(str::to_owned).into_iter().collect())
        .start();
    let pods = Cache::<Pod>::builder(client.clone()).projection(cached()).index_field(POD_NODE).start();
    let leases = Cache::<Lease>::builder(client.clone()).projection(cached()).namespace(LEASES).start();
    let mut changes = nodes.changes();
    let live = inner.live.get_or_init(|| Live { client, nodes, pods, leases });
    let (mut failures, mut pause, mut is_known) = (0, RETRY_FIRST, false);
    let probing = async {
        loop {
            match probe(&live.client).await {
                Ok(()) => {
                    if !is_known {
                        // The first answers are worth nothing before the Nodes are listed.
                        let listed = tokio::time::timeout(PROBE_TIMEOUT, async {
                            live.nodes.wait_until_ready().await.is_ok()
                                && live.pods.wait_until_ready().await.is_ok()
                        });
                        is_known = listed.await.unwrap_or(false);
                    }
                    if is_known {
                        report(&inner, Reach::Connected, &shared).await;
                    }
                    (failures, pause) = (0, RETRY_FIRST);
                    tokio::time::sleep(if is_known { PROBE } else { RETRY_FIRST }).await;
                }
                Err(message) => {
                    failures += 1;
                    if failures >= FAILED_PROBES || !is_known {
                        report(&inner, Reach::Lost(message), &shared).await;
                    }
                    tokio::time::sleep(pause).await;
                    pause = backoff(pause);
                }
            }
        }
    };
    let forwarding = async {
        while let Some(change) = changes.next().await {
            let change = AnyChange::RemoteNode(inner.cluster.clone(), change);
            if shared.changes.send(change).await.is_err() {
                break;
            }
        }
    };
    let expiring = async {
        loop {
            tokio::time::sleep(LEASE_SCAN).await;
            if let (Reach::Connected, since) = inner.reach() {
                expire(live, since, &shared.clock).await;
            }
        }
    };
    tokio::select! {
        () = probing => {}
        () = forwarding => {}
        () = expiring => {}
    }
}

async fn probe(client: &Client) -> Result<(), String> {
    match tokio::time::timeout(PROBE_TIMEOUT, client.apiserver_version()).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(innermost(&error)),
        Err(_) => Err(format!("no answer within {}s", PROBE_TIMEOUT.as_secs())),
    }
}

/// What is below the wrappers of the client.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

/// Reports Nodes as unknown whose Leases were not renewed for their duration while the cluster answered. Nobody can renew a Lease on an API server that
/// does not answer, so that the time before says nothing (the grace period of `node-lifecycle-controller`, which begins anew with each of its starts).
async fn expire(live: &Live, connected_since: Timestamp, clock: &Clock) {
    let now = clock.now();
    for lease in live.leases.state() {
        let Some(node) = live.nodes.get(ObjectKey::new("", meta::name(&*lease))) else { continue };
        if !lease_expiry::is_expired(&lease, connected_since, now)
            || node.machine().is_none()
            || node.ready() == "Unknown"
        {
            continue;
        }
        let reported = lease_expiry::report(&node, connected_since, now, &live.client);
        match tokio::time::timeout(PROBE_TIMEOUT, reported).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::debug!(node = meta::name(&*node), %error, "cannot report an expired Lease")
            }
            // It does not answer; neither would it for the others.
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn kubeconfigs_run_nothing_and_read_no_files() {
        let config = |cluster: &str, user: &str| {
            format!(
                r#"{{"apiVersion": "v1", "kind": "Config", "current-context": "a",
                "contexts": [{{"name": "a", "context": {{"cluster": "a", "user": "a"}}}}],
                "clusters": [{{"name": "a", "cluster": {{"server": "https://127.0.0.1:1"{cluster}}}}}],
                "users": [{{"name": "a", "user": {{{user}}}}}]}}"#
            )
        };
        let error = async |cluster: &str, user: &str| {
            connect(&config(cluster, user)).await.err().map(|error| error.to_string())
        };
        assert_eq!(error("", r#""token": "a""#).await, None);
        let exec = r#""exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/true"}"#;
        for (cluster, user, field) in [
            ("", exec, "exec"),
            ("", r#""tokenFile": "/etc/passwd""#, "tokenFile"),
            ("", r#""client-key": "/etc/passwd""#, "client-key"),
            (r#", "certificate-authority": "/etc/passwd""#, "", "certificate-authority"),
        ] {
            let message = error(cluster, user).await.unwrap_or_default();
            assert!(message.contains(field), "{field}: {message}");
        }
        assert!(error(", ]", "").await.is_some());
    }
}
