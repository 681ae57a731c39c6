//! `settled rules`: what is known about kinds, and whether it is right.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use jiff::Timestamp;
use settled_rules::{CaseReport, RuleSet, run_cases};

use crate::cli::{RulesArgs, RulesCommand, RulesTestArgs};
use crate::error::CommandError;
use crate::output;
use crate::style::Palette;
use crate::text::{self, plural};

pub(crate) fn run(args: &RulesArgs) -> Result<ExitCode, CommandError> {
    match &args.command {
        RulesCommand::Test(args) => test(args),
    }
}

/// Runs cases: those of `x.test.yaml` with the rules of `x.yaml` beside it.
fn test(args: &RulesTestArgs) -> Result<ExitCode, CommandError> {
    let now = args.now.unwrap_or_else(Timestamp::now);
    let files = test_files(&args.paths)?;
    let mut total = CaseReport::default();
    for file in &files {
        let text = read(file)?;
        let mut builder = RuleSet::builder();
        let beside = file.to_string_lossy().replace(".test.", ".");
        let beside = PathBuf::from(beside);
        if beside != *file && beside.is_file() {
            let rules = read(&beside)?;
            builder = match builder.add(&beside.display().to_string(), &rules) {
                Ok(builder) => builder,
                Err(errors) => {
                    total.errors.extend(errors.0);
                    continue;
                }
            };
        }
        let report = run_cases(&builder.build(), &[(&file.display().to_string(), &text)], now);
        total.cases += report.cases;
        total.failures.extend(report.failures);
        total.errors.extend(report.errors);
        total.warnings.extend(report.warnings);
    }
    let failures: Vec<String> =
        total.failures.iter().map(|failure| text::clean_lines(&failure.to_string()) + "\n").collect();
    output::print(failures.concat().as_bytes())?;
    let palette = Palette::stderr();
    for warning in &total.warnings {
        output::diagnose(&format!("{} {}", palette.hint("warning:"), text::clean(warning)));
    }
    for error in &total.errors {
        output::diagnose(&format!("{} {}", palette.error("error:"), text::clean(&error.to_string())));
    }
    let failed = total.failures.len() as u64;
    output::diagnose(&format!(
        "{} in {}: {} failed, {}, {}",
        plural(total.cases as u64, "case"),
        plural(files.len() as u64, "file"),
        failed,
        plural(total.errors.len() as u64, "error"),
        plural(total.warnings.len() as u64, "warning"),
    ));
    Ok(ExitCode::from(if !total.errors.is_empty() {
        2
    } else if failed > 0 {
        1
    } else {
        0
    }))
}

fn read(path: &Path) -> Result<String, CommandError> {
    fs::read_to_string(path)
        .map_err(|error| CommandError::input(format!("cannot read {}: {error}", path.display())))
}

/// The files of cases that paths name, those of folders in sorted order.
fn test_files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, CommandError> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            let entries = fs::read_dir(path)
                .map_err(|error| CommandError::input(format!("cannot read {}: {error}", path.display())))?;
            let mut inside: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
            inside.sort();
            for path in inside {
                let name = path.to_string_lossy();
                if path.is_dir() {
                    files.extend(test_files(&[path])?);
                } else if name.ends_with(".test.yaml") || name.ends_with(".test.yml") {
                    files.push(path);
                }
            }
        } else {
            files.push(path.clone());
        }
    }
    Ok(files)
}
