#![doc = include_str!("../README.md")]

pub mod compare;
pub mod controllers;
pub mod convert;
pub mod crds;
pub mod describe;
mod desired;
pub mod inventory;
pub mod live;
pub mod plan;
pub mod preview;
pub mod provider;
pub mod rbac;
pub mod rollout;
pub mod simulated;
mod small;
pub mod types;
pub mod validate;
