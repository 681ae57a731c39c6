//! JSON nodes within an object, in its bytes or in a parsed `serde_json::Value`.

use std::borrow::Cow;
use std::fmt;

use serde_json::Value;
use wide::u8x16;

use crate::walk::{Literal, Walk};

/// A JSON value of an object, where it lies. Copying it copies a reference.
///
/// Types are told apart as Go's decoder for Kubernetes objects does it: a number without fraction and exponent that
/// fits 64 bits is an integer, any other a float.
///
/// ```
/// use kstatus::Object;
/// let object = Object::parse(br#"{"kind":"Widget","status":{"phase":"Up","ready":3}}"#)?;
/// let status = object.root().get("status").unwrap();
/// assert!(status.get("phase").unwrap().is("Up"));
/// assert_eq!(status.get("ready").unwrap().as_int(), Some(3));
/// # Ok::<(), kstatus::ParseError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Node<'a> {
    /// The checked bytes of exactly one value, as [`Object`](crate::Object) hands them out. What other bytes give is
    /// not defined, but safe.
    Text(&'a [u8]),
    /// A parsed value.
    Value(&'a Value),
}

/// The type of a JSON value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `null`
    Null,
    /// `true` or `false`
    Bool,
    /// A number that is a 64 bit integer.
    Int,
    /// Any other number.
    Float,
    /// A string.
    String,
    /// An array.
    List,
    /// An object.
    Map,
}

impl Kind {
    /// The word used in messages of this library.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool => "a boolean",
            Self::Int => "an integer",
            Self::Float => "a decimal number",
            Self::String => "a string",
            Self::List => "a list",
            Self::Map => "a map",
        }
    }
}

impl<'a> Node<'a> {
    /// The type of this value.
    #[must_use]
    pub fn kind(self) -> Kind {
        match self {
            Self::Text(text) => match text.first() {
                Some(b'"') => Kind::String,
                Some(b'{') => Kind::Map,
                Some(b'[') => Kind::List,
                Some(b't' | b'f') => Kind::Bool,
                Some(b'-' | b'0'..=b'9') => {
                    if parse_int(text).is_some() {
                        Kind::Int
                    } else {
                        Kind::Float
                    }
                }
                _ => Kind::Null,
            },
            Self::Value(value) => match value {
                Value::Null => Kind::Null,
                Value::Bool(_) => Kind::Bool,
                Value::Number(number) if number.is_i64() => Kind::Int,
                Value::Number(_) => Kind::Float,
                Value::String(_) => Kind::String,
                Value::Array(_) => Kind::List,
                Value::Object(_) => Kind::Map,
            },
        }
    }

    /// Whether this is `null`.
    #[must_use]
    pub fn is_null(self) -> bool {
        match self {
            // The type of a number takes longer to tell.
            Self::Text(text) => {
                !matches!(text.first(), Some(b'"' | b'{' | b'[' | b't' | b'f' | b'-' | b'0'..=b'9'))
            }
            Self::Value(value) => value.is_null(),
        }
    }

    /// This value where it is an integer.
    #[must_use]
    pub fn as_int(self) -> Option<i64> {
        match self {
            Self::Text(text) => parse_int(text),
            Self::Value(value) => value.as_i64(),
        }
    }

    /// This value where it is a number.
    #[must_use]
    pub fn as_float(self) -> Option<f64> {
        match self {
            Self::Text(text) => match self.kind() {
                Kind::Int | Kind::Float => std::str::from_utf8(text).ok()?.parse().ok(),
                _ => None,
            },
            Self::Value(value) => value.as_f64(),
        }
    }

    /// This value where it is a boolean.
    #[must_use]
    pub fn as_bool(self) -> Option<bool> {
        match self {
            Self::Text(text) => match text.first() {
                Some(b't') => Some(true),
                Some(b'f') => Some(false),
                _ => None,
            },
            Self::Value(value) => value.as_bool(),
        }
    }

    /// Whether this is a string.
    #[inline]
    #[must_use]
    pub fn is_string(self) -> bool {
        match self {
            Self::Text(text) => text.first() == Some(&b'"'),
            Self::Value(value) => value.is_string(),
        }
    }

    /// Whether this is a string that is not empty.
    #[inline]
    pub(crate) fn is_filled(self) -> bool {
        match self {
            Self::Text(text) => text.len() > 2 && text.first() == Some(&b'"'),
            Self::Value(value) => value.as_str().is_some_and(|text| !text.is_empty()),
        }
    }

    /// Whether this is a map.
    #[inline]
    pub(crate) fn is_map(self) -> bool {
        match self {
            Self::Text(text) => text.first() == Some(&b'{'),
            Self::Value(value) => value.is_object(),
        }
    }

    /// Whether this is a list.
    #[inline]
    pub(crate) fn is_list(self) -> bool {
        match self {
            Self::Text(text) => text.first() == Some(&b'['),
            Self::Value(value) => value.is_array(),
        }
    }

    /// The bytes of a string that holds no escape.
    #[inline]
    #[must_use]
    pub fn plain(self) -> Option<&'a [u8]> {
        match self {
            Self::Text(text) => inner(text).filter(|inner| !is_escaped(inner)),
            Self::Value(value) => value.as_str().map(str::as_bytes),
        }
    }

    /// This value where it is a string; borrowed unless it holds an escape.
    #[must_use]
    pub fn as_str(self) -> Option<Cow<'a, str>> {
        match self {
            Self::Text(text) => inner(text).map(unescape),
            Self::Value(value) => value.as_str().map(Cow::Borrowed),
        }
    }

    /// What is found out of the bytes of a string, without copying it: of one that holds an escape, of the first ones. Of none
    /// where this is no string.
    pub(crate) fn with_head<R>(self, read: impl FnOnce(Option<&[u8]>) -> R) -> R {
        let text = match self {
            Self::Text(text) => inner(text),
            Self::Value(value) => return read(value.as_str().map(str::as_bytes)),
        };
        match text {
            Some(inner) if is_escaped(inner) => {
                let mut head = Head { bytes: [0; 128], length: 0 };
                // It fails when the head is full.
                let _ = write_unescaped(inner, &mut head);
                read(head.bytes.get(..head.length))
            }
            text => read(text),
        }
    }

    /// Whether this is a string that holds `words`, without copying it. Words that are written with escapes are not found.
    pub(crate) fn contains(self, words: &str) -> bool {
        match self {
            Self::Text(text) => inner(text).is_some_and(|inner| plain_text(inner).contains(words)),
            Self::Value(value) => value.as_str().is_some_and(|text| text.contains(words)),
        }
    }

    /// Whether this is the string `word`, without copying it.
    #[must_use]
    pub fn is(self, word: &str) -> bool {
        match self {
            Self::Text(text) => match inner(text) {
                // A backslash in the text stands for something else.
                Some(inner) if inner.len() == word.len() => {
                    same(inner, word.as_bytes()) && !is_escaped(word.as_bytes())
                }
                // An escaped string is longer than what it stands for.
                Some(inner) if inner.len() > word.len() => stands_for_shorter(inner, word),
                _ => false,
            },
            Self::Value(value) => value.as_str() == Some(word),
        }
    }

    /// The member `key` of a map; of several with the same key the last, as in Go.
    #[must_use]
    pub fn get(self, key: &str) -> Option<Self> {
        match self {
            Self::Text(text) if text.first() == Some(&b'{') => {
                let (mut walk, mut found) = (Walk::new(text), None);
                while let Some((name, value)) = walk.member() {
                    if name.is(key) {
                        found = Some(Node::Text(value));
                    }
                }
                found
            }
            Self::Text(_) => None,
            Self::Value(value) => value.get(key).map(Node::Value),
        }
    }

    /// The elements of a list; none for anything else.
    #[must_use]
    pub fn elements(self) -> Elements<'a> {
        match self {
            Self::Text(text) if text.first() == Some(&b'[') => Elements(ElementsOf::Text(Walk::new(text))),
            Self::Value(Value::Array(list)) => Elements(ElementsOf::Value(list.iter())),
            _ => Elements(ElementsOf::Value([].iter())),
        }
    }

    /// The members of a map, in their order in the bytes; none for anything else. A key that stands twice comes twice.
    #[must_use]
    pub fn members(self) -> Members<'a> {
        Members(self.entries())
    }

    /// As [`members`](Self::members), with keys that are only compared: cheaper than their text.
    ///
    /// ```
    /// use kstatus::Object;
    /// let object = Object::parse(br#"{"status":{"a":1,"b":2}}"#)?;
    /// let status = object.root().get("status").unwrap();
    /// assert!(status.entries().any(|(key, value)| key.is("b") && value.as_int() == Some(2)));
    /// # Ok::<(), kstatus::ParseError>(())
    /// ```
    #[must_use]
    pub fn entries(self) -> Entries<'a> {
        Entries(match self {
            Self::Text(text) if text.first() == Some(&b'{') => EntriesOf::Text(Walk::new(text)),
            Self::Value(Value::Object(map)) => EntriesOf::Value(Some(map.iter())),
            _ => EntriesOf::Value(None),
        })
    }
}

/// A string written out without a copy of it; nothing for anything else.
#[derive(Clone, Copy)]
pub(crate) struct Shown<'a>(pub(crate) Node<'a>);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Node::Text(text) => inner(text).map_or(Ok(()), |inner| write_unescaped(inner, f)),
            Node::Value(value) => f.write_str(value.as_str().unwrap_or_default()),
        }
    }
}

/// The elements of a list.
#[derive(Debug)]
pub struct Elements<'a>(ElementsOf<'a>);

#[derive(Debug)]
enum ElementsOf<'a> {
    Text(Walk<'a>),
    Value(std::slice::Iter<'a, Value>),
}

impl<'a> Iterator for Elements<'a> {
    type Item = Node<'a>;

    fn next(&mut self) -> Option<Node<'a>> {
        match &mut self.0 {
            ElementsOf::Text(walk) => walk.element().map(Node::Text),
            ElementsOf::Value(list) => list.next().map(Node::Value),
        }
    }
}

/// The members of a map.
#[derive(Debug)]
pub struct Members<'a>(Entries<'a>);

impl<'a> Iterator for Members<'a> {
    type Item = (Cow<'a, str>, Node<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|(key, value)| (key.text(), value))
    }
}

/// The members of a map, with keys as they are written.
#[derive(Debug)]
pub struct Entries<'a>(EntriesOf<'a>);

#[derive(Debug)]
enum EntriesOf<'a> {
    Text(Walk<'a>),
    Value(Option<serde_json::map::Iter<'a>>),
}

impl<'a> Iterator for Entries<'a> {
    type Item = (Key<'a>, Node<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            EntriesOf::Text(walk) => {
                let (key, value) = walk.member()?;
                Some((Key(KeyOf::Literal(key)), Node::Text(value)))
            }
            EntriesOf::Value(map) => {
                let (key, value) = map.as_mut()?.next()?;
                Some((Key(KeyOf::Text(key)), Node::Value(value)))
            }
        }
    }
}

/// The key of a member.
#[derive(Clone, Copy, Debug)]
pub struct Key<'a>(KeyOf<'a>);

#[derive(Clone, Copy, Debug)]
enum KeyOf<'a> {
    Literal(Literal<'a>),
    Text(&'a str),
}

impl<'a> Key<'a> {
    pub(crate) fn of_text(text: &'a str) -> Self {
        Self(KeyOf::Text(text))
    }

    /// The key with this inside of a literal, without escapes.
    pub(crate) fn of_plain(inner: &'a [u8]) -> Self {
        Self(KeyOf::Literal(Literal { inner, is_escaped: false }))
    }

    /// The first byte of its text, as it is written.
    #[inline]
    pub(crate) fn first_byte(self) -> Option<u8> {
        match self.0 {
            KeyOf::Literal(literal) => literal.inner.first().copied(),
            KeyOf::Text(text) => text.bytes().next(),
        }
    }

    /// The bytes of its text.
    pub(crate) fn bytes(self) -> Cow<'a, [u8]> {
        match self.0 {
            KeyOf::Literal(Literal { inner, is_escaped: true }) => {
                Cow::Owned(unescape_slowly(inner).into_owned().into_bytes())
            }
            KeyOf::Literal(literal) => Cow::Borrowed(literal.inner),
            KeyOf::Text(text) => Cow::Borrowed(text.as_bytes()),
        }
    }

    /// Whether it is this word.
    #[inline]
    #[must_use]
    pub fn is(self, word: &str) -> bool {
        match self.0 {
            KeyOf::Literal(literal) => literal.is(word),
            KeyOf::Text(text) => text == word,
        }
    }

    /// The length of its text, if that is known without reading it.
    #[inline]
    #[must_use]
    pub fn plain_length(self) -> Option<usize> {
        match self.0 {
            KeyOf::Literal(literal) => Some(literal.inner.len()).filter(|_| !literal.is_escaped),
            KeyOf::Text(text) => Some(text.len()),
        }
    }

    /// The text that it stands for.
    #[must_use]
    pub fn text(self) -> Cow<'a, str> {
        match self.0 {
            KeyOf::Literal(Literal { inner, is_escaped: true }) => unescape_slowly(inner),
            KeyOf::Literal(literal) => plain_text(literal.inner),
            KeyOf::Text(text) => Cow::Borrowed(text),
        }
    }
}

impl Literal<'_> {
    /// Whether it stands for `word`.
    #[inline]
    pub(crate) fn is(self, word: &str) -> bool {
        if self.is_escaped { stands_for(self.inner, word) } else { same(self.inner, word.as_bytes()) }
    }
}

fn inner(text: &[u8]) -> Option<&[u8]> {
    text.strip_prefix(b"\"")?.strip_suffix(b"\"")
}

/// Whether two short texts are the same. A call of `memcmp` costs more than comparing sixteen bytes in two steps, and a loop over
/// bytes more than two words that may overlap.
#[inline]
pub(crate) fn same(a: &[u8], b: &[u8]) -> bool {
    /// Whether the first and the last bytes are the same.
    #[inline]
    fn ends<const N: usize>(a: &[u8], b: &[u8]) -> bool {
        a.first_chunk::<N>() == b.first_chunk::<N>() && a.last_chunk::<N>() == b.last_chunk::<N>()
    }
    let length = a.len();
    if length != b.len() {
        false
    } else if length >= 8 {
        if length <= 16 { ends::<8>(a, b) } else { a == b }
    } else if length >= 4 {
        ends::<4>(a, b)
    } else {
        a.iter().zip(b).all(|(a, b)| a == b)
    }
}

/// Whether the inside of a literal stands for a shorter `word`. Up to its first escape it is text, and most literals are of other texts.
#[inline]
fn stands_for_shorter(inner: &[u8], word: &str) -> bool {
    for (byte, wanted) in inner.iter().zip(word.as_bytes()) {
        if *byte == b'\\' {
            return stands_for(inner, word);
        }
        if byte != wanted {
            return false;
        }
    }
    // What is left stands for at least one character.
    false
}

/// Whether the inside of an escaped literal stands for `word`.
#[cold]
fn stands_for(inner: &[u8], word: &str) -> bool {
    let mut rest = Rest(word);
    write_unescaped(inner, &mut rest).is_ok() && rest.0.is_empty()
}

/// The first bytes of a text, whole characters.
struct Head {
    bytes: [u8; 128],
    length: usize,
}

impl fmt::Write for Head {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let free = self.bytes.get_mut(self.length..).unwrap_or_default();
        let part = (0..=free.len().min(text.len())).rev().find_map(|end| text.get(..end)).unwrap_or_default();
        if let Some(slot) = free.get_mut(..part.len()) {
            slot.copy_from_slice(part.as_bytes());
            self.length += part.len();
        }
        if part.len() == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

/// Remaining text of a comparison; writing anything but its beginning fails.
struct Rest<'w>(&'w str);

impl fmt::Write for Rest<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 = self.0.strip_prefix(text).ok_or(fmt::Error)?;
        Ok(())
    }
}

/// The check is much cheaper than the repair, which is rarely needed.
pub(crate) fn plain_text(inner: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(inner) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => String::from_utf8_lossy(inner),
    }
}

/// Whether the inside of a checked literal holds an escape. Most strings are short: two words that may overlap cover
/// them without a loop.
#[inline]
fn is_escaped(inner: &[u8]) -> bool {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let has_backslash = |chunk: &[u8; 8]| {
        let text = u64::from_le_bytes(*chunk) ^ (ONES * u64::from(b'\\'));
        text.wrapping_sub(ONES) & !text & (ONES << 7) != 0
    };
    match (inner.first_chunk::<8>(), inner.last_chunk::<8>()) {
        (Some(first), Some(last)) if inner.len() <= 16 => has_backslash(first) | has_backslash(last),
        (Some(_), _) => {
            let has_backslash =
                |chunk: &[u8; 16]| u8x16::new(*chunk).simd_eq(u8x16::splat(b'\\')).to_bitmask() != 0;
            inner.as_chunks::<16>().0.iter().any(has_backslash)
                || inner.last_chunk::<16>().is_some_and(has_backslash)
        }
        _ => match (inner.first_chunk::<4>(), inner.last_chunk::<4>()) {
            (Some(first), Some(last)) => {
                let [first, last] = [first, last].map(|chunk| u64::from(u32::from_le_bytes(*chunk)));
                has_backslash(&(first | last << 32).to_le_bytes())
            }
            _ => inner.iter().fold(false, |found, byte| found | (*byte == b'\\')),
        },
    }
}

fn parse_int(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix(b"-") {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    if digits.is_empty() || digits.len() > 19 {
        return None;
    }
    let mut number = 0i64;
    for &digit in digits {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        let digit = i64::from(digit);
        number = number.checked_mul(10)?;
        number = if negative { number.checked_sub(digit)? } else { number.checked_add(digit)? };
    }
    Some(number)
}

/// Reads the inside of a checked string literal. Bytes that are no UTF-8 and lone surrogates become U+FFFD, as Go's
/// decoder does it.
#[inline]
pub(crate) fn unescape(inner: &[u8]) -> Cow<'_, str> {
    if is_escaped(inner) { unescape_slowly(inner) } else { plain_text(inner) }
}

#[cold]
fn unescape_slowly(inner: &[u8]) -> Cow<'_, str> {
    // What is written is never longer than its literal, but for replaced bytes that are no UTF-8.
    let mut text = String::with_capacity(inner.len());
    // Writing to a String cannot fail.
    let _ = write_unescaped(inner, &mut text);
    Cow::Owned(text)
}

fn write_unescaped(inner: &[u8], out: &mut dyn fmt::Write) -> fmt::Result {
    let mut rest = inner;
    while let Some(at) = rest.iter().position(|&b| b == b'\\') {
        let (plain, escape) = rest.split_at(at);
        out.write_str(&plain_text(plain))?;
        let (character, length) = escaped_character(escape);
        out.write_char(character)?;
        rest = escape.get(length..).unwrap_or_default();
    }
    out.write_str(&plain_text(rest))
}

/// The character that the escape at the start of the bytes stands for, and the escape's length.
fn escaped_character(escape: &[u8]) -> (char, usize) {
    let simple = |c| (c, 2);
    match escape.get(1) {
        Some(b'b') => simple('\u{8}'),
        Some(b'f') => simple('\u{c}'),
        Some(b'n') => simple('\n'),
        Some(b'r') => simple('\r'),
        Some(b't') => simple('\t'),
        Some(b'u') => {
            let high = utf16_unit(escape, 2);
            let pair = (escape.get(6..8) == Some(b"\\u")).then(|| utf16_unit(escape, 8));
            if let Some(low) = pair
                && let Some(Ok(character)) = char::decode_utf16([high, low]).next()
                && character.len_utf16() == 2
            {
                return (character, 12);
            }
            (char::from_u32(u32::from(high)).unwrap_or(char::REPLACEMENT_CHARACTER), 6)
        }
        Some(&other) => simple(char::from(other)),
        None => (char::REPLACEMENT_CHARACTER, 1),
    }
}

fn utf16_unit(escape: &[u8], at: usize) -> u16 {
    let digits =
        escape.get(at..at + 4).and_then(|digits| std::str::from_utf8(digits).ok()).unwrap_or_default();
    u16::from_str_radix(digits, 16).unwrap_or(0xfffd)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Whether a text is read as the value that it was written from.
    fn is_read_as(node: Node<'_>, value: &Value) -> bool {
        match value {
            Value::Object(map) => {
                node.entries().count() == map.len()
                    && node.members().zip(node.entries()).all(|((text, _), (key, _))| key.is(&text))
                    && map.iter().all(|(key, value)| {
                        node.get(key).is_some_and(|found| is_read_as(found, value))
                            && node.entries().filter(|(found, _)| found.is(key)).count() == 1
                    })
            }
            Value::Array(list) => {
                let found: Vec<_> = node.elements().collect();
                found.len() == list.len()
                    && found.iter().zip(list).all(|(found, value)| is_read_as(*found, value))
            }
            Value::String(text) => node.is(text) && node.as_str().as_deref() == Some(text),
            Value::Number(number) => node.as_int() == number.as_i64(),
            Value::Bool(word) => node.as_bool() == Some(*word),
            Value::Null => node.is_null(),
        }
    }

    fn json() -> impl Strategy<Value = Value> {
        let text = "[\\[\\]{}:, a\"\\\\\u{1}é]{0,80}";
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            text.prop_map(Value::from)
        ];
        leaf.prop_recursive(4, 40, 5, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::vec((text, inner), 0..5)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn nodes_are_read_as_they_were_written(value in json(), pretty: bool) {
            let text = if pretty { serde_json::to_vec_pretty(&value) } else { serde_json::to_vec(&value) };
            prop_assert!(is_read_as(Node::Text(&text.unwrap()), &value), "{}", value);
        }
    }

    #[test]
    fn strings_are_read_as_go_reads_them() {
        for (literal, expected) in [
            (&br#""plain""#[..], "plain"),
            (br#""a\"b\\c\/d\n\t\r\b\f""#, "a\"b\\c/d\n\t\r\u{8}\u{c}"),
            (br#""\u0041\u00e9\ud83d\ude00""#, "Aé😀"),
            (br#""\ud83d""#, "\u{fffd}"),
            (br#""\ud83dx\ude00""#, "\u{fffd}x\u{fffd}"),
            (br#""\ud83d\u0041""#, "\u{fffd}A"),
        ] {
            assert_eq!(Node::Text(literal).as_str().as_deref(), Some(expected));
            assert!(expected.contains('\\') || Node::Text(literal).is(expected), "{expected}");
        }
        assert_eq!(Node::Text(b"\"\xff\"").as_str().as_deref(), Some("\u{fffd}"));
    }

    #[test]
    fn numbers_are_integers_or_floats_as_in_go() {
        for (text, int) in [
            ("0", Some(0)),
            ("-0", Some(0)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("100000000000000000000", None),
            ("2.0", None),
            ("1e3", None),
        ] {
            assert_eq!(Node::Text(text.as_bytes()).as_int(), int, "{text}");
            let kind = if int.is_some() { Kind::Int } else { Kind::Float };
            assert_eq!(Node::Text(text.as_bytes()).kind(), kind, "{text}");
        }
    }

    #[test]
    fn words_may_have_backslashes() {
        let object = crate::Object::parse(br#"{"one":"\\","two":"\\\\"}"#).unwrap();
        let is = |key: &str, word: &str| object.root().get(key).unwrap().is(word);
        assert!(is("one", "\\") && !is("one", "\\\\"));
        assert!(is("two", "\\\\") && !is("two", "\\"));
    }

    #[test]
    fn short_texts_are_compared_whole() {
        for length in 0..20 {
            let text: Vec<u8> = (0..length).collect();
            assert!(same(&text, &text.clone()));
            assert!(!same(&text, &[&text[..], b"a"].concat()));
            for at in 0..text.len() {
                let mut other = text.clone();
                other[at] = b'a';
                assert!(!same(&text, &other), "{at} of {length}");
                other[at] = b'\\';
                assert!(is_escaped(&other) && !is_escaped(&text), "{at} of {length}");
            }
        }
    }

    #[test]
    fn words_are_compared_up_to_their_end() {
        for (literal, word, expected) in [
            ("Ready", "Ready", true),
            ("ReadyToUse", "Ready", false),
            ("Read", "Ready", false),
            ("", "", true),
            ("Ready", "", false),
            ("\\u0052eady", "Ready", true),
            ("Read\\u0079", "Ready", true),
            ("Ready\\n", "Ready", false),
            ("Reads\\u0079", "Ready", false),
            ("LoadBalancerProvisioned", "LoadBalancerProvisioned", true),
            ("LoadBalancer\\u0050rovisioned", "LoadBalancerProvisioned", true),
            ("a\\\\b", "a\\b", true),
            ("a\\\\b", "a\\\\b", false),
        ] {
            let text = format!("\"{literal}\"");
            assert_eq!(Node::Text(text.as_bytes()).is(word), expected, "{text} {word}");
        }
    }

    #[test]
    fn of_two_members_with_one_key_the_last_counts() {
        let map = Node::Text(br#"{"a":1,"\u0061":2,"b":3}"#);
        assert_eq!(map.get("a").and_then(Node::as_int), Some(2));
        assert_eq!(map.members().count(), 3);
    }
}
