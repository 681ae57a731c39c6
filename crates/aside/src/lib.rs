//! A second thread for parts of futures, without a change of their order.
//!
//! A program in virtual time does one thing after the other on one thread, so that all that happens follows from its seed. With a
//! [`Thread`], futures that are [`driven`] mark parts that neither look at what others change nor change what others look at: from
//! [`aside`] to [`back`]. Such a part is done by the second thread, while the event loop goes on with all that is ready. After that the future
//! goes on in the event loop, however long its part takes: if the thread has not begun it, the event loop does it, else it does others until
//! that is done. So the order of everything is the same on each machine, with a second processor or without.
//!
//! Without a thread, all of this does nothing.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! let thread = settled_aside::Thread::start()?;
//! let _entered = thread.enter();
//! let sum = settled_aside::driven(async {
//!     settled_aside::aside().await;
//!     let sum: u64 = (1..=100).sum();
//!     settled_aside::back().await;
//!     sum
//! });
//! assert_eq!(sum.await, 5050);
//! # Ok(())
//! # }
//! ```

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::marker::PhantomData;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// How many values wait to be dropped, at most.
const MAX_DISCARDED: usize = 64;
/// How often the thread looks for a job before it sleeps: to wake it takes longer than most jobs do.
const LOOKS: usize = 200;
/// How long it waits between two looks, in steps of the processor.
const STEPS: usize = 20;

/// Where a future is polled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// In the event loop.
    Loop,
    /// In the thread beside it.
    Aside,
}

thread_local! {
    /// Where the future that is polled is, and after that where it is to go on. Nothing: it cannot choose.
    static PLACE: Cell<Option<Place>> = const { Cell::new(None) };
    /// The queue of the second thread.
    static QUEUE: RefCell<Option<Arc<Queue>>> = const { RefCell::new(None) };
}

fn entered() -> Option<Arc<Queue>> {
    QUEUE.with_borrow(Clone::clone)
}

/// Whether this thread has entered a second one.
#[must_use]
pub fn is_entered() -> bool {
    QUEUE.with_borrow(Option::is_some)
}

/// Begins a part that looks at nothing that others change, and changes nothing that others look at.
///
/// In it, nothing must be awaited but [`back`]: what it waits for would happen some time.
pub async fn aside() {
    move_to(Place::Aside).await;
}

/// Ends the part that [`aside`] began.
pub async fn back() {
    move_to(Place::Loop).await;
}

fn move_to(place: Place) -> impl Future<Output = ()> {
    poll_fn(move |_| {
        if PLACE.get().is_none_or(|here| here == place) {
            return Poll::Ready(());
        }
        PLACE.set(Some(place));
        Poll::Pending
    })
}

/// A future whose parts are done aside, if this thread has entered a second one.
pub async fn driven<F>(future: F) -> F::Output
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    let Some(queue) = entered() else { return future.await };
    let mut work: Work<F::Output> = Box::pin(future);
    loop {
        let polled = poll_fn(|context| match poll_at(&mut work, Place::Loop, context.waker()) {
            (Poll::Ready(result), _) => Poll::Ready(Ok(result)),
            (Poll::Pending, Place::Loop) => Poll::Pending,
            (Poll::Pending, Place::Aside) => Poll::Ready(Err(context.waker().clone())),
        });
        let waker = match polled.await {
            Ok(result) => return result,
            Err(waker) => waker,
        };
        let shared = Arc::new(Shared { part: Mutex::new(Part::Waiting(work, waker)), done: Condvar::new() });
        queue.push(shared.clone());
        // All that is ready goes first.
        tokio::task::yield_now().await;
        let (left, polled) = shared.join(&queue);
        if let Poll::Ready(result) = polled {
            return result;
        }
        work = left;
    }
}

/// Drops a value: by the second thread, if there is one and it is not far behind.
pub fn discard(value: impl Send + 'static) {
    if PLACE.get() == Some(Place::Loop)
        && let Some(queue) = entered()
    {
        queue.discard(Box::new(value));
    }
}

type Work<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Polls at a place. The answer also says where the work is to go on.
fn poll_at<T>(work: &mut Work<T>, place: Place, waker: &Waker) -> (Poll<T>, Place) {
    struct Restore(Option<Place>);
    impl Drop for Restore {
        fn drop(&mut self) {
            PLACE.set(self.0);
        }
    }
    let _restore = Restore(PLACE.replace(Some(place)));
    let polled = work.as_mut().poll(&mut Context::from_waker(waker));
    (polled, PLACE.get().unwrap_or(Place::Loop))
}

fn poll_aside<T>(mut work: Work<T>, waker: &Waker) -> (Work<T>, Poll<T>) {
    let (polled, _) = poll_at(&mut work, Place::Aside, waker);
    (work, polled)
}

/// A part of some work that is to be done aside.
enum Part<T> {
    Waiting(Work<T>, Waker),
    Running,
    Done(std::thread::Result<(Work<T>, Poll<T>)>),
    Taken,
}

/// A part that the second thread and the event loop share.
struct Shared<T> {
    part: Mutex<Part<T>>,
    done: Condvar,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the queue has for who takes it.
trait Job: Send + Sync {
    /// Does it, unless another one does.
    fn run(&self);
}

impl<T: Send> Job for Shared<T> {
    fn run(&self) {
        let (work, waker) = {
            let mut part = lock(&self.part);
            match std::mem::replace(&mut *part, Part::Running) {
                Part::Waiting(work, waker) => (work, waker),
                other => return *part = other,
            }
        };
        let done = catch_unwind(AssertUnwindSafe(|| poll_aside(work, &waker)));
        *lock(&self.part) = Part::Done(done);
        self.done.notify_one();
    }
}

impl<T> Shared<T> {
    /// The result, done here if nobody has begun it. While another thread works on it, other parts are done here.
    fn join(&self, queue: &Queue) -> (Work<T>, Poll<T>) {
        let mut part = lock(&self.part);
        loop {
            match std::mem::replace(&mut *part, Part::Taken) {
                Part::Waiting(work, waker) => {
                    drop(part);
                    return poll_aside(work, &waker);
                }
                Part::Done(Ok(done)) => return done,
                Part::Done(Err(panic)) => {
                    drop(part);
                    resume_unwind(panic);
                }
                other => *part = other,
            }
            drop(part);
            let other = queue.last();
            if let Some(job) = &other {
                job.run();
            }
            part = lock(&self.part);
            if other.is_none() && matches!(*part, Part::Running) {
                part = self.done.wait(part).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

/// What waits for the second thread.
#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    /// How much has arrived so far.
    arrivals: AtomicUsize,
    arrived: Condvar,
}

#[derive(Default)]
struct Waiting {
    jobs: VecDeque<Arc<dyn Job>>,
    /// Values to drop, when there are no jobs.
    discarded: Vec<Box<dyn Send>>,
    /// The thread sleeps.
    is_idle: bool,
    /// There is no thread, or not any more.
    closed: bool,
}

impl Queue {
    fn push(&self, job: Arc<dyn Job>) {
        let mut waiting = lock(&self.waiting);
        if !waiting.closed {
            waiting.jobs.push_back(job);
        }
        self.wake(waiting);
    }

    fn discard(&self, value: Box<dyn Send>) {
        let mut waiting = lock(&self.waiting);
        if waiting.closed || waiting.discarded.len() >= MAX_DISCARDED {
            drop(waiting);
            return drop(value);
        }
        waiting.discarded.push(value);
        self.wake(waiting);
    }

    fn wake(&self, mut waiting: MutexGuard<'_, Waiting>) {
        let is_idle = std::mem::take(&mut waiting.is_idle);
        drop(waiting);
        self.arrivals.fetch_add(1, Ordering::Release);
        if is_idle {
            self.arrived.notify_one();
        }
    }

    /// The job that came last: the thread begins with the first.
    fn last(&self) -> Option<Arc<dyn Job>> {
        lock(&self.waiting).jobs.pop_back()
    }

    fn work(&self) {
        let mut waiting = lock(&self.waiting);
        while !waiting.closed {
            if let Some(job) = waiting.jobs.pop_front() {
                drop(waiting);
                job.run();
                drop(job);
                waiting = lock(&self.waiting);
            } else if !waiting.discarded.is_empty() {
                let discarded = std::mem::take(&mut waiting.discarded);
                drop(waiting);
                drop(discarded);
                waiting = lock(&self.waiting);
            } else {
                let arrivals = self.arrivals.load(Ordering::Acquire);
                drop(waiting);
                let has_arrived = (0..LOOKS).any(|_| {
                    (0..STEPS).for_each(|_| std::hint::spin_loop());
                    self.arrivals.load(Ordering::Acquire) != arrivals
                });
                waiting = lock(&self.waiting);
                if has_arrived || !waiting.jobs.is_empty() || waiting.closed {
                    continue;
                }
                waiting.is_idle = true;
                waiting = self.arrived.wait(waiting).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

/// The second thread. It ends when this is dropped.
pub struct Thread(Arc<Queue>);

impl Thread {
    /// Starts it, if there is a second processor.
    ///
    /// # Errors
    /// The system does not start a thread.
    pub fn start() -> io::Result<Self> {
        if std::thread::available_parallelism().map_or(1, NonZero::get) == 1 {
            return Ok(Self::absent());
        }
        let queue = Arc::<Queue>::default();
        let of_thread = queue.clone();
        std::thread::Builder::new().name("aside".to_owned()).spawn(move || of_thread.work())?;
        Ok(Self(queue))
    }

    /// None: the event loop does everything, in the same order as with one.
    #[must_use]
    pub fn absent() -> Self {
        let queue = Queue::default();
        lock(&queue.waiting).closed = true;
        Self(Arc::new(queue))
    }

    /// Futures that are driven in this thread use it until the guard is dropped.
    pub fn enter(&self) -> Entered<'_> {
        let before = QUEUE.replace(Some(self.0.clone()));
        Entered { before, _thread: PhantomData }
    }
}

impl std::fmt::Debug for Thread {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Thread").finish_non_exhaustive()
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        let mut waiting = lock(&self.0.waiting);
        waiting.closed = true;
        waiting.jobs.clear();
        let discarded = std::mem::take(&mut waiting.discarded);
        self.0.wake(waiting);
        drop(discarded);
    }
}

/// A thread that was [entered](Thread::enter). It stays in the thread that entered it.
#[must_use = "the thread is left when this is dropped"]
pub struct Entered<'t> {
    before: Option<Arc<Queue>>,
    _thread: PhantomData<(&'t Thread, *const ())>,
}

impl std::fmt::Debug for Entered<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Entered").finish_non_exhaustive()
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        QUEUE.set(self.before.take());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::*;

    /// Many futures with parts of different length, and what they did in which order in the event loop.
    fn play(thread: &Thread) -> Vec<usize> {
        let _entered = thread.enter();
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let order = Arc::new(Mutex::new(Vec::new()));
            let tasks: Vec<_> = (0..50_usize)
                .map(|number| {
                    let order = order.clone();
                    tokio::spawn(driven(async move {
                        for round in 0..5 {
                            lock(&order).push(number * 10 + round);
                            aside().await;
                            let steps = (number * 7919 + round * 104_729) % 5000;
                            let sum = (0..steps).map(std::hint::black_box).sum::<usize>();
                            back().await;
                            lock(&order).push(sum);
                            tokio::time::sleep(Duration::from_millis(sum as u64 % 3)).await;
                        }
                    }))
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
            std::mem::take(&mut *lock(&order))
        })
    }

    #[test]
    fn the_order_does_not_depend_on_the_thread() {
        let thread = Thread::start().unwrap();
        let first = play(&thread);
        assert_eq!(first.len(), 500);
        // Without a second processor.
        assert_eq!(play(&Thread::absent()), first);
        for _ in 0..20 {
            assert_eq!(play(&thread), first);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn time_stands_still_meanwhile() {
        let thread = Thread::start().unwrap();
        let _entered = thread.enter();
        let start = Instant::now();
        let other = tokio::time::sleep(Duration::from_millis(1));
        let work = driven(async {
            aside().await;
            std::thread::yield_now();
            back().await;
            std::thread::current().id()
        });
        assert_eq!(work.await, std::thread::current().id());
        assert_eq!(start.elapsed(), Duration::ZERO);
        other.await;
        assert_eq!(start.elapsed(), Duration::from_millis(1));
    }

    #[tokio::test]
    async fn who_ends_or_panics_aside_does_so_for_its_task() {
        let thread = Thread::start().unwrap();
        let _entered = thread.enter();
        let ended = driven(async {
            aside().await;
            7
        });
        assert_eq!(ended.await, 7);
        let failed = tokio::spawn(driven(async {
            aside().await;
            u8::try_from(std::hint::black_box(300_u32)).unwrap()
        }));
        assert!(failed.await.unwrap_err().is_panic());
        assert_eq!(driven(async { 1 }).await, 1);
    }

    #[tokio::test]
    async fn what_is_discarded_is_dropped() {
        static DROPPED: AtomicUsize = AtomicUsize::new(0);
        struct Counted;
        impl Drop for Counted {
            fn drop(&mut self) {
                DROPPED.fetch_add(1, Ordering::SeqCst);
            }
        }
        discard(Counted);
        assert_eq!(DROPPED.load(Ordering::SeqCst), 1);
        let thread = Thread::start().unwrap();
        {
            let _entered = thread.enter();
            driven(async {
                for _ in 0..1000 {
                    discard(Counted);
                }
                aside().await;
                discard(Counted);
            })
            .await;
        }
        let queue = Arc::downgrade(&thread.0);
        drop(thread);
        // The thread has ended when nobody has its queue.
        while queue.upgrade().is_some() {
            std::thread::yield_now();
        }
        assert_eq!(DROPPED.load(Ordering::SeqCst), 1002);
    }

    #[tokio::test]
    async fn without_a_thread_nothing_moves() {
        assert!(!is_entered());
        aside().await;
        let here = std::thread::current().id();
        assert_eq!(driven(async { std::thread::current().id() }).await, here);
        back().await;
    }
}
