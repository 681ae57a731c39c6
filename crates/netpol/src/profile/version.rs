//! Versions of providers and ranges of them, as image tags and release notes write them.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// Maximum number of numeric parts: `1.4.45.3`.
const MAX_PARTS: usize = 4;
const MAX_BYTES: usize = 128;

/// A version: `v1.16.2`, `1.14.0-eksbuild.3`, `1.13`. A missing part is unknown and not zero.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Version {
    /// The numeric parts that are given.
    parts: Vec<u32>,
    /// Whether it comes before the release of its parts.
    is_pre_release: bool,
    /// As it was written.
    text: String,
}

/// A text that is no version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no version; expected numbers such as 1.16.2")]
pub struct InvalidVersion {
    /// The text, shortened.
    pub text: String,
}

impl FromStr for Version {
    type Err = InvalidVersion;

    /// Reads a version. A `v` before it and what follows a `-`, `+` or `_` (`-eksbuild.1`, `-gke.36`, `+k3s1`) do not count, but for
    /// pre-releases (`-rc.1`).
    fn from_str(text: &str) -> Result<Self, InvalidVersion> {
        let invalid = || InvalidVersion { text: text.chars().take(MAX_BYTES).collect() };
        if text.len() > MAX_BYTES {
            return Err(invalid());
        }
        let digits = text.strip_prefix(['v', 'V']).unwrap_or(text);
        let end = digits.find(['-', '+', '_']).unwrap_or(digits.len());
        let (numbers, suffix) = digits.split_at(end);
        let mut parts = Vec::new();
        for part in numbers.split('.') {
            let is_number = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
            let number = part.parse().ok().filter(|_| is_number && parts.len() < MAX_PARTS);
            parts.push(number.ok_or_else(invalid)?);
        }
        let word = suffix.trim_start_matches(['-', '+', '_']).to_ascii_lowercase();
        let is_pre_release = ["alpha", "beta", "rc", "pre", "dev", "snapshot", "nightly", "0."]
            .iter()
            .any(|marker| word.starts_with(marker));
        Ok(Self { parts, is_pre_release, text: text.to_owned() })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Version {
    /// Compares with a bound, by the bound's parts alone: 1.16.2 is equal to 1.16. None if this has fewer parts, and they decide.
    fn compare(&self, bound: &Self) -> Option<Ordering> {
        for (index, limit) in bound.parts.iter().enumerate() {
            let part = self.parts.get(index)?;
            if part != limit {
                return Some(part.cmp(limit));
            }
        }
        // A pre-release of the bound itself: some releases have a feature from the first candidate on, some do not.
        let is_same = self.parts.iter().skip(bound.parts.len()).all(|part| *part == 0);
        if self.is_pre_release && is_same { None } else { Some(Ordering::Equal) }
    }

    /// Whether a bound is a later version.
    pub(super) fn is_before(&self, bound: &Self) -> bool {
        self.compare(bound) == Some(Ordering::Less)
    }

    /// Whether a bound is one of the releases that this one is short for, or the other way round: 1.16 and 1.16.3.
    pub(super) fn is_within(&self, bound: &Self) -> bool {
        self.parts.iter().zip(&bound.parts).all(|(part, other)| part == other)
    }

    /// The order of bounds: missing parts are zero.
    pub(super) fn cmp_as_bounds(&self, other: &Self) -> Ordering {
        let part = |version: &Self, index| version.parts.get(index).copied().unwrap_or_default();
        (0..MAX_PARTS)
            .map(|index| part(self, index).cmp(&part(other, index)))
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal)
    }
}

/// Whether a version is in a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inside {
    /// It is.
    Yes,
    /// It is not.
    No,
    /// The version is not given precisely enough.
    Maybe,
}

/// A range of versions: `*`, `<1.16`, `>=1.5 <1.9`, `<1.3 || >=2.0`. A bound with two parts means all its patch releases: `<=1.16`
/// includes 1.16.9.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionRange {
    /// Alternatives, in each of which all bounds hold.
    alternatives: Vec<Vec<(Comparison, Version)>>,
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Less,
    AtMost,
    Greater,
    AtLeast,
    Equal,
}

/// A text that is no range of versions.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no range of versions; expected `*`, `<1.16`, or `>=1.5 <1.9`")]
pub struct InvalidRange {
    /// The text, shortened.
    pub text: String,
}

impl FromStr for VersionRange {
    type Err = InvalidRange;

    fn from_str(text: &str) -> Result<Self, InvalidRange> {
        let invalid = || InvalidRange { text: text.chars().take(MAX_BYTES).collect() };
        if text.len() > MAX_BYTES || text.trim().is_empty() {
            return Err(invalid());
        }
        let mut alternatives = Vec::new();
        for alternative in text.split("||") {
            if alternative.trim() == "*" {
                alternatives.push(Vec::new());
                continue;
            }
            let bounds: Result<Vec<_>, _> = alternative.split_whitespace().map(bound).collect();
            let bounds = bounds.map_err(|_| invalid())?;
            if bounds.is_empty() {
                return Err(invalid());
            }
            alternatives.push(bounds);
        }
        Ok(Self { alternatives, text: text.to_owned() })
    }
}

fn bound(text: &str) -> Result<(Comparison, Version), InvalidVersion> {
    const SIGNS: [(&str, Comparison); 5] = [
        ("<=", Comparison::AtMost),
        (">=", Comparison::AtLeast),
        ("<", Comparison::Less),
        (">", Comparison::Greater),
        ("=", Comparison::Equal),
    ];
    let found = SIGNS.iter().find_map(|(sign, comparison)| Some((*comparison, text.strip_prefix(sign)?)));
    let (comparison, version) = found.unwrap_or((Comparison::Equal, text));
    Ok((comparison, version.parse()?))
}

impl fmt::Display for VersionRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl VersionRange {
    /// Whether a version is in it.
    #[must_use]
    pub fn contains(&self, version: &Version) -> Inside {
        let mut best = Inside::No;
        for bounds in &self.alternatives {
            let mut all = Inside::Yes;
            for (comparison, bound) in bounds {
                let is_inside = version.compare(bound).map(|order| match comparison {
                    Comparison::Less => order.is_lt(),
                    Comparison::AtMost => order.is_le(),
                    Comparison::Greater => order.is_gt(),
                    Comparison::AtLeast => order.is_ge(),
                    Comparison::Equal => order.is_eq(),
                });
                match is_inside {
                    Some(true) => {}
                    Some(false) => all = Inside::No,
                    None if all == Inside::Yes => all = Inside::Maybe,
                    None => {}
                }
            }
            match all {
                Inside::Yes => return Inside::Yes,
                Inside::Maybe => best = Inside::Maybe,
                Inside::No => {}
            }
        }
        best
    }

    /// The first versions of its alternatives, as far as they have one.
    pub(super) fn starts(&self) -> impl Iterator<Item = &Version> {
        self.alternatives.iter().filter_map(|bounds| {
            let lower = bounds.iter().filter(|(comparison, _)| {
                matches!(comparison, Comparison::AtLeast | Comparison::Greater | Comparison::Equal)
            });
            lower.map(|(_, version)| version).max_by(|a, b| a.cmp_as_bounds(b))
        })
    }
}
