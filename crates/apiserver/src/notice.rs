//! Notices: events of the server that are worth a line in a log.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use settled_store::{DroppedWrite, Store, WatchError};

/// Something notable that happened. Requests are not.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// A namespace was created.
    NamespaceCreated {
        /// Its name.
        name: String,
    },
    /// A namespace is gone, and all that was in it.
    NamespaceRemoved {
        /// Its name.
        name: String,
    },
    /// A CustomResourceDefinition is served.
    CrdEstablished {
        /// Its name, such as `widgets.example.com`.
        name: String,
    },
    /// A CustomResourceDefinition is gone, and its objects are.
    CrdRemoved {
        /// Its name.
        name: String,
    },
    /// An object was stored that kube-apiserver enforces and this server does not. It is reported once, and again when a server
    /// starts with it.
    NotEnforced {
        /// Its resource, such as `validatingwebhookconfigurations.admissionregistration.k8s.io`.
        resource: String,
        /// Its name.
        name: String,
        /// What is not done, as the warning in the answer says it.
        reason: String,
    },
    /// A watch was closed because its client does not read fast enough. It has to list again.
    SlowWatcher {
        /// What was watched, as the store calls it: `GROUP/RESOURCE`.
        resource: String,
        /// By how much it had fallen behind.
        reason: String,
    },
    /// The last process or machine ended in the middle of a write that was never acknowledged. What there was of it is gone.
    UnfinishedWriteDropped {
        /// How many bytes there were.
        bytes: String,
        /// The last revision before it.
        revision: String,
    },
    /// Others had access to a private file of the data directory.
    PermissionsOfOthers {
        /// The file.
        path: String,
        /// Its permissions, as octal digits.
        mode: String,
        /// Whether they have none any more.
        removed: bool,
    },
    /// A write could not be stored. Reported once, and again after a successful write.
    StoreFailed {
        /// Why.
        error: String,
    },
}

impl Notice {
    /// What happened, as a word for programs.
    #[must_use]
    pub fn event(&self) -> &'static str {
        match self {
            Self::NamespaceCreated { .. } => "namespace-created",
            Self::NamespaceRemoved { .. } => "namespace-removed",
            Self::CrdEstablished { .. } => "crd-established",
            Self::CrdRemoved { .. } => "crd-removed",
            Self::NotEnforced { .. } => "not-enforced",
            Self::SlowWatcher { .. } => "slow-watcher-closed",
            Self::UnfinishedWriteDropped { .. } => "unfinished-write-dropped",
            Self::PermissionsOfOthers { .. } => "permissions-of-others",
            Self::StoreFailed { .. } => "store-failed",
        }
    }

    /// Is it something to act on?
    #[must_use]
    pub fn is_problem(&self) -> bool {
        matches!(
            self,
            Self::PermissionsOfOthers { .. } | Self::UnfinishedWriteDropped { .. } | Self::StoreFailed { .. }
        )
    }

    /// To whom, or why: names and values.
    #[must_use]
    pub fn fields(&self) -> Vec<(&'static str, &str)> {
        match self {
            Self::NamespaceCreated { name }
            | Self::NamespaceRemoved { name }
            | Self::CrdEstablished { name }
            | Self::CrdRemoved { name } => vec![("name", name)],
            Self::NotEnforced { resource, name, reason } => {
                vec![("resource", resource), ("name", name), ("reason", reason)]
            }
            Self::SlowWatcher { resource, reason } => vec![("resource", resource), ("reason", reason)],
            Self::UnfinishedWriteDropped { bytes, revision } => {
                vec![("bytes", bytes), ("revision", revision)]
            }
            Self::PermissionsOfOthers { path, mode, removed } => {
                vec![("path", path), ("mode", mode), ("removed", if *removed { "true" } else { "false" })]
            }
            Self::StoreFailed { error } => vec![("error", error)],
        }
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NamespaceCreated { name } => write!(f, "namespace {name} created"),
            Self::NamespaceRemoved { name } => write!(f, "namespace {name} removed"),
            Self::CrdEstablished { name } => write!(f, "{name} established"),
            Self::CrdRemoved { name } => write!(f, "{name} removed"),
            Self::NotEnforced { resource, name, reason } => write!(f, "{resource} {name}: {reason}"),
            Self::SlowWatcher { resource, reason } => {
                write!(f, "slow watcher of {resource} closed: {reason}")
            }
            Self::UnfinishedWriteDropped { bytes, revision } => {
                write!(f, "store: dropped {bytes} bytes of an unfinished write at revision {revision}")
            }
            Self::PermissionsOfOthers { path, mode, removed: true } => {
                write!(f, "warning: other users had access to {path} (mode {mode}): removed")
            }
            Self::PermissionsOfOthers { path, mode, removed: false } => {
                write!(f, "warning: other users have access to {path} (mode {mode}): chmod go= {path}")
            }
            Self::StoreFailed { error } => write!(f, "a write could not be stored: {error}"),
        }
    }
}

/// Handler of notices. It must not block.
pub type Listener = Arc<dyn Fn(&Notice) + Send + Sync>;

/// Notifies the listener; without one, it is an event of `tracing`.
pub(crate) struct Notices {
    listener: Option<Listener>,
    failures: Mutex<Failures>,
}

/// The store's counters when it last failed.
#[derive(Clone, Copy, Default)]
struct Failures {
    failed: u64,
    stored: u64,
}

impl Notices {
    pub(crate) fn new(listener: Option<Listener>) -> Self {
        Self { listener, failures: Mutex::default() }
    }

    /// Does anybody listen?
    pub(crate) fn has_listener(&self) -> bool {
        self.listener.is_some()
    }

    pub(crate) fn emit(&self, notice: &Notice) {
        match &self.listener {
            Some(listener) => listener(notice),
            None if notice.is_problem() => tracing::warn!(event = notice.event(), "{notice}"),
            None => tracing::info!(event = notice.event(), "{notice}"),
        }
    }

    pub(crate) fn slow_watcher(&self, resource: &str, error: &WatchError) {
        let (resource, reason) = (resource.to_owned(), error.to_string());
        self.emit(&Notice::SlowWatcher { resource, reason });
    }

    /// A request failed: was it the store?
    pub(crate) fn failed(&self, store: &Store, error: &dyn fmt::Display) {
        let now = store.queue_stats();
        {
            let mut last = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
            if now.failed_batches <= last.failed {
                return;
            }
            let again = last.failed > 0 && now.batches == last.stored;
            *last = Failures { failed: now.failed_batches, stored: now.batches };
            if again {
                return;
            }
        }
        let error = store.last_failure().map_or_else(
            || error.to_string(),
            |failure| {
                let source = std::error::Error::source(&*failure).map(|source| format!(": {source}"));
                format!("{failure}{}", source.unwrap_or_default())
            },
        );
        self.emit(&Notice::StoreFailed { error });
    }

    /// The store was opened: did it have to drop something?
    pub(crate) fn opened(&self, dropped: Option<DroppedWrite>) {
        if let Some(DroppedWrite { bytes, revision }) = dropped {
            let (bytes, revision) = (bytes.to_string(), revision.to_string());
            self.emit(&Notice::UnfinishedWriteDropped { bytes, revision });
        }
    }
}
