//! `settled status`: a verdict on every object of files, or of a cluster.

mod files;
mod live;
mod report;
mod rows;
mod writer;

use std::process::ExitCode;
use std::time::Instant;

use self::rows::Evaluator;
use crate::arguments;
use crate::cli::{Sort, StatusArgs, StatusOutput};
use crate::error::CommandError;
use crate::filter::Filter;
use crate::overview;
use crate::render::Form;
use crate::row::Reader;

pub(crate) fn run(args: &StatusArgs) -> Result<ExitCode, CommandError> {
    let started = Instant::now();
    let form = match args.output {
        _ if args.quiet => Form::Nothing,
        StatusOutput::Table | StatusOutput::Wide => Form::Table,
        StatusOutput::Json | StatusOutput::Jsonl => Form::Json,
        StatusOutput::Yaml => Form::Yaml,
    };
    let sort = args.sort.unwrap_or(if form == Form::Table { Sort::Status } else { Sort::None });
    let mut evaluator = Evaluator {
        how: arguments::verdicts(&args.verdict)?,
        filter: Filter::new(&args.filter),
        form,
        sort,
        reader: Reader::default(),
    };
    if !args.input.targets.is_empty() || !args.select.releases.is_empty() {
        // Targets are limited to the namespaces already, and cluster-scoped objects were named.
        evaluator.filter = Filter::new(&args.filter).in_any_namespace();
        return live::run(args, evaluator, started);
    }
    let names_files = !args.input.files.is_empty() || args.input.kustomize.is_some();
    let piped = || !args.select.all_namespaces && overview::input_is_piped();
    if !names_files && args.select.selects_nothing() && !piped() {
        evaluator.filter = Filter::new(&args.filter).in_any_namespace().not_current();
        return live::run(args, evaluator, started);
    }
    files::run(args, &evaluator, started)
}
