//! A batch of documents, and the objects in it.

use crate::item::{Item, Object, Origin, Position};

/// Whole documents of a stream, in one piece of memory. It can be sent to another thread.
#[derive(Debug, Default)]
pub struct Batch {
    pub(crate) data: Vec<u8>,
}

/// Memory that [`Batch::objects`] needs, to be used again for the next batch. One per thread.
#[derive(Debug, Default)]
pub struct Scratch {}

impl Batch {
    /// Calls `each` for every object of the batch, in the stream's order: the items of a `List` one by one, empty
    /// documents not at all.
    pub fn objects(&self, scratch: &mut Scratch, mut each: impl FnMut(Item<'_>)) {
        let _ = scratch;
        each(Item::Object(Object { json: &self.data, origin: Origin { start: 0, added: 0, verbatim: true } }));
    }

    /// Reads an object's document again, as YAML. For a JSON document that turned out not to be JSON: Go's decoder
    /// then tries YAML, which allows `{"a": 1,}` or `{"a": b}`.
    ///
    /// Inside the callback of [`Batch::objects`] its scratch is taken, so this one is another.
    pub fn objects_as_yaml(&self, object: &Object<'_>, scratch: &mut Scratch, mut each: impl FnMut(Item<'_>)) {
        let _ = scratch;
        each(Item::Object(*object));
    }

    /// Where in the stream the byte `offset` of `object.json` is, for the error of a parser that reads it. For YAML,
    /// whose text is another, where the object begins.
    pub fn position(&self, object: &Object<'_>, offset: usize) -> Position {
        let at = if object.origin.verbatim {
            object.origin.start + offset.saturating_sub(object.origin.added)
        } else {
            object.origin.start
        };
        let before = &self.data[..at.min(self.data.len())];
        let line = before.iter().filter(|&&b| b == b'\n').count() as u64 + 1;
        let column = before.rsplit(|&b| b == b'\n').next().map_or(0, <[u8]>::len) as u64 + 1;
        Position { line, column }
    }
}
