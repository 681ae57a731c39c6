//! Simulated provider: hosts in memory with a latency model, failures, and what their Nodes register with.

mod cloud;
mod provider;

pub use cloud::{Access, Cloud, Latency, Shared, SimulatedHost};
pub use provider::{API_VERSION, KIND, SimulatedProvider};
