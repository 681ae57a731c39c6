//! Pool of hosts that are reached by SSH: claim, prepare, upgrade, clean, release.

mod artifacts;
mod config;
mod join;
#[cfg(unix)]
pub mod openssh;
mod plan;
mod planner;
mod pool;
mod probe;
mod program;
mod provider;
mod secret;
mod transport;

pub use config::{API_VERSION, KIND, format};
pub use join::{AgentJoin, Files, Join};
pub use planner::SshPlanner;
pub use pool::{PoolError, SecretKeys};
pub use program::{Command, DIRECTORY, ExitCode, Input, Inspection, Inventory, Output, Owner, Verb};
pub use provider::{Options, SshProvider};
pub use secret::Secret;
pub use transport::{Keys, Target, Transport, TransportError};
