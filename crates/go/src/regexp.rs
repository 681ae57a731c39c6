//! `regexp/syntax`: RE2 patterns, translated for the crate `regex`.
//!
//! Both engines share a syntax family, but some patterns differ in meaning: `\d` is ASCII in Go, `[a&&b]` is not an
//! intersection, a lone `{` is literal. So patterns are parsed as in Go, with its errors, and rewritten.

use std::fmt::{self, Write as _};

use regex::Regex;

/// `syntax.Error`: why Go rejects a pattern.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Error {
    /// The kind of error.
    pub code: ErrorCode,
    /// The offending part of the pattern.
    pub expr: String,
}

/// `syntax.ErrorCode`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ErrorCode {
    /// `invalid character class range`.
    InvalidCharRange,
    /// `invalid escape sequence`.
    InvalidEscape,
    /// `invalid named capture`.
    InvalidNamedCapture,
    /// `invalid or unsupported Perl syntax`.
    InvalidPerlOp,
    /// `invalid nested repetition operator`.
    InvalidRepeatOp,
    /// `invalid repeat count`.
    InvalidRepeatSize,
    /// `expression too large`.
    Large,
    /// `missing closing ]`.
    MissingBracket,
    /// `missing closing )`.
    MissingParen,
    /// `missing argument to repetition operator`.
    MissingRepeatArgument,
    /// `expression nests too deeply`.
    NestingDepth,
    /// `trailing backslash at end of expression`.
    TrailingBackslash,
    /// `unexpected )`.
    UnexpectedParen,
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InvalidCharRange => "invalid character class range",
            Self::InvalidEscape => "invalid escape sequence",
            Self::InvalidNamedCapture => "invalid named capture",
            Self::InvalidPerlOp => "invalid or unsupported Perl syntax",
            Self::InvalidRepeatOp => "invalid nested repetition operator",
            Self::InvalidRepeatSize => "invalid repeat count",
            Self::Large => "expression too large",
            Self::MissingBracket => "missing closing ]",
            Self::MissingParen => "missing closing )",
            Self::MissingRepeatArgument => "missing argument to repetition operator",
            Self::NestingDepth => "expression nests too deeply",
            Self::TrailingBackslash => "trailing backslash at end of expression",
            Self::UnexpectedParen => "unexpected )",
        })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error parsing regexp: {}: `{}`", self.code, self.expr)
    }
}

impl std::error::Error for Error {}

fn error(code: ErrorCode, expr: &str) -> Error {
    Error { code, expr: expr.to_owned() }
}

/// Go's maximum height of an expression.
const MAX_HEIGHT: usize = 1000;
const MAX_REPEAT: i64 = 1000;
const MAX_SOURCE: usize = 1 << 20;

/// State of one group: whether there is an operand to repeat, and the repetition factors of its parts.
#[derive(Clone, Copy)]
struct Group {
    repeatable: bool,
    /// Maximum product of repetitions within the last atom, and within all.
    last: i64,
    most: i64,
}

impl Group {
    const NEW: Self = Self { repeatable: false, last: 1, most: 1 };

    fn atom(&mut self, factor: i64) {
        self.repeatable = true;
        self.most = self.most.max(self.last);
        self.last = factor;
    }
}

/// Translates a pattern to the syntax of the crate `regex`. Groups do not capture.
///
/// ```
/// use settled_go::regexp;
///
/// assert_eq!(regexp::translate(r"^\d$").as_deref(), Ok("^[0-9]$"));
/// let error = regexp::translate("(a").unwrap_err();
/// assert_eq!(error.to_string(), "error parsing regexp: missing closing ): `(a`");
/// ```
///
/// # Errors
/// Go rejects the pattern.
pub fn translate(pattern: &str) -> Result<String, Error> {
    if pattern.len() > MAX_SOURCE {
        return Err(error(ErrorCode::Large, pattern));
    }
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut groups = vec![Group::NEW];
    let mut rest = pattern;
    // The text from the last repetition on, if it ends the pattern so far.
    let mut last_repeat = "";
    // End of the last operand, before flags that follow it: `a(?i)*` repeats `a`.
    let mut end = 0;
    while let Some(first) = rest.chars().next() {
        let mut repeat = "";
        let group = groups.len() - 1;
        let mut only_flags = false;
        match first {
            '(' => {
                if let Some(opened) = flags(rest, &mut out)? {
                    rest = opened.rest;
                    only_flags = !opened.group;
                    if opened.group {
                        groups.push(Group::NEW);
                    }
                } else {
                    out.push_str("(?:");
                    groups.push(Group::NEW);
                    rest = &rest[1..];
                }
                if groups.len() > MAX_HEIGHT {
                    return Err(error(ErrorCode::NestingDepth, pattern));
                }
            }
            ')' => {
                let (Some(inner), Some(outer)) = (groups.pop(), groups.last_mut()) else {
                    return Err(error(ErrorCode::UnexpectedParen, pattern));
                };
                out.push(')');
                outer.atom(inner.most.max(inner.last));
                rest = &rest[1..];
            }
            '|' => {
                out.push('|');
                let group = &mut groups[group];
                *group = Group { repeatable: false, last: 1, most: group.most.max(group.last) };
                rest = &rest[1..];
            }
            '^' | '$' | '.' => {
                out.push(first);
                groups[group].atom(1);
                rest = &rest[1..];
            }
            '[' => {
                rest = class(rest, &mut out)?;
                groups[group].atom(1);
            }
            '*' | '+' | '?' => {
                repeat = rest;
                rest = repeated(
                    rest,
                    &rest[1..],
                    last_repeat,
                    &groups[group],
                    (&mut out, end),
                    &first.to_string(),
                )?;
            }
            '{' => match counts(rest) {
                None => {
                    out.push_str("\\{");
                    groups[group].atom(1);
                    rest = &rest[1..];
                }
                Some((least, most, after)) => {
                    let whole = &rest[..rest.len() - after.len()];
                    let bad_count = || error(ErrorCode::InvalidRepeatSize, whole);
                    if !(0..=MAX_REPEAT).contains(&least) || most > MAX_REPEAT || (most >= 0 && least > most)
                    {
                        return Err(bad_count());
                    }
                    repeat = rest;
                    rest = repeated(rest, after, last_repeat, &groups[group], (&mut out, end), whole)?;
                    let group = &mut groups[group];
                    let factor = if most < 0 { least } else { most };
                    group.last = if most == 0 { 1 } else { group.last.saturating_mul(factor.max(1)) };
                    if (least >= 2 || most >= 2) && group.last > MAX_REPEAT {
                        return Err(error(
                            ErrorCode::InvalidRepeatSize,
                            &repeat[..repeat.len() - rest.len()],
                        ));
                    }
                }
            },
            '\\' => {
                rest = escape(rest, &mut out, &mut groups[group])?;
            }
            _ => {
                literal(first, &mut out);
                groups[group].atom(1);
                rest = &rest[first.len_utf8()..];
            }
        }
        last_repeat = repeat;
        if !only_flags {
            end = out.len();
        }
    }
    if groups.len() != 1 {
        return Err(error(ErrorCode::MissingParen, pattern));
    }
    Ok(out)
}

fn literal(one: char, out: &mut String) {
    let mut bytes = [0; 4];
    out.push_str(&regex::escape(one.encode_utf8(&mut bytes)));
}

/// A code point in a class, possibly a surrogate.
fn code(one: u32, out: &mut String) {
    let _ = write!(out, "\\x{{{one:X}}}");
}

/// Checks a repetition and returns the text after it.
fn repeated<'p>(
    before: &'p str,
    after: &'p str,
    last: &'p str,
    group: &Group,
    (out, end): (&mut String, usize),
    operator: &str,
) -> Result<&'p str, Error> {
    let mut after = after;
    let mut lazy = false;
    if let Some(rest) = after.strip_prefix('?') {
        after = rest;
        lazy = true;
    }
    if !last.is_empty() {
        return Err(error(ErrorCode::InvalidRepeatOp, &last[..last.len() - after.len()]));
    }
    if !group.repeatable {
        return Err(error(ErrorCode::MissingRepeatArgument, &before[..before.len() - after.len()]));
    }
    if lazy {
        out.insert(end, '?');
    }
    out.insert_str(end, operator);
    Ok(after)
}

/// `{2}`, `{2,}`, `{2,3}`; no maximum is -1, and a minimum that overflows is 0.
fn counts(text: &str) -> Option<(i64, i64, &str)> {
    let number = |text: &str| -> Option<(i64, usize)> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 || (digits > 1 && text.starts_with('0')) {
            return None;
        }
        Some((if digits > 8 { -1 } else { text[..digits].parse().ok()? }, digits))
    };
    let rest = text.strip_prefix('{')?;
    let (mut least, digits) = number(rest)?;
    let rest = &rest[digits..];
    let (most, rest) = match rest.strip_prefix(',') {
        None => (least, rest),
        Some(rest) if rest.starts_with('}') => (-1, rest),
        Some(rest) => {
            let (most, digits) = number(rest)?;
            if most < 0 {
                least = -1;
            }
            (most, &rest[digits..])
        }
    };
    Some((least, most, rest.strip_prefix('}')?))
}

struct Opened<'p> {
    rest: &'p str,
    group: bool,
}

/// A group that begins with `(?`.
fn flags<'p>(text: &'p str, out: &mut String) -> Result<Option<Opened<'p>>, Error> {
    let Some(rest) = text.strip_prefix("(?") else { return Ok(None) };
    let named = rest.strip_prefix("P<").filter(|_| text.len() > 4);
    if let Some(name) = named.or_else(|| rest.strip_prefix('<').filter(|_| text.len() > 3)) {
        let bad = |part: &str| error(ErrorCode::InvalidNamedCapture, part);
        let Some((name, rest)) = name.split_once('>') else { return Err(bad(text)) };
        if name.is_empty() || !name.bytes().all(|byte| byte == b'_' || byte.is_ascii_alphanumeric()) {
            return Err(bad(&text[..text.len() - rest.len()]));
        }
        out.push_str("(?:");
        return Ok(Some(Opened { rest, group: true }));
    }
    let mut rest = rest;
    let (mut negated, mut seen) = (false, false);
    while let Some(one) = rest.chars().next() {
        rest = &rest[one.len_utf8()..];
        match one {
            'i' | 'm' | 's' | 'U' => seen = true,
            '-' if !negated => {
                negated = true;
                seen = false;
            }
            ':' | ')' if !negated || seen => {
                let part = &text[..text.len() - rest.len()];
                // `(?)` is empty in Go and invalid in Rust.
                if part != "(?)" {
                    out.push_str(part);
                }
                return Ok(Some(Opened { rest, group: one == ':' }));
            }
            _ => break,
        }
    }
    Err(error(ErrorCode::InvalidPerlOp, &text[..text.len() - rest.len()]))
}

/// An escape outside of a class.
fn escape<'p>(text: &'p str, out: &mut String, group: &mut Group) -> Result<&'p str, Error> {
    match text.as_bytes().get(1) {
        Some(b'A') => out.push_str("\\A"),
        Some(b'z') => out.push_str("\\z"),
        Some(b'b') => out.push_str("(?-u:\\b)"),
        Some(b'B') => out.push_str("(?-u:\\B)"),
        Some(b'C') => return Err(error(ErrorCode::InvalidEscape, &text[..2])),
        Some(b'Q') => {
            let inner = &text[2..];
            let (quoted, rest) = inner.split_once("\\E").unwrap_or((inner, ""));
            for one in quoted.chars() {
                literal(one, out);
                group.atom(1);
            }
            return Ok(rest);
        }
        _ => {
            group.atom(1);
            if let Some(rest) = unicode_class(text, out)? {
                return Ok(rest);
            }
            if let Some(rest) = perl_class(text, out) {
                return Ok(rest);
            }
            let (one, rest) = escaped(text)?;
            code(one, out);
            return Ok(rest);
        }
    }
    group.atom(1);
    Ok(&text[2..])
}

/// `\d` and other Perl classes.
fn perl_class<'p>(text: &'p str, out: &mut String) -> Option<&'p str> {
    out.push_str(match text.as_bytes().get(1)? {
        b'd' => "[0-9]",
        b'D' => "[^0-9]",
        b's' => "[\\t\\n\\x0C\\r ]",
        b'S' => "[^\\t\\n\\x0C\\r ]",
        b'w' => "[0-9A-Za-z_]",
        b'W' => "[^0-9A-Za-z_]",
        _ => return None,
    });
    Some(&text[2..])
}

/// `\p{Greek}`, `\pN`.
fn unicode_class<'p>(text: &'p str, out: &mut String) -> Result<Option<&'p str>, Error> {
    let mut negated = match text.as_bytes().get(1) {
        Some(b'p') => false,
        Some(b'P') => true,
        _ => return Ok(None),
    };
    let rest = &text[2..];
    let (name, rest) = if let Some(braced) = rest.strip_prefix('{') {
        braced.split_once('}').ok_or_else(|| error(ErrorCode::InvalidCharRange, text))?
    } else {
        let one = rest.chars().next().map_or(0, char::len_utf8);
        rest.split_at(one)
    };
    let part = &text[..text.len() - rest.len()];
    let bare = name.strip_prefix('^').unwrap_or(name);
    negated ^= bare.len() != name.len();
    let class = format!("\\{}{{{bare}}}", if negated { 'P' } else { 'p' });
    let known = !bare.is_empty()
        && bare.bytes().all(|one| one.is_ascii_alphanumeric() || matches!(one, b'_' | b'-' | b' '))
        && Regex::new(&class).is_ok();
    if !known {
        return Err(error(ErrorCode::InvalidCharRange, part));
    }
    out.push_str(&class);
    Ok(Some(rest))
}

/// `
/// `, `\x{1F600}`, `\.`: the code point and the remaining text.
fn escaped(text: &str) -> Result<(u32, &str), Error> {
    let rest = &text[1..];
    let Some(one) = rest.chars().next() else {
        return Err(error(ErrorCode::TrailingBackslash, ""));
    };
    let mut rest = &rest[one.len_utf8()..];
    let octal = |text: &str| text.bytes().next().filter(|one| (b'0'..=b'7').contains(one));
    match one {
        '0'..='7' if one == '0' || octal(rest).is_some() => {
            let mut code = u32::from(one) - u32::from('0');
            for _ in 0..2 {
                let Some(digit) = octal(rest) else { break };
                code = code * 8 + u32::from(digit - b'0');
                rest = &rest[1..];
            }
            return Ok((code, rest));
        }
        'x' => {
            let next = |rest: &mut &str| {
                let one = rest.chars().next();
                *rest = &rest[one.map_or(0, char::len_utf8)..];
                one
            };
            let first = next(&mut rest);
            if first == Some('{') {
                let mut code = 0;
                let mut digits = 0;
                while let Some(one) = next(&mut rest) {
                    if one == '}' {
                        if digits == 0 {
                            break;
                        }
                        return Ok((code, rest));
                    }
                    let Some(digit) = one.to_digit(16) else { break };
                    code = code * 16 + digit;
                    digits += 1;
                    if code > 0x10_ffff {
                        break;
                    }
                }
            } else if let Some(first) = first {
                let second = next(&mut rest);
                if let (Some(first), Some(second)) =
                    (first.to_digit(16), second.and_then(|one| one.to_digit(16)))
                {
                    return Ok((first * 16 + second, rest));
                }
            }
        }
        'a' => return Ok((7, rest)),
        'f' => return Ok((12, rest)),
        'n' => return Ok((10, rest)),
        'r' => return Ok((13, rest)),
        't' => return Ok((9, rest)),
        'v' => return Ok((11, rest)),
        _ if one.is_ascii() && !one.is_ascii_alphanumeric() => return Ok((u32::from(one), rest)),
        _ => {}
    }
    Err(error(ErrorCode::InvalidEscape, &text[..text.len() - rest.len()]))
}

const POSIX: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space",
    "upper", "word", "xdigit",
];

/// A bracket expression.
fn class<'p>(text: &'p str, out: &mut String) -> Result<&'p str, Error> {
    let mut rest = &text[1..];
    out.push('[');
    if let Some(negated) = rest.strip_prefix('^') {
        out.push('^');
        rest = negated;
    }
    let mut first = true;
    loop {
        if !first && let Some(rest) = rest.strip_prefix(']') {
            out.push(']');
            return Ok(rest);
        }
        first = false;
        if let Some(named) = rest.strip_prefix("[:")
            && let Some((name, after)) = named.split_once(":]")
        {
            let bare = name.strip_prefix('^').unwrap_or(name);
            if !POSIX.contains(&bare) {
                return Err(error(ErrorCode::InvalidCharRange, &rest[..rest.len() - after.len()]));
            }
            let _ = write!(out, "[:{name}:]");
            rest = after;
            continue;
        }
        if rest.starts_with('\\') {
            if let Some(after) = unicode_class(rest, out)? {
                rest = after;
                continue;
            }
            if let Some(after) = perl_class(rest, out) {
                rest = after;
                continue;
            }
        }
        let range = rest;
        let (low, after) = class_char(rest, text)?;
        rest = after;
        let mut high = low;
        if let Some(after) =
            rest.strip_prefix('-').filter(|after| !after.is_empty() && !after.starts_with(']'))
        {
            let (end, after) = class_char(after, text)?;
            rest = after;
            high = end;
            if high < low {
                return Err(error(ErrorCode::InvalidCharRange, &range[..range.len() - rest.len()]));
            }
        }
        // Valid text has no surrogates.
        let low = if (0xd800..0xe000).contains(&low) { 0xe000 } else { low };
        let high = if (0xd800..0xe000).contains(&high) { 0xd7ff } else { high };
        if low <= high {
            code(low, out);
            out.push('-');
            code(high, out);
        }
    }
}

fn class_char<'p>(text: &'p str, whole: &str) -> Result<(u32, &'p str), Error> {
    match text.chars().next() {
        None => Err(error(ErrorCode::MissingBracket, whole)),
        Some('\\') => escaped(text),
        Some(one) => Ok((u32::from(one), &text[one.len_utf8()..])),
    }
}
