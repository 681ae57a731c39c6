//! List detection: reads `kind`, `apiVersion` and the position of `items` without parsing the rest of an object.

use std::ops::Range;

use memchr::memchr2;

use crate::structure::container_end;

/// What the top level of an object says about it. The strings are raw JSON, with their quotes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Head<'a> {
    pub(crate) api_version: Option<&'a [u8]>,
    pub(crate) kind: Option<&'a [u8]>,
    /// The array `items`, brackets included.
    pub(crate) items: Option<Range<usize>>,
}

impl<'a> Head<'a> {
    /// Reads as far as `text`, which begins with `{`, goes and makes sense.
    pub(crate) fn read(text: &'a [u8]) -> Self {
        let mut head = Self::default();
        for (key, value) in object_members(text) {
            // As in Go, the last of several equal keys counts.
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

    /// The kind is that of a list: `List`, `PodList`.
    pub(crate) fn is_list_kind(&self) -> Option<bool> {
        self.kind.map(|kind| kind.ends_with(b"List\""))
    }

    /// What the items of this list lack if they come without a header of their own.
    pub(crate) fn item_header(&self) -> Option<ItemHeader> {
        let kind = self.kind?.strip_suffix(b"List\"")?;
        // `v1/List` has items of any kind: nothing is known about them.
        (kind.len() > 1).then(|| ItemHeader::new(self.api_version, kind))
    }
}

/// The members that the items of a typed list (`PodList`) leave out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ItemHeader {
    /// `"apiVersion":"v1","kind":"Pod"`
    fields: Vec<u8>,
}

impl ItemHeader {
    /// Both as raw JSON strings; that of the kind without the quote at its end.
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

    /// Writes `item` with the header, if it has neither of its fields itself (Go's rule). Returns how many bytes were
    /// added before the item's own, none if it was left alone.
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

/// The first byte at or after `at` that isn't white space.
pub(crate) fn skip_space(text: &[u8], at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    at + rest.iter().position(|b| !matches!(b, b' ' | b'\t' | b'\r' | b'\n')).unwrap_or(rest.len())
}

/// The byte after the string whose opening quote is at `start`.
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

/// The byte after the value that begins at `start`.
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

/// The members of an object, as raw keys and values, up to where it doesn't make sense.
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

/// The elements of an array, up to where it doesn't make sense.
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
