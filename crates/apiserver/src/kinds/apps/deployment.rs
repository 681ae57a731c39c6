//! Deployments.

use serde_json::Value;
use settled_apimachinery::labels::LabelSelector;
use settled_apimachinery::unstructured::{field, given, integer, string};

use crate::kinds::apps::workload::{
    Counts, set_empty_selector_and_replicas, validate_counts, validate_replicated_template,
    validate_selector_fits, validate_selector_update,
};
use crate::kinds::behavior::{Behavior, StatusUpdatePreserves};
use crate::kinds::check::{
    Check, int_or_percent, join, validate_at_most_100_percent, validate_positive_int_or_percent,
};
use crate::kinds::printers::{Read as _, Row, cells, layout_container_cells};
use crate::kinds::strategy::Strategy;

pub(crate) static STRATEGY: Strategy = Strategy {
    behavior: Behavior {
        generation: true,
        // They pass their annotations on.
        generation_of_annotations: true,
        status_update_preserves: StatusUpdatePreserves::Labels,
        ..Behavior::BUILTIN
    },
    set_empty_values: set_empty_selector_and_replicas,
    validate: validate_deployment,
    validate_update: Some(|check, new, old| {
        validate_deployment(check, new);
        validate_selector_update(check, new, old);
    }),
    validate_status_update: |check, new, old| validate_counts(check, &COUNTS, new, old),
    print: Some(print_deployment),
    ..Strategy::DEFAULT
};

fn validate_deployment(check: &mut Check, new: &Value) {
    let spec = field(new, "spec");
    check.not_negative("spec", spec, "replicas");
    if validate_selector_fits(check, spec, "Deployment", "empty selector is invalid for deployment") {
        validate_replicated_template(check, spec, "ReplicaSet");
    }
    let strategy = field(spec, "strategy");
    match string(strategy, "type") {
        "Recreate" => {
            if given(strategy, "rollingUpdate").is_some() {
                let detail = "may not be specified when strategy `type` is 'Recreate'";
                check.forbidden("spec.strategy.rollingUpdate", detail);
            }
        }
        "RollingUpdate" => {
            let rolling = field(strategy, "rollingUpdate");
            let at = "spec.strategy.rollingUpdate";
            let [unavailable, surge] = ["maxUnavailable", "maxSurge"].map(|name| field(rolling, name));
            validate_positive_int_or_percent(check, &join(at, "maxUnavailable"), unavailable);
            validate_positive_int_or_percent(check, &join(at, "maxSurge"), surge);
            if int_or_percent(unavailable) == 0 && int_or_percent(surge) == 0 {
                check.invalid(join(at, "maxUnavailable"), unavailable, "may not be 0 when `maxSurge` is 0");
            }
            validate_at_most_100_percent(check, &join(at, "maxUnavailable"), unavailable);
        }
        other => {
            let shown = format!("{{\"Type\":{},\"RollingUpdate\":null}}", Value::from(other));
            let message =
                format!("Unsupported value: {shown}: supported values: \"Recreate\", \"RollingUpdate\"");
            check.push("FieldValueNotSupported", "spec.strategy", message);
        }
    }
    for name in ["minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"] {
        check.not_negative("spec", spec, name);
    }
    let ready = integer(spec, "minReadySeconds").unwrap_or_default();
    if let Some(deadline) = integer(spec, "progressDeadlineSeconds").filter(|deadline| *deadline <= ready) {
        check.invalid(
            "spec.progressDeadlineSeconds",
            &deadline.into(),
            "must be greater than minReadySeconds",
        );
    }
}

const COUNTS: Counts = Counts {
    numbers: &[
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
        "collisionCount",
    ],
    bounded: &["updatedReplicas", "readyReplicas", "availableReplicas"],
    ready: "readyReplicas",
    checks_collisions: true,
};

fn print_deployment(row: Row<'_>) -> Vec<Value> {
    let [names, images] = layout_container_cells(row.list("/spec/template/spec/containers"));
    let selector = match LabelSelector::from_object(row.at("/spec/selector").unwrap_or(&Value::Null)) {
        Ok(selector) => selector.to_string(),
        Err(_) => "<invalid>".to_owned(),
    };
    cells![
        row.name(),
        format!("{}/{}", row.int("/status/readyReplicas"), row.int("/spec/replicas")),
        row.int("/status/updatedReplicas"),
        row.int("/status/availableReplicas"),
        row.age(),
        names,
        images,
        selector,
    ]
}
