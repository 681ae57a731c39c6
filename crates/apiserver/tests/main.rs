//! The tests of the API server.
#![allow(clippy::unwrap_used, reason = "a test's helpers fail the test")]

mod controller;
mod embedding;
mod controllers;
mod protobuf;
mod selectors;
mod surface;
mod tables;
