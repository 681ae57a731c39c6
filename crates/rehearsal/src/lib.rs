#![doc = include_str!("../README.md")]

mod environment;
pub mod findings;
pub mod prepare;
mod speed;

pub use environment::{Environment, Options, StartError};
pub use speed::{ParseSpeedError, Speed, runtime};
