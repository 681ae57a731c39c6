#![doc = include_str!("../README.md")]

pub mod crds;
pub mod provider;
pub mod simulated;
pub mod types;
