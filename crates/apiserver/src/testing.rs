//! Test support: entry points for fuzz targets and comparisons, not for users.

use jiff::Timestamp;
use serde_json::Value;
use settled_apimachinery::fields;
use settled_apimachinery::labels::{LabelSelector, Labels};
use settled_jsonpath::{JsonPath, PathError};

use crate::http::negotiate::{self, Endpoint};
use crate::http::protobuf;
use crate::human;
use crate::kinds::partial::MetaVersion;
use crate::kinds::table::{self, Columns, IncludeObject};
use crate::kinds::{builtin, strategies};
use crate::selector::{FieldSelector, FieldSelectors, SelectableFields};

/// A label selector as it is written back, or the error.
pub fn label_selector(text: &str) -> Result<String, String> {
    LabelSelector::parse(text).map(|selector| selector.to_string()).map_err(|error| error.to_string())
}

/// Whether a label selector selects an object, by the object and by what is kept of it.
pub fn label_selector_matches(text: &str, object: &Value) -> Option<[bool; 2]> {
    let selector = LabelSelector::parse(text).ok()?;
    let data = SelectableFields::builtin(&FieldSelectors::NONE).data(object);
    Some([selector.matches(object), selector.matches(&data)])
}

/// A label of an object, by what is kept of it.
pub fn label(object: &Value, key: &str) -> Option<String> {
    SelectableFields::builtin(&FieldSelectors::NONE).data(object).label(key).map(str::to_owned)
}

/// The text of a selector in an object, or the error.
pub fn object_selector(selector: &Value) -> Result<String, String> {
    LabelSelector::from_object(selector)
        .map(|selector| selector.to_string())
        .map_err(|error| error.to_string())
}

/// A field selector as it is written back, or the error, for a built-in kind or for the paths of a custom one.
pub fn field_selector(text: &str, group: &str, kind: &str, custom: Option<&Value>) -> Result<String, String> {
    let fields = match custom {
        Some(paths) => SelectableFields::custom(paths, true),
        None => SelectableFields::builtin(&strategies::find(group, kind).field_selectors),
    };
    FieldSelector::parse(text, &fields)
        .map(|selector| selector.to_string())
        .map_err(|error| error.to_string())
}

/// Whether a field selector selects an object of a built-in kind.
pub fn field_selector_matches(text: &str, group: &str, kind: &str, object: &Value) -> Result<bool, String> {
    let fields = SelectableFields::builtin(&strategies::find(group, kind).field_selectors);
    let selector = FieldSelector::parse(text, &fields).map_err(|error| error.to_string())?;
    let name = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    Ok(selector.matches(name("/metadata/name"), name("/metadata/namespace"), &fields.data(object)))
}

/// What a JSON path finds, or the error.
pub fn json_path(path: &str, object: &Value) -> Result<Vec<Value>, String> {
    let path = JsonPath::parse(path).map_err(|error| error.to_string())?;
    let results = path.find(object).map_err(|error| match error {
        PathError::Mismatch(text) => format!("mismatch: {text}"),
        error => error.to_string(),
    })?;
    Ok(results.into_iter().map(std::borrow::Cow::into_owned).collect())
}

/// What comes of an `Accept` header at each kind of endpoint: a content type, or a status code.
pub fn accept(header: &str) -> [Result<&'static str, u16>; 4] {
    [Endpoint::Resource, Endpoint::Watch, Endpoint::Discovery, Endpoint::Plain].map(|endpoint| {
        let chosen = negotiate::negotiate(Some(header), endpoint);
        chosen.map(negotiate::Negotiated::content_type).map_err(|error| error.code)
    })
}

/// Whether a `Content-Type` is one of bodies here.
pub fn is_body(header: &str) -> bool {
    negotiate::body_format(Some(header), true).is_ok()
}

/// The `Table` of objects of a built-in kind, or of a custom one with these printer columns.
pub fn table(
    group: &str,
    kind: &str,
    printer_columns: Option<&Value>,
    objects: &[Value],
    now: Timestamp,
) -> Value {
    let columns = match printer_columns {
        Some(custom) => Columns::custom(custom),
        None => Columns::builtin(group, kind),
    };
    table::table(&columns, objects, Value::Null, IncludeObject::None, MetaVersion::V1, now, true)
}

/// A field selector as it is written back, whatever the fields are called, or the error.
pub fn field_terms(text: &str) -> Result<String, String> {
    let requirements = fields::parse(text).map_err(|error| error.to_string())?;
    let texts: Vec<String> = requirements.iter().map(ToString::to_string).collect();
    Ok(texts.join(","))
}

/// Whether the text of a selector in an object selects these labels, `{"metadata": {"labels": …}}`.
pub fn object_selector_matches(selector: &Value, object: &Value) -> Option<bool> {
    Some(LabelSelector::from_object(selector).ok()?.matches(object))
}

/// The clauses of an `Accept` header in the order in which they are tried, a line each.
pub fn accept_clauses(header: &str) -> String {
    negotiate::clauses(header)
}

/// A duration as it stands in tables.
pub fn duration(nanoseconds: i64) -> String {
    human::duration(nanoseconds.into())
}

/// JSON as Go writes it.
pub fn go_json(value: &Value) -> String {
    settled_go::json::to_string(value)
}

/// What can be sent in protobuf: `apiVersion` and kind.
pub fn sent_kinds() -> Vec<(String, &'static str)> {
    let kinds = builtin::kinds().iter().flat_map(|row| {
        let own = (row.api_version(), row.kind);
        let of_subresources = row.subresources.iter().map(|sub| match sub.group {
            "" => (sub.version.to_owned(), sub.kind),
            group => (format!("{group}/{}", sub.version), sub.kind),
        });
        std::iter::once(own).chain(of_subresources)
    });
    let mut all: Vec<_> = kinds.chain([("v1".to_owned(), "DeleteOptions")]).collect();
    all.sort();
    all.dedup();
    all
}

/// A body in protobuf, or the error.
pub fn protobuf(body: &[u8]) -> Result<Value, String> {
    protobuf::decode(body, "v1", "Pod").map_err(|error| error.wanted("Pod", body).message)
}

/// Makes an object of a built-in kind what it is to Go.
///
/// # Errors
/// What Go couldn't read, or doesn't know.
pub fn canonical(mut object: Value) -> Result<Value, String> {
    let [api_version, kind] = ["apiVersion", "kind"].map(|name| object[name].as_str().unwrap_or_default());
    let component = builtin::component_of(api_version, kind).ok_or("no such kind")?;
    let found = builtin::decode_component(&component, &mut object);
    // Not all that is sent has them in its schema.
    let unknown: Vec<_> =
        found.unknown.into_iter().filter(|path| path != "kind" && path != "apiVersion").collect();
    match found.error {
        Some(error) => Err(error),
        None if unknown.is_empty() => Ok(object),
        None => Err(format!("unknown: {}", unknown.join(", "))),
    }
}
