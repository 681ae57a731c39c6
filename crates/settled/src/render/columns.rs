//! Plain tables: aligned columns, whose last one is wrapped where the width is limited.

use anstyle::Style;

use crate::style::Palette;
use crate::text;

/// How far a column is filled up with spaces.
const PADDING_MAX: usize = 80;
/// How narrow the last column may be.
const LAST_WIDTH_MIN: usize = 30;
/// How many lines a cell of the last column may take.
const LINES_MAX: usize = 12;
const GAP: &str = "  ";

/// Rows under headings.
#[derive(Debug)]
pub(crate) struct Columns {
    headings: Vec<String>,
    rows: Vec<Vec<(String, Style)>>,
}

impl Columns {
    pub(crate) fn new(headings: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { headings: headings.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    /// Adds a row of plain cells.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = impl AsRef<str>>) {
        self.styled(cells.into_iter().map(|cell| (cell, Style::new())));
    }

    /// Adds a row of cells, each with its style.
    pub(crate) fn styled(&mut self, cells: impl IntoIterator<Item = (impl AsRef<str>, Style)>) {
        self.rows.push(cells.into_iter().map(|(cell, style)| (text::clean(cell.as_ref()), style)).collect());
    }

    /// Drops columns that are empty in all rows, but for the first.
    pub(crate) fn without_empty(mut self) -> Self {
        for index in (1..self.headings.len()).rev() {
            if self.rows.iter().all(|row| row.get(index).is_none_or(|(cell, _)| cell.is_empty())) {
                self.headings.remove(index);
                self.rows.iter_mut().filter(|row| row.len() > index).for_each(|row| {
                    row.remove(index);
                });
            }
        }
        self
    }

    /// The table, in at most this many columns of the terminal where that is possible.
    pub(crate) fn text(&self, width: Option<usize>, palette: Palette) -> String {
        let mut widths: Vec<usize> = self.headings.iter().map(|heading| text::width(heading)).collect();
        for row in &self.rows {
            for (width, (cell, _)) in widths.iter_mut().zip(row) {
                *width = (*width).max(text::width(cell));
            }
        }
        widths.iter_mut().for_each(|width| *width = (*width).min(PADDING_MAX));
        let before: usize = widths.iter().rev().skip(1).map(|width| width + GAP.len()).sum();
        let last = width.map(|width| width.saturating_sub(before).max(LAST_WIDTH_MIN));
        let mut out = String::new();
        let headings: Vec<(String, Style)> =
            self.headings.iter().map(|heading| (heading.clone(), Style::new())).collect();
        let mut head = String::new();
        line(&headings, &widths, None, Palette::NONE, &mut head);
        out.push_str(&palette.heading(head.trim_end()));
        out.push('\n');
        for row in &self.rows {
            line(row, &widths, last, palette, &mut out);
        }
        out
    }
}

fn line(
    row: &[(String, Style)],
    widths: &[usize],
    last_width: Option<usize>,
    palette: Palette,
    out: &mut String,
) {
    let Some(((last, style), cells)) = row.split_last() else { return };
    let mut text = String::new();
    for ((cell, style), width) in cells.iter().zip(widths) {
        text.push_str(&palette.paint(*style, cell));
        text.extend(std::iter::repeat_n(' ', width.saturating_sub(text::width(cell)) + GAP.len()));
    }
    let lines = match last_width {
        Some(width) => text::wrap(last, width, LINES_MAX).0,
        None => vec![last.clone()],
    };
    let indent: usize = widths.iter().take(cells.len()).map(|width| width + GAP.len()).sum();
    for (index, part) in lines.iter().enumerate() {
        if index > 0 {
            text.push('\n');
            text.extend(std::iter::repeat_n(' ', indent));
        }
        text.push_str(&palette.paint(*style, part));
    }
    out.push_str(text.trim_end());
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_the_last_is_wrapped() {
        let mut table = Columns::new(["A", "EMPTY", "TEXT"]);
        table.row(["x", "", "one two three four five six seven eight nine"]);
        table.row(["longer\u{1b}[2J", "", ""]);
        let table = table.without_empty();
        assert_eq!(
            table.text(None, Palette::NONE),
            "A                TEXT\nx                one two three four five six seven eight nine\nlonger\\u{1b}[2J\n"
        );
        assert_eq!(
            table.text(Some(40), Palette::NONE),
            "A                TEXT\nx                one two three four five six\n                 seven eight nine\nlonger\\u{1b}[2J\n"
        );
    }
}
