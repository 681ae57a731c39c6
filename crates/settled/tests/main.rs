//! Integration tests of the binary: arguments and files, output, messages and exit codes.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's helpers fail the test")]

mod apply;
mod augment;
#[cfg(all(feature = "machines", target_os = "linux"))]
mod clusters;
mod complete;
mod definitions;
mod docs;
mod errors;
mod filters;
mod generated;
mod help;
#[cfg(all(feature = "machines", target_os = "linux"))]
mod hosts;
mod inputs;
mod kubectl;
mod live;
mod log;
#[cfg(feature = "machines")]
mod machines;
mod netpol;
mod network_policy;
mod overview;
mod proxy;
mod reach;
mod rehearse;
mod rehearse_rows;
mod rules;
mod serve;
#[cfg(all(feature = "machines", target_os = "linux"))]
mod ssh_pool;
mod store;
mod support;
mod table;
mod terminal;
mod verdicts;
mod watch;
