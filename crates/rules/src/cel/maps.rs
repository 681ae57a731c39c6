//! Cache of the members of maps that expressions have read, so that a list is not parsed again for each branch of a rule.

use std::cell::RefCell;
use std::ops::Range;

use kstatus::{Key, Node};

/// Maximum number of cached maps.
const MAPS: usize = 16;
/// Maximum number of members of a cached map.
const MEMBERS: usize = 16;

/// Cache for one evaluation.
#[derive(Debug, Default)]
pub(crate) struct Maps<'e>(RefCell<Read<'e>>);

#[derive(Debug, Default)]
struct Read<'e> {
    /// For each map its address and the range of its members; `None` if it has too many to be cached.
    maps: Vec<(*const u8, Option<Range<usize>>)>,
    members: Vec<(Key<'e>, Node<'e>)>,
}

impl<'e> Maps<'e> {
    /// As [`Node::get`].
    pub(crate) fn get(&self, map: Node<'e>, key: &str) -> Option<Node<'e>> {
        let Node::Text(text) = map else { return map.get(key) };
        let mut read = self.0.borrow_mut();
        let known = read.maps.iter().find(|(begin, _)| *begin == text.as_ptr());
        let known = match known {
            Some((_, members)) => members.clone(),
            None if read.maps.len() < MAPS => read.read(map, text.as_ptr()),
            None => None,
        };
        let Some(members) = known else { return map.get(key) };
        // Of two members with one key the last counts.
        read.members.get(members)?.iter().rfind(|(known, _)| known.is(key)).map(|(_, value)| *value)
    }
}

impl<'e> Read<'e> {
    fn read(&mut self, map: Node<'e>, begin: *const u8) -> Option<Range<usize>> {
        let start = self.members.len();
        self.members.extend(map.entries().take(MEMBERS + 1));
        let mut members = Some(start..self.members.len());
        if self.members.len() > start + MEMBERS {
            self.members.truncate(start);
            members = None;
        }
        self.maps.push((begin, members.clone()));
        members
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Lookups in any order, also beyond the limits of the cache.
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
        if key.len() == 3 { format!("\"{}\"", key.replace('a', "\\u0061")) } else { format!("\"{key}\"") }
    }
}
