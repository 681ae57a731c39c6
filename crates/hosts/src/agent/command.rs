//! Command line of the agent: `init --dir DIR`, `kubelet --dir DIR --version VERSION`.

use std::ffi::OsString;
use std::fmt;
use std::io::Write as _;
use std::process::ExitCode;

use super::layout::{Layout, LayoutError};
use super::{init, node};

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

/// Runs the agent with its arguments, until it is ended.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    match run(arguments.into_iter()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log(format_args!("error: {error}"));
            ExitCode::from(if matches!(error, AgentError::Usage(_)) { 2 } else { 1 })
        }
    }
}

fn run(mut arguments: impl Iterator<Item = OsString>) -> Result<(), AgentError> {
    let command = arguments.next().unwrap_or_default();
    let (mut directory, mut version) = (None, None);
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or_else(|| usage("an option has no value"))?;
        match name.to_str() {
            Some("--dir") => directory = Some(value),
            Some("--version") => version = value.into_string().ok(),
            _ => return Err(usage(&format!("unknown option {}", name.to_string_lossy()))),
        }
    }
    let layout = Layout::new(directory.ok_or_else(|| usage("--dir is missing"))?);
    match command.to_str() {
        Some("init") => init::run(&layout),
        Some("kubelet") => {
            let version = version.ok_or_else(|| usage("--version is missing"))?;
            node::run(&layout, &version)
        }
        _ => Err(usage(&format!("unknown command {:?}", command.to_string_lossy()))),
    }
}

fn usage(text: &str) -> AgentError {
    AgentError::Usage(text.to_owned())
}
