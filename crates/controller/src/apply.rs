//! Server-side apply that writes only when something changes.
//!
//! The API server may store an apply request that changes nothing: with a new time in `managedFields`, and so a new
//! resourceVersion and an event, which wakes up the controller that applied it (kubernetes#95460, #131175). An
//! [`Applier`] remembers its applies: as long as the intent is the same and the live object has the same values in the
//! fields that this manager owns, it makes no request. After a restart, a dry run determines the same on the server,
//! with its defaults and its conversions.
//!
//! Drift of owned fields is detected in the live object and repaired. Fields of other managers are never touched: apply
//! does not own them.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::api::{Patch, PatchParams};
use kube::core::Status;
use kube::{Api, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::admission::is_denied;

/// Applies objects as one field manager.
#[derive(Debug)]
pub struct Applier {
    manager: String,
    force: bool,
    applied: Mutex<Applies>,
    writes: AtomicU64,
    dry_runs: AtomicU64,
    unchanged: AtomicU64,
}

/// State of an object after its last apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Memory {
    /// Hash of the applied intent.
    intent: u64,
    /// Hash of the owned fields and their values.
    owned: u64,
}

/// Number of objects whose last apply is remembered, at least; at most twice as many. One that is forgotten costs a dry run.
const MEMORY: usize = 32_768;

/// The last applies by the UID of the object: those that were used lately, and those before them.
#[derive(Debug, Default)]
struct Applies {
    recent: HashMap<String, Memory>,
    older: HashMap<String, Memory>,
}

impl Applies {
    fn get(&mut self, uid: &str) -> Option<Memory> {
        if let Some(memory) = self.recent.get(uid) {
            return Some(*memory);
        }
        let (uid, memory) = self.older.remove_entry(uid)?;
        self.insert(uid, memory);
        Some(memory)
    }

    fn insert(&mut self, uid: String, memory: Memory) {
        if self.recent.len() >= MEMORY {
            self.older = std::mem::take(&mut self.recent);
        }
        self.recent.insert(uid, memory);
    }

    fn remove(&mut self, uid: &str) {
        self.recent.remove(uid);
        self.older.remove(uid);
    }
}

/// Outcome of an apply.
#[derive(Clone, Debug, PartialEq)]
pub enum Applied<K> {
    /// The object was created.
    Created(K),
    /// Something changed.
    Configured(K),
    /// Nothing would change: no request wrote.
    Unchanged,
}

/// Number of requests and outcomes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ApplyCounts {
    /// Requests that wrote.
    pub writes: u64,
    /// Dry-run requests.
    pub dry_runs: u64,
    /// Applies that ended without a write.
    pub unchanged: u64,
}

/// Error of an apply.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The object to apply has no name.
    #[error("cannot apply an object without a name")]
    NoName,
    /// The object to apply cannot be sent.
    #[error("cannot apply {name}: it cannot be written as JSON")]
    Serialize {
        /// Its name.
        name: String,
        /// The error.
        #[source]
        source: serde_json::Error,
    },
    /// Other managers own fields with other values.
    #[error("cannot apply {name}: {message}")]
    Conflict {
        /// Its name.
        name: String,
        /// The fields and their managers, in the server's words.
        message: String,
    },
    /// A quota, a limit range, or another admission plugin, webhook or policy denied it.
    #[error("cannot apply {name}: denied by admission: {message}")]
    Denied {
        /// Its name.
        name: String,
        /// Why, in the server's words.
        message: String,
    },
    /// The request failed.
    #[error("cannot apply {name}")]
    Request {
        /// Its name.
        name: String,
        /// The error.
        #[source]
        source: Box<kube::Error>,
    },
}

impl Applier {
    /// Applies as this field manager. A field that another manager owns with another value is a conflict.
    #[must_use]
    pub fn new(manager: impl Into<String>) -> Self {
        Self {
            manager: manager.into(),
            force: false,
            applied: Mutex::default(),
            writes: AtomicU64::new(0),
            dry_runs: AtomicU64::new(0),
            unchanged: AtomicU64::new(0),
        }
    }

    /// The same with `force`, which takes over fields of other managers: usual for objects that the controller owns.
    #[must_use]
    pub fn force(mut self) -> Self {
        self.force = true;
        self
    }

    fn memory(&self) -> MutexGuard<'_, Applies> {
        self.applied.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies `intent`, unless nothing would change. `live` is the object as the controller last observed it, with
    /// `managedFields`; `None` reads it from the server. A stale `live` object costs at most a dry run: the server
    /// decides.
    ///
    /// # Errors
    /// See [`ApplyError`].
    pub async fn apply<K>(&self, api: &Api<K>, intent: &K, live: Option<&K>) -> Result<Applied<K>, ApplyError>
    where
        K: Resource + Clone + Debug + DeserializeOwned + Serialize,
    {
        let name = intent.meta().name.clone().ok_or(ApplyError::NoName)?;
        let value = match serde_json::to_value(intent) {
            Ok(value) => value,
            Err(source) => return Err(ApplyError::Serialize { name, source }),
        };
        let wanted = hash(&value);
        let read;
        let live = match live.filter(|live| !live.managed_fields().is_empty()) {
            Some(live) => Some(live),
            None => {
                read = api.get_opt(&name).await.map_err(|error| refused(&name, error))?;
                read.as_ref()
            }
        };
        if let Some((live, uid)) = live.and_then(|live| Some((live, live.uid()?))) {
            let owned = self.owned(live, &name)?;
            if self.memory().get(&uid) == Some(Memory { intent: wanted, owned }) {
                return Ok(self.skip());
            }
            if self.would_change_nothing(api, &name, &value, live, owned).await? {
                self.memory().insert(uid, Memory { intent: wanted, owned });
                return Ok(self.skip());
            }
        }
        let existed = live.is_some();
        let applied = api.patch(&name, &self.parameters(), &Patch::Apply(&value)).await;
        let applied = applied.map_err(|error| refused(&name, error))?;
        self.writes.fetch_add(1, Ordering::Relaxed);
        if let Some(uid) = applied.uid() {
            let owned = self.owned(&applied, &name)?;
            self.memory().insert(uid, Memory { intent: wanted, owned });
        }
        Ok(if existed { Applied::Configured(applied) } else { Applied::Created(applied) })
    }

    /// Forgets a deleted object. Without it, the object is forgotten when many others were applied since.
    pub fn forget(&self, uid: &str) {
        self.memory().remove(uid);
    }

    /// Counters so far.
    #[must_use]
    pub fn counts(&self) -> ApplyCounts {
        ApplyCounts {
            writes: self.writes.load(Ordering::Relaxed),
            dry_runs: self.dry_runs.load(Ordering::Relaxed),
            unchanged: self.unchanged.load(Ordering::Relaxed),
        }
    }

    fn skip<K>(&self) -> Applied<K> {
        self.unchanged.fetch_add(1, Ordering::Relaxed);
        Applied::Unchanged
    }

    fn parameters(&self) -> PatchParams {
        PatchParams { field_manager: Some(self.manager.clone()), force: self.force, ..PatchParams::default() }
    }

    /// Makes a dry run, and compares the result with the live object, ignoring the fields that each write changes.
    async fn would_change_nothing<K>(
        &self,
        api: &Api<K>,
        name: &str,
        intent: &Value,
        live: &K,
        owned: u64,
    ) -> Result<bool, ApplyError>
    where
        K: Resource + Clone + Debug + DeserializeOwned + Serialize,
    {
        // A manager that does not own anything yet writes at least its ownership.
        if self.entry(live).is_none() {
            return Ok(false);
        }
        let parameters = PatchParams { dry_run: true, ..self.parameters() };
        let dry = api.patch(name, &parameters, &Patch::Apply(intent)).await;
        let dry = dry.map_err(|error| refused(name, error))?;
        self.dry_runs.fetch_add(1, Ordering::Relaxed);
        Ok(dry.uid() == live.uid()
            && self.owned(&dry, name)? == owned
            && content(&dry, name)? == content(live, name)?)
    }

    fn entry<'k, K: Resource>(&self, object: &'k K) -> Option<&'k ManagedFieldsEntry> {
        object.managed_fields().iter().find(|entry| {
            entry.manager.as_deref() == Some(&self.manager)
                && entry.operation.as_deref() == Some("Apply")
                && entry.subresource.as_deref().is_none_or(str::is_empty)
        })
    }

    /// Hash of the fields that this manager owns, and of their values.
    fn owned<K: Resource + Serialize>(&self, object: &K, name: &str) -> Result<u64, ApplyError> {
        let fields = self.entry(object).and_then(|entry| entry.fields_v1.as_ref());
        let Some(fields) = fields.map(|fields| &fields.0) else { return Ok(0) };
        let value = to_value(object, name)?;
        let mut values = Vec::new();
        collect(fields, Some(&value), &mut values);
        let mut hasher = DefaultHasher::new();
        hash(fields).hash(&mut hasher);
        for value in values {
            value.map(hash).hash(&mut hasher);
        }
        Ok(hasher.finish())
    }
}

fn refused(name: &str, error: kube::Error) -> ApplyError {
    let name = name.to_owned();
    match error {
        kube::Error::Api(status) if has_conflicting_managers(&status) => {
            ApplyError::Conflict { name, message: status.message.clone() }
        }
        kube::Error::Api(status) if is_denied(&status) => {
            ApplyError::Denied { name, message: status.message.clone() }
        }
        source => ApplyError::Request { name, source: Box::new(source) },
    }
}

/// Whether other managers own fields. Any other conflict is over at the next attempt: the object changed meanwhile.
fn has_conflicting_managers(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    status.code == 409 && causes.into_iter().any(|cause| cause.reason == "FieldManagerConflict")
}

fn to_value<K: Serialize>(object: &K, name: &str) -> Result<Value, ApplyError> {
    serde_json::to_value(object).map_err(|source| ApplyError::Serialize { name: name.to_owned(), source })
}

/// The object without the fields that each write changes: resourceVersion, and the times of managers.
fn content<K: Resource + Serialize>(object: &K, name: &str) -> Result<Value, ApplyError> {
    let mut value = to_value(object, name)?;
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("resourceVersion");
        for entry in metadata.get_mut("managedFields").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(entry) = entry.as_object_mut() {
                entry.remove("time");
            }
        }
    }
    Ok(value)
}

fn hash(value: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// The values of the leaves of `FieldsV1`: `f:` is a field of an object, `k:` a list item by its keys, `v:` one by its
/// value.
fn collect<'v>(fields: &Value, value: Option<&'v Value>, leaves: &mut Vec<Option<&'v Value>>) {
    let Some(fields) = fields.as_object().filter(|fields| !fields.is_empty()) else {
        leaves.push(value);
        return;
    };
    for (name, below) in fields {
        let child = match name.split_once(':') {
            Some(("f", member)) => value.and_then(|value| value.get(member)),
            Some(("k", keys)) => item(value, keys),
            Some(("v", wanted)) => {
                let wanted: Option<Value> = serde_json::from_str(wanted).ok();
                value
                    .and_then(Value::as_array)
                    .and_then(|items| items.iter().find(|item| Some(*item) == wanted.as_ref()))
            }
            Some(("i", index)) => index.parse::<usize>().ok().and_then(|index| value?.get(index)),
            // `.`: the container itself, whose fields may have other owners.
            _ => {
                leaves.push(value.map(|_| &Value::Null));
                continue;
            }
        };
        collect(below, child, leaves);
    }
}

fn item<'v>(list: Option<&'v Value>, keys: &str) -> Option<&'v Value> {
    let keys: serde_json::Map<String, Value> = serde_json::from_str(keys).ok()?;
    // A key that the item does not have is at its default: only its absence can be compared.
    let has =
        |item: &Value| keys.iter().all(|(key, wanted)| item.get(key).is_none_or(|value| value == wanted));
    list?.as_array()?.iter().find(|item| has(item))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded_and_what_is_used_stays() {
        let mut applies = Applies::default();
        let memory = Memory { intent: 1, owned: 2 };
        applies.insert("used".to_owned(), memory);
        for index in 0..4 * MEMORY {
            applies.insert(index.to_string(), memory);
            assert_eq!(applies.get("used"), Some(memory));
            assert!(applies.recent.len() + applies.older.len() <= 2 * MEMORY);
        }
        assert_eq!(applies.get("0"), None);
        applies.remove("used");
        assert_eq!(applies.get("used"), None);
    }
}
