//! Scanning of scalars: plain, quoted and block.

use super::YamlError;
use super::scan::{Kind, Scanner, Text};

type Result<T> = std::result::Result<T, YamlError>;

/// Class of a byte in a scalar. All classes but `ORDINARY` need a closer look.
const ORDINARY: u8 = 0;
const BLANK: u8 = 1;
const BREAK: u8 = 2;
const COLON: u8 = 3;
const FLOW: u8 = 4;
const QUOTE: u8 = 5;
const APOSTROPHE: u8 = 6;
const BACKSLASH: u8 = 7;

static CLASS: [u8; 256] = {
    let mut class = [ORDINARY; 256];
    class[b' ' as usize] = BLANK;
    class[b'\t' as usize] = BLANK;
    class[b'\n' as usize] = BREAK;
    class[b'\r' as usize] = BREAK;
    // First bytes of other line breaks and other characters.
    class[0xC2] = BREAK;
    class[0xE2] = BREAK;
    class[b':' as usize] = COLON;
    class[b',' as usize] = FLOW;
    class[b'?' as usize] = FLOW;
    class[b'[' as usize] = FLOW;
    class[b']' as usize] = FLOW;
    class[b'{' as usize] = FLOW;
    class[b'}' as usize] = FLOW;
    class[b'"' as usize] = QUOTE;
    class[b'\'' as usize] = APOSTROPHE;
    class[b'\\' as usize] = BACKSLASH;
    class
};

/// A scalar under construction: a slice of the source as long as possible, then a composed text.
struct Pieces {
    composed: Option<usize>,
    /// Start of the next slice of the source.
    start: usize,
}

impl Pieces {
    fn new(start: usize) -> Self {
        Self { composed: None, start }
    }

    /// Composes everything up to `end`; the caller appends text that is not in the source.
    fn flush<'m>(&mut self, scanner: &'m mut Scanner<'_>, end: usize) -> &'m mut Vec<u8> {
        let memory = &mut scanner.memory.composed;
        self.composed.get_or_insert(memory.len());
        memory.extend_from_slice(&scanner.source[self.start..end]);
        memory
    }

    fn finish(mut self, scanner: &mut Scanner<'_>, end: usize) -> Text {
        if self.composed.is_some() {
            self.flush(scanner, end);
        }
        match self.composed {
            Some(start) => Text::composed(start, scanner.memory.composed.len()),
            None => Text::of_source(self.start, end),
        }
    }
}

impl Scanner<'_> {
    /// Folds the line breaks since `breaks` was cleared: the first becomes a space if it is the only one, and nothing
    /// otherwise. (Line and paragraph separators are kept.)
    fn fold(&mut self, escaped: bool) {
        let memory = &mut *self.memory;
        let breaks = &memory.breaks[..];
        match breaks {
            [b'\n'] if !escaped => memory.composed.push(b' '),
            [b'\n', rest @ ..] if !escaped => memory.composed.extend_from_slice(rest),
            _ => memory.composed.extend_from_slice(breaks),
        }
        memory.breaks.clear();
    }

    pub(super) fn plain_scalar(&mut self) -> Result<()> {
        let start = self.at;
        let indent = self.indent + 1;
        let mut pieces = Pieces::new(start);
        let mut end = start;
        let mut folding = false;
        self.memory.breaks.clear();
        loop {
            if self.at_document_marker() || self.byte(0) == b'#' {
                break;
            }
            let from = self.at;
            while let Some(&byte) = self.source.get(self.at) {
                match CLASS[usize::from(byte)] {
                    BLANK => break,
                    BREAK if self.break_length(0) > 0 => break,
                    COLON if self.is_space(1) => break,
                    FLOW if self.flow > 0 => break,
                    _ => self.at += 1,
                }
            }
            if self.at > from {
                if folding {
                    pieces.flush(self, end);
                    pieces.start = from;
                    self.fold(false);
                    folding = false;
                }
                end = self.at;
            }
            if !self.is_blank(0) && self.break_length(0) == 0 {
                break;
            }
            loop {
                if self.is_blank(0) {
                    if folding && self.column() < indent && self.byte(0) == b'\t' {
                        return self.error("found a tab character that violates indentation", start);
                    }
                    self.at += 1;
                } else if self.break_length(0) > 0 {
                    self.read_line();
                    folding = true;
                } else {
                    break;
                }
            }
            if self.flow == 0 && self.column() < indent {
                break;
            }
        }
        let text = pieces.finish(self, end);
        self.push_token(Kind::Scalar { text, plain: true }, start);
        if folding {
            self.key_allowed = true;
        }
        Ok(())
    }

    pub(super) fn quoted_scalar(&mut self, single: bool) -> Result<()> {
        let start = self.at;
        self.at += 1;
        let mut pieces = Pieces::new(self.at);
        self.memory.breaks.clear();
        let text = loop {
            if self.at_document_marker() {
                return self.error("found unexpected document indicator", start);
            }
            let mut escaped_break = false;
            // Blanks before a line break are dropped.
            let mut end = self.at;
            loop {
                let Some(&byte) = self.source.get(self.at) else {
                    return self.error("found unexpected end of stream", start);
                };
                match CLASS[usize::from(byte)] {
                    BLANK => {
                        self.at += 1;
                        continue;
                    }
                    BREAK if self.break_length(0) > 0 => break,
                    APOSTROPHE if single => {
                        if self.byte(1) != b'\'' {
                            break;
                        }
                        pieces.flush(self, self.at + 1);
                        self.at += 2;
                        pieces.start = self.at;
                    }
                    QUOTE if !single => break,
                    BACKSLASH if !single => {
                        let at = self.at;
                        pieces.flush(self, at);
                        if self.break_length(1) > 0 {
                            self.at += 1;
                            self.skip_line();
                            pieces.start = self.at;
                            escaped_break = true;
                            end = self.at;
                            break;
                        }
                        self.escape(start)?;
                        pieces.start = self.at;
                    }
                    _ => self.at += 1,
                }
                end = self.at;
            }
            if self.byte(0) == if single { b'\'' } else { b'"' } {
                break pieces.finish(self, self.at);
            }
            pieces.flush(self, end);
            loop {
                if self.is_blank(0) {
                    self.at += 1;
                } else if self.break_length(0) > 0 {
                    self.read_line();
                } else {
                    break;
                }
            }
            pieces.start = self.at;
            self.fold(escaped_break);
        };
        self.at += 1;
        self.push_token(Kind::Scalar { text, plain: false }, start);
        Ok(())
    }

    /// Appends one escape sequence to the composed text.
    fn escape(&mut self, start: usize) -> Result<()> {
        let (literal, digits): (&[u8], usize) = match self.byte(1) {
            b'0' => (b"\0", 0),
            b'a' => (b"\x07", 0),
            b'b' => (b"\x08", 0),
            b't' | b'\t' => (b"\t", 0),
            b'n' => (b"\n", 0),
            b'v' => (b"\x0B", 0),
            b'f' => (b"\x0C", 0),
            b'r' => (b"\r", 0),
            b'e' => (b"\x1B", 0),
            b' ' => (b" ", 0),
            b'"' => (b"\"", 0),
            b'\'' => (b"'", 0),
            b'\\' => (b"\\", 0),
            b'N' => ("\u{85}".as_bytes(), 0),
            b'_' => ("\u{A0}".as_bytes(), 0),
            b'L' => ("\u{2028}".as_bytes(), 0),
            b'P' => ("\u{2029}".as_bytes(), 0),
            b'x' => (b"", 2),
            b'u' => (b"", 4),
            b'U' => (b"", 8),
            _ => return self.error("found unknown escape character", self.at),
        };
        self.memory.composed.extend_from_slice(literal);
        self.at += 2;
        if digits > 0 {
            let mut value: u32 = 0;
            for ahead in 0..digits {
                let Some(digit) = char::from(self.byte(ahead)).to_digit(16) else {
                    return self.error("did not find expected hexdecimal number", start);
                };
                value = (value << 4) | digit;
            }
            let Some(character) = char::from_u32(value) else {
                return self.error("found invalid Unicode character escape code", start);
            };
            let mut utf8 = [0; 4];
            self.memory.composed.extend_from_slice(character.encode_utf8(&mut utf8).as_bytes());
            self.at += digits;
        }
        Ok(())
    }

    pub(super) fn block_scalar(&mut self, literal: bool) -> Result<()> {
        let start = self.at;
        self.at += 1;
        let (mut chomp, mut increment) = (None, 0);
        for _ in 0..2 {
            match self.byte(0) {
                sign @ (b'+' | b'-') if chomp.is_none() => chomp = Some(sign),
                b'0' if increment == 0 => {
                    return self.error("found an indentation indicator equal to 0", start);
                }
                digit @ b'1'..=b'9' if increment == 0 => increment = i64::from(digit - b'0'),
                _ => break,
            }
            self.at += 1;
        }
        self.skip_line_end(start)?;
        let mut indent = if increment > 0 { self.indent.max(0) + increment } else { 0 };
        let composed = self.memory.composed.len();
        self.memory.breaks.clear();
        self.block_breaks(&mut indent, start)?;
        let source = self.source;
        // The last line's end, which may be folded or chomped.
        let mut line_break: &[u8] = b"";
        let mut after_blank = false;
        while self.column() == indent && self.at < self.source.len() {
            let blank = self.is_blank(0);
            let memory = &mut *self.memory;
            if line_break == b"\n" && !literal && !after_blank && !blank {
                if memory.breaks.is_empty() {
                    memory.composed.push(b' ');
                }
            } else {
                memory.composed.extend_from_slice(line_break);
            }
            line_break = b"";
            memory.composed.extend_from_slice(&memory.breaks);
            memory.breaks.clear();
            after_blank = blank;
            let from = self.at;
            while let Some(&byte) = self.source.get(self.at) {
                if CLASS[usize::from(byte)] == BREAK && self.break_length(0) > 0 {
                    break;
                }
                self.at += 1;
            }
            self.memory.composed.extend_from_slice(&self.source[from..self.at]);
            if self.break_length(0) > 0 {
                // Line and paragraph separators are kept.
                line_break = if self.byte(0) == 0xE2 { &source[self.at..self.at + 3] } else { b"\n" };
                self.skip_line();
            }
            self.block_breaks(&mut indent, start)?;
        }
        let memory = &mut *self.memory;
        if chomp != Some(b'-') {
            memory.composed.extend_from_slice(line_break);
        }
        if chomp == Some(b'+') {
            memory.composed.extend_from_slice(&memory.breaks);
        }
        let text = Text::composed(composed, memory.composed.len());
        self.push_token(Kind::Scalar { text, plain: false }, start);
        Ok(())
    }

    /// Skips indentation and empty lines, and collects their breaks; determines the indentation if it is 0.
    fn block_breaks(&mut self, indent: &mut i64, start: usize) -> Result<()> {
        let mut deepest = 0;
        loop {
            while (*indent == 0 || self.column() < *indent) && self.byte(0) == b' ' {
                self.at += 1;
            }
            deepest = deepest.max(self.column());
            if (*indent == 0 || self.column() < *indent) && self.byte(0) == b'\t' {
                return self.error("found a tab character where an indentation space is expected", start);
            }
            if self.break_length(0) == 0 {
                break;
            }
            self.read_line();
        }
        if *indent == 0 {
            *indent = deepest.max(self.indent + 1).max(1);
        }
        Ok(())
    }
}
