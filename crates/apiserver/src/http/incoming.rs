//! Request bodies: from bytes to an object of the requested kind, refused with upstream's messages
//! (`apimachinery/pkg/runtime/serializer/json`, `transformDecodeError` of `apiserver/pkg/endpoints/handlers`).

use std::borrow::Cow;

use serde_json::Value;
use settled_go as go;

use crate::decode::{self, Decoded};
use crate::error::{ApiError, Cause};
use crate::http::negotiate::{self, Format, Input};
use crate::http::protobuf::{self, Undecodable};
use crate::kinds::definition::Definition;
use crate::kinds::{builtin, scale_paths};
use crate::object::text;
use crate::options::WriteOptions;
use crate::request::ResourceRequest;
use crate::state::call::Call;
use crate::verbs::strict::{check_type, report, unregistered, yaml};

/// As much of a body as messages show.
const SHOWN: usize = 30;

/// The body as JSON, whatever it was written in. In protobuf it may leave out of which `apiVersion` and kind it is.
fn read(
    request: &ResourceRequest<'_>,
    protobuf: bool,
    (api_version, kind): (&str, &str),
    undecodable: impl Fn(Undecodable) -> ApiError,
) -> Result<Result<Decoded, String>, ApiError> {
    let content_type = request.headers.get(http::header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    match negotiate::body_format(content_type, protobuf)? {
        Input::Text(format) => Ok(parse(format, &request.body)),
        Input::Protobuf => {
            let value = protobuf::decode(&request.body, api_version, kind).map_err(undecodable)?;
            Ok(Ok(Decoded { value, duplicates: Vec::new() }))
        }
    }
}

/// Reads JSON or YAML; the duplicates are findings. The error is its text.
pub(crate) fn parse(format: Format, body: &[u8]) -> Result<Decoded, String> {
    let (json, found) = match format {
        Format::Json => (Cow::Borrowed(body), None),
        Format::Yaml => {
            let (json, found) = yaml(body)?;
            (Cow::Owned(json), Some(found))
        }
    };
    let mut decoded =
        decode::json(&json).map_err(|error| decode::syntax(&json).unwrap_or_else(|| error.to_string()));
    if let (Ok(decoded), Some(found)) = (&mut decoded, found) {
        // What is twice in YAML was found there.
        decoded.duplicates = found.into_iter().collect();
    } else if let Ok(decoded) = &mut decoded {
        for path in &mut decoded.duplicates {
            *path = format!("duplicate field {}", go::strconv::quote(path));
        }
    }
    let failed = |why: String| format!("couldn't get version/kind; json parse error: {why}");
    let decoded = decoded.map_err(failed)?;
    let given = match &decoded.value {
        Value::Object(_) | Value::Null => return Ok(decoded),
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
    };
    Err(failed(format!(
        "json: cannot unmarshal {given} into Go value of type struct {{ APIVersion string \
         \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
    )))
}

/// The options of a deletion.
pub(crate) fn delete_options(request: &ResourceRequest<'_>) -> Result<Value, ApiError> {
    const KIND: &str = "DeleteOptions";
    // Upstream takes protobuf here whatever is deleted, and says no more than what is wrong with it.
    let undecodable = |error: Undecodable| ApiError::bad_request(error.to_string());
    let decoded =
        read(request, true, ("meta.k8s.io/v1", KIND), undecodable)?.map_err(ApiError::bad_request)?;
    let mut value = decoded.value;
    let kind = text(&value, "kind");
    if !matches!(kind, "" | KIND) {
        return Err(ApiError::bad_request(unregistered(kind, text(&value, "apiVersion"))));
    }
    // Each group has options of its own, and unknown groups are not looked at.
    let component = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
    match builtin::decode_component(component, &mut value).error {
        None => Ok(value),
        Some(why) => Err(ApiError::bad_request(why)),
    }
}

/// The object that a request carries, of the kind that it is for.
pub(crate) fn object(
    call: &mut Call<'_>,
    request: &ResourceRequest<'_>,
    definition: &Definition,
    options: &WriteOptions,
) -> Result<Value, ApiError> {
    let subresource = &request.info.subresource;
    let (api_version, kind) = definition.sent_to(subresource);
    // The kind of a subresource is Go's, also where the kind itself is not.
    let custom = definition.model.is_custom() && kind == definition.names.kind;
    let unrecognized = |why: String| {
        let shown = summary(&request.body);
        ApiError::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): {why} ({shown})"
        ))
    };
    let undecodable = |error: Undecodable| error.wanted(kind, &request.body);
    let decoded = read(request, !custom, (&api_version, kind), undecodable)?.map_err(unrecognized)?;
    let Decoded { mut value, duplicates } = decoded;
    if !value.is_object() {
        value = Value::Object(serde_json::Map::new());
    }
    if custom && text(&value, "kind").is_empty() {
        let body = String::from_utf8_lossy(&request.body);
        return Err(unrecognized(format!("Object 'Kind' is missing in '{body}'")));
    }
    if !custom {
        check_type(&api_version, kind, &value)
            .map_err(|(given, version, why)| cannot(&given, &version, kind, &why))?;
    }
    let given = text(&value, "apiVersion");
    let given_kind = text(&value, "kind");
    if given != api_version && (custom || !given.is_empty()) {
        return Err(ApiError::bad_request(format!(
            "the API version in the data ({given}) does not match the expected API version ({api_version})"
        )));
    }
    if custom && given_kind != kind {
        let message = format!("Invalid value: {}: must be {kind}", go::strconv::quote(given_kind));
        let cause = Cause::new("FieldValueInvalid", message, "kind");
        let name = crate::object::meta(&value, "name");
        return Err(ApiError::invalid(&definition.names.group, given_kind, name, vec![cause]));
    }
    if let Some(map) = value.as_object_mut() {
        map.insert("kind".to_owned(), kind.into());
        map.insert("apiVersion".to_owned(), api_version.into());
    }
    let mut findings = duplicates;
    let (error, unknown) = if kind == definition.names.kind {
        let incoming = definition.model.decode(&mut value);
        (incoming.error, incoming.unknown)
    } else if kind == scale_paths::KIND {
        let decoded = builtin::decode_component(builtin::SCALE, &mut value);
        (decoded.error, decoded.unknown)
    } else {
        (None, Vec::new())
    };
    if let Some(why) = error {
        let (version, kind) = definition.sent_to(subresource);
        return Err(cannot(kind, version_of(&version), kind, &why));
    }
    findings.extend(unknown.iter().map(|path| format!("unknown field {}", go::strconv::quote(path))));
    report(call, definition, findings, options)?;
    Ok(value)
}

fn version_of(api_version: &str) -> &str {
    api_version.rsplit_once('/').map_or(api_version, |(_, version)| version)
}

/// A body that cannot be an object of the kind.
fn cannot(given: &str, version: &str, kind: &str, why: &str) -> ApiError {
    ApiError::bad_request(format!(
        "{given} in version {} cannot be handled as a {kind}: {why}",
        go::strconv::quote(version)
    ))
}

/// The beginning of a body for people, in hexadecimal if it does not look like JSON.
fn summary(body: &[u8]) -> String {
    let start = body.get(..SHOWN).unwrap_or(body);
    let more = if body.len() > SHOWN { " ..." } else { "" };
    let shown = match body.first() {
        None => return "<empty>".to_owned(),
        Some(b'{') => String::from_utf8_lossy(start).into_owned(),
        Some(_) => start.iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    shown + more
}
