//! The heart that requests and controllers share: the store, the catalog, and the rules of writing.

use std::sync::Arc;

use settled_store::{BackendError, Entry, Key, Resource, Store, WriteError};
use tokio::sync::watch;

use crate::admission::Admission;
use crate::auth::{Tokens, User};
use crate::definition::{Catalog, Definition};
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

/// Who writes, with what, when, and what is to be said about it besides the answer.
pub(crate) struct Call<'a> {
    pub(crate) user: User,
    /// What the client calls itself.
    pub(crate) user_agent: &'a str,
    /// The server itself calls, not a client.
    pub(crate) internal: bool,
    /// The time of the request.
    pub(crate) now: jiff::Timestamp,
    /// For the `Warning` headers of the answer.
    pub(crate) warnings: Vec<String>,
}

impl<'a> Call<'a> {
    /// A call of a user.
    pub(crate) fn of(user: User, user_agent: &'a str) -> Self {
        Self { user, user_agent, internal: false, now: jiff::Timestamp::now(), warnings: Vec::new() }
    }

    /// A call of the server itself.
    pub(crate) fn new(user_agent: &'a str) -> Self {
        Self { internal: true, ..Self::of(User::admin(), user_agent) }
    }

    /// Adds a warning, unless it was given already.
    pub(crate) fn warn(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !self.warnings.contains(&text) {
            self.warnings.push(text);
        }
    }
}

/// An object that is meant.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    pub(crate) definition: &'a Definition,
    /// Empty for what is in no namespace.
    pub(crate) namespace: &'a str,
    /// Empty if the object has none yet.
    pub(crate) name: &'a str,
}

impl Target<'_> {
    pub(crate) fn key(&self) -> Result<Key, ApiError> {
        // Names that can't be keys can't exist either.
        Key::new(&self.definition.resource, self.namespace, self.name).map_err(|_| self.not_found())
    }

    pub(crate) fn not_found(&self) -> ApiError {
        ApiError::not_found(self.definition.group_resource(), self.name)
    }

    pub(crate) fn modified(&self) -> ApiError {
        ApiError::modified(self.definition.group_resource(), self.name)
    }
}

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

/// A write that failed for another reason than a conflict.
pub(crate) fn write_failed(error: &WriteError) -> ApiError {
    match error {
        WriteError::TooLarge { size, limit } => {
            let message =
                format!("Request is too large: the object has {size} bytes; at most {limit} are allowed");
            ApiError::new(413, "RequestEntityTooLarge", message)
        }
        WriteError::Busy { .. } => {
            ApiError::new(429, "TooManyRequests", "too many writes are waiting, please try again later")
                .retry_after(1)
        }
        WriteError::Stopped => ApiError::new(503, "ServiceUnavailable", "the server is stopping"),
        WriteError::Full { .. } => ApiError::new(507, "InsufficientStorage", error.to_string()),
        // Where the data are is for the server's log alone.
        WriteError::Backend(source) => {
            let why = match &**source {
                BackendError::NoSpace { .. } => "no space is left on the server's disk",
                _ => "the server's storage failed",
            };
            ApiError::internal(format!("{error}: {why}"))
        }
        _ => ApiError::internal(error),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    /// The server's log has the path.
    #[test]
    fn clients_are_not_told_where_the_data_are() {
        let path = || "/srv/secret/store.log".into();
        let full = BackendError::NoSpace { path: path(), source: io::Error::from_raw_os_error(28) };
        let broken = BackendError::Io {
            action: "writing",
            path: path(),
            source: io::ErrorKind::PermissionDenied.into(),
        };
        let corrupt = BackendError::Corrupt { path: path(), what: "a hole".to_owned() };
        for (error, wanted) in [
            (full, "no space is left on the server's disk"),
            (broken, "the server's storage failed"),
            (corrupt, "the server's storage failed"),
        ] {
            let failed = write_failed(&WriteError::Backend(error.into()));
            let status = failed.to_status().to_string();
            assert_eq!(failed.code, 500);
            assert!(status.contains(wanted) && !status.contains("secret"), "{status}");
        }
    }
}
