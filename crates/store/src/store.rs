//! Thread-safe store: the writer thread, and locks for readers.

use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::Condvar;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::RwLock;
use std::sync::RwLockReadGuard;
use std::sync::RwLockWriteGuard;
use std::sync::TryLockError;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::task::Waker;
use std::thread;
use std::thread::JoinHandle;
use std::time::Duration;
use std::time::SystemTime;

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
use crate::mvcc::Applied;
use crate::mvcc::At;
use crate::mvcc::Limits;
use crate::mvcc::Mvcc;
use crate::mvcc::Outcome;
use crate::mvcc::Prepared;
use crate::mvcc::Snapshot;
use crate::mvcc::Stats;
use crate::watch::Watch;

/// Options of a [`Store`].
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    /// Limits of the store's memory.
    pub limits: Limits,
    /// Maximum number of writes per batch, at most half of [`Limits::watch_events`].
    pub batch_writes: usize,
    /// Maximum size of a batch in bytes, unless a single write is larger.
    pub batch_bytes: usize,
    /// Maximum number of waiting writes.
    pub waiting_writes: usize,
    /// Maximum size of waiting writes in bytes.
    pub waiting_bytes: usize,
    /// Maximum number of tasks that wait for revisions.
    pub waiting_readers: usize,
    /// Interval of history compaction while the store is idle.
    pub tick: Duration,
    /// The time in milliseconds. It is stored with the writes, so it should be comparable after a restart.
    pub clock: Arc<dyn Fn() -> u64 + Send + Sync>,
    /// Writes are done by the thread that calls [`Store::write`], before it returns, without a writer thread: for tests
    /// in virtual time, and for thousands of stores.
    pub in_place: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            batch_writes: 256,
            batch_bytes: 8 << 20,
            waiting_writes: 4096,
            waiting_bytes: 64 << 20,
            waiting_readers: 100_000,
            tick: Duration::from_secs(1),
            clock: Arc::new(|| {
                let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
                u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
            }),
            in_place: false,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("limits", &self.limits).finish_non_exhaustive()
    }
}

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

struct Shared {
    mvcc: RwLock<Mvcc>,
    inbox: Mutex<Inbox>,
    ready: Condvar,
    waiting: Mutex<BTreeMap<Revision, Vec<Completer<Reached>>>>,
    counters: Counters,
    failure: Mutex<Option<Arc<BackendError>>>,
    dropped: Option<DroppedWrite>,
    options: Options,
}

#[derive(Default)]
struct Counters {
    busy: AtomicU64,
    batches: AtomicU64,
    failed: AtomicU64,
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

#[derive(Default)]
struct Inbox {
    writes: VecDeque<Waiting>,
    bytes: usize,
    shrink: Vec<Completer<Stored>>,
    stopping: bool,
    /// Whether the thread waits for work. Waking it costs a system call.
    idle: bool,
}

/// Next step of the writer thread.
struct Work {
    writes: Vec<Waiting>,
    shrink: Vec<Completer<Stored>>,
    end: bool,
}

type Waiting = (Write, Completer<Outcome>);
type Reached = Result<Revision, WatchError>;
type Stored = Result<(), WriteError>;

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

impl Shared {
    fn read(&self) -> RwLockReadGuard<'_, Mvcc> {
        self.mvcc.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Mvcc> {
        self.mvcc.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn check_open(&self) -> Result<(), WatchError> {
        if lock(&self.inbox).stopping { Err(WatchError::Stopped) } else { Ok(()) }
    }

    /// Takes the next writes, or none after the idle interval. `None` after close.
    fn take(&self) -> Work {
        let inbox = lock(&self.inbox);
        let idle = |inbox: &mut Inbox| {
            inbox.idle = inbox.writes.is_empty() && inbox.shrink.is_empty() && !inbox.stopping;
            inbox.idle
        };
        let (mut inbox, _) = self
            .ready
            .wait_timeout_while(inbox, self.options.tick, idle)
            .unwrap_or_else(PoisonError::into_inner);
        inbox.idle = false;
        let mut bytes = 0;
        let fits = |(write, _): &&Waiting| {
            bytes += write.size();
            bytes <= self.options.batch_bytes
        };
        let count = inbox.writes.iter().take(self.options.batch_writes).take_while(fits).count();
        let count = count.max(1).min(inbox.writes.len());
        let writes: Vec<_> = inbox.writes.drain(..count).collect();
        inbox.bytes -= writes.iter().map(|(write, _)| write.size()).sum::<usize>();
        let shrink = std::mem::take(&mut inbox.shrink);
        let end = inbox.stopping && inbox.writes.is_empty();
        Work { writes, shrink, end }
    }

    /// Completes waits for revisions.
    fn announce(&self, current: Revision) {
        let reached = {
            let mut waiting = lock(&self.waiting);
            let later = waiting.split_off(&Revision(current.0.saturating_add(1)));
            std::mem::replace(&mut *waiting, later)
        };
        for completer in reached.into_values().flatten() {
            completer.complete(Ok(current));
        }
    }

    fn stop(&self) {
        let waiting = {
            let mut inbox = lock(&self.inbox);
            inbox.stopping = true;
            inbox.bytes = 0;
            (std::mem::take(&mut inbox.writes), std::mem::take(&mut inbox.shrink))
        };
        // Their results are sent without the lock.
        drop(waiting);
        let applied = self.write().stop();
        for waker in applied.wakers {
            waker.wake();
        }
        let waiting = std::mem::take(&mut *lock(&self.waiting));
        drop(waiting);
    }
}

/// The writer. It runs on one thread at a time.
struct Sequencer {
    shared: Arc<Shared>,
    backend: Box<dyn Backend>,
    /// A batch of unknown state.
    unresolved: Option<Prepared>,
    /// The backend has failed and has not recovered.
    broken: bool,
    /// Tasks to wake after the current work, without a writer thread.
    wakers: Vec<Waker>,
    /// Time of the last [`Sequencer::tick`], without a writer thread.
    ticked: u64,
}

impl Drop for Sequencer {
    fn drop(&mut self) {
        // Whatever ended the thread, no task must wait forever.
        self.shared.stop();
    }
}

impl Sequencer {
    fn run(mut self) {
        loop {
            let Work { writes, shrink, end } = self.shared.take();
            if writes.is_empty() {
                self.tick();
            } else {
                self.process(writes);
            }
            for completer in shrink {
                self.shrink(completer);
            }
            if end {
                break;
            }
        }
        self.end();
    }

    fn shrink(&mut self, completer: Completer<Stored>) {
        let result = self.backend.shrink().map_err(|e| WriteError::Backend(Arc::new(e)));
        self.broken |= result.is_err();
        completer.complete(result);
    }

    fn end(mut self) {
        if !self.broken {
            // There is no receiver for the error. The next start detects the unclean shutdown.
            let _ = self.backend.close().is_ok();
        }
    }

    fn now(&self) -> u64 {
        (self.shared.options.clock)()
    }

    fn tick_if_due(&mut self) {
        let tick = u64::try_from(self.shared.options.tick.as_millis()).unwrap_or(u64::MAX);
        if self.now().saturating_sub(self.ticked) >= tick {
            self.ticked = self.now();
            self.tick();
        }
    }

    fn tick(&mut self) {
        let now = self.now();
        self.shared.write().advance(now);
        self.process(Vec::new());
        if !self.broken {
            self.broken = self.backend.flush().is_err();
        }
    }

    fn process(&mut self, writes: Vec<Waiting>) {
        let (writes, completers): (Vec<_>, Vec<_>) = writes.into_iter().unzip();
        if self.broken
            && let Err(error) = self.recover()
        {
            return fail(completers, error);
        }
        let now = self.now();
        self.shared.write().advance_history(now);
        let prepared = self.shared.read().prepare(writes, now);
        if prepared.is_empty() {
            return self.apply(prepared, completers);
        }
        match self.backend.append(&prepared.batch()) {
            Ok(()) => {
                self.shared.counters.batches.fetch_add(1, Ordering::Relaxed);
                self.apply(prepared, completers);
            }
            Err(error) => {
                self.shared.counters.failed.fetch_add(1, Ordering::Relaxed);
                self.unresolved = Some(prepared);
                // It may have been stored nevertheless. Its writers get an error, and can read the result.
                let recovered = self.recover();
                self.broken = recovered.is_err();
                let error = Arc::new(error);
                *lock(&self.shared.failure) = Some(error.clone());
                fail(completers, error);
            }
        }
    }

    /// Recovers the backend, and resolves the state of the last batch.
    fn recover(&mut self) -> Result<(), Arc<BackendError>> {
        let last = self.backend.recover().map_err(Arc::new)?;
        self.broken = false;
        match self.unresolved.take() {
            Some(prepared) if prepared.has_writes() && last >= prepared.last() => {
                self.apply(prepared, Vec::new());
            }
            Some(prepared) => self.shared.write().abandon(prepared),
            None => {}
        }
        Ok(())
    }

    fn apply(&mut self, prepared: Prepared, completers: Vec<Completer<Outcome>>) {
        let (Applied { outcomes, mut wakers }, current) = {
            let mut mvcc = self.shared.write();
            (mvcc.apply(prepared), mvcc.current_revision())
        };
        if self.shared.options.in_place {
            self.wakers.append(&mut wakers);
        }
        for (completer, outcome) in completers.into_iter().zip(outcomes) {
            completer.complete(outcome);
        }
        self.shared.announce(current);
        for waker in wakers {
            waker.wake();
        }
    }
}

fn fail(completers: Vec<Completer<Outcome>>, error: Arc<BackendError>) {
    for completer in completers {
        completer.complete(Err(WriteError::Backend(error.clone())));
    }
}
