//! Options: extent of the exploration, and limits of a run.

use std::time::Duration;

use crate::schedule::Fault;

/// Extent of the exploration, and limits of a run. All durations are virtual: they cost nothing.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Injected faults; all by default.
    pub faults: Vec<Fault>,
    /// Whether pairs of faults are injected, after all single ones.
    pub pairs: bool,
    /// Maximum number of schedules. Of more, a sample is run that depends on the seed.
    pub schedules: usize,
    /// Seed of the sample, of UIDs and of generated names.
    pub seed: u64,
    /// Number of threads.
    pub threads: usize,
    /// A run is idle when nothing was written for this duration, and the controller was not started anew. Retries of the controller
    /// should be more frequent.
    pub quiet: Duration,
    /// Maximum duration of a phase.
    pub deadline: Duration,
    /// Duration for which watches lag, or deliver nothing before they expire.
    pub fault_window: Duration,
    /// Duration from a crash of the controller to its next start.
    pub restart: Duration,
    /// Duration for which the controller may write after another instance has acquired its Lease: its renew deadline.
    pub lease_grace: Duration,
    /// Maximum number of writes of the controller in a phase.
    pub max_writes: usize,
    /// Maximum number of requests in a phase.
    pub max_requests: usize,
    /// Maximum number of reported failures, each of another check.
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
    /// Limits the number of schedules, for CI: those with one fault, then pairs.
    #[must_use]
    pub fn share(schedules: usize) -> Self {
        Self { schedules, ..Self::default() }
    }

    /// Sets the seed.
    #[must_use]
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Injects only these faults.
    #[must_use]
    pub fn faults(mut self, faults: impl IntoIterator<Item = Fault>) -> Self {
        self.faults = faults.into_iter().collect();
        self
    }

    /// Does not inject this fault.
    #[must_use]
    pub fn without(mut self, fault: Fault) -> Self {
        self.faults.retain(|other| *other != fault);
        self
    }

    /// Injects single faults only.
    #[must_use]
    pub const fn without_pairs(mut self) -> Self {
        self.pairs = false;
        self
    }
}
