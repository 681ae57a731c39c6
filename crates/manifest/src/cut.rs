//! Incremental splitting of JSON text into objects and list items.

use std::sync::Arc;

use crate::head::{Head, ItemHeader, skip_space};
use crate::structure::{Found, Scan, container_end};

/// How much of a document is held while it isn't clear whether it is a list. etcd refuses objects of more than
/// 1.5 MiB, so that a larger document is hardly a single one.
pub(crate) const HOLD_BYTES: usize = 2 << 20;

/// How many lists and arrays may stand in one another and still be streamed.
const FRAMES: usize = 32;

/// What [`Cutter::next`] found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// An object; `list` if its top level has an array `items` and it may be a list.
    Object { start: usize, end: usize, list: bool },
    /// Something between two objects that is none.
    Stray { at: usize },
    /// Nests too deeply; cut to its end all the same.
    TooDeep { start: usize },
    /// A document is broken here, and nothing is left of it.
    Broken { at: usize, message: &'static str, restart: bool },
    /// The outermost document ended here.
    End { at: usize },
    /// The data is used up.
    More,
}

/// An array whose elements are taken for objects of their own.
#[derive(Debug)]
struct Frame {
    /// The array is `items` of a list, and not an element itself.
    items: bool,
    header: Option<Arc<ItemHeader>>,
}

/// What is known about the array `items` of the current object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Items {
    None,
    /// It began here, and the kind isn't known yet.
    Undecided(usize),
    /// The object is cut as a whole, a list or not.
    Whole,
    /// The object is no list.
    NoList,
}

/// The state between two pieces of JSON text.
#[derive(Debug)]
pub(crate) struct Cutter {
    scan: Scan,
    frames: Vec<Frame>,
    /// How many brackets the frames account for.
    base: usize,
    /// Where the current object began.
    object: Option<usize>,
    items: Items,
    /// The end of the last element of the innermost frame.
    gap: usize,
    /// A stray value of this gap was reported.
    gap_reported: bool,
    /// What is left of a list after its items, or of an object that is given up.
    skipping: bool,
    hold: usize,
    largest: usize,
    depth: usize,
    /// The last byte that was taken away and isn't white space.
    last: Option<u8>,
    /// What is to be said next.
    queued: Option<Cut>,
    /// What is skipped was reported already.
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

    /// From where on the data is still needed.
    pub(crate) fn keep_from(&self, data: &[u8]) -> usize {
        let wanted = if self.skipping { data.len() } else { self.object.unwrap_or(self.gap) };
        wanted.min(self.scan.pending())
    }

    /// The header for the items of the innermost list.
    pub(crate) fn header(&self) -> Option<Arc<ItemHeader>> {
        self.frames.last().and_then(|frame| frame.header.clone())
    }

    /// Where the object began that isn't at its end yet.
    pub(crate) fn open_object(&self) -> Option<usize> {
        self.object
    }

    /// Gives the current object up: it is cut, but not reported.
    pub(crate) fn skip_object(&mut self) {
        self.object = None;
        self.skipping = true;
        self.given_up = true;
    }

    /// Forgets the first bytes of the data, which are taken away.
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

    /// The next cut. `data` is what it was the last time, with more at its end.
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
                    // A value follows `[`, `,` or `:`. After anything else, this is the next document, and the one
                    // before it is cut short: saying so here saves the rest of the stream.
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
                    // Not beyond what is still to be seen: a line that begins may be a marker.
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

    /// Says what is wrong before `to` before what is wrong there.
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

    /// Where the object begins, if it nests too deeply: not if it was too large before it did.
    fn too_deep(&self) -> Option<usize> {
        let at = self.scan.too_deep?;
        self.object.filter(|start| at - start <= self.largest)
    }

    /// No document is open.
    pub(crate) fn is_done(&self) -> bool {
        self.scan.depth == 0
    }

    /// The input ends in the middle of something that no cut has told yet.
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

    /// Something between the last element and `to` that is neither a comma nor white space.
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

    /// The object has grown too large to be held until its kind is known. If its first item looks like an object of
    /// its own, it is a list, and cut as one.
    fn stream_undecided(&mut self, data: &[u8]) -> bool {
        let Items::Undecided(items) = self.items else { return false };
        let first = skip_space(data, items + 1);
        let Some(end) = container_end(data, first) else { return false };
        // Whether it is found doesn't depend on how much is there beyond what may be held.
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
    // Not the end of a longer string with an escaped quote.
    matches!(text.last(), Some(b'{' | b',' | b' ' | b'\t' | b'\r' | b'\n'))
}
