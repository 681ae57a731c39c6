//! Resolution of plain scalars: YAML 1.1 as in Go's `yaml/v2`, without sexagesimal numbers.

/// The value of a scalar.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Resolved {
    Null,
    Bool(bool),
    /// An integer of 64 bits, signed or unsigned.
    Int(i128),
    Float(f64),
    /// An integer of more than 64 bits, which Go converts to a float; its digits are kept here.
    Digits(String),
    Str,
}

pub(crate) fn resolve(text: &[u8]) -> Resolved {
    match text.first() {
        None => Resolved::Null,
        Some(b'0'..=b'9' | b'+' | b'-') => {
            if let Some(special) = infinite(text) {
                return special;
            }
            number(text)
        }
        Some(b'.') => match text {
            b".nan" | b".NaN" | b".NAN" => Resolved::Float(f64::NAN),
            _ => infinite(text).or_else(|| dotted(text)).unwrap_or(Resolved::Str),
        },
        Some(b'y' | b'Y' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'o' | b'O' | b'~') => match text {
            b"y" | b"Y" | b"yes" | b"Yes" | b"YES" => Resolved::Bool(true),
            b"true" | b"True" | b"TRUE" | b"on" | b"On" | b"ON" => Resolved::Bool(true),
            b"n" | b"N" | b"no" | b"No" | b"NO" => Resolved::Bool(false),
            b"false" | b"False" | b"FALSE" | b"off" | b"Off" | b"OFF" => Resolved::Bool(false),
            b"~" | b"null" | b"Null" | b"NULL" => Resolved::Null,
            _ => Resolved::Str,
        },
        _ => Resolved::Str,
    }
}

fn infinite(text: &[u8]) -> Option<Resolved> {
    match text {
        b".inf" | b".Inf" | b".INF" | b"+.inf" | b"+.Inf" | b"+.INF" => Some(Resolved::Float(f64::INFINITY)),
        b"-.inf" | b"-.Inf" | b"-.INF" => Some(Resolved::Float(f64::NEG_INFINITY)),
        _ => None,
    }
}

fn number(text: &[u8]) -> Resolved {
    // Words that only begin like a number, such as addresses and dates, are common.
    if !text.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.' | b'_')) {
        return Resolved::Str;
    }
    let without_underscores: Vec<u8>;
    let plain = if text.contains(&b'_') {
        without_underscores = text.iter().copied().filter(|&b| b != b'_').collect();
        &without_underscores[..]
    } else {
        text
    };
    if let Some(integer) = integer(plain) {
        return Resolved::Int(integer);
    }
    if let Some(float) = float(plain) {
        let digits = plain.strip_prefix(b"+").unwrap_or(plain);
        let unsigned = digits.strip_prefix(b"-").unwrap_or(digits);
        if unsigned.iter().all(u8::is_ascii_digit) && !unsigned.starts_with(b"0") {
            return Resolved::Digits(String::from_utf8_lossy(digits).into_owned());
        }
        return Resolved::Float(float);
    }
    // Go tries this prefix again, and so accepts a sign after it.
    if let Some(digits @ [b'+' | b'-', ..]) = plain.strip_prefix(b"0b")
        && let Some(integer) = signed(digits, 2)
    {
        return Resolved::Int(integer);
    }
    Resolved::Str
}

/// Go's `ParseInt` and `ParseUint` with base 0.
fn integer(text: &[u8]) -> Option<i128> {
    let unsigned = text.strip_prefix(b"+").or_else(|| text.strip_prefix(b"-")).unwrap_or(text);
    let (digits, base) = match unsigned {
        [b'0', b'x' | b'X', digits @ ..] if !digits.is_empty() => (digits, 16),
        [b'0', b'o' | b'O', digits @ ..] if !digits.is_empty() => (digits, 8),
        [b'0', b'b' | b'B', digits @ ..] if !digits.is_empty() => (digits, 2),
        b"0" => (unsigned, 10),
        [b'0', digits @ ..] => (digits, 8),
        _ => (unsigned, 10),
    };
    let value = magnitude(digits, base)?;
    match text.first() {
        Some(b'-') => (value <= 1 << 63).then_some(-value),
        Some(b'+') => (value < 1 << 63).then_some(value),
        _ => Some(value),
    }
}

fn signed(text: &[u8], base: u32) -> Option<i128> {
    let (sign, digits) = text.split_first()?;
    let value = magnitude(digits, base)?;
    Some(if *sign == b'-' { -value } else { value })
}

fn magnitude(digits: &[u8], base: u32) -> Option<i128> {
    if digits.is_empty() {
        return None;
    }
    let mut value: u64 = 0;
    for &digit in digits {
        let digit = char::from(digit).to_digit(base)?;
        value = value.checked_mul(u64::from(base))?.checked_add(u64::from(digit))?;
    }
    Some(i128::from(value))
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`, and not too large.
fn float(text: &[u8]) -> Option<f64> {
    let digits = |text: &mut &[u8]| {
        let count = text.iter().take_while(|b| b.is_ascii_digit()).count();
        *text = &text[count..];
        count
    };
    let sign = |text: &mut &[u8]| {
        if let [b'+' | b'-', rest @ ..] = *text {
            *text = rest;
        }
    };
    let mut rest = text;
    sign(&mut rest);
    let whole = digits(&mut rest);
    if let [b'.', after @ ..] = rest {
        rest = after;
        let fraction = digits(&mut rest);
        if whole == 0 && fraction == 0 {
            return None;
        }
    } else if whole == 0 {
        return None;
    }
    if let [b'e' | b'E', after @ ..] = rest {
        rest = after;
        sign(&mut rest);
        if digits(&mut rest) == 0 {
            return None;
        }
    }
    if !rest.is_empty() {
        return None;
    }
    let value: f64 = str::from_utf8(text).ok()?.parse().ok()?;
    value.is_finite().then_some(value)
}

/// A number that begins with a point. Go parses it with its own parser, which allows underscores between digits.
fn dotted(text: &[u8]) -> Option<Resolved> {
    let between_digits =
        |at: usize| text[at - 1].is_ascii_digit() && text.get(at + 1).is_some_and(u8::is_ascii_digit);
    if !(1..text.len()).all(|at| text[at] != b'_' || between_digits(at)) {
        return None;
    }
    let plain: Vec<u8> = text.iter().copied().filter(|&b| b != b'_').collect();
    float(&plain).map(Resolved::Float)
}

/// Sexagesimal number (`1:30`), which other YAML 1.1 readers would parse; it is quoted for them.
pub(super) fn is_sexagesimal(text: &[u8]) -> bool {
    let unsigned = text.strip_prefix(b"+").or_else(|| text.strip_prefix(b"-")).unwrap_or(text);
    let mut parts = unsigned.split(|&byte| byte == b':');
    let first = parts.next().unwrap_or_default();
    let whole = first.first().is_some_and(u8::is_ascii_digit)
        && first.iter().all(|b| b.is_ascii_digit() || *b == b'_');
    let mut count = 0;
    let rest = parts.all(|part| {
        count += 1;
        part.iter().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'_'))
    });
    whole && rest && count > 0
}

/// Writes a float as Go's `encoding/json`.
pub(super) fn write_float(value: f64, out: &mut Vec<u8>) {
    let magnitude = value.abs();
    if magnitude != 0.0 && !(1e-6..1e21).contains(&magnitude) {
        let text = format!("{value:e}");
        // Go always writes the sign of an exponent.
        match text.split_once('e') {
            Some((digits, exponent)) if !exponent.starts_with('-') => {
                out.extend_from_slice(format!("{digits}e+{exponent}").as_bytes());
            }
            _ => out.extend_from_slice(text.as_bytes()),
        }
    } else {
        out.extend_from_slice(format!("{value}").as_bytes());
    }
}

/// Writes a float as a key, as Go: with the precision of 32 bits, and an exponent for long numbers.
pub(super) fn float_key(value: f64) -> String {
    let value = value as f32;
    if value.is_nan() {
        return ".nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { ".inf" } else { "-.inf" }.to_owned();
    }
    let text = format!("{value:e}");
    let Some((digits, exponent)) = text.split_once('e') else { return text };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-4..6).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{digits}e{sign}{:02}", exponent.abs())
    } else {
        format!("{value}")
    }
}
