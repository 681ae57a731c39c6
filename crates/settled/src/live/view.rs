//! Live view content: rows made from a snapshot alone.

use std::collections::HashMap;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use kstatus::Status;
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::widgets::Widget;
use settled_tracker::report::{Branch, Connection, Link, Snapshot};
use settled_tracker::{State, TargetReport};

use crate::cause::{Cause, Urgency};
use crate::duration;
use crate::names::{self, Names};
use crate::render::explain;
use crate::render::spans::Spans;
use crate::style::{self, Palette};
use crate::text::{self, plural};

/// Signs of life, one per frame.
const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// Maximum number of targets considered for a view, the most urgent ones.
pub(crate) const TARGETS_MAX: usize = 500;
/// Minimum number of targets in the same state that share a row.
const GROUP_MIN: usize = 3;
/// Below so many columns messages stand below their object, and there is no bar.
const BESIDE_WIDTH_MIN: usize = 60;
const BAR_WIDTH: usize = 20;
/// How many rows the message of an urgent target may take below it.
const MESSAGE_ROWS_MAX: usize = 3;
const GAP: &str = "  ";
const PLAIN: Style = Style::new();
const BOLD: Style = Style::new().bold();
const FAILING: Style = AnsiColor::Yellow.on_default().bold();

/// How many rows the view may have on a screen so high: some of what scrolled away stays in sight.
pub(crate) fn rows_max(screen_height: u16) -> usize {
    (usize::from(screen_height) * 3 / 5).max(1)
}

/// The live view of one moment.
#[derive(Debug)]
pub(crate) struct View {
    rows: Vec<Vec<Part>>,
}

/// A piece of a row, and how it looks.
type Part = (String, Style);

impl View {
    /// Makes the rows, each of which has at most `width` columns. There are at most `rows_max`, the header included.
    pub(crate) fn new(
        snapshot: &Snapshot,
        names: &Names,
        frame: usize,
        width: usize,
        rows_max: usize,
    ) -> Self {
        let mut rows = vec![header(snapshot, frame, width)];
        if let Some(lost) = connection(snapshot, width) {
            rows.push(lost);
        }
        rows.truncate(rows_max.max(1));
        // Before the first answer, no object has a state.
        if snapshot.synced {
            rows.extend(body(snapshot, names, width, rows_max.saturating_sub(rows.len())));
        }
        let rows = rows.into_iter().map(|row| fitted(row, width)).collect();
        Self { rows }
    }

    /// How many rows there are.
    pub(crate) fn height(&self) -> u16 {
        u16::try_from(self.rows.len()).unwrap_or(u16::MAX)
    }
}

impl Widget for &View {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        for (y, row) in (area.top()..area.bottom()).zip(&self.rows) {
            let mut x = area.left();
            for (text, style) in row {
                (x, _) = buffer.set_stringn(x, y, text, usize::from(area.right() - x), *style);
            }
        }
    }
}

/// `⠹ 2s of 5m  ━━━━━━━━━━──────────  101/200 done, 2 failing`
fn header(snapshot: &Snapshot, frame: usize, width: usize) -> Vec<Part> {
    let time = match snapshot.timeout {
        Some(timeout) => {
            format!(" {} of {}  ", whole_seconds(snapshot.elapsed), duration::format(timeout))
        }
        None => format!(" {}  ", whole_seconds(snapshot.elapsed)),
    };
    let spinner = (SPINNER[frame % SPINNER.len()].to_owned(), style::state_style(State::Waiting));
    let mut parts = vec![spinner, (time, PLAIN)];
    let counts = &snapshot.counts;
    if !snapshot.synced {
        parts.push((format!("reading {}…", plural(counts.total as u64, "object")), PLAIN));
        return parts;
    }
    if width >= BESIDE_WIDTH_MIN && counts.total > 1 {
        let full = counts.done * BAR_WIDTH / counts.total;
        parts.push(("━".repeat(full), style::state_style(State::Done)));
        parts.push(("─".repeat(BAR_WIDTH - full), style::DIM));
        parts.push((GAP.to_owned(), PLAIN));
    }
    if counts.total == 0 {
        parts.push((explain::counts(counts), PLAIN));
        return parts;
    }
    parts.push((format!("{}/{} done", counts.done, counts.total), style::state_style(State::Done)));
    let failing = snapshot.targets.iter().filter(|target| Cause::of(target).is_failing()).count();
    let failing = failing.max(counts.failed);
    if failing > 0 {
        parts.push((", ".to_owned(), PLAIN));
        parts.push((format!("{failing} failing"), style::state_style(State::Failed)));
    }
    if counts.skipped > 0 {
        parts.push((format!(", {} skipped", counts.skipped), style::DIM));
    }
    parts
}

/// The time of the header: it moves once a second.
fn whole_seconds(time: Duration) -> String {
    duration::format(Duration::from_secs(time.as_secs()))
}

/// `connection lost 12s ago: 10.0.0.1:6443: connection refused, retrying`
fn connection(snapshot: &Snapshot, width: usize) -> Option<Vec<Part>> {
    let Connection::Lost { since, error } = &snapshot.connection else { return None };
    let ago = whole_seconds(snapshot.elapsed.saturating_sub(*since));
    let (head, tail) = (format!("  connection lost {ago} ago: "), ", retrying");
    let room = width.saturating_sub(text::width(&head) + text::width(tail)).max(12);
    let error = text::truncate(text::os_words(&text::clean(error)), room).0;
    Some(vec![(format!("{head}{error}{tail}"), FAILING)])
}

/// Targets in the same state for the same reason: one row, and what may stand below it.
struct Group<'s> {
    cause: Cause,
    state: State,
    status: Status,
    first: &'s TargetReport,
    count: usize,
    branch: Option<&'s Branch>,
}

impl Group<'_> {
    /// `Deployment/web`, `98 Pods`
    fn name(&self, names: &Names) -> String {
        match self.count {
            1 => names.name(&self.first.object),
            count => names::count_of(count, &self.first.object.kind),
        }
    }

    fn mark(&self) -> Part {
        match self.cause.urgency {
            Urgency::Failing => ("!".to_owned(), FAILING),
            _ => (style::mark(self.state).to_owned(), style::state_style(self.state)),
        }
    }

    /// How its reason looks: as its status, unless it fails.
    fn style(&self) -> Style {
        match self.cause.urgency {
            Urgency::Failed => style::state_style(State::Failed),
            Urgency::Failing => FAILING,
            _ => style::status_style(self.status),
        }
    }
}

/// The open targets in groups, the most urgent first. `coarse`: those that are on their way by kind and reason alone.
fn groups<'s>(snapshot: &'s Snapshot, coarse: bool) -> Vec<Group<'s>> {
    let mut found: Vec<Group<'s>> = Vec::new();
    let mut places: HashMap<(Urgency, &str, String, String), Vec<usize>> = HashMap::new();
    for (place, target) in snapshot.targets.iter().enumerate() {
        if !explain::is_open(target) {
            continue;
        }
        let cause = Cause::of(target);
        let by_reason = coarse && !cause.is_failing();
        let message = if by_reason { String::new() } else { cause.message.clone() };
        let key = (cause.urgency, &*target.object.kind, cause.reason.clone(), message);
        places.entry(key).or_default().push(found.len());
        let branch = snapshot.branches.get(place);
        let (state, status) = (target.state, target.verdict.status);
        found.push(Group { cause, state, status, first: target, count: 1, branch });
    }
    for alike in places.into_values().filter(|alike| alike.len() >= GROUP_MIN) {
        let same_message =
            alike.windows(2).all(|pair| found[pair[0]].cause.message == found[pair[1]].cause.message);
        let soonest = alike.iter().filter_map(|place| found[*place].cause.fails_in).min();
        if let [first, others @ ..] = alike.as_slice() {
            found[*first].count = alike.len();
            found[*first].cause.fails_in = soonest;
            found[*first].branch = None;
            if !same_message {
                found[*first].cause.message = String::new();
            }
            for other in others {
                found[*other].count = 0;
            }
        }
    }
    found.retain(|group| group.count > 0);
    // In the order of the snapshot otherwise.
    found.sort_by_key(|group| group.cause.urgency);
    found
}

/// Rows for what isn't done, as many as fit: a row for each group first, then the messages of urgent ones, then what is below.
fn body(snapshot: &Snapshot, names: &Names, width: usize, space: usize) -> Vec<Vec<Part>> {
    let mut groups_shown = groups(snapshot, false);
    if groups_shown.len() > space {
        groups_shown = groups(snapshot, true);
    }
    let seen: usize = groups_shown.iter().map(|group| group.count).sum();
    let all = (snapshot.counts.failed + snapshot.counts.waiting).max(seen);
    // Where there is one row only, it is not for a number, which is in the header as well.
    let fits = groups_shown.len() <= space && seen == all;
    let shown = if fits || space == 1 { groups_shown.len().min(space) } else { space.saturating_sub(1) };
    groups_shown.truncate(shown);
    let left_out = all - groups_shown.iter().map(|group| group.count).sum::<usize>();
    let mut left = space.saturating_sub(groups_shown.len() + usize::from(left_out > 0));

    let columns = Columns::new(&groups_shown, names, width);
    let mut blocks: Vec<Vec<Vec<Part>>> = Vec::with_capacity(groups_shown.len());
    for group in &groups_shown {
        let block = columns.block(group, names, left);
        left -= (block.len() - 1).min(left);
        blocks.push(block);
    }
    // What one of them doesn't need goes on to the next.
    let count = blocks.len();
    for (place, (group, block)) in groups_shown.iter().zip(&mut blocks).enumerate() {
        let Some(branch) = group.branch else { continue };
        let mut below = Vec::new();
        branch_rows(branch, "", &group.cause, names, &mut below);
        let share = left.div_ceil(count - place);
        let rows = below_rows(below, share, width);
        left -= rows.len().min(left);
        block.extend(rows);
    }
    let mut rows: Vec<Vec<Part>> = blocks.into_iter().flatten().collect();
    if left_out > 0 && rows.len() < space {
        rows.push(vec![(format!("  … and {left_out} more"), style::DIM)]);
    }
    rows
}

/// How wide the columns of targets are.
struct Columns {
    width: usize,
    name: usize,
    reason: usize,
}

impl Columns {
    fn new(groups: &[Group<'_>], names: &Names, width: usize) -> Self {
        let widest = |of: &dyn Fn(&Group<'_>) -> usize| groups.iter().map(of).max().unwrap_or_default();
        Self {
            width,
            name: widest(&|group| text::width(&group.name(names))).min(width * 2 / 5),
            reason: widest(&|group| text::width(&group.cause.reason)).min(width / 4),
        }
    }

    /// The rows of a group: one, or some more below it for the message of an urgent one, `left` at most.
    fn block(&self, group: &Group<'_>, names: &Names, left: usize) -> Vec<Vec<Part>> {
        let cause = &group.cause;
        let name = group.name(names);
        let narrow = self.width < BESIDE_WIDTH_MIN;
        let (name_width, reason_width) = if narrow { (0, 0) } else { (self.name, self.reason) };
        // The name must not take all the room.
        let name_max = if narrow { (self.width * 3 / 5).max(8) } else { self.name };
        let name = text::truncate(&name, name_max.max(4)).0;
        let gap = if narrow { " " } else { GAP };
        let mut head = vec![
            group.mark(),
            (" ".to_owned(), PLAIN),
            (padded(&name, name_width), BOLD),
            (gap.to_owned(), PLAIN),
            (padded(&cause.reason, reason_width), group.style()),
        ];
        let used: usize = head.iter().map(|(text, _)| text::width(text)).sum();
        let beside = self.width.saturating_sub(used + gap.len());
        let countdowns = match (cause.countdown(), cause.fails_in) {
            (Some(long), Some(time)) => vec![long, format!("fails in {}", duration::format(time))],
            _ => vec![String::new()],
        };
        let with = |countdown: &String| match (cause.message.is_empty(), countdown.is_empty()) {
            (_, true) => cause.message.clone(),
            (true, false) => countdown.clone(),
            (false, false) => format!("{} · {countdown}", cause.message),
        };
        let sentences: Vec<String> = countdowns.iter().map(with).collect();
        if let Some(fitting) = sentences.iter().find(|sentence| text::width(sentence) <= beside) {
            head.push((gap.to_owned(), PLAIN));
            head.push((fitting.clone(), PLAIN));
            return vec![head];
        }
        let indent = if narrow { 2 } else { 4 };
        let room = self.width.saturating_sub(indent).max(16);
        if cause.urgency <= Urgency::Blocked && left > 0 {
            let sentence = sentences.iter().find(|sentence| text::width(sentence) <= room);
            let sentence = sentence.or_else(|| sentences.last()).map(String::as_str).unwrap_or_default();
            let (lines, _) = text::wrap(sentence, room, left.min(MESSAGE_ROWS_MAX));
            let mut rows = vec![head];
            rows.extend(lines.into_iter().map(|line| vec![(" ".repeat(indent), PLAIN), (line, PLAIN)]));
            return rows;
        }
        head.push((gap.to_owned(), PLAIN));
        let message = match cause.urgency {
            Urgency::Waiting | Urgency::NotObserved => text::truncate(&cause.message, beside).0,
            _ => text::truncate_middle(&cause.message, beside),
        };
        head.push((message, PLAIN));
        vec![head]
    }
}

/// A row for something below a target.
struct Below {
    lead: String,
    failed: bool,
    name: String,
    reason: String,
    message: String,
    status: Status,
}

/// Rows below a branch, depth first; equal siblings share a row. The target's message is not repeated.
fn branch_rows(branch: &Branch, indent: &str, parent: &Cause, names: &Names, rows: &mut Vec<Below>) {
    let mut alike: Vec<(&Branch, usize)> = Vec::new();
    for child in &branch.children {
        let same = |(other, _): &&mut (&Branch, usize)| {
            let (a, b) = (&other.verdict, &child.verdict);
            let leaf = other.children.is_empty() && child.children.is_empty() && other.link == child.link;
            leaf && other.object.kind == child.object.kind
                && (a.status, &a.reason) == (b.status, &b.reason)
                && other.summary == child.summary
        };
        match alike.iter_mut().find(same) {
            Some((_, count)) => *count += 1,
            None => alike.push((child, 1)),
        }
    }
    let last = alike.len().saturating_sub(1);
    for (place, (child, count)) in alike.into_iter().enumerate() {
        let (here, below) = if place == last { ("└ ", "  ") } else { ("├ ", "│ ") };
        let link = match child.link {
            None | Some(Link::Owns) => String::new(),
            Some(link) => format!("{link} "),
        };
        let verdict = &child.verdict;
        let reason = text::clean(&verdict.reason);
        let message = text::clean(&child.summary);
        let repeats = reason == parent.reason && message == parent.message;
        rows.push(Below {
            lead: format!("{indent}{here}{link}"),
            failed: verdict.status == Status::Failed,
            name: match count {
                1 => names.name(&child.object),
                count => names::count_of(count, &child.object.kind),
            },
            reason,
            message: if repeats { String::new() } else { message },
            status: verdict.status,
        });
        branch_rows(child, &format!("{indent}{below}"), parent, names, rows);
    }
}

/// As many of the rows as there is space for.
fn below_rows(mut below: Vec<Below>, space: usize, width: usize) -> Vec<Vec<Part>> {
    if space < below.len().min(2) {
        return Vec::new();
    }
    let hidden = below.len().saturating_sub(space);
    if hidden > 0 {
        below.truncate(space - 1);
    }
    let name = |row: &Below| text::width(&row.lead) + text::width(&row.name);
    let names = below.iter().map(name).max().unwrap_or_default().min(width * 3 / 5);
    let reasons = below.iter().map(|row| text::width(&row.reason)).max().unwrap_or_default().min(width / 4);
    let mut rows: Vec<Vec<Part>> = below
        .into_iter()
        .map(|row| {
            let room = names.saturating_sub(text::width(&row.lead)).max(4);
            let used = 2 + names + GAP.len() + reasons + GAP.len();
            let mark = if row.failed { style::mark(State::Failed) } else { " " };
            vec![
                (mark.to_owned(), style::state_style(State::Failed)),
                (" ".to_owned(), PLAIN),
                (row.lead, style::DIM),
                (padded(&text::truncate(&row.name, room).0, room), PLAIN),
                (GAP.to_owned(), PLAIN),
                (padded(&row.reason, reasons), style::status_style(row.status)),
                (GAP.to_owned(), PLAIN),
                (text::truncate_middle(&row.message, width.saturating_sub(used)), PLAIN),
            ]
        })
        .collect();
    if hidden > 0 {
        rows.push(vec![(format!("  └ … and {} more", hidden + 1), style::DIM)]);
    }
    rows
}

/// Cut or filled up to a width; 0 leaves it as it is.
fn padded(text: &str, width: usize) -> String {
    if width == 0 {
        return text.to_owned();
    }
    let (mut text, _) = text::truncate(text, width);
    text.push_str(&" ".repeat(width.saturating_sub(text::width(&text))));
    text
}

/// As much of a row as fits, ending in `…` where something is missing.
fn fitted(mut parts: Vec<Part>, width: usize) -> Vec<Part> {
    let mut left = width;
    for place in 0..parts.len() {
        let (part, missing) = text::truncate(&parts[place].0, left);
        let beyond = parts[place + 1..].iter().any(|(text, _)| !text.trim().is_empty());
        if missing || (beyond && text::width(&part) == left) {
            let (mut part, _) = text::truncate(&parts[place].0, left.saturating_sub(usize::from(!missing)));
            if !missing && !part.ends_with('…') {
                part.push('…');
            }
            parts[place].0 = part;
            parts.truncate(place + 1);
            break;
        }
        left -= text::width(&part);
    }
    parts
}

/// The rows that stay when a target changes its state for good, or back.
pub(crate) fn finished(
    target: &TargetReport,
    names: &Names,
    elapsed: Duration,
    width: usize,
    palette: Palette,
) -> Vec<String> {
    let name = names.name(&target.object);
    let time = duration::format(elapsed);
    let mut line = Spans::new();
    line.push(style::state_style(target.state), style::mark(target.state)).plain(&format!(" {name}  "));
    match target.state {
        State::Done => line.push(style::DIM, &time),
        State::Skipped => line.plain("not waited for"),
        // The message stands in the view, and in the explanation.
        State::Failed => line.plain(&format!("failed after {time}  {}", Cause::of(target).reason)),
        State::Waiting => line.plain(&format!("no longer done after {time}  {}", Cause::of(target).reason)),
    };
    line.rows(Some(width), 0, 4, palette)
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use ratatui_core::backend::TestBackend;
    use ratatui_core::terminal::Terminal;

    use super::*;
    use crate::scenes;

    fn drawn(snapshot: &Snapshot, width: u16, height: u16) -> String {
        let names = Names::of(snapshot.targets.iter().map(|target| &target.object));
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let view = View::new(snapshot, &names, 0, width.into(), rows_max(height));
        assert!(usize::from(view.height()) <= rows_max(height));
        terminal.draw(|frame| frame.render_widget(&view, frame.area())).unwrap();
        let screen = terminal.backend().to_string();
        let lines: Vec<&str> = screen.lines().take(view.height().into()).collect();
        lines.join("\n")
    }

    #[test]
    fn a_rollout_in_a_window() {
        assert_snapshot!(drawn(&scenes::rollout(12), 100, 24), @r#"
        "⠋ 12s of 5m  ━━━━━━━━━━━━────────  3/5 done, 1 failing                                              "
        "! Deployment/web     ErrImagePull  cannot pull "web:1.9.0": manifest unknown · fails in 48s         "
        "  └ ReplicaSet/web-7c9f6d5b8d   LessReady     Ready: 0/2                                            "
        "    └ Pod/web-7c9f6d5b8d-tz6lm  ErrImagePull                                                        "
        "• Deployment/search  LessReady     Ready: 2/3                                                       "
        "#);
        assert_snapshot!(drawn(&scenes::rollout(12), 60, 24), @r#"
        "⠋ 12s of 5m  ━━━━━━━━━━━━────────  3/5 done, 1 failing      "
        "! Deployment/web     ErrImagePull                           "
        "    cannot pull "web:1.9.0": manifest unknown · fails in 48s"
        "  └ ReplicaSet/web-7c9f6d5b8d   LessReady     Ready: 0/2    "
        "    └ Pod/web-7c9f6d5b8d-tz6lm  ErrImagePull                "
        "• Deployment/search  LessReady     Ready: 2/3               "
        "#);
    }

    #[test]
    fn a_rollout_where_it_is_narrow() {
        assert_snapshot!(drawn(&scenes::rollout(75), 40, 24), @r#"
        "⠋ 1m15s of 5m  3/5 done, 1 failing      "
        "! Deployment/web ErrImagePull           "
        "  cannot pull "web:1.9.0": manifest     "
        "  unknown · fails in 48s                "
        "  └ ReplicaSet/web-7c9f6d…  LessReady … "
        "    └ Pod/web-7c9f6d5b8d-…  ErrImageP…  "
        "• Deployment/search LessReady Ready: 2/3"
        "#);
        assert_snapshot!(drawn(&scenes::rollout(75), 20, 24), @r#"
        "⠋ 1m15s of 5m  3/5… "
        "! Deployment/… ErrI…"
        "  cannot pull       "
        "  "web:1.9.0":      "
        "  manifest unknown… "
        "  └ ReplicaSe…  Les…"
        "    └ Pod/web…  Err…"
        "• Deployment/… Less…"
        "#);
    }

    #[test]
    fn a_screen_of_four_lines() {
        assert_snapshot!(drawn(&scenes::rollout(12), 20, 4), @r#"
        "⠋ 12s of 5m  3/5 do…"
        "! Deployment/… ErrI…"
        "#);
        assert_snapshot!(drawn(&scenes::crowd(1), 60, 4), @r#"
        "⠋ 7s  0/1 done                                              "
        "• Deployment/web-000  LessReady  Ready: 0/3                 "
        "#);
    }

    #[test]
    fn many_share_the_screen() {
        // Each of them, and some of what belongs to them.
        assert_snapshot!(drawn(&scenes::crowd(4), 80, 20), @r#"
        "⠋ 7s  ────────────────────  0/4 done                                            "
        "• 4 Deployments  LessReady  Ready: 0/3                                          "
        "#);
        // Not even each of them.
        assert_snapshot!(drawn(&scenes::crowd(100), 80, 10), @r#"
        "⠋ 7s  ────────────────────  0/100 done                                          "
        "• 100 Deployments  LessReady  Ready: 0/3                                        "
        "#);
    }

    #[test]
    fn before_the_first_answer_there_are_no_rows() {
        let mut snapshot = scenes::rollout(0);
        snapshot.synced = false;
        snapshot.timeout = None;
        assert_snapshot!(drawn(&snapshot, 80, 10), @r#""⠋ 0s  reading 5 objects…                                                        ""#);
    }

    #[test]
    fn hostile_names_and_wide_ones() {
        let mut snapshot = scenes::rollout(1);
        std::sync::Arc::make_mut(&mut snapshot.targets[0].verdict).message =
            "\u{1b}[2J\u{1b}[H 世界世界世界世界世界世界世界世界世界世界世界世界世界".into();
        snapshot.targets[0].causes.clear();
        snapshot.branches.clear();
        assert_snapshot!(drawn(&snapshot, 70, 10), @r#"
        "⠋ 1s of 5m  ━━━━━━━━━━━━────────  3/5 done, 1 failing                 "
        "! Deployment/web     LessReady                                        "
        "    \u{1b}[2J\u{1b}[H                                                 "
        "    世界世界世界世界世界世界世界世界世界世界世界世界世界 · fails in   " Hidden by multi-width symbols: [(5, " "), (7, " "), (9, " "), (11, " "), (13, " "), (15, " "), (17, " "), (19, " "), (21, " "), (23, " "), (25, " "), (27, " "), (29, " "), (31, " "), (33, " "), (35, " "), (37, " "), (39, " "), (41, " "), (43, " "), (45, " "), (47, " "), (49, " "), (51, " "), (53, " "), (55, " ")]
        "    48s                                                               "
        "• Deployment/search  LessReady  Ready: 2/3                            "
        "#);
    }

    #[test]
    fn nothing_is_too_small() {
        for width in 0..30 {
            for height in 0..8 {
                let snapshot = scenes::crowd(3);
                let names = Names::default();
                let view = View::new(&snapshot, &names, 3, width.into(), height);
                let area = Rect::new(0, 0, width, view.height());
                view.render(area, &mut Buffer::empty(area));
            }
        }
    }
}
