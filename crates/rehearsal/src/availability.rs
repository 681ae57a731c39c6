//! Availability during a rollout: the lowest number of ready endpoints of each Service.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt as _;
use futures::future::BoxFuture;
use jiff::Timestamp;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, WatchEvent, WatchParams};
use serde_json::Value;
use settled_controller::Clock;
use tokio::task::JoinHandle;

/// Namespace and name of a Service.
type Key = (String, String);

/// The fewest ready endpoints that a Service had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lowest {
    /// How many there were at the beginning.
    pub before: usize,
    /// How many there were at least.
    pub lowest: usize,
    /// Since when there were so few.
    pub since: Timestamp,
}

#[derive(Default)]
struct Counts {
    /// Ready endpoints of each slice, and its Service.
    slices: BTreeMap<Key, (Key, usize)>,
    lowest: BTreeMap<Key, Lowest>,
}

impl Counts {
    fn ready(&self, service: &Key) -> usize {
        self.slices.values().filter(|(of, _)| of == service).map(|(_, ready)| ready).sum()
    }

    fn put(&mut self, slice: &DynamicObject, is_deleted: bool) -> Option<Key> {
        let namespace = slice.metadata.namespace.clone()?;
        let name = slice.metadata.labels.as_ref()?.get("kubernetes.io/service-name")?.clone();
        let (key, service) = ((namespace.clone(), slice.metadata.name.clone()?), (namespace, name));
        let ready = ready(slice);
        match is_deleted {
            true => drop(self.slices.remove(&key)),
            false => drop(self.slices.insert(key, (service.clone(), ready))),
        }
        Some(service)
    }

    fn note(&mut self, service: &Key, now: Timestamp) {
        let ready = self.ready(service);
        // A Service that is new has nothing to lose.
        if let Some(known) = self.lowest.get_mut(service)
            && ready < known.lowest
        {
            *known = Lowest { lowest: ready, since: now, ..*known };
        }
    }
}

/// Endpoints that take requests. Nothing said means ready.
fn ready(slice: &DynamicObject) -> usize {
    let endpoints = slice.data.get("endpoints").and_then(Value::as_array).into_iter().flatten();
    let is_ready =
        |endpoint: &&Value| endpoint.pointer("/conditions/ready").and_then(Value::as_bool) != Some(false);
    endpoints
        .filter(is_ready)
        .map(|endpoint| endpoint["addresses"].as_array().map_or(0, |all| all.len().min(1)))
        .sum()
}

/// Watches EndpointSlices, from the beginning of a rollout to its end.
#[derive(Debug)]
pub struct Availability {
    counts: Arc<Mutex<Counts>>,
    begin: Timestamp,
    task: JoinHandle<()>,
}

impl std::fmt::Debug for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(&self.lowest).finish()
    }
}

impl Drop for Availability {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Availability {
    /// Begins to watch, in the runtime of the rehearsal.
    ///
    /// # Errors
    /// The server cannot be read.
    pub fn watch(client: Client, clock: Clock) -> BoxFuture<'static, Result<Self, kube::Error>> {
        Box::pin(Self::watched(client, clock))
    }

    async fn watched(client: Client, clock: Clock) -> Result<Self, kube::Error> {
        let kind = GroupVersionKind::gvk("discovery.k8s.io", "v1", "EndpointSlice");
        let api: Api<DynamicObject> = Api::all_with(client, &ApiResource::from_gvk(&kind));
        let list = api.list(&ListParams::default()).await?;
        let mut counts = Counts::default();
        for slice in &list.items {
            counts.put(slice, false);
        }
        let services: Vec<Key> = counts.slices.values().map(|(service, _)| service.clone()).collect();
        for service in services {
            let ready = counts.ready(&service);
            counts.lowest.insert(service, Lowest { before: ready, lowest: ready, since: clock.now() });
        }
        let begin = clock.now();
        let version = list.metadata.resource_version.unwrap_or_default();
        let mut events = api.watch(&WatchParams::default(), &version).await?.boxed();
        let counts = Arc::new(Mutex::new(counts));
        let shared = Arc::clone(&counts);
        let task = tokio::spawn(async move {
            // A rollout is shorter than a watch may last; each event counts, and so none is merged.
            while let Some(Ok(event)) = events.next().await {
                let (slice, is_deleted) = match event {
                    WatchEvent::Added(slice) | WatchEvent::Modified(slice) => (slice, false),
                    WatchEvent::Deleted(slice) => (slice, true),
                    WatchEvent::Bookmark(_) | WatchEvent::Error(_) => continue,
                };
                let mut counts = shared.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(service) = counts.put(&slice, is_deleted) {
                    counts.note(&service, clock.now());
                }
            }
        });
        Ok(Self { counts, begin, task })
    }

    /// When it began to watch.
    #[must_use]
    pub const fn begin(&self) -> Timestamp {
        self.begin
    }

    /// What was seen so far, by namespace and name of the Service.
    #[must_use]
    pub fn lowest(&self) -> BTreeMap<(String, String), Lowest> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).lowest.clone()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn slice(name: &str, ready: &[bool]) -> DynamicObject {
        let endpoints =
            ready.iter().map(|ready| json!({"addresses": ["10.0.0.1"], "conditions": {"ready": ready}}));
        let slice = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": name, "namespace": "shop", "labels": {"kubernetes.io/service-name": "web"}},
            "endpoints": endpoints.collect::<Vec<_>>(),
        });
        serde_json::from_value(slice).unwrap()
    }

    #[test]
    fn the_lowest_number_of_all_slices_is_kept() {
        let service = ("shop".to_owned(), "web".to_owned());
        let mut counts = Counts::default();
        counts.put(&slice("a", &[true, true]), false);
        counts.put(&slice("b", &[true]), false);
        let now = Timestamp::UNIX_EPOCH;
        counts.lowest.insert(service.clone(), Lowest { before: 3, lowest: 3, since: now });
        counts.put(&slice("a", &[true, false]), false);
        counts.note(&service, now);
        counts.put(&slice("b", &[]), true);
        counts.note(&service, now);
        counts.put(&slice("a", &[true, true]), false);
        counts.note(&service, now);
        assert_eq!(counts.lowest[&service], Lowest { before: 3, lowest: 1, since: now });
    }
}
