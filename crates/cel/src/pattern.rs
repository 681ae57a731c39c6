//! The patterns of `matches`, `find` and `findAll`.

use std::sync::{Arc, OnceLock};

use regex::{Regex, RegexBuilder};
use settled_go::regexp;

/// The longest pattern, in bytes.
const MAX_LENGTH: usize = 100_000;

/// How large a pattern may be when it is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limits {
    /// As large as Go takes it.
    Costs,
    /// So that a byte takes a few steps at most.
    Steps,
}

/// A pattern that an expression has as a literal text.
#[derive(Debug)]
pub(crate) struct LiteralPattern {
    text: Arc<str>,
    limits: Limits,
    compiled: OnceLock<Option<Pattern>>,
}

impl LiteralPattern {
    /// A pattern that is compiled when it is first used: for those that are known to be right.
    pub(crate) fn lazy(text: &str, limits: Limits) -> Self {
        Self { text: text.into(), limits, compiled: OnceLock::new() }
    }

    /// A pattern that is compiled now, or what Go says is wrong with it.
    pub(crate) fn compile(text: &str, limits: Limits) -> Result<Self, String> {
        let pattern = Pattern::new(text, limits)?;
        Ok(Self { compiled: OnceLock::from(Some(pattern)), ..Self::lazy(text, limits) })
    }

    /// None where it is wrong.
    pub(crate) fn get(&self) -> Option<&Pattern> {
        self.compiled.get_or_init(|| Pattern::new(&self.text, self.limits).ok()).as_ref()
    }
}

/// A pattern, compiled.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    pub(crate) regex: Regex,
    is_large: bool,
}

impl Pattern {
    /// A pattern, or what Go says is wrong with it.
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
        // Go's syntax is valid now, but groups may nest too deeply for the engine.
        let (built, is_large) = match limits {
            Limits::Costs => (build(LARGEST), false),
            Limits::Steps => match build(SMALL) {
                Err(regex::Error::CompiledTooBig(_)) => (build(LARGE), true),
                built => (built, false),
            },
        };
        Ok(Self { regex: built.map_err(|_| too_large())?, is_large })
    }

    /// The steps of matching a text. At worst a byte takes as long as the pattern is large.
    pub(crate) fn steps(&self, text: &str) -> u64 {
        let length = text.len() as u64;
        if self.is_large { length.saturating_mul(4) } else { length / 2 }
    }
}
