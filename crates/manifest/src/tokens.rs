//! JSON tokenizer.

use std::borrow::Cow;

use crate::head::{skip_space, string_end};

/// A token, except commas and colons.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Token<'a> {
    BeginObject,
    EndObject,
    BeginArray,
    EndArray,
    Key(Cow<'a, str>),
    String(Cow<'a, str>),
    /// A number, `true`, `false` or `null`, verbatim.
    Other(&'a str),
}

/// Syntax error and its offset.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct JsonError {
    pub(crate) message: &'static str,
    pub(crate) at: usize,
}

/// Expected token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expect {
    Value,
    /// The first element of an array, or its end.
    ValueOrEnd,
    /// The first key of an object, or its end.
    KeyOrEnd,
    Key,
    CommaOrEnd,
    Nothing,
}

/// Reads one JSON value.
#[derive(Debug)]
pub(crate) struct Tokens<'a> {
    text: &'a [u8],
    at: usize,
    expect: Expect,
    /// The open brackets; true for an object.
    open: Vec<bool>,
}

type Result<T> = std::result::Result<T, JsonError>;

impl<'a> Tokens<'a> {
    pub(crate) fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0, expect: Expect::Value, open: Vec::new() }
    }

    /// The next token; `None` after the value.
    pub(crate) fn next(&mut self) -> Result<Option<Token<'a>>> {
        loop {
            self.at = skip_space(self.text, self.at);
            let byte = match self.text.get(self.at) {
                Some(&byte) => byte,
                None if self.expect == Expect::Nothing => return Ok(None),
                None => return self.error("unexpected end of input"),
            };
            match (self.expect, byte) {
                (Expect::Nothing, _) => return self.error("expected nothing after the value"),
                (Expect::CommaOrEnd, b',') => {
                    self.at += 1;
                    let in_object = self.open.last() == Some(&true);
                    self.expect = if in_object { Expect::Key } else { Expect::Value };
                }
                (Expect::CommaOrEnd | Expect::KeyOrEnd, b'}') if self.open.last() == Some(&true) => {
                    return Ok(Some(self.close(Token::EndObject)));
                }
                (Expect::CommaOrEnd | Expect::ValueOrEnd, b']') if self.open.last() == Some(&false) => {
                    return Ok(Some(self.close(Token::EndArray)));
                }
                (Expect::CommaOrEnd, _) => {
                    return self.error("expected ',' or the end of the array or object");
                }
                (Expect::Key | Expect::KeyOrEnd, b'"') => {
                    let key = self.string()?;
                    self.at = skip_space(self.text, self.at);
                    if self.text.get(self.at) != Some(&b':') {
                        return self.error("expected ':'");
                    }
                    self.at += 1;
                    self.expect = Expect::Value;
                    return Ok(Some(Token::Key(key)));
                }
                (Expect::Key | Expect::KeyOrEnd, _) => return self.error("expected a key in double quotes"),
                (Expect::Value | Expect::ValueOrEnd, _) => return self.value(byte).map(Some),
            }
        }
    }

    fn error<T>(&self, message: &'static str) -> Result<T> {
        Err(JsonError { message, at: self.at })
    }

    fn close(&mut self, token: Token<'a>) -> Token<'a> {
        self.at += 1;
        self.open.pop();
        self.after_value();
        token
    }

    fn after_value(&mut self) {
        self.expect = if self.open.is_empty() { Expect::Nothing } else { Expect::CommaOrEnd };
    }

    fn value(&mut self, byte: u8) -> Result<Token<'a>> {
        match byte {
            b'{' => {
                self.at += 1;
                self.open.push(true);
                self.expect = Expect::KeyOrEnd;
                Ok(Token::BeginObject)
            }
            b'[' => {
                self.at += 1;
                self.open.push(false);
                self.expect = Expect::ValueOrEnd;
                Ok(Token::BeginArray)
            }
            b'"' => {
                let text = self.string()?;
                self.after_value();
                Ok(Token::String(text))
            }
            _ => {
                let rest = &self.text[self.at..];
                let length = rest
                    .iter()
                    .position(|b| !(b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.')))
                    .unwrap_or(rest.len());
                let word = &rest[..length];
                if !matches!(word, b"true" | b"false" | b"null") && !is_number(word) {
                    return self.error("expected a value");
                }
                self.at += length;
                self.after_value();
                // The token is ASCII.
                Ok(Token::Other(str::from_utf8(word).unwrap_or_default()))
            }
        }
    }

    fn string(&mut self) -> Result<Cow<'a, str>> {
        let Some(end) = string_end(self.text, self.at).filter(|&end| end <= self.text.len()) else {
            self.at = self.text.len();
            return self.error("unexpected end of input");
        };
        let start = self.at + 1;
        let raw = &self.text[start..end - 1];
        if let Some(offset) = raw.iter().position(|&byte| byte < b' ') {
            self.at = start + offset;
            return self.error("control characters have to be escaped");
        }
        let text = str::from_utf8(raw)
            .map_err(|error| JsonError { message: "invalid UTF-8", at: start + error.valid_up_to() })?;
        self.at = end;
        if raw.contains(&b'\\') { unescape(text, start).map(Cow::Owned) } else { Ok(Cow::Borrowed(text)) }
    }
}

/// A number by JSON's grammar.
fn is_number(word: &[u8]) -> bool {
    fn digits(text: &[u8]) -> (usize, &[u8]) {
        let count = text.iter().take_while(|b| b.is_ascii_digit()).count();
        (count, &text[count..])
    }
    let unsigned = word.strip_prefix(b"-").unwrap_or(word);
    let (count, mut rest) = digits(unsigned);
    if count == 0 || (count > 1 && unsigned[0] == b'0') {
        return false;
    }
    if let [b'.', fraction @ ..] = rest {
        let (count, after) = digits(fraction);
        if count == 0 {
            return false;
        }
        rest = after;
    }
    if let [b'e' | b'E', exponent @ ..] = rest {
        let exponent = match exponent {
            [b'+' | b'-', unsigned @ ..] => unsigned,
            unsigned => unsigned,
        };
        let (count, after) = digits(exponent);
        return count > 0 && after.is_empty();
    }
    rest.is_empty()
}

/// `start` is the offset of this string in the whole text.
fn unescape(text: &str, start: usize) -> Result<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let offset = start + text.len() - rest.len() + at;
        let escape = rest.as_bytes().get(at + 1).copied().unwrap_or(0);
        let char = match escape {
            b'"' | b'\\' | b'/' => char::from(escape),
            b'b' => '\u{8}',
            b'f' => '\u{C}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let Some(mut code) = hex(rest, at + 2) else {
                    return Err(JsonError { message: "expected four hexadecimal digits", at: offset });
                };
                rest = &rest[at + 6..];
                if (0xD800..0xDC00).contains(&code)
                    && rest.starts_with("\\u")
                    && let Some(low @ 0xDC00..0xE000) = hex(rest, 2)
                {
                    code = 0x1_0000 + ((code - 0xD800) << 10) + (low - 0xDC00);
                    rest = &rest[6..];
                }
                // A lone surrogate; Go replaces it, too.
                out.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                continue;
            }
            _ => return Err(JsonError { message: "unknown escape", at: offset }),
        };
        out.push(char);
        rest = &rest[at + 2..];
    }
    out.push_str(rest);
    Ok(out)
}

fn hex(text: &str, at: usize) -> Option<u32> {
    let digits = text.get(at..at + 4).filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()))?;
    u32::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::{Token, Tokens};

    fn read(text: &str) -> Result<String, String> {
        let mut tokens = Tokens::new(text.as_bytes());
        let mut seen = String::new();
        loop {
            match tokens.next() {
                Ok(None) => return Ok(seen),
                Ok(Some(token)) => seen.push_str(&match token {
                    Token::BeginObject => "{".to_owned(),
                    Token::EndObject => "}".to_owned(),
                    Token::BeginArray => "[".to_owned(),
                    Token::EndArray => "]".to_owned(),
                    Token::Key(key) => format!("{key:?}:"),
                    Token::String(text) => format!("{text:?} "),
                    Token::Other(word) => format!("{word} "),
                }),
                Err(error) => return Err(format!("{}: {}", error.at, error.message)),
            }
        }
    }

    #[test]
    fn reads_what_is_json() {
        let check = |text: &str, expected: &str| assert_eq!(read(text), Ok(expected.to_owned()), "{text}");
        check("{}", "{}");
        check(" [ 1 , -2.5e+3 , true , null ] ", "[1 -2.5e+3 true null ]");
        check(r#"{"a": {"b": []}, "c": "d"}"#, r#"{"a":{"b":[]}"c":"d" }"#);
        check(r#""\"\\\/\b\f\n\r\t\u00e9""#, r#""\"\\/\u{8}\u{c}\n\r\té" "#);
        check(r#""\ud83d\ude00 \ud83d \ude00""#, "\"😀 \u{FFFD} \u{FFFD}\" ");
    }

    #[test]
    fn says_what_is_wrong_and_where() {
        let check = |text: &str, expected: &str| assert_eq!(read(text), Err(expected.to_owned()), "{text}");
        check("", "0: unexpected end of input");
        check("{", "1: unexpected end of input");
        check("[1,]", "3: expected a value");
        check("[1}", "2: expected ',' or the end of the array or object");
        check("{\"a\":1,}", "7: expected a key in double quotes");
        check("{a:1}", "1: expected a key in double quotes");
        check("{\"a\" 1}", "5: expected ':'");
        check("01", "0: expected a value");
        check("1 2", "2: expected nothing after the value");
        check("\"a", "2: unexpected end of input");
        check("\"a\\", "3: unexpected end of input");
        check("\"a\\x\"", "2: unknown escape");
        check("\"\\u12g4\"", "1: expected four hexadecimal digits");
        check("\"a\nb\"", "2: control characters have to be escaped");
        check("nul", "0: expected a value");
    }
}
