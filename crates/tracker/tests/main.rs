//! The tests, in one binary.
