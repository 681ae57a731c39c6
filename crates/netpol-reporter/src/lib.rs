//! Controller that reports in status what the network provider of a cluster makes of each NetworkPolicy.
//!
//! It is not the provider: a provider that lacks a feature is often also too old to say so. It detects the provider and its version, evaluates
//! each policy by the provider's profile, and writes the conditions `Accepted`, `PartialFailure` and `Failure` (KEP-2943):
//!
//! - into `status` of the NetworkPolicy where the API server has that field (`settled serve`, and Kubernetes 1.24 to 1.27 with the feature gate
//!   `NetworkPolicyStatus`),
//! - elsewhere into a [`NetworkPolicyReport`](report) beside it, of the same name, owned by the policy.
//!
//! Specs are never written. Pods, namespaces, nodes' addresses and Services are not read: findings that depend on them are named as not
//! evaluated, and left to `settled netpol check`.

mod config;
mod detection;
mod evaluation;
mod location;
mod metrics;
pub mod permissions;
mod reconcile;
pub mod report;
mod run;

pub use config::Config;
pub use reconcile::ReportError;
pub use run::run;

/// The name of the controller, as field manager, in events and in metrics.
pub const CONTROLLER: &str = "settled-netpol-reporter";
