//! Simulations on the embedded API server, in virtual time.

mod support;
mod workloads;
