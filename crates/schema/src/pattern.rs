//! The patterns of schemas.

use std::sync::OnceLock;

use regex::bytes::{Regex, RegexBuilder};
use settled_go::regexp;

/// The largest program of a pattern, in bytes.
const MAX_SIZE: usize = 10 << 20;
const MAX_DFA_SIZE: usize = 1 << 20;
const MAX_NESTING: u32 = 400;

/// A pattern, compiled when a value is first held against it.
#[derive(Debug)]
pub(crate) struct Pattern {
    source: Box<str>,
    compiled: OnceLock<Option<Regex>>,
}

impl Pattern {
    /// Whether the pattern is valid shows when it is used.
    pub(crate) fn new(source: &str) -> Self {
        Self { source: source.into(), compiled: OnceLock::new() }
    }

    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    /// Whether the pattern matches somewhere in a text; `None` if it cannot be compiled.
    pub(crate) fn matches(&self, text: &str) -> Option<bool> {
        let compiled = self.compiled.get_or_init(|| compile(&self.source));
        compiled.as_ref().map(|regex| regex.is_match(text.as_bytes()))
    }
}

/// Why Go refuses a pattern.
pub(crate) fn error(pattern: &str) -> Option<regexp::Error> {
    regexp::translate(pattern).err()
}

fn compile(pattern: &str) -> Option<Regex> {
    let translated = regexp::translate(pattern).ok()?;
    RegexBuilder::new(&translated)
        .size_limit(MAX_SIZE)
        .dfa_size_limit(MAX_DFA_SIZE)
        .nest_limit(MAX_NESTING)
        .build()
        .ok()
}
