//! List and watch: one stream of changes, kept alive whatever happens to the connection.
//!
//! ```text
//!            ┌──────────── 410: the revision is too old ───────────┐
//!            v                                                     │
//! start ─> sync ─ watch with the state first, or list in pages ─> watch ─ closed, silent, 429, 5xx ─> watch again
//!            │                                                     │
//!            └─ 403: Forbidden, the receiver falls back to get    └─ 401: new credentials, then again
//! ```

use std::borrow::Cow;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use http_body_util::BodyExt as _;
use jiff::Timestamp;
use settled_aside::{aside, back};
use settled_manifest::ListItems;
use tokio::sync::mpsc::Sender;
use tokio::time::Instant;
use tracing::Instrument as _;
use tracing::field::Empty;

use crate::cluster::{Cluster, encode};
use crate::error::{ErrorMessage, RequestError, innermost, status_error};
use crate::exchange::{PARTIAL, PARTIAL_LIST, Verb};
use crate::metadata::{ListHead, Status, read_metadata};
pub use crate::scope::Scope;
use crate::wire::{self, EventType, Lines};

/// Servers send a bookmark each minute or so. Who says nothing for longer may be dead, however alive the connection looks.
pub(crate) const SILENCE: Duration = Duration::from_secs(90);
/// How many objects a page of a list has.
pub(crate) const PAGE: usize = 500;
/// Expirations of the resourceVersion that are closer together than this are a storm, whatever succeeds between them.
const EXPIRATIONS_APART: Duration = Duration::from_secs(60);
/// The longest pause between two tries.
pub(crate) const MAX_BACKOFF: Duration = Duration::from_secs(10);
const JSON: &str = "application/json";

/// What becomes of an object on its way to the receiver. It is called while the object arrives; nobody else keeps its bytes.
pub trait Decode: Send + Sync {
    /// What is kept of an object.
    type Item: Send;

    /// What is kept of an object, and its resourceVersion as a number, 0 if it is none. Nothing if the object is passed over.
    fn decode(&self, object: &[u8], now: Timestamp) -> Option<(Self::Item, u64)>;

    /// The same of an object that is gone, or no longer selected: how it was at last.
    fn decode_deleted(&self, object: &[u8], now: Timestamp) -> Option<(Self::Item, u64)> {
        self.decode(object, now)
    }

    /// An initial list, or a relist, begins: as [`Update::Restart`], before its first object is decoded.
    fn restarted(&self) {}

    /// It is complete, at this resourceVersion: as [`Update::Synced`], before the next object is decoded.
    fn synced(&self, _resource_version: &str) {}

    /// A bookmark: all changes up to this resourceVersion were decoded.
    fn bookmark(&self, _resource_version: &str) {}

    /// All that has arrived so far was decoded. What changes what others look at belongs here: with a [`settled_aside::Thread`], the rest is done by
    /// that thread.
    fn apply(&self) {}
}

impl<D: Decode + ?Sized> Decode for Arc<D> {
    type Item = D::Item;

    fn decode(&self, object: &[u8], now: Timestamp) -> Option<(Self::Item, u64)> {
        (**self).decode(object, now)
    }

    fn decode_deleted(&self, object: &[u8], now: Timestamp) -> Option<(Self::Item, u64)> {
        (**self).decode_deleted(object, now)
    }

    fn restarted(&self) {
        (**self).restarted();
    }

    fn synced(&self, resource_version: &str) {
        (**self).synced(resource_version);
    }

    fn bookmark(&self, resource_version: &str) {
        (**self).bookmark(resource_version);
    }

    fn apply(&self) {
        (**self).apply();
    }
}

/// What happened.
#[derive(Clone, Debug)]
pub enum Update<T> {
    /// The whole state follows; what is not in it is gone.
    Restart,
    /// An object is there, or is another than before.
    Put(T),
    /// An object is gone, or no longer selected: how it was at last.
    Gone(T),
    /// The object of this name is gone; how it was is not known.
    Missing(Box<str>),
    /// The initial list, or a relist, is complete.
    Synced,
    /// The last request succeeded, after some that did not.
    Up,
    /// The last request failed; it is retried. With the number of answers of the server by then.
    Down(RequestError, u64),
    /// The user may not list, or not watch. The stream has ended.
    Forbidden(Verb, RequestError),
    /// The server rejects the request as malformed. The stream has ended.
    Rejected(RequestError),
    /// The server does not have this kind (any more). It is tried again.
    NoKind,
}

/// What happened on which stream, in order.
#[derive(Clone, Debug)]
pub struct Message<I, T> {
    /// The stream.
    pub stream: I,
    /// What happened.
    pub updates: Vec<Update<T>>,
}

/// How a try ended.
enum End {
    /// The watch ended as all watches do in the end.
    Closed,
    /// The revision is too old to go on from.
    Expired,
    /// The server cannot begin a watch with the state.
    NoWatchList,
    /// The receiver was dropped.
    ReceiverDropped,
}

/// Follows the objects of a scope until the receiver is dropped. `stream` names it in its messages, and spreads its requests in time.
pub async fn follow<D, I>(
    cluster: Cluster,
    scope: Scope,
    decoder: D,
    stream: I,
    out: Sender<Message<I, D::Item>>,
) where
    D: Decode + 'static,
    I: Copy + Into<u32> + Send + Sync + 'static,
{
    let span = scope.span();
    let follower = Follower {
        cluster,
        scope,
        decoder,
        stream,
        out,
        updates: Vec::new(),
        buffer: Vec::new(),
        resource_version: None,
        failures: 0,
        expirations: (0, None),
        down_reported: false,
        watched: None,
        watch_list: true,
        synced: false,
        objects: 0,
        events: 0,
        now: Timestamp::UNIX_EPOCH,
    };
    settled_aside::driven(follower.run().instrument(span)).await;
}

struct Follower<D: Decode, I> {
    cluster: Cluster,
    scope: Scope,
    decoder: D,
    stream: I,
    out: Sender<Message<I, D::Item>>,
    updates: Vec<Update<D::Item>>,
    buffer: Vec<u8>,
    /// The resourceVersion that the next watch resumes from; none for a relist.
    resource_version: Option<String>,
    /// How many tries in a row have failed.
    failures: u32,
    /// How often in a row the resourceVersion has expired soon after the last time, and when it did last.
    expirations: (u32, Option<Instant>),
    /// It was reported that the last one did.
    down_reported: bool,
    /// When the present watch began.
    watched: Option<Instant>,
    /// Whether a watch that begins with the state may be tried.
    watch_list: bool,
    /// The initial list was complete once.
    synced: bool,
    /// How many objects have come since the last list began.
    objects: usize,
    /// How many events the present watch has sent.
    events: usize,
    /// When what is decoded arrived.
    now: Timestamp,
}

impl<D: Decode, I: Copy + Into<u32>> Follower<D, I> {
    async fn run(mut self) {
        loop {
            let tried = match self.resource_version.is_none() {
                true if self.asked_to_watch() => self.watch(true).await,
                true => self.list().await,
                false if self.scope.resource.watch => self.watch(false).await,
                false => {
                    tokio::time::sleep(MAX_BACKOFF / 2).await;
                    self.resource_version = None;
                    continue;
                }
            };
            let pause = match tried {
                Ok(End::ReceiverDropped) => return,
                // A user who may not watch may be allowed to list.
                Err(error)
                    if error.is_forbidden() && self.resource_version.is_none() && self.asked_to_watch() =>
                {
                    tracing::debug!("a watch is forbidden; listing instead");
                    self.watch_list = false;
                    continue;
                }
                Ok(End::NoWatchList) => {
                    tracing::debug!("a watch cannot begin with the initial list here; listing instead");
                    self.cluster.without_watch_list();
                    continue;
                }
                Ok(End::Expired) => {
                    // A server that is behind may say so again at once.
                    self.failures += 1;
                    self.relist()
                }
                Ok(End::Closed) => {
                    let lasted = self.watched.map(|since| since.elapsed());
                    // A server that closes at once should not be asked a thousand times a second.
                    if lasted.is_some_and(|lasted| lasted < Duration::from_secs(1)) {
                        self.failures += 1;
                        self.pause(None)
                    } else {
                        self.failures = 0;
                        Duration::ZERO
                    }
                }
                Err(error) => {
                    self.failures += 1;
                    match error.code() {
                        Some(403) => {
                            let verb = if self.resource_version.is_some() { Verb::Watch } else { Verb::List };
                            tracing::warn!(verb = verb.as_str(), "forbidden; the stream ends");
                            self.updates.push(Update::Forbidden(verb, error));
                            self.flush().await;
                            return;
                        }
                        _ if error.is_rejected() => {
                            tracing::warn!(error = error.summary(), "rejected; the stream ends");
                            self.updates.push(Update::Rejected(error));
                            self.flush().await;
                            return;
                        }
                        Some(404) => {
                            self.resource_version = None;
                            self.updates.push(Update::NoKind);
                            let pause = self.pause(None);
                            let backoff_ms = pause.as_millis();
                            tracing::info!(backoff_ms, "the kind is not served; retrying");
                            pause
                        }
                        Some(410) => self.relist(),
                        Some(401) if self.failures <= 2 && self.cluster.refresh().await => Duration::ZERO,
                        _ => {
                            let pause = self.pause(match &error {
                                RequestError::Status { retry_after, .. } => *retry_after,
                                _ => None,
                            });
                            self.log_failure(&error, pause);
                            self.updates.push(Update::Down(error, self.cluster.answers()));
                            self.down_reported = true;
                            pause
                        }
                    }
                }
            };
            if !self.flush().await {
                return;
            }
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
        }
    }

    /// Whether the state was asked for by a watch.
    fn asked_to_watch(&self) -> bool {
        self.watch_list && self.cluster.has_watch_list() && self.scope.resource.watch
    }

    /// How long to wait before the next try: longer each time, and not all streams at once.
    fn pause(&self, asked: Option<Duration>) -> Duration {
        let exponential =
            Duration::from_millis(200 << self.failures.saturating_sub(1).min(6)).min(MAX_BACKOFF);
        let spread = Duration::from_millis(u64::from(self.stream.into().wrapping_mul(37) % 100));
        asked.unwrap_or_default().max(exponential) + spread
    }

    /// The resourceVersion is too old: the next request is a list again. Says how long to wait before.
    fn relist(&mut self) -> Duration {
        self.resource_version = None;
        // The list between two expirations succeeds: that alone is no reason to list again at once.
        let (count, last) = &mut self.expirations;
        *count = if last.is_some_and(|last| last.elapsed() < EXPIRATIONS_APART) { *count + 1 } else { 1 };
        *last = Some(Instant::now());
        self.failures = self.failures.max(*count);
        let pause = self.pause(None);
        tracing::info!(backoff_ms = pause.as_millis(), "the resourceVersion has expired; relisting");
        pause
    }

    fn log_failure(&self, error: &RequestError, pause: Duration) {
        let (failures, backoff_ms) = (self.failures, pause.as_millis());
        match error.code() {
            Some(429) => tracing::warn!(failures, backoff_ms, "throttled by the server; retrying"),
            _ => tracing::warn!(error = error.summary(), failures, backoff_ms, "failed; retrying"),
        }
    }

    fn path(&self, query: &str) -> String {
        let mut path = self.scope.resource.path(self.scope.namespace.as_deref(), None);
        path.push('?');
        path.push_str(query);
        if let Some(labels) = &self.scope.labels {
            path.push_str("&labelSelector=");
            path.push_str(&encode(labels));
        }
        if let Some(fields) = &self.scope.fields {
            path.push_str("&fieldSelector=");
            path.push_str(&encode(fields));
        }
        path
    }

    /// Sends the updates so far. Says whether there is a receiver.
    async fn flush(&mut self) -> bool {
        if self.updates.is_empty() {
            return !self.out.is_closed();
        }
        let updates = std::mem::take(&mut self.updates);
        self.out.send(Message { stream: self.stream, updates }).await.is_ok()
    }

    /// A request succeeded, and returned something.
    fn succeeded(&mut self) {
        self.failures = 0;
        self.up();
    }

    /// A request succeeded: how long for, is still to be seen.
    fn up(&mut self) {
        if std::mem::take(&mut self.down_reported) {
            tracing::info!("reconnected");
            self.updates.push(Update::Up);
        }
    }

    /// The whole state follows.
    fn restart(&mut self) {
        self.objects = 0;
        self.decoder.restarted();
        self.decoder.apply();
        self.updates.push(Update::Restart);
    }

    /// The whole state was there.
    fn complete(&mut self) {
        let objects = self.objects;
        match std::mem::replace(&mut self.synced, true) {
            false => tracing::info!(objects, "listed"),
            true => tracing::info!(objects, "relisted"),
        }
        self.updates.push(Update::Synced);
    }

    /// Notes an object; its resourceVersion, if that is a number.
    fn put(&mut self, object: &[u8]) -> Option<u64> {
        let (item, resource_version) = self.decode(object, EventType::Modified)?;
        self.objects += 1;
        self.updates.push(Update::Put(item));
        Some(resource_version).filter(|resource_version| *resource_version > 0)
    }

    fn decode(&mut self, object: &[u8], event: EventType) -> Option<(D::Item, u64)> {
        let (resource, now) = (&self.scope.resource, self.now);
        // Metadata alone has a type of its own.
        let object = match self.scope.metadata {
            true => object,
            false => wire::typed(object, &resource.api_version(), &resource.kind, &mut self.buffer),
        };
        match event {
            EventType::Deleted => self.decoder.decode_deleted(object, now),
            _ => self.decoder.decode(object, now),
        }
    }

    /// Lists all objects, page by page.
    async fn list(&mut self) -> Result<End, RequestError> {
        let mut token = String::new();
        self.restart();
        loop {
            let mut query = format!("limit={PAGE}");
            if !token.is_empty() {
                query.push_str("&continue=");
                query.push_str(&encode(&token));
            }
            let path = self.path(&query);
            let accept = if self.scope.metadata { PARTIAL_LIST } else { JSON };
            let answer = self.cluster.send(Verb::List, Method::GET, &path, accept, None).await?;
            let mut body = answer.into_body();
            let mut items = ListItems::default();
            while let Some(frame) = within(SILENCE, body.frame()).await? {
                let frame = frame.map_err(broken)?;
                let Some(data) = frame.data_ref() else { continue };
                self.cluster.count_bytes(data.len());
                self.now = self.cluster.now();
                aside().await;
                let each = |item: &[u8]| {
                    self.put(item);
                };
                let pushed = items.push(data, each);
                back().await;
                self.decoder.apply();
                pushed.map_err(RequestError::answer)?;
                if !self.flush().await {
                    return Ok(End::ReceiverDropped);
                }
            }
            let head = items.finish().map_err(RequestError::answer)?;
            let head: ListHead = serde_json::from_slice(&head).map_err(|error| {
                RequestError::Answer(ErrorMessage::new(format!("{path} is no list: {error}"), error))
            })?;
            self.succeeded();
            if head.metadata.continue_.is_empty() {
                self.decoder.synced(&head.metadata.resource_version);
                self.decoder.apply();
                self.resource_version = Some(head.metadata.resource_version);
                self.complete();
                return Ok(if self.flush().await { End::Closed } else { End::ReceiverDropped });
            }
            token = head.metadata.continue_;
        }
    }

    /// Watches from the resourceVersion; or, `from_state`, from the initial list on.
    async fn watch(&mut self, from_state: bool) -> Result<End, RequestError> {
        let span = tracing::debug_span!(
            "watch",
            resource_version = self.resource_version.as_deref(),
            initial_list = from_state,
            events = Empty,
            reason = Empty,
        );
        self.events = 0;
        let ended = self.watch_events(from_state).instrument(span.clone()).await;
        if !span.is_disabled() {
            span.record("events", self.events);
            span.record("reason", &*reason(&ended));
            tracing::debug!(parent: &span, "watch ended");
        }
        ended
    }

    async fn watch_events(&mut self, from_state: bool) -> Result<End, RequestError> {
        // So that not all watches of a cluster end at once.
        let seconds = 300 + self.stream.into().wrapping_mul(53) % 240;
        let mut query = format!("watch=true&allowWatchBookmarks=true&timeoutSeconds={seconds}");
        match &self.resource_version {
            Some(resource_version) => {
                query.push_str("&resourceVersion=");
                query.push_str(&encode(resource_version));
            }
            None => query.push_str("&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"),
        }
        let path = self.path(&query);
        let accept = if self.scope.metadata { PARTIAL } else { JSON };
        let answer = match self.cluster.send(Verb::Watch, Method::GET, &path, accept, None).await {
            // Older servers don't know the parameters, and say so in one of these ways.
            Err(RequestError::Status { code: 400 | 422, .. }) if from_state => return Ok(End::NoWatchList),
            answer => answer?,
        };
        self.watched = Some(Instant::now());
        let mut syncing = from_state;
        if syncing {
            self.restart();
        } else {
            self.up();
            if !self.flush().await {
                return Ok(End::ReceiverDropped);
            }
        }
        let mut body = answer.into_body();
        let mut lines = Lines::default();
        loop {
            let frame = tokio::select! {
                frame = tokio::time::timeout(SILENCE, body.frame()) => frame,
                () = self.out.closed() => return Ok(End::ReceiverDropped),
            };
            let data = match frame {
                // Silent for too long. From the same revision, nothing is lost.
                Err(_) if syncing => {
                    return Err(RequestError::Transport("the state does not come".to_owned().into()));
                }
                Ok(None) if syncing => {
                    return Err(RequestError::Transport(
                        "the watch ended before the initial list was complete".to_owned().into(),
                    ));
                }
                Err(_) | Ok(None) => return Ok(End::Closed),
                Ok(Some(Err(_)))
                    if !syncing && self.watched.is_some_and(|w| w.elapsed() > Duration::from_secs(1)) =>
                {
                    return Ok(End::Closed);
                }
                Ok(Some(Err(error))) => return Err(broken(error)),
                Ok(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => data,
                    Err(_) => continue,
                },
            };
            self.cluster.count_bytes(data.len());
            self.now = self.cluster.now();
            let mut end = None;
            aside().await;
            let pushed = lines.push(&data, |line| {
                if end.is_none() {
                    end = self.line(line, &mut syncing);
                }
            });
            back().await;
            self.decoder.apply();
            pushed.map_err(RequestError::answer)?;
            if !self.flush().await {
                return Ok(End::ReceiverDropped);
            }
            match end {
                Some(Ok(end)) => return Ok(end),
                Some(Err(error)) => return Err(error),
                None => {}
            }
        }
    }

    /// One line of a watch. Says how the watch ends, if it does with this line.
    fn line(&mut self, line: &[u8], syncing: &mut bool) -> Option<Result<End, RequestError>> {
        if line.trim_ascii().is_empty() {
            return None;
        }
        let Some((kind, object)) = wire::read_event(line) else {
            let text = format!("the watch of {} sent what is no event", self.scope.describe());
            return Some(Err(RequestError::Answer(text.into())));
        };
        self.events += 1;
        tracing::trace!(kind = ?kind, bytes = object.len(), "event");
        match kind {
            EventType::Added | EventType::Modified => {
                self.failures = 0;
                let resource_version = self.put(object);
                self.advance(object, resource_version, *syncing);
            }
            EventType::Deleted => {
                if let Some((item, _)) = self.decode(object, kind) {
                    self.updates.push(Update::Gone(item));
                }
                self.advance(object, None, *syncing);
            }
            EventType::Bookmark => {
                let metadata = read_metadata(object)?;
                if *syncing && metadata.ends_initial_list() {
                    *syncing = false;
                    self.decoder.synced(&metadata.resource_version);
                    self.succeeded();
                    self.complete();
                } else if !*syncing {
                    self.decoder.bookmark(&metadata.resource_version);
                }
                self.resource_version = Some(metadata.resource_version);
            }
            EventType::Error => {
                let code = serde_json::from_slice(object).map_or(500, |status: Status| status.code);
                return Some(if code == 410 {
                    Ok(End::Expired)
                } else {
                    Err(status_error(code, None, object))
                });
            }
        }
        None
    }

    /// Notes the resourceVersion to resume from. There is none before the initial list is complete.
    fn advance(&mut self, object: &[u8], resource_version: Option<u64>, syncing: bool) {
        if syncing {
            return;
        }
        // Not every server's revisions are numbers.
        let read = || read_metadata(object).map(|metadata| metadata.resource_version);
        if let Some(resource_version) =
            resource_version.map(|resource_version| resource_version.to_string()).or_else(read)
        {
            self.resource_version = Some(resource_version);
        }
    }
}

/// Why a watch has ended, for logs.
fn reason(ended: &Result<End, RequestError>) -> Cow<'static, str> {
    match ended {
        Ok(End::Closed) => "closed".into(),
        Ok(End::Expired) => "resourceVersion expired".into(),
        Ok(End::NoWatchList) => "cannot begin with the initial list".into(),
        Ok(End::ReceiverDropped) => "no receiver".into(),
        Err(error) => error.summary().into(),
    }
}

pub(crate) async fn within<T>(limit: Duration, future: impl Future<Output = T>) -> Result<T, RequestError> {
    tokio::time::timeout(limit, future)
        .await
        .map_err(|_| RequestError::Transport("the answer does not end".to_owned().into()))
}

pub(crate) fn broken(error: impl Into<Box<dyn Error + Send + Sync>>) -> RequestError {
    let error = error.into();
    let text = format!("the connection broke: {}", innermost(&*error));
    RequestError::Transport(ErrorMessage::new(text, error))
}
