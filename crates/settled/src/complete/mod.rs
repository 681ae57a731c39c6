//! Shell completion: `settled __complete WORDS…` answers in the protocol of cobra, by which kubectl asks its plugins as well.
//!
//! clap_complete finds out which argument the cursor is in; [`values`] and [`lookup`] know its values. Nothing is ever printed on
//! standard error, and nothing takes longer than [`lookup::WITHIN`].

mod line;
mod lookup;
mod types;
mod values;
mod words;

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use clap::{CommandFactory as _, ValueHint};
use clap_complete::CompletionCandidate;
use clap_complete::engine::{ArgValueCompleter, complete};

use crate::cli::Cli;
use crate::output;
use line::Line;

/// The hidden command that shells call.
const COMMAND: &str = "__complete";
/// The name under which kubectl calls a plugin for its completions.
const KUBECTL_NAME: &str = "kubectl_complete-settled";
/// How many values are offered.
const VALUES_MAX: usize = 1000;

/// The scripts that call it.
pub(crate) const BASH: &str = include_str!("settled.bash");
pub(crate) const ZSH: &str = include_str!("settled.zsh");
pub(crate) const FISH: &str = include_str!("settled.fish");

/// Directives for the shell, as bits of cobra's protocol.
mod directive {
    /// No space after the value.
    pub(super) const NO_SPACE: u8 = 2;
    /// No names of files where there are no values.
    pub(super) const NO_FILES: u8 = 4;
    /// Names of directories.
    pub(super) const DIRECTORIES: u8 = 16;
}

/// The words to complete, if that is what the process was called for: the last one is the one at the cursor.
pub(crate) fn asked_for(called: &OsStr, arguments: &[OsString]) -> Option<Vec<OsString>> {
    match arguments {
        [_, command, words @ ..] if command == COMMAND => Some(words.to_vec()),
        [_, words @ ..] if called == KUBECTL_NAME => Some(words.to_vec()),
        _ => None,
    }
}

/// Prints the values for the last of these words.
pub(crate) fn run(mut words: Vec<OsString>) -> ExitCode {
    let current = words.pop().unwrap_or_default();
    let (values, directive) = answer(words, current);
    let mut text = String::new();
    for Value { word, help } in values {
        let _ = match help {
            Some(help) => writeln!(text, "{word}\t{help}"),
            None => writeln!(text, "{word}"),
        };
    }
    let _ = writeln!(text, ":{directive}");
    // A shell that is gone needs no answer.
    drop(output::print(text.as_bytes()));
    ExitCode::SUCCESS
}

/// Candidates for a word.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Value {
    word: String,
    help: Option<String>,
}

fn answer(words: Vec<OsString>, current: OsString) -> (Vec<Value>, u8) {
    // Arguments of another command are not completed.
    if words.iter().any(|word| word == "--") {
        return (Vec::new(), 0);
    }
    let path = Arc::new(AtomicU8::new(directive::NO_FILES));
    let line = Arc::new(Line::parse(&words));
    let mut command = with_completers(Cli::command(), &line, &path);
    let mut words: Vec<OsString> = std::iter::once("settled".into()).chain(words).collect();
    let index = words.len();
    words.push(current.clone());
    let candidates = complete(&mut command, words, index, None).unwrap_or_default();
    let current = current.to_string_lossy();
    let options = current.starts_with('-');
    let values = candidates.into_iter().filter_map(|candidate| {
        let word = candidate.get_value().to_str()?.to_owned();
        let help = candidate.get_help().map(|help| {
            let help = help.to_string();
            let first = help.lines().next().unwrap_or_default();
            first.split('\t').next().unwrap_or_default().to_owned()
        });
        // Options are offered once a dash is typed.
        (options || !word.starts_with('-')).then_some(Value { word, help })
    });
    let values: Vec<Value> = values.take(VALUES_MAX).collect();
    let mut directive = path.load(Ordering::Relaxed);
    if !values.is_empty() && values.iter().all(|value| value.word.ends_with(['/', '='])) {
        directive |= directive::NO_SPACE;
    }
    (values, directive)
}

/// The command whose arguments know their values.
fn with_completers(command: clap::Command, line: &Arc<Line>, path: &Arc<AtomicU8>) -> clap::Command {
    let name = command.get_name().to_owned();
    let command = command.mut_args(|arg| {
        // Names of files are the shell's: it quotes them.
        let files = match arg.get_value_hint() {
            ValueHint::AnyPath | ValueHint::FilePath => Some(0),
            ValueHint::DirPath => Some(directive::DIRECTORIES),
            _ => None,
        };
        let id = arg.get_id().as_str();
        if let Some(files) = files {
            return arg.add(marker(path, files));
        }
        if id == "reports" {
            let path = Arc::clone(path);
            return arg.add(ArgValueCompleter::new(move |current: &OsStr| {
                if current.to_string_lossy().contains('=') {
                    path.store(0, Ordering::Relaxed);
                }
                values::reports(&current.to_string_lossy())
            }));
        }
        match values::of(&name, id, arg.is_hide_set()) {
            Some(find) => {
                let line = Arc::clone(line);
                arg.add(ArgValueCompleter::new(move |current: &OsStr| match current.to_str() {
                    Some(current) => find(&line, current),
                    None => Vec::new(),
                }))
            }
            None => arg,
        }
    });
    command.mut_subcommands(|command| with_completers(command, line, path))
}

/// A completer that knows no values, and notes that the shell completes names of files.
fn marker(path: &Arc<AtomicU8>, directive: u8) -> ArgValueCompleter {
    let path = Arc::clone(path);
    ArgValueCompleter::new(move |_: &OsStr| -> Vec<CompletionCandidate> {
        path.store(directive, Ordering::Relaxed);
        Vec::new()
    })
}
