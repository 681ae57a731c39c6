//! The state that requests and controllers share: the store, what is served, who may, and what was given to whom.

use std::sync::Arc;

use settled_store::{Entry, Resource, Store};
use tokio::sync::watch;

use crate::admission::state::Admission;
use crate::auth::Tokens;
use crate::call::Target;
use crate::definition::Catalog;
use crate::error::ApiError;
use crate::health::StoreHealth;
use crate::host::Host;
use crate::identity::Identity;
use crate::service_range::ServiceRange;
use crate::services::Claims;

/// What all requests share.
pub(crate) struct Core {
    pub(crate) store: Store,
    catalog: watch::Sender<Arc<Catalog>>,
    /// Where namespaces are in the store.
    pub(crate) namespaces: Resource,
    pub(crate) identity: Identity,
    pub(crate) admission: Admission,
    /// Addresses and ports of Services.
    pub(crate) claims: Claims,
    pub(crate) store_health: StoreHealth,
    pub(crate) host: Host,
    clock: Option<Clock>,
}

/// Tells the time of day: see [`Config::clock`](crate::Config::clock).
pub type Clock = Arc<dyn Fn() -> jiff::Timestamp + Send + Sync>;

impl Core {
    pub(crate) fn new(
        store: Store,
        namespaces: Resource,
        tokens: Tokens,
        host: Host,
        clock: Option<Clock>,
        service_range: ServiceRange,
    ) -> Self {
        let identity = Identity::new(store.clone(), tokens);
        Self {
            store,
            catalog: watch::Sender::default(),
            namespaces,
            identity,
            admission: Admission::default(),
            claims: Claims::new(service_range),
            store_health: StoreHealth::default(),
            host,
            clock,
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
}
