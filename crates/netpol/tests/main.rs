//! Tests of network policies.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod detect;
mod parse;
mod parse_properties;
mod profile;
mod profiles;
mod reach;
mod support;
