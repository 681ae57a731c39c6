//! Errors of the agent, and its log.

use std::fmt;
use std::io::Write as _;

use super::layout::LayoutError;

const USAGE: &str = "usage: init --dir DIR | kubelet --dir DIR --version VERSION";

/// Why the agent does not run.
#[derive(Debug, thiserror::Error)]
pub(super) enum AgentError {
    /// The arguments are wrong.
    #[error("{0}; {USAGE}")]
    Usage(String),
    /// A file of its directory cannot be used.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The directory has no settings.
    #[error("{0} has no settings.json: the provider of the host writes it")]
    NoSettings(String),
    /// The operating system refuses something.
    #[error("cannot {0}: {1}")]
    System(&'static str, std::io::Error),
    /// There is nothing to run.
    #[error("the agent runs on Unix only")]
    #[cfg_attr(unix, allow(dead_code, reason = "it is for other systems"))]
    Platform,
}

/// Writes a line to the log of the agent, which is its standard error.
pub(super) fn log(line: fmt::Arguments<'_>) {
    let _best_effort = writeln!(std::io::stderr(), "{} {line}", jiff::Timestamp::now());
}
