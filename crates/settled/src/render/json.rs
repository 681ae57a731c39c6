//! JSON rows: one object on one line. The order of its keys is part of the contract.

use std::io::{self, Write};

use kstatus::{Condition, Failure, Verdict};
use serde::Serialize;

use crate::row::Identity;

/// Appends `{"source":…,"document":…`, which a body goes on with.
pub(super) fn push_head(source: &str, document: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"source\":");
    push_text(source, out);
    out.extend_from_slice(b",\"document\":");
    push(&document, out);
}

/// Appends all of a row but the head: it begins with a comma.
pub(super) fn push_body(identity: &Identity<'_>, verdict: &Verdict, out: &mut Vec<u8>) {
    let start = out.len();
    let Identity { api_version, kind, namespace, name, created: _ } = identity;
    push_field(",\"apiVersion\":", api_version.as_deref(), out);
    push_field(",\"kind\":", kind.as_deref(), out);
    push_field(",\"namespace\":", namespace.as_deref(), out);
    push_field(",\"name\":", name.as_deref(), out);
    push_verdict(verdict, out);
    escape_controls(out, start);
}

/// Appends the members of a verdict as it serializes itself, each with a comma before it. In a large dump the serializer would take as
/// long for a row as it takes to read the object.
fn push_verdict(verdict: &Verdict, out: &mut Vec<u8>) {
    push_field(",\"status\":", Some(verdict.status.as_str()), out);
    push_field(",\"reason\":", Some(&verdict.reason), out);
    push_field(",\"message\":", Some(&verdict.message), out);
    push_field(",\"basis\":", Some(verdict.basis.as_str()), out);
    push_field(",\"confidence\":", Some(verdict.confidence.as_str()), out);
    for (key, number) in
        [(",\"generation\":", verdict.generation), (",\"observedGeneration\":", verdict.observed_generation)]
    {
        if let Some(number) = number {
            out.extend_from_slice(key.as_bytes());
            push(&number, out);
        }
    }
    if let Some(Failure { class, terminal }) = verdict.failure {
        push_field(",\"failureClass\":", Some(class.as_str()), out);
        out.extend_from_slice(if terminal { b",\"terminal\":true" } else { b",\"terminal\":false" });
    }
    if !verdict.blocking {
        out.extend_from_slice(b",\"blocking\":false");
    }
    out.extend_from_slice(b",\"conditions\":[");
    if let Some(Condition { type_, status, reason, message }) = verdict.condition() {
        push_field("{\"type\":", Some(type_), out);
        push_field(",\"status\":", Some(status), out);
        push_field(",\"reason\":", Some(reason), out);
        push_field(",\"message\":", Some(message), out);
        out.push(b'}');
    }
    out.push(b']');
    if !verdict.problems.is_empty() {
        out.extend_from_slice(b",\"problems\":");
        push(&verdict.problems, out);
    }
    out.push(b'}');
}

fn push_field(key: &str, value: Option<&str>, out: &mut Vec<u8>) {
    if let Some(value) = value {
        out.extend_from_slice(key.as_bytes());
        push_text(value, out);
    }
}

fn push_text(text: &str, out: &mut Vec<u8>) {
    if !is_plain(text.as_bytes()) {
        return push(text, out);
    }
    out.reserve(text.len() + 2);
    out.push(b'"');
    out.extend_from_slice(text.as_bytes());
    out.push(b'"');
}

/// Whether JSON has a text as it is. Most are short: eight bytes at a time, of which the last may be looked at twice.
fn is_plain(text: &[u8]) -> bool {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const QUOTES: u64 = ONES * b'"' as u64;
    const BACKSLASHES: u64 = ONES * b'\\' as u64;
    /// In each byte the highest bit, which may also be set in one after a byte that counts.
    const fn below(word: u64, bound: u8) -> u64 {
        word.wrapping_sub(ONES * bound as u64) & !word
    }
    let specials = |chunk: &[u8; 8]| {
        let word = u64::from_le_bytes(*chunk);
        below(word, b' ') | below(word ^ QUOTES, 1) | below(word ^ BACKSLASHES, 1)
    };
    let marks = match text.last_chunk::<8>() {
        Some(last) => {
            text.as_chunks::<8>().0.iter().map(specials).fold(specials(last), |all, word| all | word)
        }
        None => {
            let mut chunk = [b' '; 8];
            chunk.iter_mut().zip(text).for_each(|(byte, found)| *byte = *found);
            specials(&chunk)
        }
    };
    marks & (ONES << 7) == 0
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
    use kstatus::{Basis, FailureClass, Options, Problem, Status};

    use super::*;

    #[test]
    fn verdicts_are_written_as_they_serialize_themselves() {
        let texts = ["", "Ready", "a \"quoted\" \\ text", "two\nlines\u{1}", "é \u{2028} \u{7f}"];
        let mut verdicts = Vec::new();
        for (index, text) in texts.into_iter().enumerate() {
            for status in Status::ALL {
                let mut verdict = Verdict::new(*status, Basis::RulePack, text, text);
                verdicts.push(verdict.clone());
                verdict = verdict.failure(FailureClass::Quota, index % 2 == 0);
                verdict.generation = Some(-3);
                verdict.observed_generation = Some(i64::MAX);
                verdict.blocking = false;
                verdict.problems = vec![Problem { path: text.into(), message: text.into() }; index];
                verdicts.push(verdict);
            }
        }
        // A condition with another message than the verdict's.
        let late = r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"generation":1},"spec":{"replicas":1},
            "status":{"observedGeneration":1,"conditions":[{"type":"Progressing","status":"False","reason":"ProgressDeadlineExceeded"}]}}"#;
        let options = Options::new("2026-11-21T12:00:00Z".parse().unwrap());
        verdicts.extend(kstatus::Profile::ALL.iter().map(|profile| {
            kstatus::compute(late.as_bytes(), &Options { profile: *profile, ..options.clone() })
        }));
        for verdict in verdicts {
            let mut out = Vec::new();
            push_verdict(&verdict, &mut out);
            out[0] = b'{';
            assert_eq!(String::from_utf8(out).unwrap(), serde_json::to_string(&verdict).unwrap());
        }
    }

    #[test]
    fn plain_texts_are_those_that_json_does_not_escape() {
        for length in 0..20 {
            assert!(is_plain(&vec![b'a'; length]));
            for at in 0..length {
                for byte in 0..=u8::MAX {
                    let mut text = vec![b'a'; length];
                    text[at] = byte;
                    let expected = byte >= b' ' && byte != b'"' && byte != b'\\';
                    assert_eq!(is_plain(&text), expected, "{text:?}");
                }
            }
        }
    }

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
