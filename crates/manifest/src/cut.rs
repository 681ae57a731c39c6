//! Incremental splitting of JSON text into objects and list items.

use std::sync::Arc;

use crate::head::{Head, ItemHeader, skip_space};
use crate::structure::{Found, Scan, container_end};

/// Maximum bytes of a document held while its kind is unknown. etcd rejects objects of more than 1.5 MiB, so a larger
/// document is probably a list.
pub(crate) const HOLD_BYTES: usize = 2 << 20;

/// Maximum nesting of lists and arrays that are streamed.
const FRAMES: usize = 32;

/// Result of [`Cutter::next`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// An object; `list` if its top level has an array `items` and its kind may be a list.
    Object { start: usize, end: usize, list: bool },
    /// Anything but an object between two objects.
    Stray { at: usize },
    /// Exceeds the maximum nesting; cut to its end all the same.
    TooDeep { start: usize },
    /// A syntax error, which ends the document.
    Broken { at: usize, message: &'static str, restart: bool },
    /// End of the outermost document.
    End { at: usize },
    /// All data is consumed.
    More,
}

/// An array whose elements are cut as objects.
#[derive(Debug)]
struct Frame {
    /// The array is `items` of a list that is not itself an element.
    items: bool,
    header: Option<Arc<ItemHeader>>,
}

/// State of the array `items` of the current object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Items {
    None,
    /// Start of the array; the kind is not known yet.
    Undecided(usize),
    /// The object is cut as a whole, whether it is a list or not.
    Whole,
    /// The object is not a list.
    NoList,
}

/// State between two pieces of JSON text.
#[derive(Debug)]
pub(crate) struct Cutter {
    scan: Scan,
    frames: Vec<Frame>,
    /// Bracket depth of the frames.
    base: usize,
    /// Start of the current object.
    object: Option<usize>,
    items: Items,
    /// End of the last element of the innermost frame.
    gap: usize,
    /// A stray value of this gap was reported.
    gap_reported: bool,
    /// Rest of a list after its items, or of a skipped object.
    skipping: bool,
    hold: usize,
    largest: usize,
    depth: usize,
    /// Last removed byte that is not whitespace.
    last: Option<u8>,
    /// Next results.
    queued: Option<Cut>,
    /// The skipped part was already reported.
    given_up: bool,
}

impl Cutter {
    /// A cutter for a document that begins at `start`.
    pub(crate) fn new(start: usize, hold: usize, largest: usize, depth: usize) -> Self {
        Self {
            scan: Scan::from(start, 0).limited(depth),
            frames: Vec::new(),
            base: 0,
            object: None,
            items: Items::None,
            gap: start,
            gap_reported: false,
            skipping: false,
            hold,
            largest,
            depth,
            last: None,
            queued: None,
            given_up: false,
        }
    }

    /// A cutter for the items of a list, whose array begins at `start`.
    /// Nothing in it is too large.
    pub(crate) fn for_items(start: usize, depth: usize, header: Option<ItemHeader>) -> Self {
        let mut cutter = Self::new(start + 1, usize::MAX, usize::MAX, depth);
        cutter.scan = Scan::from(start + 1, 1).limited(depth);
        cutter.push(false, header.map(Arc::new), start + 1);
        cutter
    }

    /// The next document begins at `start`, and nothing but white space before it.
    pub(crate) fn continue_at(&mut self, start: usize) {
        self.gap = start;
    }

    /// Start of the data that is still needed.
    pub(crate) fn keep_from(&self, data: &[u8]) -> usize {
        let wanted = if self.skipping { data.len() } else { self.object.unwrap_or(self.gap) };
        wanted.min(self.scan.pending())
    }

    /// The header for the items of the innermost list.
    pub(crate) fn header(&self) -> Option<Arc<ItemHeader>> {
        self.frames.last().and_then(|frame| frame.header.clone())
    }

    /// Start of the incomplete object.
    pub(crate) fn open_object(&self) -> Option<usize> {
        self.object
    }

    /// Skips the current object: it is cut, but not reported.
    pub(crate) fn skip_object(&mut self) {
        self.object = None;
        self.skipping = true;
        self.given_up = true;
    }

    /// Accounts for bytes removed from the front of the data.
    pub(crate) fn shift(&mut self, gone: &[u8]) {
        let by = gone.len();
        self.last = gone.iter().rev().copied().find(|byte| !byte.is_ascii_whitespace()).or(self.last);
        self.scan.shift(by);
        self.gap = self.gap.saturating_sub(by);
        self.object = self.object.map(|at| at.saturating_sub(by));
        if let Items::Undecided(at) = &mut self.items {
            *at = at.saturating_sub(by);
        }
    }

    /// The next cut. `data` is the previous data with more bytes at its end.
    pub(crate) fn next(&mut self, data: &[u8]) -> Cut {
        if let Some(cut) = self.queued.take() {
            return cut;
        }
        loop {
            match self.scan.next(data, self.base + 1) {
                Found::Open(at) => {
                    if let Some(cut) = self.open(data, at) {
                        return cut;
                    }
                }
                Found::Close(at) => {
                    if let Some(cut) = self.close(data, at) {
                        return cut;
                    }
                }
                Found::BrokenString(at) => {
                    let message = "the line ends inside of a string: a quote is missing";
                    return self.after_stray(data, at, Cut::Broken { at, message, restart: false });
                }
                Found::LineStart(at) => {
                    // A value follows `[`, `,` or `:`. After anything else, this is the next document, and the current
                    // one is truncated: reporting it here saves the rest of the stream.
                    let before =
                        data[..at].iter().rev().copied().find(|b| !b.is_ascii_whitespace()).or(self.last);
                    let fits = data[at] != b'-' && matches!(before, Some(b'[' | b',' | b':'));
                    if self.scan.depth > 0 && !fits {
                        let message = "a new document starts here, but the previous one is not closed";
                        return self.after_stray(data, at, Cut::Broken { at, message, restart: true });
                    }
                }
                Found::End => {
                    if let Some(start) = self.object
                        && data.len() - start > self.hold
                        && self.stream_undecided(data)
                    {
                        continue;
                    }
                    if let Some(start) = self.too_deep() {
                        self.skip_object();
                        return Cut::TooDeep { start };
                    }
                    // The incomplete last line may be a document marker.
                    if let Some(at) = self.stray(data, self.scan.pending()) {
                        return Cut::Stray { at };
                    }
                    return Cut::More;
                }
            }
        }
    }

    fn open(&mut self, data: &[u8], at: usize) -> Option<Cut> {
        let depth = self.scan.depth;
        if self.skipping {
            return None;
        }
        if depth == self.base + 1 {
            let stray = self.stray(data, at);
            self.scan.too_deep = None;
            if data[at] == b'[' && self.frames.len() < FRAMES {
                self.push(false, None, at + 1);
            } else {
                self.object = Some(at);
                self.items = Items::None;
            }
            return stray.map(|at| Cut::Stray { at });
        }
        if depth == self.base + 2
            && data[at] == b'['
            && self.items == Items::None
            && let Some(object) = self.object
            && data[object] == b'{'
            && key_before_is_items(&data[object..at])
        {
            let head = Head::read(&data[object..at]);
            match head.is_list_kind() {
                Some(true) if self.frames.len() < FRAMES => {
                    let header = head.item_header().map(Arc::new);
                    self.push(true, header, at + 1);
                }
                Some(true) => self.items = Items::Whole,
                Some(false) => self.items = Items::NoList,
                None => self.items = Items::Undecided(at),
            }
        }
        None
    }

    fn close(&mut self, data: &[u8], at: usize) -> Option<Cut> {
        let depth = self.scan.depth;
        if depth == self.base {
            if let Some(start) = self.object {
                if at + 1 - start > self.hold && self.stream_undecided(data) {
                    return None;
                }
                let too_deep = self.too_deep();
                self.object = None;
                self.end_element(at);
                if let Some(start) = too_deep {
                    return Some(Cut::TooDeep { start });
                }
                let list = matches!(self.items, Items::Undecided(_) | Items::Whole);
                return Some(Cut::Object { start, end: at + 1, list });
            }
            self.skipping = false;
            self.given_up = false;
            self.end_element(at);
            return self.frames.is_empty().then_some(Cut::End { at: at + 1 });
        }
        let stray = self.stray(data, at).map(|at| Cut::Stray { at });
        let Some(frame) = self.frames.pop() else { return Some(Cut::End { at: at + 1 }) };
        let mut next = None;
        if data[at] != b']' {
            let message = "expected ']' at the end of a list";
            next = Some(Cut::Broken { at, message, restart: false });
        } else if frame.items {
            self.base -= 2;
            self.skipping = true;
        } else {
            self.base -= 1;
            self.end_element(at);
            next = self.frames.is_empty().then_some(Cut::End { at: at + 1 });
        }
        if stray.is_some() {
            self.queued = next;
            return stray;
        }
        next
    }

    /// Reports errors before `to` first.
    fn after_stray(&mut self, data: &[u8], to: usize, cut: Cut) -> Cut {
        let first = match self.too_deep() {
            Some(start) => {
                self.skip_object();
                Some(Cut::TooDeep { start })
            }
            None => self.stray(data, to).map(|at| Cut::Stray { at }),
        };
        match first {
            Some(first) => {
                self.queued = Some(cut);
                first
            }
            None => cut,
        }
    }

    /// Start of the object if it exceeds the maximum nesting, unless it was too large before.
    fn too_deep(&self) -> Option<usize> {
        let at = self.scan.too_deep?;
        self.object.filter(|start| at - start <= self.largest)
    }

    /// No document is open.
    pub(crate) fn is_done(&self) -> bool {
        self.scan.depth == 0
    }

    /// The input ends within something that no cut has reported.
    pub(crate) fn is_truncated(&self) -> bool {
        !self.is_done() && !self.given_up
    }

    fn end_element(&mut self, at: usize) {
        self.gap = at + 1;
        self.gap_reported = false;
    }

    fn push(&mut self, items: bool, header: Option<Arc<ItemHeader>>, gap: usize) {
        self.frames.push(Frame { items, header });
        self.base += if items { 2 } else { 1 };
        self.object = None;
        self.items = Items::None;
        self.gap = gap;
        self.gap_reported = false;
    }

    /// Anything between the last element and `to` except a comma and whitespace.
    fn stray(&mut self, data: &[u8], to: usize) -> Option<usize> {
        if self.frames.is_empty() || self.object.is_some() || self.skipping || self.gap >= to {
            return None;
        }
        let gap = self.gap;
        self.gap = to;
        if self.gap_reported {
            return None;
        }
        let at = data[gap..to].iter().position(|b| !matches!(b, b',' | b' ' | b'\t' | b'\r' | b'\n'))?;
        self.gap_reported = true;
        Some(gap + at)
    }

    /// The object exceeds the limit for unknown kinds. If its first item looks like a complete object, it is cut as a
    /// list.
    fn stream_undecided(&mut self, data: &[u8]) -> bool {
        let Items::Undecided(items) = self.items else { return false };
        let first = skip_space(data, items + 1);
        let Some(end) = container_end(data, first) else { return false };
        // The result must not depend on bytes beyond the limit.
        if self.object.is_some_and(|object| end - object > self.largest) {
            return false;
        }
        let head = Head::read(&data[first..end]);
        if data[first] != b'{'
            || head.kind.is_none()
            || head.api_version.is_none()
            || self.frames.len() >= FRAMES
        {
            self.items = Items::Whole;
            return false;
        }
        self.push(true, None, items + 1);
        self.scan = Scan::from(items + 1, self.base).limited(self.depth);
        true
    }
}

/// `text` ends with a key `items` and its colon.
pub(crate) fn key_before_is_items(text: &[u8]) -> bool {
    let Some(text) = text.trim_ascii_end().strip_suffix(b":") else { return false };
    let Some(text) = text.trim_ascii_end().strip_suffix(b"\"items\"") else { return false };
    // Excludes the end of a longer string with an escaped quote.
    matches!(text.last(), Some(b'{' | b',' | b' ' | b'\t' | b'\r' | b'\n'))
}
