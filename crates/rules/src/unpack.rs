//! Compact form of the rules of the built-in pack: the build script writes it, and reading it takes a tenth of the time of JSON.
//!
//! A text has two bytes of length before it, a list one byte, and an optional part is preceded by 0 or 1.

use std::str;

use crate::cel::source::Names;
use crate::document::Sourced;
use crate::draft::{Check, Draft, DraftBranch, DraftWords, Says};
use crate::matching::{Group, Match};

/// Reads a rule on a line of its file, counted from 0. `None` if the bytes are damaged.
pub(crate) fn unpack(bytes: &[u8], line: usize) -> Option<Draft> {
    let mut reader = Reader(bytes);
    let matches = reader.matches()?;
    let mut draft = Draft::new(matches, line + 1, Names::Builtin);
    draft.checks_deletion = reader.check()?;
    draft.checks_generation = reader.check()?;
    let count = reader.byte()?;
    draft.branches.reserve_exact(count.into());
    for _ in 0..count {
        let says = *Says::ALL.get(usize::from(reader.byte()?))?;
        draft.branches.push(DraftBranch { says, when: reader.sourced()?, words: reader.words()? });
    }
    draft.otherwise = reader.optional(Reader::words)?;
    reader.0.is_empty().then_some(draft)
}

/// Bytes that are not read yet.
struct Reader<'p>(&'p [u8]);

impl<'p> Reader<'p> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn text(&mut self) -> Option<&'p str> {
        let (length, rest) = self.0.split_first_chunk()?;
        let (text, rest) = rest.split_at_checked(u16::from_le_bytes(*length).into())?;
        self.0 = rest;
        str::from_utf8(text).ok()
    }

    fn boxed(&mut self) -> Option<Box<str>> {
        self.text().map(Box::from)
    }

    fn sourced(&mut self) -> Option<Sourced> {
        self.text().map(|text| Sourced::made(text.to_owned()))
    }

    /// An optional part; the outer `None` is an error.
    fn optional<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<Option<T>> {
        match self.byte()? {
            0 => Some(None),
            _ => read(self).map(Some),
        }
    }

    fn list<T>(&mut self, mut read: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        (0..self.byte()?).map(|_| read(self)).collect()
    }

    fn matches(&mut self) -> Option<Match> {
        Some(Match {
            group: Group::parse(self.text()?).ok()?,
            kinds: self.optional(|reader| reader.list(Self::boxed))?,
            versions: self.list(Self::boxed)?,
            name: self.optional(Self::boxed)?,
            namespace: self.optional(Self::boxed)?,
            labels: self.list(|reader| Some((reader.boxed()?, reader.boxed()?)))?,
        })
    }

    fn check(&mut self) -> Option<Check> {
        match self.byte()? {
            0 => Some(Check::Off),
            1 => Some(Check::On),
            _ => self.sourced().map(Check::When),
        }
    }

    fn words(&mut self) -> Option<DraftWords> {
        Some(DraftWords {
            from: self.optional(Self::sourced)?,
            reason: self.optional(Self::sourced)?,
            message: self.optional(Self::sourced)?,
            class: match self.optional(Self::text)? {
                Some(class) => Some(class.parse().ok()?),
                None => None,
            },
            terminal: self.byte()? != 0,
        })
    }
}
