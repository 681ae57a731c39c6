//! Shared parts of workloads: validation of selectors, Pod templates and status counts, and table cells.

use serde_json::Value;
use settled_apimachinery::unstructured::{field, given, integer, string};

use crate::kinds::check::{Check, matches, selects_all, validate_label_selector};
use crate::kinds::core::pod::spec::{template_labels, validate_pod_template_spec};
use crate::kinds::fields::{Fields, set_absent};
use crate::kinds::printers::{Read as _, Row, cells, layout_container_cells};
use crate::metadata::shown;

/// Validates that the selector exists, is not empty, and matches the template. Returns false if upstream skips further
/// validation.
pub(crate) fn validate_selector_fits(check: &mut Check, spec: &Value, kind: &str, empty: &str) -> bool {
    let chosen = field(spec, "selector");
    let daemon = kind == "DaemonSet";
    let mut valid = true;
    if chosen.is_null() {
        if !daemon {
            check.required("spec.selector", "");
        }
    } else {
        valid = validate_label_selector(check, "spec.selector", chosen);
        if !daemon && selects_all(chosen) {
            check.invalid("spec.selector", chosen, empty);
        }
    }
    let all = chosen.is_object() && selects_all(chosen);
    if valid {
        if !all && !matches(chosen, template_labels(spec)) {
            report_template_labels(check, spec);
        }
    } else if !daemon {
        check.invalid(
            "spec.selector",
            chosen,
            if kind == "StatefulSet" { "" } else { "invalid label selector" },
        );
    }
    if daemon && all {
        check.invalid("spec.selector", chosen, empty);
    }
    valid
}

/// Reports template labels that the selector does not match.
pub(crate) fn report_template_labels(check: &mut Check, spec: &Value) {
    let labels =
        template_labels(spec).map_or_else(|| "null".to_owned(), |labels| shown(&labels.clone().into()));
    let detail = "`selector` does not match template `labels`";
    check.invalid_shown("spec.template.metadata.labels", &labels, detail);
}

/// `ValidatePodTemplateSpecForReplicaSet` and `ValidatePodTemplateSpecForRC`, without the labels.
pub(crate) fn validate_replicated_template(check: &mut Check, spec: &Value, kind: &str) {
    validate_pod_template_spec(check, field(spec, "template"), "spec.template");
    validate_always_restarted(check, spec, kind);
}

/// Validates that Pods are always restarted, and have no deadline.
pub(crate) fn validate_always_restarted(check: &mut Check, spec: &Value, kind: &str) {
    let pod = field(field(spec, "template"), "spec");
    let policy = string(pod, "restartPolicy");
    if policy != "Always" {
        check.not_supported("spec.template.spec.restartPolicy", &policy.into(), &["Always"]);
    }
    if given(pod, "activeDeadlineSeconds").is_some() {
        let detail = format!("activeDeadlineSeconds in {kind} is not Supported");
        check.forbidden("spec.template.spec.activeDeadlineSeconds", &detail);
    }
}

pub(crate) fn validate_selector_update(check: &mut Check, new: &Value, old: &Value) {
    check.immutable(
        "spec.selector",
        given(field(new, "spec"), "selector"),
        given(field(old, "spec"), "selector"),
    );
}

/// Pod counts in the status of a workload.
pub(crate) struct Counts {
    /// Fields that must not be negative.
    pub(crate) numbers: &'static [&'static str],
    /// Fields that must not exceed `replicas`.
    pub(crate) bounded: &'static [&'static str],
    /// Name of the bound of `availableReplicas` in messages.
    pub(crate) ready: &'static str,
    /// Whether `collisionCount` must not decrease.
    pub(crate) checks_collisions: bool,
}

/// The counts of ReplicaSets and ReplicationControllers.
pub(crate) const REPLICA_COUNTS: Counts = Counts {
    numbers: &[
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
        "terminatingReplicas",
    ],
    bounded: &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"],
    ready: "readyReplicas",
    checks_collisions: false,
};

/// Validates the counts of a new status.
pub(crate) fn validate_counts(check: &mut Check, counts: &Counts, new: &Value, old: &Value) {
    let status = field(new, "status");
    for name in counts.numbers {
        check.not_negative("status", status, name);
    }
    let of = |name: &str| integer(status, name).unwrap_or_default();
    for name in counts.bounded.iter().filter(|name| of(name) > of("replicas")) {
        let at = format!("status.{name}");
        check.invalid(at, &of(name).into(), "cannot be greater than status.replicas");
    }
    if !counts.bounded.is_empty() && of("availableReplicas") > of("readyReplicas") {
        let why = format!("cannot be greater than {}", counts.ready);
        check.invalid("status.availableReplicas", &of("availableReplicas").into(), &why);
    }
    let collisions = |object| integer(field(object, "status"), "collisionCount");
    if counts.checks_collisions
        && collisions(old).is_some_and(|before| collisions(new).unwrap_or_default() < before)
    {
        let value = collisions(new).unwrap_or_default();
        check.invalid("status.collisionCount", &value.into(), "cannot be decremented");
    }
}

/// Zero values of a workload: null selector and zero replicas.
pub(crate) fn set_empty_selector_and_replicas(object: &mut Fields) {
    if let Some(spec) = set_empty_selector(object) {
        spec.insert("replicas".to_owned(), 0.into());
    }
}

/// Zero value of a workload: null selector.
pub(crate) fn set_empty_selector(object: &mut Fields) -> Option<&mut Fields> {
    let spec = object.get_mut("spec").and_then(Value::as_object_mut)?;
    spec.insert("selector".to_owned(), Value::Null);
    Some(spec)
}

/// Copies the labels of the template to the object, if it has none.
pub(crate) fn set_template_labels(object: &mut Fields) {
    let labels = object.get("spec").and_then(|spec| spec.pointer("/template/metadata/labels")).cloned();
    if let Some(labels @ Value::Object(_)) = labels {
        set_absent(object, "metadata.labels", &labels);
    }
}

/// Table cells of ReplicaSets and ReplicationControllers.
pub(crate) fn replica_cells(row: Row<'_>, selector: String) -> Vec<Value> {
    let [names, images] = layout_container_cells(row.list("/spec/template/spec/containers"));
    cells![
        row.name(),
        row.int("/spec/replicas"),
        row.int("/status/replicas"),
        row.int("/status/readyReplicas"),
        row.age(),
        names,
        images,
        selector,
    ]
}
