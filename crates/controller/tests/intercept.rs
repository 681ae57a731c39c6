//! A client whose requests a test sees, answers itself, or gets ahead of.

use std::pin::Pin;
use std::sync::{Arc, Mutex};

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::Value;

/// The code of an answer that there is not: the connection is refused.
pub(crate) const UNREACHABLE: u16 = 0;

/// What is done before a request: the code and body of an answer, or nothing to ask the server.
pub(crate) type Before = Pin<Box<dyn Future<Output = Option<(u16, Value)>> + Send>>;

/// Requests as `PATCH /apis/example.com/v1/...`, without parameters.
#[derive(Clone, Debug, Default)]
pub(crate) struct Requests(Arc<Mutex<Vec<String>>>);

impl Requests {
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

pub(crate) fn intercept(
    inner: Client,
    before: impl Fn(&str) -> Before + Send + Sync + 'static,
) -> (Client, Requests) {
    let requests = Requests::default();
    let (seen, before) = (requests.clone(), Arc::new(before));
    let namespace = inner.default_namespace().to_owned();
    let service = tower::service_fn(move |request: Request<Body>| {
        let text = format!("{} {}", request.method(), request.uri().path());
        let (inner, before) = (inner.clone(), before.clone());
        seen.0.lock().unwrap().push(text.clone());
        async move {
            let Some((code, body)) = before(&text).await else { return inner.send(request).await };
            if code == UNREACHABLE {
                let error = std::io::Error::new(std::io::ErrorKind::ConnectionRefused, "Connection refused");
                return Err(kube::Error::Service(error.into()));
            }
            let body = Body::from(serde_json::to_vec(&body).unwrap());
            Ok(Response::builder().status(code).body(body).unwrap())
        }
    });
    (Client::new(service, namespace), requests)
}

/// A client whose requests are only noted.
pub(crate) fn record(inner: Client) -> (Client, Requests) {
    intercept(inner, |_| Box::pin(async { None }))
}

/// A failure as the API server answers it.
pub(crate) fn failure(code: u16, reason: &str, message: &str) -> (u16, Value) {
    let status = serde_json::json!({
        "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message,
    });
    (code, status)
}
