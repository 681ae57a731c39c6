//! Simulations on the embedded API server, in virtual time.

mod scheduling;
mod support;
mod workloads;
