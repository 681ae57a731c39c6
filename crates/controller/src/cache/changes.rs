//! Changes of a cache for readers, merged per object while a reader is slow.

use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use futures::Stream;

use super::store::Entry;
use crate::object::ObjectKey;
use crate::predicate::EventKind;
use crate::resource_version::ResourceVersion;

/// A change of an object in a cache.
#[derive(Debug)]
pub struct Change<T> {
    /// Create, Update or Delete.
    pub kind: EventKind,
    /// Key of the object.
    pub key: ObjectKey,
    /// The object as last reported; for Create, the previous object of the same name, if any.
    pub old: Option<Arc<T>>,
    /// The current object; `None` if it was deleted or no longer matches.
    pub new: Option<Arc<T>>,
    /// Its resourceVersion; for a deleted object, the last known one.
    pub resource_version: ResourceVersion,
}

impl<T> Clone for Change<T> {
    fn clone(&self) -> Self {
        Self {
            kind: self.kind,
            key: self.key.clone(),
            old: self.old.clone(),
            new: self.new.clone(),
            resource_version: self.resource_version.clone(),
        }
    }
}

impl<T> Change<T> {
    pub(super) fn created(key: ObjectKey, entry: &Entry<T>) -> Self {
        Self {
            kind: EventKind::Create,
            key,
            old: None,
            new: Some(Arc::clone(&entry.value)),
            resource_version: entry.version.clone(),
        }
    }

    pub(super) fn deleted(entry: Entry<T>, resource_version: Option<ResourceVersion>) -> Self {
        Self {
            kind: EventKind::Delete,
            key: entry.key(),
            old: Some(entry.value),
            new: None,
            resource_version: resource_version.unwrap_or(entry.version),
        }
    }

    /// Merges this change with a later one; `None` if the reader has nothing to process.
    fn merge(self, next: Self) -> Option<Self> {
        let kind = match (self.kind, next.kind) {
            // The reader has never seen it.
            (EventKind::Create, EventKind::Delete) if self.old.is_none() => return None,
            (EventKind::Create, EventKind::Update) => EventKind::Create,
            (_, kind) => kind,
        };
        Some(Self { kind, old: self.old, ..next })
    }
}

/// Unread changes of a reader: at most one per object.
pub(super) struct Queue<T>(Mutex<Pending<T>>);

struct Pending<T> {
    /// Changes with their position in the order.
    changes: HashMap<ObjectKey, (u64, Change<T>)>,
    /// Keys by position. Not a queue: objects that are created and deleted unread are removed from the middle.
    order: BTreeMap<u64, ObjectKey>,
    /// The last position.
    last: u64,
    reader: Option<Waker>,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self(Mutex::new(Pending { changes: HashMap::new(), order: BTreeMap::new(), last: 0, reader: None }))
    }
}

impl<T> Queue<T> {
    fn lock(&self) -> MutexGuard<'_, Pending<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn push(&self, change: Change<T>) {
        let mut pending = self.lock();
        let key = change.key.clone();
        match pending.changes.remove(&key) {
            None => {
                pending.last += 1;
                let place = pending.last;
                pending.order.insert(place, key.clone());
                pending.changes.insert(key, (place, change));
            }
            Some((place, before)) => match before.merge(change) {
                Some(merged) => drop(pending.changes.insert(key, (place, merged))),
                None => drop(pending.order.remove(&place)),
            },
        }
        let reader = pending.reader.take();
        drop(pending);
        if let Some(reader) = reader {
            reader.wake();
        }
    }
}

/// The changes of a cache, as an infinite stream.
pub struct Changes<T> {
    queue: Arc<Queue<T>>,
    /// The watch ends when its last reader is dropped.
    _running: Arc<dyn Any + Send + Sync>,
}

impl<T> Changes<T> {
    pub(super) fn new(queue: Arc<Queue<T>>, running: Arc<dyn Any + Send + Sync>) -> Self {
        Self { queue, _running: running }
    }

    /// Number of objects with unread changes.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.queue.lock().changes.len()
    }
}

impl<T> Stream for Changes<T> {
    type Item = Change<T>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Change<T>>> {
        let mut pending = self.queue.lock();
        let next = pending.order.pop_first();
        if let Some((_, change)) = next.and_then(|(_, key)| pending.changes.remove(&key)) {
            return Poll::Ready(Some(change));
        }
        pending.reader = Some(context.waker().clone());
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt as _, StreamExt as _};

    use super::*;

    fn change(kind: EventKind, old: Option<u8>, new: Option<u8>) -> Change<u8> {
        change_of("a", kind, old, new)
    }

    fn change_of(name: &str, kind: EventKind, old: Option<u8>, new: Option<u8>) -> Change<u8> {
        let resource_version = ResourceVersion::new("1");
        let key = ObjectKey::new("n", name);
        Change { kind, key, old: old.map(Arc::new), new: new.map(Arc::new), resource_version }
    }

    #[test]
    fn changes_that_were_not_read_are_merged() {
        use EventKind::{Create, Delete, Update};
        for (changes, expected) in [
            (&[(Create, None, Some(1)), (Update, Some(1), Some(2))][..], Some((Create, None, Some(2)))),
            (&[(Create, None, Some(1)), (Delete, Some(1), None)], None),
            (&[(Update, Some(1), Some(2)), (Update, Some(2), Some(3))], Some((Update, Some(1), Some(3)))),
            (&[(Update, Some(1), Some(2)), (Delete, Some(2), None)], Some((Delete, Some(1), None))),
            (&[(Delete, Some(1), None), (Create, None, Some(2))], Some((Create, Some(1), Some(2)))),
            (
                &[(Delete, Some(1), None), (Create, None, Some(2)), (Delete, Some(2), None)],
                Some((Delete, Some(1), None)),
            ),
        ] {
            let queue = Arc::new(Queue::default());
            for (kind, old, new) in changes {
                queue.push(change(*kind, *old, *new));
            }
            let mut reader = Changes::new(queue, Arc::new(()));
            let read = reader.next().now_or_never().flatten();
            let read =
                read.map(|change| (change.kind, change.old.map(|old| *old), change.new.map(|new| *new)));
            assert_eq!(read, expected, "{changes:?}");
            assert!(reader.next().now_or_never().is_none());
            assert_eq!(reader.pending(), 0);
        }
    }

    /// A linear search for each object would take minutes.
    #[test]
    fn unread_creations_and_deletions_of_many_objects_cancel_out() {
        let queue = Arc::new(Queue::default());
        let names: Vec<String> = (0..100_000).map(|index| index.to_string()).collect();
        for name in &names {
            queue.push(change_of(name, EventKind::Create, None, Some(1)));
        }
        for name in names[1..].iter().rev() {
            queue.push(change_of(name, EventKind::Delete, Some(1), None));
        }
        let pending = queue.lock();
        assert_eq!((pending.order.len(), pending.changes.len()), (1, 1));
        drop(pending);
        let mut reader = Changes::new(queue, Arc::new(()));
        let read = reader.next().now_or_never().flatten().unwrap();
        assert_eq!((&*read.key.name, read.kind), ("0", EventKind::Create));
        assert!(reader.next().now_or_never().is_none());
    }
}
