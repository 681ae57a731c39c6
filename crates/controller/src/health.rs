//! HTTP endpoints of a controller process: `/livez`, `/readyz`, `/metrics`.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::time::Instant;

use crate::metrics::Metrics;

/// Timeout of a request head.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
const OPEN_METRICS: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
const PLAIN: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// Health of a process. Clones share it.
///
/// Ready: all parts have reported readiness (caches are synced). Live: no heartbeat is overdue.
#[derive(Clone, Debug, Default)]
pub struct Health(Arc<Mutex<Parts>>);

#[derive(Debug, Default)]
struct Parts {
    ready: BTreeMap<String, bool>,
    alive: BTreeMap<String, Pulse>,
}

#[derive(Clone, Copy, Debug)]
struct Pulse {
    last: Instant,
    max_silence: Duration,
}

impl Health {
    /// A process without parts: live and ready.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn parts<T>(&self, change: impl FnOnce(&mut Parts) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sets the readiness of a part. Register parts with `false` before serving.
    pub fn set_ready(&self, part: &str, ready: bool) {
        self.parts(|parts| parts.ready.insert(part.to_owned(), ready));
    }

    /// Heartbeat of a part, which must be repeated within `max_silence`.
    pub fn beat(&self, part: &str, max_silence: Duration) {
        self.parts(|parts| parts.alive.insert(part.to_owned(), Pulse { last: Instant::now(), max_silence }));
    }

    /// Removes a part that has ended in order.
    pub fn remove(&self, part: &str) {
        self.parts(|parts| {
            parts.ready.remove(part);
            parts.alive.remove(part);
        });
    }

    /// Parts that are not ready.
    #[must_use]
    pub fn not_ready(&self) -> Vec<String> {
        self.parts(|parts| {
            parts.ready.iter().filter(|(_, ready)| !**ready).map(|(part, _)| part.clone()).collect()
        })
    }

    /// Parts with an overdue heartbeat.
    #[must_use]
    pub fn silent(&self) -> Vec<String> {
        let now = Instant::now();
        let is_silent = |pulse: &Pulse| now.duration_since(pulse.last) > pulse.max_silence;
        self.parts(|parts| {
            parts.alive.iter().filter(|(_, pulse)| is_silent(pulse)).map(|(part, _)| part.clone()).collect()
        })
    }
}

/// Serves `/livez`, `/readyz`, `/metrics` and older paths, such as `/healthz`, until `stop`.
///
/// # Errors
/// The listener failed.
pub async fn serve(
    listener: TcpListener,
    health: Health,
    metrics: Metrics,
    stop: impl Future<Output = ()> + Send,
) -> io::Result<()> {
    tokio::pin!(stop);
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let (connection, _) = tokio::select! {
            accepted = listener.accept() => accepted?,
            () = &mut stop => return Ok(()),
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
        };
        let (health, metrics) = (health.clone(), metrics.clone());
        let answer = service_fn(move |request: Request<Incoming>| {
            let response = respond(request.method(), request.uri().path(), &health, &metrics);
            std::future::ready(Ok::<_, Infallible>(response))
        });
        let mut builder = hyper::server::conn::http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
        // Disconnecting clients are not an error.
        connections
            .spawn(async move { drop(builder.serve_connection(TokioIo::new(connection), answer).await) });
    }
}

fn respond(method: &Method, path: &str, health: &Health, metrics: &Metrics) -> Response<Full<Bytes>> {
    let (code, kind, text) = match path {
        _ if !matches!(*method, Method::GET | Method::HEAD) => {
            (StatusCode::METHOD_NOT_ALLOWED, PLAIN, "only GET is allowed\n".to_owned())
        }
        "/livez" | "/healthz" => state(&health.silent(), "silent"),
        "/readyz" => state(&health.not_ready(), "not ready"),
        "/metrics" => match metrics.encode() {
            Ok(text) => (StatusCode::OK, OPEN_METRICS, text),
            Err(error) => {
                (StatusCode::INTERNAL_SERVER_ERROR, PLAIN, format!("a collector failed: {error}\n"))
            }
        },
        _ => (StatusCode::NOT_FOUND, PLAIN, "not found; there are /livez, /readyz and /metrics\n".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

fn state(parts: &[String], problem: &str) -> (StatusCode, HeaderValue, String) {
    if parts.is_empty() {
        (StatusCode::OK, PLAIN, "ok\n".to_owned())
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, PLAIN, format!("{problem}: {}\n", parts.join(", ")))
    }
}
