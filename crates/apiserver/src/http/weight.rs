//! Request weight: estimates whether a request is too much work for the event loop and goes to the [`crate::http::workers`].

use bytes::Bytes;
use http::header::{self, HeaderMap};
use settled_store::{At, Key, Scope};

use crate::http::negotiate;
use crate::kinds::definition::Definition;
use crate::request::{Query, RequestInfo};
use crate::state::State;

/// So many bytes of JSON are worth the way to another thread: about a millisecond of work.
const HEAVY: usize = 32 << 10;
/// What an object of a list counts, where each is read.
const LISTED: usize = 128;

/// Is the request too much work for the event loop?
pub(crate) fn is_heavy(
    state: &State,
    info: &RequestInfo,
    query: &Query,
    headers: &HeaderMap,
    body: &Bytes,
) -> bool {
    if body.len() > HEAVY {
        return true;
    }
    let catalog = state.catalog();
    // Whether the method is served is asked where it is answered.
    let Some(definition) = catalog.find(&info.group, &info.version, &info.resource) else { return false };
    let unread = definition.model.custom().map_or(0, crate::kinds::custom::Custom::unread_bytes);
    body.len() + unread + stored(state, definition, info, query, headers) > HEAVY
}

/// How much is stored of what must be read.
fn stored(
    state: &State,
    definition: &Definition,
    info: &RequestInfo,
    query: &Query,
    headers: &HeaderMap,
) -> usize {
    match info.verb {
        "get" if is_sent_as_stored(definition, query, headers) => 0,
        "get" | "update" | "patch" | "delete" => {
            let namespace = if definition.namespaced { &info.namespace } else { "" };
            let entry = Key::new(&definition.resource, namespace, &info.name)
                .ok()
                .and_then(|key| state.store.get(&key));
            entry.map_or(0, |entry| entry.value().len())
        }
        "list" | "deletecollection" => {
            let selected = ["labelSelector", "fieldSelector"].iter().any(|name| !query.get(name).is_empty());
            if !selected && info.verb == "list" && is_sent_as_stored(definition, query, headers) {
                return 0;
            }
            let snapshot = state.store.snapshot(&definition.resource, At::Latest);
            snapshot.map_or(0, |snapshot| snapshot.len(&Scope::All).saturating_mul(LISTED))
        }
        _ => 0,
    }
}

/// Nobody reads the objects on their way: no table, no YAML, no indentation, no other version.
fn is_sent_as_stored(definition: &Definition, query: &Query, headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).map_or(&b"application/json"[..], |accept| accept.as_bytes());
    let plain = matches!(accept, b"application/json" | b"*/*");
    plain
        && !negotiate::is_pretty(query, headers)
        && definition.model.stored_as().is_none()
        && definition.model.custom().is_none_or(|custom| !custom.several)
}
