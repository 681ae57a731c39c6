//! Base state: a server with the objects of the scenario, copied for each run.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use settled_apiserver::{Config, Fork, Server, StartError};
use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;

use crate::cluster::Cluster;
use crate::edits;
use crate::kinds::{self, Kinds};
use crate::scenario::{Edit, Reference, Scenario};
use crate::start::Start;
use crate::world::World;

/// When runs begin, in seconds since 1970: 2026-01-01T00:00:00Z.
const BEGIN: i64 = 1_767_225_600;
/// Time for the built-in controllers to reconcile the created objects.
const SETTLE: Duration = Duration::from_secs(1);

/// Error before the first run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExploreError {
    /// The async runtime failed to start.
    #[error("cannot start a runtime")]
    Runtime(#[source] std::io::Error),
    /// The API server failed to start.
    #[error("cannot start the API server")]
    Start(#[from] StartError),
    /// The server rejected an object of the scenario.
    #[error("cannot create {object}: {message}")]
    Object {
        /// Which.
        object: String,
        /// The answer of the server.
        message: String,
    },
}

/// Initial state of all runs.
pub(crate) struct Base {
    server: Server,
    pub(crate) cluster: Cluster,
    /// Kinds of the scenario's edits.
    kinds: Arc<Kinds>,
    begin: Timestamp,
}

/// Creates a single-threaded runtime with paused time, which advances only when all tasks are idle.
pub(crate) fn runtime() -> Result<Runtime, ExploreError> {
    Builder::new_current_thread().enable_time().start_paused(true).build().map_err(ExploreError::Runtime)
}

/// A clock that reads `begin` now, and follows tokio's time.
fn clock(begin: Timestamp) -> settled_apiserver::Clock {
    let start = Instant::now();
    Arc::new(move || {
        let elapsed = SignedDuration::try_from(start.elapsed()).unwrap_or(SignedDuration::MAX);
        begin.checked_add(elapsed).unwrap_or(Timestamp::MAX)
    })
}

impl Base {
    pub(crate) fn new<W: World>(scenario: &Scenario<W>, seed: u64) -> Result<Self, ExploreError> {
        runtime()?.block_on(async {
            let clock = clock(Timestamp::from_second(BEGIN).unwrap_or(Timestamp::UNIX_EPOCH));
            let mut config = Config::default();
            config.controllers = scenario.controllers;
            config.clock = Some(clock.clone());
            config.seed = Some(seed);
            let server = Server::start(config).await?;
            tokio::time::sleep(SETTLE).await;
            let pristine = server.revision();
            for object in &scenario.objects {
                let kinds = Kinds::new();
                let created = edits::create(&server, &kinds, object).await;
                let stored = match created {
                    Ok(()) => edits::write_status(&server, &kinds, object).await,
                    refused => refused,
                };
                stored.map_err(|message| ExploreError::Object {
                    object: Reference::to(object).to_string(),
                    message,
                })?;
                if object.get("kind").and_then(Value::as_str) == Some("CustomResourceDefinition") {
                    tokio::time::sleep(SETTLE).await;
                }
            }
            tokio::time::sleep(SETTLE).await;
            let mut cluster = Cluster::default();
            for change in server.changes_after(pristine).unwrap_or_default() {
                cluster.apply(change);
            }
            let mut kinds = Kinds::new();
            for object in scenario.edits.iter().filter_map(Edit::object) {
                kinds::learn(&server, &mut kinds, &object).await;
            }
            Ok(Self { server, cluster, kinds: Arc::new(kinds), begin: clock() })
        })
    }

    /// Creates a server for one run. Must be called within a runtime.
    pub(crate) fn start(&self, seed: u64) -> Result<Start, StartError> {
        let (server, clock) = fork(&self.server, None, self.begin, seed)?;
        let (cluster, kinds) = (self.cluster.clone(), self.kinds.clone());
        Ok(Start { server, clock, cluster, kinds, edits_done: 0 })
    }
}

/// What the seed of a fork differs by for each revision.
const FORK_STEP: u64 = 0xd1b5_4a32_d192_ed03;

/// Creates a server from the state of another one after a write, and its clock. Must be called within a runtime.
pub(crate) fn fork(
    server: &Server,
    revision: Option<u64>,
    begin: Timestamp,
    seed: u64,
) -> Result<(Server, settled_apiserver::Clock), StartError> {
    let clock = clock(begin);
    let mut fork = Fork::default();
    fork.revision = revision;
    fork.clock = Some(clock.clone());
    // Not the UIDs that the other server has given since its own start, or its last fork.
    let forked_at = revision.unwrap_or_else(|| server.revision());
    fork.seed = Some(seed.wrapping_add(forked_at.wrapping_mul(FORK_STEP)));
    Ok((server.fork(fork)?, clock))
}
