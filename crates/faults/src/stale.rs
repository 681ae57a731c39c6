//! Stale lists, as from an API server with a stale cache: lists at an exact revision, and streaming lists made of these.

use std::collections::VecDeque;
use std::io;

use bytes::Bytes;
use http::header::ACCEPT;
use http::{HeaderValue, Request, Uri};
use http_body_util::Full;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// A request of the controller.
pub(crate) type ProxyRequest = Request<Full<Bytes>>;

/// Parameters of queries.
const VERSION: [&str; 2] = ["resourceVersion", "resourceVersionMatch"];
const WATCH: [&str; 4] = ["watch", "sendInitialEvents", "allowWatchBookmarks", "timeoutSeconds"];
const INITIAL_EVENTS: [&str; 1] = ["sendInitialEvents"];

/// A list at a revision.
#[derive(Deserialize)]
struct List {
    #[serde(default)]
    kind: String,
    #[serde(default, rename = "apiVersion")]
    api_version: String,
    metadata: ListMetadata,
    #[serde(default)]
    items: Vec<Map<String, Value>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMetadata {
    #[serde(default)]
    resource_version: String,
}

/// The request for a list, at a revision.
pub(crate) fn list(request: ProxyRequest, revision: u64) -> io::Result<ProxyRequest> {
    let exact = format!("resourceVersion={revision}&resourceVersionMatch=Exact");
    with_query(request, &VERSION, &exact)
}

/// The requests that replace a streaming list: a list at a revision, and a watch from there on.
pub(crate) fn streaming_list(
    request: ProxyRequest,
    revision: u64,
) -> io::Result<(ProxyRequest, ProxyRequest)> {
    let (head, body) = request.into_parts();
    let mut accept = head.headers.get(ACCEPT).cloned();
    if let Some(text) = accept.as_ref().and_then(|accept| accept.to_str().ok())
        && text.contains("as=PartialObjectMetadata;")
    {
        let lists = text.replace("as=PartialObjectMetadata;", "as=PartialObjectMetadataList;");
        accept = HeaderValue::from_str(&lists).ok();
    }
    let mut list = Request::builder().uri(head.uri.clone()).body(body.clone()).map_err(io::Error::other)?;
    if let Some(accept) = accept {
        list.headers_mut().insert(ACCEPT, accept);
    }
    let list = self::list(with_query(list, &WATCH, "")?, revision)?;
    let watch = with_query(Request::from_parts(head, body), &INITIAL_EVENTS, "")?;
    Ok((list, with_query(watch, &VERSION, &format!("resourceVersion={revision}"))?))
}

/// The same request without some parameters of its query, and with others.
fn with_query(mut request: ProxyRequest, without: &[&str], with: &str) -> io::Result<ProxyRequest> {
    let uri = request.uri();
    let named = |pair: &&str| without.contains(&pair.split_once('=').map_or(*pair, |(name, _)| name));
    let kept = uri.query().unwrap_or_default().split('&').filter(|pair| !named(pair));
    let pairs: Vec<&str> = kept.chain([with]).filter(|pair| !pair.is_empty()).collect();
    let text = format!("{}?{}", uri.path(), pairs.join("&"));
    *request.uri_mut() = text.parse::<Uri>().map_err(io::Error::other)?;
    Ok(request)
}

/// The initial events of a streaming list with the objects of a list.
pub(crate) fn initial_events(list: &[u8]) -> VecDeque<Bytes> {
    let Ok(list) = serde_json::from_slice::<List>(list) else { return VecDeque::new() };
    let kind = list.kind.strip_suffix("List").unwrap_or(&list.kind);
    let line = |event: &str, object: Map<String, Value>| {
        let mut line = json!({"type": event, "object": object}).to_string();
        line.push('\n');
        Bytes::from(line)
    };
    let typed = |mut object: Map<String, Value>| {
        object.entry("apiVersion").or_insert_with(|| json!(list.api_version));
        object.entry("kind").or_insert_with(|| json!(kind));
        object
    };
    let mut lines: VecDeque<Bytes> =
        list.items.into_iter().map(|object| line("ADDED", typed(object))).collect();
    let metadata = json!({
        "resourceVersion": list.metadata.resource_version,
        "annotations": {"k8s.io/initial-events-end": "true"},
    });
    let bookmark = typed(Map::from_iter([("metadata".to_owned(), metadata)]));
    lines.push_back(line("BOOKMARK", bookmark));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(uri: &str) -> ProxyRequest {
        Request::get(uri).body(Full::default()).unwrap()
    }

    #[test]
    fn a_list_is_asked_for_at_a_revision() {
        let asked = "/api/v1/pods?limit=500&resourceVersion=0&resourceVersionMatch=NotOlderThan";
        let uri = list(request(asked), 7).unwrap().uri().to_string();
        assert_eq!(uri, "/api/v1/pods?limit=500&resourceVersion=7&resourceVersionMatch=Exact");
    }

    #[test]
    fn a_streaming_list_is_a_list_and_a_watch() {
        let mut asked = request(
            "/api/v1/pods?watch=true&timeoutSeconds=290&allowWatchBookmarks=true&sendInitialEvents=true\
             &resourceVersionMatch=NotOlderThan&labelSelector=a&resourceVersion=0",
        );
        let partial = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        asked.headers_mut().insert(ACCEPT, HeaderValue::from_static(partial));
        let (list, watch) = streaming_list(asked, 7).unwrap();
        assert_eq!(list.uri(), "/api/v1/pods?labelSelector=a&resourceVersion=7&resourceVersionMatch=Exact");
        assert_eq!(
            list.headers()[ACCEPT],
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
        );
        let wanted = "/api/v1/pods?watch=true&timeoutSeconds=290&allowWatchBookmarks=true&labelSelector=a&resourceVersion=7";
        assert_eq!(watch.uri(), wanted);
        assert_eq!(watch.headers()[ACCEPT], partial);
    }

    #[test]
    fn the_objects_of_a_list_are_events() {
        let list = json!({
            "kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"},
            "items": [{"metadata": {"name": "a"}}],
        });
        let lines: Vec<Value> = initial_events(list.to_string().as_bytes())
            .iter()
            .map(|line| serde_json::from_slice(line).unwrap())
            .collect();
        let wanted = [
            json!({"type": "ADDED", "object": {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a"}}}),
            json!({"type": "BOOKMARK", "object": {"kind": "Pod", "apiVersion": "v1", "metadata": {
                "resourceVersion": "7", "annotations": {"k8s.io/initial-events-end": "true"},
            }}}),
        ];
        assert_eq!(lines, wanted);
        assert!(initial_events(b"no list").is_empty());
    }
}
