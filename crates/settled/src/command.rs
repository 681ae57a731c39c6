//! From the arguments to a command.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory as _, FromArgMatches as _};
use jiff::Timestamp;
use kstatus::{Options, Profile};
use settled_rules::{Builder, RuleSet};

use crate::cli::{Cli, Command, InputArgs, RuleArgs, VerdictArgs};
use crate::error::CommandError;
use crate::pipeline::Settings;
use crate::row::Verdicts;
use crate::{
    apply, augment, complete, generate, help, kubectl, look, output, rules, status, style, switches, wait,
};

/// How many threads give verdicts unless the user says otherwise: the one that reads can't feed more.
const THREADS_MAX: usize = 16;

/// Commands that look at clusters: they know kubectl's options, or say what to take instead.
const LIVE: [&str; 6] = ["wait", "status", "apply", "why", "tree", "events"];

/// Commands of kubectl and Helm, and what does the same here.
const ELSEWHERE: [(&str, &str); 9] = [
    ("get", "settled status TYPE/NAME shows objects and their status"),
    ("describe", "settled why TYPE/NAME explains an object, with its events"),
    ("logs", "settled why TYPE/NAME shows the logs of what crashed"),
    ("diff", "settled apply -f FILE --dry-run --diff shows what would change"),
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
    match &cli.command {
        Command::Wait(args) => wait::run(args),
        Command::Why(args) => look::why(args),
        Command::Tree(args) => look::tree(args),
        Command::Events(args) => look::events(args),
        Command::Apply(args) => apply::run(args),
        Command::Status(args) => status::run(args),
        Command::Augment(args) => augment::run(args),
        Command::Rules(args) => rules::run(args),
        #[cfg(feature = "serve")]
        Command::Serve(args) => crate::serve::run(args),
        #[cfg(feature = "serve")]
        Command::Store(args) => crate::store::run(args),
        Command::Completions(args) => generate::completions(args),
        Command::Man(args) => generate::man(args),
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

/// What verdicts depend on, as the arguments say.
fn options(args: &VerdictArgs) -> Options {
    Options {
        profile: args.profile,
        assume_current: args.assume_current,
        require_address: !args.address_optional,
        schedule_grace: args.schedule_grace,
        ..Options::new(args.now.unwrap_or_else(Timestamp::now))
    }
}

/// How verdicts are to be given, as the arguments say.
pub(crate) fn verdicts(args: &VerdictArgs) -> Result<Verdicts, CommandError> {
    if args.profile == Profile::Kstatus && !args.rules.rule_files.is_empty() {
        return Err(CommandError::usage(
            "--rules has no effect in the profile `kstatus`, which is upstream to the letter",
        )
        .hint("leave out --profile kstatus"));
    }
    let rules = rule_set(&args.rules)?;
    Ok(Verdicts { options: options(args), rules: Arc::new(rules) })
}

/// The rules that the arguments and the environment name.
pub(crate) fn rule_set(args: &RuleArgs) -> Result<RuleSet, CommandError> {
    rules_builder(args).map(Builder::build)
}

/// As [`rule_set`], to which more may be added.
pub(crate) fn rules_builder(args: &RuleArgs) -> Result<Builder, CommandError> {
    let mut builder = RuleSet::builder().builtin(!args.no_builtin_rules).annotations(!args.no_annotations);
    let paths = std::env::var_os("SETTLED_RULES").unwrap_or_default();
    let paths: Vec<PathBuf> =
        std::env::split_paths(&paths).filter(|path| !path.as_os_str().is_empty()).collect();
    for file in rules::files(paths.iter().chain(&args.rule_files))? {
        builder = rules::add(builder, &file)?;
    }
    Ok(builder)
}

/// How the threads are to run.
pub(crate) fn settings(args: &InputArgs) -> Settings {
    let threads = match args.threads {
        Some(threads) => usize::from(threads),
        None => std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX),
    };
    Settings { threads, object_bytes: args.max_object_size }
}
