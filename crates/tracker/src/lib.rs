//! Follows Kubernetes objects live: waits until they are done, stops as soon as they can't get done, and says why.

mod condition;
mod id;
mod inventory;
mod order;
mod report;

pub use condition::{For, ForError, Met};
pub use id::ObjectId;
pub use inventory::{
    ApplySet, Contents, HelmStorage, Hook, Inventory, InventoryError, KindName, Member, newest_revision,
};
pub use order::{Wave, apply_rank, waves};
pub use report::{
    Branch, Counts, Event, EventNote, Explanation, LogTail, Notice, Outcome, Report, Snapshot, State, Step,
    TargetReport,
};
mod resources;
mod wire;
pub use resources::*;
mod cluster;
mod connect;
pub use cluster::*;
pub use connect::*;
