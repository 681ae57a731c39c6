//! Workers: reconcile the keys of a queue concurrently, each key at most once at a time.
//!
//! A reconcile that fails or panics is retried after the backoff of its key, and does not delay others.

use std::fmt::{Debug, Display};
use std::hash::Hash;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt as _;
use futures::stream::{FuturesUnordered, StreamExt as _};
use tokio::time::Instant;
use tracing::Instrument as _;

use crate::metrics::{ControllerMetrics, ReconcileResult};
use crate::queue::{Item, Queue};

/// Requeue decision of a successful reconcile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// No requeue: wait for changes.
    AwaitChange,
    /// Requeue after this time.
    RequeueAfter(Duration),
}

/// Reconciles the keys of a queue with up to `workers` concurrently, until the queue is shut down and the last
/// reconcile has ended.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use settled_controller::queue::{Backoff, Queue};
/// use settled_controller::worker::{self, Next};
///
/// let queue = Queue::new(Backoff::default());
/// queue.add("web", 0);
/// let reconcile = async |name: &'static str| {
///     println!("reconciling {name}");
///     queue.shut_down();
///     Ok::<_, std::io::Error>(Next::AwaitChange)
/// };
/// worker::run(&queue, 4, None, reconcile).await;
/// # }
/// ```
pub async fn run<K, F, E>(
    queue: &Queue<K>,
    workers: usize,
    metrics: Option<&ControllerMetrics>,
    reconcile: impl Fn(K) -> F,
) where
    K: Clone + Eq + Hash + Debug,
    F: Future<Output = Result<Next, E>>,
    E: Display,
{
    let mut running = FuturesUnordered::new();
    loop {
        tokio::select! {
            Some(()) = running.next(), if !running.is_empty() => {}
            item = queue.next(), if running.len() < workers.max(1) => match item {
                Some(item) => running.push(work(item, metrics, &reconcile)),
                None => break,
            },
        }
    }
    while running.next().await.is_some() {}
}

async fn work<K, F, E>(item: Item<K>, metrics: Option<&ControllerMetrics>, reconcile: impl Fn(K) -> F)
where
    K: Clone + Eq + Hash + Debug,
    F: Future<Output = Result<Next, E>>,
    E: Display,
{
    let key = item.key().clone();
    let span = tracing::info_span!("reconcile", object = ?key);
    if let Some(metrics) = metrics {
        metrics.begin(item.waited());
    }
    let began = Instant::now();
    // A panic counts as a failure. The future is not used afterwards.
    let outcome =
        AssertUnwindSafe(async { reconcile(key).await }).catch_unwind().instrument(span.clone()).await;
    let took = began.elapsed();
    let _entered = span.enter();
    let result = match outcome {
        Ok(Ok(Next::AwaitChange)) => {
            item.succeed();
            ReconcileResult::Success
        }
        Ok(Ok(Next::RequeueAfter(delay))) => {
            item.succeed_and_requeue(delay);
            ReconcileResult::RequeueAfter
        }
        Ok(Err(error)) => {
            let retry = item.fail();
            tracing::error!(%error, ?took, ?retry, "failed to reconcile");
            ReconcileResult::Error
        }
        Err(panic) => {
            let retry = item.fail();
            let message = panic
                .downcast_ref::<&str>()
                .copied()
                .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
            tracing::error!(
                panic = message.unwrap_or("no message"),
                ?took,
                ?retry,
                "panicked while reconciling"
            );
            ReconcileResult::Panic
        }
    };
    if let Some(metrics) = metrics {
        metrics.end(result, took);
    }
}
