//! Bootstrap, move, deletion and repair of clusters: embedded servers, simulated hosts and their agents, in virtual time.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's helpers fail the test")]

mod bootstrap;
mod moves;
mod remote;
mod world;
