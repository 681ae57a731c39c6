//! What packagers want: shell completions and manual pages.

use std::fs;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use clap::CommandFactory as _;

use crate::cli::{Cli, CompletionsArgs, ManArgs};
use crate::error::CommandError;
use crate::output;

pub(crate) fn completions(args: &CompletionsArgs) -> Result<ExitCode, CommandError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "settled", &mut script);
    output::print(&script)?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn man(args: &ManArgs) -> Result<ExitCode, CommandError> {
    let mut command = Cli::command();
    command.build();
    match &args.dir {
        None => output::print(&page(command)?)?,
        Some(dir) => {
            fs::create_dir_all(dir).map_err(|error| cannot_write(dir, error))?;
            let commands = command.get_subcommands().filter(|command| command.get_name() != "help").cloned();
            for command in std::iter::once(command.clone()).chain(commands) {
                // The name with dashes: `settled-status`.
                let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
                let path = dir.join(format!("{name}.1"));
                fs::write(&path, page(command.name(name))?).map_err(|error| cannot_write(&path, error))?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn page(command: clap::Command) -> Result<Vec<u8>, CommandError> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command)
        .render(&mut page)
        .map_err(|error| CommandError::output("cannot make the manual page", error))?;
    Ok(page)
}

fn cannot_write(path: &Path, error: io::Error) -> CommandError {
    CommandError::output(format!("cannot write {}", path.display()), error)
}
