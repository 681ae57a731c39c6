//! How help is laid out: examples first, and with `-h` only what is needed often.

use clap::Command;

/// Between usage and arguments stand the examples.
const TEMPLATE: &str = "{about-with-newline}\n{usage-heading} {usage}\n\n{before-help}{all-args}{after-help}";
/// Sections that `-h` leaves out.
const LONG_SECTIONS: [&str; 4] = ["Cluster", "Verdict", "Rules", "Global options"];
/// Arguments that `-h` leaves out of other sections.
const LONG_ARGUMENTS: [&str; 17] = [
    "field_selector",
    "target_timeout",
    "stable",
    "fail_fast",
    "no_fail_fast",
    "on_missing",
    "threads",
    "max_object_size",
    "sort",
    "width",
    "applyset",
    "field_manager",
    "tls_cert",
    "tls_key",
    "tls_names",
    "client_ca",
    "feature_gates",
];
/// Arguments that `-h` keeps of the sections that it leaves out.
const SHORT_ARGUMENTS: [&str; 1] = ["context"];

/// Lays out the help of all subcommands.
pub(crate) fn laid_out(command: Command) -> Command {
    command.mut_subcommands(|command| {
        let command = if command.has_subcommands() { laid_out(command) } else { with_short_help(command) };
        with_examples_first(command)
    })
}

fn with_short_help(command: Command) -> Command {
    command.mut_args(|arg| {
        let section = arg.get_help_heading().unwrap_or_default();
        let id = arg.get_id().as_str();
        let is_long = LONG_SECTIONS.contains(&section) || LONG_ARGUMENTS.contains(&id);
        let hidden = is_long && !SHORT_ARGUMENTS.contains(&id);
        if hidden { arg.hide_short_help(true) } else { arg }
    })
}

/// The examples stand before the arguments; what else is said, only `--help` says.
fn with_examples_first(command: Command) -> Command {
    let Some(after) = command.get_after_help().map(ToString::to_string) else { return command };
    if !after.starts_with("Examples:\n") {
        return command;
    }
    let (examples, rest) = after.split_once("\n\n").unwrap_or((&after, ""));
    let (examples, rest) = (examples.to_owned(), rest.to_owned());
    let command = command.help_template(TEMPLATE).before_help(examples);
    if rest.is_empty() {
        return command.after_help("");
    }
    command.after_help("More options, formats and exit codes: --help").after_long_help(rest)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn arguments_that_are_left_out_exist() {
        let mut command = Cli::command();
        command.build();
        let ids: Vec<String> = command
            .get_subcommands()
            .flat_map(|command| command.get_arguments().map(|arg| arg.get_id().to_string()))
            .collect();
        for id in LONG_ARGUMENTS.iter().chain(&SHORT_ARGUMENTS) {
            assert!(ids.iter().any(|known| known == id), "{id}");
        }
        laid_out(Cli::command()).debug_assert();
    }
}
