//! Comparison of two clusters: what is declared the same, what differs by provider, and what really runs. Pure.

mod difference;
mod normalize;
mod observed;
mod sync;

pub use difference::{Comparison, Difference, Part, compare};
pub use normalize::{Entry, Normalized, Options, Role};
pub use observed::compare_observed;
pub use sync::{SyncPlan, SyncStep, Unsynced, plan_sync};
