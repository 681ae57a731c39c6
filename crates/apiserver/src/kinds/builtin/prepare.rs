//! Generated fields of new objects of built-in kinds, which depend on the object's UID or status (`PrepareForCreate` upstream).

use serde_json::{Map, Value, json};
use settled_apimachinery::quantity::Quantity;

use super::steps::TEMPLATE_GENERATION;
use super::{BuiltinKind, text};

/// Completes a new object that has its name and uid, before it is validated.
///
/// A Job gets its selector, and its Pods the labels that it selects by, unless `manualSelector` is set.
pub(crate) fn prepare_create(kind: &BuiltinKind, object: &mut Value) {
    if !object.is_object() {
        return;
    }
    match (kind.group, kind.kind) {
        ("batch", "Job") => {
            job(object);
            job_labels(object);
        }
        ("", "Pod") => {
            let quality = quality_of_service(object);
            begin(object, json!({"phase": "Pending", "qosClass": quality}));
        }
        ("", "PersistentVolumeClaim") => begin(object, json!({"phase": "Pending"})),
        ("", "PersistentVolume") => {
            let now = object.pointer("/metadata/creationTimestamp").cloned();
            begin(object, json!({"phase": "Pending", "lastPhaseTransitionTime": now}));
        }
        ("apps", "DaemonSet") => count_templates(object, |count| count.max(1)),
        _ => {}
    }
}

/// Changes how often the template of a DaemonSet is said to have changed.
pub(crate) fn count_templates(object: &mut Value, change: impl FnOnce(i64) -> i64) {
    let annotations = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut);
    if let Some(count) = annotations.and_then(|annotations| annotations.get_mut(TEMPLATE_GENERATION)) {
        let number = count.as_str().and_then(|text| text.parse().ok()).unwrap_or_default();
        *count = change(number).to_string().into();
    }
}

/// The status that an object begins with.
fn begin(object: &mut Value, status: Value) {
    if let Some(fields) = object.as_object_mut() {
        fields.insert("status".to_owned(), status);
    }
}

/// How the pod is treated when a node runs short, by what its containers ask for
/// (`pkg/apis/core/v1/helper/qos`).
pub(crate) fn quality_of_service(pod: &Value) -> &'static str {
    const COUNTED: [&str; 2] = ["cpu", "memory"];
    let containers =
        ["containers", "initContainers"].into_iter().filter_map(|list| pod["spec"][list].as_array());
    let positive = |resources: &Value, which: &str, name: &str| {
        Quantity::from_value(&resources[which][name]).filter(|quantity| !quantity.is_zero())
    };
    // What the pod asks for as a whole goes before its containers.
    let own: Vec<&Value> = match &pod["spec"]["resources"] {
        Value::Object(_) => vec![&pod["spec"]["resources"]],
        _ => containers.flatten().map(|container| &container["resources"]).collect(),
    };
    let asks = own.iter().any(|resources| {
        ["requests", "limits"]
            .iter()
            .any(|which| COUNTED.iter().any(|name| positive(resources, which, name).is_some()))
    });
    if !asks {
        return "BestEffort";
    }
    let guaranteed = own.iter().all(|resources| {
        COUNTED.iter().all(|name| {
            match (positive(resources, "limits", name), positive(resources, "requests", name)) {
                (Some(limit), Some(request)) => limit == request,
                (Some(_), None) => true,
                _ => false,
            }
        })
    });
    if guaranteed { "Guaranteed" } else { "Burstable" }
}

fn job(object: &mut Value) {
    let metadata = object.get("metadata").unwrap_or(&Value::Null);
    let [name, uid] = ["name", "uid"].map(|field| text(metadata, field).unwrap_or_default().to_owned());
    let Some(Value::Object(spec)) = object.get_mut("spec") else { return };
    if spec.get("manualSelector") == Some(&Value::Bool(true)) {
        return;
    }
    let added = |labels: &mut Map<String, Value>, key: &str, value: &str| {
        labels.entry(key).or_insert_with(|| json!(value));
    };
    if let Some(labels) = spec
        .get_mut("template")
        .and_then(Value::as_object_mut)
        .and_then(|template| object_of(template, "metadata"))
        .and_then(|metadata| object_of(metadata, "labels"))
    {
        for key in ["batch.kubernetes.io/controller-uid", "controller-uid"] {
            added(labels, key, &uid);
        }
        for key in ["batch.kubernetes.io/job-name", "job-name"] {
            added(labels, key, &name);
        }
    }
    if let Some(labels) = object_of(spec, "selector").and_then(|selector| object_of(selector, "matchLabels"))
    {
        added(labels, "batch.kubernetes.io/controller-uid", &uid);
    }
}

/// A Job without labels has its template's: upstream's defaults, which see what [`job`] has added as soon as it is read.
fn job_labels(object: &mut Value) {
    let Some(Value::Object(labels)) = object.pointer("/spec/template/metadata/labels").cloned() else {
        return;
    };
    let metadata = object.as_object_mut().and_then(|fields| object_of(fields, "metadata"));
    if let Some(metadata) = metadata
        && !labels.is_empty()
        && metadata.get("labels").and_then(Value::as_object).is_none_or(Map::is_empty)
    {
        metadata.insert("labels".to_owned(), Value::Object(labels));
    }
}

/// An object in a field; made where there is none.
fn object_of<'a>(fields: &'a mut Map<String, Value>, name: &str) -> Option<&'a mut Map<String, Value>> {
    let value = fields.entry(name).or_insert_with(|| json!({}));
    if value.is_null() {
        *value = json!({});
    }
    value.as_object_mut()
}
