//! Errors of commands for clusters.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use settled_machines::controllers::ConnectError;
use settled_machines::provider::{InvalidSchema, ProviderError};

/// Why a command for clusters has failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The API server refused a request, or could not be reached.
    #[error("cannot {action}")]
    Request {
        /// What was asked for.
        action: String,
        /// The error.
        #[source]
        source: Box<kube::Error>,
    },
    /// An object needs a change of its spec.
    #[error("{object} is stalled: {reason}: {message}")]
    Stalled {
        /// `Kind name`.
        object: String,
        /// The reason.
        reason: String,
        /// For people.
        message: String,
    },
    /// An object was deleted by others.
    #[error("{0} was deleted meanwhile")]
    Deleted(String),
    /// There is no such object.
    #[error("{0} not found")]
    NotFound(String),
    /// The time is over.
    #[error("timed out after {}s: {waiting}", after.as_secs())]
    TimedOut {
        /// After which time.
        after: Duration,
        /// What was waited for.
        waiting: String,
    },
    /// Something has to be different first.
    #[error("{0}")]
    Refused(String),
    /// A provider failed.
    #[error("cannot {action}: {source}")]
    Provider {
        /// What was asked for.
        action: String,
        /// The error.
        source: ProviderError,
    },
    /// A provider has an invalid schema.
    #[error(transparent)]
    Schema(#[from] InvalidSchema),
    /// There is no client for a cluster.
    #[error("cannot connect to the API server of {cluster}: {source}")]
    Connect {
        /// The cluster.
        cluster: String,
        /// The error.
        source: ConnectError,
    },
    /// The state directory cannot be used.
    #[error("cannot use {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error.
        #[source]
        source: io::Error,
    },
    /// The embedded server does not start.
    #[error("cannot start the embedded API server")]
    Server(#[from] settled_apiserver::StartError),
}

impl Error {
    /// A request that failed.
    pub(crate) fn request(action: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let action = action.into();
        move |source| Self::Request { action, source: Box::new(source) }
    }

    /// A provider that failed.
    pub(crate) fn provider(action: impl Into<String>) -> impl FnOnce(ProviderError) -> Self {
        let action = action.into();
        move |source| Self::Provider { action, source }
    }
}

/// Whether a server has answered with this code.
pub(crate) fn is_code(error: &kube::Error, code: u16) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == code)
}
