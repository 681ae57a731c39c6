//! A client that sends writes only during a leadership term.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use tokio::time::Instant;

/// Deadline of writes.
#[derive(Debug)]
pub(super) struct Fence(Mutex<Option<Instant>>);

impl Fence {
    pub(super) fn new(deadline: Instant) -> Self {
        Self(Mutex::new(Some(deadline)))
    }

    pub(super) fn extend(&self, deadline: Instant) {
        if let Some(current) = self.0.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            *current = deadline;
        }
    }

    /// A closed fence is never reopened.
    pub(super) fn close(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    pub(super) fn deadline(&self) -> Instant {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).unwrap_or_else(Instant::now)
    }

    pub(super) fn is_open(&self) -> bool {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_some_and(|deadline| Instant::now() < deadline)
    }
}

/// A write was not sent, since this replica is no longer the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not sent: this replica no longer holds the lease")]
pub struct NotLeading;

/// Error of a fenced request.
type Failure = Box<dyn std::error::Error + Send + Sync>;

#[derive(Clone)]
struct Fenced {
    client: Client,
    fence: Arc<Fence>,
}

pub(super) fn client(client: &Client, fence: &Arc<Fence>) -> Client {
    let fenced = Fenced { client: client.clone(), fence: Arc::clone(fence) };
    Client::new(fenced, client.default_namespace())
}

impl tower::Service<Request<Body>> for Fenced {
    type Response = Response<Body>;
    type Error = Failure;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Failure>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Self { client, fence } = self.clone();
        Box::pin(async move {
            let reads = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
            if !reads && !fence.is_open() {
                return Err(NotLeading.into());
            }
            Ok(client.send(request).await?)
        })
    }
}
