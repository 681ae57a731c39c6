//! Admission state: what it keeps between writes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What admission remembers.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    /// Pods need an existing ServiceAccount: the controller that creates `default` is running.
    accounts: AtomicBool,
    /// How many writes in a namespace have been charged to quotas and are not done yet.
    charging: Mutex<HashMap<String, usize>>,
    /// Rings when there are fewer.
    pub(crate) charged: tokio::sync::Notify,
}

impl Admission {
    /// Refuses pods whose ServiceAccount isn't there.
    pub(crate) fn require_accounts(&self) {
        self.accounts.store(true, Ordering::Relaxed);
    }

    pub(crate) fn requires_accounts(&self) -> bool {
        self.accounts.load(Ordering::Relaxed)
    }

    pub(crate) fn charging(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.charging.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
