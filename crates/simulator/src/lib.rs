#![doc = include_str!("../README.md")]

mod component;
mod controller;
mod informers;
mod kubelet;
mod meta;
pub mod nodes;
mod pod;
mod scheduler;
mod selector;
mod simulator;
mod workloads;

pub use component::{Component, Components, UnknownComponent};
pub use simulator::{Options, Simulator, StartError};
