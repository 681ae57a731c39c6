//! Controllers that are right, and controllers that are wrong in one way each.

mod broken;
mod good;
mod lease;
mod pool;
mod server;

#[allow(unreachable_pub, reason = "the example is a program of its own")]
#[path = "../examples/controllers/server.rs"]
mod builtin;
#[allow(dead_code, unreachable_pub, reason = "the example is a program of its own")]
#[path = "../examples/controllers/controller.rs"]
mod controller;
#[allow(dead_code, unreachable_pub, reason = "the example is a program of its own")]
#[path = "../examples/controllers/scenario.rs"]
mod scenario;
