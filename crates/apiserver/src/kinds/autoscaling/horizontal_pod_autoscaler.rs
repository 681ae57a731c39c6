//! HorizontalPodAutoscalers, which are stored as `v2` and served as `v1` too.

use serde_json::{Value, json};
use settled_apimachinery::unstructured::{field, integer, items, string};
use settled_apimachinery::validation;

use crate::human;
use crate::kinds::check::Check;
use crate::kinds::fields::{Fields, set_absent};
use crate::kinds::printers::{NONE, Read as _, Row, UNSET, cells};
use crate::kinds::strategy::Strategy;

pub(crate) static STRATEGY: Strategy = Strategy {
    validate: validate_horizontal_pod_autoscaler,
    print: Some(print_horizontal_pod_autoscaler),
    ..Strategy::DEFAULT
};

/// `autoscaling/v1` keeps metrics other than the CPU's in an annotation.
pub(crate) fn set_cpu_target(scaler: &mut Fields) {
    let annotations = scaler.get("metadata").and_then(|metadata| metadata.get("annotations"));
    if annotations.is_none_or(|known| known.get("autoscaling.alpha.kubernetes.io/metrics").is_none()) {
        set_absent(scaler, "spec.targetCPUUtilizationPercentage", &json!(80));
    }
}

fn validate_horizontal_pod_autoscaler(check: &mut Check, new: &Value) {
    let spec = field(new, "spec");
    let least = integer(spec, "minReplicas");
    if let Some(least) = least.filter(|least| *least < 1) {
        check.invalid("spec.minReplicas", &least.into(), "must be greater than or equal to 1");
    }
    let most = integer(spec, "maxReplicas").unwrap_or_default();
    if most == 0 {
        check.required("spec.maxReplicas", "must be set and greater than 0");
    } else if most < 0 {
        check.invalid("spec.maxReplicas", &most.into(), "must be greater than or equal to 1");
    }
    if least.is_some_and(|least| most < least) {
        check.invalid("spec.maxReplicas", &most.into(), "must be greater than or equal to `minReplicas`");
    }
    let target = field(spec, "scaleTargetRef");
    for name in ["kind", "name"] {
        check.required_form(
            &format!("spec.scaleTargetRef.{name}"),
            string(target, name),
            validation::is_path_segment_name,
        );
    }
    let version = string(target, "apiVersion");
    let core = version == "v1" && string(target, "kind") == "ReplicationController";
    if !version.contains('/') && !core {
        check.invalid("spec.scaleTargetRef.apiVersion", &version.into(), "apiVersion must specify API group");
    }
    let outside = |metric: &Value| ["Object", "External"].contains(&string(metric, "type"));
    if least == Some(0) && !items(spec, "metrics").iter().any(outside) {
        let detail =
            "must specify at least one Object or External metric to support scaling to zero replicas";
        check.forbidden("spec.metrics", detail);
    }
}

/// Where `autoscaling/v1` keeps what it has no field for.
const KEPT_IN_ANNOTATIONS: [(&str, &str, &str); 4] = [
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

pub(crate) fn convert_to_v1(scaler: &mut Fields) {
    let mut annotations = Fields::new();
    for (place, name, annotation) in KEPT_IN_ANNOTATIONS {
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
        known.retain(|key, _| KEPT_IN_ANNOTATIONS.iter().all(|(_, _, annotation)| key != annotation));
        known.append(&mut annotations);
    }
}

pub(crate) fn convert_to_v2(scaler: &mut Fields) {
    for (place, name, annotation) in KEPT_IN_ANNOTATIONS {
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

fn print_horizontal_pod_autoscaler(row: Row<'_>) -> Vec<Value> {
    let [kind, name] = ["kind", "name"].map(|part| row.text(&format!("/spec/scaleTargetRef/{part}")));
    cells![
        row.name(),
        format!("{kind}/{name}"),
        format_metrics(row),
        row.scalar("/spec/minReplicas", UNSET),
        row.int("/spec/maxReplicas"),
        row.int("/status/currentReplicas"),
        row.age(),
    ]
}

/// The metrics of an autoscaler beside what they are now.
fn format_metrics(row: Row<'_>) -> String {
    let older;
    let (specs, statuses) = match row.at("/spec/targetCPUUtilizationPercentage") {
        // `autoscaling/v1`: one metric, in fields of its own.
        Some(target) => {
            let metric = |utilization: &Value, place: &str| {
                json!([{
                    "type": "Resource",
                    "resource": {"name": "cpu", place: {"averageUtilization": utilization}},
                }])
            };
            let current = row.at("/status/currentCPUUtilizationPercentage");
            older = (metric(target, "target"), current.map(|current| metric(current, "current")));
            (older.0.list(""), older.1.as_ref().map_or(&[][..], |current| current.list("")))
        }
        None => (row.list("/spec/metrics"), row.list("/status/currentMetrics")),
    };
    if specs.is_empty() {
        return NONE.to_owned();
    }
    let texts = specs.iter().enumerate().map(|(index, spec)| format_metric(spec, statuses.get(index)));
    let first: Vec<String> = { texts }.take(2).collect();
    match specs.len() - first.len() {
        0 => first.join(", "),
        more => format!("{} + {more} more...", first.join(", ")),
    }
}

fn format_metric(spec: &Value, status: Option<&Value>) -> String {
    let field = match spec.text("/type") {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".to_owned(),
    };
    let target = |name: &str| spec.at(&format!("/{field}/target/{name}")).map(|value| value.scalar("", "0"));
    let source = status.and_then(|status| status.at(&format!("/{field}")));
    let unknown = || human::UNKNOWN.to_owned();
    // A quantity of a source that is there is never unknown.
    let current = |name: &str| source.map(|source| source.scalar(&format!("/current/{name}"), "<nil>"));
    let known = |name: &str| {
        source.and_then(|source| source.at(&format!("/current/{name}"))).map(|value| value.scalar("", "0"))
    };
    let is_resource = matches!(field, "resource" | "containerResource");
    let name =
        if is_resource { format!("{}: ", spec.text(&format!("/{field}/name"))) } else { String::new() };
    match (field, target("averageValue")) {
        ("pods", average) => {
            let average = average.unwrap_or_else(|| "<nil>".to_owned());
            format!("{}/{average}", current("averageValue").unwrap_or_else(unknown))
        }
        ("external" | "object", Some(average)) => {
            format!("{}/{average} (avg)", known("averageValue").unwrap_or_else(unknown))
        }
        (_, Some(average)) => format!("{name}{}/{average}", current("averageValue").unwrap_or_else(unknown)),
        ("external" | "object", None) => {
            let value = target("value").unwrap_or_else(|| "<nil>".to_owned());
            format!("{}/{value}", current("value").unwrap_or_else(unknown))
        }
        (_, None) => {
            let percent = |value: Option<String>, absent: &str| {
                value.map_or_else(|| absent.to_owned(), |value| format!("{value}%"))
            };
            let now = percent(known("averageUtilization"), human::UNKNOWN);
            format!("{name}{now}/{}", percent(target("averageUtilization"), "<auto>"))
        }
    }
}
