//! JSON rows: one object on one line. The order of its keys is part of the contract.

use std::borrow::Cow;
use std::io::{self, Write};

use kstatus::Verdict;
use serde::Serialize;

use crate::row::Identity;

/// Appends `{"source":…,"document":…`, which a body goes on with.
pub(super) fn push_head(source: &str, document: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"source\":");
    push(source, out);
    out.extend_from_slice(b",\"document\":");
    push(&document, out);
}

/// Appends all of a row but the head: it begins with a comma.
pub(super) fn push_body(identity: &Identity<'_>, verdict: &Verdict, out: &mut Vec<u8>) {
    let start = out.len();
    let Identity { api_version, kind, namespace, name, created: _ } = identity;
    push_field(",\"apiVersion\":", api_version.as_ref(), out);
    push_field(",\"kind\":", kind.as_ref(), out);
    push_field(",\"namespace\":", namespace.as_ref(), out);
    push_field(",\"name\":", name.as_ref(), out);
    let brace = out.len();
    push(verdict, out);
    // The verdict's map goes on where the head's left off.
    if let Some(byte) = out.get_mut(brace) {
        *byte = b',';
    }
    escape_controls(out, start);
}

fn push_field(key: &str, value: Option<&Cow<'_, str>>, out: &mut Vec<u8>) {
    if let Some(value) = value {
        out.extend_from_slice(key.as_bytes());
        push(&**value, out);
    }
}

fn push<T: Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) {
    // Neither memory nor a verdict, a text or a number can fail here.
    serde_json::to_writer(&mut *out, value).ok();
}

/// Writes anything as one line of JSON, however long, piece by piece.
pub(crate) fn write_json_line<T: Serialize + ?Sized>(value: &T, out: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer(SpelledOut(&mut *out), value)?;
    out.write_all(b"\n")
}

/// As [`escape_controls`]; a character comes whole.
struct SpelledOut<W>(W);

impl<W: Write> Write for SpelledOut<W> {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        if first_special(text).is_none() {
            self.0.write_all(text)?;
        } else {
            let mut spelled = text.to_vec();
            escape_controls(&mut spelled, 0);
            self.0.write_all(&spelled)?;
        }
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Anything as one line of JSON.
pub(crate) fn json_line<T: Serialize + ?Sized>(value: &T) -> Vec<u8> {
    let mut out = Vec::new();
    push(value, &mut out);
    escape_controls(&mut out, 0);
    out.push(b'\n');
    out
}

/// Spells out the characters that JSON leaves alone and a terminal or an eye does not: DEL, U+0080 to U+009F, of which some terminals
/// take U+009B for the beginning of a command, and the invisible ones, some of which turn the direction of writing. They can only
/// be in strings.
pub(crate) fn escape_controls(out: &mut Vec<u8>, start: usize) {
    let Some(first) = first_special(&out[start..]) else { return };
    let tail = out.split_off(start + first);
    let mut rest = &tail[..];
    while let Some((&byte, after)) = rest.split_first() {
        let (code, length) = match *rest {
            [0x7f, ..] => (0x7f, 1),
            [0xc2, b @ 0x80..=0x9f, ..] => (u32::from(b), 2),
            [0xd8, 0x9c, ..] => (0x61c, 2),
            [0xe2, 0x80, b @ (0x8b..=0x8f | 0xa8..=0xae), ..] => (0x1f80 + u32::from(b), 3),
            [0xe2, 0x81, b @ 0xa0..=0xaf, ..] => (0x1fc0 + u32::from(b), 3),
            [0xef, 0xbb, 0xbf, ..] => (0xfeff, 3),
            _ => {
                out.push(byte);
                rest = after;
                continue;
            }
        };
        out.extend_from_slice(format!("\\u{code:04x}").as_bytes());
        rest = &rest[length..];
    }
}

/// Where the first byte is that may begin such a character.
fn first_special(text: &[u8]) -> Option<usize> {
    let ascii = memchr::memchr3(0x7f, 0xc2, 0xd8, text);
    let others = memchr::memchr2(0xe2, 0xef, text);
    ascii.into_iter().chain(others).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_mean_the_same_spelled_out() {
        let text = "a\u{7f}b\u{80}\u{9b}c\u{9f}\u{a0}é£\u{61c}–…\u{200b}\u{202e}\u{2066}\u{feff}\u{ffee}";
        let mut out = b"\x7f".to_vec();
        push(text, &mut out);
        escape_controls(&mut out, 1);
        let json = std::str::from_utf8(&out[1..]).unwrap();
        assert_eq!(
            json,
            "\"a\\u007fb\\u0080\\u009bc\\u009f\u{a0}é£\\u061c–…\\u200b\\u202e\\u2066\\ufeff\u{ffee}\""
        );
        for code in (0x2028..=0x202e).chain(0x200b..=0x200f).chain(0x2060..=0x206f) {
            let text = char::from_u32(code).unwrap().to_string();
            assert_eq!(json_line(&text), format!("\"\\u{code:04x}\"\n").into_bytes());
        }
        assert_eq!(serde_json::from_str::<String>(json).unwrap(), text);
        let mut line = Vec::new();
        write_json_line(text, &mut line).unwrap();
        assert_eq!(line, json_line(text));
        assert_eq!(line, [&out[1..], b"\n"].concat());
    }
}
