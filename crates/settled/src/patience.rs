//! Command timeouts: how long to wait for credentials and first answers, and the notices meanwhile.

use std::future::Future;
use std::sync::OnceLock;
use std::time::Duration;

use settled_tracker::{Cluster, Limits, RequestError};
use tokio::time::Instant;

use crate::stderr;
use crate::style::Palette;

/// How long a command without a timeout waits for credentials.
const CONNECT_MAX: Duration = Duration::from_secs(30);
/// Time without an answer after which a notice is printed.
const NOTIFY_AFTER: Duration = Duration::from_secs(2);

/// When the process started: from then on timeouts count.
pub(crate) fn started() -> Instant {
    static STARTED: OnceLock<Instant> = OnceLock::new();
    *STARTED.get_or_init(Instant::now)
}

/// How long a command waits.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Patience {
    /// The command's timeout, if it has one.
    timeout: Option<Duration>,
}

impl Patience {
    /// That of a wait with these limits.
    pub(crate) fn of(limits: &Limits) -> Self {
        Self::with_timeout(limits.timeout)
    }

    pub(crate) fn with_timeout(timeout: Option<Duration>) -> Self {
        Self { timeout: timeout.filter(|timeout| !timeout.is_zero()) }
    }

    /// When the command ends at the latest, if it has a timeout.
    pub(crate) fn deadline(self) -> Option<Instant> {
        started().checked_add(self.timeout?)
    }

    /// Waits until the command has no time left.
    pub(crate) async fn exhausted(self) {
        match self.deadline() {
            Some(deadline) => tokio::time::sleep_until(deadline).await,
            None => std::future::pending().await,
        }
    }

    /// For messages: `30s`.
    pub(crate) fn limit(self) -> String {
        let limit = self.timeout.unwrap_or(CONNECT_MAX);
        if limit < Duration::from_secs(1) {
            format!("{}ms", limit.as_millis())
        } else {
            format!("{}s", limit.as_secs())
        }
    }

    /// Runs the steps before the first request, with a notice if they take long; none on timeout.
    pub(crate) async fn within<T>(self, waiting: &str, work: impl Future<Output = T>) -> Option<T> {
        let by = self.deadline().unwrap_or_else(|| Instant::now() + CONNECT_MAX);
        let told = async {
            tokio::time::sleep(NOTIFY_AFTER).await;
            tell(waiting);
            std::future::pending::<T>().await
        };
        tokio::select! {
            biased;
            done = work => Some(done),
            _ = told => None,
            () = tokio::time::sleep_until(by) => None,
        }
    }

    /// Waits for a server's first answers, and says so when they take long; at once when it cannot be reached, and is retried.
    pub(crate) async fn reach<T>(self, cluster: &Cluster, work: impl Future<Output = T>) -> T {
        tokio::pin!(work);
        let server = cluster.server().unwrap_or("the cluster");
        let failed = async {
            match cluster.failure().await {
                RequestError::Transport(error) if self.timeout.is_some() => error,
                // It ends with it, or nothing is retried for long.
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            done = &mut work => return done,
            error = failed => tell(&format!("cannot reach the cluster at {server}: {error}; retrying")),
            () = tokio::time::sleep(NOTIFY_AFTER) => tell(&format!("no answer from {server} yet")),
        }
        work.await
    }
}

fn tell(message: &str) {
    stderr::print_line(&format!("{} {}", Palette::stderr().warning("warning:"), crate::text::clean(message)));
}
