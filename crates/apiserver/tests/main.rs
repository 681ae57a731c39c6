//! The tests of the API server.

mod controllers;
mod selectors;
mod surface;
mod tables;
