#![doc = include_str!("../README.md")]

pub mod contents;
mod create;
mod delete;
mod error;
mod journal;
pub mod kinds;
mod ledger;
mod management;
mod manifests;
mod repair;
pub mod state;
mod transfer;
mod waiting;

pub use create::{CreateOptions, Event, create};
pub use delete::{DeletedHosts, delete, delete_hosts};
pub use error::Error;
pub use journal::Phase;
pub use ledger::Ledger;
pub use management::{Controllers, Management, ManagementOptions, OpenPool, Pool};
pub use manifests::{ManifestError, Manifests};
pub use repair::{is_answering, repair_hosts};
pub use state::{ClusterRecord, StateDirectory};
pub use transfer::{Moved, check_move, move_cluster};
