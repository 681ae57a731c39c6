//! Provider contract: what a provider of hosts implements, and the data that it is asked with.
//!
//! Calls are idempotent and keyed by the UID of the Machine: each may be repeated at any time, also after a lost response. [`Provider::plan`] is pure,
//! so that it can be asked before anything is touched. [`conformance`] is the definition of a provider: what passes it, is one.

pub mod conformance;
mod registry;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::Value;

use crate::crds::ConfigSchema;
use crate::types::{ApiEndpoint, ErrorReason, Machine, MachineAddress, MachineVersions, Taint};

pub use registry::{ConfigError, Entry, InvalidSchema, Registry};

/// Identity of a host: the UID of its Machine. It is the idempotency key of all calls.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct HostKey(String);

impl HostKey {
    /// The key of a Machine with this UID.
    #[must_use]
    pub fn new(uid: &str) -> Self {
        Self(uid.to_owned())
    }

    /// The UID.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&Machine> for HostKey {
    fn from(machine: &Machine) -> Self {
        Self::new(machine.host_key())
    }
}

impl fmt::Display for HostKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// What a Machine asks for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Desired {
    /// Versions of what runs on the host.
    pub versions: MachineVersions,
    /// Configuration of the provider, with its defaults.
    pub config: Value,
    /// Name that its Node registers with.
    pub node_name: String,
    /// `namespace/name` of the Cluster; empty without one.
    pub cluster: String,
    /// Where the control plane is served, which the Node registers with.
    pub endpoint: Option<ApiEndpoint>,
    /// Labels that the Node registers with.
    pub labels: BTreeMap<String, String>,
    /// Taints that the Node registers with.
    pub taints: Vec<Taint>,
}

/// A request for a Machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Identity of the host.
    pub key: HostKey,
    /// `namespace/name` of the Machine.
    pub machine: String,
    /// Generation of the Machine.
    pub generation: i64,
    /// What it asks for.
    pub desired: Desired,
}

/// What there is for a Machine.
#[derive(Clone, Debug, PartialEq)]
pub enum Observed {
    /// No host, and no trace of one.
    Absent,
    /// A host.
    Host(Box<Host>),
}

impl Observed {
    /// The host, if there is one.
    #[must_use]
    pub fn host(&self) -> Option<&Host> {
        match self {
            Self::Absent => None,
            Self::Host(host) => Some(host),
        }
    }
}

/// A host as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Host {
    /// The provider's name for it: `spec.providerID` of its Node.
    pub id: String,
    /// What it is doing.
    pub state: HostState,
    /// Addresses.
    pub addresses: Vec<MachineAddress>,
    /// What really runs on it.
    pub versions: MachineVersions,
    /// What else the provider observes and plans with: image, size.
    pub facts: BTreeMap<String, String>,
    /// Name that its Node registers with.
    pub node_name: String,
}

/// What a host is doing.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum HostState {
    /// It is being created; it is worth another look after this time.
    #[default]
    Creating,
    /// It runs.
    Running,
    /// A step of an update is being performed.
    Updating,
    /// It is being deleted.
    Deleting,
    /// It does not run, and will not: only a change of the spec, or a new host helps.
    Failed(String),
}

/// A step of an update on a running host.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Step {
    /// What is done, for people and for the provider.
    pub name: String,
    /// With what.
    pub argument: String,
}

impl Step {
    /// A step.
    #[must_use]
    pub fn new(name: &str, argument: &str) -> Self {
        Self { name: name.to_owned(), argument: argument.to_owned() }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.name, self.argument)
    }
}

/// How a host gets from what it is to what is asked for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Plan {
    /// It is as asked for.
    NoOp,
    /// On the running host, by these steps. The first one is performed next; then the plan is made anew.
    InPlace {
        /// The steps.
        steps: Vec<Step>,
        /// Whether Pods on the Node are disturbed: it is drained before.
        disruptive: bool,
    },
    /// By a new host under the same Machine.
    Replace {
        /// Why.
        reason: String,
    },
    /// Not at all: the host keeps serving as it is.
    Unsupported {
        /// Why.
        reason: String,
    },
}

/// Result of a call that changes something.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Progress {
    /// Done.
    Done,
    /// Accepted, and not done yet.
    Pending {
        /// When it is worth another look.
        retry_after: Duration,
    },
}

/// A host of a provider, for the collection of orphans.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Owned {
    /// Identity of the host.
    pub key: HostKey,
    /// The provider's name for it.
    pub id: String,
}

/// Why a call failed.
#[derive(Clone, Debug, thiserror::Error, PartialEq)]
pub enum ProviderError {
    /// It may pass: the call is repeated after a backoff.
    #[error("{0}")]
    Transient(String),
    /// It will not pass without a change of the spec.
    #[error("{message}")]
    Terminal {
        /// The reason in the API.
        reason: ErrorReason,
        /// For people.
        message: String,
    },
}

impl ProviderError {
    /// A terminal error.
    pub fn terminal(reason: ErrorReason, message: impl Into<String>) -> Self {
        Self::Terminal { reason, message: message.into() }
    }
}

/// A provider of hosts.
pub trait Provider: Send + Sync + 'static {
    /// Format of its configuration: `apiVersion`, `kind` and structural schema.
    fn schema(&self) -> ConfigSchema;

    /// Sets defaults that the schema cannot express.
    fn defaults(&self, _config: &mut Value) {}

    /// What the schema cannot express about a valid request: messages, with their fields.
    fn validate(&self, _desired: &Desired) -> Vec<String> {
        Vec::new()
    }

    /// What there is for a Machine.
    fn observe<'a>(&'a self, key: &'a HostKey) -> BoxFuture<'a, Result<Observed, ProviderError>>;

    /// How a running host gets to what is asked for. Pure: it touches nothing, and depends on its arguments alone.
    fn plan(&self, host: &Host, desired: &Desired) -> Plan;

    /// Creates the host, unless there is one.
    fn create<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Progress, ProviderError>>;

    /// Performs one step of an update. One that was performed is not performed again.
    fn apply_step<'a>(
        &'a self,
        request: &'a Request,
        step: &'a Step,
    ) -> BoxFuture<'a, Result<Progress, ProviderError>>;

    /// Deletes the host and everything that belongs to it. Done if there is none.
    fn delete<'a>(&'a self, key: &'a HostKey) -> BoxFuture<'a, Result<Progress, ProviderError>>;

    /// The kubeconfig of an administrator of the API server that a host of a control plane serves. `None` if it serves none, or not yet, or if others make the
    /// Secret.
    fn kubeconfig<'a>(&'a self, _key: &'a HostKey) -> BoxFuture<'a, Result<Option<String>, ProviderError>> {
        Box::pin(async { Ok(None) })
    }

    /// All hosts that it has for Machines of this API server.
    fn list(&self) -> BoxFuture<'_, Result<Vec<Owned>, ProviderError>>;
}
