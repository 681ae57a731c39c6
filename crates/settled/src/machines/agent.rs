//! `settled cluster agent`: the node agent, which providers start on hosts.

use std::process::ExitCode;

use crate::cli::machines::AgentArgs;

/// Runs the agent until it is ended. Its log is standard error.
pub(super) fn run(args: &AgentArgs) -> ExitCode {
    settled_hosts::agent::main(args.words.iter().cloned())
}
