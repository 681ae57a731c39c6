//! Transport: how commands reach a host, and how that fails.

use futures::future::BoxFuture;

use super::program::{Command, Output};
use super::secret::Secret;

/// A host as it is reached.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Target {
    /// Namespace of the Host.
    pub namespace: String,
    /// Name of the Host.
    pub name: String,
    /// Address or name.
    pub address: String,
    /// Port.
    pub port: u16,
    /// User.
    pub user: String,
    /// Public keys that it may have: type and key, as in `known_hosts`.
    pub host_keys: Vec<String>,
    /// Name of the Secret with the private key.
    pub key: String,
}

/// Why a command has no result.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum TransportError {
    /// Nothing answers.
    #[error("cannot connect: {0}")]
    Unreachable(String),
    /// It answers with another key than those of the Host.
    #[error("host key verification failed: {0}")]
    HostKey(String),
    /// It refuses the private key.
    #[error("the SSH key is refused: {0}")]
    Refused(String),
    /// There is no usable private key.
    #[error("{0}")]
    NoKey(String),
    /// The connection broke before the result: the command may have been performed.
    #[error("the connection was lost: {0}")]
    Lost(String),
    /// There was no result in time: the command may have been performed.
    #[error("no answer within {0:?}")]
    TimedOut(std::time::Duration),
    /// The client cannot be started.
    #[error("cannot run the SSH client: {0}")]
    Client(String),
}

impl TransportError {
    /// The reason in conditions.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => "Unreachable",
            Self::HostKey(_) => "HostKeyVerificationFailed",
            Self::Refused(_) => "KeyRefused",
            Self::NoKey(_) => "KeyNotFound",
            Self::Lost(_) => "ConnectionLost",
            Self::TimedOut(_) => "TimedOut",
            Self::Client(_) => "ClientFailed",
        }
    }
}

/// Runs commands on hosts.
pub trait Transport: Send + Sync + 'static {
    /// Runs a command, and waits for its result.
    fn run<'a>(
        &'a self,
        target: &'a Target,
        command: &'a Command,
    ) -> BoxFuture<'a, Result<Output, TransportError>>;
}

/// Where private keys are.
pub trait Keys: Send + Sync + 'static {
    /// The private key for a host, in the format of OpenSSH or PEM.
    fn private_key<'a>(&'a self, target: &'a Target) -> BoxFuture<'a, Result<Secret, TransportError>>;
}
