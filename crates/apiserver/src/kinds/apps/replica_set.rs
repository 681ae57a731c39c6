//! ReplicaSets.

use serde_json::Value;
use settled_apimachinery::unstructured::field;

use crate::kinds::apps::workload::{
    REPLICA_COUNTS, replica_cells, set_empty_selector_and_replicas, validate_counts,
    validate_replicated_template, validate_selector_fits, validate_selector_update,
};
use crate::kinds::behavior::Behavior;
use crate::kinds::check::Check;
use crate::kinds::printers::{Read as _, Row, format_label_selector};
use crate::kinds::strategy::Strategy;

pub(crate) static STRATEGY: Strategy = Strategy {
    behavior: Behavior { generation: true, ..Behavior::BUILTIN },
    set_empty_values: set_empty_selector_and_replicas,
    validate: validate_replica_set,
    validate_update: Some(|check, new, old| {
        validate_replica_set(check, new);
        validate_selector_update(check, new, old);
    }),
    validate_status_update: |check, new, old| validate_counts(check, &REPLICA_COUNTS, new, old),
    print: Some(print_replica_set),
    ..Strategy::DEFAULT
};

fn validate_replica_set(check: &mut Check, new: &Value) {
    let spec = field(new, "spec");
    check.not_negative("spec", spec, "replicas");
    check.not_negative("spec", spec, "minReadySeconds");
    if validate_selector_fits(check, spec, "ReplicaSet", "empty selector is invalid for deployment") {
        validate_replicated_template(check, spec, "ReplicaSet");
    }
}

fn print_replica_set(row: Row<'_>) -> Vec<Value> {
    let selector = format_label_selector(row.at("/spec/selector"));
    replica_cells(row, selector)
}
