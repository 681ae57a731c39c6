//! Leader election by Lease, with fenced writes.
//!
//! One of several replicas leads. As in client-go, a replica acquires the Lease if it has not observed a change for the
//! lease duration, measured with its own monotonic clock, so clocks of different machines are never compared. The
//! leader renews it, and steps down if it could not for the renew deadline, which is shorter than the lease duration:
//! so it stops before another one starts.
//!
//! A slow leader may still try to write when it has stopped leading. [`Leadership::client`] rejects such writes, and
//! each term has a [token](Leadership::token) that increases from leader to leader: store it with guarded writes to
//! detect an older leader.

mod fenced;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::Clock;
use fenced::Fence;

pub use fenced::NotLeading;

/// Configuration of an election: Lease, identity, and client-go's durations.
#[derive(Clone, Debug)]
pub struct Election {
    /// The namespace of the Lease.
    pub namespace: String,
    /// The name of the Lease.
    pub name: String,
    /// Unique identity of this replica, such as the name of its Pod.
    pub identity: String,
    /// Time that other replicas wait after the last observed change of the Lease.
    pub lease_duration: Duration,
    /// Time that the leader tries to renew the Lease before it steps down. Shorter than `lease_duration`.
    pub renew_deadline: Duration,
    /// Interval of attempts.
    pub retry_period: Duration,
    /// Clock of the times in the Lease, which are informational.
    pub clock: Clock,
}

/// Reason why this replica cannot take part in an election.
#[derive(Debug, thiserror::Error)]
pub enum ElectionError {
    /// The durations are inconsistent.
    #[error(
        "the renew deadline ({renew_deadline:?}) must be shorter than the lease duration ({lease_duration:?}), and longer than the retry period ({retry_period:?})"
    )]
    Durations {
        /// [`Election::lease_duration`]
        lease_duration: Duration,
        /// [`Election::renew_deadline`]
        renew_deadline: Duration,
        /// [`Election::retry_period`]
        retry_period: Duration,
    },
    /// The server rejects requests about the Lease: retries are useless.
    #[error(
        "cannot use the lease {namespace}/{name}; it needs verbs \"get\", \"create\" and \"update\" on \"leases\""
    )]
    Refused {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// The error.
        #[source]
        source: Box<kube::Error>,
    },
}

/// The last observed state of the Lease.
struct Observed {
    lease: Option<Lease>,
    /// Time of the last observed change.
    since: Instant,
}

impl Election {
    /// An election with client-go's times: 15 s, 10 s and 2 s.
    #[must_use]
    pub fn new(namespace: impl Into<String>, name: impl Into<String>, identity: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
            identity: identity.into(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
            clock: Clock::system(),
        }
    }

    /// Waits until this replica leads. The Lease is then renewed until the [`Leadership`] is dropped or released.
    ///
    /// Retries while the API server is unavailable.
    ///
    /// # Errors
    /// See [`ElectionError`].
    pub async fn acquire(&self, client: &Client) -> Result<Leadership, ElectionError> {
        let Self { lease_duration, renew_deadline, retry_period, .. } = *self;
        if renew_deadline >= lease_duration || retry_period >= renew_deadline {
            return Err(ElectionError::Durations { lease_duration, renew_deadline, retry_period });
        }
        let api: Api<Lease> = Api::namespaced(client.clone(), &self.namespace);
        let mut observed = Observed { lease: None, since: Instant::now() };
        loop {
            match self.try_acquire(&api, &mut observed).await {
                Ok(Some(lease)) => return Ok(self.lead(client, api, lease)),
                Ok(None) => {}
                Err(error) if is_final(&error) => {
                    let (namespace, name) = (self.namespace.clone(), self.name.clone());
                    return Err(ElectionError::Refused { namespace, name, source: Box::new(error) });
                }
                Err(error) => {
                    tracing::warn!(lease = %self.name, %error, "failed to acquire the lease; retrying")
                }
            }
            tokio::time::sleep(retry_period).await;
        }
    }

    /// Acquires the Lease if it is free or expired, or if this replica held it before a restart.
    async fn try_acquire(
        &self,
        api: &Api<Lease>,
        observed: &mut Observed,
    ) -> Result<Option<Lease>, kube::Error> {
        let Some(lease) = api.get_opt(&self.name).await? else {
            return written(api.create(&PostParams::default(), &self.record(None)).await);
        };
        let version = |lease: &Lease| (lease.metadata.uid.clone(), lease.metadata.resource_version.clone());
        if observed.lease.as_ref().map(version) != Some(version(&lease)) {
            *observed = Observed { lease: Some(lease.clone()), since: Instant::now() };
        }
        let holder = holder(&lease);
        let duration = lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds);
        let duration = duration.and_then(|seconds| u64::try_from(seconds).ok()).map(Duration::from_secs);
        let expired = observed.since.elapsed() >= duration.unwrap_or(self.lease_duration);
        if holder.is_some_and(|holder| holder != self.identity) && !expired {
            return Ok(None);
        }
        // With its resourceVersion, the server rejects the write if another replica was faster.
        written(api.replace(&self.name, &PostParams::default(), &self.record(Some(&lease))).await)
    }

    /// The Lease with this replica as its holder, renewed now.
    fn record(&self, before: Option<&Lease>) -> Lease {
        let now = MicroTime(self.clock.now());
        let spec = before.and_then(|lease| lease.spec.as_ref());
        let transitions = spec.and_then(|spec| spec.lease_transitions).unwrap_or_default();
        let ours = before.and_then(holder) == Some(self.identity.as_str());
        let seconds = i32::try_from(self.lease_duration.as_secs()).unwrap_or(i32::MAX);
        let acquired = spec.and_then(|spec| spec.acquire_time.clone()).filter(|_| ours);
        Lease {
            metadata: before.map_or_else(
                || ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() },
                |lease| lease.metadata.clone(),
            ),
            spec: Some(LeaseSpec {
                holder_identity: Some(self.identity.clone()),
                lease_duration_seconds: Some(seconds.max(1)),
                acquire_time: acquired.or_else(|| Some(now.clone())),
                renew_time: Some(now),
                lease_transitions: Some(if ours || before.is_none() {
                    transitions
                } else {
                    transitions.saturating_add(1)
                }),
                ..spec.cloned().unwrap_or_default()
            }),
        }
    }

    fn lead(&self, client: &Client, api: Api<Lease>, lease: Lease) -> Leadership {
        let token = lease.spec.as_ref().and_then(|spec| spec.lease_transitions).unwrap_or_default();
        let fence = Arc::new(Fence::new(Instant::now() + self.renew_deadline));
        let (lost, is_lost) = watch::channel(false);
        let renewal = Renewal { election: self.clone(), api, lease, fence: Arc::clone(&fence), lost };
        let (stop, stopped) = watch::channel(false);
        tracing::info!(lease = %self.name, identity = %self.identity, token, "leading");
        Leadership {
            client: client.clone(),
            token,
            fence,
            is_lost,
            stop,
            task: Some(tokio::spawn(renewal.run(stopped))),
        }
    }
}

/// `None` if another replica was faster.
fn written(result: Result<Lease, kube::Error>) -> Result<Option<Lease>, kube::Error> {
    match result {
        Ok(lease) => Ok(Some(lease)),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(None),
        Err(error) => Err(error),
    }
}

/// The holder of a Lease. A released one has an empty holder.
fn holder(lease: &Lease) -> Option<&str> {
    lease.spec.as_ref()?.holder_identity.as_deref().filter(|holder| !holder.is_empty())
}

fn is_final(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if matches!(status.code, 400 | 403 | 404 | 422))
}

/// Keeps the Lease.
struct Renewal {
    election: Election,
    api: Api<Lease>,
    lease: Lease,
    fence: Arc<Fence>,
    lost: watch::Sender<bool>,
}

impl Renewal {
    /// Renews the Lease until it is lost or `stopped`; then releases it.
    async fn run(mut self, mut stopped: watch::Receiver<bool>) {
        loop {
            let deadline = self.fence.deadline();
            tokio::select! {
                // The leadership was dropped.
                _ = stopped.changed() => break,
                () = tokio::time::sleep_until(deadline) => break,
                () = tokio::time::sleep(self.election.retry_period) => {}
            }
            let began = Instant::now();
            let renewed = tokio::select! {
                renewed = self.renew() => renewed,
                () = tokio::time::sleep_until(deadline) => break,
            };
            match renewed {
                // Others wait from the time they observe it: counting from the request is on the safe side.
                Ok(true) => self.fence.extend(began + self.election.renew_deadline),
                Ok(false) => break,
                Err(error) => {
                    tracing::warn!(lease = %self.election.name, %error, "failed to renew the lease; retrying")
                }
            }
        }
        self.fence.close();
        self.lost.send_replace(true);
        tracing::info!(lease = %self.election.name, "no longer leading");
        if let Err(error) = self.release_lease().await {
            tracing::debug!(lease = %self.election.name, %error, "failed to release the lease; it expires");
        }
    }

    /// Whether this replica still holds the Lease.
    async fn renew(&mut self) -> Result<bool, kube::Error> {
        let api = &self.api;
        let replace = async |lease: &Lease| {
            let record = self.election.record(Some(lease));
            api.replace(&self.election.name, &PostParams::default(), &record).await
        };
        let replaced = match replace(&self.lease).await {
            Err(kube::Error::Api(status)) if status.code == 409 => {
                match api.get_opt(&self.election.name).await? {
                    // Our own write, whose response was lost; or a change of its metadata.
                    Some(lease) if holder(&lease) == Some(&self.election.identity) => replace(&lease).await,
                    _ => return Ok(false),
                }
            }
            replaced => replaced,
        };
        match replaced {
            Ok(lease) => {
                self.lease = lease;
                Ok(true)
            }
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Releases the Lease, if this replica holds it: the next leader need not wait.
    async fn release_lease(&self) -> Result<(), kube::Error> {
        let mut lease = self.lease.clone();
        if let Some(spec) = &mut lease.spec {
            spec.holder_identity = Some(String::new());
            spec.lease_duration_seconds = Some(1);
        }
        let parameters = PostParams::default();
        let replace = self.api.replace(&self.election.name, &parameters, &lease);
        match tokio::time::timeout(self.election.retry_period, replace).await {
            Ok(Ok(_)) | Err(_) => Ok(()),
            Ok(Err(error)) => Err(error),
        }
    }
}

/// A leadership term. Dropping it ends the term.
#[must_use = "dropping it ends the term"]
pub struct Leadership {
    client: Client,
    token: i32,
    fence: Arc<Fence>,
    is_lost: watch::Receiver<bool>,
    stop: watch::Sender<bool>,
    task: Option<tokio::task::JoinHandle<()>>,
}

impl Leadership {
    /// Fencing token: the number of earlier leader transitions, which increases with each leader.
    #[must_use]
    pub fn token(&self) -> i32 {
        self.token
    }

    /// A client that writes only while this replica leads. Reads are always sent.
    #[must_use]
    pub fn client(&self) -> Client {
        fenced::client(&self.client, &self.fence)
    }

    /// Whether this replica is the leader.
    #[must_use]
    pub fn is_leading(&self) -> bool {
        self.fence.is_open()
    }

    /// Waits until this replica is no longer the leader. Then stop all work and start over: caches may be stale.
    pub async fn lost(&self) {
        let mut is_lost = self.is_lost.clone();
        // An error means that the task has ended, and the Lease is lost.
        drop(is_lost.wait_for(|lost| *lost).await);
    }

    /// Ends the term: the Lease is released, so that another replica leads at once.
    pub async fn release(mut self) {
        self.stop.send_replace(true);
        if let Some(task) = self.task.take() {
            drop(task.await);
        }
    }
}

impl fmt::Debug for Leadership {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Leadership")
            .field("token", &self.token)
            .field("is_leading", &self.is_leading())
            .finish_non_exhaustive()
    }
}
