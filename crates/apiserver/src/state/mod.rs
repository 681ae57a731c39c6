//! Shared state of requests and controllers: store, catalog, identity, allocators, lifecycle.

pub(crate) mod admission;
pub(crate) mod call;
pub(crate) mod health;
pub(crate) mod identity;
pub(crate) mod lifecycle;
pub(crate) mod lines;
pub(crate) mod pod_logs;
pub(crate) mod random;
pub(crate) mod service_range;
pub(crate) mod services;

use std::sync::{Arc, OnceLock};

use serde_json::Value;
use settled_store::{At, Entry, Resource, Scope, Store};
use tokio::sync::watch;

use crate::auth::Tokens;
use crate::error::ApiError;
use crate::kinds::definition::Catalog;
use crate::kinds::names::stored_as;
use crate::state::admission::Admission;
use crate::state::call::Target;
use crate::state::health::StoreHealth;
use crate::state::identity::Identity;
use crate::state::lifecycle::Lifecycle;
use crate::state::lines::Lines;
use crate::state::pod_logs::PodLogs;
use crate::state::random::Random;
use crate::state::service_range::ServiceRange;
use crate::state::services::Claims;

/// What all requests share.
pub(crate) struct State {
    pub(crate) store: Store,
    catalog: watch::Sender<Arc<Catalog>>,
    /// Where namespaces are in the store.
    pub(crate) namespaces: Resource,
    pub(crate) identity: Identity,
    pub(crate) admission: Admission,
    /// Addresses and ports of Services.
    pub(crate) claims: Claims,
    pub(crate) store_health: StoreHealth,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) random: Arc<Random>,
    /// Of watches.
    pub(crate) lines: Lines,
    clock: Option<Clock>,
    /// Where logs of containers come from.
    pub(crate) pod_logs: OnceLock<PodLogs>,
}

/// The time of day: see [`Config::clock`](crate::Config::clock).
pub type Clock = Arc<dyn Fn() -> jiff::Timestamp + Send + Sync>;

impl State {
    pub(crate) fn new(
        store: Store,
        namespaces: Resource,
        tokens: Tokens,
        lifecycle: Lifecycle,
        clock: Option<Clock>,
        service_range: ServiceRange,
        random: Random,
    ) -> Self {
        let identity = Identity::new(store.clone(), tokens);
        let random = Arc::new(random);
        Self {
            store,
            catalog: watch::Sender::default(),
            namespaces,
            identity,
            admission: Admission::default(),
            claims: Claims::new(service_range, random.clone()),
            store_health: StoreHealth::default(),
            lifecycle,
            random,
            lines: Lines::default(),
            clock,
            pod_logs: OnceLock::new(),
        }
    }

    /// The present time, for what is written.
    pub(crate) fn now(&self) -> jiff::Timestamp {
        self.clock.as_ref().map_or_else(jiff::Timestamp::now, |clock| clock())
    }

    /// What is served now.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        self.catalog.borrow().clone()
    }

    /// Changes what is served. Requests that run go on with what was.
    pub(crate) fn change_catalog(&self, change: impl FnOnce(&mut Catalog)) {
        self.catalog.send_modify(|catalog| change(Arc::make_mut(catalog)));
    }

    /// Follows what is served.
    pub(crate) fn watch_catalog(&self) -> watch::Receiver<Arc<Catalog>> {
        self.catalog.subscribe()
    }

    /// The stored object, as it is now.
    pub(crate) fn get(&self, target: &Target<'_>) -> Result<Arc<Entry>, ApiError> {
        self.store.get(&target.key()?).ok_or_else(|| target.not_found())
    }

    /// The stored objects of a resource, whatever its version: namespaced ones of one namespace, or all if it is empty.
    pub(crate) fn stored(&self, group: &str, plural: &str, namespace: &str) -> Vec<(Arc<Entry>, Value)> {
        let Ok(resource) = stored_as(group, plural) else { return Vec::new() };
        let Ok(snapshot) = self.store.snapshot(&resource, At::Latest) else { return Vec::new() };
        let scope = if namespace.is_empty() { Scope::All } else { Scope::Namespace(namespace.to_owned()) };
        if snapshot.len(&scope) == 0 {
            return Vec::new();
        }
        let parse =
            |entry: &Arc<Entry>| (entry.clone(), serde_json::from_slice(entry.value()).unwrap_or_default());
        snapshot.iter(&scope).map(parse).collect()
    }
}
