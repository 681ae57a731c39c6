//! The reporter, against the API server of this workspace.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed test panics")]

mod clusters;
mod fault_tests;
mod front;
mod harness;
mod load;
mod outages;
mod permissions;
mod refusals;
mod reports;
mod stories;
mod strangers;
