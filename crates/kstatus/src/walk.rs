//! Walk over JSON that was checked before: members and elements of a container, without checking them again.
//!
//! Text that is no JSON gives nonsense, or nothing, but neither a panic nor an endless loop: each step goes on in the bytes.

use crate::block::{Specials, container_end};

/// The inside of an array or object.
#[derive(Clone, Debug)]
pub(crate) struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
    specials: Specials,
}

/// The inside of a string literal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Literal<'a> {
    pub(crate) inner: &'a [u8],
    pub(crate) is_escaped: bool,
}

impl<'a> Walk<'a> {
    /// The container that the text begins with.
    #[inline]
    pub(crate) fn new(text: &'a [u8]) -> Self {
        Self { bytes: text, at: 1, specials: Specials::new() }
    }

    /// The next byte that is neither white space nor a comma.
    #[inline(always)]
    fn next_byte(&mut self) -> Option<u8> {
        loop {
            match *self.bytes.get(self.at)? {
                b' ' | b'\n' | b'\t' | b'\r' | b',' => self.at += 1,
                byte => return Some(byte),
            }
        }
    }

    /// The next member of an object.
    #[inline]
    pub(crate) fn member(&mut self) -> Option<(Literal<'a>, &'a [u8])> {
        if self.next_byte()? != b'"' {
            return None;
        }
        let start = self.at;
        let (end, is_escaped) = self.string_end(start);
        let inner = self.bytes.get(start + 1..end.saturating_sub(1))?;
        self.at = end;
        while *self.bytes.get(self.at)? != b':' {
            self.at += 1;
        }
        self.at += 1;
        Some((Literal { inner, is_escaped }, self.value()?))
    }

    /// The next element of an array.
    #[inline]
    pub(crate) fn element(&mut self) -> Option<&'a [u8]> {
        if self.next_byte()? == b']' {
            return None;
        }
        self.value()
    }

    #[inline(always)]
    fn value(&mut self) -> Option<&'a [u8]> {
        let byte = self.next_byte()?;
        let start = self.at;
        self.at = match byte {
            b'"' => self.string_end(start).0,
            b'{' | b'[' => container_end(self.bytes, start),
            _ => scalar_end(self.bytes, start),
        };
        self.bytes.get(start..self.at).filter(|value| !value.is_empty())
    }

    /// The position after the string whose opening quote is at `start`, and whether it holds an escape.
    #[inline(always)]
    fn string_end(&mut self, start: usize) -> (usize, bool) {
        let at = self.specials.find(self.bytes, start + 1);
        if self.bytes.get(at) == Some(&b'"') { (at + 1, false) } else { self.escaped_string_end(at) }
    }

    #[inline(never)]
    fn escaped_string_end(&mut self, special: usize) -> (usize, bool) {
        let mut at = special;
        loop {
            match self.bytes.get(at) {
                Some(b'"') => return (at + 1, true),
                Some(b'\\') => at += 2,
                Some(_) => at += 1,
                None => return (self.bytes.len(), true),
            }
            at = self.specials.find(self.bytes, at);
        }
    }
}

/// The position after a number or a literal.
#[inline]
fn scalar_end(bytes: &[u8], start: usize) -> usize {
    let rest = bytes.get(start..).unwrap_or_default();
    let length = rest.iter().position(|b| matches!(b, b',' | b'}' | b']' | b' ' | b'\n' | b'\t' | b'\r'));
    start + length.unwrap_or(rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn members(text: &[u8]) -> Vec<(String, String)> {
        let mut walk = Walk::new(text);
        let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        std::iter::from_fn(|| walk.member()).map(|(key, value)| (shown(key.inner), shown(value))).collect()
    }

    #[test]
    fn members_are_cut_whatever_stands_between_them() {
        let found = members(b"{ \"a\" : 1 ,\n\"b\\\"\":{\"c\":[\"}\"]}\t, \"\":null,\"d\":\"x,\\\\\"}");
        let found: Vec<(&str, &str)> = found.iter().map(|(key, value)| (&**key, &**value)).collect();
        let expected = [("a", "1"), ("b\\\"", "{\"c\":[\"}\"]}"), ("", "null"), ("d", "\"x,\\\\\"")];
        assert_eq!(found, expected);
        assert_eq!(members(b"{}"), []);
    }

    #[test]
    fn elements_are_cut_whatever_stands_between_them() {
        let mut walk = Walk::new(b"[ 1,-2.5e3 , \"]\" ,[[]],{} ]");
        let found: Vec<&[u8]> = std::iter::from_fn(|| walk.element()).collect();
        assert_eq!(found, [&b"1"[..], b"-2.5e3", b"\"]\"", b"[[]]", b"{}"]);
    }

    proptest! {
        #[test]
        fn walks_end_on_any_bytes(bytes in prop::collection::vec(prop::sample::select(&b"{}[]\"\\,: a1\n"[..]), 0..120)) {
            let mut walk = Walk::new(&bytes);
            prop_assert!(std::iter::from_fn(|| walk.member()).count() <= bytes.len());
            let mut walk = Walk::new(&bytes);
            prop_assert!(std::iter::from_fn(|| walk.element()).count() <= bytes.len());
        }
    }
}
