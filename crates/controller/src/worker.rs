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

/// A panic of a reconcile, with its message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("panicked while reconciling: {0}")]
pub struct Panicked(pub String);

/// Awaits a reconcile, and makes an error of its panic. For kube's `Controller`, which would end with it: there, the reconcile of one object
/// then fails, and its error policy decides when it is retried. [`run`] does the same by itself.
///
/// # Errors
/// The reconcile panicked.
pub async fn catch_panic<T>(reconcile: impl Future<Output = T>) -> Result<T, Panicked> {
    // The future is not used after the panic.
    AssertUnwindSafe(reconcile).catch_unwind().await.map_err(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        Panicked(text.or_else(|| panic.downcast_ref().cloned()).unwrap_or_else(|| "no message".to_owned()))
    })
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
    let outcome = catch_panic(async { reconcile(key).await }).instrument(span.clone()).await;
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
        Err(Panicked(panic)) => {
            let retry = item.fail();
            tracing::error!(panic, ?took, ?retry, "panicked while reconciling");
            ReconcileResult::Panic
        }
    };
    if let Some(metrics) = metrics {
        metrics.end(result, took);
    }
}
