//! Styled text: a line of spans, wrapped between words where the width is limited.

use anstyle::Style;

use crate::style::Palette;
use crate::text;

/// A line that may take several rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spans {
    text: String,
    /// Where each piece ends, and how it looks.
    ends: Vec<(usize, Style)>,
}

impl Spans {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Adds clean text.
    pub(crate) fn push(&mut self, style: Style, text: &str) -> &mut Self {
        self.text.push_str(text);
        self.ends.push((self.text.len(), style));
        self
    }

    /// As [`Self::push`], as the terminal shows text.
    pub(crate) fn plain(&mut self, text: &str) -> &mut Self {
        self.push(Style::new(), text)
    }

    /// The line in rows of at most `width` columns: the first is indented by `indent`, the others by `hang` more.
    pub(crate) fn rows(
        &self,
        width: Option<usize>,
        indent: usize,
        hang: usize,
        palette: Palette,
    ) -> Vec<String> {
        // Where hardly anything fits, a row too long is better than a tower of syllables.
        let room = |taken: usize| width.map_or(usize::MAX, |width| width.saturating_sub(taken).max(16));
        let ranges = text::wrap_ranges(&self.text, room(indent), room(indent + hang));
        let mut rows = Vec::with_capacity(ranges.len());
        for range in ranges {
            let mut row = " ".repeat(if rows.is_empty() { indent } else { indent + hang });
            let mut start = 0;
            for (end, style) in &self.ends {
                let piece = self.text.get(start.max(range.start)..(*end).min(range.end));
                row.push_str(&palette.paint(*style, piece.unwrap_or_default()));
                start = *end;
            }
            rows.push(row);
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::style::DIM;

    fn line() -> Spans {
        let mut line = Spans::new();
        line.plain("• ").push(Style::new().bold(), "Pod/web-0").plain("  InProgress").push(DIM, "  for 47s");
        line
    }

    #[test]
    fn rows_break_between_words() {
        assert_eq!(line().rows(None, 2, 2, Palette::NONE), ["  • Pod/web-0  InProgress  for 47s"]);
        assert_eq!(line().rows(Some(26), 0, 4, Palette::NONE), ["• Pod/web-0  InProgress", "    for 47s"]);
        assert_eq!(line().rows(Some(1), 0, 2, Palette::NONE), ["• Pod/web-0", "  InProgress  for", "  47s"]);
        assert_eq!(Spans::new().rows(Some(9), 0, 0, Palette::NONE), Vec::<String>::new());
    }

    #[test]
    fn colors_add_nothing_and_end_with_their_row() {
        for width in [None, Some(26), Some(20)] {
            let painted = line().rows(width, 0, 4, Palette::ALL);
            let plain = line().rows(width, 0, 4, Palette::NONE);
            assert!(painted.iter().any(|row| row.contains('\u{1b}')));
            let stripped: Vec<String> =
                painted.iter().map(|row| anstream::adapter::strip_str(row).to_string()).collect();
            assert_eq!(stripped, plain);
        }
    }
}
