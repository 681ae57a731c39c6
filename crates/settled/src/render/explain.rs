//! Explanations as text: the chain down to the root cause, its evidence, and how a wait ended.

use std::collections::HashMap;

use anstyle::Style;
use jiff::Timestamp;
use kstatus::{FailureClass, Status};
use settled_tracker::report::{Counts, EventNote, Explanation, Link, LogTail, Notice, Step, Unmatched};
use settled_tracker::{ObjectId, Outcome, Report, State, TargetReport};

use super::chains::Chains;
use super::spans::Spans;
use crate::cause::{self, Cause};
use crate::duration;
use crate::names::{self, Names};
use crate::style::{self, Palette};
use crate::text;

/// How many lines a message may take where the width is limited.
const MESSAGE_LINES_MAX: usize = 8;
/// How many lines an event may take there.
const EVENT_LINES_MAX: usize = 2;
/// Maximum number of causes per object.
const CAUSES_MAX: usize = 3;
/// Maximum number of events per cause, the latest ones.
const EVENTS_MAX: usize = 4;
/// How many objects with the same cause are named.
const NAMES_MAX: usize = 5;
/// How many objects are explained at length; of the others each has a line.
const EXPLAINED_MAX: usize = 10;
/// How many of the others.
const LISTED_MAX: usize = 100;

/// Puts objects together that aren't done for the same reason.
fn group<'r>(open: &[&'r TargetReport]) -> Vec<Vec<&'r TargetReport>> {
    // What is written of each object, without what differs between those of one cause: names, ages, restarts.
    let key = |target: &TargetReport| {
        let mut key = format!("{:?} {} {}", target.state, target.object.group, target.object.kind);
        for cause in &target.causes {
            for step in &cause.chain {
                key.push_str(&format!(" {} {} {}", step.object.kind, step.status, step.reason));
            }
        }
        let cause = Cause::of(target);
        let message = if cause.class == Some(FailureClass::Crash) { "" } else { &*cause.message };
        format!("{key} {} {} {message}", target.verdict.status, cause.reason)
    };
    let mut places: HashMap<String, usize> = HashMap::new();
    // By the targets whose causes others share.
    let mut by_first: HashMap<&ObjectId, usize> = HashMap::new();
    let mut groups: Vec<Vec<&TargetReport>> = Vec::new();
    for target in open {
        let shared = target.same_as.as_ref().and_then(|first| by_first.get(first).copied());
        let place = shared.unwrap_or_else(|| *places.entry(key(target)).or_insert(groups.len()));
        if target.same_as.is_none() {
            by_first.insert(&target.object, place);
        }
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
    /// Reference time of ages.
    pub(crate) now: Timestamp,
}

impl Explain<'_> {
    /// All that isn't done, and how it ended with the first cause of it, which so stays on the smallest screen.
    pub(crate) fn report(&self, report: &Report) -> String {
        let mut out = self.open(&report.targets);
        if !out.is_empty() {
            out.push('\n');
        }
        self.spans(&mut out, 0, 2, &self.closing(report));
        out
    }

    /// `✗ failed after 26s in shop (0/1 done): Deployment/web: ImagePullBackOff: cannot pull "web:2"`
    fn closing(&self, report: &Report) -> Spans {
        let (state, words, rest) = self.outcome(report);
        let mut line = Spans::new();
        line.push(style::state_style(state), &words);
        let open = || report.targets.iter().filter(|target| is_open(target));
        let Some(first) = open().min_by_key(|target| Cause::of(target).urgency) else {
            line.plain(&format!("{rest}: {}", totals(report)));
            return line;
        };
        line.plain(&format!("{rest} ({}): ", counts(&report.counts)));
        line.push(Style::new().bold(), &self.names.name(&first.object));
        line.plain(&format!(": {}", Cause::of(first).sentence()));
        let same = open().filter(|other| other.state == first.state).count();
        if let Some(same) = same.checked_sub(1).filter(|same| *same > 0) {
            let words = if first.state == State::Failed { "failed" } else { "not done" };
            line.plain(&format!("; and {same} more {words}"));
        }
        line
    }

    /// All of them: what isn't done at length, and of the rest their names, or how many there are.
    pub(crate) fn all(&self, targets: &[TargetReport]) -> String {
        let mut out = self.open(targets);
        let rest: Vec<&TargetReport> = targets.iter().filter(|target| !is_open(target)).collect();
        if !out.is_empty() && !rest.is_empty() {
            out.push('\n');
        }
        if rest.len() <= NAMES_MAX {
            for target in rest {
                let mut line = self.headline(target);
                if let Some(note) = cause::note(target) {
                    line.push(style::DIM, &format!("  · {note}"));
                }
                self.spans(&mut out, 0, 4, &line);
            }
            return out;
        }
        let others = if out.is_empty() { "objects" } else { "other objects" };
        let current = rest.iter().filter(|target| target.verdict.status == Status::Current).count();
        out.push_str(&format!("{} {current} {others} are Current\n", style::mark(State::Done)));
        if let Some(skipped) = rest.len().checked_sub(current).filter(|skipped| *skipped > 0) {
            out.push_str(&format!("{} {skipped} are not waited for\n", style::mark(State::Skipped)));
        }
        out
    }

    /// All that isn't done, what has failed first.
    pub(crate) fn open(&self, targets: &[TargetReport]) -> String {
        let mut out = String::new();
        let all: Vec<&TargetReport> = targets.iter().filter(|target| is_open(target)).collect();
        let chains = Chains::new(&all);
        let (below, mut open): (Vec<&TargetReport>, Vec<&TargetReport>) =
            all.iter().copied().partition(|target| chains.explain(target));
        open.sort_by_cached_key(|target| Cause::of(target).urgency);
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
        let rest: Vec<&Vec<&TargetReport>> = groups.iter().skip(EXPLAINED_MAX).collect();
        if !rest.is_empty() {
            out.push('\n');
        }
        let listed = rest.iter().flat_map(|alike| alike.iter().map(move |target| (alike.first(), target)));
        for (first, target) in listed.take(LISTED_MAX) {
            let mut line = self.headline(target);
            let explained = first.filter(|_| target.same_as.is_some()).unwrap_or(target);
            line.plain(&format!("  {}", Cause::of(explained).message));
            self.spans(&mut out, 0, 4, &line);
        }
        let rest: usize = rest.iter().map(|alike| alike.len()).sum();
        if let Some(more) = rest.checked_sub(LISTED_MAX).filter(|more| *more > 0) {
            out.push_str(&format!("… and {more} more\n"));
        }
        if !below.is_empty() {
            out.push('\n');
            let (names, more) = self.some_names(&below);
            self.paragraph(&mut out, 0, "", &format!("explained above: {names}{more}"));
        }
        out
    }

    /// The names of a few targets, and how many more there are.
    fn some_names(&self, targets: &[&TargetReport]) -> (String, String) {
        let names: Vec<String> =
            targets.iter().take(NAMES_MAX).map(|target| self.names.name(&target.object)).collect();
        let more = match targets.len().saturating_sub(names.len()) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        (names.join(", "), more)
    }

    /// `the same for 11 other Pods: Pod/p2, Pod/p3, …`
    fn alike(&self, out: &mut String, first: &TargetReport, others: &[&TargetReport]) {
        let (names, more) = self.some_names(others);
        let others = names::count_of(others.len(), &first.object.kind);
        let (count, kind) = others.split_once(' ').unwrap_or((&others, ""));
        self.paragraph(out, 2, "", &format!("the same for {count} other {kind}: {names}{more}"));
    }

    /// One object, its causes and their evidence.
    pub(crate) fn target(&self, target: &TargetReport) -> String {
        let mut out = String::new();
        self.spans(&mut out, 0, 4, &self.headline(target));
        let own = own_message(target);
        self.paragraph(&mut out, 4, "", &own);
        if let Some(note) = cause::note(target).or_else(|| Cause::of(target).countdown()) {
            self.paragraph(&mut out, 4, "", &note);
        }
        for cause in target.causes.iter().take(CAUSES_MAX) {
            self.cause(&mut out, cause, &own);
        }
        if let Some(more) = target.causes.len().checked_sub(CAUSES_MAX).filter(|more| *more > 0) {
            out.push_str(&format!("  … and {}\n", text::plural(more as u64, "other cause")));
        }
        out
    }

    /// Outcome with counts.
    pub(crate) fn summary(&self, report: &Report) -> String {
        let (state, words, rest) = self.outcome(report);
        format!("{}{rest}: {}", self.palette.state(state, &words), totals(report))
    }

    /// Outcome: `✗ failed`, ` after 26s in shop`.
    fn outcome(&self, report: &Report) -> (State, String, String) {
        let (state, words) = match report.outcome {
            Outcome::Settled => (State::Done, "settled"),
            Outcome::Failed => (State::Failed, "failed"),
            Outcome::TimedOut => (State::Failed, "timed out"),
            Outcome::Unreachable => (State::Failed, "gave up"),
            Outcome::Rejected => (State::Failed, "rejected"),
            Outcome::Interrupted => (State::Failed, "interrupted"),
        };
        let place = self.names.namespace().map(|name| format!(" in {name}")).unwrap_or_default();
        let words = format!("{} {words}", style::mark(state));
        (state, words, format!(" after {}{place}", duration::format(report.elapsed)))
    }

    /// `✗ Deployment/web  Failed  ImagePullBackOff  for 30s`
    pub(crate) fn headline(&self, target: &TargetReport) -> Spans {
        let verdict = &target.verdict;
        let status = match target.state {
            State::Failed => Status::Failed,
            _ => verdict.status,
        };
        let cause = Cause::of(target);
        let reason = if is_open(target) { cause.reason } else { text::clean(&verdict.reason) };
        let root = target.root_cause().filter(|step| is_open(target) && step.reason == reason);
        let mut line = Spans::new();
        line.push(style::state_style(target.state), style::mark(target.state)).plain(" ");
        line.push(Style::new().bold(), &self.names.name(&target.object)).plain("  ");
        verdict_spans(&mut line, status, &reason);
        if let Some(since) = root.map_or(target.since, |step| step.since) {
            line.push(style::DIM, &self.since(since));
        }
        line
    }

    fn since(&self, then: Timestamp) -> String {
        format!("  for {}", duration::format(names::since(then, self.now)))
    }

    fn cause(&self, out: &mut String, cause: &Explanation, shown: &str) {
        let mut indent = 2;
        let mut shown = shown;
        // The first is the target itself, which has its line already.
        for step in cause.chain.iter().skip(1) {
            self.step(out, indent, step, shown);
            shown = if step.summary.is_empty() { &step.message } else { &step.summary };
            indent += 2;
        }
        indent += 2;
        let last = cause.chain.last();
        if cause.count > 1 && last.is_some_and(|step| !step.object.is("", "Event")) {
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
        for (place, next) in cause.next.iter().enumerate() {
            let label = if place == 0 { self.palette.hint("next: ") } else { " ".repeat(6) };
            self.paragraph(out, indent, &label, next);
        }
    }

    /// `→ Pod/web-5d9  Failed  ImagePullBackOff  for 1m35s  4 restarts`
    fn step(&self, out: &mut String, indent: usize, step: &Step, shown: &str) {
        let mut line = Spans::new();
        line.plain("→ ");
        if let Some(link) = step.link.filter(|link| *link != Link::Owns) {
            line.push(style::DIM, &format!("{link} "));
        }
        line.plain(&self.names.name(&step.object)).plain("  ");
        verdict_spans(&mut line, step.status, &text::clean(&step.reason));
        if let Some(since) = step.since {
            line.push(style::DIM, &self.since(since));
        }
        if let Some(times) = step.times.filter(|times| *times > 1) {
            let word = if step.object.is("", "Pod") { "restarts" } else { "times" };
            line.push(style::DIM, &format!("  {times} {word}"));
        }
        self.spans(out, indent, 4, &line);
        let message = if step.summary.is_empty() { &step.message } else { &step.summary };
        if *message != shown {
            self.paragraph(out, indent + 4, "", message);
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
        let mut line = format!("{}: {}", names::count_of(cause.count, kind), shown.join(", "));
        if more > 0 {
            line.push_str(&format!(" and {more} more"));
        }
        self.paragraph(out, indent, "", &line);
    }

    fn event(&self, out: &mut String, indent: usize, event: &EventNote, last: Option<&Step>) {
        let age = match event.last.or(event.first) {
            Some(then) => format!("{} ago", duration::format(names::since(then, self.now))),
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
            let (line, _) = text::truncate(&text::clean_log(line), columns);
            out.push_str(format!("{bar}{line}").trim_end());
            out.push('\n');
        }
    }

    /// A line of several pieces, in rows that fit.
    fn spans(&self, out: &mut String, indent: usize, hang: usize, line: &Spans) {
        for row in line.rows(self.width, indent, hang, self.palette) {
            out.push_str(&row);
            out.push('\n');
        }
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

/// The object's own message, if it is not the root cause.
fn own_message(target: &TargetReport) -> String {
    let own = target.own.as_ref().unwrap_or(&target.verdict);
    // It is its own root cause.
    if let Some([step]) = target.causes.first().map(|cause| cause.chain.as_slice())
        && !step.summary.is_empty()
    {
        return step.summary.clone();
    }
    match own.status {
        Status::NotFound => Cause::of(target).message,
        _ => own.message.to_string(),
    }
}

/// `InProgress  LessReady`
fn verdict_spans(line: &mut Spans, status: Status, reason: &str) {
    line.push(style::status_style(status), status.as_str());
    if !reason.is_empty() && reason != status.as_str() {
        line.plain(&format!("  {reason}"));
    }
}

/// How many are done; where nothing was selected, what was not found.
fn totals(report: &Report) -> String {
    if report.counts.total > 0 || report.unmatched.is_empty() {
        return counts(&report.counts);
    }
    text::clean(&Unmatched::sentences(&report.unmatched).join("; "))
}

/// `14/16 done, 1 failed, 1 skipped`
pub(crate) fn counts(counts: &Counts) -> String {
    let Counts { total, done, waiting: _, failed, skipped } = *counts;
    if total == 0 {
        return "no objects".to_owned();
    }
    let mut text = format!("{done}/{total} done");
    if failed > 0 {
        text.push_str(&format!(", {failed} failed"));
    }
    if skipped > 0 {
        text.push_str(&format!(", {skipped} skipped"));
    }
    text
}

/// A notice in rows: what is the matter, and what would help.
pub(crate) fn notice(notice: &Notice, width: Option<usize>, palette: Palette) -> Vec<String> {
    let mut line = Spans::new();
    line.push(style::WARNING, "warning:").plain(&format!(" {}", text::clean(&notice.message)));
    let mut rows = line.rows(width, 0, 2, palette);
    if let Some(remedy) = &notice.remedy {
        let mut line = Spans::new();
        line.push(style::HINT, "hint:").plain(&format!(" {}", text::clean(remedy)));
        rows.extend(line.rows(width, 0, 2, palette));
    }
    rows
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
    fn causes_that_targets_share_are_written_as_if_each_had_its_own() {
        let mut whole = scenes::many(230);
        whole.targets = (0..40)
            .map(|number| {
                let (name, image) = (format!("web-{number}"), format!("cannot pull \"web:{}\"", number % 14));
                let mut pod =
                    scenes::target(State::Failed, ("Pod", &name), Status::Failed, "ImagePullBackOff", &image);
                let step = scenes::step("Pod", &name, Status::Failed, "ImagePullBackOff", &image);
                pod.causes = vec![Explanation { chain: vec![step], count: 1, ..Explanation::default() }];
                pod
            })
            .collect();
        let mut grouped = whole.clone();
        let mut first: HashMap<String, ObjectId> = HashMap::new();
        for target in grouped.targets.iter_mut().filter(|target| target.causes.len() == 1) {
            let [step] = target.causes[0].chain.as_slice() else { continue };
            let key = format!("{:?} {} {} {}", target.state, step.object.kind, step.reason, step.message);
            let object = first.entry(key).or_insert_with(|| target.object.clone());
            if *object != target.object {
                target.same_as = Some(object.clone());
                target.since = step.since;
                target.causes.clear();
            }
        }
        assert!(grouped.targets.iter().any(|target| target.same_as.is_some()), "the scene has groups");
        let text = |report| explained(report, Some(80), Palette::NONE);
        assert_eq!(text(&grouped), text(&whole));
    }

    #[test]
    fn what_is_explained_above_is_named_only() {
        let mut pod = scenes::target(
            State::Failed,
            ("Pod", "web-7c9f6d5b8d-tz6lm"),
            Status::Failed,
            "ImagePullBackOff",
            "container app: ImagePullBackOff",
        );
        // Of the two Pods with the cause, the chain names one.
        let mut other = pod.clone();
        other.object = scenes::id("Pod", "web-7c9f6d5b8d-x8w2n");
        let mut unrelated = pod.clone();
        unrelated.object = scenes::id("Pod", "db-0");
        pod.causes = vec![Explanation { chain: vec![], count: 1, ..Explanation::default() }];
        let targets = vec![pod, other, unrelated, scenes::image_failure()];
        let names = Names::of(targets.iter().map(|target| &target.object));
        let explain = Explain { palette: Palette::NONE, width: None, names: &names, now: scenes::now() };
        let text = explain.all(&targets);
        let heads: Vec<&str> = text.lines().filter(|line| line.starts_with('✗')).collect();
        assert_eq!(heads.len(), 2, "{text}");
        assert!(heads.iter().any(|head| head.starts_with("✗ Pod/db-0")), "{text}");
        assert!(heads.iter().any(|head| head.starts_with("✗ Deployment/web")), "{text}");
        let last = text.lines().last();
        assert_eq!(
            last,
            Some("explained above: Pod/web-7c9f6d5b8d-tz6lm, Pod/web-7c9f6d5b8d-x8w2n"),
            "{text}"
        );
    }

    #[test]
    fn of_a_type_what_is_done_is_counted() {
        let mut targets = vec![scenes::image_failure()];
        targets.extend((0..7).map(|number| scenes::done("Deployment", &format!("done-{number}"))));
        let names = Names::of(targets.iter().map(|target| &target.object));
        let explain = Explain { palette: Palette::NONE, width: None, names: &names, now: scenes::now() };
        let text = explain.all(&targets);
        assert_eq!(text.lines().last(), Some("✓ 7 other objects are Current"), "{text}");
        assert!(!text.contains("done-0"), "{text}");
        assert_eq!(explain.all(&targets[1..]), "✓ 7 objects are Current\n");
        // A few are named.
        let few = explain.all(&targets[..4]);
        assert!(few.ends_with("✓ Deployment/done-2  Current  Ready  for 2m10s\n"), "{few}");
    }

    #[test]
    fn what_is_settled_needs_one_line() {
        assert_snapshot!(explained(&scenes::settled(), Some(80), Palette::NONE), @"✓ settled after 12s in shop: 3/4 done, 1 skipped");
    }
}
