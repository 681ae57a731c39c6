//! GitHub Actions: annotations as workflow commands, and a step summary in Markdown.

use std::hash::{BuildHasher as _, RandomState};

use kstatus::Status;
use settled_tracker::{Outcome, State, TargetReport};

use super::Ending;
use super::explain::{self, Explain};
use crate::cause::{Cause, Urgency};
use crate::duration;
use crate::style::{self, Palette};
use crate::text;

/// GitHub shows no more annotations of a step than these.
pub(crate) const ANNOTATIONS_MAX: usize = 10;
/// A step summary may have 1 MiB.
pub(crate) const SUMMARY_BYTES_MAX: usize = 1_000_000;

/// What goes to the log: the explanation, in which nothing is taken for a command, and a command per object that isn't done.
pub(crate) fn commands(ending: &Ending<'_>) -> String {
    // The author of a log or a message can't know it.
    let token = format!("settled-{:016x}", RandomState::new().hash_one(ending.now));
    let explain = explanation(ending);
    let mut out = format!("::stop-commands::{token}\n{}::{token}::\n", explain.report(ending.report));
    let open = ending.report.targets.iter().filter(|target| explain::is_open(target));
    let mut open: Vec<&TargetReport> = open.collect();
    open.sort_by_key(|target| Cause::of(target).urgency);
    for target in open.iter().take(ANNOTATIONS_MAX) {
        let cause = Cause::of(target);
        let (command, words) = match cause.urgency {
            Urgency::Failed => ("error", "failed"),
            // Only a timeout makes it an error; after an interruption, the outcome is unknown.
            _ if ending.report.outcome == Outcome::TimedOut => ("error", "is not done"),
            Urgency::Failing | Urgency::Blocked => ("warning", "is not done"),
            Urgency::Waiting | Urgency::NotObserved => ("notice", "is not done"),
        };
        let title = format!("{} {words}: {}", ending.names.name(&target.object), cause.reason);
        out.push_str(&format!(
            "::{command} title={}::{}\n",
            property(&title),
            data(explain.target(target).trim_end())
        ));
    }
    for notice in ending.report.notices.iter().take(ANNOTATIONS_MAX) {
        let remedy = notice.remedy.as_deref().map(|remedy| format!("\n{remedy}")).unwrap_or_default();
        out.push_str(&format!(
            "::warning title=settled wait::{}\n",
            data(&text::clean_lines(&format!("{}{remedy}", notice.message)))
        ));
    }
    out
}

/// The step summary.
pub(crate) fn summary(ending: &Ending<'_>) -> String {
    let explain = explanation(ending);
    let mut out = format!("### {}\n\n", markdown(&explain.summary(ending.report)));
    out.push_str("| | object | status | reason | message | time |\n|---|---|---|---|---|---|\n");
    let mut targets: Vec<&TargetReport> = ending.report.targets.iter().collect();
    targets.sort_by_key(|target| target.state);
    let mut left_out = 0;
    for target in &targets {
        let (reason, message) = match target.state {
            State::Done => (target.verdict.reason.to_string(), String::new()),
            _ => {
                let cause = Cause::of(target);
                (cause.reason, cause.message)
            }
        };
        let status = if target.state == State::Failed { Status::Failed } else { target.verdict.status };
        let time = ending.times.get(&target.object).map(|time| duration::format(*time)).unwrap_or_default();
        let row = format!(
            "| {} | {} | {} | {} | {} | {time} |\n",
            style::mark(target.state),
            markdown(&ending.names.name(&target.object)),
            status,
            markdown(&reason),
            markdown(&message),
        );
        if out.len() + row.len() > SUMMARY_BYTES_MAX / 2 {
            left_out += 1;
        } else {
            out.push_str(&row);
        }
    }
    if left_out > 0 {
        out.push_str(&format!("\n… and {left_out} more\n"));
    }
    for target in targets.iter().filter(|target| explain::is_open(target)) {
        let text = explain.target(target);
        // A fence longer than any in it.
        let fence = "`".repeat(longest_run(&text, '`').max(2) + 1);
        let name = html(&ending.names.name(&target.object));
        let block = format!(
            "\n<details open><summary>{name}</summary>\n\n{fence}text\n{text}{fence}\n\n</details>\n"
        );
        if out.len() + block.len() > SUMMARY_BYTES_MAX {
            break;
        }
        out.push_str(&block);
    }
    out
}

fn explanation<'a>(ending: &'a Ending<'_>) -> Explain<'a> {
    Explain { palette: Palette::NONE, width: None, names: &ending.names, now: ending.now }
}

/// The text of a workflow command.
pub(crate) fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// A property of a workflow command.
pub(crate) fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

/// Text in a table's cell, in which nothing is markup.
pub(crate) fn markdown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text::clean(text).chars() {
        match char {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '#' | '@' | '!' => {
                out.push('\\');
                out.push(char);
            }
            _ => out.push(char),
        }
    }
    out
}

fn html(text: &str) -> String {
    text::clean(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn longest_run(text: &str, wanted: char) -> usize {
    let mut longest = 0;
    let mut run = 0;
    for char in text.chars() {
        run = if char == wanted { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    longest
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use insta::assert_snapshot;
    use settled_tracker::Report;

    use super::*;
    use crate::names::Names;
    use crate::scenes;

    fn shown(report: &Report, show: fn(&Ending<'_>) -> String) -> String {
        let names = Names::of(report.targets.iter().map(|target| &target.object));
        let times = [(scenes::id("Service", "web"), Duration::from_millis(12_300))].into();
        show(&Ending { report, names, times: &times, now: scenes::now() })
    }

    #[test]
    fn what_is_not_done_is_annotated() {
        let text = shown(&scenes::failed_rollout(), commands);
        let token = text.lines().next().unwrap().strip_prefix("::stop-commands::").unwrap();
        let text = text.replace(token, "[TOKEN]");
        assert_snapshot!(text.split_once("::[TOKEN]::\n").unwrap().1);
        assert!(text.starts_with("::stop-commands::[TOKEN]\n✗ Deployment/web"));
    }

    #[test]
    fn logs_are_no_commands() {
        let text = shown(&scenes::crash(), commands);
        let token = text.lines().next().unwrap().strip_prefix("::stop-commands::").unwrap();
        let (quiet, after) = text.split_once(&format!("\n::{token}::\n")).unwrap();
        assert!(quiet.contains("::error::not a command"));
        assert_eq!(after.lines().filter(|line| line.starts_with("::error")).count(), 1, "{after}");
        assert_ne!(text, shown(&scenes::crash(), commands), "the token is another each time");
    }

    #[test]
    fn the_summary_is_markdown() {
        assert_snapshot!(shown(&scenes::failed_rollout(), summary));
    }

    #[test]
    fn nothing_in_it_is_markup() {
        assert_eq!(
            markdown("<img src=x> `a` *b* [c](d) e|f @you\n# g"),
            r"&lt;img src=x> \`a\` \*b\* \[c\](d) e\|f \@you \# g"
        );
        assert_eq!(property("a: 50%, b\n"), "a%3A 50%25%2C b%0A");
        let mut report = scenes::crash();
        report.targets[0].causes[0].logs[0].lines = vec!["````".to_owned()];
        let text = shown(&report, summary);
        assert!(text.contains("\n`````text\n"), "{text}");
    }

    #[test]
    fn a_summary_has_its_limit() {
        let text = shown(&scenes::many(20_000), summary);
        assert!(text.len() <= SUMMARY_BYTES_MAX);
        assert!(text.contains(" more\n"));
    }
}
