//! Simulated cloud: hosts as data whose state follows from the time, and access to it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::provider::ProviderError;
use crate::types::{MachineVersions, Taint};

/// How long things take. Each duration is spread by the jitter, deterministically by seed and host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Latency {
    /// From the creation of a host until it runs.
    pub create: Duration,
    /// From then until its Node registers.
    pub boot: Duration,
    /// A step of an update.
    pub step: Duration,
    /// The deletion of a host.
    pub delete: Duration,
    /// Fraction of each duration by which it may be longer or shorter.
    pub jitter: f64,
    /// Seed of the jitter.
    pub seed: u64,
}

impl Latency {
    /// Nothing takes any time.
    pub const ZERO: Self = Self {
        create: Duration::ZERO,
        boot: Duration::ZERO,
        step: Duration::ZERO,
        delete: Duration::ZERO,
        jitter: 0.0,
        seed: 1,
    };

    /// As virtual machines of a cloud: 10 s to create, 2 s to boot, a fifth more or less.
    pub const CLOUD: Self = Self {
        create: Duration::from_secs(10),
        boot: Duration::from_secs(2),
        step: Duration::from_secs(5),
        delete: Duration::from_secs(3),
        jitter: 0.2,
        seed: 1,
    };

    pub(super) fn of(&self, duration: Duration, host: &str) -> SignedDuration {
        // FNV-1a.
        let mut hash = 0xcbf2_9ce4_8422_2325_u64 ^ self.seed;
        for byte in host.bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        #[allow(clippy::cast_precision_loss, reason = "a fraction")]
        let fraction = (hash % 2001) as f64 / 1000.0 - 1.0;
        let spread = duration.mul_f64((1.0 + self.jitter * fraction).clamp(0.0, 10.0));
        SignedDuration::try_from(spread).unwrap_or(SignedDuration::MAX)
    }
}

impl Default for Latency {
    fn default() -> Self {
        Self::CLOUD
    }
}

/// A simulated host.
#[derive(Clone, Debug, PartialEq)]
pub struct SimulatedHost {
    /// The provider's name for it.
    pub id: String,
    /// `namespace/name` of its Machine.
    pub machine: String,
    /// Its Node.
    pub node_name: String,
    /// Labels that the Node registers with.
    pub labels: BTreeMap<String, String>,
    /// Taints that the Node registers with.
    pub taints: Vec<Taint>,
    /// Its address.
    pub address: String,
    /// What runs on it.
    pub versions: MachineVersions,
    /// Its image.
    pub image: String,
    /// Its size.
    pub size: String,
    /// From when on it runs.
    pub runs_from: Timestamp,
    /// From when on its Node is registered; never, if it never joins.
    pub joins_from: Option<Timestamp>,
    /// Until when a step of an update is being performed.
    pub busy_until: Option<Timestamp>,
    /// When it is gone, once it is being deleted.
    pub gone_from: Option<Timestamp>,
    /// How often it was updated.
    pub steps: u32,
}

/// Everything outside of the API server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cloud {
    /// Hosts by the UID of their Machine.
    pub hosts: BTreeMap<String, SimulatedHost>,
    /// Machines whose hosts are cut off: their agents reach no API server.
    pub partitioned: BTreeSet<String>,
    /// Whether all agents are cut off: the API server is lost to them.
    pub is_api_lost: bool,
    /// How many calls fail before the next one succeeds.
    pub failing_calls: u32,
    /// Calls that are refused for good: `step`, `delete`.
    pub refused_calls: BTreeSet<String>,
    /// How many hosts there may be.
    pub quota: Option<usize>,
    /// Names of creations that failed on purpose, by Machine: how many.
    pub failed_creates: BTreeMap<String, u32>,
    /// Number of the last address.
    pub last_address: u32,
}

impl Cloud {
    /// Removes hosts whose deletion is over.
    pub(super) fn sweep(&mut self, now: Timestamp) {
        self.hosts.retain(|_, host| host.gone_from.is_none_or(|gone| gone > now));
    }

    /// Whether the agent of a host reaches its API server.
    #[must_use]
    pub fn is_connected(&self, uid: &str) -> bool {
        !self.is_api_lost && !self.partitioned.contains(uid)
    }
}

/// Access to a simulated cloud: in memory, or with the faults of a fault exploration.
pub trait Access: Clone + Send + Sync + 'static {
    /// Changes it, as a request would.
    fn change<T: Send>(
        &self,
        action: &str,
        change: impl FnOnce(&mut Cloud) -> T + Send,
    ) -> impl Future<Output = Result<T, ProviderError>> + Send;

    /// Reads it.
    fn read<T: Send>(&self, read: impl FnOnce(&Cloud) -> T + Send) -> impl Future<Output = T> + Send;
}

/// A cloud in memory. Clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct Shared {
    cloud: Arc<Mutex<Cloud>>,
    lose_next: Arc<Mutex<bool>>,
}

impl Shared {
    /// A cloud with this content.
    #[must_use]
    pub fn new(cloud: Cloud) -> Self {
        Self { cloud: Arc::new(Mutex::new(cloud)), lose_next: Arc::default() }
    }

    /// Changes it from outside.
    pub fn edit<T>(&self, change: impl FnOnce(&mut Cloud) -> T) -> T {
        change(&mut self.cloud.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes the next change lose its response.
    pub fn lose_response(&self) {
        *self.lose_next.lock().unwrap_or_else(PoisonError::into_inner) = true;
    }
}

impl Access for Shared {
    async fn change<T: Send>(
        &self,
        action: &str,
        change: impl FnOnce(&mut Cloud) -> T + Send,
    ) -> Result<T, ProviderError> {
        let result = self.edit(|cloud| {
            if cloud.failing_calls > 0 {
                cloud.failing_calls -= 1;
                return Err(ProviderError::Transient(format!("{action}: the cloud is not available")));
            }
            Ok(change(cloud))
        });
        let is_lost = std::mem::take(&mut *self.lose_next.lock().unwrap_or_else(PoisonError::into_inner));
        if is_lost {
            return Err(ProviderError::Transient(format!("{action}: the response was lost")));
        }
        result
    }

    async fn read<T: Send>(&self, read: impl FnOnce(&Cloud) -> T + Send) -> T {
        self.edit(|cloud| read(cloud))
    }
}
