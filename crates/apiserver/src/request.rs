//! Request info: path, verb and parameters (`pkg/endpoints/request` upstream).

use std::borrow::Cow;

use bytes::Bytes;
use http::Method;
use http::header::{self, HeaderMap};
use percent_encoding::percent_decode_str;

/// What a path and a method ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestInfo {
    /// A path below `/api/VERSION/…` or `/apis/GROUP/VERSION/…` that names a resource.
    pub(crate) is_resource: bool,
    pub(crate) path: String,
    pub(crate) method: Method,
    pub(crate) verb: &'static str,
    /// A path below `watch/`, which is a watch without `?watch=true`.
    pub(crate) prefixed: bool,
    /// Does the path have a name?
    pub(crate) named: bool,
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) namespace: String,
    pub(crate) resource: String,
    pub(crate) subresource: String,
    pub(crate) name: String,
    /// What comes after the subresource.
    pub(crate) rest: Vec<String>,
}

/// The parameters of a query, decoded. Empty pairs are skipped: some clients send `?&watch=true`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(text: &str) -> Self {
        Self(
            text.split('&')
                .filter(|pair| !pair.is_empty())
                .map(|pair| {
                    let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                    (unescape(name, true), unescape(value, true))
                })
                .collect(),
        )
    }

    /// The first value; empty if there is none.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.find(name).unwrap_or_default()
    }

    /// The first value, if the parameter was given.
    pub(crate) fn find(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// All values.
    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        self.0.iter().filter(|(key, _)| key == name).map(|(_, value)| value.as_str()).collect()
    }

    /// As Go's conversion of query parameters reads a boolean: only `false` and `0` are false, an empty one is true.
    pub(crate) fn truthy(&self, name: &str) -> Option<bool> {
        self.find(name).map(|value| !(value.eq_ignore_ascii_case("false") || value == "0"))
    }
}

/// Undoes percent encoding, and `+` in queries. What isn't encoded well stays as it is.
pub(crate) fn unescape(text: &str, plus: bool) -> String {
    // Next to none need it.
    if !text.bytes().any(|byte| matches!(byte, b'%' | b'+')) {
        return text.to_owned();
    }
    let spaced = if plus { Cow::Owned(text.replace('+', " ")) } else { Cow::Borrowed(text) };
    percent_decode_str(&spaced).decode_utf8_lossy().into_owned()
}

impl RequestInfo {
    /// Reads a request line.
    pub(crate) fn new(method: &Method, path: &str, query: &Query) -> Self {
        let verb = match *method {
            Method::POST => "create",
            Method::GET | Method::HEAD => "get",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE => "delete",
            _ => "",
        };
        let path = unescape(path, false);
        let mut parts: Vec<String> = path.trim_matches('/').split('/').map(str::to_owned).collect();
        let mut info = Self { path, method: method.clone(), ..Self::default() };
        info.verb = match *method {
            Method::POST => "post",
            Method::GET => "get",
            Method::HEAD => "head",
            Method::PUT => "put",
            Method::PATCH => "patch",
            Method::DELETE => "delete",
            Method::OPTIONS => "options",
            _ => "",
        };
        let prefix = if parts.is_empty() { String::new() } else { parts.remove(0) };
        let take = |parts: &mut Vec<String>| if parts.is_empty() { String::new() } else { parts.remove(0) };
        match prefix.as_str() {
            "api" if parts.len() >= 2 => info.version = take(&mut parts),
            "apis" if parts.len() >= 3 => {
                info.group = take(&mut parts);
                info.version = take(&mut parts);
            }
            _ => return info,
        }
        info.is_resource = true;
        info.verb = verb;
        if parts.len() > 1 && parts.first().is_some_and(|part| part == "watch") {
            info.prefixed = true;
            info.verb = "watch";
            parts.remove(0);
        }
        if parts.first().is_some_and(|part| part == "namespaces") && parts.len() > 1 {
            info.namespace = parts.get(1).cloned().unwrap_or_default();
            // `status` and `finalize` are of the namespace, not in it.
            if parts.len() > 2 && !matches!(parts.get(2).map(String::as_str), Some("status" | "finalize")) {
                parts.drain(..2);
            }
        }
        info.resource = take(&mut parts);
        info.name = take(&mut parts);
        info.subresource = take(&mut parts);
        info.rest = parts;
        info.named = !info.name.is_empty();
        if !info.named {
            info.verb = match info.verb {
                "get" if query.truthy("watch") == Some(true) => "watch",
                "get" => "list",
                "delete" => "deletecollection",
                other => other,
            };
            // Asking for one name is allowed to whom that name is.
            if verb == "get"
                && matches!(info.verb, "list" | "watch")
                && !info.prefixed
                && let Some(name) = single_name(query.get("fieldSelector"))
            {
                info.name = name.to_owned();
            }
        }
        info
    }

    /// Is it for one object, not for a collection?
    pub(crate) fn is_collection(&self) -> bool {
        matches!(self.verb, "list" | "watch" | "deletecollection")
    }

    /// Does the request change something?
    pub(crate) fn is_mutating(&self) -> bool {
        !matches!(self.verb, "get" | "list" | "watch" | "head" | "options")
    }
}

fn single_name(field_selector: &str) -> Option<&str> {
    field_selector.split(',').find_map(|part| {
        let value = part.strip_prefix("metadata.name=")?;
        let value = value.strip_prefix('=').unwrap_or(value);
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | ':');
        (!value.is_empty() && value.chars().all(plain)).then_some(value)
    })
}

/// A request for a resource, with its body read.
pub(crate) struct ResourceRequest<'a> {
    pub(crate) info: &'a RequestInfo,
    pub(crate) query: &'a Query,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) body: Bytes,
}

/// The text of a header, if it has one.
pub(crate) fn header_text(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_say_what_is_asked_for() {
        let cases = [
            ("GET", "/api/v1/namespaces", "list  v1  namespaces  "),
            ("GET", "/api/v1/namespaces?&watch=1", "watch  v1  namespaces  "),
            ("GET", "/api/v1/namespaces/a", "get  v1 a namespaces a "),
            ("PUT", "/api/v1/namespaces/a/finalize", "update  v1 a namespaces a finalize"),
            ("GET", "/api/v1/namespaces/a/pods", "list  v1 a pods  "),
            ("DELETE", "/apis/apps/v1/namespaces/a/deployments", "deletecollection apps v1 a deployments  "),
            (
                "PATCH",
                "/apis/apps/v1/namespaces/a/deployments/d/scale",
                "patch apps v1 a deployments d scale",
            ),
            ("GET", "/api/v1/pods?fieldSelector=metadata.name%3Dx", "list  v1  pods x "),
            (
                "GET",
                "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode",
                "get rbac.authorization.k8s.io v1  clusterroles system:node ",
            ),
            ("GET", "/apis/apps/v1", "-"),
            ("GET", "/healthz", "-"),
        ];
        for (method, target, wanted) in cases {
            let (path, query) = target.split_once('?').unwrap_or((target, ""));
            let info = RequestInfo::new(&method.parse().unwrap(), path, &Query::parse(query));
            let got = if info.is_resource {
                let RequestInfo { verb, group, version, namespace, resource, name, subresource, .. } = info;
                format!("{verb} {group} {version} {namespace} {resource} {name} {subresource}")
            } else {
                "-".to_owned()
            };
            assert_eq!(got, wanted, "{method} {target}");
        }
    }
}
