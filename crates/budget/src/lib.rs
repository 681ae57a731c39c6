//! Resource budget of a request: steps and bytes, counted by the hot loops of the libraries.
//!
//! The thread that processes the request [enters](Budget::enter) its [`Budget`], as tokio does with the budget of a
//! task, so the libraries need no parameter for it. A loop calls [`spend`] and stops as soon as it returns false. Its
//! result is then incomplete: the caller checks [`exceeded`] before it stores or returns anything.
//!
//! Without a budget, nothing is counted and [`spend`] is always true.
//!
//! ```
//! use settled_budget::{Budget, Exceeded, spend};
//!
//! let budget = Budget::new(10_000, 1 << 20);
//! let entered = budget.enter();
//! let visited = (0..1_000_000).take_while(|_| spend(1)).count();
//! assert_eq!(visited, 10_000);
//! assert_eq!(budget.exceeded(), Some(Exceeded::Steps));
//! drop(entered);
//! assert!(spend(1));
//! ```

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

/// Steps that a thread takes from a budget at once, and so the delay of cancellation.
const QUANTUM: u64 = 1024;

thread_local! {
    static CURRENT: RefCell<Option<Arc<State>>> = const { RefCell::new(None) };
    /// Steps taken from the current budget, but not spent yet.
    static TAKEN: Cell<u64> = const { Cell::new(0) };
}

/// Reason why work stopped early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exceeded {
    /// The step limit.
    Steps,
    /// The byte limit.
    Memory,
    /// Cancellation, for instance because the client has gone.
    Cancelled,
}

impl Exceeded {
    const ALL: [Self; 3] = [Self::Steps, Self::Memory, Self::Cancelled];
}

/// Resource budget of a request. Clones share it.
#[derive(Clone, Debug)]
pub struct Budget(Arc<State>);

#[derive(Debug)]
struct State {
    steps: AtomicU64,
    bytes: AtomicU64,
    is_cancelled: AtomicBool,
    /// Index of the reason in [`Exceeded::ALL`], from 1; 0 while there is none.
    exceeded: AtomicU8,
}

impl State {
    fn exceeded(&self) -> Option<Exceeded> {
        let place = usize::from(self.exceeded.load(Ordering::Relaxed)).checked_sub(1)?;
        Exceeded::ALL.get(place).copied()
    }

    /// The first reason is kept.
    fn exceed(&self, reason: Exceeded) {
        let place = Exceeded::ALL.iter().position(|other| *other == reason).unwrap_or_default();
        let place = u8::try_from(place + 1).unwrap_or(u8::MAX);
        let _first_stays = self.exceeded.compare_exchange(0, place, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Whether work may continue.
    fn goes_on(&self) -> bool {
        if self.is_cancelled.load(Ordering::Relaxed) {
            self.exceed(Exceeded::Cancelled);
        }
        self.exceeded().is_none()
    }
}

/// Takes the amount if that much is left.
fn take(left: &AtomicU64, wanted: u64) -> bool {
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(wanted)).is_ok()
}

impl Budget {
    /// A budget of this many steps and bytes.
    #[must_use]
    pub fn new(steps: u64, bytes: u64) -> Self {
        Self(Arc::new(State {
            steps: AtomicU64::new(steps),
            bytes: AtomicU64::new(bytes),
            is_cancelled: AtomicBool::new(false),
            exceeded: AtomicU8::new(0),
        }))
    }

    /// Makes it the budget of this thread until the guard is dropped, which restores the previous one.
    #[must_use = "the budget counts as long as the guard is held"]
    pub fn enter(&self) -> Entered {
        let outer = CURRENT.with(|current| current.replace(Some(self.0.clone())));
        Entered { outer, outer_taken: TAKEN.replace(0) }
    }

    /// Cancels the work on all threads.
    pub fn cancel(&self) {
        self.0.is_cancelled.store(true, Ordering::Relaxed);
    }

    /// Why the work stopped, if it did.
    #[must_use]
    pub fn exceeded(&self) -> Option<Exceeded> {
        self.0.exceeded()
    }
}

/// Guard of [`Budget::enter`].
#[derive(Debug)]
pub struct Entered {
    outer: Option<Arc<State>>,
    outer_taken: u64,
}

impl Drop for Entered {
    fn drop(&mut self) {
        let unspent = TAKEN.replace(self.outer_taken);
        let inner = CURRENT.with(|current| current.replace(self.outer.take()));
        if let Some(inner) = inner {
            inner.steps.fetch_add(unspent, Ordering::Relaxed);
        }
    }
}

/// Counts steps. If false, stop and discard the result.
#[inline]
pub fn spend(steps: u64) -> bool {
    match TAKEN.get().checked_sub(steps) {
        Some(left) => {
            TAKEN.set(left);
            true
        }
        None => spend_more(steps),
    }
}

#[cold]
fn spend_more(steps: u64) -> bool {
    let taken = TAKEN.replace(0);
    let left = with(|state| {
        if !state.goes_on() {
            return None;
        }
        let missing = steps.saturating_sub(taken);
        let taken_now =
            [missing.max(QUANTUM), missing].into_iter().find(|wanted| take(&state.steps, *wanted));
        if taken_now.is_none() {
            state.exceed(Exceeded::Steps);
        }
        taken_now.map(|taken_now| taken_now - missing)
    });
    match left {
        Some(None) => false,
        Some(Some(left)) => {
            TAKEN.set(left);
            true
        }
        None => {
            TAKEN.set(QUANTUM);
            true
        }
    }
}

/// Counts bytes before they are allocated. If false, do not allocate them.
#[must_use]
pub fn grow(bytes: usize) -> bool {
    let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
    with(|state| {
        if state.goes_on() && !take(&state.bytes, bytes) {
            state.exceed(Exceeded::Memory);
        }
        state.exceeded().is_none()
    })
    .unwrap_or(true)
}

/// Marks the work of this thread as stopped, for instance by a limit of the caller.
pub fn exceed(reason: Exceeded) {
    let _without_budget = with(|state| state.exceed(reason));
}

/// Why the work of this thread stopped; `None` if it did not, or has no budget.
#[must_use]
pub fn exceeded() -> Option<Exceeded> {
    with(|state| {
        let _noted = state.goes_on();
        state.exceeded()
    })?
}

fn with<T>(call: impl FnOnce(&State) -> T) -> Option<T> {
    CURRENT.with(|current| current.borrow().as_deref().map(call))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_spent_is_given_back() {
        let budget = Budget::new(3000, 0);
        for _ in 0..30 {
            let _entered = budget.enter();
            assert!(spend(100));
        }
        let _entered = budget.enter();
        assert!(!spend(1));
        assert_eq!(exceeded(), Some(Exceeded::Steps));
    }

    #[test]
    fn the_outer_budget_returns() {
        let (outer, inner) = (Budget::new(5, 0), Budget::new(2, 0));
        let _outer = outer.enter();
        assert!(spend(4));
        {
            let _inner = inner.enter();
            assert!(spend(2));
            assert!(!spend(1));
        }
        assert!(spend(1));
        assert!(!spend(1));
        assert_eq!((outer.exceeded(), inner.exceeded()), (Some(Exceeded::Steps), Some(Exceeded::Steps)));
    }

    #[test]
    fn cancellation_stops_another_thread() {
        let budget = Budget::new(u64::MAX, u64::MAX);
        let worker = {
            let budget = budget.clone();
            std::thread::spawn(move || {
                let _entered = budget.enter();
                while spend(1) {}
                exceeded()
            })
        };
        budget.cancel();
        assert_eq!(worker.join().unwrap(), Some(Exceeded::Cancelled));
        assert_eq!(budget.exceeded(), Some(Exceeded::Cancelled));
    }

    #[test]
    fn bytes_are_refused_before_they_are_taken() {
        let budget = Budget::new(100, 1000);
        let _entered = budget.enter();
        assert!(grow(1000));
        assert!(!grow(1));
        // The first reason is kept, and ends all work.
        assert_eq!((spend(1000), exceeded()), (false, Some(Exceeded::Memory)));
    }

    #[test]
    fn without_a_budget_nothing_is_counted() {
        assert!(spend(u64::MAX) && spend(u64::MAX) && grow(usize::MAX));
        exceed(Exceeded::Memory);
        assert_eq!(exceeded(), None);
    }
}
