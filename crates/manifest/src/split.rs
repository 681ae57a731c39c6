//! Splitter: cuts a stream into batches of whole documents.

use std::borrow::Cow;
use std::io::{self, ErrorKind, Read};
use std::mem;

use memchr::memchr;

use crate::batch::{Batch, Content, Document};
use crate::cut::{Cut, Cutter, HOLD_BYTES};
use crate::detect::{Next, Place, SNIFF_BYTES, Start, next_document, start_of_stream};
use crate::head::skip_space;
use crate::item::Position;
use crate::limits::Limits;
use crate::lines::{Line, Lines};

/// State of the splitter at the current position.
#[derive(Debug)]
enum Mode {
    /// At the beginning of the stream, whose encoding is not known yet.
    Start,
    /// Between two documents. After a JSON document without a `---`, the next can only be JSON.
    Between { yaml: bool, comment: bool },
    /// Inside of a JSON document.
    Json(Box<Cutter>),
    /// Inside of a YAML document.
    Yaml(Lines),
    /// After invalid text, up to a line that begins a document.
    Lost,
    /// At the end.
    End,
}

/// Cuts a stream of YAML and JSON documents into [`Batch`]es of whole documents.
///
/// The first byte determines the format: `{` and `[` begin JSON documents, which may be adjacent, on separate lines, or
/// separated by `---`; everything else is YAML up to the next line `---` or `...`. (`{a: b}` and `[a, b]` are
/// recognised as YAML by the byte after the bracket.)
///
/// A JSON list (`kind: …List`, with `items`) whose kind precedes its items, and a top-level array, are cut item by
/// item, whatever their size. Since `kubectl` prints the items first, a list of unknown kind is held up to 2 MiB;
/// beyond that it is a list if its first item has `apiVersion` and `kind`, and otherwise one object. YAML documents of
/// more than 2 MiB are treated the same if they are in block style; items then cannot share anchors.
///
/// # Examples
///
/// ```
/// use settled_manifest::{Batch, Item, Scratch, Splitter};
///
/// let stream = "kind: ConfigMap\n---\n{\"kind\": \"Pod\"}";
/// let mut splitter = Splitter::new(stream.as_bytes());
/// let (mut batch, mut scratch, mut found) = (Batch::default(), Scratch::default(), Vec::new());
/// while let Some(next) = splitter.next_batch(batch)? {
///     next.objects(&mut scratch, |item| match item {
///         Item::Object(object) => found.push(String::from_utf8_lossy(object.json).into_owned()),
///         Item::Malformed(why) => found.push(why.to_string()),
///     });
///     batch = next;
/// }
/// assert_eq!(found, ["{\"kind\":\"ConfigMap\"}", "{\"kind\": \"Pod\"}"]);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Splitter<R> {
    reader: R,
    limits: Limits,
    mode: Mode,
    /// End of the inspected data, in all modes but JSON.
    at: usize,
    /// Start of the line of `at`.
    line_start: usize,
    /// Rest of the previous batch.
    carry: Vec<u8>,
    /// Position of the next batch's first byte.
    position: Position,
    exhausted: bool,
}

impl<R: Read> Splitter<R> {
    /// A splitter with the default [`Limits`].
    pub fn new(reader: R) -> Self {
        Self::with_limits(reader, Limits::default())
    }

    /// A splitter with other limits.
    pub fn with_limits(reader: R, limits: Limits) -> Self {
        Self {
            reader,
            limits,
            mode: Mode::Start,
            at: 0,
            line_start: 0,
            carry: Vec::new(),
            position: Position { line: 1, column: 1 },
            exhausted: false,
        }
    }

    /// The next batch, or `None` at the end. `recycled` is a processed batch, for its memory; initially,
    /// `Batch::default()`.
    ///
    /// Blocks until a batch is full or the stream ends. Errors in documents are reported by [`Batch::objects`].
    ///
    /// # Errors
    ///
    /// Errors of the reader, except `Interrupted`, which is retried. After an error the splitter is at its end;
    /// complete documents before it are in the previous batch.
    pub fn next_batch(&mut self, recycled: Batch) -> io::Result<Option<Batch>> {
        let mut batch = recycled;
        batch.reset(self.position, self.limits);
        batch.append(&self.carry);
        self.carry.clear();
        loop {
            if matches!(self.mode, Mode::End) {
                break;
            }
            let wanted = self.limits.batch_bytes.max(1).saturating_sub(batch.len);
            // A full batch without a whole document grows by the target size.
            let wanted = if wanted == 0 { self.limits.batch_bytes.clamp(1, 1 << 20) } else { wanted };
            if let Err(error) = self.fill(&mut batch, wanted) {
                self.mode = Mode::End;
                return Err(error);
            }
            self.cut(&mut batch);
            if !batch.documents.is_empty() {
                break;
            }
            let keep = self.keep_from(&batch);
            self.forget(&mut batch, keep);
        }
        let keep = self.keep_from(&batch);
        self.carry.extend_from_slice(&batch.data()[keep..]);
        self.position = batch.position_at(keep);
        self.shift(&batch.bytes[..keep]);
        Ok((!batch.documents.is_empty()).then_some(batch))
    }

    /// Reads until there are `wanted` bytes more or the stream ends.
    fn fill(&mut self, batch: &mut Batch, wanted: usize) -> io::Result<()> {
        let until = batch.len + wanted;
        batch.grow(until);
        while batch.len < until && !self.exhausted {
            match self.reader.read(&mut batch.bytes[batch.len..until]) {
                Ok(0) => self.exhausted = true,
                Ok(count) => batch.len += count.min(until - batch.len),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Start of the data that is still needed after this batch.
    fn keep_from(&self, batch: &Batch) -> usize {
        match &self.mode {
            Mode::Json(cutter) => cutter.keep_from(batch.data()),
            Mode::Yaml(lines) => lines.keep_from(),
            Mode::Start | Mode::Between { .. } => self.line_start,
            Mode::Lost => self.at,
            Mode::End => batch.len,
        }
        .min(batch.len)
    }

    /// Removes data that no document needs.
    fn forget(&mut self, batch: &mut Batch, keep: usize) {
        if keep > 0 {
            let position = batch.position_at(keep);
            self.shift(&batch.bytes[..keep]);
            batch.bytes.copy_within(keep..batch.len, 0);
            batch.len -= keep;
            batch.origin = position;
        }
    }

    fn shift(&mut self, gone: &[u8]) {
        let by = gone.len();
        self.at = self.at.saturating_sub(by);
        self.line_start = self.line_start.saturating_sub(by);
        match &mut self.mode {
            Mode::Json(cutter) => cutter.shift(gone),
            Mode::Yaml(lines) => lines.shift(by),
            Mode::Start | Mode::Between { .. } | Mode::Lost | Mode::End => {}
        }
    }

    /// Cuts the available data into documents, until more is needed.
    fn cut(&mut self, batch: &mut Batch) {
        loop {
            let going_on = match mem::replace(&mut self.mode, Mode::End) {
                Mode::Start => self.cut_start(batch),
                Mode::Between { yaml, comment } => self.cut_between(batch, yaml, comment),
                Mode::Json(cutter) => self.cut_json(batch, cutter),
                Mode::Yaml(lines) => self.cut_yaml(batch, lines),
                Mode::Lost => self.cut_lost(batch),
                Mode::End => false,
            };
            if !going_on {
                return;
            }
        }
    }

    fn cut_start(&mut self, batch: &mut Batch) -> bool {
        if batch.len < SNIFF_BYTES && !self.exhausted {
            self.mode = Mode::Start;
            return false;
        }
        match start_of_stream(batch.data()) {
            Start::Text { skip } => {
                self.at = skip;
                self.line_start = skip;
                self.mode = Mode::Between { yaml: true, comment: false };
            }
            // Everything after it is ambiguous: the mode stays `End`.
            Start::Foreign(message) => batch.malformed(0, Cow::Borrowed(message)),
        }
        true
    }

    fn cut_between(&mut self, batch: &mut Batch, yaml: bool, comment: bool) -> bool {
        let data = &batch.bytes[..batch.len];
        let mut place = Place { at: self.at, line_start: self.line_start, yaml, comment };
        let next = next_document(data, &mut place, self.exhausted);
        (self.at, self.line_start) = (place.at, place.line_start);
        match next {
            Next::More => {
                // Unbounded whitespace is not held.
                if self.at - self.line_start > self.limits.object_bytes {
                    self.line_start = self.at;
                }
                self.mode = Mode::Between { yaml: place.yaml, comment: place.comment };
                return false;
            }
            Next::End => {}
            Next::Json => {
                let Limits { object_bytes, depth, .. } = self.limits;
                self.mode = Mode::Json(Box::new(Cutter::new(self.at, self.hold(), object_bytes, depth)));
            }
            Next::Yaml => {
                self.mode = Mode::Yaml(Lines::new(self.line_start, self.hold(), self.limits.object_bytes));
            }
            Next::Neither => {
                batch.malformed(self.at, Cow::Borrowed("expected a JSON object, or '---' before YAML"));
                self.mode = Mode::Lost;
            }
        }
        true
    }

    fn hold(&self) -> usize {
        HOLD_BYTES.min(self.limits.object_bytes / 2)
    }

    fn cut_json(&mut self, batch: &mut Batch, mut cutter: Box<Cutter>) -> bool {
        loop {
            match cutter.next(&batch.bytes[..batch.len]) {
                Cut::Object { start, end, list } => {
                    if end - start > self.limits.object_bytes {
                        batch.too_large(start);
                    } else {
                        let header = cutter.header();
                        batch.documents.push(Document {
                            start,
                            end,
                            content: Content::Json { list, header },
                        });
                    }
                    if cutter.is_done() && !self.next_json(batch, &mut cutter, end) {
                        return true;
                    }
                }
                Cut::Stray { at } => {
                    batch.malformed(at, Cow::Borrowed("expected an object as the item of a list"));
                }
                Cut::TooDeep { start } => {
                    batch.too_deep(start);
                    if cutter.is_done() {
                        let end = cutter.keep_from(&batch.bytes[..batch.len]);
                        self.between(end);
                        return true;
                    }
                }
                Cut::Broken { at, message, restart } => {
                    if let Some(start) =
                        cutter.open_object().filter(|start| at - start > self.limits.object_bytes)
                    {
                        batch.too_large(start);
                    }
                    batch.malformed(at, Cow::Borrowed(message));
                    self.at = at;
                    self.line_start = at;
                    self.mode =
                        if restart { Mode::Between { yaml: false, comment: false } } else { Mode::Lost };
                    return true;
                }
                Cut::End { at } => {
                    if !self.next_json(batch, &mut cutter, at) {
                        return true;
                    }
                }
                Cut::More => {
                    if let Some(start) = cutter.open_object()
                        && batch.len - start > self.limits.object_bytes
                    {
                        batch.too_large(start);
                        cutter.skip_object();
                    }
                    if self.exhausted {
                        if cutter.is_truncated() {
                            batch.malformed(batch.len, Cow::Borrowed("unexpected end of input"));
                        }
                    } else {
                        self.mode = Mode::Json(cutter);
                    }
                    return false;
                }
            }
        }
    }

    /// Whether only whitespace precedes the next JSON document, so that the cutter can continue. This is the common
    /// case, and a third faster than starting again.
    fn next_json(&mut self, batch: &Batch, cutter: &mut Cutter, at: usize) -> bool {
        let data = batch.data();
        let next = skip_space(data, at);
        if let [b'{', b'"', ..] = data.get(next..).unwrap_or_default() {
            cutter.continue_at(next);
            return true;
        }
        self.between(at);
        false
    }

    fn between(&mut self, at: usize) {
        self.at = at;
        self.line_start = at;
        self.mode = Mode::Between { yaml: false, comment: false };
    }

    fn cut_yaml(&mut self, batch: &mut Batch, mut lines: Lines) -> bool {
        loop {
            match lines.next(&batch.bytes[..batch.len], self.exhausted) {
                Line::Document { start, end } => {
                    batch.documents.push(Document { start, end, content: Content::Yaml });
                }
                Line::Item { start, end } => {
                    let header = lines.header();
                    batch.documents.push(Document { start, end, content: Content::YamlItem { header } });
                }
                Line::TooLarge { start } => batch.too_large(start),
                Line::End { at } => {
                    self.at = at;
                    self.line_start = at;
                    self.mode = Mode::Between { yaml: true, comment: false };
                    return true;
                }
                Line::More => {
                    if !self.exhausted {
                        self.mode = Mode::Yaml(lines);
                    }
                    return false;
                }
            }
        }
    }

    /// Searches the next line that begins a document.
    fn cut_lost(&mut self, batch: &mut Batch) -> bool {
        let data = batch.data();
        while let Some(newline) = memchr(b'\n', &data[self.at..]) {
            let line = self.at + newline + 1;
            match data[line..] {
                [] | [b'-'] | [b'-', b'-'] | [b'-', b'-', b'-'] if !self.exhausted => {
                    self.at += newline;
                    self.mode = Mode::Lost;
                    return false;
                }
                [b'{' | b'[', ..]
                | [b'-', b'-', b'-']
                | [b'-', b'-', b'-', b' ' | b'\t' | b'\r' | b'\n', ..] => {
                    self.between(line);
                    return true;
                }
                _ => self.at = line,
            }
        }
        if !self.exhausted {
            self.at = data.len();
            self.mode = Mode::Lost;
        }
        false
    }
}
