//! Streaming JSON: cuts answers into objects while they arrive, so that no answer is ever whole in memory.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

/// How long one object may be. etcd holds 1.5 MiB by default; with room for those who raised that.
pub(crate) const MAX_OBJECT_BYTES: usize = 32 << 20;

/// Something that can't be an answer of an API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// One object is longer than any can be.
    #[error("one object of the answer has more than {} MiB", MAX_OBJECT_BYTES >> 20)]
    TooLong,
    /// The answer ended in the middle.
    #[error("the answer ended in the middle of an object")]
    Cut,
}

/// Cuts a watch into its lines.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    /// The beginning of a line whose end has not arrived.
    rest: Vec<u8>,
}

impl Lines {
    /// Takes what has arrived, and hands out the lines that are whole.
    pub(crate) fn push(&mut self, mut bytes: &[u8], mut each: impl FnMut(&[u8])) -> Result<(), WireError> {
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
        if self.rest.len() + bytes.len() > MAX_OBJECT_BYTES {
            return Err(WireError::TooLong);
        }
        self.rest.extend_from_slice(bytes);
        Ok(())
    }
}

/// Cuts a list into its items. Everything else of it is kept, for the revision and the continue token.
#[derive(Debug, Default)]
pub struct Items {
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// The last string of the list itself, which may be a key, and whether it is being read.
    key: Vec<u8>,
    in_key: bool,
    place: Place,
    /// The beginning of an item whose end has not arrived.
    item: Vec<u8>,
    /// The list without its items.
    head: Vec<u8>,
}

/// Where in a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    /// Outside of `items`.
    #[default]
    Head,
    /// Between two items.
    Between,
    /// In an item.
    Item,
}

impl Items {
    /// Takes what has arrived, and hands out the items that are whole.
    ///
    /// # Errors
    /// An item is longer than any object can be.
    pub fn push(&mut self, bytes: &[u8], mut each: impl FnMut(&[u8])) -> Result<(), WireError> {
        // Where what is not kept yet begins.
        let mut from = 0;
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            if self.in_string {
                if self.escaped {
                    self.escaped = false;
                } else if byte == b'\\' {
                    self.escaped = true;
                } else if byte == b'"' {
                    self.in_string = false;
                    self.in_key = false;
                } else if self.in_key {
                    self.key.push(byte);
                } else {
                    // Nothing else matters in a string.
                    at += memchr::memchr2(b'"', b'\\', &bytes[at..]).unwrap_or(bytes.len() - at);
                    continue;
                }
                at += 1;
                continue;
            }
            at += 1;
            match byte {
                b'"' => {
                    self.in_string = true;
                    self.in_key = self.depth == 1;
                    if self.in_key {
                        self.key.clear();
                    }
                }
                b'{' | b'[' => {
                    self.depth += 1;
                    if self.depth == 2 && byte == b'[' && self.key == b"items" {
                        self.head.extend_from_slice(&bytes[from..at]);
                        self.place = Place::Between;
                    } else if self.depth == 3 && self.place == Place::Between {
                        from = at - 1;
                        self.place = Place::Item;
                    }
                }
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 2 && self.place == Place::Item {
                        if self.item.is_empty() {
                            each(&bytes[from..at]);
                        } else {
                            self.item.extend_from_slice(&bytes[from..at]);
                            each(&self.item);
                            self.item.clear();
                        }
                        self.place = Place::Between;
                    } else if self.depth == 1 && self.place == Place::Between {
                        from = at - 1;
                        self.place = Place::Head;
                    }
                }
                _ => {}
            }
        }
        let kept = match self.place {
            Place::Between => return Ok(()),
            Place::Head => &mut self.head,
            Place::Item => &mut self.item,
        };
        if kept.len() + bytes.len() - from > MAX_OBJECT_BYTES {
            return Err(WireError::TooLong);
        }
        kept.extend_from_slice(&bytes[from..]);
        Ok(())
    }

    /// The list without its items, once all has arrived.
    ///
    /// # Errors
    /// The list ended in the middle.
    pub fn finish(self) -> Result<Vec<u8>, WireError> {
        if self.depth == 0 && !self.in_string { Ok(self.head) } else { Err(WireError::Cut) }
    }
}

/// One line of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Added,
    Modified,
    Deleted,
    Bookmark,
    Error,
}

#[derive(Deserialize)]
struct Event<'l> {
    #[serde(rename = "type", borrow)]
    type_: Cow<'l, str>,
    #[serde(borrow)]
    object: &'l RawValue,
}

/// Takes a line of a watch apart: `{"type":"ADDED","object":{…}}`.
pub(crate) fn event(line: &[u8]) -> Option<(Kind, &[u8])> {
    let line = line.trim_ascii();
    // As all servers write it.
    let quick = || {
        let rest = line.strip_prefix(b"{\"type\":\"")?;
        let end = memchr::memchr(b'"', rest)?;
        let (type_, rest) = rest.split_at(end);
        let object = rest.strip_prefix(b"\",\"object\":")?.strip_suffix(b"}")?;
        Some((kind(type_)?, object))
    };
    quick().or_else(|| {
        let whole: Event<'_> = serde_json::from_slice(line).ok()?;
        Some((kind(whole.type_.as_bytes())?, whole.object.get().as_bytes()))
    })
}

fn kind(type_: &[u8]) -> Option<Kind> {
    Some(match type_ {
        b"ADDED" => Kind::Added,
        b"MODIFIED" => Kind::Modified,
        b"DELETED" => Kind::Deleted,
        b"BOOKMARK" => Kind::Bookmark,
        b"ERROR" => Kind::Error,
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

    fn cut(text: &[u8], sizes: &[usize]) -> (Vec<String>, Result<Vec<u8>, WireError>) {
        let (mut items, mut found) = (Items::default(), Vec::new());
        let mut rest = text;
        for size in sizes.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (now, later) = rest.split_at((*size).min(rest.len()));
            items.push(now, |item| found.push(String::from_utf8_lossy(item).into_owned())).unwrap();
            rest = later;
        }
        (found, items.finish())
    }

    proptest! {
        #[test]
        fn a_list_is_cut_however_it_arrives(sizes in prop::collection::vec(1..20_usize, 1..8)) {
            let list = br#"{"kind":"List","x":{"items":[{"no":1}]},"metadata":{"continue":"a\"]}"},"items": [ {"a":[{}]} , {"b":"}]\\\""},{} ],"z":[1]}"#;
            let (items, head) = cut(list, &sizes);
            prop_assert_eq!(items, [r#"{"a":[{}]}"#, r#"{"b":"}]\\\""}"#, "{}"]);
            let head: serde_json::Value = serde_json::from_slice(&head.unwrap()).unwrap();
            prop_assert_eq!(&head["items"], &serde_json::json!([]));
            prop_assert_eq!(&head["metadata"]["continue"], "a\"]}");
            prop_assert_eq!(&head["z"], &serde_json::json!([1]));
        }

        #[test]
        fn nothing_panics(bytes in prop::collection::vec(any::<u8>(), 0..200), sizes in prop::collection::vec(1..20_usize, 1..4)) {
            drop(cut(&bytes, &sizes));
            let _ = event(&bytes);
        }
    }

    #[test]
    fn an_event_is_taken_apart() {
        let object: &[u8] = br#"{"a":1}"#;
        assert_eq!(event(br#"{"type":"ADDED","object":{"a":1}}"#), Some((Kind::Added, object)));
        assert_eq!(event(br#" {"object":{"a":1},"type":"ERROR"} "#), Some((Kind::Error, object)));
        assert_eq!(event(b"{}"), None);
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
