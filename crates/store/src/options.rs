//! Options of a store.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use std::time::SystemTime;

use crate::mvcc::Limits;

/// Options of a [`Store`](crate::Store).
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    /// Limits of the store's memory.
    pub limits: Limits,
    /// Maximum number of writes per batch, at most half of [`Limits::watch_events`].
    pub batch_writes: usize,
    /// Maximum size of a batch in bytes, unless a single write is larger.
    pub batch_bytes: usize,
    /// Maximum number of waiting writes.
    pub waiting_writes: usize,
    /// Maximum size of waiting writes in bytes.
    pub waiting_bytes: usize,
    /// Maximum number of tasks that wait for revisions.
    pub waiting_readers: usize,
    /// Interval of history compaction while the store is idle.
    pub tick: Duration,
    /// The time in milliseconds. It is stored with the writes, so it should be comparable after a restart.
    pub clock: Arc<dyn Fn() -> u64 + Send + Sync>,
    /// Writes are done by the thread that calls [`Store::write`](crate::Store::write), before it returns, without a writer thread: for tests
    /// in virtual time, and for thousands of stores.
    pub in_place: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            batch_writes: 256,
            batch_bytes: 8 << 20,
            waiting_writes: 4096,
            waiting_bytes: 64 << 20,
            waiting_readers: 100_000,
            tick: Duration::from_secs(1),
            clock: Arc::new(|| {
                let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
                u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
            }),
            in_place: false,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("limits", &self.limits).finish_non_exhaustive()
    }
}
