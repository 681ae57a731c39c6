//! The tests, in one binary.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod condition;
mod inventory;
mod order;
