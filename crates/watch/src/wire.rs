//! Watches, cut into events while they arrive, and items of lists that get their type back.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use settled_manifest::{ListError, MAX_ITEM_BYTES};

/// Cuts a watch into its lines.
#[derive(Debug, Default)]
pub struct Lines {
    /// The beginning of a line whose end has not arrived.
    rest: Vec<u8>,
}

impl Lines {
    /// Takes what has arrived, and hands out the lines that are whole.
    ///
    /// # Errors
    /// A line is longer than any event can be.
    pub fn push(&mut self, mut bytes: &[u8], mut each: impl FnMut(&[u8])) -> Result<(), ListError> {
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            let (line, rest) = (&bytes[..end], &bytes[end + 1..]);
            bytes = rest;
            if self.rest.is_empty() {
                each(line);
            } else {
                self.rest.extend_from_slice(line);
                each(&self.rest);
                self.rest.clear();
                // One large object should not be paid for as long as the watch lasts.
                self.rest.shrink_to(64 << 10);
            }
        }
        if self.rest.len() + bytes.len() > MAX_ITEM_BYTES {
            return Err(ListError::TooLong);
        }
        self.rest.extend_from_slice(bytes);
        Ok(())
    }
}

/// What an event of a watch reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    /// An object was created, or is part of the initial list.
    Added,
    /// An object was changed.
    Modified,
    /// An object was deleted, or is no longer selected.
    Deleted,
    /// The watch has come to this resourceVersion.
    Bookmark,
    /// The watch ends: the object is a `Status`.
    Error,
}

#[derive(Deserialize)]
struct Event<'l> {
    #[serde(rename = "type", borrow)]
    type_: Cow<'l, str>,
    #[serde(borrow)]
    object: &'l RawValue,
}

/// Takes a line of a watch apart: `{"type":"ADDED","object":{…}}`. None if it is no event.
#[must_use]
pub fn read_event(line: &[u8]) -> Option<(EventType, &[u8])> {
    let line = line.trim_ascii();
    // As all servers write it.
    let quick = || {
        let rest = line.strip_prefix(b"{\"type\":\"")?;
        let end = memchr::memchr(b'"', rest)?;
        let (type_, rest) = rest.split_at(end);
        let object = rest.strip_prefix(b"\",\"object\":")?.strip_suffix(b"}")?;
        Some((event_type(type_)?, object))
    };
    quick().or_else(|| {
        let whole: Event<'_> = serde_json::from_slice(line).ok()?;
        Some((event_type(whole.type_.as_bytes())?, whole.object.get().as_bytes()))
    })
}

fn event_type(type_: &[u8]) -> Option<EventType> {
    Some(match type_ {
        b"ADDED" => EventType::Added,
        b"MODIFIED" => EventType::Modified,
        b"DELETED" => EventType::Deleted,
        b"BOOKMARK" => EventType::Bookmark,
        b"ERROR" => EventType::Error,
        _ => return None,
    })
}

/// Lists leave out what all their items are: puts apiVersion and kind back.
pub(crate) fn typed<'b>(item: &'b [u8], api_version: &str, kind: &str, buffer: &'b mut Vec<u8>) -> &'b [u8] {
    let item = item.trim_ascii();
    let starts = |word: &[u8]| item.get(1..).is_some_and(|rest| rest.trim_ascii_start().starts_with(word));
    if starts(b"\"kind\"") || starts(b"\"apiVersion\"") {
        return item;
    }
    let Some(rest) = item.strip_prefix(b"{") else { return item };
    buffer.clear();
    buffer.extend_from_slice(b"{\"apiVersion\":\"");
    buffer.extend_from_slice(api_version.as_bytes());
    buffer.extend_from_slice(b"\",\"kind\":\"");
    buffer.extend_from_slice(kind.as_bytes());
    buffer.push(b'"');
    if rest.trim_ascii_start() != b"}" {
        buffer.push(b',');
    }
    buffer.extend_from_slice(rest);
    buffer
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn lines_are_whole_however_they_arrive(
            lines in prop::collection::vec("[a-z{}\"]{0,30}", 0..8),
            sizes in prop::collection::vec(1..20_usize, 1..8),
        ) {
            let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
            let (mut cutter, mut found, mut rest) = (Lines::default(), Vec::new(), text.as_bytes());
            for size in sizes.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (now, later) = rest.split_at((*size).min(rest.len()));
                cutter.push(now, |line| found.push(String::from_utf8_lossy(line).into_owned())).unwrap();
                rest = later;
            }
            prop_assert_eq!(found, lines);
        }

        #[test]
        fn no_event_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read_event(&bytes);
        }
    }

    #[test]
    fn an_event_is_taken_apart() {
        let object: &[u8] = br#"{"a":1}"#;
        assert_eq!(read_event(br#"{"type":"ADDED","object":{"a":1}}"#), Some((EventType::Added, object)));
        assert_eq!(read_event(br#" {"object":{"a":1},"type":"ERROR"} "#), Some((EventType::Error, object)));
        assert_eq!(read_event(b"{}"), None);
    }

    #[test]
    fn items_get_their_type_back() {
        let mut buffer = Vec::new();
        let whole = br#"{"kind":"Pod"}"#;
        assert_eq!(typed(whole, "v1", "Pod", &mut buffer), whole);
        assert_eq!(
            typed(br#"{"metadata":{}}"#, "v1", "Pod", &mut buffer),
            br#"{"apiVersion":"v1","kind":"Pod","metadata":{}}"#
        );
        assert_eq!(typed(b"{}", "v1", "Pod", &mut buffer), br#"{"apiVersion":"v1","kind":"Pod"}"#);
    }
}
