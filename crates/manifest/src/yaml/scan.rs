//! YAML scanner: a port of libyaml's, from characters to tokens, over text in memory.

use std::collections::VecDeque;
use std::ops::Range;

use super::YamlError;

/// Maximum nesting of flow collections and indentation (as in Go).
const MAX_DEPTH: usize = 10_000;

/// Maximum length of a simple key, in characters.
const MAX_KEY: usize = 1024;

/// A piece of text: of the document where possible, otherwise of the scanner's buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Text {
    // Half as large as `usize`, as tokens are copied often; documents are limited accordingly.
    start: u32,
    end: u32,
    /// In the scanner's buffer, composed from several pieces.
    composed: bool,
}

impl Text {
    pub(super) const EMPTY: Self = Self { start: 0, end: 0, composed: false };

    pub(super) fn of_source(start: usize, end: usize) -> Self {
        Self { start: start as u32, end: end as u32, composed: false }
    }

    pub(super) fn composed(start: usize, end: usize) -> Self {
        Self { start: start as u32, end: end as u32, composed: true }
    }

    pub(super) fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    pub(super) fn is_empty(self) -> bool {
        self.start == self.end
    }
}

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    StreamEnd,
    VersionDirective { major: u8, minor: u8 },
    TagDirective { handle: Text, prefix: Text },
    DocumentStart,
    DocumentEnd,
    BlockSequenceStart,
    BlockMappingStart,
    BlockEnd,
    FlowSequenceStart,
    FlowSequenceEnd,
    FlowMappingStart,
    FlowMappingEnd,
    BlockEntry,
    FlowEntry,
    Key,
    Value,
    Alias(Text),
    Anchor(Text),
    Tag { handle: Text, suffix: Text },
    Scalar { text: Text, plain: bool },
}

/// A token and its offset.
#[derive(Debug, Clone, Copy)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) at: usize,
}

/// Position that becomes a key if a `:` follows.
#[derive(Debug, Clone, Copy)]
struct SimpleKey {
    possible: bool,
    required: bool,
    token: usize,
    at: usize,
    line: usize,
    column: i64,
}

/// The scanner's memory, kept from document to document.
#[derive(Debug, Default)]
pub(super) struct Memory {
    tokens: VecDeque<Token>,
    keys: Vec<SimpleKey>,
    indents: Vec<i64>,
    /// Buffer of composed texts.
    pub(super) composed: Vec<u8>,
    /// Line breaks that may become part of a scalar.
    pub(super) breaks: Vec<u8>,
}

/// Converts a document to tokens.
#[derive(Debug)]
pub(super) struct Scanner<'a> {
    pub(super) source: &'a [u8],
    pub(super) memory: &'a mut Memory,
    pub(super) at: usize,
    line: usize,
    line_start: usize,
    /// Number of tokens taken from the queue.
    taken: usize,
    /// The first token of the queue is final.
    ready: bool,
    pub(super) key_allowed: bool,
    pub(super) indent: i64,
    pub(super) flow: usize,
}

type Result<T> = std::result::Result<T, YamlError>;

impl<'a> Scanner<'a> {
    /// `source` has passed [`super::check_characters`].
    pub(super) fn new(source: &'a [u8], memory: &'a mut Memory) -> Self {
        memory.tokens.clear();
        memory.keys.clear();
        memory.indents.clear();
        memory.composed.clear();
        let first = SimpleKey { possible: false, required: false, token: 0, at: 0, line: 0, column: 0 };
        memory.keys.push(first);
        let start = if source.starts_with(b"\xEF\xBB\xBF") { 3 } else { 0 };
        Self {
            source,
            memory,
            at: start,
            line: 0,
            line_start: start,
            taken: 0,
            ready: false,
            key_allowed: true,
            indent: -1,
            flow: 0,
        }
    }

    /// The text of a token.
    pub(super) fn text(&self, text: Text) -> &[u8] {
        if text.composed { &self.memory.composed[text.range()] } else { &self.source[text.range()] }
    }

    /// The next token, which stays in the queue.
    pub(super) fn peek(&mut self) -> Result<Token> {
        if !self.ready {
            while self.memory.tokens.is_empty() || self.first_may_be_key()? {
                self.fetch()?;
            }
            self.ready = true;
        }
        // The end repeats.
        Ok(self
            .memory
            .tokens
            .front()
            .copied()
            .unwrap_or(Token { kind: Kind::StreamEnd, at: self.source.len() }))
    }

    /// Takes the peeked token.
    pub(super) fn take(&mut self) {
        self.ready = false;
        self.taken += 1;
        self.memory.tokens.pop_front();
    }

    /// The byte at this distance; 0 after the end, which cannot be in the text.
    #[inline]
    pub(super) fn byte(&self, ahead: usize) -> u8 {
        self.source.get(self.at + ahead).copied().unwrap_or(0)
    }

    /// In bytes: only text before a block collection matters, which is ASCII.
    pub(super) fn column(&self) -> i64 {
        (self.at - self.line_start) as i64
    }

    pub(super) fn is_blank(&self, ahead: usize) -> bool {
        matches!(self.byte(ahead), b' ' | b'\t')
    }

    /// Length of the line break here, in bytes.
    #[inline]
    pub(super) fn break_length(&self, ahead: usize) -> usize {
        match self.byte(ahead) {
            b'\n' => 1,
            b'\r' if self.byte(ahead + 1) == b'\n' => 2,
            b'\r' => 1,
            0xC2 if self.byte(ahead + 1) == 0x85 => 2,
            0xE2 if self.byte(ahead + 1) == 0x80 && matches!(self.byte(ahead + 2), 0xA8 | 0xA9) => 3,
            _ => 0,
        }
    }

    /// A line break or the end.
    pub(super) fn is_line_end(&self, ahead: usize) -> bool {
        self.at + ahead >= self.source.len() || self.break_length(ahead) > 0
    }

    /// A space, a tab, a line break or the end.
    #[inline]
    pub(super) fn is_space(&self, ahead: usize) -> bool {
        matches!(self.byte(ahead), b' ' | b'\t' | b'\n' | 0) || self.break_length(ahead) > 0
    }

    /// Skips a line break, which must be present.
    pub(super) fn skip_line(&mut self) {
        self.at += self.break_length(0);
        self.line += 1;
        self.line_start = self.at;
    }

    /// Skips a line break, and appends its meaning in a scalar to `breaks`.
    pub(super) fn read_line(&mut self) {
        match self.byte(0) {
            // Line and paragraph separators are kept.
            0xE2 => self.memory.breaks.extend_from_slice(&self.source[self.at..self.at + 3]),
            _ => self.memory.breaks.push(b'\n'),
        }
        self.skip_line();
    }

    /// Whether `---` or `...` is here, at the beginning of a line.
    pub(super) fn at_document_marker(&self) -> bool {
        self.at == self.line_start
            && matches!((self.byte(0), self.byte(1), self.byte(2)), (b'-', b'-', b'-') | (b'.', b'.', b'.'))
            && self.is_space(3)
    }

    pub(super) fn error<T>(&self, message: &str, at: usize) -> Result<T> {
        Err(YamlError::new(message, at))
    }

    /// Whether the first token of the queue may still become a key.
    fn first_may_be_key(&mut self) -> Result<bool> {
        // Outside of flow collections there is only one.
        if let [key] = self.memory.keys[..] {
            return if key.possible && key.token == self.taken { self.is_valid_key(0) } else { Ok(false) };
        }
        // Token numbers increase with the level: binary search finds the key of the first token.
        let first = self.memory.keys.partition_point(|key| key.token < self.taken);
        for index in first..self.memory.keys.len() {
            let key = self.memory.keys[index];
            if key.token > self.taken {
                break;
            }
            if key.possible {
                return self.is_valid_key(index);
            }
        }
        Ok(false)
    }

    /// A simple key must be short and on one line.
    fn is_valid_key(&mut self, index: usize) -> Result<bool> {
        let key = self.memory.keys[index];
        if !key.possible {
            return Ok(false);
        }
        let too_long = || {
            self.at - key.at > MAX_KEY
                && self.source[key.at..self.at].iter().filter(|&&byte| byte & 0xC0 != 0x80).count() > MAX_KEY
        };
        if key.line < self.line || too_long() {
            if key.required {
                return self.error("could not find expected ':'", key.at);
            }
            self.memory.keys[index].possible = false;
            return Ok(false);
        }
        Ok(true)
    }

    fn save_key(&mut self) -> Result<()> {
        if self.key_allowed {
            self.remove_key()?;
            let key = SimpleKey {
                possible: true,
                required: self.flow == 0 && self.indent == self.column(),
                token: self.taken + self.memory.tokens.len(),
                at: self.at,
                line: self.line,
                column: self.column(),
            };
            if let Some(last) = self.memory.keys.last_mut() {
                *last = key;
            }
        }
        Ok(())
    }

    fn remove_key(&mut self) -> Result<()> {
        if let Some(key) = self.memory.keys.last_mut()
            && key.possible
        {
            if key.required {
                let at = key.at;
                return self.error("could not find expected ':'", at);
            }
            key.possible = false;
        }
        Ok(())
    }

    fn push(&mut self, kind: Kind, at: usize) {
        self.memory.tokens.push_back(Token { kind, at });
    }

    /// Begins a block collection if this column is deeper; its token is inserted before the token numbered `before`.
    fn roll_indent(&mut self, column: i64, before: Option<usize>, kind: Kind, at: usize) -> Result<()> {
        if self.flow > 0 || self.indent >= column {
            return Ok(());
        }
        self.memory.indents.push(self.indent);
        self.indent = column;
        if self.memory.indents.len() > MAX_DEPTH {
            return self.error(&format!("exceeded max depth of {MAX_DEPTH}"), at);
        }
        match before {
            Some(number) => {
                let index = number.saturating_sub(self.taken).min(self.memory.tokens.len());
                self.memory.tokens.insert(index, Token { kind, at });
            }
            None => self.push(kind, at),
        }
        Ok(())
    }

    /// Ends the block collections deeper than this column.
    fn unroll_indent(&mut self, column: i64) {
        if self.flow > 0 {
            return;
        }
        while self.indent > column {
            self.push(Kind::BlockEnd, self.at);
            self.indent = self.memory.indents.pop().unwrap_or(-1);
        }
    }

    fn fetch(&mut self) -> Result<()> {
        self.skip_to_token();
        self.unroll_indent(self.column());
        if self.at >= self.source.len() {
            // The end also ends the line and all possible keys.
            if self.column() > 0 {
                self.line += 1;
                self.line_start = self.at;
            }
            self.unroll_indent(-1);
            self.remove_key()?;
            self.key_allowed = false;
            self.push(Kind::StreamEnd, self.at);
            return Ok(());
        }
        let start_of_line = self.at == self.line_start;
        let byte = self.byte(0);
        if start_of_line {
            if byte == b'%' {
                self.unroll_indent(-1);
                self.remove_key()?;
                self.key_allowed = false;
                return self.directive();
            }
            if self.at_document_marker() {
                self.unroll_indent(-1);
                self.remove_key()?;
                self.key_allowed = false;
                self.push(if byte == b'-' { Kind::DocumentStart } else { Kind::DocumentEnd }, self.at);
                self.at += 3;
                return Ok(());
            }
        }
        match byte {
            b'[' => self.flow_start(Kind::FlowSequenceStart),
            b'{' => self.flow_start(Kind::FlowMappingStart),
            b']' => self.flow_end(Kind::FlowSequenceEnd),
            b'}' => self.flow_end(Kind::FlowMappingEnd),
            b',' => {
                self.remove_key()?;
                self.key_allowed = true;
                self.push(Kind::FlowEntry, self.at);
                self.at += 1;
                Ok(())
            }
            b'-' if self.is_space(1) => self.block_entry(),
            b'?' if self.flow > 0 || self.is_space(1) => self.key(),
            b':' if self.flow > 0 || self.is_space(1) => self.value(),
            b'*' | b'&' => {
                self.save_key()?;
                self.key_allowed = false;
                self.anchor(byte == b'*')
            }
            b'!' => {
                self.save_key()?;
                self.key_allowed = false;
                self.tag()
            }
            b'|' | b'>' if self.flow == 0 => {
                self.remove_key()?;
                self.key_allowed = true;
                self.block_scalar(byte == b'|')
            }
            b'\'' | b'"' => {
                self.save_key()?;
                self.key_allowed = false;
                self.quoted_scalar(byte == b'\'')
            }
            _ if self.starts_plain(byte) => {
                self.save_key()?;
                self.key_allowed = false;
                self.plain_scalar()
            }
            _ => self.error("found character that cannot start any token", self.at),
        }
    }

    fn starts_plain(&self, byte: u8) -> bool {
        match byte {
            b'-' => !self.is_blank(1),
            b'?' | b':' => self.flow == 0 && !self.is_space(1),
            b'\t' | b'#' | b'|' | b'>' | b'%' | b'@' | b'`' => false,
            _ => true,
        }
    }

    fn skip_to_token(&mut self) {
        loop {
            // A tab cannot indent, but can separate tokens.
            while self.byte(0) == b' ' || (self.byte(0) == b'\t' && (self.flow > 0 || !self.key_allowed)) {
                self.at += 1;
            }
            if self.byte(0) == b'#' {
                self.skip_comment();
            }
            if self.break_length(0) == 0 {
                return;
            }
            self.skip_line();
            if self.flow == 0 {
                self.key_allowed = true;
            }
        }
    }

    pub(super) fn skip_comment(&mut self) {
        while !self.is_line_end(0) {
            self.at += 1;
        }
    }

    pub(super) fn skip_blanks(&mut self) {
        while self.is_blank(0) {
            self.at += 1;
        }
    }

    /// Skips blanks, a comment and the line break after a token that must end its line.
    pub(super) fn skip_line_end(&mut self, start: usize) -> Result<()> {
        self.skip_blanks();
        if self.byte(0) == b'#' {
            self.skip_comment();
        }
        if !self.is_line_end(0) {
            return self.error("did not find expected comment or line break", start);
        }
        if self.break_length(0) > 0 {
            self.skip_line();
        }
        Ok(())
    }

    fn flow_start(&mut self, kind: Kind) -> Result<()> {
        self.save_key()?;
        let key = SimpleKey {
            possible: false,
            required: false,
            token: self.taken + self.memory.tokens.len(),
            at: self.at,
            line: self.line,
            column: 0,
        };
        self.memory.keys.push(key);
        self.flow += 1;
        if self.flow > MAX_DEPTH {
            return self.error(&format!("exceeded max depth of {MAX_DEPTH}"), self.at);
        }
        self.key_allowed = true;
        self.push(kind, self.at);
        self.at += 1;
        Ok(())
    }

    fn flow_end(&mut self, kind: Kind) -> Result<()> {
        self.remove_key()?;
        if self.flow > 0 {
            self.flow -= 1;
            self.memory.keys.pop();
        }
        self.key_allowed = false;
        self.push(kind, self.at);
        self.at += 1;
        Ok(())
    }

    fn block_entry(&mut self) -> Result<()> {
        if self.flow == 0 {
            if !self.key_allowed {
                return self.error("block sequence entries are not allowed in this context", self.at);
            }
            self.roll_indent(self.column(), None, Kind::BlockSequenceStart, self.at)?;
        }
        // In flow context, the parser reports it.
        self.remove_key()?;
        self.key_allowed = true;
        self.push(Kind::BlockEntry, self.at);
        self.at += 1;
        Ok(())
    }

    fn key(&mut self) -> Result<()> {
        if self.flow == 0 {
            if !self.key_allowed {
                return self.error("mapping keys are not allowed in this context", self.at);
            }
            self.roll_indent(self.column(), None, Kind::BlockMappingStart, self.at)?;
        }
        self.remove_key()?;
        self.key_allowed = self.flow == 0;
        self.push(Kind::Key, self.at);
        self.at += 1;
        Ok(())
    }

    fn value(&mut self) -> Result<()> {
        let last = self.memory.keys.len() - 1;
        if self.is_valid_key(last)? {
            let key = self.memory.keys[last];
            let index = key.token.saturating_sub(self.taken).min(self.memory.tokens.len());
            self.memory.tokens.insert(index, Token { kind: Kind::Key, at: key.at });
            self.roll_indent(key.column, Some(key.token), Kind::BlockMappingStart, key.at)?;
            self.memory.keys[last].possible = false;
            self.key_allowed = false;
        } else {
            if self.flow == 0 {
                if !self.key_allowed {
                    return self.error("mapping values are not allowed in this context", self.at);
                }
                self.roll_indent(self.column(), None, Kind::BlockMappingStart, self.at)?;
            }
            self.key_allowed = self.flow == 0;
        }
        self.push(Kind::Value, self.at);
        self.at += 1;
        Ok(())
    }

    pub(super) fn push_token(&mut self, kind: Kind, at: usize) {
        self.push(kind, at);
    }
}
