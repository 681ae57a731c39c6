//! Line-based splitting of YAML text into documents, and of large lists into items.

use std::sync::Arc;

use memchr::memchr;

use crate::head::ItemHeader;

/// Result of [`Lines::next`].
pub(crate) enum Line {
    /// A document.
    Document { start: usize, end: usize },
    /// One item of a list, including its dash.
    Item { start: usize, end: usize },
    /// A document that is too large; it is skipped.
    TooLarge { start: usize },
    /// End of the document, at the line that begins here.
    End { at: usize },
    /// All data is consumed.
    More,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Mode {
    /// Within a document.
    Document { directive: bool, content: bool, tried_as_list: bool },
    /// Within the items of a list, with their dashes in this column.
    Items { dash: usize, given_up: bool },
    /// Skipping to the end of the document.
    Skip,
}

/// State between two pieces of one YAML document.
#[derive(Debug)]
pub(crate) struct Lines {
    mode: Mode,
    /// Start of the document or item.
    start: usize,
    /// First line that was not inspected yet.
    at: usize,
    /// `at` is the document's first line, whose `---` belongs to it.
    first: bool,
    /// `at` is within a line whose beginning was skipped.
    in_line: bool,
    /// The document's end was found, but not reported.
    over: bool,
    header: Option<Arc<ItemHeader>>,
    hold: usize,
    largest: usize,
}

impl Lines {
    pub(crate) fn new(start: usize, hold: usize, largest: usize) -> Self {
        let mode = Mode::Document { directive: false, content: false, tried_as_list: false };
        Self { mode, start, at: start, first: true, in_line: false, over: false, header: None, hold, largest }
    }

    pub(crate) fn keep_from(&self) -> usize {
        if self.is_skipping() { self.at } else { self.start }
    }

    fn is_skipping(&self) -> bool {
        matches!(self.mode, Mode::Skip | Mode::Items { given_up: true, .. })
    }

    pub(crate) fn shift(&mut self, by: usize) {
        self.start = self.start.saturating_sub(by);
        self.at = self.at.saturating_sub(by);
    }

    pub(crate) fn header(&self) -> Option<Arc<ItemHeader>> {
        self.header.clone()
    }

    pub(crate) fn next(&mut self, data: &[u8], at_end: bool) -> Line {
        if self.over {
            return Line::End { at: self.at };
        }
        loop {
            self.try_as_list(data);
            if let Some(cut) = self.too_large() {
                return cut;
            }
            let rest = &data[self.at..];
            let (end, whole) = match memchr(b'\n', rest) {
                Some(length) => (self.at + length + 1, true),
                None if at_end => (data.len(), true),
                None if self.in_line => {
                    self.at = data.len();
                    return Line::More;
                }
                // The beginning of the line determines its meaning, and its rest is part of something too large.
                None if rest.len() > self.largest => (data.len(), false),
                None => return Line::More,
            };
            if rest.is_empty() {
                return self.finish(data.len(), data.len());
            }
            if self.in_line {
                self.in_line = !whole;
                self.at = end;
                continue;
            }
            let line = &data[self.at..end];
            match marker(line) {
                Some(b'.') => return self.finish(end, end),
                Some(_) if !self.first_marker() => return self.finish(self.at, self.at),
                _ => {}
            }
            self.first = false;
            let cut = self.line(line);
            self.at = end;
            self.in_line = !whole;
            if let Some(cut) = cut {
                return cut;
            }
        }
    }

    /// If the document is too large to hold, tries to cut it as a list. Uses only whole lines, so that the result does
    /// not depend on the size of the pieces.
    fn try_as_list(&mut self, data: &[u8]) {
        if let Mode::Document { tried_as_list, .. } = &mut self.mode
            && !*tried_as_list
            && self.at - self.start > self.hold
        {
            *tried_as_list = true;
            if let Some(list) = List::find(&data[self.start..self.at]) {
                self.header = list.header.map(Arc::new);
                self.mode = Mode::Items { dash: list.dash, given_up: false };
                self.start += list.items;
                self.at = self.start;
            }
        }
    }

    /// Whether the `---` of this line begins the document rather than ends it.
    fn first_marker(&mut self) -> bool {
        match &mut self.mode {
            Mode::Document { directive, content: false, .. } => self.first || std::mem::take(directive),
            _ => false,
        }
    }

    /// Processes a line; returns a cut if it ends an item.
    fn line(&mut self, line: &[u8]) -> Option<Line> {
        match &mut self.mode {
            Mode::Skip => None,
            Mode::Document { content: true, .. } => None,
            Mode::Document { directive, content, .. } => {
                match line.trim_ascii_start().first() {
                    None | Some(b'#') => {}
                    Some(b'%') if line[0] == b'%' => *directive = true,
                    Some(_) => *content = true,
                }
                None
            }
            Mode::Items { dash, given_up } => {
                let indent = line.iter().take_while(|&&byte| byte == b' ').count();
                let text = line[indent..].trim_ascii_end();
                if text.is_empty() || text[0] == b'#' || indent > *dash {
                    return None;
                }
                let start = self.start;
                let done = !std::mem::take(given_up) && start != self.at;
                if indent < *dash || !is_item(text) {
                    self.mode = Mode::Skip;
                }
                self.start = self.at;
                done.then_some(Line::Item { start, end: self.at })
            }
        }
    }

    fn too_large(&mut self) -> Option<Line> {
        if self.is_skipping() || self.at - self.start <= self.largest {
            return None;
        }
        let start = self.start;
        match &mut self.mode {
            // Skipping ends at the next item.
            Mode::Items { given_up, .. } => *given_up = true,
            mode => *mode = Mode::Skip,
        }
        Some(Line::TooLarge { start })
    }

    /// Ends the document; the next begins at `at`.
    fn finish(&mut self, end: usize, at: usize) -> Line {
        let (start, mode) = (self.start, std::mem::replace(&mut self.mode, Mode::Skip));
        self.at = at;
        self.start = at;
        self.over = true;
        match mode {
            Mode::Document { directive: false, content: false, .. }
            | Mode::Skip
            | Mode::Items { given_up: true, .. } => Line::End { at },
            Mode::Document { .. } => Line::Document { start, end },
            Mode::Items { .. } => Line::Item { start, end },
        }
    }
}

/// `---` or `...`, alone or followed by whitespace.
fn marker(line: &[u8]) -> Option<u8> {
    match line {
        [b'-', b'-', b'-', after @ ..] | [b'.', b'.', b'.', after @ ..]
            if matches!(after.first(), None | Some(b' ' | b'\t' | b'\r' | b'\n')) =>
        {
            Some(line[0])
        }
        _ => None,
    }
}

/// A line of a block sequence, without its indentation.
fn is_item(text: &[u8]) -> bool {
    matches!(text, [b'-'] | [b'-', b' ' | b'\t', ..])
}

/// A list in block style, up to its first item.
struct List {
    /// Start of the line of the first item.
    items: usize,
    dash: usize,
    header: Option<ItemHeader>,
}

impl List {
    /// Reads the beginning of a document. `None` if it is not a list in block style.
    fn find(text: &[u8]) -> Option<Self> {
        let (mut kind, mut api_version) = (None, None);
        let mut lines = Numbered { text, at: 0 };
        // Top-level keys before `items`.
        loop {
            let (_, line) = lines.next()?;
            if let Some(value) = value_of(line, b"items") {
                if !value.is_empty() {
                    return None;
                }
                break;
            }
            kind = value_of(line, b"kind").or(kind);
            api_version = value_of(line, b"apiVersion").or(api_version);
        }
        let (items, first) = lines.find(|(_, line)| !is_blank(line))?;
        let dash = first.iter().take_while(|&&byte| byte == b' ').count();
        if !is_item(first[dash..].trim_ascii_end()) {
            return None;
        }
        let header = match kind {
            Some(kind) => {
                let item = kind.strip_suffix(b"List")?;
                let quoted = |word: &[u8]| [b"\"", word, b"\""].concat();
                let plain = is_word(item) && api_version.is_none_or(is_word);
                plain.then(|| {
                    let kind = quoted(item);
                    ItemHeader::new(api_version.map(quoted).as_deref(), &kind[..kind.len() - 1])
                })
            }
            // The kind may follow. The first item shows whether the items are complete objects.
            None => {
                let inside = dash + 1 + first[dash + 1..].iter().take_while(|&&byte| byte == b' ').count();
                let (mut has_kind, mut has_version) = (false, false);
                let mut note = |member: &[u8]| {
                    has_kind |= value_of(member, b"kind").is_some();
                    has_version |= value_of(member, b"apiVersion").is_some();
                };
                note(&first[inside..]);
                for (_, line) in lines {
                    let indent = line.iter().take_while(|&&byte| byte == b' ').count();
                    if !is_blank(line) && indent <= dash {
                        break;
                    }
                    if indent == inside {
                        note(&line[inside..]);
                    }
                }
                if !(has_kind && has_version) {
                    return None;
                }
                None
            }
        };
        Some(Self { items, dash, header })
    }
}

/// The value of `key:` at the beginning of a line, without quotes and comments.
fn value_of<'a>(line: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    let value = line.strip_prefix(key)?.strip_prefix(b":")?;
    if !matches!(value.first(), None | Some(b' ' | b'\t' | b'\r' | b'\n')) {
        return None;
    }
    let value = match value.windows(2).position(|pair| matches!(pair, [b' ' | b'\t', b'#'])) {
        Some(comment) => &value[..comment],
        None => value,
    }
    .trim_ascii();
    match value {
        [b'"', inner @ .., b'"'] | [b'\'', inner @ .., b'\''] => Some(inner),
        _ => Some(value),
    }
}

/// Characters of kinds and API versions, which need no escape.
fn is_word(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'/' | b'-'))
}

fn is_blank(line: &[u8]) -> bool {
    matches!(line.trim_ascii_start().first(), None | Some(b'#'))
}

/// Lines of a text with their offsets.
struct Numbered<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Iterator for Numbered<'a> {
    type Item = (usize, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.text.get(self.at..).filter(|rest| !rest.is_empty())?;
        let start = self.at;
        let line = memchr(b'\n', rest).map_or(rest, |length| &rest[..length]);
        self.at += line.len() + 1;
        Some((start, line))
    }
}
