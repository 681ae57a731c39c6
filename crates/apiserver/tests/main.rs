//! The tests of the API server.

mod selectors;
mod surface;
mod tables;
