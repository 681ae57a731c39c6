//! `settled status -f`: the status of objects of files, directories and standard input.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Instant;

use super::report::Report;
use super::rows::Evaluator;
use super::writer::Writer;
use crate::arguments;
use crate::cli::StatusArgs;
use crate::cli::args::SelectArgs;
use crate::error::CommandError;
use crate::inputs::{self, Inputs};
use crate::output::Stopped;
use crate::pipeline::{self, Event};
use crate::stderr;
use crate::text::plural;

/// The status of the objects of files.
pub(super) fn run(
    args: &StatusArgs,
    evaluator: &Evaluator,
    started: Instant,
) -> Result<ExitCode, CommandError> {
    if args.watch {
        return Err(CommandError::usage("--watch only applies to objects of a cluster")
            .hint("to read the files repeatedly, use watch settled status -f FILE"));
    }
    let SelectArgs { selector, field_selector, all, .. } = &args.select;
    if selector.is_some() || field_selector.is_some() || *all {
        return Err(CommandError::usage("selectors only apply to objects of a cluster")
            .hint("name a type, as in settled status pods -l app=web; filter files with --kind and --name"));
    }
    let inputs = Inputs::new(&args.input, "status")?;
    evaluator.how.learn(&args.input);
    let mut report = Report::default();
    let mut writer = Writer::new(args, evaluator.form, evaluator.sort);
    let stopped = pipeline::run(inputs, arguments::settings(&args.input), evaluator, |event| match event {
        Event::Output(input, rows) => writer.rows(input, rows, &mut report),
        Event::Unreadable(input, error) => {
            report.unreadable += 1;
            stderr::unreadable(&input.source, error);
            Ok(())
        }
        Event::End => {
            report.inputs += 1;
            Ok(())
        }
        Event::Idle => Ok(writer.out.flush()?),
    })?;
    let measure = writer.measure.clone();
    let finished = stopped.and_then(|()| writer.finish());
    let shortened = matches!(finished, Ok(true));
    Stopped::forgive(finished.map(|_| ()))?;
    if report.nothing_to_judge() {
        return Err(nothing_found(args, &report));
    }
    if !args.quiet && report.read > 0 {
        report.summary(measure.only_namespace(), started);
        report.hints(shortened);
    }
    Ok(ExitCode::from(report.exit_code()))
}

fn nothing_found(args: &StatusArgs, report: &Report) -> CommandError {
    if report.read > 0 {
        let objects = plural(report.read, "object");
        return CommandError::input(format!("no object matches the filters; read {objects}"))
            .hint("omit --kind, --namespace and --name to see all objects");
    }
    inputs::nothing_found(&args.input)
}
