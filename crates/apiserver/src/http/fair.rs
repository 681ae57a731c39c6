//! Fair queuing between users: seats of which nobody holds all, and queues that take turns.
//!
//! A first step toward upstream's API priority and fairness: one queue for each user instead of shuffle sharding over a fixed
//! number of queues, and one priority level for each [`Fair`].

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// How seats are shared out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    /// How many are held at once.
    pub(crate) seats: usize,
    /// How many of them one user may hold.
    pub(crate) per_user: usize,
    /// When all seats are taken, so many users without any still get their first one.
    pub(crate) reserve: usize,
    /// How many requests of one user may wait.
    pub(crate) queue: usize,
}

/// The queue of a user is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueFull;

/// Shares out seats. Clones are the same.
#[derive(Clone)]
pub(crate) struct Fair(Arc<Inner>);

struct Inner {
    share: Share,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    held: usize,
    users: HashMap<Arc<str>, Queue>,
    /// The users that wait, the next one first.
    turns: VecDeque<Arc<str>>,
}

#[derive(Default)]
struct Queue {
    held: usize,
    waiting: VecDeque<oneshot::Sender<Seat>>,
    /// Its user is one of [`State::turns`].
    has_turn: bool,
}

/// Held while something is done; the next one gets it when it is dropped.
pub(crate) struct Seat {
    fair: Fair,
    user: Arc<str>,
    /// It was taken back before anybody sat on it.
    is_void: bool,
}

impl Drop for Seat {
    fn drop(&mut self) {
        if !self.is_void {
            self.fair.release(&self.user);
        }
    }
}

impl Share {
    const fn allows(&self, held: usize, by_user: usize) -> bool {
        by_user < self.per_user && (held < self.seats || by_user == 0 && held < self.seats + self.reserve)
    }
}

impl State {
    fn sit(&mut self, user: &Arc<str>) {
        self.held += 1;
        self.users.entry(user.clone()).or_default().held += 1;
    }

    fn stand(&mut self, user: &str) {
        self.held = self.held.saturating_sub(1);
        let Some(queue) = self.users.get_mut(user) else { return };
        queue.held = queue.held.saturating_sub(1);
        if queue.held == 0 && !queue.has_turn {
            self.users.remove(user);
        }
    }

    /// Whose turn it is, and who waits there.
    fn next(&mut self, share: &Share) -> Option<(Arc<str>, oneshot::Sender<Seat>)> {
        // Each user is looked at once; who may not sit down stays where it is.
        let mut place = 0;
        while let Some(user) = self.turns.get(place).cloned() {
            let Some(queue) = self.users.get_mut(&user) else {
                self.turns.remove(place);
                continue;
            };
            while queue.waiting.front().is_some_and(oneshot::Sender::is_closed) {
                queue.waiting.pop_front();
            }
            if queue.waiting.is_empty() {
                queue.has_turn = false;
                if queue.held == 0 {
                    self.users.remove(&user);
                }
                self.turns.remove(place);
            } else if share.allows(self.held, queue.held) {
                let waiting = queue.waiting.pop_front()?;
                queue.has_turn = !queue.waiting.is_empty();
                self.turns.remove(place);
                if queue.has_turn {
                    self.turns.push_back(user.clone());
                }
                self.sit(&user);
                return Some((user, waiting));
            } else {
                place += 1;
            }
        }
        None
    }
}

impl Fair {
    pub(crate) fn new(share: Share) -> Self {
        Self(Arc::new(Inner { share, state: Mutex::default() }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many seats are held.
    pub(crate) fn held(&self) -> usize {
        self.state().held
    }

    /// Waits for a seat. Seats are given to users by turns, and to the requests of a user in their order.
    ///
    /// # Errors
    /// Too many requests of the user wait.
    pub(crate) async fn seat(&self, user: &str) -> Result<Seat, QueueFull> {
        let waiting = {
            let mut state = self.state();
            let share = &self.0.share;
            let (user, by_user, waiting) = match state.users.get_key_value(user) {
                Some((user, queue)) => (user.clone(), queue.held, queue.waiting.len()),
                None => (user.into(), 0, 0),
            };
            if waiting == 0 && share.allows(state.held, by_user) {
                state.sit(&user);
                return Ok(Seat { fair: self.clone(), user, is_void: false });
            }
            let queue = state.users.entry(user.clone()).or_default();
            if queue.waiting.len() >= share.queue {
                queue.waiting.retain(|waiting| !waiting.is_closed());
            }
            if queue.waiting.len() >= share.queue {
                return Err(QueueFull);
            }
            let (sender, receiver) = oneshot::channel();
            queue.waiting.push_back(sender);
            if !std::mem::replace(&mut queue.has_turn, true) {
                state.turns.push_back(user);
            }
            receiver
        };
        // The sender is not dropped before it sends.
        waiting.await.map_err(|_| QueueFull)
    }

    fn release(&self, user: &str) {
        let mut state = self.state();
        state.stand(user);
        while let Some((user, waiting)) = state.next(&self.0.share) {
            let seat = Seat { fair: self.clone(), user, is_void: false };
            if let Err(mut seat) = waiting.send(seat) {
                // It has gone away meanwhile. The lock is held, so the seat must not give itself back.
                seat.is_void = true;
                state.stand(&seat.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::Pin;
    use std::task::{Context, Waker};

    use super::*;

    const SHARE: Share = Share { seats: 3, per_user: 2, reserve: 1, queue: 2 };

    type Waiting = Pin<Box<dyn Future<Output = Result<Seat, QueueFull>>>>;

    fn ask(fair: &Fair, user: &'static str) -> Waiting {
        let fair = fair.clone();
        Box::pin(async move { fair.seat(user).await })
    }

    fn poll(waiting: &mut Waiting) -> Option<Result<Seat, QueueFull>> {
        match waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            std::task::Poll::Ready(result) => Some(result),
            std::task::Poll::Pending => None,
        }
    }

    fn sits(fair: &Fair, user: &'static str) -> Option<Seat> {
        poll(&mut ask(fair, user)).and_then(Result::ok)
    }

    /// What there is of seats, users and turns.
    fn left(fair: &Fair) -> (usize, usize, usize) {
        let state = fair.state();
        (state.held, state.users.len(), state.turns.len())
    }

    #[test]
    fn one_user_never_holds_all_seats() {
        let fair = Fair::new(SHARE);
        let first = sits(&fair, "a");
        let second = sits(&fair, "a");
        assert!(first.is_some() && second.is_some());
        // Though there is one left.
        assert!(sits(&fair, "a").is_none());
        let third = sits(&fair, "b");
        assert!(third.is_some());
        // All are taken; who has none gets one nevertheless, but not everybody does.
        assert!(sits(&fair, "b").is_none());
        let reserve = sits(&fair, "c");
        assert!(reserve.is_some());
        assert!(sits(&fair, "d").is_none());
        assert_eq!(fair.held(), 4);
    }

    #[test]
    fn users_take_turns_however_many_requests_each_has() {
        let fair = Fair::new(Share { seats: 1, per_user: 1, reserve: 0, queue: 3 });
        let mut held = sits(&fair, "a");
        let mut asked = ["a", "a", "a", "b", "b", "c"].map(|user| (user, ask(&fair, user)));
        for (_, waiting) in &mut asked {
            assert!(poll(waiting).is_none());
        }
        // The fourth of the same user is one too many.
        assert_eq!(poll(&mut ask(&fair, "a")).map(|result| result.err()), Some(Some(QueueFull)));
        let mut order = Vec::new();
        while order.len() < asked.len() {
            drop(held.take());
            for (user, waiting) in &mut asked {
                if let Some(Ok(seat)) = poll(waiting) {
                    order.push(*user);
                    held = Some(seat);
                    *waiting = Box::pin(std::future::pending());
                }
            }
            assert!(held.is_some(), "{order:?}");
        }
        assert_eq!(order, ["a", "b", "c", "a", "b", "a"]);
        drop(held);
        assert_eq!(left(&fair), (0, 0, 0));
    }

    #[test]
    fn who_goes_away_is_passed_over() {
        let fair = Fair::new(Share { seats: 1, per_user: 1, reserve: 0, queue: 2 });
        let held = sits(&fair, "a");
        let mut gone = [ask(&fair, "b"), ask(&fair, "b")];
        assert!(gone.iter_mut().all(|waiting| poll(waiting).is_none()));
        let mut stays = ask(&fair, "c");
        assert!(poll(&mut stays).is_none());
        drop(gone);
        // The places of those who went away are free.
        let mut later = ask(&fair, "b");
        assert!(poll(&mut later).is_none());
        drop(held);
        assert!(poll(&mut stays).is_none());
        let seat = poll(&mut later);
        assert!(seat.as_ref().is_some_and(Result::is_ok));
        // The next seat is given to who goes away before it takes it.
        drop(seat);
        drop(stays);
        assert_eq!(left(&fair), (0, 0, 0));
    }
}
