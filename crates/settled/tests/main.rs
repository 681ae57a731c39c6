//! The binary as its users meet it: arguments and files in; output, messages and an exit code out.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's helpers fail the test")]

mod apply;
mod augment;
mod complete;
mod docs;
mod errors;
mod filters;
mod generated;
mod help;
mod inputs;
mod kubectl;
mod live;
mod overview;
mod proxy;
mod reach;
mod rules;
mod serve;
mod store;
mod support;
mod table;
mod terminal;
mod verdicts;
mod watch;
