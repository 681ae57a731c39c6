//! A client to a server in the process, with faults between them that a test switches on.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::StreamExt as _;
use http::{Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, StreamBody};
use kube_client::Client;
use kube_client::client::Body;
use tokio::sync::watch;

/// What may happen to the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// All watches break off.
    Cut,
    /// All watches end as they do when their time is over.
    Close,
    /// All watches stay open, and nothing comes any more.
    Silence,
    /// All watches say that their revision is too old.
    Expire,
    /// All watches say that something is wrong with the server.
    Error,
    /// All watches send what a proxy has to say.
    Garbage,
}

/// What is answered instead of asking the server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Refusals {
    /// So many requests more get 429, and are asked to come back after so many seconds.
    pub(crate) too_many: usize,
    pub(crate) retry_after: Option<u64>,
    /// So many watches more are told that their revision is too old.
    pub(crate) expired: usize,
    /// So many requests more get 401.
    pub(crate) unauthorized: usize,
    /// So many requests more don't get through.
    pub(crate) unreachable: usize,
    /// So many watches more break off after so many pieces.
    pub(crate) tearing: usize,
    pub(crate) pieces: usize,
    /// So many watches more end at once.
    pub(crate) closing: usize,
    /// So many requests more whose path contains this get 410.
    pub(crate) gone: Option<(String, usize)>,
    /// So many watches more never say a word.
    pub(crate) silent: usize,
    /// Requests whose path contains this get 503, or 429.
    pub(crate) failing: Option<String>,
    pub(crate) busy: Option<String>,
    /// Requests whose path contains this are never answered.
    pub(crate) hanging: Option<String>,
    /// No watch gets through.
    pub(crate) watches_unreachable: bool,
    /// What a kubelet would answer to requests for logs, by `POD/CONTAINER`, with `/previous` for the run before.
    pub(crate) logs: BTreeMap<String, Log>,
    /// The server is one that cannot begin a watch with the state.
    pub(crate) no_watch_list: bool,
}

/// A log as a kubelet answers it.
#[derive(Clone, Debug)]
pub(crate) enum Log {
    /// These lines, of which as many as are asked for.
    Lines(Vec<String>),
    /// A refusal with this code and message.
    Refused(u16, String),
    /// The same line again and again, without an end.
    Endless(String),
    /// These lines, and then nothing more.
    Hanging(Vec<String>),
}

impl Log {
    fn answer(&self, uri: &http::Uri) -> Response<UnsyncBoxBody<Bytes, std::io::Error>> {
        let query = uri.query().unwrap_or_default();
        let asked = query.split('&').find_map(|pair| pair.strip_prefix("tailLines="));
        let asked: usize = asked.unwrap().parse().unwrap();
        let last = |lines: &[String]| {
            let text: String =
                lines[lines.len().saturating_sub(asked)..].iter().map(|line| format!("{line}\n")).collect();
            Bytes::from(text)
        };
        let frame = |bytes: Bytes| Ok::<_, std::io::Error>(Frame::data(bytes));
        let (status, body) = match self {
            Self::Lines(lines) => {
                (200, StreamBody::new(futures::stream::iter([frame(last(lines))])).boxed_unsync())
            }
            Self::Refused(code, message) => {
                let text =
                    serde_json::json!({"kind": "Status", "message": message, "code": code}).to_string();
                (*code, boxed(Body::from(text.into_bytes())))
            }
            Self::Endless(line) => {
                let line = Bytes::from(format!("{line}\n"));
                (
                    200,
                    StreamBody::new(futures::stream::repeat_with(move || frame(line.clone()))).boxed_unsync(),
                )
            }
            Self::Hanging(lines) => {
                let first = futures::stream::iter([frame(last(lines))]);
                (200, StreamBody::new(first.chain(futures::stream::pending())).boxed_unsync())
            }
        };
        Response::builder().status(status).body(body).unwrap()
    }
}

/// The faults between a client and a server.
#[derive(Clone)]
pub(crate) struct Faults {
    fault: Arc<watch::Sender<(u64, Option<Fault>)>>,
    refusals: Arc<Mutex<Refusals>>,
    log: Arc<Mutex<Vec<String>>>,
}

impl Faults {
    pub(crate) fn new() -> Self {
        let (fault, _) = watch::channel((0, None));
        Self { fault: Arc::new(fault), refusals: Arc::default(), log: Arc::default() }
    }

    /// Lets this happen to all watches that are open.
    pub(crate) fn strike(&self, fault: Fault) {
        self.fault.send_modify(|(count, last)| (*count, *last) = (*count + 1, Some(fault)));
    }

    pub(crate) fn refuse(&self, change: impl FnOnce(&mut Refusals)) {
        change(&mut self.refusals.lock().unwrap());
    }

    /// What was asked: `LIST pods`, `WATCH pods from 5`.
    pub(crate) fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    /// The client with these faults.
    pub(crate) fn client(&self, inner: Client) -> Client {
        let faults = self.clone();
        let namespace = inner.default_namespace().to_owned();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (faults, inner) = (faults.clone(), inner.clone());
            async move { faults.send(inner, request).await }
        });
        Client::new(service, namespace)
    }

    async fn send(
        &self,
        inner: Client,
        request: Request<Body>,
    ) -> Result<Response<UnsyncBoxBody<Bytes, std::io::Error>>, kube_client::Error> {
        let uri = request.uri().to_string();
        self.log.lock().unwrap().push(format!("{} {uri}", request.method()));
        if let Some((pod, _)) =
            request.uri().path().split_once("/pods/").and_then(|(_, rest)| rest.split_once("/log"))
        {
            let value =
                |key: &str| uri.split(['?', '&']).find_map(|pair| pair.strip_prefix(key)).unwrap_or_default();
            let run = if value("previous=") == "true" { "/previous" } else { "" };
            let key = format!("{pod}/{}{run}", value("container="));
            if let Some(log) = self.refusals.lock().unwrap().logs.get(&key) {
                return Ok(log.answer(request.uri()));
            }
        }
        let (mut begun, mut pieces) = (None, usize::MAX);
        let hangs = self.refusals.lock().unwrap().hanging.as_ref().is_some_and(|path| uri.contains(path));
        if hangs {
            std::future::pending::<()>().await;
        }
        let retry_after = self.refusals.lock().unwrap().retry_after;
        let refused = {
            let mut refusals = self.refusals.lock().unwrap();
            let take = |count: &mut usize| {
                let some = *count > 0;
                *count = count.saturating_sub(1);
                some
            };
            if uri.contains("watch=true") && refusals.expired > 0 {
                refusals.expired -= 1;
                begun = Some(Fault::Expire);
            }
            if uri.contains("watch=true") && refusals.tearing > 0 {
                refusals.tearing -= 1;
                pieces = refusals.pieces;
            }
            if uri.contains("watch=true") && refusals.closing > 0 {
                refusals.closing -= 1;
                begun = Some(Fault::Close);
            }
            if uri.contains("watch=true") && refusals.silent > 0 {
                refusals.silent -= 1;
                begun = Some(Fault::Silence);
            }
            let old = refusals.no_watch_list && uri.contains("sendInitialEvents=true");
            let blocked = refusals.watches_unreachable && uri.contains("watch=true");
            let gone = match &mut refusals.gone {
                Some((path, count)) if *count > 0 && uri.contains(path.as_str()) => {
                    *count -= 1;
                    true
                }
                _ => false,
            };
            if blocked || take(&mut refusals.unreachable) {
                let error = std::io::Error::new(std::io::ErrorKind::ConnectionRefused, "Connection refused");
                return Err(kube_client::Error::Service(error.into()));
            } else if gone {
                Some((StatusCode::GONE, "Expired"))
            } else if take(&mut refusals.unauthorized) {
                Some((StatusCode::UNAUTHORIZED, "Unauthorized"))
            } else if refusals.busy.as_ref().is_some_and(|busy| uri.contains(busy))
                || take(&mut refusals.too_many)
            {
                Some((StatusCode::TOO_MANY_REQUESTS, "TooManyRequests"))
            } else if refusals.failing.as_ref().is_some_and(|failing| uri.contains(failing)) {
                Some((StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable"))
            } else {
                old.then_some((StatusCode::UNPROCESSABLE_ENTITY, "Invalid"))
            }
        };
        if let Some((status, reason)) = refused {
            let code = status.as_u16();
            let body =
                format!(r#"{{"kind":"Status","reason":"{reason}","message":"{reason}","code":{code}}}"#);
            let mut response = Response::builder().status(status);
            if let Some(seconds) = retry_after.filter(|_| status == StatusCode::TOO_MANY_REQUESTS) {
                response = response.header(http::header::RETRY_AFTER, seconds);
            }
            return Ok(response.body(boxed(Body::from(body.into_bytes()))).unwrap());
        }
        let response = inner.send(request).await?;
        if !uri.contains("watch=true") {
            return Ok(response.map(boxed));
        }
        let mut seen = self.fault.subscribe();
        seen.mark_unchanged();
        let changed = Box::pin(async move {
            let _open = seen.changed().await;
            seen.borrow().1
        });
        Ok(response.map(|body| {
            Struck { body, changed: Some(changed), struck: begun, told: false, pieces }.boxed_unsync()
        }))
    }
}

fn boxed(body: Body) -> UnsyncBoxBody<Bytes, std::io::Error> {
    body.map_err(std::io::Error::other).boxed_unsync()
}

/// The body of a watch, until a fault strikes it.
struct Struck {
    body: Body,
    changed: Option<Pin<Box<dyn Future<Output = Option<Fault>> + Send>>>,
    struck: Option<Fault>,
    told: bool,
    /// How many pieces more come before it breaks off.
    pieces: usize,
}

impl http_body::Body for Struck {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        if let Some(changed) = &mut self.changed
            && let Poll::Ready(fault) = changed.as_mut().poll(context)
        {
            self.changed = None;
            self.struck = fault;
        }
        let line: &[u8] = match self.struck {
            None if self.pieces == 0 => {
                return Poll::Ready(Some(Err(std::io::ErrorKind::ConnectionReset.into())));
            }
            None => {
                let polled = Pin::new(&mut self.body).poll_frame(context);
                if polled.is_ready() {
                    self.pieces -= 1;
                }
                return polled.map(|frame| frame.map(|frame| frame.map_err(std::io::Error::other)));
            }
            Some(Fault::Cut) => return Poll::Ready(Some(Err(std::io::ErrorKind::ConnectionReset.into()))),
            Some(Fault::Close) => return Poll::Ready(None),
            Some(Fault::Silence) => return Poll::Pending,
            Some(Fault::Expire) => {
                b"{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"reason\":\"Expired\",\"message\":\"too old resource version\",\"code\":410}}\n"
            }
            Some(Fault::Error) => {
                b"{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"reason\":\"InternalError\",\"message\":\"etcd is away\",\"code\":500}}\n"
            }
            Some(Fault::Garbage) => b"<html>502 Bad Gateway</html>\n",
        };
        if std::mem::replace(&mut self.told, true) {
            return Poll::Ready(None);
        }
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(line)))))
    }
}
