//! JUnit XML: a test case per object.
//!
//! There is no one schema. This is what both the strict one of Ant's reports and the lenient one of Jenkins accept: no attributes on
//! `testsuites`, a time stamp without a zone, `properties`, `system-out` and `system-err` always there.

use std::collections::HashMap;
use std::time::Duration;

use settled_tracker::{ObjectId, Outcome, State, TargetReport};

use super::Ending;
use super::explain::Explain;
use crate::cause::Cause;
use crate::style::Palette;
use crate::text;

/// The whole document.
pub(crate) fn document(ending: &Ending<'_>) -> String {
    documents(&[suite(ending)])
}

/// A document of several suites.
pub(crate) fn documents(suites: &[String]) -> String {
    format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n{}</testsuites>\n", suites.concat())
}

/// The suite of a wait.
pub(crate) fn suite(ending: &Ending<'_>) -> String {
    let report = ending.report;
    let explain = Explain { palette: Palette::NONE, width: None, names: &ending.names, now: ending.now };
    let (mut failures, mut errors, mut skipped) = (0, 0, 0);
    let mut cases = String::new();
    for target in &report.targets {
        let kind = Kind::of(target, report.outcome);
        match kind {
            Kind::Passed => {}
            Kind::Failure => failures += 1,
            Kind::Error => errors += 1,
            Kind::Skipped => skipped += 1,
        }
        case(&mut cases, target, kind, &explain, ending.times, report.elapsed);
    }
    // Time stamps have no zone, and so are UTC.
    let start = ending.now - jiff::SignedDuration::try_from(report.elapsed).unwrap_or_default();
    let start = start.strftime("%Y-%m-%dT%H:%M:%S");
    let notices: Vec<String> = report.notices.iter().map(|notice| text::clean(&notice.message)).collect();
    format!(
        "  <testsuite name=\"settled wait\" package=\"settled\" id=\"0\" hostname=\"localhost\" timestamp=\"{start}\" \
         tests=\"{}\" failures=\"{failures}\" errors=\"{errors}\" skipped=\"{skipped}\" time=\"{}\">\n    \
         <properties/>\n{cases}    <system-out>{}</system-out>\n    <system-err>{}</system-err>\n  \
         </testsuite>\n",
        report.targets.len(),
        seconds(report.elapsed),
        escaped(&explain.summary(report)),
        escaped(&notices.join("\n")),
    )
}

/// Result of a test case.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Passed,
    /// The target failed, or was not done at the timeout.
    Failure,
    /// It could not be tested.
    Error,
    Skipped,
}

impl Kind {
    fn of(target: &TargetReport, outcome: Outcome) -> Self {
        match (target.state, outcome) {
            (State::Done, _) => Self::Passed,
            (State::Skipped, _) => Self::Skipped,
            (State::Failed, _) | (State::Waiting, Outcome::TimedOut | Outcome::Settled) => Self::Failure,
            // Nobody knows what would have become of it.
            (State::Waiting, Outcome::Failed) => Self::Skipped,
            (State::Waiting, Outcome::Unreachable | Outcome::Rejected | Outcome::Interrupted) => Self::Error,
        }
    }
}

fn case(
    out: &mut String,
    target: &TargetReport,
    kind: Kind,
    explain: &Explain<'_>,
    times: &HashMap<ObjectId, Duration>,
    total: Duration,
) {
    let object = &target.object;
    let time = times.get(object).copied().unwrap_or(total);
    // As packages are: the namespace, then the kind.
    let mut class: Vec<&str> = Vec::new();
    if !object.namespace.is_empty() {
        class.push(&object.namespace);
    }
    class.push(&object.kind);
    if !object.group.is_empty() {
        class.push(&object.group);
    }
    out.push_str(&format!(
        "    <testcase name=\"{}\" classname=\"{}\" time=\"{}\"",
        escaped(&text::clean(&object.to_string())),
        escaped(&text::clean(&class.join("."))),
        seconds(time)
    ));
    let element = match kind {
        Kind::Passed => return out.push_str("/>\n"),
        Kind::Failure => "failure",
        Kind::Error => "error",
        Kind::Skipped => {
            let why = if target.state == State::Skipped {
                "not waited for"
            } else {
                "the wait ended before it was done"
            };
            return out.push_str(&format!(">\n      <skipped message=\"{why}\"/>\n    </testcase>\n"));
        }
    };
    let cause = Cause::of(target);
    out.push_str(&format!(
        ">\n      <{element} type=\"{}\" message=\"{}\">{}</{element}>\n    </testcase>\n",
        escaped(&cause.reason),
        escaped(&cause.message),
        escaped(&explain.target(target)),
    ));
}

pub(crate) fn seconds(duration: Duration) -> String {
    format!("{}.{:03}", duration.as_secs(), duration.subsec_millis())
}

/// Text for XML, in elements and attributes. The few characters that XML can't have were spelled out before, or are replaced.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            '\n' => out.push('\n'),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            char if char.is_control() => out.extend(char.escape_unicode()),
            char => out.push(char),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use settled_tracker::Report;

    use super::*;
    use crate::names::Names;
    use crate::scenes;

    pub(super) fn xml(report: &Report) -> String {
        let names = Names::of(report.targets.iter().map(|target| &target.object));
        let times = [(scenes::id("Service", "web"), Duration::from_millis(12_300))].into();
        document(&Ending { report, names, times: &times, now: scenes::now() })
    }

    #[test]
    fn a_failed_wait_is_a_failed_test() {
        assert_snapshot!(xml(&scenes::failed_rollout()));
    }

    #[test]
    fn nothing_breaks_out_of_the_document() {
        let mut report = scenes::crash();
        report.targets[0].object = scenes::id("Job", "a\"/><x>&\u{0}\u{ffff}");
        let xml = xml(&report);
        assert!(
            !xml.contains("<x>")
                && !xml.contains('\u{0}')
                && !xml.contains('\u{ffff}')
                && !xml.contains('\u{1b}')
        );
        assert!(xml.contains(r"a&quot;/&gt;&lt;x&gt;&amp;\u{0}"), "{xml}");
    }
}
