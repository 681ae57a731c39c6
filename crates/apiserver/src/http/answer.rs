//! Responses: status, content type and body, before the headers of transport.

use http::header::{self, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use serde_json::Value;

use crate::http::body::Body;
use crate::http::negotiate::{Format, Negotiated};
use crate::object;

/// An answer without its headers of transport.
pub(crate) type Answer = Response<Body>;

/// The answer with a JSON or YAML body.
pub(crate) fn answer(status: u16, negotiated: Negotiated, value: &Value) -> Answer {
    bytes_answer(status, negotiated, object::to_built_in_bytes(value))
}

/// The answer with a body of JSON, turned into YAML if that was asked for.
pub(crate) fn bytes_answer(status: u16, negotiated: Negotiated, json: Vec<u8>) -> Answer {
    let body = match negotiated.format {
        // Upstream ends these without a new line.
        Format::Json if negotiated.pretty => object::indent(&json),
        Format::Json => {
            let mut json = json;
            json.push(b'\n');
            json
        }
        Format::Yaml => {
            let mut yaml = Vec::with_capacity(json.len() * 2);
            // What the server wrote can be read.
            match settled_manifest::write_yaml(&json, &mut yaml) {
                Ok(()) => yaml,
                Err(_) => json,
            }
        }
    };
    let mut response = Response::new(Body::bytes(body));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(negotiated.content_type()));
    response
}

/// An answer as Go's `http.Error` writes it, or a text.
pub(crate) fn text_answer(code: u16, text: impl Into<String>) -> Answer {
    let text: String = text.into();
    let mut response = Response::new(Body::bytes(text));
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    set_header(&mut response, header::CONTENT_TYPE, "text/plain; charset=utf-8");
    set_header(&mut response, header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    response
}

/// Upstream's answer to paths that nothing is at.
pub(crate) fn no_page() -> Answer {
    text_answer(404, "404 page not found\n")
}

/// Sets a header, unless its value cannot be one.
pub(crate) fn set_header(response: &mut Answer, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}

/// Gzips an answer if it is worth it.
pub(crate) fn compress(response: &mut Answer) {
    if response.headers().contains_key(header::CONTENT_ENCODING) {
        return;
    }
    if response.body_mut().compress() {
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        headers.append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    }
}
