//! Filters below kube-rs: a `kube::Client` that filters the objects, changes and fields of lists and watches.
//!
//! kube-rs' own `predicate_filter` needs a custom stream and `Controller::for_stream`, an unstable feature, and sees
//! objects after they were parsed and stored. [`FilteredClient`] filters the bytes of lists and watches as they arrive,
//! so that any `Controller`, `reflector`, `watcher` or `Api::list` works unchanged:
//!
//! ```no_run
//! # async fn run(client: kube::Client) {
//! use k8s_openapi::api::core::v1::Pod;
//! use kube::runtime::{Controller, watcher};
//! use settled_controller::filter::{Filter, FilteredClient};
//! use settled_controller::{Projection, predicate};
//!
//! let pods = Filter::new()
//!     .objects(predicate::owned_by("DaemonSet"))
//!     .events(predicate::generation_changed().or(predicate::field_changed("status.phase")))
//!     .projection(Projection::only(["metadata.ownerReferences", "spec.nodeName", "status.phase"]));
//! let client = FilteredClient::new(client).kind::<Pod>(pods).into_client();
//! let controller = Controller::new(kube::Api::<Pod>::all(client), watcher::Config::default());
//! # }
//! ```
//!
//! - Lists omit objects that the predicate on objects rejects. In watches, an object that stops matching becomes
//!   `DELETED`, one that starts to match becomes `ADDED`.
//! - A change that the predicate on events rejects is replaced by a bookmark, so that the watch can be resumed.
//!   Deletions, initial lists and relists are never dropped.
//! - Fields outside of the projection are removed before kube-rs parses the object. If kube-rs requests metadata only,
//!   as `Controller::owns` does, and a predicate reads more, the whole object is requested and its metadata returned.
//! - All other requests are unchanged: a `get` returns the whole object, whether it matches or not.
//!
//! A dropped change is not in a reflector's store either: fields that the predicate on events ignores, and the
//! resourceVersion, may be outdated there. Write decisions based on such an object without its resourceVersion, or
//! after a `get`. `owns` and `watches` are not affected: they have no store.

mod list;
mod tracker;
mod transform;
mod watch;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Either;
use kube::client::Body;
use kube::{Client, Resource};

use crate::predicate::{self, Compiled, Predicate};
use crate::projection::Projection;
use tracker::{Position, Tracker};
use transform::Transform;

/// Selection of objects, changes and fields of a kind.
#[derive(Clone, Debug)]
pub struct Filter {
    objects: Predicate,
    events: Predicate,
    projection: Projection,
}

impl Default for Filter {
    fn default() -> Self {
        Self::new()
    }
}

impl Filter {
    /// Selects everything.
    #[must_use]
    pub fn new() -> Self {
        Self {
            objects: predicate::always(true),
            events: predicate::always(true),
            projection: Projection::all(),
        }
    }

    /// Restricts the objects that exist for the client.
    #[must_use]
    pub fn objects(mut self, predicate: Predicate) -> Self {
        self.objects = predicate;
        self
    }

    /// Restricts the reported changes.
    #[must_use]
    pub fn events(mut self, predicate: Predicate) -> Self {
        self.events = predicate;
        self
    }

    /// Restricts the fields.
    #[must_use]
    pub fn projection(mut self, projection: Projection) -> Self {
        self.projection = projection;
        self
    }
}

/// Builder of a `kube::Client` with filtered lists and watches. Clones of the client share the counters.
pub struct FilteredClient {
    client: Client,
    kinds: Vec<Arc<KindFilter>>,
    counters: Arc<Counters>,
}

/// Counters of filtered lists and watches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilterMetrics {
    /// Objects of lists and events of watches received from the server.
    pub received: u64,
    /// Those that were dropped.
    pub dropped: u64,
    /// Bytes of lists and watches received from the server.
    pub bytes_received: u64,
    /// Bytes passed on.
    pub bytes_passed: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    received: AtomicU64,
    dropped: AtomicU64,
    bytes_received: AtomicU64,
    bytes_passed: AtomicU64,
}

/// Reads the counters of filtered lists and watches.
#[derive(Clone, Debug)]
pub struct FilterCounts(Arc<Counters>);

impl FilterCounts {
    /// The current counters.
    #[must_use]
    pub fn metrics(&self) -> FilterMetrics {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.0;
        FilterMetrics {
            received: read(&counters.received),
            dropped: read(&counters.dropped),
            bytes_received: read(&counters.bytes_received),
            bytes_passed: read(&counters.bytes_passed),
        }
    }
}

/// The filter of a kind, and the kind's paths.
pub(crate) struct KindFilter {
    /// `/api/v1` or `/apis/apps/v1`.
    base: String,
    plural: String,
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) objects: Compiled,
    pub(crate) events: Compiled,
    pub(crate) projection: Projection,
    /// Whether a predicate drops anything, so that observed objects must be remembered.
    pub(crate) drops: bool,
    /// State kept between the requests of a watcher.
    parked: Mutex<tracker::Parked>,
}

impl FilteredClient {
    /// Wraps a client.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client, kinds: Vec::new(), counters: Arc::default() }
    }

    /// Filters the lists and watches of a kind.
    #[must_use]
    pub fn kind<K: Resource>(self, filter: Filter) -> Self
    where
        K::DynamicType: Default,
    {
        self.kind_with::<K>(&K::DynamicType::default(), filter)
    }

    /// The same for a kind known at run time only.
    #[must_use]
    pub fn kind_with<K: Resource>(mut self, dyntype: &K::DynamicType, filter: Filter) -> Self {
        let collection = K::url_path(dyntype, None);
        let plural = K::plural(dyntype).into_owned();
        let base = collection.strip_suffix(&plural).unwrap_or(&collection).trim_end_matches('/').to_owned();
        self.kinds.push(Arc::new(KindFilter {
            base,
            plural,
            api_version: K::api_version(dyntype).into_owned(),
            kind: K::kind(dyntype).into_owned(),
            objects: Compiled::new(&filter.objects),
            events: Compiled::new(&filter.events),
            projection: filter.projection,
            drops: !(filter.objects.is_always() && filter.events.is_always()),
            parked: Mutex::default(),
        }));
        self
    }

    /// A handle for reading the counters at any time.
    #[must_use]
    pub fn counts(&self) -> FilterCounts {
        FilterCounts(Arc::clone(&self.counters))
    }

    /// Builds the client.
    ///
    /// # Panics
    /// Outside of a tokio runtime, as [`Client::new`].
    #[must_use]
    pub fn into_client(self) -> Client {
        let (namespace, valid_until) =
            (self.client.default_namespace().to_owned(), *self.client.valid_until());
        let shared = Arc::new(self);
        let service = tower::service_fn(move |request: Request<Body>| {
            let shared = Arc::clone(&shared);
            async move { shared.call(request).await }
        });
        Client::new(service, namespace).with_valid_until(valid_until)
    }

    async fn call(&self, mut request: Request<Body>) -> kube::Result<Response<Either<Body, Transform>>> {
        let path = request.uri().path();
        let filter = self.kinds.iter().find(|kind| request.method() == Method::GET && kind.lists(path));
        let Some(filter) = filter.map(Arc::clone) else {
            return Ok(self.client.send(request).await?.map(Either::Left));
        };
        let accept =
            request.headers().get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
        let partial = accept.contains("as=PartialObjectMetadata");
        let metadata_of_all = partial && !(filter.objects.is_metadata() && filter.events.is_metadata());
        if metadata_of_all {
            request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/json"));
        }
        let query = Query::parse(request.uri().path(), request.uri().query().unwrap_or_default());
        let answer = self.client.send(request).await?;
        let json = answer.headers().get(CONTENT_TYPE).is_some_and(is_json);
        if answer.status() != StatusCode::OK || !json {
            return Ok(answer.map(Either::Left));
        }
        let tracker = filter.resume(&query);
        let (mut head, body) = answer.into_parts();
        head.headers.remove(CONTENT_LENGTH);
        let transform =
            Transform::new(body, filter, tracker, query, metadata_of_all, Arc::clone(&self.counters));
        Ok(Response::from_parts(head, Either::Right(transform)))
    }
}

fn is_json(content_type: &HeaderValue) -> bool {
    content_type.to_str().is_ok_and(|text| text.starts_with("application/json") && !text.contains("as=Table"))
}

impl KindFilter {
    /// Whether a path is a list of the kind, in all namespaces or in one.
    fn lists(&self, path: &str) -> bool {
        let Some(rest) = path.strip_prefix(&*self.base).and_then(|rest| rest.strip_prefix('/')) else {
            return false;
        };
        if rest == self.plural {
            return true;
        }
        let within = rest.strip_prefix("namespaces/").and_then(|rest| rest.split_once('/'));
        within.is_some_and(|(_, plural)| plural == self.plural)
    }

    /// Takes the state left by the previous request of the watcher.
    fn resume(&self, query: &Query) -> Tracker {
        let mut parked = self.parked.lock().unwrap_or_else(PoisonError::into_inner);
        query.resumes.as_ref().map_or_else(Tracker::complete, |position| {
            parked.take(&query.scope, position).unwrap_or_else(Tracker::incomplete)
        })
    }

    /// Keeps the state for the next request of the watcher.
    pub(crate) fn park(&self, query: &Query, position: Position, tracker: Tracker) {
        let mut parked = self.parked.lock().unwrap_or_else(PoisonError::into_inner);
        parked.put(query.scope.clone(), position, tracker);
    }
}

/// Parameters of a list or watch request that affect filtering.
pub(crate) struct Query {
    /// The path and the selectors.
    pub(crate) scope: String,
    pub(crate) watch: bool,
    /// Whether the watch has initial events, terminated by a bookmark.
    pub(crate) initial_events: bool,
    pub(crate) bookmarks: bool,
    /// Where a previous request ended.
    pub(crate) resumes: Option<Position>,
}

impl Query {
    fn parse(path: &str, query: &str) -> Self {
        let mut parsed = Self {
            scope: path.to_owned(),
            watch: false,
            initial_events: false,
            bookmarks: false,
            resumes: None,
        };
        let (mut version, mut token) = (String::new(), String::new());
        for (key, value) in form_urlencoded::parse(query.as_bytes()) {
            let yes = matches!(&*value, "true" | "1");
            match &*key {
                "watch" => parsed.watch = yes,
                "sendInitialEvents" => parsed.initial_events = yes,
                "allowWatchBookmarks" => parsed.bookmarks = yes,
                "resourceVersion" => version = value.into_owned(),
                "continue" => token = value.into_owned(),
                "labelSelector" | "fieldSelector" => {
                    parsed.scope.push_str(&format!("?{key}={value}"));
                }
                _ => {}
            }
        }
        // Such a watch has initial events.
        let from_state = parsed.initial_events || version.is_empty() || version == "0";
        if parsed.watch && !from_state {
            parsed.resumes = Some(Position::Version(version));
        } else if !parsed.watch && !token.is_empty() {
            parsed.resumes = Some(Position::Token(token));
        }
        parsed
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Namespace, Pod};

    use super::*;

    #[tokio::test]
    async fn lists_of_a_kind_are_known_by_their_path() {
        let service = tower::service_fn(|_: Request<Body>| async {
            Ok::<_, kube::Error>(Response::new(Body::empty()))
        });
        let client = FilteredClient::new(Client::new(service, "default"));
        let client = client.kind::<Pod>(Filter::new()).kind::<Namespace>(Filter::new());
        for (path, expected) in [
            ("/api/v1/pods", Some("Pod")),
            ("/api/v1/namespaces/shop/pods", Some("Pod")),
            ("/api/v1/namespaces/shop/pods/web", None),
            ("/api/v1/namespaces/shop/pods/web/status", None),
            ("/api/v1/namespaces", Some("Namespace")),
            ("/api/v1/namespaces/shop", None),
            ("/api/v1/nodes", None),
            ("/apis/metrics.k8s.io/v1/pods", None),
        ] {
            let found = client.kinds.iter().find(|kind| kind.lists(path)).map(|kind| &*kind.kind);
            assert_eq!(found, expected, "{path}");
        }
    }

    #[test]
    fn a_request_names_where_it_goes_on_from() {
        let version = |text: &str| Some(Position::Version(text.to_owned()));
        for (query, watch, resumes) in [
            ("", false, None),
            ("limit=500&continue=a%3D%3D", false, Some(Position::Token("a==".to_owned()))),
            ("resourceVersion=0", false, None),
            ("watch=true&resourceVersion=17&allowWatchBookmarks=true", true, version("17")),
            ("watch=true&resourceVersion=0&sendInitialEvents=true", true, None),
            ("watch=1", true, None),
        ] {
            let parsed = Query::parse("/api/v1/pods", query);
            assert_eq!((parsed.watch, parsed.resumes), (watch, resumes), "{query}");
        }
        let scope = |query: &str| Query::parse("/api/v1/pods", query).scope;
        assert_eq!(scope("watch=true&labelSelector=a%3Db"), scope("labelSelector=a%3Db&limit=5"));
        assert_ne!(scope("labelSelector=a%3Db"), scope("fieldSelector=a%3Db"));
    }
}
