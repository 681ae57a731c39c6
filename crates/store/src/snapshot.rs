//! Snapshots of a resource at one revision, and their cache.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::Mutex;

use crate::entry::Entry;
use crate::entry::Event;
use crate::key::Resource;
use crate::key::Revision;
use crate::key::Scope;
use crate::lock;
use crate::map::Map;

/// Consistency of a read.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum At {
    /// The current revision.
    #[default]
    Latest,
    /// The current revision, if it is not older than this one.
    AtLeast(Revision),
    /// Exactly this revision.
    Exactly(Revision),
}

/// Cache of old snapshots, with a lock of its own, because they are created without the lock of the store.
pub(crate) type Remembered = Arc<Mutex<VecDeque<Snapshot>>>;

/// Number of cached snapshots, for the next pages of lists.
const REMEMBERED: usize = 32;
/// Number of undone events from which a snapshot is cached.
pub(crate) const REMEMBER_FROM: usize = 64;
/// A snapshot and the events to undo in it, which needs no lock.
pub(crate) struct Plan {
    pub(crate) snapshot: Snapshot,
    pub(crate) undo: Vec<Arc<Event>>,
    pub(crate) remembered: Remembered,
}

impl Plan {
    pub(crate) fn snapshot(self) -> Snapshot {
        let Self { mut snapshot, undo, remembered } = self;
        for event in undo.iter().rev() {
            match &event.previous {
                Some(entry) => snapshot.map.insert(entry.clone()),
                None => snapshot.map.remove(event.key.path()),
            };
        }
        if undo.len() >= REMEMBER_FROM {
            let mut remembered = lock(&remembered);
            if remembered.len() >= REMEMBERED {
                remembered.pop_front();
            }
            remembered.push_back(snapshot.clone());
        }
        snapshot
    }
}

/// The objects of one resource at one revision.
#[derive(Clone)]
pub struct Snapshot {
    pub(crate) resource: Resource,
    pub(crate) revision: Revision,
    pub(crate) map: Map,
}

/// A page of a list.
#[derive(Clone, Debug)]
pub struct Page {
    /// The objects, ordered by path.
    pub entries: Vec<Arc<Entry>>,
    /// Start of the next page; none for the last page.
    pub next: Option<String>,
    /// Number of objects after the page.
    pub remaining: usize,
}

impl Snapshot {
    /// The revision of the store, whether or not the resource was written at it.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The resource.
    #[must_use]
    pub fn resource(&self) -> &Resource {
        &self.resource
    }

    /// One object.
    #[must_use]
    pub fn get(&self, namespace: &str, name: &str) -> Option<&Arc<Entry>> {
        self.map.get(&crate::key::join(namespace, name))
    }

    /// Number of objects of a scope, without iterating them.
    #[must_use]
    pub fn len(&self, scope: &Scope) -> usize {
        let (start, end) = scope.paths();
        self.end_rank(end.as_deref()) - self.map.rank(&start)
    }

    /// Whether there are no objects.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.map.len() == 0
    }

    /// The objects of a scope, ordered by path.
    pub fn iter(&self, scope: &Scope) -> impl Iterator<Item = &Arc<Entry>> {
        let (start, end) = scope.paths();
        self.map
            .iter_from(&start)
            .take_while(move |entry| end.as_deref().is_none_or(|end| entry.key.path() < end))
    }

    /// At most `limit` objects (0: all) of a scope whose [path](crate::Key::path) is not less than `start`.
    ///
    /// ```
    /// use settled_store::{At, Key, Limits, Mvcc, Resource, Scope, Write};
    ///
    /// let mut store = Mvcc::new(Limits::default());
    /// let nodes = Resource::new("nodes")?;
    /// for name in ["a", "b", "c"] {
    ///     let prepared = store.prepare([Write::create(Key::new(&nodes, "", name)?, *b"{}")], 0);
    ///     store.apply(prepared);
    /// }
    /// let snapshot = store.snapshot(&nodes, At::Latest)?;
    /// let page = snapshot.page(&Scope::All, "", 2);
    /// assert_eq!((page.entries.len(), page.remaining), (2, 1));
    /// let page = snapshot.page(&Scope::All, &page.next.ok_or("there is more")?, 2);
    /// assert_eq!((page.entries[0].key().name(), page.next), ("c", None));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn page(&self, scope: &Scope, start: &str, limit: usize) -> Page {
        let (first, end) = scope.paths();
        let start = start.max(&first);
        let limit = if limit == 0 { usize::MAX } else { limit };
        let entries: Vec<_> = self
            .map
            .iter_from(start)
            .take_while(|entry| end.as_deref().is_none_or(|end| entry.key.path() < end))
            .take(limit)
            .cloned()
            .collect();
        let available = self.end_rank(end.as_deref()).saturating_sub(self.map.rank(start));
        let remaining = available.saturating_sub(entries.len());
        let last = entries.last().filter(|_| remaining > 0);
        // No path sorts between a path and the same with NUL appended.
        let next = last.map(|entry| format!("{}\0", entry.key.path()));
        Page { entries, next, remaining }
    }

    fn end_rank(&self, end: Option<&str>) -> usize {
        end.map_or_else(|| self.map.len(), |end| self.map.rank(end))
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{} ({} objects)", self.resource.as_str(), self.revision, self.map.len())
    }
}
