//! What network policies ask for, which providers carry it out, and what traffic results.
//!
//! Everything here is synchronous and reads no cluster: policies, profiles of providers and a snapshot of the cluster go in, verdicts
//! and answers come out.

pub mod cluster;
pub mod detect;
pub mod diff;
pub mod explain;
pub mod feature;
pub mod model;
pub mod parse;
pub mod profile;
pub mod reach;
pub mod read_cluster;
