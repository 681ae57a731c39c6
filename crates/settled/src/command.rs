//! Dispatch: parses the arguments and runs the command that they name.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory as _, FromArgMatches as _};

use crate::cli::{Cli, Command};
use crate::error::CommandError;
use crate::{
    apply, augment, complete, generate, help, kubectl, log, look, output, rules, status, style, switches,
    wait,
};

/// Commands that look at clusters: they know kubectl's options, or say what to take instead.
const LIVE: [&str; 6] = ["wait", "status", "apply", "why", "tree", "events"];

/// Commands of kubectl and Helm, and what does the same here.
const ELSEWHERE: [(&str, &str); 9] = [
    ("get", "settled status TYPE/NAME shows objects and their status"),
    ("describe", "settled why TYPE/NAME explains an object, with its events"),
    ("logs", "settled why TYPE/NAME shows logs of crashed containers"),
    ("diff", "settled apply -f FILE --dry-run --diff previews changes"),
    ("rollout", "settled wait deploy/NAME waits for a rollout"),
    ("delete", "settled wait TYPE/NAME --for=delete waits for a deletion"),
    ("install", "settled wait --release helm/NAME waits for a release"),
    ("upgrade", "settled wait --release helm/NAME waits for a release"),
    ("explain", "settled why TYPE/NAME explains an object, settled rules show GROUP/KIND a kind's rules"),
];

/// Runs the command that the process' arguments name.
pub(crate) fn run() -> Result<ExitCode, CommandError> {
    crate::patience::started();
    let mut arguments: Vec<OsString> = std::env::args_os().collect();
    if let Some(words) = complete::asked_for(called(&arguments), &arguments) {
        return Ok(complete::run(words));
    }
    if let [_, command] = &mut *arguments
        && command == "version"
    {
        *command = "--version".into();
    }
    let cli = match parse(&arguments) {
        Ok(cli) => cli,
        Err(mut error) if error.use_stderr() => {
            if let Some(error) = elsewhere(&error) {
                return Err(error);
            }
            let command = arguments.get(1).and_then(|command| command.to_str());
            if command.is_some_and(|command| LIVE.contains(&command))
                && let Some(error) = kubectl::refusal(&error)
            {
                return Err(error);
            }
            // No argument here may begin with a dash: `to pass '-x' as a value, use '-- -x'` leads astray.
            if error.kind() == clap::error::ErrorKind::UnknownArgument {
                error.remove(ContextKind::Suggested);
            }
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
    log::start(cli.log_level, is_log_json(&cli.command))?;
    match &cli.command {
        Command::Wait(args) => wait::run(args),
        Command::Why(args) => look::why(args),
        Command::Tree(args) => look::tree(args),
        Command::Events(args) => look::events(args),
        Command::Apply(args) => apply::run(args),
        Command::Status(args) => status::run(args),
        Command::Augment(args) => augment::run(args),
        Command::Rules(args) => rules::run(args),
        #[cfg(feature = "machines")]
        Command::Cluster(args) => crate::machines::run(args),
        #[cfg(feature = "netpol")]
        Command::Netpol(args) => crate::netpol::run(args),
        #[cfg(feature = "rehearse")]
        Command::Rehearse(args) => crate::rehearse::run(args),
        #[cfg(feature = "rehearse")]
        Command::Demo(args) => crate::rehearse::demo(args),
        #[cfg(feature = "rehearse")]
        Command::Play(args) => crate::rehearse::cast::play(args),
        #[cfg(feature = "serve")]
        Command::Serve(args) => crate::serve::run(args),
        #[cfg(feature = "serve")]
        Command::Store(args) => crate::store::run(args),
        Command::Completions(args) => generate::completions(args),
        Command::Man(args) => generate::man(args),
    }
}

/// Whether programs read the lines of the command on standard error.
fn is_log_json(command: &Command) -> bool {
    match command {
        #[cfg(feature = "serve")]
        Command::Serve(args) => args.log_format == crate::cli::serve::LogFormat::Json,
        _ => false,
    }
}

/// The error of a command that other tools have.
fn elsewhere(error: &clap::Error) -> Option<CommandError> {
    let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand) else { return None };
    let (name, hint) = ELSEWHERE.iter().find(|(known, _)| known == name)?;
    Some(CommandError::usage(format!("there is no command `{name}`")).hint(*hint))
}

/// The name that the program was called by.
fn called(arguments: &[OsString]) -> &OsStr {
    arguments.first().map(Path::new).and_then(Path::file_stem).unwrap_or_default()
}

fn parse(arguments: &[OsString]) -> Result<Cli, clap::Error> {
    let mut command = help::laid_out(Cli::command(), arguments.iter().any(|argument| argument == "-h"));
    if called(arguments) == "kubectl-settled" {
        command = command.bin_name("kubectl settled");
    }
    let arguments = switches::without_values(arguments, &command);
    let matches = command.try_get_matches_from_mut(arguments)?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}
