//! Work queue: keys to reconcile, each at most once at a time, with priorities and backoff per key.
//!
//! A key that is added while it is queued is there once. One that is added while it is being processed is returned
//! again afterwards. A key that fails repeatedly waits longer each time, and does not delay others.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// For how many keys memory is kept.
const BURST: usize = 1024;

/// Exponential backoff after failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// After the first failure; doubled by each further one.
    pub first: Duration,
    /// Maximum.
    pub max: Duration,
}

impl Default for Backoff {
    /// As client-go: 5 ms to 1000 s.
    fn default() -> Self {
        Self { first: Duration::from_millis(5), max: Duration::from_secs(1000) }
    }
}

impl Backoff {
    fn after(&self, failures: u32) -> Duration {
        let factor = 2_u32.checked_pow(failures.saturating_sub(1)).unwrap_or(u32::MAX);
        self.first.saturating_mul(factor).min(self.max)
    }
}

/// A queue of keys. Clones share it.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use settled_controller::queue::{Backoff, Queue};
///
/// let queue = Queue::new(Backoff::default());
/// queue.add("resync", 0);
/// queue.add("changed by a user", 10);
/// let item = queue.next().await.unwrap();
/// assert_eq!(*item.key(), "changed by a user");
/// item.succeed();
/// # }
/// ```
#[derive(Debug)]
pub struct Queue<K>(Arc<Shared<K>>);

impl<K> Clone for Queue<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

#[derive(Debug)]
struct Shared<K> {
    backoff: Backoff,
    state: Mutex<State<K>>,
    changed: Notify,
}

#[derive(Debug)]
struct State<K> {
    /// Ready keys, in the order of processing.
    ready: BTreeSet<Ready<K>>,
    /// Position of each key in `ready`.
    places: HashMap<K, Place>,
    /// Delayed keys by the time at which they become ready.
    delayed: BTreeMap<(Instant, u64), (K, i32)>,
    /// Position of each key in `delayed`.
    due: HashMap<K, (Instant, u64)>,
    /// Keys being processed.
    active: HashSet<K>,
    /// Keys that were added while being processed.
    again: HashMap<K, i32>,
    failures: HashMap<K, u32>,
    /// Sequence number: FIFO order within a priority.
    sequence: u64,
    shut_down: bool,
    counts: Counts,
}

/// Position of a ready key: higher priorities first, then older ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    priority: i32,
    sequence: u64,
    since: Instant,
}

#[derive(Debug, PartialEq, Eq)]
struct Ready<K> {
    place: Place,
    key: K,
}

impl<K: Eq> Ord for Ready<K> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.place.priority.cmp(&self.place.priority).then(self.place.sequence.cmp(&other.place.sequence))
    }
}

impl<K: Eq> PartialOrd for Ready<K> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Counters of a queue, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Additions, except of keys already queued.
    pub adds: u64,
    /// Failures.
    pub retries: u64,
    /// Ready keys.
    pub depth: usize,
    /// Keys waiting for a delay or backoff.
    pub delayed: usize,
    /// Keys being processed.
    pub active: usize,
}

impl<K: Clone + Eq + Hash + Debug> Queue<K> {
    /// An empty queue.
    #[must_use]
    pub fn new(backoff: Backoff) -> Self {
        let state = State {
            ready: BTreeSet::new(),
            places: HashMap::new(),
            delayed: BTreeMap::new(),
            due: HashMap::new(),
            active: HashSet::new(),
            again: HashMap::new(),
            failures: HashMap::new(),
            sequence: 0,
            shut_down: false,
            counts: Counts::default(),
        };
        Self(Arc::new(Shared { backoff, state: Mutex::new(state), changed: Notify::new() }))
    }

    fn state(&self) -> MutexGuard<'_, State<K>> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a key now. Ends its delay or backoff, since something has changed.
    pub fn add(&self, key: K, priority: i32) {
        self.state().add(key, priority);
        self.0.changed.notify_one();
    }

    /// Adds a key after a delay, unless it is queued for an earlier time.
    pub fn add_after(&self, key: K, priority: i32, delay: Duration) {
        self.state().add_at(key, priority, Instant::now() + delay);
        self.0.changed.notify_one();
    }

    /// The next key, when there is one; `None` after [`shut_down`](Self::shut_down).
    pub async fn next(&self) -> Option<Item<K>> {
        loop {
            let notified = self.0.changed.notified();
            let until = {
                let mut state = self.state();
                if state.shut_down {
                    // Other waiters must see it as well.
                    self.0.changed.notify_one();
                    return None;
                }
                let now = Instant::now();
                state.promote(now);
                if let Some(Ready { place, key }) = state.ready.pop_first() {
                    state.places.remove(&key);
                    give_back(&mut state.places);
                    state.active.insert(key.clone());
                    // One notification may stand for several keys.
                    self.0.changed.notify_one();
                    let waited = now.duration_since(place.since);
                    return Some(Item {
                        queue: self.clone(),
                        key,
                        priority: place.priority,
                        waited,
                        settled: false,
                    });
                }
                state.delayed.keys().next().map(|(due, _)| *due)
            };
            match until {
                Some(due) => tokio::select! {
                    () = notified => {}
                    () = tokio::time::sleep_until(due) => {}
                },
                None => notified.await,
            }
        }
    }

    /// Returns no more keys. Those being processed may be finished.
    pub fn shut_down(&self) {
        self.state().shut_down = true;
        self.0.changed.notify_waiters();
        self.0.changed.notify_one();
    }

    /// Counters so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let state = self.state();
        Counts {
            depth: state.ready.len(),
            delayed: state.delayed.len(),
            active: state.active.len(),
            ..state.counts
        }
    }
}

/// Gives back the memory of a burst once it is over.
fn give_back<K: Eq + Hash, V>(keys: &mut HashMap<K, V>) {
    if keys.is_empty() && keys.capacity() > BURST {
        keys.shrink_to(BURST);
    }
}

impl<K: Clone + Eq + Hash> State<K> {
    fn add(&mut self, key: K, priority: i32) {
        if self.active.contains(&key) {
            let again = self.again.entry(key).or_insert(priority);
            *again = priority.max(*again);
            return;
        }
        if let Some(due) = self.due.remove(&key) {
            self.delayed.remove(&due);
        }
        let now = Instant::now();
        match self.places.get(&key).copied() {
            Some(place) if place.priority >= priority => {}
            Some(place) => {
                self.ready.remove(&Ready { place, key: key.clone() });
                self.insert(key, Place { priority, ..place });
            }
            None => {
                self.sequence += 1;
                self.counts.adds += 1;
                self.insert(key, Place { priority, sequence: self.sequence, since: now });
            }
        }
    }

    fn insert(&mut self, key: K, place: Place) {
        self.places.insert(key.clone(), place);
        self.ready.insert(Ready { place, key });
    }

    /// Adds a delayed key, unless it is queued for an earlier time.
    fn add_at(&mut self, key: K, priority: i32, due: Instant) {
        let is_ready = self.places.contains_key(&key) || self.again.contains_key(&key);
        if is_ready || self.due.get(&key).is_some_and(|(earlier, _)| *earlier <= due) {
            return;
        }
        if let Some(later) = self.due.remove(&key) {
            self.delayed.remove(&later);
        }
        self.sequence += 1;
        self.due.insert(key.clone(), (due, self.sequence));
        self.delayed.insert((due, self.sequence), (key, priority));
    }

    /// Makes keys ready whose delay is over.
    fn promote(&mut self, now: Instant) {
        while let Some(entry) = self.delayed.first_entry().filter(|entry| entry.key().0 <= now) {
            let (key, priority) = entry.remove();
            self.due.remove(&key);
            give_back(&mut self.due);
            self.add(key, priority);
        }
    }
}

/// A key being processed. Dropping it without an outcome counts as a failure: a worker that panics loses no key.
#[derive(Debug)]
#[must_use = "dropped, it counts as failed"]
pub struct Item<K: Clone + Eq + Hash + Debug> {
    queue: Queue<K>,
    key: K,
    priority: i32,
    waited: Duration,
    settled: bool,
}

impl<K: Clone + Eq + Hash + Debug> Item<K> {
    /// The key.
    #[must_use]
    pub fn key(&self) -> &K {
        &self.key
    }

    /// Time that it was ready before it was taken.
    #[must_use]
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// Success: resets the key's backoff.
    pub fn succeed(mut self) {
        self.finish(|_, _| {});
    }

    /// Success with a requeue after a delay.
    pub fn succeed_and_requeue(mut self, delay: Duration) {
        let (key, priority, due) = (self.key.clone(), self.priority, Instant::now() + delay);
        self.finish(|state, _| state.add_at(key, priority, due));
    }

    /// Failure: requeues the key after its backoff, which is returned.
    pub fn fail(mut self) -> Duration {
        self.failed()
    }

    fn failed(&mut self) -> Duration {
        let (key, priority, mut delay) = (self.key.clone(), self.priority, Duration::ZERO);
        let failures = self.queue.state().failures.get(&key).copied().unwrap_or_default().saturating_add(1);
        self.finish(|state, backoff| {
            delay = backoff.after(failures);
            state.failures.insert(key.clone(), failures);
            state.counts.retries += 1;
            state.add_at(key, priority, Instant::now() + delay);
        });
        delay
    }

    fn finish(&mut self, then: impl FnOnce(&mut State<K>, &Backoff)) {
        self.settled = true;
        let mut state = self.queue.state();
        state.active.remove(&self.key);
        state.failures.remove(&self.key);
        if let Some(priority) = state.again.remove(&self.key) {
            state.add(self.key.clone(), priority);
        }
        then(&mut state, &self.queue.0.backoff);
        drop(state);
        self.queue.0.changed.notify_one();
    }
}

impl<K: Clone + Eq + Hash + Debug> Drop for Item<K> {
    fn drop(&mut self) {
        if !self.settled {
            self.failed();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_memory_of_a_burst_is_given_back() {
        let queue = Queue::new(Backoff::default());
        (0..10 * BURST).for_each(|key| queue.add(key, 0));
        assert!(queue.state().places.capacity() >= 10 * BURST);
        for _ in 0..10 * BURST {
            queue.next().await.unwrap().succeed();
        }
        assert!(queue.state().places.capacity() < 4 * BURST);
    }
}
