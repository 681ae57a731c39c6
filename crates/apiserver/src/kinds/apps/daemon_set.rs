//! DaemonSets.

use serde_json::{Value, json};
use settled_apimachinery::unstructured::{field, string};

use crate::kinds::apps::workload::{
    Counts, set_empty_selector, validate_always_restarted, validate_counts, validate_selector_fits,
    validate_selector_update,
};
use crate::kinds::behavior::Behavior;
use crate::kinds::check::{
    Check, int_or_percent, join, validate_at_most_100_percent, validate_positive_int_or_percent,
};
use crate::kinds::core::pod::spec::validate_pod_template_spec;
use crate::kinds::fields::Fields;
use crate::kinds::printers::{
    Read as _, Row, cells, format_label_selector, format_labels, layout_container_cells,
};
use crate::kinds::strategy::{Strategy, UpdateContext};

pub(crate) static STRATEGY: Strategy = Strategy {
    behavior: Behavior { generation: true, ..Behavior::BUILTIN },
    set_empty_values: |set| {
        set_empty_selector(set);
        set_template_generation(set);
    },
    prepare_for_create: |set, _requester| count_templates(set, |count| count.max(1)),
    prepare_for_update,
    validate: validate_daemon_set,
    validate_update: Some(|check, new, old| {
        validate_selector_update(check, new, old);
        validate_daemon_set(check, new);
    }),
    validate_status_update: |check, new, old| validate_counts(check, &COUNTS, new, old),
    print: Some(print_daemon_set),
    ..Strategy::DEFAULT
};

/// How often the template of a DaemonSet has changed: inside of upstream a number, outside an annotation.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

pub(crate) fn set_template_generation(set: &mut Fields) {
    let Some(Value::Object(metadata)) = set.get_mut("metadata") else { return };
    let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
    if annotations.is_null() {
        *annotations = json!({});
    }
    if let Value::Object(annotations) = annotations {
        annotations.entry(TEMPLATE_GENERATION).or_insert_with(|| "0".into());
    }
}

/// Changes how often the template of a DaemonSet is said to have changed.
fn count_templates(object: &mut Value, change: impl FnOnce(i64) -> i64) {
    let annotations = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut);
    if let Some(count) = annotations.and_then(|annotations| annotations.get_mut(TEMPLATE_GENERATION)) {
        let number = count.as_str().and_then(|text| text.parse().ok()).unwrap_or_default();
        *count = change(number).to_string().into();
    }
}

fn prepare_for_update(new: &mut Value, old: &Value, _context: &UpdateContext<'_>) {
    let template = |object: &Value| object.pointer("/spec/template").cloned();
    let changed = i64::from(template(new) != template(old));
    let mut before = 0;
    count_templates(&mut old.clone(), |count| {
        before = count;
        count
    });
    count_templates(new, |_| before + changed);
}

fn validate_daemon_set(check: &mut Check, new: &Value) {
    let spec = field(new, "spec");
    validate_selector_fits(check, spec, "DaemonSet", "empty selector is invalid for daemonset");
    validate_pod_template_spec(check, field(spec, "template"), "spec.template");
    validate_always_restarted(check, spec, "DaemonSet");
    check.not_negative("spec", spec, "minReadySeconds");
    let strategy = field(spec, "updateStrategy");
    match string(strategy, "type") {
        "OnDelete" => {}
        "RollingUpdate" => {
            let at = "spec.updateStrategy.rollingUpdate";
            let rolling = field(strategy, "rollingUpdate");
            let [unavailable, surge] = ["maxUnavailable", "maxSurge"].map(|name| field(rolling, name));
            validate_positive_int_or_percent(check, &join(at, "maxUnavailable"), unavailable);
            validate_positive_int_or_percent(check, &join(at, "maxSurge"), surge);
            match (int_or_percent(unavailable), int_or_percent(surge)) {
                (0, 0) => check.required(join(at, "maxUnavailable"), "cannot be 0 when maxSurge is 0"),
                (u, s) if u != 0 && s != 0 => {
                    check.invalid(
                        join(at, "maxSurge"),
                        surge,
                        "may not be set when maxUnavailable is non-zero",
                    );
                }
                _ => {}
            }
            validate_at_most_100_percent(check, &join(at, "maxUnavailable"), unavailable);
            validate_at_most_100_percent(check, &join(at, "maxSurge"), surge);
        }
        other => {
            let shown = format!("{{\"Type\":{},\"RollingUpdate\":null}}", Value::from(other));
            let message =
                format!("Unsupported value: {shown}: supported values: \"RollingUpdate\", \"OnDelete\"");
            check.push("FieldValueNotSupported", "spec.updateStrategy", message);
        }
    }
    check.not_negative("spec", spec, "revisionHistoryLimit");
}

const COUNTS: Counts = Counts {
    numbers: &[
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "observedGeneration",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
        "collisionCount",
    ],
    bounded: &[],
    ready: "",
    checks_collisions: true,
};

fn print_daemon_set(row: Row<'_>) -> Vec<Value> {
    let [names, images] = layout_container_cells(row.list("/spec/template/spec/containers"));
    cells![
        row.name(),
        row.int("/status/desiredNumberScheduled"),
        row.int("/status/currentNumberScheduled"),
        row.int("/status/numberReady"),
        row.int("/status/updatedNumberScheduled"),
        row.int("/status/numberAvailable"),
        format_labels(row.at("/spec/template/spec/nodeSelector")),
        row.age(),
        names,
        images,
        format_label_selector(row.at("/spec/selector")),
    ]
}
