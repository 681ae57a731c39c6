//! `time.ParseDuration`.

use std::error::Error;
use std::fmt::{self, Write as _};

/// Maximum nanoseconds while parsing: the absolute value of the minimum duration.
const LIMIT: u64 = 1 << 63;

/// Largest fraction that can take another digit.
const MAX_FRACTION: u64 = (LIMIT - 1) / 10;

/// Parse error with Go's message.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ParseDurationError {
    /// Malformed, or longer than 292 years.
    Invalid(String),
    /// A number without a unit.
    MissingUnit(String),
    /// Unknown unit: the unit, then the whole text.
    UnknownUnit(String, String),
}

impl fmt::Display for ParseDurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(text) => write!(f, "time: invalid duration {}", quote(text)),
            Self::MissingUnit(text) => write!(f, "time: missing unit in duration {}", quote(text)),
            Self::UnknownUnit(unit, text) => {
                write!(f, "time: unknown unit {} in duration {}", quote(unit), quote(text))
            }
        }
    }
}

impl Error for ParseDurationError {}

/// Parses a duration as `time.ParseDuration`, in nanoseconds.
///
/// ```
/// use settled_go::duration;
///
/// assert_eq!(duration::parse("1m30.5s"), Ok(90_500_000_000));
/// assert_eq!(duration::parse("-2us"), Ok(-2_000));
/// let error = duration::parse("5").unwrap_err();
/// assert_eq!(error.to_string(), r#"time: missing unit in duration "5""#);
/// ```
///
/// # Errors
/// The text is malformed, or the duration exceeds 292 years.
pub fn parse(text: &str) -> Result<i64, ParseDurationError> {
    let invalid = || ParseDurationError::Invalid(text.to_owned());
    let (is_negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total = 0_u64;
    while !rest.is_empty() {
        let (whole, after) = split_digits(rest);
        let mut value = match whole {
            "" => 0,
            digits => digits.parse().ok().filter(|value| *value <= LIMIT).ok_or_else(invalid)?,
        };
        let (fraction, after) = after.strip_prefix('.').map_or(("", after), split_digits);
        if whole.is_empty() && fraction.is_empty() {
            return Err(invalid());
        }
        let end = after.find(|char: char| char == '.' || char.is_ascii_digit()).unwrap_or(after.len());
        let (name, after) = after.split_at(end);
        if name.is_empty() {
            return Err(ParseDurationError::MissingUnit(text.to_owned()));
        }
        let unit =
            unit(name).ok_or_else(|| ParseDurationError::UnknownUnit(name.to_owned(), text.to_owned()))?;
        value = value.checked_mul(unit).filter(|value| *value <= LIMIT).ok_or_else(invalid)?;
        value = value
            .checked_add(nanoseconds(fraction, unit))
            .filter(|value| *value <= LIMIT)
            .ok_or_else(invalid)?;
        // Go's sum overflows, too: twice the limit is zero.
        total = total.wrapping_add(value);
        if total > LIMIT {
            return Err(invalid());
        }
        rest = after;
    }
    if is_negative {
        return Ok(0_i64.wrapping_sub_unsigned(total));
    }
    i64::try_from(total).map_err(|_| invalid())
}

/// Nanoseconds per unit.
fn unit(name: &str) -> Option<u64> {
    Some(match name {
        "ns" => 1,
        // Micro sign and Greek letter mu.
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

/// Fraction of a unit with the rounding of Go's floats; digits beyond an `int64` are ignored.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "Go rounds here, too; a fraction of an hour fits"
)]
fn nanoseconds(digits: &str, unit: u64) -> u64 {
    let (mut fraction, mut scale) = (0_u64, 1.0_f64);
    for digit in digits.bytes() {
        if fraction > MAX_FRACTION {
            break;
        }
        let next = fraction * 10 + u64::from(digit - b'0');
        if next > LIMIT {
            break;
        }
        (fraction, scale) = (next, scale * 10.0);
    }
    (fraction as f64 * (unit as f64 / scale)) as u64
}

/// Quoting of package `time`: bytes outside of ASCII are escaped one by one.
fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => out.extend(['\\', char::from(byte)]),
            b' '..=b'\x7f' => out.push(char::from(byte)),
            // Writing to a string can't fail.
            _ => drop(write!(out, "\\x{byte:02x}")),
        }
    }
    out.push('"');
    out
}
