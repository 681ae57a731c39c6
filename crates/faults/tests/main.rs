//! Controllers that are right, and controllers that are wrong in one way each.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed test panics")]

mod broken;
mod events;
mod good;
mod lease;
mod pool;
mod server;
mod stale;

#[allow(unreachable_pub, reason = "the example is a program of its own")]
#[path = "../examples/controllers/server.rs"]
mod builtin;
#[allow(dead_code, unreachable_pub, reason = "the example is a program of its own")]
#[path = "../examples/controllers/controller.rs"]
mod controller;
#[allow(dead_code, unreachable_pub, reason = "the example is a program of its own")]
#[path = "../examples/controllers/scenario.rs"]
mod scenario;
