//! Writer of a store: takes writes from the queue, stores them in batches and applies them.

use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::Condvar;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::RwLock;
use std::sync::RwLockReadGuard;
use std::sync::RwLockWriteGuard;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::task::Waker;

use crate::backend::Backend;
use crate::backend::DroppedWrite;
use crate::completion::Completer;
use crate::entry::Write;
use crate::error::BackendError;
use crate::error::WatchError;
use crate::error::WriteError;
use crate::key::Revision;
use crate::lock;
use crate::mvcc::Mvcc;
use crate::options::Options;
use crate::prepared::Applied;
use crate::prepared::Outcome;
use crate::prepared::Prepared;

/// State shared by the handles of a store and its writer.
pub(crate) struct Shared {
    pub(crate) mvcc: RwLock<Mvcc>,
    pub(crate) inbox: Mutex<Inbox>,
    pub(crate) ready: Condvar,
    pub(crate) waiting: Mutex<BTreeMap<Revision, Vec<Completer<Reached>>>>,
    pub(crate) counters: Counters,
    pub(crate) failure: Mutex<Option<Arc<BackendError>>>,
    pub(crate) dropped: Option<DroppedWrite>,
    pub(crate) options: Options,
}

#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) busy: AtomicU64,
    pub(crate) batches: AtomicU64,
    pub(crate) failed: AtomicU64,
}

#[derive(Default)]
pub(crate) struct Inbox {
    pub(crate) writes: VecDeque<Waiting>,
    pub(crate) bytes: usize,
    pub(crate) shrink: Vec<Completer<Stored>>,
    pub(crate) stopping: bool,
    /// Whether the thread waits for work. Waking it costs a system call.
    pub(crate) idle: bool,
}

/// Next step of the writer thread.
struct Work {
    writes: Vec<Waiting>,
    shrink: Vec<Completer<Stored>>,
    end: bool,
}

pub(crate) type Waiting = (Write, Completer<Outcome>);
pub(crate) type Reached = Result<Revision, WatchError>;
pub(crate) type Stored = Result<(), WriteError>;

impl Shared {
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Mvcc> {
        self.mvcc.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, Mvcc> {
        self.mvcc.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn check_open(&self) -> Result<(), WatchError> {
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

    pub(crate) fn stop(&self) {
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
pub(crate) struct Sequencer {
    pub(crate) shared: Arc<Shared>,
    pub(crate) backend: Box<dyn Backend>,
    /// A batch of unknown state.
    pub(crate) unresolved: Option<Prepared>,
    /// The backend has failed and has not recovered.
    pub(crate) broken: bool,
    /// Tasks to wake after the current work, without a writer thread.
    pub(crate) wakers: Vec<Waker>,
    /// Time of the last [`Sequencer::tick`], without a writer thread.
    pub(crate) ticked: u64,
}

impl Drop for Sequencer {
    fn drop(&mut self) {
        // Whatever ended the thread, no task must wait forever.
        self.shared.stop();
    }
}

impl Sequencer {
    pub(crate) fn run(mut self) {
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

    pub(crate) fn shrink(&mut self, completer: Completer<Stored>) {
        let result = self.backend.shrink().map_err(|e| WriteError::Backend(Arc::new(e)));
        self.broken |= result.is_err();
        completer.complete(result);
    }

    pub(crate) fn end(mut self) {
        if !self.broken {
            // There is no receiver for the error. The next start detects the unclean shutdown.
            let _ = self.backend.close().is_ok();
        }
    }

    fn now(&self) -> u64 {
        (self.shared.options.clock)()
    }

    pub(crate) fn tick_if_due(&mut self) {
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

    pub(crate) fn process(&mut self, writes: Vec<Waiting>) {
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
