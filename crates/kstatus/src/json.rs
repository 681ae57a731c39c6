//! JSON scanner: validates JSON against RFC 8259 while it skips fields that no rule reads.
//!
//! Most of an object is skipped (managed fields, pod templates), so skipping is what the time goes into. Nothing
//! is built while skipping: no tree, no string, no recursion. Skipped text is checked as strictly as text that is
//! read, with two exceptions that Go's decoders share: bytes that are not UTF-8 and lone surrogates are no error
//! (they become U+FFFD when a string is read).
//!
//! # Invariants
//! - No recursion: a nesting deeper than [`MAX_DEPTH`] is an error, never a stack overflow.
//! - No allocation.

use std::fmt;

use crate::block::Specials;

/// How deeply arrays and objects may be nested. Kubernetes' own objects stay below 30; the bound keeps a hostile
/// document from costing memory.
pub const MAX_DEPTH: usize = 1024;

/// Why bytes are not one JSON value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Problem {
    Eof,
    Value,
    Key,
    Colon,
    CommaOrBrace,
    CommaOrBracket,
    Literal,
    Number,
    Escape,
    ControlCharacter,
    TooDeep,
    Trailing,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Eof => "unexpected end of input",
            Self::Value => "expected a value",
            Self::Key => "expected a key in double quotes",
            Self::Colon => "expected `:` after the key",
            Self::CommaOrBrace => "expected `,` or `}`",
            Self::CommaOrBracket => "expected `,` or `]`",
            Self::Literal => "expected `true`, `false` or `null`",
            Self::Number => "invalid number",
            Self::Escape => "invalid escape in a string",
            Self::ControlCharacter => "control character in a string must be escaped",
            Self::TooDeep => "nested deeper than 1024 levels",
            Self::Trailing => "unexpected text after the object",
        })
    }
}

/// A syntax error and the byte it was found at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SyntaxError {
    pub(crate) problem: Problem,
    pub(crate) offset: usize,
}

/// The bytes are no JSON; [`Cursor::error`] says why. It is kept there so that results fit registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Invalid;

type Result<T> = std::result::Result<T, Invalid>;

/// The inside of a JSON string literal, without its quotes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawString<'a> {
    pub(crate) inner: &'a [u8],
    /// Where it begins in the bytes.
    pub(crate) start: usize,
    pub(crate) escaped: bool,
}

/// A position in bytes that hold JSON.
#[derive(Debug)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    pub(crate) at: usize,
    /// Current nesting depth.
    level: usize,
    /// For each level above the innermost, whether it is an object.
    outer: [u64; MAX_DEPTH / 64],
    problem: Problem,
    specials: Specials,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            at: 0,
            level: 0,
            outer: [0; MAX_DEPTH / 64],
            problem: Problem::Eof,
            specials: Specials::new(),
        }
    }

    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    #[cold]
    fn fail(&mut self, problem: Problem) -> Invalid {
        self.problem = problem;
        Invalid
    }

    /// The error, after a method has returned [`Invalid`].
    pub(crate) fn error(&self) -> SyntaxError {
        let problem = if self.at >= self.bytes.len() { Problem::Eof } else { self.problem };
        SyntaxError { problem, offset: self.at.min(self.bytes.len()) }
    }

    /// The next byte that is no white space, without stepping over it.
    #[inline(always)]
    pub(crate) fn peek(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        if byte > b' ' { Some(byte) } else { self.peek_after_space() }
    }

    #[inline(never)]
    fn peek_after_space(&mut self) -> Option<u8> {
        loop {
            // Indentation comes in runs of spaces.
            while let Some(chunk) = self.bytes.get(self.at..self.at + 8) {
                if chunk != b"        " {
                    break;
                }
                self.at += 8;
            }
            match *self.bytes.get(self.at)? {
                b' ' | b'\n' | b'\t' | b'\r' => self.at += 1,
                byte => return Some(byte),
            }
        }
    }

    /// Steps over `byte` if it is next, else fails with `problem`.
    #[inline]
    fn expect(&mut self, byte: u8, problem: Problem) -> Result<()> {
        if self.peek() == Some(byte) {
            self.at += 1;
            return Ok(());
        }
        Err(self.fail(problem))
    }

    /// Reads a string, with whatever is in it; the opening quote is at the position.
    fn string(&mut self) -> Result<RawString<'a>> {
        let start = self.at + 1;
        let mut at = start;
        let mut escaped = false;
        loop {
            at = self.specials.find(self.bytes, at);
            match self.bytes.get(at) {
                Some(b'"') => {
                    self.at = at + 1;
                    let inner = self.bytes.get(start..at).unwrap_or_default();
                    return Ok(RawString { inner, start, escaped });
                }
                Some(b'\\') => {
                    escaped = true;
                    at = self.escape(at)?;
                }
                _ => {
                    self.at = at;
                    return Err(self.fail(Problem::ControlCharacter));
                }
            }
        }
    }

    /// Checks the escape at `at` and gives the position after it.
    fn escape(&mut self, at: usize) -> Result<usize> {
        self.at = at + 1;
        match self.bytes.get(at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(at + 2),
            Some(b'u') => {
                for i in at + 2..at + 6 {
                    if !self.bytes.get(i).is_some_and(u8::is_ascii_hexdigit) {
                        self.at = i;
                        return Err(self.fail(Problem::Escape));
                    }
                }
                Ok(at + 6)
            }
            _ => Err(self.fail(Problem::Escape)),
        }
    }

    /// Steps over one value of any kind.
    #[inline]
    pub(crate) fn step(&mut self) -> Result<()> {
        match self.peek() {
            Some(b'"') => {
                self.at = self.string_from(self.at)?;
                Ok(())
            }
            Some(b'{' | b'[') => self.skip_container(),
            _ => self.scalar(),
        }
    }

    /// As [`step`](Self::step), of a value that begins with `first` at the position: most values that are noted are short strings.
    #[inline(always)]
    pub(crate) fn step_from(&mut self, first: Option<u8>) -> Result<()> {
        if first == Some(b'"') {
            self.at = self.string_from(self.at)?;
            return Ok(());
        }
        self.step()
    }

    /// Steps over one value of any kind and gives its bytes.
    #[inline]
    pub(crate) fn skip(&mut self) -> Result<&'a [u8]> {
        let first = self.peek();
        let start = self.at;
        self.step_from(first)?;
        Ok(self.since(start))
    }

    #[inline]
    fn since(&self, start: usize) -> &'a [u8] {
        self.bytes.get(start..self.at).unwrap_or_default()
    }

    /// Steps over a number or a literal.
    #[inline]
    fn scalar(&mut self) -> Result<()> {
        match self.bytes.get(self.at) {
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.literal(b"true"),
            Some(b'f') => self.literal(b"false"),
            Some(b'n') => self.literal(b"null"),
            _ => Err(self.fail(Problem::Value)),
        }
    }

    fn literal(&mut self, word: &[u8]) -> Result<()> {
        let end = self.at + word.len();
        if self.bytes.get(self.at..end) == Some(word) {
            self.at = end;
            return Ok(());
        }
        if self.bytes.get(self.at..).is_some_and(|rest| word.starts_with(rest)) {
            self.at = self.bytes.len();
        }
        Err(self.fail(Problem::Literal))
    }

    fn digits(&mut self) -> Result<()> {
        let start = self.at;
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        if self.at == start { Err(self.fail(Problem::Number)) } else { Ok(()) }
    }

    fn number(&mut self) -> Result<()> {
        if self.bytes.get(self.at) == Some(&b'-') {
            self.at += 1;
        }
        if self.bytes.get(self.at) == Some(&b'0') {
            self.at += 1;
            if self.bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
                return Err(self.fail(Problem::Number));
            }
        } else {
            self.digits()?;
        }
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.bytes.get(self.at) {
            self.at += 1;
            if let Some(b'+' | b'-') = self.bytes.get(self.at) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    /// Steps over an array or object without recursion: a bit per level says which of the two it is.
    ///
    /// The position is a local here, and strings without escapes are stepped over in place: nearly all of the time
    /// that a verdict takes is spent in this loop.
    fn skip_container(&mut self) -> Result<()> {
        let outside = self.level;
        let mut depth = outside;
        let mut in_object = false;
        let mut at = self.at;
        loop {
            // A value starts here.
            match self.byte_at(&mut at) {
                Some(b'"') => at = self.string_from(at)?,
                Some(open @ (b'{' | b'[')) => {
                    let (word, bit) = (depth / 64, 1u64 << (depth % 64));
                    let Some(level) = self.outer.get_mut(word) else {
                        return Err(self.fail_at(at, Problem::TooDeep));
                    };
                    if in_object {
                        *level |= bit;
                    } else {
                        *level &= !bit;
                    }
                    depth += 1;
                    in_object = open == b'{';
                    at += 1;
                    // `{` + 2 is `}`, `[` + 2 is `]`: an empty container ends below.
                    if self.byte_at(&mut at) != Some(open + 2) {
                        if in_object {
                            at = self.key_from(at)?;
                        }
                        continue;
                    }
                }
                _ => {
                    self.at = at;
                    self.scalar()?;
                    at = self.at;
                }
            }
            // A value, or the inside of a container, has ended.
            loop {
                let next = self.byte_at(&mut at);
                if next == Some(b',') {
                    at += 1;
                    if in_object {
                        self.byte_at(&mut at);
                        at = self.key_from(at)?;
                    }
                    break;
                }
                let close = if in_object { b'}' } else { b']' };
                if next != Some(close) {
                    let problem = if in_object { Problem::CommaOrBrace } else { Problem::CommaOrBracket };
                    return Err(self.fail_at(at, problem));
                }
                at += 1;
                depth -= 1;
                if depth == outside {
                    self.at = at;
                    return Ok(());
                }
                let word = self.outer.get(depth / 64).copied().unwrap_or_default();
                in_object = word & (1u64 << (depth % 64)) != 0;
            }
        }
    }

    /// As [`Self::peek`], for a position held in a local.
    #[inline(always)]
    fn byte_at(&mut self, at: &mut usize) -> Option<u8> {
        let byte = *self.bytes.get(*at)?;
        if byte > b' ' {
            return Some(byte);
        }
        self.at = *at;
        let byte = self.peek_after_space();
        *at = self.at;
        byte
    }

    #[cold]
    fn fail_at(&mut self, at: usize, problem: Problem) -> Invalid {
        self.at = at;
        self.fail(problem)
    }

    /// The position after the string whose opening quote is at `at`.
    #[inline(always)]
    fn string_from(&mut self, at: usize) -> Result<usize> {
        let end = self.specials.find(self.bytes, at + 1);
        if self.bytes.get(end) == Some(&b'"') {
            return Ok(end + 1);
        }
        self.at = at;
        self.string()?;
        Ok(self.at)
    }

    /// The position after the key at `at` and its colon. Members before it that are plain text are stepped over.
    #[inline(always)]
    fn key_from(&mut self, at: usize) -> Result<usize> {
        if self.bytes.get(at) != Some(&b'"') {
            return Err(self.fail_at(at, Problem::Key));
        }
        // Most members are plain text, without white space around them: two comparisons each.
        let mut at = at;
        let mut end = self.specials.find(self.bytes, at + 1);
        while self.is_at(end, b"\":\"") {
            let value_end = self.specials.find(self.bytes, end + 3);
            if !self.is_at(value_end, b"\",\"") {
                return Ok(end + 2);
            }
            at = value_end + 2;
            end = self.specials.find(self.bytes, at + 1);
        }
        if self.bytes.get(end) != Some(&b'"') {
            self.at = at;
            self.string()?;
            end = self.at - 1;
        }
        at = end + 1;
        if self.byte_at(&mut at) != Some(b':') {
            return Err(self.fail_at(at, Problem::Colon));
        }
        Ok(at + 1)
    }

    /// Whether these bytes stand at a position.
    #[inline(always)]
    fn is_at<const N: usize>(&self, at: usize, bytes: &[u8; N]) -> bool {
        self.bytes.get(at..).and_then(<[u8]>::first_chunk) == Some(bytes)
    }

    /// Steps over a key and its colon; the position is at the key.
    #[inline(always)]
    fn key(&mut self) -> Result<RawString<'a>> {
        let start = self.at;
        if self.bytes.get(start) != Some(&b'"') {
            return Err(self.fail(Problem::Key));
        }
        let end = self.specials.find(self.bytes, start + 1);
        let key = if self.bytes.get(end) == Some(&b'"') {
            self.at = end + 1;
            let inner = self.bytes.get(start + 1..end).unwrap_or_default();
            RawString { inner, start: start + 1, escaped: false }
        } else {
            self.string()?
        };
        self.expect(b':', Problem::Colon)?;
        Ok(key)
    }

    /// The next key as most programs write it: no white space, no escapes. Steps over nothing where it is otherwise.
    #[inline(always)]
    pub(crate) fn compact_key(&mut self, first: bool) -> Option<RawString<'a>> {
        let quote = if first {
            if !self.is_at(self.at, b"\"") {
                return None;
            }
            self.at
        } else {
            if !self.is_at(self.at, b",\"") {
                return None;
            }
            self.at + 1
        };
        let end = self.specials.find(self.bytes, quote + 1);
        if !self.is_at(end, b"\":") {
            return None;
        }
        self.at = end + 2;
        Some(RawString { inner: self.bytes.get(quote + 1..end)?, start: quote + 1, escaped: false })
    }

    /// Steps into an object: the position must be at its `{`.
    pub(crate) fn enter(&mut self) {
        self.at += 1;
        self.level += 1;
    }

    /// The next key of the object that was entered, or none at its end. The value must be stepped over before the
    /// next call. `first` says that no member was read yet. Try [`compact_key`](Self::compact_key) first.
    #[inline(never)]
    pub(crate) fn other_key(&mut self, first: bool) -> Result<Option<RawString<'a>>> {
        match self.peek() {
            Some(b'}') => {
                self.at += 1;
                self.level -= 1;
                return Ok(None);
            }
            Some(b',') if !first => {
                self.at += 1;
                self.peek();
            }
            _ if first => {}
            _ => return Err(self.fail(Problem::CommaOrBrace)),
        }
        self.key().map(Some)
    }

    /// Steps to the next element of the array that was entered; false at its end. The element must be stepped over
    /// before the next call. `first` says that no element was read yet.
    #[inline]
    pub(crate) fn next_element(&mut self, first: bool) -> Result<bool> {
        match self.peek() {
            Some(b']') => {
                self.at += 1;
                self.level -= 1;
                return Ok(false);
            }
            Some(b',') if !first => self.at += 1,
            _ if first => {}
            _ => return Err(self.fail(Problem::CommaOrBracket)),
        }
        Ok(true)
    }

    /// Fails unless only white space is left.
    pub(crate) fn finish(&mut self) -> Result<()> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.fail(Problem::Trailing)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn scan(bytes: &[u8]) -> std::result::Result<(), SyntaxError> {
        let mut cursor = Cursor::new(bytes);
        cursor.step().and_then(|()| cursor.finish()).map_err(|Invalid| cursor.error())
    }

    fn agrees_with_serde(bytes: &[u8]) {
        let ours = scan(bytes);
        let theirs = serde_json::from_slice::<serde::de::IgnoredAny>(bytes);
        assert_eq!(ours.is_ok(), theirs.is_ok(), "{:?}: {ours:?} {theirs:?}", String::from_utf8_lossy(bytes));
    }

    #[test]
    fn accepts_what_serde_json_accepts() {
        for text in [
            "{}",
            "[]",
            " [ ] ",
            "{\"a\":1}",
            "[1,]",
            "[,1]",
            "{,}",
            "{\"a\":}",
            "{\"a\"}",
            "{\"a\":1,}",
            "01",
            "-",
            "-0",
            "0.",
            ".5",
            "1e",
            "1e+",
            "1e5",
            "1.5E-3",
            "tru",
            "true",
            "truex",
            "nul",
            "null ",
            "\"",
            "\"a",
            "\"\\",
            "\"\\x\"",
            "\"\\u12\"",
            "\"\\u12g4\"",
            "\"\\ud800\"",
            "\"\t\"",
            "[[[]]]",
            "[[}]]",
            "{\"a\":[}",
            "",
            " ",
            "1 2",
            "{} {}",
            "\"0123456789abcdef0123456789\"",
            "\"0123456789abcdef\\\"\"",
            "[\"a\" \"b\"]",
            "{\"a\" 1}",
            "{1:2}",
            "[1 2]",
            "\"0123456789abcde\u{1f}\"",
        ] {
            agrees_with_serde(text.as_bytes());
            for end in 0..text.len() {
                if let Some(part) = text.as_bytes().get(..end) {
                    agrees_with_serde(part);
                }
            }
        }
    }

    #[test]
    fn depth_is_bounded() {
        assert!(scan(&[b"[".repeat(MAX_DEPTH), b"]".repeat(MAX_DEPTH)].concat()).is_ok());
        let deep = [b"[".repeat(MAX_DEPTH + 1), b"]".repeat(MAX_DEPTH + 1)].concat();
        assert_eq!(scan(&deep), Err(SyntaxError { problem: Problem::TooDeep, offset: MAX_DEPTH }));
        assert_eq!(scan(&b"{\"a\":".repeat(1_000_000)).map_err(|e| e.problem), Err(Problem::TooDeep));
    }

    proptest! {
        #[test]
        fn accepts_the_same_as_serde_json(text in "[\\[\\]{}\",:\\\\0-9a-fun.eE+\\- \t\nté]{0,40}") {
            agrees_with_serde(text.as_bytes());
        }
    }
}
