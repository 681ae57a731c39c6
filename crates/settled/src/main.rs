//! The binary `settled`: arguments in, verdicts out. It decides nothing itself; `kstatus` does.

mod augment;
mod cli;
mod command;
mod error;
mod filter;
mod generate;
mod inputs;
mod output;
mod pipeline;
mod render;
mod row;
mod rules;
mod serve;
mod sort;
mod status;
mod style;
mod text;

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match command::run() {
        Ok(code) => code,
        Err(error) => error.report(),
    }
}
