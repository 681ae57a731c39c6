//! JUnit XML of `netpol check`: a test case per policy and provider.
//!
//! The form is that of waits, which strict and lenient readers accept: places stand in the text, since attributes for them are not in all schemas.

use std::fmt::Write as _;
use std::time::Duration;

use jiff::Timestamp;

use super::super::row::{PolicyRow, Report, State};
use crate::render::junit::{escaped, seconds};
use crate::text;

/// The whole document.
pub(in crate::netpol) fn document(
    report: &Report,
    now: Timestamp,
    elapsed: Duration,
    summary: &str,
) -> String {
    let count = |states: &[State]| states.iter().map(|state| report.count(*state)).sum::<u64>();
    let failures = count(&[State::Failure, State::PartialFailure, State::Changed]);
    let errors = count(&[State::Invalid, State::Unknown]);
    let mut cases = String::new();
    report.policies.iter().for_each(|row| case(row, &mut cases));
    let start = now.strftime("%Y-%m-%dT%H:%M:%S");
    let unread: Vec<String> = report
        .unread
        .iter()
        .map(|unread| text::clean(&format!("cannot read {}: {}", unread.objects, unread.reason)))
        .collect();
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  \
         <testsuite name=\"settled netpol check\" package=\"settled\" id=\"0\" hostname=\"localhost\" timestamp=\"{start}\" \
         tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"0\" time=\"{}\">\n    \
         <properties/>\n{cases}    <system-out>{}</system-out>\n    <system-err>{}</system-err>\n  \
         </testsuite>\n</testsuites>\n",
        report.policies.len(),
        failures,
        errors,
        seconds(elapsed),
        escaped(summary),
        escaped(&unread.join("\n")),
    )
}

fn case(row: &PolicyRow, out: &mut String) {
    let mut class: Vec<&str> = vec![&row.provider];
    if !row.namespace.is_empty() {
        class.push(&row.namespace);
    }
    class.push(row.kind);
    // Writing to a text cannot fail.
    let _infallible = write!(
        out,
        "    <testcase name=\"{}\" classname=\"{}\" time=\"0.000\"",
        escaped(&text::clean(&format!("{}/{}", row.kind, row.name))),
        escaped(&text::clean(&class.join("."))),
    );
    let element = match row.status {
        State::Accepted | State::Unchanged => return out.push_str("/>\n"),
        State::Failure | State::PartialFailure | State::Changed => "failure",
        State::Invalid | State::Unknown => "error",
    };
    let mut details = String::new();
    for finding in &row.findings {
        let place = row.place(finding.spot.or(row.spot));
        let separator = if place.is_empty() { "" } else { ": " };
        let line = format!("{place}{separator}{}: {} ({})", finding.path, finding.message, finding.rule);
        details.push_str(&text::clean(&line));
        details.push('\n');
    }
    let _infallible = write!(
        out,
        ">\n      <{element} type=\"{}\" message=\"{}\">{}</{element}>\n    </testcase>\n",
        escaped(&text::clean(row.reason)),
        escaped(&text::clean(&row.message)),
        escaped(&details),
    );
}
