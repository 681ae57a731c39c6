//! Nonresource requests: discovery, OpenAPI, version, health, metrics.

use std::sync::Arc;

use http::header::{self, HeaderMap};
use http::{Response, StatusCode};
use serde_json::json;

use crate::discovery::openapi::{Document, Documents};
use crate::discovery::{self, AggregatedCache, Tagged, openapi_v2};
use crate::error::ApiError;
use crate::http::answer::{Answer, bytes_answer, no_page, set_header, text_answer};
use crate::http::body::Body;
use crate::http::compress;
use crate::http::limits::Gate;
use crate::http::metrics::Metrics;
use crate::http::negotiate::{self, Endpoint, Format, Negotiated, Representation};
use crate::kinds::builtin;
use crate::kinds::definition::Catalog;
use crate::request::{ResourceRequest, header_text};
use crate::state::State;
use crate::state::health::{self, Health};
use crate::version;

/// What the answers here are made of, besides the [`State`].
#[derive(Default)]
pub(crate) struct Nonresource {
    pub(crate) health: Health,
    pub(crate) metrics: Metrics,
    aggregated: AggregatedCache,
    documents: Documents,
}

fn empty(code: StatusCode) -> Answer {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = code;
    response
}

/// Only reading is allowed.
fn read_only(request: &ResourceRequest<'_>) -> Result<(), ApiError> {
    match request.info.verb {
        "get" => Ok(()),
        _ => Err(ApiError::method_not_allowed()),
    }
}

fn negotiated(request: &ResourceRequest<'_>, endpoint: Endpoint) -> Result<Negotiated, ApiError> {
    let mut negotiated = negotiate::negotiate(header_text(request.headers, header::ACCEPT), endpoint)?;
    negotiated.pretty |= negotiate::is_pretty(request.query, request.headers);
    Ok(negotiated)
}

/// Does the client have what the tag stands for?
fn is_known(headers: &HeaderMap, tag: &str) -> bool {
    let known = header_text(headers, header::IF_NONE_MATCH).unwrap_or_default();
    known
        .split(',')
        .map(|known| known.trim().trim_start_matches("W/"))
        .any(|known| known == tag || known == "*")
}

fn aggregated(request: &ResourceRequest<'_>, negotiated: Negotiated, document: &Tagged) -> Answer {
    let tag = format!("\"{}\"", document.tag);
    let mut response = if is_known(request.headers, &tag) {
        empty(StatusCode::NOT_MODIFIED)
    } else {
        bytes_answer(200, negotiated, document.json.clone())
    };
    set_header(&mut response, header::ETAG, &tag);
    set_header(&mut response, header::VARY, "Accept");
    set_header(&mut response, header::CACHE_CONTROL, "public");
    response
}

/// Answers a request that is for no resource.
pub(crate) async fn answer_request(
    state: &State,
    gate: &Gate,
    nonresource: &Nonresource,
    request: &ResourceRequest<'_>,
) -> Result<Answer, ApiError> {
    let path = request.info.path.as_str();
    // Upstream takes one slash at the end of these.
    let trimmed = path.strip_suffix('/').unwrap_or(path);
    let parts: Vec<&str> = trimmed.split('/').skip(1).collect();
    let catalog = state.catalog();
    let plain = |json: Vec<u8>| Ok(bytes_answer(200, negotiated(request, Endpoint::Plain)?, json));
    match parts.as_slice() {
        ["api"] => {
            read_only(request)?;
            let negotiated = negotiated(request, Endpoint::Discovery)?;
            if negotiated.representation == Representation::Discovery {
                return Ok(aggregated(request, negotiated, &nonresource.aggregated.get(&catalog).core));
            }
            let address = header_text(request.headers, header::HOST).unwrap_or("localhost");
            Ok(bytes_answer(200, negotiated, discovery::api_versions(&catalog, address)))
        }
        ["apis"] => {
            let negotiated = negotiated(request, Endpoint::Discovery)?;
            if negotiated.representation == Representation::Discovery {
                return Ok(aggregated(request, negotiated, &nonresource.aggregated.get(&catalog).groups));
            }
            Ok(bytes_answer(200, negotiated, discovery::group_list(&catalog)))
        }
        ["apis", group] => match discovery::one_group(&catalog, group).filter(|_| !group.is_empty()) {
            Some(json) => {
                read_only(request)?;
                plain(json)
            }
            None => Ok(no_page()),
        },
        ["api", version] => match discovery::resource_list(&catalog, "", version) {
            Some(json) => {
                read_only(request)?;
                plain(json)
            }
            None => Err(ApiError::page_not_found()),
        },
        ["apis", group, version] if !group.is_empty() => {
            match discovery::resource_list(&catalog, group, version) {
                Some(json) => {
                    read_only(request)?;
                    plain(json)
                }
                None if builtin::has_group(group) => Err(ApiError::page_not_found()),
                None => Ok(no_page()),
            }
        }
        ["version"] => {
            read_only(request)?;
            plain(crate::object::to_bytes(&version::version()))
        }
        ["openapi", "v3"] => {
            let mut response = text_answer(200, String::new());
            *response.body_mut() = Body::bytes(nonresource.documents.index(&catalog));
            response.headers_mut().remove(header::X_CONTENT_TYPE_OPTIONS);
            Ok(response)
        }
        ["openapi", "v3", rest @ ..] => match nonresource.documents.find(&catalog, &rest.join("/")) {
            Some(document) => open_api(request, document).await,
            None => Ok(empty(StatusCode::NOT_FOUND)),
        },
        ["openapi", "v2"] => {
            let names = [openapi_v2::ASKED, openapi_v2::PROTOBUF];
            let protobuf = header_text(request.headers, header::ACCEPT)
                .is_some_and(|accept| names.iter().any(|name| accept.contains(name)));
            // A tenth of a second or two, and kept by the clients that ask.
            let made = tokio::task::spawn_blocking(move || {
                let document = openapi_v2::document(&catalog);
                match protobuf {
                    true => openapi_v2::to_protobuf(&document),
                    false => crate::object::to_bytes(&document).to_vec(),
                }
            });
            let mut response = Response::new(Body::bytes(made.await.map_err(ApiError::internal)?));
            let content_type = if protobuf { openapi_v2::PROTOBUF } else { "application/json" };
            set_header(&mut response, header::CONTENT_TYPE, content_type);
            set_header(&mut response, header::VARY, "Accept, Accept-Encoding");
            Ok(response)
        }
        ["metrics"] => {
            let body = nonresource.metrics.expose(state, gate);
            let mut response = Response::new(Body::bytes(body));
            set_header(
                &mut response,
                header::CONTENT_TYPE,
                "text/plain; version=0.0.4; charset=utf-8; escaping=underscores",
            );
            Ok(response)
        }
        [] if path == "/" => {
            let paths = paths(&catalog, nonresource);
            plain(crate::object::to_bytes(&json!({"paths": paths})))
        }
        [endpoint, check @ ..] if !path.ends_with('/') => {
            let Some(endpoint) = health::Endpoint::parse(endpoint) else { return Ok(no_page()) };
            let observed = health::Observed {
                store: state.store_health.is_healthy(&state.store),
                stopping: *state.lifecycle.stopping.borrow(),
            };
            let report = match check {
                [] => Some(nonresource.health.report(endpoint, observed, request.query)),
                check => nonresource.health.check(endpoint, observed, &check.join("/")),
            };
            Ok(report.map_or_else(no_page, |report| text_answer(report.code, report.text)))
        }
        _ => Ok(no_page()),
    }
}

async fn open_api(request: &ResourceRequest<'_>, document: Arc<Document>) -> Result<Answer, ApiError> {
    let json = negotiate::negotiate(header_text(request.headers, header::ACCEPT), Endpoint::Plain);
    let vary = "Accept, Accept-Encoding";
    if json.map_or(true, |negotiated| negotiated.format != Format::Json) {
        let mut response = empty(StatusCode::NOT_ACCEPTABLE);
        set_header(&mut response, header::VARY, vary);
        return Ok(response);
    }
    let tag = format!("\"{}\"", document.hash);
    let hash = request.query.get("hash");
    let current = hash.eq_ignore_ascii_case(&document.hash);
    let mut response = if !hash.is_empty() && !current {
        let mut response = empty(StatusCode::MOVED_PERMANENTLY);
        set_header(&mut response, header::LOCATION, &document.url());
        response
    } else if is_known(request.headers, &tag) {
        empty(StatusCode::NOT_MODIFIED)
    } else {
        let packed = compress::is_accepted(request.headers);
        let made = tokio::task::spawn_blocking(move || match packed {
            true => document.packed(),
            false => document.unpacked().into(),
        });
        let mut response = Response::new(Body::bytes(made.await.map_err(ApiError::internal)?));
        if packed {
            set_header(&mut response, header::CONTENT_ENCODING, "gzip");
        }
        response
    };
    if current {
        let year = jiff::SignedDuration::from_hours(365 * 24);
        let end = jiff::Timestamp::now().saturating_add(year).unwrap_or(jiff::Timestamp::MAX);
        set_header(&mut response, header::EXPIRES, &end.strftime("%a, %d %b %Y %H:%M:%S UTC").to_string());
        set_header(&mut response, header::CACHE_CONTROL, "public, immutable");
    }
    set_header(&mut response, header::CONTENT_TYPE, "application/json");
    set_header(&mut response, header::ETAG, &tag);
    set_header(&mut response, header::VARY, vary);
    Ok(response)
}

/// `/`: what can be asked for.
fn paths(catalog: &Catalog, nonresource: &Nonresource) -> Vec<String> {
    let mut paths: Vec<String> =
        ["/api", "/apis", "/apis/", "/metrics", "/openapi/v2", "/openapi/v3", "/openapi/v3/", "/version"]
            .map(String::from)
            .into();
    for group in catalog.groups() {
        let root = match group {
            "" => "/api".to_owned(),
            group => format!("/apis/{group}"),
        };
        paths.extend(catalog.versions(group).iter().map(|version| format!("{root}/{version}")));
        if !group.is_empty() {
            paths.push(root);
        }
    }
    for endpoint in health::Endpoint::ALL {
        let name = endpoint.name();
        paths.push(format!("/{name}"));
        paths.extend(nonresource.health.names(endpoint).iter().map(|check| format!("/{name}/{check}")));
    }
    paths.sort();
    paths
}
