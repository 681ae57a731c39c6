#![doc = include_str!("../README.md")]

mod admission;
pub mod apply;
mod backoff;
pub mod cache;
mod clock;
pub mod conditions;
pub mod decision;
pub mod events;
#[cfg(feature = "faults")]
pub mod faults;
mod fence;
pub mod filter;
pub mod finalizer;
pub mod health;
pub mod leader;
pub mod metrics;
mod object;
mod own_writes;
pub mod predicate;
mod projection;
pub mod queue;
mod resource_version;
pub mod run;
pub mod runtime;
pub mod status;
mod text;
pub mod typed;
pub mod worker;
pub mod write_metrics;

pub use backoff::WatchBackoff;
pub use cache::Cache;
pub use clock::Clock;
pub use fence::{Fence, FenceError, Freshness};
pub use filter::FilteredClient;
pub use kstatus::ParseError;
pub use object::{FieldPath, ObjectKey, ObjectView};
pub use own_writes::OwnWrites;
pub use predicate::Predicate;
pub use projection::Projection;
pub use resource_version::ResourceVersion;
pub use settled_apimachinery::feature_gates;
