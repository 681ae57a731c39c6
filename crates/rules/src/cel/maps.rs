//! Maps that expressions have looked into: each is read once, however often the elements of a list are asked again.

use std::cell::RefCell;

use kstatus::{Key, Node};

/// Members of more maps than these are not remembered.
const MAPS: usize = 16;
/// Nor are the members of a map that has more.
const MEMBERS: usize = 16;

/// The maps of an object that have been read.
#[derive(Debug, Default)]
pub(crate) struct Maps<'e>(RefCell<Read<'e>>);

#[derive(Debug, Default)]
struct Read<'e> {
    /// Where each lies, and the end of its members.
    maps: Vec<(*const u8, usize)>,
    members: Vec<(Key<'e>, Node<'e>)>,
}

impl<'e> Maps<'e> {
    /// As [`Node::get`].
    pub(crate) fn get(&self, map: Node<'e>, key: &str) -> Option<Node<'e>> {
        let Node::Text(text) = map else { return map.get(key) };
        let mut read = self.0.borrow_mut();
        let known = read.maps.iter().position(|(place, _)| *place == text.as_ptr());
        let Some(known) = known.or_else(|| read.read(map, text.as_ptr())) else { return map.get(key) };
        let start = known.checked_sub(1).and_then(|before| read.maps.get(before)).map_or(0, |(_, end)| *end);
        let (_, end) = read.maps.get(known)?;
        // Of two members with one key the last counts.
        read.members.get(start..*end)?.iter().rfind(|(known, _)| known.is(key)).map(|(_, value)| *value)
    }
}

impl<'e> Read<'e> {
    /// Reads a map, if it can be remembered.
    fn read(&mut self, map: Node<'e>, place: *const u8) -> Option<usize> {
        if self.maps.len() >= MAPS {
            return None;
        }
        let start = self.members.len();
        for member in map.entries() {
            if self.members.len() >= start + MEMBERS {
                self.members.truncate(start);
                return None;
            }
            self.members.push(member);
        }
        self.maps.push((place, self.members.len()));
        Some(self.maps.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever is asked, in any order.
        #[test]
        fn members_are_those_of_the_map(
            maps in prop::collection::vec(prop::collection::vec(("[ab]{0,3}", 0..9), 0..20), 1..24),
            asked in prop::collection::vec((0..24_usize, "[ab]{0,3}"), 1..60),
        ) {
            let texts: Vec<String> = maps
                .iter()
                .map(|members| {
                    let members: Vec<String> = members
                        .iter()
                        .map(|(key, value)| format!("{}:{value}", key_literal(key)))
                        .collect();
                    format!("{{{}}}", members.join(","))
                })
                .collect();
            let remembered = Maps::default();
            for (at, key) in asked {
                let Some(text) = texts.get(at) else { continue };
                let map = Node::Text(text.as_bytes());
                let (found, wanted) = (remembered.get(map, &key), map.get(&key));
                prop_assert_eq!(found.and_then(Node::as_int), wanted.and_then(Node::as_int), "{} of {}", key, text);
            }
        }
    }

    /// A key as JSON writes it, or with an escape.
    fn key_literal(key: &str) -> String {
        let key: String = key.chars().filter(|c| matches!(c, 'a' | 'b')).collect();
        if key.len() == 3 { format!("\"{}\"", key.replace('a', "\\u0061")) } else { format!("\"{key}\"") }
    }
}
