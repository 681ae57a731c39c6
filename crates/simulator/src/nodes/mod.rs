//! Nodes: created at the start, watched by the node controller, and drained.
//!
//! Kubelets of simulated Nodes are alive unless the scenario lets them die. So their leases are renewed when that changes, and not every
//! ten seconds: an hour in virtual time costs no writes. The node controller goes by the renewals that a kubelet would have made.

mod create;
mod drain;
pub(crate) mod eviction;
pub(crate) mod garbage;
pub(crate) mod lifecycle;
mod spec;
mod status;

pub(crate) use create::create;
pub use spec::{NodeSpec, NodeSpecError, default_nodes};
