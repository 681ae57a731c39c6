//! What the live view shows: rows made of a snapshot, nothing else.

use std::time::Duration;

use kstatus::Status;
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::Style;
use ratatui_core::widgets::Widget;
use settled_tracker::{Branch, Snapshot, State, TargetReport};

use crate::duration;
use crate::names::Names;
use crate::render::explain;
use crate::render::junit::root_cause;
use crate::style::{self, Palette};
use crate::text;

/// Signs of life, one per frame.
const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// Below so many columns there is no table: what fits, in a row.
const TABLE_WIDTH_MIN: usize = 50;
/// Below so many, the reason has to do without the status.
const STATUS_WIDTH_MIN: usize = 80;
const GAP: usize = 2;

/// How many rows the view may have on a screen so high: some of what scrolled away stays in sight.
pub(crate) fn rows_max(screen_height: u16) -> usize {
    (usize::from(screen_height) * 3 / 5).max(1)
}

/// The live view of one moment.
#[derive(Debug)]
pub(crate) struct View {
    header: Vec<Part>,
    rows: Vec<Row>,
}

/// A piece of text, and how it looks.
type Part = (String, Style);

/// A line below the header.
#[derive(Debug, PartialEq)]
enum Row {
    /// An object: what stands before its name, and the columns.
    Object { mark: Part, branch: String, name: Part, status: Part, reason: String, message: String },
    /// How many are left out.
    More { branch: String, count: usize },
}

impl View {
    /// Makes the rows, of which there are at most `rows_max`, the header included.
    pub(crate) fn new(snapshot: &Snapshot, names: &Names, frame: usize, rows_max: usize) -> Self {
        let header = header(snapshot, frame);
        let rows = rows(snapshot, names, rows_max.saturating_sub(1));
        Self { header, rows }
    }

    /// How many rows there are.
    pub(crate) fn height(&self) -> u16 {
        u16::try_from(self.rows.len() + 1).unwrap_or(u16::MAX)
    }
}

impl Widget for &View {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let width = usize::from(area.width);
        let columns = Columns::new(&self.rows, width);
        let lines = std::iter::once(fitted(self.header.clone(), width))
            .chain(self.rows.iter().map(|row| columns.line(row)));
        for (y, line) in (area.top()..area.bottom()).zip(lines) {
            let mut x = area.left();
            for (text, style) in line {
                (x, _) = buffer.set_stringn(x, y, &text, usize::from(area.right() - x), style);
            }
        }
    }
}

fn header(snapshot: &Snapshot, frame: usize) -> Vec<Part> {
    let time = match snapshot.timeout {
        Some(timeout) => {
            format!("{} of {}", duration::clock(snapshot.elapsed), duration::age(timeout))
        }
        None => duration::clock(snapshot.elapsed),
    };
    let spinner = (SPINNER[frame % SPINNER.len()].to_owned(), style::state_style(State::Waiting).into());
    let mut parts = vec![spinner, (format!(" {time}  "), Style::new())];
    if !snapshot.synced {
        parts.push(("looking at the cluster: ".to_owned(), style::DIM.into()));
    }
    let counts = &snapshot.counts;
    for (at, (number, state, text)) in [
        (counts.failed, State::Failed, format!("{} failed", counts.failed)),
        (counts.waiting, State::Waiting, format!("{} not done", counts.waiting)),
        (1, State::Done, format!("{} of {} done", counts.done, counts.total)),
        (counts.skipped, State::Skipped, format!("{} not waited for", counts.skipped)),
    ]
    .into_iter()
    .filter(|(number, ..)| *number > 0)
    .enumerate()
    {
        let _ = number;
        if at > 0 {
            parts.push((", ".to_owned(), Style::new()));
        }
        parts.push((text, style::state_style(state).into()));
    }
    parts
}

/// Rows for the targets that aren't done, as many as fit. Each gets a row first, then its branches share what is left.
fn rows(snapshot: &Snapshot, names: &Names, space: usize) -> Vec<Row> {
    let open: Vec<(&TargetReport, Option<&Branch>)> = snapshot
        .targets
        .iter()
        .enumerate()
        .filter(|(_, target)| explain::is_open(target))
        .map(|(at, target)| (target, snapshot.branches.get(at)))
        .collect();
    let all = (snapshot.counts.failed + snapshot.counts.waiting).max(open.len());
    // Where there is one row only, it is not for a number, which the header tells as well.
    let shown = if all <= space || space == 1 {
        open.len().min(space)
    } else {
        space.saturating_sub(1).min(open.len())
    };
    let tell_more = all > shown && space > shown;
    let mut left = space.saturating_sub(shown + usize::from(tell_more));
    let mut rows = Vec::with_capacity(space);
    for (at, (target, branch)) in open.iter().take(shown).enumerate() {
        rows.push(target_row(target, names));
        let Some(branch) = branch else { continue };
        let mut below = Vec::new();
        branch_rows(branch, "", names, &mut below);
        // What one of them doesn't need goes on to the next.
        let share = left.div_ceil(shown - at);
        let take = if below.len() <= share { below.len() } else { share.saturating_sub(1) };
        if take < below.len() && share > 0 {
            let count = below[take..].iter().map(Row::count).sum();
            below.truncate(take);
            below.push(Row::More { branch: "└ ".to_owned(), count });
        } else {
            below.truncate(take);
        }
        left -= below.len();
        rows.append(&mut below);
    }
    if tell_more {
        rows.push(Row::More { branch: String::new(), count: all - shown });
    }
    rows
}

fn target_row(target: &TargetReport, names: &Names) -> Row {
    let verdict = &target.verdict;
    let message = match &target.note {
        Some(note) if verdict.message.is_empty() => note.clone(),
        Some(note) => format!("{note}; {}", verdict.message),
        None => verdict.message.to_string(),
    };
    Row::Object {
        mark: (style::mark(target.state).to_owned(), style::state_style(target.state).into()),
        branch: String::new(),
        name: (names.name(&target.object), anstyle::Style::new().bold().into()),
        status: status(verdict.status),
        reason: text::clean(&verdict.reason),
        message: text::clean(&message),
    }
}

/// Everything below a branch, depth first. What is hidden is Current, and told by the numbers of the object above.
fn branch_rows(branch: &Branch, indent: &str, names: &Names, rows: &mut Vec<Row>) {
    for (at, child) in branch.children.iter().enumerate() {
        let (here, below) = if at + 1 == branch.children.len() { ("└ ", "  ") } else { ("├ ", "│ ") };
        let link = match child.link {
            "" | "owns" => String::new(),
            link => format!("{link} "),
        };
        let failed = child.verdict.status == Status::Failed;
        let mark = if failed { style::mark(State::Failed) } else { " " };
        let mark = (mark.to_owned(), style::state_style(State::Failed).into());
        rows.push(Row::Object {
            mark,
            branch: format!("{indent}{here}{link}"),
            name: (names.name(&child.object), Style::new()),
            status: status(child.verdict.status),
            reason: text::clean(&child.verdict.reason),
            message: text::clean(&child.verdict.message),
        });
        branch_rows(child, &format!("{indent}{below}"), names, rows);
    }
}

fn status(status: Status) -> Part {
    (status.as_str().to_owned(), style::status_style(status).into())
}

impl Row {
    /// How many objects it stands for.
    fn count(&self) -> usize {
        match self {
            Self::Object { .. } => 1,
            Self::More { count, .. } => *count,
        }
    }
}

/// How wide the columns are.
struct Columns {
    width: usize,
    name: usize,
    status: usize,
    reason: usize,
}

impl Columns {
    fn new(rows: &[Row], width: usize) -> Self {
        let mut columns = Self { width, name: 0, status: 0, reason: 0 };
        for row in rows {
            if let Row::Object { branch, name, status, reason, .. } = row {
                columns.name = columns.name.max(text::width(branch) + text::width(&name.0));
                columns.status = columns.status.max(text::width(&status.0));
                columns.reason = columns.reason.max(text::width(reason));
            }
        }
        columns.name = columns.name.min(width * 2 / 5);
        columns.reason = columns.reason.min(width / 5);
        columns
    }

    fn line(&self, row: &Row) -> Vec<Part> {
        let (mark, branch, name, status, reason, message) = match row {
            Row::More { branch, count } => {
                let text = format!("  {branch}… and {count} more");
                return fitted(vec![(text, style::DIM.into())], self.width);
            }
            Row::Object { mark, branch, name, status, reason, message } => {
                (mark, branch, name, status, reason, message)
            }
        };
        let dim = Style::from(style::DIM);
        let plain = Style::new();
        let mut parts = vec![mark.clone(), (" ".to_owned(), plain), (branch.clone(), dim)];
        if self.width < TABLE_WIDTH_MIN {
            let gap = (" ".to_owned(), plain);
            // The reason says more than the status, and the name must not take all the room.
            let room =
                self.width.saturating_sub(3 + text::width(branch) + text::width(reason)).max(self.width / 3);
            parts.push((text::truncate(&name.0, room).0, name.1));
            parts.extend([gap.clone(), (reason.clone(), status.1), gap, (message.clone(), plain)]);
        } else {
            parts.push(padded(name, self.name.saturating_sub(text::width(branch))));
            if self.width >= STATUS_WIDTH_MIN {
                parts.push(padded(status, self.status));
            }
            let look = if self.width < STATUS_WIDTH_MIN { status.1 } else { plain };
            parts.push(padded(&(reason.clone(), look), self.reason));
            parts.push((message.clone(), plain));
        }
        fitted(parts, self.width)
    }
}

/// Cut or filled up to a width, with a gap behind it.
fn padded((text, style): &Part, width: usize) -> Part {
    let (text, _) = text::truncate(text, width.max(1));
    let fill = width.saturating_sub(text::width(&text)) + GAP;
    (text + &" ".repeat(fill), *style)
}

/// As much of a line as fits, ending in `…` where something is missing.
fn fitted(mut parts: Vec<Part>, width: usize) -> Vec<Part> {
    let mut left = width;
    for at in 0..parts.len() {
        let (part, missing) = text::truncate(&parts[at].0, left);
        let beyond = parts[at + 1..].iter().any(|(text, _)| !text.trim().is_empty());
        if missing || (beyond && text::width(&part) == left) {
            let (mut part, _) = text::truncate(&parts[at].0, left.saturating_sub(usize::from(!missing)));
            if !missing && !part.ends_with('…') {
                part.push('…');
            }
            parts[at].0 = part;
            parts.truncate(at + 1);
            break;
        }
        left -= text::width(&part);
    }
    parts
}

/// The line that stays when a target changes its state for good, or back.
pub(crate) fn finished(target: &TargetReport, names: &Names, elapsed: Duration, palette: Palette) -> String {
    let mark = palette.state(target.state, style::mark(target.state));
    let name = names.name(&target.object);
    let time = duration::elapsed(elapsed);
    // The message comes with the explanation, where it has room.
    let why = || text::clean(&root_cause(target).0);
    match target.state {
        State::Done => format!("{mark} {name}  {}", palette.dim(&time)),
        State::Skipped => format!("{mark} {name}  not waited for"),
        State::Failed => format!("{mark} {name}  failed after {time}  {}", why()),
        State::Waiting => format!("{mark} {name}  not done any more after {time}  {}", why()),
    }
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
        let view = View::new(snapshot, &names, 0, rows_max(height));
        assert!(usize::from(view.height()) <= rows_max(height));
        terminal.draw(|frame| frame.render_widget(&view, frame.area())).unwrap();
        let screen = terminal.backend().to_string();
        let lines: Vec<&str> = screen.lines().take(view.height().into()).collect();
        lines.join("\n")
    }

    #[test]
    fn a_rollout_in_a_window() {
        assert_snapshot!(drawn(&scenes::rollout(12), 100, 24), @r#"
        "⠋ 12s of 5m  2 not done, 3 of 5 done                                                                "
        "• Deployment/web                InProgress  LessReady     counts as failed in 48 s; Ready: 1/3      "
        "  └ ReplicaSet/web-7c9f6d5b8d   InProgress  LessReady     Ready: 0/2                                "
        "    └ Pod/web-7c9f6d5b8d-tz6lm  InProgress  ErrImagePull  container app: ErrImagePull: manifest unk…"
        "• Deployment/search             InProgress  LessReady     Ready: 2/3                                "
        "#);
        assert_snapshot!(drawn(&scenes::rollout(12), 60, 24), @r#"
        "⠋ 12s of 5m  2 not done, 3 of 5 done                        "
        "• Deployment/web            LessReady     counts as failed… "
        "  └ ReplicaSet/web-7c9f6d…  LessReady     Ready: 0/2        "
        "    └ Pod/web-7c9f6d5b8d-…  ErrImagePull  container app: Er…"
        "• Deployment/search         LessReady     Ready: 2/3        "
        "#);
    }

    #[test]
    fn a_rollout_where_it_is_narrow() {
        assert_snapshot!(drawn(&scenes::rollout(75), 40, 24), @r#"
        "⠋ 1m15s of 5m  2 not done, 3 of 5 done  "
        "• Deployment/web LessReady counts as fa…"
        "  └ ReplicaSet/web-7c9f6d5b8d LessReady…"
        "    └ Pod/web-7c9f6d5b8d-t… ErrImagePu… "
        "• Deployment/search LessReady Ready: 2/3"
        "#);
        assert_snapshot!(drawn(&scenes::rollout(75), 20, 24), @r#"
        "⠋ 1m15s of 5m  2 no…"
        "• Deploym… LessRea… "
        "  └ Repli… LessRea… "
        "    └ Pod/w… ErrIma…"
        "• Deploym… LessRea… "
        "#);
    }

    #[test]
    fn a_screen_of_four_lines() {
        assert_snapshot!(drawn(&scenes::rollout(12), 20, 4), @r#"
        "⠋ 12s of 5m  2 not… "
        "• Deploym… LessRea… "
        "#);
        assert_snapshot!(drawn(&scenes::crowd(1), 60, 4), @r#"
        "⠋ 7s  1 not done, 0 of 1 done                               "
        "• Deployment/web-000  LessReady  Ready: 0/3                 "
        "#);
    }

    #[test]
    fn many_share_the_screen() {
        // Each of them, and some of what belongs to them.
        assert_snapshot!(drawn(&scenes::crowd(4), 80, 20), @r#"
        "⠋ 7s  4 not done, 0 of 4 done                                                   "
        "• Deployment/web-000  InProgress  LessReady         Ready: 0/3                  "
        "  ├ Pod/web-000-a     InProgress  ContainersNotRe…  not ready: app              "
        "  └ … and 2 more                                                                "
        "• Deployment/web-001  InProgress  LessReady         Ready: 0/3                  "
        "  ├ Pod/web-001-a     InProgress  ContainersNotRe…  not ready: app              "
        "  └ … and 2 more                                                                "
        "• Deployment/web-002  InProgress  LessReady         Ready: 0/3                  "
        "  ├ Pod/web-002-a     InProgress  ContainersNotRe…  not ready: app              "
        "  └ … and 2 more                                                                "
        "• Deployment/web-003  InProgress  LessReady         Ready: 0/3                  "
        "  └ … and 3 more                                                                "
        "#);
        // Not even each of them.
        assert_snapshot!(drawn(&scenes::crowd(100), 80, 10), @r#"
        "⠋ 7s  100 not done, 0 of 100 done                                               "
        "• Deployment/web-000  InProgress  LessReady  Ready: 0/3                         "
        "• Deployment/web-001  InProgress  LessReady  Ready: 0/3                         "
        "• Deployment/web-002  InProgress  LessReady  Ready: 0/3                         "
        "• Deployment/web-003  InProgress  LessReady  Ready: 0/3                         "
        "  … and 96 more                                                                 "
        "#);
    }

    #[test]
    fn before_everything_was_seen() {
        let mut snapshot = scenes::rollout(0);
        snapshot.synced = false;
        snapshot.timeout = None;
        snapshot.targets.clear();
        snapshot.branches.clear();
        assert_snapshot!(drawn(&snapshot, 80, 10), @r#"
        "⠋ 0s  looking at the cluster: 2 not done, 3 of 5 done                           "
        "  … and 2 more                                                                  "
        "#);
    }

    #[test]
    fn hostile_names_and_wide_ones() {
        let mut snapshot = scenes::rollout(1);
        std::sync::Arc::make_mut(&mut snapshot.targets[0].verdict).message =
            "\u{1b}[2J\u{1b}[H 世界世界世界世界世界世界世界世界世界世界世界世界世界".into();
        snapshot.targets[0].note = None;
        snapshot.branches.clear();
        assert_snapshot!(drawn(&snapshot, 70, 10), @r#"
        "⠋ 1s of 5m  2 not done, 3 of 5 done                                   "
        "• Deployment/web     LessReady  \u{1b}[2J\u{1b}[H 世界世界世界世界世… " Hidden by multi-width symbols: [(51, " "), (53, " "), (55, " "), (57, " "), (59, " "), (61, " "), (63, " "), (65, " "), (67, " ")]
        "• Deployment/search  LessReady  Ready: 2/3                            "
        "#);
    }

    #[test]
    fn nothing_is_too_small() {
        for width in 0..30 {
            for height in 0..8 {
                let snapshot = scenes::crowd(3);
                let names = Names::default();
                let view = View::new(&snapshot, &names, 3, height);
                let area = Rect::new(0, 0, width, view.height());
                view.render(area, &mut Buffer::empty(area));
            }
        }
    }
}
