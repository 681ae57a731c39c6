//! Why something isn't done, as text: the chain down to the root cause, and the evidence for it.

use std::collections::HashMap;

use jiff::Timestamp;
use kstatus::Status;
use settled_tracker::{
    Counts, EventNote, Explanation, LogTail, Notice, Outcome, Report, State, Step, TargetReport,
};

use crate::duration;
use crate::names::{self, Names};
use crate::style::{self, Palette};
use crate::text;

/// How many lines a message may take where the width is limited.
const MESSAGE_LINES_MAX: usize = 8;
/// How many lines an event may take there.
const EVENT_LINES_MAX: usize = 2;
/// How many causes of one object are told.
const CAUSES_MAX: usize = 3;
/// How many events of one cause are told, the latest.
const EVENTS_MAX: usize = 4;
/// How many objects with the same cause are named.
const NAMES_MAX: usize = 5;
/// How many objects are explained at length; of the others each has a line.
const EXPLAINED_MAX: usize = 10;
/// How many of the others.
const LISTED_MAX: usize = 100;

/// Puts objects together that aren't done for the same reason.
fn group<'r>(open: &[&'r TargetReport]) -> Vec<Vec<&'r TargetReport>> {
    // What is told of each object, without the names that differ.
    let key = |target: &TargetReport| {
        let mut key = format!("{:?} {} {}", target.state, target.object.group, target.object.kind);
        for cause in &target.causes {
            for step in &cause.chain {
                key.push_str(&format!(" {} {} {}", step.object.kind, step.status, step.reason));
            }
        }
        format!(
            "{key} {} {} {}",
            target.verdict.status,
            target.verdict.reason,
            target.note.as_deref().unwrap_or_default()
        )
    };
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut groups: Vec<Vec<&TargetReport>> = Vec::new();
    for target in open {
        let place = *places.entry(key(target)).or_insert(groups.len());
        match groups.get_mut(place) {
            Some(group) => group.push(target),
            None => groups.push(vec![target]),
        }
    }
    groups
}

/// Takes a column where a label will be: no space, at which lines break, and for private use.
const STAND_IN: char = '\u{e000}';

/// How explanations look.
#[derive(Clone, Debug)]
pub(crate) struct Explain<'a> {
    pub(crate) palette: Palette,
    /// How many columns there are, if that is limited.
    pub(crate) width: Option<usize>,
    pub(crate) names: &'a Names,
    /// What ages count from.
    pub(crate) now: Timestamp,
}

impl Explain<'_> {
    /// All that isn't done, and how it ended in one line.
    pub(crate) fn report(&self, report: &Report) -> String {
        let mut out = self.open(&report.targets);
        if !out.is_empty() {
            out.push('\n');
        }
        out.push_str(&self.summary(report));
        out.push('\n');
        out
    }

    /// All that isn't done, what has failed first.
    pub(crate) fn open(&self, targets: &[TargetReport]) -> String {
        let mut out = String::new();
        let mut open: Vec<&TargetReport> = targets.iter().filter(|target| is_open(target)).collect();
        open.sort_by_key(|target| target.state);
        let groups = group(&open);
        for (at, alike) in groups.iter().enumerate().take(EXPLAINED_MAX) {
            let Some((target, others)) = alike.split_first() else { continue };
            if at > 0 {
                out.push('\n');
            }
            out.push_str(&self.target(target));
            if !others.is_empty() {
                self.alike(&mut out, target, others);
            }
        }
        let rest: Vec<&TargetReport> = groups.iter().skip(EXPLAINED_MAX).flatten().copied().collect();
        if !rest.is_empty() {
            out.push('\n');
        }
        for target in rest.iter().take(LISTED_MAX) {
            let line = format!("{}  {}", self.headline(target), text::clean(&target.verdict.message));
            self.line(&mut out, &line);
        }
        if let Some(more) = rest.len().checked_sub(LISTED_MAX).filter(|more| *more > 0) {
            out.push_str(&format!("… and {more} more\n"));
        }
        out
    }

    /// `so are 11 others: Pod/p2, Pod/p3, …`
    fn alike(&self, out: &mut String, first: &TargetReport, others: &[&TargetReport]) {
        let names: Vec<String> =
            others.iter().take(NAMES_MAX).map(|other| self.names.name(&other.object)).collect();
        let more = match others.len().saturating_sub(names.len()) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let line =
            format!("the same for {} other {}s: {}{more}", others.len(), first.object.kind, names.join(", "));
        self.paragraph(out, 2, "", &line);
    }

    /// One object, its causes and their evidence.
    pub(crate) fn target(&self, target: &TargetReport) -> String {
        let mut out = String::new();
        self.line(&mut out, &self.headline(target));
        let verdict = &target.verdict;
        self.paragraph(&mut out, 4, "", &verdict.message);
        if let Some(note) = &target.note {
            self.paragraph(&mut out, 4, "", note);
        }
        for cause in target.causes.iter().take(CAUSES_MAX) {
            self.cause(&mut out, cause, &verdict.message);
        }
        if let Some(more) = target.causes.len().checked_sub(CAUSES_MAX).filter(|more| *more > 0) {
            out.push_str(&format!("  … and {}\n", text::plural(more as u64, "other cause")));
        }
        out
    }

    /// How it ended, with counts.
    pub(crate) fn summary(&self, report: &Report) -> String {
        let (state, words) = match report.outcome {
            Outcome::Settled => (State::Done, "settled"),
            Outcome::Failed => (State::Failed, "failed"),
            Outcome::TimedOut => (State::Failed, "timed out"),
            Outcome::Unreachable => (State::Failed, "gave up"),
            Outcome::Rejected => (State::Failed, "rejected"),
            Outcome::Interrupted => (State::Failed, "interrupted"),
        };
        let words = self.palette.state(state, &format!("{} {words}", style::mark(state)));
        let place = self.names.namespace().map(|name| format!(" in {name}")).unwrap_or_default();
        format!("{words} after {}{place}: {}", duration::elapsed(report.elapsed), counts(&report.counts))
    }

    /// `✗ Deployment/web  InProgress  LessReady  for 2m10s`
    pub(crate) fn headline(&self, target: &TargetReport) -> String {
        let verdict = &target.verdict;
        let mark = self.palette.state(target.state, style::mark(target.state));
        let name = self.palette.heading(&self.names.name(&target.object));
        let since = target.since.map(|since| self.since(since)).unwrap_or_default();
        format!("{mark} {name}  {}{since}", self.verdict(verdict.status, &verdict.reason))
    }

    fn verdict(&self, status: Status, reason: &str) -> String {
        let status_word = self.palette.status(status, status.as_str());
        let reason = text::clean(reason);
        if reason.is_empty() || reason == status.as_str() {
            status_word
        } else {
            format!("{status_word}  {reason}")
        }
    }

    fn since(&self, then: Timestamp) -> String {
        self.palette.dim(&format!("  for {}", duration::age(names::since(then, self.now))))
    }

    fn cause(&self, out: &mut String, cause: &Explanation, told: &str) {
        let mut indent = 2;
        let mut told = told;
        // The first is the target itself, which has its line already.
        for step in cause.chain.iter().skip(1) {
            self.step(out, indent, step, told);
            told = &step.message;
            indent += 2;
        }
        indent += 2;
        let last = cause.chain.last();
        if cause.count > 1 {
            self.others(out, indent, cause, last);
        }
        let hidden = cause.events.len().saturating_sub(EVENTS_MAX);
        for event in cause.events.iter().skip(hidden) {
            self.event(out, indent, event, last);
        }
        for log in &cause.logs {
            self.log(out, indent, log, last);
        }
        for remark in &cause.remarks {
            self.paragraph(out, indent, "", remark);
        }
        for (at, next) in cause.next.iter().enumerate() {
            let label = if at == 0 { self.palette.hint("next: ") } else { " ".repeat(6) };
            self.paragraph(out, indent, &label, next);
        }
    }

    /// `→ Pod/web-5d9  Failed  ImagePullBackOff  for 95s, 4 times`
    fn step(&self, out: &mut String, indent: usize, step: &Step, told: &str) {
        let link = if step.link.is_empty() || step.link == "owns" {
            String::new()
        } else {
            self.palette.dim(&format!("{} ", step.link))
        };
        let since = step.since.map(|since| self.since(since)).unwrap_or_default();
        let times = match step.times {
            Some(times) if times > 1 => self.palette.dim(&format!("  {times} times")),
            _ => String::new(),
        };
        let line = format!(
            "{}→ {link}{}  {}{since}{times}",
            " ".repeat(indent),
            self.names.name(&step.object),
            self.verdict(step.status, &step.reason)
        );
        self.line(out, &line);
        if step.message != told {
            self.paragraph(out, indent + 4, "", &step.message);
        }
    }

    /// `3 Pods: web-a, web-b, web-c`
    fn others(&self, out: &mut String, indent: usize, cause: &Explanation, last: Option<&Step>) {
        let kind = last.map_or("object", |step| &*step.object.kind);
        let own = last.map(|step| step.object.name.to_string());
        let mut shown: Vec<String> = own.into_iter().chain(cause.others.iter().cloned()).collect();
        shown.dedup();
        shown.truncate(NAMES_MAX);
        let more = cause.count.saturating_sub(shown.len());
        let mut line = format!("{} {kind}s: {}", cause.count, shown.join(", "));
        if more > 0 {
            line.push_str(&format!(" and {more} more"));
        }
        self.paragraph(out, indent, "", &line);
    }

    fn event(&self, out: &mut String, indent: usize, event: &EventNote, last: Option<&Step>) {
        let age = match event.last.or(event.first) {
            Some(then) => format!("{} ago", duration::age(names::since(then, self.now))),
            None => "some time ago".to_owned(),
        };
        let times = if event.count > 1 { format!(", {} times", event.count) } else { String::new() };
        let label = self.palette.dim(&format!("{age}{times}: "));
        let about = if last.is_some_and(|step| step.object == event.object) {
            String::new()
        } else {
            format!("{}: ", self.names.name(&event.object))
        };
        let text = format!("{about}{}: {}", event.reason, event.message);
        self.hanging(out, indent, 2, &label, &text, EVENT_LINES_MAX);
    }

    fn log(&self, out: &mut String, indent: usize, log: &LogTail, last: Option<&Step>) {
        if let Some(error) = &log.error {
            let line =
                format!("the log of container {} cannot be read: {error}", text::clean(&log.container));
            return self.paragraph(out, indent, "", &line);
        }
        if log.lines.is_empty() {
            return;
        }
        let pod = if last.is_some_and(|step| step.object == log.pod) {
            String::new()
        } else {
            format!(" of {}", self.names.name(&log.pod))
        };
        let run = if log.previous { ", before its restart" } else { "" };
        let head = format!("last lines of container {}{pod}{run}", text::clean(&log.container));
        self.paragraph(out, indent, "", &head);
        let bar = format!("{}{} ", " ".repeat(indent), self.palette.dim("│"));
        let columns = self.width.map_or(usize::MAX, |width| width.saturating_sub(indent + 2).max(1));
        for line in &log.lines {
            let line = text::clean_lines(&line.replace('\t', "    "));
            for line in line.lines() {
                let (line, _) = text::truncate(line, columns);
                out.push_str(format!("{bar}{line}").trim_end());
                out.push('\n');
            }
        }
    }

    /// A line that may already be painted: it is not cut.
    #[expect(clippy::unused_self, reason = "as the others")]
    fn line(&self, out: &mut String, line: &str) {
        out.push_str(line.trim_end());
        out.push('\n');
    }

    /// Text after a label, further lines below the text.
    fn paragraph(&self, out: &mut String, indent: usize, label: &str, message: &str) {
        self.hanging(out, indent, printed_width(label), label, message, MESSAGE_LINES_MAX);
    }

    /// Text after a label, further lines by `hang` columns to the right of the first.
    fn hanging(
        &self,
        out: &mut String,
        indent: usize,
        hang: usize,
        label: &str,
        message: &str,
        lines_max: usize,
    ) {
        let message = text::clean(message);
        if message.is_empty() {
            return;
        }
        // The label takes its room in the first line, as a word that is put back afterwards.
        let blank = STAND_IN.to_string().repeat(printed_width(label).saturating_sub(hang));
        let lines = match self.width {
            None => vec![message],
            Some(width) => {
                // Where hardly anything fits, a line too long is better than a tower of syllables.
                let columns = width.saturating_sub(indent + hang).max(16);
                text::wrap(&format!("{blank}{message}"), columns, lines_max).0
            }
        };
        for (at, line) in lines.iter().enumerate() {
            out.push_str(&" ".repeat(if at == 0 { indent } else { indent + hang }));
            if at == 0 {
                out.push_str(label);
            }
            out.push_str(line.trim_start_matches(STAND_IN));
            out.push('\n');
        }
    }
}

/// How many columns text takes, its colours aside.
fn printed_width(text: &str) -> usize {
    text::width(&anstream::adapter::strip_str(text).to_string())
}

/// Whether there is something to explain.
pub(crate) fn is_open(target: &TargetReport) -> bool {
    matches!(target.state, State::Failed | State::Waiting)
}

/// `1 failed, 2 not done, 13 of 16 done`
pub(crate) fn counts(counts: &Counts) -> String {
    let Counts { total, done, waiting, failed, skipped } = *counts;
    let mut parts = Vec::new();
    if failed > 0 {
        parts.push(format!("{failed} failed"));
    }
    if waiting > 0 {
        parts.push(format!("{waiting} not done"));
    }
    parts.push(format!("{done} of {total} done"));
    if skipped > 0 {
        parts.push(format!("{skipped} not waited for"));
    }
    parts.join(", ")
}

/// A notice as lines: what is the matter, and what would help.
pub(crate) fn notice(notice: &Notice, palette: Palette) -> Vec<String> {
    let mut lines = vec![format!("{} {}", palette.warning("warning:"), text::clean(&notice.message))];
    if let Some(remedy) = &notice.remedy {
        lines.push(format!("{} {}", palette.hint("hint:"), text::clean(remedy)));
    }
    lines
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::scenes;

    fn explained(report: &Report, width: Option<usize>, palette: Palette) -> String {
        let names = Names::of(report.targets.iter().map(|target| &target.object));
        Explain { palette, width, names: &names, now: scenes::now() }.report(report)
    }

    #[test]
    fn a_failing_rollout_is_explained_on_one_screen() {
        let text = explained(&scenes::failed_rollout(), Some(80), Palette::NONE);
        assert!(text.lines().count() < 24, "{text}");
        assert_snapshot!(text);
    }

    #[test]
    fn in_a_pipe_nothing_is_cut() {
        assert_snapshot!(explained(&scenes::failed_rollout(), None, Palette::NONE));
    }

    #[test]
    fn a_narrow_terminal_gets_all_of_it() {
        assert_snapshot!(explained(&scenes::failed_rollout(), Some(36), Palette::NONE));
    }

    #[test]
    fn crashes_show_their_last_words_and_hostile_ones_are_harmless() {
        let text = explained(&scenes::crash(), Some(80), Palette::NONE);
        assert!(!text.contains('\u{1b}'));
        assert_snapshot!(text);
    }

    #[test]
    fn colours_say_what_words_say() {
        let painted = explained(&scenes::failed_rollout(), Some(80), Palette::ALL);
        let plain = explained(&scenes::failed_rollout(), Some(80), Palette::NONE);
        assert_eq!(anstream::adapter::strip_str(&painted).to_string(), plain);
        assert!(painted.contains("\u{1b}["));
    }

    #[test]
    fn hundreds_of_objects_are_listed() {
        let text = explained(&scenes::many(230), None, Palette::NONE);
        let lines: Vec<&str> = text.lines().collect();
        assert_snapshot!([&lines[..3], &["[…]"], &lines[lines.len() - 4..]].concat().join("\n"));
    }

    #[test]
    fn what_is_settled_needs_one_line() {
        assert_snapshot!(explained(&scenes::settled(), Some(80), Palette::NONE), @"✓ settled after 12.3s in shop: 3 of 4 done, 1 not waited for");
    }
}
