//! `strconv`: quoting, printable characters, numbers.

use std::error::Error;
use std::fmt::{self, Write};

use crate::printable::PRINTABLE;

/// `%v` of a float: the shortest digits, with an exponent below -4 and from 6 on.
pub(crate) fn write_float(number: f64, out: &mut impl Write) -> fmt::Result {
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if number == 0.0 || (-4..6).contains(&exponent) {
        return write!(out, "{number}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    write!(out, "{digits}e{sign}{:02}", exponent.unsigned_abs())
}

/// `%q`, as `strconv.Quote`.
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    push_quoted(text, &mut out);
    out
}

/// Appends [`quote`] to a text.
pub fn push_quoted(text: &str, out: &mut String) {
    out.push('"');
    for char in text.chars() {
        push_escaped(char, out);
    }
    out.push('"');
}

/// [`quote`] of bytes that may be invalid UTF-8.
pub fn quote_bytes(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() + 2);
    out.push('"');
    for chunk in bytes.utf8_chunks() {
        for char in chunk.valid().chars() {
            push_escaped(char, &mut out);
        }
        for byte in chunk.invalid() {
            push(&mut out, format_args!("\\x{byte:02x}"));
        }
    }
    out.push('"');
    out
}

/// A character as [`quote`] writes it between the quotes.
pub fn push_escaped(char: char, out: &mut String) {
    match char {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\x07' => out.push_str("\\a"),
        '\x08' => out.push_str("\\b"),
        '\x0c' => out.push_str("\\f"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\x0b' => out.push_str("\\v"),
        char if is_print(char) => out.push(char),
        '\0'..='\x7f' => push(out, format_args!("\\x{:02x}", u32::from(char))),
        '\u{80}'..='\u{ffff}' => push(out, format_args!("\\u{:04x}", u32::from(char))),
        _ => push(out, format_args!("\\U{:08x}", u32::from(char))),
    }
}

/// `strconv.IsPrint`: letters, marks, numbers, punctuation, symbols and the ASCII space, in the Unicode version of
/// Kubernetes' Go.
pub fn is_print(char: char) -> bool {
    if char.is_ascii() {
        return matches!(char, ' '..='~');
    }
    let code = u32::from(char);
    let after = PRINTABLE.partition_point(|(from, _)| *from <= code);
    after.checked_sub(1).and_then(|at| PRINTABLE.get(at)).is_some_and(|(_, to)| code <= *to)
}

fn push(out: &mut String, text: fmt::Arguments<'_>) {
    // Writing to a string can't fail.
    let _ = out.write_fmt(text);
}

/// Parse error of [`atoi`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AtoiError {
    /// Not digits with a sign or without.
    Syntax(String),
    /// Not an `int64`.
    Range(String),
}

impl fmt::Display for AtoiError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (text, why) = match self {
            Self::Syntax(text) => (text, "invalid syntax"),
            Self::Range(text) => (text, "value out of range"),
        };
        write!(formatter, "strconv.Atoi: parsing {}: {why}", quote(text))
    }
}

impl Error for AtoiError {}

/// Reads an integer (`strconv.Atoi`).
///
/// ```
/// use settled_go::strconv::atoi;
///
/// assert_eq!(atoi("-7"), Ok(-7));
/// assert_eq!(atoi("1_0").unwrap_err().to_string(), r#"strconv.Atoi: parsing "1_0": invalid syntax"#);
/// ```
///
/// # Errors
/// The text is no integer, or not one of 64 bits.
pub fn atoi(text: &str) -> Result<i64, AtoiError> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(AtoiError::Syntax(text.to_owned()));
    }
    text.parse().map_err(|_| AtoiError::Range(text.to_owned()))
}
