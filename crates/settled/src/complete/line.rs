//! Completion context: the cluster, namespaces and targets in the words before the cursor.

use std::ffi::OsString;

use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _};

use crate::cli::Cli;
use crate::cli::args::ClusterArgs;

/// The arguments before the cursor that decide about values.
#[derive(Debug, Default)]
pub(super) struct Line {
    pub(super) cluster: ClusterArgs,
    /// Of `-n`; empty is the context's.
    pub(super) namespaces: Vec<String>,
    /// `TYPE/NAME…`, or `TYPE NAME…`, as far as they are written.
    pub(super) targets: Vec<String>,
    /// Objects are selected: names have no place.
    pub(super) selects: bool,
}

impl Line {
    /// Parses the words, ignoring errors.
    pub(super) fn parse(words: &[OsString]) -> Self {
        let words = std::iter::once("settled".into()).chain(words.iter().cloned());
        let Ok(matches) = Cli::command().ignore_errors(true).try_get_matches_from(words) else {
            return Self::default();
        };
        let mut matches = &matches;
        while let Some((_, below)) = matches.subcommand() {
            matches = below;
        }
        let namespaces = strings(matches, "namespace");
        let namespaces = namespaces.iter().flat_map(|list| list.split(','));
        let is_set = |id: &str| matches.try_get_one::<bool>(id).ok().flatten().is_some_and(|set| *set);
        let mut targets = strings(matches, "names");
        targets.extend(strings(matches, "targets"));
        Self {
            cluster: cluster(matches),
            namespaces: namespaces.filter(|name| !name.is_empty()).map(str::to_owned).collect(),
            targets,
            selects: is_set("all")
                || is_set("all_namespaces")
                || !strings(matches, "selector").is_empty()
                || !strings(matches, "field_selector").is_empty(),
        }
    }
}

/// Which cluster is meant, where the command has one.
fn cluster(matches: &ArgMatches) -> ClusterArgs {
    // Of other commands, asking for arguments that they do not have would panic.
    let has = |id: &str| matches.try_contains_id(id).is_ok();
    if !has("context") || !has("as_groups") {
        return ClusterArgs::default();
    }
    ClusterArgs::from_arg_matches(matches).unwrap_or_default()
}

/// All values of an argument that the command may have.
fn strings(matches: &ArgMatches, id: &str) -> Vec<String> {
    let values = matches.try_get_many::<String>(id).ok().flatten();
    values.into_iter().flatten().cloned().collect()
}
