//! Generated files for packages: shell completions and manual pages.

use std::fs;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use clap::CommandFactory as _;
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use crate::cli::{Cli, CompletionsArgs, ManArgs};
use crate::error::CommandError;
use crate::{complete, output};

pub(crate) fn completions(args: &CompletionsArgs) -> Result<ExitCode, CommandError> {
    let script = match args.shell {
        Shell::Bash => complete::BASH.into(),
        Shell::Zsh => complete::ZSH.into(),
        Shell::Fish => complete::FISH.into(),
        // Options and their words; names of the cluster are not among them.
        other => {
            let mut script = Vec::new();
            clap_complete::generate(other, &mut Cli::command(), "settled", &mut script);
            script
        }
    };
    output::print(&script)?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn man(args: &ManArgs) -> Result<ExitCode, CommandError> {
    // The page of `help` would only say what `--help` says.
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    match &args.dir {
        None => output::print(&page(command)?)?,
        Some(dir) => {
            fs::create_dir_all(dir).map_err(|error| cannot_write(dir, error))?;
            for command in with_subcommands(&command) {
                let command = command.clone();
                // The name with dashes: `settled-status`.
                let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
                let path = dir.join(format!("{name}.1"));
                fs::write(&path, page(command.name(name))?).map_err(|error| cannot_write(&path, error))?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A command, and all below it.
fn with_subcommands(command: &clap::Command) -> Vec<&clap::Command> {
    let below = command.get_subcommands().flat_map(with_subcommands);
    std::iter::once(command).chain(below).collect()
}

/// A command's page. What its help says at the end becomes sections whose lines stay as they are.
fn page(command: clap::Command) -> Result<Vec<u8>, CommandError> {
    let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let has_subcommands = command.has_subcommands();
    let man = Man::new(command);
    let mut page = Vec::new();
    let mut render = || {
        man.render_title(&mut page)?;
        man.render_name_section(&mut page)?;
        man.render_synopsis_section(&mut page)?;
        man.render_description_section(&mut page)?;
        man.render_options_section(&mut page)?;
        if has_subcommands {
            man.render_subcommands_section(&mut page)?;
        }
        let mut roff = Roff::new();
        for section in after.split("\n\n") {
            let (heading, lines) = match section.split_once(":\n") {
                Some((heading, lines)) => (heading, lines),
                None => ("Notes", section),
            };
            roff.control("SH", [&*heading.to_uppercase()]).control("nf", []);
            for line in lines.lines() {
                roff.text([roman(line)]);
            }
            roff.control("fi", []);
        }
        roff.to_writer(&mut page)
    };
    render().map_err(|error| CommandError::output("cannot render the manual page", error))?;
    Ok(page)
}

fn cannot_write(path: &Path, error: io::Error) -> CommandError {
    CommandError::output(format!("cannot write {}", path.display()), error)
}
