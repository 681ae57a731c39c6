//! Values of scenarios: durations as Go writes them, and `never`.

use std::fmt;
use std::time::Duration;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};

/// A duration such as `8s` or `1m30s`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Delay(pub Duration);

impl Delay {
    /// Whole seconds, rounded up: statuses have whole seconds, and what is in them decides what comes next.
    pub(crate) fn seconds(self) -> i64 {
        let more = u64::from(self.0.subsec_nanos() > 0);
        i64::try_from(self.0.as_secs() + more).unwrap_or(i64::MAX)
    }
}

/// When something happens, or that it never does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// After so long.
    Delay(Delay),
    /// Never.
    Never,
}

impl After {
    /// After how many seconds; none for never.
    pub(crate) fn seconds(self) -> Option<i64> {
        match self {
            Self::Delay(delay) => Some(delay.seconds()),
            Self::Never => None,
        }
    }
}

fn parse<E: Error>(text: &str) -> Result<Delay, E> {
    let nanoseconds = settled_go::duration::parse(text)
        .map_err(|_| E::custom(format_args!("{text:?} is no duration: write `8s`, `1m30s` or `500ms`")))?;
    let nanoseconds = u64::try_from(nanoseconds)
        .map_err(|_| E::custom(format_args!("{text:?} is negative: the past is not simulated")))?;
    Ok(Delay(Duration::from_nanos(nanoseconds)))
}

struct Text;

impl Visitor<'_> for Text {
    type Value = Delay;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration such as `8s`")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Delay, E> {
        parse(text)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Delay, E> {
        if number == 0 {
            return Ok(Delay::default());
        }
        Err(E::custom(format_args!("{number} has no unit: write `{number}s`")))
    }
}

impl<'de> Deserialize<'de> for Delay {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Text)
    }
}

struct OrNever;

impl Visitor<'_> for OrNever {
    type Value = After;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration such as `8s`, or `never`")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<After, E> {
        if text == "never" { Ok(After::Never) } else { parse(text).map(After::Delay) }
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<After, E> {
        Text.visit_u64(number).map(After::Delay)
    }
}

impl<'de> Deserialize<'de> for After {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OrNever)
    }
}
