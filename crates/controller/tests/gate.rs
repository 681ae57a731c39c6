//! A connection to the server that a test can hold up, cut, and let the server forget.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::StreamExt as _;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Either, StreamBody};
use kube::Client;
use kube::client::Body;
use tokio::sync::watch;

/// Stands between a client and the server.
#[derive(Clone)]
pub(crate) struct Gate(Arc<State>);

struct State {
    client: Client,
    held: watch::Sender<bool>,
    cuts: watch::Sender<u32>,
    expired: AtomicBool,
}

impl Gate {
    pub(crate) fn new(client: Client) -> Self {
        let (held, cuts) = (watch::Sender::new(false), watch::Sender::new(0));
        Self(Arc::new(State { client, held, cuts, expired: AtomicBool::new(false) }))
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
        let query = request.uri().query().unwrap_or_default();
        let is_watch = query.contains("watch=true");
        let resumes = is_watch && !query.contains("sendInitialEvents");
        if is_watch {
            drop(self.held.subscribe().wait_for(|held| !held).await);
        }
        if resumes && self.expired.swap(false, Ordering::Relaxed) {
            let event = r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version","reason":"Expired","code":410}}"#;
            let answer = Response::builder().header("content-type", "application/json");
            let body = Body::from(format!("{event}\n").into_bytes());
            return Ok(answer.body(body).unwrap().map(Either::Left));
        }
        let answer = self.client.send(request).await?;
        if !is_watch {
            return Ok(answer.map(Either::Left));
        }
        let (held, cuts) = (self.held.subscribe(), self.cuts.subscribe());
        Ok(answer.map(|body| {
            let frames =
                futures::stream::unfold((body, held, cuts), |(mut body, mut held, mut cuts)| async move {
                    let frame = async {
                        let frame = body.frame().await;
                        drop(held.wait_for(|held| !held).await);
                        frame
                    };
                    let frame = tokio::select! {
                    biased;
                        _ = cuts.changed() => None,
                        frame = frame => frame,
                    };
                    Some((frame?, (body, held, cuts)))
                });
            Either::Right(StreamBody::new(frames.boxed()))
        }))
    }
}
