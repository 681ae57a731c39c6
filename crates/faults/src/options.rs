//! Options: how much is explored, and when a run has come to rest.

use std::time::Duration;

use crate::schedule::Fault;

/// How much is explored, and when a run has come to rest. All times are virtual: they cost nothing.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Which faults are injected: all, unless something else is said.
    pub faults: Vec<Fault>,
    /// Whether two faults are combined. All single ones come first.
    pub pairs: bool,
    /// The most schedules. What is more is a share that depends on the seed.
    pub schedules: usize,
    /// What the share, UIDs and generated names depend on.
    pub seed: u64,
    /// How many threads explore.
    pub threads: usize,
    /// A run has come to rest when nothing was written for so long. Retries of the controller should be more frequent.
    pub quiet: Duration,
    /// A phase that takes longer does not come to rest.
    pub deadline: Duration,
    /// For how long watches lag, or are silent before they expire.
    pub fault_window: Duration,
    /// How long the controller is down after a crash.
    pub restart: Duration,
    /// How long the controller may go on after another instance took over its Lease: its renew deadline.
    pub lease_grace: Duration,
    /// A phase with more writes of the controller does not come to rest.
    pub max_writes: usize,
    /// A phase with more requests does not come to rest.
    pub max_requests: usize,
    /// How many failures are reported, each of another check.
    pub max_failures: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            faults: Fault::ALL.to_vec(),
            pairs: true,
            schedules: 10_000,
            seed: 1,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            quiet: Duration::from_secs(90),
            deadline: Duration::from_secs(60 * 60),
            fault_window: Duration::from_secs(5),
            restart: Duration::from_secs(1),
            lease_grace: Duration::from_secs(10),
            max_writes: 200,
            max_requests: 5_000,
            max_failures: 5,
        }
    }
}

impl Options {
    /// A share of so many schedules, for CI: those with one fault, then pairs.
    #[must_use]
    pub fn share(schedules: usize) -> Self {
        Self { schedules, ..Self::default() }
    }

    /// With another seed.
    #[must_use]
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// With these faults only.
    #[must_use]
    pub fn faults(mut self, faults: impl IntoIterator<Item = Fault>) -> Self {
        self.faults = faults.into_iter().collect();
        self
    }

    /// Without this fault.
    #[must_use]
    pub fn without(mut self, fault: Fault) -> Self {
        self.faults.retain(|other| *other != fault);
        self
    }

    /// With single faults only.
    #[must_use]
    pub const fn without_pairs(mut self) -> Self {
        self.pairs = false;
        self
    }
}
