//! Patterns of `matches`, `find` and `findAll`.

use std::sync::{Arc, OnceLock};

use regex::{Regex, RegexBuilder};
use settled_go::regexp;

use crate::alternatives::Alternatives;
use crate::automaton::Automaton;

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

/// Maximum length of a pattern that is matched without a regular expression: longer ones may count as large.
const MAX_SIMPLE_LENGTH: usize = 128;

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
        self.compiled.get_or_init(|| Pattern::known(&self.text, self.limits)).as_ref()
    }
}

/// A pattern that can be matched.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    /// Of a pattern that is known to be valid: a regular expression takes as long to compile as ten rules.
    simple: Option<Simple>,
    text: Arc<str>,
    regex: OnceLock<Option<Regex>>,
    is_large: bool,
}

/// A pattern that needs no regular expression.
#[derive(Clone, Debug)]
enum Simple {
    Alternatives(Alternatives),
    /// For text in ASCII.
    Automaton(Automaton),
}

impl Simple {
    fn parse(pattern: &str) -> Option<Self> {
        if pattern.len() > MAX_SIMPLE_LENGTH {
            return None;
        }
        let alternatives = Alternatives::parse(pattern).map(Self::Alternatives);
        alternatives.or_else(|| Automaton::parse(pattern).map(Self::Automaton))
    }

    /// `None` if the regular expression is needed all the same.
    fn is_match(&self, text: &str) -> Option<bool> {
        match self {
            Self::Alternatives(alternatives) => Some(alternatives.is_match(text)),
            Self::Automaton(automaton) => automaton.is_match(text),
        }
    }
}

fn translated(pattern: &str) -> Result<String, String> {
    regexp::translate(pattern).map_err(|error| error.to_string())
}

impl Pattern {
    /// A pattern that is known to be valid.
    fn known(text: &Arc<str>, limits: Limits) -> Option<Self> {
        match Simple::parse(text) {
            Some(simple) => {
                let text = Arc::clone(text);
                Some(Self { simple: Some(simple), text, regex: OnceLock::new(), is_large: false })
            }
            None => Self::new(text, limits).ok(),
        }
    }

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
        let translated = translated(pattern)?;
        let build = |limit| RegexBuilder::new(&translated).size_limit(limit).build();
        // The syntax is valid in Go, but groups may nest too deeply for the engine.
        let (built, is_large) = match limits {
            Limits::Costs => (build(LARGEST), false),
            Limits::Steps => match build(SMALL) {
                Err(regex::Error::CompiledTooBig(_)) => (build(LARGE), true),
                built => (built, false),
            },
        };
        let regex = built.map_err(|_| too_large())?;
        Ok(Self { simple: None, text: pattern.into(), regex: OnceLock::from(Some(regex)), is_large })
    }

    /// Whether it matches somewhere in a string.
    pub(crate) fn is_match(&self, text: &str) -> bool {
        let simple = self.simple.as_ref().and_then(|simple| simple.is_match(text));
        simple.unwrap_or_else(|| self.regex().is_some_and(|regex| regex.is_match(text)))
    }

    /// The regular expression; `None` is no pattern that was valid.
    pub(crate) fn regex(&self) -> Option<&Regex> {
        let compile = || RegexBuilder::new(&translated(&self.text).ok()?).build().ok();
        self.regex.get_or_init(compile).as_ref()
    }

    /// Steps of matching a string: in the worst case proportional to the size of the pattern per byte.
    pub(crate) fn steps(&self, text: &str) -> u64 {
        let length = text.len() as u64;
        if self.is_large { length.saturating_mul(4) } else { length / 2 }
    }
}
