//! Watchdog: notices when controllers write without an end, so that virtual time stands still or hardly passes.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher as _, RandomState};
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

/// Writes to one object in a minute of virtual time that make it a loop, beside those that go with the number of objects: the status of
/// a ReplicaSet is written at most twice for each of its Pods.
const OF_ONE: u64 = 500;
const OF_ONE_PER_OBJECT: u64 = 5;
/// Beats after which it counts anew.
const WINDOW: u64 = 60;

/// Writes of the last minute of virtual time.
struct Counter {
    /// The last revision that was counted.
    revision: u64,
    /// The beat at which it began.
    begin: u64,
    /// By hashes of names: there may be tens of thousands.
    writes: HashMap<u64, u64>,
    hashes: RandomState,
    /// How many objects there are.
    objects: u64,
}

impl Counter {
    /// Counts what was written since the last time. Is one object written without an end?
    fn is_loop(&mut self, server: &Server, beat: u64) -> bool {
        if beat.saturating_sub(self.begin) >= WINDOW {
            self.begin = beat;
            self.writes.clear();
        }
        let from = self.revision;
        let Self { writes, hashes, objects, revision, .. } = self;
        let counted = server.each_write_after(from, |write| {
            *revision = write.revision;
            if matches!(write.resource, "events" | "leases") {
                return;
            }
            *objects = (*objects + u64::from(write.is_creation)).saturating_sub(u64::from(write.is_deletion));
            let object = hashes.hash_one((write.resource, write.namespace, write.name));
            *writes.entry(object).or_default() += 1;
        });
        if counted.is_err() {
            // What is no longer known is not counted.
            self.revision = server.revision();
        }
        let most = self.writes.values().max().copied().unwrap_or_default();
        most > OF_ONE + OF_ONE_PER_OBJECT * self.objects
    }
}

/// `deployments shop/web`.
fn name(resource: &str, namespace: &str, name: &str) -> String {
    if namespace.is_empty() { format!("{resource} {name}") } else { format!("{resource} {namespace}/{name}") }
}

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
        let mut counter =
            Counter { revision: 0, begin: 0, writes: HashMap::new(), hashes: RandomState::new(), objects: 0 };
        std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                std::thread::sleep(PERIOD);
                let now = beat.load(Ordering::Relaxed);
                if counter.is_loop(&server, now) {
                    notify.notify_one();
                    return;
                }
                let is_standing = now == last.0;
                if is_standing && (last.2.elapsed() <= STANDSTILL || server.revision() <= last.1 + LAST) {
                    continue;
                }
                if is_standing && culprit(&server).is_some() {
                    notify.notify_one();
                    return;
                }
                // Many objects take their time, too: what was looked at is not looked at again.
                last = (now, server.revision(), Instant::now());
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
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let counted = server.each_write_after(server.revision().saturating_sub(LAST), |write| {
        if !matches!(write.resource, "events" | "leases") {
            *counts.entry(name(write.resource, write.namespace, write.name)).or_default() += 1;
        }
    });
    counted.ok()?;
    counts.into_iter().max_by_key(|(_, count)| *count).filter(|(_, count)| *count >= SAME)
}
