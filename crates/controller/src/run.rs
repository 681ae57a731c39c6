//! Controller process: signals, leader election, health and metrics, and graceful shutdown.
//!
//! ```no_run
//! # async fn controller(runtime: settled_controller::run::Runtime) {}
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use settled_controller::run::Runner;
//!
//! Runner::new(kube::Client::try_default().await?).listen("0.0.0.0:8080").elect("system", "my-controller").run(controller).await?;
//! # Ok(())
//! # }
//! ```

use std::fmt;
use std::future::Future;
use std::io;
use std::time::Duration;

use kube::Client;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::Clock;
use crate::health::{self, Health};
use crate::leader::{Election, ElectionError, Leadership};
use crate::metrics::Metrics;

/// Default shutdown timeout.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(30);

/// Builder of a controller process.
#[derive(Clone)]
pub struct Runner {
    client: Client,
    clock: Clock,
    metrics: Metrics,
    health: Health,
    address: Option<String>,
    election: Option<Election>,
    shutdown_grace: Duration,
}

/// Resources of the process for the controller.
#[derive(Clone)]
pub struct Runtime {
    /// With leader election, it writes only while this process leads.
    pub client: Client,
    /// Clock for conditions and events.
    pub clock: Clock,
    /// Metrics registry.
    pub metrics: Metrics,
    /// Health, as served by `/livez` and `/readyz`.
    pub health: Health,
    /// Shutdown request.
    pub shutdown: Shutdown,
    /// The [token](Leadership::token) of the term, with leader election.
    pub token: Option<i32>,
}

impl fmt::Debug for Runner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let election = self.election.as_ref().map(|election| &election.name);
        formatter
            .debug_struct("Runner")
            .field("address", &self.address)
            .field("lease", &election)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Runtime").field("token", &self.token).finish_non_exhaustive()
    }
}

/// Shutdown request. Clones share it.
#[derive(Clone, Debug)]
pub struct Shutdown(watch::Receiver<bool>);

impl Shutdown {
    /// A request controlled by the sender, for tests.
    #[must_use]
    pub fn new() -> (watch::Sender<bool>, Self) {
        let (sender, receiver) = watch::channel(false);
        (sender, Self(receiver))
    }

    /// Whether shutdown was requested.
    #[must_use]
    pub fn is_requested(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits for the shutdown request: for `Controller::graceful_shutdown_on`.
    pub async fn requested(mut self) {
        // A dropped sender means that the process ends.
        drop(self.0.wait_for(|requested| *requested).await);
    }
}

/// Reason why a process ended abnormally.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Binding the address for health and metrics failed.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: String,
        /// The error.
        #[source]
        source: io::Error,
    },
    /// The listener for health and metrics failed.
    #[error("failed to serve health and metrics")]
    Serve(#[source] io::Error),
    /// Signals cannot be received.
    #[error("cannot receive signals")]
    Signals(#[source] io::Error),
    /// The election failed.
    #[error(transparent)]
    Election(#[from] ElectionError),
    /// Another replica leads: this process must restart with new caches.
    #[error("the lease was lost; restart to take part in the election again")]
    LeaseLost,
    /// The controller ended unexpectedly.
    #[error("the controller ended without a shutdown request")]
    Ended,
    /// The controller exceeded its shutdown timeout.
    #[error("the controller did not stop within {0:?}")]
    Unfinished(Duration),
}

impl Runner {
    /// A process without leader election and HTTP endpoints.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self {
            client,
            clock: Clock::system(),
            metrics: Metrics::new(),
            health: Health::new(),
            address: None,
            election: None,
            shutdown_grace: SHUTDOWN_GRACE,
        }
    }

    /// Serves health and metrics at this address.
    #[must_use]
    pub fn listen(mut self, address: impl Into<String>) -> Self {
        self.address = Some(address.into());
        self
    }

    /// Runs the controller only while this process holds the Lease. The identity is the name of the Pod or host.
    #[must_use]
    pub fn elect(self, namespace: &str, lease: &str) -> Self {
        let host = std::env::var("POD_NAME").or_else(|_| std::env::var("HOSTNAME"));
        let identity = format!("{}-{}", host.unwrap_or_else(|_| "controller".to_owned()), std::process::id());
        self.election(Election::new(namespace, lease, identity))
    }

    /// The same with custom durations and identity.
    #[must_use]
    pub fn election(mut self, election: Election) -> Self {
        self.election = Some(election);
        self
    }

    /// Shutdown timeout of the controller: 30 seconds by default.
    #[must_use]
    pub fn shutdown_grace(mut self, grace: Duration) -> Self {
        self.shutdown_grace = grace;
        self
    }

    /// The health of the process, for parts that start before the controller.
    #[must_use]
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// The metrics of the process.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Runs the controller until SIGTERM or SIGINT.
    ///
    /// # Errors
    /// See [`RunError`].
    pub async fn run<F>(self, controller: impl FnOnce(Runtime) -> F) -> Result<(), RunError>
    where
        F: Future<Output = ()>,
    {
        let signal = stop_signal().map_err(RunError::Signals)?;
        self.run_until(signal, controller).await
    }

    /// Runs the controller until `stop`.
    ///
    /// # Errors
    /// See [`RunError`].
    pub async fn run_until<F>(
        self,
        stop: impl Future<Output = ()>,
        controller: impl FnOnce(Runtime) -> F,
    ) -> Result<(), RunError>
    where
        F: Future<Output = ()>,
    {
        let (request, shutdown) = Shutdown::new();
        let serving = async {
            let Some(address) = &self.address else { return std::future::pending().await };
            let listen = |source| RunError::Listen { address: address.clone(), source };
            let listener = TcpListener::bind(address).await.map_err(listen)?;
            health::serve(listener, self.health.clone(), self.metrics.clone(), std::future::pending())
                .await
                .map_err(RunError::Serve)
        };
        tokio::select! {
            served = serving => served,
            ended = self.lead_and_run(stop, controller, &request, shutdown) => ended,
        }
    }

    async fn lead_and_run<F>(
        &self,
        stop: impl Future<Output = ()>,
        controller: impl FnOnce(Runtime) -> F,
        request: &watch::Sender<bool>,
        shutdown: Shutdown,
    ) -> Result<(), RunError>
    where
        F: Future<Output = ()>,
    {
        tokio::pin!(stop);
        let gauge = self.election.as_ref().map(|election| self.metrics.leader(&election.name));
        let leadership = match &self.election {
            None => None,
            Some(election) => tokio::select! {
                acquired = election.acquire(&self.client) => Some(acquired?),
                () = &mut stop => return Ok(()),
            },
        };
        let set_leader = |leading: bool| {
            if let Some(gauge) = &gauge {
                gauge.set(i64::from(leading));
            }
        };
        set_leader(leadership.is_some());
        let runtime = Runtime {
            client: leadership.as_ref().map_or_else(|| self.client.clone(), Leadership::client),
            clock: self.clock.clone(),
            metrics: self.metrics.clone(),
            health: self.health.clone(),
            shutdown,
            token: leadership.as_ref().map(Leadership::token),
        };
        let lost = async {
            match &leadership {
                Some(leadership) => leadership.lost().await,
                None => std::future::pending().await,
            }
        };
        let ended = {
            let running = controller(runtime);
            tokio::pin!(running, lost);
            tokio::select! {
                () = &mut running => Err(RunError::Ended),
                () = &mut lost => Err(RunError::LeaseLost),
                () = &mut stop => {
                    request.send_replace(true);
                    tokio::select! {
                        ended = tokio::time::timeout(self.shutdown_grace, running) =>
                            ended.map_err(|_| RunError::Unfinished(self.shutdown_grace)),
                        () = &mut lost => Err(RunError::LeaseLost),
                    }
                }
            }
        };
        // The controller has ended or is dropped: another replica may lead.
        set_leader(false);
        if let Some(leadership) = leadership {
            leadership.release().await;
        }
        ended
    }
}

/// Completes at the first SIGTERM or SIGINT.
#[cfg(unix)]
pub(crate) fn stop_signal() -> io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// Completes at the first Ctrl-C.
#[cfg(not(unix))]
pub(crate) fn stop_signal() -> io::Result<impl Future<Output = ()>> {
    Ok(async { drop(tokio::signal::ctrl_c().await) })
}
