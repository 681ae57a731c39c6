//! `settled store`: verification of a data directory.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use serde::Serialize;
use settled_store::{BackendError, CheckReport, check};

use crate::cli::serve::{StoreArgs, StoreCheckArgs, StoreCommand, StoreOutput};
use crate::error::CommandError;
use crate::output;
use crate::text;

/// The directory of the store within that of a server.
const STORE: &str = "store";

pub(crate) fn run(args: &StoreArgs) -> Result<ExitCode, CommandError> {
    match &args.command {
        StoreCommand::Check(args) => run_check(args),
    }
}

fn run_check(args: &StoreCheckArgs) -> Result<ExitCode, CommandError> {
    let below = args.directory.join(STORE);
    let directory = if below.is_dir() { &below } else { &args.directory };
    let report = check(directory).map_err(|error| unusable(error, &args.directory))?;
    match args.output {
        StoreOutput::Text => {
            output::print(format!("{}\n", text::clean_lines(&describe(&report))).as_bytes())?;
        }
        StoreOutput::Json => output::print_json(&Report::new(&report))?,
    }
    Ok(ExitCode::from(u8::from(report.damage.is_some())))
}

fn unusable(error: BackendError, directory: &Path) -> CommandError {
    let hint = match &error {
        BackendError::Missing { .. } => Some("use the directory of `settled serve --data-dir`"),
        _ => None,
    };
    let error = CommandError::input_error(format!("cannot check {}", directory.display()), error);
    hint.into_iter().fold(error, CommandError::hint)
}

/// Remedy for damage.
fn remedy(report: &CheckReport) -> String {
    format!(
        "restore the directory from a backup, or move {} away to start empty; the last readable revision is {}",
        report.path.display(),
        report.last_revision
    )
}

fn describe(report: &CheckReport) -> String {
    let mut text = String::new();
    let state = if report.damage.is_some() { "damaged" } else { "ok" };
    let mut line = |name: &str, value: String| {
        // Writing to a text can't fail.
        let _infallible = writeln!(text, "{name:<12}{value}");
    };
    line("file", report.path.display().to_string());
    line("result", state.to_owned());
    line("format", report.format.to_string());
    line("revisions", format!("{}, history since {}", report.last_revision, report.compact_revision));
    line("objects", report.objects.to_string());
    line("records", format!("{} in {} batches", report.records, report.batches));
    line("bytes", format!("{}, of which {} are used", report.file_bytes, report.used_bytes));
    if report.damage.is_none() {
        line("sealed", format!("up to byte {}", report.sealed_bytes));
    }
    if let Some(dropped) = &report.unfinished {
        let what = "of a write that was never acknowledged; the next start drops them";
        line("unfinished", format!("{} bytes after revision {} {what}", dropped.bytes, dropped.revision));
    }
    if let Some(damage) = &report.damage {
        line("damage", damage.what.clone());
        line("remedy", remedy(report));
    }
    text
}

/// The keys of `-o json`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report<'a> {
    file: String,
    ok: bool,
    format: u32,
    last_revision: u64,
    compact_revision: u64,
    objects: u64,
    records: u64,
    batches: u64,
    file_bytes: u64,
    used_bytes: u64,
    sealed_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    unfinished_write: Option<Unfinished>,
    #[serde(skip_serializing_if = "Option::is_none")]
    damage: Option<Damage<'a>>,
}

#[derive(Serialize)]
struct Unfinished {
    bytes: u64,
    revision: u64,
}

#[derive(Serialize)]
struct Damage<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
    message: &'a str,
    remedy: String,
}

impl<'a> Report<'a> {
    fn new(report: &'a CheckReport) -> Self {
        Self {
            file: report.path.display().to_string(),
            ok: report.damage.is_none(),
            format: report.format,
            last_revision: report.last_revision.0,
            compact_revision: report.compact_revision.0,
            objects: report.objects,
            records: report.records,
            batches: report.batches,
            file_bytes: report.file_bytes,
            used_bytes: report.used_bytes,
            sealed_bytes: report.sealed_bytes,
            unfinished_write: report
                .unfinished
                .map(|dropped| Unfinished { bytes: dropped.bytes, revision: dropped.revision.0 }),
            damage: report.damage.as_ref().map(|damage| Damage {
                offset: damage.offset,
                message: &damage.what,
                remedy: remedy(report),
            }),
        }
    }
}
