//! MVCC store: objects, history and watches in memory, without clock, threads or files.

use std::collections::HashMap;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::backend::Mark;
use crate::backend::Record;
use crate::entry::Entry;
use crate::entry::Event;
use crate::entry::Expect;
use crate::entry::Write;
use crate::error::ReadError;
use crate::error::ReplayError;
use crate::error::WatchError;
use crate::error::WriteError;
use crate::key::Key;
use crate::key::Resource;
use crate::key::Revision;
use crate::key::Scope;
use crate::lock;
use crate::map::Map;
use crate::objects::Objects;
use crate::prepared::Applied;
use crate::prepared::Prepared;
use crate::snapshot::At;
use crate::snapshot::Plan;
use crate::snapshot::REMEMBER_FROM;
use crate::snapshot::Remembered;
use crate::snapshot::Snapshot;
use crate::watch::Published;
use crate::watch::Queue;
use crate::watch::Watch;
use crate::watch::Watchers;

/// Limits of the store's memory.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Limits {
    /// Maximum size of a value, in bytes.
    pub value_bytes: usize,
    /// Maximum total size of keys and values, in bytes. Writes that would exceed it fail; deletions are still possible.
    pub live_bytes: usize,
    /// Maximum number of events in the history window.
    pub history_events: usize,
    /// Maximum size of the history window in bytes.
    pub history_bytes: usize,
    /// Maximum age of events in the history window.
    pub history_age: Duration,
    /// Maximum number of events in the queue of a watch, after which it is closed. The events are those of the history
    /// window, so each costs a pointer; a client that creates thousands of objects at once must not lose its watch
    /// because of a moment without processor time.
    pub watch_events: usize,
    /// Maximum size of the queue of a watch in bytes, after which it is closed.
    pub watch_bytes: usize,
    /// Maximum number of watches.
    pub watchers: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            value_bytes: 3 << 20,
            live_bytes: 4 << 30,
            history_events: 100_000,
            history_bytes: 64 << 20,
            history_age: Duration::from_secs(5 * 60),
            watch_events: 16_384,
            watch_bytes: 32 << 20,
            watchers: 100_000,
        }
    }
}

/// Statistics of the store: counters, and gauges where noted.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// The current revision.
    pub current_revision: Revision,
    /// The oldest readable revision.
    pub compact_revision: Revision,
    /// Gauge: number of objects.
    pub objects: usize,
    /// Gauge: size of their keys and values in bytes.
    pub live_bytes: usize,
    /// Gauge: number of events in the history window.
    pub history_events: usize,
    /// Gauge: size of the history window in bytes.
    pub history_bytes: usize,
    /// Gauge: number of watches. Dropped ones count until they are detected.
    pub watchers: usize,
    /// Number of applied writes.
    pub written: u64,
    /// Number of conflicts.
    pub conflicts: u64,
    /// Number of writes rejected because of a limit.
    pub refused: u64,
    /// Number of watches closed because they were slow.
    pub watchers_closed: u64,
    /// Number of watches rejected because there were too many.
    pub watchers_refused: u64,
    /// Number of events removed from the history window.
    pub events_compacted: u64,
}

/// In-memory state: objects, history window and watches.
///
/// Writes are prepared (decided and assigned a revision), stored by the caller, and applied. Readers see them only
/// after that.
///
/// ```
/// use settled_store::{At, Key, Limits, Mvcc, Resource, Scope, Write};
///
/// let mut store = Mvcc::new(Limits::default());
/// let configmaps = Resource::new("configmaps")?;
/// let mut watch = store.watch(&configmaps, &Scope::All, None)?;
///
/// let key = Key::new(&configmaps, "shop", "prices")?;
/// let prepared = store.prepare([Write::create(key.clone(), *b"1"), Write::create(key, *b"2")], 0);
/// let applied = store.apply(prepared);
/// assert!(applied.outcomes[0].is_ok() && applied.outcomes[1].is_err());
///
/// assert_eq!(store.snapshot(&configmaps, At::Latest)?.len(&Scope::All), 1);
/// assert_eq!(watch.try_recv()?.map(|event| event.revision()), Some(store.current_revision()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Mvcc {
    limits: Limits,
    current: Revision,
    compact: Revision,
    /// The last assigned revision. It exceeds the current one after failed batches.
    assigned: Revision,
    published: Arc<AtomicU64>,
    tables: HashMap<Resource, Table>,
    history: VecDeque<Arc<Event>>,
    /// Obsolete records that the backend still has, with their sizes.
    discard: VecDeque<(Revision, usize)>,
    remembered: Remembered,
    /// The last replayed deletion whose object was not replayed.
    orphan: Revision,
    stats: Stats,
}

/// One resource.
#[derive(Default)]
struct Table {
    objects: Objects,
    /// The resource's part of the history.
    history: VecDeque<Arc<Event>>,
    watchers: Watchers,
}

impl Table {
    fn is_unused(&self) -> bool {
        self.history.is_empty() && self.objects.map().len() == 0 && self.watchers.is_empty()
    }
}

/// Maximum number of records that a batch discards. A write makes at most two records obsolete, so the backend catches
/// up.
const DISCARDS: usize = 1024;

impl Mvcc {
    /// An empty store.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            current: Revision(0),
            compact: Revision(0),
            assigned: Revision(0),
            published: Arc::default(),
            tables: HashMap::new(),
            history: VecDeque::new(),
            discard: VecDeque::new(),
            remembered: Remembered::default(),
            orphan: Revision(0),
            stats: Stats::default(),
        }
    }

    /// A store with the objects of this one at a revision, without earlier history.
    ///
    /// # Errors
    ///
    /// The revision is compacted or in the future.
    pub fn fork(&self, at: At, limits: Limits) -> Result<Self, ReadError> {
        let mut fork = Self::new(limits);
        fork.current = self.revision(at)?;
        for resource in self.tables.keys() {
            let snapshot = self.snapshot(resource, at)?;
            for entry in snapshot.map.iter_from("") {
                fork.stats.objects += 1;
                fork.stats.live_bytes += entry.key.len() + entry.value.len();
            }
            let table = Table { objects: snapshot.map.into(), ..Table::default() };
            if !table.is_unused() {
                fork.tables.insert(resource.clone(), table);
            }
        }
        fork.compact = fork.current;
        fork.assigned = fork.current;
        fork.published.store(fork.current.0, Ordering::Release);
        Ok(fork)
    }

    /// All writes after a revision, in order.
    ///
    /// # Errors
    ///
    /// The revision is compacted.
    pub fn events_after(&self, revision: Revision) -> Result<Vec<Arc<Event>>, ReadError> {
        if revision < self.compact {
            return Err(ReadError::Compacted { requested: revision, compact_revision: self.compact });
        }
        let start = self.history.partition_point(|event| event.revision <= revision);
        Ok(self.history.range(start..).cloned().collect())
    }

    /// The newest revision.
    #[must_use]
    pub fn current_revision(&self) -> Revision {
        self.current
    }

    /// The oldest revision that can be read and watched from.
    #[must_use]
    pub fn compact_revision(&self) -> Revision {
        self.compact
    }

    /// Statistics.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats {
            current_revision: self.current,
            compact_revision: self.compact,
            history_events: self.history.len(),
            ..self.stats
        }
    }

    /// Replays a stored record or one of another store. Records are passed in the order of their revisions, followed by
    /// [`Mvcc::replayed`].
    ///
    /// # Errors
    ///
    /// The record is inconsistent with earlier ones.
    pub fn replay(&mut self, record: Record) -> Result<(), ReplayError> {
        if record.revision <= self.current {
            return Err(ReplayError::Order { revision: record.revision, last: self.current });
        }
        if record.create_revision > record.revision {
            return Err(ReplayError::CreatedLater {
                revision: record.revision,
                create_revision: record.create_revision,
            });
        }
        let previous = self.get(&record.key);
        if let Some(previous) = &previous
            && record.create_revision != previous.create_revision
        {
            return Err(ReplayError::OtherObject {
                revision: record.revision,
                previous: previous.mod_revision,
            });
        }
        if previous.is_none() && record.value.is_none() {
            // The deleted object's record has been discarded; the deletion is discarded with the next batch.
            self.discard.push_back((record.revision, record.key.len()));
            self.orphan = record.revision;
            self.current = record.revision;
            return Ok(());
        }
        let key = previous.as_ref().map_or_else(|| self.intern(&record.key), |entry| entry.key.clone());
        let entry = record.value.map(|value| {
            let attachment = OnceLock::new();
            Arc::new(Entry {
                key: key.clone(),
                value,
                create_revision: record.create_revision,
                mod_revision: record.revision,
                attachment,
            })
        });
        let size = |entry: &Option<Arc<Entry>>| entry.as_ref().map_or(0, |e| key.len() + e.value.len());
        self.stats.live_bytes = self.stats.live_bytes + size(&entry) - size(&previous);
        let event = Arc::new(Event {
            revision: record.revision,
            time: record.time,
            key,
            entry,
            previous,
            attachment: OnceLock::new(),
        });
        let mut published = Published::default();
        self.push(&[event], &mut published);
        self.bound();
        Ok(())
    }

    /// Sets the checkpoint after the last replayed record.
    ///
    /// # Errors
    ///
    /// The checkpoint is inconsistent with the records: some are missing.
    pub fn replayed(&mut self, mark: Mark) -> Result<(), ReplayError> {
        if mark.last < self.current || mark.compact > mark.last {
            return Err(ReplayError::LastRevision { mark: mark.last, last: self.current });
        }
        if mark.objects != self.stats.objects as u64 {
            return Err(ReplayError::Objects { written: mark.objects, found: self.stats.objects as u64 });
        }
        self.compact(mark.compact.min(self.current));
        // Only compacted records may lack their predecessor.
        let torn = self.history.iter().find(|event| match (&event.entry, &event.previous) {
            (Some(entry), None) => entry.create_revision != event.revision,
            _ => false,
        });
        if let Some(revision) =
            torn.map(|event| event.revision).or_else(|| (self.orphan > mark.compact).then_some(self.orphan))
        {
            return Err(ReplayError::Missing(revision));
        }
        // Revisions without a record: discarded or lost.
        self.current = mark.last;
        self.assigned = mark.last;
        self.compact = self.compact.max(mark.compact);
        self.published.store(self.current.0, Ordering::Release);
        Ok(())
    }

    /// Prepares writes in order, at this time (in milliseconds, by the caller's clock). Call [`Mvcc::apply`] or
    /// [`Mvcc::abandon`] before preparing further writes.
    #[must_use]
    pub fn prepare(&self, writes: impl IntoIterator<Item = Write>, now: u64) -> Prepared {
        let time = self.history.back().map_or(now, |event| event.time.max(now));
        let mut overlay: HashMap<Key, Option<Arc<Entry>>> = HashMap::new();
        let mut live_bytes = self.stats.live_bytes;
        let mut objects = self.stats.objects as u64;
        let mut last = self.assigned;
        let mut written = 0;
        let outcomes = writes
            .into_iter()
            .map(|write| {
                let previous = overlay.get(&write.key).cloned().unwrap_or_else(|| self.get(&write.key));
                let conflict = match write.expect {
                    // A deletion needs an object.
                    Expect::Any => write.value.is_none() && previous.is_none(),
                    Expect::Absent => write.value.is_none() || previous.is_some(),
                    Expect::Revision(revision) => previous.as_ref().map(|e| e.mod_revision) != Some(revision),
                };
                if conflict {
                    return Err(WriteError::Conflict { current: previous });
                }
                let key_size = write.key.len();
                let before = previous.as_ref().map_or(0, |entry| key_size + entry.value.len());
                let after = write.value.as_ref().map_or(0, |value| key_size + value.len());
                if let Some(value) = &write.value
                    && value.len() > self.limits.value_bytes
                {
                    let limit = self.limits.value_bytes;
                    return Err(WriteError::TooLarge { size: value.len(), limit });
                }
                let size = live_bytes - before + after;
                if after > before && size > self.limits.live_bytes {
                    return Err(WriteError::Full { size, limit: self.limits.live_bytes });
                }
                live_bytes = size;
                objects = objects + u64::from(write.value.is_some()) - u64::from(previous.is_some());
                last.0 += 1;
                written += 1;
                let key =
                    previous.as_ref().map_or_else(|| self.intern(&write.key), |entry| entry.key.clone());
                let entry = write.value.map(|value| {
                    Arc::new(Entry {
                        key: key.clone(),
                        value,
                        create_revision: previous.as_ref().map_or(last, |entry| entry.create_revision),
                        mod_revision: last,
                        attachment: write.attachment.map_or_else(OnceLock::new, OnceLock::from),
                    })
                });
                overlay.insert(key.clone(), entry.clone());
                let attachment = OnceLock::new();
                Ok(Arc::new(Event { revision: last, time, key, entry, previous, attachment }))
            })
            .collect();
        // Without a write, the checkpoint stays at a published revision.
        let last = if written == 0 { self.current } else { last };
        let discards = self.discard.iter().take(DISCARDS + 2 * written);
        let discard_bytes = discards.clone().map(|(_, size)| size).sum();
        let discard = discards.map(|(revision, _)| *revision).collect();
        let mark = Mark { last, compact: self.compact, objects };
        Prepared { outcomes, discard, discard_bytes, mark, live_bytes, written }
    }

    /// Applies prepared writes, and publishes them to watches.
    pub fn apply(&mut self, prepared: Prepared) -> Applied {
        self.discard.drain(..prepared.discard.len().min(self.discard.len()));
        for outcome in &prepared.outcomes {
            match outcome {
                Ok(_) => self.stats.written += 1,
                Err(WriteError::Conflict { .. }) => self.stats.conflicts += 1,
                Err(_) => self.stats.refused += 1,
            }
        }
        let events: Vec<_> = prepared.outcomes.iter().flatten().cloned().collect();
        let mut published = Published::default();
        self.stats.live_bytes = prepared.live_bytes;
        self.push(&events, &mut published);
        self.assigned = self.assigned.max(prepared.mark.last);
        self.published.store(self.current.0, Ordering::Release);
        self.stats.watchers -= published.left;
        self.stats.watchers_closed += published.slow as u64;
        self.bound();
        Applied { outcomes: prepared.outcomes, wakers: published.wakers }
    }

    /// Discards prepared writes that were not stored. Their revisions are not reused.
    pub fn abandon(&mut self, prepared: Prepared) {
        self.assigned = self.assigned.max(prepared.mark.last);
    }

    /// Expires old history, and detects dropped watches. Call it periodically.
    pub fn advance(&mut self, now: u64) {
        self.advance_history(now);
        self.drop_stale();
        let mut left = 0;
        self.tables.retain(|_, table| {
            left += table.watchers.prune();
            !table.is_unused()
        });
        self.stats.watchers -= left;
    }

    /// Expires old history. Free if there is none.
    pub(crate) fn advance_history(&mut self, now: u64) {
        let age = u64::try_from(self.limits.history_age.as_millis()).unwrap_or(u64::MAX);
        while self.history.front().is_some_and(|event| event.time.saturating_add(age) < now) {
            self.forget();
        }
    }

    /// Compacts the history up to a revision, which stays readable. Greater revisions mean the current one.
    pub fn compact(&mut self, revision: Revision) {
        while self.history.front().is_some_and(|event| event.revision <= revision) {
            self.forget();
        }
        self.compact = self.compact.max(revision.min(self.current));
        self.drop_stale();
    }

    /// The current version of an object.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<Arc<Entry>> {
        self.tables.get(key.resource())?.objects.get(key.path()).cloned()
    }

    /// Snapshot of a resource at one revision.
    ///
    /// # Errors
    ///
    /// The revision is compacted or in the future.
    pub fn snapshot(&self, resource: &Resource, at: At) -> Result<Snapshot, ReadError> {
        Ok(self.plan(resource, at)?.snapshot())
    }

    /// Resolves the consistency to a revision.
    fn revision(&self, at: At) -> Result<Revision, ReadError> {
        match at {
            At::Latest => Ok(self.current),
            At::AtLeast(requested) | At::Exactly(requested) if requested > self.current => {
                Err(ReadError::Future { requested, current_revision: self.current })
            }
            At::AtLeast(_) => Ok(self.current),
            At::Exactly(requested) if requested < self.compact => {
                Err(ReadError::Compacted { requested, compact_revision: self.compact })
            }
            At::Exactly(requested) => Ok(requested),
        }
    }

    /// Data for creating a snapshot without the lock.
    pub(crate) fn plan(&self, resource: &Resource, at: At) -> Result<Plan, ReadError> {
        let revision = self.revision(at)?;
        let plan = |map: Map, undo| {
            let snapshot = Snapshot { resource: resource.clone(), revision, map };
            Plan { snapshot, undo, remembered: self.remembered.clone() }
        };
        let Some(table) = self.tables.get(resource) else {
            return Ok(plan(Map::default(), Vec::new()));
        };
        let start = table.history.partition_point(|event| event.revision <= revision);
        let undo = table.history.range(start..);
        if undo.len() >= REMEMBER_FROM {
            let remembered = lock(&self.remembered);
            if let Some(snapshot) =
                remembered.iter().find(|s| s.revision == revision && s.resource == *resource)
            {
                return Ok(plan(snapshot.map.clone(), Vec::new()));
            }
        }
        Ok(plan(table.objects.map().clone(), undo.cloned().collect()))
    }

    /// Watches a scope of a resource after a revision, by default the current one. A revision in the future is waited
    /// for.
    ///
    /// # Errors
    ///
    /// The revision is compacted, or there are too many watches.
    pub fn watch(
        &mut self,
        resource: &Resource,
        scope: &Scope,
        after: Option<Revision>,
    ) -> Result<Watch, WatchError> {
        let from = after.unwrap_or(self.current);
        if from < self.compact {
            return Err(ReadError::Compacted { requested: from, compact_revision: self.compact }.into());
        }
        if self.stats.watchers >= self.limits.watchers {
            let left: usize = self.tables.values_mut().map(|table| table.watchers.prune()).sum();
            self.stats.watchers -= left;
            if self.stats.watchers >= self.limits.watchers {
                self.stats.watchers_refused += 1;
                return Err(WatchError::TooMany { limit: self.limits.watchers });
            }
        }
        let table = self.tables.entry(resource.clone()).or_default();
        let start = table.history.partition_point(|event| event.revision <= from);
        let backlog = table.history.range(start..).filter(|event| scope.holds(&event.key)).cloned();
        let backlog = backlog.collect();
        let queue = Queue::new(from, self.limits.watch_events, self.limits.watch_bytes);
        let left = table.watchers.add(scope, queue.clone());
        self.stats.watchers = self.stats.watchers + 1 - left;
        Ok(Watch::new(backlog, queue, from, self.published.clone()))
    }

    /// The current objects and a watch that continues after them.
    ///
    /// # Errors
    ///
    /// There are too many watches.
    pub fn snapshot_and_watch(
        &mut self,
        resource: &Resource,
        scope: &Scope,
    ) -> Result<(Snapshot, Watch), WatchError> {
        let snapshot = self.snapshot(resource, At::Latest)?;
        let watch = self.watch(resource, scope, Some(snapshot.revision))?;
        Ok((snapshot, watch))
    }

    /// Ends all watches after their queued events.
    pub fn stop(&mut self) -> Applied {
        let mut applied = Applied::default();
        for table in self.tables.values_mut() {
            table.watchers.stop(&mut applied.wakers);
        }
        applied
    }

    /// Interns the resource of the key.
    fn intern(&self, key: &Key) -> Key {
        match self.tables.get_key_value(key.resource()) {
            Some((resource, _)) => key.with_resource(resource),
            None => key.clone(),
        }
    }

    fn push(&mut self, events: &[Arc<Event>], published: &mut Published) {
        let mut by_table: HashMap<&Resource, Vec<Arc<Event>>> = HashMap::new();
        for event in events {
            if !self.tables.contains_key(event.key.resource()) {
                self.tables.insert(event.key.resource().clone(), Table::default());
            }
            let Some(table) = self.tables.get_mut(event.key.resource()) else { continue };
            match &event.entry {
                Some(entry) => table.objects.insert(entry.clone()),
                None => table.objects.remove(event.key.path()),
            }
            if event.previous.is_none() {
                self.stats.objects += 1;
            }
            if event.entry.is_none() {
                self.stats.objects -= 1;
            }
            table.history.push_back(event.clone());
            self.history.push_back(event.clone());
            self.stats.history_bytes += event.size();
            self.current = event.revision;
            by_table.entry(event.key.resource()).or_default().push(event.clone());
        }
        for (resource, events) in by_table {
            if let Some(table) = self.tables.get_mut(resource) {
                table.watchers.publish(&events, published);
            }
        }
    }

    /// Trims the history window to its limits.
    fn bound(&mut self) {
        while self.history.len() > self.limits.history_events
            || self.stats.history_bytes > self.limits.history_bytes
        {
            self.forget();
        }
    }

    /// Removes the oldest event.
    fn forget(&mut self) {
        let Some(event) = self.history.pop_front() else { return };
        self.compact = event.revision;
        self.stats.history_bytes -= event.size();
        self.stats.events_compacted += 1;
        let key = event.key.len();
        self.discard
            .extend(event.previous.as_ref().map(|entry| (entry.mod_revision, key + entry.value.len())));
        if event.entry.is_none() {
            self.discard.push_back((event.revision, key));
        }
        if let Some(table) = self.tables.get_mut(event.key.resource()) {
            table.history.pop_front();
            if table.is_unused() {
                self.tables.remove(event.key.resource());
            }
        }
    }

    fn drop_stale(&self) {
        lock(&self.remembered).retain(|snapshot| snapshot.revision >= self.compact);
    }
}

impl fmt::Debug for Mvcc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mvcc").field("stats", &self.stats()).finish_non_exhaustive()
    }
}
