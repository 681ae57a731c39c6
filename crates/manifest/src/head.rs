//! List detection: reads `kind`, `apiVersion` and the position of `items` without parsing the rest of an object.

use std::ops::Range;

use memchr::memchr2;

use crate::structure::container_end;

/// Top-level fields of an object that identify lists. Strings are raw JSON, with their quotes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Head<'a> {
    pub(crate) api_version: Option<&'a [u8]>,
    pub(crate) kind: Option<&'a [u8]>,
    /// The array `items`, including brackets.
    pub(crate) items: Option<Range<usize>>,
}

impl<'a> Head<'a> {
    /// Reads `text`, which begins with `{`, up to its end or the first error.
    pub(crate) fn read(text: &'a [u8]) -> Self {
        let mut head = Self::default();
        for (key, value) in object_members(text) {
            // As in Go, the last duplicate key counts.
            match key {
                b"\"apiVersion\"" => head.api_version = value.starts_with(b"\"").then_some(value),
                b"\"kind\"" => head.kind = value.starts_with(b"\"").then_some(value),
                b"\"items\"" => {
                    let start = value.as_ptr().addr() - text.as_ptr().addr();
                    head.items = value.starts_with(b"[").then_some(start..start + value.len());
                }
                _ => {}
            }
        }
        head
    }

    /// Whether the kind is a list: `List`, `PodList`.
    pub(crate) fn is_list_kind(&self) -> Option<bool> {
        self.kind.map(|kind| kind.ends_with(b"List\""))
    }

    /// The header that items of this list lack.
    pub(crate) fn item_header(&self) -> Option<ItemHeader> {
        let kind = self.kind?.strip_suffix(b"List\"")?;
        // `v1/List` has items of any kind, so they have no common header.
        (kind.len() > 1).then(|| ItemHeader::new(self.api_version, kind))
    }
}

/// The fields that items of a typed list (`PodList`) omit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ItemHeader {
    /// `"apiVersion":"v1","kind":"Pod"`
    fields: Vec<u8>,
}

impl ItemHeader {
    /// Both as raw JSON strings; the kind without its closing quote.
    pub(crate) fn new(api_version: Option<&[u8]>, kind: &[u8]) -> Self {
        let mut fields = Vec::new();
        if let Some(api_version) = api_version {
            fields.extend_from_slice(b"\"apiVersion\":");
            fields.extend_from_slice(api_version);
            fields.push(b',');
        }
        fields.extend_from_slice(b"\"kind\":");
        fields.extend_from_slice(kind);
        fields.push(b'"');
        Self { fields }
    }

    /// Writes `item` with the header if it has neither field (Go's rule). Returns the number of bytes before the item's
    /// own, `None` if it is unchanged.
    pub(crate) fn complete(&self, item: &[u8], out: &mut Vec<u8>) -> usize {
        let Some(rest) = item.strip_prefix(b"{") else { return 0 };
        let head = Head::read(item);
        if head.kind.is_some() || head.api_version.is_some() {
            return 0;
        }
        out.push(b'{');
        out.extend_from_slice(&self.fields);
        if rest.get(skip_space(rest, 0)) != Some(&b'}') {
            out.push(b',');
        }
        let added = out.len() - 1;
        out.extend_from_slice(rest);
        added
    }
}

/// The first byte at or after `at` that is not whitespace.
pub(crate) fn skip_space(text: &[u8], at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    at + rest.iter().position(|b| !matches!(b, b' ' | b'\t' | b'\r' | b'\n')).unwrap_or(rest.len())
}

/// The position after the string whose opening quote is at `start`.
pub(crate) fn string_end(text: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    loop {
        at += memchr2(b'"', b'\\', text.get(at..)?)?;
        if text[at] == b'"' {
            return Some(at + 1);
        }
        at += 2;
    }
}

/// The position after the value that begins at `start`.
fn value_end(text: &[u8], start: usize) -> Option<usize> {
    match text.get(start)? {
        b'"' => string_end(text, start),
        b'{' | b'[' => container_end(text, start),
        _ => {
            let length = text[start..]
                .iter()
                .position(|b| matches!(b, b',' | b'}' | b']' | b' ' | b'\t' | b'\r' | b'\n'))?;
            (length > 0).then_some(start + length)
        }
    }
}

/// The fields of an object as raw keys and values, up to the first error.
pub(crate) fn object_members(text: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut at = 1;
    std::iter::from_fn(move || {
        at = skip_space(text, at);
        if text.get(at) == Some(&b',') {
            at = skip_space(text, at + 1);
        }
        if text.get(at) != Some(&b'"') {
            return None;
        }
        let key = &text[at..string_end(text, at)?];
        at = skip_space(text, at + key.len());
        if text.get(at) != Some(&b':') {
            return None;
        }
        at = skip_space(text, at + 1);
        let value = &text[at..value_end(text, at)?];
        at += value.len();
        Some((key, value))
    })
}

/// The elements of an array, up to the first error.
pub(crate) fn array_elements(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut at = 1;
    std::iter::from_fn(move || {
        at = skip_space(text, at);
        if text.get(at) == Some(&b',') {
            at = skip_space(text, at + 1);
        }
        if matches!(text.get(at), None | Some(b']')) {
            return None;
        }
        let value = &text[at..value_end(text, at)?];
        at += value.len();
        Some(value)
    })
}
