//! Requests: parsed URLs, and requests of the explorer itself.

use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use serde_json::Value;
use settled_apiserver::Server;
use settled_apiserver::auth::User;

use crate::cluster::ObjectKey;

/// Target of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) object: ObjectKey,
    pub(crate) version: String,
    pub(crate) subresource: String,
}

impl Target {
    /// Parses the path of a URL; `None` if it names no resource.
    pub(crate) fn parse(path: &str) -> Option<Self> {
        let mut words = path.trim_matches('/').split('/');
        let group = match words.next()? {
            "api" => "",
            "apis" => words.next()?,
            _ => return None,
        };
        let version = words.next()?;
        let words: Vec<&str> = words.collect();
        let (namespace, rest) = match words.as_slice() {
            // The namespace itself, and its subresources.
            ["namespaces", _] | ["namespaces", _, "status" | "finalize"] => ("", words.as_slice()),
            ["namespaces", namespace, rest @ ..] => (*namespace, rest),
            _ => ("", words.as_slice()),
        };
        let [resource, rest @ ..] = rest else { return None };
        let object = ObjectKey {
            group: group.to_owned(),
            resource: (*resource).to_owned(),
            namespace: namespace.to_owned(),
            name: rest.first().copied().unwrap_or_default().to_owned(),
        };
        let subresource = rest.get(1).copied().unwrap_or_default().to_owned();
        Some(Self { object, version: version.to_owned(), subresource })
    }
}

/// Kind of a read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Query {
    pub(crate) watch: bool,
    /// A list from any cache: `resourceVersion=0`, and for a watch `sendInitialEvents=true`.
    pub(crate) accepts_any_version: bool,
}

impl Query {
    pub(crate) fn parse(query: &str) -> Self {
        let (mut watch, mut zero, mut initial) = (false, false, false);
        for pair in query.split('&') {
            match pair {
                "watch=true" | "watch=1" | "watch" => watch = true,
                "resourceVersion=0" => zero = true,
                "sendInitialEvents=true" | "sendInitialEvents=1" => initial = true,
                _ => {}
            }
        }
        Self { watch, accepts_any_version: zero && (initial || !watch) }
    }
}

/// The path of an object, or of all of its resource if it has no name.
pub(crate) fn path(object: &ObjectKey, version: &str, subresource: &str) -> String {
    let ObjectKey { group, resource, namespace, name } = object;
    let mut path =
        if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
    if !namespace.is_empty() {
        path = format!("{path}/namespaces/{namespace}");
    }
    for part in [resource.as_str(), name, subresource] {
        if !part.is_empty() {
            path.push('/');
            path.push_str(part);
        }
    }
    path
}

/// Sends a request as the administrator, and returns status and body. A body with unknown fields is refused: otherwise a misspelled one is
/// dropped, and the write does nothing.
pub(crate) async fn send(
    server: &Server,
    method: Method,
    path: &str,
    content_type: &str,
    body: Option<&Value>,
) -> (StatusCode, Value) {
    let bytes = body.map(|body| Bytes::from(body.to_string())).unwrap_or_default();
    let validation = if body.is_some() { "?fieldValidation=Strict" } else { "" };
    let request = Request::builder()
        .method(method)
        .uri(format!("{path}{validation}"))
        .header(header::CONTENT_TYPE, content_type)
        .header(header::USER_AGENT, "settled-faults")
        .body(Full::new(bytes));
    let Ok(request) = request else {
        return (StatusCode::BAD_REQUEST, Value::String(format!("{path:?} is no path")));
    };
    let response = server.call(Some(User::admin()), request).await;
    let status = response.status();
    let body = response.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    (status, serde_json::from_slice(&body).unwrap_or_default())
}

/// Sends a JSON merge patch.
pub(crate) async fn patch(server: &Server, path: &str, patch: &Value) -> (StatusCode, Value) {
    send(server, Method::PATCH, path, "application/merge-patch+json", Some(patch)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_that_accept_any_version_are_known() {
        for (query, watch, accepts_any_version) in [
            ("", false, false),
            ("limit=500", false, false),
            ("limit=500&resourceVersion=0&resourceVersionMatch=NotOlderThan", false, true),
            ("resourceVersion=10", false, false),
            ("watch=true&resourceVersion=0", true, false),
            ("watch=true&sendInitialEvents=true&resourceVersion=0", true, true),
            ("watch=true&sendInitialEvents=true", true, false),
        ] {
            assert_eq!(Query::parse(query), Query { watch, accepts_any_version }, "{query}");
        }
    }

    #[test]
    fn paths_are_read_as_they_are_written() {
        for (text, subresource) in [
            ("/api/v1/namespaces/shop", ""),
            ("/api/v1/namespaces/shop/status", "status"),
            ("/api/v1/namespaces/shop/configmaps", ""),
            ("/api/v1/namespaces/shop/configmaps/prices", ""),
            ("/apis/example.com/v1/namespaces/shop/widgets/a/status", "status"),
            ("/apis/example.com/v1/clusterwidgets/a", ""),
        ] {
            let target = Target::parse(text).unwrap();
            assert_eq!(target.subresource, subresource, "{text}");
            assert_eq!(path(&target.object, &target.version, &target.subresource), text);
        }
        let namespace = Target::parse("/api/v1/namespaces/shop").unwrap().object;
        assert_eq!((namespace.resource.as_str(), namespace.name.as_str()), ("namespaces", "shop"));
        assert_eq!(Target::parse("/healthz"), None);
        assert_eq!(Target::parse("/apis/example.com"), None);
    }
}
