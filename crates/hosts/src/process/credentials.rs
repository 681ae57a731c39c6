//! Credentials of the node agents of this machine, for Clusters whose API server is a process of this machine, too.

use std::error::Error;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt as _};
use settled_machines::controllers::Connector;

use super::provider::{LocalServer, ProcessProvider};
use crate::agent::{Credentials, CredentialsError, Grant, Signed};

/// How long an API server may take that is asked to take credentials back.
const REVOKE: Duration = Duration::from_secs(5);

type Sign = dyn Fn(&LocalServer, &str, &Grant) -> Result<String, Box<dyn Error + Send + Sync>> + Send + Sync;

/// How hosts reach the API servers of this machine.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Route {
    /// By a bridge, on which this machine has this address.
    Bridge(Ipv4Addr),
    /// By a network of a virtual machine, whose address this is for the loopback of this machine.
    Loopback(Ipv4Addr),
    /// By the address that the control plane advertises.
    Advertised,
}

/// Credentials for Clusters whose control plane is a process.
#[derive(Clone)]
pub struct ProcessCredentials {
    processes: Arc<ProcessProvider>,
    route: Route,
    sign: Arc<Sign>,
}

impl fmt::Debug for ProcessCredentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ProcessCredentials").field("route", &self.route).finish_non_exhaustive()
    }
}

impl ProcessCredentials {
    /// With the processes, how hosts reach them, and a function that makes the kubeconfig of an agent for a server at a URL.
    pub fn new(
        processes: Arc<ProcessProvider>,
        route: Route,
        sign: impl Fn(&LocalServer, &str, &Grant) -> Result<String, Box<dyn Error + Send + Sync>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self { processes, route, sign: Arc::new(sign) }
    }

    fn server(&self, grant: &Grant) -> Result<Option<LocalServer>, CredentialsError> {
        if grant.cluster.is_empty() {
            return Ok(None);
        }
        let found = self.processes.server_of(&grant.cluster);
        found.map_err(|error| CredentialsError::Sign(Box::new(error)))
    }

    async fn signed(&self, server: LocalServer) -> Result<Signed, CredentialsError> {
        let connected = Connector::default().connect(&server.kubeconfig).await;
        let client = connected.map_err(|error| CredentialsError::Sign(Box::new(error)))?;
        let host = match self.route {
            Route::Loopback(_) if !server.is_on_loopback => server.advertise_address.clone(),
            Route::Bridge(address) | Route::Loopback(address) => address.to_string(),
            Route::Advertised if server.advertise_address.contains(':') => {
                format!("[{}]", server.advertise_address)
            }
            Route::Advertised => server.advertise_address.clone(),
        };
        let url = format!("https://{host}:{}", server.port);
        let sign = self.sign.clone();
        Ok(Signed::new(client, move |grant| sign(&server, &url, grant)))
    }

    async fn issued(&self, grant: &Grant) -> Result<String, CredentialsError> {
        let refused = |reason: String| CredentialsError::NoServer { cluster: grant.cluster.clone(), reason };
        let Some(server) = self.server(grant)? else {
            let reason = "its control plane is no ProcessMachine of this machine that serves";
            return Err(refused(reason.to_owned()));
        };
        if let Route::Bridge(address) = self.route
            && !server.is_on_bridge
        {
            return Err(refused(format!(
                "its API server does not listen at {address}, since it was started without root: end it, and run the command again as root"
            )));
        }
        let is_local = |address: &str| {
            address == "localhost" || address.parse().is_ok_and(|address: IpAddr| address.is_loopback())
        };
        if self.route == Route::Advertised && is_local(&server.advertise_address) {
            return Err(refused(format!(
                "no other host reaches its API server at {}: set `address` of its ProcessMachine to an address of this machine in their network",
                server.advertise_address
            )));
        }
        self.signed(server).await?.issue(grant).await
    }

    async fn revoked(&self, grant: &Grant) -> Result<(), CredentialsError> {
        let Some(server) = self.server(grant)? else { return Ok(()) };
        // A dead API server must not keep a host: without the files of the host, its roles are of no use.
        let revoked = async { self.signed(server).await?.revoke(grant).await };
        match tokio::time::timeout(REVOKE, revoked).await {
            Ok(Err(CredentialsError::Request(error))) if !matches!(error, kube::Error::Api(_)) => {
                tracing::debug!(node = grant.node, %error, "the API server does not answer: roles are left");
                Ok(())
            }
            Ok(result) => result,
            Err(_) => Ok(()),
        }
    }
}

impl Credentials for ProcessCredentials {
    fn issue<'a>(&'a self, grant: &'a Grant) -> BoxFuture<'a, Result<String, CredentialsError>> {
        self.issued(grant).boxed()
    }

    fn revoke<'a>(&'a self, grant: &'a Grant) -> BoxFuture<'a, Result<(), CredentialsError>> {
        self.revoked(grant).boxed()
    }
}
