#![doc = include_str!("../README.md")]

pub mod controllers;
pub mod crds;
pub mod plan;
pub mod provider;
pub mod simulated;
mod small;
pub mod types;
