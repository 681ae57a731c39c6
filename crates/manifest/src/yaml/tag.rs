//! Scanning of rare tokens: directives, anchors, aliases and tags.

use super::YamlError;
use super::scan::{Kind, Scanner, Text};

type Result<T> = std::result::Result<T, YamlError>;

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

fn is_uri(byte: u8) -> bool {
    is_word(byte) || b";/?:@&=+$,.!~*'()[]%".contains(&byte)
}

impl Scanner<'_> {
    /// The text from `start` to the current position.
    fn since(&self, start: usize) -> Text {
        Text::of_source(start, self.at)
    }

    fn word(&mut self) -> Text {
        let start = self.at;
        while is_word(self.byte(0)) {
            self.at += 1;
        }
        self.since(start)
    }

    pub(super) fn directive(&mut self) -> Result<()> {
        let start = self.at;
        self.at += 1;
        let name = self.word();
        if name.is_empty() {
            return self.error("could not find expected directive name", start);
        }
        if !self.is_space(0) {
            return self.error("found unexpected non-alphabetical character", start);
        }
        let kind = match self.text(name) {
            b"YAML" => {
                self.skip_blanks();
                let major = self.version_number(start)?;
                if self.byte(0) != b'.' {
                    return self.error("did not find expected digit or '.' character", start);
                }
                self.at += 1;
                Kind::VersionDirective { major, minor: self.version_number(start)? }
            }
            b"TAG" => {
                self.skip_blanks();
                let handle = self.tag_handle(true, start)?;
                if !self.is_blank(0) {
                    return self.error("did not find expected whitespace", start);
                }
                self.skip_blanks();
                let prefix = self.tag_uri(Text::EMPTY, start)?;
                if !self.is_space(0) {
                    return self.error("did not find expected whitespace or line break", start);
                }
                Kind::TagDirective { handle, prefix }
            }
            _ => return self.error("found unknown directive name", start),
        };
        self.skip_line_end(start)?;
        self.push_token(kind, start);
        Ok(())
    }

    fn version_number(&mut self, start: usize) -> Result<u8> {
        let (mut value, mut length) = (0, 0);
        while self.byte(0).is_ascii_digit() {
            length += 1;
            if length > 2 {
                return self.error("found extremely long version number", start);
            }
            value = value * 10 + (self.byte(0) - b'0');
            self.at += 1;
        }
        if length == 0 {
            return self.error("did not find expected version number", start);
        }
        Ok(value)
    }

    pub(super) fn anchor(&mut self, alias: bool) -> Result<()> {
        let start = self.at;
        self.at += 1;
        let name = self.word();
        if name.is_empty()
            || !(self.is_space(0)
                || matches!(self.byte(0), b'?' | b':' | b',' | b']' | b'}' | b'%' | b'@' | b'`'))
        {
            return self.error("did not find expected alphabetic or numeric character", start);
        }
        self.push_token(if alias { Kind::Alias(name) } else { Kind::Anchor(name) }, start);
        Ok(())
    }

    pub(super) fn tag(&mut self) -> Result<()> {
        let start = self.at;
        let (handle, suffix);
        if self.byte(1) == b'<' {
            self.at += 2;
            handle = Text::EMPTY;
            suffix = self.tag_uri(Text::EMPTY, start)?;
            if self.byte(0) != b'>' {
                return self.error("did not find the expected '>'", start);
            }
            self.at += 1;
        } else {
            let first = self.tag_handle(false, start)?;
            let length = first.range().len();
            if length > 1 && self.text(first).last() == Some(&b'!') {
                handle = first;
                suffix = self.tag_uri(Text::EMPTY, start)?;
            } else {
                // Not a handle, but the beginning of the suffix.
                let exclamation = Text::of_source(first.range().start, first.range().start + 1);
                let rest = self.tag_uri(first, start)?;
                (handle, suffix) =
                    if rest.is_empty() { (Text::EMPTY, exclamation) } else { (exclamation, rest) };
            }
        }
        if !self.is_space(0) {
            return self.error("did not find expected whitespace or line break", start);
        }
        self.push_token(Kind::Tag { handle, suffix }, start);
        Ok(())
    }

    fn tag_handle(&mut self, directive: bool, start: usize) -> Result<Text> {
        let from = self.at;
        if self.byte(0) != b'!' {
            return self.error("did not find expected '!'", start);
        }
        self.at += 1;
        self.word();
        if self.byte(0) == b'!' {
            self.at += 1;
        } else if directive && self.at - from > 1 {
            return self.error("did not find expected '!'", start);
        }
        Ok(self.since(from))
    }

    /// `head` is the part of the tag already read as a handle.
    fn tag_uri(&mut self, head: Text, start: usize) -> Result<Text> {
        let from = self.memory.composed.len();
        let mut found = !head.is_empty();
        if found {
            let head = &self.source[head.range()][1..];
            self.memory.composed.extend_from_slice(head);
        }
        while is_uri(self.byte(0)) {
            found = true;
            let mut byte = self.byte(0);
            if byte == b'%' {
                byte = self.uri_escape(start)?;
                self.at += 2;
            }
            self.memory.composed.push(byte);
            self.at += 1;
        }
        if !found {
            return self.error("did not find expected tag URI", start);
        }
        if str::from_utf8(&self.memory.composed[from..]).is_err() {
            return self.error("found an incorrect leading UTF-8 octet", start);
        }
        Ok(Text::composed(from, self.memory.composed.len()))
    }

    fn uri_escape(&self, start: usize) -> Result<u8> {
        let digit = |ahead| char::from(self.byte(ahead)).to_digit(16);
        match (digit(1), digit(2)) {
            (Some(high), Some(low)) => Ok((high * 16 + low) as u8),
            _ => self.error("did not find URI escaped octet", start),
        }
    }
}
