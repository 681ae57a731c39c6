//! The tests of the crate.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::panic,
    reason = "these are tests, and the example that makes up cases uses more of the harness"
)]

mod harness;

mod golden;
mod limits;
mod properties;
mod published;
mod references;
