//! ReplicationControllers.

use serde_json::Value;
use settled_apimachinery::unstructured::{field, given};

use crate::kinds::apps::workload::{
    REPLICA_COUNTS, replica_cells, report_template_labels, set_template_labels, validate_counts,
    validate_replicated_template,
};
use crate::kinds::behavior::{Behavior, Dependents};
use crate::kinds::check::Check;
use crate::kinds::core::pod::spec::template_labels;
use crate::kinds::fields::{Fields, set_absent};
use crate::kinds::printers::{Read as _, Row, format_labels};
use crate::kinds::quota::Quota;
use crate::kinds::strategy::Strategy;
use crate::selector::{FieldSelectors, Source};

pub(crate) static STRATEGY: Strategy = Strategy {
    behavior: Behavior { generation: true, dependents: Dependents::Orphan, ..Behavior::BUILTIN },
    field_selectors: FieldSelectors::of(&[("status.replicas", Source::Number("/status/replicas"))]),
    validate: validate_replication_controller,
    validate_status_update: |check, new, old| validate_counts(check, &REPLICA_COUNTS, new, old),
    print: Some(print_replication_controller),
    quota: Quota::Named("replicationcontrollers"),
    ..Strategy::DEFAULT
};

/// `SetDefaults_ReplicationController`: copies labels and selector from the template.
pub(crate) fn set_labels_and_selector(object: &mut Fields) {
    set_template_labels(object);
    let labels = object.get("spec").and_then(|spec| spec.pointer("/template/metadata/labels")).cloned();
    if let Some(labels @ Value::Object(_)) = labels {
        set_absent(object, "spec.selector", &labels);
    }
}

fn validate_replication_controller(check: &mut Check, new: &Value) {
    let spec = field(new, "spec");
    check.not_negative("spec", spec, "minReadySeconds");
    let chosen = field(spec, "selector").as_object();
    if chosen.is_none_or(serde_json::Map::is_empty) {
        check.required("spec.selector", "");
    }
    check.not_negative("spec", spec, "replicas");
    if given(spec, "template").is_none() {
        check.required("spec.template", "");
        return;
    }
    let labels = template_labels(spec);
    let fits = chosen
        .into_iter()
        .flatten()
        .all(|(key, value)| labels.and_then(|labels| labels.get(key)) == Some(value));
    if !fits {
        report_template_labels(check, spec);
    }
    validate_replicated_template(check, spec, "ReplicationController");
}

fn print_replication_controller(row: Row<'_>) -> Vec<Value> {
    let selector = format_labels(row.at("/spec/selector"));
    replica_cells(row, selector)
}
