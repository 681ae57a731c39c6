//! Control planes as local processes: an API server (`settled serve`) for each Cluster, with a port and a directory of its own.
//!
//! A server outlives the process that started it. It is found again by the directory that it was started with, so that no crash between two calls leaves a
//! second one, and it registers the Node of its Machine itself.

mod credentials;
mod node;
mod programs;
mod provider;
mod record;
mod server;

pub use credentials::{ProcessCredentials, Route};
pub use node::SelfNode;
pub use programs::Programs;
pub use provider::{API_VERSION, KIND, LocalServer, ProcessProvider};
