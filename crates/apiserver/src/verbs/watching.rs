//! Watches: events, bookmarks, initial events, timeouts.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use settled_store::{Entry, Event, ReadError, Revision, Watch, WatchError};
use tokio::time::{Instant, Sleep};

use crate::error::ApiError;
use crate::kinds::definition::Definition;
use crate::object;
use crate::options::ListOptions;
use crate::state::State;
use crate::state::random::Random;
use crate::verbs::read::{self, Filter};

/// How much is handed to the connection at once, about.
const CHUNK: usize = 64 * 1024;
/// How often a client that wants them gets bookmarks.
const BOOKMARKS: Duration = Duration::from_secs(60);
/// How long before the end the last bookmark comes.
const FAREWELL: Duration = Duration::from_secs(2);
/// How long a watch lasts if the client does not say: at least this, at most twice as long.
const LASTS: Duration = Duration::from_secs(30 * 60);

/// How objects go to the wire.
pub(crate) trait EventFormat: Send + Sync {
    /// One object of a watch. `first`: nothing was sent before.
    fn object(&self, object: &Value, first: bool) -> Value;
}

/// A running watch: chunks of lines, each an event.
pub(crate) struct WatchStream {
    state: Arc<State>,
    definition: Arc<Definition>,
    filter: Filter,
    format: Option<Box<dyn EventFormat>>,
    watch: Option<Watch>,
    /// The state at the beginning, in the order of its keys.
    initial: VecDeque<Arc<Entry>>,
    /// The bookmark that ends the state at the beginning.
    initial_end: Option<u64>,
    /// Events up to here are none of the client's business: it has them.
    skip: u64,
    /// Where the watch began: bookmarks tell of later revisions only.
    start: u64,
    bookmarks: Option<Pin<Box<Sleep>>>,
    deadline: Pin<Box<Sleep>>,
    stop: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// Set at the stop: the events up to this revision still go out, then the stream ends.
    end: Option<u64>,
    first: bool,
    /// To be sent, then the stream ends.
    last: Option<Bytes>,
    sent: u64,
}

/// What a line has around the stored bytes of an object: about so much.
const LINE_AROUND: usize = 128;

/// Lines to be sent. A single one that is shared is not copied.
#[derive(Default)]
struct Chunk {
    shared: Option<Bytes>,
    bytes: Vec<u8>,
}

impl Chunk {
    fn len(&self) -> usize {
        self.shared.as_ref().map_or(0, Bytes::len) + self.bytes.len()
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where further bytes go.
    fn bytes(&mut self) -> &mut Vec<u8> {
        if let Some(shared) = self.shared.take() {
            self.bytes.reserve(shared.len() * 4);
            self.bytes.extend_from_slice(&shared);
        }
        &mut self.bytes
    }

    fn push(&mut self, line: &Bytes) {
        if self.is_empty() {
            self.shared = Some(line.clone());
        } else {
            self.bytes().extend_from_slice(line);
        }
    }

    fn into_bytes(self) -> Bytes {
        self.shared.unwrap_or_else(|| self.bytes.into())
    }
}

/// Begins a watch. Errors about its resourceVersion are events in the stream, as upstream's.
pub(crate) async fn watch(
    state: &Arc<State>,
    definition: &Arc<Definition>,
    namespace: &str,
    filter: Filter,
    options: &ListOptions,
    format: Option<Box<dyn EventFormat>>,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<WatchStream, ApiError> {
    let revision = options.revision()?;
    let scope = filter.scope(definition, namespace);
    let mut stream = WatchStream {
        state: state.clone(),
        definition: definition.clone(),
        filter,
        format,
        watch: None,
        initial: VecDeque::new(),
        initial_end: None,
        skip: 0,
        start: 0,
        bookmarks: None,
        deadline: Box::pin(tokio::time::sleep(lasts(options, &state.random))),
        stop: Box::pin(stop),
        end: None,
        first: true,
        last: None,
        sent: 0,
    };
    let resource = &definition.resource;
    // Without a revision, a watch below `watch/` begins with what there is, as watches once did.
    let begun = if options.send_initial_events.unwrap_or(revision == 0) {
        if let Err(error) = read::reach(state, revision).await {
            stream.last = Some(error_line(&error));
            return Ok(stream);
        }
        state.store.snapshot_and_watch(resource, &scope).map(|(snapshot, watch)| {
            stream.initial = snapshot.iter(&scope).cloned().collect();
            stream.start = snapshot.revision().0;
            if options.bookmarks && options.send_initial_events.is_some() {
                stream.initial_end = Some(snapshot.revision().0);
            }
            watch
        })
    } else if revision == 0 {
        state.store.watch(resource, &scope, None)
    } else {
        stream.skip = revision;
        stream.start = revision;
        match state.store.watch(resource, &scope, Some(Revision(revision))) {
            // Clients may be ahead of a server: they wait.
            Err(WatchError::Read(ReadError::Future { .. })) => state.store.watch(resource, &scope, None),
            other => other,
        }
    };
    match begun {
        Ok(watch) => stream.watch = Some(watch),
        Err(WatchError::TooMany { .. }) => {
            let error = ApiError::new(429, "TooManyRequests", "too many watches, please try again later");
            return Err(error.retry_after(1));
        }
        Err(error) => stream.last = Some(error_line(&watch_failed(&error))),
    }
    if options.bookmarks {
        stream.bookmarks = Some(Box::pin(tokio::time::sleep(BOOKMARKS)));
        stream.arm();
    }
    Ok(stream)
}

fn lasts(options: &ListOptions, random: &Random) -> Duration {
    match options.timeout_seconds {
        Some(seconds) if seconds > 0 => Duration::from_secs(seconds),
        // Spread, so that the clients of a server don't all come back at once.
        _ => LASTS + LASTS.mul_f64(f64::from(random.uuid().as_bytes()[0]) / 256.0),
    }
}

fn watch_failed(error: &WatchError) -> ApiError {
    match error {
        WatchError::Read(ReadError::Compacted { requested, compact_revision }) => {
            ApiError::expired(format!("too old resource version: {requested} ({compact_revision})"))
        }
        WatchError::Slow { .. } => ApiError::expired(error.to_string()),
        WatchError::Stopped => ApiError::new(503, "ServiceUnavailable", "the server is stopping"),
        other => ApiError::internal(other),
    }
}

fn line(kind: &str, object: &Value) -> Bytes {
    let mut out = format!(r#"{{"type":"{kind}","object":"#).into_bytes();
    object::write_json(&mut out, object);
    out.extend_from_slice(b"}\n");
    out.into()
}

fn error_line(error: &ApiError) -> Bytes {
    line("ERROR", &error.to_status())
}

impl WatchStream {
    /// The next lines; nothing at the end.
    pub(crate) fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let mut chunk = Chunk::default();
        loop {
            if chunk.len() >= CHUNK {
                break;
            }
            if let Some(last) = self.last.take() {
                chunk.push(&last);
                self.watch = None;
                break;
            }
            let Some(watch) = &mut self.watch else {
                if chunk.is_empty() {
                    return Poll::Ready(None);
                }
                break;
            };
            if let Some(entry) = self.initial.pop_front() {
                if chunk.is_empty() && self.initial.len() > 1 {
                    // All of it at once: growing to it copies everything once more.
                    chunk.bytes.reserve(CHUNK + CHUNK / 4);
                }
                if !self.is_readable(&entry) {
                    continue;
                }
                if self.filter.matches(&self.definition, &entry) {
                    self.push(&mut chunk, "ADDED", &entry, entry.mod_revision().0);
                }
                continue;
            }
            if let Some(revision) = self.initial_end.take() {
                self.bookmark(&mut chunk, revision, true);
                continue;
            }
            if chunk.is_empty() && self.deadline.as_mut().poll(context).is_ready() {
                self.watch = None;
                return Poll::Ready(None);
            }
            if chunk.is_empty() && self.end.is_none() && self.stop.as_mut().poll(context).is_ready() {
                self.end = Some(self.state.store.current_revision().0);
            }
            match watch.poll_recv(context) {
                Poll::Ready(Ok(event)) if self.end.is_some_and(|end| event.revision().0 > end) => {
                    self.watch = None;
                }
                Poll::Ready(Ok(event)) => self.event(&mut chunk, &event),
                Poll::Pending if self.end.is_some() => self.watch = None,
                Poll::Ready(Err(error)) => self.last = Some(self.end(&error)),
                Poll::Pending => {
                    if self.bookmark_is_due(context) {
                        let progress = self.watch.as_ref().and_then(Watch::progress);
                        let progress =
                            progress.map(|revision| revision.0).filter(|revision| *revision > self.start);
                        if let Some(revision) = progress {
                            self.bookmark(&mut chunk, revision, false);
                        }
                        continue;
                    }
                    if chunk.is_empty() {
                        return Poll::Pending;
                    }
                    break;
                }
            }
        }
        self.sent += 1;
        Poll::Ready(Some(chunk.into_bytes()))
    }

    /// Can the client have this object? If not, the watch ends with the reason, as upstream's does.
    fn is_readable(&mut self, entry: &Entry) -> bool {
        let Err(error) = self.definition.check_readable(entry) else { return true };
        self.initial.clear();
        self.last = Some(error_line(&ApiError { reason: "InternalError", ..error }));
        false
    }

    /// The last event of a watch. A slow client finds its stream closed, and lists again.
    fn end(&self, error: &WatchError) -> Bytes {
        match error {
            WatchError::Slow { .. } => {
                self.state.lifecycle.notices.slow_watcher(self.definition.resource.as_str(), error);
                Bytes::new()
            }
            WatchError::Stopped => Bytes::new(),
            other => error_line(&watch_failed(other)),
        }
    }

    fn bookmark_is_due(&mut self, context: &mut Context<'_>) -> bool {
        let Some(timer) = &mut self.bookmarks else { return false };
        if timer.as_mut().poll(context).is_pending() {
            return false;
        }
        self.arm();
        true
    }

    /// Sets the timer for the next bookmark. There is none shortly before the end, nor in a watch that is as short.
    fn arm(&mut self) {
        let now = Instant::now();
        let last = self.deadline.deadline().checked_sub(FAREWELL);
        match (last, &mut self.bookmarks) {
            (Some(last), Some(timer)) if last > now => timer.as_mut().reset(last.min(now + BOOKMARKS)),
            _ => self.bookmarks = None,
        }
    }

    fn event(&mut self, chunk: &mut Chunk, event: &Arc<Event>) {
        let revision = event.revision().0;
        if revision <= self.skip {
            return;
        }
        if ![event.previous(), event.entry()].into_iter().flatten().all(|entry| self.is_readable(entry)) {
            return;
        }
        let everything = self.filter.is_everything();
        let natural = match (event.previous(), event.entry()) {
            (None, Some(_)) => "ADDED",
            (Some(_), Some(_)) => "MODIFIED",
            (_, None) => "DELETED",
        };
        let kind = if everything {
            natural
        } else {
            let matches = |entry: Option<&Arc<Entry>>| {
                entry.is_some_and(|entry| self.filter.matches(&self.definition, entry))
            };
            match (matches(event.previous()), matches(event.entry())) {
                (false, false) => return,
                (false, true) => "ADDED",
                (true, true) => "MODIFIED",
                (true, false) => "DELETED",
            }
        };
        let entry = if kind == "DELETED" { event.previous() } else { event.entry() };
        let Some(entry) = entry else { return };
        if kind != natural || self.format.is_some() || self.definition.needs_completion(entry) {
            self.push(chunk, kind, entry, revision);
            return;
        }
        let line = self.state.lines.of(event, self.definition.api_version(), || {
            // It is kept for a while: no larger than needed.
            let mut line = Vec::with_capacity(entry.value().len() + LINE_AROUND);
            push_stored(&mut line, &self.definition, kind, entry, revision);
            line.into()
        });
        match line {
            Some(line) => {
                self.first = false;
                chunk.push(&line);
            }
            None => self.push(chunk, kind, entry, revision),
        }
    }

    fn push(&mut self, chunk: &mut Chunk, kind: &str, entry: &Arc<Entry>, revision: u64) {
        if self.format.is_none() && !self.definition.needs_completion(entry) {
            push_stored(chunk.bytes(), &self.definition, kind, entry, revision);
        } else {
            let object = self.definition.read_at(entry, revision);
            self.push_object(chunk, kind, &object);
        }
        self.first = false;
    }

    fn push_object(&mut self, chunk: &mut Chunk, kind: &str, object: &Value) {
        match &self.format {
            Some(format) => chunk.push(&line(kind, &format.object(object, self.first))),
            None => chunk.push(&line(kind, object)),
        }
        self.first = false;
    }

    fn bookmark(&mut self, chunk: &mut Chunk, revision: u64, initial_end: bool) {
        let mut bookmark = json!({
            "kind": self.definition.names.kind,
            "apiVersion": self.definition.api_version(),
            "metadata": {"resourceVersion": revision.to_string()},
        });
        if initial_end {
            bookmark["metadata"]["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        // It is an object of its kind, with what Go writes of an empty one.
        self.definition.model.set_empty_values(&mut bookmark);
        self.push_object(chunk, "BOOKMARK", &bookmark);
    }
}

fn push_stored(out: &mut Vec<u8>, definition: &Definition, kind: &str, entry: &Entry, revision: u64) {
    out.reserve(definition.head().size(entry.value()) + 40);
    out.extend_from_slice(br#"{"type":""#);
    out.extend_from_slice(kind.as_bytes());
    out.extend_from_slice(br#"","object":"#);
    definition.head().append(out, entry.value(), revision);
    out.extend_from_slice(b"}\n");
}

impl fmt::Debug for WatchStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchStream").field("resource", &self.definition.resource).finish_non_exhaustive()
    }
}
