//! Tests of the crate from outside.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod dialects;
mod engine;
mod pack;
mod properties;
