//! Command line of the agent: `init --dir DIR`, `kubelet --dir DIR --version VERSION`.

use std::ffi::OsString;
use std::process::ExitCode;

use super::error::{AgentError, log};
use super::layout::Layout;
use super::{init, node};

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
