//! Controllers of Clusters and Machines: each observes, asks its planner in [`plan`](crate::plan), stores the decision, and acts.

mod cluster;
mod controller;
mod events;
mod health_check;
mod informers;
mod lease_expiry;
mod machine;
mod machine_deployment;
mod machine_set;
mod manager;
mod meta;
mod node_leases;
mod orphans;
mod place;
mod remote;
mod remote_clusters;

pub use manager::{Options, run};
pub use remote::{ConnectError, Connector};
