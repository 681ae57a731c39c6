//! Completion of writes: futures for any runtime, and blocking waits for threads.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::Condvar;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::task::Context;
use std::task::Poll;
use std::task::Waker;
use std::time::Duration;

use crate::lock;

/// An answer that comes later. A task awaits it, a thread calls [`Pending::wait`]. Who drops it does not learn the
/// answer; a write is not withdrawn by that.
#[must_use = "the answer may be an error"]
pub struct Pending<T>(Arc<Slot<T>>);

struct Slot<T> {
    state: Mutex<State<T>>,
    ready: Condvar,
}

enum State<T> {
    Waiting(Option<Waker>),
    /// A thread waits.
    Blocked,
    Ready(T),
    Taken,
}

impl<T> State<T> {
    fn take(&mut self) -> Option<T> {
        match std::mem::replace(self, Self::Taken) {
            Self::Ready(answer) => Some(answer),
            other => {
                *self = other;
                None
            }
        }
    }

    fn block(&mut self) {
        if let Self::Waiting(_) = self {
            *self = Self::Blocked;
        }
    }
}

impl<T> Pending<T> {
    pub(crate) fn ready(answer: T) -> Self {
        Self(Arc::new(Slot { state: Mutex::new(State::Ready(answer)), ready: Condvar::new() }))
    }

    /// Blocks the thread until the answer is there.
    pub fn wait(self) -> T {
        let mut state = lock(&self.0.state);
        loop {
            if let Some(answer) = state.take() {
                return answer;
            }
            state.block();
            state = self.0.ready.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Blocks the thread until the answer is there, but not longer than this.
    ///
    /// # Errors
    ///
    /// The time is over. What is given back can be waited for again.
    pub fn wait_timeout(self, timeout: Duration) -> Result<T, Self> {
        let mut state = lock(&self.0.state);
        state.block();
        let waiting = |state: &mut State<T>| !matches!(state, State::Ready(_));
        let (mut state, _) =
            self.0.ready.wait_timeout_while(state, timeout, waiting).unwrap_or_else(PoisonError::into_inner);
        let answer = state.take();
        drop(state);
        answer.ok_or(self)
    }
}

impl<T> Future for Pending<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let mut state = lock(&self.0.state);
        if let Some(answer) = state.take() {
            return Poll::Ready(answer);
        }
        // A thread may have waited before, and given up.
        if let State::Waiting(_) | State::Blocked = &*state {
            *state = State::Waiting(Some(context.waker().clone()));
        }
        Poll::Pending
    }
}

impl<T> fmt::Debug for Pending<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending").finish_non_exhaustive()
    }
}

/// Gives the answer. If it is dropped instead, the answer is what it was made with.
pub(crate) struct Completer<T> {
    slot: Arc<Slot<T>>,
    otherwise: fn() -> T,
}

impl<T> Completer<T> {
    pub(crate) fn new(otherwise: fn() -> T) -> (Self, Pending<T>) {
        let slot = Arc::new(Slot { state: Mutex::new(State::Waiting(None)), ready: Condvar::new() });
        (Self { slot: slot.clone(), otherwise }, Pending(slot))
    }

    pub(crate) fn complete(self, answer: T) {
        self.set(answer);
    }

    /// Nobody waits for the answer any more.
    pub(crate) fn is_unwanted(&self) -> bool {
        Arc::strong_count(&self.slot) == 1
    }

    fn set(&self, answer: T) {
        let mut state = lock(&self.slot.state);
        if !matches!(*state, State::Waiting(_) | State::Blocked) {
            return;
        }
        let waiting = std::mem::replace(&mut *state, State::Ready(answer));
        drop(state);
        match waiting {
            State::Waiting(Some(waker)) => waker.wake(),
            // Telling nobody would cost a system call.
            State::Blocked => self.slot.ready.notify_all(),
            _ => {}
        }
    }
}

impl<T> Drop for Completer<T> {
    fn drop(&mut self) {
        if matches!(*lock(&self.slot.state), State::Waiting(_) | State::Blocked) {
            self.set((self.otherwise)());
        }
    }
}
