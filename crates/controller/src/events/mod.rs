//! Event recorder for events.k8s.io/v1, with client-go's deduplication; and one for core/v1.
//!
//! [`Recorder::record`] returns immediately and cannot fail: reconciles neither wait for events nor fail because of
//! them. A background task writes them in order.
//!
//! - The first event is created. The second one with the same type, reason, action, note, object and related object
//!   makes it a series. Later ones are counted; the count is written after 6 minutes without repetition, every 30
//!   minutes during the series, and by [`Recorder::shutdown`].
//! - Nine events that differ only in their notes are created separately; further ones are combined in one series,
//!   as in client-go's older recorder. (Its newer one ignores notes, and shows only the first.)
//! - Up to 1000 events are queued; further ones are dropped and counted. 4096 series are remembered.
//! - While the API server is unavailable, a write is tried 12 times at intervals of 10 seconds. Rejected events are
//!   logged and dropped. RBAC: `create` and `patch` on `events` of `events.k8s.io`.
//!
//! [`Recorder::core_v1`] writes Events of core/v1 as the kubelet and kube-controller-manager do it (`tools/record` of
//! client-go): each repetition is written at once, with its count; from the tenth on, events that differ only in their messages are combined in one
//! that has the last message; after 25 events about an object, one more is written each five minutes.
//!
//! ```
//! # use settled_apiserver::Server;
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = Server::in_memory().await?;
//! # let client = server.client();
//! # let node: k8s_openapi::api::core::v1::ConfigMap = Default::default();
//! use kube::Resource;
//! use kube::runtime::events::{Event, EventType, Reporter};
//! use settled_controller::{Clock, events::Recorder};
//!
//! let reporter = Reporter { controller: "example.com/buckets".into(), instance: std::env::var("POD_NAME").ok() };
//! let recorder = Recorder::new(client, reporter, Clock::system());
//! let event = Event {
//!     type_: EventType::Warning,
//!     reason: "QuotaExceeded".into(),
//!     action: "Binding".into(),
//!     note: Some("the quota of the namespace is used up".into()),
//!     secondary: None,
//! };
//! recorder.record(event, node.object_ref(&()));
//! recorder.shutdown().await;
//! # Ok(())
//! # }
//! ```

mod correlator;
mod object;
mod series;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event as CoreEvent, ObjectReference};
use k8s_openapi::api::events::v1::Event as ApiEvent;
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::events::{Event, Reporter};
use kube::{Client, Resource};
use serde::Serialize;
use serde_json::json;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, sleep_until};

use crate::Clock;
use correlator::{Correlator, MAX_REMEMBERED};
use series::{AllSeries, FINISH_TIME};

/// `maxQueuedEvents` of client-go.
const MAX_QUEUED: usize = 1000;
/// Maximum number of remembered series.
const MAX_SERIES: usize = 4096;
/// `maxTriesPerEvent` of client-go.
const MAX_TRIES: u32 = 12;
/// `defaultSleepDuration` of client-go.
const RETRY_AFTER: Duration = Duration::from_secs(10);

/// Counters of the recorder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventCounts {
    /// Requests that created an event or wrote the count of a series.
    pub written: u64,
    /// Events dropped because the queue was full.
    pub dropped: u64,
    /// Requests that the API server rejected, or that failed too often.
    pub failed: u64,
}

#[derive(Debug, Default)]
struct Counters {
    written: AtomicU64,
    dropped: AtomicU64,
    failed: AtomicU64,
}

impl Counters {
    fn read(&self) -> EventCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        EventCounts { written: read(&self.written), dropped: read(&self.dropped), failed: read(&self.failed) }
    }
}

enum Message {
    Record(Box<(Event, ObjectReference)>),
    Shutdown(oneshot::Sender<()>),
}

/// Records events. Clones share the recorder; it ends with the last one, or with [`Recorder::shutdown`]. See the
/// [module](self).
#[derive(Clone, Debug)]
pub struct Recorder {
    sender: mpsc::Sender<Message>,
    counters: Arc<Counters>,
}

impl Recorder {
    /// Creates a recorder for a controller, and starts its task.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[must_use]
    pub fn new(client: Client, reporter: impl Into<Reporter>, clock: Clock) -> Self {
        Self::start(client, clock, Deduplicated::Series(AllSeries::new(reporter.into(), MAX_SERIES)))
    }

    /// Creates a recorder of core/v1 Events, and starts its task. For components that are to look like those of Kubernetes:
    /// the reporter's instance is the host. Actions and related objects of events are left out.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[must_use]
    pub fn core_v1(client: Client, reporter: impl Into<Reporter>, clock: Clock) -> Self {
        let correlator = Correlator::new(reporter.into(), MAX_REMEMBERED);
        Self::start(client, clock, Deduplicated::Core(correlator))
    }

    fn start(client: Client, clock: Clock, events: Deduplicated) -> Self {
        let (sender, receiver) = mpsc::channel(MAX_QUEUED);
        let counters = Arc::new(Counters::default());
        let writer = Writer { client, clock, events, counters: counters.clone() };
        tokio::spawn(writer.run(receiver));
        Self { sender, counters }
    }

    /// Records an event about an object.
    pub fn record(&self, event: Event, regarding: ObjectReference) {
        if self.sender.try_send(Message::Record(Box::new((event, regarding)))).is_err() {
            self.counters.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Writes all queued events and the counts of all series, and ends the recorder. Later events of clones are
    /// dropped.
    pub async fn shutdown(self) {
        let (done, written) = oneshot::channel();
        if self.sender.send(Message::Shutdown(done)).await.is_ok() {
            // A task that ended without an answer has ended, too.
            let _ended = written.await;
        }
    }

    /// Counters of the recorder and its clones.
    #[must_use]
    pub fn counts(&self) -> EventCounts {
        self.counters.read()
    }

    /// The counters without a clone of the recorder, which would keep its task alive.
    pub(crate) fn counter(&self) -> impl Fn() -> EventCounts + Send + Sync + use<> {
        let counters = self.counters.clone();
        move || counters.read()
    }
}

/// An event to write.
enum Due {
    Series(ApiEvent),
    Core(CoreEvent),
}

/// The events of a recorder, by the API that they are written to.
enum Deduplicated {
    Series(AllSeries),
    Core(Correlator),
}

impl Deduplicated {
    fn record(&mut self, event: Event, regarding: ObjectReference, now: Timestamp) -> Option<Due> {
        match self {
            Self::Series(series) => series.record(event, regarding, now).map(Due::Series),
            Self::Core(correlator) => correlator.record(event, regarding, now).map(Due::Core),
        }
    }

    /// The counts to write now.
    fn due(&mut self, now: Timestamp) -> Vec<Due> {
        match self {
            Self::Series(series) => series.due(now).into_iter().map(Due::Series).collect(),
            Self::Core(_) => Vec::new(),
        }
    }

    /// All counts that the API server does not have yet.
    fn unwritten(&mut self, now: Timestamp) -> Vec<Due> {
        match self {
            Self::Series(series) => series.unwritten(now).into_iter().map(Due::Series).collect(),
            Self::Core(_) => Vec::new(),
        }
    }
}

struct Writer {
    client: Client,
    clock: Clock,
    events: Deduplicated,
    counters: Arc<Counters>,
}

impl Writer {
    async fn run(mut self, mut receiver: mpsc::Receiver<Message>) {
        let every = FINISH_TIME.unsigned_abs();
        let mut next_check = Instant::now() + every;
        let done = loop {
            tokio::select! {
                message = receiver.recv() => match message {
                    Some(Message::Record(recorded)) => {
                        let (event, regarding) = *recorded;
                        if let Some(event) = self.events.record(event, regarding, self.clock.now()) {
                            self.write(event).await;
                        }
                    }
                    Some(Message::Shutdown(done)) => break Some(done),
                    None => break None,
                },
                () = sleep_until(next_check) => {
                    next_check = Instant::now() + every;
                    for event in self.events.due(self.clock.now()) {
                        self.write(event).await;
                    }
                }
            }
        };
        for event in self.events.unwritten(self.clock.now()) {
            self.write(event).await;
        }
        if let Some(done) = done {
            // The caller may have gone.
            let _waiting = done.send(());
        }
    }

    /// Creates an event, or writes the count of a series.
    async fn write(&self, event: Due) {
        for attempt in 1..=MAX_TRIES {
            let error = match self.request(&event).await {
                Ok(()) => {
                    self.counters.written.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                Err(error) => error,
            };
            let reason = match &event {
                Due::Series(event) => event.reason.as_deref(),
                Due::Core(event) => event.reason.as_deref(),
            };
            if !is_transient(&error) || attempt == MAX_TRIES {
                tracing::warn!(reason, attempt, error = &error as &dyn std::error::Error, "event dropped");
                break;
            }
            tracing::debug!(
                reason,
                attempt,
                error = &error as &dyn std::error::Error,
                "failed to write event; retrying"
            );
            sleep(RETRY_AFTER).await;
        }
        self.counters.failed.fetch_add(1, Ordering::Relaxed);
    }

    async fn request(&self, event: &Due) -> Result<(), kube::Error> {
        match event {
            Due::Series(event) => {
                let patch = event.series.as_ref().map(|series| Patch::Merge(json!({"series": series})));
                self.patch_or_create(event, patch).await
            }
            Due::Core(event) => {
                let is_repeated = event.count.is_some_and(|count| count > 1);
                let CoreEvent { count, last_timestamp, message, .. } = event;
                let patch = is_repeated.then(|| {
                    Patch::Strategic(
                        json!({"count": count, "lastTimestamp": last_timestamp, "message": message}),
                    )
                });
                self.patch_or_create(event, patch).await
            }
        }
    }

    /// Patches an event that was written before, and creates one that was not or is not there any more.
    async fn patch_or_create<K>(
        &self,
        event: &K,
        patch: Option<Patch<serde_json::Value>>,
    ) -> Result<(), kube::Error>
    where
        K: Resource<DynamicType = ()> + Serialize,
    {
        let namespace = event.meta().namespace.as_deref();
        let request = kube::core::Request::new(K::url_path(&(), namespace));
        if let Some(patch) = patch {
            let name = event.meta().name.as_deref().unwrap_or_default();
            let mut request =
                request.patch(name, &PatchParams::default(), &patch).map_err(kube::Error::BuildRequest)?;
            request.extensions_mut().insert("patch");
            match self.client.request_text(request).await {
                // The API server deletes events after an hour.
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                result => return result.map(drop),
            }
        }
        let body = serde_json::to_vec(event).map_err(kube::Error::SerdeError)?;
        let mut request = request.create(&PostParams::default(), body).map_err(kube::Error::BuildRequest)?;
        // The span name of `Api::create`.
        request.extensions_mut().insert("create");
        // The response has nothing that is not known: it is not read.
        match self.client.request_text(request).await {
            // The response to an earlier attempt was lost.
            Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
            result => result.map(drop),
        }
    }
}

/// As client-go: rejected events are not retried. Overload is not a rejection.
fn is_transient(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => status.code == 429 || status.code >= 500,
        kube::Error::BuildRequest(_) | kube::Error::SerdeError(_) => false,
        _ => true,
    }
}
