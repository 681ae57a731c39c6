//! Thread-safe store: handles for readers and writers.

use std::fmt;
use std::sync::Arc;
use std::sync::Condvar;
use std::sync::Mutex;
use std::sync::RwLock;
use std::sync::TryLockError;
use std::sync::atomic::Ordering;
use std::task::Waker;
use std::thread;
use std::thread::JoinHandle;

use crate::backend::Backend;
use crate::backend::DroppedWrite;
use crate::backend::Loaded;
use crate::backend::Memory;
use crate::completion::Completer;
use crate::completion::Pending;
use crate::entry::Entry;
use crate::entry::Event;
use crate::entry::Write;
use crate::error::BackendError;
use crate::error::ReadError;
use crate::error::WatchError;
use crate::error::WriteError;
use crate::key::Key;
use crate::key::Resource;
use crate::key::Revision;
use crate::key::Scope;
use crate::lock;
use crate::mvcc::Mvcc;
use crate::mvcc::Stats;
use crate::options::Options;
use crate::prepared::Outcome;
use crate::snapshot::At;
use crate::snapshot::Snapshot;
use crate::watch::Watch;
use crate::writer::Counters;
use crate::writer::Sequencer;
use crate::writer::Shared;

/// A store shared by threads and tasks. Clones are the same store; dropping the last one closes it.
///
/// ```
/// use settled_store::{At, Key, Options, Resource, Scope, Store, Write};
///
/// let store = Store::memory(Options::default());
/// let configmaps = Resource::new("configmaps")?;
/// let (snapshot, mut watch) = store.snapshot_and_watch(&configmaps, &Scope::All)?;
/// assert!(snapshot.is_empty());
///
/// // In a task: `store.write(...).await`.
/// let key = Key::new(&configmaps, "shop", "prices")?;
/// let created = store.write(Write::create(key.clone(), *b"1")).wait()?;
/// let updated = store.write(Write::update(key.clone(), created.revision(), *b"2")).wait()?;
/// assert!(store.write(Write::update(key.clone(), created.revision(), *b"3")).wait().is_err());
///
/// assert_eq!(watch.blocking_recv()?.revision(), created.revision());
/// assert_eq!(watch.blocking_recv()?.revision(), updated.revision());
/// assert_eq!(&**store.get(&key).ok_or("it was put")?.value(), b"2");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Store(Arc<Owner>);

struct Owner {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// State of the writer, used by the calling thread: see [`Options::in_place`].
    sequencer: Mutex<Option<Sequencer>>,
}

/// Statistics of the queues: counters, and gauges where noted.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct QueueStats {
    /// Gauge: number of waiting writes.
    pub waiting_writes: usize,
    /// Number of writes rejected because the queue was full.
    pub busy: u64,
    /// Number of stored batches.
    pub batches: u64,
    /// Number of failed batches.
    pub failed_batches: u64,
    /// The incomplete write that was dropped when the store was opened.
    pub dropped: Option<DroppedWrite>,
}

impl Store {
    /// An empty in-memory store.
    #[must_use]
    pub fn memory(options: Options) -> Self {
        Self::start(Mvcc::new(options.limits.clone()), Box::<Memory>::default(), options)
    }

    /// Opens the store of a backend.
    ///
    /// # Errors
    ///
    /// The backend cannot be read or is damaged.
    pub fn open(mut backend: Box<dyn Backend>, options: Options) -> Result<Self, BackendError> {
        let mut mvcc = Mvcc::new(options.limits.clone());
        backend.load(&mut |loaded| match loaded {
            Loaded::Record(record) => mvcc.replay(record),
            Loaded::Mark(mark) => mvcc.replayed(mark),
        })?;
        mvcc.advance((options.clock)());
        Ok(Self::start(mvcc, backend, options))
    }

    fn start(mvcc: Mvcc, backend: Box<dyn Backend>, mut options: Options) -> Self {
        // Otherwise a single batch could close watches that keep up.
        options.batch_writes = options.batch_writes.min(options.limits.watch_events / 2).max(1);
        let shared = Arc::new(Shared {
            mvcc: RwLock::new(mvcc),
            inbox: Mutex::default(),
            ready: Condvar::new(),
            waiting: Mutex::default(),
            counters: Counters::default(),
            failure: Mutex::default(),
            dropped: backend.dropped(),
            options,
        });
        let sequencer = Sequencer {
            shared: shared.clone(),
            backend,
            unresolved: None,
            broken: false,
            wakers: Vec::new(),
            ticked: (shared.options.clock)(),
        };
        if shared.options.in_place {
            return Self(Arc::new(Owner {
                shared,
                thread: Mutex::default(),
                sequencer: Mutex::new(Some(sequencer)),
            }));
        }
        let thread = thread::Builder::new().name("store".to_owned()).spawn(move || sequencer.run()).ok();
        if thread.is_none() {
            shared.stop();
        }
        Self(Arc::new(Owner { shared, thread: Mutex::new(thread), sequencer: Mutex::default() }))
    }

    /// An in-memory store with the objects of this one at a revision, without earlier history. Both are independent
    /// from then on. Objects are shared, so it costs a few pointers per resource.
    ///
    /// ```
    /// use settled_store::{At, Key, Options, Resource, Scope, Store, Write};
    ///
    /// let store = Store::memory(Options::default());
    /// let nodes = Resource::new("nodes")?;
    /// let first = store.write(Write::create(Key::new(&nodes, "", "a")?, *b"1")).wait()?;
    /// store.write(Write::create(Key::new(&nodes, "", "b")?, *b"2")).wait()?;
    ///
    /// let fork = store.fork(At::Exactly(first.revision()), Options::default())?;
    /// fork.write(Write::create(Key::new(&nodes, "", "c")?, *b"3")).wait()?;
    /// let count = |store: &Store| store.snapshot(&nodes, At::Latest).map(|nodes| nodes.len(&Scope::All));
    /// assert_eq!((count(&store)?, count(&fork)?), (2, 2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The revision is compacted or in the future.
    pub fn fork(&self, at: At, options: Options) -> Result<Self, ReadError> {
        let mvcc = self.0.shared.read().fork(at, options.limits.clone())?;
        Ok(Self::start(mvcc, Box::<Memory>::default(), options))
    }

    /// Starts a write. The result is its event, once it is stored and visible.
    pub fn write(&self, write: Write) -> Pending<Outcome> {
        let shared = &self.0.shared;
        if shared.options.in_place {
            return self.0.write_in_place(write);
        }
        let size = write.size();
        let mut inbox = lock(&shared.inbox);
        if inbox.stopping {
            return Pending::ready(Err(WriteError::Stopped));
        }
        let options = &shared.options;
        let full = inbox.bytes + size > options.waiting_bytes && !inbox.writes.is_empty();
        if full || inbox.writes.len() >= options.waiting_writes {
            shared.counters.busy.fetch_add(1, Ordering::Relaxed);
            return Pending::ready(Err(WriteError::Busy { waiting: inbox.writes.len() }));
        }
        let (completer, pending) = Completer::new(|| Err(WriteError::Stopped));
        inbox.bytes += size;
        inbox.writes.push_back((write, completer));
        let idle = std::mem::take(&mut inbox.idle);
        drop(inbox);
        if idle {
            shared.ready.notify_one();
        }
        pending
    }

    /// The current version of an object.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<Arc<Entry>> {
        self.0.shared.read().get(key)
    }

    /// The current version of an object, and the revision of the store at that time.
    #[must_use]
    pub fn get_at(&self, key: &Key) -> (Option<Arc<Entry>>, Revision) {
        let mvcc = self.0.shared.read();
        (mvcc.get(key), mvcc.current_revision())
    }

    /// Snapshot of a resource at one revision.
    ///
    /// # Errors
    ///
    /// The revision is compacted or in the future; [`Store::wait_for`] waits for it.
    pub fn snapshot(&self, resource: &Resource, at: At) -> Result<Snapshot, ReadError> {
        let plan = self.0.shared.read().plan(resource, at)?;
        Ok(plan.snapshot())
    }

    /// Watches a scope of a resource after a revision, by default the current one. A revision in the future is waited
    /// for.
    ///
    /// # Errors
    ///
    /// The revision is compacted, there are too many watches, or the store is closed.
    pub fn watch(
        &self,
        resource: &Resource,
        scope: &Scope,
        after: Option<Revision>,
    ) -> Result<Watch, WatchError> {
        let mut mvcc = self.0.shared.write();
        self.0.shared.check_open()?;
        mvcc.watch(resource, scope, after)
    }

    /// The current objects and a watch that continues after them, without a gap.
    ///
    /// # Errors
    ///
    /// There are too many watches, or the store is closed.
    pub fn snapshot_and_watch(
        &self,
        resource: &Resource,
        scope: &Scope,
    ) -> Result<(Snapshot, Watch), WatchError> {
        let mut mvcc = self.0.shared.write();
        self.0.shared.check_open()?;
        mvcc.snapshot_and_watch(resource, scope)
    }

    /// All writes after a revision, of all resources, in order.
    ///
    /// # Errors
    ///
    /// The revision is compacted.
    pub fn events_after(&self, revision: Revision) -> Result<Vec<Arc<Event>>, ReadError> {
        self.0.shared.read().events_after(revision)
    }

    /// Waits until the store has reached a revision. The caller sets the timeout.
    pub fn wait_for(&self, revision: Revision) -> Pending<Result<Revision, WatchError>> {
        let shared = &self.0.shared;
        let mut waiting = lock(&shared.waiting);
        let current = shared.read().current_revision();
        if current >= revision {
            return Pending::ready(Ok(current));
        }
        if let Err(error) = shared.check_open() {
            return Pending::ready(Err(error));
        }
        let limit = shared.options.waiting_readers;
        if waiting.values().map(Vec::len).sum::<usize>() >= limit {
            return Pending::ready(Err(WatchError::TooMany { limit }));
        }
        let (completer, pending) = Completer::new(|| Err(WatchError::Stopped));
        let others = waiting.entry(revision).or_default();
        others.retain(|other| !other.is_unwanted());
        others.push(completer);
        pending
    }

    /// The current revision, at least that of every acknowledged write.
    #[must_use]
    pub fn current_revision(&self) -> Revision {
        self.0.shared.read().current_revision()
    }

    /// The oldest revision that can be read and watched.
    #[must_use]
    pub fn compact_revision(&self) -> Revision {
        self.0.shared.read().compact_revision()
    }

    /// Compacts the history up to a revision, which stays readable.
    pub fn compact(&self, revision: Revision) {
        self.0.shared.write().compact(revision);
    }

    /// Makes the backend release unused space. Writes wait meanwhile.
    pub fn shrink(&self) -> Pending<Result<(), WriteError>> {
        let (completer, pending) = Completer::new(|| Err(WriteError::Stopped));
        if self.0.shared.options.in_place {
            self.0.do_in_place(|sequencer| sequencer.shrink(completer));
            return pending;
        }
        let mut inbox = lock(&self.0.shared.inbox);
        if !inbox.stopping {
            inbox.shrink.push(completer);
            self.0.shared.ready.notify_one();
        }
        pending
    }

    /// Statistics of the store.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.0.shared.read().stats()
    }

    /// Statistics of the queues.
    #[must_use]
    pub fn queue_stats(&self) -> QueueStats {
        let Shared { inbox, counters, dropped, .. } = &*self.0.shared;
        QueueStats {
            waiting_writes: lock(inbox).writes.len(),
            busy: counters.busy.load(Ordering::Relaxed),
            batches: counters.batches.load(Ordering::Relaxed),
            failed_batches: counters.failed.load(Ordering::Relaxed),
            dropped: *dropped,
        }
    }

    /// Error of the last failed batch.
    #[must_use]
    pub fn last_failure(&self) -> Option<Arc<BackendError>> {
        lock(&self.0.shared.failure).clone()
    }

    /// Writes the queue, ends all watches and closes the backend. Reads are still possible.
    pub fn close(&self) {
        self.0.close();
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("stats", &self.stats()).finish_non_exhaustive()
    }
}

impl Owner {
    fn write_in_place(&self, write: Write) -> Pending<Outcome> {
        let (completer, pending) = Completer::new(|| Err(WriteError::Stopped));
        self.do_in_place(|sequencer| {
            sequencer.tick_if_due();
            sequencer.process(vec![(write, completer)]);
        });
        Pending::ready(pending.wait())
    }

    fn do_in_place(&self, work: impl FnOnce(&mut Sequencer)) {
        let mut sequencer = lock(&self.sequencer);
        if let Some(sequencer) = sequencer.as_mut().filter(|_| self.shared.check_open().is_ok()) {
            work(sequencer);
        }
        let wakers = sequencer.as_mut().map(|sequencer| std::mem::take(&mut sequencer.wakers));
        drop(sequencer);
        // A woken task may hold the last clone of the store, and close it.
        wakers.into_iter().flatten().for_each(Waker::wake);
        if self.shared.check_open().is_err() {
            self.close_in_place();
        }
    }

    /// Closes a store without a writer thread; a writer in progress does it afterwards.
    fn close_in_place(&self) {
        let sequencer = match self.sequencer.try_lock() {
            Ok(mut sequencer) => sequencer.take(),
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner().take(),
            Err(TryLockError::WouldBlock) => None,
        };
        if let Some(sequencer) = sequencer {
            sequencer.end();
        }
    }

    fn close(&self) {
        lock(&self.shared.inbox).stopping = true;
        if self.shared.options.in_place {
            return self.close_in_place();
        }
        self.shared.ready.notify_one();
        let thread = lock(&self.thread).take();
        // A task woken by the thread may hold the last clone.
        if let Some(thread) = thread.filter(|handle| handle.thread().id() != thread::current().id()) {
            // If it panicked, its guard has already failed all pending writes.
            let _ = thread.join().is_ok();
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.close();
    }
}
