//! The node agent as a program of its own, smaller than `settled`: what `settled cluster agent` is there.

use std::process::ExitCode;

fn main() -> ExitCode {
    settled_hosts::agent::main(std::env::args_os().skip(1))
}
