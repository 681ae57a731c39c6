//! Report of a rehearsal: the wait and the findings, in all formats.

use std::fmt::Write as _;
use std::io::Write as _;

use serde::Serialize;
use serde_json::{Value, json};
use settled_rehearsal::findings::{Check, Finding, Severity};

use super::sources::Source;
use crate::cli::args::ReportFormat;
use crate::cli::rehearse::RehearseOutput;
use crate::error::CommandError;
use crate::output;
use crate::progress::Ended;
use crate::render::github::{ANNOTATIONS_MAX, data, markdown, property};
use crate::render::{github, json_line, junit, sarif};
use crate::stderr;
use crate::style::Palette;
use crate::text;
use crate::wait::ReportTo;

/// A finding and its place.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Row {
    #[serde(flatten)]
    finding: Finding,
    /// `Deployment shop/web`; empty for what is about no object.
    #[serde(skip_serializing_if = "String::is_empty")]
    object: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<u64>,
}

impl Row {
    /// With the places of the sources.
    pub(super) fn new(finding: Finding, sources: &[Source]) -> Self {
        let source = finding.manifest.and_then(|index| sources.get(index));
        let place = source.and_then(|source| source.place(&finding.field));
        Self {
            object: source.map(|source| source.manifest.describe()).unwrap_or_default(),
            source: source.map(|source| source.file.to_string()),
            line: place.map(|place| place.line),
            column: place.map(|place| place.column),
            finding,
        }
    }

    pub(super) fn is_error(&self) -> bool {
        self.finding.severity == Severity::Error
    }

    /// An error beside those that the outcome of the wait stands for.
    pub(super) fn fails(&self) -> bool {
        self.is_error()
            && !matches!(self.finding.check, Check::Unfinished | Check::Unschedulable | Check::ExceededQuota)
    }

    /// `k8s/web.yaml:12:5`.
    fn place(&self) -> String {
        let Some(source) = &self.source else { return String::new() };
        let source = if source == "-" { "standard input" } else { source };
        match self.line.zip(self.column) {
            Some((line, column)) => format!("{source}:{line}:{column}"),
            None => source.to_owned(),
        }
    }

    /// The object, the field and the message.
    fn text(&self) -> String {
        let Finding { field, message, .. } = &self.finding;
        let parts = [&*self.object, field, message];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        text::clean(&parts.join(": "))
    }

    /// Lines for people.
    fn lines(&self, palette: Palette) -> String {
        let severity = self.finding.severity.as_str();
        let painted = match self.finding.severity {
            Severity::Error => palette.error(severity),
            Severity::Warning => palette.warning(severity),
            Severity::Note => palette.hint(severity),
        };
        let place = self.place();
        let place = if place.is_empty() { place } else { format!("{place}: ") };
        let mut lines = format!("{place}{painted}: {} ({})", self.text(), self.finding.check.id());
        if let Some(remedy) = &self.finding.remedy {
            let _infallible = write!(lines, "\n  {}: {}", palette.hint("hint"), text::clean(remedy));
        }
        lines
    }
}

/// Writes what goes beside the report of the wait, and for formats of one document the whole.
pub(super) fn write(
    format: RehearseOutput,
    quiet: bool,
    ended: &Ended,
    rows: &[Row],
    (exit_code, unread): (u8, usize),
) -> Result<(), CommandError> {
    if matches!(format, RehearseOutput::Text | RehearseOutput::Json) {
        print(rows, quiet);
        incomplete(unread);
    }
    write_document(format, ended, rows, (exit_code, unread))
}

/// Writes the report for programs.
pub(super) fn write_document(
    format: RehearseOutput,
    ended: &Ended,
    rows: &[Row],
    (exit_code, unread): (u8, usize),
) -> Result<(), CommandError> {
    let ending = &ended.ending();
    match format {
        RehearseOutput::Text => Ok(()),
        RehearseOutput::Jsonl => output::print(&events(rows)),
        RehearseOutput::Json => output::print_json(&document(ended, rows, unread)),
        RehearseOutput::Junit => output::print(suites(ended, rows).as_bytes()),
        RehearseOutput::Github => {
            output::print((github::commands(ending) + &commands(rows)).as_bytes())?;
            output::append_step_summary(&(github::summary(ending) + &summary(rows)))
        }
        RehearseOutput::Sarif => output::print_json(&log(rows, exit_code)),
    }
}

/// Writes the files of `--report`. That of JSON lines has the events of the wait, and gets those of the findings.
pub(super) fn write_files(
    files: Vec<ReportTo>,
    ended: &Ended,
    rows: &[Row],
    unread: usize,
) -> Result<(), CommandError> {
    for (format, path, mut file) in files {
        let text = match format {
            ReportFormat::Junit => suites(ended, rows).into_bytes(),
            ReportFormat::Github => (github::summary(&ended.ending()) + &summary(rows)).into_bytes(),
            ReportFormat::Json => json_line(&document(ended, rows, unread)),
            ReportFormat::Jsonl => events(rows),
        };
        let written = file.write_all(&text);
        written.map_err(|error| CommandError::output(format!("cannot write {path}"), error))?;
    }
    Ok(())
}

/// The report of the wait, with the findings.
fn document(ended: &Ended, rows: &[Row], unread: usize) -> Value {
    let mut report = json!(&ended.report);
    report["findings"] = json!(rows);
    report["complete"] = json!(unread == 0);
    report
}

/// The test cases of the wait and of the findings.
fn suites(ended: &Ended, rows: &[Row]) -> String {
    junit::documents(&[junit::suite(&ended.ending()), suite(rows)])
}

/// An event for each finding.
fn events(rows: &[Row]) -> Vec<u8> {
    rows.iter().flat_map(|row| json_line(&json!({"event": "finding", "finding": row}))).collect()
}

/// Findings for people, on standard error, the worst last: that is what stays on the screen.
fn print(rows: &[Row], quiet: bool) {
    let palette = Palette::stderr();
    for row in rows.iter().rev() {
        if !quiet || row.is_error() {
            stderr::print_line(&row.lines(palette));
        }
    }
}

/// Says beside the verdict that it is not about everything.
fn incomplete(unread: usize) {
    if unread > 0 {
        let many = if unread == 1 { "kind" } else { "kinds" };
        let warning = Palette::stderr().warning("warning");
        stderr::print_line(&format!(
            "{warning}: the rehearsal is incomplete: {unread} {many} of objects of the cluster could not be read"
        ));
    }
}

/// All findings as lines, the worst last.
pub(super) fn lines(rows: &[Row], palette: Palette) -> String {
    rows.iter().rev().map(|row| row.lines(palette) + "\n").collect()
}

fn suite(rows: &[Row]) -> String {
    let mut cases = String::new();
    let failures = rows.iter().filter(|row| row.is_error()).count();
    for row in rows {
        let name = junit::escaped(&format!("{} {}", row.finding.check.id(), row.object));
        let _infallible =
            write!(cases, "    <testcase name=\"{name}\" classname=\"findings\" time=\"0.000\"");
        let details = junit::escaped(&format!("{}: {}", row.place(), row.text()));
        let _infallible = match row.is_error() {
            true => write!(
                cases,
                ">\n      <failure type=\"{}\" message=\"{}\">{details}</failure>\n    </testcase>\n",
                row.finding.check.id(),
                junit::escaped(&text::clean(&row.finding.message)),
            ),
            false => writeln!(cases, ">\n      <system-out>{details}</system-out>\n    </testcase>"),
        };
    }
    format!(
        "  <testsuite name=\"settled rehearse findings\" package=\"settled\" id=\"1\" hostname=\"localhost\" timestamp=\"1970-01-01T00:00:00\" \
         tests=\"{}\" failures=\"{failures}\" errors=\"0\" skipped=\"0\" time=\"0.000\">\n    \
         <properties/>\n{cases}    <system-out></system-out>\n    <system-err></system-err>\n  \
         </testsuite>\n",
        rows.len(),
    )
}

fn commands(rows: &[Row]) -> String {
    let mut out = String::new();
    for severity in [Severity::Error, Severity::Warning, Severity::Note] {
        let command = if severity == Severity::Note { "notice" } else { severity.as_str() };
        let found = rows.iter().filter(|row| row.finding.severity == severity);
        for row in found.take(ANNOTATIONS_MAX) {
            let mut properties = String::new();
            if let Some(source) = row.source.as_deref().filter(|source| *source != "-") {
                let _infallible = write!(properties, "file={},", property(&text::clean(source)));
                if let Some((line, column)) = row.line.zip(row.column) {
                    let _infallible = write!(properties, "line={line},col={column},");
                }
            }
            let title = property(&format!("settled rehearse: {}", row.finding.check.id()));
            let _infallible = writeln!(out, "::{command} {properties}title={title}::{}", data(&row.text()));
        }
    }
    out
}

fn summary(rows: &[Row]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut out = "\n| | finding | place |\n|---|---|---|\n".to_owned();
    for row in rows {
        let cells = [row.finding.severity.as_str(), &row.text(), &row.place()].map(markdown);
        let _infallible = writeln!(out, "| {} |", cells.join(" | "));
    }
    out
}

fn log(rows: &[Row], exit_code: u8) -> Value {
    let found = |check: &Check| rows.iter().any(|row| row.finding.check == *check);
    let checks: Vec<Check> = Check::ALL.iter().copied().filter(found).collect();
    let rules: Vec<(&str, String)> =
        checks.iter().map(|check| (check.id(), check.title().to_owned())).collect();
    let results = rows.iter().map(|row| {
        let Finding { check, severity, field, .. } = &row.finding;
        sarif::Result {
            rule: check.id(),
            level: severity.as_str(),
            message: row.text(),
            path: field,
            object: &row.object,
            source: row.source.as_deref(),
            place: row.line.zip(row.column),
            fingerprint: format!("{}|{field}|{}", row.object, check.id()),
            properties: json!({}),
        }
    });
    sarif::log("settled rehearse", exit_code, &rules, results, json!({}))
}
