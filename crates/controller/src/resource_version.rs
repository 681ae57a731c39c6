//! resourceVersions, comparable by KEP-5504: within one resource type, if they are decimal numbers.

use std::cmp::Ordering;
use std::fmt;

/// A `metadata.resourceVersion`.
///
/// Decimal resourceVersions of one resource type on one server are compared by length, then byte by byte. Aggregated
/// API servers may use any text; such a resourceVersion equals only itself, and is neither older nor newer than others.
///
/// ```
/// use settled_controller::ResourceVersion;
/// let written = ResourceVersion::new("1000");
/// assert!(ResourceVersion::new("999").is_older_than(&written));
/// assert!(ResourceVersion::new("1000").covers(&written));
/// assert_eq!(ResourceVersion::new("a1").compare(&written), None);
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ResourceVersion(Repr);

#[derive(Clone, PartialEq, Eq, Hash)]
enum Repr {
    /// The common case.
    Number(u64),
    /// More digits, or not a number.
    Text(Box<str>),
}

impl ResourceVersion {
    /// Wraps the text of `metadata.resourceVersion`.
    #[must_use]
    pub fn new(text: &str) -> Self {
        if is_number(text)
            && let Ok(number) = text.parse()
        {
            return Self(Repr::Number(number));
        }
        Self(Repr::Text(text.into()))
    }

    /// Compares with another of the same resource type; `None` if they are not comparable.
    #[must_use]
    pub fn compare(&self, other: &Self) -> Option<Ordering> {
        match (&self.0, &other.0) {
            (Repr::Number(one), Repr::Number(other)) => Some(one.cmp(other)),
            (Repr::Text(one), Repr::Text(other)) if one == other => Some(Ordering::Equal),
            (Repr::Text(one), Repr::Text(other)) if is_number(one) && is_number(other) => {
                Some(one.len().cmp(&other.len()).then_with(|| one.cmp(other)))
            }
            // Numbers beyond 64 bits are greater than all others.
            (Repr::Text(text), Repr::Number(_)) if is_number(text) => Some(Ordering::Greater),
            (Repr::Number(_), Repr::Text(text)) if is_number(text) => Some(Ordering::Less),
            _ => None,
        }
    }

    /// Whether a state at this resourceVersion includes the other one: it is equal or newer.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        self.compare(other).is_some_and(Ordering::is_ge)
    }

    /// Whether it is known to be older than another one.
    #[must_use]
    pub fn is_older_than(&self, other: &Self) -> bool {
        self.compare(other).is_some_and(Ordering::is_lt)
    }

    /// Whether it is comparable.
    #[must_use]
    pub fn is_comparable(&self) -> bool {
        match &self.0 {
            Repr::Number(_) => true,
            Repr::Text(text) => is_number(text),
        }
    }

    /// The number, or 0 if it does not fit into 64 bits.
    pub(crate) fn as_u64(&self) -> u64 {
        match self.0 {
            Repr::Number(number) => number,
            Repr::Text(_) => 0,
        }
    }
}

/// As `apimachinery`'s `resourceversion.CompareResourceVersion`: digits without a leading zero.
fn is_number(text: &str) -> bool {
    !text.is_empty() && !text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit())
}

impl fmt::Display for ResourceVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Number(number) => write!(formatter, "{number}"),
            Repr::Text(text) => formatter.write_str(text),
        }
    }
}

impl fmt::Debug for ResourceVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ResourceVersion({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_compared_by_length_and_then_by_digits() {
        for (one, other, expected) in [
            ("1", "1", Some(Ordering::Equal)),
            ("9", "10", Some(Ordering::Less)),
            ("11", "10", Some(Ordering::Greater)),
            ("18446744073709551616", "18446744073709551615", Some(Ordering::Greater)),
            ("7", "99999999999999999999999", Some(Ordering::Less)),
            ("99999999999999999999998", "99999999999999999999999", Some(Ordering::Less)),
            ("abc", "abc", Some(Ordering::Equal)),
            ("abc", "abd", None),
            ("abc", "1", None),
            ("01", "1", None),
            ("", "1", None),
            ("-1", "1", None),
        ] {
            let [one, other] = [one, other].map(ResourceVersion::new);
            assert_eq!(one.compare(&other), expected, "{one} {other}");
            assert_eq!(other.compare(&one), expected.map(Ordering::reverse), "{other} {one}");
        }
    }
}
