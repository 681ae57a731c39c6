//! Shared arguments, resolved: verdict options, rule sets, threads.

use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use kstatus::{Options, Profile};
use settled_rules::{Builder, RuleSet};

use crate::cli::{InputArgs, RuleArgs, RuleFileArgs, VerdictArgs};
use crate::error::CommandError;
use crate::pipeline::Settings;
use crate::row::Verdicts;
use crate::rule_files;

/// How many threads give verdicts unless the user says otherwise: the one that reads can't feed more.
const THREADS_MAX: usize = 16;

/// Evaluation options from the arguments.
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
    if args.profile == Profile::Kstatus && !args.rules.files.rule_files.is_empty() {
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
    let builder = rules_builder(&args.files)?;
    Ok(args.require_confidence.into_iter().fold(builder, Builder::require).build())
}

/// As [`rule_set`], to which more may be added.
pub(crate) fn rules_builder(args: &RuleFileArgs) -> Result<Builder, CommandError> {
    let mut builder = RuleSet::builder().builtin(!args.no_builtin_rules).annotations(!args.no_annotations);
    let paths = std::env::var_os("SETTLED_RULES").unwrap_or_default();
    let paths: Vec<PathBuf> =
        std::env::split_paths(&paths).filter(|path| !path.as_os_str().is_empty()).collect();
    for file in rule_files::files(paths.iter().chain(&args.rule_files))? {
        builder = rule_files::add(builder, &file)?;
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
