//! A way to a server that can be taken away, and that notes what is written.

use std::sync::{Arc, Mutex, PoisonError};

use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;

/// Stands between the reporter and the server. Copies are the same.
#[derive(Clone)]
pub(crate) struct Front(Arc<State>);

struct State {
    client: Mutex<Option<Client>>,
    writes: Mutex<Vec<String>>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Front {
    pub(crate) fn new(client: Client) -> Self {
        Self(Arc::new(State { client: Mutex::new(Some(client)), writes: Mutex::default() }))
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
        }
        client.send(request).await
    }
}
