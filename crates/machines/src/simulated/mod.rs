//! Simulated provider: hosts in memory with a latency model, failures, and agents that register Nodes and renew Leases.

mod agents;
mod cloud;
mod provider;

pub use agents::{AgentOptions, run_agents};
pub use cloud::{Access, Cloud, Latency, Shared, SimulatedHost};
pub use provider::{API_VERSION, KIND, SimulatedProvider};
