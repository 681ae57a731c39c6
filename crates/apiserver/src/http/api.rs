//! Request handling from first byte to response: authentication, limits, timeouts, warnings, compression.

use std::pin::{Pin, pin};
use std::sync::Arc;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Request, Response};
use serde_json::{Value, json};
use settled_budget::Budget;
use tracing::Instrument as _;

use crate::auth::User;
use crate::budget;
use crate::error::ApiError;
use crate::features::Feature;
use crate::http::answer::{self, Answer};
use crate::http::body::Body;
use crate::http::limits::{Gate, Limits};
use crate::http::metrics::Running;
use crate::http::negotiate::{self, Endpoint};
use crate::http::nonresource::{self, Nonresource};
use crate::http::request_body::{self, Received};
use crate::http::workers::{CancelOnDrop, Workers, metered};
use crate::http::{compress, resource, trace, weight};
use crate::request::{Query, RequestInfo, ResourceRequest};
use crate::state::State;
use crate::state::call::Call;

/// The most that all warnings of an answer may have, and each one if that is exceeded.
const MAX_WARNINGS: usize = 4096;
const MAX_WARNING: usize = 256;

/// The server without its sockets.
pub(crate) struct Api {
    pub(crate) state: Arc<State>,
    /// Who may come in.
    pub(crate) gate: Gate,
    /// What there is besides resources.
    pub(crate) nonresource: Nonresource,
    /// Where requests are answered that need much processor time.
    workers: Workers,
}

impl Api {
    pub(crate) fn new(state: Arc<State>, limits: &Limits, workers: Workers) -> Self {
        Self { state, gate: Gate::new(limits), nonresource: Nonresource::default(), workers }
    }

    /// Answers a request.
    ///
    /// `certificate` is whose certificate the connection has.
    pub(crate) async fn handle<B>(
        self: &Arc<Self>,
        certificate: Option<User>,
        request: Request<B>,
    ) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (head, body) = request.into_parts();
        let query = Query::parse(head.uri.query().unwrap_or_default());
        let info = RequestInfo::new(&head.method, head.uri.path(), &query);
        let user_agent = head.headers.get(header::USER_AGENT).and_then(|value| value.to_str().ok());
        let mut call = Call::of(User::anonymous(), user_agent.unwrap_or_default());
        call.now = self.state.now();
        let apply = is_apply(&head.headers);
        let mut running = self.nonresource.metrics.begin(&self.state, &info, &query, apply);
        // As upstream, before any of the body is read.
        let result = match self.state.identity.admit(certificate, &head.headers, &info) {
            Ok(user) => {
                trace::record_user(running.span(), &user);
                call.user = user;
                let span = running.span().clone();
                self.answer(&mut call, &info, &query, &head.headers, body, &mut running)
                    .instrument(span)
                    .await
            }
            Err(error) => Err(error),
        };
        let mut response = match result {
            Ok(response) => response,
            Err(error) => {
                if error.code >= 500 {
                    self.state.lifecycle.notices.failed(&self.state.store, &error);
                }
                error_answer(&head.headers, &query, &error)
            }
        };
        let headers = response.headers_mut();
        let id = HeaderValue::from_str(&uuid::Uuid::new_v4().to_string());
        if let Ok(id) = id {
            headers.insert("audit-id", id);
        }
        let private = HeaderValue::from_static("no-cache, private");
        headers.entry(header::CACHE_CONTROL).or_insert(private);
        add_warnings(headers, &call.warnings);
        if head.method == http::Method::HEAD {
            *response.body_mut() = Body::empty();
        } else if compress::is_accepted(&head.headers)
            && self.state.lifecycle.gates.has(Feature::ApiResponseCompression)
        {
            answer::compress(&mut response);
        }
        running.answered(response.status().as_u16());
        response.body_mut().counted(running);
        response
    }

    async fn answer<B>(
        self: &Arc<Self>,
        call: &mut Call<'_>,
        info: &RequestInfo,
        query: &Query,
        headers: &HeaderMap,
        body: B,
        running: &mut Running,
    ) -> Result<Answer, ApiError>
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let time = self.gate.time(info, query)?;
        let work = pin!(async {
            // A slow sender holds no seat.
            let Received { bytes: body, place } = request_body::read(&self.gate, &call.user, body).await?;
            let _place = place;
            let seat = self.gate.enter(info, &call.user).await?;
            let request = ResourceRequest { info, query, headers, body };
            if !info.is_resource {
                return nonresource::answer_request(&self.state, &self.gate, &self.nonresource, &request)
                    .await;
            }
            let result = self.resource(call, request).await;
            if !info.is_mutating() {
                // Long answers are read from the store while they are sent.
                running.holds(seat);
            }
            result
        });
        tokio::time::timeout(time, work).await.unwrap_or_else(|_| Err(budget::timed_out()))
    }

    /// Answers a request for a resource: here, or by the workers if that will take long.
    async fn resource(
        self: &Arc<Self>,
        call: &mut Call<'_>,
        request: ResourceRequest<'_>,
    ) -> Result<Answer, ApiError> {
        let mut stopping = self.state.lifecycle.stopping.subscribe();
        let stop = async move {
            // An error means that the server is gone altogether.
            let _gone = stopping.wait_for(|stopping| *stopping).await;
        };
        let budget = self.gate.budget();
        let _cancel = CancelOnDrop(&budget);
        let ResourceRequest { info, query, headers, ref body } = request;
        let by_workers = match &self.workers {
            // What reads has no part that is done aside.
            Workers::None => settled_aside::is_entered() && info.is_mutating(),
            Workers::Threads(_) => weight::is_heavy(&self.state, info, query, headers, body),
        };
        if by_workers {
            return self.resource_by_workers(call, request, stop, &budget).await;
        }
        let work = pin!(answer_resource(&self.state, call, &request, stop));
        metered(&budget, work).await
    }

    /// Boxed: few requests go there.
    fn resource_by_workers<'a>(
        self: &'a Arc<Self>,
        call: &'a mut Call<'_>,
        request: ResourceRequest<'a>,
        stop: impl Future<Output = ()> + Send + 'static,
        budget: &'a Budget,
    ) -> Pin<Box<dyn Future<Output = Result<Answer, ApiError>> + Send + 'a>> {
        let ResourceRequest { info, query, headers, .. } = request;
        let (state, info, query, headers) =
            (self.state.clone(), info.clone(), query.clone(), headers.clone());
        let (user, agent, now) = (call.user.clone(), call.user_agent.to_owned(), call.now);
        let name = user.name.clone();
        let packs =
            compress::is_accepted(&headers) && state.lifecycle.gates.has(Feature::ApiResponseCompression);
        let work = async move {
            let mut call = Call::of(user, &agent);
            call.now = now;
            let request =
                ResourceRequest { info: &info, query: &query, headers: &headers, body: request.body };
            let mut result = answer_resource(&state, &mut call, &request, stop).await;
            if let (true, Ok(response)) = (packs, &mut result) {
                answer::compress(response);
            }
            (result, call.warnings)
        }
        .in_current_span();
        Box::pin(async move {
            let (result, warnings) =
                self.workers.run(&name, budget, work).await.map_err(ApiError::internal)?;
            call.warnings.extend(warnings);
            result
        })
    }
}

async fn answer_resource(
    state: &Arc<State>,
    call: &mut Call<'_>,
    request: &ResourceRequest<'_>,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<Answer, ApiError> {
    let result = resource::answer_request(state, call, request, stop).await;
    // A write has been looked at before it was stored.
    let is_written = request.info.is_mutating() && result.is_ok();
    if is_written { result } else { budget::check_budget().and(result) }
}

fn is_apply(headers: &HeaderMap) -> bool {
    headers
        .get(header::CONTENT_TYPE)
        .is_some_and(|value| value.as_bytes().starts_with(b"application/apply-patch"))
}

/// The answer to a request that failed.
fn error_answer(headers: &HeaderMap, query: &Query, error: &ApiError) -> Answer {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    let negotiated = negotiate::negotiate(accept, Endpoint::Plain)
        .or_else(|_| negotiate::negotiate(None, Endpoint::Plain));
    let Ok(mut negotiated) = negotiated else { return Response::new(Body::empty()) };
    negotiated.pretty |= negotiate::is_pretty(query, headers);
    let mut response = answer::answer(error.code, negotiated, &error.to_status());
    if let Some(seconds) = error.details.get("retryAfterSeconds").and_then(Value::as_u64)
        && let Ok(seconds) = HeaderValue::from_str(&seconds.to_string())
    {
        response.headers_mut().insert(header::RETRY_AFTER, seconds);
    }
    response
}

/// `Warning: 299 - "text"`, as RFC 7234 has it. Texts are shortened if they would be too long together.
fn add_warnings(headers: &mut HeaderMap, warnings: &[String]) {
    let total: usize = warnings.iter().map(|text| text.chars().count()).sum();
    let mut left = MAX_WARNINGS;
    for text in warnings {
        let text: String =
            if total > MAX_WARNINGS { text.chars().take(MAX_WARNING).collect() } else { text.clone() };
        let size = text.chars().count();
        if size > left {
            break;
        }
        left -= size;
        let plain: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let quoted = json!(plain).to_string();
        if let Ok(value) = HeaderValue::from_bytes(format!("299 - {quoted}").as_bytes()) {
            headers.append(header::WARNING, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;

    use super::*;
    use crate::server::Server;

    /// What any request may need is in the future of each, which is copied on the way to its task unless LTO avoids it.
    #[tokio::test]
    async fn futures_of_requests_are_small() {
        let server = Server::in_memory().await.unwrap();
        let request = Request::get("/api/v1/nodes").body(Full::new(Bytes::new())).unwrap();
        let size = size_of_val(&server.call(None, request));
        assert!(size < 4096, "{size} bytes");
    }
}
