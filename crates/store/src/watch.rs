//! Watches and their queues.

use std::collections::HashMap;
use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::Condvar;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::task::Context;
use std::task::Poll;
use std::task::Waker;

use crate::entry::Event;
use crate::error::WatchError;
use crate::key::Revision;
use crate::key::Scope;
use crate::key::join;
use crate::lock;

/// Events of a scope, each exactly once, ordered by revision.
///
/// Events from the history window are returned first; later events go through a bounded queue. If it overflows, the
/// watch gets [`WatchError::Slow`] instead of a gap. Dropping the watch ends it.
pub struct Watch {
    backlog: VecDeque<Arc<Event>>,
    queue: Arc<Queue>,
    from: Revision,
    published: Arc<AtomicU64>,
}

impl Watch {
    pub(crate) fn new(
        backlog: VecDeque<Arc<Event>>,
        queue: Arc<Queue>,
        from: Revision,
        published: Arc<AtomicU64>,
    ) -> Self {
        Self { backlog, queue, from, published }
    }

    /// The next event, or `None` if there is none yet.
    ///
    /// # Errors
    ///
    /// The watch was too slow, or the store is closed. The error is permanent.
    pub fn try_recv(&mut self) -> Result<Option<Arc<Event>>, WatchError> {
        let mut state = lock(&self.queue.state);
        if let Some(WatchError::Slow { .. }) = state.closed {
            self.backlog.clear();
        }
        if let Some(event) = self.backlog.pop_front() {
            return Ok(Some(event));
        }
        state.pop()
    }

    /// Blocks the thread until the next event.
    ///
    /// # Errors
    ///
    /// As for [`Watch::try_recv`].
    pub fn blocking_recv(&mut self) -> Result<Arc<Event>, WatchError> {
        loop {
            if let Some(event) = self.try_recv()? {
                return Ok(event);
            }
            let mut state = lock(&self.queue.state);
            while state.events.is_empty() && state.closed.is_none() {
                state.blocked = true;
                state = self.queue.ready.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.blocked = false;
            }
        }
    }

    /// Waits for the next event.
    ///
    /// # Errors
    ///
    /// As for [`Watch::try_recv`].
    pub async fn recv(&mut self) -> Result<Arc<Event>, WatchError> {
        poll_fn(|context| self.poll_recv(context)).await
    }

    /// Polls for the next event.
    ///
    /// # Errors
    ///
    /// As for [`Watch::try_recv`].
    pub fn poll_recv(&mut self, context: &mut Context<'_>) -> Poll<Result<Arc<Event>, WatchError>> {
        if !self.backlog.is_empty()
            && let Some(event) = self.try_recv().transpose()
        {
            return Poll::Ready(event);
        }
        let mut state = lock(&self.queue.state);
        match state.pop().transpose() {
            Some(event) => Poll::Ready(event),
            None => {
                // Callers that poll many watches use the same waker repeatedly.
                if !state.waker.as_ref().is_some_and(|known| known.will_wake(context.waker())) {
                    state.waker = Some(context.waker().clone());
                }
                Poll::Pending
            }
        }
    }

    /// Progress of the watch: all events up to this revision have been returned. `None` while events are queued.
    /// Bookmarks have this revision; it increases without events in the scope.
    #[must_use]
    pub fn progress(&self) -> Option<Revision> {
        // Read first: events are queued before their revision is published.
        let published = Revision(self.published.load(Ordering::Acquire));
        let state = lock(&self.queue.state);
        let done = self.backlog.is_empty() && state.events.is_empty() && state.closed.is_none();
        (done && published >= self.from).then_some(published)
    }

    /// The revision after which the watch started.
    #[must_use]
    pub fn from(&self) -> Revision {
        self.from
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut state = lock(&self.queue.state);
        state.gone = true;
        let events = std::mem::take(&mut state.events);
        let waker = state.waker.take();
        // Dropping the last reference may run other code, which must not happen under the lock.
        drop(state);
        drop((events, waker));
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("from", &self.from).finish_non_exhaustive()
    }
}

/// Queue between the store and a watch.
pub(crate) struct Queue {
    state: Mutex<State>,
    ready: Condvar,
    from: Revision,
    bound_events: usize,
    bound_bytes: usize,
}

struct State {
    events: VecDeque<Arc<Event>>,
    bytes: usize,
    closed: Option<WatchError>,
    /// The watch was dropped.
    gone: bool,
    waker: Option<Waker>,
    /// Whether a thread waits. Waking one costs a system call.
    blocked: bool,
}

impl State {
    fn pop(&mut self) -> Result<Option<Arc<Event>>, WatchError> {
        match self.events.pop_front() {
            Some(event) => {
                self.bytes -= event.size();
                Ok(Some(event))
            }
            None => self.closed.clone().map_or(Ok(None), Err),
        }
    }
}

/// Result of pushing an event.
pub(crate) enum Pushed {
    Taken,
    /// The watch was dropped.
    Gone,
    /// The queue is full: the watch has just been closed.
    Slow,
}

impl Queue {
    pub(crate) fn new(from: Revision, bound_events: usize, bound_bytes: usize) -> Arc<Self> {
        let state = State {
            events: VecDeque::new(),
            bytes: 0,
            closed: None,
            gone: false,
            waker: None,
            blocked: false,
        };
        Arc::new(Self { state: Mutex::new(state), ready: Condvar::new(), from, bound_events, bound_bytes })
    }

    fn push(&self, events: &[Arc<Event>], wakers: &mut Vec<Waker>) -> Pushed {
        let mut state = lock(&self.state);
        if state.gone || state.closed.is_some() {
            return Pushed::Gone;
        }
        let mut pushed = Pushed::Taken;
        for event in events {
            if event.revision <= self.from {
                continue;
            }
            let size = event.size();
            // An empty queue accepts an event of any size: no single write closes a watch that keeps up.
            let overflow = state.bytes + size > self.bound_bytes && !state.events.is_empty();
            if state.events.len() >= self.bound_events || overflow {
                state.events = VecDeque::new();
                state.bytes = 0;
                state.closed = Some(WatchError::Slow { events: self.bound_events, bytes: self.bound_bytes });
                pushed = Pushed::Slow;
                break;
            }
            state.bytes += size;
            state.events.push_back(event.clone());
        }
        if !state.events.is_empty() || state.closed.is_some() {
            wakers.extend(state.waker.take());
            if state.blocked {
                self.ready.notify_all();
            }
        }
        pushed
    }

    fn gone(&self) -> bool {
        let state = lock(&self.state);
        state.gone || state.closed.is_some()
    }

    fn stop(&self, wakers: &mut Vec<Waker>) {
        let mut state = lock(&self.state);
        state.closed.get_or_insert(WatchError::Stopped);
        wakers.extend(state.waker.take());
        self.ready.notify_all();
    }
}

/// The watches of one resource, indexed by scope.
#[derive(Default)]
pub(crate) struct Watchers {
    all: Vec<Arc<Queue>>,
    namespaces: HashMap<String, Vec<Arc<Queue>>>,
    paths: HashMap<String, Vec<Arc<Queue>>>,
    count: usize,
    /// Number of watches at which dropped ones are removed.
    prune_at: usize,
}

/// Result of publishing.
#[derive(Default)]
pub(crate) struct Published {
    pub(crate) wakers: Vec<Waker>,
    /// Number of watches that ended or were closed.
    pub(crate) left: usize,
    pub(crate) slow: usize,
}

impl Published {
    fn push(&mut self, queues: &mut Vec<Arc<Queue>>, events: &[Arc<Event>]) -> usize {
        let before = queues.len();
        queues.retain(|queue| match queue.push(events, &mut self.wakers) {
            Pushed::Taken => true,
            Pushed::Gone => false,
            Pushed::Slow => {
                self.slow += 1;
                false
            }
        });
        self.left += before - queues.len();
        before - queues.len()
    }
}

impl Watchers {
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the number of removed watches.
    pub(crate) fn add(&mut self, scope: &Scope, queue: Arc<Queue>) -> usize {
        let mut left = 0;
        if self.count >= self.prune_at {
            left = self.prune();
            self.prune_at = (self.count * 2).max(16);
        }
        self.count += 1;
        match scope {
            Scope::All => self.all.push(queue),
            Scope::Namespace(namespace) => {
                self.namespaces.entry(namespace.clone()).or_default().push(queue);
            }
            Scope::Object { namespace, name } => {
                self.paths.entry(join(namespace, name)).or_default().push(queue);
            }
        }
        left
    }

    pub(crate) fn prune(&mut self) -> usize {
        let before = self.count;
        self.all.retain(|queue| !queue.gone());
        for map in [&mut self.namespaces, &mut self.paths] {
            map.retain(|_, queues| {
                queues.retain(|queue| !queue.gone());
                !queues.is_empty()
            });
        }
        self.count = self.all.len()
            + self.namespaces.values().map(Vec::len).sum::<usize>()
            + self.paths.values().map(Vec::len).sum::<usize>();
        before - self.count
    }

    pub(crate) fn publish(&mut self, events: &[Arc<Event>], published: &mut Published) {
        if self.count == 0 {
            return;
        }
        self.count -= published.push(&mut self.all, events);
        for event in events {
            let found = [(&mut self.namespaces, event.key.namespace()), (&mut self.paths, event.key.path())];
            for (map, text) in found {
                if let Some(queues) = map.get_mut(text) {
                    self.count -= published.push(queues, std::slice::from_ref(event));
                    if queues.is_empty() {
                        map.remove(text);
                    }
                }
            }
        }
    }

    pub(crate) fn stop(&mut self, wakers: &mut Vec<Waker>) {
        let named = self.namespaces.values().chain(self.paths.values()).flatten();
        for queue in self.all.iter().chain(named) {
            queue.stop(wakers);
        }
    }
}
