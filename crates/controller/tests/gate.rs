//! A connection to the server that a test can hold up, cut or refuse, and a server that forgets or is overloaded.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures::StreamExt as _;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Either, StreamBody};
use kube::Client;
use kube::client::Body;
use tokio::sync::watch;

use crate::intercept::failure;

/// Stands between a client and the server.
#[derive(Clone)]
pub(crate) struct Gate(Arc<State>);

struct State {
    client: Client,
    held: watch::Sender<bool>,
    cuts: watch::Sender<u32>,
    freezes: watch::Sender<u32>,
    expired: AtomicBool,
    outage: Mutex<Option<Outage>>,
    requests: AtomicUsize,
}

/// What all requests meet with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outage {
    /// The connection is refused.
    Down,
    /// `429 Too Many Requests`, to be tried again after a second.
    Busy,
    /// Each watch ends as soon as it has sent the initial state, and cannot be resumed: `410 Expired`.
    Forgetful,
}

impl Gate {
    pub(crate) fn new(client: Client) -> Self {
        Self(Arc::new(State {
            client,
            held: watch::Sender::new(false),
            cuts: watch::Sender::new(0),
            freezes: watch::Sender::new(0),
            expired: AtomicBool::new(false),
            outage: Mutex::new(None),
            requests: AtomicUsize::new(0),
        }))
    }

    /// A client whose lists and watches go through the gate.
    pub(crate) fn client(&self) -> Client {
        let state = Arc::clone(&self.0);
        let service = tower::service_fn(move |request| {
            let state = Arc::clone(&state);
            async move { state.call(request).await }
        });
        Client::new(service, "default")
    }

    /// Nothing comes through: no event, and no request.
    pub(crate) fn hold(&self) {
        self.0.held.send_replace(true);
    }

    pub(crate) fn release(&self) {
        self.0.held.send_replace(false);
    }

    /// Ends all watches.
    pub(crate) fn cut(&self) {
        self.0.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Nothing more comes through the watches that are open, and they do not end: what half of a connection does that is left
    /// behind by a lost network.
    pub(crate) fn freeze(&self) {
        self.0.freezes.send_modify(|freezes| *freezes += 1);
    }

    /// An outage begins, and all watches end; or it is over.
    pub(crate) fn set_outage(&self, outage: Option<Outage>) {
        *self.0.outage.lock().unwrap() = outage;
        if outage.is_some() {
            self.cut();
        }
    }

    /// How many requests there were so far.
    pub(crate) fn requests(&self) -> usize {
        self.0.requests.load(Ordering::Relaxed)
    }

    /// The next watch finds its resourceVersion too old.
    pub(crate) fn expire(&self) {
        self.0.expired.store(true, Ordering::Relaxed);
    }
}

impl State {
    async fn call(
        &self,
        request: Request<Body>,
    ) -> kube::Result<Response<impl http_body::Body<Data = bytes::Bytes, Error: Into<tower::BoxError>> + use<>>>
    {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let outage = *self.outage.lock().unwrap();
        match outage {
            Some(Outage::Down) => {
                let error = io::Error::new(io::ErrorKind::ConnectionRefused, "Connection refused");
                return Err(kube::Error::Service(error.into()));
            }
            Some(Outage::Busy) => {
                let (code, status) = failure(429, "TooManyRequests", "too many requests");
                let answer = Response::builder().status(code).header("retry-after", "1");
                let answer = answer.header("content-type", "application/json");
                return Ok(answer
                    .body(Body::from(status.to_string().into_bytes()))
                    .unwrap()
                    .map(Either::Left));
            }
            Some(Outage::Forgetful) | None => {}
        }
        let query = request.uri().query().unwrap_or_default();
        let is_watch = query.contains("watch=true");
        let resumes = is_watch && !query.contains("sendInitialEvents");
        if is_watch {
            drop(self.held.subscribe().wait_for(|held| !held).await);
        }
        let is_forgetful = outage == Some(Outage::Forgetful);
        if resumes && (is_forgetful || self.expired.swap(false, Ordering::Relaxed)) {
            let event = r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version","reason":"Expired","code":410}}"#;
            let answer = Response::builder().header("content-type", "application/json");
            let body = Body::from(format!("{event}\n").into_bytes());
            return Ok(answer.body(body).unwrap().map(Either::Left));
        }
        let answer = self.client.send(request).await?;
        if !is_watch {
            return Ok(answer.map(Either::Left));
        }
        let (held, cuts, freezes) = (self.held.subscribe(), self.cuts.subscribe(), self.freezes.subscribe());
        Ok(answer.map(|body| {
            let open = (body, held, cuts, freezes, false);
            let frames = futures::stream::unfold(
                open,
                move |(mut body, mut held, mut cuts, mut freezes, ends)| async move {
                    if ends {
                        return None;
                    }
                    let frame = async {
                        let frame = tokio::select! {
                            biased;
                            _ = freezes.changed() => std::future::pending().await,
                            frame = body.frame() => frame,
                        };
                        drop(held.wait_for(|held| !held).await);
                        frame
                    };
                    let frame = tokio::select! {
                        biased;
                        _ = cuts.changed() => None,
                        frame = frame => frame,
                    }?;
                    // The end of the initial state, if the server forgets what was before.
                    let data = frame.as_ref().ok().and_then(|frame| frame.data_ref());
                    let ends = is_forgetful
                        && data.is_some_and(|data| data.windows(END.len()).any(|part| part == END));
                    Some((frame, (body, held, cuts, freezes, ends)))
                },
            );
            Either::Right(StreamBody::new(frames.boxed()))
        }))
    }
}

/// The annotation of the bookmark that ends the initial state.
const END: &[u8] = b"k8s.io/initial-events-end";
