//! Types, providers and controllers on the embedded API server, in virtual time.

mod autoscaler;
mod clusters;
mod compare;
mod conformance;
mod crds;
mod demands;
mod faults;
mod harness;
mod import;
mod machines;
mod preview;
mod rbac;
mod restore;
mod rollouts;
mod traces;
mod verdicts;
