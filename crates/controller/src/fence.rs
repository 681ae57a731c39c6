//! Read-your-writes fence: prevents decisions based on a cache without the reconciler's own last write.
//!
//! Until the watch reports a write, a cache has the object as it was before: a reconciler that runs then may allocate a
//! second time, or overwrite the status with an old one. A [`Fence`] records the resourceVersion of each own write, and
//! delays reads of that object until the cache has it, or the object is deleted.
//!
//! ```no_run
//! # use std::sync::Arc;
//! # use k8s_openapi::api::core::v1::ConfigMap;
//! # use kube::api::PostParams;
//! # use settled_controller::{Fence, ObjectKey, cache::Cache};
//! # async fn run(api: kube::Api<ConfigMap>, cache: Cache<ConfigMap>, new: ConfigMap) -> Result<(), Box<dyn std::error::Error>> {
//! let fence = Fence::new();
//! let written = api.create(&PostParams::default(), &new).await?;
//! fence.wrote(&written);
//! // In the next reconcile: as new as the write, whatever the watch is up to.
//! let object: Option<Arc<ConfigMap>> = fence.read(&cache, ObjectKey::new("default", "new")).await?;
//! # Ok(())
//! # }
//! ```
//!
//! resourceVersions are compared as defined in KEP-5504. If they are not numbers, or the cache does not catch up in
//! time, [`Fence::read`] reads from the server. For the object that a kube-rs `Controller` passes to its reconciler,
//! [`Fence::freshness`] tells whether it is older than the last own write.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::Resource;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::cache::{Cache, LiveReadError};
use crate::object::ObjectKey;
use crate::resource_version::ResourceVersion;

/// Timeout of a write in the watch.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Number of writes above which those past their timeout are forgotten.
const MAX_WRITES: usize = 4096;

/// Pending own writes per object. Clones share them. Each kind needs a fence of its own, since resourceVersions of
/// different kinds are not comparable.
#[derive(Clone, Debug)]
pub struct Fence {
    writes: Arc<Mutex<HashMap<ObjectKey, Write>>>,
    timeout: Duration,
}

#[derive(Clone, Debug)]
struct Write {
    uid: Box<str>,
    version: ResourceVersion,
    at: Instant,
}

/// Relation of an object to the last own write to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// Includes the write, or there was none.
    Current,
    /// Older than the write, which will arrive.
    Stale,
    /// Not comparable, or overdue: read the object from the server.
    Unknown,
}

/// Error of waiting for an own write.
#[derive(Debug, thiserror::Error)]
pub enum FenceError {
    /// Timed out.
    #[error("the cache has not seen the write of {key} at resourceVersion {written} within {timeout:?}")]
    TimedOut {
        /// Key of the object.
        key: ObjectKey,
        /// The resourceVersion of the write.
        written: ResourceVersion,
        /// The waiting time.
        timeout: Duration,
    },
    /// The resourceVersions of this server are not numbers.
    #[error(
        "cannot determine whether the cache has the write of {key}: resourceVersion {written} is not a number"
    )]
    NotComparable {
        /// Key of the object.
        key: ObjectKey,
        /// The resourceVersion of the write.
        written: ResourceVersion,
    },
    /// Reading the object from the server failed.
    #[error("cannot read the object that was written")]
    Read(#[source] LiveReadError),
}

impl Default for Fence {
    fn default() -> Self {
        Self::new()
    }
}

impl Fence {
    /// A fence with a timeout of 5 s.
    #[must_use]
    pub fn new() -> Self {
        Self { writes: Arc::default(), timeout: TIMEOUT }
    }

    /// A fence with another timeout.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    fn writes(&self) -> MutexGuard<'_, HashMap<ObjectKey, Write>> {
        self.writes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records an own write, by the server's response. A response without a resourceVersion is ignored.
    pub fn wrote<K: Resource>(&self, object: &K) {
        if let Some(version) = &object.meta().resource_version {
            self.wrote_version(object, version);
        }
    }

    /// Records an own write to an object, by the resourceVersion of the response.
    pub(crate) fn wrote_version<K: Resource>(&self, object: &K, version: &str) {
        let Some(key) = key_of(object) else { return };
        let write = Write {
            uid: object.meta().uid.as_deref().unwrap_or_default().into(),
            version: ResourceVersion::new(version),
            at: Instant::now(),
        };
        let mut writes = self.writes();
        if writes.len() >= MAX_WRITES {
            writes.retain(|_, write| write.at.elapsed() < self.timeout);
        }
        // Responses may arrive in another order than the writes.
        if writes
            .get(&key)
            .is_none_or(|known| known.uid != write.uid || !known.version.covers(&write.version))
        {
            writes.insert(key, write);
        }
    }

    /// Number of objects with pending own writes.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.writes().len()
    }

    /// Compares an object from any cache with the last own write to it.
    #[must_use]
    pub fn freshness<K: Resource>(&self, object: &K) -> Freshness {
        let Some(key) = key_of(object) else { return Freshness::Current };
        let meta = object.meta();
        let mut writes = self.writes();
        let Some(write) = writes.get(&key) else { return Freshness::Current };
        let seen = meta.resource_version.as_deref().map(ResourceVersion::new);
        // For another incarnation, the newer one counts, which is the same comparison.
        if seen.as_ref().is_some_and(|seen| seen.covers(&write.version)) {
            writes.remove(&key);
            return Freshness::Current;
        }
        let comparable = seen.is_some_and(|seen| seen.compare(&write.version).is_some());
        if comparable && write.at.elapsed() < self.timeout { Freshness::Stale } else { Freshness::Unknown }
    }

    /// Waits until a cache has the last own write to an object.
    ///
    /// # Errors
    /// Timed out, or not comparable.
    pub async fn wait<T>(&self, cache: &Cache<T>, key: impl Into<ObjectKey>) -> Result<(), FenceError> {
        let key = key.into();
        let Some(write) = self.writes().get(&key).cloned() else { return Ok(()) };
        let mut position = cache.watch_position();
        let seen = async {
            loop {
                let reached = position.borrow_and_update().clone();
                // A state of the kind at a resourceVersion includes all writes up to it, also deletions.
                let own = || cache.resource_version(&key);
                if [reached, own()].into_iter().flatten().any(|seen| seen.covers(&write.version)) {
                    return true;
                }
                if !write.version.is_comparable() || position.changed().await.is_err() {
                    return false;
                }
            }
        };
        match tokio::time::timeout_at(write.at + self.timeout, seen).await {
            Ok(true) => {
                let mut writes = self.writes();
                if writes.get(&key).is_some_and(|last| last.version == write.version) {
                    writes.remove(&key);
                }
                Ok(())
            }
            Ok(false) => Err(FenceError::NotComparable { key, written: write.version }),
            Err(_) => Err(FenceError::TimedOut { key, written: write.version, timeout: self.timeout }),
        }
    }

    /// Reads an object at least as new as the last own write to it: from the cache, or from the server if the cache
    /// does not have it in time or resourceVersions are not numbers. `None` if it does not exist, or is not selected by
    /// the cache.
    ///
    /// # Errors
    /// Reading from the server was necessary and failed.
    pub async fn read<T: DeserializeOwned>(
        &self,
        cache: &Cache<T>,
        key: impl Into<ObjectKey>,
    ) -> Result<Option<Arc<T>>, FenceError> {
        let key = key.into();
        match self.wait(cache, &key).await {
            Ok(()) => Ok(cache.get(&key)),
            Err(_) => cache.get_live(&key).await.map_err(FenceError::Read),
        }
    }
}

fn key_of<K: Resource>(object: &K) -> Option<ObjectKey> {
    let meta = object.meta();
    let name = meta.name.as_deref()?;
    Some(ObjectKey::new(meta.namespace.as_deref().unwrap_or_default(), name))
}
