//! Request tracing: a span for each request, and an event once its response is sent.
//!
//! Neither has a body, a header or a query: names only. Without a subscriber, a request costs a look at a static.

use std::time::Duration;

use tracing::Span;
use tracing::field::Empty;

use crate::auth::User;
use crate::request::RequestInfo;

/// The span of a request; its user is recorded once it is authenticated. It has the level of the most urgent event in it.
pub(crate) fn span(info: &RequestInfo) -> Span {
    if !info.is_resource {
        return tracing::warn_span!("request", verb = info.verb, path = info.path.as_str(), user = Empty);
    }
    tracing::warn_span!(
        "request",
        verb = info.verb,
        group = given(&info.group),
        version = info.version.as_str(),
        resource = info.resource.as_str(),
        subresource = given(&info.subresource),
        namespace = given(&info.namespace),
        name = given(&info.name),
        user = Empty,
    )
}

pub(crate) fn record_user(span: &Span, user: &User) {
    span.record("user", user.name.as_str());
}

/// Emits the event at the end of a request; `events`: how many a watch has sent.
pub(crate) fn response(span: &Span, code: u16, latency: Duration, events: Option<u64>) {
    if span.is_disabled() {
        return;
    }
    let latency_ms = (latency.as_secs_f64() * 1e6).round() / 1e3;
    match code {
        500.. => tracing::warn!(parent: span, code, latency_ms, events, "response"),
        _ => tracing::info!(parent: span, code, latency_ms, events, "response"),
    }
}

fn given(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}
