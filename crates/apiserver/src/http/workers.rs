//! Worker threads for requests that need much processor time, so that the event loop stays free for everything else.
//!
//! A request is a future here as anywhere. Each poll of it is a job for a thread, users take turns between jobs, and a request
//! that waits for the store holds no thread.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use settled_budget::Budget;
use tokio::sync::Notify;
use tokio::task::{JoinError, spawn_blocking};

use crate::http::fair::{Fair, Share};

/// Users beyond the number of threads who get one at once. The system shares processors better than a queue does.
const RESERVE: usize = 8;

type Work<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The threads.
pub(crate) enum Workers {
    /// No threads: the task of a request answers it, with a [`settled_aside::Thread`] if one is entered.
    None,
    /// Threads for expensive requests.
    Threads(Fair),
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WorkError {
    /// It panicked, or the runtime ends.
    #[error("the request failed unexpectedly")]
    Failed(#[source] JoinError),
    /// The threads are not given out any more.
    #[error("the server is stopping")]
    Stopped,
}

/// What one poll left.
enum Polled<T: 'static> {
    Ready(T),
    Pending(Parked<T>),
}

/// A future that waits. It may hold much, so it is not dropped on the event loop.
struct Parked<T: 'static>(Option<Work<T>>);

impl<T> Drop for Parked<T> {
    fn drop(&mut self) {
        if let Some(work) = self.0.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn_blocking(move || drop(work));
        }
    }
}

/// Wakes the task that starts the next poll.
struct Woken(Notify);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
}

impl Workers {
    /// One thread for each processor.
    pub(crate) fn new() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
        Self::of(processors)
    }

    fn of(threads: usize) -> Self {
        let share = Share { seats: threads, per_user: threads, reserve: RESERVE, queue: usize::MAX };
        Self::Threads(Fair::new(share))
    }

    /// Does the work of a user on the threads. When the caller drops this, the budget ends what runs.
    ///
    /// # Errors
    /// The work panicked, or the runtime ends.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        user: &str,
        budget: &Budget,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, WorkError> {
        let work = metered(budget, Box::pin(work));
        let threads = match self {
            Self::None => return Ok(settled_aside::driven(work).await),
            Self::Threads(threads) => threads,
        };
        let woken = Arc::new(Woken(Notify::new()));
        let mut parked = Parked(Some(Box::pin(work)));
        loop {
            let thread = threads.seat(user).await.map_err(|_| WorkError::Stopped)?;
            let waker = Waker::from(woken.clone());
            let job = move || {
                let polled = parked
                    .0
                    .as_mut()
                    .map_or(Poll::Pending, |work| work.as_mut().poll(&mut Context::from_waker(&waker)));
                let polled = match polled {
                    Poll::Ready(result) => {
                        drop(parked.0.take());
                        Polled::Ready(result)
                    }
                    Poll::Pending => Polled::Pending(parked),
                };
                drop(thread);
                polled
            };
            match spawn_blocking(job).await.map_err(WorkError::Failed)? {
                Polled::Ready(result) => return Ok(result),
                Polled::Pending(left) => parked = left,
            }
            woken.0.notified().await;
        }
    }
}

/// Work that counts against a budget wherever it is polled.
pub(crate) fn metered<F: Future + Unpin>(
    budget: &Budget,
    mut work: F,
) -> impl Future<Output = F::Output> + use<F> {
    let budget = budget.clone();
    std::future::poll_fn(move |context| {
        let _entered = budget.enter();
        Pin::new(&mut work).poll(context)
    })
}

/// Ends the work of a budget when nobody waits for it any more.
pub(crate) struct CancelOnDrop<'a>(pub(crate) &'a Budget);

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc;
    use std::time::Duration;

    use settled_budget::{Exceeded, exceeded, spend};

    use super::*;

    fn endless() -> Budget {
        Budget::new(u64::MAX, u64::MAX)
    }

    /// Works until the budget ends it.
    fn spin() -> Option<Exceeded> {
        while spend(1) {}
        exceeded()
    }

    #[tokio::test]
    async fn the_event_loop_goes_on_and_a_deadline_ends_the_work() {
        let workers = Workers::of(1);
        let (sender, ended) = mpsc::channel();
        let budget = endless();
        let work = async {
            let _cancel = CancelOnDrop(&budget);
            let work = async move {
                let _gone = sender.send(spin());
            };
            workers.run("a", &budget, work).await
        };
        // The only thread of the runtime sees the time pass.
        assert!(tokio::time::timeout(Duration::from_millis(1), work).await.is_err());
        let ended = spawn_blocking(move || ended.recv()).await.unwrap();
        assert_eq!(ended, Ok(Some(Exceeded::Cancelled)));
    }

    #[tokio::test(start_paused = true)]
    async fn paused_time_does_not_pass_while_a_thread_works() {
        let workers = Workers::of(1);
        let start = tokio::time::Instant::now();
        let budget = Budget::new(3_000_000, 0);
        let work = workers.run("a", &budget, async {
            let reason = spin();
            // Timers and tasks of the runtime work there, too.
            tokio::time::sleep(Duration::from_secs(5)).await;
            tokio::spawn(async move { reason }).await.unwrap()
        });
        let result = tokio::time::timeout(Duration::from_secs(6), work).await;
        assert_eq!(result.unwrap().unwrap(), Some(Exceeded::Steps));
        assert_eq!(start.elapsed(), Duration::from_secs(5));
    }

    #[tokio::test]
    async fn users_take_turns_at_each_poll() {
        let workers = Workers::Threads(Fair::new(Share { seats: 1, per_user: 1, reserve: 0, queue: 9 }));
        let order = Arc::new(Mutex::new(Vec::new()));
        let work = |user: &'static str| {
            let order = order.clone();
            async move {
                for _ in 0..2 {
                    order.lock().unwrap().push(user);
                    tokio::task::yield_now().await;
                }
            }
        };
        let budget = endless();
        let run = |user| workers.run(user, &budget, work(user));
        let (a, b, c) = tokio::join!(run("a"), run("a"), run("b"));
        assert!(a.is_ok() && b.is_ok() && c.is_ok());
        let order = order.lock().unwrap().clone();
        // The two of the first user do not both go before the second user's.
        assert_eq!(order.iter().take(3).filter(|user| **user == "b").count(), 1, "{order:?}");
    }

    #[tokio::test]
    async fn who_panics_fails_alone() {
        let workers = Workers::of(1);
        let failed = workers
            .run("a", &endless(), async { u8::try_from(std::hint::black_box(300_u32)).unwrap() })
            .await;
        assert!(matches!(failed, Err(WorkError::Failed(_))), "{failed:?}");
        assert_eq!(workers.run("a", &endless(), async { 1 }).await.unwrap(), 1);
    }
}
