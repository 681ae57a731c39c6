//! GitHub Actions: annotations in files, and a step summary in Markdown.

use std::fmt::Write as _;

use super::super::row::{Level, Report, Spot, State};
use crate::render::github::{ANNOTATIONS_MAX, SUMMARY_BYTES_MAX, data, markdown, property};
use crate::text;

/// An annotation for each finding, the most urgent first: GitHub shows ten of each level.
pub(in crate::netpol) fn commands(report: &Report, summary: &str) -> String {
    let mut out = String::new();
    let findings =
        || report.policies.iter().flat_map(|row| row.findings.iter().map(move |finding| (row, finding)));
    for level in [Level::Error, Level::Warning, Level::Note] {
        let command = if level == Level::Note { "notice" } else { level.as_str() };
        let found = || findings().filter(|(_, finding)| finding.level == level);
        for (row, finding) in found().take(ANNOTATIONS_MAX) {
            let mut properties = String::new();
            if let Some(source) = row.source.as_deref().filter(|source| *source != "-") {
                let _infallible = write!(properties, "file={},", property(&text::clean(source)));
                if let Some(Spot { line, column }) = finding.spot.or(row.spot) {
                    let _infallible = write!(properties, "line={line},col={column},");
                }
            }
            let title = format!("{} with {}: {}", row.policy(), row.provider, finding.rule);
            let _infallible = writeln!(
                out,
                "::{command} {properties}title={}::{}",
                property(&text::clean(&title)),
                data(&text::clean(&format!("{}: {}", finding.path, finding.message))),
            );
        }
        let more = found().count().saturating_sub(ANNOTATIONS_MAX);
        if more > 0 {
            let _infallible =
                writeln!(out, "::notice title=settled netpol check::{more} more of level {}", level.as_str());
        }
    }
    let _infallible = writeln!(out, "{}", text::clean(summary));
    out
}

/// The step summary.
pub(in crate::netpol) fn summary(report: &Report, summary: &str) -> String {
    let mut out = format!("### {}\n\n", markdown(summary));
    if report.policies.iter().all(|row| row.status == State::Accepted) {
        return out;
    }
    out.push_str(
        "| status | policy | provider | field | allows | message | place |\n|---|---|---|---|---|---|---|\n",
    );
    let mut left_out = 0;
    for row in report.policies.iter().filter(|row| row.status != State::Accepted) {
        let mut line = |path: &str, allows: &str, message: &str, spot: Option<Spot>| {
            let cells =
                [row.status.as_str(), &row.policy(), &row.provider, path, allows, message, &row.place(spot)];
            let cells: Vec<String> = cells.iter().map(|cell| markdown(cell)).collect();
            let line = format!("| {} |\n", cells.join(" | "));
            if out.len() + line.len() > SUMMARY_BYTES_MAX {
                left_out += 1;
            } else {
                out.push_str(&line);
            }
        };
        if row.findings.is_empty() {
            line("", "", &row.message, row.spot);
        }
        for finding in &row.findings {
            let allows = finding.allows.unwrap_or_default();
            line(&finding.path, allows, &finding.message, finding.spot.or(row.spot));
        }
    }
    if left_out > 0 {
        let _infallible = write!(out, "\n… and {left_out} more\n");
    }
    out
}
