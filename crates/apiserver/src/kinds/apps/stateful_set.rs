//! StatefulSets.

use std::collections::HashSet;

use serde_json::{Value, json};
use settled_apimachinery::unstructured::{field, given, items, string};
use settled_apimachinery::validation;

use crate::kinds::apps::workload::{
    Counts, set_empty_selector_and_replicas, validate_always_restarted, validate_counts,
    validate_selector_fits,
};
use crate::kinds::behavior::Behavior;
use crate::kinds::check::Check;
use crate::kinds::core::pod::spec::validate_pod_template_spec;
use crate::kinds::fields::Fields;
use crate::kinds::printers::{Read as _, Row, cells, layout_container_cells};
use crate::kinds::strategy::Strategy;
use crate::metadata::NameRule;

pub(crate) static STRATEGY: Strategy = Strategy {
    behavior: Behavior { generation: true, ..Behavior::BUILTIN },
    name_rule: NameRule::Label,
    set_empty_values: set_empty_selector_and_replicas,
    validate: |check, set| validate_stateful_set(check, set, true),
    validate_update: Some(validate_stateful_set_update),
    validate_status_update: |check, new, old| validate_counts(check, &COUNTS, new, old),
    print: Some(print_stateful_set),
    ..Strategy::DEFAULT
};

/// The templates of PVCs say their kind.
pub(crate) fn set_claim_kinds(set: &mut Fields) {
    let claims = set.get_mut("spec").and_then(|spec| spec.get_mut("volumeClaimTemplates"));
    for claim in claims.and_then(Value::as_array_mut).into_iter().flatten() {
        if let Value::Object(claim) = claim {
            claim.insert("apiVersion".into(), "v1".into());
            claim.insert("kind".into(), "PersistentVolumeClaim".into());
        }
    }
}

/// What of a StatefulSet may change.
const CHANGEABLE: [&str; 7] = [
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
];

fn validate_stateful_set(check: &mut Check, new: &Value, is_new: bool) {
    let spec = field(new, "spec");
    let policy = string(spec, "podManagementPolicy");
    if !["OrderedReady", "Parallel"].contains(&policy) {
        check.invalid("spec.podManagementPolicy", &policy.into(), "must be 'OrderedReady' or 'Parallel'");
    }
    let strategy = field(spec, "updateStrategy");
    match string(strategy, "type") {
        "RollingUpdate" => {
            let partition = field(strategy, "rollingUpdate");
            check.not_negative("spec.updateStrategy.rollingUpdate", partition, "partition");
        }
        "OnDelete" => {
            if let Some(rolling) = given(strategy, "rollingUpdate") {
                let detail = "only allowed for updateStrategy 'RollingUpdate'";
                let [partition, most] = ["partition", "maxUnavailable"].map(|name| field(rolling, name));
                let shown = format!("{{\"Partition\":{partition},\"MaxUnavailable\":{most}}}");
                check.invalid_shown("spec.updateStrategy.rollingUpdate", &shown, detail);
            }
        }
        other => {
            let shown = format!("{{\"Type\":{},\"RollingUpdate\":null}}", Value::from(other));
            check.invalid_shown("spec.updateStrategy", &shown, "must be 'RollingUpdate' or 'OnDelete'");
        }
    }
    let retention = field(spec, "persistentVolumeClaimRetentionPolicy");
    for name in ["whenDeleted", "whenScaled"] {
        let word = string(retention, name);
        if !["Retain", "Delete"].contains(&word) {
            let at = format!("spec.persistentVolumeClaimRetentionPolicy.{name}");
            check.not_supported(at, &word.into(), &["Delete", "Retain"]);
        }
    }
    check.not_negative("spec", spec, "replicas");
    check.not_negative("spec", spec, "minReadySeconds");
    check.not_negative("spec.ordinals", field(spec, "ordinals"), "start");
    let service = string(spec, "serviceName");
    if is_new && !service.is_empty() {
        check.form("spec.serviceName", service, validation::is_dns1123_label);
    }
    validate_selector_fits(check, spec, "StatefulSet", "empty selector is invalid for statefulset");
    // Claims become volumes of the same names; the names of Pods are the controller's.
    let mut pods = field(spec, "template").clone();
    if let Some(Value::Object(pod)) = pods.get_mut("spec") {
        pod.remove("hostname");
        pod.remove("subdomain");
        let claims: Vec<Value> = items(spec, "volumeClaimTemplates")
            .iter()
            .filter_map(|claim| given(field(claim, "metadata"), "name"))
            .map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}}))
            .collect();
        if !claims.is_empty() {
            let mut volumes = claims;
            let own = pod.remove("volumes").unwrap_or_default();
            let mut taken: HashSet<String> =
                volumes.iter().map(|volume| field(volume, "name").to_string()).collect();
            for volume in own.as_array().into_iter().flatten() {
                if taken.insert(field(volume, "name").to_string()) {
                    volumes.push(volume.clone());
                }
            }
            pod.insert("volumes".into(), volumes.into());
        }
    }
    validate_pod_template_spec(check, &pods, "spec.template");
    validate_always_restarted(check, spec, "StatefulSet");
}

fn validate_stateful_set_update(check: &mut Check, new: &Value, old: &Value) {
    validate_stateful_set(check, new, false);
    let without = |spec: &Value| {
        let mut spec = spec.clone();
        if let Value::Object(fields) = &mut spec {
            fields.retain(|name, value| !CHANGEABLE.contains(&name.as_str()) && !value.is_null());
        }
        spec
    };
    if without(field(new, "spec")) != without(field(old, "spec")) {
        let detail = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
        check.forbidden("spec", detail);
    }
}

const COUNTS: Counts = Counts {
    numbers: &[
        "replicas",
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
        "observedGeneration",
        "collisionCount",
    ],
    bounded: &["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"],
    ready: "status.readyReplicas",
    checks_collisions: true,
};

fn print_stateful_set(row: Row<'_>) -> Vec<Value> {
    let [names, images] = layout_container_cells(row.list("/spec/template/spec/containers"));
    let ready = format!("{}/{}", row.int("/status/readyReplicas"), row.int("/spec/replicas"));
    cells![row.name(), ready, row.age(), names, images]
}
