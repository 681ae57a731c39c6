//! Terminal screen: rows at the bottom that are redrawn in place while lines are added above them.
//!
//! The cursor rests at the beginning of the first row, hidden. So everything behind it is ours and nothing before it is, however a
//! terminal moves or breaks lines when its size changes; the cursor position need not be queried.

use std::io::{self, Write};

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::Style;
use ratatui_core::widgets::Widget;

const HIDE_CURSOR: &str = "\x1b[?25l";
const SHOW_CURSOR: &str = "\x1b[?25h";
/// Terminals that know it show what is between these two at once.
const BEGIN_FRAME: &str = "\x1b[?2026h";
const END_FRAME: &str = "\x1b[?2026l";
const ERASE_TO_END_OF_LINE: &str = "\x1b[K";
const ERASE_TO_END_OF_SCREEN: &str = "\x1b[J";

/// The size of a terminal in columns and rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) columns: u16,
    pub(crate) rows: u16,
}

/// Rows on a terminal.
#[derive(Debug)]
pub(crate) struct Screen<W: Write> {
    out: W,
    color: bool,
    size: Size,
    /// Current rows.
    drawn: Vec<String>,
    open: bool,
}

impl<W: Write> Screen<W> {
    pub(crate) fn new(out: W, size: Size, color: bool) -> Self {
        Self { out, color, size, drawn: Vec::new(), open: false }
    }

    #[cfg(test)]
    fn out(&mut self) -> &mut W {
        &mut self.out
    }

    /// Prints lines above the view, which stay there, and draws the view anew. It is as high as it says, and leaves the last
    /// column free: what stands there breaks lines on some terminals.
    pub(crate) fn draw<V>(&mut self, above: &[String], view: V, height: u16, size: Size) -> io::Result<()>
    where
        V: Widget,
    {
        let area = Rect::new(0, 0, size.columns.saturating_sub(1).max(1), height.min(size.rows.max(1)));
        let mut buffer = Buffer::empty(area);
        view.render(area, &mut buffer);
        let rows = (0..area.height).map(|y| row(&buffer, y, self.color)).collect();
        self.draw_rows(above, rows, size)
    }

    /// As [`Screen::draw`], with rows that are painted already and not too wide. All of it is one write.
    pub(crate) fn draw_rows(&mut self, above: &[String], rows: Vec<String>, size: Size) -> io::Result<()> {
        let resized = size != self.size;
        if self.open && !resized && above.is_empty() && rows == self.drawn {
            return Ok(());
        }
        let mut frame = String::from(BEGIN_FRAME);
        if !self.open {
            frame.push_str(HIDE_CURSOR);
            self.open = true;
        }
        frame.push('\r');
        if resized || !above.is_empty() {
            frame.push_str(ERASE_TO_END_OF_SCREEN);
            self.drawn.clear();
        }
        for line in above {
            frame.push_str(line);
            frame.push_str("\r\n");
        }
        let shorter = rows.len() < self.drawn.len();
        for (y, row) in rows.iter().enumerate() {
            if y > 0 {
                frame.push_str("\r\n");
            }
            let last = y + 1 == rows.len();
            if self.drawn.get(y) != Some(row) || (last && shorter) {
                frame.push_str(row);
                frame.push_str(if last && shorter { ERASE_TO_END_OF_SCREEN } else { ERASE_TO_END_OF_LINE });
            }
        }
        if rows.len() > 1 {
            frame.push_str(&format!("\x1b[{}A", rows.len() - 1));
        }
        frame.push('\r');
        frame.push_str(END_FRAME);
        self.size = size;
        self.drawn = rows;
        self.write(&frame)
    }

    /// Takes the rows away, and prints lines where they began. The cursor is behind them, and can be seen.
    pub(crate) fn close(&mut self, above: &[String]) -> io::Result<()> {
        let mut end = String::new();
        if self.open {
            end = format!("\r{ERASE_TO_END_OF_SCREEN}");
        }
        for line in above {
            end.push_str(line);
            end.push_str("\r\n");
        }
        if self.open {
            end.push_str(SHOW_CURSOR);
        }
        self.open = false;
        self.drawn.clear();
        if end.is_empty() { Ok(()) } else { self.write(&end) }
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }
}

impl<W: Write> Drop for Screen<W> {
    fn drop(&mut self) {
        self.close(&[]).ok();
    }
}

/// A row of cells as text with its colours, without the spaces at its end.
fn row(buffer: &Buffer, y: u16, color: bool) -> String {
    let mut out = String::new();
    let mut painted = anstyle::Style::new();
    let mut x = 0;
    let mut spaces = 0;
    while x < buffer.area.width {
        let cell = &buffer[(x, y)];
        let symbol = cell.symbol();
        x += u16::try_from(crate::text::width(symbol)).unwrap_or(1).max(1);
        if symbol == " " {
            spaces += 1;
            continue;
        }
        let style = if color { anstyle::Style::from(visible(cell.style())) } else { anstyle::Style::new() };
        if style != painted {
            out.push_str(&format!("{painted:#}"));
        }
        out.push_str(&" ".repeat(std::mem::take(&mut spaces)));
        if style != painted {
            out.push_str(&style.to_string());
            painted = style;
        }
        out.push_str(symbol);
    }
    out.push_str(&format!("{painted:#}"));
    out
}

/// SGR sequence of the colors of a cell.
fn visible(style: Style) -> Style {
    use ratatui_core::style::Color;
    let chosen = |color: Option<Color>| color.filter(|color| *color != Color::Reset);
    Style { fg: chosen(style.fg), bg: chosen(style.bg), ..style }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::live::view::{View, rows_max};
    use crate::names::Names;
    use crate::scenes;
    use settled_tracker::report::Snapshot;

    /// A terminal that can be looked at, with a shell's prompt in it.
    struct Seen {
        terminal: vt100::Parser,
        screen: Screen<Vec<u8>>,
        size: Size,
        frame: usize,
    }

    impl Seen {
        fn new(columns: u16, rows: u16) -> Self {
            let mut terminal = vt100::Parser::new(rows.try_into().unwrap(), columns.try_into().unwrap(), 100);
            terminal.process(b"$ ls\r\na  b\r\n$ settled wait -f .\r\n");
            let size = Size { columns, rows };
            Self { terminal, screen: Screen::new(Vec::new(), size, true), size, frame: 0 }
        }

        /// Draws, and says how many bytes that took.
        fn draw(&mut self, above: &[&str], snapshot: &Snapshot) -> usize {
            let names = Names::of(snapshot.targets.iter().map(|target| &target.object));
            let width = usize::from(self.size.columns).saturating_sub(1).max(1);
            let view = View::new(snapshot, &names, self.frame, width, rows_max(self.size.rows));
            let above: Vec<String> = above.iter().map(|line| (*line).to_owned()).collect();
            self.screen.draw(&above, &view, view.height(), self.size).unwrap();
            self.flush()
        }

        fn flush(&mut self) -> usize {
            let bytes = std::mem::take(self.screen.out());
            self.terminal.process(&bytes);
            bytes.len()
        }

        fn resize(&mut self, columns: u16, rows: u16) {
            self.size = Size { columns, rows };
            self.terminal.set_size(rows.try_into().unwrap(), columns.try_into().unwrap());
        }

        fn contents(&self) -> String {
            self.terminal.screen().contents()
        }
    }

    #[test]
    fn what_is_finished_scrolls_away() {
        let mut seen = Seen::new(60, 14);
        seen.draw(&[], &scenes::rollout(1));
        seen.draw(&["✓ ConfigMap/web  0.2s", "✓ Service/web  1.0s"], &scenes::rollout(2));
        assert!(seen.terminal.screen().hide_cursor());
        assert_snapshot!(seen.contents(), @r#"
        $ ls
        a  b
        $ settled wait -f .
        ✓ ConfigMap/web  0.2s
        ✓ Service/web  1.0s
        ⠋ 2s of 5m  3/5 done, 1 failing
        ! Deployment/web ErrImagePull
          cannot pull "web:1.9.0": manifest unknown · fails in 48s
          └ ReplicaSet/web-7c9f6d5b8d   LessReady     Ready: 0/2
            └ Pod/web-7c9f6d5b8d-tz6lm  ErrImagePull
        • Deployment/search LessReady Ready: 2/3
        "#);
        // Nothing has changed: nothing is written.
        assert_eq!(seen.draw(&[], &scenes::rollout(2)), 0);
        // Only the time has: the other rows are not written again.
        assert!(seen.draw(&[], &scenes::rollout(3)) < 150);
        seen.screen.close(&[]).unwrap();
        seen.flush();
        assert!(!seen.terminal.screen().hide_cursor());
        assert_snapshot!(seen.contents(), @"
        $ ls
        a  b
        $ settled wait -f .
        ✓ ConfigMap/web  0.2s
        ✓ Service/web  1.0s
        ");
    }

    #[test]
    fn the_view_grows_and_shrinks() {
        let mut seen = Seen::new(60, 8);
        seen.draw(&[], &scenes::crowd(1));
        seen.draw(&[], &scenes::crowd(4));
        assert_snapshot!(seen.contents(), @"
        $ ls
        a  b
        $ settled wait -f .
        ⠋ 7s  0/4 done
        • 4 Deployments LessReady Ready: 0/3
        ");
        seen.draw(&[], &scenes::rollout(4));
        let mut one = scenes::crowd(1);
        one.branches.clear();
        seen.draw(&[], &one);
        assert_snapshot!(seen.contents(), @"
        $ ls
        a  b
        $ settled wait -f .
        ⠋ 7s  0/1 done
        • Deployment/web-000 LessReady Ready: 0/3
        ");
    }

    #[test]
    fn many_lines_at_once_go_to_the_scrollback_whole() {
        let mut seen = Seen::new(40, 8);
        seen.draw(&[], &scenes::rollout(1));
        let lines: Vec<String> = (0..30).map(|at| format!("✓ Pod/p{at}")).collect();
        seen.draw(&lines.iter().map(String::as_str).collect::<Vec<_>>(), &scenes::rollout(2));
        seen.terminal.screen_mut().set_scrollback(100);
        let mut all = String::new();
        for back in (1..=seen.terminal.screen().scrollback()).rev() {
            seen.terminal.screen_mut().set_scrollback(back);
            all.push_str(seen.contents().lines().next().unwrap_or_default());
            all.push('\n');
        }
        seen.terminal.screen_mut().set_scrollback(0);
        all.push_str(&seen.contents());
        for line in &lines {
            assert_eq!(all.matches(&format!("{line}\n")).count(), 1, "{line}\n{all}");
        }
    }

    #[test]
    fn resizing_loses_nothing_above_and_leaves_nothing_below() {
        let mut seen = Seen::new(80, 16);
        seen.draw(&["✓ ConfigMap/web  0.2s"], &scenes::rollout(1));
        for (columns, rows) in [(40, 16), (20, 8), (60, 8), (100, 20), (20, 4), (80, 16)] {
            seen.resize(columns, rows);
            seen.draw(&[], &scenes::rollout(2));
            let contents = seen.contents();
            // One header, and what scrolled away above it.
            assert_eq!(contents.matches("2s of").count(), 1, "{columns}x{rows}\n{contents}");
            assert!(rows < 8 || contents.contains("ConfigMap/web"), "{columns}x{rows}\n{contents}");
        }
        seen.draw(&["✓ Service/web  1.0s"], &scenes::rollout(3));
        assert_snapshot!(seen.contents(), @r#"
        $ ls
        a  b
        $ settled wait -f .
        ✓ ConfigMap/web  0.2
        ✓ Service/web  1.0s
        ⠋ 3s of 5m  ━━━━━━━━━━━━────────  3/5 done, 1 failing
        ! Deployment/web     ErrImagePull
            cannot pull "web:1.9.0": manifest unknown · fails in 48s unless it recovers
          └ ReplicaSet/web-7c9f6d5b8d   LessReady     Ready: 0/2
            └ Pod/web-7c9f6d5b8d-tz6lm  ErrImagePull
        • Deployment/search  LessReady     Ready: 2/3
        "#);
    }

    #[test]
    fn colours_are_those_of_the_statuses() {
        let mut seen = Seen::new(100, 14);
        seen.draw(&[], &scenes::rollout(1));
        let cell = |text: &str| {
            let screen = seen.terminal.screen();
            let rows: Vec<String> = screen.rows(0, 100).collect();
            let (y, x) = rows
                .iter()
                .enumerate()
                .find_map(|(y, row)| row.find(text).map(|at| (y, row[..at].chars().count())))
                .unwrap();
            screen.cell(y.try_into().unwrap(), x.try_into().unwrap()).unwrap().clone()
        };
        assert!(cell("Deployment/web").bold());
        // Failing and waiting objects.
        assert_eq!(cell("ErrImagePull").fgcolor(), vt100::Color::Idx(3));
        assert_eq!(cell("LessReady").fgcolor(), vt100::Color::Idx(6));
        assert!(!cell("LessReady").bold());
        assert_eq!(cell("cannot pull").fgcolor(), vt100::Color::Default);
    }
}
