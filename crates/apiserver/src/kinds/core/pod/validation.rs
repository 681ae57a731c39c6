//! Validation of Pods, and of what may change of them (`ValidatePodCreate`, `ValidatePodUpdate` and those of its subresources).

use std::collections::HashSet;

use serde_json::{Map, Value};
use settled_apimachinery::unstructured::{entries, field, given, integer, items, string};

use crate::kinds::check::{Check, join};
use crate::kinds::core::pod::spec::validate_pod_spec;
use crate::kinds::core::pod::subresources::{by_name, quality_of_service};
use crate::kinds::names::Part;
use crate::metadata;
use crate::object::text;

pub(super) fn validate_pod(check: &mut Check, new: &Value) {
    let spec = field(new, "spec");
    let name = string(field(new, "metadata"), "name");
    validate_pod_spec(check, spec, Some(name), "spec");
    if string(spec, "serviceAccountName").is_empty() {
        for (v, volume) in items(spec, "volumes").iter().enumerate() {
            for (s, source) in items(field(volume, "projected"), "sources").iter().enumerate() {
                if given(source, "serviceAccountToken").is_some() {
                    check.forbidden(
                        format!("spec.volumes[{v}].projected.sources[{s}].serviceAccountToken"),
                        "must not be specified when serviceAccountName is not set",
                    );
                }
            }
        }
    }
    for list in ["containers", "initContainers"] {
        for (index, container) in items(spec, list).iter().enumerate() {
            let image = string(container, "image");
            if image.trim() != image {
                let at = format!("spec.{list}[{index}].image");
                check.invalid(at, &image.into(), "must not have leading or trailing whitespace");
            }
        }
    }
}

const CHANGEABLE: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// What of a Pod may change: images, deadlines, more tolerations, fewer gates.
pub(super) fn validate_pod_update(check: &mut Check, new: &Value, old: &Value) {
    validate_pod(check, new);
    validate_spec_update(check, field(new, "spec"), field(old, "spec"));
}

/// What of a Pod may change: images, deadlines, more tolerations, fewer gates.
fn validate_spec_update(check: &mut Check, new: &Value, old: &Value) {
    for list in ["containers", "initContainers"] {
        let at = join("spec", list);
        if items(new, list).len() != items(old, list).len() {
            check.forbidden(at, "pod updates may not add or remove containers");
            return;
        }
        for (index, container) in items(new, list).iter().enumerate() {
            if string(container, "image").is_empty() {
                check.required(format!("{at}[{index}].image"), "");
            }
        }
    }
    let deadline = "activeDeadlineSeconds";
    match (integer(new, deadline), integer(old, deadline)) {
        (Some(new), _) if !(0..=i64::from(i32::MAX)).contains(&new) => {
            check.invalid(
                "spec.activeDeadlineSeconds",
                &new.into(),
                "must be between 0 and 2147483647, inclusive",
            );
            return;
        }
        (Some(new), Some(old)) if old < new => {
            check.invalid(
                "spec.activeDeadlineSeconds",
                &new.into(),
                "must be less than or equal to previous value",
            );
            return;
        }
        (None, Some(_)) => check.invalid(
            "spec.activeDeadlineSeconds",
            &Value::Null,
            "must not update from a positive integer to nil value",
        ),
        _ => {}
    }
    let without_seconds = |toleration: &Value| {
        let mut toleration = toleration.clone();
        if let Value::Object(map) = &mut toleration
            && map.get("effect").and_then(Value::as_str) == Some("NoExecute")
        {
            map.remove("tolerationSeconds");
        }
        toleration.to_string()
    };
    // By their texts: there may be very many.
    let kept: HashSet<String> = items(new, "tolerations").iter().map(without_seconds).collect();
    if items(old, "tolerations").iter().any(|old| !kept.contains(&without_seconds(old))) {
        check.forbidden(
            "spec.tolerations",
            "existing toleration can not be modified except its tolerationSeconds",
        );
    }
    let gates: HashSet<String> = items(old, "schedulingGates").iter().map(Value::to_string).collect();
    let is_new = |gate: &Value| !gates.contains(&gate.to_string());
    if let Some(index) = items(new, "schedulingGates").iter().position(is_new) {
        check.forbidden(
            format!("spec.schedulingGates[{index}]"),
            "only deletion is allowed, but found new scheduling gate",
        );
    }
    let mut munged = new.clone();
    let Some(fields) = munged.as_object_mut() else { return };
    for list in ["containers", "initContainers"] {
        let images = items(old, list).iter().map(|container| container.get("image"));
        let containers = fields.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        for (container, image) in containers.zip(images) {
            if let Value::Object(container) = container {
                restore(container, "image", image);
            }
        }
    }
    let mut kept = vec![deadline, "tolerations", "schedulingGates"];
    if integer(old, "terminationGracePeriodSeconds").is_some_and(|seconds| seconds < 0)
        && integer(new, "terminationGracePeriodSeconds") == Some(1)
    {
        kept.push("terminationGracePeriodSeconds");
    }
    if !gates.is_empty() {
        // A Pod that is held back may be steered: to fewer nodes.
        let kept_labels = entries(old, "nodeSelector")
            .all(|(key, value)| field(new, "nodeSelector").get(key) == Some(value));
        if !kept_labels {
            check.invalid_shown(
                "spec.nodeSelector",
                &field(new, "nodeSelector").to_string(),
                "only additions are allowed to spec.nodeSelector (no mutations or deletions)",
            );
        }
        kept.extend(["nodeSelector", "affinity"]);
    }
    for name in kept {
        restore(fields, name, old.get(name));
    }
    if munged != *old {
        check.forbidden("spec", CHANGEABLE);
    }
}

fn restore(fields: &mut Map<String, Value>, name: &str, old: Option<&Value>) {
    match old {
        Some(old) => drop(fields.insert(name.to_owned(), old.clone())),
        None => drop(fields.remove(name)),
    }
}

/// What is wrong with a write to `ephemeralcontainers` or `resize`.
pub(super) fn validate_subresource_update(check: &mut Check, part: Part, new: &Value, old: &Value) {
    match part {
        Part::Ephemeral => validate_ephemeral_containers_update(check, new, old),
        Part::Resize => {
            let class = &old["status"]["qosClass"];
            if class.is_string() && *class != quality_of_service(new) {
                let why = "Pod QOS Class may not change as a result of resizing";
                check.causes.push(metadata::invalid("spec", class, why));
            }
        }
        _ => {}
    }
}

fn validate_ephemeral_containers_update(check: &mut Check, new: &Value, old: &Value) {
    let list = |pod: &'_ Value| items(field(pod, "spec"), "ephemeralContainers").to_vec();
    let (before, after) = (list(old), list(new));
    let after = by_name(&after);
    for container in &before {
        let name = text(container, "name");
        let verb = match after.get(name).copied() {
            None => "removed",
            Some(after) if after != container => "changed",
            Some(_) => continue,
        };
        let why = format!("existing ephemeral containers {name:?} may not be {verb}\n");
        check.causes.push(metadata::forbidden("spec.ephemeralContainers", &why));
    }
}
