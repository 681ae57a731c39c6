//! Simulations on the embedded API server, in virtual time.

mod faults_controllers;
mod faults_world;
mod jobs;
mod kubelet;
mod scheduling;
mod support;
mod workload_faults;
mod workloads;
mod world;
