//! Proxy: the controller's `kube::Client`. It calls the server in the process and injects the faults of the schedule.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::{Future, pending};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body::{Frame, SizeHint};
use http_body_util::{BodyExt as _, Full};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::cluster::{ObjectKey, text};
use crate::control::{Control, Write, Writer};
use crate::edits;
use crate::lease;
use crate::request::{Query, Target};
use crate::schedule::Fault;
use crate::stale;
use crate::trace::Actor;
use crate::watch::{Metadata, Object, WatchBody};
use crate::world::World;

/// Transport of the client, for one start of the controller.
pub(crate) struct Proxy<W: World> {
    control: Arc<Control<W>>,
    start: u32,
}

impl<W: World> Proxy<W> {
    pub(crate) const fn new(control: Arc<Control<W>>, start: u32) -> Self {
        Self { control, start }
    }
}

impl<W: World> tower_service::Service<Request<kube::client::Body>> for Proxy<W> {
    type Response = Response<ProxyBody<W>>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Self::Future {
        let call = Call { control: self.control.clone(), start: self.start };
        Box::pin(call.answer(request))
    }
}

/// A read of the controller.
pub(crate) enum ProxyBody<W: World> {
    Whole(Full<Bytes>),
    Watch(Box<WatchBody<W>>),
}

impl<W: World> http_body::Body for ProxyBody<W> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Whole(body) => Pin::new(body).poll_frame(context),
            Self::Watch(body) => Pin::new(&mut **body).poll_frame(context),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(body) => body.size_hint(),
            Self::Watch(_) => SizeHint::default(),
        }
    }
}

/// The objects of a response.
#[derive(Deserialize)]
struct Objects<'a> {
    #[serde(borrow, default)]
    metadata: Metadata<'a>,
    #[serde(borrow, default)]
    items: Vec<Object<'a>>,
}

/// One request.
struct Call<W: World> {
    control: Arc<Control<W>>,
    start: u32,
}

impl<W: World> Call<W> {
    async fn answer(self, request: Request<kube::client::Body>) -> io::Result<Response<ProxyBody<W>>> {
        self.wait_if_dead().await;
        let (head, body) = request.into_parts();
        let target = Target::parse(head.uri.path());
        let is_write = !matches!(head.method, Method::GET | Method::HEAD | Method::OPTIONS);
        let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        let request = Request::from_parts(head, Full::new(body));
        match target {
            Some(target) if is_write && !target.object.is_exempt() => self.write(request, &target).await,
            Some(target) if is_write && target.object.is_auxiliary() => {
                self.write_auxiliary(request, &target).await
            }
            target if is_write => {
                let (head, body) = self.forward(request).await.into_parts();
                if let Some(target) = target {
                    self.control.observe(Writer::Controller(&target.object));
                }
                let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
                Ok(Response::from_parts(head, ProxyBody::Whole(Full::new(body))))
            }
            target => self.read(request, target).await,
        }
    }

    /// Blocks requests of a crashed controller forever.
    async fn wait_if_dead(&self) {
        if !self.control.is_alive(self.start) || !self.control.admit() {
            pending::<()>().await;
        }
    }

    async fn forward(&self, request: Request<Full<Bytes>>) -> Response<settled_apiserver::Body> {
        self.control.server.call(Some(self.control.scenario.user.clone()), request).await
    }

    async fn read(
        &self,
        request: Request<Full<Bytes>>,
        target: Option<Target>,
    ) -> io::Result<Response<ProxyBody<W>>> {
        let Some(target) = target else { return self.get(request).await };
        let query = Query::parse(request.uri().query().unwrap_or_default());
        let mut past = None;
        if query.accepts_any_version && target.object.name.is_empty() {
            let mut inner = self.control.inner();
            inner.watches.cached_lists = true;
            past = inner.watches.past(Instant::now()).map(|(revision, _)| revision);
        }
        match (past, query.watch) {
            (None, false) => self.get(request).await,
            (None, true) => self.watch(request, &target, VecDeque::new()).await,
            (Some(revision), false) => {
                let stale = self.get(stale::list(request.clone(), revision)?).await?;
                if stale.status() == StatusCode::GONE {
                    // The server has no longer what a stale cache would have.
                    return self.get(request).await;
                }
                self.control.note(Actor::Fault, None, || {
                    format!("the list of {} is of revision {revision}", target.object.resource)
                });
                Ok(stale)
            }
            (Some(revision), true) => {
                let (list, watch) = stale::streaming_list(request.clone(), revision)?;
                let (head, body) = self.forward(list).await.into_parts();
                let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
                if head.status != StatusCode::OK {
                    return self.watch(request, &target, VecDeque::new()).await;
                }
                self.control.note(Actor::Fault, None, || {
                    format!("the watch of {} begins with revision {revision}", target.object.resource)
                });
                self.watch(watch, &target, stale::initial_events(&body)).await
            }
        }
    }

    /// Gets an object or a list.
    async fn get(&self, request: Request<Full<Bytes>>) -> io::Result<Response<ProxyBody<W>>> {
        let (head, body) = self.forward(request).await.into_parts();
        let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        self.deliver(&body);
        Ok(Response::from_parts(head, ProxyBody::Whole(Full::new(body))))
    }

    /// Watches. `first`: lines that precede those of the server.
    async fn watch(
        &self,
        request: Request<Full<Bytes>>,
        target: &Target,
        first: VecDeque<Bytes>,
    ) -> io::Result<Response<ProxyBody<W>>> {
        let (head, body) = self.forward(request).await.into_parts();
        if head.status != StatusCode::OK {
            let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
            return Ok(Response::from_parts(head, ProxyBody::Whole(Full::new(body))));
        }
        let body = WatchBody::new(body, self.control.clone(), self.start, &target.object, first);
        Ok(Response::from_parts(head, ProxyBody::Watch(Box::new(body))))
    }

    fn deliver(&self, body: &[u8]) {
        let Ok(objects) = serde_json::from_slice::<Objects<'_>>(body) else { return };
        let items = objects.items.iter().map(|object| &object.metadata);
        for metadata in items.chain([&objects.metadata]) {
            if let Some(generation) = metadata.generation {
                self.control.deliver(&metadata.uid, generation);
            }
        }
    }

    async fn write(
        &self,
        request: Request<Full<Bytes>>,
        target: &Target,
    ) -> io::Result<Response<ProxyBody<W>>> {
        let control = &self.control;
        control.observe(Writer::Other(Actor::Server));
        let write = control.begin_write(false);
        let what = format!("{} {}", request.method(), request.uri().path());
        before(control, &write).await;
        control.check_lease(write.place, &what);
        if write.has(Fault::Conflict) {
            edits::touch(control, target, write.place).await;
            self.note(&write, || format!("{what}: 409 (injected)"));
            return Ok(conflict(target));
        }
        let response = self.forward(request).await;
        control.observe(Writer::Controller(&target.object));
        let (head, body) = response.into_parts();
        let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        self.note(&write, || format!("{what}: {}", summary(head.status, &body)));
        after(control, &write).await?;
        self.deliver(&body);
        Ok(Response::from_parts(head, ProxyBody::Whole(Full::new(body))))
    }

    /// Writes a Lease or an Event.
    async fn write_auxiliary(
        &self,
        request: Request<Full<Bytes>>,
        target: &Target,
    ) -> io::Result<Response<ProxyBody<W>>> {
        let control = &self.control;
        let write = control.begin_auxiliary();
        let what = format!("{} {}", request.method(), request.uri().path());
        // A write of a Lease that neither creates nor deletes it, nor changes the holder, is a renewal.
        let may_renew =
            target.object.is_lease() && !matches!(*request.method(), Method::POST | Method::DELETE);
        let holder = || {
            let inner = control.inner();
            inner.cluster.get(&target.object).map(|lease| text(lease, "/spec/holderIdentity").to_owned())
        };
        let before_it = may_renew.then(holder);
        before(control, &write).await;
        let (head, body) = self.forward(request).await.into_parts();
        control.observe(Writer::Controller(&target.object));
        let renews = before_it.is_some_and(|before_it| before_it == holder());
        if control.record_auxiliary(write.place, renews) || !write.faults.is_empty() {
            self.note(&write, || format!("{what}: {}", head.status.as_u16()));
        }
        let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        after(control, &write).await?;
        Ok(Response::from_parts(head, ProxyBody::Whole(Full::new(body))))
    }

    fn note(&self, write: &Write, text: impl FnOnce() -> String) {
        self.control.note(Actor::Controller(self.start), Some(write.place), text);
    }
}

/// Injects faults before a write is performed.
pub(crate) async fn before<W: World>(control: &Arc<Control<W>>, write: &Write) {
    if !write.takes.is_zero() {
        tokio::time::sleep(write.takes).await;
    }
    if write.has(Fault::Edit) {
        edits::perform_next(control).await;
    }
    if write.has(Fault::LostLease) {
        lease::take(control).await;
    }
    if write.has(Fault::CrashBefore) {
        control.crash(Some(write.place));
        pending::<()>().await;
    }
}

/// Injects faults after a write was performed.
pub(crate) async fn after<W: World>(control: &Control<W>, write: &Write) -> io::Result<()> {
    for fault in &write.faults {
        match fault {
            Fault::StaleList(writes) => control.fall_behind(*writes),
            Fault::CrashAfter => {}
            _ => continue,
        }
        control.crash(Some(write.place));
        pending::<()>().await;
    }
    if write.has(Fault::LostResponse) {
        control.note(Actor::Fault, Some(write.place), || "the response is lost".to_owned());
        return Err(io::Error::new(io::ErrorKind::ConnectionReset, "connection reset before the response"));
    }
    Ok(())
}

/// The outcome of a write, for the trace.
fn summary(status: StatusCode, body: &[u8]) -> String {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let text = |pointer| body.pointer(pointer).and_then(Value::as_str);
    match text("/metadata/resourceVersion") {
        Some(revision) if status.is_success() => format!("{} at {revision}", status.as_u16()),
        _ => format!("{} {}", status.as_u16(), text("/message").unwrap_or_default()),
    }
}

fn conflict<W: World>(target: &Target) -> Response<ProxyBody<W>> {
    let ObjectKey { group, resource, name, .. } = &target.object;
    let full = if group.is_empty() { resource.clone() } else { format!("{resource}.{group}") };
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Conflict", "code": 409,
        "message": format!(
            "Operation cannot be fulfilled on {full} {name:?}: the object has been modified; please apply your changes to \
             the latest version and try again"
        ),
        "details": {"name": name, "group": group, "kind": resource},
    });
    let mut response = Response::new(ProxyBody::Whole(Full::new(Bytes::from(body.to_string()))));
    *response.status_mut() = StatusCode::CONFLICT;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
