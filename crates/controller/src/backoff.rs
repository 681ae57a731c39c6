//! Backoff for the watches of kube's `Controller` and `watcher`.

use std::time::Duration;

use kube::runtime::utils::Backoff;
use tokio::time::Instant;

/// A backoff that a success alone does not reset.
///
/// kube's default backoff begins anew with each object that arrives. If a server forgets resourceVersions as soon as it has listed them
/// (`410 Expired`), each list succeeds and each watch fails, and a controller lists all objects about once a second. With this one, failures that
/// are less than a minute apart wait twice as long each time, whatever succeeds between them.
///
/// ```
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # use kube::{Api, Client, runtime::{Controller, watcher}};
/// use settled_controller::WatchBackoff;
///
/// # fn controller(client: Client) -> Controller<ConfigMap> {
/// Controller::new(Api::<ConfigMap>::all(client), watcher::Config::default()).trigger_backoff(WatchBackoff::default())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct WatchBackoff {
    first: Duration,
    max: Duration,
    failures: u32,
    last: Option<Instant>,
}

/// Failures that are further apart than this, and the delay between them, have nothing to do with each other.
const APART: Duration = Duration::from_secs(60);

impl WatchBackoff {
    /// A backoff that begins with `first`, and doubles it up to `max`.
    #[must_use]
    pub const fn new(first: Duration, max: Duration) -> Self {
        Self { first, max, failures: 0, last: None }
    }
}

impl Default for WatchBackoff {
    /// As client-go's reflector: 800 ms to 30 s.
    fn default() -> Self {
        Self::new(Duration::from_millis(800), Duration::from_secs(30))
    }
}

impl Iterator for WatchBackoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let now = Instant::now();
        if self.last.is_some_and(|last| now.duration_since(last) > self.max + APART) {
            self.failures = 0;
        }
        self.last = Some(now);
        let factor = 2_u32.checked_pow(self.failures).unwrap_or(u32::MAX);
        self.failures = self.failures.saturating_add(1);
        Some(self.first.saturating_mul(factor).min(self.max))
    }
}

impl Backoff for WatchBackoff {
    /// Does nothing: [`next`](Iterator::next) looks at the time.
    fn reset(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_time_without_failures_resets_it() {
        let mut backoff = WatchBackoff::new(Duration::from_secs(1), Duration::from_secs(5));
        let mut delays = Vec::new();
        for quiet in [0, 10, 60, 66, 65, 0] {
            tokio::time::sleep(Duration::from_secs(quiet)).await;
            delays.extend(backoff.next().map(|delay| delay.as_secs()));
            backoff.reset();
        }
        assert_eq!(delays, [1, 2, 4, 1, 2, 4]);
    }
}
