//! Pool of SSH hosts: real sshd, each in namespaces of its own.

#![allow(
    clippy::panic,
    clippy::print_stderr,
    reason = "tests, which print what they have measured or skipped"
)]

mod conformance;
mod end_to_end;
mod failures;
mod faults;
mod hosts;
mod rbac;
mod variants;
mod world;
