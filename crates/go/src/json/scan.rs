//! Scanner: the parts of a JSON text, and Go's errors where it is invalid.

use std::fmt;

use crate::strconv::push_escaped;

/// `maxNestingDepth` of `encoding/json`.
const MAX_DEPTH: usize = 10_000;

/// Error for invalid JSON, with Go's message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError(String);

impl SyntaxError {
    fn ended() -> Self {
        Self("unexpected end of JSON input".to_owned())
    }

    fn invalid(byte: u8, context: &str) -> Self {
        let mut shown = String::new();
        match byte {
            b'\'' => shown.push_str("\\'"),
            b'"' => shown.push('"'),
            _ => push_escaped(char::from(byte), &mut shown),
        }
        Self(format!("invalid character '{shown}' {context}"))
    }
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SyntaxError {}

type Result<T> = std::result::Result<T, SyntaxError>;

/// Position in a JSON text. The caller builds the values: [`peek`](Self::peek) shows with which byte the next one begins.
///
/// ```
/// use settled_go::json::{Scanner, unquote};
///
/// let mut scanner = Scanner::new(br#"{"a": 1, "b": "c"}"#);
/// assert_eq!(scanner.peek()?, b'{');
/// scanner.enter();
/// let mut members = Vec::new();
/// while let Some(key) = scanner.next_key(members.is_empty())? {
///     members.push((unquote(key), scanner.scalar()?));
/// }
/// scanner.finish()?;
/// assert_eq!(members, [("a".to_owned(), &b"1"[..]), ("b".to_owned(), &b"\"c\""[..])]);
/// # Ok::<(), settled_go::json::SyntaxError>(())
/// ```
#[derive(Debug)]
pub struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Scanner<'a> {
    /// Starts at the beginning of a text.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    fn skip_space(&mut self) {
        while matches!(self.bytes.get(self.at), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    /// The next byte that is not whitespace.
    ///
    /// # Errors
    /// The text has ended.
    pub fn peek(&mut self) -> Result<u8> {
        self.skip_space();
        self.bytes.get(self.at).copied().ok_or_else(SyntaxError::ended)
    }

    /// Steps over the bracket that [`peek`](Self::peek) has shown.
    pub fn enter(&mut self) {
        self.at += 1;
    }

    /// The quoted key of the next member, up to its value; none after the last one.
    ///
    /// # Errors
    /// Anything else follows.
    pub fn next_key(&mut self, is_first: bool) -> Result<Option<&'a [u8]>> {
        let mut byte = self.peek()?;
        match byte {
            b'}' => {
                self.at += 1;
                return Ok(None);
            }
            _ if is_first => {}
            b',' => {
                self.at += 1;
                byte = self.peek()?;
            }
            byte => return Err(SyntaxError::invalid(byte, "after object key:value pair")),
        }
        if byte != b'"' {
            return Err(SyntaxError::invalid(byte, "looking for beginning of object key string"));
        }
        let key = self.scalar()?;
        match self.peek()? {
            b':' => self.at += 1,
            byte => return Err(SyntaxError::invalid(byte, "after object key")),
        }
        Ok(Some(key))
    }

    /// Whether an array has another element.
    ///
    /// # Errors
    /// Neither an element nor the end follows.
    pub fn next_element(&mut self, is_first: bool) -> Result<bool> {
        match self.peek()? {
            b']' => {
                self.at += 1;
                Ok(false)
            }
            _ if is_first => Ok(true),
            b',' => {
                self.at += 1;
                Ok(true)
            }
            byte => Err(SyntaxError::invalid(byte, "after array element")),
        }
    }

    /// The text of a string, number, boolean or null.
    ///
    /// # Errors
    /// It is invalid, or something else follows.
    pub fn scalar(&mut self) -> Result<&'a [u8]> {
        let byte = self.peek()?;
        let start = self.at;
        match byte {
            b'"' => self.string()?,
            b't' => self.literal("true")?,
            b'f' => self.literal("false")?,
            b'n' => self.literal("null")?,
            b'-' | b'0'..=b'9' => self.number()?,
            _ => return Err(SyntaxError::invalid(byte, "looking for beginning of value")),
        }
        Ok(self.bytes.get(start..self.at).unwrap_or_default())
    }

    /// Checks that nothing but whitespace follows the value.
    ///
    /// # Errors
    /// Something follows.
    pub fn finish(&mut self) -> Result<()> {
        self.skip_space();
        let next = self.bytes.get(self.at);
        next.map_or(Ok(()), |&byte| Err(SyntaxError::invalid(byte, "after top-level value")))
    }

    fn string(&mut self) -> Result<()> {
        self.at += 1;
        loop {
            let byte = *self.bytes.get(self.at).ok_or_else(SyntaxError::ended)?;
            self.at += 1;
            match byte {
                b'"' => return Ok(()),
                b'\\' => match self.byte_or_space() {
                    b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => {}
                    b'u' => {
                        for _ in 0..4 {
                            let byte = self.byte_or_space();
                            if !byte.is_ascii_hexdigit() {
                                return Err(SyntaxError::invalid(
                                    byte,
                                    "in \\u hexadecimal character escape",
                                ));
                            }
                        }
                    }
                    byte => return Err(SyntaxError::invalid(byte, "in string escape code")),
                },
                0..=0x1f => return Err(SyntaxError::invalid(byte, "in string literal")),
                _ => {}
            }
        }
    }

    /// The next byte; at the end a space, which Go appends to detect incomplete input.
    fn byte_or_space(&mut self) -> u8 {
        let byte = self.bytes.get(self.at).copied().unwrap_or(b' ');
        self.at += 1;
        byte
    }

    fn literal(&mut self, word: &str) -> Result<()> {
        self.at += 1;
        for wanted in word.bytes().skip(1) {
            let byte = self.byte_or_space();
            if byte != wanted {
                let context = format!("in literal {word} (expecting '{}')", char::from(wanted));
                return Err(SyntaxError::invalid(byte, &context));
            }
        }
        Ok(())
    }

    fn number(&mut self) -> Result<()> {
        if self.bytes.get(self.at) == Some(&b'-') {
            self.at += 1;
        }
        match self.byte_or_space() {
            b'0' => {}
            b'1'..=b'9' => self.digits(),
            byte => return Err(SyntaxError::invalid(byte, "in numeric literal")),
        }
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.some_digits("after decimal point in numeric literal")?;
        }
        if let Some(b'e' | b'E') = self.bytes.get(self.at) {
            self.at += 1;
            if let Some(b'+' | b'-') = self.bytes.get(self.at) {
                self.at += 1;
            }
            self.some_digits("in exponent of numeric literal")?;
        }
        Ok(())
    }

    fn some_digits(&mut self, context: &str) -> Result<()> {
        let byte = self.byte_or_space();
        if !byte.is_ascii_digit() {
            return Err(SyntaxError::invalid(byte, context));
        }
        self.digits();
        Ok(())
    }

    fn digits(&mut self) {
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
    }
}

/// The error of `json.Unmarshal` for invalid JSON, if any.
///
/// ```
/// use settled_go::json::syntax_error;
///
/// assert_eq!(syntax_error(b"{}"), None);
/// assert_eq!(syntax_error(b"{").unwrap().to_string(), "unexpected end of JSON input");
/// ```
pub fn syntax_error(text: &[u8]) -> Option<SyntaxError> {
    check(&mut Scanner::new(text)).err()
}

fn check(scanner: &mut Scanner<'_>) -> Result<()> {
    // The closing brackets that are due.
    let mut open = Vec::new();
    loop {
        let byte = scanner.peek()?;
        let mut is_first = matches!(byte, b'{' | b'[');
        if is_first {
            if open.len() >= MAX_DEPTH {
                return Err(SyntaxError::invalid(byte, "exceeded max depth"));
            }
            scanner.enter();
            open.push(byte);
        } else {
            scanner.scalar()?;
        }
        // A value is complete, or one has begun: up to the next value.
        loop {
            let has_more = match open.last() {
                None => return scanner.finish(),
                Some(b'{') => scanner.next_key(is_first)?.is_some(),
                Some(_) => scanner.next_element(is_first)?,
            };
            if has_more {
                break;
            }
            open.pop();
            is_first = false;
        }
    }
}

/// The value of a quoted string that a [`Scanner`] has accepted. Invalid UTF-8 and lone surrogates become U+FFFD, byte by byte.
pub fn unquote(text: &[u8]) -> String {
    let mut rest = text.get(1..text.len().saturating_sub(1)).unwrap_or_default();
    let mut out = String::with_capacity(rest.len());
    while let Some(place) = rest.iter().position(|byte| *byte == b'\\') {
        push_lossy(rest.get(..place).unwrap_or_default(), &mut out);
        rest = rest.get(place + 1..).unwrap_or_default();
        let escape = rest.first().copied().unwrap_or(b' ');
        rest = rest.get(1..).unwrap_or_default();
        out.push(match escape {
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let unit = unit(rest);
                rest = rest.get(4..).unwrap_or_default();
                let low = rest.strip_prefix(b"\\u").map(self::unit);
                match (unit, low) {
                    (0xd800..=0xdbff, Some(low @ 0xdc00..=0xdfff)) => {
                        rest = rest.get(6..).unwrap_or_default();
                        char::from_u32(0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00))
                    }
                    _ => char::from_u32(unit),
                }
                .unwrap_or(char::REPLACEMENT_CHARACTER)
            }
            other => char::from(other),
        });
    }
    push_lossy(rest, &mut out);
    out
}

/// The UTF-16 code unit of four hexadecimal digits.
fn unit(text: &[u8]) -> u32 {
    let digits = text.get(..4).and_then(|digits| std::str::from_utf8(digits).ok());
    digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()).unwrap_or(0xfffd)
}

fn push_lossy(bytes: &[u8], out: &mut String) {
    for chunk in bytes.utf8_chunks() {
        out.push_str(chunk.valid());
        // Go replaces byte by byte.
        out.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_those_of_go() {
        let deep = |depth: usize| ["[".repeat(depth), "]".repeat(depth)].concat();
        for (text, expected) in [
            ("", "unexpected end of JSON input"),
            (" [1, {\"a\": null}] ", ""),
            ("[1,]", "invalid character ']' looking for beginning of value"),
            ("[1 2]", "invalid character '2' after array element"),
            ("{\"a\" 1}", "invalid character '1' after object key"),
            ("{\"a\":1 2}", "invalid character '2' after object key:value pair"),
            ("{\"a\":1,}", "invalid character '}' looking for beginning of object key string"),
            ("{1}", "invalid character '1' looking for beginning of object key string"),
            ("1 2", "invalid character '2' after top-level value"),
            ("nul", "invalid character ' ' in literal null (expecting 'l')"),
            ("01", "invalid character '1' after top-level value"),
            ("1.", "invalid character ' ' after decimal point in numeric literal"),
            ("\"\\x\"", "invalid character 'x' in string escape code"),
            ("\"\\u12g4\"", "invalid character 'g' in \\u hexadecimal character escape"),
            ("\"\n\"", "invalid character '\\n' in string literal"),
            ("'", "invalid character '\\'' looking for beginning of value"),
            (&deep(MAX_DEPTH), ""),
            (&deep(MAX_DEPTH + 1), "invalid character '[' exceeded max depth"),
        ] {
            let found = syntax_error(text.as_bytes()).map(|error| error.to_string()).unwrap_or_default();
            assert_eq!(found, expected, "{}", text.get(..20).unwrap_or(text));
        }
    }

    #[test]
    fn strings_are_decoded_as_go_does() {
        for (text, expected) in [
            (&br#""a\"\\\/\b\f\n\r\tb""#[..], "a\"\\/\u{8}\u{c}\n\r\tb"),
            (br#""\u00e9 \ud83d\ude00""#, "é 😀"),
            (br#""\ud83d x \ude00\u0041""#, "\u{fffd} x \u{fffd}A"),
            (b"\"\xff\xfe\"", "\u{fffd}\u{fffd}"),
            (b"\"", ""),
            (b"", ""),
        ] {
            assert_eq!(unquote(text), expected);
        }
    }
}
