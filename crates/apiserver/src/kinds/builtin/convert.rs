//! Conversion between versions of built-in kinds: Events and HorizontalPodAutoscalers, which are stored once and served as two.

use serde_json::Value;

use super::{BuiltinKind, decode, default, find};
use crate::kinds::autoscaling::horizontal_pod_autoscaler::{convert_to_v1, convert_to_v2};
use crate::kinds::core::event::rename_fields;

/// The kind that objects of a kind are stored as: another one for `events.k8s.io/v1` Event (the core one) and
/// `autoscaling/v1` HorizontalPodAutoscaler (that of `v2`), else the kind itself.
pub(crate) fn stored_as(kind: &'static BuiltinKind) -> &'static BuiltinKind {
    let hub = match (kind.group, kind.version, kind.kind) {
        ("events.k8s.io", _, "Event") => find("", "v1", "Event"),
        ("autoscaling", "v1", "HorizontalPodAutoscaler") => find("autoscaling", "v2", kind.kind),
        _ => None,
    };
    hub.unwrap_or(kind)
}

/// Turns an object from one of a kind's views into the other; decoded and defaulted before and after. Between kinds
/// that aren't views of one, nothing happens.
///
/// What `autoscaling/v1` has no field for is kept in the annotations that upstream has for it, in the form of `v2`:
/// upstream writes a form of its own.
pub(crate) fn convert(from: &'static BuiltinKind, to: &'static BuiltinKind, object: &mut Value) {
    if std::ptr::eq(from, to) || !std::ptr::eq(stored_as(from), stored_as(to)) {
        return;
    }
    let Value::Object(fields) = object else { return };
    match (from.group, from.version) {
        ("", _) => rename_fields(fields, false),
        ("events.k8s.io", _) => rename_fields(fields, true),
        ("autoscaling", "v2") => convert_to_v1(fields),
        _ => convert_to_v2(fields),
    }
    fields.insert("apiVersion".into(), to.api_version().into());
    decode(to, object);
    default(to, object);
}
