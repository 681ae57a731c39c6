//! Switches with values, as kubectl takes them: `--all-namespaces=true` is `--all-namespaces`, and with `=false` it is not given.

use std::ffi::{OsStr, OsString};

use clap::{ArgAction, Command};

/// The values of Go's `strconv.ParseBool`.
const TRUE: [&str; 6] = ["1", "t", "T", "true", "TRUE", "True"];
const FALSE: [&str; 6] = ["0", "f", "F", "false", "FALSE", "False"];

/// The arguments with no switch that has a value. Other values stay, and are an error of the parser.
pub(crate) fn without_values(arguments: &[OsString], command: &Command) -> Vec<OsString> {
    let end = arguments.iter().position(|argument| argument == "--").unwrap_or(arguments.len());
    let subcommand =
        arguments.get(1).and_then(|name| name.to_str()).and_then(|name| command.find_subcommand(name));
    let mut kept: Vec<OsString> = Vec::with_capacity(arguments.len());
    for (index, argument) in arguments.iter().enumerate() {
        let switch = argument.to_str().and_then(|text| text.split_once('=')).filter(|(name, _)| {
            index < end
                && [Some(command), subcommand].into_iter().flatten().any(|command| is_switch(command, name))
        });
        match switch {
            Some((name, value)) if TRUE.contains(&value) => kept.push(name.into()),
            // The last one counts.
            Some((name, value)) if FALSE.contains(&value) => {
                kept.retain(|argument| argument != OsStr::new(name))
            }
            _ => kept.push(argument.clone()),
        }
    }
    kept
}

fn is_switch(command: &Command, name: &str) -> bool {
    command.get_arguments().filter(|argument| matches!(argument.get_action(), ArgAction::SetTrue)).any(
        |argument| {
            let long = name.strip_prefix("--").is_some_and(|name| argument.get_long() == Some(name));
            long || name
                .strip_prefix('-')
                .is_some_and(|name| argument.get_short().is_some_and(|short| name.chars().eq([short])))
        },
    )
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn switches_have_kubectls_values() {
        let command = Cli::command();
        for (arguments, wanted) in [
            ("status --all-namespaces=true -o wide", "status --all-namespaces -o wide"),
            ("status -A=T", "status -A"),
            ("status --all-namespaces=false pods", "status pods"),
            ("status -A -A=false", "status"),
            ("status --watch=false --watch=1", "status --watch"),
            // Values of others, and what is not a switch.
            ("status -l app=true", "status -l app=true"),
            ("status --selector=true", "status --selector=true"),
            ("status --watch=yes", "status --watch=yes"),
            ("status --nothing=true", "status --nothing=true"),
            // Behind -- nothing is an option.
            (
                "serve --quiet=true -- settled status --watch=true",
                "serve --quiet -- settled status --watch=true",
            ),
        ] {
            let words = |text: &str| -> Vec<OsString> {
                std::iter::once("settled").chain(text.split(' ')).map(OsString::from).collect()
            };
            assert_eq!(without_values(&words(arguments), &command), words(wanted), "{arguments}");
        }
    }
}
