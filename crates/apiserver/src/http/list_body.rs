//! List bodies: stored objects joined chunk by chunk while they are sent.

use std::sync::Arc;

use bytes::Bytes;
use settled_store::Entry;

use crate::object::Head;

/// How much of a list is handed to the connection at once, about.
const CHUNK: usize = 128 * 1024;

/// A list whose objects are sent as they are stored.
pub(crate) struct ListBody {
    /// What goes before each object.
    pub(crate) head: Head,
    /// Everything before the first object.
    pub(crate) prologue: Option<Vec<u8>>,
    pub(crate) entries: std::vec::IntoIter<Arc<Entry>>,
    pub(crate) first: bool,
    pub(crate) done: bool,
}

impl ListBody {
    pub(crate) fn next_chunk(&mut self) -> Option<Bytes> {
        if self.done {
            return None;
        }
        let mut chunk = Vec::with_capacity(CHUNK + CHUNK / 8);
        chunk.append(&mut self.prologue.take().unwrap_or_default());
        for entry in self.entries.by_ref() {
            if !self.first {
                chunk.push(b',');
            }
            self.first = false;
            self.head.append(&mut chunk, entry.value(), entry.mod_revision().0);
            if chunk.len() >= CHUNK {
                return Some(chunk.into());
            }
        }
        self.done = true;
        chunk.extend_from_slice(b"]}\n");
        Some(chunk.into())
    }
}
