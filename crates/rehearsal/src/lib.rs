#![doc = include_str!("../README.md")]

mod availability;
mod environment;
pub mod findings;
pub mod import;
mod logs;
pub mod prepare;
mod speed;
mod validate;
mod watchdog;

pub use availability::{Availability, Lowest};
pub use environment::{Environment, Loop, Options, StartError};
pub use logs::serve_logs;
pub use settled_simulator::customs::{CustomResources, CustomStep, Customs};
pub use settled_simulator::nodes::{NodeSpec, NodeSpecError};
pub use settled_simulator::scenario::{Scenario, ScenarioErrors};
pub use settled_simulator::{
    Component, Components, Options as SimulatorOptions, Simulator, UnknownComponent,
};
pub use speed::{ParseSpeedError, Runtime, Speed};
pub use validate::invalid;
