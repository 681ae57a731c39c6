//! An expression's text, cut into tokens as the grammar of cel-go has it.

use super::ast::Issue;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// `==`, `(`, `in` and the like.
    Mark(&'static str),
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
    /// In characters.
    pub(crate) at: usize,
    pub(crate) end: usize,
}

const MARKS: [&str; 25] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!", "?", ":",
    "+", "*", "/", "%", "in",
];

pub(crate) fn tokens(chars: &[char], issues: &mut Vec<Issue>) -> Vec<Lexeme> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        let rest = chars.get(at..).unwrap_or_default();
        if let Some(length) = blank(rest) {
            at += length;
            continue;
        }
        if let Some((token, length)) = one(rest) {
            found.push(Lexeme { token, at, end: at + length });
            at += length;
        } else {
            let bad = bad(rest);
            let text: String = rest.iter().take(bad).collect();
            let text = text.replace('\n', "\\n").replace('\t', "\\t").replace('\r', "\\r");
            let message = format!("Syntax error: token recognition error at: '{text}'");
            issues.push(Issue { at: at as u32, message });
            at += bad;
        }
    }
    found.push(Lexeme { token: Token::End, at: chars.len(), end: chars.len() });
    found
}

fn blank(rest: &[char]) -> Option<usize> {
    let is_blank = |char: &char| matches!(char, '\t' | ' ' | '\r' | '\n' | '\u{c}');
    let length = rest.iter().take_while(|char| is_blank(char)).count();
    if length > 0 {
        return Some(length);
    }
    rest.starts_with(&['/', '/']).then(|| rest.iter().take_while(|char| **char != '\n').count())
}

fn one(rest: &[char]) -> Option<(Token, usize)> {
    let first = *rest.first()?;
    let (prefix, is_raw, is_bytes) = match (first, rest.get(1), rest.get(2)) {
        ('b' | 'B', Some('r' | 'R'), Some('"' | '\'')) => (2, true, true),
        ('b' | 'B', Some('"' | '\''), _) => (1, false, true),
        ('r' | 'R', Some('"' | '\''), _) => (1, true, false),
        _ => (0, false, false),
    };
    let quoted = rest.get(prefix..).unwrap_or_default();
    if matches!(quoted.first(), Some('"' | '\'')) {
        if let Some(length) = text(quoted, is_raw) {
            let token = if is_bytes { Token::Bytes } else { Token::Text };
            return Some((token, prefix + length));
        }
        if prefix == 0 {
            return None;
        }
    }
    if first.is_ascii_alphabetic() || first == '_' {
        let length = rest.iter().take_while(|char| char.is_ascii_alphanumeric() || **char == '_').count();
        let word: String = rest.iter().take(length).collect();
        let token = match word.as_str() {
            "in" => Token::Mark("in"),
            "true" => Token::True,
            "false" => Token::False,
            "null" => Token::Null,
            _ => Token::Ident,
        };
        return Some((token, length));
    }
    if first == '`' {
        let is_inside =
            |char: &&char| char.is_ascii_alphanumeric() || matches!(char, '_' | '.' | '-' | '/' | ' ');
        let length = rest.iter().skip(1).take_while(is_inside).count();
        return (length > 0 && rest.get(length + 1) == Some(&'`'))
            .then_some((Token::EscapedIdent, length + 2));
    }
    if let Some(number) = number(rest) {
        return Some(number);
    }
    let mark = MARKS.iter().find(|mark| {
        let mut chars = rest.iter();
        mark.chars().all(|char| chars.next() == Some(&char))
    })?;
    Some((Token::Mark(mark), mark.len()))
}

fn digits(rest: &[char]) -> usize {
    rest.iter().take_while(|char| char.is_ascii_digit()).count()
}

fn exponent(rest: &[char]) -> usize {
    if !matches!(rest.first(), Some('e' | 'E')) {
        return 0;
    }
    let sign = usize::from(matches!(rest.get(1), Some('+' | '-')));
    let count = digits(rest.get(1 + sign..).unwrap_or_default());
    if count == 0 { 0 } else { 1 + sign + count }
}

fn number(rest: &[char]) -> Option<(Token, usize)> {
    let after = |at: usize| rest.get(at..).unwrap_or_default();
    let is_uint = |at: usize| matches!(rest.get(at), Some('u' | 'U'));
    if rest.starts_with(&['0', 'x']) {
        let hex = after(2).iter().take_while(|char| char.is_ascii_hexdigit()).count();
        if hex > 0 {
            let end = 2 + hex;
            return Some(if is_uint(end) { (Token::Uint, end + 1) } else { (Token::Int, end) });
        }
    }
    let whole = digits(rest);
    if rest.get(whole) == Some(&'.') {
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

/// The length of a text with its quotes.
fn text(rest: &[char], is_raw: bool) -> Option<usize> {
    let quote = *rest.first()?;
    let is_triple =
        |at: usize| rest.get(at..at + 3).is_some_and(|three| three.iter().all(|char| *char == quote));
    if is_triple(0) {
        let mut at = 3;
        loop {
            if is_triple(at) {
                return Some(at + 3);
            }
            match rest.get(at) {
                None => break,
                Some('\\') if !is_raw => match escape(rest.get(at..).unwrap_or_default()) {
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
            '\n' | '\r' => return None,
            '\\' if !is_raw => at += escape(rest.get(at..).unwrap_or_default())?,
            char if *char == quote => return Some(at + 1),
            _ => at += 1,
        }
    }
}

fn escape(rest: &[char]) -> Option<usize> {
    let all = |count: usize, is_digit: fn(&char) -> bool| {
        rest.get(2..2 + count).filter(|digits| digits.iter().all(is_digit)).map(|_| 2 + count)
    };
    match rest.get(1)? {
        'a' | 'b' | 'f' | 'n' | 'r' | 't' | 'v' | '"' | '\'' | '\\' | '?' | '`' => Some(2),
        'x' | 'X' => all(2, char::is_ascii_hexdigit),
        'u' => all(4, char::is_ascii_hexdigit),
        'U' => all(8, char::is_ascii_hexdigit),
        '0'..='3' => all(2, |char| ('0'..='7').contains(char)),
        _ => None,
    }
}

/// How much the lexer gives up on: a text up to where it could not end.
fn bad(rest: &[char]) -> usize {
    match rest.first() {
        Some(quote @ ('"' | '\'')) => {
            let mut at = 1;
            while let Some(char) = rest.get(at) {
                if matches!(char, '\n' | '\r') {
                    return at + 1;
                }
                if *char == '\\' {
                    match escape(rest.get(at..).unwrap_or_default()) {
                        Some(length) => at += length,
                        None => return (at + 2).min(rest.len()),
                    }
                    continue;
                }
                at += 1;
                if char == quote {
                    break;
                }
            }
            at
        }
        Some('&' | '|' | '=') => rest.len().min(2),
        _ => 1,
    }
}

/// What a literal text says. The lexer has let through what can be read.
pub(crate) fn unescape(literal: &str, is_bytes: bool) -> Result<Vec<u8>, &'static str> {
    let normal = literal.replace("\r\n", "\n").replace('\r', "\n");
    let (body, is_raw) = match normal.strip_prefix(['r', 'R']) {
        Some(body) => (body, true),
        None => (normal.as_str(), false),
    };
    let cut = if body.len() >= 6 && (body.starts_with("'''") || body.starts_with("\"\"\"")) { 3 } else { 1 };
    let body = body.get(cut..body.len().saturating_sub(cut)).unwrap_or_default();
    if is_raw || !body.contains('\\') {
        return Ok(body.as_bytes().to_vec());
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
    Ok(out)
}
