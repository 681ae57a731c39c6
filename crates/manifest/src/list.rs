//! Incremental splitting of a list response into its items, so that no response is held as a whole.

use std::fmt;

use crate::cut::key_before_is_items;
use crate::structure::{Found, Scan};

/// Maximum size of an item, and of the rest of the list. etcd's default limit is 1.5 MiB; some clusters raise it.
pub const MAX_ITEM_BYTES: usize = 32 << 20;

/// Bracket depths: outside of the list, in it, in its items, and in one item.
const LIST: usize = 1;
const ITEMS: usize = 2;
const ITEM: usize = 3;

/// Error in a list response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListError {
    /// An object exceeds the maximum size.
    TooLong,
    /// The response is truncated.
    Cut,
}

impl fmt::Display for ListError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => {
                write!(f, "one object of the answer has more than {} MiB", MAX_ITEM_BYTES >> 20)
            }
            Self::Cut => f.write_str("the answer ended in the middle of an object"),
        }
    }
}

impl std::error::Error for ListError {}

/// Cuts a list into its items, from pieces of any size. Everything else is kept, for the resourceVersion and the
/// continue token.
///
/// ```
/// use settled_manifest::ListItems;
///
/// let (mut list, mut items) = (ListItems::default(), Vec::new());
/// for piece in [r#"{"items":[{"a":"#, r#"1},{"b":2}],"metada"#, r#"ta":{}}"#] {
///     list.push(piece.as_bytes(), |item| items.push(String::from_utf8_lossy(item).into_owned()))?;
/// }
/// assert_eq!(items, [r#"{"a":1}"#, r#"{"b":2}"#]);
/// assert_eq!(list.finish()?, br#"{"items":[],"metadata":{}}"#);
/// # Ok::<(), settled_manifest::ListError>(())
/// ```
#[derive(Debug)]
pub struct ListItems {
    scan: Scan,
    place: Place,
    /// Incomplete data of the list or of an item.
    rest: Vec<u8>,
    /// The list up to its items.
    head: Vec<u8>,
}

/// State of the parser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Outside of `items`.
    Head,
    /// Between two items.
    Between,
    /// In an item.
    Item,
}

impl Default for ListItems {
    fn default() -> Self {
        Self { scan: Scan::from(0, 0), place: Place::Head, rest: Vec::new(), head: Vec::new() }
    }
}

impl ListItems {
    /// Passes the complete items in the new data to the callback.
    ///
    /// # Errors
    /// An item exceeds the maximum size.
    pub fn push(&mut self, bytes: &[u8], mut each: impl FnMut(&[u8])) -> Result<(), ListError> {
        let mut rest = std::mem::take(&mut self.rest);
        // Items that are complete in the new data are not copied.
        let keep = if rest.is_empty() {
            let keep = self.cut(bytes, &mut each);
            rest.extend_from_slice(&bytes[keep..]);
            keep
        } else {
            rest.extend_from_slice(bytes);
            let keep = self.cut(&rest, &mut each);
            rest.drain(..keep);
            keep
        };
        self.scan.shift(keep);
        let held = if self.place == Place::Head { self.head.len() + rest.len() } else { rest.len() };
        self.rest = rest;
        if held > MAX_ITEM_BYTES { Err(ListError::TooLong) } else { Ok(()) }
    }

    /// Passes the complete items of `data` to the callback. Returns the start of the data that is still needed.
    fn cut(&mut self, data: &[u8], each: &mut impl FnMut(&[u8])) -> usize {
        let mut from = 0;
        loop {
            let level = if self.place == Place::Head { LIST } else { ITEM };
            match (self.scan.next(data, level), self.place) {
                (Found::Open(at), Place::Head) => {
                    if self.scan.depth == ITEMS && data[at] == b'[' && key_before_is_items(&data[from..at]) {
                        self.head.extend_from_slice(&data[from..=at]);
                        self.place = Place::Between;
                    }
                }
                (Found::Open(at), Place::Between) => {
                    from = at;
                    self.place = Place::Item;
                }
                (Found::Close(at), Place::Item) if self.scan.depth == ITEMS => {
                    each(&data[from..=at]);
                    self.place = Place::Between;
                }
                (Found::Close(at), Place::Between) => {
                    from = at;
                    self.place = Place::Head;
                }
                (Found::End, Place::Between) => return data.len().min(self.scan.pending()),
                (Found::End, Place::Head | Place::Item) => return from.min(self.scan.pending()),
                // The parser of the item reports errors in it.
                (Found::Open(_) | Found::Close(_) | Found::BrokenString(_) | Found::LineStart(_), _) => {}
            }
        }
    }

    /// The list without its items, at the end of the data.
    ///
    /// # Errors
    /// The list is truncated.
    pub fn finish(mut self) -> Result<Vec<u8>, ListError> {
        if self.scan.depth > 0 || self.place != Place::Head {
            return Err(ListError::Cut);
        }
        self.head.append(&mut self.rest);
        Ok(self.head)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    /// The items of a text that arrives in pieces of these sizes, repeated, and the rest of the list.
    fn cut(text: &[u8], sizes: &[usize]) -> (Vec<Vec<u8>>, Result<Vec<u8>, ListError>) {
        let (mut list, mut items, mut rest) = (ListItems::default(), Vec::new(), text);
        for size in sizes.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (now, later) = rest.split_at((*size).min(rest.len()));
            list.push(now, |item| items.push(item.to_vec())).unwrap();
            rest = later;
        }
        (items, list.finish())
    }

    fn value() -> impl Strategy<Value = Value> {
        let text = "[\\[\\]{}:, a\"\\\\\n-]{0,9}";
        let leaf =
            prop_oneof![Just(Value::Null), any::<i32>().prop_map(Value::from), text.prop_map(Value::from)];
        let key = prop_oneof![Just("items".to_owned()), text];
        leaf.prop_recursive(3, 24, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((key.clone(), inner), 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    fn object() -> impl Strategy<Value = Value> {
        prop::collection::vec(value(), 0..4).prop_map(|values| json!({ "spec": values }))
    }

    proptest! {
        /// The same items as a parser of the whole text, for any order of fields, layout and piece sizes.
        #[test]
        fn items_are_those_of_the_list(
            items in prop::collection::vec(object(), 0..5),
            before in prop::option::of(value()),
            metadata in object(),
            after in prop::option::of(value()),
            pretty in any::<bool>(),
            sizes in prop::collection::vec(1..200_usize, 1..8),
        ) {
            // Sorted by name.
            let mut list = json!({ "items": items, "kind": "List", "metadata": metadata });
            for (name, value) in [("a", before), ("z", after)] {
                if let Some(value) = value {
                    list[name] = value;
                }
            }
            let text = if pretty { serde_json::to_vec_pretty(&list) } else { serde_json::to_vec(&list) };
            let (found, head) = cut(&text.unwrap(), &sizes);
            let found: Vec<Value> = found.iter().map(|item| serde_json::from_slice(item).unwrap()).collect();
            prop_assert_eq!(found, items);
            list["items"] = json!([]);
            prop_assert_eq!(serde_json::from_slice::<Value>(&head.unwrap()).unwrap(), list);
        }

        #[test]
        fn a_list_is_cut_however_it_arrives(sizes in prop::collection::vec(1..20_usize, 1..8)) {
            let list = br#"{"kind":"List","x":{"items":[{"no":1}]},"metadata":{"continue":"a\"]}"},"items" : [ {"a":[{}]} , {"b":"}]\\\""},{} ],"z":[1]}"#;
            let (items, head) = cut(list, &sizes);
            prop_assert_eq!(items, [&br#"{"a":[{}]}"#[..], br#"{"b":"}]\\\""}"#, b"{}"]);
            let head: Value = serde_json::from_slice(&head.unwrap()).unwrap();
            prop_assert_eq!(&head["items"], &json!([]));
            prop_assert_eq!(&head["metadata"]["continue"], "a\"]}");
            prop_assert_eq!(&head["z"], &json!([1]));
        }

        #[test]
        fn nothing_panics(
            bytes in prop::collection::vec(prop_oneof![any::<u8>(), prop::sample::select(&b"{}[]\",:\n-\\items"[..])], 0..200),
            sizes in prop::collection::vec(1..20_usize, 1..4),
        ) {
            drop(cut(&bytes, &sizes));
        }
    }

    #[test]
    fn nothing_grows_without_a_bound() {
        let piece = vec![b' '; 1 << 20];
        let held = |start: &str| {
            let mut list = ListItems::default();
            list.push(start.as_bytes(), |_| {}).unwrap();
            (1..100).find(|_| list.push(&piece, |_| {}).is_err())
        };
        // In the head and in an item: at the limit. Data between items is not kept.
        assert_eq!(held(r#"{"kind":"#), Some(32));
        assert_eq!(held(r#"{"items":[{"a":"#), Some(32));
        assert_eq!(held(r#"{"items":[{},"#), None);
        let mut list = ListItems::default();
        list.push(br#"{"items":[{"#, |_| {}).unwrap();
        assert_eq!(list.finish(), Err(ListError::Cut));
    }
}
