//! Lines of watch events: the last ones are kept, for the other watchers.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use settled_store::Event;

/// How many bytes of lines are kept. The history keeps events for minutes; their lines are as large as the objects, and
/// soon nobody asks for them. The last line is always kept: all watchers of a large object send the same one.
const KEPT: usize = 512 * 1024;

/// The line of an event in the version it was first asked for in: encoded once for all watchers that are not far behind.
struct Line {
    api_version: String,
    line: Mutex<Option<Bytes>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The lines that were encoded last.
#[derive(Default)]
pub(crate) struct Lines(Mutex<Kept>);

/// Events with lines, and the sizes of the lines.
#[derive(Default)]
struct Kept {
    events: VecDeque<(Arc<Event>, usize)>,
    bytes: usize,
}

impl Lines {
    /// The line of an event in a version, encoded if it is not kept. None if it is kept in another version.
    pub(crate) fn of(
        &self,
        event: &Arc<Event>,
        api_version: &str,
        encode: impl FnOnce() -> Bytes,
    ) -> Option<Bytes> {
        let shared = line_of(event, api_version).filter(|shared| shared.api_version == api_version)?;
        let known = lock(&shared.line).clone();
        Some(known.unwrap_or_else(|| {
            let line = encode();
            *lock(&shared.line) = Some(line.clone());
            self.keep(event, line.len());
            line
        }))
    }

    /// A line was encoded: the oldest ones go.
    fn keep(&self, event: &Arc<Event>, bytes: usize) {
        let mut kept = lock(&self.0);
        kept.events.push_back((event.clone(), bytes));
        kept.bytes += bytes;
        while kept.bytes > KEPT
            && kept.events.len() > 1
            && let Some((event, bytes)) = kept.events.pop_front()
        {
            kept.bytes -= bytes;
            if let Some(line) = line_of(&event, "") {
                lock(&line.line).take();
            }
        }
    }
}

fn line_of<'a>(event: &'a Event, api_version: &str) -> Option<&'a Line> {
    event.attachment(|_| Line { api_version: api_version.to_owned(), line: Mutex::default() })
}

#[cfg(test)]
mod tests {
    use settled_store::{Key, Limits, Mvcc, Resource, Revision, Scope, Write};

    use super::*;

    #[test]
    fn a_line_is_encoded_once_until_many_others_were() {
        let resource = Resource::new("pods").unwrap();
        let mut store = Mvcc::new(Limits::default());
        let writes: Vec<Write> = ["a", "b", "c"]
            .map(|name| Write::put(Key::new(&resource, "default", name).unwrap(), *b"{}"))
            .into();
        let prepared = store.prepare(writes, 0);
        store.apply(prepared);
        let mut watch = store.watch(&resource, &Scope::All, Some(Revision(0))).unwrap();
        let mut next = || watch.try_recv().unwrap().unwrap();
        let (lines, encoded) = (Lines::default(), std::cell::Cell::new(0));
        let line = |event: &Arc<Event>, version: &str, bytes: usize| {
            lines.of(event, version, || {
                encoded.set(encoded.get() + 1);
                vec![b'x'; bytes].into()
            })
        };
        let [a, b, c] = [next(), next(), next()];
        for _ in 0..2 {
            assert_eq!(line(&a, "v1", 10).map(|line| line.len()), Some(10));
        }
        assert_eq!((line(&a, "v2", 10), encoded.get()), (None, 1));
        // This one displaces the first.
        line(&b, "v1", KEPT);
        line(&a, "v1", 10);
        assert_eq!(encoded.get(), 3);
        // One that is larger than all that is kept displaces all others, and is still shared.
        for _ in 0..2 {
            line(&c, "v1", KEPT + 1);
        }
        assert_eq!(encoded.get(), 4);
        let kept = lock(&lines.0);
        assert_eq!((kept.events.len(), kept.bytes), (1, KEPT + 1));
    }
}
