//! Watchdog: notices when virtual time stands still because controllers write without an end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use settled_apiserver::Server;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// How often it looks, in real time.
const PERIOD: Duration = Duration::from_millis(250);
/// How often virtual time shows that it passes.
const BEAT: Duration = Duration::from_secs(1);
/// For how long virtual time may stand still, in real time, while objects are written.
const STANDSTILL: Duration = Duration::from_secs(15);
/// Writes to the object that is written most, of the last ones, that make it a loop.
const LAST: u64 = 2000;
const SAME: usize = 200;

/// A thread beside the runtime, which works while the runtime is busy.
#[derive(Debug)]
pub(crate) struct Watchdog {
    stop: Arc<AtomicBool>,
    barks: Arc<Notify>,
    beats: JoinHandle<()>,
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.beats.abort();
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Watchdog {
    /// Starts to look, in the runtime of the rehearsal.
    pub(crate) fn start(server: &Server) -> Self {
        let (stop, barks) = (Arc::new(AtomicBool::new(false)), Arc::new(Notify::new()));
        let (stopped, notify) = (Arc::clone(&stop), Arc::clone(&barks));
        // Only tasks of the runtime can read its time.
        let beat = Arc::new(AtomicU64::new(0));
        let beats = tokio::spawn({
            let beat = Arc::clone(&beat);
            async move {
                loop {
                    tokio::time::sleep(BEAT).await;
                    beat.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        let server = server.clone();
        let mut last = (0, server.revision(), Instant::now());
        std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                std::thread::sleep(PERIOD);
                let now = beat.load(Ordering::Relaxed);
                if now != last.0 {
                    last = (now, server.revision(), Instant::now());
                } else if last.2.elapsed() > STANDSTILL
                    && server.revision() > last.1 + LAST
                    && culprit(&server).is_some()
                {
                    notify.notify_one();
                    return;
                }
            }
        });
        Self { stop, barks, beats }
    }

    /// Waits until there is a loop.
    pub(crate) async fn barks(&self) {
        self.barks.notified().await;
    }
}

/// The object that is written again and again, and how often it was among the last writes.
pub(crate) fn culprit(server: &Server) -> Option<(String, usize)> {
    let changes = server.changes_after(server.revision().saturating_sub(LAST)).ok()?;
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for change in changes.iter().filter(|change| !matches!(&*change.resource, "events" | "leases")) {
        let place =
            if change.namespace.is_empty() { String::new() } else { format!("{}/", change.namespace) };
        *counts.entry(format!("{} {place}{}", change.resource, change.name)).or_default() += 1;
    }
    counts.into_iter().max_by_key(|(_, count)| *count).filter(|(_, count)| *count >= SAME)
}
