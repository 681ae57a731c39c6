//! The crate's integration tests, in one binary.

mod parity;
