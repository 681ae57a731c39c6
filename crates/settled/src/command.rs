//! From the arguments to a command.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _};
use jiff::Timestamp;
use kstatus::Options;

use crate::cli::{Cli, Command, InputArgs, VerdictArgs};
use crate::error::CommandError;
use crate::pipeline::Settings;
use crate::{augment, generate, output, rules, status, style};

/// How many threads give verdicts unless the user says otherwise: the one that reads can't feed more.
const THREADS_MAX: usize = 16;

/// Runs the command that the process' arguments name.
pub(crate) fn run() -> Result<ExitCode, CommandError> {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let cli = match parse(&arguments) {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() => {
            error.print().ok();
            return Ok(ExitCode::from(2));
        }
        // Help and version are data: a closed pipe is no error there either.
        Err(help) => {
            let palette = style::Palette::stdout();
            let text = help.render();
            let text = if palette.is_enabled() { text.ansi().to_string() } else { text.to_string() };
            output::print(text.as_bytes())?;
            return Ok(ExitCode::SUCCESS);
        }
    };
    style::choose(cli.color);
    match &cli.command {
        Command::Status(args) => status::run(args),
        Command::Augment(args) => augment::run(args),
        Command::Rules(args) => rules::run(args),
        Command::Completions(args) => generate::completions(args),
        Command::Man(args) => generate::man(args),
    }
}

fn parse(arguments: &[OsString]) -> Result<Cli, clap::Error> {
    let mut command = Cli::command();
    let called = arguments.first().map(Path::new).and_then(Path::file_stem).unwrap_or_default();
    if called == "kubectl-settled" {
        command = command.bin_name("kubectl settled");
    }
    let matches = command.try_get_matches_from_mut(arguments)?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

/// What verdicts depend on, as the arguments say.
pub(crate) fn options(args: &VerdictArgs) -> Options {
    Options {
        profile: args.profile,
        assume_current: args.assume_current,
        require_address: !args.address_optional,
        schedule_grace: args.schedule_grace,
        ..Options::new(args.now.unwrap_or_else(Timestamp::now))
    }
}

/// How the threads are to run.
pub(crate) fn settings(args: &InputArgs) -> Settings {
    let threads = match args.threads {
        Some(threads) => usize::from(threads),
        None => std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX),
    };
    Settings { threads, object_bytes: args.max_object_size }
}
