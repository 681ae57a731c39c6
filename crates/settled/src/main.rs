//! The binary `settled`. It contains no decisions: `kstatus` and the other libraries make them.

mod apply;
mod arguments;
mod augment;
mod cause;
mod cli;
mod cluster;
mod command;
mod complete;
mod definitions;
mod duration;
mod error;
mod filter;
mod generate;
mod help;
mod inputs;
mod kubectl;
mod live;
mod log;
mod look;
#[cfg(feature = "machines")]
mod machines;
mod names;
#[cfg(feature = "netpol")]
mod netpol;
mod output;
mod overview;
mod patience;
mod pipeline;
#[cfg(feature = "netpol")]
mod places;
mod progress;
mod propose;
#[cfg(feature = "rehearse")]
mod rehearse;
mod render;
mod requests;
mod row;
mod rule_files;
mod rules;
#[cfg(test)]
mod scenes;
#[cfg(test)]
mod screens;
#[cfg(feature = "serve")]
mod serve;
mod session;
mod sort;
mod status;
mod stderr;
#[cfg(feature = "serve")]
mod store;
mod style;
mod switches;
mod targets;
mod text;
mod time;
mod wait;
mod watch;

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match command::run() {
        Ok(code) => code,
        Err(error) => error.report(),
    }
}
