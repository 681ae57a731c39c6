#![doc = include_str!("../README.md")]

mod addresses;
mod autoscaler;
mod budgets;
mod component;
mod controller;
pub mod customs;
mod endpoints;
mod informers;
mod kubelet;
mod meta;
pub mod nodes;
mod pod;
mod requests;
pub mod scenario;
mod scheduler;
mod selector;
mod selector_index;
mod simulator;
mod volumes;
mod workloads;

pub use component::{Component, Components, UnknownComponent};
pub use kubelet::logs::{LogError, LogSource};
pub use simulator::{Options, Simulator, StartError};
