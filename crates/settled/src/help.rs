//! Help layout: examples first, and with `-h` only the options that are needed often.

use clap::Command;
use clap::builder::{PossibleValue, Resettable};

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
const SHORT_ARGUMENTS: [&str; 2] = ["context", "state"];
/// The command whose subcommands have options of their own: `-h` shows each in its own words.
const OWN_OPTIONS: &str = "cluster";

/// What `-h` shows of commands for clusters, a line each: examples and this fit a screen.
const SHORT_HELP: [(&str, &str); 37] = [
    ("names", "TYPE/NAME..., TYPE NAME..., or TYPE with -l or --all"),
    ("targets", "TYPE/NAME..., TYPE NAME..., or TYPE"),
    ("files", "Objects in files, directories, URLs, or `-`"),
    ("kustomize", "Directory with a kustomization"),
    ("namespace", "Namespace"),
    ("selector", "Label selector, such as `app=web`"),
    ("all", "All objects of the given types"),
    ("all_namespaces", "All namespaces"),
    ("releases", "All objects of a release, such as helm/shop"),
    ("context", "Context of the kubeconfig"),
    ("wait", "Wait for the applied objects"),
    ("dry_run", "Validate without storing anything"),
    ("diff", "Show changes as `kubectl diff` does"),
    ("prune", "Delete members that are no longer applied"),
    ("applyset", "Parent of the ApplySet, for --prune"),
    ("force_conflicts", "Take over fields of other field managers"),
    ("conditions", "ready, failed, delete, condition=NAME, jsonpath=..."),
    ("timeout", "Timeout of the command; 0 checks once [default: 5m]"),
    ("graces", "Grace period of a failure class: `image=1m`"),
    ("logs", "Logs of crashed containers: tail, N, live, none"),
    ("kind", "Only these kinds"),
    ("status", "Only these statuses, such as Failed,Unknown"),
    ("not_current", "All statuses except Current"),
    ("watch", "Watch for changes"),
    ("full", "Show all dependents"),
    ("warnings", "Only events of type Warning"),
    ("quiet", "Print only errors"),
    ("policy", "Name of the policy, or KIND/NAME"),
    ("from", "Source of the connection"),
    ("to", "Destination of the connection"),
    ("port", "Port and protocol, such as 443 or 53/UDP"),
    ("before", "File or directory with the policies before"),
    ("after", "File or directory with the policies after"),
    ("providers", "Provider and version, such as cilium@1.16"),
    ("from_provider", "Provider that is replaced, such as calico@3.25"),
    ("to_provider", "Provider that replaces it"),
    ("profiles", "Profiles in addition to the built-in ones"),
];
/// The output formats of commands for clusters.
const OUTPUT: &str = "output";

/// Lays out the help of all subcommands, for `-h` or for `--help`.
pub(crate) fn laid_out(command: Command, short: bool) -> Command {
    lay_out(command, short, false)
}

fn lay_out(command: Command, short: bool, has_own_options: bool) -> Command {
    let command = if short { command.mut_args(|arg| arg.hide_short_help(true)) } else { command };
    command.mut_subcommands(|command| {
        let is_live = command.get_arguments().any(|arg| arg.get_id() == "request_timeout");
        let command = match (command.has_subcommands(), is_live && short && !has_own_options) {
            (true, _) => {
                let is_own = has_own_options || command.get_name() == OWN_OPTIONS;
                lay_out(command, short, is_own)
            }
            (false, true) => with_shortest_help(command),
            (false, false) => with_short_help(command),
        };
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

/// Only what is used most, a line each.
fn with_shortest_help(command: Command) -> Command {
    command.mut_args(|arg| {
        let id = arg.get_id().as_str().to_owned();
        if id == OUTPUT {
            let values = arg.get_possible_values();
            let formats: Vec<&str> = values.iter().map(PossibleValue::get_name).collect();
            let formats = formats.join(", ");
            return arg
                .hide_possible_values(true)
                .hide_default_value(true)
                .help(formats)
                .help_heading(Resettable::Reset);
        }
        match SHORT_HELP.iter().find(|(known, _)| *known == id) {
            Some((_, help)) => {
                let arg = arg.help(*help).help_heading(Resettable::Reset);
                let has_value = arg.get_action().takes_values();
                if has_value { arg.hide_default_value(true).hide_possible_values(true) } else { arg }
            }
            None => arg.hide_short_help(true),
        }
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
        fn ids_of(command: &Command) -> Vec<String> {
            let own = command.get_arguments().map(|arg| arg.get_id().to_string());
            own.chain(command.get_subcommands().flat_map(ids_of)).collect()
        }
        let ids = ids_of(&command);
        for id in LONG_ARGUMENTS.iter().chain(&SHORT_ARGUMENTS) {
            assert!(ids.iter().any(|known| known == id), "{id}");
        }
        for (id, _) in SHORT_HELP {
            assert!(ids.iter().any(|known| known == id), "{id}");
        }
        for short in [true, false] {
            laid_out(Cli::command(), short).debug_assert();
        }
    }
}
