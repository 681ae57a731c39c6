//! Conversion between versions of built-in kinds: Events and HorizontalPodAutoscalers, which are stored once and served as two.

use serde_json::{Map, Value, json};

use super::{BuiltinKind, decode, default, find};

type Fields = Map<String, Value>;

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
        ("", _) => renamed(fields, false),
        ("events.k8s.io", _) => renamed(fields, true),
        ("autoscaling", "v2") => to_v1(fields),
        _ => to_v2(fields),
    }
    fields.insert("apiVersion".into(), to.api_version().into());
    decode(to, object);
    default(to, object);
}

/// The fields of an Event that have two names: in the core group, in `events.k8s.io`.
const NAMES: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("source", "deprecatedSource"),
    ("message", "note"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

fn renamed(event: &mut Fields, to_core: bool) {
    for (core, new) in NAMES {
        let (from, to) = if to_core { (new, core) } else { (core, new) };
        if let Some(value) = event.remove(from) {
            event.insert(to.to_owned(), value);
        }
    }
}

/// Where `autoscaling/v1` keeps what it has no field for.
const KEPT: [(&str, &str, &str); 4] = [
    ("spec", "metrics", "autoscaling.alpha.kubernetes.io/metrics"),
    ("spec", "behavior", "autoscaling.alpha.kubernetes.io/behavior"),
    ("status", "currentMetrics", "autoscaling.alpha.kubernetes.io/current-metrics"),
    ("status", "conditions", "autoscaling.alpha.kubernetes.io/conditions"),
];

/// The share of a CPU that a metric aims at, if it is of that kind.
fn cpu(metric: &Value, of: &str) -> Option<Value> {
    let resource = metric.get("resource").filter(|resource| resource.get("name") == Some(&"cpu".into()))?;
    resource.get(of)?.get("averageUtilization").filter(|share| !share.is_null()).cloned()
}

fn part<'a>(object: &'a mut Fields, name: &str) -> Option<&'a mut Fields> {
    object.get_mut(name)?.as_object_mut()
}

fn to_v1(scaler: &mut Fields) {
    let mut annotations = Fields::new();
    for (place, name, annotation) in KEPT {
        let Some(fields) = part(scaler, place) else { continue };
        let Some(mut value) = fields.remove(name).filter(|value| !value.is_null()) else { continue };
        let (field, of) = match name {
            "metrics" => ("targetCPUUtilizationPercentage", "target"),
            "currentMetrics" => ("currentCPUUtilizationPercentage", "current"),
            _ => ("", ""),
        };
        if let Value::Array(metrics) = &mut value
            && !field.is_empty()
        {
            if let Some(share) = metrics.iter().find_map(|metric| cpu(metric, of)) {
                fields.insert(field.to_owned(), share);
            }
            // The current ones are kept whole, since they also have the raw value.
            if of == "target" {
                metrics.retain(|metric| cpu(metric, of).is_none());
            }
        }
        let empty = value.as_array().is_some_and(Vec::is_empty);
        if !empty {
            annotations.insert(annotation.to_owned(), value.to_string().into());
        }
    }
    let Some(metadata) = part(scaler, "metadata") else { return };
    let known = metadata.entry("annotations").or_insert_with(|| json!({}));
    if let Value::Object(known) = known {
        known.retain(|key, _| KEPT.iter().all(|(_, _, annotation)| key != annotation));
        known.append(&mut annotations);
    }
}

fn to_v2(scaler: &mut Fields) {
    for (place, name, annotation) in KEPT {
        let text = part(scaler, "metadata")
            .and_then(|metadata| metadata.get_mut("annotations"))
            .and_then(Value::as_object_mut)
            .and_then(|annotations| annotations.remove(annotation));
        // What isn't ours to read is as if it weren't there, as upstream has it.
        let kept =
            text.as_ref().and_then(Value::as_str).and_then(|text| serde_json::from_str::<Value>(text).ok());
        let Some(fields) = part(scaler, place) else { continue };
        let mut kept = kept;
        match name {
            "metrics" => {
                if let Some(share) = fields.remove("targetCPUUtilizationPercentage") {
                    let metric = json!({"type": "Resource", "resource": {
                        "name": "cpu", "target": {"type": "Utilization", "averageUtilization": share},
                    }});
                    let mut metrics = vec![metric];
                    if let Some(Value::Array(others)) = kept.take() {
                        metrics.extend(others);
                    }
                    kept = Some(metrics.into());
                }
            }
            "currentMetrics" => drop(fields.remove("currentCPUUtilizationPercentage")),
            _ => {}
        }
        if let Some(value) = kept {
            fields.insert(name.to_owned(), value);
        }
    }
}
