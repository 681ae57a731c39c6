//! Batches of documents, and iteration over their objects.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use memchr::memmem;

use crate::cut::{Cut, Cutter};
use crate::head::{Head, ItemHeader};
use crate::item::{Item, Malformed, Object, Origin, Position};
use crate::limits::Limits;
use crate::yaml;

/// Maximum nesting of lists.
const NESTED_LISTS: usize = 32;

/// Whole documents of a stream in one buffer. It can be sent to another thread.
///
/// # Examples
///
/// See [`Splitter`](crate::Splitter).
#[derive(Debug)]
pub struct Batch {
    /// Initialised to its full length, so that reading into it needs no initialisation; only the first `len` bytes are
    /// valid.
    pub(crate) bytes: Vec<u8>,
    pub(crate) len: usize,
    pub(crate) documents: Vec<Document>,
    /// Stream position of the first byte.
    pub(crate) origin: Position,
    limits: Limits,
}

impl Default for Batch {
    fn default() -> Self {
        Self {
            bytes: Vec::new(),
            len: 0,
            documents: Vec::new(),
            origin: Position { line: 1, column: 1 },
            limits: Limits::default(),
        }
    }
}

/// One document: a range of the batch, and its format.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) content: Content,
}

#[derive(Debug)]
pub(crate) enum Content {
    /// A JSON value, possibly a `list`. Items of a typed list get its `header`.
    Json { list: bool, header: Option<Arc<ItemHeader>> },
    /// A YAML document.
    Yaml,
    /// An item of a YAML list that was too large to be read as one document, including its dash.
    YamlItem { header: Option<Arc<ItemHeader>> },
    /// A malformed document.
    Malformed(Cow<'static, str>),
}

/// Buffers of [`Batch::objects`], reusable for the next batch. One per thread.
///
/// # Examples
///
/// See [`Splitter`](crate::Splitter).
#[derive(Debug, Default)]
pub struct Scratch {
    yaml: yaml::Transcoder,
    /// Result of converting a YAML document.
    json: Vec<u8>,
    /// An item with the header of its list.
    item: Vec<u8>,
}

impl Scratch {
    /// Memory of a reader that keeps where the values of YAML documents come from, for [`Batch::positions`].
    pub fn with_places() -> Self {
        let mut scratch = Self::default();
        scratch.yaml.places = Some(Vec::new());
        scratch
    }
}

impl Batch {
    pub(crate) fn reset(&mut self, origin: Position, limits: Limits) {
        self.len = 0;
        self.documents.clear();
        self.origin = origin;
        self.limits = limits;
    }

    pub(crate) fn grow(&mut self, to: usize) {
        if self.bytes.len() < to {
            self.bytes.resize(to, 0);
        }
    }

    pub(crate) fn append(&mut self, text: &[u8]) {
        let end = self.len + text.len();
        self.grow(end);
        self.bytes[self.len..end].copy_from_slice(text);
        self.len = end;
    }

    /// The bytes of the batch, including those that will be moved to the next batch.
    pub fn text(&self) -> &[u8] {
        self.data()
    }

    pub(crate) fn data(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    pub(crate) fn malformed(&mut self, at: usize, message: Cow<'static, str>) {
        self.documents.push(Document { start: at, end: at, content: Content::Malformed(message) });
    }

    pub(crate) fn too_large(&mut self, at: usize) {
        let message = format!("the object is larger than the limit of {} bytes", self.limits.object_bytes);
        self.malformed(at, Cow::Owned(message));
    }

    pub(crate) fn too_deep(&mut self, at: usize) {
        let message = format!("the object nests deeper than the limit of {} levels", self.limits.depth);
        self.malformed(at, Cow::Owned(message));
    }

    /// Bytes of the stream in the batch, including those that will be moved to the next batch.
    pub fn size(&self) -> usize {
        self.len
    }

    /// Calls `each` for every object of the batch in stream order: list items one by one; empty documents are skipped.
    ///
    /// An object whose `kind` ends in `List` and that has an array `items` is a list, and so is a top-level array;
    /// lists may be nested. Items of a typed list (`PodList`, as the API serves it) that have neither `apiVersion` nor
    /// `kind` get both from the list, as in Go.
    pub fn objects(&self, scratch: &mut Scratch, mut each: impl FnMut(Item<'_>)) {
        let mut near = (0, self.origin);
        for document in &self.documents {
            self.approach(&mut near, document.start);
            let text = &self.data()[document.start..document.end];
            match &document.content {
                Content::Json { list, header } => {
                    let mut reader = Expand {
                        batch: self,
                        item: &mut scratch.item,
                        each: &mut each,
                        start: document.start,
                        verbatim: true,
                        near,
                        places: &[],
                    };
                    if *list {
                        reader.value(text, 0, header.as_deref(), 0);
                    } else {
                        reader.object(text, 0, header.as_deref());
                    }
                }
                Content::Yaml => self.yaml(scratch, near, document.start..document.end, None, &mut each),
                Content::YamlItem { header } => {
                    self.yaml(
                        scratch,
                        near,
                        document.start..document.end,
                        Some(header.as_deref()),
                        &mut each,
                    );
                }
                Content::Malformed(message) => each(Item::Malformed(Malformed {
                    message: message.clone().into_owned(),
                    position: self.position_from(near, document.start),
                })),
            }
        }
    }

    /// Reads an object's text again, as YAML, if a JSON document turns out to be invalid: Go's decoder then tries YAML,
    /// which allows `{"a": 1,}` or `{"a": b}`.
    ///
    /// The callback of [`Batch::objects`] borrows its scratch, so this needs another one.
    ///
    /// # Examples
    ///
    /// ```
    /// use settled_manifest::{Batch, Item, Scratch, Splitter};
    ///
    /// let batch = Splitter::new(&b"{\"a\": b,}"[..]).next_batch(Batch::default())?.unwrap();
    /// batch.objects(&mut Scratch::default(), |item| {
    ///     let Item::Object(object) = item else { unreachable!() };
    ///     // Parsing `object.json` as JSON fails, so:
    ///     batch.objects_as_yaml(&object, &mut Scratch::default(), |item| {
    ///         let Item::Object(object) = item else { unreachable!() };
    ///         assert_eq!(object.json, br#"{"a":"b"}"#);
    ///     });
    /// });
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn objects_as_yaml(
        &self,
        object: &Object<'_>,
        scratch: &mut Scratch,
        mut each: impl FnMut(Item<'_>),
    ) {
        let Origin { start, added, verbatim, near, .. } = object.origin;
        if !verbatim {
            return each(Item::Object(*object));
        }
        let end = (start + object.json.len().saturating_sub(added)).min(self.len);
        self.yaml(scratch, near, start..end, None, &mut each);
    }

    /// `item` is the header of the list that contains the document.
    fn yaml(
        &self,
        scratch: &mut Scratch,
        near: (usize, Position),
        place: Range<usize>,
        item: Option<Option<&ItemHeader>>,
        each: &mut dyn FnMut(Item<'_>),
    ) {
        scratch.json.clear();
        let start = place.start;
        let document = &self.data()[place];
        if let Err(error) = scratch.yaml.read(document, &mut scratch.json, self.limits) {
            let mut message = error.message;
            if item.is_some() && message.starts_with("unknown anchor") {
                message.push_str(" (in a list of more than 2 MiB, items cannot share anchors)");
            }
            return each(Item::Malformed(Malformed {
                message,
                position: self.position_from(near, start + error.at),
            }));
        }
        let text = &scratch.json[..];
        let places = scratch.yaml.places.as_deref().unwrap_or_default();
        let mut reader =
            Expand { batch: self, item: &mut scratch.item, each, start, verbatim: false, near, places };
        match text.first() {
            None | Some(b'n') => {}
            Some(b'{') if memmem::find(text, b"\"items\":").is_none() => reader.object(text, 0, None),
            _ => reader.value(text, 0, item.flatten(), 0),
        }
    }

    /// Stream position of byte `offset` of `object.json`, for parse errors. For YAML, whose text differs, the start of
    /// the document, unless the scratch was made by [`with_places`](Scratch::with_places).
    ///
    /// Counts lines from a position shortly before the object, which is cheap enough for errors.
    ///
    /// # Examples
    ///
    /// ```
    /// use settled_manifest::{Batch, Item, Scratch, Splitter};
    ///
    /// let batch = Splitter::new(&b"{\"a\":1}\n{\"b\":\n oops}"[..]).next_batch(Batch::default())?.unwrap();
    /// let mut places = Vec::new();
    /// batch.objects(&mut Scratch::default(), |item| {
    ///     if let Item::Object(object) = item
    ///         && let Some(at) = object.json.windows(4).position(|word| word == b"oops")
    ///     {
    ///         places.push(batch.position(&object, at).to_string());
    ///     }
    /// });
    /// assert_eq!(places, ["line 3, column 2"]);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn position(&self, object: &Object<'_>, offset: usize) -> Position {
        self.position_from(object.origin.near, object.byte(offset))
    }

    /// As [`Batch::position`], of many bytes: the object is gone over once.
    ///
    /// # Examples
    ///
    /// ```
    /// use settled_manifest::{Batch, Item, Scratch, Splitter};
    ///
    /// let text = &b"# two\n- a: 1\n  b:\n    c: x\n"[..];
    /// let batch = Splitter::new(text).next_batch(Batch::default())?.unwrap();
    /// let mut places = Vec::new();
    /// batch.objects(&mut Scratch::with_places(), |item| {
    ///     let Item::Object(object) = item else { return };
    ///     assert_eq!(object.json, br#"{"a":1,"b":{"c":"x"}}"#);
    ///     places = batch.positions(&object, &[16, 5]).iter().map(ToString::to_string).collect();
    /// });
    /// assert_eq!(places, ["line 4, column 8", "line 2, column 6"]);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn positions(&self, object: &Object<'_>, offsets: &[usize]) -> Vec<Position> {
        let mut near = object.origin.near;
        let mut positions = vec![near.1; offsets.len()];
        // Aliases and merges of YAML lead back and forth.
        let mut bytes: Vec<(usize, &mut Position)> =
            offsets.iter().map(|offset| object.byte(*offset)).zip(&mut positions).collect();
        bytes.sort_unstable_by_key(|(byte, _)| *byte);
        for (byte, position) in bytes {
            near = (byte.clamp(near.0, self.len.max(near.0)), self.position_from(near, byte));
            *position = near.1;
        }
        positions
    }

    /// Position of `at`, counted from an earlier position.
    fn position_from(&self, near: (usize, Position), at: usize) -> Position {
        let at = at.clamp(near.0, self.len.max(near.0));
        near.1.advance(&self.data()[near.0..at])
    }

    /// Advances a known position towards `at` if it is far away.
    fn approach(&self, near: &mut (usize, Position), at: usize) {
        if at > near.0 + 4096 {
            *near = (at, self.position_from(*near, at));
        }
    }

    pub(crate) fn position_at(&self, at: usize) -> Position {
        self.origin.advance(&self.data()[..at.min(self.len)])
    }
}

/// Iterates over the objects in one JSON text: itself, or its items.
struct Expand<'a> {
    batch: &'a Batch,
    item: &'a mut Vec<u8>,
    each: &'a mut dyn FnMut(Item<'_>),
    /// Offset of the text in the batch.
    start: usize,
    /// The text is part of the batch.
    verbatim: bool,
    /// A known position shortly before.
    near: (usize, Position),
    /// Where the text's nodes come from, if it is not the batch's own.
    places: &'a [(usize, usize)],
}

/// The byte of a document from which the byte `offset` of its JSON comes.
fn source(places: &[(usize, usize)], offset: usize) -> usize {
    let after = places.partition_point(|(written, _)| *written <= offset);
    after.checked_sub(1).and_then(|index| places.get(index)).map_or(0, |(_, at)| *at)
}

impl Object<'_> {
    /// The byte of the batch from which the byte `offset` of `json` comes.
    fn byte(&self, offset: usize) -> usize {
        let Origin { start, added, verbatim, document, .. } = self.origin;
        let offset = offset.saturating_sub(added);
        match verbatim {
            true => start + offset,
            false => document.0 + source(self.places, document.1 + offset),
        }
    }
}

impl Expand<'_> {
    /// `text` begins at `offset` of the document.
    fn value(&mut self, text: &[u8], offset: usize, header: Option<&ItemHeader>, level: usize) {
        let (items, item_header) = if text.starts_with(b"[") {
            (0, header.cloned())
        } else if text.starts_with(b"{") {
            let head = Head::read(text);
            match head.items {
                Some(ref items) if head.is_list_kind() == Some(true) => (items.start, head.item_header()),
                _ => return self.object(text, offset, header),
            }
        } else {
            return self.object(text, offset, header);
        };
        if level >= NESTED_LISTS {
            return self.malformed("lists stand in one another too often", offset);
        }
        let mut cutter = Cutter::for_items(items, self.batch.limits.depth, item_header);
        loop {
            match cutter.next(text) {
                Cut::Object { start, end, list } => {
                    let header = cutter.header();
                    if list {
                        self.value(&text[start..end], offset + start, header.as_deref(), level + 1);
                    } else {
                        self.object(&text[start..end], offset + start, header.as_deref());
                    }
                }
                Cut::Stray { at } => self.malformed("expected an object as the item of a list", offset + at),
                Cut::TooDeep { start } => self.malformed("the object nests too deeply", offset + start),
                Cut::Broken { at, message, .. } => return self.malformed(message, offset + at),
                Cut::End { .. } | Cut::More => return,
            }
        }
    }

    fn object(&mut self, text: &[u8], offset: usize, header: Option<&ItemHeader>) {
        if !text.starts_with(b"{") {
            let found = match text.first() {
                Some(b'[') => "an array",
                Some(b'"') => "a string",
                Some(b't' | b'f') => "a boolean",
                Some(b'n') => "null",
                _ => "a number",
            };
            return self.malformed(&format!("expected an object, found {found}"), offset);
        }
        self.item.clear();
        let added = header.map_or(0, |header| header.complete(text, self.item));
        let json = if added > 0 { &self.item[..] } else { text };
        let start = self.byte(offset);
        self.batch.approach(&mut self.near, start);
        let document = (self.start, offset);
        let origin = Origin { start, added, verbatim: self.verbatim, document, near: self.near };
        (self.each)(Item::Object(Object { json, origin, places: self.places }));
    }

    fn malformed(&mut self, message: &str, offset: usize) {
        let at = self.byte(offset);
        self.batch.approach(&mut self.near, at);
        let position = self.batch.position_from(self.near, at);
        (self.each)(Item::Malformed(Malformed { message: message.to_owned(), position }));
    }

    /// The byte of the batch from which a byte of the text comes.
    fn byte(&self, offset: usize) -> usize {
        self.start + if self.verbatim { offset } else { source(self.places, offset) }
    }
}
