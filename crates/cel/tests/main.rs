//! Rules, objects, and what upstream says about them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod bounds;
mod properties;
mod recorded;
mod untyped;
