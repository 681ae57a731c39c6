//! Filtering of lists, object by object, as they arrive.

use kstatus::{Node, Object};
use settled_watch::{Items, WireError};

use super::tracker::Position;

/// Fields of a list besides its items, and its end.
pub(crate) struct Tail {
    /// `],"kind":…}`
    pub(crate) json: Vec<u8>,
    pub(crate) position: Option<Position>,
}

/// A list being filtered.
#[derive(Default)]
pub(crate) struct List {
    items: Items,
    written: usize,
}

impl List {
    /// Processes new data. `each` writes an object and returns true, or omits it.
    pub(crate) fn push(
        &mut self,
        data: &[u8],
        out: &mut Vec<u8>,
        mut each: impl FnMut(&[u8], &mut Vec<u8>) -> bool,
    ) -> Result<(), WireError> {
        let written = &mut self.written;
        self.items.push(data, |item| {
            let start = out.len();
            out.extend_from_slice(if *written == 0 { b"{\"items\":[" } else { b"," });
            if each(item, out) {
                *written += 1;
            } else {
                out.truncate(start);
            }
        })
    }

    /// The rest of the list, at the end of the data.
    pub(crate) fn finish(self) -> Result<Tail, WireError> {
        let head = self.items.finish()?;
        let mut json = if self.written == 0 { b"{\"items\":[]".to_vec() } else { b"]".to_vec() };
        let list = Object::parse(&head).map_err(|_| WireError::Cut)?;
        let root = list.root();
        for (key, value) in root.members() {
            if let (false, Node::Text(value)) = (key == "items", value) {
                json.extend_from_slice(format!(",\"{key}\":").as_bytes());
                json.extend_from_slice(value);
            }
        }
        json.push(b'}');
        let text = |key: &str| {
            let text = root.get("metadata")?.get(key)?.as_str()?.into_owned();
            Some(text).filter(|text| !text.is_empty())
        };
        let position =
            text("continue").map(Position::Token).or_else(|| text("resourceVersion").map(Position::Version));
        Ok(Tail { json, position })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_list_is_handed_on_without_what_is_left_out() {
        let whole = r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[{"a":1},{"a":2},{"a":3}]}"#;
        for (kept, expected) in [
            (&["1", "3"][..], json!([{"a": 1}, {"a": 3}])),
            (&[], json!([])),
            (&["1", "2", "3"], json!([{"a": 1}, {"a": 2}, {"a": 3}])),
        ] {
            let (mut list, mut out) = (List::default(), Vec::new());
            for part in whole.as_bytes().chunks(7) {
                let each = |item: &[u8], out: &mut Vec<u8>| {
                    out.extend_from_slice(item);
                    kept.iter().any(|kept| String::from_utf8_lossy(item).contains(kept))
                };
                list.push(part, &mut out, each).unwrap();
            }
            let tail = list.finish().unwrap();
            out.extend_from_slice(&tail.json);
            let list: Value = serde_json::from_slice(&out).unwrap();
            assert_eq!(list["items"], expected);
            assert_eq!(
                (&list["kind"], &list["metadata"]["resourceVersion"]),
                (&json!("PodList"), &json!("9"))
            );
            assert_eq!(tail.position, Some(Position::Version("9".to_owned())));
        }
        let mut list = List::default();
        list.push(&whole.as_bytes()[..80], &mut Vec::new(), |_, _| true).unwrap();
        assert!(list.finish().is_err());
    }
}
