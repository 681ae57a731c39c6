#![doc = include_str!("../README.md")]

mod environment;
mod speed;

pub use environment::{Environment, Options, StartError};
pub use speed::{ParseSpeedError, Speed, runtime};
