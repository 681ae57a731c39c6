//! Retries of controllers: user agent, parallelism and backoff of their writes.

use std::time::Duration;

use crate::error::ApiError;
use crate::state::call::Call;

/// How many objects a controller writes at once.
pub(super) const PARALLEL: usize = 64;
/// How long to wait before trying again what failed, the first time and at most.
pub(super) const RETRY: Duration = Duration::from_millis(50);
pub(super) const LONGEST_RETRY: Duration = Duration::from_secs(30);
/// What controllers call themselves: tools know the name from `managedFields`.
const AGENT: &str = "kube-controller-manager";

/// A write by a controller.
pub(super) fn call() -> Call<'static> {
    Call::new(AGENT)
}

/// How long to wait before the next attempt.
pub(super) fn backoff(attempts: u32) -> Duration {
    RETRY.saturating_mul(1 << attempts.min(16)).min(LONGEST_RETRY)
}

/// Is there no sense in trying again: the object is gone, or the server is?
pub(super) fn is_over(error: &ApiError) -> bool {
    matches!(error.code, 404 | 503)
}
