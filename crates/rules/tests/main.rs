//! Tests of the crate from outside.

mod dialects;
