//! `net/mail`: addresses.

use std::net::IpAddr;

/// Whether `mail.ParseAddress` accepts a text: `a@example.com`, `Name <a@example.com>`.
///
/// ```
/// use settled_go::mail;
///
/// assert!(mail::is_address("Ann <ann@example.com>"));
/// assert!(!mail::is_address("ann@example.com, bob@example.com"));
/// ```
pub fn is_address(text: &str) -> bool {
    let mut parser = Parser { rest: text };
    parser.address(true) == Some(1) && parser.skip_comments() && parser.rest.is_empty()
}

/// The parser of `net/mail`, without the resulting address.
#[derive(Clone, Copy)]
struct Parser<'t> {
    rest: &'t str,
}

impl<'t> Parser<'t> {
    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t']);
    }

    fn consume(&mut self, one: char) -> bool {
        let found = self.rest.strip_prefix(one);
        self.rest = found.unwrap_or(self.rest);
        found.is_some()
    }

    fn skip_comments(&mut self) -> bool {
        self.skip_space();
        while self.consume('(') {
            if !self.comment() {
                return false;
            }
            self.skip_space();
        }
        true
    }

    /// The rest of a comment after `(`.
    fn comment(&mut self) -> bool {
        let mut depth = 1;
        let mut escaped = false;
        for (at, one) in self.rest.char_indices() {
            if escaped {
                escaped = false;
                continue;
            }
            match one {
                '\\' if at + 1 < self.rest.len() => escaped = true,
                '(' => depth += 1,
                ')' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                self.rest = &self.rest[at + 1..];
                return true;
            }
        }
        false
    }

    /// Parses an address or a group, and returns the number of addresses.
    fn address(&mut self, groups: bool) -> Option<usize> {
        self.skip_space();
        if self.rest.is_empty() {
            return None;
        }
        if self.spec().is_some() {
            self.skip_space();
            if self.consume('(') && !self.comment() {
                return None;
            }
            return Some(1);
        }
        if !self.rest.starts_with('<') {
            self.phrase()?;
        }
        self.skip_space();
        if groups && self.consume(':') {
            return self.group();
        }
        if !self.consume('<') {
            return None;
        }
        self.spec()?;
        self.consume('>').then_some(1)
    }

    fn group(&mut self) -> Option<usize> {
        self.skip_space();
        if self.consume(';') {
            return self.skip_comments().then_some(0);
        }
        let mut count = 0;
        loop {
            self.skip_space();
            count += self.address(false)?;
            if !self.skip_comments() {
                return None;
            }
            if self.consume(';') {
                return self.skip_comments().then_some(count);
            }
            if !self.consume(',') {
                return None;
            }
        }
    }

    fn spec(&mut self) -> Option<()> {
        let before = *self;
        let found = self.spec_or_mess();
        if found.is_none() {
            *self = before;
        }
        found
    }

    fn spec_or_mess(&mut self) -> Option<()> {
        self.skip_space();
        if self.rest.starts_with('"') {
            if self.quoted()? == 0 {
                return None;
            }
        } else {
            self.atom(false)?;
        }
        if !self.consume('@') {
            return None;
        }
        self.skip_space();
        if let Some(rest) = self.rest.strip_prefix('[') {
            let (literal, rest) = rest.split_once(']')?;
            literal.parse::<IpAddr>().ok()?;
            self.rest = rest;
            return Some(());
        }
        self.atom(false).map(drop)
    }

    fn phrase(&mut self) -> Option<()> {
        let mut words = 0;
        loop {
            if words > 0 && !self.skip_comments() {
                return None;
            }
            self.skip_space();
            if self.rest.is_empty() {
                break;
            }
            let word = if self.rest.starts_with('"') {
                self.quoted().map(|_| Word::Plain)
            } else {
                self.atom(true).map(Word::of)
            };
            match word {
                None | Some(Word::ForeignCharset) if words == 0 => return None,
                None | Some(Word::ForeignCharset) => break,
                Some(Word::Nothing) => {}
                Some(Word::Plain) => words += 1,
            }
        }
        Some(())
    }

    /// Number of characters of a quoted string.
    fn quoted(&mut self) -> Option<usize> {
        let text = self.rest.strip_prefix('"')?;
        let mut escaped = false;
        let mut count = 0;
        for (at, one) in text.char_indices() {
            let blank = one == ' ' || one == '\t';
            if escaped {
                if !visible(one) && !blank {
                    return None;
                }
                escaped = false;
                count += 1;
            } else if one == '"' {
                self.rest = &text[at + 1..];
                return Some(count);
            } else if one == '\\' {
                escaped = true;
            } else if visible(one) || blank {
                count += 1;
            } else {
                return None;
            }
        }
        None
    }

    fn atom(&mut self, permissive: bool) -> Option<&'t str> {
        let end = self.rest.find(|one| !atext(one)).unwrap_or(self.rest.len());
        if end == 0 {
            return None;
        }
        let (atom, rest) = self.rest.split_at(end);
        self.rest = rest;
        let strict = !atom.starts_with('.') && !atom.ends_with('.') && !atom.contains("..");
        (permissive || strict).then_some(atom)
    }
}

/// Decodes an RFC 2047 word (`=?utf-8?q?word?=`).
enum Word {
    Plain,
    Nothing,
    /// Go supports no other character sets.
    ForeignCharset,
}

impl Word {
    fn of(word: &str) -> Self {
        let inner = word.strip_prefix("=?").and_then(|rest| rest.strip_suffix("?="));
        let Some(inner) = inner.filter(|inner| inner.matches('?').count() == 2) else { return Self::Plain };
        let mut parts = inner.split('?');
        let (charset, encoding, text) = (parts.next(), parts.next(), parts.next());
        let (Some(charset), Some("b" | "B" | "q" | "Q"), Some(text)) = (charset, encoding, text) else {
            return Self::Plain;
        };
        let known = ["utf-8", "iso-8859-1", "us-ascii"].iter().any(|one| one.eq_ignore_ascii_case(charset));
        match (charset.is_empty(), known, text.is_empty()) {
            (true, ..) => Self::Plain,
            (_, false, _) => Self::ForeignCharset,
            (_, true, true) => Self::Nothing,
            (_, true, false) => Self::Plain,
        }
    }
}

fn visible(one: char) -> bool {
    ('!'..='~').contains(&one) || !one.is_ascii()
}

fn atext(one: char) -> bool {
    !matches!(one, '(' | ')' | '<' | '>' | '[' | ']' | ':' | ';' | '@' | '\\' | ',' | '"') && visible(one)
}
