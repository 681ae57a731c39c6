//! Lexer with cel-go's grammar.

use std::borrow::Cow;

use super::ast::Issue;

/// Operators, brackets and punctuation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    Equal,
    Unequal,
    LessOrEqual,
    GreaterOrEqual,
    And,
    Or,
    Less,
    Greater,
    OpenBracket,
    CloseBracket,
    OpenBrace,
    CloseBrace,
    OpenParen,
    CloseParen,
    Dot,
    Comma,
    Minus,
    Not,
    Question,
    Colon,
    Plus,
    Star,
    Slash,
    Percent,
    In,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    Mark(Mark),
    True,
    False,
    Null,
    Float,
    Int,
    Uint,
    Text,
    Bytes,
    Ident,
    EscapedIdent,
    End,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Lexeme {
    pub(crate) token: Token,
    /// In bytes.
    pub(crate) at: u32,
    pub(crate) end: u32,
}

/// Tokenizes a text of less than 4 GiB.
pub(crate) fn tokens(source: &str, issues: &mut Vec<Issue>) -> Vec<Lexeme> {
    let bytes = source.as_bytes();
    // A token has three or four bytes on average, including whitespace.
    let mut found = Vec::with_capacity(bytes.len() / 3 + 2);
    let mut at = 0;
    while at < bytes.len() {
        let rest = bytes.get(at..).unwrap_or_default();
        if let Some(length) = blank(rest) {
            at += length;
            continue;
        }
        if let Some((token, length)) = token(rest) {
            found.push(Lexeme { token, at: at as u32, end: (at + length) as u32 });
            at += length;
        } else {
            let length = unterminated(rest);
            let text = source.get(at..at + length).unwrap_or_default();
            let text = text.replace('\n', "\\n").replace('\t', "\\t").replace('\r', "\\r");
            let message = format!("Syntax error: token recognition error at: '{text}'");
            issues.push(Issue { at: at as u32, message });
            at += length;
        }
    }
    found.push(Lexeme { token: Token::End, at: bytes.len() as u32, end: bytes.len() as u32 });
    found
}

fn blank(rest: &[u8]) -> Option<usize> {
    let is_blank = |byte: &u8| matches!(byte, b'\t' | b' ' | b'\r' | b'\n' | b'\x0c');
    let length = rest.iter().take_while(|byte| is_blank(byte)).count();
    if length > 0 {
        return Some(length);
    }
    rest.starts_with(b"//").then(|| rest.iter().take_while(|byte| **byte != b'\n').count())
}

fn token(rest: &[u8]) -> Option<(Token, usize)> {
    let first = *rest.first()?;
    let (prefix, is_raw, is_bytes) = match (first, rest.get(1), rest.get(2)) {
        (b'b' | b'B', Some(b'r' | b'R'), Some(b'"' | b'\'')) => (2, true, true),
        (b'b' | b'B', Some(b'"' | b'\''), _) => (1, false, true),
        (b'r' | b'R', Some(b'"' | b'\''), _) => (1, true, false),
        _ => (0, false, false),
    };
    let quoted = rest.get(prefix..).unwrap_or_default();
    if matches!(quoted.first(), Some(b'"' | b'\'')) {
        if let Some(length) = text(quoted, is_raw) {
            let token = if is_bytes { Token::Bytes } else { Token::Text };
            return Some((token, prefix + length));
        }
        if prefix == 0 {
            return None;
        }
    }
    if first.is_ascii_alphabetic() || first == b'_' {
        let length = rest.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
        let token = match rest.get(..length).unwrap_or_default() {
            b"in" => Token::Mark(Mark::In),
            b"true" => Token::True,
            b"false" => Token::False,
            b"null" => Token::Null,
            _ => Token::Ident,
        };
        return Some((token, length));
    }
    if first == b'`' {
        let is_inside =
            |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-' | b'/' | b' ');
        let length = rest.iter().skip(1).take_while(is_inside).count();
        return (length > 0 && rest.get(length + 1) == Some(&b'`'))
            .then_some((Token::EscapedIdent, length + 2));
    }
    if let Some(number) = number(rest) {
        return Some(number);
    }
    mark(first, rest.get(1).copied()).map(|(mark, length)| (Token::Mark(mark), length))
}

fn mark(first: u8, second: Option<u8>) -> Option<(Mark, usize)> {
    let long = match (first, second) {
        (b'=', Some(b'=')) => Some(Mark::Equal),
        (b'!', Some(b'=')) => Some(Mark::Unequal),
        (b'<', Some(b'=')) => Some(Mark::LessOrEqual),
        (b'>', Some(b'=')) => Some(Mark::GreaterOrEqual),
        (b'&', Some(b'&')) => Some(Mark::And),
        (b'|', Some(b'|')) => Some(Mark::Or),
        _ => None,
    };
    if let Some(long) = long {
        return Some((long, 2));
    }
    let short = match first {
        b'<' => Mark::Less,
        b'>' => Mark::Greater,
        b'[' => Mark::OpenBracket,
        b']' => Mark::CloseBracket,
        b'{' => Mark::OpenBrace,
        b'}' => Mark::CloseBrace,
        b'(' => Mark::OpenParen,
        b')' => Mark::CloseParen,
        b'.' => Mark::Dot,
        b',' => Mark::Comma,
        b'-' => Mark::Minus,
        b'!' => Mark::Not,
        b'?' => Mark::Question,
        b':' => Mark::Colon,
        b'+' => Mark::Plus,
        b'*' => Mark::Star,
        b'/' => Mark::Slash,
        b'%' => Mark::Percent,
        _ => return None,
    };
    Some((short, 1))
}

fn digits(rest: &[u8]) -> usize {
    rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

fn exponent(rest: &[u8]) -> usize {
    if !matches!(rest.first(), Some(b'e' | b'E')) {
        return 0;
    }
    let sign = usize::from(matches!(rest.get(1), Some(b'+' | b'-')));
    let count = digits(rest.get(1 + sign..).unwrap_or_default());
    if count == 0 { 0 } else { 1 + sign + count }
}

fn number(rest: &[u8]) -> Option<(Token, usize)> {
    let after = |at: usize| rest.get(at..).unwrap_or_default();
    let is_uint = |at: usize| matches!(rest.get(at), Some(b'u' | b'U'));
    if rest.starts_with(b"0x") {
        let hex = after(2).iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        if hex > 0 {
            let end = 2 + hex;
            return Some(if is_uint(end) { (Token::Uint, end + 1) } else { (Token::Int, end) });
        }
    }
    let whole = digits(rest);
    if rest.get(whole) == Some(&b'.') {
        let part = digits(after(whole + 1));
        if part > 0 {
            let end = whole + 1 + part;
            return Some((Token::Float, end + exponent(after(end))));
        }
    }
    if whole == 0 {
        return None;
    }
    let exponent = exponent(after(whole));
    if exponent > 0 {
        return Some((Token::Float, whole + exponent));
    }
    Some(if is_uint(whole) { (Token::Uint, whole + 1) } else { (Token::Int, whole) })
}

/// Length of a string literal with its quotes.
fn text(rest: &[u8], is_raw: bool) -> Option<usize> {
    let quote = *rest.first()?;
    let is_triple =
        |at: usize| rest.get(at..at + 3).is_some_and(|three| three.iter().all(|byte| *byte == quote));
    if is_triple(0) {
        let mut at = 3;
        loop {
            if is_triple(at) {
                return Some(at + 3);
            }
            match rest.get(at) {
                None => break,
                Some(b'\\') if !is_raw => match escape(rest.get(at..).unwrap_or_default()) {
                    Some(length) => at += length,
                    None => break,
                },
                Some(_) => at += 1,
            }
        }
    }
    let mut at = 1;
    loop {
        match rest.get(at)? {
            b'\n' | b'\r' => return None,
            b'\\' if !is_raw => at += escape(rest.get(at..).unwrap_or_default())?,
            byte if *byte == quote => return Some(at + 1),
            _ => at += 1,
        }
    }
}

fn escape(rest: &[u8]) -> Option<usize> {
    let all = |count: usize, is_digit: fn(&u8) -> bool| {
        rest.get(2..2 + count).filter(|digits| digits.iter().all(is_digit)).map(|_| 2 + count)
    };
    match rest.get(1)? {
        b'a' | b'b' | b'f' | b'n' | b'r' | b't' | b'v' | b'"' | b'\'' | b'\\' | b'?' | b'`' => Some(2),
        b'x' | b'X' => all(2, u8::is_ascii_hexdigit),
        b'u' => all(4, u8::is_ascii_hexdigit),
        b'U' => all(8, u8::is_ascii_hexdigit),
        b'0'..=b'3' => all(2, |byte| (b'0'..=b'7').contains(byte)),
        _ => None,
    }
}

/// The bytes of the first character of a text.
fn char_length(rest: &[u8]) -> usize {
    match rest.first() {
        None => 0,
        Some(..=0x7f) => 1,
        Some(..=0xdf) => 2,
        Some(..=0xef) => 3,
        Some(_) => 4,
    }
}

/// Length of an unterminated literal.
fn unterminated(rest: &[u8]) -> usize {
    let next = |at: usize| char_length(rest.get(at..).unwrap_or_default());
    match rest.first() {
        Some(quote @ (b'"' | b'\'')) => {
            let mut at = 1;
            while let Some(byte) = rest.get(at) {
                if matches!(byte, b'\n' | b'\r') {
                    return at + 1;
                }
                if *byte == b'\\' {
                    match escape(rest.get(at..).unwrap_or_default()) {
                        Some(length) => at += length,
                        None => return at + 1 + next(at + 1),
                    }
                    continue;
                }
                at += 1;
                if byte == quote {
                    break;
                }
            }
            at
        }
        Some(b'&' | b'|' | b'=') => 1 + next(1),
        _ => next(0),
    }
}

/// Unescapes a literal that the lexer has accepted.
pub(crate) fn unescape(literal: &str, is_bytes: bool) -> Result<Cow<'_, [u8]>, &'static str> {
    if literal.contains('\r') {
        let normal = literal.replace("\r\n", "\n").replace('\r', "\n");
        return Ok(Cow::Owned(unescape(&normal, is_bytes)?.into_owned()));
    }
    let (body, is_raw) = match literal.strip_prefix(['r', 'R']) {
        Some(body) => (body, true),
        None => (literal, false),
    };
    let cut = if body.len() >= 6 && (body.starts_with("'''") || body.starts_with("\"\"\"")) { 3 } else { 1 };
    let body = body.get(cut..body.len().saturating_sub(cut)).unwrap_or_default();
    if is_raw || !body.contains('\\') {
        return Ok(Cow::Borrowed(body.as_bytes()));
    }
    let mut out = Vec::with_capacity(body.len());
    let mut chars = body.chars();
    let mut buffer = [0; 4];
    while let Some(char) = chars.next() {
        if char != '\\' {
            out.extend_from_slice(char.encode_utf8(&mut buffer).as_bytes());
            continue;
        }
        let escape = chars.next().ok_or("unable to unescape string, found '\\' as last character")?;
        let mut take = |count: usize, radix: u32, start: u32| {
            let mut value = start;
            for _ in 0..count {
                let digit =
                    chars.next().and_then(|char| char.to_digit(radix)).ok_or("unable to unescape string")?;
                value = value.wrapping_mul(radix).wrapping_add(digit);
            }
            Ok::<_, &'static str>(value)
        };
        let code = match escape {
            'a' => 7,
            'b' => 8,
            'f' => 12,
            'n' => 10,
            'r' => 13,
            't' => 9,
            'v' => 11,
            '\\' | '\'' | '"' | '`' | '?' => escape as u32,
            'x' | 'X' => take(2, 16, 0)?,
            'u' | 'U' if is_bytes => return Err("unable to unescape string"),
            'u' => take(4, 16, 0)?,
            'U' => take(8, 16, 0)?,
            '0'..='3' => take(2, 8, escape.to_digit(8).unwrap_or_default())?,
            _ => return Err("unable to unescape string"),
        };
        if is_bytes {
            out.push(code as u8);
        } else {
            let char = char::from_u32(code).ok_or("invalid unicode code point")?;
            out.extend_from_slice(char.encode_utf8(&mut buffer).as_bytes());
        }
    }
    Ok(Cow::Owned(out))
}
