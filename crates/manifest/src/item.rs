//! Items of a stream: objects, and malformed documents with their position.

use std::fmt;

use memchr::{memchr_iter, memrchr};

/// An object or malformed document, in stream order.
///
/// # Examples
///
/// See [`Splitter`](crate::Splitter).
#[derive(Debug)]
pub enum Item<'a> {
    /// An object.
    Object(Object<'a>),
    /// A malformed document. Reading continues after it.
    Malformed(Malformed),
}

/// One object as JSON.
#[derive(Debug, Clone, Copy)]
pub struct Object<'a> {
    /// The object's text: for JSON the input's own bytes, **not yet validated** beyond the nesting of brackets; for
    /// YAML its transcoding.
    pub json: &'a [u8],
    pub(crate) origin: Origin,
    /// Where the nodes of a YAML document come from, if its reader keeps that.
    pub(crate) places: &'a [(usize, usize)],
}

/// Location of an object's text in its batch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin {
    /// Offset of the object in the batch.
    pub(crate) start: usize,
    /// Number of bytes in `json` before the input's own (injected `apiVersion` and `kind`).
    pub(crate) added: usize,
    /// `json` is the input's own text, so offsets in it are offsets in the batch.
    pub(crate) verbatim: bool,
    /// Offset of the document in the batch, and of the object in the document's JSON.
    pub(crate) document: (usize, usize),
    /// A known position shortly before, so that many errors do not count lines again.
    pub(crate) near: (usize, Position),
}

/// A document that could not be read.
///
/// # Examples
///
/// ```
/// let error = settled_manifest::yaml_to_json(b"a: 1\nb: [", &mut Vec::new()).unwrap_err();
/// assert_eq!(error.position.line, 2);
/// assert_eq!(error.to_string(), "line 2, column 5: did not find expected node content");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed {
    /// The error, without its position.
    pub message: String,
    /// Its position in the stream.
    pub position: Position,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.position, self.message)
    }
}

impl std::error::Error for Malformed {}

/// Position in a stream. Lines and columns count from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Line number: line feeds before it, plus one.
    pub line: u64,
    /// Column in characters (not bytes).
    pub column: u64,
}

impl Position {
    /// The position after `text`, which begins here.
    pub(crate) fn advance(self, text: &[u8]) -> Self {
        let newlines = memchr_iter(b'\n', text).count() as u64;
        let last = memrchr(b'\n', text).map_or(text, |at| &text[at + 1..]);
        // Counts all bytes except UTF-8 continuation bytes.
        let characters = last.iter().filter(|&&byte| byte & 0xC0 != 0x80).count() as u64;
        Self {
            line: self.line + newlines,
            column: if newlines == 0 { self.column + characters } else { characters + 1 },
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}
