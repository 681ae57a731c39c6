//! A request from its first byte to its answer: the filters around what [`crate::resource`] does.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Request, Response};
use http_body_util::{BodyExt, Limited};
use serde_json::{Value, json};

use crate::auth::User;
use crate::body::Body;
use crate::compress;
use crate::core::{Call, Core};
use crate::error::ApiError;
use crate::features::Feature;
use crate::limits::{Gate, Limits};
use crate::negotiate::{self, Endpoint};
use crate::request::{Query, RequestInfo};
use crate::resource::{self, Answer, ResourceRequest};
use crate::surface::{Surface, nonresource};

/// The largest body of a request, in bytes.
const MAX_BODY: usize = 3 << 20;
/// The most that all warnings of an answer may have, and each one if that is exceeded.
const MAX_WARNINGS: usize = 4096;
const MAX_WARNING: usize = 256;

/// The server without its sockets.
pub(crate) struct Api {
    pub(crate) core: Arc<Core>,
    /// Who may come in.
    pub(crate) gate: Gate,
    /// What there is besides resources.
    pub(crate) surface: Surface,
}

impl Api {
    pub(crate) fn new(core: Arc<Core>, limits: &Limits) -> Self {
        Self { core, gate: Gate::new(limits), surface: Surface::default() }
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
        call.now = self.core.now();
        let apply = is_apply(&head.headers);
        let mut running = self.surface.metrics.begin(&self.core, &info, &query, apply);
        let admitted = self.core.identity.admit(certificate, &head.headers, &info).and_then(|user| {
            running.holds(self.gate.enter(&info, &user)?);
            Ok(user)
        });
        let result = match admitted {
            Ok(user) => {
                call.user = user;
                self.answer(&mut call, &info, &query, &head.headers, body).await
            }
            Err(error) => Err(error),
        };
        let mut response = match result {
            Ok(response) => response,
            Err(error) => {
                if error.code >= 500 {
                    self.core.host.notices.failed(&self.core, &error);
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
            && self.core.host.gates.has(Feature::ApiResponseCompression)
        {
            compress::compress(&mut response);
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
    ) -> Result<Answer, ApiError>
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let mut stopping = self.core.host.stopping.subscribe();
        let stop = async move {
            // An error means that the server is gone altogether.
            let _gone = stopping.wait_for(|stopping| *stopping).await;
        };
        let work = async {
            let body = read_body(body).await?;
            if info.is_resource {
                let request = ResourceRequest { info, query, headers, body };
                return self.core.resource(call, &request, stop).await;
            }
            nonresource(self, &ResourceRequest { info, query, headers, body }).await
        };
        match tokio::time::timeout(self.gate.time(info, query)?, work).await {
            Ok(result) => result,
            Err(_) => {
                let message = "request did not complete within requested timeout - context deadline exceeded";
                Err(ApiError::new(504, "Timeout", format!("Timeout: {message}")))
            }
        }
    }
}

fn is_apply(headers: &HeaderMap) -> bool {
    headers
        .get(header::CONTENT_TYPE)
        .is_some_and(|value| value.as_bytes().starts_with(b"application/apply-patch"))
}

async fn read_body<B>(body: B) -> Result<Bytes, ApiError>
where
    B: http_body::Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let limited = std::pin::pin!(Limited::new(body, MAX_BODY));
    match limited.collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => {
            let message = format!("Request entity too large: limit is {MAX_BODY}");
            Err(ApiError::new(413, "RequestEntityTooLarge", message))
        }
        Err(error) => Err(ApiError::bad_request(format!("the body could not be read: {error}"))),
    }
}

/// The answer to a request that failed.
fn error_answer(headers: &HeaderMap, query: &Query, error: &ApiError) -> Answer {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    let negotiated = negotiate::negotiate(accept, Endpoint::Plain)
        .or_else(|_| negotiate::negotiate(None, Endpoint::Plain));
    let Ok(mut negotiated) = negotiated else { return Response::new(Body::empty()) };
    negotiated.pretty |= negotiate::is_pretty(query, headers);
    let mut response = resource::answer(error.code, negotiated, &error.to_status());
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
