//! The client of a cluster: requests, their deadlines and errors.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Method, Request, Response};
use http_body_util::BodyExt as _;
use jiff::{SignedDuration, Timestamp};
use kube_client::Client;
use kube_client::client::Body;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::Instrument as _;

use crate::error::{ErrorMessage, RequestError, connect_error, innermost, no_answer, status_error};
use crate::exchange::{self, Exchange, Verb};
use crate::resources::{Document, Resource, Resources, read_document, read_resource_list};

/// How long an answer may take to begin. A watch answers at once, too.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// A moment that far away is never reached, and can be counted with.
const ANSWER_MAX: Duration = Duration::from_secs(366 * 24 * 3600);
/// For so long after a login nobody logs in again.
const RENEWED_FOR: Duration = Duration::from_millis(200);
/// How much of an answer that is no list is read.
const MAX_ANSWER_BYTES: usize = 64 << 20;
/// Aggregated discovery where the server has it.
const DISCOVERY: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

/// Makes another client when the credentials of the one before are refused.
type Reconnect = dyn Fn() -> BoxFuture<'static, Option<Client>> + Send + Sync;

/// The time of day.
type Clock = dyn Fn() -> Timestamp + Send + Sync;

/// Is shown each request, once its answer has begun.
type Observer = dyn Fn(&Exchange) + Send + Sync;

/// A cluster, seen through a client. Copies are the same one.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use settled_watch::Cluster;
/// let server = settled_apiserver::Server::in_memory().await?;
/// let cluster = Cluster::new(server.client());
/// let resources = cluster.resources().await?;
/// assert_eq!(&*resources.named("deploy").unwrap().kind, "Deployment");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Cluster {
    inner: Arc<Inner>,
    /// No request lasts longer.
    deadline: Option<Instant>,
    /// How long an answer may take, instead of the default.
    request_timeout: Option<Duration>,
}

struct Inner {
    /// The URL, for messages.
    server: Option<String>,
    client: Mutex<Client>,
    clock: Option<Box<Clock>>,
    reconnect: Option<Box<Reconnect>>,
    observer: Option<Box<Observer>>,
    /// When the client was made anew.
    renewed: tokio::sync::Mutex<Option<Instant>>,
    /// How far the server's clock is ahead of ours, in milliseconds.
    ahead: Mutex<SignedDuration>,
    requests: [AtomicU64; Verb::ALL.len()],
    bytes: AtomicU64,
    /// How many answers the server has given, and when the last one.
    answers: AtomicU64,
    answered: Mutex<Option<Instant>>,
    /// Why the last request was not answered.
    failure: watch::Sender<Option<RequestError>>,
    /// Whether watches are asked to begin with the state: until the server says that it can't.
    watch_list: AtomicBool,
}

/// How many requests were made, and how many bytes came back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// How many requests of each sort.
    pub requests: Vec<(&'static str, u64)>,
    /// Bytes of bodies.
    pub bytes: u64,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("traffic", &self.traffic()).finish_non_exhaustive()
    }
}

impl From<Client> for Cluster {
    fn from(client: Client) -> Self {
        Self::new(client)
    }
}

impl Cluster {
    /// A cluster behind a client of one's own.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self::with(client, None, None)
    }

    /// The same with another clock than the machine's: for tests whose time does not pass by itself.
    #[must_use]
    pub fn with_clock(client: Client, clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self::with(client, None, Some(Box::new(clock)))
    }

    /// The same, with a source of new clients for refused credentials. Copies that were made before have none.
    #[must_use]
    pub fn with_reconnect(
        mut self,
        reconnect: impl Fn() -> BoxFuture<'static, Option<Client>> + Send + Sync + 'static,
    ) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.inner) {
            inner.reconnect = Some(Box::new(reconnect));
        }
        self
    }

    pub(crate) fn with(client: Client, reconnect: Option<Box<Reconnect>>, clock: Option<Box<Clock>>) -> Self {
        let inner = Inner {
            server: None,
            client: Mutex::new(client),
            clock,
            reconnect,
            observer: None,
            renewed: tokio::sync::Mutex::default(),
            ahead: Mutex::default(),
            requests: Default::default(),
            bytes: AtomicU64::new(0),
            answers: AtomicU64::new(0),
            answered: Mutex::default(),
            failure: watch::Sender::new(None),
            watch_list: AtomicBool::new(true),
        };
        Self { inner: Arc::new(inner), deadline: None, request_timeout: None }
    }

    /// The same, whose requests fail once this moment has come: for a command that must not outlive its timeout.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Option<Instant>) -> Self {
        self.deadline = deadline;
        self
    }

    /// The same, where the answer to each request may take so long to begin, and then to end; 30 s if this is none. Watches go on.
    #[must_use]
    pub fn with_request_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.request_timeout = timeout;
        self
    }

    /// How long an answer may take, if that is not the default.
    #[must_use]
    pub fn request_timeout(&self) -> Option<Duration> {
        self.request_timeout
    }

    /// The same, with an observer of each request. Clones from before have none.
    #[must_use]
    pub fn with_observer(mut self, observer: impl Fn(&Exchange) + Send + Sync + 'static) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.inner) {
            inner.observer = Some(Box::new(observer));
        }
        self
    }

    /// The server's URL, where it is known.
    #[must_use]
    pub fn server(&self) -> Option<&str> {
        self.inner.server.as_deref()
    }

    /// Waits until a request is not answered, and says why.
    pub async fn failure(&self) -> RequestError {
        let mut failure = self.inner.failure.subscribe();
        match failure.wait_for(Option::is_some).await.map(|failure| failure.clone()) {
            Ok(Some(failure)) => failure,
            _ => std::future::pending().await,
        }
    }

    fn note_answer(&self) {
        if self.inner.answers.fetch_add(1, Ordering::Relaxed) == 0 {
            tracing::info!(server = self.inner.server.as_deref(), "connected");
        }
        *self.inner.answered.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// When the server last answered.
    #[must_use]
    pub fn answered(&self) -> Option<Instant> {
        *self.inner.answered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many answers the server has given.
    #[must_use]
    pub fn answers(&self) -> u64 {
        self.inner.answers.load(Ordering::Relaxed)
    }

    /// The same with the server's URL, for messages; before there are copies of it.
    pub(crate) fn named(mut self, server: Option<String>) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.inner) {
            inner.server = server;
        }
        self
    }

    /// The client that requests go through.
    #[must_use]
    pub fn client(&self) -> Client {
        self.inner.client.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The namespace where none is named.
    #[must_use]
    pub fn default_namespace(&self) -> String {
        self.client().default_namespace().to_owned()
    }

    /// What was asked so far.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        let count =
            |verb: &Verb| (verb.as_str(), self.inner.requests[*verb as usize].load(Ordering::Relaxed));
        Traffic {
            requests: Verb::ALL.iter().map(count).filter(|(_, count)| *count > 0).collect(),
            bytes: self.inner.bytes.load(Ordering::Relaxed),
        }
    }

    /// Counts bytes of a body, which are an answer too.
    pub fn count_bytes(&self, bytes: usize) {
        self.inner.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.note_answer();
    }

    pub(crate) fn has_watch_list(&self) -> bool {
        self.inner.watch_list.load(Ordering::Relaxed)
    }

    pub(crate) fn without_watch_list(&self) {
        self.inner.watch_list.store(false, Ordering::Relaxed);
    }

    /// The present time, by the server's clock as far as it is known: objects carry its times.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        if let Some(clock) = &self.inner.clock {
            return clock();
        }
        let ahead = *self.inner.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Timestamp::now();
        now.checked_add(ahead).unwrap_or(now)
    }

    /// The credentials were refused: gets new ones, where that is possible. Says whether there are any.
    pub async fn refresh(&self) -> bool {
        let Some(reconnect) = &self.inner.reconnect else { return false };
        // Many requests are refused at the same moment, and one login is enough for all of them.
        let mut renewed = self.inner.renewed.lock().await;
        if renewed.is_some_and(|at| at.elapsed() < RENEWED_FOR) {
            return true;
        }
        let Some(client) = reconnect().await else {
            tracing::warn!("the credentials were refused, and there are no others");
            return false;
        };
        tracing::info!("the credentials were refused; read anew");
        *self.inner.client.lock().unwrap_or_else(PoisonError::into_inner) = client;
        *renewed = Some(Instant::now());
        true
    }

    /// Sends a request, and waits for the beginning of the answer, whatever that is.
    async fn ask(
        &self,
        verb: Verb,
        method: Method,
        path: &str,
        accept: &str,
        body: Option<(&'static str, Vec<u8>)>,
    ) -> Result<Response<Body>, RequestError> {
        let invalid = |error: http::Error| {
            RequestError::Answer(ErrorMessage::new(
                format!("cannot build the request {path}: {error}"),
                error,
            ))
        };
        let mut request = Request::builder().method(method.clone()).uri(path).header(ACCEPT, accept);
        let body = match body {
            Some((type_, bytes)) => {
                request = request.header(CONTENT_TYPE, type_);
                Body::from(bytes)
            }
            None => Body::empty(),
        };
        let request = request.body(body).map_err(invalid)?;
        self.inner.requests[verb as usize].fetch_add(1, Ordering::Relaxed);
        let client = self.client();
        let asked = Instant::now();
        // Neither headers nor bodies: they have tokens and Secrets.
        let span = tracing::debug_span!("request", verb = verb.as_str(), method = method.as_str(), path);
        let sending = client.send(request).instrument(span.clone());
        let sent = tokio::time::timeout_at(self.until(), sending).await;
        let latency_ms = (asked.elapsed().as_secs_f64() * 1e6).round() / 1e3;
        if let Some(observer) = &self.inner.observer {
            let answer = sent.as_ref().ok().and_then(|answer| answer.as_ref().ok());
            observer(&Exchange {
                verb,
                method: method.to_string(),
                path: path.to_owned(),
                status: answer.map(|answer| answer.status().as_u16()),
                elapsed: asked.elapsed(),
                warnings: answer.map(|answer| exchange::warnings(answer.headers())).unwrap_or_default(),
            });
        }
        let failure = match sent {
            Ok(Ok(answer)) => {
                let code = answer.status().as_u16();
                tracing::debug!(parent: &span, code, latency_ms, "response");
                self.note_answer();
                return Ok(answer);
            }
            Ok(Err(error)) => connect_error(error),
            Err(_) => RequestError::Transport(no_answer(asked.elapsed()).into()),
        };
        tracing::debug!(parent: &span, latency_ms, error = failure.summary(), "no response");
        self.inner.failure.send_replace(Some(failure.clone()));
        Err(failure)
    }

    /// The moment at which an answer has lasted too long.
    fn until(&self) -> Instant {
        let until = Instant::now() + self.request_timeout.unwrap_or(ANSWER_WITHIN).min(ANSWER_MAX);
        self.deadline.map_or(until, |deadline| deadline.min(until))
    }

    /// Sends a request, and waits for the beginning of the answer. Answers that are no success are errors.
    ///
    /// # Errors
    /// The server cannot be reached, does not answer in time, or refuses.
    pub async fn send(
        &self,
        verb: Verb,
        method: Method,
        path: &str,
        accept: &str,
        body: Option<(&'static str, Vec<u8>)>,
    ) -> Result<Response<Body>, RequestError> {
        // Streams find new credentials themselves; a write would fail for good.
        let again = (verb == Verb::Write && self.inner.reconnect.is_some()).then(|| body.clone());
        let mut answer = self.ask(verb, method.clone(), path, accept, body).await?;
        if let Some(body) = again
            && answer.status() == http::StatusCode::UNAUTHORIZED
            && self.refresh().await
        {
            answer = self.ask(verb, method, path, accept, body).await?;
        }
        self.notice_clock(answer.headers().get(http::header::DATE));
        if answer.status().is_success() { Ok(answer) } else { Err(refusal(answer).await) }
    }

    /// A request whose answer is small enough to be held.
    ///
    /// # Errors
    /// As [`Cluster::send`]; the answer is too large, or does not end.
    pub async fn fetch(
        &self,
        verb: Verb,
        method: Method,
        path: &str,
        accept: &str,
        body: Option<(&'static str, Vec<u8>)>,
    ) -> Result<Bytes, RequestError> {
        let answer = self.send(verb, method, path, accept, body).await?;
        self.whole(answer).await
    }

    /// All of an answer that is small enough to be held.
    ///
    /// # Errors
    /// The answer is too large, or does not end.
    pub async fn whole(&self, answer: Response<Body>) -> Result<Bytes, RequestError> {
        let limited = http_body_util::Limited::new(answer.into_body(), MAX_ANSWER_BYTES);
        let whole = tokio::time::timeout_at(self.until(), limited.collect());
        match whole.await {
            Ok(Ok(body)) => {
                let bytes = body.to_bytes();
                self.count_bytes(bytes.len());
                Ok(bytes)
            }
            Ok(Err(error)) => {
                let text = format!("the answer broke off: {}", innermost(&*error));
                Err(RequestError::Transport(ErrorMessage::new(text, error)))
            }
            Err(_) => Err(RequestError::Transport("the answer does not end".to_owned().into())),
        }
    }

    /// Gets JSON.
    ///
    /// # Errors
    /// As [`Cluster::fetch`].
    pub async fn get(&self, verb: Verb, path: &str) -> Result<Bytes, RequestError> {
        self.fetch(verb, Method::GET, path, "application/json", None).await
    }

    /// Gets one object as the bytes of its JSON.
    ///
    /// # Errors
    /// As the server says.
    pub async fn object(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Bytes, RequestError> {
        self.get(Verb::Get, &resource.path(namespace, Some(&encode(name)))).await
    }

    /// Asks which kinds there are: two requests where the server has aggregated discovery, else one more per group version.
    ///
    /// # Errors
    /// The server cannot be asked.
    pub async fn resources(&self) -> Result<Resources, RequestError> {
        let (core, groups) = futures::join!(self.discover("/api"), self.discover("/apis"));
        let mut all = core?;
        all.extend(groups?);
        Ok(Resources::new(all))
    }

    async fn discover(&self, path: &str) -> Result<Vec<Resource>, RequestError> {
        let wrong = |error: serde_json::Error| {
            let text = format!("{path} is no discovery document: {error}");
            RequestError::Answer(ErrorMessage::new(text, error))
        };
        let bytes = self.fetch(Verb::Discovery, Method::GET, path, DISCOVERY, None).await?;
        let groups = match read_document(&bytes).map_err(wrong)? {
            Document::Whole(resources) => return Ok(resources),
            Document::Groups(groups) => groups,
        };
        let lists = groups.iter().map(|group| async move {
            let path = format!("{path}/{group}");
            let bytes = self.get(Verb::Discovery, &path).await.ok()?;
            read_resource_list(&bytes).ok()
        });
        // A group whose server is down is no reason to know nothing of the others.
        Ok(futures::future::join_all(lists).await.into_iter().flatten().flatten().collect())
    }

    /// Notes how far the server's clock is from ours. Its header counts whole seconds.
    fn notice_clock(&self, date: Option<&HeaderValue>) {
        let Some(date) = date.and_then(|date| date.to_str().ok()) else { return };
        let Ok(theirs) = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(date) else { return };
        let ahead = theirs.duration_since(Timestamp::now());
        let ahead = if ahead.abs() <= SignedDuration::from_secs(2) { SignedDuration::ZERO } else { ahead };
        *self.inner.ahead.lock().unwrap_or_else(PoisonError::into_inner) = ahead;
    }
}

/// What paths and values of queries escape: all but the unreserved characters of RFC 3986.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Escapes a segment of a path or a value of a query.
#[must_use]
pub fn encode(text: &str) -> String {
    utf8_percent_encode(text, ESCAPED).to_string()
}

async fn refusal(answer: Response<Body>) -> RequestError {
    let code = answer.status().as_u16();
    let header = answer.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    let limited = http_body_util::Limited::new(answer.into_body(), 1 << 20);
    let body = match tokio::time::timeout(ANSWER_WITHIN, limited.collect()).await {
        Ok(Ok(body)) => body.to_bytes(),
        _ => Bytes::new(),
    };
    status_error(code, header, &body)
}

#[cfg(test)]
mod tests {
    use std::error::Error;
    use std::io;

    use http::Uri;
    use kube_client::Config;

    use super::*;
    use crate::connect;

    /// The error at the bottom.
    fn bottom<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
        let mut error = error;
        while let Some(source) = error.source() {
            error = source;
        }
        error
    }

    #[tokio::test]
    async fn a_refused_connection_is_summed_up_and_kept() {
        // Nothing listens on a port that was just released.
        let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let url: Uri = format!("http://{address}").parse().unwrap();
        let config = Config::new(url);
        let cluster = Cluster::new(connect::client(&config).unwrap());
        let error = cluster.get(Verb::Get, "/version").await.unwrap_err();
        assert!(matches!(error, RequestError::Transport(_)), "{error:?}");
        assert_eq!(error.to_string(), "Connection refused");
        let source = bottom(&error).downcast_ref::<io::Error>().map(io::Error::kind);
        assert_eq!(source, Some(io::ErrorKind::ConnectionRefused), "{error:?}");
        // The state of each stream has a copy.
        assert_eq!(bottom(&error.clone()).to_string(), bottom(&error).to_string());
    }
}
