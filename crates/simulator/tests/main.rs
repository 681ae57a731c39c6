//! Simulations on the embedded API server, in virtual time.

mod kubelet;
mod scheduling;
mod support;
mod workloads;
