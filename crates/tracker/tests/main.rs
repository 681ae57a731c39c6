//! The tests, in one binary. Each has a server of its own in the process, and time that passes only when all is quiet.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod apply;
mod condition;
mod faulty;
mod garbage;
mod inventory;
mod look;
mod order;
mod scenario;
