//! Join: the files that the agent of a host is started with, its credentials among them.

use std::fmt;
use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt as _};
use settled_machines::provider::{ProviderError, Request};
use settled_machines::types::Host;

use super::plan;
use super::secret::Secret;
use crate::agent::{Credentials, Grant, HostRef, Settings, Timing};

/// Files of an agent: names below its directory, and contents.
pub type Files = Vec<(&'static str, Secret)>;

/// Knows how agents join their cluster.
pub trait Join: Send + Sync + 'static {
    /// The files of the agent for a Machine on a Host. Asked for again, they are as good.
    fn files<'a>(
        &'a self,
        request: &'a Request,
        host: &'a Host,
    ) -> BoxFuture<'a, Result<Files, ProviderError>>;

    /// Takes back what was granted to the Machine with this UID on a Host. Done if there is nothing.
    fn leave<'a>(&'a self, uid: &'a str, host: &'a Host) -> BoxFuture<'a, Result<(), ProviderError>>;
}

/// Agents of this crate, with credentials of their own.
#[derive(Clone)]
pub struct AgentJoin {
    credentials: Arc<dyn Credentials>,
    timing: Timing,
    reports_host: bool,
}

impl fmt::Debug for AgentJoin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("AgentJoin").field("timing", &self.timing).finish_non_exhaustive()
    }
}

impl AgentJoin {
    /// Agents with these credentials.
    #[must_use]
    pub const fn new(credentials: Arc<dyn Credentials>, timing: Timing) -> Self {
        Self { credentials, timing, reports_host: true }
    }

    /// Agents join API servers of Clusters, which do not have the Hosts: the provider alone reports of them.
    #[must_use]
    pub const fn of_clusters(mut self) -> Self {
        self.reports_host = false;
        self
    }

    fn host(&self, host: &Host) -> Option<HostRef> {
        let own = |field: &Option<String>| field.clone().unwrap_or_default();
        let named = || HostRef { namespace: own(&host.metadata.namespace), name: own(&host.metadata.name) };
        self.reports_host.then(named)
    }
}

impl Join for AgentJoin {
    fn files<'a>(
        &'a self,
        request: &'a Request,
        host: &'a Host,
    ) -> BoxFuture<'a, Result<Files, ProviderError>> {
        async move {
            let desired = &request.desired;
            let grant = Grant { host: self.host(host), ..Grant::of(desired) };
            let issued = self.credentials.issue(&grant).await;
            let kubeconfig = issued.map_err(|error| ProviderError::Transient(error.to_string()))?;
            let settings = Settings {
                node_name: desired.node_name.clone(),
                provider_id: plan::id(host),
                machine: request.machine.clone(),
                labels: desired.labels.clone(),
                taints: desired.taints.clone(),
                addresses: plan::addresses(host),
                host: grant.host,
                timing: self.timing,
                is_isolated: false,
            };
            let settings = serde_json::to_vec_pretty(&settings).unwrap_or_default();
            Ok(vec![
                ("settings.json", Secret::new(settings)),
                ("kubeconfig", Secret::new(kubeconfig.into_bytes())),
            ])
        }
        .boxed()
    }

    fn leave<'a>(&'a self, _uid: &'a str, host: &'a Host) -> BoxFuture<'a, Result<(), ProviderError>> {
        async move {
            // Nodes have the names of their Machines.
            let claim = host.status.as_ref().and_then(|status| status.claim_ref.as_ref());
            let Some(claim) = claim else { return Ok(()) };
            let grant = Grant {
                node: claim.name.clone(),
                host: self.host(host),
                cluster: claim.cluster.clone().unwrap_or_default(),
                endpoint: None,
            };
            let revoked = self.credentials.revoke(&grant).await;
            revoked.map_err(|error| ProviderError::Transient(error.to_string()))
        }
        .boxed()
    }
}
