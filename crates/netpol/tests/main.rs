//! Tests of network policies.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod detect;
mod features;
mod findings;
mod load;
mod parse;
mod parse_properties;
mod profile;
mod profiles;
mod profiles_verdict;
mod reach;
mod read_cluster;
mod support;
mod verdict;
