//! Read-your-writes: a reconciler does not decide by a cache that has not seen its last write.
//!
//! Between a write and its echo in the watch, a cache shows the object as it was before: a reconciler that runs then allocates a second time,
//! or writes the old status back. A [`Fence`] knows the resourceVersion of each own write, and makes reads of that object wait until the
//! cache has seen it, or the object is gone.
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
//! resourceVersions are compared as KEP-5504 defines it. Where they are no numbers, or the cache does not catch up in time,
//! [`Fence::read`] asks the server. For the object that a kube-rs `Controller` hands to its reconciler, [`Fence::freshness`] says whether it
//! is older than the last own write.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::Resource;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::cache::{Cache, LiveReadError};
use crate::object::ObjectKey;
use crate::resource_version::ResourceVersion;

/// How long the echo of a write may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// With more writes than these, those whose echo was due are forgotten.
const MAX_WRITES: usize = 4096;

/// The last own write to each object, as long as its echo was not seen. Copies share them. One fence is for one kind: resourceVersions of
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

/// How an object relates to the last own write to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// It includes the write; or there was none.
    Current,
    /// It is from before the write. The echo comes.
    Stale,
    /// That cannot be compared, or the echo is overdue: the object is to be read from the server.
    Unknown,
}

/// The cache has not seen a write.
#[derive(Debug, thiserror::Error)]
pub enum FenceError {
    /// Not in time.
    #[error("the cache has not seen the write of {key} at resourceVersion {written} within {timeout:?}")]
    TimedOut {
        /// Which object.
        key: ObjectKey,
        /// The resourceVersion of the write.
        written: ResourceVersion,
        /// How long was waited.
        timeout: Duration,
    },
    /// The resourceVersions of this server are no numbers.
    #[error(
        "cannot determine whether the cache has the write of {key}: resourceVersion {written} is not a number"
    )]
    NotComparable {
        /// Which object.
        key: ObjectKey,
        /// The resourceVersion of the write.
        written: ResourceVersion,
    },
    /// The object could not be read from the server instead.
    #[error("cannot read the object that was written")]
    Read(#[source] LiveReadError),
}

impl Default for Fence {
    fn default() -> Self {
        Self::new()
    }
}

impl Fence {
    /// A fence that gives a cache 5 s to see a write.
    #[must_use]
    pub fn new() -> Self {
        Self { writes: Arc::default(), timeout: TIMEOUT }
    }

    /// The same with another time.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    fn writes(&self) -> MutexGuard<'_, HashMap<ObjectKey, Write>> {
        self.writes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes an own write, by what the server has answered. An answer without a resourceVersion says nothing.
    pub fn wrote<K: Resource>(&self, object: &K) {
        let meta = object.meta();
        let (Some(key), Some(version)) = (key_of(object), &meta.resource_version) else { return };
        let write = Write {
            uid: meta.uid.as_deref().unwrap_or_default().into(),
            version: ResourceVersion::new(version),
            at: Instant::now(),
        };
        let mut writes = self.writes();
        if writes.len() >= MAX_WRITES {
            writes.retain(|_, write| write.at.elapsed() < self.timeout);
        }
        // Answers may come in another order than the writes were made in.
        if writes
            .get(&key)
            .is_none_or(|known| known.uid != write.uid || !known.version.covers(&write.version))
        {
            writes.insert(key, write);
        }
    }

    /// How many objects have own writes whose echo was not seen.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.writes().len()
    }

    /// How an object that comes from a cache of any sort relates to the last own write to it.
    #[must_use]
    pub fn freshness<K: Resource>(&self, object: &K) -> Freshness {
        let Some(key) = key_of(object) else { return Freshness::Current };
        let meta = object.meta();
        let mut writes = self.writes();
        let Some(write) = writes.get(&key) else { return Freshness::Current };
        let seen = meta.resource_version.as_deref().map(ResourceVersion::new);
        // Of another incarnation, the newer one counts; that is the same question.
        if seen.as_ref().is_some_and(|seen| seen.covers(&write.version)) {
            writes.remove(&key);
            return Freshness::Current;
        }
        let comparable = seen.is_some_and(|seen| seen.compare(&write.version).is_some());
        if comparable && write.at.elapsed() < self.timeout { Freshness::Stale } else { Freshness::Unknown }
    }

    /// Waits until a cache has seen the last own write to an object.
    ///
    /// # Errors
    /// It does not in time, or that cannot be determined.
    pub async fn wait<T>(&self, cache: &Cache<T>, key: impl Into<ObjectKey>) -> Result<(), FenceError> {
        let key = key.into();
        let Some(write) = self.writes().get(&key).cloned() else { return Ok(()) };
        let mut position = cache.watch_position();
        let seen = async {
            loop {
                let reached = position.borrow_and_update().clone();
                // A state of the kind at a resourceVersion includes all writes up to it, deletions too.
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

    /// Reads an object that is at least as new as the last own write to it: from the cache, or from the server where the cache does not
    /// have it in time or resourceVersions are no numbers. None if it is gone, or does not match what the cache keeps.
    ///
    /// # Errors
    /// The server has to be asked, and cannot be.
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
