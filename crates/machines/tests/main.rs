//! Types, providers and controllers on the embedded API server, in virtual time.

mod clusters;
mod conformance;
mod crds;
mod faults;
mod harness;
mod machines;
mod rollouts;
mod traces;
