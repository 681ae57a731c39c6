#![doc = include_str!("../README.md")]

mod base;
mod checks;
mod cluster;
mod context;
mod control;
mod edits;
mod explore;
mod kinds;
mod lease;
mod options;
mod outcome;
mod proxy;
mod report;
mod request;
mod restart;
mod run;
mod scenario;
mod schedule;
mod stale;
mod start;
mod trace;
mod watch;
mod world;

pub use base::ExploreError;
pub use checks::{Check, Violation};
pub use cluster::{ObjectKey, View};
pub use context::{CallFailed, Context, External};
pub use explore::{explore, replay};
pub use options::Options;
pub use report::{Failure, Report};
pub use restart::explore_server;
pub use scenario::Scenario;
pub use schedule::{Edits, Fault, Injection, Place, Schedule, ScheduleError};
pub use world::{Effect, World};
