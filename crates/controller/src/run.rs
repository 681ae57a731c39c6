//! A controller process: signals, leader election, health and metrics, and an orderly end.
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

/// How long a controller may take to finish what it does.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(30);

/// What a process of a controller consists of.
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

/// What a controller gets.
#[derive(Clone)]
pub struct Runtime {
    /// The client. With leader election, it writes only while this process leads.
    pub client: Client,
    /// The clock for conditions and events.
    pub clock: Clock,
    /// Metrics to add to.
    pub metrics: Metrics,
    /// What `/livez` and `/readyz` answer.
    pub health: Health,
    /// When to stop.
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

/// The request to stop. Copies are the same one.
#[derive(Clone, Debug)]
pub struct Shutdown(watch::Receiver<bool>);

impl Shutdown {
    /// A request to stop that is made through the sender, for tests.
    #[must_use]
    pub fn new() -> (watch::Sender<bool>, Self) {
        let (sender, receiver) = watch::channel(false);
        (sender, Self(receiver))
    }

    /// Whether it is time to stop.
    #[must_use]
    pub fn is_requested(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until it is time to stop: for `Controller::graceful_shutdown_on`.
    pub async fn requested(mut self) {
        // A sender that is gone is a process that ends.
        drop(self.0.wait_for(|requested| *requested).await);
    }
}

/// Why a process ended other than in an orderly way.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The address for health and metrics is not to be had.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: String,
        /// Why.
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
    /// Another replica leads: this process has to start anew, with caches of its own.
    #[error("the lease was lost; restart to stand for election again")]
    LeaseLost,
    /// The controller ended by itself.
    #[error("the controller ended without being asked to")]
    Ended,
    /// The controller did not end in time.
    #[error("the controller did not stop within {0:?}")]
    Unfinished(Duration),
}

impl Runner {
    /// A process without leader election, that listens nowhere.
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

    /// Runs the controller only while this process holds the Lease. The identity is the name of the Pod, or of the host.
    #[must_use]
    pub fn elect(self, namespace: &str, lease: &str) -> Self {
        let host = std::env::var("POD_NAME").or_else(|_| std::env::var("HOSTNAME"));
        let identity = format!("{}-{}", host.unwrap_or_else(|_| "controller".to_owned()), std::process::id());
        self.election(Election::new(namespace, lease, identity))
    }

    /// The same with times and an identity of one's own.
    #[must_use]
    pub fn election(mut self, election: Election) -> Self {
        self.election = Some(election);
        self
    }

    /// How long the controller may take to stop: 30 seconds unless set.
    #[must_use]
    pub fn shutdown_grace(mut self, grace: Duration) -> Self {
        self.shutdown_grace = grace;
        self
    }

    /// The health of the process, for parts that begin before the controller.
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
        // The controller has ended, or is dropped: another replica may lead.
        set_leader(false);
        if let Some(leadership) = leadership {
            leadership.release().await;
        }
        ended
    }
}

/// Is done at the first SIGTERM or SIGINT.
#[cfg(unix)]
fn stop_signal() -> io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// Is done at the first Ctrl-C.
#[cfg(not(unix))]
fn stop_signal() -> io::Result<impl Future<Output = ()>> {
    Ok(async { drop(tokio::signal::ctrl_c().await) })
}
