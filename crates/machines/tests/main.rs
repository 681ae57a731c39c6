//! Types, providers and controllers on the embedded API server, in virtual time.

mod conformance;
mod crds;
