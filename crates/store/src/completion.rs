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

/// Result of an operation in progress. Tasks await it, threads call [`Pending::wait`]. Dropping it does not cancel a
/// write.
#[must_use = "the answer may be an error"]
pub struct Pending<T>(Arc<Slot<T>>);

struct Slot<T> {
    state: Mutex<State<T>>,
    ready: Condvar,
}

enum State<T> {
    Waiting(Option<Waker>),
    /// A blocked thread.
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

    /// Blocks the thread until the result is available.
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

    /// Blocks the thread until the result is available or the time is up.
    ///
    /// # Errors
    ///
    /// Timed out. The returned value can be waited for again.
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
        // A thread may have waited before and timed out.
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

/// Sender of the result. If it is dropped, the result is the default that it was created with.
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

    /// Whether the receiver was dropped.
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
            // Waking a thread costs a system call.
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
