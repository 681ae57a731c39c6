//! Simulations on the embedded API server, in virtual time.

mod faults_world;
mod kubelet;
mod scheduling;
mod support;
mod workloads;
mod world;
