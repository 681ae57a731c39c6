//! The crate's integration tests, in one binary.

mod cases;
mod parity;
mod properties;
