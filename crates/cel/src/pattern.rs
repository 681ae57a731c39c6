//! Patterns of `matches`, `find` and `findAll`.

use std::sync::{Arc, OnceLock};

use regex::{Regex, RegexBuilder};
use settled_go::regexp;

/// Maximum length of a pattern, in bytes.
const MAX_LENGTH: usize = 100_000;

/// Size limits of compiled patterns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limits {
    /// Go's maximum size.
    Costs,
    /// Small enough for a few steps per byte.
    Steps,
}

/// A literal pattern of an expression.
#[derive(Debug)]
pub(crate) struct LiteralPattern {
    text: Arc<str>,
    limits: Limits,
    compiled: OnceLock<Option<Pattern>>,
}

impl LiteralPattern {
    /// A pattern known to be valid, compiled at first use.
    pub(crate) fn lazy(text: &str, limits: Limits) -> Self {
        Self { text: text.into(), limits, compiled: OnceLock::new() }
    }

    /// Compiles a pattern; the error is Go's.
    pub(crate) fn compile(text: &str, limits: Limits) -> Result<Self, String> {
        let pattern = Pattern::new(text, limits)?;
        Ok(Self { compiled: OnceLock::from(Some(pattern)), ..Self::lazy(text, limits) })
    }

    /// `None` if the pattern is invalid.
    pub(crate) fn get(&self) -> Option<&Pattern> {
        self.compiled.get_or_init(|| Pattern::new(&self.text, self.limits).ok()).as_ref()
    }
}

/// A compiled pattern.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    pub(crate) regex: Regex,
    is_large: bool,
}

impl Pattern {
    /// Compiles a pattern; the error is Go's.
    pub(crate) fn new(pattern: &str, limits: Limits) -> Result<Self, String> {
        const SMALL: usize = 16 * 1024;
        const LARGE: usize = 128 * 1024;
        const LARGEST: usize = 4 << 20;
        let too_large = || match limits {
            Limits::Costs => "error parsing regexp: expression too large".to_owned(),
            Limits::Steps => "the pattern is too large".to_owned(),
        };
        if pattern.len() > MAX_LENGTH {
            return Err(too_large());
        }
        let translated = regexp::translate(pattern).map_err(|error| error.to_string())?;
        let build = |limit| RegexBuilder::new(&translated).size_limit(limit).build();
        // The syntax is valid in Go, but groups may nest too deeply for the engine.
        let (built, is_large) = match limits {
            Limits::Costs => (build(LARGEST), false),
            Limits::Steps => match build(SMALL) {
                Err(regex::Error::CompiledTooBig(_)) => (build(LARGE), true),
                built => (built, false),
            },
        };
        Ok(Self { regex: built.map_err(|_| too_large())?, is_large })
    }

    /// Steps of matching a string: in the worst case proportional to the size of the pattern per byte.
    pub(crate) fn steps(&self, text: &str) -> u64 {
        let length = text.len() as u64;
        if self.is_large { length.saturating_mul(4) } else { length / 2 }
    }
}
