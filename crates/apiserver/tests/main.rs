//! The tests of the API server.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "a test's helpers fail the test")]

mod answers;
mod authorization;
mod controller;
mod controllers;
mod conversion;
mod embedding;
mod hostile;
mod network_policy_status;
mod noop_applies;
mod openapi;
mod own_objects;
mod protobuf;
mod recorded;
mod selectors;
mod services;
mod signing_requests;
mod surface;
mod tables;
mod unenforced;
mod watching;
