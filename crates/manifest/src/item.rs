//! Items of a stream: objects, and malformed documents with their position.

use std::fmt;

use memchr::{memchr_iter, memrchr};

/// One thing found in a stream, in the order of the stream.
///
/// # Examples
///
/// See [`Splitter`](crate::Splitter).
#[derive(Debug)]
pub enum Item<'a> {
    /// An object.
    Object(Object<'a>),
    /// A place that holds no object, and why. The reading goes on after it.
    Malformed(Malformed),
}

/// One object as JSON.
#[derive(Debug, Clone, Copy)]
pub struct Object<'a> {
    /// The object's text: a JSON document gives the input's own bytes, **not yet validated** beyond the nesting of
    /// its brackets; a YAML document its transcoding.
    pub json: &'a [u8],
    pub(crate) origin: Origin,
}

/// Where in its batch an object's text came from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin {
    /// The byte of the batch at which the object begins.
    pub(crate) start: usize,
    /// How many bytes of `json` stand before the input's own (an injected `apiVersion` and `kind`).
    pub(crate) added: usize,
    /// `json` is the input's own text, so that an offset in it is an offset in the batch.
    pub(crate) verbatim: bool,
    /// A byte of the batch not far before, and its place: with many errors, lines aren't counted anew for each.
    pub(crate) near: (usize, Position),
}

/// A place that holds no object, and why.
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
    /// What is wrong, without the place.
    pub message: String,
    /// Where, in the whole stream.
    pub position: Position,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.position, self.message)
    }
}

impl std::error::Error for Malformed {}

/// A place in a stream. Both numbers count from 1; columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line, counting line feeds.
    pub line: u64,
    /// The column, counting characters (not bytes).
    pub column: u64,
}

impl Position {
    /// The place after `text`, which begins here.
    pub(crate) fn advance(self, text: &[u8]) -> Self {
        let newlines = memchr_iter(b'\n', text).count() as u64;
        let last = memrchr(b'\n', text).map_or(text, |at| &text[at + 1..]);
        // Every byte but the continuation bytes of UTF-8 begins a character.
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
