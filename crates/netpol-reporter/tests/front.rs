//! A way to a server that can be taken away, that can refuse or hold back status writes, and that notes what is written.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::json;
use tokio::sync::watch;

/// Stands between the reporter and the server. Copies are the same.
#[derive(Clone)]
pub(crate) struct Front(Arc<State>);

struct State {
    client: Mutex<Option<Client>>,
    writes: Mutex<Vec<String>>,
    /// Code and reason of the answers to the next status writes, which do not reach the server.
    refusals: Mutex<VecDeque<(u16, &'static str)>>,
    /// Whether status writes wait.
    held: watch::Sender<bool>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Front {
    pub(crate) fn new(client: Client) -> Self {
        Self(Arc::new(State {
            client: Mutex::new(Some(client)),
            writes: Mutex::default(),
            refusals: Mutex::default(),
            held: watch::Sender::new(false),
        }))
    }

    /// A client whose requests pass here.
    pub(crate) fn client(&self) -> Client {
        let state = Arc::clone(&self.0);
        let service = tower::service_fn(move |request| {
            let state = Arc::clone(&state);
            async move { state.call(request).await }
        });
        Client::new(service, "default")
    }

    /// Another server, or none.
    pub(crate) fn lead_to(&self, client: Option<Client>) {
        *lock(&self.0.client) = client;
    }

    /// Refuses the next status write with this code and reason; several calls, several writes.
    pub(crate) fn refuse(&self, code: u16, reason: &'static str) {
        lock(&self.0.refusals).push_back((code, reason));
    }

    /// Holds status writes back that were sent, or lets them and the next ones pass.
    pub(crate) fn hold(&self, held: bool) {
        self.0.held.send_replace(held);
    }

    /// How many status writes are still to be refused.
    pub(crate) fn refusals(&self) -> usize {
        lock(&self.0.refusals).len()
    }

    /// What was written so far, without Events: verb and path.
    pub(crate) fn writes(&self) -> Vec<String> {
        lock(&self.0.writes).clone()
    }
}

impl State {
    async fn call(&self, request: Request<Body>) -> kube::Result<Response<Body>> {
        let client = lock(&self.client).clone();
        let Some(client) = client else {
            return Err(kube::Error::Service("the server is down".into()));
        };
        let path = request.uri().path();
        if *request.method() != Method::GET && !path.contains("/events") {
            lock(&self.writes).push(format!("{} {path}", request.method()));
            if path.ends_with("/status")
                && let Some((code, reason)) = lock(&self.refusals).pop_front()
            {
                return Ok(refusal(code, reason));
            }
            if path.ends_with("/status") {
                let mut held = self.held.subscribe();
                held.wait_for(|held| !held).await.expect("the sender lives as long as this");
            }
        }
        client.send(request).await
    }
}

/// The answer of an API server that refuses a request.
fn refusal(code: u16, reason: &str) -> Response<Body> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "refused by the test", "reason": reason, "code": code,
    });
    let body = Body::from(status.to_string().into_bytes());
    Response::builder().status(code).header("content-type", "application/json").body(body).unwrap()
}
